"""Check a function: call it at positions that expose faults, and judge the results."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Any, Literal, NamedTuple

import numpy as np

from ... import presets
from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.rotary.value import Rotary
from ...presets._registry import facts
from .config import parts_of
from .files import config_in, read_json
from .report import Finding, Report
from .results import (
    COMPUTED_ROWS,
    COMPUTED_TABLES,
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
from .rotary_tables import possible_tables

Call = Literal["positions", "length"]
# kind (`Finding.is_`) of the finding for a function that could not be called
FUNCTION = "a function"
# Positions at which code is called: 64 consecutive positions, which `identify` needs, and positions around powers of 2
# and around common table lengths.
POSITIONS = tuple(range(64)) + tuple(
    position
    for first, end in ((127, 129), (255, 260), (511, 514), (999, 1002), (2047, 2052), (4095, 4097))
    for position in range(first, end)
)
_LARGE_POSITIONS = (5000, 8191, 32767, 32768, 65535, 65536, 100_000, 1_000_000)
_REAL_POSITIONS = (0.125, 0.25, 0.5, 1.5, 2.75, 63.5, 1000.25)
# positions of the first calls, which find out how a function can be called
_FIRST_POSITIONS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 60)
_SEED = 20250101
# number of random positions
_RANDOM_COUNT = 24
# largest position of a call that measures whether the time grows with the position
_TIMED_UP_TO = 5000.0
# length of the table that the first calls request, and longer lengths to request one after the other
_FIRST_LENGTH, _LENGTHS = 21, (64, 300, 2100, 5001, 65_538, 100_001)
# approximate limit of the CPU time for the calls of a function, in seconds
_TIME_LIMIT = 0.8
# A requested table has at most _LARGEST_TABLE values. All rows within its first _WHOLE_UP_TO values are judged, and
# some of the later rows.
_LARGEST_TABLE, _WHOLE_UP_TO = 1 << 23, 1 << 20
# head widths to try if the width is unknown
HEADS = (64, 128, 32, 16, 8, 80, 96, 256)


def first_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def positions_up_to(longest: float | None, axes: int = 1, largest: float = 1e6) -> Floats:
    """Return the positions (n, axes) up to ``largest`` at which the code is called.

    longest: number of positions in the config, or None. The last of them is added.
    """
    rng = np.random.default_rng(_SEED)
    positions = {*POSITIONS, *_LARGE_POSITIONS, *rng.integers(0, 100_000, _RANDOM_COUNT).tolist()}
    if longest and longest >= 1:
        positions.add(int(longest) - 1)
    column = np.array(sorted(position for position in positions if position <= largest), np.float64)
    if axes == 1:
        return column[:, np.newaxis]
    return np.stack([column, *(rng.permutation(column) for _ in range(axes - 1))], axis=1)


def unit_pairs(count: int, dim: int, seed: int = 0) -> Floats:
    """Return random vectors (count, dim) with absolute values from 1/2 to 1, so that no pair is near zero."""
    rng = np.random.default_rng([_SEED, seed])
    # float16 and bfloat16 can also represent these 7-bit values exactly
    result: Floats = rng.choice([-1.0, 1.0], (count, dim)) * rng.integers(64, 128, (count, dim)) / 128
    return result


# ---- the expected encoding ------------------------------------------------------------------------------------------


def as_expected(expected: Any, config: Any) -> tuple[Expected, float | None]:
    """Return (expected encoding, number of positions in the config). Each is None if it is unknown.

    A preset is returned as its name, because its width is not known yet.
    """
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
            f"{name} must be a config, the path of a config, an Encoding, a Rotary, or the name of a preset, not "
            f"{type(value).__name__}"
        )
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        value = read_json((config_in(path) if os.path.isdir(path) else None) or path)
    try:
        rotary = Rotary.from_config(value)
    except ValueError as error:
        raise ValueError(
            f"{name} cannot be read as one rotary encoding: {error}. You can also pass a Rotary as {name}, such as "
            "Rotary.from_config(.., layer=0)"
        ) from None
    if rotary is None:
        raise ValueError(
            f"{name} describes a model without a rotary encoding; pass an Encoding or a Rotary in the argument expected"
        )
    return rotary, parts_of(value).length


# ---- calls ----------------------------------------------------------------------------------------------------------


class _CallForm(NamedTuple):
    """A form in which the function can be called.

    words: description of the call. run: function of positions (n, axes) that makes the call. takes_length: whether
    the argument of the call is a length instead of positions.
    """

    words: str
    run: Callable[[Floats], Any]
    takes_length: bool = False


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
    # astype returns a copy, so that code which changes its argument does not change ``positions``
    return positions.astype(np.int64 if (positions == np.floor(positions)).all() else np.float64)


def _position_arguments(positions: Floats) -> Iterator[tuple[str, Any]]:
    """Yield (description, argument) for each form in which the code may accept positions (n, axes)."""
    # positions on one axis have shape (n,)
    usual = positions[:, 0] if positions.shape[1] == 1 else positions
    for package, convert in _packages():
        yield f"positions of {package}", convert(_as_integers(usual))
        yield f"real positions of {package}", convert(usual.astype(np.float32 if package != "NumPy" else np.float64))
    yield "a list of positions", _as_integers(usual).tolist()
    for package, convert in _packages():
        yield f"positions of {package} in a column", convert(_as_integers(positions))
        yield f"positions of {package} in a batch", convert(_as_integers(usual)[np.newaxis])


def call_quietly(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call the user's code, hide its warnings, and return its result. Raise `Unusable` if the code raises an error."""
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return function(*arguments, **options)
    except Unusable:
        raise
    # the code may raise any error
    except Exception as error:  # noqa: BLE001
        raise Unusable(f"the call raised {first_line(error)}") from None


