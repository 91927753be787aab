"""How a config has frequencies stretched: rope_type and its parameters, as `Rotary` takes them."""

from __future__ import annotations

import difflib
from typing import Any

from ..._numbers.arguments import real
from ..._numbers.exact import log
from .. import scaling as _rope
from .families import UNKNOWN
from .found import Found, check_same
from .models import NO_ROTATIONS, ORIGINAL_LENGTHS
from .widths import usual_factor

__all__ = ["rope_type", "scaling_of"]

# rotary parameters that are of no scaling: those of all models, and those of models whose pairs read several axes
COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
SECTIONED = ("mrope_section", "mrope_interleaved")
# one name for what was renamed; both may stand beside one another
RENAMED = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}
TELECHAT = "telechat3-yarn"
# of which the second is the larger
ORDERED = (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast"))
# what files have beside alpha, which decides alone
BESIDE_ALPHA = ("factor", "max_position_embeddings", "original_max_position_embeddings", "beta_fast", "beta_slow",
                "mscale", "mscale_all_dim")  # fmt: skip


def scaling_of(found: Found, factor: float | None, seq_len: Any) -> dict[str, Any]:
    """rope_type and its parameters; factor: the part of the width that turns."""
    rope, name = found.rope, rope_type(found)
    if seq_len is not None:
        seq_len = real(seq_len, "seq_len", positive=True)
    if name == "dynamic" and "alpha" in found.family.also and rope.get("alpha"):
        _check_keys(found, name, dict.fromkeys(BESIDE_ALPHA))
        return {"rope_type": "ntk", "alpha": rope["alpha"]}
    if name == "ntk" and rope.get("factor") is not None:
        # vLLM's, which has two formulas
        name, rope = (
            ("ntk_fixed", rope) if rope.get("mixed_b") is None else ("ntk_mixed", {**rope, "b": rope["mixed_b"]})
        )
        rope.pop("mixed_b", None)
        found = found._replace(rope=rope)
    scaled_as = "yarn" if name == TELECHAT else name
    if rope.get("alpha") and "alpha" in found.family.also and name != "ntk":
        raise ValueError(
            f"{found.rope_where}['alpha']={rope['alpha']!r} is not read with rope_type {name!r}, but with 'dynamic'; "
            "give that, or leave alpha out"
        )
    parameters = _rope.SCALINGS[scaled_as].parameters
    _check_keys(found, name, parameters)
    scaling = {"rope_type": scaled_as} | {key: rope[key] for key in parameters if rope.get(key) is not None}
    if "original_max_position_embeddings" in parameters:
        _set_original(found, scaling)
    if scaled_as == "yarn":
        _set_yarn(found, scaling)
    if name == TELECHAT and "attention_factor" not in scaling:
        stretched = real(scaling["factor"], f"{found.rope_where}['factor']", positive=True)
        scaling["attention_factor"] = 1.0 if stretched <= 1 else 0.07 * float(log(stretched)) + 1.0
    if name == "proportional":
        usual = usual_factor(found) if found.group is None or found.group.always else None
        scaling["partial_rotary_factor"] = _checked_part(found, factor or usual or 1.0)
    ratio = scaled_as == "longrope" and not {"factor", "attention_factor"} & set(scaling)
    if scaled_as == "dynamic" or ratio:
        scaling["max_position_embeddings"] = found.needed("max_position_embeddings", f"rope_type {name!r} needs")
    for least, most in ORDERED:
        if least in parameters:
            _check_order(found, scaling, parameters, least, most)
    if "seq_len" in parameters:
        if seq_len is None:
            key = _length_of_training(scaled_as)
            usual = real(scaling[key], f"{found.where}: {key}", positive=True)
            raise ValueError(
                f"{found.rope_where}['rope_type']={name!r} has other frequencies for longer sequences; give seq_len=, "
                f"the length of yours ({usual:g} for those that are no longer)"
            )
        scaling["seq_len"] = seq_len
    return scaling


def _length_of_training(name: str) -> str:
    """The key of the length up to which frequencies are those of the training."""
    return "max_position_embeddings" if name == "dynamic" else "original_max_position_embeddings"


def rope_type(found: Found) -> str:
    """The name of the scaling, one of those of `Rotary` or TELECHAT."""
    rope, where, family = found.rope, found.rope_where, found.family
    names = [rope[key] for key in ("rope_type", "type") if rope.get(key) is not None]
    for given in names:
        if not isinstance(given, str):
            raise TypeError(f"{where}['rope_type'] must be a string, not {given!r}")
    known = [family.aliases.get(name, RENAMED.get(name, name)) for name in names]
    if len(set(known)) > 1:
        raise ValueError(f"{where} has rope_type={names[0]!r} and type={names[1]!r}; leave one out")
    name = known[0] if known else "default"
    if name in NO_ROTATIONS:
        raise ValueError(f"{where}['rope_type']={name!r} is no single Rotary: {NO_ROTATIONS[name]}")
    if name not in _rope.SCALINGS and name != TELECHAT:
        raise ValueError(
            f"{where}['rope_type']={name!r} is not known; there are {', '.join(_rope.SCALINGS)}, {TELECHAT}"
        )
    axial = family.sections is not None and family.sections.rule.startswith("axial")
    if name == "axial" and not axial and family is not UNKNOWN:
        raise ValueError(f"{where}['rope_type']='axial' is for towers of images; {found.model} does not take it")
    if name not in ("default", "axial") and (axial or not family.scalable):
        raise ValueError(f"{where}['rope_type']={name!r} is not taken by {found.model}, which is never scaled")
    return "default" if axial else name


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
    """The length before stretching: of the config, or of its rotary parameters, if these are nested or it has none."""
    key, name = "original_max_position_embeddings", scaling["rope_type"]
    own = found.config.get(key) if found.group is None else None
    if own is not None:
        inner = [(f"{found.rope_where}[{key!r}]", scaling[key])] if key in scaling else []
        check_same([(found.key(key), own), *inner], "lengths before stretching")
        scaling[key] = real(own, found.key(key), positive=True)
    elif found.model in ORIGINAL_LENGTHS:
        scaling[key] = ORIGINAL_LENGTHS[found.model]
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
    # with mscale alone all agree if it is 1, with mscale_all_dim alone never
    if bool(one) != bool(other) and one != 1 and "attention_factor" not in scaling:
        key = "mscale" if one else "mscale_all_dim"
        raise ValueError(
            f"{where}[{key!r}]={rope[key]!r} without the other of mscale and mscale_all_dim is read differently by "
            "packages; give both, or attention_factor"
        )
    # zero is as good as none
    for key in ("mscale", "mscale_all_dim"):
        if not rope.get(key):
            scaling.pop(key, None)


def _checked_part(found: Found, factor: float) -> float:
    if factor > 1:
        raise ValueError(
            f"{found.where} has partial_rotary_factor={factor}, which must be at most 1 with rope_type 'proportional'"
        )
    return factor


def _check_order(found: Found, scaling: dict[str, Any], parameters: dict[str, Any], least: str, most: str) -> None:
    """An error for two numbers between which frequencies change over, in the wrong order."""
    low, high = (scaling.get(key, parameters[key]) for key in (least, most))
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return
    # frequencies of llama3 are divided by the difference
    if low > high or (low == high and scaling["rope_type"] == "llama3"):
        where = found.rope_where
        raise ValueError(f"{where}[{least!r}]={low!r} must be less than {where}[{most!r}]={high!r}; exchange them")
