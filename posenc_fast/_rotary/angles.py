"""Rows of cosines and sines: of a Rotary's angles at positions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._encoding.rows import encode
from .._encoding.value import Encoding
from .._numbers.arguments import check_precision, check_workers, count_of, progression
from .._numbers.arrays import Array, Floats, check_out
from .._numbers.formats import wanted_type
from .._numbers.rounding import rounded
from .._positions.conversion import convert, counted
from .._positions.positions import Given
from ..typing import Function, Precision
from . import scaling as _rope
from .settings import Settings

__all__ = ["Angles", "angle_rows", "tables"]


_FLOAT64 = np.dtype(np.float64)


class Angles(Protocol):
    """What is asked of a Rotary here. _parameters: those of its scaling."""

    @property
    def _settings(self) -> Settings: ...
    @property
    def _parameters(self) -> dict[str, Any]: ...
    @property
    def ndim(self) -> int: ...
    def _angles_of(self, *functions: Function, inverse: bool = False) -> Encoding: ...


def tables(
    rotary: Angles, positions_or_length: Any, start: Any, dtype: Any, precision: Any, out: Any, workers: Any
) -> tuple[Array, Array]:
    """`Rotary.tables`."""
    given = positions_or_length
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        given = count_of(given, "length", 0)
        progression(start, 1, given)
        shape: tuple[int, ...] = (given,)
    else:
        if start != 0:
            raise ValueError(f"start={start!r} is for a length; positions are given as they are")
        given = convert(given, rotary.ndim)
        shape = given.shape
    pair: Any = (None, None) if out is None else out
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"out must be a pair of arrays for cosines and sines, not {type(out).__name__}")
    result_type = wanted_type(dtype, pair[0])
    single, threads = check_precision(precision), check_workers(workers)
    outs: tuple[Any, Any] = (None, None)
    if out is not None:
        pairs = rotary._settings.rotary_dim // 2
        outs = check_out(pair[0], (*shape, pairs), result_type), check_out(pair[1], (*shape, pairs), result_type)
        if np.may_share_memory(*outs):
            raise ValueError("out has two arrays that share memory; give cosines and sines memory of their own")
        if isinstance(given, Given):
            # cosines may be written where positions are
            given.keep_from(outs[0])
    functions: tuple[Function, Function] = ("cos", "sin")
    results = [
        _rows(rotary, rotary._angles_of(name), given, start, result_type, into, single, threads)
        for name, into in zip(functions, outs, strict=True)
    ]
    return (results[0], results[1]) if out is None else (out[0], out[1])


def angle_rows(
    rotary: Angles, given: int | Given, start: Any, single: bool, inverse: bool, dtype: np.dtype[Any]
) -> Array:
    """Cosines and sines side by side, of a number of positions or of given ones."""
    encoding = rotary._angles_of("cos", "-sin" if inverse else "sin", inverse=inverse)
    if inverse and rotary._settings.rope_type == "xpos":
        if not isinstance(given, Given):
            given = counted(start, given, encoding.ndim)
        return rounded(_xpos_rows(rotary, encoding, given, single, inverse=True), dtype)
    return _rows(rotary, encoding, given, start, dtype, single=single)


def _rows(
    rotary: Angles,
    encoding: Encoding,
    given: int | Given,
    start: Any,
    result_type: np.dtype[Any],
    out: Any = None,
    single: bool = False,
    threads: int = 1,
) -> Array:
    """Rows of an encoding of the angles at a number of positions, or at given ones; xPos's amplitudes included."""
    if not isinstance(given, Given):
        if encoding.ndim == 1 and rotary._settings.rope_type != "xpos":
            precision: Precision = "float32" if single else "exact"
            return encoding.table(given, start=start, dtype=result_type, out=out, precision=precision, workers=threads)
        given = counted(start, given, encoding.ndim)
    if rotary._settings.rope_type == "xpos":
        rows = _xpos_rows(rotary, encoding, given, single, threads)
        if out is None:
            return rounded(rows, result_type)
        out[...] = rounded(rows, result_type)
        return out  # type: ignore[no-any-return]
    return encode(encoding._plans, given, result_type, out, single=single, threads=threads)


def _xpos_rows(
    rotary: Angles, encoding: Encoding, given: Given, single: bool = False, threads: int = 1, inverse: bool = False
) -> Floats:
    rows = encode(encoding._plans, given, _FLOAT64, single=single, threads=threads)
    pairs = rotary._settings.rotary_dim // 2
    amplitudes = _rope.xpos_amplitudes(given.rounded(), pairs, rotary._parameters)
    tiled = np.tile(amplitudes, encoding.d_model // pairs)
    return rows / tiled if inverse else rows * tiled
