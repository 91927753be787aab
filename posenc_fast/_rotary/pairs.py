"""Which frequencies the pairs of a rotary encoding have, and on which axes of a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from .._encoding.builders import FUNCTIONS
from .._encoding.sinusoids import Sinusoids
from .._encoding.value import Encoding
from .._numbers.arguments import count_of, real_array
from .._numbers.schedule import Explicit, Schedule, explicit, geometric
from ..typing import Function, RotaryLayout

__all__ = ["LAYOUTS", "angles_of", "axial", "checked_axes", "checked_frequencies", "in_turn", "written"]


# in the order of the engines; in the last, pairs lie side by side in x and half a row apart in the result
LAYOUTS: tuple[RotaryLayout, ...] = get_args(RotaryLayout)


def checked_frequencies(given: Any, pairs: int, axes: tuple[int, ...] | None) -> tuple[Schedule, ...]:
    """One schedule of all pairs; or one for each axis, of the pairs that read it or, where axes is None, of all."""
    if isinstance(given, Schedule):
        schedules: tuple[Schedule, ...] = (given,)
    elif isinstance(given, (list, tuple)) and given and all(isinstance(one, Schedule) for one in given):
        schedules = tuple(given)
    else:
        values = real_array(given, "frequencies") + 0.0
        if values.ndim not in (1, 2) or values.size == 0:
            raise ValueError(
                f"frequencies has shape {values.shape}, but must have ({pairs},) or ({pairs}, axes), a number for each pair"
            )
        schedules = tuple(Explicit(column) for column in values.reshape(len(values), -1).T)
    lengths, needed, by_axis = [len(schedule) for schedule in schedules], [pairs] * len(schedules), ""
    if axes is not None and len(schedules) > 1:
        needed = np.bincount(axes).tolist()
        by_axis = f", of which {_counted(needed)} read the axes of sections"
    if lengths != needed:
        raise ValueError(
            f"frequencies are {_counted(lengths)}, but rotary_dim={2 * pairs} has {pairs} pairs{by_axis}; give as many, "
            "or the rotary_dim that they are for"
        )
    return schedules


def _counted(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def checked_axes(sections: Any, frequencies: Any, pairs: int) -> tuple[int, ...] | None:
    """For each pair the axis that it reads; None if all read one, or every one."""
    if sections is None:
        schedules = isinstance(frequencies, (list, tuple)) and all(isinstance(one, Schedule) for one in frequencies)
        if not schedules or len(frequencies) < 2 or sum(map(len, frequencies)) != pairs:
            return None
        sections = [len(schedule) for schedule in frequencies]
    if not isinstance(sections, (Sequence, np.ndarray)) or isinstance(sections, str):
        raise TypeError(f"sections must be a sequence of integers, not {sections!r}")
    numbers = [count_of(number, "sections", 0) for number in sections]
    # an axis for each pair has a 0 among them, counts have none
    if numbers and min(numbers) > 0 and sum(numbers) == pairs:
        return tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())
    if len(numbers) == pairs and set(numbers) == set(range(max(numbers) + 1)):
        return tuple(numbers)
    raise ValueError(
        f"sections={tuple(numbers)} must be counts that add up to {pairs} pairs, or an axis from 0 on for each pair"
    )


def in_turn(counts: Sequence[int], pairs: int) -> list[int]:
    """For each pair its axis: axes take turns as long as each has pairs left, and the first has the rest."""
    axes = [0] * pairs
    for a in range(1, len(counts)):
        for i in range(a, min(counts[a] * len(counts), pairs), len(counts)):
            axes[i] = a
    return axes


def axial(base: float, axes: Sequence[int]) -> tuple[Schedule, ...]:
    """For each axis the frequencies of the pairs that read it."""
    return tuple(geometric(count, base=base) for count in np.bincount(axes).tolist())


def angles_of(
    schedules: Sequence[Schedule], axes: tuple[int, ...] | None, functions: Sequence[Function], factor: float
) -> Encoding:
    """What computes functions of the angles of all pairs, side by side."""
    used: list[Schedule] = []
    places = []
    for schedule in schedules:
        # equal frequencies share their sines
        one, place = explicit(schedule.values[:, np.newaxis]) if type(schedule) is Explicit else (schedule, None)
        begin = sum(map(len, used))
        places.append(begin + (np.arange(len(one)) if place is None else place[:, 0]))
        used.append(one)
    if axes is None:
        index = np.stack(places, axis=1)
    else:
        where = np.array(axes)
        index = np.full((len(axes), max(axes) + 1), -1)
        if len(places) == 1:
            index[np.arange(len(axes)), where] = places[0]
        else:
            for a, place in enumerate(places):
                index[where == a, a] = place
    count = len(index)
    phases, amplitudes = np.repeat([FUNCTIONS[name] for name in functions], count, axis=0).T
    return Encoding._of(Sinusoids(used, np.tile(index, (len(functions), 1)), phases, factor * amplitudes))


def written(schedules: tuple[Schedule, ...]) -> Any:
    """What to give as frequencies for these: schedules, or lists of numbers."""
    if not all(type(one) is Explicit for one in schedules):
        return schedules[0] if len(schedules) == 1 else schedules
    values = np.stack([one.values for one in schedules if isinstance(one, Explicit)], axis=1)
    return (values[:, 0] if len(schedules) == 1 else values).tolist()
