"""Test the structure of the package: imports between folders, and uses of private attributes."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections import defaultdict
from pathlib import Path

import posenc_fast as pf

ROOT = Path(pf.__file__).parent
# Three groups of modules (rings), the innermost first. A folder or module imports only from those in tuples before its
# own.
# fmt: off
LEVELS = [
    # ring 1: encodings and rotations
    ("_version", "_kernel", "_start", "typing"), ("_core.numbers",), ("_core.positions",), ("_core.engine",),
    ("_core.encoding",), ("_core.rotary",), ("_core",), ("reference",), ("",),
    # ring 2: published models
    ("_models.config", "_models.gguf"), ("_models.exports",), ("presets",), ("_models.identify",), ("_models.check",),
    # ring 3: interfaces
    ("_models",), ("torch", "dask", "jax", "numba", "polars", "sklearn", "plot", "testing"), ("transformers",),
    ("_selfcheck",), ("_cli",), ("__main__",),
]
# fmt: on
# exceptions: methods of Rotary that read or write formats of other programs import modules of an outer ring
OUTWARDS = {"from_config": "config", "from_gguf": "gguf"} | dict.fromkeys(["onnx_cache", "config", "gguf"], "exports")
ROTARY = ROOT / "_core" / "rotary" / "value.py"
MODULES = sorted(ROOT.rglob("*.py"))
# private attributes of Encoding and Rotary that all folders may use
SHARED = {"_of", "_one_axis", "_plans", "_recipe", "_sinusoids", "_angles_of", "_arguments", "_engine", "_settings"}


@functools.cache
def nodes_of(file):
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def parts_of(file):
    """Return a file's module as a tuple such as ("_core", "rotary", "value"), or () for the package itself."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


KNOWN = {parts_of(file) for file in MODULES}


def folder_of(parts):
    """Return a module's folder, such as "_core.rotary", its own name, such as "jax", or "" for the package itself."""
    return ".".join(parts[: 2 if parts[0] in ("_core", "_models") else 1]) if parts else ""


def imported(file, nodes=None):
    """Yield the modules of the package that a file, or some of its nodes, imports, also only for type checkers."""
    package = parts_of(file) if file.stem == "__init__" else parts_of(file)[:-1]
    for node in nodes or nodes_of(file):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            base += tuple(node.module.split(".")) if node.module else ()
            for name in node.names:
                yield (*base, name.name) if (*base, name.name) in KNOWN else base


def test_imports_are_from_inner_rings():
    level = {folder: i for i, folders in enumerate(LEVELS) for folder in folders}
    for file in MODULES:
        here = folder_of(parts_of(file))
        outwards = {f"_models.{name}" for name in OUTWARDS.values()} if file == ROTARY else ()
        # posenc_fast/__init__.py may import everything, because it imports other modules on first use
        for there in map(folder_of, imported(file) if file != ROOT / "__init__.py" else ()):
            assert there == here or there in outwards or level[there] < level[here], f"{file} imports from {there}"


def test_imports_that_cross_rings():
    """The imports in OUTWARDS are inside the methods that need them, not at the top of the module."""
    crossing = {
        (node.name, there[1])
        for node in nodes_of(ROTARY)
        if isinstance(node, ast.FunctionDef)
        for there in imported(ROTARY, list(ast.walk(node)))
        if there[0] == "_models"
    }
    assert crossing == set(OUTWARDS.items())
    assert sum(there[:1] == ("_models",) for there in imported(ROTARY)) == len(OUTWARDS)


def test_imports_have_no_cycle():
    graph = {parts_of(file): set(imported(file)) - {()} for file in MODULES if parts_of(file)}
    graphlib.TopologicalSorter(graph).prepare()


def test_private_attributes_are_of_the_own_folder():
    """A private attribute of an object other than self has a name of the own folder, of SHARED, or of no folder."""
    defined, reads = defaultdict(set), []
    for file in MODULES:
        folder = folder_of(parts_of(file))
        for node in nodes_of(file):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined[folder].add(node.name)
            elif isinstance(node, ast.Constant):
                # names in __slots__ are texts
                defined[folder].add(node.value)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                defined[folder].add(node.attr if isinstance(node, ast.Attribute) else node.id)
            elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in ("self", "cls"):
                reads.append((folder, node.attr, f"{file}:{node.lineno}"))
    for folder, name, where in reads:
        if folder and re.match("_[^_]", name) and name not in defined[folder] | SHARED:
            others = [other for other in defined if other not in (folder, "") and name in defined[other]]
            assert not others, f"{where} reads {name} of {others}"
