"""Find config keys that a model does not read, and that resemble a key that the model reads, or are about RoPE."""

from __future__ import annotations

import difflib
import functools
from typing import Any

from ..._core.rotary.scaling import SCALINGS
from . import table
from .part import SPELLINGS, Config, is_list
from .rules import WITHOUT
from .table import Row

# Keys that are read for every model. Some of these keys are only checked for agreement with the result.
ALWAYS = (
    "model_type", "architectures", "rope_scaling", "rope_parameters", "rope_type", "partial_rotary_factor", "rotary_pct",
    "rotary_dim", "rope_dim", "rotary_emb_fraction", "rope_rotate_half_dims", "attn_config", "head_dim", "layer_types",
    "num_hidden_layers", "per_layer_config", "max_position_embeddings", "original_max_position_embeddings",
)  # fmt: skip
# words that occur in keys about rotary encodings
WORDS = {"rope", "rotary", "theta"}


def check_spelling(config: Config, where: str, row: Row) -> None:
    """Raise an error for a key that the model type does not read, if the key is about RoPE or seems misspelt."""
    known, unrelated = keys_of(row.family), table.names("unrelated")
    for key, value in config.items():
        if value is None or key in known or key in unrelated:
            continue
        near = _corrected(str(key), row.family)
        if near is None and _has_meaning(key, value):
            near = _closest(str(key), row.family)
        if near is not None:
            advice = (
                f"did you mean {near}? If not, remove {key} from the config"
                if near
                else f"remove {key} from the config"
            )
            raise ValueError(f"{where}[{key!r}]={value!r} is not read by {row.model or 'this model'}; {advice}")


@functools.cache
def keys_of(family: str) -> frozenset[str]:
    """Return all config keys that models of a family read. family: name of the family."""
    row = table.family(family)
    keys = {*ALWAYS, *table.names("bases"), *row.width, *(row.per_head or ()), *row.factor_keys, *row.dim_keys}
    keys |= {*row.base_keys, row.layer_bases, row.codes[0], row.scaled_layers, *row.keys, *row.switch[:1]}
    keys |= {need.key for need in row.needs}
    keys |= {key for group in row.groups.values() for key in group.base_keys}
    keys |= {key for rule in row.without for key in WITHOUT[rule].keys}
    keys |= {row.pattern.key} if row.pattern is not None else set()
    return frozenset(spelling for key in keys if key for spelling in SPELLINGS.get(key, (key,)))


@functools.lru_cache(maxsize=8192)
def _corrected(key: str, family: str) -> str | None:
    """Return the key of a family that the author of a config probably meant by an unknown key, or None.

    Either the two keys differ by at most two letters, or another package uses the unknown key for the same setting.
    """
    foreign = table.pairs("foreign").get(key)
    if foreign in keys_of(family):
        return foreign
    letters = _letters(key)
    for known_key, known_letters in _spelled(family):
        most = 2 if len(known_letters) >= 8 else 1
        # Test quickly whether the distance may be small enough. Each replaced letter adds at most two letters that
        # occur in only one of the words.
        possible = abs(len(letters) - len(known_letters)) <= most and len(set(letters) ^ set(known_letters)) <= 2 * most
        if possible and _distance(letters, known_letters) <= most:
            return known_key
    return None


@functools.cache
def _spelled(family: str) -> tuple[tuple[str, str], ...]:
    """Return (key, its letters and digits in lower case) for each key that models of a family read."""
    return tuple((key, _letters(key)) for key in sorted(keys_of(family)))


def _letters(key: str) -> str:
    return "".join(letter for letter in key.lower() if letter.isalnum())


def _distance(one: str, other: str) -> int:
    """Return the edit distance of two words. It counts insertions, deletions, replacements and swaps of neighbours."""
    # row[j]: distance between the first i letters of `one` and the first j letters of `other`
    second_last, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, other_letter in enumerate(other, 1):
            best = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != other_letter))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == other_letter:
                best = min(best, second_last[j - 2] + 1)
            row.append(best)
        second_last, last = last, row
    return last[-1]


def _has_meaning(key: Any, value: Any) -> bool:
    """Return whether a key is about RoPE, and its value is a list, a number, a mapping or the name of a scaling."""
    words = str(key).lower().replace("-", "_").split("_")
    is_setting = is_list(value) or isinstance(value, (int, float, dict)) or (value in SCALINGS and value != "default")
    return bool(WORDS & set(words)) and is_setting and not isinstance(value, bool)


def _closest(key: str, family: str) -> str:
    """Return the family's key about RoPE that is most similar to a key, or an empty string if none is similar."""
    known = (known_key for known_key in keys_of(family) if WORDS & set(known_key.split("_")))
    return next(iter(difflib.get_close_matches(key.lower(), sorted(known), 1)), "")
