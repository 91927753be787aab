"""How wide heads are, how many of their values turn, and the base of their frequencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..._numbers.arguments import count_of, real
from .found import Found, check_same, is_list
from .models import BASE_KEYS, BY_HEAD_DIM, DIVIDING, FACTORS, HEADS, INNER_BASE, NEEDS_PARAMETERS, usual_base

__all__ = ["base_of", "factor_of", "turned", "usual_factor", "width"]

# wider heads than any model has, whose frequencies still fit into memory
MOST_VALUES = 2**20


def width(found: Found) -> int:
    """The number of values that turn, or of which a part turns."""
    head, given = _width(found), found.config.get("head_dim")
    if head > MOST_VALUES:
        raise ValueError(
            f"{found.where} has heads of {head} values, from {_sizes(found)}; at most {MOST_VALUES} can turn"
        )
    read = {"head_dim", "qk_rope_head_dim"} & set(found.family.width) or found.model in BY_HEAD_DIM
    if not read and given is not None and given != head:
        raise ValueError(
            f"{found.key('head_dim')}={given!r} is not read by {found.model}, whose heads have {head} values; leave it out"
        )
    return head


def _sizes(found: Found) -> str:
    """What the width is made of, for an error."""
    keys = (*found.family.width, *(found.family.per_head or ()))
    return ", ".join(f"{key}={found.get(key)!r}" for key in keys if found.get(key) is not None)


def _width(found: Found) -> int:
    family, group = found.family, found.group
    own = None if group is None or group.head is None else group.head(found.config)
    if own is not None:
        return count_of(own, f"the width of heads in {found.where}", 2)
    for key in family.width:
        value = found.get(key)
        if value is not None:
            return count_of(value, found.key(key), 2)
    if "head_dim" in family.width and found.model in HEADS:
        if "head_dim" not in found.config:
            return HEADS[found.model]
        if found.model not in DIVIDING:
            raise ValueError(
                f"{found.key('head_dim')}=None is no width; give a number, or leave it out for the {HEADS[found.model]} of "
                f"{found.model}'s class"
            )
    if family.per_head is None:
        return count_of(found.needed(family.width[0], f"has the width that a {found.model} turns"), "", 2)
    of, heads = family.per_head
    why = f"tells how wide heads are ({' or '.join([*family.width, f'{of} // {heads}'])})"
    whole, count = found.needed(of, why), found.needed(heads, why)
    return count_of(whole, found.key(of), 1) // count_of(count, found.key(heads), 1)


def factor_of(found: Found) -> float | None:
    """The part of a width that turns, where the config says so."""
    keys = dict.fromkeys((*found.family.factor_keys, "partial_rotary_factor"))
    read = [key for key in keys if key != "partial_rotary_factor" or found.family.outer_factor]
    value, where = _one_of(found, "partial_rotary_factor", read, "parts of one width")
    if is_list(value):
        value = found.of_layer(value, where)
    return None if value is None else real(value, where, positive=True)


def _one_of(found: Found, inner: str, keys: Iterable[str], words: str) -> tuple[Any, str]:
    """The value of a rotary parameter, or else of one of the keys outside of these, and where it is."""
    places = [(f"{found.rope_where}[{inner!r}]", found.rope.get(inner))]
    places += [(found.key(key), found.config.get(key)) for key in keys]
    given = [(where, value) for where, value in places if value is not None]
    # lists have a value for each layer
    check_same([one for one in given if not is_list(one[1])], words)
    return (given[0][1], given[0][0]) if given else (None, places[-1][0])


def usual_factor(found: Found) -> float | None:
    """The part that turns where a config says nothing; None where the class reads none."""
    group = found.group
    return FACTORS.get(found.model, found.family.factor) if group is None or group.factor is None else group.factor


def turned(found: Found, head: int) -> int:
    """How many values of heads of a width turn."""
    family, given = found.family, factor_of(found)
    proportional = "proportional" in (found.rope.get("rope_type"), found.rope.get("type"))
    _check_head_dim(found, head, 1.0 if given is None or proportional else given)
    if proportional:
        if family.factor is not None:
            _check_usual(found, given)
        # a class with groups of layers has a head_dim where a config has none
        whole = found.config.get("head_dim", "the class's" if found.group is not None else head)
        if whole != head and "qk_rope_head_dim" in family.width:
            raise ValueError(
                f"{found.rope_where}['rope_type']='proportional' is for all of head_dim={whole!r}, of which {found.model} "
                f"turns {head} values"
            )
        dim = head
    elif family.rotary_dim is not None:
        dim = family.rotary_dim(lambda key: count_of(found.needed(key), found.key(key), 1), head)
    elif family.factor is None:
        dim = _whole(found, head, given)
    else:
        dim = _part(found, head, given)
    _check_others(found, head, dim)
    if dim % 2:
        raise ValueError(
            f"{found.where} turns {dim} of {head} values, an odd number, of which packages make different things; give "
            f"Rotary({head}, rotary_dim={dim - 1}, ..) or frequencies"
        )
    if not 2 <= dim <= head:
        by = "" if given is None else f" by partial_rotary_factor={given}"
        raise ValueError(
            f"{found.where} has heads of {head} values, of which {dim} would turn{by}; 2 to {head} can, so give a "
            f"config with other widths, or Rotary(head_dim, rotary_dim=..)"
        )
    return dim


def _check_others(found: Found, head: int, dim: int) -> None:
    """An error for another number of values, or part of them, that the model does not read."""
    if found.config.get("rope_rotate_half_dims") and found.family.parameters is None and 2 * dim != head:
        raise ValueError(
            f"{found.key('rope_rotate_half_dims')} is not read by {found.model}, which turns {dim} of {head} values; "
            f"leave it out, or give Rotary({head}, rotary_dim=..) if the model was made for it"
        )
    for key, whole in (("rotary_dim", 1), ("rope_dim", 1), ("rotary_pct", head), ("rotary_emb_fraction", head)):
        value = found.config.get(key)
        if value is None or key in (*found.family.dims, *found.family.factor_keys):
            continue
        if real(value, found.key(key)) * whole != dim:
            raise ValueError(
                f"{found.key(key)}={value!r} is not read by {found.model}, which turns {dim} of {head} values; leave it "
                f"out, or give Rotary({head}, rotary_dim=..) if the model was made for it"
            )


def _whole(found: Found, head: int, given: float | None) -> int:
    """All, where a class reads no factor."""
    latent, whole = "qk_rope_head_dim" in found.family.width, found.config.get("head_dim")
    if given is None or given == found.family.only:
        return head
    if latent:
        if given == 1 or (given < 1 and type(whole) is int and int(whole * given) == head):
            return head
        raise ValueError(
            f"{found.where} has partial_rotary_factor={given} and qk_rope_head_dim={head}, of which it would be a part "
            "once more; leave the factor out"
        )
    raise ValueError(
        f"{found.where} has partial_rotary_factor={given}, which {found.model} does not read; leave it out, or give "
        f"Rotary({head}, rotary_dim=..) if the model was made for it"
    )


def _check_head_dim(found: Found, head: int, part: float) -> None:
    """An error where a class that has frequencies for head_dim has others than for the width of what turns."""
    usual = BY_HEAD_DIM.get(found.model)
    if usual is None or ("head_dim" not in found.config and not usual):
        return
    whole = count_of(found.config.get("head_dim", usual), found.key("head_dim"), 1)
    if whole > MOST_VALUES or int(min(whole * part, MOST_VALUES)) != head:
        said = whole if "head_dim" in found.config else f"{whole}, from its class"
        raise ValueError(
            f"{found.where} has head_dim={said}, of which {found.model} turns {part:g}, and "
            f"{found.family.width[0]}={head}; give those that agree"
        )


def _check_usual(found: Found, given: float | None) -> None:
    """An error where it depends on what else a config has whether the class reads a part of the width, or its own."""
    family, group, model = found.family, found.group, found.model
    outer, missing = found.config.get("partial_rotary_factor"), found.rope.get("partial_rotary_factor") is None
    usual = usual_factor(found)
    # parameters of one kind of layers have its name behind theirs
    nested = group is not None and not found.rope_where.endswith(("['rope_parameters']", "['rope_scaling']"))
    ignored = not family.outer_factor or (group is not None and not nested and not family.preset)
    own = usual if family.outer_factor or given is None else given
    if outer is not None and missing and ignored and outer != own:
        raise ValueError(
            f"{found.key('partial_rotary_factor')}={outer!r} is not read by {model} there; put it into its rotary "
            "parameters, or leave it out"
        )
    if given is None and usual != 1 and (model in NEEDS_PARAMETERS or nested):
        raise ValueError(
            f"{found.rope_where} lacks 'partial_rotary_factor', without which {model} turns other parts than {usual} by "
            "rope_type; add it"
        )


def _part(found: Found, head: int, given: float | None) -> int:
    _check_usual(found, given)
    family, group = found.family, found.group
    usual = group.factor if group is not None and group.always else FACTORS.get(found.model, family.factor)
    part = usual if given is None else given
    assert part is not None
    if part > 1:
        raise ValueError(
            f"{found.where} has partial_rotary_factor={part}, which must be at most 1; leave it out, or give rotary_dim"
        )
    dim = int(head * part)
    for key in family.dims:
        value = found.config.get(key, family.usual_dim)
        if value is None and family.usual_dim is not None:
            raise ValueError(f"{found.key(key)}=None makes tables as wide as {found.model} itself, which do not fit")
        counted = dim if value is None else count_of(value, found.key(key), 2)
        if counted != dim and (given is not None or not family.dims_read):
            raise ValueError(
                f"{found.key(key)}={counted} and partial_rotary_factor={part}, which makes {dim} of {head}, do not "
                "agree; leave one out"
            )
        dim = counted
    return dim


# ---- bases -----------------------------------------------------------------------------------------------------------


def base_of(found: Found) -> float:
    base = _base_of(found)
    _check_bases(found, base)
    return base


def _base_of(found: Found) -> float:
    family, group = found.family, found.group
    keys = () if family.parameters is not None else family.base_keys if group is None else group.base_keys
    if found.model in INNER_BASE and found.rope.get("rope_theta") is not None:
        keys = ()
    value, where = _one_of(found, "rope_theta", keys, "bases")
    of_layers = found.config.get(family.layer_bases) if family.layer_bases else None
    if of_layers is not None:
        value, where = of_layers, found.key(family.layer_bases)
    if is_list(value):
        value = found.of_layer(value, where)
    inner = found.config.get("attn_config")
    stored = inner.get("rope_theta") if isinstance(inner, Mapping) else None
    if value is None and stored is not None:
        value, where = stored, f"{found.key('attn_config')}['rope_theta']"
    if value is None:
        _check_null(found)
        if found.model in NEEDS_PARAMETERS:
            raise ValueError(
                f"{found.rope_where} lacks 'rope_theta', without which {found.model} has another base than where it has "
                "no parameters at all; add it"
            )
        return usual_base(found.model) if group is None else group.base
    if stored is not None and stored != value:
        raise ValueError(
            f"{found.key('attn_config')}['rope_theta']={stored!r} and {where}={value!r} are two bases; transformers "
            "reads the second, the model's own code the first; leave one out"
        )
    return real(value, where, positive=True)


def _outer_base(found: Found) -> float:
    given = (found.config.get(key) for key in found.family.base_keys)
    base: float = next((value for value in given if value is not None), usual_base(found.model))
    return base


def _check_null(found: Found) -> None:
    """An error for a base that is null, of which packages make an error, too, or no rotary encoding."""
    for config, where in ((found.rope, found.rope_where), (found.config, found.where)):
        if "rope_theta" in config and found.family.parameters is None:
            raise ValueError(
                f"{where}['rope_theta']=None is no base; give a number, or leave it out for that of {found.model}'s class"
            )


def _check_bases(found: Found, base: float) -> None:
    """An error for a base that the model does not read, unless it is that which it reads."""
    family = found.family
    inner, read_here = found.rope.get("rope_theta"), family.inner_base and (family.base_keys or family.groups)
    if inner is not None and not read_here and inner != _outer_base(found):
        raise ValueError(
            f"{found.rope_where}['rope_theta']={inner!r} is a base that {found.model} does not read; leave it out"
        )
    read = {*family.base_keys, family.layer_bases, *(rule.key for rule in family.without)}
    read |= {key for one in family.groups.values() for key in one.base_keys}
    for key in BASE_KEYS:
        value = found.config.get(key)
        if value is None or key in read or value == base or (key == "rope_theta" and family.groups):
            continue
        raise ValueError(f"{found.key(key)}={value!r} is a base that {found.model} does not read; leave it out")
