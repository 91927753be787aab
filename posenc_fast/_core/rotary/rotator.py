"""Rotate queries and keys by the angles of their positions, or by given tables of cosines and sines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..encoding.value import Encoding
from ..engine import backend
from ..engine import threads as _threads
from ..engine.blocks import WORTH_A_THREAD, Target
from ..numbers.arguments import check_precision, check_workers, count_of, progression
from ..numbers.arrays import Array, base_array, check_out, empty, overlap
from ..numbers.formats import FLOAT32, FLOAT64, KINDS, TYPES, float_type, format_of, kind_of
from ..positions.conversion import convert
from ..positions.foreign import as_array
from .angles import Angles
from .pairs import LAYOUTS, Settings, source_and_target

# Maximum number of cosines and sines that are computed in one piece, and cached on the first request. More of them are
# computed in blocks, and cached only if two successive requests are the same.
ANGLES = 1 << 15
# maximum number of cosines and sines in an entry of the cache; an entry takes at most 4 MiB, and there are at most 4
MOST_CACHED = 1 << 19
# number of cosines and sines in a block of tokens; they are still in the CPU cache when they are used
# (measured by python bench/targets.py --only rotary-multiply)
AT_ONCE = 1 << 17
# minimum number of bytes of x for a second thread (measured by python bench/targets.py --only workers-rotary)
WORTH_THREADS = 1 << 24
# number of rows to compute and cache if fewer are requested; wide rows are fewer, so that they fit into ANGLES
AHEAD = 32
# dtypes of cosines and sines; the index is the kind of x (see `kind_of`). Cosines and sines are float64 if x is float64
# or float32, and float32 if x has 16-bit values.
_TYPES = (FLOAT64.stored, FLOAT64.stored, FLOAT32.stored, FLOAT32.stored)
# type of a function that returns the rows of cosines and sines for a slice of the tokens
_RowsOf = Callable[[slice], Array]


def angles_type(kind: int) -> np.dtype[Any]:
    """Return the dtype of the cosines and sines that the engines need for an x of this kind (see `kind_of`)."""
    return _TYPES[kind]


def with_plain_nans(rows: Array) -> Array:
    """Replace NaNs in float32 rows by NumPy's NaN, in place, and return the rows.

    NaNs from the caller may have other bits, which the kernel could round to a number when it rounds to bfloat16.
    """
    if rows.dtype == FLOAT32.stored:
        np.copyto(rows, np.nan, where=np.isnan(rows))
    return rows


def _side_by_side(cos: Array, sin: Array, kind: int) -> Array:
    """Return rows of all cosines and then all sines, in the dtype that the engines need for an x of this kind."""
    pairs = cos.shape[-1]
    rows = np.empty((*cos.shape[:-1], 2 * pairs), angles_type(kind))
    # cosines and sines above the range of float32 become infinite
    with np.errstate(over="ignore"):
        rows[..., :pairs] = cos
        rows[..., pairs:] = sin
    return with_plain_nans(rows)


class Rotator:
    """Rotates arrays by the angles of a Rotary, and caches cosines and sines of consecutive positions."""

    __slots__ = ("_angles", "_cache", "_encoding", "_for_results", "_last_request", "_layout", "_settings")

    def __init__(self, settings: Settings, angles: Angles) -> None:
        self._settings, self._angles = settings, angles
        self._layout = LAYOUTS.index(settings.layout)
        self._cache: dict[Any, tuple[int, Array]] = {}
        self._last_request: Any = None
        self._for_results: Rotator | None = None
        self._encoding: Encoding | None = None

    # ---- rows of cosines and sines ----------------------------------------------------------------------------------

    def rows(self, count: int, start: Any, single: bool, inverse: bool, dtype: np.dtype[Any]) -> Array:
        """Return rows of cosines and then sines for `count` positions from start, from the cache if possible."""
        cached = self._cached_rows(count, start, single, inverse, dtype)
        return self._angles.rows(count, start, single, inverse, dtype) if cached is None else cached

    def _cached_rows(self, count: int, start: Any, single: bool, inverse: bool, dtype: np.dtype[Any]) -> Array | None:
        """Return rows from the cache, after computing missing rows. Return None if `_fits_cache` is false.

        Every layer of a model needs the same rows, and the next token needs the next row. So a few rows are computed
        ahead.
        """
        width = self._settings.rotary_dim
        if not self._fits_cache(count, start):
            return None
        key = self._key(single, inverse, dtype)
        rows = self._find(key, count, start)
        if rows is None:
            ahead = empty((max(count, min(AHEAD, ANGLES // width)), width), dtype, at_line=True)
            self._store(key, start, self._angles.rows(len(ahead), start, single, inverse, dtype, ahead))
            rows = ahead[:count]
        return rows

    def _fits_cache(self, count: int, start: Any) -> bool:
        return type(start) is int and abs(start) < 2**62 and count * self._settings.rotary_dim <= MOST_CACHED

    def _key(self, single: bool, inverse: bool, dtype: np.dtype[Any]) -> Any:
        engine = backend.current()
        return single, inverse, engine.backend, engine.level, dtype

    def _find(self, key: Any, count: int, start: int) -> Array | None:
        cached = self._cache.get(key)
        if cached is None or not cached[0] <= start <= start + count <= cached[0] + len(cached[1]):
            return None
        first, rows = cached
        return rows[start - first : start - first + count]

    def _store(self, key: Any, start: int, rows: Array) -> None:
        if len(self._cache) >= len(_TYPES):
            self._cache.clear()
        # one assignment stores the whole entry, so that other threads never see a part of it
        self._cache[key] = start, rows

    def _consecutive(self, length: int, start: Any, single: bool, inverse: bool, dtype: np.dtype[Any]) -> _RowsOf:
        """Return a function that computes the rows for a slice of the tokens, or takes them from the cache.

        Many rows are cached only if the previous request was the same, so that no memory is allocated for positions
        that are used once.
        """
        width = self._settings.rotary_dim
        to_cache = None
        if self._fits_cache(length, start):
            key = self._key(single, inverse, dtype)
            rows = self._find(key, length, start)
            if rows is None and length * width <= ANGLES:
                rows = self.rows(length, start, single, inverse, dtype)
            if rows is not None:
                return rows.__getitem__
            request = key, start, length
            if self._last_request == request:
                to_cache = empty((length, width), dtype, at_line=True)
            self._last_request = request
        # Numbers of tokens in the parts computed so far. Threads compute parts in any order. The call that computes the
        # last missing part stores all rows.
        computed: list[int] = []

        def compute(part: slice) -> Array:
            count, out = part.stop - part.start, None if to_cache is None else to_cache[part]
            rows = self._angles.rows(count, start + part.start, single, inverse, dtype, out)
            computed.append(count)
            if to_cache is not None and sum(computed) == length:
                self._store(key, start, to_cache)
            return rows

        return compute

    # ---- a few tokens -----------------------------------------------------------------------------------------------
    #
    # During generation, a model rotates a few tokens in each layer. Checks in Python take longer than rotating one
    # token, so the compiled calls check the arrays. They return None for arrays that need `by_positions` or
    # `by_tables`.

    def calls(self) -> Any:
        """Return the compiled calls for cosines and sines. Return None for xPos, and if `Plans.calls` returns None."""
        encoding = self._encoding
        if encoding is None:
            if self._settings.amplitudes_vary:
                return None
            encoding = self._encoding = self._angles.of("cos", "sin")
        return encoding._plans.calls()

    def few_by_positions(self, x: Any, start: Any, seq_axis: Any, out: Any) -> Array | None:
        """Return x rotated by compiled calls, if they support the arguments: a plain array of few tokens.

        Otherwise return None, and write nothing.
        """
        calls = self.calls()
        if calls is None:
            return None
        rotated = calls.rotate(x, start, seq_axis, out, self._settings.head_dim, self._layout)
        if rotated is not None or type(x) is not np.ndarray:
            return rotated  # type: ignore[no-any-return]
        # calls.rotate returns None for too many tokens, for example. Their rows are cached here, because the next layer
        # needs them again.
        shape, kind = x.shape, kind_of(x.dtype)
        if len(shape) != 4 or shape[3] != self._settings.head_dim or x.size >= WORTH_A_THREAD or kind is None:
            return None
        count = shape[seq_axis] if type(seq_axis) is int and -3 <= seq_axis <= 2 else 0
        rows = self._cached_rows(count, start, False, False, angles_type(kind)) if count else None
        return None if rows is None else self._by_rows(x, rows[np.newaxis], seq_axis, out)

    def few_by_tables(self, x: Any, cos: Any, sin: Any, seq_axis: Any, out: Any) -> Array | None:
        """Return x rotated by plain tables of few tokens, or None for other arguments.

        The tables have shape (length, pairs) or (batch, length, pairs).
        """
        if type(x) is not np.ndarray or type(cos) is not np.ndarray or type(sin) is not np.ndarray:
            return None
        kind, shape = kind_of(x.dtype), cos.shape
        if kind is None or kind_of(cos.dtype) is None or kind_of(sin.dtype) is None or shape != sin.shape:
            return None
        if len(shape) not in (2, 3) or 2 * shape[-1] != self._settings.rotary_dim or not 0 < 2 * cos.size <= ANGLES:
            return None
        rows = _side_by_side(cos, sin, kind)
        return self._by_rows(x, rows if rows.ndim == 3 else rows[np.newaxis], seq_axis, out)

    def _by_rows(self, x: Array, rows: Array, seq_axis: Any, out: Any) -> Array | None:
        engine = backend.current()
        if engine.backend != "cython":
            return None
        head_dim, rotate_rows = self._settings.head_dim, engine.module.rotate_rows
        return rotate_rows(engine.level, rows, x, seq_axis, out, KINDS, empty, head_dim, self._layout)  # type: ignore[no-any-return]

    # ---- any array --------------------------------------------------------------------------------------------------

    def by_positions(
        self,
        x: Any,
        positions: Any,
        start: Any,
        seq_axis: Any,
        inverse: Any,
        precision: Any,
        out: Any,
        workers: Any,
    ) -> Array:
        """Check the arguments of `Rotary.apply` and return its result."""
        single, threads = check_precision(precision), check_workers(workers)
        if not isinstance(inverse, (bool, np.bool_)):
            raise TypeError(f"inverse must be True or False, not {inverse!r}")
        inverse = bool(inverse)
        x, kind, axis = self._checked(x, seq_axis, "rotate")
        length, dtype = x.shape[axis], angles_type(kind)
        if positions is None:
            if isinstance(start, (list, tuple, np.ndarray)):
                raise TypeError(
                    f"start must be one number, not {start!r}; if sequences have different starts, pass "
                    f"positions=numpy.add.outer(start, range({length}))"
                )
            if length:
                progression(start, 1, length)
            rows_of = self._consecutive(length, start, single, inverse, dtype)
            return self._rotated(x, axis, 0, rows_of, out, threads, inverse)
        if start != 0:
            raise ValueError(f"pass positions or start={start!r}, not both")
        converted = convert(positions, self._angles.ndim)
        groups, others = len(converted.shape) - 1, x.shape[:axis] + x.shape[axis + 1 : -1]
        if groups < 0 or converted.shape != (*others[:groups], length):
            by_sequence = f", or {(*others[:1], length)} if each sequence has its own positions" if others else ""
            raise ValueError(
                f"positions has shape {converted.shape}, but must have shape {(length,)}{by_sequence}. For a Rotary of "
                "several axes, these shapes leave out the last axis of positions"
            )
        if isinstance(out, np.ndarray):
            converted.keep_from(out)

        def rows_at(part: slice) -> Array:
            return with_plain_nans(
                self._angles.rows(converted.select((slice(None),) * groups + (part,)), 0, single, inverse, dtype)
            )

        return self._rotated(x, axis, groups, rows_at, out, threads, inverse)

    def by_offset(self, keys: Any, offset: Any, seq_axis: Any, out: Any, workers: Any) -> Array:
        """Check the arguments of `Rotary.shift` and return its result."""
        threads = check_workers(workers)
        x, kind, axis = self._checked(keys, seq_axis, "", "keys")
        rotator = self._for_rotated()
        axes = rotator._angles.ndim
        if axes > 1 and np.ndim(offset) == 0:
            offset = [offset] * axes
        offsets = convert(offset, axes, "offset")
        length, others = x.shape[axis], x.shape[:axis] + x.shape[axis + 1 : -1]
        groups = max(len(offsets.shape) - 1, 0)
        # whether each token has its own offset; otherwise all tokens, or all tokens of a sequence, share one
        per_token = bool(offsets.shape) and offsets.shape != (*others[:groups], 1)
        if per_token and offsets.shape != (*others[:groups], length):
            by_sequence = (
                f", {(others[0], length)} (one for each token of each sequence) or {(others[0], 1)} (one for each sequence)"
                if others
                else ""
            )
            raise ValueError(
                f"offset has shape {offsets.shape}, but must be one number, or have shape {(length,)} (one offset for "
                f"each token){by_sequence}. For a Rotary of several axes, these shapes leave out the last axis of "
                "offset"
            )
        if isinstance(out, np.ndarray):
            offsets.keep_from(out)
        result = empty(x.shape, x.dtype) if out is None else check_out(out, x.shape, x.dtype)
        target = result
        if not per_token:
            # pass all tokens to the engine as heads of one token, so that cosines and sines are computed once
            x, target = (np.moveaxis(array, axis, -2)[..., np.newaxis, :] for array in (x, target))
            axis = x.ndim - 2

        def at_offsets(part: slice) -> Array:
            selected = offsets.select((slice(None),) * groups + (part,)) if offsets.shape else offsets
            rows = rotator._angles.rows(selected, 0, False, False, angles_type(kind))
            return with_plain_nans(rows if offsets.shape else rows[np.newaxis])

        rotator._rotated(x, axis, groups, at_offsets, target, threads, name="keys")
        return result if out is None else out

    def _for_rotated(self) -> Rotator:
        """Return a Rotator that rotates values that this Rotator has already rotated.

        It has attention factor 1, and reads pairs in the layout of this Rotator's results. Raise ValueError for xPos:
        its amplitudes depend on the positions at which the values were rotated, and these are unknown.
        """
        settings, angles = self._settings, self._angles
        if settings.amplitudes_vary:
            raise ValueError(
                "with rope_type='xpos', the norms of rotated keys depend on their positions, so shift cannot move the "
                "keys. Undo the rotation with apply(keys, inverse=True, positions=..), and rotate the result with "
                "apply"
            )
        _, layout = source_and_target(settings.layout)
        if angles.factor == 1 and layout == settings.layout:
            return self
        if self._for_results is None:
            settings = settings._replace(layout=layout)
            self._for_results = Rotator(settings, angles.with_factor(1.0, settings))
        return self._for_results

    def by_tables(self, x: Any, cos: Any, sin: Any, seq_axis: Any, out: Any, workers: Any) -> Array:
        """Check the arguments of `Rotary.apply_tables` and return its result."""
        threads = check_workers(workers)
        x, kind, axis = self._checked(x, seq_axis, "apply_rotary_pos_emb")
        tables = {"cos": as_array(cos, "cos", keep_type=True), "sin": as_array(sin, "sin", keep_type=True)}
        for name, table in tables.items():
            if kind_of(table.dtype) is None:
                raise TypeError(f"{name} must have one of the dtypes {', '.join(TYPES)}, not {table.dtype}")
        groups, others = tables["cos"].ndim - 2, x.shape[:axis] + x.shape[axis + 1 : -1]
        expected = (*others[: max(groups, 0)], x.shape[axis], self._settings.rotary_dim // 2)
        for name, table in tables.items():
            if groups < 0 or table.shape != expected:
                raise ValueError(
                    f"{name} has shape {table.shape}, but cos and sin must have the same shape: {expected[-2:]}, or "
                    f"the first axes of x without seq_axis, and then {expected[-2:]}; x has shape {x.shape}"
                )
            if isinstance(out, np.ndarray) and np.may_share_memory(table, out):
                # the table needs a copy, because writing to `out` would overwrite table rows that are still needed
                tables[name] = table.copy()

        def of_tables(part: slice) -> Array:
            return _side_by_side(tables["cos"][..., part, :], tables["sin"][..., part, :], kind)

        return self._rotated(x, axis, groups, of_tables, out, threads)

    def _checked(self, x: Any, seq_axis: Any, twin: str, name: str = "x") -> tuple[Array, int, int]:
        """Return (x as a plain array, kind of the dtype of x, non-negative index of the token axis).

        name is the name of the argument in errors. twin is as in `base_array`.
        """
        x = base_array(x, name, twin)
        form = format_of(x.dtype) or format_of(float_type(x.dtype, name))
        assert form is not None
        dims = x.ndim
        if dims < 2 or x.shape[-1] != self._settings.head_dim:
            raise ValueError(
                f"{name} has shape {x.shape}, but must have shape (.., length, {self._settings.head_dim}), where "
                f"{self._settings.head_dim} is the head_dim"
            )
        axis = seq_axis if type(seq_axis) is int else count_of(seq_axis, "seq_axis", -dims)
        if not -dims <= axis < dims - 1 or axis == -1:
            raise ValueError(
                f"seq_axis={axis} must be an axis of {name} other than the last; {name} has shape {x.shape}"
            )
        return x, form.kind, axis % dims

    def _rotated(
        self,
        x: Array,
        axis: int,
        groups: int,
        rows_of: _RowsOf,
        out: Array | None,
        threads: int,
        inverse: bool = False,
        name: str = "x",
    ) -> Array:
        """Return x rotated by the rows that `rows_of` returns.

        Rows differ along the first `groups` axes of x and along the token axis. name is the name of x in errors.
        """
        result = empty(x.shape, x.dtype) if out is None else check_out(out, x.shape, x.dtype, "rotate")
        shared = out is not None and np.may_share_memory(x, result)
        if shared and (result.strides != x.strides or result.ctypes.data != x.ctypes.data):
            # the ranges of addresses overlap
            if overlap(x, result):
                raise ValueError(
                    f"out and {name} overlap without being the same array; pass out={name}, or an out that shares no "
                    f"memory with {name}"
                )
            shared = False
        if x.size:
            # the engines need aligned values, contiguous along the last axis
            source = x if x.flags.aligned and x.strides[-1] == x.itemsize else np.array(x, order="C")
            target = result if result.flags.aligned else np.empty(x.shape, x.dtype)
            back = source_and_target(self._settings.layout, inverse) == ("half", "interleaved")
            stores = 0 if shared or back else Target(target, warm=out is not None).stores()
            source, arranged = _arranged(source, axis, groups), _arranged(target, axis, groups)
            self._fill(source, arranged, groups, rows_of, threads, stores, back)
            if target is not result:
                result[...] = target
        return result if out is None else out

    def _fill(self, x: Array, out: Array, groups: int, rows_of: _RowsOf, threads: int, stores: int, back: bool) -> None:
        """Rotate x, and write the result to `out`, block by block. x and `out` are results of `_arranged`.

        If back is true, the values of a pair are rotary_dim/2 apart in x and adjacent in `out`.
        """
        form, engine, pairs = format_of(x.dtype), backend.current(), self._settings.rotary_dim // 2
        assert form is not None
        source, target, layout = x.view(form.stored), out.view(form.stored), 0 if back else self._layout
        # the engines accept one axis along which rows of angles differ, and then two axes of batches
        outer_groups = x.shape[: groups - 1] if groups > 1 else ()
        outer_batches = x.shape[max(groups, 1) : -4]

        def rotate_part(part: slice) -> None:
            rows = rows_of(part)
            for group in itertools.product(*map(range, outer_groups)):
                angles = np.ascontiguousarray(rows[group]).reshape(-1, rows.shape[-2], 2 * pairs)
                for batch in itertools.product(*map(range, outer_batches)):
                    index: Any = (*group, slice(None), *batch, slice(None), slice(None), part)
                    engine.module.rotate(engine.level, angles, source[index], target[index], form.kind, layout, stores)

        length = x.shape[-2]
        threads = _threads.useful(threads, x.nbytes, WORTH_THREADS)
        block = max(1, min(AT_ONCE // (2 * pairs * math.prod(x.shape[:groups])), -(-length // threads)))
        if block >= length:
            rotate_part(slice(0, length))
        else:
            parts = (slice(i, min(i + block, length)) for i in range(0, length, block))
            _threads.run(rotate_part, parts, threads)
        if back:
            halves = out[..., : 2 * pairs].copy()
            out[..., 0 : 2 * pairs : 2], out[..., 1 : 2 * pairs : 2] = halves[..., :pairs], halves[..., pairs:]


def _arranged(array: Array, axis: int, groups: int) -> Array:
    """Return a view of shape (groups.., batches.., length, head_dim). axis is the axis of the tokens in `array`.

    Rows of angles differ along the axes of groups, and are the same along the axes of batches. The view has at least
    one axis of groups and two axes of batches. New axes have length 1.
    """
    if axis == array.ndim - 3:
        array = array.swapaxes(-3, -2)
    elif axis != array.ndim - 2:
        array = np.moveaxis(array, axis, -2)
    if groups == 0:
        array, groups = array[np.newaxis], 1
    missing = 4 - (array.ndim - groups)
    return array[(slice(None),) * groups + (np.newaxis,) * missing] if missing > 0 else array
