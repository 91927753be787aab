"""Read configs of formats other than config.json.

These are params.json of Meta and of Mistral, configs of torchtune, and configs of litgpt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..._core.numbers.arguments import count_of, real, shown
from ..._core.rotary.pairs import MOST_VALUES
from .part import Config, Several, Undecided, is_list

# keys that occur only in Meta's params.json
_META = {
    "multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "rope_scaling_factor", "rope_high_freq_factor",
    "nope_layer_interval", "moe_args",
}  # fmt: skip
# keys that occur only in Mistral's params.json
_MISTRAL = {
    "hidden_dim", "sliding_window", "_sliding_window", "yarn", "moe", "llama_4_scaling", "vision_encoder", "multimodal",
    "q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "tied_embeddings",
}  # fmt: skip
# keys about RoPE in each format. Other keys that contain one of `_WORDS` raise an error.
_READ = {
    "meta": {"rope_theta", "use_scaled_rope", "rope_scaling_factor", "rope_high_freq_factor", "nope_layer_interval"},
    "mistral": {"rope_theta", "yarn", "llama_4_scaling", "qk_rope_head_dim", "qk_nope_head_dim"},
    "params": {"rope_theta"},
    "torchtune": {"rope_base", "scale_factor"},
    "litgpt": {
        "rope_base", "rotary_percentage", "rope_condense_ratio", "rope_adjustments", "rope_interleave",
        "rope_local_base_freq", "rope_indices", "rope_n_elem",
    },
}  # fmt: skip
_WORDS = {"rope", "rotary", "theta", "yarn", "nope"}
NAMES = {
    "meta": "params.json of Meta",
    "mistral": "params.json of Mistral",
    "params": "params.json",
    "torchtune": "config of torchtune",
    "litgpt": "config of litgpt",
}
# Factor of the scaling for each (dim, n_layers) of Meta's models with use_scaled_rope: Llama 3.1, 3.2 and 3.3.
_SCALED = {(4096, 32): 8.0, (8192, 80): 8.0, (16384, 126): 8.0, (2048, 16): 32.0, (3072, 28): 32.0}
# vocab_size in the files of Llama 1 and 2. These files lack the base, which is in the code; later files contain it.
_FIRST_VOCABULARIES = (-1, 32000)
# maps each family of models in torchtune to its layout
_TORCHTUNE: dict[str, str] = {
    **dict.fromkeys(
        ("llama2", "code_llama2", "llama3", "llama3_1", "llama3_2", "llama3_3", "mistral", "gemma", "gemma2"),
        "interleaved",
    ),
    **dict.fromkeys(("qwen2", "qwen2_5", "phi3", "phi4"), "half"),
}
# families of torchtune with the scaling of Llama 3.1
_TORCHTUNE_SCALED = ("llama3_1", "llama3_2", "llama3_3")


def name_of_format(config: Config) -> str:
    """Return the key of a config's format in `NAMES`, or "" for a format that is not in `NAMES`."""
    keys = set(config)
    if "_component_" in keys:
        return "torchtune"
    if {"rotary_percentage", "n_embd"} <= keys:
        return "litgpt"
    if not {"dim", "n_heads"} <= keys or config.get("model_type") not in (None, "transformer"):
        return ""
    meta, mistral = _META & keys, _MISTRAL & keys
    if meta and mistral:
        raise ValueError(
            f"config has the key {min(meta)} of Meta's params.json and the key {min(mistral)} of Mistral's "
            "params.json; remove one of these keys"
        )
    return "meta" if meta else "mistral" if mistral else "params"


