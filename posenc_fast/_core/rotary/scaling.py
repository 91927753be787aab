"""Frequencies of rotary encodings, and the formulas that scale them to longer sequences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

import numpy as np

from ..numbers.arguments import count_of, real, real_array
from ..numbers.arrays import Floats
from ..numbers.doubles import exp2, product
from ..numbers.exact import Real, decimal_two_pi, real_of, split, working
from ..numbers.names import meant, one_of
from ..numbers.schedule import Schedule, geometric, radians

# value that marks a parameter without a default
REQUIRED = object()


class Frequencies(NamedTuple):
    """Frequencies of the pairs, and the attention factor.

    values has exact real numbers, in radians per unit of position. attention_factor multiplies cosines and sines, and
    is rounded once to float64.
    """

    values: Schedule
    attention_factor: float


# result of a formula: (frequencies of the pairs, attention factor)
Formula = tuple[Sequence[Decimal], Decimal]


class Scaling(NamedTuple):
    """The parameters and the formula of a rope_type.

    parameters maps names to defaults. compute is the formula, a function of rotary_dim, base and the parameters.
    """

    parameters: dict[str, Any]
    compute: Callable[..., Formula]


class Scaled(Schedule):
    """Frequencies computed by the formula of a rope_type.

    parameters has (name, value) for each parameter, sorted by name.
    """

    __slots__ = ()

    def __init__(self, dim: int, base: float, rope_type: str, parameters: tuple[tuple[str, Any], ...]) -> None:
        self._key = (dim, base, rope_type, parameters)

    def __len__(self) -> int:
        return int(self._key[0]) // 2

    def _formula(self) -> Formula:
        """Return (frequencies, attention factor), computed in the current decimal context."""
        dim, base, rope_type, parameters = self._key
        numbers = {name: _decimals(value) for name, value in parameters}
        return SCALINGS[rope_type].compute(dim, Decimal(base), **numbers)

    def _radians(self, bits: int) -> list[Real]:
        with working(bits):
            return [real_of(value, bits) for value in self._formula()[0]]

    def __reduce__(self) -> tuple[Any, ...]:
        return Scaled, self._key

    def __repr__(self) -> str:
        dim, base, rope_type, parameters = self._key
        return f"{rope_type}({dim}, base={base!r}, {', '.join(f'{name}={value!r}' for name, value in parameters)})"


def _decimals(value: Any) -> Any:
    """Return a number as an exact Decimal, and a tuple as a list of Decimals. None and booleans stay unchanged."""
    if isinstance(value, tuple):
        return [Decimal(number) for number in value]
    return value if value is None or isinstance(value, bool) else Decimal(value)


def _unscaled(dim: int, base: Decimal) -> list[Decimal]:
    values, ratio = [Decimal(1)], base ** (Decimal(-2) / dim)
    for _ in range(dim // 2 - 1):
        values.append(values[-1] * ratio)
    return values


def _clipped(value: Decimal) -> Decimal:
    return min(max(value, Decimal(0)), Decimal(1))


def _default(dim: int, base: Decimal) -> Formula:
    return _unscaled(dim, base), Decimal(1)


def _linear(dim: int, base: Decimal, factor: Decimal) -> Formula:
    return [value / factor for value in _unscaled(dim, base)], Decimal(1)


def _ntk(dim: int, base: Decimal, alpha: Decimal) -> Formula:
    return _default(dim, base * alpha ** (Decimal(dim) / (dim - 2)) if dim > 2 else base)


def _ntk_fixed(dim: int, base: Decimal, factor: Decimal) -> Formula:
    divisor = factor ** (Decimal(2) / dim)
    return [value / divisor for value in _unscaled(dim, base * factor)], Decimal(1)


def _ntk_mixed(dim: int, base: Decimal, factor: Decimal, b: Decimal) -> Formula:
    exponents = ((Decimal(2 * i + 2) / dim) ** b for i in range(dim // 2))
    return [value / factor**e for value, e in zip(_unscaled(dim, base), exponents, strict=True)], Decimal(1)


def _dynamic(
    dim: int, base: Decimal, factor: Decimal, max_position_embeddings: Decimal, seq_len: Decimal | None
) -> Formula:
    length = max(seq_len or Decimal(0), max_position_embeddings)
    return _ntk(dim, base, factor * length / max_position_embeddings - (factor - 1))


def _yarn_ramp(
    dim: int, base: Decimal, original: Decimal, fast: Decimal, slow: Decimal, truncate: bool
) -> list[Decimal]:
    """Return a weight from 0 to 1 for each pair.

    The weight is 0 for pairs with ``fast`` turns or more in the original length. It rises up to 1 for pairs with
    ``slow`` turns or fewer. If `truncate` is true, the indices at which the rise begins and ends are rounded outwards.
    """

    def index(turns: Decimal) -> Decimal:
        """Return the real-valued index of the pair that makes this number of turns over the original length."""
        return dim * (original / (turns * decimal_two_pi())).ln() / (2 * base.ln())

    low, high = index(fast), index(slow)
    if truncate:
        low, high = low.to_integral_value(ROUND_FLOOR), high.to_integral_value(ROUND_CEILING)
    low, high = max(low, Decimal(0)), min(high, Decimal(dim - 1))
    width = high - low if high != low else Decimal("0.001")
    return [_clipped((i - low) / width) for i in range(dim // 2)]


def _yarn(
    dim: int,
    base: Decimal,
    factor: Decimal,
    original_max_position_embeddings: Decimal,
    beta_fast: Decimal,
    beta_slow: Decimal,
    truncate: bool,
    attention_factor: Decimal | None,
    mscale: Decimal | None,
    mscale_all_dim: Decimal | None,
) -> Formula:
    def attention(scale: Decimal) -> Decimal:
        return Decimal(1) if factor <= 1 else scale * factor.ln() / 10 + 1

    ramp = _yarn_ramp(dim, base, original_max_position_embeddings, beta_fast, beta_slow, truncate)
    if attention_factor is None:
        if mscale and mscale_all_dim:
            attention_factor = attention(mscale) / attention(mscale_all_dim)
        else:
            attention_factor = attention(Decimal(1))
    unscaled = zip(_unscaled(dim, base), ramp, strict=True)
    return [value * (weight / factor + (1 - weight)) for value, weight in unscaled], attention_factor


def _yarn_log(
    dim: int,
    base: Decimal,
    factor: Decimal,
    original_max_position_embeddings: Decimal,
    beta_fast: Decimal,
    beta_slow: Decimal,
    extrapolation_factor: Decimal,
) -> Formula:
    ramp = _yarn_ramp(dim, base, original_max_position_embeddings, beta_fast, beta_slow, True)
    unscaled = zip(_unscaled(dim, base), ramp, strict=True)
    return [value / factor ** (1 - (1 - weight) * extrapolation_factor) for value, weight in unscaled], Decimal(1)


def _theta_scale(dim: int, base: Decimal, factor: Decimal, original_max_position_embeddings: Decimal) -> Formula:
    turns = original_max_position_embeddings / decimal_two_pi()
    return _default(dim, base ** ((turns * factor).ln() / turns.ln()))


def _longrope(
    dim: int,
    base: Decimal,
    short_factor: list[Decimal],
    long_factor: list[Decimal],
    original_max_position_embeddings: Decimal,
    max_position_embeddings: Decimal | None,
    factor: Decimal | None,
    attention_factor: Decimal | None,
    seq_len: Decimal | None,
) -> Formula:
    original = original_max_position_embeddings
    if factor is None:
        factor = Decimal(1) if max_position_embeddings is None else max_position_embeddings / original
    if attention_factor is None:
        attention_factor = Decimal(1) if factor <= 1 else (1 + factor.ln() / original.ln()).sqrt()
    divisors = long_factor if seq_len is not None and seq_len > original else short_factor
    return [value / divisor for value, divisor in zip(_unscaled(dim, base), divisors, strict=True)], attention_factor


def _llama3(
    dim: int,
    base: Decimal,
    factor: Decimal,
    low_freq_factor: Decimal,
    high_freq_factor: Decimal,
    original_max_position_embeddings: Decimal,
) -> Formula:
    per_radian, width = original_max_position_embeddings / decimal_two_pi(), high_freq_factor - low_freq_factor
    values = []
    for value in _unscaled(dim, base):
        # value * per_radian is the number of turns of the pair over the original length
        smooth = _clipped((value * per_radian - low_freq_factor) / width)
        values.append(value * ((1 - smooth) / factor + smooth))
    return values, Decimal(1)


def _proportional(dim: int, base: Decimal, factor: Decimal, partial_rotary_factor: Decimal) -> Formula:
    # computed in float64 as in transformers, because rounding can change this count
    count = int(float(partial_rotary_factor) * dim // 2)
    values = [value / factor for value in _unscaled(dim, base)]
    return [value if i < count else Decimal(0) for i, value in enumerate(values)], Decimal(1)


# Sources of the formulas: vLLM for ntk, ntk_fixed and ntk_mixed; sglang's models/grok.py for yarn_log and theta_scale;
# transformers' modeling_rope_utils for the others, except axial and xpos, which are described below.
SCALINGS = {
    "default": Scaling({}, _default),
    "linear": Scaling({"factor": REQUIRED}, _linear),
    "dynamic": Scaling({"factor": REQUIRED, "max_position_embeddings": REQUIRED, "seq_len": None}, _dynamic),
    "ntk": Scaling({"alpha": REQUIRED}, _ntk),
    "ntk_fixed": Scaling({"factor": REQUIRED}, _ntk_fixed),
    "ntk_mixed": Scaling({"factor": REQUIRED, "b": REQUIRED}, _ntk_mixed),
    "yarn": Scaling(
        {
            "factor": REQUIRED,
            "original_max_position_embeddings": REQUIRED,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": True,
            "attention_factor": None,
            "mscale": None,
            "mscale_all_dim": None,
        },
        _yarn,
    ),
    "yarn_log": Scaling(
        {
            "factor": REQUIRED,
            "original_max_position_embeddings": REQUIRED,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "extrapolation_factor": 1.0,
        },
        _yarn_log,
    ),
    "theta_scale": Scaling({"factor": REQUIRED, "original_max_position_embeddings": REQUIRED}, _theta_scale),
    "longrope": Scaling(
        {
            "short_factor": REQUIRED,
            "long_factor": REQUIRED,
            "original_max_position_embeddings": REQUIRED,
            "max_position_embeddings": None,
            "factor": None,
            "attention_factor": None,
            "seq_len": None,
        },
        _longrope,
    ),
    "llama3": Scaling(
        {
            "factor": REQUIRED,
            "low_freq_factor": REQUIRED,
            "high_freq_factor": REQUIRED,
            "original_max_position_embeddings": REQUIRED,
        },
        _llama3,
    ),
    "proportional": Scaling({"factor": 1.0, "partial_rotary_factor": 1.0}, _proportional),
    # axial computes separate default frequencies for each section
    "axial": Scaling({}, _default),
    # xpos has default frequencies, and amplitudes that depend on the position
    "xpos": Scaling({"scale_base": 512.0, "center": 0.0, "smoothing": 0.4, "keys": False}, _default),
}
_BOOLEANS = {"truncate", "keys"}
_LISTS = {"short_factor", "long_factor"}
_ANY_SIGN = {"center", "mscale", "mscale_all_dim"}


def checked_scaling(scaling: Any, pairs: int, where: str = "scaling") -> tuple[str, dict[str, Any]]:
    """Return (rope_type, all parameters by name, with defaults). Raise an error that names an invalid parameter."""
    if scaling is None:
        return "default", {}
    if not isinstance(scaling, Mapping):
        raise TypeError(f"{where} must be a mapping with a rope_type, not {scaling!r}")
    parameters: dict[str, Any] = dict(scaling)
    key = "rope_type" if "rope_type" in parameters else "type"
    if key not in parameters:
        raise ValueError(f"{where} lacks 'rope_type', which must be one of {', '.join(SCALINGS)}")
    name = one_of(parameters.pop(key), f"{where}[{key!r}]", SCALINGS)
    parameters.pop("type", None)
    known = SCALINGS[name].parameters
    unknown = sorted(set(parameters) - set(known), key=str)
    if unknown:
        advice = meant(unknown[0], known) or f"; the accepted keys are {', '.join(known) or 'none'}"
        raise ValueError(f"{where} has the key {unknown[0]!r}, which rope_type {name!r} does not accept{advice}")
    result: dict[str, Any] = {}
    for key, default in known.items():
        value: Any = parameters.get(key, default)
        if value is REQUIRED:
            raise ValueError(f"{where} lacks {key!r}, which rope_type {name!r} needs")
        if value is None and default is None:
            result[key] = None
        elif key in _BOOLEANS:
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{where}[{key!r}] must be True or False, not {value!r}")
            result[key] = bool(value)
        elif key in _LISTS:
            result[key] = _positive_numbers(value, pairs, f"{where}[{key!r}]")
        else:
            result[key] = real(value, f"{where}[{key!r}]", positive=key not in _ANY_SIGN)
    return name, result


def _positive_numbers(value: Any, pairs: int, name: str) -> tuple[float, ...]:
    """Return one positive number for each pair. Raise an error with the parameter's name if value is anything else."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} must have one number for each of {pairs} pairs, not lists of several lengths"
        ) from None
    array = real_array(array, name)
    if array.shape != (pairs,):
        raise ValueError(f"{name} has shape {array.shape}, but must have one positive number for each of {pairs} pairs")
    if (array <= 0).any():
        raise ValueError(f"{name} must have only positive numbers, not {array[array <= 0][0]}")
    return tuple(array.tolist())


