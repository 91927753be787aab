"""Find the layers that a caller requests, whether they have RoPE, and their rotary parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.numbers.arguments import count_of
from .part import Part, Several, Undecided, is_list
from .rules import NO_ATTENTION, WITHOUT
from .spelling import check_spelling, keys_of
from .table import LayerGroup


def requested(part: Part, layer: Any, layer_type: Any) -> tuple[str | None, int | None]:
    """Return (layer type, layer index) of the caller's request. A value that the request leaves open is None."""
    if layer is None and layer_type is None:
        return None, None
    if layer is not None and layer_type is not None:
        raise ValueError(f"layer={layer!r} and layer_type={layer_type!r} exclude each other; pass only one of them")
    types, groups = part.types(), part.row.groups
    by_type = bool(groups) or any(WITHOUT[name].by_type for name in part.row.without)
    if layer_type is not None:
        if not isinstance(layer_type, str):
            raise TypeError(f"layer_type must be a string, not {layer_type!r}")
        known = list(dict.fromkeys(map(str, [*(types or ()), *_types_of(part), *part.nested])))
        if known and layer_type not in known:
            raise ValueError(
                f"layer_type={layer_type!r} is not a layer type of {part.where}; give one of {', '.join(known)}"
            )
        if not (known or by_type or part.is_unknown):
            raise ValueError(
                f"layer_type={layer_type!r} is not for {part.model}, which has no layer types; leave layer_type out, or "
                "pass layer=, the index of a layer"
            )
        return layer_type, None
    index = count_of(layer, "layer", 0)
    count = len(types) if types is not None else part.depth()
    if count is not None and index >= count:
        raise ValueError(f"layer={index} is too large: {part.where} has {count} layers, counted from 0")
    if types is None and by_type:
        part.needed("layer_types", f"determines the type of layer={index} (not needed with layer_type=)")
    return (None if types is None else types[index]), index


def rotates(part: Part, layer_type: str | None, index: int | None) -> bool:
    """Return whether the layers with this type and index have RoPE. None means an unknown type or index."""
    rules = (WITHOUT[name] for name in part.row.without)
    return all(rule.rotates(part, layer_type, index) for rule in rules) and layer_type not in NO_ATTENTION


# ---- groups of layers ------------------------------------------------------------------------------------------------


def for_layer(part: Part, layer_type: str | None, index: int | None) -> Part | None:
    """Return the part with the parameters and values of the requested layers, or None if the layers have no RoPE."""
    row, nested = part.row, part.nested
    if not row.groups and not nested:
        return _overridden(part._replace(layer=index), layer_type)
    if not row.groups and not part.is_unknown:
        raise ValueError(
            f"{part.rope_where} has separate parameters for {', '.join(nested)}, but {part.model} has only one "
            f"kind of layers; set {part.rope_where} to the parameters of this kind"
        )
    stray = [name for name in nested if row.groups and name not in row.groups]
    if stray:
        raise ValueError(
            f"{part.rope_where}[{stray[0]!r}]={part.rope[stray[0]]!r} is for layers that {part.model} does not have; "
            f"allowed are parameters for {', '.join(row.groups)}"
        )
    label = part.label(layer_type) if layer_type is not None else _only_group(part, nested)
    if part.is_null(label):
        return None
    group = row.groups.get(label) or (LayerGroup(10000.0) if label in nested else None)
    if group is None and not nested:
        raise ValueError(
            f"{part.key('layer_types')} has the layer type {layer_type!r}, which {part.model} does not have; allowed "
            f"are {', '.join(dict.fromkeys(_types_of(part)))}"
        )
    if group is None or (nested and label not in nested and not row.fills_groups):
        raise ValueError(
            f"{part.rope_where} has parameters for {', '.join(nested)}, but no parameters for {label}; add them"
        )
    part = _with_parameters_of_group(part._replace(group=group, layer=index), group, label, nested)
    return _overridden(part, layer_type or label)


def _types_of(part: Part) -> list[str]:
    """Return the names of the groups of layers, each followed by the layer types of the group."""
    return [name for label, group in part.row.groups.items() for name in (label, *group.layer_types)]


def _only_group(part: Part, nested: list[str]) -> str:
    """Return the name of the only group of layers with RoPE, or raise an error if there is none or more than one."""
    types, groups = part.types(), part.row.groups
    labels = (nested if types is None else list(dict.fromkeys(map(part.label, types)))) or groups
    used = [label for label in labels if label in (*groups, *nested) and not part.is_null(label)]
    if not used:
        raise Undecided(
            f"{part.rope_where} has no parameters for any of the layer types ({', '.join(map(str, labels))})"
        )
    if len(used) > 1:
        raise Several(
            f"{part.where} has rotary parameters for several kinds of layers: {', '.join(used)}; give layer_type= "
            "(one of these kinds) or layer= (the index of a layer)",
            [{"layer_type": label} for label in used],
        )
    return used[0]


