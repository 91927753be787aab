"""Export a Rotary as attributes of an ONNX operator, as rotary parameters of a config, or as metadata of GGUF."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.numbers import annotations as npt
from .._core.numbers.arguments import count_of
from .._core.numbers.arrays import Floats
from .._core.numbers.schedule import geometric
from .._core.rotary.pairs import Settings, in_turn, source_and_target
from .._core.rotary.scaling import SCALINGS
from ..typing import RotaryLayout, WeightLayout
from .gguf import ARCHITECTURES, BETAS, layout_of, yarn_attention_factor

# Divisor that converters to GGUF write for a pair that does not rotate. A frequency divided by it is practically 0.
_NO_ROTATION = 1e30


def _layout_advice(layout: RotaryLayout, wanted: WeightLayout) -> str:
    """Return advice for a Rotary whose layout is not ``wanted``, the layout that a program uses."""
    advice = f"use a Rotary with layout={wanted!r}"
    if source_and_target(layout)[0] == wanted:
        return f"{advice}; with the same weights, the attention scores are the same"
    return f"permute the weights of queries and keys (permute_rotary), and {advice}"


def onnx_attributes(settings: Settings, num_heads: Any) -> dict[str, int]:
    """Return the attributes of ONNX's RotaryEmbedding, or raise an error if it cannot express the encoding."""
    if settings.layout == "interleaved_to_half":
        raise ValueError(
            "RotaryEmbedding does not support layout='interleaved_to_half'; "
            + _layout_advice(settings.layout, "interleaved")
        )
    if _has_axes(settings):
        raise ValueError(
            "the operator RotaryEmbedding has one position per token, but this Rotary has several axes; use "
            "Rotary.tables(positions)"
        )
    dim = settings.rotary_dim
    attributes = {
        "interleaved": int(settings.layout == "interleaved"),
        # in ONNX, 0 means that the whole head rotates
        "rotary_embedding_dim": 0 if dim == settings.head_dim else dim,
    }
    return attributes if num_heads is None else {**attributes, "num_heads": count_of(num_heads, "num_heads", 1)}


def _has_axes(settings: Settings) -> bool:
    """Return whether positions have several axes."""
    return settings.axes is not None or (settings.frequencies is not None and len(settings.frequencies) > 1)


# ---- rotary parameters of a config -----------------------------------------------------------------------------------


def config_of(settings: Settings, attention_factor: float) -> dict[str, Any] | None:
    """Return a config of transformers for all of an encoding except its layout, or None if no config can express it."""
    name, parameters = settings.rope_type, dict(settings.parameters)
    if settings.frequencies is not None or name not in _WRITTEN:
        return None
    rope: dict[str, Any] = {"rope_type": name, "rope_theta": settings.base}
    rope |= {key: _plain(parameters[key]) for key in _WRITTEN[name] if parameters[key] is not None}
    if name == "yarn":
        if not (rope.get("mscale") and rope.get("mscale_all_dim")):
            # mscale and mscale_all_dim have no effect unless both are present and not 0
            rope.pop("mscale", None)
            rope.pop("mscale_all_dim", None)
        if rope["truncate"]:
            del rope["truncate"]
    if name == "longrope":
        rope["attention_factor"] = attention_factor
    if settings.rotary_dim != settings.head_dim:
        fraction = _fraction(settings.rotary_dim, settings.head_dim)
        if name == "proportional" or fraction is None:
            return None
        rope["partial_rotary_factor"] = fraction
    if settings.axes is not None:
        counts = np.bincount(settings.axes).tolist()
        rope["mrope_section"] = counts
        if list(settings.axes) != sorted(settings.axes):
            if list(settings.axes) != in_turn(counts, len(settings.axes)):
                return None
            rope["mrope_interleaved"] = True
    config: dict[str, Any] = {"head_dim": settings.head_dim, "rope_parameters": rope}
    if name == "dynamic":
        config["max_position_embeddings"] = _plain(parameters["max_position_embeddings"])
    return config


# maps each rope_type of transformers to the parameters that a config does not contain, or contains outside of its
# rotary parameters
_LEFT_OUT: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": (),
    "dynamic": ("max_position_embeddings", "seq_len"),
    "yarn": (),
    "longrope": ("max_position_embeddings", "factor", "attention_factor", "seq_len"),
    "llama3": (),
    "proportional": (),
}
# maps each rope_type to the parameters that the rotary parameters of a config contain
_WRITTEN = {
    name: tuple(key for key in SCALINGS[name].parameters if key not in left_out) for name, left_out in _LEFT_OUT.items()
}


def _plain(value: Any) -> Any:
    """Return a value for JSON. A tuple becomes a list. A whole float of at least 1024, such as a length, becomes an int."""
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() and value >= 1024 else value


def _fraction(dim: int, head: int) -> float | None:
    """Return a fraction from which transformers computes ``int(head * fraction) == dim``, or None if none was found."""
    for fraction in (dim / head, math.nextafter(dim / head, 1.0)):
        if int(head * fraction) == dim:
            return fraction
    return None


# ---- metadata of GGUF ------------------------------------------------------------------------------------------------


