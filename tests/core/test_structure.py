"""The plan of the package: folders with one job each, imports that go down only, and nobody in another folder's private parts."""

from __future__ import annotations

import ast
import functools
import pickle
import pickletools
from pathlib import Path

import pytest

import posenc_fast as pf

ROOT = Path(pf.__file__).parent
# Three rings, from the inside: a folder or module imports from those before it, and so never from a ring outside.
# fmt: off
RINGS = {
    # what is computed, and how
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
    # what is known of other people's models
    "models": [("_models.config", "_models.gguf"), ("_models.exports",), ("presets",), ("_models.identify",), ("_models.check",)],
    # programs that meet users
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
# Rotary reads and writes the formats of other programs; each import is inside the method of that name
OUTWARDS = {
    ("_core", "rotary", "value"): {"from_config": "config", "from_gguf": "gguf"}
    | dict.fromkeys(["onnx_cache", "config", "gguf"], "exports")
}
MODULES = sorted(ROOT.rglob("*.py"))
# of Encoding and Rotary, private to the package and not to a folder: what they are made of, and what computes them
SHARED = {"_of", "_one_axis", "_plans", "_recipe", "_sinusoids", "_angles_of", "_arguments", "_engine", "_settings"}


@functools.cache
def tree_of(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def parts_of(file):
    """The module's name below the package, as a tuple: () for the package itself."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def folder_of(parts):
    """The folder or module at the top of the package, or in `_core` or `_models`."""
    return ".".join(parts[: 2 if parts[0] in ("_core", "_models") else 1]) if parts else ""


def imported(file, tree=None):
    """Modules of the package that a module, or a part of its tree, imports, for type checkers alone too."""
    package = parts_of(file) if file.stem == "__init__" else parts_of(file)[:-1]
    for node in ast.walk(tree or tree_of(file)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            base += tuple(node.module.split(".")) if node.module else ()
            for name in node.names:
                whole = (*base, name.name)
                yield (
                    whole
                    if ROOT.joinpath(*whole).with_suffix(".py").exists() or ROOT.joinpath(*whole).is_dir()
                    else base
                )


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_go_down(file):
    level = {folder: i for i, folders in enumerate(LEVELS) for folder in folders}
    here = folder_of(parts_of(file))
    outwards = {f"_models.{name}" for name in OUTWARDS.get(parts_of(file), {}).values()}
    for there in map(folder_of, imported(file)):
        # what the package offers lazily it may name
        lazily = file == ROOT / "__init__.py"
        assert there == here or lazily or there in outwards or level[there] < level[here], (
            f"{file.name} imports from {there or 'the package'}"
        )


def test_imports_that_cross_rings():
    """They are inside the methods that need them, and no others are."""
    for parts, methods in OUTWARDS.items():
        file = ROOT.joinpath(*parts).with_suffix(".py")
        crossing = {
            (node.name, there[1])
            for node in ast.walk(tree_of(file))
            if isinstance(node, ast.FunctionDef)
            for there in imported(file, node)
            if there[0] == "_models"
        }
        assert crossing == set(methods.items())
        assert sum(there[:1] == ("_models",) for there in imported(file)) == len(methods)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_private_modules_list_no_names(file):
    """An `__all__` there would repeat which names have no underscore. Presets are imported with a star."""
    parts = file.relative_to(ROOT).parts
    private = any(part.startswith("_") and not part.startswith("__") for part in parts)
    if private and parts[0] != "presets" and file.stem != "annotations":
        stores = (node for node in ast.walk(tree_of(file)) if isinstance(node, ast.Name))
        assert "__all__" not in {node.id for node in stores}


def test_no_circle_of_imports():
    graph = {parts_of(file): set(imported(file)) - {()} for file in MODULES if parts_of(file)}
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join(map(".".join, [*path[path.index(module) :], module]))
        if module in done or module not in graph:
            return
        path.append(module)
        for other in graph[module]:
            visit(other)
        done.add(path.pop())

    for module in graph:
        visit(module)


@functools.cache
def private_names(folder, read):
    """Underscored attributes of other objects that a folder's modules read, or those that its modules define."""
    return tuple(_private_names(folder, read))


def _private_names(folder, read):
    for file in MODULES:
        if folder_of(parts_of(file)) != folder:
            continue
        for node in ast.walk(tree_of(file)):
            if read and isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if not own and node.attr.startswith("_") and not node.attr.startswith("__"):
                    yield file.name, node.lineno, node.attr
            elif not read and isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif not read and isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                yield name
                if name == "__slots__":
                    yield from slots_of(file, node)


def slots_of(file, target):
    """The names in the assignment of ``__slots__`` that begins where target stands."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Assign) and node.lineno == target.lineno:
            yield from (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))


@pytest.mark.parametrize("folder", sorted({folder_of(parts_of(file)) for file in MODULES} - {""}))
def test_private_attributes_stay_in_their_folder(folder):
    own = set(private_names(folder, False))
    others = set()
    for other in {folder_of(parts_of(file)) for file in MODULES} - {folder, ""}:
        others |= {name for name in private_names(other, False) if isinstance(name, str)}
    for file, line, name in private_names(folder, True):
        assert name in own | SHARED or name not in others, (
            f"{file}:{line} reads {name}, which belongs to another folder"
        )


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
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_name_public_things(value, protocol):
    text = pickle.dumps(value, protocol)
    again = pickle.loads(text)
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    # numpy's and copyreg's own stay out of it
    words = {
        word for _, argument, _ in pickletools.genops(text) if isinstance(argument, str) for word in argument.split()
    }
    named = {word for word in words if word.startswith("posenc_fast")}
    assert named <= {"posenc_fast"}, named
