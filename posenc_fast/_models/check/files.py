"""List the tensors of a model's files, and read the values of single tensors on request.

The list is made from the headers of the files. Pickles are an exception: torch loads them with ``weights_only=True``.
An index is a JSON file that maps names of tensors to names of files, which must be in the folder of the index.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..._core.numbers.arguments import unique
from ..._core.numbers.arrays import Array
from ..gguf import open_gguf
from .arrays import as_bfloat16, header_of, named, open_archive, read_array

# A tensor is read if it has at most MOST_BYTES bytes, and a JSON file if it has at most _MOST_JSON bytes.
MOST_BYTES, _MOST_JSON = 1 << 30, 1 << 26
# suffixes of files with pickled weights
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_ARRAYS = (".safetensors", ".npz", ".npy", ".gguf")
# file names of pickled weights in a folder
_WEIGHTS = re.compile(r"(pytorch_model|model|diffusion_pytorch_model|consolidated|adapter_model).*\.(bin|pt|pth|ckpt)")
_INDEX = ".index.json"


class Tensor(NamedTuple):
    """A tensor of a file.

    size: number of bytes, or 0 for a tensor that the user passed. read: function that returns the values as an array or
    a torch tensor. unread: name of the values' type if posenc_fast cannot read this type, else "". file: name of the
    file.
    """

    name: str
    shape: tuple[int, ...]
    size: int
    read: Callable[[], Any]
    unread: str = ""
    file: str = ""

    @classmethod
    def in_memory(cls, name: str, values: Any, size: int = 0) -> Tensor:
        return cls(name, tuple(values.shape), size, lambda: values)


class Gap(NamedTuple):
    """Tensors that an index lists, but that are missing from their files.

    file: name of the index file. missing: texts such as "'wpe.weight' in model.safetensors".
    """

    file: str
    missing: tuple[str, ...]


@contextlib.contextmanager
def open_files(path: str) -> Iterator[Iterator[Tensor | Gap]]:
    """Yield an iterator over the tensors in a folder or file.

    The iterator ends with a `Gap` for each index with missing tensors. Values can be read only inside of the ``with``
    block.
    """
    with contextlib.ExitStack() as stack:
        yield _tensors_and_gaps(path, stack)


def _tensors_and_gaps(path: str, stack: contextlib.ExitStack) -> Iterator[Tensor | Gap]:
    files, indexes = _files(path)
    present = set()
    for path_of_file in files:
        for tensor in _tensors(str(path_of_file), stack):
            present.add((tensor.name, path_of_file.name))
            yield tensor._replace(file=path_of_file.name)
    for index, file_of_tensor in indexes.items():
        missing = tuple(f"{name!r} in {file}" for name, file in file_of_tensor.items() if (name, file) not in present)
        if missing:
            yield Gap(index, missing)


def config_in(path: str) -> Path | None:
    """Return the path of config.json or params.json in a folder, or in the folder of a file. None if neither exists."""
    folder = Path(path) if os.path.isdir(path) else Path(path).parent
    return next((file for name in ("config.json", "params.json") if os.path.lexists(file := folder / name)), None)


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object that a JSON file contains, as a dictionary."""
    if not Path(path).is_file():
        raise ValueError(f"{path} is not a regular file" if os.path.exists(path) else f"{path} does not exist")
    with named(str(path)), open(path, "rb") as file:
        text = file.read(_MOST_JSON + 1)
    if len(text) > _MOST_JSON:
        raise ValueError(f"{path} has more than {_MOST_JSON} bytes, too many for a config or an index")
    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise TypeError(f"{path} must contain a JSON object, not a {type(value).__name__}")
    return value


# ---- files of a path ------------------------------------------------------------------------------------------------


def _files(source: str) -> tuple[list[Path], dict[str, dict[str, str]]]:
    """Return (files with tensors, indexes) at a path.

    indexes: dict from the name of each index to a dict from the names of tensors to the names of files. Pickles in a
    folder are left out if the folder contains safetensors or GGUF.
    """
    if not source:
        raise ValueError("the path is empty; pass the path of a folder or a file")
    path = Path(source)
    if path.is_dir():
        with named(source):
            inside = sorted(file for file in path.iterdir() if file.is_file())
        files = [file for file in inside if file.suffix.lower() in _ARRAYS]
        index_endings: tuple[str, ...] = (".safetensors" + _INDEX,)
        if not any(file.suffix.lower() in (".safetensors", ".gguf") for file in files):
            files += [file for file in inside if _WEIGHTS.fullmatch(file.name)]
            index_endings += (".bin" + _INDEX,)
        # `_indexed` raises an error if a file of an index is missing
        return files, {index.name: _indexed(index) for index in inside if index.name.endswith(index_endings)}
    if not path.exists():
        raise FileNotFoundError(2, "the file or folder does not exist", str(path))
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file")
    if path.name.endswith(_INDEX):
        file_of_tensor = _indexed(path)
        return [path.parent / file for file in sorted(set(file_of_tensor.values()))], {path.name: file_of_tensor}
    if path.suffix.lower() == ".json":
        return [], {}
    if path.suffix.lower() not in (*_ARRAYS, *PICKLES):
        raise ValueError(
            f"{path} must be a folder, a config.json, or a file that ends with one of {', '.join((*_ARRAYS, *PICKLES))}"
        )
    return [path], {}