class _Config(NamedTuple):
    """A config of one format, and the index of the requested layer."""

    values: Config
    format: str
    layer: int | None

    @property
    def where(self) -> str:
        return f"config ({NAMES[self.format]})"

    def key(self, key: str) -> str:
        return f"{self.where}[{key!r}]"

    def count(self, key: str, least: int = 1) -> int:
        return count_of(self.needed(key), self.key(key), least)

    def number(self, key: str) -> float:
        return real(self.needed(key), self.key(key), positive=True)

    def needed(self, key: str) -> Any:
        value = self.values.get(key)
        if value is None:
            raise Undecided(f"{self.where} lacks {key!r}, which the encoding depends on; add it to the config")
        return value

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def head(self, width: str, heads: str, head: str) -> int:
        """Return the head width from the key ``head``, or else from the quotient of the keys ``width`` and ``heads``."""
        return self.count(head, 2) if self.has(head) else self.count(width) // self.count(heads)

    def scaling(self, factor: float, low: float, high: float, length: float) -> dict[str, Any]:
        """Return a scaling by the formula of Llama 3.1, as an argument of `Rotary`.

        low: low_freq_factor. high: high_freq_factor. length: original_max_position_embeddings.
        """
        if low >= high:
            raise ValueError(
                f"the scaling in {self.where} has low_freq_factor={low:g} and high_freq_factor={high:g}, but the high "
                "factor must be larger; correct the config, or call Rotary(head_dim, frequencies=..)"
            )
        parts = {"low_freq_factor": low, "high_freq_factor": high, "original_max_position_embeddings": length}
        return {"rope_type": "llama3", "factor": factor, **parts}


def arguments_of(values: Config, name: str, layer: Any, layer_type: Any, layout: Any) -> dict[str, Any] | None:
    """Return the arguments of the `Rotary` that a config describes, or None for a layer without RoPE.

    name: name of the format, a key of `NAMES`.
    """
    if layer_type is not None:
        raise ValueError(
            f"layer_type={layer_type!r} is not for a {NAMES[name]}; pass layer=, the index of a layer, or leave both "
            "arguments out"
        )
    config = _Config(values, name, None if layer is None else count_of(layer, "layer", 0))
    for key, value in values.items():
        if value is not None and key not in _READ[name] and _WORDS & set(str(key).lower().split("_")):
            raise ValueError(
                f"{config.key(key)}={value!r} is an unknown setting; remove {key} if the model does not use it, or "
                "call Rotary(head_dim, base=.., scaling=..)"
            )
    depth_key = next((key for key in ("n_layers", "num_layers", "n_layer") if config.has(key)), None)
    if depth_key is not None and config.layer is not None and config.layer >= config.count(depth_key):
        raise ValueError(
            f"layer={layer} is too large: {config.key(depth_key)} is {config.count(depth_key)}, and layers are "
            "counted from 0"
        )
    arguments = _READERS[name](config)
    if arguments is not None and arguments["head_dim"] > MOST_VALUES:
        raise ValueError(
            f"{config.where} has heads of {shown(arguments['head_dim'])} values, but at most {MOST_VALUES} values can "
            "rotate; correct the head width in the config"
        )
    if arguments is not None and layout is not None:
        arguments["layout"] = layout
    return arguments


# ---- params.json: interleaved pairs ----------------------------------------------------------------------------------


def _meta(config: _Config) -> dict[str, Any] | None:
    if config.has("rope_theta"):
        base = config.number("rope_theta")
    elif config.values.get("vocab_size") in _FIRST_VOCABULARIES:
        base = 10000.0
    else:
        raise Undecided(
            f"{config.where} lacks 'rope_theta', which is 10000 in Llama 1 and 2 (whose vocabulary has 32000 tokens) "
            "and 500000 in the code of Llama 3; add rope_theta to the config"
        )
    every = config.count("nope_layer_interval") if config.has("nope_layer_interval") else None
    if every is not None and config.layer is not None and (config.layer + 1) % every == 0:
        return None
    return _arguments(config, base, _meta_scaling(config))


