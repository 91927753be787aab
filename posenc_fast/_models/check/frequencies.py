"""Judge frequencies: compare them with a config or with known schedules, and name the fault if they differ.

Every known fault is applied to the exact frequencies, and the result is compared with the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._core.numbers.arrays import Floats
from ..._core.numbers.formats import FLOAT32, Format
from ..._core.rotary.value import Rotary
from ..identify.bases import BASES, ROTARY_BASES, ROTARY_DIGITS, bases_near, few_digits
from ..identify.rotary import identify_rotary
from ..identify.tolerances import least_of, relative_slack
from .report import Fault, Finding
from .values import HALVES, array_of, fits, narrowest, through

# smallest number of frequencies that can be identified; fewer numbers fit several schedules
_LEAST_COUNT = 4
_BASES = tuple(dict.fromkeys((*BASES, *ROTARY_BASES)))
_KINDS = "rotary frequencies"


class Variant(NamedTuple):
    """A fault, the frequencies that it would produce, and the factor that it would give cosines and sines."""

    fault: Fault
    reason: str
    frequencies: Floats
    factor: float = 1.0


class _Values(NamedTuple):
    """The numbers of a tensor, the narrowest format that represents them (form), and the longest position (length)."""

    name: str
    numbers: Floats
    form: Format
    length: float | None

    def near(self, exact: Floats, slack: float | None = None) -> bool:
        """Return whether all values are the exact frequencies, except for float32 errors and one rounding."""
        return bool(self.distance(exact, slack).max(initial=0.0) <= 1)

    def distance(self, exact: Floats, slack: float | None = None) -> Floats:
        """Return the differences from exact frequencies, divided by the tolerated differences.

        slack: tolerated relative error (default: that of float32 arithmetic).
        """
        relative = relative_slack(exact) if slack is None else slack
        size = np.abs(exact)
        allowed = relative * size + 1e-12 * size.max(initial=1e-300)
        if self.form in HALVES:
            # add half a unit in the last place, because float32 errors may move a tie to the other side
            allowed = allowed + self.form.rounding * np.maximum(size, np.abs(self.numbers)) + least_of(self.form)
        result: Floats = np.abs(self.numbers - exact) / allowed
        return result

    def finding(
        self, verdict: Any, fault: Fault | None, reason: str, exact: Floats | None, kind: str = _KINDS
    ) -> Finding:
        if exact is None:
            return Finding(self.name, kind, verdict, fault, reason)
        error = float(np.abs(self.numbers - exact).max())
        return Finding(
            self.name, kind, verdict, fault, reason, error, None if self.length is None else error * self.length
        )

    def worst(self, exact: Floats) -> str:
        """Return a clause about the pair with the largest error."""
        k = int(np.abs(self.numbers - exact).argmax())
        return f"pair {k} has {self.numbers[k]:.9g} instead of {exact[k]:.9g}"


def judge_frequencies(
    name: str, values: Any, rotaries: Sequence[Rotary] = (), *, length: float | None = None
) -> Finding:
    """Return the finding for a tensor such as ``inv_freq``.

    Parameters
    ----------
    name : str
        The tensor's name.
    values : array or tensor of shape (pairs,), or with axes of length 1
        Radians per unit of position, in their stored type.
    rotaries : sequence of Rotary
        Encodings of the model's layers; the frequencies must match one. Encodings with another number of pairs are left
        out. Empty without a config.
    length : float, optional
        Longest position.
    """
    array = array_of(values, name)
    if array.dtype.kind == "c":
        return Finding(name, "a tensor", "unknown", None, "complex numbers are not frequencies")
    numbers = array.astype(np.float64).reshape([n for n in array.shape if n != 1] or [array.size])
    if numbers.ndim != 1 or not numbers.size:
        return Finding(name, "a tensor", "unknown", None, f"frequencies cannot have shape {array.shape}")
    tensor = _Values(name, numbers, narrowest(array), length)
    expected = [(rotary, exact) for rotary in rotaries for exact in exact_sets(rotary) if exact.shape == numbers.shape]
    if not np.isfinite(numbers).all():
        missing = np.flatnonzero(~np.isfinite(numbers))
        if expected:
            return tensor.finding("wrong", "values", f"values {_listed(missing)} are not finite", None)
        return tensor.finding("unknown", None, "values that are not finite", None, "a tensor")
    if not expected:
        return _of_other_length(_without_config(tensor), rotaries)
    if not numbers.any() and "inv_freq" in name:
        # a tensor of zeros was probably never written
        return tensor.finding(
            "wrong", "values", f"all values are 0, not the same as {described(expected[0][0])}", expected[0][1]
        )
    for rotary, exact in expected:
        # compare with the tolerance of float32: values in 16 bits are right only if rounding did not change them
        if tensor._replace(form=FLOAT32).near(exact):
            return tensor.finding("right", None, f"same as {described(rotary)}", exact)
    # with several axes, a program may store the frequencies axis by axis
    expected = [
        (rotary, exact if rotary._settings.axes is None else _in_order_of(numbers, exact)) for rotary, exact in expected
    ]
    for rotary, exact in expected:
        if tensor._replace(form=FLOAT32).near(exact):
            return tensor.finding("right", None, f"same as {described(rotary)}, axis by axis", exact)
    for faults in (_rounded, _order, _base, _scaling, _arithmetic, _single, _identified):
        for rotary, exact in expected:
            for variant in faults(tensor, rotary, exact):
                return _fault_finding(tensor, variant, rotary, exact)
    rotary, exact = min(expected, key=lambda one: float(np.abs(numbers - one[1]).max()))
    # with linear scaling, a program may store the unscaled frequencies, and divide positions instead
    if _resembles(numbers, exact) or _resembles(numbers, without_scaling(rotary, exact)) or _mostly(tensor, exact):
        own = described(rotary)
        reason = f"{tensor.worst(exact)}; the values differ from {own}, and no known fault explains the difference"
        return tensor.finding("wrong", "frequencies", reason, exact)
    return tensor.finding("unknown", None, f"very different from {described(rotary)}", None, "a tensor")


def _mostly(tensor: _Values, exact: Floats) -> bool:
    """Return whether at least half of the values agree with the exact ones."""
    return 2 * int((tensor.distance(exact) <= 1).sum()) >= len(exact)


def _of_other_length(finding: Finding, rotaries: Sequence[Rotary]) -> Finding:
    """Return the finding for frequencies whose number no layer has. The verdict "right" becomes "unknown"."""
    counts = sorted({rotary.rotary_dim // 2 for rotary in rotaries})
    if not counts or finding.verdict != "right":
        return finding
    reason = f"{finding.says}; the config's rotary encodings have {' or '.join(map(str, counts))} frequencies"
    return replace(finding, verdict="unknown", says=reason)


def exact_sets(rotary: Rotary) -> Iterator[Floats]:
    """Yield the arrays of exact frequencies that a tensor of a Rotary may store.

    They are the frequencies of all pairs or of one axis, their absolute values, and the frequencies in turns.
    """
    whole = rotary.frequencies
    sets = [whole] if whole.ndim == 1 else [whole[:, a] for a in range(whole.shape[1])]
    axes = rotary._settings.axes
    if axes is not None and whole.ndim == 1:
        sets += [whole[np.asarray(axes) == a] for a in sorted(set(axes))]
    seen: list[Floats] = []
    for one in sets:
        # a program may store positive frequencies and change the sign of sines, or store turns instead of radians
        for each in (one, np.abs(one), one / (2 * math.pi)):
            if not any(np.array_equal(each, other) for other in seen):
                seen.append(each)
                yield each


def _fault_finding(tensor: _Values, variant: Variant, rotary: Rotary, exact: Floats) -> Finding:
    """Return the finding for a fault that explains all values."""
    if variant.fault == "scaling" and "positions" in variant.reason:
        return tensor.finding("unknown", None, variant.reason, exact)
    more = ""
    if (
        variant.fault not in ("rounded", "values")
        and tensor.form in HALVES
        and not tensor._replace(form=FLOAT32).near(variant.frequencies)
    ):
        more = f", and rounded to {tensor.form.name}"
    return tensor.finding("wrong", variant.fault, f"{variant.reason}{more}: {tensor.worst(exact)}", exact)


def _resembles(numbers: Floats, exact: Floats) -> bool:
    """Return whether values were probably meant to be the exact frequencies.

    This is so if all values are within a factor of 2, or if the first value is and the values never rise.
    """
    if (numbers < 0).any() or not numbers.any():
        return False
    rotating = (exact != 0) & (numbers > 0)
    if 2 * int(rotating.sum()) < len(exact):
        return False
    ratio = np.abs(np.log(numbers[rotating] / np.abs(exact[rotating])))
    falls = bool((np.diff(numbers) <= 0).all()) and ratio[0] < math.log(2)
    return bool(ratio.max() < math.log(2)) or falls


# ---- faults ---------------------------------------------------------------------------------------------------------


def _rounded(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies that were rounded to 16 bits at one step of the usual formula."""
    unscaled = without_scaling(rotary, exact)
    ratio = exact / np.where(unscaled == 0, 1.0, unscaled)
    n = len(exact)
    for form in HALVES:
        if tensor.form is form and tensor.near(exact):
            yield Variant(
                "rounded", f"frequencies of {described(rotary)}, rounded to {form.name}", through(form, exact)
            )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            powers = through(form, 1 / np.abs(unscaled))
            steps = {
                "frequencies": through(form, exact),
                "frequencies before their scaling": through(form, unscaled) * ratio,
                "powers of the base": np.sign(exact) * ratio / powers,
                "powers of the base and frequencies": through(form, np.sign(exact) * ratio / powers),
            }
            if rotary.base is not None:
                exponents = through(form, np.arange(n) / n)
                steps["exponents"] = ratio * rotary.base**-exponents
        for step, variant in steps.items():
            if np.isfinite(variant).all() and tensor._replace(form=FLOAT32).near(variant):
                yield Variant("rounded", f"{step} of {described(rotary)} went through {form.name}", variant)


