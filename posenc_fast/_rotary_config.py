"""What a config says of a model's rotary encoding: the arguments of a `Rotary`, or an error that says what is missing."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _rope
from ._rotary_families import FAMILIES, UNKNOWN, Family, Kind, NoRotary
from ._rotary_models import (
    ARCHITECTURES,
    BASE_KEYS,
    BASES,
    FACTORS,
    HEADS,
    NEEDS_PARAMETERS,
    NO_ROTARY,
    NO_ROTATIONS,
    PARTS,
    UNREADABLE,
)
from ._schedule import count_of, geometric, real

__all__ = ["arguments_of"]

Config = Mapping[str, Any]
Arguments = dict[str, Any]

_SMALL = 10000.0
# other spellings of a key, in the order in which they are looked for
SPELLINGS = {
    "hidden_size": ("hidden_size", "embed_dim", "n_embd", "d_model"),
    "num_attention_heads": ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "seq_length"),
    "layer_types": ("layer_types", "layers_block_type"),
}  # fmt: skip
TEXTS = ("text_config", "thinker_config", "language_config", "llm_config")
# keys that only towers of images have
VISUAL = ("patch_size", "depth", "spatial_merge_size")
NO_ATTENTION = frozenset(["linear_attention", "mamba", "mamba2", "conv", "recurrent", "linear", "moe", "mlp"])
# of the rotary parameters, beside those of a scaling
COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
SECTIONED = ("mrope_section", "mrope_interleaved")
# one name for what was renamed; both may stand beside one another
RENAMED = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}

_FAMILY_OF = {model: family for family in FAMILIES for model in family.models.split()}


class _Found(NamedTuple):
    """The part of a config that turns; where it is, as an error names it; model: its type; rope: its parameters."""

    config: Config
    where: str
    model: str
    family: Family
    rope: dict[str, Any]
    rope_key: str

    def key(self, key: str) -> str:
        return f"{self.where}[{key!r}]"

    def get(self, key: str) -> Any:
        """The value of a key that is there and not null, in any of its spellings."""
        found = (self.config.get(name) for name in SPELLINGS.get(key, (key,)))
        return next((value for value in found if value is not None), None)

    def needed(self, key: str, why: str) -> Any:
        value = self.get(key)
        if value is None:
            raise ValueError(
                f"{self.where} lacks {key}, which {why}; add it, or give transformers' config object, which knows the "
                "values that a file leaves out"
            )
        return value


def arguments_of(
    config: Any, layer: Any = None, layer_type: Any = None, layout: Any = None, seq_len: Any = None
) -> Arguments | None:
    """Of the `Rotary` that a config means; None for layers that have none."""
    found = _part(_read(config), layout)
    for key, value, default, words in found.family.needs:
        given = found.get(key)
        if (default if given is None else given) != value:
            raise ValueError(
                f"{found.key(key)}={given!r} means {words} in {found.model}; from_config reads it with {value!r}"
            )
    label, index = _layer(found, layer, layer_type)
    if _without(found, label, index):
        return None
    kind, found = _of_kind(found, label, index)
    if kind is None and found.rope_key == "none":
        return None
    return _arguments(found, kind, index, layout, seq_len)


# ---- which part of a config ------------------------------------------------------------------------------------------


def _read(config: Any) -> Config:
    if isinstance(config, (str, os.PathLike)):
        config = json.loads(Path(config).read_text(encoding="utf-8"))
    elif not isinstance(config, Mapping) and callable(getattr(config, "to_dict", None)):
        # transformers leaves some empty model types out of a part's own dictionary
        config = {"model_type": getattr(config, "model_type", None), **config.to_dict()}
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a mapping, the path of a config.json or a config of transformers, not "
            f"{type(config).__name__}"
        )
    return config


def _part(config: Config, layout: Any) -> _Found:
    """The part that turns queries and keys of text, or the config itself."""
    where, model = "config", str(config.get("model_type") or "")
    while model not in _FAMILY_OF:
        model = next((ARCHITECTURES[one] for one in config.get("architectures") or () if one in ARCHITECTURES), model)
        parts = PARTS.get(model) or {key: "" for key in TEXTS if isinstance(config.get(key), Mapping)}
        if model in NO_ROTARY:
            # what a whole is made of may be exchanged, and is named then
            parts = {key: "" for key in parts if config[key].get("model_type")}
        if model in _FAMILY_OF or not parts:
            break
        here = {key: default for key, default in parts.items() if isinstance(config.get(key), Mapping)}
        if len(here) > 1:
            raise ValueError(
                f"{where} is a {model}, of several parts that turn; give that which is meant: "
                + " or ".join(f"{where}[{key!r}]" for key in here)
            )
        if here:
            key, default = next(iter(here.items()))
            where, config, model = f"{where}[{key!r}]", config[key], str(config[key].get("model_type") or default)
        elif len(parts) == 1 and any(config.get(name) is not None for name in SPELLINGS["hidden_size"]):
            if any(key in config for key in VISUAL):
                raise ValueError(
                    f"{where}['model_type']={model!r} names a whole model, but this is its part for images; name the "
                    f"type of the part, such as {model + '_vision'!r}"
                )
            # files of the first versions have the text's keys at the top
            model = next(iter(parts.values()))
        else:
            raise ValueError(f"{where} is a {model}, and lacks {' and '.join(parts)}, its parts that turn")
    family = _FAMILY_OF.get(model)
    if model in UNREADABLE:
        raise ValueError(f"{where}['model_type']={model!r} cannot be a Rotary from its config: {UNREADABLE[model]}")
    if model in NO_ROTARY:
        others = [key for key, value in config.items() if key.endswith("_config") and isinstance(value, Mapping)]
        advice = f"; its parts are {', '.join(others)}" if others else ""
        raise ValueError(f"{where}['model_type']={model!r} has no rotary encoding{advice}")
    if family is None:
        if layout is None:
            near = difflib.get_close_matches(model, _FAMILY_OF, 1)
            advice = f" (is {near[0]!r} meant?)" if near else ""
            raise ValueError(
                f"{where}['model_type']={config.get('model_type')!r} is not known{advice}; give layout='half', 'interleaved' or "
                "'interleaved_to_half' to have it read as a model with that layout"
            )
        family = UNKNOWN
    return _with_parameters(config, where, model, family)


def _with_parameters(config: Config, where: str, model: str, family: Family) -> _Found:
    if family.parameters is not None:
        return _Found(config, where, model, family, family.parameters(config), "")
    old, new = config.get("rope_scaling"), config.get("rope_parameters")
    for key, value in (("rope_scaling", old), ("rope_parameters", new)):
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{where}[{key!r}] must be a mapping or null, not {value!r}")
    if old and new and dict(old) != dict(new):
        raise ValueError(f"{where} has both rope_scaling={old!r} and rope_parameters={new!r}; leave one out")
    if model in NEEDS_PARAMETERS and not (old or new) and config.get("rope_theta") is None:
        raise ValueError(
            f"{where} lacks rope_parameters (or rope_scaling), without which a {model} is scaled by values of its "
            "class; add them, or give transformers' config object"
        )
    return _Found(config, where, model, family, dict(old or new or {}), "rope_scaling" if old else "rope_parameters")


# ---- which layer -----------------------------------------------------------------------------------------------------


def _types(found: _Found) -> Sequence[str] | None:
    """Of all layers, where the config or the family tells."""
    types, config, pattern = found.get("layer_types"), found.config, found.family.pattern
    if types is not None:
        if isinstance(types, str) or not isinstance(types, Sequence):
            raise TypeError(f"{found.key('layer_types')} must be a sequence of strings, not {types!r}")
        return types
    ratios, count = config.get("compress_ratios"), config.get("num_hidden_layers")
    if found.model == "deepseek_v4" and ratios is not None:
        names = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
        return [names[ratio] for ratio in ratios]
    if pattern is None or count is None:
        return None
    every = count_of(config.get(pattern.key) or pattern.every, found.key(pattern.key), 1)
    full = [(i if pattern.first else i + 1) % every == 0 or (pattern.last and i == count - 1) for i in range(count)]
    return ["full_attention" if one else "sliding_attention" for one in full]


def _labels(found: _Found) -> dict[str, str]:
    """By the type of a layer: the name that its rotary parameters have."""
    kinds = {name: name for name in found.family.kinds}
    return kinds | {name: label for label, kind in found.family.kinds.items() for name in kind.layer_types}


def _layer(found: _Found, layer: Any, layer_type: Any) -> tuple[str | None, int | None]:
    """The type of the layer that is asked for, and its index."""
    if layer is None and layer_type is None:
        return None, None
    if layer is not None and layer_type is not None:
        raise ValueError(f"layer={layer!r} and layer_type={layer_type!r} exclude each other; leave one out")
    types = _types(found)
    if layer_type is not None:
        known = list(dict.fromkeys([*(types or ()), *_labels(found), *_nested(found)]))
        if known and layer_type not in known:
            raise ValueError(f"layer_type={layer_type!r} is none of {', '.join(known)}, the types of {found.where}")
        if not isinstance(layer_type, str):
            raise TypeError(f"layer_type must be a string, not {layer_type!r}")
        return layer_type, None
    index = count_of(layer, "layer", 0)
    count = len(types) if types is not None else found.get("num_hidden_layers")
    if count is not None and index >= count:
        raise ValueError(f"layer={index} is too large: {found.where} has {count} layers, from 0 on")
    rules = [rule.rule for rule in found.family.without]
    if types is None and (
        found.family.kinds or {"other", "full_attention", "full_attention_if", "cohere2_moe"} & set(rules)
    ):
        found.needed("layer_types", f"layer={index} needs (or give layer_type=)")
    return (None if types is None else types[index]), index


def _nested(found: _Found) -> list[str]:
    """Names that rotary parameters are nested under."""
    names = [key for key, value in found.rope.items() if isinstance(value, Mapping)]
    labels = _labels(found)
    nulls = [key for key, value in found.rope.items() if value is None and (key in labels or names)]
    return [key for key in found.rope if key in names or (key in nulls and key not in COMMON)]


def _zero(rule: NoRotary, found: _Found, index: int) -> bool:
    values = found.config.get(rule.key)
    if not values and rule.key == "no_rope_layers":
        every = found.config.get("no_rope_layer_interval") or 4
        return bool((index + 1) % every == 0)
    if values is None:
        raise ValueError(f"{found.where} lacks {rule.key}, which layer={index} is read from; add it")
    return not values[index]


def _without(found: _Found, layer_type: str | None, index: int | None) -> bool:
    """Whether a layer has no rotary encoding."""
    for rule in found.family.without:
        if rule.rule == "no_base" and "rope_theta" in found.rope and found.rope["rope_theta"] is None:
            raise ValueError(
                f"{found.key(found.rope_key)}['rope_theta']=None means no rotary encoding in {found.model}"
            )
        if rule.rule == "zero" and index is not None and _zero(rule, found, index):
            return True
        if layer_type != "full_attention":
            continue
        if rule.rule == "full_attention":
            return True
        if rule.rule == "full_attention_if" and found.config.get(rule.key) is not None:
            return True
        if rule.rule == "cohere2_moe":
            if index is None:
                raise ValueError(
                    f"layer_type={layer_type!r} does not tell whether a {found.model} turns: some layers of it do; "
                    "give layer="
                )
            dense = found.needed("mlp_layer_types", f"layer={index} needs")[index] == "dense"
            if not (dense and found.config.get("prefix_dense_sliding_window_pattern", 1) == 1):
                return True
    return layer_type in NO_ATTENTION


def _of_kind(found: _Found, layer_type: str | None, index: int | None) -> tuple[Kind | None, _Found]:
    """What layers of one kind have of their own, and the config as it is for them."""
    family, labels = found.family, _labels(found)
    nested = _nested(found)
    types = _types(found)
    if not family.kinds and not nested:
        return None, _for_layer(found, layer_type, index, types)
    if nested and not family.kinds and family is not UNKNOWN:
        raise ValueError(
            f"{found.key(found.rope_key)} has parameters for each of {', '.join(nested)}, but {found.model} has "
            "layers of one kind; give those of one of them"
        )
    label = labels.get(layer_type, layer_type) if layer_type is not None else None
    if label is None:
        used = nested if types is None else list(dict.fromkeys(labels.get(one, one) for one in types))
        used = [one for one in used or family.kinds if one in family.kinds or one in nested]
        used = [one for one in used if not _null(found, one)]
        if len(used) != 1:
            raise ValueError(
                f"{found.where} has rotary parameters for layers of several kinds: {', '.join(used)}; give layer_type= "
                "or layer="
            )
        label = used[0]
    if _null(found, label):
        return None, found._replace(rope_key="none")
    kind = family.kinds.get(label) or (Kind(_SMALL) if label in nested else None)
    # a class with keys for the bases of its kinds fills in what is missing, others do not
    if kind is None or (nested and label not in nested and not any(one.base_keys for one in family.kinds.values())):
        raise ValueError(f"{found.key(found.rope_key)} has no parameters for {label}; it has {', '.join(nested)}")
    return kind, _for_layer(_of_label(found, kind, label, nested), layer_type or label, index, types)


def _of_label(found: _Found, kind: Kind, label: str, nested: list[str]) -> _Found:
    """The config with the rotary parameters for one kind of layers alone."""
    family, rope = found.family, found.rope
    usual: dict[str, Any] = {"rope_type": kind.rope_type}
    if kind.factor is not None:
        usual["partial_rotary_factor"] = kind.factor
    if nested:
        stray = sorted(set(rope) - set(nested) - {"rope_type", "type", "rope_theta"})
        if stray:
            raise ValueError(
                f"{found.key(found.rope_key)} has {stray[0]}={rope[stray[0]]!r} beside parameters for "
                f"{', '.join(nested)}; put it into those that it is for"
            )
        found = found._replace(rope=dict(rope.get(label) or usual), rope_key=f"{found.rope_key}'][{label!r}"[:-1])
        if found.rope.get("truncate") is False:
            raise ValueError(
                f"{found.key(found.rope_key)}['truncate']=False is not read inside parameters for a kind of layers, "
                "where transformers truncates always; leave it out, or build the Rotary by its arguments"
            )
        return found
    if not rope or (not kind.flat and any(one.flat for one in family.kinds.values())):
        return found._replace(rope=usual)
    if not kind.flat:
        raise ValueError(
            f"{found.key(found.rope_key)} must have parameters for each of {', '.join(family.kinds)}, not for all"
        )
    name = rope.get("rope_type") or rope.get("type")
    return found._replace(rope={key: value for of, key, value in kind.defaults if of == name} | rope)


def _null(found: _Found, label: str) -> bool:
    return label in found.rope and found.rope[label] is None and label in found.family.kinds


def _for_layer(found: _Found, layer_type: str | None, index: int | None, types: Sequence[str] | None) -> _Found:
    """The config with what per_layer_config says of a layer."""
    overrides = found.config.get("per_layer_config")
    if not overrides:
        return found
    if index is None and types is not None:
        labels = _labels(found)
        label = labels.get(layer_type or "", layer_type)
        index = next((i for i, one in enumerate(types) if labels.get(one, one) == label), None)
    mine = {int(key): value for key, value in overrides.items()}.get(-1 if index is None else index, {})
    return found._replace(config={**found.config, **mine})


# ---- how wide --------------------------------------------------------------------------------------------------------


def _width(found: _Found, kind: Kind | None) -> tuple[int, str]:
    """The number of values that turn, or of which a part turns; the key that says so."""
    family = found.family
    if kind is not None and kind.head is not None:
        own = kind.head(found.config)
        if own is not None:
            return count_of(own, f"the width of heads in {found.where}", 2), "global_head_dim"
    for key in family.width:
        value = found.get(key)
        if value is not None:
            return count_of(value, found.key(key), 2), key
    if "head_dim" in family.width and found.model in HEADS:
        return HEADS[found.model], "head_dim"
    if found.model == "deepseek_v4":
        head, factor = found.needed("head_dim", "is needed"), _factor(found, kind, None)
        return int(head * (0.125 if factor is None else factor)), "head_dim"
    if family.per_head is None:
        return found.needed(family.width[0], f"has the width that a {found.model} turns"), ""
    of, heads = family.per_head
    one = found.config.get("embed_dim") if of == "embed_dim" else found.get(of)
    if one is None or found.get(heads) is None:
        lacking = of if one is None else heads
        found.needed(lacking, f"tells how wide heads are ({' or '.join([*family.width, f'{of} // {heads}'])})")
    return count_of(one, found.key(of), 1) // count_of(found.get(heads), found.key(heads), 1), of


def _factor(found: _Found, kind: Kind | None, index: int | None) -> float | None:
    """The part of a width that turns, where the config says so."""
    where = f"{found.key(found.rope_key)}['partial_rotary_factor']"
    value = found.rope.get("partial_rotary_factor")
    for key in (*found.family.factor_keys, "partial_rotary_factor"):
        if value is None:
            value, where = found.config.get(key), found.key(key)
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = _entry(found, value, where, kind, index)
    return None if value is None else real(value, where, positive=True)


def _entry(found: _Found, values: Sequence[Any], where: str, kind: Kind | None, index: int | None) -> Any:
    """A layer's own among the values of all."""
    if index is None and kind is not None:
        labels, types = _labels(found), _types(found) or ()
        mine = [values[i] for i, one in enumerate(types) if found.family.kinds.get(labels.get(one, one)) is kind]
        if mine and len(set(mine)) == 1:
            return mine[0]
    elif index is None:
        mine = [value for value in values if value]
        if len(set(mine)) == 1:
            return mine[0]
    if index is None or index >= len(values):
        raise ValueError(f"{where} has a value for each layer; give layer=")
    return values[index]


