"""Shared functions of rotary presets: check widths and sections, and build a Rotary of one or several axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from .._core.numbers.arguments import count_of
from .._core.numbers.arrays import Floats
from .._core.numbers.schedule import Schedule
from .._core.rotary.value import Rotary
from ..typing import LayerType, Precision, RotaryLayout
from . import _recipes
from ._build import ascending, positive, sequence_of, spectrum

__all__ = [
    "YARN",
    "alternating_axes",
    "axis_by_axis",
    "checked_layer_type",
    "checked_sections",
    "columns_first",
    "ltx_pairs",
    "ltx_rotary",
    "partial_dim",
    "per_axis_spectra",
    "whole_pairs",
    "with_spectra",
    "with_theta",
]

# arguments of YaRN scaling that several models share
YARN: dict[str, Any] = {"rope_type": "yarn", "original_max_position_embeddings": 4096}


def whole_pairs(value: Any, name: str, axes: int = 1) -> int:
    """Return a width. Raise ValueError unless it is a multiple of 2 * axes, so that each axis has whole pairs."""
    d = count_of(value, name, 2 * axes)
    if d % (2 * axes):
        larger = (d // (2 * axes) + 1) * 2 * axes
        whole = "values are rotated in pairs" if axes == 1 else f"each of {axes} axes has whole pairs"
        raise ValueError(f"{name}={d} must be a multiple of {2 * axes}, because {whole}; give {larger}, for example")
    return d


def partial_dim(head_dim: Any, factor: Any) -> int:
    """Return the number of values of a head to rotate: head_dim * factor, rounded down.

    Raise ValueError if the factor is above 1, or if the number is odd or below 2.
    """
    head, fraction = count_of(head_dim, "head_dim", 2), positive(factor, "partial_rotary_factor")
    if fraction > 1:
        raise ValueError(f"partial_rotary_factor must be at most 1, not {factor!r}")
    dim = int(head * fraction)
    if dim < 2 or dim % 2:
        raise ValueError(
            f"head_dim={head} has {dim} values to rotate (head_dim * {fraction:g}, rounded down), but their number "
            "must be even and at least 2; give another head_dim"
        )
    return dim


def checked_layer_type(layer_type: Any) -> LayerType:
    """Return the kind of a layer, or raise an error if it is unknown."""
    known: tuple[LayerType, ...] = get_args(LayerType)
    for kind in known:
        if layer_type == kind:
            return kind
    raise ValueError(f"layer_type must be 'full_attention' or 'sliding_attention', not {layer_type!r}")


def checked_sections(sections: Any, dim: int, name: str = "mrope_section") -> list[int]:
    """Return three sections, the numbers of pairs of three axes. Raise an error unless they add up to dim / 2.

    name: name of the argument in the error.
    """
    pairs = whole_pairs(dim, "head_dim") // 2
    counts = [count_of(count, name, 1) for count in sequence_of(sections, name)]
    if len(counts) != 3 or sum(counts) != pairs:
        raise ValueError(
            f"{name}={tuple(counts)} must be three numbers of pairs that add up to {pairs}, because {dim} values rotate"
        )
    return counts


def with_theta(
    head_dim: int,
    theta: float = 10000.0,
    frequencies: Precision = "exact",
    *,
    rotary_dim: int | None = None,
    layout: RotaryLayout = "half",
    sections: Sequence[int] | None = None,
) -> Rotary:
    """Return a Rotary whose pair i has the frequency ``theta ** (-2i / rotary_dim)``."""
    head = whole_pairs(head_dim, "head_dim") if rotary_dim is None else count_of(head_dim, "head_dim", 2)
    options: dict[str, Any] = {"rotary_dim": rotary_dim, "layout": layout, "sections": sections}
    base, dim = positive(theta, "theta"), head if rotary_dim is None else rotary_dim
    # spectrum also checks the argument frequencies
    schedule = spectrum(frequencies, _recipes.power, max(dim // 2, 1), base=base)
    if frequencies == "exact":
        return Rotary(head, base=base, **options)
    return Rotary(head, frequencies=schedule, **options)


def per_axis_spectra(
    dims: Sequence[int], theta: float, frequencies: Precision = "exact", recipe: _recipes.Recipe = _recipes.power
) -> list[Schedule]:
    """Return the frequencies ``theta ** (-2i / dim)`` of each axis. dims: number of rotated values of each axis."""
    base = positive(theta, "theta")
    return [spectrum(frequencies, recipe, dim // 2, base=base) for dim in dims]


def with_spectra(
    head_dim: int, spectra: Sequence[Schedule], *, axes: Sequence[int] | None = None, layout: RotaryLayout = "half"
) -> Rotary:
    """Return a Rotary with separate frequencies for each axis.

    spectra: frequencies of each axis. axes: axis of each pair (default: all pairs of axis 0, then of axis 1, ..).
    """
    counts = [len(schedule) for schedule in spectra]
    axis_of_pair = np.repeat(np.arange(len(spectra)), counts) if axes is None else np.asarray(axes)
    return Rotary(
        head_dim, frequencies=list(spectra), sections=axis_of_pair.tolist(), rotary_dim=2 * sum(counts), layout=layout
    )


def alternating_axes(count: int, axes: int) -> list[int]:
    """Return axes 0, 1, .., 0, 1, .., with ``count`` pairs for each axis."""
    return list(range(axes)) * count


def columns_first(head_dim: int, theta: float, frequencies: Precision) -> Rotary:
    """Return a Rotary. The first half of its interleaved pairs uses axis 1 (columns), the rest axis 0 (rows)."""
    d = whole_pairs(head_dim, "head_dim", 2)
    spectra = per_axis_spectra([d // 2] * 2, theta, frequencies)
    return with_spectra(d, spectra, axes=[1] * (d // 4) + [0] * (d // 4), layout="interleaved")


def axis_by_axis(
    axes_dim: Any,
    axes: int,
    theta: float,
    frequencies: Precision = "exact",
    *,
    layout: RotaryLayout = "interleaved",
    recipe: _recipes.Recipe = _recipes.power,
) -> Rotary:
    """Return a Rotary for a head that consists of one part for each axis.

    axes_dim: width of each part. A part of width d has the frequencies ``theta ** (-2i / d)``.
    """
    if not isinstance(axes_dim, Sequence) or isinstance(axes_dim, str) or len(axes_dim) != axes:
        raise ValueError(f"axes_dim must be {axes} even numbers, one for each axis, not {axes_dim!r}")
    dims = [whole_pairs(dim, f"axes_dim[{axis}]") for axis, dim in enumerate(axes_dim)]
    return with_spectra(sum(dims), per_axis_spectra(dims, theta, frequencies, recipe), layout=layout)


def ltx_pairs(dim: int, axes: int, theta: float) -> tuple[Floats, list[int]]:
    """Return the frequency of each pair, and the axis of each pair.

    If dim // 2 is not a multiple of axes, the first pairs have frequency 0 and do not rotate. The others alternate
    between the axes, with frequencies from pi/2 to theta * pi/2.
    """
    count = dim // (2 * axes)
    if count < 2:
        raise ValueError(f"dim={dim} must have at least two pairs for each of {axes} axes; give at least {4 * axes}")
    rising = np.asarray(ascending(count, positive(theta, "theta"), per=count - 1, first=math.pi / 2))
    unrotated = dim // 2 - count * axes
    frequencies = np.concatenate([np.zeros(unrotated), np.repeat(rising, axes)])
    return frequencies, [0] * unrotated + alternating_axes(count, axes)


def ltx_rotary(dim: int, axes: int, theta: float) -> Rotary:
    """Return a Rotary for vectors that are not yet split into heads, with the pairs of `ltx_pairs`."""
    frequencies, axis_of_pair = ltx_pairs(dim, axes, theta)
    sections = axis_of_pair if axes > 1 else None
    return Rotary(dim, frequencies=frequencies, sections=sections, layout="interleaved")