class _Results(NamedTuple):
    """Results of a function at positions: rows, or tables (cosines, sines). The other field is None."""

    rows: Array | None
    tables: tuple[Array, Array | None] | None

    @property
    def arrays(self) -> list[Array]:
        return [array for array in (self.rows, *(self.tables or ())) if array is not None]

    @property
    def width(self) -> int:
        """Number of columns of the rows, or number of values that the tables rotate in each vector."""
        if self.rows is not None:
            return int(self.rows.shape[1])
        assert self.tables is not None
        return 2 * next(iter(possible_tables(*self.tables))).pairs


class _Function:
    """A function of positions or of a length.

    form: first form of call that works, or None. errors: reasons why other forms failed. shape_finding: finding for a
    result of a wrong shape, or None. axes: number of axes of positions. rotary: whether a Rotary is expected.
    expected_width: number of columns of the expected Encoding, or 0.
    """

    def __init__(self, function: Any, name: str, expected: Expected, call: Call | None) -> None:
        self.function, self.name, self.axes = function, name, axes_of(expected)
        self.rotary = isinstance(expected, Rotary) or (isinstance(expected, str) and facts(expected).rotary)
        self.expected_width = expected.d_model if isinstance(expected, Encoding) else 0
        self.errors: list[str] = []
        self.shape_finding: Finding | None = None
        self.form = self._first_form(call)

    def results(self, value: Any, count: int) -> _Results:
        """Return the value that a call at ``count`` positions returned, as rows or tables.

        Raise `Unusable` if the value is neither.
        """
        if not self.rotary:
            rows = rows_in(value, count, self.name)
            if rows is not None:
                return _Results(rows, None)
        if self.rotary or isinstance(value, tuple) or "complex" in str(getattr(value, "dtype", "")):
            tables = tables_in(value, count, self.name)
            if tables is not None:
                return _Results(None, tables)
        if getattr(value, "shape", None) == (self.expected_width, count):
            reason = f"the rows and columns of shape {tuple(value.shape)} are exchanged"
            self.shape_finding = Finding(self.name, COMPUTED_ROWS, "wrong", "shape", reason)
        raise Unusable(
            f"the call returned {shape_of(value)} for {count} positions, instead of "
            f"{'cosines and sines' if self.rotary else 'one row'} for each position"
        )

    def at(self, positions: Floats) -> _Results:
        """Return the results of the function at positions (n, axes)."""
        assert self.form is not None
        return self.results(self.form.run(positions), len(positions))

    def repeats(self) -> bool:
        """Return True if two calls at the same positions return the same values, or if a call fails, else False."""
        with contextlib.suppress(Unusable):
            first, second = (self.at(_first_positions(self.axes)).arrays for _ in range(2))
            return all(np.array_equal(*both, equal_nan=True) for both in zip(first, second, strict=True))
        return True

    def _first_form(self, call: Call | None) -> _CallForm | None:
        """Return the first form of call that works, or None.

        call: "positions" or "length" if the user has chosen this argument, or None.
        """
        form = None
        if call != "length":
            form = self._form_of_positions()
        if form is None and call != "positions":
            form = self._form_of_length()
        if form is None and call != "length":
            form = self._form_of_one_position()
        return form

    def _works(self, words: str, run: Callable[[], Any], count: int) -> bool:
        """Return whether the result of a call can be judged. If not, append the reason to ``errors``."""
        try:
            self.results(run(), count)
        except Unusable as failure:
            self.errors.append(f"{words}: {failure}")
            return False
        return True

    def _form_of_positions(self) -> _CallForm | None:
        positions = _first_positions(self.axes)
        for index, (words, _) in enumerate(_position_arguments(positions)):
            run = partial(self._call_with_argument, index)
            if self._works(f"f({words})", partial(run, positions), len(positions)):
                return _CallForm(f"f({words})", run)
        return None

    def _call_with_argument(self, index: int, positions: Floats) -> Any:
        """Return the result of a call with the argument that has this index in `_position_arguments`."""
        _, argument = next(islice(_position_arguments(positions), index, None))
        return call_quietly(self.function, argument)

    def _form_of_length(self) -> _CallForm | None:
        if self.axes > 1:
            return None
        n = _FIRST_LENGTH
        if self._works("f(length)", lambda: call_quietly(self.function, n), n):
            return _CallForm("f(length)", lambda positions: call_quietly(self.function, len(positions)), True)
        for count in (n - 1, n + 1, 2 * n):
            with contextlib.suppress(Unusable):
                self.results(call_quietly(self.function, n), count)
                reason = f"f({n}) returned {count} rows instead of {n}"
                self.shape_finding = Finding(self.name, COMPUTED_ROWS, "wrong", "shape", reason)
        return None

    def _form_of_one_position(self) -> _CallForm | None:
        two_positions = np.array([[3.0] * self.axes, [5.0] * self.axes])
        for number_type, words in ((int, "an integer"), (float, "a number")):
            run = partial(self._call_one_by_one, number_type)
            if self._works(f"f({words})", partial(run, two_positions), 2):
                return _CallForm(f"f({words}), one at a time", run)
        return None

    def _call_one_by_one(self, number_type: Any, positions: Floats) -> Any:
        """Call the function once per position, and return the stacked results: rows, or a tuple of tables."""
        results = []
        for row in positions.tolist():
            position = tuple(number_type(value) if value == int(value) else value for value in row)
            results.append(call_quietly(self.function, position[0] if self.axes == 1 else position))
        # each result is a row, or a tuple with one row per table
        if isinstance(results[0], tuple):
            return tuple(np.stack([numbers_in(row, self.name) for row in rows]) for rows in zip(*results, strict=False))
        return np.stack([numbers_in(row, self.name) for row in results])