def _turned(found: _Found, kind: Kind | None, index: int | None, head: int, width_key: str) -> int:
    """rotary_dim of heads of a width."""
    family, model = found.family, found.model
    given = _factor(found, kind, index)
    if "proportional" in (found.rope.get("rope_type"), found.rope.get("type")):
        return head
    if family.rotary_dim is not None:
        return family.rotary_dim(_Spelled(found), head)
    if width_key == "qk_rope_head_dim" or model == "deepseek_v4":
        whole = found.config.get("head_dim")
        if given not in (None, 1) and not (whole and int(whole * given) == head) and model != "deepseek_v4":
            raise ValueError(
                f"{found.where} has partial_rotary_factor={given} and qk_rope_head_dim={head}, of which it would be a "
                "part once more; leave the factor out"
            )
        return head
    if family.factor is None:
        if given is not None and given != family.only:
            raise ValueError(
                f"{found.where} has partial_rotary_factor={given}, which {model} does not read; leave it out, or "
                f"give Rotary({head}, rotary_dim={int(head * given)}, ..) if the model was made for it"
            )
        return head
    usual = kind.factor if kind is not None and kind.always else FACTORS.get(model, family.factor)
    part = usual if given is None else given
    dim = head if part is None else int(head * part)
    for key in family.dims:
        value = found.config.get(key, 64 if family.dims_alone else None)
        if value is None and family.dims_alone:
            raise ValueError(f"{found.key(key)}=None makes tables as wide as the model in {model}, which do not fit")
        counted = dim if value is None else count_of(value, found.key(key), 2)
        if counted != dim and (given is not None or not family.dims_read):
            raise ValueError(
                f"{found.key(key)}={counted} and partial_rotary_factor={given}, which makes {dim} of {head}, do not "
                "agree; leave one out"
            )
        dim = counted
    if dim > head or dim < 2:
        raise ValueError(f"{found.where} has partial_rotary_factor={given}, of which {dim} values of {head} would turn")
    return dim