def _meta_scaling(config: _Config) -> dict[str, Any] | None:
    scaled, factors = config.values.get("use_scaled_rope"), ("rope_scaling_factor", "rope_high_freq_factor")
    if scaled is not None and not isinstance(scaled, bool):
        raise TypeError(f"{config.key('use_scaled_rope')} must be true or false, not {scaled!r}")
    present = [key for key in factors if config.has(key)]
    if not scaled:
        if present:
            raise ValueError(
                f"{config.key(present[0])} is not read without use_scaled_rope; remove {present[0]}, or set "
                "use_scaled_rope to true"
            )
        return None
    if len(present) == 2:
        return config.scaling(config.number(factors[0]), 1.0, config.number(factors[1]), 8192)
    dim, n_layers = config.count("dim"), config.count("n_layers")
    factor = _SCALED.get((dim, n_layers))
    if factor is None or present or config.has("moe_args"):
        missing = " and ".join(key for key in factors if key not in present)
        raise Undecided(
            f"{config.where} has use_scaled_rope, but lacks {missing}; add the missing keys. In Meta's code, "
            "rope_scaling_factor is 8 for Llama 3.1 and 3.3, and 32 for Llama 3.2; rope_high_freq_factor is 4"
        )
    return config.scaling(factor, 1.0, 4.0, 8192)


def _mistral(config: _Config) -> dict[str, Any]:
    if not config.has("rope_theta"):
        raise Undecided(
            f"{config.where} lacks 'rope_theta', which is 10000 in Mistral 7B 0.1 and 1000000 in later models; add "
            "rope_theta to the config"
        )
    scaling = None
    if config.has("yarn"):
        yarn = config.values["yarn"]
        keys = {"original_max_position_embeddings", "factor", "beta", "alpha", "apply_scale"}
        if not isinstance(yarn, Mapping) or set(yarn) != keys:
            raise ValueError(f"{config.key('yarn')} must have exactly the keys {', '.join(sorted(keys))}, not {yarn!r}")
        if yarn["apply_scale"] is not False:
            raise Undecided(
                f"{config.key('yarn')}['apply_scale']={yarn['apply_scale']!r} is ambiguous; from_config supports only "
                "false, which does not scale cosines and sines. Call Rotary(head_dim, scaling=..) instead"
            )
        names = {"beta": "beta_fast", "alpha": "beta_slow"}
        parameters = {
            names.get(key, key): real(yarn[key], f"{config.key('yarn')}[{key!r}]", positive=True)
            for key in ("factor", "beta", "alpha", "original_max_position_embeddings")
        }
        scaling = {"rope_type": "yarn", **parameters, "attention_factor": 1.0}
    return _arguments(config, config.number("rope_theta"), scaling)


def _params(config: _Config) -> dict[str, Any]:
    if not config.has("rope_theta"):
        raise Undecided(
            f"{config.where} lacks 'rope_theta', and has no keys that identify the model; add rope_theta to the "
            "config, or pass the complete params.json"
        )
    return _arguments(config, config.number("rope_theta"), None)


def _arguments(config: _Config, base: float, scaling: dict[str, Any] | None) -> dict[str, Any]:
    if config.has("qk_rope_head_dim"):
        head = config.count("qk_rope_head_dim", 2)
    else:
        head = config.head("dim", "n_heads", "head_dim")
    return {"head_dim": head, "base": base, "layout": "interleaved", "scaling": scaling}


# ---- torchtune and litgpt --------------------------------------------------------------------------------------------


def _torchtune(config: _Config) -> dict[str, Any]:
    name = str(config.values["_component_"])
    module, _, _ = name.rpartition(".")
    package, _, family = module.rpartition(".")
    layout = _TORCHTUNE.get(family) if package == "torchtune.models" else None
    if layout is None:
        raise Undecided(
            f"{config.key('_component_')}={name!r} is an unknown model; the known packages of "
            f"torchtune.models are {', '.join(_TORCHTUNE)}. Call Rotary(head_dim, base=.., layout=..) instead"
        )
    keys = ["num_heads", "embed_dim", "rope_base", *(["scale_factor"] if family in _TORCHTUNE_SCALED else [])]
    missing = [key for key in keys if not config.has(key)]
    if missing:
        more = ", scaling=.." if family in _TORCHTUNE_SCALED else ""
        raise Undecided(
            f"{config.where} lacks {', '.join(missing)}, which torchtune sets in the code of {name!r}; add the missing "
            f"keys, or call Rotary(head_dim, base=.., layout={layout!r}{more})"
        )
    scaling = config.scaling(config.number("scale_factor"), 1.0, 4.0, 8192) if family in _TORCHTUNE_SCALED else None
    head = config.head("embed_dim", "num_heads", "head_dim")
    return {"head_dim": head, "base": config.number("rope_base"), "layout": layout, "scaling": scaling}