def _first_positions(axes: int) -> Floats:
    return _on_axes(_FIRST_POSITIONS, axes)


def _on_axes(positions: Sequence[float], axes: int) -> Floats:
    """Return an array (n, axes). Each axis has all ``positions``, shifted cyclically by the index of the axis."""
    column = np.array(positions, np.float64)
    return np.stack([np.roll(column, axis) for axis in range(axes)], axis=1)


# ---- the check ------------------------------------------------------------------------------------------------------


def check_function(function: Any, expected: Any = None, config: Any = None, call: Call | None = None) -> Report:
    """Return the report on a function of positions, of a length, or of vectors and positions."""
    if isinstance(function, type):
        raise TypeError(f"source is the class {function.__name__}; pass an instance of it")
    if call not in (None, "positions", "length"):
        raise ValueError(f"call must be 'positions' or 'length', not {call!r}")
    expected, longest = as_expected(expected, config)
    name = getattr(function, "__name__", type(function).__name__)
    return Report(name, (finding_of(function, name, expected, longest, call),))


def finding_of(
    function: Any, name: str, expected: Expected, longest: float | None, call: Call | None, words: str = ""
) -> Finding:
    """Return the finding for a function. words: description of the call (default: the form of call that works)."""
    runner = _Function(function, name, expected, call)
    if runner.form is not None:
        if words:
            runner.form = runner.form._replace(words=words)
        return _run_and_judge(runner, runner.form, expected, longest)
    if runner.shape_finding is not None:
        return runner.shape_finding
    errors = _most_likely(runner.errors)
    if call != "length" and (expected is None or runner.rotary):
        finding_or_errors = _judge_as_rotation(function, name, expected, longest, runner.axes)
        if isinstance(finding_or_errors, Finding):
            return finding_or_errors
        errors += finding_or_errors
    reasons = "; ".join(errors)
    if call is not None:
        return Finding(name, FUNCTION, "wrong", "error", reasons)
    return Finding(name, FUNCTION, "unknown", None, reasons)