class _Spelled(Mapping[str, Any]):
    """A config that finds keys in any spelling, and names those that it lacks."""

    def __init__(self, found: _Found) -> None:
        self._found = found

    def __getitem__(self, key: str) -> Any:
        return self._found.needed(key, "is needed")

    def __iter__(self) -> Any:
        return iter(self._found.config)

    def __len__(self) -> int:
        return len(self._found.config)


def _base(found: _Found, kind: Kind | None, index: int | None) -> float:
    family = found.family
    own = family.base_keys if kind is None else kind.base_keys
    every = {*family.base_keys, *(key for one in family.kinds.values() for key in one.base_keys)}
    # classes that have bases for kinds of layers alone do not read the usual key
    every |= {rule.key for rule in family.without} | ({"rope_theta"} if family.kinds else set())
    for key in BASE_KEYS:
        if key not in every and found.config.get(key) is not None and not _same_base(found, key):
            raise ValueError(f"{found.key(key)}={found.config[key]!r} is a base that {found.model} does not read")
    value, where = found.rope.get("rope_theta"), f"{found.key(found.rope_key)}['rope_theta']"
    if "layer_rope_theta" in own and index is not None:
        value = None
    for key in reversed(own) if "layer_rope_theta" in own else own:
        if value is None or key == "layer_rope_theta":
            one = found.config.get(key)
            value, where = (value, where) if one is None else (one, found.key(key))
            if key == "layer_rope_theta" and one is not None:
                break
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = _entry(found, value, where, kind, index)
    if value is None:
        return BASES.get(found.model, _SMALL) if kind is None else kind.base
    inner = found.config.get("attn_config")
    stored = inner.get("rope_theta") if isinstance(inner, Mapping) else None
    if stored is not None and stored != value:
        raise ValueError(
            f"{found.where}['attn_config']['rope_theta']={stored!r} and {where}={value!r} are two bases; transformers "
            "reads the second, the model's own code the first; leave one out"
        )
    return real(value, where, positive=True)


