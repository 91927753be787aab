"""Find the encoding that computed a table, from its values in any supported type.

The two columns of a pair are the real and the imaginary part of a complex number, which rotates by the same angle from
row to row. These angles are measured for each known order of columns. If every pair rotates evenly, the angles are
compared with known schedules of frequencies. Then the whole table is compared with the encoding of each schedule that
fits.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.encoding.builders import LAYOUTS, sinusoidal
from ..._core.encoding.value import Encoding
from ..._core.numbers.arguments import real
from ..._core.numbers.arrays import Floats
from ..._core.numbers.formats import float_type
from ..._core.positions.foreign import numbers_of
from ...presets import names
from ...presets._registry import facts
from ...typing import Function, Layout
from .angles import (
    BLOCK,
    FIRSTS,
    NEAR,
    ORDERS,
    Angles,
    Table,
    measure,
    odd_of,
    scale_of,
    schedules,
    start_of,
    tolerated,
)
from .bases import BASES
from .calls import Shown, call_of
from .grids import fit_grid

# smallest number of rows, other than rows of zeros, that a table must have
LEAST_ROWS = 8
# Angles are measured in the first _ROWS rows. Candidates are first compared with _SAMPLE rows at both ends of these
# rows.
_ROWS, _SAMPLE = 1024, 32
# positions of the first row to try with presets
_STARTS = (0, 1, 2)
# names of the parameters with which presets accept the base
_BASE_NAMES = ("base", "max_len", "max_period", "max_positions", "max_timescale", "max_wavelength", "temperature",
               "theta")  # fmt: skip


@dataclass(frozen=True)
class Identification(Shown):
    """The encoding that computed a table, with its parameters.

    ``bool(identification)`` is False if nothing was found.

    Parameters
    ----------
    presets : tuple of str
        Names of the presets that compute the same rows. If there are none, presets whose rows differ only by a factor.
        The position of the first row may differ.
    encoding : Encoding or None
        The encoding. Row i of the table is the encoding of position ``start + i * step``, except for zero rows. None
        if nothing was found.
    start, step : float
        Position of the first row, and difference of consecutive positions (1 or -1).
    base, freq_shift, first : float or None
        Arguments of `sinusoidal`; None if the frequencies are not in geometric progression, or if the encoding was only
        found by a comparison with presets.
    layout : str or None
        Argument of `sinusoidal`; None if the encoding was only found by a comparison with presets.
    functions : tuple of str
        Functions of a pair, in the order of the columns; empty if the encoding was only found by a comparison with
        presets.
    scale : float
        Factor of all columns.
    zero_rows : tuple of int
        Indices of the rows of zeros, which are padding, or class tokens before a grid.
    error : float
        Largest difference from the table. If nothing was found, the largest difference of the nearest preset, or
        infinity if no preset was compared completely.
    closest : str or None
        The nearest preset if nothing was found, and if this preset differs from the table by at most half of the
        preset's largest value.
    axes : tuple of int or range
        Argument of `grid` for a table over several axes, else empty. After its zero rows, the table then equals
        ``grid(axes, encoding).reshape(-1, d)``. start and step describe the first axis.
    """

    presets: tuple[str, ...] = ()
    encoding: Encoding | None = None
    start: float = 0
    step: int = 1
    base: float | None = None
    freq_shift: float | None = None
    first: float | None = None
    layout: Layout | None = None
    functions: tuple[Function, ...] = ()
    scale: float = 1.0
    zero_rows: tuple[int, ...] = ()
    error: float = math.inf
    closest: str | None = None
    axes: tuple[int | range, ...] = ()

    def __bool__(self) -> bool:
        return self.encoding is not None

    def _rows(self) -> dict[str, str]:
        if self.encoding is None:
            return {}
        places = f"{self.start:g}, {self.start + self.step:g}, .."
        if self.axes:
            places = f"grid([{', '.join(map(str, self.axes))}], encoding).reshape(-1, {self.encoding.d_model})"
        zeros = f"{', '.join(map(str, self.zero_rows[:8]))}{', ..' if self.zero_rows[8:] else ''}"
        return {
            "presets": ", ".join(self.presets) or "none",
            "encoding": repr(self.encoding),
            "positions": places,
            "zero rows": zeros,
            "error": f"{self.error:.3g}",
            "call": call_of(self.encoding),
        }


class _Candidate(NamedTuple):
    """An encoding that may have computed a table.

    start: position of row 0. step: difference of consecutive positions, 1 or -1. settings: arguments of `sinusoidal`,
    or {} for the encoding of a preset.
    """

    frequencies: Floats
    phases: Floats
    amplitudes: Floats
    start: float
    step: int
    settings: dict[str, Any]

    def angles(self, rows: npt.NDArray[np.intp]) -> Floats:
        """Return the products of position and frequency for the rows with these indices."""
        positions = self.start + rows * float(self.step)
        return np.asarray(positions[:, np.newaxis] * self.frequencies)


class _Fit(NamedTuple):
    """A candidate and the result of its comparison with a table.

    misfit: largest quotient of a difference and the tolerated difference. error: largest difference. scale: factor of
    all columns.
    """

    misfit: float
    error: float
    scale: float
    candidate: _Candidate

    def rarity(self) -> tuple[bool, bool, bool]:
        """Return a sort key that puts common parameters first. A table of few pairs may fit several candidates."""
        settings = self.candidate.settings
        known = settings.get("base") in BASES and settings.get("first") in FIRSTS
        return self.candidate.start % 1 != 0, self.candidate.step < 0, not known


def identify(table: npt.ArrayLike | os.PathLike[str], *, start: float | None = None) -> Identification:
    """Find the encoding that computed a table, such as one in a checkpoint.

    Parameters
    ----------
    table : array_like of shape (n, d), or path
        Rows of consecutive positions or of the points of a grid: an array of float64, float32, float16 or bfloat16 (of
        ml_dtypes or jax), or a torch tensor or parameter. At least 8 of the first 1024 rows must not be zero. Rows of
        zeros are treated as padding. Axes of length 1 are ignored, and so are leading axes along which all values are
        equal. Any other table of shape (n0, n1, d) or (n0, n1, n2, d) is a grid. A path is a file or folder that
        `check` reads. It must have only one tensor, or only one tensor with the name of a position table.
    start : float, optional
        Position of the first row, on each axis of a grid (default: identified from the table).

    Returns
    -------
    Identification
        Presets, parameters and an encoding; or the closest preset, if it is close.

    Raises
    ------
    TypeError, ValueError, OSError, ImportError
        If the table has an unsupported type or shape, too few rows, or values that are not finite. If a file cannot be
        read, or a path does not have exactly one table.

    Notes
    -----
    An encoding matches if every value differs by at most one unit in the last place of its type, plus 2e-6, plus 1e-6
    times the angle. The last two terms are multiplied by ``scale``. They are the errors of sources that compute angles
    in float32. If several sets of parameters match, the most common set is returned. For example, with four columns,
    base 10000 has the same frequencies as base 100 with freq_shift 1, and base 10000 is returned. The start is found up
    to half of the longest wavelength on either side of 0. A table of three columns is compared only with base 10000 and
    with presets.

    Tables over two and three axes are compared with presets of as many axes, with default parameters. For a table of
    shape (n, d), all grids with one point per row are tried, if the last two sides differ by a factor of at most 16.
    Without start, positions from 0, from 1 and around the middle are tried. On square grids, the step sizes of Stable
    Diffusion 3 and PixArt are tried as well. The closest preset is named only if it differs from the table by at most
    half of the preset's largest value, because any two cosines differ by at most 2.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> table = pf.sinusoidal(64, freq_shift=1, layout="concatenated").table(100, start=1, dtype=np.float16)
    >>> found = pf.identify(table)
    >>> "whisper" in found.presets, found.start, found.base
    (True, 1, 10000.0)
    >>> found = pf.identify(np.pad(pf.grid([14, 14], pf.presets.mae(64)).reshape(196, 64), ((1, 0), (0, 0))))
    >>> "mae" in found.presets, found.axes, found.zero_rows
    (True, (14, 14), (0,))
    >>> bool(pf.identify(np.random.default_rng(0).normal(size=(100, 64))))
    False
    """
    start = None if start is None else real(start, "start")
    values: Any = table
    if isinstance(table, (str, os.PathLike)):
        # imported here, because `check` imports this module
        values = import_module("..check.table_in", __package__).table_in(os.fspath(table))
    checked, shape = _checked(values)
    if len(shape) > 1:
        return _over_axes(checked, start, shape) or Identification(zero_rows=checked.zero_rows)
    fits = []
    for layout, functions in itertools.product(LAYOUTS, ORDERS):
        angles = measure(checked, layout, functions)
        if angles is not None:
            candidates = _candidates(checked, angles, start, layout, functions)
            fits += [fit for fit in (_fit(checked, candidate) for candidate in candidates) if fit.misfit <= 1]
    for _, group in itertools.groupby(sorted(fits, key=_Fit.rarity), key=_Fit.rarity):
        equally_rare = list(group)
        # The misfits also contain rounding errors of the source, so candidates with similar misfits are equally likely.
        # The candidates with common parameters come first.
        accepted = 2 * min(fit.misfit for fit in equally_rare) + 0.1
        for fit in equally_rare:
            if fit.misfit <= accepted:
                settings = fit.candidate.settings
                encoding = sinusoidal(checked.whole.shape[1], scale=fit.scale, **settings)
                answer = _answer(checked, fit, encoding, _presets_like(encoding, settings))
                if answer is not None:
                    return answer
    # if no preset matches, `by_name` has no encoding, and names the closest preset if one is close
    by_name = _by_name(checked, start)
    return by_name or _over_axes(checked, start, None) or by_name


def _checked(table: npt.ArrayLike) -> tuple[Table, tuple[int, ...]]:
    """Return (checked table, shape of its rows).

    The shape has one number for a table of consecutive positions, and two or three for a grid. It does not contain axes
    of length 1, or leading axes along which all values are equal.
    """
    array, form = numbers_of(table, "table")
    float_type(array.dtype, "table")
    whole = array.shape
    if array.ndim > 2:
        array = array.reshape(*(n for n in whole[:-1] if n != 1), whole[-1])
        while array.ndim > 2 and len(array) and (array == array[:1]).all():
            array = array[0]
    shape = array.shape[:-1]
    if not 0 < len(shape) < 4 or whole[-1] == 0:
        raise ValueError(
            f"table has shape {whole}, but must have shape (rows, columns), or (n0, n1, columns) or (n0, n1, n2, columns) "
            "for a grid, with at least one column"
        )
    array = array.reshape(math.prod(shape), whole[-1])
    values = array[:_ROWS].astype(np.float64)
    # test a block of rows at a time, because tables may be large; an empty table has one empty block
    blocks = [array[i : i + _ROWS] for i in range(0, max(len(array), 1), _ROWS)]
    if not all(np.isfinite(block.astype(np.float64)).all() for block in blocks):
        raise ValueError(
            "table has values that are not finite; set the rows with these values to 0, because rows of zeros are "
            "ignored"
        )
    is_zero = np.concatenate([(block == 0).all(axis=1) for block in blocks])
    rows = np.flatnonzero(~is_zero[:_ROWS])
    if len(rows) < LEAST_ROWS:
        raise ValueError(
            f"table has numbers other than 0 in only {len(rows)} of the first {len(is_zero[:_ROWS])} rows, but needs "
            f"at least {LEAST_ROWS} such rows"
        )
    return Table(array, values, rows, tuple(np.flatnonzero(is_zero).tolist()), form), shape


def _candidates(
    table: Table, angles: Angles, start: float | None, layout: Layout, functions: tuple[Function, ...]
) -> Iterator[_Candidate]:
    """Yield encodings with about these angles. Encodings with common parameters come first."""
    d, odd = table.values.shape[1], odd_of(table)
    if start is None:
        estimate = start_of(angles)
        starts = [round(estimate), estimate] if abs(estimate - round(estimate)) < 0.2 else [estimate]
    else:
        starts = [start]
    half, count = (d // 2, d // 2) if odd == "zero" else (d / 2, -(-d // 2))
    progressions: list[dict[str, Any]] = [*schedules(angles, half)]
    if angles.known.all() and len(angles.frequencies) == count:
        # the last candidate has exactly the measured frequencies, if each column belongs to a measured pair
        progressions.append({"frequencies": angles.frequencies})
    column_order: dict[str, Any] = {"layout": layout, "functions": functions, "odd": odd}
    # Use the numbers 1, 2, .. as frequencies, so that the frequency of a column is the number of its pair.
    template = sinusoidal(d, frequencies=np.arange(1.0, count + 1), **column_order)
    columns = template.frequencies.astype(np.intp) - 1
    for first_position, schedule in itertools.product(starts, progressions):
        frequencies = schedule.get("frequencies")
        if frequencies is None:
            exponents = -np.arange(count) / (half - schedule["freq_shift"])
            frequencies = schedule["first"] * schedule["base"] ** exponents
        settings = {**schedule, **column_order}
        yield _Candidate(
            frequencies[columns], template.phases, template.amplitudes, first_position, angles.step, settings
        )


# ---- comparison -------------------------------------------------------------------------------------------------


def _fit(table: Table, candidate: _Candidate) -> _Fit:
    """Compare a candidate, multiplied by the best factor, with the first and the last of the measured rows."""
    rows = table.rows if len(table.rows) <= 2 * _SAMPLE else np.r_[table.rows[:_SAMPLE], table.rows[-_SAMPLE:]]
    values, angles = table.values[rows], candidate.angles(rows)
    expected = candidate.amplitudes * np.sin(angles + 2 * np.pi * candidate.phases)
    scale = scale_of(table, values, expected)
    difference = np.abs(values - scale * expected)
    misfit = float((difference / tolerated(table, values, angles, scale)).max())
    return _Fit(misfit, float(difference.max()), scale, candidate)


def _compare(table: Table, fit: _Fit, encoding: Encoding) -> tuple[float, float]:
    """Compare all rows, except rows of zeros, with an encoding.

    Return (largest quotient of a difference and the tolerated difference, largest difference).
    """
    count = max(1, BLOCK // table.whole.shape[1])
    not_zero = np.ones(len(table.whole), bool)
    not_zero[list(table.zero_rows)] = False
    start: Any = fit.candidate.start
    step = fit.candidate.step
    misfit = error = 0.0
    for first in range(0, len(table.whole), count):
        compared = not_zero[first : first + count]
        values = table.whole[first : first + count].astype(np.float64)[compared]
        expected = encoding.table(len(compared), start=start + first * step, step=step, dtype=np.float64)[compared]
        difference = np.abs(values - expected)
        rows = first + np.flatnonzero(compared)
        allowed = tolerated(table, values, fit.candidate.angles(rows), fit.scale)
        misfit = max(misfit, float((difference / allowed).max(initial=0.0)))
        error = max(error, float(difference.max(initial=0.0)))
    return misfit, error


def _answer(table: Table, fit: _Fit, encoding: Encoding, presets: tuple[str, ...]) -> Identification | None:
    """Return the identification if all rows match the encoding, else None. presets: names of the encoding's presets."""
    misfit, error = _compare(table, fit, encoding)
    if misfit > 1:
        return None
    settings = fit.candidate.settings
    known: dict[str, Any] = {name: settings.get(name) for name in ("base", "freq_shift", "first", "layout")}
    return Identification(
        presets=presets,
        encoding=encoding,
        start=fit.candidate.start,
        step=fit.candidate.step,
        functions=settings.get("functions", ()),
        scale=fit.scale,
        zero_rows=table.zero_rows,
        error=error,
        **known,
    )