def _arithmetic(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the values of the tensor if errors of 16-bit arithmetic explain their differences.

    The relative error of a power is the error of the exponent times the logarithm of the base.
    """
    if tensor.form not in HALVES or not exact.all():
        return
    logs = np.abs(np.log(np.abs(exact)))
    allowed = tensor.form.rounding * (3 + 2 * logs) * np.abs(exact) + 2 * least_of(tensor.form)
    if (np.abs(tensor.numbers - exact) <= allowed).all():
        yield Variant("rounded", f"frequencies of {described(rotary)}, computed in {tensor.form.name}", tensor.numbers)


def _order(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the exact frequencies in another order, or with the opposite sign, if they explain the values."""
    if tensor.near(-exact):
        yield Variant(
            "layout", f"frequencies of {described(rotary)} with the opposite sign, so pairs rotate backwards", -exact
        )
        return
    variant = _in_order_of(tensor.numbers, exact)
    if len(exact) >= _LEAST_COUNT and not np.array_equal(variant, exact) and tensor.near(variant):
        order = "in reverse order" if tensor.near(exact[::-1]) else "in another order"
        yield Variant("layout", f"frequencies of {described(rotary)} {order}", variant)


def _in_order_of(numbers: Floats, exact: Floats) -> Floats:
    """Return the exact frequencies, sorted in the order of size that the numbers have."""
    result = np.empty_like(exact)
    result[np.argsort(-numbers, kind="stable")] = -np.sort(-exact)
    return result


def _base(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies with another base if they explain all values."""
    for variant in base_variants(rotary, exact, tensor.numbers, 0.2 if tensor.form in HALVES else 1e-2):
        if tensor.near(variant.frequencies):
            yield variant


def base_variants(rotary: Rotary, exact: Floats, numbers: Floats, slack: float = 1e-2) -> Iterator[Variant]:
    """Yield frequencies with other bases and the same scaling. The bases are estimated from the measured numbers.

    slack: largest difference between the logarithms of a known base and of an estimate.
    """
    own, n = rotary.base, len(exact)
    if own is None or n < _LEAST_COUNT:
        return
    for base in _bases(numbers, slack):
        if abs(base / own - 1) < 1e-9:
            continue
        reason = f"base {base:g}, but the config has {own:g}"
        if n == rotary.rotary_dim // 2:
            other = _with(rotary, base=base)
            if other is not None:
                yield Variant("base", reason, other.frequencies, other.attention_factor)
        elif exact[0] == 1:
            # the numbers are the frequencies of one axis
            yield Variant("base", reason, base ** (-np.arange(n) / n))


def _bases(numbers: Floats, slack: float) -> list[float]:
    """Return bases that frequencies may have: known bases near the estimates, rounded estimates, and the estimates.

    There are three estimates. They compare the first frequency with the second, with the frequency after the first
    quarter, and with the last.
    """
    count = len(numbers)
    measured = []
    for last in (1, max(1, count // 4), count - 1):
        if numbers[0] > 0 and numbers[last] > 0:
            logarithm = -math.log(numbers[last] / numbers[0]) * count / last
            if 0 < abs(logarithm) < 100:
                measured.append(math.exp(logarithm))
    return list(dict.fromkeys(bases_near(measured, slack, _BASES) + measured))


def _with(rotary: Rotary, **changes: Any) -> Rotary | None:
    """Return the Rotary with changed arguments, or None if the arguments are invalid."""
    arguments = {**rotary._arguments(), **changes}
    try:
        return type(rotary)(rotary.head_dim, **arguments)
    except (TypeError, ValueError):
        return None


def without_scaling(rotary: Rotary, exact: Floats) -> Floats:
    """Return the frequencies of a Rotary without its scaling, or ``exact`` if it has no scaling."""
    if rotary.base is None or "scaling" not in rotary._arguments() or rotary._settings.rope_type == "axial":
        return exact
    plain = _with(rotary, scaling=None)
    return exact if plain is None or plain.frequencies.shape != exact.shape else plain.frequencies


def scaling_variants(rotary: Rotary, exact: Floats, numbers: Floats) -> Iterator[Variant]:
    """Yield frequencies with wrong scalings. The scaling is missing, applied twice, or has the measured factor."""
    scaling = rotary._arguments().get("scaling")
    unscaled = without_scaling(rotary, exact)
    rope_type = rotary._settings.rope_type
    if scaling is not None and not np.array_equal(unscaled, exact):
        yield Variant("scaling", f"without the config's scaling ({_shown(scaling)})", unscaled)
        twice = exact * exact / np.where(unscaled == 0, 1.0, unscaled)
        yield Variant(
            "scaling", f"the config's scaling ({_shown(scaling)}) applied twice", twice, rotary.attention_factor**2
        )
    if not (numbers[-1] > 0 and unscaled[-1] > 0):
        return
    measured = float(unscaled[-1] / numbers[-1])
    factors = list(dict.fromkeys([*few_digits(measured, ROTARY_DIGITS), measured]))
    for factor in factors:
        if abs(factor - 1) < 1e-5 or not 1e-3 < factor < 1e5:
            continue
        if scaling is not None and "factor" in scaling and abs(factor / scaling["factor"] - 1) > 1e-5:
            other = _with(rotary, scaling={**scaling, "factor": factor})
            if other is not None and other.frequencies.shape == exact.shape:
                reason = f"factor {factor:g} in {rope_type!r}, but the config has {scaling['factor']:g}"
                if abs(factor / scaling["factor"] ** 2 - 1) < 1e-5:
                    reason = f"the config's factor {scaling['factor']:g} applied twice"
                yield Variant("scaling", reason, other.frequencies, other.attention_factor)
        if rope_type != "linear":
            own = "no scaling" if scaling is None else _shown(scaling)
            reason = f"divided by {factor:g} as in linear scaling, but the config has {own}"
            yield Variant("scaling", reason, unscaled / factor)


def _scaling(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies with another scaling if they explain all values."""
    if len(exact) != rotary.rotary_dim // 2:
        return
    for variant in scaling_variants(rotary, exact, tensor.numbers):
        if tensor.near(variant.frequencies):
            if rotary._settings.rope_type == "linear" and np.array_equal(
                variant.frequencies, without_scaling(rotary, exact)
            ):
                reason = f"{variant.reason}; this is right only if the program divides positions by the factor instead"
                variant = variant._replace(reason=reason)
            yield variant


def _single(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the values of the tensor if at most a quarter of them differ from the exact frequencies."""
    other = tensor._replace(form=FLOAT32).distance(exact) > 1
    at = np.flatnonzero(other)
    # if only the slowest pairs differ, a wrong scaling is more likely
    tail = len(at) > 2 and np.array_equal(at, np.arange(len(exact) - len(at), len(exact)))
    if 0 < 4 * len(at) <= len(exact) and not tail:
        reason = f"values {_listed(at)} differ from {described(rotary)}"
        yield Variant("values", reason, tensor.numbers)


def _identified(tensor: _Values, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies with a scaling of another kind, if it can be identified from the values."""
    if len(exact) >= 8 and rotary.base is not None:
        answer = identify_rotary(frequencies=tensor.numbers)
        if answer.rotary is not None and answer.base is not None and abs(answer.base / rotary.base - 1) < 1e-6:
            measured = "no scaling" if answer.scaling is None else _shown(answer.scaling)
            own = rotary._arguments().get("scaling")
            if answer.scaling is None and own is None:
                return
            reason = f"with {measured}, but the config has {'no scaling' if own is None else _shown(own)}"
            if answer.rotary.frequencies.shape == exact.shape:
                yield Variant("scaling", reason, answer.rotary.frequencies)


def described(rotary: Rotary) -> str:
    """Return a short description of the frequencies of a Rotary."""
    scaling = rotary._arguments().get("scaling")
    if rotary.base is None:
        return f"the config's {rotary.rotary_dim // 2} frequencies"
    if scaling is None:
        return f"base {rotary.base:g}"
    factor = scaling.get("factor")
    return f"base {rotary.base:g} with {scaling['rope_type']} scaling{f' of factor {factor:g}' if factor else ''}"


def _listed(indices: Any) -> str:
    return f"{', '.join(map(str, indices[:8].tolist()))}{', ..' if len(indices) > 8 else ''}"


def _shown(scaling: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in scaling.items()
        if value is not None and not isinstance(value, (tuple, list))
    )


# ---- without a config -----------------------------------------------------------------------------------------------


def _without_config(tensor: _Values) -> Finding:
    """Return the finding for frequencies that are compared with known schedules, because there is no config."""
    numbers = tensor.numbers
    rises = np.diff(numbers) > 0
    if (
        len(numbers) < _LEAST_COUNT
        or (numbers < 0).any()
        or not numbers.any()
        or min(int(rises.sum()), int((~rises).sum())) * 4 > len(rises)
    ):
        return tensor.finding(
            "unknown",
            None,
            "no known schedule of frequencies; probably learned frequencies, or other weights",
            None,
            "a tensor",
        )
    for form in (FLOAT32, *HALVES):
        if form is not FLOAT32 and not fits(form, numbers):
            continue
        tensor = tensor._replace(form=form)
        for kind, words, exact in _schedules(tensor):
            if form is FLOAT32:
                return tensor.finding("right", None, words, exact, kind)
            once = np.isclose(through(form, exact), numbers, rtol=1e-9, atol=0)
            if len(numbers) >= 8 and 10 * int(once.sum()) >= 9 * len(numbers):
                return tensor.finding(
                    "wrong", "rounded", f"{words}, rounded to {form.name}: {tensor.worst(exact)}", exact, kind
                )
    return tensor.finding(
        "unknown",
        None,
        "no known schedule of frequencies; probably learned frequencies, or other weights",
        None,
        "a tensor",
    )


def _schedules(tensor: _Values) -> Iterator[tuple[str, str, Floats]]:
    """Yield (kind of finding, description, frequencies) for each schedule near the values.

    Powers of 2 come first, then powers of other bases, then all other schedules that `identify_rotary` knows.
    """
    numbers, n = tensor.numbers, len(tensor.numbers)
    for ratio in (2.0, 0.5):
        exact = numbers[0] * ratio ** np.arange(n)
        if tensor.near(exact):
            yield "frequencies of octaves", f"{numbers[0]:g} times powers of {ratio:g}", exact
    if (numbers > 0).all() and numbers[0] != numbers[-1]:
        ends = (1.0, 0.0, 0.5)
        for shift in ends:
            denominator = n - shift
            for base in _bases_by_ends(tensor, denominator):
                exact = numbers[0] * base ** (-np.arange(n) / denominator)
                if tensor.near(exact) and (len(f"{base:g}") <= 6 or base in _BASES) and shift != 1.0:
                    yield _KINDS, f"powers of base {base:g} from {numbers[0]:g} on", exact
                elif tensor.near(exact) and shift == 1.0 and base in _BASES:
                    yield (
                        "timestep frequencies",
                        f"{n} frequencies from {numbers[0]:g} to {numbers[-1]:.6g}, powers of base {base:g}",
                        exact,
                    )
    if n >= 8:
        dtype = {2: np.float16}.get(tensor.form.kind, np.float64)
        answer = identify_rotary(frequencies=numbers.astype(dtype))
        if answer.rotary is not None and answer.rotary.frequencies.shape == numbers.shape:
            names = f" ({', '.join(answer.presets[:3])})" if answer.presets else ""
            yield _KINDS, f"same as {described(answer.rotary)}{names}", answer.rotary.frequencies


def _bases_by_ends(tensor: _Values, denominator: float) -> list[float]:
    """Return bases whose powers fall about as much as the values do from the first to the last."""
    numbers = tensor.numbers
    logarithm = math.log(numbers[0] / numbers[-1]) * denominator / (len(numbers) - 1)
    if not 0 < abs(logarithm) < 100:
        return []
    base = math.exp(logarithm)
    return bases_near([base], 0.05 if tensor.form in HALVES else 1e-3, _BASES, ROTARY_DIGITS)
