"""Check a function: call it at positions that expose faults, and judge the results."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from ... import presets
from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.rotary.value import Rotary
from ...presets._registry import facts
from .config import expected_of
from .files import config_in, read_json
from .report import Finding, Report
from .results import (
    Expected,
    Rotation,
    Unusable,
    axes_of,
    expected_of_width,
    judge_code_rows,
    judge_code_tables,
    judge_rotation,
    numbers_in,
    rows_in,
    shape_of,
    tables_in,
)
from .rotary_tables import orders_of

Call = Literal["positions", "length"]
# kind (`Finding.is_`) of the finding for a function that could not be called
FUNCTION = "a function"
# Positions at which code is called: 64 consecutive positions, which `identify` needs, and positions around powers of 2
# and around usual table lengths.
POSITIONS = tuple(range(64)) + tuple(
    position
    for first, end in ((127, 129), (255, 260), (511, 514), (999, 1002), (2047, 2052), (4095, 4097))
    for position in range(first, end)
)
# more integer positions, and real positions
_FAR = (5000, 8191, 32767, 32768, 65535, 65536, 100_000, 1_000_000)
_REAL = (0.125, 0.25, 0.5, 1.5, 2.75, 63.5, 1000.25)
# positions of the first calls, which find out how a function can be called
_FEW = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 60)
# _SEED is the seed of random numbers. _RANDOM is the number of random positions.
_SEED, _RANDOM = 20250101, 24
# largest position of a call that measures whether the time grows with the position
_NEAR = 5000.0
# _LENGTHS are the lengths of tables to request. _SECONDS is the time limit for all calls, in seconds.
_LENGTHS, _SECONDS = (64, 300, 2100, 5001, 65_538, 100_001), 0.8
# A requested table has at most _MOST_VALUES values. All rows within the first _ALL_VALUES values are judged, and some
# of the later rows.
_MOST_VALUES, _ALL_VALUES = 1 << 23, 1 << 20
# head widths to try if the width is unknown
HEADS = (64, 128, 32, 16, 8, 80, 96, 256)


def first_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def positions_up_to(longest: float | None, axes: int = 1, most: float = 1e6) -> Floats:
    """Return the positions (n, axes) up to ``most`` at which the code is called. longest: length in the config."""
    rng = np.random.default_rng(_SEED)
    some = {*POSITIONS, *_FAR, *rng.integers(0, 100_000, _RANDOM).tolist()}
    some |= {int(longest) - 1} if longest and longest >= 1 else set()
    column = np.array(sorted(one for one in some if one <= most), np.float64)
    if axes == 1:
        return column[:, np.newaxis]
    return np.stack([column, *(rng.permutation(column) for _ in range(axes - 1))], axis=1)


def unit_pairs(count: int, dim: int, seed: int = 0) -> Floats:
    """Return random vectors (count, dim) whose values have sizes from 1/2 to 1, so that no pair is near zero."""
    rng = np.random.default_rng([_SEED, seed])
    # every dtype can represent these 7-bit values exactly
    result: Floats = rng.choice([-1.0, 1.0], (count, dim)) * rng.integers(64, 128, (count, dim)) / 128
    return result


# ---- the expected encoding ------------------------------------------------------------------------------------------


def as_expected(expected: Any, config: Any) -> tuple[Expected, float | None]:
    """Return (expected encoding, longest position in the config). Both are None if they are unknown."""
    if expected is not None and config is not None:
        raise TypeError("pass expected or config, not both")
    if expected is None and config is None:
        return None, None
    name, value = ("config", config) if expected is None else ("expected", expected)
    if isinstance(value, (Encoding, Rotary)):
        return value, None
    if isinstance(value, str) and not os.path.exists(value) and not value.endswith(".json"):
        # if the name is unknown, `get` raises an error that suggests similar names
        presets.get(value)
        return value, None
    if not isinstance(value, (str, os.PathLike, Mapping)) and not callable(getattr(value, "to_dict", None)):
        raise TypeError(
            f"{name} must be an Encoding, a Rotary, the name of a preset or a config, not {type(value).__name__}"
        )
    if isinstance(value, (str, os.PathLike)):
        value = read_json((config_in(os.fspath(value)) if os.path.isdir(value) else None) or value)  # type: ignore[arg-type]
    try:
        rotary = Rotary.from_config(value)
    except ValueError as error:
        raise ValueError(
            f"{name} does not determine one rotary encoding: {error}. You can also pass a Rotary as expected"
        ) from None
    if rotary is None:
        raise ValueError(
            f"{name} describes a model without a rotary encoding; pass an Encoding or a Rotary as expected"
        )
    return rotary, expected_of(value).length


# ---- calls ----------------------------------------------------------------------------------------------------------


class _Way(NamedTuple):
    """A form of call that works.

    words: description of the call. run: function of positions (n, axes) that makes the call. counts: whether the
    argument of the call is a length instead of positions.
    """

    words: str
    run: Callable[[Floats], Any]
    counts: bool = False


def _packages() -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield (name, function that converts an array) for each imported package whose arrays the code may take.

    Code that takes arrays of a package has imported this package, so other packages are not tried.
    """
    yield "NumPy", lambda array: array
    torch = sys.modules.get("torch")
    if torch is not None:
        yield "torch", torch.from_numpy
    jax = sys.modules.get("jax.numpy")
    if jax is not None:
        yield "jax", jax.asarray


