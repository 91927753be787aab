"""Convert a model's config to the arguments of a `Rotary`, or raise an error that says how to correct the config."""

from __future__ import annotations

import difflib
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..._core.numbers.arguments import count_of, real, unique
from ..._core.numbers.exact import log
from ..._core.rotary import scaling as _rope
from . import others, table
from .layers import for_layer, requested, rotates
from .part import (
    ACCEPTED,
    SPELLINGS,
    Config,
    NoRotary,
    Part,
    Several,
    Undecided,
    as_mapping,
    check_same,
    is_list,
    parameters_key,
)
from .rules import AXES, COUNTED, PARAMETERS, SPECTRA, WITHOUT
from .spelling import check_spelling
from .widths import base_of, default_factor, factor_of, rotated_dim, width

# keys that a config may have for its text part
TEXTS = ("text_config", "thinker_config", "language_config", "llm_config")
# keys that only image encoders have
VISUAL = ("patch_size", "depth", "spatial_merge_size")
# Largest number of encodings that `encodings_of` reads from one part. Models have fewer. Each kind of layers and each
# range of lengths has an encoding, which is read separately.
MOST_KINDS = 128
# rotary parameters of all models, besides the parameters of a scaling
COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
# rotary parameters of models with several position axes
SECTIONED = ("mrope_section", "mrope_interleaved")
# Maps old names of rope types to current names. A config may contain both names, in rope_type and in type.
RENAMED = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}
# rope_type with the frequencies of yarn, and with 0.07 instead of 0.1 in the formula of the attention factor
TELECHAT = "telechat3-yarn"
# pairs of keys: the value of the first key must not exceed the value of the second
ORDERED = (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast"))
# rotary parameters that programs ignore if alpha is set
BESIDE_ALPHA = ("factor", "max_position_embeddings", "original_max_position_embeddings", "beta_fast", "beta_slow",
                "mscale", "mscale_all_dim")  # fmt: skip


def arguments_of(
    config: Any, layer: Any = None, layer_type: Any = None, layout: Any = None, seq_len: Any = None
) -> dict[str, Any] | None:
    """Return the arguments of the `Rotary` that a config describes, or None for layers without RoPE.

    The parameters are explained in `Rotary.from_config`.
    """
    try:
        config = _read(config)
        format_name = others.name_of_format(config)
        if format_name:
            return others.arguments_of(config, format_name, layer, layer_type, layout)
        part = _prepared(config, layout)
        layer_type, index = requested(part, layer, layer_type)
        if not rotates(part, layer_type, index):
            return None
        layer_part = for_layer(part, layer_type, index)
        return None if layer_part is None else _arguments(_unscaled_if_listed(layer_part), layout, seq_len)
    except RecursionError:
        where = os.fspath(config) if isinstance(config, (str, os.PathLike)) else "config"
        raise ValueError(f"{where} is nested too deeply to be a model's config") from None


class EncodingOfLayers(NamedTuple):
    """The encoding of one kind of layers, for one sequence length if the encoding depends on the length."""

    # options of `arguments_of` that choose the layers and the length
    options: dict[str, Any]
    # arguments of the `Rotary`, or None for layers without RoPE
    arguments: dict[str, Any] | None


def encodings_of(config: Any) -> list[EncodingOfLayers]:
    """Return the encodings of all kinds of layers that one part of a config describes.

    If an encoding depends on the sequence length, two lengths are used: the length of the training, and one token more.
    """
    config = _read(config)
    waiting = [{}, *({"layer_type": layer_type} for layer_type in _layer_types(config))]
    done: list[dict[str, Any]] = []
    encodings = []
    while waiting:
        # the first options, which choose no layers, do not count
        if len(waiting) + len(done) > MOST_KINDS + 1:
            raise Undecided(
                f"config has separate encodings for more than {MOST_KINDS} layers or lengths, but posenc_fast reads at "
                f"most {MOST_KINDS} encodings; call Rotary.from_config(config, layer=..) for one layer"
            )
        options = waiting.pop(0)
        done.append(options)
        try:
            encodings.append(EncodingOfLayers(options, arguments_of(config, **options)))
        except Several as error:
            # A new option for the length is added to the present options, which chose the layers. New options for layers
            # replace the present options.
            choices = [{**options, **new} if "seq_len" in new else dict(new) for new in error.options]
            if not choices:
                raise Undecided(str(error)) from None
            waiting += [choice for choice in choices if choice not in done and choice not in waiting]
    return encodings


def _layer_types(config: Config) -> list[str]:
    """Return the layer types of a part, or an empty list if the encoding does not depend on the layer type."""
    if others.name_of_format(config):
        return []
    part = _prepared(config, None)
    groups = part.nested or part.row.groups
    if not groups and not any(WITHOUT[name].by_type for name in part.row.without):
        return []
    # groups are added because a program may store frequencies for a kind of layers that the model does not have
    return list(dict.fromkeys([*map(str, part.types() or ()), *groups]))


def _prepared(config: Config, layout: Any) -> Part:
    part = _with_parameters(*_part(config), layout)
    _check_needs(part)
    return part


# ---- selection of the part of a config -------------------------------------------------------------------------------


def _read(config: Any) -> Config:
    if isinstance(config, (str, os.PathLike)):
        config = _loaded(Path(config))
    return as_mapping(config)


def _advice_on(path: Path) -> str:
    """Return text that says which configs are accepted and, for a Hugging Face model name, how to load its config."""
    if len(path.parts) != 2 or path.is_absolute() or path.suffix.lower() == ".json":
        return ACCEPTED
    name = path.as_posix()
    return (
        f"{ACCEPTED}. For a model of the Hugging Face Hub, give transformers.AutoConfig.from_pretrained({name!r}), or "
        f"the path that huggingface_hub.hf_hub_download({name!r}, 'config.json') returns"
    )


def _loaded(path: Path) -> Any:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, f"the file does not exist; {_advice_on(path)}", str(path)) from None
    try:
        # json.loads detects UTF-8, UTF-16 and UTF-32
        return json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        raise ValueError(f"{path} is not a valid config.json: {error}") from None


