"""Arrays of files by name: .npy, .npz and safetensors."""

from __future__ import annotations

import contextlib
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numbers.formats import float_type

__all__ = ["Archive", "as_bfloat16", "open_archive", "read_array", "read_vector"]

Array = npt.NDArray[Any]

# what NumPy, zipfile and the parser of headers raise for files that are broken
_BROKEN = (AttributeError, EOFError, TypeError, ValueError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)


def read_vector(path: str) -> Array:
    """The one-dimensional array of a .npy file, read from the disk as it is used."""
    array = read_array(path)
    if array.ndim != 1:
        raise ValueError(f"{path} has shape {array.shape}, but must have one dimension")
    return array


def read_array(path: str) -> Array:
    """The array of a .npy file, read from the disk as it is used."""
    with _reading(path, "a .npy file of numbers"):
        array: Array = np.lib.format.open_memmap(path, mode="r")
        return array


class Archive(NamedTuple):
    """Names of arrays, and what reads one of them."""

    names: tuple[str, ...]
    read: Callable[[str], Array]


@contextlib.contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """The arrays of an .npz file or of a .safetensors file."""
    with (_safetensors if path.lower().endswith(".safetensors") else _npz)(path) as archive:
        yield archive


@contextlib.contextmanager
def _npz(path: str) -> Iterator[Archive]:
    with contextlib.ExitStack() as stack:
        with _reading(path, "an .npz file of numbers"):
            file = np.load(path, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise TypeError("it is a .npy file")
            stack.enter_context(file)

        def read(name: str) -> Array:
            with _reading(path, "an .npz file of numbers"):
                return as_bfloat16(file[name])

        yield Archive(tuple(file.files), read)


@contextlib.contextmanager
def _safetensors(path: str) -> Iterator[Archive]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError(f"{path} needs safetensors: pip install 'posenc-fast[safetensors]'") from None
    # which alone gives errors of files their names
    with open(path, "rb"):
        pass
    with contextlib.ExitStack() as stack:
        with _reading(path, "a safetensors file", SafetensorError):
            file = stack.enter_context(safe_open(path, framework="numpy"))

        def read(name: str) -> Array:
            # types that NumPy has not are attributes that it has not
            with _reading(path, f"numbers of NumPy, in {name!r}", SafetensorError):
                array: Array = file.get_tensor(name)
                return array

        yield Archive(tuple(file.keys()), read)


@contextlib.contextmanager
def _reading(path: str, what: str, more: type[Exception] = ValueError) -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, more) as error:
        raise ValueError(f"{path} cannot be read as {what}: {error}") from None


def as_bfloat16(array: Array) -> Array:
    """Raw bytes of two, in which NumPy stores bfloat16, as such."""
    return array.view(float_type("bfloat16")) if array.dtype == np.dtype("V2") else array
