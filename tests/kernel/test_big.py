"""Test arrays with more than 2^31 values or rows, and a disk that fills up while a table is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import posenc_fast as pf
from support.command_line import command, finish

pytestmark = pytest.mark.slow

needs_kernel = pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")
WIDTH = 512
# rows with slightly more than 2^31 values
ROWS = 2**31 // WIDTH + 5000


def available():
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    except (AttributeError, ValueError, OSError):
        return 0


@pytest.fixture
def large():
    """Yield an array of 4.3 GB. The system allocates memory only for the pages that are written."""
    if available() < 7 * 2**30:
        pytest.skip("less than 7 GiB of memory are free")
    with pf.use_backend("cython"):
        yield np.empty((ROWS, WIDTH), np.float16)


@needs_kernel
def test_more_than_32_bits_count(large):
    """`table`, `encode` and `add_to` in place write more than 2^31 values. `table` also writes more than 2^31 rows."""
    encoding, narrow = pf.sinusoidal(WIDTH), pf.Encoding([1e-9])
    assert large.size > 2**31
    rows = large.reshape(-1, 1)
    narrow.table(len(rows), dtype=np.float16, out=rows, workers=2)
    for row in (0, 2**31 - 1, 2**31, len(rows) - 1):
        assert rows[row] == narrow.encode(row, dtype=np.float16)
    assert encoding.table(ROWS, dtype=np.float16, out=large, workers=2) is large
    for row in (0, 2**22 - 1, 2**22, 2**22 + 1, ROWS - 1):
        np.testing.assert_array_equal(large[row : row + 1], encoding.table(1, start=row, dtype=np.float16))
    tail = large[-50:].copy()
    assert encoding.add_to(large, x_scale=2.0, out=large, workers=2) is large
    np.testing.assert_array_equal(large[-50:], encoding.add_to(tail, x_scale=2.0, start=ROWS - 50))
    encoding.encode(np.broadcast_to(np.float32(ROWS - 1), ROWS), dtype=np.float16, out=large, workers=2)
    np.testing.assert_array_equal(large[[0, 2**22, ROWS - 1]], np.repeat(tail[-1:], 3, axis=0))


@needs_kernel
def test_rows_far_apart():
    """Write rows that are more than 2^32 bytes apart, in memory that is allocated only where it is written."""
    if available() < 2 * 2**30:
        pytest.skip("less than 2 GiB of memory are free")
    try:
        memory = np.zeros(3 * (2**32 + 64) // 4, np.float32)
    except MemoryError:
        pytest.skip("this address space is too small")
    out = np.lib.stride_tricks.as_strided(memory, (3, 16), (2**32 + 64, 4), writeable=True)
    encoding = pf.sinusoidal(16)
    encoding.table(3, start=5, out=out)
    np.testing.assert_array_equal(out, encoding.table(3, start=5))
    expected = encoding.add_to(out[::-1].copy())
    np.testing.assert_array_equal(encoding.add_to(out[::-1]), expected)
    encoding.add_to(out[::-1], out=out[::-1])
    np.testing.assert_array_equal(out[::-1], expected)


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="needs root on Linux to mount a disk",
)
@pytest.mark.parametrize("arguments", [["table", "40000", "64"], ["encode", "p.npy", "--d-model", "64"]], ids=" ".join)
def test_full_disk(arguments, tmp_path):
    """If a disk of 4 MB is full, the command ends with an error, and no partial file remains."""
    disk = tmp_path / "disk"
    disk.mkdir()
    np.save(tmp_path / "p.npy", np.arange(40000.0))
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "posenc_fast", str(disk)]
    mount = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if mount.returncode:
        pytest.skip(f"mounting a disk failed: {mount.stderr.strip()}")
    try:
        (disk / "before.npy").write_bytes(b"before")
        for target in ("new.npy", "before.npy"):
            status, output, error = finish(command(*arguments, "-o", str(disk / target), cwd=tmp_path))
            assert (status, output) == (2, b"")
            assert "No space left on device" in error
            assert len(error.splitlines()) == 1
            assert [(file.name, file.read_bytes()) for file in disk.iterdir()] == [("before.npy", b"before")]
        assert shutil.disk_usage(disk).used < 2**16
    finally:
        subprocess.run(["umount", str(disk)], check=True)