# ---- presets ----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def _by_width(d: int, base: float | None = None) -> tuple[tuple[str, Encoding], ...]:
    """Return (name, encoding) of each preset of one axis with this width.

    Without a base, all presets have their default parameters. With a base, only presets that accept a base are
    returned, built with this base. The tables of one file have few widths and bases, so a few results, of about 0.7 d
    KiB each, are cached.
    """
    found = []
    for name in names():
        preset = facts(name)
        if not preset.by_width:
            continue
        keywords = set(inspect.unwrap(preset.build).__kwdefaults__ or {}).intersection(_BASE_NAMES)
        for options in [{}] if base is None else [{keyword: base} for keyword in keywords]:
            build: Callable[..., Any] = preset.build
            try:
                encoding = build(d, **options)
            except ValueError:
                # the source of the preset does not support this width
                continue
            if encoding.ndim == 1 and encoding.d_model == d:
                found.append((name, encoding))
    return tuple(found)


def _presets_like(encoding: Encoding, settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the presets that equal an encoding or, if there are none, that equal it up to a factor."""
    exact: set[str] = set()
    scaled: set[str] = set()
    base = settings.get("base")
    for name, other in _by_width(encoding.d_model) + (() if base is None else _by_width(encoding.d_model, base)):
        if np.array_equal(other.phases, encoding.phases) and np.allclose(
            other.frequencies, encoding.frequencies, rtol=1e-9, atol=0
        ):
            largest = np.abs(other.amplitudes).argmax()
            factor = encoding.amplitudes[largest] / (other.amplitudes[largest] or 1.0)
            if np.allclose(other.amplitudes * factor, encoding.amplitudes, rtol=1e-9, atol=0):
                (exact if abs(factor - 1) < 1e-9 else scaled).add(name)
    return tuple(sorted(exact or scaled))


def _by_name(table: Table, start: float | None) -> Identification:
    """Return the identification of a table as a preset of its width.

    If no preset matches, the identification has no encoding, and names the closest preset if it is close.
    """
    names_of: dict[Encoding, list[str]] = {}
    for name, encoding in _by_width(table.whole.shape[1]):
        names_of.setdefault(encoding, []).append(name)
    fits = [
        (_fit(table, _Candidate(preset.frequencies, preset.phases, preset.amplitudes, first_position, 1, {})), preset)
        for preset, first_position in itertools.product(names_of, _STARTS if start is None else (start,))
    ]
    if not fits:
        return Identification(zero_rows=table.zero_rows)
    # among encodings that differ only by a factor, prefer factor 1
    fit, encoding = min(fits, key=lambda pair: (pair[0].misfit, abs(math.log(abs(pair[0].scale) or 1e-300))))
    if fit.misfit <= 1:
        answer = _answer(table, fit, _times(encoding, fit.scale), tuple(names_of[encoding]))
        if answer is not None:
            return answer
    fit, encoding = min(fits, key=lambda pair: (round(pair[0].error, 6), abs(math.log(abs(pair[0].scale) or 1e-300))))
    _, error = _compare(table, fit, _times(encoding, fit.scale))
    is_close = error <= NEAR * abs(fit.scale) * np.abs(encoding.amplitudes).max()
    return Identification(
        start=fit.candidate.start,
        scale=fit.scale,
        zero_rows=table.zero_rows,
        error=error,
        closest=names_of[encoding][0] if is_close else None,
    )


def _over_axes(table: Table, start: float | None, shape: tuple[int, ...] | None) -> Identification | None:
    """Return the identification of a table as a preset of several axes, or None if none matches.

    shape: shape of the grid. If it is None, all shapes with one point per row are tried.
    """
    fit = fit_grid(table, start, shape)
    if fit is None:
        return None
    first = fit.axes[0]
    return Identification(
        presets=fit.presets,
        encoding=_times(fit.encoding, fit.scale),
        start=first.start if isinstance(first, range) else 0,
        scale=fit.scale,
        zero_rows=table.zero_rows,
        error=fit.error,
        axes=fit.axes,
    )


def _times(encoding: Encoding, scale: float) -> Encoding:
    if scale == 1:
        return encoding
    return Encoding._of(encoding._sinusoids.with_(amplitudes=scale * encoding.amplitudes))