def _same_base(found: _Found, key: str) -> bool:
    """Whether a base that is not read says the same as that which is."""
    return key == "rope_theta" and found.config[key] == (found.rope.get("rope_theta") or BASES.get(found.model, _SMALL))


# ---- how scaled ------------------------------------------------------------------------------------------------------


def _scaling(found: _Found, factor: float | None, seq_len: Any) -> dict[str, Any]:
    """rope_type and its parameters, as Rotary takes them."""
    rope, family = found.rope, found.family
    name = _rope_type(found)
    unknown = [key for key in rope if rope[key] is not None and key not in (*COMMON, *family.also)]
    if family.sections is not None:
        unknown = [key for key in unknown if key not in SECTIONED]
    if name == "dynamic" and "alpha" in family.also and rope.get("alpha"):
        return {"rope_type": "ntk", "alpha": rope["alpha"]}
    if name == "telechat3-yarn":
        scaling = _scaling(found._replace(rope={**rope, "rope_type": "yarn", "type": "yarn"}), factor, seq_len)
        scaling.setdefault(
            "attention_factor", 1.0 if scaling["factor"] <= 1 else 0.07 * math.log(scaling["factor"]) + 1.0
        )
        return scaling
    parameters = _rope.KINDS[name].parameters
    unknown = [key for key in unknown if key not in parameters]
    if unknown:
        near = difflib.get_close_matches(unknown[0], parameters, 1)
        advice = f"is {near[0]} meant?" if near else f"it takes {', '.join(parameters) or 'none'}; leave it out"
        raise ValueError(
            f"{found.key(found.rope_key)}[{unknown[0]!r}]={rope[unknown[0]]!r} is nothing that rope_type {name!r} takes; "
            + advice
        )
    scaling = {"rope_type": name} | {key: rope[key] for key in parameters if rope.get(key) is not None}
    if "original_max_position_embeddings" in parameters:
        _original(found, scaling)
    if name == "yarn":
        _yarn(found, scaling)
    if name == "proportional":
        scaling["partial_rotary_factor"] = 1.0 if factor is None else factor
    if "max_position_embeddings" in parameters and not {"factor", "attention_factor"} & set(scaling):
        scaling["max_position_embeddings"] = found.needed("max_position_embeddings", f"rope_type {name!r} needs")
    elif name == "dynamic":
        scaling["max_position_embeddings"] = found.needed("max_position_embeddings", "rope_type 'dynamic' needs")
    if "seq_len" in parameters and seq_len is not None:
        scaling["seq_len"] = seq_len
    return scaling


