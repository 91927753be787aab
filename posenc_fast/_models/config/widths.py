"""Read head width, number of rotated values and base from a config.

"The class" means the class of the model in its source code, such as transformers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..._core.numbers.arguments import count_of, real, shown
from ..._core.rotary.pairs import MOST_VALUES
from .part import Part, Undecided, check_same, is_list
from .rules import HEADS, ROTARY_DIMS, WITHOUT
from .table import names


def width(part: Part) -> int:
    """Return the head width."""
    head, head_dim = _width_in_config(part), part.config.get("head_dim")
    if head > MOST_VALUES:
        raise ValueError(
            f"{part.where} has heads of {shown(head)} values, but at most {MOST_VALUES} values can rotate; correct the "
            f"head width ({_keys_of_width(part)})"
        )
    if head < 2:
        raise ValueError(
            f"{part.where} has heads of {head} values, but a head must have at least 2; correct the head width "
            f"({_keys_of_width(part)})"
        )
    row = part.row
    # Whether the class reads head_dim, as the head width or in addition to it. If the row has a whole_head,
    # `_check_head_dim` compares head_dim with the head width.
    uses_head_dim = "head_dim" in row.width or "qk_rope_head_dim" in row.width or row.whole_head is not None
    if head_dim not in (None, head) and not uses_head_dim:
        raise ValueError(
            f"{part.key('head_dim')}={head_dim!r} is not read by {part.model}, whose heads have {head} values; "
            "remove head_dim from the config"
        )
    return head


def _keys_of_width(part: Part) -> str:
    """Return the config keys that may determine the head width, as text for an error."""
    row = part.row
    return ", ".join(row.keys if _has_own_heads(part) else (*row.width, *(row.per_head or ())))


def _has_own_heads(part: Part) -> bool:
    """Return whether a function in `HEADS` computes the head width of the requested layers."""
    return part.group is not None and bool(part.group.head) and "per_layer_config" not in part.config


def _width_in_config(part: Part) -> int:
    """Return the head width that the keys of a part determine. The caller checks its limits.

    It is the first of these that exists: the result of a function in `HEADS`, the value of a key in `Row.width`, the
    default of the class, the width of all heads divided by their number.
    """
    row, group = part.row, part.group
    if group is not None and _has_own_heads(part):
        return count_of(HEADS[group.head](part.config), f"the width of heads in {part.where}", 2)
    for key in row.width:
        value = part.get(key)
        if value is not None:
            return count_of(value, part.key(key), 2)
    if "head_dim" in row.width and row.head is not None:
        if "head_dim" not in part.config:
            return row.head
        if not row.divides:
            raise ValueError(
                f"{part.key('head_dim')}=None is not a width; give a number, or remove head_dim from the config to use "
                f"the default {row.head} of {part.model}"
            )
    if row.per_head is None:
        return count_of(part.needed(row.width[0], f"is the number of values that {part.model} rotates"), "", 2)
    total_key, heads_key = row.per_head
    why = f"determines the head width ({' or '.join([*row.width, f'{total_key} // {heads_key}'])})"
    total, heads = part.needed(total_key, why), part.needed(heads_key, why)
    return count_of(total, part.key(total_key), 1) // count_of(heads, part.key(heads_key), 1)


def factor_of(part: Part) -> float | None:
    """Return the rotated fraction of the head width, or None if the config does not contain a fraction."""
    keys = dict.fromkeys((*part.row.factor_keys, "partial_rotary_factor"))
    outer_keys = [key for key in keys if key != "partial_rotary_factor" or part.row.outer_factor]
    value, where = _first_present(part, "partial_rotary_factor", outer_keys, "rotated fractions of the head")
    if is_list(value) and _reads_lists(part):
        value = part.of_layer(value, where)
    return None if value is None else real(value, where, positive=True)


def _reads_lists(part: Part) -> bool:
    """Return whether the class reads lists with one value per layer."""
    return "partial_rotary_factors" in part.row.factor_keys


def _first_present(part: Part, inner: str, outer_keys: Iterable[str], words: str) -> tuple[Any, str]:
    """Return (value, place in the config) of the rotary parameter ``inner`` or, if it is missing, of an outer key.

    outer_keys: keys outside of the rotary parameters, which have the same meaning as ``inner``.
    words: name of the values in the error for two different values, in the plural.
    """
    places = [(f"{part.rope_where}[{inner!r}]", part.rope.get(inner))]
    places += [(part.key(key), part.config.get(key)) for key in outer_keys]
    present = [(where, value) for where, value in places if value is not None]
    # lists are not compared: they have one value per layer
    check_same([(where, value) for where, value in present if not is_list(value)], words)
    where, value = present[0] if present else places[-1]
    return value, where


def default_factor(part: Part) -> float | None:
    """Return the default rotated fraction, or None if the class reads no fraction."""
    group = part.group
    return part.row.factor if group is None or group.factor is None else group.factor


def rotated_dim(part: Part, head: int, factor: float | None) -> int:
    """Return the number of rotated values per head. factor: rotated fraction in the config, or None."""
    row = part.row
    proportional = "proportional" in (part.rope.get("rope_type"), part.rope.get("type"))
    _check_head_dim(part, head, 1.0 if factor is None or proportional else factor)
    if proportional:
        if row.factor is not None:
            _check_default(part, factor)
        # If head_dim is missing, a class with groups of layers uses its own default head_dim, which is unknown here.
        # Then `whole` is a text, which differs from every head width, and which the error below shows.
        whole = part.config.get("head_dim", "the default of the class" if part.group is not None else head)
        if whole != head and "qk_rope_head_dim" in row.width:
            raise ValueError(
                f"{part.rope_where}['rope_type']='proportional' applies to whole heads (head_dim: {whole}), but "
                f"{part.model} rotates only {head} values of a head; correct head_dim or rope_type in the config"
            )
        dim = head
    elif row.rotary_dim:
        dim = ROTARY_DIMS[row.rotary_dim](lambda key: count_of(part.needed(key), part.key(key), 1), head)
    elif row.factor is None:
        _check_unread_factor(part, head, factor)
        dim = head
    else:
        dim = _partial_dim(part, head, factor, row.factor)
    _check_unread_dims(part, head, dim)
    if not 2 <= dim <= head:
        by = "" if factor is None else f" (the fraction {factor:g})"
        raise ValueError(
            f"{part.where} has heads of {head} values, of which {dim} would rotate{by}; the number of rotated values "
            f"must be from 2 to {head}. Correct the widths in the config, or call Rotary(head_dim, rotary_dim=..)"
        )
    if dim % 2:
        raise ValueError(
            f"{part.where} rotates {dim} of {head} values, an odd number, which programs treat in different "
            "ways; call "
            f"Rotary({head}, rotary_dim={dim - 1}, ..) instead of from_config"
        )
    return dim


def _check_unread_dims(part: Part, head: int, dim: int) -> None:
    """Raise an error for keys that the model does not read and that contradict the number of rotated values."""
    if part.config.get("rope_rotate_half_dims") and not part.row.parameters and 2 * dim != head:
        raise ValueError(
            f"{part.key('rope_rotate_half_dims')} is not read by {part.model}, which rotates {dim} of {head} values; "
            f"remove this key from the config, or call Rotary({head}, rotary_dim=..) if the model was trained with "
            "this key"
        )
    # the first two keys contain a number of values, and the last two a fraction of the head
    for key, unit in (("rotary_dim", 1), ("rope_dim", 1), ("rotary_pct", head), ("rotary_emb_fraction", head)):
        value = part.config.get(key)
        if value is None or key in (*part.row.dim_keys, *part.row.factor_keys):
            continue
        if real(value, part.key(key)) * unit != dim:
            raise ValueError(
                f"{part.key(key)}={value!r} is not read by {part.model}, which rotates {dim} of {head} values; remove "
                f"{key} from the config, or call Rotary({head}, rotary_dim=..) if the model was trained with {key}"
            )


def _check_unread_factor(part: Part, head: int, factor: float | None) -> None:
    """Raise an error for a rotated fraction that the class does not read, unless it agrees with the rotated values."""
    if factor is None or factor == part.row.only_factor:
        return
    if "qk_rope_head_dim" in part.row.width:
        head_dim = part.config.get("head_dim")
        if factor == 1 or (factor < 1 and type(head_dim) is int and int(head_dim * factor) == head):
            return
        raise ValueError(
            f"{part.where} has partial_rotary_factor={factor} and qk_rope_head_dim={head}, which is already the "
            "number of rotated values; remove partial_rotary_factor from the config"
        )
    raise ValueError(
        f"{part.where} has partial_rotary_factor={factor}, which {part.model} does not read; remove this key from the "
        f"config, or call Rotary({head}, rotary_dim=..) if the model was trained with this key"
    )


def _check_head_dim(part: Part, head: int, factor: float) -> None:
    """Raise an error if the class computes frequencies from head_dim, and head_dim * factor is not the head width."""
    default = part.row.whole_head
    if default is None or ("head_dim" not in part.config and not default):
        return
    head_dim = count_of(part.config.get("head_dim", default), part.key("head_dim"), 1)
    if head_dim > MOST_VALUES or int(min(head_dim * factor, MOST_VALUES)) != head:
        origin = "" if "head_dim" in part.config else " (the default of the class)"
        raise ValueError(
            f"{part.where} has head_dim={head_dim}{origin} and {part.row.width[0]}={head}; in {part.model}, head_dim "
            f"times the rotated fraction ({factor:g}) must equal {part.row.width[0]}. Correct one of the two keys"
        )


def _check_default(part: Part, factor: float | None) -> None:
    """Raise an error if the class ignores a top-level partial_rotary_factor, or if this key is missing but needed.

    An ignored value that equals the value in use is allowed. The key is needed if its default is not 1, and the class
    may not use the default.
    """
    row, group, model = part.row, part.group, part.model
    outer, inner = part.config.get("partial_rotary_factor"), part.rope.get("partial_rotary_factor")
    default = default_factor(part)
    # the rotary parameters are nested if `rope_where` ends with the name of a kind of layers
    nested = group is not None and not part.rope_where.endswith(("['rope_parameters']", "['rope_scaling']"))
    ignored = not row.outer_factor or (group is not None and not nested and not row.preset)
    in_use = default if row.outer_factor or factor is None else factor
    if outer is not None and inner is None and ignored and outer != in_use:
        raise ValueError(
            f"{part.key('partial_rotary_factor')}={outer!r} at the top level is not read by {model}; move "
            f"partial_rotary_factor into {part.rope_where}, or remove it from the config"
        )
    if factor is None and default != 1 and (row.needs_parameters or nested):
        raise Undecided(
            f"{part.rope_where} lacks 'partial_rotary_factor', whose default in {model} is ambiguous; add "
            f"partial_rotary_factor to {part.rope_where}"
        )


def _partial_dim(part: Part, head: int, config_factor: float | None, row_factor: float) -> int:
    """Return the number of rotated values, from the fraction or from the keys in `Row.dim_keys`."""
    _check_default(part, config_factor)
    row, group = part.row, part.group
    if config_factor is not None:
        factor = config_factor
    elif group is not None and group.always_factor and group.factor is not None:
        factor = group.factor
    else:
        factor = row_factor
    if factor > 1:
        raise ValueError(
            f"{part.where} rotates the fraction {factor:g} of a head, but the fraction must be at most 1; correct "
            f"{' or '.join(row.factor_keys) or 'partial_rotary_factor'} in the config"
        )
    dim = int(head * factor)
    for key in row.dim_keys:
        value = part.config.get(key, row.default_dim)
        if value is None and row.default_dim is not None:
            raise ValueError(
                f"{part.key(key)}=None makes the tables of cosines and sines wider than the heads of {part.model}; set "
                "this key to a number"
            )
        count = dim if value is None else count_of(value, part.key(key), 2)
        if count != dim and (config_factor is not None or not row.reads_dim_keys):
            raise ValueError(
                f"{part.key(key)}={count} contradicts the rotated fraction {factor:g}, with which {dim} of {head} "
                f"values rotate; correct the fraction, or remove {key} from the config"
            )
        dim = count
    return dim


# ---- bases -----------------------------------------------------------------------------------------------------------


def base_of(part: Part) -> float:
    """Return the base of the frequencies."""
    base = _base_of(part)
    _check_bases(part, base)
    return base


def _base_of(part: Part) -> float:
    row, group = part.row, part.group
    keys = row.base_keys if group is None else group.base_keys
    if row.parameters or (row.prefers_inner_base and part.rope.get("rope_theta") is not None):
        keys = ()
    value, where = _first_present(part, "rope_theta", keys, "bases")
    of_layers = part.config.get(row.layer_bases) if row.layer_bases else None
    if of_layers is not None:
        value, where = of_layers, part.key(row.layer_bases)
    if is_list(value) and (of_layers is not None or _reads_lists(part)):
        value = part.of_layer(value, where)
    attn_config = part.config.get("attn_config")
    attn_base = attn_config.get("rope_theta") if isinstance(attn_config, Mapping) else None
    if value is None and attn_base is not None:
        value, where = attn_base, f"{part.key('attn_config')}['rope_theta']"
    if value is None:
        _check_null(part)
        if row.needs_parameters:
            raise Undecided(
                f"{part.rope_where} lacks 'rope_theta', and posenc_fast does not know the default of {part.model} for "
                f"configs with rotary parameters; add rope_theta to {part.rope_where}"
            )
        if row.needs_base:
            raise Undecided(
                f"{part.where} lacks 'rope_theta', and programs have different defaults for {part.model}; add "
                "rope_theta to the config"
            )
        return row.base if group is None else group.base
    if attn_base is not None and attn_base != value:
        raise ValueError(
            f"{part.key('attn_config')}['rope_theta']={attn_base!r} and {where}={value!r} are two different bases; "
            "leave one out of the config"
        )
    return real(value, where, positive=True)


def _outer_base(part: Part) -> float:
    """Return the top-level base, or the default of the class."""
    bases = (part.config.get(key) for key in part.row.base_keys)
    base: float = next((value for value in bases if value is not None), part.row.base)
    return base


def _check_null(part: Part) -> None:
    """Raise an error for a rope_theta of null, for which other programs raise an error or do not rotate."""
    for config, where in ((part.rope, part.rope_where), (part.config, part.where)):
        if "rope_theta" in config and config["rope_theta"] is None and not part.row.parameters:
            raise ValueError(f"{where}['rope_theta']=None is not a base; set rope_theta to a number")


def _check_bases(part: Part, base: float) -> None:
    """Raise an error for a base that the model does not read, unless the model's base has the same value."""
    row = part.row
    inner, reads_inner = part.rope.get("rope_theta"), row.inner_base and bool(row.base_keys or row.groups)
    if inner is not None and not reads_inner and inner != _outer_base(part):
        raise ValueError(
            f"{part.rope_where}['rope_theta']={inner!r} is not read by {part.model}; remove it from the config"
        )
    read_keys = {*row.base_keys, row.layer_bases, *(key for name in row.without for key in WITHOUT[name].keys)}
    read_keys |= {key for group in row.groups.values() for key in group.base_keys}
    for key in names("bases"):
        value = part.config.get(key)
        if value is None or key in read_keys or value == base or (key == "rope_theta" and row.groups):
            continue
        raise ValueError(
            f"{part.key(key)}={value!r} is a base that {part.model} does not read; remove {key} from the config"
        )
