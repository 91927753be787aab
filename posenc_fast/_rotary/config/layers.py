"""Which layers of a model are meant, whether they turn, and the rotary parameters that are for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._numbers.arguments import count_of, real
from .families import UNKNOWN, LayerGroup, NoRotary
from .found import Found, is_list
from .spelling import check_spelling, keys_of

__all__ = ["asked", "for_layer", "turns"]

# types of layers without attention
NO_ATTENTION = frozenset(["linear_attention", "mamba", "mamba2", "conv", "recurrent", "linear", "moe", "mlp"])
# rules of layers without rotary encoding that go by their types
BY_TYPE = frozenset(["other", "full_attention", "full_attention_if", "cohere2_moe"])


def asked(found: Found, layer: Any, layer_type: Any) -> tuple[str | None, int | None]:
    """The type of the layers that are asked for, and the index of the layer."""
    if layer is None and layer_type is None:
        return None, None
    if layer is not None and layer_type is not None:
        raise ValueError(f"layer={layer!r} and layer_type={layer_type!r} exclude each other; leave one out")
    types, groups = found.types(), found.family.groups
    by_type = bool(groups) or any(rule.rule in BY_TYPE for rule in found.family.without)
    if layer_type is not None:
        if not isinstance(layer_type, str):
            raise TypeError(f"layer_type must be a string, not {layer_type!r}")
        names = [name for label, group in groups.items() for name in (label, *group.layer_types)]
        known = list(dict.fromkeys(map(str, [*(types or ()), *names, *_nested(found)])))
        if known and layer_type not in known:
            raise ValueError(f"layer_type={layer_type!r} is none of {', '.join(known)}, the types of {found.where}")
        if not known and not by_type and found.family is not UNKNOWN:
            raise ValueError(
                f"layer_type={layer_type!r} is nothing that {found.model} has, whose layers are alike; leave it out"
            )
        return layer_type, None
    index = count_of(layer, "layer", 0)
    count = len(types) if types is not None else found.depth()
    if count is not None and index >= count:
        raise ValueError(f"layer={index} is too large: {found.where} has {count} layers, from 0 on")
    if types is None and by_type:
        found.needed("layer_types", f"layer={index} needs (or give layer_type=)")
    return (None if types is None else types[index]), index


# ---- layers that do not turn -----------------------------------------------------------------------------------------


def turns(found: Found, layer_type: str | None, index: int | None) -> bool:
    """Whether layers have a rotary encoding."""
    for rule in found.family.without:
        if rule.rule == "no_base" and "rope_theta" in found.rope and found.rope["rope_theta"] is None:
            raise ValueError(f"{found.rope_where}['rope_theta']=None means no rotary encoding in {found.model}")
        if rule.rule == "zero" and index is not None and _is_zero(rule, found, index):
            return False
        if rule.rule == "other" and layer_type is not None and layer_type not in NO_ATTENTION:
            _check_turning(found, layer_type)
        if layer_type == "full_attention" and not _turns_in_full(rule, found, index):
            return False
    return layer_type not in NO_ATTENTION


def _check_turning(found: Found, layer_type: Any) -> None:
    """An error for a type that may or may not be of layers with attention."""
    if not isinstance(layer_type, str) or not any(part in layer_type for part in ("attention", "hybrid")):
        raise ValueError(
            f"{found.key('layer_types')} has {layer_type!r}, of which it is not known whether it has attention; there "
            f"are full_attention, {', '.join(sorted(NO_ATTENTION))}"
        )


def _is_zero(rule: NoRotary, found: Found, index: int) -> bool:
    values = found.config.get(rule.key)
    if not values and rule.key == "no_rope_layers":
        every = found.get("no_rope_layer_interval")
        every = 4 if every is None else count_of(every, found.key("no_rope_layer_interval"), 1)
        return (index + 1) % every == 0
    if not is_list(values) or index >= len(values):
        raise ValueError(f"{found.key(rule.key)}={values!r} must have a number for layer={index}")
    value = values[index]
    return real(int(value) if isinstance(value, bool) else value, f"{found.key(rule.key)}[{index}]") == 0


def _turns_in_full(rule: NoRotary, found: Found, index: int | None) -> bool:
    """Whether layers whose attention has no window do, by a rule."""
    if rule.rule == "full_attention_if":
        return found.config.get(rule.key) is None
    if rule.rule != "cohere2_moe":
        return rule.rule != "full_attention"
    if index is None:
        raise ValueError(
            f"layer_type='full_attention' is of layers that turn and of others in {found.model}; give layer="
        )
    mlps = found.needed("mlp_layer_types", f"layer={index} needs")
    dense = is_list(mlps) and index < len(mlps) and mlps[index] == "dense"
    return dense and found.config.get("prefix_dense_sliding_window_pattern", 1) == 1


# ---- groups of layers ------------------------------------------------------------------------------------------------


def for_layer(found: Found, layer_type: str | None, index: int | None) -> Found | None:
    """The part with the rotary parameters and the other values of the layers that are meant; None if they do not turn."""
    family, nested = found.family, _nested(found)
    if not family.groups and not nested:
        return _overridden(found._replace(layer=index), layer_type)
    if not family.groups and family is not UNKNOWN:
        raise ValueError(
            f"{found.rope_where} has parameters for each of {', '.join(nested)}, but {found.model} has layers of one "
            "kind; give those of one of them"
        )
    stray = [name for name in nested if family.groups and name not in family.groups]
    if stray:
        raise ValueError(
            f"{found.rope_where}[{stray[0]!r}]={found.rope[stray[0]]!r} is for layers that {found.model} does not have; "
            f"there are {', '.join(family.groups)}"
        )
    label = found.label(layer_type) if layer_type is not None else _only(found, nested)
    if _is_null(found, label):
        return None
    group = family.groups.get(label) or (LayerGroup(10000.0) if label in nested else None)
    # a class with keys for the bases of its groups fills in what is missing, others do not
    fills = any(one.base_keys for one in family.groups.values())
    if group is None and not nested:
        raise ValueError(
            f"{found.key('layer_types')} has {layer_type!r}, which {found.model} does not have; there are "
            f"{', '.join(family.groups)}"
        )
    if group is None or (nested and label not in nested and not fills):
        raise ValueError(f"{found.rope_where} has no parameters for {label}; it has {', '.join(nested)}")
    return _overridden(_with_parameters(found._replace(group=group, layer=index), label, nested), layer_type or label)


def _nested(found: Found) -> list[str]:
    """Names that rotary parameters are nested under."""
    names = [key for key, value in found.rope.items() if isinstance(value, Mapping)]
    return [key for key in found.rope if key in names or _is_null(found, key)]


def _is_null(found: Found, label: str) -> bool:
    return label in found.family.groups and label in found.rope and found.rope[label] is None


def _only(found: Found, nested: list[str]) -> str:
    """The group of all layers that turn."""
    types, groups = found.types(), found.family.groups
    used = nested if types is None else list(dict.fromkeys(map(found.label, types)))
    used = [one for one in used or groups if (one in groups or one in nested) and not _is_null(found, one)]
    if len(used) != 1:
        raise ValueError(
            f"{found.where} has rotary parameters for layers of several kinds: {', '.join(used)}; give layer_type= or "
            "layer="
        )
    return used[0]


def _with_parameters(found: Found, label: str, nested: list[str]) -> Found:
    """The part with the rotary parameters of one group of layers alone."""
    group, rope, groups = found.group, found.rope, found.family.groups
    assert group is not None
    usual: dict[str, Any] = {"rope_type": group.rope_type}
    if group.factor is not None:
        usual["partial_rotary_factor"] = group.factor
    if nested:
        stray = [key for key in rope if key not in (*nested, "rope_type", "type", "rope_theta")]
        if stray:
            raise ValueError(
                f"{found.rope_where} has {stray[0]}={rope[stray[0]]!r} beside parameters for {', '.join(nested)}; put "
                "it into those that it is for"
            )
        own = dict(rope.get(label) or usual)
        # a class that always has a part of the width always has a rope_type
        if group.always and own.get("rope_type") is None and own.get("type") not in (None, "default"):
            raise ValueError(
                f"{found.rope_where}[{label!r}]['type']={own['type']!r} is not read by {found.model}, but rope_type is; "
                "rename it if the model was made for it, or leave the scaling out"
            )
        special = group.unscaled_base or found.family.codes[0]
        filled = not special and any(one.base_keys for one in groups.values())
        if label in nested and own.get("rope_theta") is None and not filled:
            raise ValueError(
                f"{found.rope_where}[{label!r}] lacks 'rope_theta', without which {found.model} has the base of its class "
                "for all layers; add it"
            )
        if own.get("truncate") is False:
            raise ValueError(
                f"{found.rope_where}[{label!r}]['truncate']=False is not read inside parameters for a kind of layers, "
                "where transformers truncates always; leave it out, or build the Rotary by its arguments"
            )
        _check_lists(found, nested)
        return found._replace(rope=own, rope_where=f"{found.rope_where}[{label!r}]")
    if not rope or (not group.flat and any(one.flat for one in groups.values())):
        if rope:
            _check_flat(found)
        return found._replace(rope=usual)
    if not group.flat:
        raise ValueError(f"{found.rope_where} must have parameters for each of {', '.join(groups)}, not for all")
    _check_flat(found)
    if group.unscaled_base and rope.get("rope_theta") is None:
        raise ValueError(
            f"{found.rope_where} lacks 'rope_theta', without which {found.model} has the base of other layers in those of "
            f"{label}; add it, or give parameters for each of {', '.join(groups)}"
        )
    name = rope.get("rope_type") or rope.get("type")
    return found._replace(rope={key: value for of, key, value in group.defaults if of == name} | rope)


def _check_flat(found: Found) -> None:
    """An error for rotary parameters of all layers that transformers would not read, or not all of them."""
    rope, where, groups = found.rope, found.rope_where, ", ".join(found.family.groups)
    if where.endswith("['rope_parameters']"):
        raise ValueError(f"{where} must have parameters for each of {groups}, not for all; or call it rope_scaling")
    if rope.get("truncate") is False:
        raise ValueError(
            f"{where}['truncate']=False is not read in {found.model}, where transformers truncates always; leave it out, "
            "or build the Rotary by its arguments"
        )
    if found.family.preset and rope.get("rope_type") is None and rope.get("type") not in (None, "default"):
        raise ValueError(
            f"{where}['type']={rope['type']!r} is not read by {found.model}, but rope_type is; rename it if the model was "
            "made for it, or leave the scaling out"
        )


def _check_lists(found: Found, nested: list[str]) -> None:
    """An error where lists for all layers, not the parameters for kinds of them, may be read."""
    types, codes = found.types(), found.family.codes[0]
    used = found.family.groups if types is None or codes else set(map(found.label, types))
    missing = sorted(name for name in used if name not in nested)
    if missing and (codes or "partial_rotary_factors" in found.family.factor_keys):
        raise ValueError(
            f"{found.rope_where} lacks {missing[0]!r}, without which {found.model} reads none of it; add it"
        )
    for key in ("rope_theta", "partial_rotary_factors"):
        if is_list(found.config.get(key)):
            raise ValueError(
                f"{found.key(key)}={found.config[key]!r} stands beside {found.rope_where} for kinds of layers; leave one out"
            )


def _overridden(found: Found, layer_type: str | None) -> Found:
    """The part with what per_layer_config says of the layer, or of the first of its type."""
    overrides, index, where = found.config.get("per_layer_config"), found.layer, found.key("per_layer_config")
    if not overrides:
        return found
    if not isinstance(overrides, Mapping) or not all(isinstance(one, Mapping) for one in overrides.values()):
        raise TypeError(f"{where} must be a mapping of mappings, not {overrides!r}")
    if index is None and keys_of(found.family.name) & {key for one in overrides.values() for key in one}:
        types = found.types()
        if types is None or layer_type is None:
            raise ValueError(f"{where} is for some layers alone; give layer=, or layer_types in {found.where} as well")
        label = found.label(layer_type)
        index = next((i for i, one in enumerate(types) if found.label(one) == label), None)
    # keys may have zeros in front
    mine = [value for key, value in overrides.items() if index is not None and _number(key) == index]
    if mine:
        check_spelling(mine[0], where, found.model, found.family)
    return found._replace(config={**found.config, **(mine[0] if mine else {})})


def _number(key: Any) -> int | None:
    return int(key) if str(key).isdecimal() else None
