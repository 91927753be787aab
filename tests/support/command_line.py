"""Run the command line in this process or in a new one."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.__main__ import main
from support.optional import optional

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals, file modes and limits")


def run(*arguments: str) -> int:
    return main(arguments)


def command(*arguments: str, code: Sequence[str] = ("-m", "posenc_fast"), **more: Any) -> subprocess.Popen[bytes]:
    """Start the command line, or other code, in a new process with warnings as errors. more: arguments of Popen."""
    path = os.pathsep.join([str(Path(pf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **more.pop("env", {})}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen([sys.executable, "-W", "error", *code, *arguments], env=environment, **pipes)


def finish(process: subprocess.Popen[bytes], given: bytes | None = None) -> tuple[int, bytes | None, str]:
    """Wait for a process, and return its exit status, its output and its errors. given: bytes for standard input."""
    out, err = process.communicate(given, timeout=60)
    return process.returncode, out, err.decode()


def files() -> dict[str, tuple[int, ...]]:
    """Return the files of the current folder, each with numbers that change when it is written or replaced."""
    stats = {path.name: path.lstat() for path in Path().iterdir()}
    return {name: (each.st_ino, each.st_size, each.st_mtime_ns) for name, each in stats.items()}


def error(capsys, *arguments):
    """Run a command that must fail, print only one line, and leave all files as they are. Return its error."""
    before = files()
    assert run(*arguments) == 2
    assert files() == before
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"posenc-fast: error: [^\n]+\n", err), err
    return err.removeprefix("posenc-fast: error: ")


def same(file: str, expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(np.load(file), expected, strict=True)


def parquet(columns: Mapping[str, Any], file: str = "p.parquet", **settings: Any) -> None:
    """Write a Parquet file, or skip the test without pyarrow."""
    table = optional("pyarrow").table(columns)
    optional("pyarrow.parquet").write_table(table, file, **settings)


def safetensors(file: str, arrays: Mapping[str, tuple[str, Sequence[int], bytes]]) -> None:
    """Write a safetensors file of arrays, each given by type, shape and bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, (kind, shape, data) in arrays.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
    text = json.dumps(header).encode()
    Path(file).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in arrays.values()))


def npy(shape: object, data: bytes = b"", descr: str = "<f8", version: int = 1) -> bytes:
    """Return the bytes of a .npy file. The header may be wrong: the arguments are written unchecked."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 if version == 1 else 4, "little") + header + data


def npz(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return the bytes of an .npz archive. members: {name: bytes}."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()