def _most_likely(errors: list[str]) -> list[str]:
    """Return the first error of each of the three most likely forms of call. A form without an error is left out."""
    forms = ("f(positions of", "f(length)", "f(an integer)")
    first_errors = (next((error for error in errors if error.startswith(form)), "") for form in forms)
    return [error for error in first_errors if error]


def _run_and_judge(runner: _Function, form: _CallForm, expected: Expected, longest: float | None) -> Finding:
    """Call a function in the form that works, and return the finding for its results."""
    run = _run_at_lengths(runner, longest) if form.takes_length else _run_at_positions(runner, form, longest)
    if isinstance(run, Finding):
        # the function raised an error at all positions
        return run
    positions, results, limit_clause = run
    call_clause = f"; called as {form.words}{limit_clause}"
    finding = _judge_results(runner.name, results, positions, expected, call_clause)
    if finding.verdict == "wrong" and not runner.repeats():
        return Finding(
            runner.name,
            finding.is_,
            "unknown",
            None,
            f"two calls with the same argument returned different values{call_clause}",
        )
    if finding.verdict == "right" and limit_clause and longest and positions.max() < longest - 1:
        reason = f"{finding.says}, but the config has {longest:g} positions"
        finding = replace(finding, verdict="wrong", fault="length", says=reason)
    if finding.verdict == "right":
        judge_more_calls = _judge_short_tables if form.takes_length else _judge_real_positions
        finding_or_clause = judge_more_calls(runner, expected)
        if isinstance(finding_or_clause, Finding):
            return finding_or_clause
        return replace(finding, says=finding.says + finding_or_clause)
    return finding


def _judge_results(name: str, results: _Results, positions: Floats, expected: Expected, call_clause: str) -> Finding:
    exact = expected_of_width(expected, results.width, name)
    if results.rows is not None:
        assert exact is None or isinstance(exact, Encoding)
        return judge_code_rows(name, results.rows, positions, exact, call_clause)
    assert results.tables is not None
    if isinstance(exact, Encoding):
        reason = f"cosines and sines, where rows of {exact!r} are expected{call_clause}"
        return Finding(name, COMPUTED_TABLES, "wrong", "shape", reason)
    return judge_code_tables(name, results.tables, positions, exact, call_clause)


