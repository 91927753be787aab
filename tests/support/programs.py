"""Import single files of other projects' packages, also if the dependencies of these packages are not installed."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from support.optional import skipped_without


@functools.cache
def program(distribution: str, path: str, *unused: str) -> Any:
    """Import one file of an installed distribution, and return its module. path is relative to site-packages.

    The file is unchanged. The packages that contain it are not imported, so the imports of their other files may be
    missing. While the file is imported, the modules in `unused` are empty: the tested function does not call them.
    Skip if a package is not installed, as `optional` does.
    """
    with skipped_without(distribution):
        root = Path(str(importlib.metadata.distribution(distribution).locate_file("")))
        parts = path.removesuffix(".py").split("/")
        parents = [".".join(parts[:end]) for end in range(1, len(parts))]
        spec = importlib.util.spec_from_file_location(".".join(parts), root / path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{distribution} has no {path}", name=distribution)
        module = importlib.util.module_from_spec(spec)
        modules = {name: _Unused(name, root) for name in (*parents, *unused)}
        with _modules({**modules, spec.name: module}):
            spec.loader.exec_module(module)
        return module


@contextlib.contextmanager
def _modules(replaced: dict[str, ModuleType]) -> Iterator[None]:
    """Replace modules inside a block. Modules that the block imports from their packages are removed at its end."""
    tops = {name.partition(".")[0] for name in replaced}

    def below() -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in tops}

    before = below()
    sys.modules.update(replaced)
    try:
        yield
    finally:
        for name in below():
            del sys.modules[name]
        sys.modules.update(before)


class _Unused(ModuleType):
    """An empty module: each attribute is a mock. Other files of its folder can be imported, and are unchanged."""

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(name)
        folder = root.joinpath(*name.split("."))
        self.__path__ = [str(folder)] if folder.is_dir() else []

    def __getattr__(self, name: str) -> Any:
        # the import system looks for an attribute before it looks for a file
        if name.startswith("__") or importlib.machinery.PathFinder.find_spec(name, self.__path__):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")
