"""Frequencies that are no geometric progression from 1, of the families that have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._numbers.arguments import count_of, real
from ..._numbers.schedule import geometric
from .. import scaling as _rope
from .found import Found

__all__ = ["SPECTRA"]

Arguments = dict[str, Any]


def _stretched(pairs: int, base: float, scaling: dict[str, Any]) -> _rope.Frequencies:
    name, parameters = _rope.checked_scaling(scaling, pairs)
    return _rope.frequencies_of(2 * pairs, base, name, parameters)


def _backwards(found: Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    if scaling["rope_type"] == "default":
        return {"frequencies": geometric(pairs, base=base, first=-1.0)}
    values, factor = _stretched(pairs, base, scaling)
    return {"frequencies": -np.asarray(values), "attention_factor": factor}


def _pixtral(found: Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    unscaled = geometric(pairs, base=base)
    return {"frequencies": [unscaled[0::2], unscaled[1::2]]}


def _dinov3(found: Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    return {"frequencies": [geometric(pairs // 2, base=base, first=2 * math.pi)] * 2}


def _atoms(found: Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    """Three coordinates with frequencies alike, what an atom belongs to, and pairs that stay."""
    keys = ("num_spatial_rope_pairs_per_axis", "num_uid_rope_pairs")
    space, names = (count_of(found.needed(key), found.key(key), 0) for key in keys)
    near, far = (
        real(found.needed(key), found.key(key), positive=True)
        for key in ("spatial_rope_base_frequency", "uid_rope_base_frequency")
    )
    counts = [space, space, space, names]
    rest = pairs - sum(counts)
    if rest < 0:
        raise ValueError(f"{found.where} has {sum(counts)} pairs that turn, more than the {pairs} of its heads")
    schedules = [geometric(n, base=one) for one, n in zip((near, near, near, far), counts, strict=True) if n]
    axes = np.repeat(np.arange(4), [*counts[:3], names + rest])
    # an axis has one schedule, or all pairs have numbers: those that stay have none of a schedule
    return {"frequencies": np.concatenate([*map(np.asarray, schedules), np.zeros(rest)]), "sections": axes.tolist()}


def _phimoe(found: Found, pairs: int, base: float, scaling: dict[str, Any], seq_len: Any) -> Arguments:
    """The list and a factor of its own by the length, as Microsoft's and transformers' code until 4.57 have them."""
    if scaling["rope_type"] == "default":
        return {"base": base}
    original = scaling.get("original_max_position_embeddings") or found.needed("max_position_embeddings")
    original = real(original, f"{found.rope_where}['original_max_position_embeddings']", positive=True)
    key = "long_mscale" if seq_len is not None and seq_len > original else "short_mscale"
    if found.rope.get(key) is None:
        raise ValueError(f"{found.rope_where} lacks {key!r}, which a {found.model} that is scaled needs")
    if "attention_factor" in _rope.SCALINGS[scaling["rope_type"]].parameters:
        return {"base": base, "scaling": {**scaling, "attention_factor": found.rope[key]}}
    return {"frequencies": np.asarray(_stretched(pairs, base, scaling).values), "attention_factor": found.rope[key]}


# the arguments of a Rotary, from the part of a config, the number of pairs, base, scaling and the length of a sequence
SPECTRA: dict[str, Callable[[Found, int, float, dict[str, Any], Any], Arguments]] = {
    "backwards": _backwards,
    "pixtral": _pixtral,
    "dinov3": _dinov3,
    "atoms": _atoms,
    "phimoe": _phimoe,
}