def _rope_type(found: _Found) -> str:
    rope, where = found.rope, found.key(found.rope_key)
    names = {key: rope[key] for key in ("rope_type", "type") if rope.get(key) is not None}
    known = {key: found.family.aliases.get(name, RENAMED.get(name, name)) for key, name in names.items()}
    if len(set(known.values())) > 1:
        raise ValueError(f"{where} has rope_type={names['rope_type']!r} and type={names['type']!r}; leave one out")
    name = next(iter(known.values()), "default")
    if name in NO_ROTATIONS:
        raise ValueError(f"{where}['rope_type']={name!r} is none that a Rotary could have: {NO_ROTATIONS[name]}")
    if name not in _rope.KINDS and name != "telechat3-yarn":
        raise ValueError(
            f"{where}['rope_type']={name!r} is not known; there are {', '.join(_rope.KINDS)}, telechat3-yarn"
        )
    sections = found.family.sections
    axial = sections is not None and sections.rule.startswith("axial")
    if name == "axial" and not axial and found.family is not UNKNOWN:
        raise ValueError(f"{where}['rope_type']='axial' is for towers of images; {found.model} does not take it")
    if name not in ("default", "axial") and (axial or not found.family.scalable):
        raise ValueError(f"{where}['rope_type']={name!r} is not taken by {found.model}, which is never scaled")
    return "default" if axial else name


