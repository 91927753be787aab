"""Functions that models.txt names. They return axes, frequencies, widths, parameters, or whether a layer has RoPE."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.numbers.arguments import count_of, real
from ..._core.numbers.schedule import geometric
from ..._core.rotary import scaling as _rope
from ..._core.rotary.pairs import in_turn
from .part import Config, NoRotary, Part, Several, is_list

# ---- axis of each pair, from the number of pairs, or from the counts in a config -------------------------------------


def _contiguous(counts: Sequence[int], pairs: int) -> list[int]:
    return [a for a, count in enumerate(counts) for _ in range(count)]


def _ernie(counts: Sequence[int], pairs: int) -> list[int]:
    return [1, 2] * counts[0] + [0] * counts[2]


def _pangu(counts: Sequence[int], pairs: int) -> list[int]:
    """Return the axis of each pair.

    From the first pair on, each pair gets the axis with the largest share of its pairs left. Neighbouring pairs have
    different axes, unless only one axis is left. With three axes, the last pair always has axis 0, whatever its
    neighbour has.
    """
    last = [0] if len(counts) == 3 else []
    totals = [counts[0] - len(last), *counts[1:]]
    # the -1 is not an axis: no axis comes before the first pair
    remaining, axes = list(totals), [-1]
    while any(remaining):
        unfinished = [a for a, count in enumerate(remaining) if count]
        candidates = [a for a in unfinished if a != axes[-1]] or unfinished
        best = min(candidates, key=lambda a: (1 - remaining[a] / totals[a], a))
        axes.append(best)
        remaining[best] -= 1
    return axes[1:] + last


# functions of the number of pairs that return the axis of each pair, by their names in models.txt
AXES: dict[str, Callable[[int], list[int]]] = {
    "axial": lambda pairs: [0] * (pairs // 2) + [1] * (pairs // 2),
    "axial_columns": lambda pairs: [1] * (pairs // 2) + [0] * (pairs // 2),
    "axial_alternating": lambda pairs: [1, 0] * (pairs // 2),
    "axial_rows_alternating": lambda pairs: [0, 1] * (pairs // 2),
    "axial_three": lambda pairs: [a for a in range(3) for _ in range(pairs // 3)],
    "alternating": lambda pairs: [0, 1] * (pairs // 2),
}
# functions of (number of pairs of each axis, number of all pairs) that return the axis of each pair, by name
COUNTED: dict[str, Callable[[Sequence[int], int], list[int]]] = {
    "contiguous": _contiguous,
    "interleaved": in_turn,
    "ernie": _ernie,
    "pangu": _pangu,
}

# ---- frequencies other than a geometric progression from 1 -----------------------------------------------------------

# names of arguments of a Rotary, and their values
Arguments = dict[str, Any]
# (rope_type, all its parameters)
CheckedScaling = tuple[str, dict[str, Any]]


def _backwards(part: Part, pairs: int, base: float, scaling: CheckedScaling, seq_len: Any) -> Arguments:
    if scaling[0] == "default":
        return {"frequencies": geometric(pairs, base=base, first=-1.0)}
    values, factor = _rope.frequencies_of(2 * pairs, base, *scaling)
    return {"frequencies": -np.asarray(values), "attention_factor": factor}


def _pixtral(part: Part, pairs: int, base: float, scaling: CheckedScaling, seq_len: Any) -> Arguments:
    unscaled = geometric(pairs, base=base)
    return {"frequencies": [unscaled[0::2], unscaled[1::2]]}


def _dinov3(part: Part, pairs: int, base: float, scaling: CheckedScaling, seq_len: Any) -> Arguments:
    return {"frequencies": [geometric(pairs // 2, base=base, first=2 * math.pi)] * 2}


def _atoms(part: Part, pairs: int, base: float, scaling: CheckedScaling, seq_len: Any) -> Arguments:
    """Return frequencies and axes for positions of atoms: x, y and z, and the unique id (uid) of the atom's group.

    x, y and z have equal frequencies. Pairs that neither x, y, z nor the uid needs do not rotate. They belong to the
    axis of the uid.
    """
    keys = ("num_spatial_rope_pairs_per_axis", "num_uid_rope_pairs")
    spatial_pairs, uid_pairs = (count_of(part.needed(key), part.key(key), 0) for key in keys)
    spatial_base, uid_base = (
        real(part.needed(key), part.key(key), positive=True)
        for key in ("spatial_rope_base_frequency", "uid_rope_base_frequency")
    )
    counts, bases = [spatial_pairs] * 3 + [uid_pairs], [spatial_base] * 3 + [uid_base]
    at_rest = pairs - sum(counts)
    if at_rest < 0:
        raise ValueError(
            f"{part.where} has {sum(counts)} pairs to rotate, but its heads have only {pairs} pairs; correct "
            f"{' or '.join(keys)}"
        )
    schedules = [geometric(count, base=base) for count, base in zip(counts, bases, strict=True) if count]
    axes = np.repeat(np.arange(4), [*counts[:3], uid_pairs + at_rest])
    # frequencies are listed one by one, because no geometric progression contains the 0 of pairs that do not rotate
    return {"frequencies": np.concatenate([*map(np.asarray, schedules), np.zeros(at_rest)]), "sections": axes.tolist()}


def _phimoe(part: Part, pairs: int, base: float, scaling: CheckedScaling, seq_len: Any) -> Arguments:
    """Return the arguments for PhiMoE.

    The sequence length chooses short_factor or long_factor as the divisors of the frequencies, and short_mscale or
    long_mscale as the attention factor. Microsoft's code makes the same choices, and so does transformers up to 4.57.
    """
    rope_type, parameters = scaling
    if rope_type == "default":
        return {"base": base}
    original = parameters.get("original_max_position_embeddings") or part.needed("max_position_embeddings")
    original = real(original, f"{part.rope_where}['original_max_position_embeddings']", positive=True)
    key = "long_mscale" if seq_len is not None and seq_len > original else "short_mscale"
    factor = part.rope.get(key)
    if factor is None:
        raise ValueError(
            f"{part.rope_where} lacks {key!r}, which {part.model} needs with a scaling; add {key} to {part.rope_where}"
        )
    if "attention_factor" in parameters:
        return {"base": base, "scaling": {"rope_type": rope_type, **parameters, "attention_factor": factor}}
    return {
        "frequencies": np.asarray(_rope.frequencies_of(2 * pairs, base, *scaling).values),
        "attention_factor": factor,
    }


# functions of (part, number of pairs, base, scaling, seq_len) that return arguments of a Rotary, by name
SPECTRA: dict[str, Callable[[Part, int, float, CheckedScaling, Any], Arguments]] = {
    "backwards": _backwards,
    "pixtral": _pixtral,
    "dinov3": _dinov3,
    "atoms": _atoms,
    "phimoe": _phimoe,
}

# ---- widths, and the rotated parts of them ---------------------------------------------------------------------------


def _global_head(config: Config) -> int:
    return count_of(config.get("global_head_dim", 512), "config['global_head_dim']", 2)


def _sliding_dots(config: Config) -> int:
    rope, head, nope = (config.get(f"swa_{key}") for key in ("qk_rope_head_dim", "head_dim", "qk_nope_head_dim"))
    if rope is not None:
        return count_of(rope, "config['swa_qk_rope_head_dim']", 2)
    whole = 256 if head is None else count_of(head, "config['swa_head_dim']", 2)
    return whole - (192 if nope is None else count_of(nope, "config['swa_qk_nope_head_dim']", 0))


# Functions of a config that return the head width of one group of layers, by name. If the config has per_layer_config,
# that key contains the widths, and the functions are not used.
HEADS: dict[str, Callable[[Config], int]] = {"global_head": _global_head, "sliding_dots": _sliding_dots}
# functions of (get, head) that return the number of rotated values, by name. get(key) is the value of a config key, and
# head is the head width.
ROTARY_DIMS: dict[str, Callable[[Callable[[str], int], int], int]] = {
    "sixths": lambda get, head: 6 * (head // 6),
    "clvp": lambda get, head: max(get("projection_dim") // (2 * get("num_attention_heads")), 32),
}

# ---- rotary parameters collected from other keys ---------------------------------------------------------------------


def _chatglm(config: Config) -> dict[str, Any]:
    ratio = config.get("rope_ratio")
    ratio = 1.0 if ratio is None else real(ratio, "config['rope_ratio']", positive=True)
    # chatglm2-6b-32k divides positions by rope_ratio; later models multiply the base by rope_ratio
    if ratio != 1 and "chatglm2" in str(config.get("_name_or_path")).lower():
        return {"rope_theta": 10000.0, "rope_type": "linear", "factor": ratio}
    return {"rope_theta": 10000.0 * ratio}


def _grok(config: Config) -> dict[str, Any]:
    if "rope_theta" in config and config["rope_theta"] is None:
        raise ValueError(
            "config['rope_theta']=None is not a base; give a number, or remove rope_theta for the default 10000"
        )
    rope: dict[str, Any] = {"rope_theta": config.get("rope_theta", 10000.0)}
    if config.get("rope_rotate_half_dims"):
        rope["partial_rotary_factor"] = 0.5
    name = str(config.get("rope_type") or "original")
    if name == "original":
        return rope
    rope |= {"rope_type": {"yarn_linear": "yarn"}.get(name, name), "factor": config.get("scaling_factor")}
    if rope["rope_type"] == "yarn":
        rope["attention_factor"] = 1.0
    if name != "theta_scale":
        keys = ("beta_fast", "beta_slow", "extrapolation_factor")
        rope |= {key: config[key] for key in keys if config.get(key) is not None}
    if rope["rope_type"] == "yarn" and rope.get("extrapolation_factor") == 1:
        del rope["extrapolation_factor"]
    return rope


# functions of a config that return its rotary parameters, by name
PARAMETERS: dict[str, Callable[[Config], dict[str, Any]]] = {"chatglm": _chatglm, "grok": _grok}

# ---- layers without RoPE ---------------------------------------------------------------------------------------------

# layer types of layers that have no attention, and so no RoPE
NO_ATTENTION = frozenset(["linear_attention", "mamba", "mamba2", "conv", "recurrent", "linear", "moe", "mlp"])


class Without(NamedTuple):
    """A rule that finds layers without RoPE."""

    # description of the rule, for pages of the documentation
    words: str
    # function of (part, layer type or None, layer index or None) that returns whether the layer has RoPE
    rotates: Callable[[Part, Any, int | None], bool]
    # whether the rule depends on the layer type
    by_type: bool = True
    # config keys that the rule reads
    keys: tuple[str, ...] = ()


def _with_attention(part: Part, layer_type: Any, index: int | None) -> bool:
    if layer_type is None or layer_type in NO_ATTENTION:
        return layer_type is None
    if not isinstance(layer_type, str) or not any(word in layer_type for word in ("attention", "hybrid")):
        raise ValueError(
            f"layer type {layer_type!r} is unknown for {part.model}; use a type that contains 'attention' or 'hybrid', "
            f"or one of {', '.join(sorted(NO_ATTENTION))}"
        )
    return True


def _cohere2_moe(part: Part, layer_type: Any, index: int | None) -> bool:
    if layer_type != "full_attention":
        return True
    if index is None:
        raise Several(
            f"layer_type='full_attention' includes layers with and without RoPE in {part.model}; give layer=, the "
            "index of a layer",
            ({"layer": i} for i in range(len(part.types() or ()))),
        )
    mlps = part.needed("mlp_layer_types", f"tells whether layer={index} has RoPE")
    dense = is_list(mlps) and index < len(mlps) and mlps[index] == "dense"
    return dense and part.config.get("prefix_dense_sliding_window_pattern", 1) == 1


def _with_base(part: Part, layer_type: Any, index: int | None) -> bool:
    if "rope_theta" in part.rope and part.rope["rope_theta"] is None:
        raise NoRotary(f"{part.rope_where}['rope_theta']=None means no rotary encoding in {part.model}")
    return True


def _no_rope_layers(part: Part, layer_type: Any, index: int | None) -> bool:
    if index is None or part.config.get("no_rope_layers"):
        return _listed(part, "no_rope_layers", index)
    return (index + 1) % (part.integer("no_rope_layer_interval", 1) or 4) != 0


def _listed(part: Part, key: str, index: int | None) -> bool:
    """Return whether the list in a config key has a number other than 0 for a layer. True if ``index`` is None."""
    values = part.config.get(key)
    if index is None:
        return True
    if not is_list(values) or index >= len(values):
        raise ValueError(f"{part.key(key)}={values!r} must be a list with a number for layer={index}")
    value = values[index]
    return real(int(value) if isinstance(value, bool) else value, f"{part.key(key)}[{index}]") != 0


# the rules, by their names in models.txt
WITHOUT = {
    "hybrid": Without("mamba, linear_attention, conv, recurrent and MLP layers have no RoPE", _with_attention),
    "full_attention": Without(
        "full_attention layers have no RoPE", lambda part, layer_type, index: layer_type != "full_attention"
    ),
    "windowed": Without(
        "full_attention layers have no RoPE, unless sliding_window is null",
        lambda part, layer_type, index: layer_type != "full_attention" or part.config.get("sliding_window") is None,
        keys=("sliding_window",),
    ),
    "cohere2_moe": Without(
        "full_attention layers have no RoPE, unless their MLP is dense and prefix_dense_sliding_window_pattern is 1",
        _cohere2_moe,
        keys=("mlp_layer_types", "prefix_dense_sliding_window_pattern"),
    ),
    "no_base": Without("no layer has RoPE if rope_theta is null", _with_base, by_type=False),
    "no_rope_layers": Without(
        "layers whose entry in no_rope_layers is 0 have no RoPE (default: every 4th layer)",
        _no_rope_layers,
        by_type=False,
        keys=("no_rope_layers", "no_rope_layer_interval"),
    ),
    "layer_rope_theta": Without(
        "layers whose entry in layer_rope_theta is 0 have no RoPE",
        lambda part, layer_type, index: _listed(part, "layer_rope_theta", index),
        by_type=False,
        keys=("layer_rope_theta",),
    ),
}
