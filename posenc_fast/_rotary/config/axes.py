"""Which axis of a position each pair of a model reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..._numbers.arguments import count_of
from ..pairs import in_turn
from .found import Found, is_list

__all__ = ["COUNTED", "RULES", "axes_of"]


def _contiguous(counts: Sequence[int]) -> list[int]:
    return [a for a, count in enumerate(counts) for _ in range(count)]


def _ernie(counts: Sequence[int]) -> list[int]:
    return [1, 2] * counts[0] + [0] * counts[2]


def _pangu(counts: Sequence[int]) -> list[int]:
    """The axis that is least used up, but not twice in a row; with three axes the last pair reads the first."""
    last = [0] if len(counts) == 3 else []
    totals = [counts[0] - len(last), *counts[1:]]
    left, axes = list(totals), [-1]
    while any(left):
        here = [a for a, count in enumerate(left) if count]
        best = min([a for a in here if a != axes[-1]] or here, key=lambda a: (1 - left[a] / totals[a], a))
        axes.append(best)
        left[best] -= 1
    return axes[1:] + last


# rules for a number of pairs, and for counts
RULES: dict[str, Callable[[int], list[int]]] = {
    "axial": lambda pairs: [0] * (pairs // 2) + [1] * (pairs // 2),
    "axial_columns": lambda pairs: [1] * (pairs // 2) + [0] * (pairs // 2),
    "axial_alternating": lambda pairs: [1, 0] * (pairs // 2),
    "axial_rows_alternating": lambda pairs: [0, 1] * (pairs // 2),
    "axial_three": lambda pairs: [a for a in range(3) for _ in range(pairs // 3)],
    "alternating": lambda pairs: [0, 1] * (pairs // 2),
}
COUNTED: dict[str, Callable[[Sequence[int]], list[int]]] = {
    "contiguous": _contiguous,
    "ernie": _ernie,
    "pangu": _pangu,
}


def axes_of(found: Found, pairs: int) -> list[int] | None:
    """For each pair the axis that it reads; None where there is one."""
    sections, rope = found.family.sections, found.rope
    if sections is None or sections.rule == "atoms":
        return None
    if sections.rule in RULES:
        axes = RULES[sections.rule](pairs)
        if len(axes) != pairs:
            raise ValueError(f"{found.where} has heads of {2 * pairs} values that turn, which do not divide among axes")
        return axes
    given = [key for key in ("mrope_section", "xdrope_section") if rope.get(key) is not None]
    if len(given) > 1:
        raise ValueError(
            f"{found.rope_where} has both mrope_section={rope['mrope_section']!r} and "
            f"xdrope_section={rope['xdrope_section']!r}; leave one out"
        )
    key = given[0] if given else "mrope_section"
    counts = rope[key] if given else sections.default
    flag, rule = rope.get("mrope_interleaved"), sections.rule
    if flag is not None and not isinstance(flag, bool):
        raise TypeError(f"{found.rope_where}['mrope_interleaved'] must be true or false, not {flag!r}")
    if rule == "flagged":
        rule = "in_turn" if flag else "contiguous"
        if "openpangu" in (rope.get("rope_type"), rope.get("type")):
            rule = "pangu"
            if not given or flag is False:
                raise ValueError(
                    f"{found.rope_where} has rope_type 'openpangu', which needs mrope_section, and mrope_interleaved="
                    f"True; it has mrope_section={counts!r} and mrope_interleaved={flag!r}"
                )
    elif flag is not None and bool(flag) != (rule == "in_turn"):
        raise ValueError(
            f"{found.rope_where}['mrope_interleaved']={flag!r} is not what {found.model} does, whose sections are "
            f"{'one after the other' if flag else 'in turn'}; leave it out"
        )
    if counts is None:
        return None
    where = f"{found.rope_where}[{key!r}]"
    if not is_list(counts):
        raise TypeError(f"{where} must be a sequence of integers, not {counts!r}")
    # an order that spreads axes needs some of each
    counts = [count_of(number, where, 1 if rule == "pangu" else 0) for number in counts]
    # a class cuts its own that are in turn off where pairs end, and has the first axis beyond; given ones must fit
    if sum(counts) != pairs and (given or rule != "in_turn"):
        said = f"{where}={counts}" if given else f"{where} is missing, and {counts}, what a {found.model} has then,"
        raise ValueError(f"{said} adds up to {sum(counts)}, but {pairs} pairs turn; give counts that add up to {pairs}")
    if sections.default is not None and len(counts) != len(sections.default):
        raise ValueError(f"{where}={counts} must have a count for each of {sections.axes}")
    return in_turn(counts, pairs) if rule == "in_turn" else COUNTED[rule](counts)