def _with_parameters_of_group(part: Part, group: LayerGroup, label: str, nested: list[str]) -> Part:
    """Return the part with only the rotary parameters of one group of layers, whose name is label."""
    rope, groups = part.rope, part.row.groups
    default: dict[str, Any] = {"rope_type": group.rope_type}
    if group.factor is not None:
        default["partial_rotary_factor"] = group.factor
    if nested:
        stray = [key for key in rope if key not in (*nested, "rope_type", "type", "rope_theta")]
        if stray:
            raise ValueError(
                f"{part.rope_where} has {stray[0]}={rope[stray[0]]!r} next to parameters for {', '.join(nested)}; move "
                f"{stray[0]} into the parameters of the kinds of layers that use it"
            )
        parameters = dict(rope.get(label) or default)
        if group.always_factor:
            _check_type_key(part, parameters, f"{part.rope_where}[{label!r}]")
        fills_base = part.row.fills_groups and not group.unscaled_base and not part.row.codes[0]
        if label in nested and parameters.get("rope_theta") is None and not fills_base:
            raise Undecided(
                f"{part.rope_where}[{label!r}] lacks 'rope_theta'; posenc_fast does not guess the base of these layers "
                f"in {part.model}. Add rope_theta to {part.rope_where}[{label!r}]"
            )
        if parameters.get("truncate") is False:
            raise ValueError(
                f"{part.rope_where}[{label!r}]['truncate']=False has no effect: transformers always uses truncate=True "
                "if a kind of layers has its own parameters. Remove truncate from the config, or call Rotary(head_dim, "
                "scaling=..) to compute with truncate=False"
            )
        _check_lists(part, nested)
        return part._replace(rope=parameters, rope_where=f"{part.rope_where}[{label!r}]")
    if not rope:
        return part._replace(rope=default)
    if not any(one.reads_shared for one in groups.values()):
        raise ValueError(f"{part.rope_where} must have separate parameters for each of {', '.join(groups)}")
    _check_shared(part)
    if not group.reads_shared:
        # the shared parameters are for other groups
        return part._replace(rope=default)
    if group.unscaled_base and rope.get("rope_theta") is None:
        raise Undecided(
            f"{part.rope_where} lacks 'rope_theta'; without it, {part.model} uses the base of other layers for "
            f"{label}. Add rope_theta to {part.rope_where}, or separate parameters for each of {', '.join(groups)}"
        )
    if group.yarn_factor is not None and (rope.get("rope_type") or rope.get("type")) == "yarn":
        rope = {"attention_factor": group.yarn_factor} | rope
    return part._replace(rope=rope)


def _check_shared(part: Part) -> None:
    """Raise an error if all layers share rotary parameters that transformers would not read completely."""
    rope, where, groups = part.rope, part.rope_where, ", ".join(part.row.groups)
    if where.endswith("['rope_parameters']"):
        raise ValueError(
            f"{where} must have separate parameters for each of {groups}. If all layers share parameters, rename "
            "rope_parameters to rope_scaling"
        )
    if rope.get("truncate") is False:
        raise ValueError(
            f"{where}['truncate']=False has no effect: transformers always uses truncate=True for {part.model}. Remove "
            "truncate from the config, or call Rotary(head_dim, scaling=..) to compute with truncate=False"
        )
    if part.row.preset:
        _check_type_key(part, rope, where)


def _check_type_key(part: Part, parameters: Mapping[str, Any], where: str) -> None:
    """Raise an error if only the key "type" names a scaling.

    The model's class in transformers ignores this key, because its default parameters contain a rope_type.
    """
    if parameters.get("rope_type") is None and parameters.get("type") not in (None, "default"):
        raise ValueError(
            f"{where}['type']={parameters['type']!r} is not read by {part.model}, which reads rope_type; rename type to "
            "rope_type if the model was trained with this scaling, or remove the scaling from the config"
        )


def _check_lists(part: Part, nested: list[str]) -> None:
    """Raise an error if the model may read lists with one value per layer instead of parameters for kinds of layers."""
    types, codes = part.types(), part.row.codes[0]
    used = part.row.groups if types is None or codes else set(map(part.label, types))
    missing = sorted(name for name in used if name not in nested)
    if missing and (codes or "partial_rotary_factors" in part.row.factor_keys):
        raise ValueError(
            f"{part.rope_where} lacks {missing[0]!r}, a kind of layers of {part.model}; without this key, "
            f"{part.model} ignores all of {part.rope_where}. Add {missing[0]!r} with the rotary parameters of these "
            "layers"
        )
    for key in ("rope_theta", "partial_rotary_factors"):
        if is_list(part.config.get(key)):
            raise ValueError(
                f"{part.key(key)}={part.config[key]!r} has one value per layer, but {part.rope_where} has parameters "
                f"for each kind of layers; remove {key} from the config, or these parameters from {part.rope_where}"
            )


def _overridden(part: Part, layer_type: str | None) -> Part:
    """Return the part with the values in per_layer_config for the layer, or for the first layer of the layer type."""
    overrides, index, where = part.config.get("per_layer_config"), part.layer, part.key("per_layer_config")
    if not overrides:
        return part
    if not isinstance(overrides, Mapping) or not all(isinstance(one, Mapping) for one in overrides.values()):
        raise TypeError(f"{where} must be a mapping of mappings, not {overrides!r}")
    if index is None and keys_of(part.row.family) & {key for one in overrides.values() for key in one}:
        types = part.types()
        if types is None or layer_type is None:
            raise Several(
                f"{where} has values for single layers; give layer=, the index of a layer",
                ({"layer": i} for i in range(part.depth() or 0)),
            )
        label = part.label(layer_type)
        index = next((i for i, one in enumerate(types) if part.label(one) == label), None)
    for key, values in overrides.items():
        # the keys of per_layer_config are layer indices, which may have leading zeros
        if index is not None and str(key).isdecimal() and int(key) == index:
            check_spelling(values, where, part.row)
            return part._replace(config={**part.config, **values})
    return part