def _run_at_positions(
    runner: _Function, form: _CallForm, longest: float | None
) -> tuple[Floats, _Results, str] | Finding:
    """Call a function of positions, at as many positions as the time limit allows.

    Return (positions, results, clause about the positions at which calls fail). The clause is "" if no call fails.
    Return a finding if the calls fail at all positions.
    """
    begin, first_positions = time.thread_time(), _first_positions(runner.axes)
    runner.at(first_positions)
    seconds = max(time.thread_time() - begin, 1e-6)
    positions = positions_up_to(longest, runner.axes, _largest_quick_position(runner, longest, seconds))
    seconds_per_position = seconds / len(first_positions)
    if seconds_per_position * len(positions) > _TIME_LIMIT:
        kept = np.linspace(0, len(positions) - 1, max(12, int(_TIME_LIMIT / seconds_per_position))).astype(int)
        positions = positions[np.unique(kept)]
    # leave out the largest of the remaining positions, again and again, until the call works
    sizes = np.abs(positions).max(axis=1)
    reason, failed_at = "", 0.0
    for limit in sorted(set(sizes.tolist()), reverse=True):
        accepted = positions[sizes <= limit]
        try:
            results = runner.at(accepted)
            break
        except Unusable as error:
            reason, failed_at = str(error), limit
        if time.thread_time() - begin > 2 * _TIME_LIMIT:
            return first_positions, runner.at(first_positions), f"; at position {failed_at:g} {reason}"
    else:
        return Finding(runner.name, FUNCTION, "wrong", "error", f"{form.words}: {reason}", first_position=failed_at)
    if not reason:
        return accepted, results, ""

    def runs(position: int) -> bool:
        try:
            runner.at(np.concatenate([first_positions, np.full_like(first_positions[:1], position)]))
        except Unusable:
            return False
        return True

    last = _last_that_runs(runs, int(limit), int(failed_at))
    if last > limit and runner.axes == 1:
        accepted = np.append(accepted, [[float(last)]], axis=0)
        results = runner.at(accepted)
    return accepted, results, f"; up to position {last}, beyond which {reason}"


def _largest_quick_position(runner: _Function, longest: float | None, seconds: float) -> float:
    """Estimate the largest position at which a call does not exceed the time limit.

    Some code computes a table up to the largest position at each call. If the time does not grow with the position,
    return 1e6. Otherwise the result is at least `_TIMED_UP_TO` and ``longest``. seconds: time of a call at
    `_FIRST_POSITIONS`.
    """
    positions = positions_up_to(None, runner.axes, _TIMED_UP_TO)
    begin = time.thread_time()
    with contextlib.suppress(Unusable):
        runner.at(positions)
    # time of this call, minus the time that its larger number of positions explains
    excess = time.thread_time() - begin - seconds * len(positions) / len(_FIRST_POSITIONS)
    if excess <= max(seconds, 1e-3):
        return 1e6
    return max(_TIMED_UP_TO, min(1e6, _TIMED_UP_TO * _TIME_LIMIT / excess / 4), longest or 0)


def _last_that_runs(runs: Callable[[int], bool], good: int, bad: int) -> int:
    """Return the last number for which ``runs`` is True. ``runs(good)`` is True, and ``runs(bad)`` is False."""
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


