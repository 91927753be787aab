"""How a config has frequencies stretched: rope_type and its parameters, as `Rotary` takes them."""

from __future__ import annotations

import difflib
import math
from typing import Any

from ..._numbers.arguments import real
from .. import scaling as _rope
from .families import UNKNOWN
from .found import Found
from .models import NO_ROTATIONS

__all__ = ["rope_type", "scaling_of"]

# rotary parameters that are of no scaling: those of all models, and those of models whose pairs read several axes
COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
SECTIONED = ("mrope_section", "mrope_interleaved")
# one name for what was renamed; both may stand beside one another
RENAMED = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}
TELECHAT = "telechat3-yarn"


def scaling_of(found: Found, factor: float | None, seq_len: Any) -> dict[str, Any]:
    """rope_type and its parameters; factor: the part of the width that turns."""
    rope, name = found.rope, rope_type(found)
    if name == "dynamic" and "alpha" in found.family.also and rope.get("alpha"):
        return {"rope_type": "ntk", "alpha": rope["alpha"]}
    if name == "ntk" and rope.get("factor") is not None:
        # vLLM's, which has two formulas
        name, rope = (
            ("ntk_fixed", rope) if rope.get("mixed_b") is None else ("ntk_mixed", {**rope, "b": rope["mixed_b"]})
        )
        rope.pop("mixed_b", None)
        found = found._replace(rope=rope)
    scaled_as = "yarn" if name == TELECHAT else name
    parameters = _rope.SCALINGS[scaled_as].parameters
    _check_keys(found, name, parameters)
    scaling = {"rope_type": scaled_as} | {key: rope[key] for key in parameters if rope.get(key) is not None}
    if "original_max_position_embeddings" in parameters:
        _set_original(found, scaling)
    if scaled_as == "yarn":
        _set_yarn(found, scaling)
    if name == TELECHAT and "attention_factor" not in scaling:
        stretched = real(scaling["factor"], f"{found.rope_where}['factor']", positive=True)
        scaling["attention_factor"] = 1.0 if stretched <= 1 else 0.07 * math.log(stretched) + 1.0
    if name == "proportional":
        scaling["partial_rotary_factor"] = 1.0 if factor is None else factor
    ratio = scaled_as == "longrope" and not {"factor", "attention_factor"} & set(scaling)
    if scaled_as == "dynamic" or ratio:
        scaling["max_position_embeddings"] = found.needed("max_position_embeddings", f"rope_type {name!r} needs")
    if "seq_len" in parameters and seq_len is not None:
        scaling["seq_len"] = seq_len
    return scaling


def rope_type(found: Found) -> str:
    """The name of the scaling, one of those of `Rotary` or TELECHAT."""
    rope, where, family = found.rope, found.rope_where, found.family
    names = [rope[key] for key in ("rope_type", "type") if rope.get(key) is not None]
    known = [family.aliases.get(str(name), RENAMED.get(str(name), name)) for name in names]
    if len(set(map(str, known))) > 1:
        raise ValueError(f"{where} has rope_type={names[0]!r} and type={names[1]!r}; leave one out")
    name = known[0] if known else "default"
    if name in NO_ROTATIONS:
        raise ValueError(f"{where}['rope_type']={name!r} is none that a Rotary could have: {NO_ROTATIONS[name]}")
    if name not in _rope.SCALINGS and name != TELECHAT:
        raise ValueError(
            f"{where}['rope_type']={name!r} is not known; there are {', '.join(_rope.SCALINGS)}, {TELECHAT}"
        )
    axial = family.sections is not None and family.sections.rule.startswith("axial")
    if name == "axial" and not axial and family is not UNKNOWN:
        raise ValueError(f"{where}['rope_type']='axial' is for towers of images; {found.model} does not take it")
    if name not in ("default", "axial") and (axial or not family.scalable):
        raise ValueError(f"{where}['rope_type']={name!r} is not taken by {found.model}, which is never scaled")
    return "default" if axial else str(name)


def _check_keys(found: Found, name: str, parameters: dict[str, Any]) -> None:
    """An error for a rotary parameter that nothing reads."""
    family, rope = found.family, found.rope
    read = {*COMMON, *family.also, *parameters, *(SECTIONED if family.sections is not None else ())}
    unknown = [key for key in rope if rope[key] is not None and key not in read]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), parameters, 1)
        advice = f"is {near[0]} meant?" if near else f"it takes {', '.join(parameters) or 'none'}; leave it out"
        raise ValueError(
            f"{found.rope_where}[{unknown[0]!r}]={rope[unknown[0]]!r} is nothing that rope_type {name!r} takes; {advice}"
        )


def _set_original(found: Found, scaling: dict[str, Any]) -> None:
    """The length before stretching: the config's own wins over that of its rotary parameters, unless these are nested."""
    key, name = "original_max_position_embeddings", scaling["rope_type"]
    own = found.config.get(key) if found.group is None else None
    if own is not None:
        scaling[key] = own
    elif key not in scaling:
        why = f"rope_type {name!r} needs where no original length is given"
        scaling[key] = found.needed("max_position_embeddings", why)


def _set_yarn(found: Found, scaling: dict[str, Any]) -> None:
    where, rope = found.rope_where, found.rope
    if "factor" not in scaling:
        if "factor" not in rope:
            raise ValueError(f"{where} lacks 'factor', which rope_type 'yarn' needs")
        length = found.needed("max_position_embeddings", "a factor of null needs")
        length = real(length, found.key("max_position_embeddings"), positive=True)
        original = scaling["original_max_position_embeddings"]
        scaling["factor"] = length / real(original, "original_max_position_embeddings", positive=True)
    one, other = rope.get("mscale"), rope.get("mscale_all_dim")
    if bool(one) != bool(other) and (one or other) != 1 and "attention_factor" not in scaling:
        key = "mscale" if one else "mscale_all_dim"
        raise ValueError(
            f"{where}[{key!r}]={rope[key]!r} without the other of mscale and mscale_all_dim is read differently by "
            "packages; give both, or attention_factor"
        )
    # zero is as good as none
    for key in ("mscale", "mscale_all_dim"):
        if not rope.get(key):
            scaling.pop(key, None)
