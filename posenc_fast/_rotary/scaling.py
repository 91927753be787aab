"""Frequencies of rotary encodings: the known ways to stretch them to longer sequences, each by its formula in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numbers.arguments import count_of, real, real_array
from .._numbers.names import meant
from .._numbers.schedule import Schedule, geometric

__all__ = ["SCALINGS", "Frequencies", "checked_scaling", "frequencies_of"]

Floats = npt.NDArray[np.float64]

REQUIRED = object()


class Frequencies(NamedTuple):
    """Radians per unit of position, exact real numbers where nothing scales them; a factor of cosines and sines."""

    values: Schedule | Floats
    attention_factor: float


class Scaling(NamedTuple):
    """parameters: name and default of each; compute: from rotary_dim, base and the parameters."""

    parameters: dict[str, Any]
    compute: Callable[..., Frequencies]


def _unscaled(dim: int, base: float) -> Floats:
    return base ** (-np.arange(0, dim, 2) / dim)


def _default(dim: int, base: float) -> Frequencies:
    return Frequencies(geometric(dim // 2, base=base), 1.0)


def _linear(dim: int, base: float, factor: float) -> Frequencies:
    return Frequencies(_unscaled(dim, base) / factor, 1.0)


def _ntk(dim: int, base: float, alpha: float) -> Frequencies:
    return Frequencies(_unscaled(dim, base * alpha ** (dim / (dim - 2)) if dim > 2 else base), 1.0)


def _ntk_fixed(dim: int, base: float, factor: float) -> Frequencies:
    return Frequencies(_unscaled(dim, base * factor) / factor ** (2 / dim), 1.0)


def _ntk_mixed(dim: int, base: float, factor: float, b: float) -> Frequencies:
    exponents = np.arange(1, dim // 2 + 1) ** b / (dim / 2) ** b
    return Frequencies(_unscaled(dim, base) / factor**exponents, 1.0)


def _dynamic(
    dim: int, base: float, factor: float, max_position_embeddings: float, seq_len: float | None
) -> Frequencies:
    length = max(seq_len or 0.0, max_position_embeddings)
    return _ntk(dim, base, factor * length / max_position_embeddings - (factor - 1))


def _yarn_ramp(dim: int, base: float, original: float, fast: float, slow: float, truncate: bool) -> Floats:
    """From 0, for pairs that turn more often than ``fast`` over the original length, to 1, fewer than ``slow``."""

    def index(turns: float) -> float:
        """Of the pair that turns so often over the original length."""
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = index(fast), index(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2, dtype=np.float64) - low) / (high - low if high != low else 0.001), 0.0, 1.0)
    return ramp


def _yarn(
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: float,
    beta_fast: float,
    beta_slow: float,
    truncate: bool,
    attention_factor: float | None,
    mscale: float | None,
    mscale_all_dim: float | None,
) -> Frequencies:
    def attention(scale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    ramp = _yarn_ramp(dim, base, original_max_position_embeddings, beta_fast, beta_slow, truncate)
    unscaled = _unscaled(dim, base)
    if attention_factor is None:
        both = mscale and mscale_all_dim
        attention_factor = attention(mscale) / attention(mscale_all_dim) if both else attention(1.0)  # type: ignore[arg-type]
    return Frequencies(unscaled / factor * ramp + unscaled * (1 - ramp), attention_factor)


def _yarn_log(
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: float,
    beta_fast: float,
    beta_slow: float,
    extrapolation_factor: float,
) -> Frequencies:
    ramp = _yarn_ramp(dim, base, original_max_position_embeddings, beta_fast, beta_slow, True)
    return Frequencies(_unscaled(dim, base) / factor ** (1 - (1 - ramp) * extrapolation_factor), 1.0)


def _theta_scale(dim: int, base: float, factor: float, original_max_position_embeddings: float) -> Frequencies:
    turns = original_max_position_embeddings / (2 * math.pi)
    return Frequencies(_unscaled(dim, base ** (math.log(turns * factor) / math.log(turns))), 1.0)


def _longrope(
    dim: int,
    base: float,
    short_factor: Floats,
    long_factor: Floats,
    original_max_position_embeddings: float,
    max_position_embeddings: float | None,
    factor: float | None,
    attention_factor: float | None,
    seq_len: float | None,
) -> Frequencies:
    original = original_max_position_embeddings
    if factor is None:
        factor = 1.0 if max_position_embeddings is None else max_position_embeddings / original
    if attention_factor is None:
        attention_factor = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    divisors = long_factor if seq_len is not None and seq_len > original else short_factor
    return Frequencies(_unscaled(dim, base) / divisors, attention_factor)


def _llama3(
    dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> Frequencies:
    unscaled = _unscaled(dim, base)
    turns = original_max_position_embeddings * unscaled / (2 * np.pi)
    smooth = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return Frequencies((1 - smooth) * unscaled / factor + smooth * unscaled, 1.0)


def _proportional(dim: int, base: float, factor: float, partial_rotary_factor: float) -> Frequencies:
    values = _unscaled(dim, base) / factor
    values[int(partial_rotary_factor * dim // 2) :] = 0.0
    return Frequencies(values, 1.0)


_XPOS = {"scale_base": 512.0, "center": 0.0, "smoothing": 0.4, "keys": False}

# after transformers' modeling_rope_utils, those of ntk after vLLM, yarn_log and theta_scale after sglang's models/grok.py
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
    # the frequencies of each section begin anew; and amplitudes that fall with the position
    "axial": Scaling({}, _default),
    "xpos": Scaling(_XPOS, lambda dim, base, **_: _default(dim, base)),
}
_BOOLEANS = {"truncate", "keys"}
_LISTS = {"short_factor", "long_factor"}
_ANY_SIGN = {"center", "mscale", "mscale_all_dim"}


def checked_scaling(scaling: Any, pairs: int, where: str = "scaling") -> tuple[str, dict[str, Any]]:
    """rope_type and its parameters with all defaults, or an error that names what is missing, unknown or wrong."""
    if scaling is None:
        return "default", {}
    if not isinstance(scaling, Mapping):
        raise TypeError(f"{where} must be a mapping with a rope_type, not {scaling!r}")
    given: dict[str, Any] = dict(scaling)
    name = given.pop("rope_type", given.pop("type", None))
    if not isinstance(name, str) or name not in SCALINGS:
        raise ValueError(
            f"{where} has rope_type={name!r}, which is none of {', '.join(SCALINGS)}{meant(name, SCALINGS)}"
        )
    known = SCALINGS[name].parameters
    unknown = sorted(set(given) - set(known), key=str)
    if unknown:
        advice = meant(unknown[0], known) or f"; there are {', '.join(known) or 'none'}"
        raise ValueError(f"{where} has {unknown[0]!r}, which {name} does not take{advice}")
    result: dict[str, Any] = {}
    for key, default in known.items():
        value: Any = given.get(key, default)
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
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} must have one number for each of {pairs} pairs, not lists of several lengths"
        ) from None
    array = real_array(array, name)
    if array.shape != (pairs,):
        raise ValueError(f"{name} must have a positive number for each of {pairs} pairs, not shape {array.shape}")
    if (array <= 0).any():
        raise ValueError(f"{name} must have positive numbers alone, not {array[array <= 0][0]}")
    return tuple(array.tolist())


def frequencies_of(rotary_dim: int, base: float, rope_type: str, parameters: dict[str, Any]) -> Frequencies:
    """Frequencies of the pairs, and the attention factor."""
    values = {key: np.array(value) if isinstance(value, tuple) else value for key, value in parameters.items()}
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return SCALINGS[rope_type].compute(rotary_dim, base, **values)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"rope_type {rope_type!r} has no frequencies for base={base} and {parameters}") from error


def xpos_amplitudes(positions: Floats, pairs: int, parameters: dict[str, Any]) -> Floats:
    """(..., pairs): zeta[i] ** ((position - center) / scale_base), its reciprocal for keys."""
    smoothing = parameters["smoothing"]
    zeta = (np.arange(pairs) / pairs + smoothing) / (1 + smoothing)
    power = (positions - parameters["center"]) / parameters["scale_base"]
    amplitudes: Floats = zeta ** (-power if parameters["keys"] else power)[..., np.newaxis]
    return amplitudes


def count_pairs(rotary_dim: Any, head_dim: int) -> int:
    """rotary_dim, an even number up to head_dim."""
    dim = count_of(rotary_dim, "rotary_dim", 2)
    if dim % 2:
        raise ValueError(f"rotary_dim={dim} is odd, but values turn in pairs; give {dim - 1}")
    if dim > head_dim:
        raise ValueError(f"rotary_dim={dim} is more than head_dim={head_dim}")
    return dim