def _original(found: _Found, scaling: dict[str, Any]) -> None:
    """The length before stretching: the config's own wins over that of its rotary parameters."""
    own = None if "']['" in found.rope_key else found.config.get("original_max_position_embeddings")
    if own is not None:
        scaling["original_max_position_embeddings"] = own
    elif "original_max_position_embeddings" not in scaling:
        scaling["original_max_position_embeddings"] = found.needed(
            "max_position_embeddings", f"rope_type {scaling['rope_type']!r} needs where no original length is given"
        )


def _yarn(found: _Found, scaling: dict[str, Any]) -> None:
    where = found.key(found.rope_key)
    if "factor" not in scaling:
        if "factor" not in found.rope:
            raise ValueError(f"{where} lacks 'factor', which rope_type 'yarn' needs")
        length = found.needed("max_position_embeddings", "a factor of null needs")
        scaling["factor"] = length / scaling["original_max_position_embeddings"]
    scales = [found.rope.get(key) for key in ("mscale", "mscale_all_dim")]
    if bool(scales[0]) != bool(scales[1]) and (scales[0] or scales[1]) != 1 and "attention_factor" not in scaling:
        key = "mscale" if scales[0] else "mscale_all_dim"
        raise ValueError(
            f"{where}[{key!r}]={found.rope[key]!r} without the other of mscale and mscale_all_dim is read differently by "
            "packages; give both, or attention_factor"
        )
    # zero is as good as none
    for key in ("mscale", "mscale_all_dim"):
        if not found.rope.get(key):
            scaling.pop(key, None)


