"""Print a map of the code, with first sentences of folders and files: ``python docs/make_map.py``.

For modules in folders of the package, the map has only their names. With a folder, as in
``python docs/make_map.py posenc_fast/_core/encoding``, the program prints the modules and folders in it with their
first sentences, imported ones first.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "posenc_fast"
# files outside of the package that the map lists
FILES = ("src/*.pyx", "src/*.p?[id]", "src/*.h", "src/*.py", "tests/core/*.py", "tests/bits.py", "tests/loops.c")
FILES += ("tests/support/[!_]*.py", ".ci/*", ".ci/emulated/*", "docs/*.py")
# matches a docstring, a comment of C, or lines of comments, except #! and directives of Cython
OPENING = re.compile(r'(?:#!.*\n|# cython: .*\n)*(?:"""((?s:.*?))"""|/\* ?((?s:.*?))\*/|((?:#.*\n)+))')


def summary(path: Path) -> str:
    """Return the first sentence of a file's docstring or opening comment, without the command after a colon."""
    match = OPENING.match(path.read_text("utf-8"))
    if not match:
        return ""
    paragraph = re.sub(r"^(?:#| \*) ?", "", next(filter(None, match.groups())), flags=re.MULTILINE).split("\n\n")[0]
    sentence = re.split(r"\.\s|: `", " ".join(paragraph.split()) + " ")[0]
    return sentence.strip(" .").replace("``", "`").replace("|", "\\|")


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the relative imports of a file, each as a tuple of names: (folders.., module, name)."""
    folder = path.parent.relative_to(PACKAGE).parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else ()))
            yield from ((*base, alias.name) for alias in node.names)


def upwards(folder: Path) -> list[Path]:
    """Return the modules and folders in a folder of the package, ordered so that imported ones come first."""
    depth = len(folder.relative_to(PACKAGE).parts)
    places = {path.stem: path for path in folder.glob("*.py") if summary(path) and path.stem[:2] != "__"}
    places |= {path.parent.name: path.parent for path in folder.glob("*/__init__.py")}
    graph = TopologicalSorter[str](dict.fromkeys(places, ()))
    for name, place in places.items():
        for path in place.rglob("*.py") if place.is_dir() else [place]:
            for target in imported(path):
                inside = target[:depth] == folder.relative_to(PACKAGE).parts and target[depth] in places.keys() - {name}
                # leave out imports that would make a cycle: presets import parts of _models, and methods of Rotary
                # import _models
                if inside and (name, target[depth]) not in {("presets", "_models"), ("_core", "_models")}:
                    graph.add(name, target[depth])
    graph.prepare()
    order: list[Path] = []
    while graph.is_active():
        ready = graph.get_ready()
        order += [places[name] for name in sorted(ready)]
        graph.done(*ready)
    return order


def rows_of(folder: Path) -> Iterator[str]:
    """Yield the row of a folder, with the names of its modules, then the rows of the folders in it."""
    inside = upwards(folder)
    names = ", ".join(f"`{path.stem}`" for path in inside if path.is_file())
    yield f"| `{folder.relative_to(ROOT).as_posix()}/` | {summary(folder / '__init__.py')} | {names} |"
    for path in inside:
        if path.is_dir():
            yield from rows_of(path)


def the_map() -> str:
    lines = [
        "| file or folder of the package, importers first | content | modules, imported ones first |",
        "|---|---|---|",
    ]
    for place in reversed(upwards(PACKAGE)):
        if place.is_dir():
            lines += rows_of(place)
        else:
            lines.append(f"| `{place.relative_to(ROOT).as_posix()}` | {summary(place)} | |")
    lines += ["", "| other files | content |", "|---|---|"]
    for pattern in FILES:
        paths = (path for path in sorted(ROOT.glob(pattern)) if path.is_file())
        lines += [f"| `{path.relative_to(ROOT).as_posix()}` | {summary(path)} |" for path in paths]
    return "\n".join(lines)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments:
        for path in upwards(Path(arguments[0]).resolve()):
            about = summary(path / "__init__.py" if path.is_dir() else path)
            print(f"{path.name:20} {about}")
    else:
        print(the_map())


if __name__ == "__main__":
    main()