def _indexed(index: Path) -> dict[str, str]:
    """Return a dict from the name of each tensor in an index to the name of its file.

    Raise an error if the index is invalid, or if it names a file that is missing, in another folder or of another type.
    """
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise ValueError(f"{index} has no weight_map that maps names of tensors to names of files")
    for name in sorted(set(weight_map.values())):
        if name != os.path.basename(name) or name in ("", ".", "..") or "\\" in name or "\0" in name:
            raise ValueError(f"{index} names the file {name!r}, which must be in the folder of the index")
        if not name.lower().endswith((*_ARRAYS, *PICKLES)):
            raise ValueError(
                f"{index} names the file {name!r}, which must end with one of {', '.join((*_ARRAYS, *PICKLES))}"
            )
        if not (index.parent / name).is_file():
            raise ValueError(f"{index} names the file {name!r}, which does not exist")
    return weight_map


# ---- tensors of a file ----------------------------------------------------------------------------------------------


def _tensors(path: str, stack: contextlib.ExitStack) -> Iterator[Tensor]:
    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        shape, dtype = header_of(path)
        yield Tensor(Path(path).stem, shape, math.prod(shape) * dtype.itemsize, lambda: as_bfloat16(read_array(path)))
    elif suffix == ".gguf":
        yield from _gguf(path)
    elif suffix in PICKLES:
        yield from _pickle(path)
    else:
        archive = stack.enter_context(open_archive(path))
        for name in archive.names:
            header = archive.header(name)
            yield Tensor(name, header.shape, header.size, partial(archive.read, name), header.unread)


def _gguf(path: str) -> Iterator[Tensor]:
    for tensor in open_gguf(path).tensors:
        # GGUF lists the sides of a shape in reverse order
        kind, shape = tensor.tensor_type.name, tuple(int(n) for n in reversed(tensor.shape))
        unread = "" if kind in ("F64", "F32", "F16", "BF16") else kind
        yield Tensor(str(tensor.name), shape, int(tensor.n_bytes), partial(_gguf_values, tensor, shape), unread)


def _gguf_values(tensor: Any, shape: tuple[int, ...]) -> Array:
    values: Array = tensor.data
    # gguf returns bfloat16 as bytes
    return as_bfloat16(values.view("V2").reshape(shape)) if tensor.tensor_type.name == "BF16" else values


def _pickle(path: str) -> Iterator[Tensor]:
    try:
        import torch
    except ImportError:
        raise ImportError(f"{path} is a pickle, and needs torch to be read; run pip install torch") from None
    try:
        # torch warns about files that are not weights, before it raises an error
        with warnings.catch_warnings(action="ignore"):
            try:
                state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:
                # torch cannot map files of versions before 1.6 into memory
                state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch may raise any error for a damaged file
        if isinstance(error, pickle.UnpicklingError) or "weights_only" in str(error):
            # do not show torch's advice to load the file without weights_only
            raise ValueError(
                f"{path} cannot be read as torch weights: the file is damaged, or contains objects other than tensors. "
                "Loading such objects could execute code from the file; save the state dictionary as safetensors"
            ) from None
        first = str(error).strip().partition("\n")[0]
        raise ValueError(f"{path} cannot be read as torch weights: {type(error).__name__}: {first}") from None
    for name, tensor in _flat(state, torch.Tensor):
        # compute the size, because sparse tensors do not have nbytes
        size = tensor.numel() * tensor.element_size()
        yield Tensor.in_memory(name, tensor, size)


def _flat(state: Any, kind: type, prefix: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor) for the tensors in nested dictionaries.

    The name consists of the keys that lead to the tensor, joined by dots. A state that is itself a tensor has the name
    "tensor". kind: type of tensors. depth: largest number of nested dictionaries.
    """
    if isinstance(state, kind):
        yield prefix or "tensor", state
    elif isinstance(state, dict) and depth:
        for name, value in state.items():
            if isinstance(name, str):
                yield from _flat(value, kind, f"{prefix}.{name}" if prefix else name, depth - 1)