def _litgpt(config: _Config) -> dict[str, Any]:
    for key in ("rope_interleave", "latent_attention"):
        if config.values.get(key):
            raise Undecided(
                f"{config.key(key)}={config.values[key]!r} is unsupported; call Rotary(head_dim, layout=..) instead"
            )
    head = config.head("n_embd", "n_head", "head_size")
    share = config.number("rotary_percentage")
    if share > 1:
        raise ValueError(f"{config.key('rotary_percentage')}={share:g} must be at most 1; correct it")
    # int rounds down, as litgpt does. `arguments_of` raises an error for heads wider than MOST_VALUES.
    dim = int(share * min(head, MOST_VALUES))
    if config.has("rope_n_elem") and config.count("rope_n_elem", 0) != dim:
        raise ValueError(
            f"{config.key('rope_n_elem')}={config.values['rope_n_elem']!r} contradicts "
            f"{config.key('rotary_percentage')}, which rotates {dim} of {head} values; remove rope_n_elem from the "
            "config"
        )
    base, adjustments = config.number("rope_base"), config.values.get("rope_adjustments")
    if config.has("rope_local_base_freq"):
        indices = config.needed("rope_indices")
        if config.layer is None:
            firsts = [indices.index(kind) for kind in (0, 1) if kind in indices] if is_list(indices) else []
            raise Several(
                f"{config.key('rope_local_base_freq')} is the base of only some layers; give layer=, the index of a "
                "layer",
                [{"layer": i} for i in firsts],
            )
        if not is_list(indices) or config.layer >= len(indices) or indices[config.layer] not in (0, 1):
            raise ValueError(f"{config.key('rope_indices')}={indices!r} must have 0 or 1 for layer={config.layer}")
        if indices[config.layer]:
            base, adjustments = config.number("rope_local_base_freq"), None
    ratio = config.number("rope_condense_ratio") if config.has("rope_condense_ratio") else 1.0
    scaling = None if ratio == 1 else {"rope_type": "linear", "factor": ratio}
    if adjustments is not None:
        scaling = _litgpt_scaling(config, adjustments, ratio)
    return {"head_dim": head, "rotary_dim": dim, "base": base, "layout": "half", "scaling": scaling}


def _litgpt_scaling(config: _Config, adjustments: Any, ratio: float) -> dict[str, Any]:
    where = config.key("rope_adjustments")
    keys = set(adjustments) if isinstance(adjustments, Mapping) else set()
    if ratio != 1:
        raise ValueError(
            f"{where} and {config.key('rope_condense_ratio')}={ratio:g} are both scalings; remove one of them"
        )
    if {"beta_fast", "beta_slow"} & keys:
        raise Undecided(
            f"{where} is YaRN, which litgpt computes differently from other programs; call Rotary(head_dim, "
            "scaling=..) with the scaling that the model was trained with"
        )
    numbers = {key: real(adjustments[key], f"{where}[{key!r}]", positive=True) for key in keys}
    if keys == {"factor"}:
        return {"rope_type": "linear", "factor": numbers["factor"]}
    if keys != {"factor", "low_freq_factor", "high_freq_factor", "original_max_seq_len"}:
        raise ValueError(
            f"{where}={adjustments!r} must have only the key factor, or exactly the four keys factor, "
            "low_freq_factor, high_freq_factor and original_max_seq_len"
        )
    low, high = numbers["low_freq_factor"], numbers["high_freq_factor"]
    return config.scaling(numbers["factor"], low, high, numbers["original_max_seq_len"])


_READERS: dict[str, Callable[[_Config], dict[str, Any] | None]] = {
    "meta": _meta,
    "mistral": _mistral,
    "params": _params,
    "torchtune": _torchtune,
    "litgpt": _litgpt,
}
