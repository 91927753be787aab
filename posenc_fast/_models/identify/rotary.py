"""Identify a rotary encoding from frequencies, tables of cosines and sines, or rotated vectors.

Vectors before and after the rotation are converted to complex numbers, one for each token and pair. They are first
compared with presets. If no preset fits, frequencies are measured and compared with the formulas of sources.
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
    """The rotary encoding of frequencies, tables or rotated vectors. True if one was found.

    Parameters
    ----------
    presets : tuple of str
        Names of the presets that equal this encoding, with their defaults or with the identified width and base.
    rotary : Rotary or None
        The encoding. None if nothing was found.
    layout : str or None
        Argument of `Rotary`; None for frequencies and for tables with one column a pair, which do not contain it.
    direction : int
        1 if pairs rotate from the first value towards the second, -1 if backwards, 0 if pairs differ.
    base : float or None
        Argument of `Rotary`; None if the frequencies are not powers of one number.
    scaling : dict or None
        Argument of `Rotary`.
    sections : tuple of int or None
        Axis of the position for each pair; None for one axis.
    rotary_dim : int
        Number of values that rotate.
    attention_factor : float
        Factor of cosines and sines.
    error : float
        Largest difference from the cosines and sines or from the rotated values; for frequencies, the largest relative
        difference.
    closest : str or None
        The nearest preset if nothing was found, and if this preset differs by at most half of its largest value.
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
    """A rotary encoding, a sample, and the result of their comparison: the misfit and error from `Sample.compare`."""

    misfit: float
    error: float
    rotary: Rotary
    sample: Sample

    def rarity(self) -> tuple[bool, bool, bool]:
        """Return a sort key that puts encodings of one axis, of whole heads and without a scaling first."""
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
        one is close.

    Raises
    ------
    TypeError, ValueError
        If not exactly one of frequencies, cos and x is passed, or an argument is invalid.

    Notes
    -----
    Differences up to the rounding of the type (float64, float32, float16 or bfloat16) and the errors of float32 angles
    are allowed. In 16 bits, a few tokens near 0 do not determine the slowest pairs of x and turned, so all matching
    presets are named. Some models (GLM, ERNIE 4.5) store tables in one layout and rotate in the other. For these, only
    x and turned determine the layout. Learned frequencies are measured, but match no preset.

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
    ways = {"frequencies": frequencies is not None, "cos": cos is not None, "x": x is not None}
    if sum(ways.values()) != 1:
        raise ValueError(
            "pass exactly one of frequencies, cos (with sin), and x (with turned), but the call has "
            f"{sum(ways.values())} of them"
        )
    for one, other, has in (("sin", "cos", sin is not None), ("turned", "x", turned is not None)):
        if has and not ways[other]:
            raise ValueError(f"{one} needs {other}; pass both")
    head = None if head_dim is None else count_of(head_dim, "head_dim", 2)
    if head is not None:
        check_width(head, "head_dim")
    if frequencies is not None:
        samples = [_of_frequencies(frequencies, positions, head)]
    elif cos is not None:
        samples = list(_of_tables(cos, sin, positions, head))
    else:
        assert x is not None
        if turned is None:
            raise ValueError("x needs turned, the same vectors after rotation")
        samples = list(_of_vectors(x, turned, positions, head))
    fits = _fitting(samples, _defaults() + _widths(samples))
    return _named(fits) or _measured(samples) or _closest(fits)


# ---- arguments --------------------------------------------------------------------------------------------------


def _array(value: Any, name: str) -> tuple[Array, int]:
    """Return (array, kind of its numbers). Raise an error for values that are not finite."""
    array, form = numbers_of(value, name)
    if array.dtype.kind != "c":
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite; leave out the tokens with these values")
    return array, form.kind