def _part(config: Config) -> tuple[Config, str, str]:
    """Return (part with RoPE, its place in the config, its model type).

    The config of a composite model has a part for each of its models. Return the part that models.txt lists, which is
    usually the text part, or raise an error if the config has several of the listed parts. Any other config is itself
    the part.
    """
    where, model = "config", _type_of(config)
    # descend into sub-configs until the model type has RoPE
    while model not in table.types():
        known = table.parts().get(model) or dict.fromkeys(TEXTS, "")
        found = {key: default for key, default in known.items() if isinstance(config.get(key), Mapping)}
        if model in table.names("without"):
            # the composite model has no RoPE of its own: use only sub-configs with a model_type
            found = {key: default for key, default in found.items() if config[key].get("model_type")}
        if len(found) > 1:
            model_type = f"model_type {model!r}" if model else "no model_type"
            raise Undecided(
                f"{where} has {model_type}, and several parts that may have RoPE; pass one of these parts instead: "
                + " or ".join(f"{where}[{key!r}]" for key in found)
            )
        if found:
            ((key, default),) = found.items()
            where, config, model = f"{where}[{key!r}]", config[key], _type_of(config[key], default)
        elif model in table.parts():
            # early configs of this model type have the keys of the text part at the top level
            return config, where, _type_of_only_part(config, where, model)
        else:
            break
    texts = [key for key in TEXTS if isinstance(config.get(key), Mapping) and config[key]]
    if model in table.types() and texts:
        raise ValueError(
            f"{where} has model_type {model!r}, a model with RoPE, and also contains {texts[0]}; pass "
            f"{where}[{texts[0]!r}] to read only this part, or remove {texts[0]} from the config"
        )
    return config, where, model


