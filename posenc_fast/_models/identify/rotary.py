"""Identify a rotary encoding from frequencies, tables of cosines and sines, or rotated vectors.

Vectors before and after the rotation are converted to complex numbers, one for each token and pair. The input is first
compared with presets. If no preset fits, frequencies are measured and compared with known formulas.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.numbers.arguments import check_width, count_of
from ..._core.numbers.arrays import Array, Floats
from ..._core.positions.conversion import convert
from ..._core.positions.foreign import numbers_of
from ..._core.rotary.pairs import LAYOUTS, source_and_target
from ..._core.rotary.value import Rotary
from ...presets._registry import FACTS
from ...typing import RotaryLayout
from .angles import NEAR
from .calls import Shown, call_of
from .rotations import Sample, columns_of, complex_pairs, frequencies_in, guesses

# At most _HEADS heads and _TOKENS tokens are compared.
_HEADS, _TOKENS = 16, 1024


@dataclass(frozen=True)
class RotaryIdentification(Shown):
    """The rotary encoding of frequencies, tables or rotated vectors.

    ``bool(identification)`` is False if nothing was found.

    Parameters
    ----------
    presets : tuple of str
        Names of the presets that equal this encoding, with their defaults or with the identified width and base.
    rotary : Rotary or None
        The encoding. None if nothing was found.
    layout : str or None
        Argument of `Rotary`; None for frequencies and for tables with one column per pair, which do not determine it.
    direction : int
        1 if pairs rotate from the first value towards the second, -1 if backwards, 0 if pairs differ or nothing was
        found.
    base : float or None
        Argument of `Rotary`; None if the frequencies, without their scaling, are not powers of one number.
    scaling : dict or None
        Argument of `Rotary`; None if the frequencies have no scaling.
    sections : tuple of int or None
        Axis of the position for each pair; None for one axis.
    rotary_dim : int
        Number of values that rotate.
    attention_factor : float
        Factor of cosines and sines.
    error : float
        Largest difference from the cosines and sines or from the rotated values; for frequencies, the largest relative
        difference. If nothing was found, the error of the nearest preset, or infinity if no preset has the width.
    closest : str or None
        The nearest preset if nothing was found, and if ``error`` is at most half of the largest cosine (for vectors, of
        the largest rotated value) that this preset can produce.
    """

    presets: tuple[str, ...] = ()
    rotary: Rotary | None = None
    layout: RotaryLayout | None = None
    direction: int = 0
    base: float | None = None
    scaling: dict[str, Any] | None = None
    sections: tuple[int, ...] | None = None
    rotary_dim: int = 0
    attention_factor: float = 1.0
    error: float = math.inf
    closest: str | None = None
    _kind = "rotary encoding"

    def __bool__(self) -> bool:
        return self.rotary is not None

    def _rows(self) -> dict[str, str]:
        if self.rotary is None:
            return {}
        direction = {1: "forwards", -1: "backwards", 0: "differs between pairs"}[self.direction]
        return {
            "presets": ", ".join(self.presets) or "none",
            "rotary": repr(self.rotary),
            "layout": self.layout or "undetermined",
            "direction": direction,
            "error": f"{self.error:.3g}",
            "call": call_of(self.rotary, self.presets),
        }


class _Fit(NamedTuple):
    """A rotary encoding, a sample, and the result of their comparison: the misfit and error from `Sample.compare`.

    preset: name of the preset that returns the encoding, or "" for an encoding from measured frequencies.
    """

    misfit: float
    error: float
    rotary: Rotary
    sample: Sample
    preset: str = ""

    def rarity(self) -> tuple[bool, bool, bool]:
        """Return a sort key that puts encodings of few axes, of whole heads and without a scaling first."""
        rotary = self.rotary
        return (
            rotary.ndim > self.sample.positions.shape[1],
            rotary.rotary_dim < rotary.head_dim,
            "scaling" in rotary._arguments(),
        )


def identify_rotary(
    *,
    frequencies: npt.ArrayLike | None = None,
    cos: npt.ArrayLike | None = None,
    sin: npt.ArrayLike | None = None,
    x: npt.ArrayLike | None = None,
    turned: npt.ArrayLike | None = None,
    positions: npt.ArrayLike | None = None,
    head_dim: int | None = None,
) -> RotaryIdentification:
    """Find the rotary encoding of a model from its frequencies, its tables, or vectors before and after rotation.

    Parameters
    ----------
    frequencies : array_like of shape (pairs,) or (pairs, axes), optional
        Radians per unit of position, such as a buffer ``inv_freq``.
    cos, sin : array_like of shape (..., tokens, columns), optional
        Tables with one or two columns per pair. The two columns of a pair are adjacent or half of the width apart. Axes
        of length 1 are ignored, and so are leading axes along which all values are equal. Without sin, cos must be
        complex or contain matrices ``(..., tokens, pairs, 2, 2)``.
    x, turned : array_like of shape (..., tokens, head_dim), optional
        Queries or keys before and after rotation.
    positions : array_like of shape (tokens,) or (tokens, axes), optional
        Positions of the tokens (default: 0, 1, .. on every axis).
    head_dim : int, optional
        Width of a head, if it is known (default: the width of x, or unknown).

    Returns
    -------
    RotaryIdentification
        A Rotary with its presets, layout, direction, base, scaling, sections and widths; or the closest preset, if
        it is close.

    Raises
    ------
    TypeError, ValueError
        If not exactly one of frequencies, cos and x is passed, or an argument is invalid.

    Notes
    -----
    Differences of a few roundings to the type (float64, float32, float16 or bfloat16) and the errors of float32 angles
    are allowed. In 16 bits, a few tokens near 0 do not determine the slowest pairs of x and turned, so all matching
    presets are named. Some models (GLM, ERNIE 4.5) store tables in one layout and rotate in the other. For these, only
    x and turned determine the layout. Frequencies that no known formula computes, such as learned ones, are not found.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> cos, sin = pf.Rotary(128, base=5e5).tables(16)
    >>> found = pf.identify_rotary(cos=np.tile(cos, 2)[None], sin=np.tile(sin, 2)[None])
    >>> found.base, found.layout, found.rotary_dim
    (500000.0, 'half', 128)
    >>> x = np.random.default_rng(0).normal(size=(4, 16, 64)).astype(np.float32)
    >>> pf.identify_rotary(x=x, turned=pf.presets.nanochat(64).apply(x)).direction
    -1
    >>> bool(pf.identify_rotary(x=x, turned=x[::-1]))
    False
    """
    sources = sum(argument is not None for argument in (frequencies, cos, x))
    if sources != 1:
        raise ValueError(f"pass exactly one of frequencies, cos (with sin), and x (with turned), not {sources} of them")
    if sin is not None and cos is None:
        raise ValueError("sin needs cos; pass both")
    if turned is not None and x is None:
        raise ValueError("turned needs x; pass both")
    head = None if head_dim is None else count_of(head_dim, "head_dim", 2)
    if head is not None:
        check_width(head, "head_dim")
    if frequencies is not None:
        samples = [_of_frequencies(frequencies, positions, head)]
    elif cos is not None:
        samples = list(_of_tables(cos, sin, positions, head))
    elif turned is None:
        raise ValueError("x needs turned, the same vectors after rotation")
    else:
        samples = list(_of_vectors(x, turned, positions, head))
    fits = _compared(samples, _defaults() + _with_widths_of(samples))
    return _named(fits) or _measured(samples) or _closest(fits)


# ---- arguments --------------------------------------------------------------------------------------------------


def _array(value: Any, name: str) -> tuple[Array, int]:
    """Return (float64 or complex array, index of the original format in `FORMATS`). All values must be finite."""
    array, form = numbers_of(value, name)
    if array.dtype.kind != "c":
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite; pass only finite numbers")
    return array, form.kind


def _checked_positions(positions: Any, tokens: int) -> Floats:
    if positions is None:
        return np.arange(tokens, dtype=np.float64)[:, np.newaxis]
    array = np.asarray(positions)
    if array.ndim not in (1, 2) or len(array) != tokens or array.size == 0:
        raise ValueError(f"positions has shape {array.shape}, but must have shape ({tokens},) or ({tokens}, axes)")
    convert(positions, 1 if array.ndim == 1 else array.shape[1])
    values = array.astype(np.float64).reshape(tokens, -1)
    if not np.isfinite(values).all():
        raise ValueError("positions has values that are not finite; pass only finite numbers")
    if (values == values[0]).all():
        raise ValueError(f"all positions are {array[0].tolist()!r}; pass at least two different positions")
    return values


def _of_frequencies(frequencies: Any, positions: Any, head: int | None) -> Sample:
    if positions is not None:
        raise ValueError("frequencies do not depend on positions; pass frequencies without positions")
    values, kind = _array(frequencies, "frequencies")
    if values.dtype.kind == "c" or values.ndim not in (1, 2) or values.size == 0:
        raise ValueError(
            f"frequencies must be real numbers of shape (pairs,) or (pairs, axes), not {values.dtype} of shape "
            f"{values.shape}"
        )
    values = values.reshape(len(values), -1)
    no_tokens = np.zeros((0, 1, len(values)), np.complex128)
    return Sample(None, no_tokens, np.zeros((0, values.shape[1])), kind, None, head, values)


def _of_tables(cos: Any, sin: Any, positions: Any, head: int | None) -> Iterator[Sample]:
    """Yield a sample for each order of columns that the tables may have."""
    values, kind = _array(cos, "cos")
    if sin is None:
        if values.dtype.kind != "c" and values.shape[-2:] == (2, 2):
            # the first column of a rotation matrix has the cosine and the sine
            values = values[..., 0, 0] + 1j * values[..., 1, 0]
        if values.dtype.kind != "c":
            raise ValueError(
                f"without sin, cos must be complex or have shape (.., pairs, 2, 2), but is real of shape {values.shape}"
            )
    else:
        sines, _ = _array(sin, "sin")
        if values.dtype.kind == "c" or sines.dtype.kind == "c" or values.shape != sines.shape:
            raise ValueError(
                f"cos and sin must be real and have the same shape, not {values.dtype} {values.shape} and "
                f"{sines.dtype} {sines.shape}"
            )
        values = values + 1j * sines
    if values.size == 0:
        raise ValueError(f"cos has shape {values.shape}, but must not be empty")
    *outer, columns = values.shape or (1,)
    table = values.reshape([n for n in outer if n != 1] + [columns])
    while table.ndim > 2:
        if (table != table[:1]).any():
            raise ValueError(f"cos has shape {values.shape}, and contains several different tables; pass one of them")
        table = table[0]
    table = table.reshape(-1, columns)
    if len(table) < 2:
        raise ValueError(
            f"cos has shape {values.shape}, but must have shape (.., tokens, columns), with at least two tokens"
        )
    if (table == table[0]).all():
        # all rows are equal, for example because no pair rotates
        return
    positions = _checked_positions(positions, len(table))[:_TOKENS]
    table = table[:_TOKENS, np.newaxis]
    if columns % 2 == 0:
        layouts: tuple[RotaryLayout, ...] = ("half", "interleaved")
        for layout in layouts:
            # some tables have two equal columns per pair
            first, second = (table[..., part] for part in columns_of(layout, columns))
            if (first == second).all():
                yield Sample(None, first, positions, kind, layout, head)
    yield Sample(None, table, positions, kind, None, head)


def _of_vectors(x: Any, turned: Any, positions: Any, head: int | None) -> Iterator[Sample]:
    """Yield a sample for each layout and each number of values that may rotate.

    The values after these are equal in ``x`` and ``turned``.
    """
    before, kind_before = _array(x, "x")
    after, kind_after = _array(turned, "turned")
    real = before.dtype.kind != "c" and after.dtype.kind != "c"
    if before.shape != after.shape or before.ndim < 2 or not real or before.size == 0 or before.shape[-2] < 2:
        raise ValueError(
            f"x has shape {before.shape} and turned has shape {after.shape}, but both must be real and of one "
            "shape (.., tokens, head_dim), with at least two tokens"
        )
    width, tokens = before.shape[-1], before.shape[-2]
    if head not in (None, width):
        raise ValueError(f"head_dim={head} differs from the width of x, which has shape {before.shape}")
    positions = _checked_positions(positions, tokens)[:_TOKENS]
    # (tokens, heads, width)
    before, after = (
        array.reshape(-1, tokens, width)[:_HEADS, :_TOKENS].transpose(1, 0, 2) for array in (before, after)
    )
    # tokens of zeros, such as padding, contain no angles
    used = (before != 0).any(axis=(1, 2))
    before, after, positions = before[used], after[used], positions[used]
    changed = np.flatnonzero((before != after).any(axis=(0, 1)))
    if not len(changed):
        return
    # Try the smallest width that contains all changed values. Slow pairs may be unchanged, so also try k / 8 of the
    # head for k from 1 to 8, and the widths of presets.
    smallest = (int(changed[-1]) + 2) // 2 * 2
    widths = {width * k // 16 * 2 for k in range(1, 9)}
    widths |= {rotary.rotary_dim for _, rotary in _defaults() if rotary.head_dim == width}
    for dim in sorted({smallest, *widths}):
        if smallest <= dim <= width:
            for layout in LAYOUTS:
                source, target = source_and_target(layout)
                pairs_before, pairs_after = complex_pairs(before, source, dim), complex_pairs(after, target, dim)
                yield Sample(pairs_before, pairs_after, positions, max(kind_before, kind_after), layout, width)


# ---- presets ----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _defaults() -> tuple[tuple[str, Rotary], ...]:
    """Return (name, Rotary) of each rotary preset whose parameters all have defaults, built with these defaults.

    A preset whose layers with a sliding window have another encoding occurs twice.
    """
    presets: list[tuple[str, Rotary]] = []
    for name in sorted(FACTS):
        facts = FACTS[name]
        parameters = inspect.signature(facts.build).parameters if facts.rotary else {}
        if facts.rotary and all(p.default is not p.empty for p in parameters.values()):
            for options in ({}, {"layer_type": "sliding_attention"}) if "layer_type" in parameters else ({},):
                rotary = _preset_rotary(name, **options)
                if rotary is not None:
                    presets.append((name, rotary))
    return tuple(presets)


def _preset_rotary(name: str, **options: Any) -> Rotary | None:
    """Return the Rotary of a preset, or None if its source does not support the width."""
    build: Any = FACTS[name].build
    try:
        rotary: Rotary = build(**options)
    except ValueError:
        return None
    return rotary


@functools.lru_cache(maxsize=64)
def _of_width(pairs: int, head: int | None, theta: float | None = None) -> tuple[tuple[str, Rotary], ...]:
    """Return (name, Rotary) of each preset whose head_dim can be chosen to rotate this number of pairs.

    head: head width, or None if it is unknown. theta: base (default: the base of the preset).
    """
    presets = []
    for name, default in _defaults():
        parameters = inspect.signature(FACTS[name].build).parameters
        if "head_dim" not in parameters or (theta is not None and "theta" not in parameters):
            continue
        options: dict[str, Any] = {} if theta is None else {"theta": theta}
        if head is not None:
            options["head_dim"] = head
        elif default.rotary_dim == default.head_dim:
            options["head_dim"] = 2 * pairs
        elif default.rotary_dim == 2 * pairs:
            options["head_dim"] = default.head_dim
        else:
            # if a preset rotates a part of the head, the number of pairs does not determine the head width
            continue
        rotary = _preset_rotary(name, **options)
        if rotary is not None and rotary.rotary_dim == 2 * pairs:
            presets.append((name, rotary))
    return tuple(presets)


def _with_widths_of(samples: list[Sample], theta: float | None = None) -> tuple[tuple[str, Rotary], ...]:
    """Return (name, Rotary) of the presets with the widths of the samples, and with the base theta, if given."""
    widths = dict.fromkeys((sample.pairs, sample.head_dim) for sample in samples)
    return tuple(preset for pairs, head in widths for preset in _of_width(pairs, head, theta))


def _frequencies_for(sample: Sample, rotary: Rotary) -> Floats | None:
    """Return the frequencies (pairs, axes) of a Rotary for the axes of a sample.

    If the sample has one axis and the Rotary has several, the frequencies of all axes are added, because tokens of a
    text have the same position on each axis. If the sample has only frequencies, this is done only if each pair of the
    Rotary uses one axis. In other cases, return None if the numbers of axes differ.
    """
    values = rotary._angles_of("cos").frequencies
    values = values.reshape(len(values), -1)
    axes = sample.positions.shape[1]
    if values.shape[1] == axes:
        return values
    if axes == 1 and (sample.frequencies is None or rotary._settings.axes is not None):
        return np.asarray(values.sum(axis=1, keepdims=True))
    return None


def _compared(samples: list[Sample], presets: tuple[tuple[str, Rotary], ...]) -> list[_Fit]:
    """Compare each preset with the samples that have its widths, and for vectors its layout. Return the comparisons."""
    fits = []
    for name, rotary in presets:
        for sample in samples:
            if rotary.rotary_dim != 2 * sample.pairs or sample.head_dim not in (None, rotary.head_dim):
                continue
            # Only vectors must have the layout of the preset. Tables may have another layout, as those of DeepSeek do.
            if sample.before is not None and sample.layout != rotary.layout:
                continue
            frequencies = _frequencies_for(sample, rotary)
            if frequencies is not None:
                misfit, error = sample.compare(frequencies, rotary.attention_factor)
                fits.append(_Fit(misfit, error, rotary, sample, name))
    return fits


def _named(fits: list[_Fit]) -> RotaryIdentification | None:
    """Return the identification for the preset that matches best. It names all presets that match about as well.

    Return None if no preset matches.
    """
    fits = [fit for fit in fits if fit.misfit <= 1]
    if not fits:
        return None
    # prefer samples with a known layout: their tables had two equal columns per pair
    fits = [fit for fit in fits if fit.sample.layout is not None] or fits
    least = min(fit.misfit for fit in fits)
    fits = [fit for fit in fits if fit.misfit <= 2 * least + 0.1]
    best = min(fits, key=lambda fit: (round(fit.misfit, 1), fit.rarity(), fit.preset))
    return replace(_described(best), presets=tuple(sorted({fit.preset for fit in fits})))


def _described(fit: _Fit) -> RotaryIdentification:
    """Return the identification of a matching encoding, without names of presets."""
    rotary, layout = fit.rotary, fit.sample.layout
    if layout is not None and layout != rotary.layout and fit.sample.before is None:
        rotary = type(rotary)(rotary.head_dim, **{**rotary._arguments(), "layout": layout})
    values = rotary.frequencies
    signs = {int(sign) for sign in np.sign(values).reshape(-1)} - {0}
    return RotaryIdentification(
        rotary=rotary,
        layout=layout,
        direction=signs.pop() if len(signs) == 1 else 0,
        base=_base_of(rotary),
        scaling=rotary._arguments().get("scaling"),
        sections=rotary._settings.axes,
        rotary_dim=rotary.rotary_dim,
        attention_factor=rotary.attention_factor,
        error=fit.error,
    )


def _base_of(rotary: Rotary) -> float | None:
    """Return the base if the frequencies of every axis, without their scaling, are powers of one number, else None."""
    schedules = rotary._settings.frequencies
    if schedules is None:
        return rotary._settings.base
    bases = set()
    for schedule in schedules:
        values = np.abs(np.asarray(schedule))
        if len(values) < 2 or not values.all():
            return None
        logs = np.log(values)
        # frequency i is first * base ** (-i / pairs), so the logarithms fall by log(base) / pairs
        fall = (logs[0] - logs[-1]) / (len(values) - 1)
        if np.abs(logs - (logs[0] - fall * np.arange(len(values)))).max() > 1e-6:
            return None
        bases.add(float(f"{math.exp(fall * len(values)):.7g}"))
    return bases.pop() if len(bases) == 1 else None


def _closest(fits: list[_Fit]) -> RotaryIdentification:
    """Return an identification without an encoding, which names the closest preset if it is close."""
    if not fits:
        return RotaryIdentification()
    closest = min(fits, key=lambda fit: fit.error)
    # cosines and sines are at most 1, before they are multiplied by the attention factor
    before = closest.sample.before
    largest = closest.rotary.attention_factor * (1.0 if before is None else float(np.abs(before).max()))
    is_close = closest.error <= NEAR * largest
    return RotaryIdentification(closest=closest.preset if is_close else None, error=closest.error)


# ---- frequencies that no preset has ---------------------------------------------------------------------------------


def _measured(samples: list[Sample]) -> RotaryIdentification | None:
    """Return the identification for the first known formula that matches the measured frequencies, or None."""
    for sample in samples:
        measured = frequencies_in(sample)
        for guess, sections in guesses(measured) if measured is not None else ():
            # (pairs, axes), or (pairs, 1) for one axis
            frequencies = guess.frequencies[:, np.newaxis]
            if sections is not None:
                frequencies = frequencies * (np.asarray(sections)[:, np.newaxis] == np.arange(max(sections) + 1))
            misfit, error = sample.compare(frequencies, guess.factor)
            if misfit > 1:
                continue
            dim, layout = 2 * sample.pairs, sample.layout or "half"
            rotary = Rotary(sample.head_dim or dim, rotary_dim=dim, layout=layout, sections=sections, **guess.arguments)
            base = _base_of(rotary)
            others = _compared([sample], _with_widths_of([sample], base)) if base is not None else []
            names = {fit.preset for fit in others if fit.misfit <= 1}
            return replace(_described(_Fit(misfit, error, rotary, sample)), presets=tuple(sorted(names)))
    return None
