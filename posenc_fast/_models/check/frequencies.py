"""Judge frequencies: compare them with a config or with known schedules, and name the fault if they differ.

A schedule is a formula for frequencies, such as powers of a base. Each known fault, such as a wrong base, is applied to
the exact frequencies, and the result is compared with the values of the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._core.numbers.arrays import Floats
from ..._core.numbers.formats import FLOAT16, FLOAT32, Format
from ..._core.rotary.value import Rotary
from ..identify.bases import BASES, ROTARY_BASES, ROTARY_DIGITS, bases_near, few_digits
from ..identify.rotary import RotaryIdentification, identify_rotary
from ..identify.tolerances import least_of, relative_slack
from .report import Fault, Finding, listed, unknown_tensor
from .values import HALVES, array_of, fits, narrowest, through

# smallest number of frequencies that can be identified; fewer numbers fit several schedules
_LEAST_COUNT = 4
# the known bases of sinusoidal and of rotary encodings
_BASES = tuple(dict.fromkeys((*BASES, *ROTARY_BASES)))
# kind (`Finding.is_`) of findings for frequencies
_KIND = "rotary frequencies"


class Variant(NamedTuple):
    """A fault, with the frequencies that it would produce.

    reason: description of the fault. factor: factor of cosines and sines (attention factor) that the fault would
    produce. may_be_right: whether the frequencies are right for some programs.
    """

    fault: Fault
    reason: str
    frequencies: Floats
    factor: float = 1.0
    may_be_right: bool = False


class _Frequencies(NamedTuple):
    """Frequencies in a tensor.

    numbers: the values. form: narrowest format that represents them, which determines the tolerance. length: number of
    positions of the model, or None.
    """

    name: str
    numbers: Floats
    form: Format
    length: float | None

    def near(self, exact: Floats, slack: float | None = None) -> bool:
        """Return whether all values agree with exact frequencies, except for errors that `distance` tolerates.

        slack: tolerated relative error (default: that of float32 arithmetic).
        """
        return bool(self.distance(exact, slack).max(initial=0.0) <= 1)

    def distance(self, exact: Floats, slack: float | None = None) -> Floats:
        """Return the differences from exact frequencies, divided by the tolerated differences.

        slack: tolerated relative error (default: that of float32 arithmetic). If ``form`` has 16 bits, the error of one
        rounding to it is tolerated in addition.
        """
        relative = relative_slack(exact) if slack is None else slack
        size = np.abs(exact)
        allowed = relative * size + 1e-12 * size.max(initial=1e-300)
        if self.form in HALVES:
            # add the error of one rounding to 16 bits
            allowed = allowed + self.form.rounding * np.maximum(size, np.abs(self.numbers)) + least_of(self.form)
        # if all exact frequencies are 0, the quotients overflow to infinity
        with np.errstate(over="ignore"):
            result: Floats = np.abs(self.numbers - exact) / allowed
        return result

    def finding(
        self, verdict: Any, fault: Fault | None, reason: str, exact: Floats | None, kind: str = _KIND
    ) -> Finding:
        """Return a finding, which contains the errors of the values unless ``exact`` is None.

        exact: exact frequencies, or None if they are unknown.
        """
        if exact is None:
            return Finding(self.name, kind, verdict, fault, reason)
        error = float(np.abs(self.numbers - exact).max())
        radians = None if self.length is None else error * self.length
        return Finding(self.name, kind, verdict, fault, reason, error, radians)

    def worst(self, exact: Floats) -> str:
        """Return a clause about the pair with the largest error."""
        pair = int(np.abs(self.numbers - exact).argmax())
        return f"pair {pair} has {self.numbers[pair]:.9g} instead of {exact[pair]:.9g}"


def judge_frequencies(
    name: str, values: Any, rotaries: Sequence[Rotary] = (), *, length: float | None = None
) -> Finding:
    """Return the finding for a tensor such as ``inv_freq``.

    Parameters
    ----------
    name : str
        The tensor's name.
    values : array or tensor of shape (pairs,), possibly with more axes of length 1
        Radians per unit of position, in their stored type.
    rotaries : sequence of Rotary
        Encodings of the model's layers; the frequencies must match one of these. An encoding is left out unless it, or
        one of its axes, has as many frequencies as ``values``. Empty without a config.
    length : float, optional
        Number of positions of the model. The finding gives the error of the angle at this position.
    """
    array = array_of(values, name)
    if array.dtype.kind == "c":
        return unknown_tensor(name, "complex numbers are not frequencies")
    numbers = array.astype(np.float64).reshape([n for n in array.shape if n != 1] or [array.size])
    if numbers.ndim != 1 or not numbers.size:
        return unknown_tensor(name, f"frequencies cannot have shape {array.shape}")
    tensor = _Frequencies(name, numbers, narrowest(array), length)
    expected = [(rotary, exact) for rotary in rotaries for exact in exact_sets(rotary) if exact.shape == numbers.shape]
    not_finite = np.flatnonzero(~np.isfinite(numbers))
    if len(not_finite):
        if expected:
            return tensor.finding(
                "wrong", "values", f"the values at indices {listed(not_finite, 8)} are not finite", None
            )
        return unknown_tensor(name, "values that are not finite")
    if not expected:
        return _of_other_length(_without_config(tensor), rotaries)
    if not numbers.any() and "inv_freq" in name:
        # a tensor of zeros was probably never written
        rotary, exact = expected[0]
        return tensor.finding("wrong", "values", f"compared with {described(rotary)}: all values are 0", exact)
    for rotary, exact in expected:
        # compare with the tolerance of float32: values in 16 bits are right only if rounding did not change them
        if tensor._replace(form=FLOAT32).near(exact):
            return tensor.finding("right", None, f"same as {described(rotary)}", exact)
    # with several axes, a program may store the frequencies axis by axis
    expected = [
        (rotary, exact if rotary._settings.axes is None else _sorted_like(numbers, exact)) for rotary, exact in expected
    ]
    for rotary, exact in expected:
        if tensor._replace(form=FLOAT32).near(exact):
            return tensor.finding("right", None, f"same as {described(rotary)}, axis by axis", exact)
    for variants in (_rounded, _orders, _bases, _scalings, _arithmetic, _few_wrong, _identified):
        for rotary, exact in expected:
            variant = next(variants(tensor, rotary, exact), None)
            if variant is not None:
                return _fault_finding(tensor, variant, exact)
    rotary, exact = min(expected, key=lambda pair: float(np.abs(numbers - pair[1]).max()))
    # with linear scaling, a program may store the unscaled frequencies, and divide positions instead
    plausible = _resembles(numbers, exact) or _resembles(numbers, without_scaling(rotary, exact))
    if plausible or _at_least_half_agree(tensor, exact):
        difference = f"the values differ from {described(rotary)}, and no known fault explains the difference"
        reason = f"{tensor.worst(exact)}; {difference}"
        return tensor.finding("wrong", "frequencies", reason, exact)
    return unknown_tensor(name, f"very different from {described(rotary)}")


def _at_least_half_agree(tensor: _Frequencies, exact: Floats) -> bool:
    """Return whether at least half of the values agree with the exact ones."""
    return 2 * int((tensor.distance(exact) <= 1).sum()) >= len(exact)


def _of_other_length(finding: Finding, rotaries: Sequence[Rotary]) -> Finding:
    """Return the finding for frequencies whose number differs from that of each encoding in ``rotaries``.

    The verdict "right" becomes "unknown". If ``rotaries`` is empty, the finding is unchanged.
    """
    counts = sorted({rotary.rotary_dim // 2 for rotary in rotaries})
    if not counts or finding.verdict != "right":
        return finding
    reason = f"{finding.says}; the config's rotary encodings have {' or '.join(map(str, counts))} frequencies"
    return replace(finding, verdict="unknown", says=reason)


def exact_sets(rotary: Rotary) -> Iterator[Floats]:
    """Yield the arrays of exact frequencies that a tensor of a Rotary may store.

    They are the frequencies of all pairs or of one axis: unchanged, as absolute values, or in turns instead of radians.
    """
    of_pairs = rotary.frequencies
    # With several axes, there are two shapes. In shape (pairs,), pair i uses only the axis `axes[i]`. In shape
    # (pairs, axes), each pair has a frequency for each axis.
    sets = [of_pairs] if of_pairs.ndim == 1 else list(of_pairs.T)
    axes = rotary._settings.axes
    if axes is not None and of_pairs.ndim == 1:
        sets += [of_pairs[np.asarray(axes) == axis] for axis in sorted(set(axes))]
    seen: list[Floats] = []
    for frequencies in sets:
        # a program may store positive frequencies and change the sign of sines later, or store turns
        for stored in (frequencies, np.abs(frequencies), frequencies / (2 * math.pi)):
            if not any(np.array_equal(stored, other) for other in seen):
                seen.append(stored)
                yield stored


def _fault_finding(tensor: _Frequencies, variant: Variant, exact: Floats) -> Finding:
    """Return the finding for a fault that explains all values.

    The verdict is "unknown" if the values are right for some programs, else "wrong".
    """
    if variant.may_be_right:
        return tensor.finding("unknown", None, variant.reason, exact)
    reason = variant.reason
    was_rounded = tensor.form in HALVES and not tensor._replace(form=FLOAT32).near(variant.frequencies)
    if was_rounded and variant.fault not in ("rounded", "values"):
        reason += f", and rounded to {tensor.form.name}"
    return tensor.finding("wrong", variant.fault, f"{reason}: {tensor.worst(exact)}", exact)


def _resembles(numbers: Floats, exact: Floats) -> bool:
    """Return whether values were probably meant to be the exact frequencies.

    The result is True if the ratio of each value to the exact value is between 1/2 and 2. If the values never rise, it
    suffices that the first ratio is in this range. Ratios in which a number is 0 are ignored, but they may be at most
    half of all ratios. The result is False if a value is negative.
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


