"""Pairs of a Rotary: their places in a head, their frequencies, and the axis of a position that each pair reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from ...typing import RotaryLayout, WeightLayout
from ..numbers.arguments import count_of, real_array
from ..numbers.schedule import Explicit, Schedule, geometric

# The engines number the layouts in this order. With interleaved_to_half, the values of a pair are adjacent in x and
# rotary_dim/2 apart in the result.
LAYOUTS: tuple[RotaryLayout, ...] = get_args(RotaryLayout)
# maximum head_dim in the config or file of a model: far more than in real models, and frequencies still fit into memory
MOST_VALUES = 2**20


def source_and_target(layout: RotaryLayout, inverse: bool = False) -> tuple[WeightLayout, WeightLayout]:
    """Return (layout of the pairs in x, layout of the pairs in the result) for a rotation or its inverse."""
    if layout != "interleaved_to_half":
        return layout, layout
    return ("half", "interleaved") if inverse else ("interleaved", "half")


class Settings(NamedTuple):
    """The checked arguments of a Rotary. They determine equality and hash.

    parameters has (name, value) for each parameter of the scaling, in the order of `SCALINGS`. axes has the axis that
    each pair reads, or is None if each pair reads all axes.
    """

    head_dim: int
    base: float
    rotary_dim: int
    layout: RotaryLayout
    rope_type: str
    parameters: tuple[tuple[str, Any], ...]
    axes: tuple[int, ...] | None
    frequencies: tuple[Schedule, ...] | None
    attention_factor: float

    @property
    def amplitudes_vary(self) -> bool:
        """Whether cosines and sines have amplitudes that depend on the position."""
        return self.rope_type == "xpos"


def checked_frequencies(frequencies: Any, pairs: int, axes: tuple[int, ...] | None) -> tuple[Schedule, ...]:
    """Check the argument frequencies. Return one schedule for all pairs, or one for each axis.

    The schedule of an axis has the frequencies of the pairs that read this axis, or of all pairs if axes is None.
    """
    if isinstance(frequencies, Schedule):
        schedules: tuple[Schedule, ...] = (frequencies,)
    elif isinstance(frequencies, (list, tuple)) and frequencies and all(isinstance(f, Schedule) for f in frequencies):
        schedules = tuple(frequencies)
    else:
        values = real_array(frequencies, "frequencies") + 0.0
        if values.ndim not in (1, 2) or values.size == 0:
            raise ValueError(
                f"frequencies has shape {values.shape}, but must have shape ({pairs},) or ({pairs}, axes), with one "
                "row for each pair"
            )
        schedules = tuple(Explicit(column) for column in values.reshape(len(values), -1).T)
    lengths, needed, by_axis = [len(schedule) for schedule in schedules], [pairs] * len(schedules), ""
    if axes is not None and len(schedules) > 1:
        needed = np.bincount(axes).tolist()
        by_axis = f" ({_counted(needed)} on the axes of sections)"
    if lengths != needed:
        raise ValueError(
            f"frequencies has {_counted(lengths)} values, but rotary_dim={2 * pairs} has {pairs} pairs{by_axis}; pass "
            "one frequency for each pair, or another rotary_dim"
        )
    return schedules


def _counted(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def checked_axes(sections: Any, frequencies: Any, pairs: int) -> tuple[int, ...] | None:
    """Return the axis that each pair reads, or None if each pair reads all axes."""
    if sections is None:
        schedules = isinstance(frequencies, (list, tuple)) and all(isinstance(f, Schedule) for f in frequencies)
        if not schedules or len(frequencies) < 2 or sum(map(len, frequencies)) != pairs:
            return None
        sections = [len(schedule) for schedule in frequencies]
    if not isinstance(sections, (Sequence, np.ndarray)) or isinstance(sections, str):
        raise TypeError(f"sections must be a sequence of integers, not {sections!r}")
    numbers = [count_of(number, "each number in sections", 0) for number in sections]
    # sections has either the number of pairs of each axis, or the axis of each pair. Numbers of pairs are positive, and
    # add up to the number of all pairs. Axes are counted from 0, so one of them is 0.
    if numbers and min(numbers) > 0 and sum(numbers) == pairs:
        return tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())
    if len(numbers) == pairs and set(numbers) == set(range(max(numbers) + 1)):
        return tuple(numbers)
    raise ValueError(
        f"sections={tuple(numbers)} must be numbers of pairs that add up to {pairs}, or the axis of each of the "
        f"{pairs} pairs (counted from 0, without gaps)"
    )


def in_turn(counts: Sequence[int], pairs: int) -> list[int]:
    """Return the axis that each pair reads. The axes alternate: 0, 1, 2, 0, 1, 2 and so on.

    After an axis a > 0 has counts[a] pairs, axis 0 takes its further places.
    """
    axes = [0] * pairs
    for a in range(1, len(counts)):
        for i in range(a, min(counts[a] * len(counts), pairs), len(counts)):
            axes[i] = a
    return axes


def axial(base: float, axes: Sequence[int]) -> tuple[Schedule, ...]:
    """Return, for each axis, the frequencies of the pairs that read it."""
    return tuple(geometric(count, base=base) for count in np.bincount(axes).tolist())


def written(schedules: tuple[Schedule, ...]) -> Any:
    """Return the argument `frequencies` of the Rotary with these schedules.

    If all schedules are explicit, return their numbers in lists. Otherwise return the schedule, or a tuple of several.
    """
    if not all(type(schedule) is Explicit for schedule in schedules):
        return schedules[0] if len(schedules) == 1 else schedules
    values = np.stack([schedule.values for schedule in schedules if isinstance(schedule, Explicit)], axis=1)
    return (values[:, 0] if len(schedules) == 1 else values).tolist()
