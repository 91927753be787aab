"""Test the structure of the package: imports between folders, uses of private attributes, and names in pickles."""

from __future__ import annotations

import ast
import functools
import graphlib
import pickle
import pickletools
import re
from collections import defaultdict
from pathlib import Path

import pytest

import posenc_fast as pf

ROOT = Path(pf.__file__).parent
# Three groups of modules (rings), the innermost first. A folder or module imports only from those above it in this
# table.
# fmt: off
RINGS = {
    # ring 1: encodings and rotations
    "core": [
        ("_version", "_kernel", "_start", "typing"),
        ("_core.numbers",),
        ("_core.positions",),
        ("_core.engine",),
        ("_core.encoding",),
        ("_core.rotary",),
        ("_core",),
        ("reference",),
        ("",),
    ],
    # ring 2: published models
    "models": [("_models.config", "_models.gguf"), ("_models.exports",), ("presets",), ("_models.identify",), ("_models.check",)],
    # ring 3: interfaces
    "programs": [
        ("_models",),
        ("torch", "dask", "jax", "numba", "polars", "sklearn", "plot", "testing"),
        ("transformers",),
        ("_selfcheck",),
        ("_cli",),
        ("__main__",),
    ],
}
# fmt: on
LEVELS = [folders for levels in RINGS.values() for folders in levels]
# exceptions: methods of Rotary that read or write formats of other programs import modules of an outer ring
OUTWARDS = {
    ("_core", "rotary", "value"): {"from_config": "config", "from_gguf": "gguf"}
    | dict.fromkeys(["onnx_cache", "config", "gguf"], "exports")
}
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
    """Return the name of a module's folder, such as "_core.rotary" or "plot".

    For a module in none of these folders, return its own name, such as "jax". For the package itself, return "".

    parts: name of the module, from `parts_of`.
    """
    return ".".join(parts[: 2 if parts[0] in ("_core", "_models") else 1]) if parts else ""


def imported(file, nodes=None):
    """Yield the modules of the package that a file imports, including imports only for type checkers.

    nodes: part of the file to search (default: the whole file).
    """
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
        outwards = {f"_models.{name}" for name in OUTWARDS.get(parts_of(file), {}).values()}
        # posenc_fast/__init__.py may import everything, because it imports other modules on first use
        for there in map(folder_of, imported(file) if file != ROOT / "__init__.py" else ()):
            assert there == here or there in outwards or level[there] < level[here], f"{file} imports from {there}"


def test_imports_that_cross_rings():
    """The imports in OUTWARDS are inside the methods that need them, not at the top of the module."""
    for parts, methods in OUTWARDS.items():
        file = ROOT.joinpath(*parts).with_suffix(".py")
        crossing = {
            (node.name, there[1])
            for node in nodes_of(file)
            if isinstance(node, ast.FunctionDef)
            for there in imported(file, list(ast.walk(node)))
            if there[0] == "_models"
        }
        assert crossing == set(methods.items())
        assert sum(there[:1] == ("_models",) for there in imported(file)) == len(methods)


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


@pytest.mark.parametrize(
    "value",
    [
        pf.sinusoidal(8),
        pf.fourier_features([[1.0, 2.0]]),
        pf.Encoding([1.0], [0.3]),
        pf.geometric(4, base=7.0),
        pf.linear(3, 1.0, 2.0),
        pf.periodic(["1D", "7s"]),
        pf.Rotary(8, scaling={"rope_type": "linear", "factor": 2.0}),
        pf.Rotary(8, frequencies=pf.geometric(4)),
    ],
    ids=repr,
)
def test_pickles_contain_public_names_only(value):
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        text = pickle.dumps(value, protocol)
        again = pickle.loads(text)
        assert again == value
        assert type(again) is type(value)
        assert repr(again) == repr(value)
        texts = [argument for _, argument, _ in pickletools.genops(text) if isinstance(argument, str)]
        modules = {word for argument in texts for word in argument.split() if word.startswith("posenc_fast")}
        assert modules <= {"posenc_fast"}, (modules, protocol)