# ---- which axes ------------------------------------------------------------------------------------------------------


def _in_turn(pairs: int, counts: Sequence[int]) -> list[int]:
    """Axes take turns as long as each has some left, the first axis beyond that."""
    axes = np.zeros(pairs, int)
    for a in range(1, len(counts)):
        axes[a : counts[a] * len(counts) : len(counts)] = a
    return [int(a) for a in axes]


def _contiguous(pairs: int, counts: Sequence[int]) -> list[int]:
    return [a % 3 if len(counts) > 4 else a for a, count in enumerate(counts) for _ in range(count)]


def _ernie(pairs: int, counts: Sequence[int]) -> list[int]:
    return [1, 2] * counts[0] + [0] * counts[2]


def _pangu(pairs: int, counts: Sequence[int]) -> list[int]:
    """The axis that is least used up, but not twice in a row; with three axes the last pair reads the first."""
    last = [0] if len(counts) == 3 else []
    totals = [counts[0] - len(last), *counts[1:]]
    left, axes = list(totals), [-1]
    while any(left):
        here = [a for a, count in enumerate(left) if count and a != axes[-1]] or [
            a for a, count in enumerate(left) if count
        ]
        best = min(here, key=lambda a: (1 - left[a] / totals[a], a))
        axes.append(best)
        left[best] -= 1
    return axes[1:] + last