def _run_at_lengths(runner: _Function, longest: float | None) -> tuple[Floats, _Results, str]:
    """Call a function of a length with growing lengths, for about the time limit, and keep the longest table.

    Return (positions, rows of the table at these positions, clause about the longest length that works). The clause is
    "" if all lengths that were tried work.
    """

    def runs(count: int) -> bool:
        try:
            runner.results(call_quietly(runner.function, count), count)
        except Unusable:
            return False
        return True

    longest_of_config = [int(longest)] if longest and 64 < longest < 1e6 else []
    lengths: list[int] = sorted({*_LENGTHS, *longest_of_config})
    longest_that_runs, limit_clause = _FIRST_LENGTH, ""
    begin = time.thread_time()
    for length, next_length in zip(lengths, [*lengths[1:], lengths[-1]], strict=True):
        call_begin = time.thread_time()
        try:
            value = call_quietly(runner.function, length)
            width = runner.results(value, length).width
        except Unusable as error:
            longest_that_runs = _last_that_runs(runs, longest_that_runs, length)
            value = call_quietly(runner.function, longest_that_runs)
            reason = str(error).replace("positions", "rows")
            limit_clause = f"; up to {longest_that_runs} rows, beyond which {reason}"
            break
        longest_that_runs, now = length, time.thread_time()
        seconds, seconds_left = (now - call_begin) / length * next_length, _TIME_LIMIT - (now - begin)
        if seconds > seconds_left or next_length * width > _LARGEST_TABLE:
            break
    length = longest_that_runs
    whole = runner.results(value, length)
    near = np.arange(min(length, _WHOLE_UP_TO // whole.width), dtype=np.float64)
    far = positions_up_to(longest, 1, length - 1)[:, 0]
    positions = np.unique(np.concatenate([near, far, [length - 1.0]]))[:, np.newaxis]
    rows = positions[:, 0].astype(np.intp)
    if whole.rows is not None:
        return positions, _Results(whole.rows[rows], None), limit_clause
    assert whole.tables is not None
    cos, sin = whole.tables
    tables = _rows_of_table(cos, rows, length), None if sin is None else _rows_of_table(sin, rows, length)
    return positions, _Results(None, tables), limit_clause


def _rows_of_table(table: Array, rows: Any, length: int) -> Array:
    """Return some rows of a table. The axis of the rows is the first axis whose length is ``length``."""
    result: Array = table.take(rows, axis=table.shape.index(length))
    return result


def _judge_short_tables(runner: _Function, expected: Expected) -> Finding | str:
    """Request short tables. Return the finding for the first call that fails or returns wrong rows, else ""."""
    for length in (9, 17):
        positions = np.arange(length, dtype=np.float64)[:, np.newaxis]
        try:
            finding = _judge_results(runner.name, runner.at(positions), positions, expected, f"; called as f({length})")
        except Unusable as error:
            return Finding(runner.name, FUNCTION, "wrong", "error", f"f({length}): {error}")
        if finding.verdict == "wrong":
            reason = f"{finding.says}; the rows of longer tables are right"
            return replace(finding, says=reason)
    return ""


def _judge_real_positions(runner: _Function, expected: Expected) -> Finding | str:
    """Call a function at real positions, and judge the results.

    If the function converts real positions to integers, return a clause that says so. Return the finding if the
    results are wrong for another reason, else an empty string.
    """
    positions = _on_axes(_REAL_POSITIONS, runner.axes)
    try:
        results = runner.at(positions)
    except Unusable:
        return ""
    if expected is None:
        return ""
    finding = _judge_results(runner.name, results, positions, expected, "; called at real positions")
    if finding.verdict != "wrong":
        return ""
    conversions: dict[str, Floats] = {"truncated": np.trunc(positions), "rounded": np.rint(positions)}
    for words, integers in conversions.items():
        if _judge_results(runner.name, results, integers, expected, "").verdict == "right":
            return f"; real positions are {words} to integers"
    return finding


# ---- rotated vectors ------------------------------------------------------------------------------------------------

# maps each shape of x that code may accept to a function that converts vectors (n, d) to this shape
VECTORS: dict[str, Callable[[Array], Array]] = {
    "(batch, heads, n, d)": lambda x: x[np.newaxis, np.newaxis],
    "(batch, n, heads, d)": lambda x: x[np.newaxis, :, np.newaxis],
    "(batch, n, d)": lambda x: x[np.newaxis],
    "(n, d)": lambda x: x,
    "(n, heads, d)": lambda x: x[:, np.newaxis],
    "(n, batch, heads, d)": lambda x: x[:, np.newaxis, np.newaxis],
}


def _judge_as_rotation(
    function: Any, name: str, expected: Expected, longest: float | None, axes: int
) -> Finding | list[str]:
    """Return the finding for a function of vectors and positions, or a list with one error if no call works."""
    errors: list[str] = []
    heads: tuple[int, ...] = HEADS
    if isinstance(expected, Rotary):
        heads = (expected.head_dim,)
    elif isinstance(expected, str):
        heads = tuple(_head_dims(expected))
    positions = _first_positions(axes)
    for head, shape, (package, convert), batched in product(heads, VECTORS, _packages(), (False, True)):
        run = _rotation_call(function, VECTORS[shape], convert, batched)
        words = f"f(x {shape}, positions) of {package}"
        try:
            run(unit_pairs(len(positions), head), positions)
        except Unusable as error:
            errors.append(f"{words}: {error}")
            continue
        return judge_rotated(name, run, head, expected, longest, axes, f"; called as {words}")
    return errors[:1]


def _head_dims(name: str) -> Iterator[int]:
    """Yield the head widths to try for a preset: its default, and the widths of HEADS that the preset accepts."""
    build: Any = presets.get(name)
    for options in ({}, *({"head_dim": head} for head in HEADS)):
        try:
            yield build(**options).head_dim
        except (TypeError, ValueError):
            continue


def _rotation_call(function: Any, arrange: Any, convert: Any, batched: bool) -> Callable[[Floats, Floats], Array]:
    """Return a function of vectors and positions (n, axes) that calls the code, and returns rotated vectors.

    arrange: function that converts vectors to the shape of the code's argument x. convert: function that converts an
    array to the code's package. batched: whether positions have a batch axis.
    """

    def run(x: Floats, positions: Floats) -> Array:
        integers = _as_integers(positions[:, 0] if positions.shape[1] == 1 else positions)
        vectors = arrange(x.astype(np.float32))
        result = call_quietly(function, convert(vectors), convert(integers[np.newaxis] if batched else integers))
        rotated = numbers_in(result, "x")
        if rotated.shape != vectors.shape:
            raise Unusable(
                f"the call returned {shape_of(result)} for x of shape {vectors.shape}; the shapes must be equal"
            )
        return rotated.reshape(x.shape)

    return run


def judge_rotated(
    name: str,
    run: Callable[[Floats, Floats], Array],
    head: int,
    expected: Expected,
    longest: float | None,
    axes: int,
    call_clause: str,
) -> Finding:
    """Call code that rotates vectors, and return the finding.

    Positions beyond the largest position at which the code works are left out.

    run: function of vectors and positions (n, axes) that returns rotated vectors. call_clause: clause about the call.
    """
    positions = positions_up_to(longest, axes)
    # leave out the largest of the remaining positions, again and again, until both calls work
    sizes = np.abs(positions).max(axis=1)
    reason = ""
    for limit in sorted(set(sizes.tolist()), reverse=True):
        accepted = positions[sizes <= limit]
        before = unit_pairs(len(accepted), head), unit_pairs(len(accepted), head, 1)
        try:
            after = run(before[0], accepted), run(before[1], accepted)
        except Unusable as error:
            reason = str(error)
            continue
        exact = expected_of_width(expected, head, name)
        assert not isinstance(exact, Encoding)
        limit_clause = f"; beyond position {limit:g} {reason}" if reason else ""
        return judge_rotation(name, Rotation(before, after, accepted), exact, call_clause + limit_clause)
    return Finding(name, FUNCTION, "wrong", "error", f"{call_clause.removeprefix('; ')}; at every position {reason}")
