"""The command presets."""

from __future__ import annotations

import argparse
import inspect
import itertools
import shutil
import sys
from textwrap import wrap
from typing import Any

from .arguments import add_command
from .output import complain, is_terminal, styled

ABOUT = """\
List the names of all presets, show the formula and arguments of one preset, or
find presets that mention all given words.
"""
EXAMPLES = """\
examples:
  posenc-fast presets
  posenc-fast presets whisper
  posenc-fast presets --search diffusion
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, _presets, "presets", "list the presets, show or search them", ABOUT, EXAMPLES)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the preset to show")
    parser.add_argument(
        "--search",
        nargs="+",
        metavar="WORD",
        help="list the presets whose names or descriptions mention all words",
    )


def _presets(arguments: argparse.Namespace) -> int:
    if arguments.name is not None and arguments.search is not None:
        raise ValueError("NAME shows one preset, and --search lists several; leave NAME or --search out")
    width = max(shutil.get_terminal_size().columns, 40)
    if arguments.name is not None:
        _show(arguments.name, width)
    elif arguments.search is not None:
        return _search(arguments.search, width)
    else:
        _list(width)
    return 0


def _list(width: int) -> None:
    from ..presets._registry import FACTS

    if not is_terminal(sys.stdout):
        # a program reads one name per line
        print("\n".join(sorted(FACTS)))
        return
    for rotary, title in ((False, "encodings"), (True, "rotary encodings")):
        names = sorted(name for name, facts in FACTS.items() if facts.rotary == rotary)
        print(styled(f"{len(names)} {title}:", "bold", sys.stdout))
        print("\n".join(_columns(names, width)), end="\n\n")
    print("posenc-fast presets NAME shows one; posenc-fast presets --search WORD finds some")


def _columns(names: list[str], width: int) -> list[str]:
    """Return lines that list names in columns, from top to bottom. There are as few lines as the width allows."""
    for lines in range(1, len(names) + 1):
        columns = [names[i : i + lines] for i in range(0, len(names), lines)]
        widths = [max(map(len, column)) for column in columns]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
    # if no arrangement fits, the last pass of the loop has put all names into one column
    rows = itertools.zip_longest(*columns, fillvalue="")
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _search(words: list[str], width: int) -> int:
    from ..presets._catalogue import search, summary
    from ..presets._registry import advice

    matches = search(*words)
    if not matches:
        next_step = (
            advice(" ".join(words))
            or "list presets with posenc-fast presets, or identify a table with posenc-fast identify"
        )
        complain(f"no preset mentions {' and '.join(map(repr, words))}; {next_step}")
        return 1
    name_width = max(map(len, matches)) + 2
    for name in matches:
        line = name.ljust(name_width) + summary(name)
        # cut lines only for a terminal, not for a program
        if len(line) > width and is_terminal(sys.stdout):
            line = line[: max(width - 2, len(name))].rstrip() + " …"
        print(_bold_title(line, name))
    return 0


def _show(name: str, width: int) -> None:
    from ..presets._catalogue import summary
    from ..presets._parameters import PARAMETERS
    from ..presets._registry import facts as facts_of

    try:
        facts = facts_of(name)
    except AttributeError as error:
        raise ValueError(str(error)) from None
    signature = inspect.signature(facts.build)
    # the call without annotations
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    call = f"{name}{signature.replace(parameters=parameters, return_annotation=signature.empty)}"
    print(_bold_title(call, name))
    print(f"{summary(name)}\n")
    rows = [
        ("frequency i", facts.frequency),
        ("pairs" if facts.rotary else "columns", facts.layout),
        ("axes", facts.axes),
        ("positions", facts.positions),
        ("widths", facts.odd),
    ]
    if facts.differs:
        rows.append(("differs", f"from {facts.original}: {facts.differs}"))
    rows.append(("source", facts.source))
    if facts.also:
        rows.append(("also", facts.also))
    _print_rows(rows, width)
    if parameters:
        print("\n" + styled("arguments:", "bold", sys.stdout))
        # join the lines of the texts in PARAMETERS, because `_print_rows` wraps the texts anew
        _print_rows([(each.name, " ".join(PARAMETERS[each.name].split())) for each in parameters], width)
    if not facts.rotary and facts.axes == "1":
        d_model = " D_MODEL" if facts.by_width else ""
        needed = parameters[1:] if facts.by_width else parameters
        settings = "".join(f" --set {each.name}=.." for each in needed if each.default is each.empty)
        print(f"\nposenc-fast table LENGTH{d_model} --preset {name}{settings} -o OUT")


def _print_rows(rows: list[tuple[str, str]], width: int) -> None:
    """Print rows (title, text) in two columns. Texts are wrapped, and printed without the backquotes of names."""
    indent = max(len(title) for title, _ in rows) + 2
    for title, text in rows:
        lines = wrap(
            text.replace("`", ""),
            width,
            initial_indent=title.ljust(indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
        print(_bold_title("\n".join(lines), title))


def _bold_title(text: str, title: str) -> str:
    """Return a text that begins with a title, with this title in bold."""
    return styled(title, "bold", sys.stdout) + text.removeprefix(title)