# rules that need no counts
_RULES: dict[str, Callable[[int], list[int]]] = {
    "axial": lambda pairs: [0] * (pairs // 2) + [1] * (pairs // 2),
    "axial_columns": lambda pairs: [1] * (pairs // 2) + [0] * (pairs // 2),
    "axial_alternating": lambda pairs: [1, 0] * (pairs // 2),
    "axial_rows_alternating": lambda pairs: [0, 1] * (pairs // 2),
    "axial_three": lambda pairs: [a for a in range(3) for _ in range(pairs // 3)],
    "alternating": lambda pairs: [0, 1] * (pairs // 2),
}
_COUNTED = {"contiguous": _contiguous, "in_turn": _in_turn, "ernie": _ernie, "pangu": _pangu}


def _axes(found: _Found, pairs: int) -> list[int] | None:
    """For each pair the axis that it reads."""
    sections, rope = found.family.sections, found.rope
    if sections is None:
        return None
    if sections.rule in _RULES:
        axes = _RULES[sections.rule](pairs)
        if len(axes) != pairs:
            raise ValueError(f"{found.where} has heads of {2 * pairs} values that turn, which do not divide among axes")
        return axes
    if sections.rule == "atoms":
        return None
    counts, key = rope.get("mrope_section"), "mrope_section"
    if counts is None and rope.get("xdrope_section") is not None:
        counts, key = rope["xdrope_section"], "xdrope_section"
    flag, rule = rope.get("mrope_interleaved"), sections.rule
    if rule == "flagged":
        rule = "in_turn" if flag else "contiguous"
    elif flag is not None and bool(flag) != (rule in ("in_turn", "pangu")):
        raise ValueError(
            f"{found.key(found.rope_key)}['mrope_interleaved']={flag!r} is not what {found.model} does, whose sections "
            f"are {'in turn' if rule == 'in_turn' else 'one after the other'}; leave it out"
        )
    if counts is None:
        if sections.default is None:
            if rule == "pangu":
                raise ValueError(f"{found.key(found.rope_key)} lacks mrope_section, which {found.model} needs")
            return None
        counts = sections.default
    where = f"{found.key(found.rope_key)}[{key!r}]"
    if isinstance(counts, str) or not isinstance(counts, Sequence):
        raise TypeError(f"{where} must be a sequence of integers, not {counts!r}")
    counts = [count_of(number, where, 0) for number in counts]
    if sum(counts) != pairs and (rule != "in_turn" or found.family is UNKNOWN):
        raise ValueError(f"{where}={counts} adds up to {sum(counts)}, but {pairs} pairs turn")
    return _COUNTED[rule](pairs, counts)


# ---- together --------------------------------------------------------------------------------------------------------


def _arguments(found: _Found, kind: Kind | None, index: int | None, layout: Any, seq_len: Any) -> Arguments:
    family = found.family
    if family.spectrum == "scaled_layers":
        found = _scaled_layers(found, index)
    head, width_key = _width(found, kind)
    dim = _turned(found, kind, index, head, width_key)
    if dim % 2:
        raise ValueError(
            f"{found.where} turns {dim} of {head} values, an odd number, of which packages make different things; give "
            f"Rotary({head}, rotary_dim={dim - 1}, ..) or frequencies"
        )
    base = _base(found, kind, index)
    scaling = _scaling(found, _factor(found, kind, index), seq_len)
    axes = _axes(found, dim // 2)
    if layout is None:
        layout = family.layout
        if family.switch is not None and not found.config.get(family.switch[0], True):
            layout = family.switch[1]
    result: Arguments = {"head_dim": head, "rotary_dim": dim, "layout": layout}
    if axes is not None and any(axes):
        result["sections"] = axes
    if family.sections is not None and family.sections.rule.startswith("axial") and family.spectrum == "geometric":
        return result | {"base": base, "scaling": {"rope_type": "axial"}}
    if family.spectrum in _SPECTRA:
        return result | _SPECTRA[family.spectrum](found, dim // 2, base, scaling, seq_len)
    if family.backwards:
        return result | _backwards(dim, base, scaling)
    return result | {"base": base, "scaling": None if scaling["rope_type"] == "default" else scaling}


def _scaled_layers(found: _Found, index: int | None) -> _Found:
    """Without the scaling, for a layer that rope_scaling_layers leaves out."""
    layers = found.config.get("rope_scaling_layers")
    if layers is None or _rope_type(found) == "default":
        return found
    if index is None:
        raise ValueError(f"{found.key('rope_scaling_layers')}={layers!r} scales some layers alone; give layer=")
    return found if index in layers else found._replace(rope={"rope_theta": found.rope.get("rope_theta")})


def _backwards(dim: int, base: float, scaling: dict[str, Any]) -> Arguments:
    name, parameters = _rope.checked_scaling(scaling, dim // 2)
    if name == "default":
        return {"frequencies": geometric(dim // 2, base=base, first=-1.0)}
    values, factor = _rope.frequencies_of(dim, base, name, parameters)
    return {"frequencies": -np.asarray(values), "attention_factor": factor}


def _pixtral(found: _Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    plain = base ** (-np.arange(pairs) / pairs)
    return {"frequencies": np.concatenate([plain[0::2], plain[1::2]])}


def _dinov3(found: _Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    return {"frequencies": np.tile(2 * np.pi * base ** (-2 * np.arange(pairs // 2) / pairs), 2)}


def _atoms(found: _Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    def one(key: str, usual: Any) -> Any:
        return found.config.get(key, usual) if usual is not None else found.needed(key, "is needed")

    space, names = one("num_spatial_rope_pairs_per_axis", None), one("num_uid_rope_pairs", None)
    parts = [
        (one("spatial_rope_base_frequency", None), space),
        (one("spatial_rope_base_frequency", None), space),
        (one("spatial_rope_base_frequency", None), space),
        (one("uid_rope_base_frequency", None), names),
    ]
    rest = pairs - 3 * space - names
    if rest < 0:
        raise ValueError(f"{found.where} has {3 * space + names} pairs that turn, more than the {pairs} of its heads")
    values = [base ** (-np.arange(count) / count) for base, count in parts if count]
    return {
        "frequencies": np.concatenate([*values, np.zeros(rest)]),
        "sections": [a for a, (_, count) in enumerate(parts) for _ in range(count)] + [3] * rest,
    }


def _phimoe(found: _Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    if scaling["rope_type"] == "default":
        return {"base": base}
    original = scaling.get("original_max_position_embeddings") or found.needed("max_position_embeddings", "is needed")
    key = "long_mscale" if seq_len is not None and seq_len > original else "short_mscale"
    factor = found.rope.get(key)
    if factor is None:
        raise ValueError(f"{found.key(found.rope_key)} lacks {key!r}, which a {found.model} that is scaled needs")
    scaling.pop("seq_len", None)
    name, parameters = _rope.checked_scaling(scaling, pairs)
    values = _rope.frequencies_of(2 * pairs, base, name, parameters).values
    return {"frequencies": np.asarray(values), "attention_factor": factor}


_SPECTRA = {"pixtral": _pixtral, "dinov3": _dinov3, "atoms": _atoms, "phimoe": _phimoe}