def _checked_positions(positions: Any, tokens: int) -> Floats:
    if positions is None:
        return np.arange(tokens, dtype=np.float64)[:, np.newaxis]
    array = np.asarray(positions)
    if array.ndim not in (1, 2) or len(array) != tokens or array.size == 0:
        raise ValueError(f"positions has shape {array.shape}, but must have shape ({tokens},) or ({tokens}, axes)")
    convert(positions, 1 if array.ndim == 1 else array.shape[1])
    values = array.astype(np.float64).reshape(tokens, -1)
    if not np.isfinite(values).all() or (values == values[0]).all():
        raise ValueError(f"positions must be finite, and not all the same, not {positions!r}")
    return values


def _of_frequencies(frequencies: Any, positions: Any, head: int | None) -> Sample:
    if positions is not None:
        raise ValueError("frequencies do not depend on positions; pass frequencies without positions")
    values, kind = _array(frequencies, "frequencies")
    if values.dtype.kind == "c" or values.ndim not in (1, 2) or values.size == 0:
        raise ValueError(
            f"frequencies has shape {values.shape}, but must be real numbers of shape (pairs,) or (pairs, axes)"
        )
    values = values.reshape(len(values), -1)
    no_tokens = np.zeros((0, 1, len(values)), np.complex128)
    return Sample(None, no_tokens, np.zeros((0, values.shape[1])), kind, None, head, values)


def _of_tables(cos: Any, sin: Any, positions: Any, head: int | None) -> Iterator[Sample]:
    """Yield a sample for each order of columns that the tables may have."""
    first, kind = _array(cos, "cos")
    if sin is None:
        if first.dtype.kind != "c" and first.shape[-2:] == (2, 2):
            first = first[..., 0, 0] + 1j * first[..., 1, 0]
        if first.dtype.kind != "c":
            raise ValueError(
                f"without sin, cos must be complex or have shape (.., pairs, 2, 2), but is real of shape {first.shape}"
            )
    else:
        second, _ = _array(sin, "sin")
        if first.dtype.kind == "c" or second.dtype.kind == "c" or first.shape != second.shape:
            raise ValueError(
                f"cos and sin must be real and have the same shape, not {first.dtype} {first.shape} and {second.dtype} "
                f"{second.shape}"
            )
        first = first + 1j * second
    if first.size == 0:
        raise ValueError(f"cos has shape {first.shape}, but must not be empty")
    *outer, columns = first.shape or (1,)
    table = first.reshape([n for n in outer if n != 1] + [columns])
    while table.ndim > 2:
        if (table != table[:1]).any():
            raise ValueError(
                f"cos has shape {first.shape}, and differs along its first axis; pass one table, such as cos[0] and "
                "sin[0]"
            )
        table = table[0]
    table = table.reshape(-1, columns)
    if len(table) < 2:
        raise ValueError(
            f"cos has shape {first.shape}, but must have shape (.., tokens, columns), with at least two tokens"
        )
    if (table == table[0]).all():
        # all rows are equal: no pair rotates, or each pair rotates by whole turns
        return
    places = _checked_positions(positions, len(table))[:_TOKENS]
    table = table[:_TOKENS, np.newaxis]
    if columns % 2 == 0:
        layouts: tuple[RotaryLayout, ...] = ("half", "interleaved")
        for layout in layouts:
            one, other = (table[..., part] for part in columns_of(layout, columns))
            if (one == other).all():
                yield Sample(None, one, places, kind, layout, head)
    yield Sample(None, table, places, kind, None, head)


