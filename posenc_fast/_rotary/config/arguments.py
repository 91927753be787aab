"""What a config says of a model's rotary encoding: the arguments of a `Rotary`, or an error that says what is missing."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..scaling import checked_scaling
from .axes import axes_of
from .families import FAMILIES, UNKNOWN, Family
from .found import SPELLINGS, Config, Found, is_list
from .layers import asked, for_layer, turns
from .models import ARCHITECTURES, NEEDS_PARAMETERS, NO_ROTARY, PARTS, UNREADABLE
from .scaling import rope_type, scaling_of
from .spectra import SPECTRA
from .spelling import check_spelling
from .widths import base_of, factor_of, turned, width

__all__ = ["arguments_of"]

# keys of the parts for text in models whose type is not known
TEXTS = ("text_config", "thinker_config", "language_config", "llm_config")
# keys that only towers of images have
VISUAL = ("patch_size", "depth", "spatial_merge_size")

_FAMILY_OF = {model: family for family in FAMILIES for model in family.models.split()}


def arguments_of(
    config: Any, layer: Any = None, layer_type: Any = None, layout: Any = None, seq_len: Any = None
) -> dict[str, Any] | None:
    """Of the `Rotary` that a config means; None for layers that have none."""
    try:
        found = _family_of(*_part(_read(config)), layout)
        _check_needs(found)
        layer_type, index = asked(found, layer, layer_type)
        if not turns(found, layer_type, index):
            return None
        mine = for_layer(found, layer_type, index)
        return None if mine is None else _arguments(mine, layout, seq_len)
    except RecursionError:
        where = os.fspath(config) if isinstance(config, (str, os.PathLike)) else "config"
        raise ValueError(f"{where} is nested too deeply to be a model's config") from None


# ---- which part of a config ------------------------------------------------------------------------------------------


def _read(config: Any) -> Config:
    if isinstance(config, (str, os.PathLike)):
        config = _loaded(Path(config))
    elif not isinstance(config, Mapping) and callable(getattr(config, "to_dict", None)):
        # transformers leaves some empty model types out of a part's own dictionary
        config = {"model_type": getattr(config, "model_type", None), **config.to_dict()}
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a mapping, the path of a config.json or a config of transformers, not "
            f"{type(config).__name__}"
        )
    return config


def _loaded(path: Path) -> Any:
    text = path.read_bytes()
    try:
        # which knows UTF-8, UTF-16 and UTF-32 from one another
        return json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise ValueError(f"{path} is no config.json: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object; leave one out")
    return result


def _part(config: Config) -> tuple[Config, str, str]:
    """The part that turns queries and keys, of text if there are several; where it is; its type."""
    where, model = "config", _type_of(config)
    while model not in _FAMILY_OF:
        parts = PARTS.get(model) or dict.fromkeys(TEXTS, "")
        here = {key: default for key, default in parts.items() if isinstance(config.get(key), Mapping)}
        if model in NO_ROTARY:
            # what a whole is made of may be exchanged, and is named then
            here = {key: default for key, default in here.items() if config[key].get("model_type")}
        if len(here) > 1:
            whole = f"a {model}, of" if model else "of an unnamed type, and has"
            raise ValueError(
                f"{where} is {whole} several parts that turn; give that which is meant: "
                + " or ".join(f"{where}[{key!r}]" for key in here)
            )
        if here:
            ((key, default),) = here.items()
            where, config, model = f"{where}[{key!r}]", config[key], _type_of(config[key], default)
        elif model in PARTS:
            # files of the first versions have the text's keys at the top
            return config, where, _flat(config, where, model)
        else:
            break
    beside = [key for key in TEXTS if isinstance(config.get(key), Mapping) and config[key]]
    if model in _FAMILY_OF and beside:
        raise ValueError(
            f"{where} is a {model}, which turns, and has {beside[0]}; give {where}[{beside[0]!r}], or leave one out"
        )
    return config, where, model


def _type_of(config: Config, default: str = "") -> str:
    names = config.get("architectures")
    known = [ARCHITECTURES[str(name)] for name in names if str(name) in ARCHITECTURES] if is_list(names) else []
    return known[0] if known else str(config.get("model_type") or default)


def _flat(config: Config, where: str, model: str) -> str:
    """The type of the one part whose keys stand at the top of a config of the whole."""
    parts = PARTS[model]
    if len(parts) > 1 or all(config.get(name) is None for name in SPELLINGS["hidden_size"]):
        raise ValueError(f"{where} is a {model}, and lacks {' and '.join(parts)}, its parts that turn")
    if any(key in config for key in VISUAL):
        raise ValueError(
            f"{where}['model_type']={model!r} names a whole model, but this is its part for images; name the type of "
            f"the part, such as {model + '_vision'!r}"
        )
    return next(iter(parts.values()))


def _family_of(config: Config, where: str, model: str, layout: Any) -> Found:
    named = f"{where}['model_type']={config.get('model_type') or model or None!r}"
    if model in UNREADABLE:
        raise ValueError(f"{named} cannot be a Rotary from its config: {UNREADABLE[model]}")
    if model in NO_ROTARY:
        others = [key for key, value in config.items() if str(key).endswith("_config") and isinstance(value, Mapping)]
        advice = f"; its parts are {', '.join(others)}" if others else ""
        raise ValueError(f"{named} has no rotary encoding{advice}")
    if model not in _FAMILY_OF and layout is None:
        near = difflib.get_close_matches(model, _FAMILY_OF, 1)
        advice = f" (is {near[0]!r} meant?)" if near else ""
        raise ValueError(
            f"{named} is not known{advice}; give layout='half', 'interleaved' or 'interleaved_to_half' to have it read "
            "as a model with that layout"
        )
    return _with_parameters(config, where, model, _FAMILY_OF.get(model, UNKNOWN))


def _with_parameters(config: Config, where: str, model: str, family: Family) -> Found:
    check_spelling(config, where, model, family)
    if family.parameters is not None:
        for key in ("rope_scaling", "rope_parameters"):
            if config.get(key):
                raise ValueError(f"{where}[{key!r}]={config[key]!r} is nothing that {model} reads; leave it out")
        return Found(config, where, model, family, family.parameters(config), where)
    old, new = config.get("rope_scaling"), config.get("rope_parameters")
    for key, value in (("rope_scaling", old), ("rope_parameters", new)):
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{where}[{key!r}] must be a mapping or null, not {value!r}")
    if old and new and dict(old) != dict(new):
        raise ValueError(f"{where} has both rope_scaling={old!r} and rope_parameters={new!r}; leave one out")
    if model in NEEDS_PARAMETERS and not (old or new):
        raise ValueError(
            f"{where} lacks rope_parameters (or rope_scaling), without which a {model} has those of its class, whatever "
            "stands beside; add them, or give transformers' config object"
        )
    key = "rope_scaling" if old else "rope_parameters"
    return Found(config, where, model, family, dict(old or new or {}), f"{where}[{key!r}]")


def _check_needs(found: Found) -> None:
    for key, value, default, words in found.family.needs:
        given = found.get(key)
        if (default if given is None else given) != value:
            raise ValueError(
                f"{found.key(key)}={given!r} means {words} in {found.model}; from_config reads it with {value!r}"
            )
    if found.family.parameters is None and found.config.get("rope_type") not in (None, "default"):
        raise ValueError(
            f"{found.key('rope_type')}={found.config['rope_type']!r} is not read by {found.model}; put it into "
            "rope_scaling, with what it needs, or leave it out"
        )
    for key in UNKNOWN.keys if found.family is UNKNOWN else ():
        given = found.config.get(key)
        if given is not None and not any(word in str(given).lower() for word in ("rope", "rotary", "yarn")):
            raise ValueError(f"{found.key(key)}={given!r} means no rotary encoding; from_config reads it with 'rope'")


# ---- together --------------------------------------------------------------------------------------------------------


def _arguments(found: Found, layout: Any, seq_len: Any) -> dict[str, Any]:
    found = _scaled(found)
    family, head = found.family, width(found)
    dim = turned(found, head)
    base, scaling = base_of(found), scaling_of(found, factor_of(found), seq_len)
    checked_scaling(scaling, dim // 2, found.rope_where)
    axes = axes_of(found, dim // 2)
    if layout is None:
        layout = family.layout if family.switch is None or _switched(found, family.switch[0]) else family.switch[1]
    result: dict[str, Any] = {"head_dim": head, "rotary_dim": dim, "layout": layout}
    if axes is not None and any(axes):
        result["sections"] = axes
    if family.spectrum in SPECTRA:
        return result | SPECTRA[family.spectrum](found, dim // 2, base, scaling, seq_len)
    if family.sections is not None and family.sections.rule.startswith("axial"):
        scaling = {"rope_type": "axial"}
    return result | {"base": base, "scaling": None if scaling["rope_type"] == "default" else scaling}


def _switched(found: Found, key: str) -> bool:
    value = found.config.get(key, True)
    if not isinstance(value, bool):
        raise TypeError(f"{found.key(key)} must be true or false, not {value!r}; leave it out for true")
    return value


def _scaled(found: Found) -> Found:
    """Without the scaling, for a layer that is left out of those that are scaled."""
    key = found.family.scaled_layers
    layers = found.config.get(key) if key else None
    if layers is None or rope_type(found) == "default":
        return found
    if not is_list(layers):
        raise TypeError(f"{found.key(key)} must be a sequence of indices of layers, not {layers!r}")
    if found.layer is None:
        raise ValueError(f"{found.key(key)}={layers!r} scales some layers alone; give layer=")
    return found if found.layer in layers else found._replace(rope={"rope_theta": found.rope.get("rope_theta")})