def _type_of(config: Config, default: str = "") -> str:
    architectures, known = config.get("architectures"), table.pairs("architectures")
    from_architectures = (
        [known[str(name)] for name in architectures if str(name) in known] if is_list(architectures) else []
    )
    return from_architectures[0] if from_architectures else str(config.get("model_type") or default)


def _type_of_only_part(config: Config, where: str, model: str) -> str:
    """Return the model type of the only part of a composite model. The config has the part's keys at the top level.

    Raise an error if the type has several parts, or if the keys are missing or belong to an image encoder.
    """
    parts = table.parts()[model]
    if len(parts) > 1 or all(config.get(name) is None for name in SPELLINGS["hidden_size"]):
        raise Undecided(
            f"{where} has model_type {model!r}, but contains no {' or '.join(parts)}, which may have RoPE; add such "
            "a part to the config"
        )
    if any(key in config for key in VISUAL):
        known = [name for name in table.types() if name.startswith(f"{model}_vision")]
        raise ValueError(
            f"{where}['model_type']={model!r} names a composite model, but the config contains only the part for "
            f"images; set model_type to the type of this part{f', such as {known[0]!r}' if known else ''}"
        )
    return next(iter(parts.values()))


def _with_parameters(config: Config, where: str, model: str, layout: Any) -> Part:
    """Return the `Part` for a config, with its rotary parameters, or raise an error if it cannot be read."""
    named = f"{where}['model_type']={config.get('model_type') or model or None!r}"
    if model in table.pairs("unreadable"):
        raise Undecided(f"{named} is not expressible as a Rotary: {table.pairs('unreadable')[model]}")
    if model in table.names("without"):
        parts = [key for key, value in config.items() if str(key).endswith("_config") and isinstance(value, Mapping)]
        advice = f"; if a part of the config ({', '.join(parts)}) has RoPE, pass this part instead" if parts else ""
        raise NoRotary(f"{named} has no rotary encoding{advice}")
    if model not in table.types() and layout is None:
        near = difflib.get_close_matches(model, table.types(), 1)
        advice = f" (did you mean {near[0]!r}?)" if near else ""
        raise Undecided(
            f"{named} is unknown{advice}; to read the config anyway, give layout=, the order of pairs in the "
            "model: 'half', 'interleaved' or 'interleaved_to_half'"
        )
    row = table.row(model)
    check_spelling(config, where, row)
    old, new = config.get("rope_scaling"), config.get("rope_parameters")
    scalings = (("rope_scaling", old), ("rope_parameters", new))
    if row.parameters:
        for key, value in scalings:
            if value:
                raise ValueError(f"{where}[{key!r}]={value!r} is not read by {model}; remove {key} from the config")
        return Part(config, where, row, PARAMETERS[row.parameters](config), where)
    for key, value in scalings:
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{where}[{key!r}] must be a mapping or null, not {value!r}")
    if old and new and dict(old) != dict(new):
        raise ValueError(
            f"{where} has both rope_scaling={old!r} and rope_parameters={new!r}, which differ; leave one out of the "
            "config"
        )
    if row.needs_parameters and not (old or new):
        raise Undecided(
            f"{where} lacks rope_parameters (or rope_scaling), and posenc_fast does not know the defaults of {model}; "
            "add rope_parameters to the config, or pass the config object of transformers"
        )
    key = parameters_key(config)
    return Part(config, where, row, dict(old or new or {}), f"{where}[{key!r}]")


def _check_needs(part: Part) -> None:
    for need in part.row.needs:
        value = part.get(need.key)
        if (need.default if value is None else value) != need.required:
            error = NoRotary if need.others_mean in ("no rotary encoding", "ALiBi") else Undecided
            raise error(
                f"{part.key(need.key)}={value!r} means {need.others_mean} in {part.model}; from_config supports only "
                f"{need.required!r}"
            )
    if not part.row.parameters and part.config.get("rope_type") not in (None, "default"):
        raise ValueError(
            f"{part.key('rope_type')}={part.config['rope_type']!r} is not read by {part.model}; move rope_type "
            "and its parameters into rope_scaling, or remove them from the config"
        )
    for key in part.row.keys if part.is_unknown else ():
        value = part.config.get(key)
        if value is not None and not any(word in str(value).lower() for word in ("rope", "rotary", "yarn")):
            raise NoRotary(
                f"{part.key(key)}={value!r} means no rotary encoding; from_config supports only values with 'rope', "
                "'rotary' or 'yarn' in them"
            )