def _of_vectors(x: Any, turned: Any, positions: Any, head: int | None) -> Iterator[Sample]:
    """Yield a sample for each layout and each possible rotary width. Values after this width are unchanged."""
    before, kind = _array(x, "x")
    after, other = _array(turned, "turned")
    real = before.dtype.kind != "c" and after.dtype.kind != "c"
    if before.shape != after.shape or before.ndim < 2 or not real or before.size == 0 or before.shape[-2] < 2:
        raise ValueError(
            f"x has shape {before.shape} and turned has {after.shape}, but both must be real numbers of one shape "
            "(.., tokens, head_dim), with at least two tokens"
        )
    width, tokens = before.shape[-1], before.shape[-2]
    if head not in (None, width):
        raise ValueError(f"head_dim={head} differs from the width of x, which has shape {before.shape}")
    places = _checked_positions(positions, tokens)[:_TOKENS]
    some_heads = (array.reshape(-1, tokens, width)[:_HEADS, :_TOKENS] for array in (before, after))
    both = [heads.transpose(1, 0, 2) for heads in some_heads]
    # tokens of zeros, such as padding, contain no angles
    used = (both[0] != 0).any(axis=(1, 2))
    both, places = [array[used] for array in both], places[used]
    changed = np.flatnonzero((both[0] != both[1]).any(axis=(0, 1)))
    if not len(changed):
        return
    # Try the smallest width that contains all changed values. Slow pairs may be unchanged, so try common parts of a
    # head as well.
    least = (int(changed[-1]) + 2) // 2 * 2
    common = {width * k // 16 * 2 for k in range(1, 9)}
    common |= {rotary.rotary_dim for _, rotary in _defaults() if rotary.head_dim == width}
    for dim in sorted({least, *common}):
        if least <= dim <= width:
            for layout in LAYOUTS:
                pairs = zip(both, source_and_target(layout), strict=True)
                source, target = (complex_pairs(values, order, dim) for values, order in pairs)
                yield Sample(source, target, places, max(kind, other), layout, width)


# ---- presets ----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _defaults() -> tuple[tuple[str, Rotary], ...]:
    """Return (name, Rotary) of each preset with default arguments, and also of its sliding layers, if it has them."""
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
        rotary = build(**options)
    except ValueError:
        return None
    return rotary if isinstance(rotary, Rotary) else None


@functools.lru_cache(maxsize=64)
def _scaled(pairs: int, head: int | None, theta: float | None = None) -> tuple[tuple[str, Rotary], ...]:
    """Return (name, Rotary) of each preset whose head_dim can be chosen to rotate this number of pairs.

    head: head width, or None if it is unknown. theta: base (default: the base of the preset).
    """
    presets = []
    for name, default in _defaults():
        parameters = inspect.signature(FACTS[name].build).parameters
        if "head_dim" not in parameters or (theta is not None and "theta" not in parameters):
            continue
        # if the head width is unknown, leave out presets that rotate only a part of the head
        if head is None and default.rotary_dim not in (default.head_dim, 2 * pairs):
            continue
        width = default.head_dim * 2 * pairs / default.rotary_dim if head is None else head
        options: dict[str, Any] = {"head_dim": int(width)}
        if theta is not None:
            options["theta"] = theta
        rotary = _preset_rotary(name, **options) if width == int(width) else None
        if rotary is not None and rotary.rotary_dim == 2 * pairs:
            presets.append((name, rotary))
    return tuple(presets)


def _matrix(rotary: Rotary, axes: int, by_pair: bool) -> Floats | None:
    """Return the frequencies (pairs, axes) of a Rotary for positions with this number of axes, or None.

    The result is None if the Rotary has another number of axes. For one axis, the frequencies of all axes are added,
    because tokens of a text have the same position on each axis. by_pair: whether the sample consists of frequencies.
    """
    values = rotary._angles_of("cos").frequencies
    values = values.reshape(len(values), -1)
    if values.shape[1] == axes:
        return values
    if axes == 1 and (not by_pair or rotary._settings.axes is not None):
        return np.asarray(values.sum(axis=1, keepdims=True))
    return None


def _fitting(samples: list[Sample], presets: tuple[tuple[str, Rotary], ...]) -> list[tuple[str, _Fit]]:
    """Return (name, fit) for every preset and each sample with the same layout and number of pairs."""
    fits = []
    for name, rotary in presets:
        for sample in samples:
            if rotary.rotary_dim != 2 * sample.pairs or sample.head_dim not in (None, rotary.head_dim):
                continue
            # Only vectors must have the layout of the preset. DeepSeek's tables have the layout before the rotation.
            if sample.before is not None and sample.layout != rotary.layout:
                continue
            matrix = _matrix(rotary, sample.positions.shape[1], sample.frequencies is not None)
            if matrix is not None:
                factor = 1.0 if sample.frequencies is not None else rotary.attention_factor
                fits.append((name, _Fit(*sample.compare(matrix, factor), rotary, sample)))
    return fits


def _widths(samples: list[Sample], theta: float | None = None) -> tuple[tuple[str, Rotary], ...]:
    """Return (name, Rotary) of the presets with the widths of the samples, and with the base theta, if given."""
    widths = dict.fromkeys((sample.pairs, sample.head_dim) for sample in samples)
    return tuple(preset for pairs, head in widths for preset in _scaled(pairs, head, theta))


def _named(compared: list[tuple[str, _Fit]]) -> RotaryIdentification | None:
    """Return the identification as the best matching preset, or None. It names all presets that match about as well."""
    fits = [(name, fit) for name, fit in compared if fit.misfit <= 1]
    if not fits:
        return None
    # prefer samples with a known layout: their tables had two equal columns per pair
    fits = [one for one in fits if one[1].sample.layout is not None] or fits
    least = min(fit.misfit for _, fit in fits)
    fits = [(name, fit) for name, fit in fits if fit.misfit <= 2 * least + 0.1]
    best = min(fits, key=lambda one: (round(one[1].misfit, 1), one[1].rarity(), one[0]))[1]
    return replace(_described(best), presets=tuple(sorted({name for name, _ in fits})))


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
    """Return the base if the frequencies of every axis are powers of the same number, else None."""
    schedules = rotary._settings.frequencies
    if schedules is None:
        return rotary._settings.base
    bases = set()
    for schedule in schedules:
        values = np.abs(np.asarray(schedule))
        if len(values) < 2 or not values.all():
            return None
        logs = np.log(values)
        fall = (logs[0] - logs[-1]) / (len(values) - 1)
        if np.abs(logs - (logs[0] - fall * np.arange(len(values)))).max() > 1e-6:
            return None
        bases.add(float(f"{math.exp(fall * len(values)):.7g}"))
    return bases.pop() if len(bases) == 1 else None


def _closest(compared: list[tuple[str, _Fit]]) -> RotaryIdentification:
    if not compared:
        return RotaryIdentification()
    name, fit = min(compared, key=lambda one: one[1].error)
    before = fit.sample.before
    largest = fit.rotary.attention_factor * (1.0 if before is None else float(np.abs(before).max()))
    return RotaryIdentification(closest=name if fit.error <= NEAR * largest else None, error=fit.error)


# ---- frequencies of no preset ---------------------------------------------------------------------------------------


def _measured(samples: list[Sample]) -> RotaryIdentification | None:
    """Return the identification as the first known formula that matches the measured frequencies, or None."""
    for sample in samples:
        measured = frequencies_in(sample)
        for guess, sections in guesses(measured) if measured is not None else ():
            matrix = guess.frequencies[:, np.newaxis]
            if sections is not None:
                matrix = matrix * (np.asarray(sections)[:, np.newaxis] == np.arange(sample.positions.shape[1]))
            misfit, error = sample.compare(matrix, 1.0 if sample.frequencies is not None else guess.factor)
            if misfit > 1:
                continue
            width = sample.head_dim or 2 * sample.pairs
            shape: dict[str, Any] = {
                "rotary_dim": 2 * sample.pairs,
                "layout": sample.layout or "half",
                "sections": sections,
            }
            fit = _Fit(misfit, error, Rotary(width, **guess.arguments, **shape), sample)
            base = _base_of(fit.rotary)
            others = _fitting([sample], _widths([sample], base)) if base is not None else []
            names = {name for name, other in others if other.misfit <= 1}
            return replace(_described(fit), presets=tuple(sorted(names)))
    return None
