"""Test all frameworks: rows equal to the core's bit for bit, types of positions, and the names in errors.

The file of each framework tests only what is special to the framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.processes import python
from support.tensors import array

SETTINGS = {"base": 100.0, "freq_shift": 1.0, "first": 0.5, "layout": "concatenated"}
ENCODING = pf.sinusoidal(6, **SETTINGS)
POSITIONS = {
    "int64": np.array([2**62 + 1, 2**62 + 2, -(2**60) - 3, 0, -(2**63)]),
    "uint64": np.array([2**64 - 1, 2**64 - 2, 0, 1, 2], np.uint64),
    "int8": np.array([-128, 127, 0, 1, 2], np.int8),
    "float16": np.array([0.5, -6e4, 3, 0, 1], np.float16),
    "float32": np.array([0.5, -1e6, 3, 0, 1], np.float32),
    "float64": np.array([0.1, -1e12, 5.5, 0, 1]),
    "nan": np.array([0.1, np.nan, 5.5, np.nan, 1]),
    "times": np.array(["2026-01-01T06:00:00.123456", "1950-05-05", "1970-01-01", "2026-01-02", "2262-01-01"], "M8[us]"),
    "durations": np.array([1, -5, 10**15 + 1, 0, 3], "m8[ms]"),
    "empty": np.empty(0),
}


def loaded(name: str) -> Any:
    return optional(f"posenc_fast.{name}")


def encode_by_numba(positions, dtype):
    rows, numba = np.empty((len(positions), 6), dtype), loaded("numba")
    numba.encode(numba.address_of(ENCODING), positions, rows)
    return rows


def encode_by_polars(positions, dtype):
    pl, _ = optional("polars"), loaded("polars")
    kind = getattr(pl, dtype.capitalize(), None) or pytest.skip("this polars has no float16")
    rows = pl.DataFrame({"t": positions}).select(pl.col("t").posenc.encode(6, **SETTINGS, dtype=dtype))["t"]
    assert rows.dtype == pl.Array(kind, 6)
    return rows.to_numpy().reshape(-1, 6)


# keys: frameworks. Values: (function of positions and a dtype, words for cases that the test leaves out, mostly because
# the function raises an error). A word is a kind of positions, or "to-" and the dtype of the result.
FRAMEWORKS = {
    "torch": (
        lambda p, dtype: array(
            loaded("torch").encode(ENCODING, optional("torch").from_numpy(p), dtype=getattr(optional("torch"), dtype))
        ),
        "times durations",
    ),
    "jax": (lambda p, dtype: np.asarray(loaded("jax").encode(ENCODING, p, dtype=dtype)), "to-float64"),
    "dask": (
        lambda p, dtype: (
            loaded("dask").encode(ENCODING, optional("dask.array").from_array(p, chunks=2), dtype=dtype).compute()
        ),
        "",
    ),
    "numba": (encode_by_numba, "uint64 int8 float16 float32 nan times durations to-float16 to-bfloat16"),
    "polars": (encode_by_polars, "float16 to-bfloat16"),
    "sklearn": (
        lambda p, dtype: (
            loaded("sklearn").PositionalEncoder(6, **SETTINGS, dtype=dtype).fit_transform(p[:, np.newaxis])
        ),
        "times empty",
    ),
}
CASES = [
    pytest.param(encode, rejected, dtype, id=f"{name}-{dtype}")
    for name, (encode, rejected) in FRAMEWORKS.items()
    for dtype in ("float64", "float32", "float16", "bfloat16")
    if f"to-{dtype}" not in rejected
]


@pytest.mark.parametrize(("encode", "rejected", "dtype"), CASES)
def test_rows_are_those_of_the_core(encode, rejected, dtype):
    if dtype == "bfloat16":
        optional("ml_dtypes")
    for kind, positions in POSITIONS.items():
        if kind not in rejected.split():
            got, expected = encode(positions, dtype), ENCODING.encode(positions, dtype=dtype)
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), kind
            np.testing.assert_array_equal(got.astype(float), expected.astype(float), err_msg=kind)


# keys: frameworks. Values: what errors call the positions. numba has errors of its own.
WORDS = {"torch": "positions", "jax": "positions", "dask": "positions", "polars": "column 't'", "sklearn": "X"}


@pytest.mark.parametrize("name", WORDS)
def test_errors_name_the_argument(name):
    encode, _ = FRAMEWORKS[name]
    with pytest.raises(TypeError, match=r"dtype must be one of .*, not .*int32"):
        encode(np.arange(3.0), "int32")
    # some versions of polars raise this TypeError, other versions raise a ComputeError with its message
    with pytest.raises(Exception, match=f"{WORDS[name]} must be integers, real numbers or times, not .* of bool"):
        encode(np.array([True]), "float32")


MISSING = [
    ("torch", "torch", "the package torch; run pip install torch"),
    ("transformers", "torch", "the package torch; run pip install torch"),
    ("jax", "jax", "jax; run pip install jax"),
    ("numba", "numba", "numba; run pip install numba"),
    ("numba", "posenc_fast._kernel", "the compiled kernel, which is unavailable"),
    ("dask", "dask", "Dask; run pip install 'dask[array]'"),
    ("polars", "polars", "polars; run pip install polars"),
    ("sklearn", "sklearn", "scikit-learn; run pip install scikit-learn"),
    ("plot", "matplotlib", "matplotlib; run pip install matplotlib"),
]


@pytest.mark.parametrize(("module", "package", "words"), MISSING)
def test_a_missing_package_is_named(module, package, words):
    if package == "posenc_fast._kernel":
        optional(module)
    run = python(f"import sys; sys.modules[{package!r}] = None; import posenc_fast.{module}")
    assert run.returncode == 1
    assert f"ImportError: posenc_fast.{module} needs {words}" in run.stderr
