"""From a model's config to the rotary encodings of its parts, and the longest position; for each tensor those that it may be of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .._rotary.config import others, table
from .._rotary.config.part import SPELLINGS
from .._rotary.value import Rotary

__all__ = ["Expected", "expected_of"]

# names of what turns beside text
_TOWERS = re.compile(
    r"(^|[._])(vis|vision|visual|image|img|pixel|patch|vit|clip|siglip|video|audio|speech|sound|codec|mel|whisper|vocoder"
    r"|token2wav|code2wav|talker|dit|thinker|tower|depth|detok|decoder_model|vae|connector|projector|qformer|resampler)"
)
_TEXT = re.compile(r"(^|[._])(text|language|llm|lm)([._]|_model|$)|^model\.layers\.\d|^layers\.\d|^transformer\.h\.\d")
# parts of a config that are no models
_OTHERS = ("quantization_config", "compression_config", "generation_config")
# how deep parts of parts are
_DEPTH = 3
# layers that are asked for one by one
_LAYERS = 64


class Expected(NamedTuple):
    """The encodings that a config means.

    rotaries: of all parts that can be read, those of text first. length: the longest position, None where it is not said.
    complete: whether all parts that turn could be read. alone: whether it is the config of one part. words: for each part
    what it means, or why it cannot be read.
    """

    rotaries: tuple[Rotary, ...] = ()
    length: float | None = None
    complete: bool = False
    alone: bool = True
    words: tuple[tuple[str, str], ...] = ()

    def of(self, name: str) -> tuple[Rotary, ...]:
        """Return the encodings that a tensor of this name may have: none where it may be of a part that was not read."""
        if _TEXT.search(name) and not _TOWERS.search(name):
            return self.rotaries
        if self.alone:
            return () if _TOWERS.search(name) and not self.rotaries_are_of_tower() else self.rotaries
        return self.rotaries if self.complete else ()

    def rotaries_are_of_tower(self) -> bool:
        """Whether the one part is itself of images or sound, as its type says."""
        return any(_TOWERS.search(where) for where, _ in self.words)


def expected_of(config: Any) -> Expected:
    """Return the encodings of all parts of a config, a mapping or an object of transformers."""
    if not isinstance(config, Mapping) and callable(getattr(config, "to_dict", None)):
        config = {"model_type": getattr(config, "model_type", None), **config.to_dict()}
    parts = list(_parts("config", config, _DEPTH))
    rotaries: dict[Rotary, None] = {}
    words, lengths, complete = [], [], True
    for where, part in parts:
        model = str(part.get("model_type") or "")
        some, why = _rotaries(part)
        if not some and where == "config" and len(parts) > 1 and model not in table.types():
            # a whole that turns by its parts alone
            continue
        rotaries |= dict.fromkeys(some)
        lengths += [_length(part)] if some else []
        complete &= bool(some) or model in table.names("without") or "no rotary encoding" in why
        kind = _form(part) or model
        words.append((f"{where} ({kind})" if kind else where, "; ".join(map(repr, some)) or why))
    known = [length for length in lengths if length is not None]
    return Expected(tuple(rotaries), max(known, default=None), complete, len(parts) == 1, tuple(words))


def _parts(where: str, config: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a config and its parts, those of text first, each with its own type."""
    yield where, config
    whole = str(config.get("model_type") or "")
    inner = [(str(key), value) for key, value in config.items() if str(key).endswith("_config")]
    for key, value in sorted(inner, key=lambda one: not _TEXT.search(one[0])):
        if depth and isinstance(value, Mapping) and value and key not in _OTHERS:
            part = {**value, "model_type": _type_of(value, key, whole)}
            yield from _parts(f"{where}[{key!r}]", part, depth - 1)


def _type_of(part: Mapping[str, Any], key: str, whole: str) -> str:
    """Return the type of a part: its own, or where files name that of the whole or none, what the whole has there."""
    own = str(part.get("model_type") or "")
    if own and own != whole:
        return own
    default = table.parts().get(whole, {}).get(key) or (f"{whole}_vision" if "vision" in key else "")
    return default if default in table.types() else own


def _rotaries(part: Mapping[str, Any]) -> tuple[tuple[Rotary, ...], str]:
    """Return the encodings of all kinds of layers and all lengths of sequences, or why there are none."""
    model = str(part.get("model_type") or "")
    known = {*table.types(), *table.parts(), *table.names("without")}
    if not (part.get("architectures") or model in known or _form(part)):
        return (), "a type of model that is not known" if model else "no model_type"
    first, why = _read(part, {})
    if not first and "no rotary encoding" in why:
        return (), why
    rotaries = dict.fromkeys(first)
    for options in _options(part, layers=not first):
        some, _ = _read(part, options)
        rotaries |= dict.fromkeys(some)
    return tuple(rotaries), why


def _form(part: Mapping[str, Any]) -> str:
    """Return the name of the form of a config that is not Hugging Face's."""
    try:
        return others.NAMES.get(others.form_of(part), "")
    except ValueError:
        return ""


def _read(part: Mapping[str, Any], options: dict[str, Any]) -> tuple[tuple[Rotary, ...], str]:
    try:
        rotary = Rotary.from_config(part, **options)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        return (), str(error)
    return (() if rotary is None else (rotary,)), "" if rotary is not None else "no rotary encoding"


def _options(part: Mapping[str, Any], layers: bool) -> Iterator[dict[str, Any]]:
    """Yield what a config may need to tell one encoding: a kind of layers or a layer, and a length of sequences."""
    lengths: list[int | None] = [None]
    scaling = _scaling_of(part)
    for key in ("original_max_position_embeddings", "max_position_embeddings"):
        for value in (part.get(key), scaling.get(key)):
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**53:
                lengths += [int(value), int(value) + 1]
    types: list[str] = []
    listed = part.get("layer_types")
    if isinstance(listed, (list, tuple)):
        types += [one for one in listed if isinstance(one, str)]
    types += [str(key) for key, value in scaling.items() if isinstance(value, Mapping)]
    groups = _groups(str(part.get("model_type") or ""))
    kinds: list[dict[str, Any]] = [{}]
    kinds += [{"layer_type": one} for one in dict.fromkeys([*types, *groups, "full_attention", "sliding_attention"])]
    kinds += [{"layer": k} for k in range(min(_depth(part), _LAYERS) if layers else 0)]
    for length in dict.fromkeys(lengths):
        for kind in kinds:
            yield kind if length is None else {**kind, "seq_len": length}


def _scaling_of(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a scaling, empty where there is none."""
    for name in ("rope_scaling", "rope_parameters"):
        scaling = part.get(name)
        if isinstance(scaling, Mapping) and scaling:
            return scaling
    return {}


def _groups(model: str) -> tuple[str, ...]:
    return tuple(table.row(model).groups) if model in table.types() else ()


def _depth(part: Mapping[str, Any]) -> int:
    depth = next((part[key] for key in SPELLINGS["num_hidden_layers"] if part.get(key) is not None), None)
    return depth if isinstance(depth, int) and not isinstance(depth, bool) and depth > 0 else 0


def _length(part: Mapping[str, Any]) -> float | None:
    """Return the longest position of a part: that of its config, or of its scaling if that is longer."""
    scaling = _scaling_of(part)

    def number(value: Any) -> float:
        usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**53
        return float(value) if usable else 0.0

    own = max(number(part.get(key)) for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"))
    original = number(scaling.get("original_max_position_embeddings")) or own
    factor = number(scaling.get("factor")) if scaling.get("rope_type", scaling.get("type")) != "longrope" else 0.0
    return max(own, original * factor) or None