# ---- arguments of the Rotary -----------------------------------------------------------------------------------------


def _arguments(part: Part, layout: Any, seq_len: Any) -> dict[str, Any]:
    row, head, factor = part.row, width(part), factor_of(part)
    dim = rotated_dim(part, head, factor)
    base, scaling = base_of(part), _scaling_of(part, factor, seq_len)
    # checked_scaling raises an error for an invalid parameter
    checked = _rope.checked_scaling(scaling, dim // 2, part.rope_where)
    axes = _axes_of(part, dim // 2)
    if layout is None:
        layout = _layout_of(part)
    result: dict[str, Any] = {"head_dim": head, "rotary_dim": dim, "layout": layout}
    if axes is not None and any(axes):
        result["sections"] = axes
    if row.spectrum in SPECTRA:
        return result | SPECTRA[row.spectrum](part, dim // 2, base, checked, seq_len)
    if row.axial:
        scaling = {"rope_type": "axial"}
    return result | {"base": base, "scaling": None if scaling["rope_type"] == "default" else scaling}


def _layout_of(part: Part) -> str:
    """Return the layout of the model type, which a key of the config may switch."""
    if not part.row.switch:
        return part.row.layout
    key, layout_if_false = part.row.switch
    value = part.config.get(key, True)
    if not isinstance(value, bool):
        raise TypeError(
            f"{part.key(key)} must be true or false, not {value!r}; to use the default true, remove {key} from the "
            "config"
        )
    return part.row.layout if value else layout_if_false


def _unscaled_if_listed(part: Part) -> Part:
    """Return the part. Remove its scaling if the config lists layers with a scaling, but not the requested layer."""
    key = part.row.scaled_layers
    layers = part.config.get(key) if key else None
    if layers is None or _rope_type(part) == "default":
        return part
    if not is_list(layers):
        raise TypeError(f"{part.key(key)} must be a sequence of indices of layers, not {layers!r}")
    if part.layer is None:
        indices = range(part.depth() or 0)
        scaled = {i for i in layers if isinstance(i, int)}
        first_scaled = [i for i in indices if i in scaled][:1]
        first_unscaled = [i for i in indices if i not in scaled][:1]
        raise Several(
            f"{part.key(key)}={layers!r} lists the layers with scaled frequencies, so layers have different encodings; "
            "give layer=, the index of a layer",
            [{"layer": i} for i in first_scaled + first_unscaled],
        )
    base_only = {key: value for key, value in part.rope.items() if key == "rope_theta"}
    return part if part.layer in layers else part._replace(rope=base_only)


# ---- scaling: rope_type and its parameters, as `Rotary` takes them ---------------------------------------------------


def _scaling_of(part: Part, factor: float | None, seq_len: Any) -> dict[str, Any]:
    """Return the scaling: rope_type and its parameters. factor: rotated fraction of the width."""
    rope, name = part.rope, _rope_type(part)
    if seq_len is not None:
        seq_len = real(seq_len, "seq_len", positive=True)
    if name == "dynamic" and "alpha" in part.row.more_parameters and rope.get("alpha"):
        _check_keys(part, name, dict.fromkeys(BESIDE_ALPHA))
        return {"rope_type": "ntk", "alpha": rope["alpha"]}
    scaled_as = "yarn" if name == TELECHAT else name
    if name == "ntk" and rope.get("factor") is not None:
        # vLLM's scaling "ntk" has two formulas; mixed_b chooses the second
        mixed_b = rope.get("mixed_b")
        scaled_as = "ntk_fixed" if mixed_b is None else "ntk_mixed"
        rope = {key: value for key, value in rope.items() if key != "mixed_b"}
        rope |= {} if mixed_b is None else {"b": mixed_b}
        part = part._replace(rope=rope)
    if rope.get("alpha") and "alpha" in part.row.more_parameters and scaled_as != "ntk":
        raise ValueError(
            f"{part.rope_where}['alpha']={rope['alpha']!r} is read only with rope_type 'dynamic', or with 'ntk' without "
            f"a factor; rope_type is {name!r}. Correct rope_type, or remove alpha from the config"
        )
    parameters = _rope.SCALINGS[scaled_as].parameters
    _check_keys(part, name, parameters)
    scaling = {"rope_type": scaled_as} | {key: rope[key] for key in parameters if rope.get(key) is not None}
    if "original_max_position_embeddings" in parameters:
        _set_original(part, scaling)
    if scaled_as == "yarn":
        _set_yarn(part, scaling)
    if name == TELECHAT and "attention_factor" not in scaling:
        stretch = real(scaling["factor"], f"{part.rope_where}['factor']", positive=True)
        scaling["attention_factor"] = 1.0 if stretch <= 1 else 0.07 * float(log(stretch)) + 1.0
    if name == "proportional":
        if factor is None and (part.group is None or part.group.always_factor):
            factor = default_factor(part)
        factor = 1.0 if factor is None else factor
        if factor > 1:
            raise ValueError(
                f"{part.where} has partial_rotary_factor={factor}, but with rope_type 'proportional' this fraction "
                "must be at most 1; correct partial_rotary_factor in the config"
            )
        scaling["partial_rotary_factor"] = factor
    # if factor and attention_factor are missing, longrope computes the attention factor from max_position_embeddings
    # and original_max_position_embeddings
    needs_length = scaled_as == "longrope" and not {"factor", "attention_factor"} & set(scaling)
    if scaled_as == "dynamic" or needs_length:
        scaling["max_position_embeddings"] = part.needed("max_position_embeddings", f"rope_type {name!r} needs")
    for low_key, high_key in ORDERED:
        if low_key in parameters:
            _check_order(part, scaling, parameters, low_key, high_key)
    if "seq_len" in parameters:
        if seq_len is None:
            # all sequences up to the value of this key have the same frequencies
            key = "max_position_embeddings" if name == "dynamic" else "original_max_position_embeddings"
            longest = real(scaling[key], f"{part.where}: {key}", positive=True)
            raise Several(
                f"{part.rope_where}['rope_type']={name!r} has different frequencies for sequences up to {longest:g} "
                f"tokens and for longer ones; give seq_len=, the length of your sequence (or {longest:g} for all "
                "shorter sequences)",
                [{"seq_len": longest}, {"seq_len": longest + 1}],
            )
        scaling["seq_len"] = seq_len
    return scaling


def _rope_type(part: Part) -> str:
    """Return the current name of the scaling: a rope_type of `Rotary`, or TELECHAT."""
    rope, where, row = part.rope, part.rope_where, part.row
    present = {key: rope[key] for key in ("rope_type", "type") if rope.get(key) is not None}
    for key, value in present.items():
        if not isinstance(value, str):
            raise TypeError(f"{where}[{key!r}] must be a string, not {value!r}")
    names = list(present.values())
    current = [row.aliases.get(name, RENAMED.get(name, name)) for name in names]
    if len(set(current)) > 1:
        raise ValueError(
            f"{where} has rope_type={names[0]!r} and type={names[1]!r}, which differ; leave one out of the config"
        )
    name = current[0] if current else "default"
    if name in table.pairs("no rotations"):
        raise Undecided(
            f"{where}['rope_type']={name!r} is not expressible as one Rotary: {table.pairs('no rotations')[name]}"
        )
    if name not in _rope.SCALINGS and name != TELECHAT:
        raise ValueError(
            f"{where}['rope_type']={name!r} is unknown; give one of {', '.join(_rope.SCALINGS)}, {TELECHAT}"
        )
    if name == "axial" and not row.axial and not part.is_unknown:
        raise ValueError(
            f"{where}['rope_type']='axial' is for image encoders, and not read by {part.model}; remove rope_type "
            "from the config"
        )
    if name not in ("default", "axial") and (row.axial or not row.scalable):
        raise ValueError(
            f"{where}['rope_type']={name!r} is not read by {part.model}, which has no scaling; remove the scaling "
            "from the config"
        )
    return "default" if row.axial else name


def _check_keys(part: Part, name: str, parameters: dict[str, Any]) -> None:
    """Raise an error for a rotary parameter that is not read. name: rope_type. parameters: parameters of rope_type."""
    row, rope = part.row, part.rope
    read = {*COMMON, *row.more_parameters, *parameters, *(SECTIONED if row.sections is not None else ())}
    unknown = [key for key in rope if rope[key] is not None and key not in read]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), parameters, 1)
        known = (
            f"this rope_type reads only {', '.join(parameters)}" if parameters else "this rope_type has no parameters"
        )
        advice = f"did you mean {near[0]}?" if near else f"{known}. Remove {unknown[0]} from the config"
        raise ValueError(
            f"{part.rope_where}[{unknown[0]!r}]={rope[unknown[0]]!r} is not a parameter of rope_type {name!r}; {advice}"
        )


def _set_original(part: Part, scaling: dict[str, Any]) -> None:
    """Set the original length in the scaling.

    The original length is the first of these that exists: the top-level value (unless kinds of layers have their own
    rotary parameters), the default of the model's class, the value in the rotary parameters, max_position_embeddings.
    """
    key, name = "original_max_position_embeddings", scaling["rope_type"]
    top_level = part.config.get(key) if part.group is None else None
    if top_level is not None:
        inner = [(f"{part.rope_where}[{key!r}]", scaling[key])] if key in scaling else []
        check_same([(part.key(key), top_level), *inner], "original lengths")
        scaling[key] = real(top_level, part.key(key), positive=True)
    elif part.row.original_length is not None:
        scaling[key] = part.row.original_length
    elif key not in scaling:
        why = f"rope_type {name!r} needs if {key} is missing"
        scaling[key] = part.needed("max_position_embeddings", why)


def _set_yarn(part: Part, scaling: dict[str, Any]) -> None:
    where, rope = part.rope_where, part.rope
    if "factor" not in scaling:
        if "factor" not in rope:
            raise ValueError(f"{where} lacks 'factor', which rope_type 'yarn' needs; add factor to {where}")
        length = part.needed("max_position_embeddings", "rope_type 'yarn' needs if factor is null")
        length = real(length, part.key("max_position_embeddings"), positive=True)
        original = scaling["original_max_position_embeddings"]
        scaling["factor"] = length / real(original, "original_max_position_embeddings", positive=True)
    mscale, mscale_all_dim = rope.get("mscale"), rope.get("mscale_all_dim")
    # Programs treat 0 like a missing value. If only mscale is present, their attention factors differ, unless mscale is
    # 1. If only mscale_all_dim is present, their attention factors always differ.
    if bool(mscale) != bool(mscale_all_dim) and mscale != 1 and "attention_factor" not in scaling:
        key = "mscale" if mscale else "mscale_all_dim"
        raise Undecided(
            f"{where}[{key!r}]={rope[key]!r} is ambiguous, because programs compute different attention factors if one "
            "of mscale and mscale_all_dim is missing or 0. Set both to numbers other than 0, or set "
            f"attention_factor, in {where}"
        )
    for key in ("mscale", "mscale_all_dim"):
        if not rope.get(key):
            scaling.pop(key, None)


def _check_order(part: Part, scaling: dict[str, Any], parameters: dict[str, Any], low_key: str, high_key: str) -> None:
    """Raise an error if the value of the key ``low_key`` is too large, compared with the value of ``high_key``.

    parameters: parameters of the rope_type, with their defaults.
    """
    low, high = (scaling.get(key, parameters[key]) for key in (low_key, high_key))
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return
    # llama3 divides by the difference of the two values, so they must differ
    may_be_equal = scaling["rope_type"] != "llama3"
    if low > high or (low == high and not may_be_equal):
        raise ValueError(
            f"{part.rope_where}: {low_key}={low!r} must be {'at most' if may_be_equal else 'less than'} "
            f"{high_key}={high!r}; correct one of the two values"
        )


# ---- axis of each pair -----------------------------------------------------------------------------------------------


def _axes_of(part: Part, pairs: int) -> list[int] | None:
    """Return the axis of each pair, or None if there is one axis or a function in `SPECTRA` returns the axes."""
    sections, rope = part.row.sections, part.rope
    # for the rule "atoms", the function in SPECTRA returns the axes together with the frequencies
    if sections is None or sections.rule == "atoms":
        return None
    if sections.rule in AXES:
        axes = AXES[sections.rule](pairs)
        if len(axes) != pairs:
            raise ValueError(
                f"{part.where} has heads with {pairs} rotated pairs of values, which cannot be divided equally among "
                "the axes; correct the head width in the config"
            )
        return axes
    keys = [key for key in ("mrope_section", "xdrope_section") if rope.get(key) is not None]
    if len(keys) > 1:
        raise ValueError(
            f"{part.rope_where} has both mrope_section={rope['mrope_section']!r} and "
            f"xdrope_section={rope['xdrope_section']!r}; leave one out of the config"
        )
    key = keys[0] if keys else "mrope_section"
    counts = rope[key] if keys else sections.default
    rule = _rule_of_counts(part, sections.rule, counts, in_config=bool(keys))
    if counts is None:
        return None
    where = f"{part.rope_where}[{key!r}]"
    if not is_list(counts):
        raise TypeError(f"{where} must be a sequence of integers, not {counts!r}")
    # the rule "pangu" needs at least one pair for each axis
    counts = [count_of(number, where, 1 if rule == "pangu" else 0) for number in counts]
    # The counts in a config must add up to the number of pairs. Default counts of the rule "interleaved" need not:
    # they are truncated, or padded with axis 0.
    if sum(counts) != pairs and (keys or rule != "interleaved"):
        found = f"{where}={counts}" if keys else f"{where} is missing, and the default {counts} of {part.model}"
        raise ValueError(
            f"{found} adds up to {sum(counts)}; give numbers of pairs that add up to the {pairs} rotated pairs"
        )
    if sections.default is not None and len(counts) != len(sections.default):
        raise ValueError(f"{where}={counts} must have one number for each of the axes {sections.axes}")
    return COUNTED[rule](counts, pairs)


def _rule_of_counts(part: Part, rule: str, counts: Any, in_config: bool) -> str:
    """Return the name of the function in `COUNTED` that computes the axis of each pair from the numbers of pairs.

    rule: rule of the model type. in_config: whether the counts are in the config, and not the default of the model type.
    """
    rope, interleaved = part.rope, part.rope.get("mrope_interleaved")
    if interleaved is not None and not isinstance(interleaved, bool):
        raise TypeError(f"{part.rope_where}['mrope_interleaved'] must be true or false, not {interleaved!r}")
    if rule == "flagged" and "openpangu" in (rope.get("rope_type"), rope.get("type")):
        if not in_config or interleaved is False:
            raise ValueError(
                f"{part.rope_where} has rope_type 'openpangu', mrope_section={counts!r} and "
                f"mrope_interleaved={interleaved!r}; this rope_type needs mrope_section, and mrope_interleaved must "
                "not be false"
            )
        return "pangu"
    if rule == "flagged":
        return "interleaved" if interleaved else "contiguous"
    if interleaved is not None and interleaved != (rule == "interleaved"):
        raise ValueError(
            f"{part.rope_where}['mrope_interleaved']={interleaved!r} contradicts how {part.model} assigns pairs "
            "to axes; remove mrope_interleaved from the config"
        )
    return rule
