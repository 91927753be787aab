"""Import single files from packages of other projects, even if the packages' dependencies are not installed."""

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

    The file itself is unchanged. Its parent packages are not imported, because their other files may import packages
    that are missing. During the import, the modules in `unused` are replaced by mocks, because the tested function does
    not call them. If the distribution is not installed, skip or fail as `optional` does.
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
    """Replace modules inside a block. At its end, restore all modules of the same top-level packages."""
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
    """A module whose attributes are mocks. Real files of its folder can still be imported."""

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(name)
        folder = root.joinpath(*name.split("."))
        self.__path__ = [str(folder)] if folder.is_dir() else []

    def __getattr__(self, name: str) -> Any:
        # the import system looks for an attribute before it looks for a file, and a mock would hide the file
        if name.startswith("__") or importlib.machinery.PathFinder.find_spec(name, self.__path__):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")