def _rounded(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies with one or two steps of their formula rounded to 16 bits, if they explain the values."""
    unscaled = without_scaling(rotary, exact)
    scaling_factors = exact / np.where(unscaled == 0, 1.0, unscaled)
    n = len(exact)
    for form in HALVES:
        if tensor.form is form and tensor.near(exact):
            yield Variant(
                "rounded", f"frequencies of {described(rotary)}, rounded to {form.name}", through(form, exact)
            )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            of_rounded_powers = np.sign(exact) * scaling_factors / through(form, 1 / np.abs(unscaled))
            # maps each rounded step to the frequencies that result
            steps = {
                "frequencies": through(form, exact),
                "frequencies before their scaling": through(form, unscaled) * scaling_factors,
                "powers of the base": of_rounded_powers,
                "powers of the base and frequencies": through(form, of_rounded_powers),
            }
            if rotary.base is not None:
                exponents = through(form, np.arange(n) / n)
                steps["exponents"] = scaling_factors * rotary.base**-exponents
        for step, frequencies in steps.items():
            if np.isfinite(frequencies).all() and tensor._replace(form=FLOAT32).near(frequencies):
                reason = f"compared with {described(rotary)}: {step} went through {form.name}"
                yield Variant("rounded", reason, frequencies)


def _arithmetic(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the values of the tensor if errors of 16-bit arithmetic explain how they differ from ``exact``.

    A relative error e of an exponent becomes a relative error ``e * log(power)`` of the power.
    """
    if tensor.form not in HALVES or not exact.all():
        return
    logs = np.abs(np.log(np.abs(exact)))
    allowed = tensor.form.rounding * (3 + 2 * logs) * np.abs(exact) + 2 * least_of(tensor.form)
    if (np.abs(tensor.numbers - exact) <= allowed).all():
        yield Variant("rounded", f"frequencies of {described(rotary)}, computed in {tensor.form.name}", tensor.numbers)


def _orders(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the exact frequencies in another order, or with the opposite sign, if they explain the values."""
    if tensor.near(-exact):
        yield Variant(
            "layout", f"frequencies of {described(rotary)} with the opposite sign, so pairs rotate backwards", -exact
        )
        return
    reordered = _sorted_like(tensor.numbers, exact)
    if len(exact) >= _LEAST_COUNT and not np.array_equal(reordered, exact) and tensor.near(reordered):
        order = "in reverse order" if tensor.near(exact[::-1]) else "in another order"
        yield Variant("layout", f"frequencies of {described(rotary)} {order}", reordered)


def _sorted_like(numbers: Floats, exact: Floats) -> Floats:
    """Return the exact frequencies in the order of the numbers: the largest where the largest number is, and so on."""
    result = np.empty_like(exact)
    result[np.argsort(-numbers, kind="stable")] = -np.sort(-exact)
    return result


def _bases(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies with another base if they explain all values."""
    for variant in base_variants(rotary, exact, tensor.numbers, 0.2 if tensor.form in HALVES else 1e-2):
        if tensor.near(variant.frequencies):
            yield variant


def base_variants(rotary: Rotary, exact: Floats, numbers: Floats, slack: float = 1e-2) -> Iterator[Variant]:
    """Yield frequencies with other bases and the scaling of the Rotary. The bases are estimated from ``numbers``.

    If the numbers are the frequencies of only one of several axes, no scaling is applied. slack: largest difference
    between the logarithms of a known base and of an estimate.
    """
    config_base, n = rotary.base, len(exact)
    if config_base is None or n < _LEAST_COUNT:
        return
    for base in _possible_bases(numbers, slack):
        if abs(base / config_base - 1) < 1e-9:
            continue
        reason = f"base {base:g}, but the config has {config_base:g}"
        if n == rotary.rotary_dim // 2:
            other = _changed(rotary, base=base)
            if other is not None:
                yield Variant("base", reason, other.frequencies, other.attention_factor)
        elif exact[0] == 1:
            # the numbers are the frequencies of one of several axes
            yield Variant("base", reason, base ** (-np.arange(n) / n))


def _possible_bases(numbers: Floats, slack: float) -> list[float]:
    """Return bases that frequencies may have: known bases near the estimates, rounded estimates, and the estimates.

    There are up to three estimates. Each is computed from the first frequency and one other: the second, the one after
    a quarter of the frequencies, or the last.
    """
    count = len(numbers)
    estimates = []
    for pair in (1, max(1, count // 4), count - 1):
        if numbers[0] > 0 and numbers[pair] > 0:
            # frequency i is the first one times base ** (-i / count)
            logarithm = -math.log(numbers[pair] / numbers[0]) * count / pair
            if 0 < abs(logarithm) < 100:
                estimates.append(math.exp(logarithm))
    return list(dict.fromkeys(bases_near(estimates, slack, _BASES) + estimates))


def _changed(rotary: Rotary, **changes: Any) -> Rotary | None:
    """Return the Rotary with changed arguments, or None if the arguments are invalid."""
    arguments = {**rotary._arguments(), **changes}
    try:
        return type(rotary)(rotary.head_dim, **arguments)
    except (TypeError, ValueError):
        return None


def without_scaling(rotary: Rotary, exact: Floats) -> Floats:
    """Return the frequencies of a Rotary without its scaling, or ``exact`` if no scaling can be removed."""
    if rotary.base is None or "scaling" not in rotary._arguments() or rotary._settings.rope_type == "axial":
        return exact
    plain = _changed(rotary, scaling=None)
    return exact if plain is None or plain.frequencies.shape != exact.shape else plain.frequencies


def scaling_variants(rotary: Rotary, exact: Floats, numbers: Floats) -> Iterator[Variant]:
    """Yield frequencies with wrong scalings: missing, applied twice, with another factor, or linear.

    The factors are measured from ``numbers``.
    """
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
            other = _changed(rotary, scaling={**scaling, "factor": factor})
            if other is not None and other.frequencies.shape == exact.shape:
                reason = f"factor {factor:g} in {rope_type!r}, but the config has {scaling['factor']:g}"
                if abs(factor / scaling["factor"] ** 2 - 1) < 1e-5:
                    reason = f"the config's factor {scaling['factor']:g} applied twice"
                yield Variant("scaling", reason, other.frequencies, other.attention_factor)
        if rope_type != "linear":
            reason = f"divided by {factor:g} as in linear scaling, but the config has {_shown(scaling)}"
            yield Variant("scaling", reason, unscaled / factor)


def _scalings(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield frequencies with another scaling if they explain all values."""
    if len(exact) != rotary.rotary_dim // 2:
        return
    for variant in scaling_variants(rotary, exact, tensor.numbers):
        if tensor.near(variant.frequencies):
            unscaled = np.array_equal(variant.frequencies, without_scaling(rotary, exact))
            if unscaled and rotary._settings.rope_type == "linear":
                reason = f"{variant.reason}; this is right only if the program divides positions by the factor instead"
                variant = variant._replace(reason=reason, may_be_right=True)
            yield variant


def _few_wrong(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the values of the tensor if at most a quarter of them differ from the exact frequencies.

    Yield nothing if more than 2 values differ, and these are the last ones, for the slowest pairs.
    """
    wrong = np.flatnonzero(tensor._replace(form=FLOAT32).distance(exact) > 1)
    # if only the slowest pairs differ, a wrong scaling is more likely
    only_slowest = len(wrong) > 2 and np.array_equal(wrong, np.arange(len(exact) - len(wrong), len(exact)))
    if 0 < 4 * len(wrong) <= len(exact) and not only_slowest:
        reason = f"the values at indices {listed(wrong, 8)} differ from {described(rotary)}"
        yield Variant("values", reason, tensor.numbers)


def _identified(tensor: _Frequencies, rotary: Rotary, exact: Floats) -> Iterator[Variant]:
    """Yield the frequencies that `identify_rotary` finds, if their base and number are those of the config."""
    if len(exact) < 8 or rotary.base is None:
        return
    answer, scaling = identify_rotary(frequencies=tensor.numbers), rotary._arguments().get("scaling")
    if answer.rotary is None or answer.base is None or (answer.scaling is None and scaling is None):
        return
    if abs(answer.base / rotary.base - 1) < 1e-6 and answer.rotary.frequencies.shape == exact.shape:
        reason = f"with {_shown(answer.scaling)}, but the config has {_shown(scaling)}"
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


def presets_clause(identification: RotaryIdentification) -> str:
    """Return the names of up to three presets in parentheses, or an empty text if no preset was identified."""
    return f" ({', '.join(identification.presets[:3])})" if identification.presets else ""


def _shown(scaling: Mapping[str, Any] | None) -> str:
    if scaling is None:
        return "no scaling"
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in scaling.items()
        if value is not None and not isinstance(value, (tuple, list))
    )


# ---- without a config -----------------------------------------------------------------------------------------------


def _without_config(tensor: _Frequencies) -> Finding:
    """Return the finding for frequencies without a config, which are compared with known schedules."""
    numbers = tensor.numbers
    reason = "no known schedule of frequencies; probably learned frequencies, or other weights"
    unknown = unknown_tensor(tensor.name, reason)
    if len(numbers) < _LEAST_COUNT or (numbers < 0).any() or not numbers.any():
        return unknown
    rises = np.diff(numbers) > 0
    if 4 * min(int(rises.sum()), int((~rises).sum())) > len(rises):
        # more than a quarter of the steps rise, and more than a quarter do not, unlike in any schedule
        return unknown
    for form in (FLOAT32, *HALVES):
        if form is not FLOAT32 and not fits(form, numbers):
            continue
        tensor = tensor._replace(form=form)
        for kind, words, exact in _schedules(tensor):
            if form is FLOAT32:
                return tensor.finding("right", None, words, exact, kind)
            rounded_once = np.isclose(through(form, exact), numbers, rtol=1e-9, atol=0)
            if len(numbers) >= 8 and 10 * int(rounded_once.sum()) >= 9 * len(numbers):
                reason = f"{words}, rounded to {form.name}: {tensor.worst(exact)}"
                return tensor.finding("wrong", "rounded", reason, exact, kind)
    return unknown


def _schedules(tensor: _Frequencies) -> Iterator[tuple[str, str, Floats]]:
    """Yield (kind of finding, description, exact frequencies) for each schedule near the values.

    Powers of 2 come first, then powers of other bases, then the schedule that `identify_rotary` finds.
    """
    numbers, n = tensor.numbers, len(tensor.numbers)
    for ratio in (2.0, 0.5):
        exact = numbers[0] * ratio ** np.arange(n)
        if tensor.near(exact):
            yield "frequencies of octaves", f"{numbers[0]:g} times powers of {ratio:g}", exact
    if (numbers > 0).all() and numbers[0] != numbers[-1]:
        for shift in (1.0, 0.0, 0.5):
            denominator = n - shift
            for base in _bases_by_ends(tensor, denominator):
                exact = numbers[0] * base ** (-np.arange(n) / denominator)
                if not tensor.near(exact):
                    continue
                if shift != 1.0 and (len(f"{base:g}") <= 6 or base in _BASES):
                    yield _KIND, f"powers of base {base:g} from {numbers[0]:g} on", exact
                elif shift == 1.0 and base in _BASES:
                    words = f"{n} frequencies from {numbers[0]:g} to {numbers[-1]:.6g}, powers of base {base:g}"
                    yield "timestep frequencies", words, exact
    if n >= 8:
        dtype = np.float16 if tensor.form is FLOAT16 else np.float64
        answer = identify_rotary(frequencies=numbers.astype(dtype))
        if answer.rotary is not None and answer.rotary.frequencies.shape == numbers.shape:
            words = f"same as {described(answer.rotary)}{presets_clause(answer)}"
            yield _KIND, words, answer.rotary.frequencies


def _bases_by_ends(tensor: _Frequencies, denominator: float) -> list[float]:
    """Return bases for which ``base ** (-(n - 1) / denominator)`` is about the last value divided by the first.

    n: number of values. denominator: denominator of the exponents.
    """
    numbers = tensor.numbers
    logarithm = math.log(numbers[0] / numbers[-1]) * denominator / (len(numbers) - 1)
    if not 0 < abs(logarithm) < 100:
        return []
    base = math.exp(logarithm)
    return bases_near([base], 0.05 if tensor.form in HALVES else 1e-3, _BASES, ROTARY_DIGITS)