def gguf_of(settings: Settings, frequencies: Floats, attention_factor: float, architecture: Any) -> dict[str, Any]:
    """Return GGUF metadata from which llama.cpp computes an encoding, or raise an error if GGUF cannot express it.

    The result maps metadata keys to values, and names of tensors to arrays.
    """
    mode, layout = ARCHITECTURES.get(architecture), layout_of(architecture)
    sectioned = mode in ("contiguous", "interleaved")
    if settings.layout != layout:
        raise ValueError(
            f"layout={settings.layout!r} differs from layout={layout!r}, which llama.cpp uses for {architecture!r}; "
            + _layout_advice(settings.layout, layout)
        )
    if settings.amplitudes_vary or (settings.rope_type == "axial" and settings.axes is not None):
        raise ValueError(f"scaling has rope_type={settings.rope_type!r}, for which GGUF has no keys")
    if not sectioned and _has_axes(settings):
        names = ", ".join(name for name, value in ARCHITECTURES.items() if value in ("contiguous", "interleaved"))
        raise ValueError(
            f"{architecture!r} has one position per token in llama.cpp, but this Rotary has several axes; give one of "
            f"the architectures {names}"
        )
    head, dim, pairs = settings.head_dim, settings.rotary_dim, settings.rotary_dim // 2
    rope: dict[str, Any] = {"dimension_count": dim, "freq_base": settings.base}
    tensors: Mapping[str, Any] = {}
    if sectioned:
        rope["dimension_sections"] = _sections(settings, architecture, mode)
    scaling = _native(settings, attention_factor, architecture)
    if scaling is None:
        tensors = {"rope_freqs.weight": _divisors(frequencies, np.asarray(geometric(pairs, base=settings.base)))}
        scaling = {} if attention_factor == 1 else {"attn_factor": attention_factor}
    elif settings.rope_type == "longrope":
        lists = dict(settings.parameters)
        tensors = {
            f"rope_factors_{kind}.weight": np.array(lists[f"{kind}_factor"], np.float32) for kind in ("short", "long")
        }
    rope |= {f"scaling.{key}": value for key, value in scaling.items()}
    return {
        "general.architecture": architecture,
        f"{architecture}.attention.key_length": head,
        **{f"{architecture}.rope.{key}": value for key, value in rope.items()},
        **tensors,
    }


def _native(settings: Settings, attention_factor: float, architecture: str) -> dict[str, Any] | None:
    """Return metadata for a scaling that llama.cpp computes itself, or None if the file needs a tensor of divisors.

    The result maps keys, without the prefix ``rope.scaling.``, to values.
    """
    name, parameters = settings.rope_type, dict(settings.parameters)
    if settings.frequencies is not None:
        return None
    if name == "default":
        return {}
    if name == "linear":
        return {"type": "linear", "factor": parameters["factor"]}
    lengths = {"original_context_length": int(parameters.get("original_max_position_embeddings", 0))}
    if name == "longrope" and parameters["short_factor"] != parameters["long_factor"]:
        return {"type": "longrope", "attn_factor": attention_factor, **lengths}
    if name != "yarn" or not parameters["truncate"]:
        return None
    factor, betas = parameters["factor"], (parameters["beta_fast"], parameters["beta_slow"])
    default = yarn_attention_factor(factor)
    result = {"type": "yarn", "factor": factor, **lengths}
    if betas != (32.0, 1.0):
        if architecture not in BETAS:
            return None
        result |= {"yarn_beta_fast": betas[0], "yarn_beta_slow": betas[1]}
    return result if attention_factor == default else {**result, "attn_factor": attention_factor / default}


def _divisors(frequencies: Floats, unscaled: Floats) -> npt.NDArray[np.float32]:
    """Return the unscaled frequencies divided by the frequencies, in float32, which is the type of divisors in files.

    For a frequency of 0, return `_NO_ROTATION`. Raise ValueError if a frequency is negative, or a quotient is not a
    positive float32 number.
    """
    if (frequencies < 0).any():
        raise ValueError(
            "a frequency is negative, which llama.cpp does not support; use a Rotary with the absolute values of the "
            "frequencies, and for each negative frequency, swap the two rows of its pair in the weights of queries and "
            "of keys"
        )
    is_zero = frequencies == 0
    with np.errstate(over="ignore", under="ignore"):
        divisors = np.where(is_zero, _NO_ROTATION, unscaled / np.where(is_zero, 1.0, frequencies)).astype(np.float32)
    is_valid = np.isfinite(divisors) & (divisors > 0)
    if not is_valid.all():
        i = int(is_valid.argmin())
        raise ValueError(
            f"frequency {i} is {float(frequencies[i])!r} and cannot be stored in rope_freqs.weight, because the "
            f"quotient {float(unscaled[i])!r} / {float(frequencies[i])!r} is not a positive float32 number. Use a Rotary "
            f"whose frequency {i} is 0, or closer to the unscaled frequency {float(unscaled[i])!r}"
        )
    return divisors


def _sections(settings: Settings, architecture: str, mode: str | None) -> list[int]:
    """Return the number of pairs of each of llama.cpp's four axes.

    Raise an error if the Rotary has one axis or more than four, or if the axes are in another order than in the
    architecture.
    """
    axes = settings.axes
    if axes is not None:
        counts: list[int] = np.bincount(axes).tolist()
        expected = in_turn(counts, len(axes)) if mode == "interleaved" else sorted(axes)
        if list(axes) == expected and len(counts) <= 4:
            return counts + [0] * (4 - len(counts))
    raise ValueError(
        f"{architecture!r} needs {mode} sections of at most 4 axes, which this Rotary lacks; use a Rotary with such "
        "sections"
    )
