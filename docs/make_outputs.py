"""Run the code blocks of pages, and write their outputs below them: ``python docs/make_outputs.py [PAGE]..``.

The Python blocks of a page run as one program, and its shell blocks as another one, in the same folder. The packages
that a page imports must be installed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

HERE = Path(__file__).parent
# matches a code block, and the text block below it, which is its output
BLOCK = re.compile(r"^(```(python|sh)\n(.*?)^```\n)(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
# pages that this program skips: their blocks are files, which commands on the page build and run
OWN_WAY = {"howto-c"}
END = "-- end of a block --"
WIDTH = 88


def python_program(page: str) -> str:
    """Return the Python blocks of a page as one program, which prints END after each block.

    Blocks with ``__main__`` are left out.
    """
    blocks = (code for _, language, code, _ in BLOCK.findall(page) if language == "python")
    return "\n".join(f"{'' if '__main__' in code else code}\nprint({END!r})" for code in blocks)


def shell_program(page: str) -> str:
    """Return the shell blocks as one script. If a block has several commands, print each before it runs."""
    lines = ["set -e"]
    for _, language, code, _ in BLOCK.findall(page):
        if language == "sh":
            # skip blocks that install packages
            commands = [] if "pip install" in code else code.splitlines()
            for command in commands:
                if len(commands) > 1:
                    shown = "$ " + re.sub(r"  #.*", "", command)
                    lines.append("printf '%s\\n' '" + shown.replace("'", r"'\''") + "'")
                lines.append(command)
            lines.append(f"echo '{END}'")
    return "\n".join(lines) + "\n"


def run_shell(program: str, folder: Path) -> str:
    """Run a shell program in a folder, with this checkout's posenc-fast, and return its output.

    Raise an error if a command fails.
    """
    command = folder / "bin" / "posenc-fast"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m posenc_fast "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = os.environ | {
        "PYTHONPATH": str(HERE.parent),
        # the command "python" must be the Python that runs this program
        "PATH": os.pathsep.join([str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "MPLBACKEND": "Agg",
        "COLUMNS": str(WIDTH),
    }
    done = subprocess.run(
        ["sh", "-c", program],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def outputs(printed: str) -> Iterable[str]:
    """Yield the output of each block, without trailing spaces, and with very long lines wrapped."""
    for part in printed.split(f"{END}\n")[:-1]:
        lines = [line.rstrip() for line in part.splitlines()]
        if any(line.startswith("$ ") for line in lines) and all(line.startswith("$ ") for line in lines):
            lines = []
        wide = (line if len(line) <= WIDTH + 12 else fill(line, WIDTH, subsequent_indent="  ") for line in lines)
        yield "".join(f"{line}\n" for line in wide)


def with_outputs(page: str, python: Iterable[str], shell: Iterable[str]) -> str:
    """Return a page with these outputs below its Python and shell blocks."""
    languages = {"python": iter(python), "sh": iter(shell)}

    def beneath(block: re.Match[str]) -> str:
        output = next(languages[block[2]])
        return block[1] + (f"\n```text\n{output}```\n" if output else "")

    return BLOCK.sub(beneath, page)


def made_anew(page: str) -> str:
    """Run the blocks of a page, and return the page with their outputs."""
    from threadpoolctl import threadpool_limits

    printed = io.StringIO()
    os.environ["MPLBACKEND"] = "Agg"
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        program = Path(name, "page.py")
        program.write_text(python_program(page), encoding="utf-8")
        with contextlib.redirect_stdout(printed), threadpool_limits(1):
            runpy.run_path(str(program))
        shell = run_shell(shell_program(page), Path(name))
    return with_outputs(page, outputs(printed.getvalue()), outputs(shell))


def main() -> None:
    pages = {path.stem: path for path in [*HERE.glob("*.md"), HERE.parent / "README.md"]}
    shown = {name for name, path in pages.items() if BLOCK.search(path.read_text("utf-8"))}
    names = sys.argv[1:] or sorted(shown - OWN_WAY)
    for name in names:
        path = pages[name]
        path.write_text(made_anew(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