def _as_integers(positions: Floats) -> Array:
    # astype returns a copy, which the user's code may change
    return positions.astype(np.int64 if (positions == np.floor(positions)).all() else np.float64)


def _forms(positions: Floats) -> Iterator[tuple[str, Any]]:
    """Yield (description, positions) for each form of positions that the code may accept."""
    whole = positions[:, 0] if positions.shape[1] == 1 else positions
    for package, make in _packages():
        yield f"positions of {package}", make(_as_integers(whole))
        yield f"real positions of {package}", make(whole.astype(np.float32 if package != "NumPy" else np.float64))
    yield "a list of positions", _as_integers(whole).tolist()
    for package, make in _packages():
        yield f"positions of {package} in a column", make(_as_integers(positions))
        yield f"positions of {package} in a batch", make(_as_integers(whole)[np.newaxis])


def call_quietly(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call the user's code, and hide its warnings. Turn any error into `Unusable`, with the first line of the error."""
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return function(*arguments, **options)
    except Unusable:
        raise
    # the code may raise any error
    except Exception as error:  # noqa: BLE001
        raise Unusable(f"the call raised {first_line(error)}") from None


class _Rows(NamedTuple):
    """Results at positions. Either rows, or tables (cosines, sines) are present; the other field is None."""

    rows: Array | None
    tables: tuple[Array, Array | None] | None

    @property
    def arrays(self) -> list[Array]:
        return [one for one in (self.rows, *(self.tables or ())) if one is not None]

    @property
    def width(self) -> int:
        """Number of columns of the rows, or number of values that the tables rotate."""
        if self.rows is not None:
            return int(self.rows.shape[1])
        assert self.tables is not None
        return 2 * next(iter(orders_of(*self.tables))).pairs


class _Function:
    """A function of positions or of a length.

    way: first form of call that works, or None. errors: reasons why other forms failed. odd: finding for a result of a
    wrong shape. width: columns of the expected Encoding, or 0.
    """

    def __init__(self, function: Any, name: str, wanted: Expected, call: Call | None) -> None:
        self.function, self.name, self.axes = function, name, axes_of(wanted)
        self.rotary = isinstance(wanted, Rotary) or (isinstance(wanted, str) and facts(wanted).rotary)
        self.width = wanted.d_model if isinstance(wanted, Encoding) else 0
        self.errors: list[str] = []
        self.odd: Finding | None = None
        self.way = self._way_of(call)

    def results(self, value: Any, count: int) -> _Rows:
        """Return the value that a call at ``count`` positions returned, as rows or tables."""
        if not self.rotary:
            rows = rows_in(value, count, self.name)
            if rows is not None:
                return _Rows(rows, None)
        if self.rotary or isinstance(value, tuple) or "complex" in str(getattr(value, "dtype", "")):
            tables = tables_in(value, count, self.name)
            if tables is not None:
                return _Rows(None, tables)
        if getattr(value, "shape", None) == (self.width, count):
            reason = f"the rows and columns of shape {tuple(value.shape)} are exchanged"
            self.odd = Finding(self.name, "computed rows", "wrong", "shape", reason)
        raise Unusable(f"the call returned {shape_of(value)} for {count} positions")

    def at(self, positions: Floats) -> _Rows:
        """Return the results of the function at positions (n, axes)."""
        assert self.way is not None
        return self.results(self.way.run(positions), len(positions))

    def repeats(self) -> bool:
        """Return whether a second call at the same positions returns the same values."""
        with contextlib.suppress(Unusable):
            first, second = (self.at(_few(self.axes)).arrays for _ in range(2))
            return all(np.array_equal(*both, equal_nan=True) for both in zip(first, second, strict=True))
        return True

    def _way_of(self, call: Call | None) -> _Way | None:
        """Return the first form of call that works, or None. call: the user's choice of the argument, or None."""
        ways = [self._of_positions, self._of_length, self._of_one]
        if call is not None:
            ways = [self._of_length] if call == "length" else [self._of_positions, self._of_one]
        for way in ways:
            works = way()
            if works is not None:
                return works
        return None

    def _try(self, words: str, run: Callable[[], Any], count: int) -> Any:
        """Return the result of a call, or None if the call raises an error, or if its result cannot be judged."""
        try:
            value = run()
            self.results(value, count)
        except Unusable as failure:
            self.errors.append(f"{words}: {failure}")
            return None
        return value

    def _of_positions(self) -> _Way | None:
        few = _few(self.axes)
        for index, (words, _) in enumerate(_forms(few)):
            run = partial(self._with_form, index)
            if self._try(f"f({words})", partial(run, few), len(few)) is not None:
                return _Way(f"f({words})", run)
        return None

    def _with_form(self, index: int, positions: Floats) -> Any:
        """Return the result of a call with positions in the form with this index in `_forms`."""
        form = next(form for i, (_, form) in enumerate(_forms(positions)) if i == index)
        return call_quietly(self.function, form)

    def _of_length(self) -> _Way | None:
        if self.axes > 1:
            return None
        if self._try("f(length)", lambda: call_quietly(self.function, 21), 21) is not None:
            return _Way("f(length)", lambda positions: call_quietly(self.function, len(positions)), True)
        for count in (20, 22, 42):
            with contextlib.suppress(Unusable):
                self.results(call_quietly(self.function, 21), count)
                reason = f"f(21) returned {count} rows instead of 21"
                self.odd = Finding(self.name, "computed rows", "wrong", "shape", reason)
        return None

    def _of_one(self) -> _Way | None:
        two = np.array([[3.0] * self.axes, [5.0] * self.axes])
        for make, words in ((int, "an integer"), (float, "a number")):
            run = partial(self._one_by_one, make)
            if self._try(f"f({words})", partial(run, two), len(two)) is not None:
                return _Way(f"f({words}), one at a time", run)
        return None

    def _one_by_one(self, make: Any, positions: Floats) -> Any:
        """Call the function once per position, and return the stacked results: rows, or a tuple of tables."""
        results = []
        for row in positions.tolist():
            each = tuple(make(value) if value == int(value) else value for value in row)
            results.append(call_quietly(self.function, each[0] if self.axes == 1 else each))
        if isinstance(results[0], tuple):
            return tuple(np.stack([numbers_in(one, self.name) for one in both]) for both in zip(*results, strict=False))
        return np.stack([numbers_in(one, self.name) for one in results])


def _few(axes: int) -> Floats:
    column = np.array(_FEW, np.float64)
    return np.stack([np.roll(column, axis) for axis in range(axes)], axis=1)


# ---- the check ------------------------------------------------------------------------------------------------------


def check_function(function: Any, expected: Any = None, config: Any = None, call: Call | None = None) -> Report:
    """Return the report on a function of positions or of a length."""
    if isinstance(function, type):
        raise TypeError(f"source is the class {function.__name__}; pass an instance of it")
    if call not in (None, "positions", "length"):
        raise ValueError(f"call must be 'positions' or 'length', not {call!r}")
    wanted, longest = as_expected(expected, config)
    name = getattr(function, "__name__", type(function).__name__)
    return Report(name, (finding_of(function, name, wanted, longest, call),))


def finding_of(
    function: Any, name: str, wanted: Expected, longest: float | None, call: Call | None, words: str = ""
) -> Finding:
    """Return the finding for a function. words: description of the call (default: the form of call that works)."""
    runner = _Function(function, name, wanted, call)
    if runner.way is not None:
        if words:
            runner.way = runner.way._replace(words=words)
        return _judged(runner, wanted, longest)
    if runner.odd is not None:
        return runner.odd
    errors = _most_likely(runner.errors)
    if call != "length" and not isinstance(wanted, Encoding):
        rotated = _rotated(function, name, wanted, longest, runner.axes)
        if isinstance(rotated, Finding):
            return rotated
        errors += rotated
    reasons = "; ".join(errors)
    if call is not None:
        return Finding(name, FUNCTION, "wrong", "error", reasons)
    return Finding(name, FUNCTION, "unknown", None, reasons)


def _most_likely(errors: list[str]) -> list[str]:
    """Return the first error of each of the three most likely forms of call."""
    likely = ("f(positions of", "f(length)", "f(an integer)")
    first = (next((error for error in errors if error.startswith(one)), "") for one in likely)
    return [error for error in first if error]


def _judged(runner: _Function, wanted: Expected, longest: float | None) -> Finding:
    way = runner.way
    assert way is not None
    ran = _counted(runner, longest) if way.counts else _chosen(runner, longest)
    if isinstance(ran, Finding):
        return ran
    positions, results, limit = ran
    call_clause = f"; called as {way.words}{limit}"
    finding = _judge(runner.name, results, positions, wanted, call_clause)
    if finding.verdict == "wrong" and not runner.repeats():
        return Finding(
            runner.name, finding.is_, "unknown", None, f"the code returns different values at each call{call_clause}"
        )
    if finding.verdict == "right" and limit and longest and positions.max() < longest - 1:
        reason = f"{finding.says}, but the config has {longest:g} positions"
        finding = replace(finding, verdict="wrong", fault="length", says=reason)
    if finding.verdict == "right":
        more = _by_short_tables(runner, wanted) if way.counts else _by_real_positions(runner, wanted)
        finding = more if isinstance(more, Finding) else replace(finding, says=finding.says + more)
    return finding


def _judge(name: str, results: _Rows, positions: Floats, wanted: Expected, call_clause: str) -> Finding:
    exact = expected_of_width(wanted, results.width, name)
    if results.rows is not None:
        assert exact is None or isinstance(exact, Encoding)
        return judge_code_rows(name, results.rows, positions, exact, call_clause)
    assert results.tables is not None
    if isinstance(exact, Encoding):
        reason = f"cosines and sines, where rows of {exact!r} are expected{call_clause}"
        return Finding(name, "computed cosines and sines", "wrong", "shape", reason)
    return judge_code_tables(name, results.tables, positions, exact, call_clause)


def _chosen(runner: _Function, longest: float | None) -> tuple[Floats, _Rows, str] | Finding:
    """Call a function of positions within the time limit.

    Return (positions, results, clause about the positions from which the function raises an error), or a finding if
    the function raises an error at all positions. The clause is "" if there are no errors.
    """
    begin, few, words = time.thread_time(), _few(runner.axes), runner.way.words if runner.way else ""
    runner.at(few)
    spent = max(time.thread_time() - begin, 1e-6)
    positions = positions_up_to(longest, runner.axes, _most(runner, longest, spent))
    if spent / len(_FEW) * len(positions) > _SECONDS:
        keep = np.linspace(0, len(positions) - 1, max(12, int(_SECONDS / spent * len(_FEW)))).astype(int)
        positions = positions[np.unique(keep)]
    largest = np.abs(positions).max(axis=1)
    why, failed_at = "", 0.0
    for limit in sorted(set(largest.tolist()), reverse=True):
        some = positions[largest <= limit]
        try:
            results = runner.at(some)
            break
        except Unusable as error:
            why, failed_at = str(error), limit
        if time.thread_time() - begin > 2 * _SECONDS:
            return few, runner.at(few), f"; at position {failed_at:g} {why}"
    else:
        return Finding(runner.name, FUNCTION, "wrong", "error", f"{words}: {why}", first_position=failed_at)
    if not why:
        return some, results, ""

    def runs(position: int) -> bool:
        try:
            runner.at(np.concatenate([few, np.full_like(few[:1], position)]))
        except Unusable:
            return False
        return True

    last = _last(runs, int(limit), int(failed_at))
    if last > limit and runner.axes == 1:
        some = np.append(some, [[float(last)]], axis=0)
        results = runner.at(some)
    return some, results, f"; up to position {last}, beyond which {why}"


def _most(runner: _Function, longest: float | None, spent: float) -> float:
    """Return the largest position at which a call takes less than the time limit.

    Some code computes a table up to the largest position at each call. spent: seconds of a call at `_FEW`.
    """
    near = positions_up_to(None, runner.axes, _NEAR)
    begin = time.thread_time()
    with contextlib.suppress(Unusable):
        runner.at(near)
    more = time.thread_time() - begin - spent * len(near) / len(_FEW)
    grows = more > max(spent, 1e-3)
    return max(_NEAR, min(1e6, _NEAR * _SECONDS / more / 4), longest or 0) if grows else 1e6


def _last(runs: Callable[[int], bool], good: int, bad: int) -> int:
    """Return the last number for which ``runs`` is True. ``runs(good)`` is True, and ``runs(bad)`` is False."""
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


def _counted(runner: _Function, longest: float | None) -> tuple[Floats, _Rows, str] | Finding:
    """Call a function of a length, and request the longest table within the time limit.

    Return (positions, their rows, clause about the longest length that works), or a finding if no length works. The
    clause is "" if all lengths work.
    """
    longest_of_config = [int(longest)] if longest and 64 < longest < 1e6 else []
    lengths: list[int] = sorted({*_LENGTHS, *longest_of_config})
    best: tuple[int, Any] | None = None
    why, beyond = "", 0
    begin = time.thread_time()
    for length in lengths:
        started = time.thread_time()
        try:
            value = call_quietly(runner.function, length)
            width = runner.results(value, length).width
        except Unusable as error:
            why, beyond = str(error).replace("positions", "rows"), length
            break
        best = length, value
        spent = time.thread_time() - started
        following = next((one for one in lengths if one > length), length)
        if spent / length * following > _SECONDS - (time.thread_time() - begin) or following * width > _MOST_VALUES:
            break
    if best is None and beyond > 12:
        best = 12, None
    if best is None:
        return Finding(runner.name, FUNCTION, "wrong", "error", f"f({beyond}): {why}")
    length, value = best
    if why:

        def runs(count: int) -> bool:
            try:
                runner.results(call_quietly(runner.function, count), count)
            except Unusable:
                return False
            return True

        length = _last(runs, length, beyond)
        value = call_quietly(runner.function, length)
        why = f"; up to {length} rows, beyond which {why}"
    whole = runner.results(value, length)
    near = np.arange(min(length, _ALL_VALUES // whole.width), dtype=np.float64)
    far = positions_up_to(longest, 1, length - 1)[:, 0]
    positions = np.unique(np.concatenate([near, far, [length - 1.0]]))[:, np.newaxis]
    picked = positions[:, 0].astype(np.intp)
    if whole.rows is not None:
        return positions, _Rows(whole.rows[picked], None), why
    assert whole.tables is not None
    both = [None if one is None else _take(one, picked, length) for one in whole.tables]
    assert both[0] is not None
    return positions, _Rows(None, (both[0], both[1])), why


def _take(table: Array, rows: Any, length: int) -> Array:
    """Return some rows of a table. The axis of the rows is the first axis of this length."""
    result: Array = table.take(rows, axis=table.shape.index(length))
    return result


def _by_short_tables(runner: _Function, wanted: Expected) -> Finding | str:
    """Return the finding for a short table if the table is wrong, else an empty string."""
    for length in (9, 17):
        positions = np.arange(length, dtype=np.float64)[:, np.newaxis]
        try:
            finding = _judge(runner.name, runner.at(positions), positions, wanted, f"; called as f({length})")
        except Unusable as error:
            return Finding(runner.name, FUNCTION, "wrong", "error", f"f({length}): {error}")
        if finding.verdict == "wrong":
            reason = f"{finding.says}; the rows of longer tables are right"
            return replace(finding, says=reason)
    return ""


def _by_real_positions(runner: _Function, wanted: Expected) -> Finding | str:
    """Call a function at real positions, and judge the results.

    If the function converts real positions to integers, return a clause that says so. Return the finding if the
    results are wrong for another reason, else an empty string.
    """
    column = np.array(_REAL)
    positions = np.stack([np.roll(column, axis) for axis in range(runner.axes)], axis=1)
    try:
        results = runner.at(positions)
    except Unusable:
        return ""
    if wanted is None:
        return ""
    finding = _judge(runner.name, results, positions, wanted, "; called at real positions")
    if finding.verdict != "wrong":
        return ""
    whole: dict[str, Floats] = {"truncated": np.trunc(positions), "rounded": np.rint(positions)}
    for words, integers in whole.items():
        if _judge(runner.name, results, integers, wanted, "").verdict == "right":
            return f"; real positions are {words} to integers"
    return finding


# ---- rotated vectors ------------------------------------------------------------------------------------------------

# shapes of x that code may accept, and functions that convert vectors (n, d) to this shape
VECTORS: dict[str, Callable[[Array], Array]] = {
    "(batch, heads, n, d)": lambda x: x[np.newaxis, np.newaxis],
    "(batch, n, heads, d)": lambda x: x[np.newaxis, :, np.newaxis],
    "(batch, n, d)": lambda x: x[np.newaxis],
    "(n, d)": lambda x: x,
    "(n, heads, d)": lambda x: x[:, np.newaxis],
    "(n, batch, heads, d)": lambda x: x[:, np.newaxis, np.newaxis],
}


def _rotated(function: Any, name: str, wanted: Expected, longest: float | None, axes: int) -> Finding | list[str]:
    """Return the finding for a function of vectors and positions, or a list of the first error if no call works."""
    errors: list[str] = []
    heads: tuple[int, ...] = HEADS
    if isinstance(wanted, Rotary):
        heads = (wanted.head_dim,)
    elif isinstance(wanted, str):
        heads = tuple(_head_dims(wanted))
    few = _few(axes)
    for head in heads:
        for shape, arrange in VECTORS.items():
            for package, make in _packages():
                for batched in (False, True):
                    run = _runner(function, arrange, make, batched)
                    words = f"f(x {shape}, positions) of {package}"
                    try:
                        run(unit_pairs(len(few), head), few)
                    except Unusable as error:
                        errors.append(f"{words}: {error}")
                        continue
                    return judge_rotated(name, run, head, wanted, longest, axes, f"; called as {words}")
    return errors[:1]


def _head_dims(name: str) -> Iterator[int]:
    """Yield the head widths to try for a preset: its default, and the usual widths that the preset accepts."""
    build: Any = presets.get(name)
    for options in ({}, *({"head_dim": head} for head in HEADS)):
        try:
            yield build(**options).head_dim
        except (TypeError, ValueError):
            continue


def _runner(function: Any, arrange: Any, make: Any, batched: bool) -> Callable[[Floats, Floats], Array]:
    def run(x: Floats, positions: Floats) -> Array:
        converted = _as_integers(positions[:, 0] if positions.shape[1] == 1 else positions)
        vectors = arrange(x.astype(np.float32))
        result = call_quietly(function, make(vectors), make(converted[np.newaxis] if batched else converted))
        rotated = numbers_in(result, "x")
        if rotated.shape != vectors.shape:
            raise Unusable(f"the call returned {shape_of(result)} for x of shape {vectors.shape}")
        return rotated.reshape(x.shape)

    return run


def judge_rotated(
    name: str,
    run: Callable[[Floats, Floats], Array],
    head: int,
    wanted: Expected,
    longest: float | None,
    axes: int,
    call_clause: str,
) -> Finding:
    """Call code that rotates vectors, and return the finding. Positions go up to the largest position that works.

    run: function of vectors and positions (n, axes) that returns rotated vectors. call_clause: clause about the call.
    """
    positions = positions_up_to(longest, axes)
    largest = np.abs(positions).max(axis=1)
    why = ""
    for most in sorted(set(largest.tolist()), reverse=True):
        some = positions[largest <= most]
        before = unit_pairs(len(some), head), unit_pairs(len(some), head, 1)
        try:
            after = run(before[0], some), run(before[1], some)
        except Unusable as error:
            why = f"; beyond position {{:g}} {error}"
            continue
        exact = expected_of_width(wanted, head, name)
        assert not isinstance(exact, Encoding)
        return judge_rotation(name, Rotation(before, after, some), exact, call_clause + why.format(most))
    return Finding(name, FUNCTION, "wrong", "error", f"{call_clause[2:]}{why.format(0)}")