def frequencies_of(rotary_dim: int, base: float, rope_type: str, parameters: Mapping[str, Any]) -> Frequencies:
    """Return the Frequencies for a rope_type and parameters.

    Raise an error if a frequency or the attention factor is not finite.
    """
    if SCALINGS[rope_type].compute is _default:
        return Frequencies(geometric(rotary_dim // 2, base=base), 1.0)
    schedule = Scaled(rotary_dim, base, rope_type, tuple(sorted(parameters.items())))
    try:
        with working():
            factor = float(schedule._formula()[1])
        finite = np.isfinite(radians(schedule)).all() and np.isfinite(factor)
    except ArithmeticError:
        finite = False
    if not finite:
        raise ValueError(
            f"rope_type {rope_type!r} gives a frequency or attention factor that is not finite for base={base} and "
            f"{parameters}; pass other parameters or another base"
        )
    return Frequencies(schedule, factor)


def xpos_amplitudes(positions: Floats, pairs: int, parameters: dict[str, Any]) -> Floats:
    """Return zeta[i] ** ((position - center) / scale_base), or the reciprocal for keys, of shape (..., pairs).

    `_xpos_logarithms` defines zeta.
    """
    high, low = _xpos_logarithms(pairs, parameters["smoothing"])
    power = (positions - parameters["center"]) / parameters["scale_base"]
    return exp2(*product((-power if parameters["keys"] else power)[..., np.newaxis], 0.0, high, low))


@functools.lru_cache(maxsize=64)
def _xpos_logarithms(pairs: int, smoothing: float) -> Floats:
    """Return an array (2, pairs) of high and low parts of log2(zeta).

    zeta[i] is (i / pairs + smoothing) / (1 + smoothing).
    """
    with working():
        added, two = Decimal(smoothing), Decimal(2).ln()
        zetas = ((Decimal(i) / pairs + added) / (1 + added) for i in range(pairs))
        return split([real_of(zeta.ln() / two, 128) for zeta in zetas])


def count_pairs(rotary_dim: Any, head_dim: int) -> int:
    """Return rotary_dim as an int. Raise an error unless it is an even number from 2 to head_dim."""
    dim = count_of(rotary_dim, "rotary_dim", 2)
    if dim % 2:
        raise ValueError(f"rotary_dim={dim} is odd, but values are rotated in pairs; pass rotary_dim={dim - 1}")
    if dim > head_dim:
        raise ValueError(f"rotary_dim={dim} must be at most head_dim={head_dim}")
    return dim
