"""Judge the parts of a model's config, and find the rotary encodings that each tensor may have.

A part is the whole config, or a nested config such as text_config, that describes a model.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..._core.rotary.value import Rotary
from ..config import others, reader, table
from ..config.part import SPELLINGS, NoRotary, Undecided, as_mapping, parameters_key
from .frequencies import described
from .report import Finding, Verdict, listed

# keys of a config whose value is the number of positions
LENGTHS = SPELLINGS["max_position_embeddings"]
# matches names of tensors, and of parts of a config, that belong to images, audio or other data instead of text
_TOWERS = re.compile(
    r"(^|[._])(vis|vision|visual|image|img|pixel|patch|vit|clip|siglip|video|audio|speech|sound|codec|mel|whisper|vocoder"
    r"|token2wav|code2wav|talker|dit|thinker|tower|depth|detok|decoder_model|vae|connector|projector|qformer|resampler)"
)
# matches names of tensors, and of parts of a config, that belong to text
_TEXT = re.compile(r"(^|[._])(text|language|llm|lm)([._]|_model|$)|^model\.layers\.\d|^layers\.\d|^transformer\.h\.\d")
# keys of the parts of a config that do not describe a model
_NO_MODELS = ("quantization_config", "compression_config", "generation_config")
# a part without a model_type describes a model if it contains one of these keys
_MODEL_KEYS = {name for names in SPELLINGS.values() for name in names}
# Parts are read up to the nesting depth _DEPTH. A config with more than _MOST_PARTS parts, or more than _MOST_KEYS keys
# in a part, is not read. Models have far fewer.
_DEPTH, _MOST_PARTS, _MOST_KEYS = 3, 64, 4096
# A finding describes at most _MOST_KINDS kinds of layers. Its reason is cut off after _MOST_LETTERS characters.
_MOST_KINDS, _MOST_LETTERS = 8, 600
_COMPUTED = "the program that loads the model computes the frequencies from this config"


class Part(NamedTuple):
    """A part of a config that describes a model, with the verdict on it and the reason.

    name: place of the part in the config, with its model type. rotaries: encodings of its layers. length: number of
    positions, or None. rotates: False for a model without a rotary encoding. tower: True for a part that does not
    encode text.
    """

    name: str
    verdict: Verdict
    reason: str
    rotaries: tuple[Rotary, ...] = ()
    length: float | None = None
    rotates: bool = True
    tower: bool = False

    @property
    def finding(self) -> Finding:
        reason = self.reason if len(self.reason) <= _MOST_LETTERS else f"{self.reason[:_MOST_LETTERS]}.."
        return Finding(self.name, "config", self.verdict, None, reason)


class ConfigParts(NamedTuple):
    """The parts of a config that describe models. alone: whether the whole config is the only part."""

    parts: tuple[Part, ...] = ()
    alone: bool = True

    @property
    def rotaries(self) -> tuple[Rotary, ...]:
        return tuple(dict.fromkeys(rotary for part in self.parts for rotary in part.rotaries))

    @property
    def length(self) -> float | None:
        """Largest number of positions of any part, or None if it is unknown for all parts."""
        return max((part.length for part in self.parts if part.length is not None), default=None)

    def for_tensor(self, name: str) -> tuple[tuple[Rotary, ...], str]:
        """Return (encodings, part) for a tensor of this name.

        If the config determines the encodings that the tensor may have, `part` is "". If not, `encodings` is empty, and
        `part` is the name of a part that may describe the tensor. Both are empty if no part describes the tensor.
        """
        tower = _TOWERS.search(name) is not None
        if not self.parts or (self.alone and tower and not self.parts[0].tower):
            return (), ""
        possible_parts = self.parts
        if _TEXT.search(name) and not tower:
            possible_parts = tuple(part for part in self.parts if not part.tower) or self.parts
        # parts that may rotate, but do not determine an encoding
        open_parts = [part for part in possible_parts if part.rotates and not part.rotaries]
        if self.rotaries and not open_parts:
            return self.rotaries, ""
        part = open_parts[0] if open_parts else possible_parts[0]
        return (), part.name


def parts_of(config: Any) -> ConfigParts:
    """Return the parts of a config, which is a mapping or an object of transformers."""
    config = as_mapping(config)
    places_and_parts = list(itertools.islice(_nested_parts("config", config, _DEPTH), _MOST_PARTS + 1))
    if len(places_and_parts) > _MOST_PARTS or any(len(part) > _MOST_KEYS for _, part in places_and_parts):
        reason = f"posenc_fast reads at most {_MOST_PARTS} parts of a config, and at most {_MOST_KEYS} keys of a part"
        return ConfigParts((Part("config", "unknown", reason),))
    parts = [_part_of(place, part) for place, part in places_and_parts]
    whole, inner = parts[0], parts[1:]
    if inner and str(config.get("model_type") or "") not in table.types():
        # leave out the part for the whole config if the inner parts repeat its verdict
        rotaries_of_inner = {rotary for part in inner for rotary in part.rotaries}
        repeated = {
            "right": set(whole.rotaries) <= rotaries_of_inner,
            "wrong": any(part.verdict == "wrong" for part in inner),
            "unknown": not all(part.tower for part in inner),
        }
        if repeated[whole.verdict]:
            return ConfigParts(tuple(inner), False)
    return ConfigParts(tuple(parts), not inner)


def _nested_parts(place: str, config: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (place, part) for a config and then for its inner parts, of which those that encode text come first.

    The model_type of each inner part is the type that `_type_of` returns. depth: largest nesting depth of inner parts.
    """
    yield place, config
    whole = str(config.get("model_type") or "")
    inner = [(str(key), value) for key, value in config.items() if str(key).endswith("_config")]
    for key, value in sorted(inner, key=lambda item: not _TEXT.search(item[0])):
        if depth and isinstance(value, Mapping) and value and key not in _NO_MODELS:
            model = _type_of(value, key, whole)
            # If the model type of the whole config is known, all its rotary parts have model types. So a part without
            # a model type is skipped.
            if model or (_MODEL_KEYS & set(value) and whole not in {*table.types(), *table.parts()}):
                yield from _nested_parts(f"{place}[{key!r}]", {**value, "model_type": model}, depth - 1)


def _type_of(part: Mapping[str, Any], key: str, whole: str) -> str:
    """Return the model type of a part. key: key of the part. whole: model type of the config that contains the part.

    If the part's own type is missing or equals `whole`, return the default type that `whole` has for this key. If there
    is no default, return the part's own type, or "" if it is missing.
    """
    model = str(part.get("model_type") or "")
    if model and model != whole:
        return model
    default = table.parts().get(whole, {}).get(key) or (f"{whole}_vision" if "vision" in key else "")
    return default if default in table.types() else model


def _part_of(place: str, part: Mapping[str, Any]) -> Part:
    """Return a part of a config with its verdict. The parts inside of it are not judged here."""
    model = str(part.get("model_type") or "")
    tower = _TOWERS.search(model) is not None or _TOWERS.search(place.rpartition("[")[2].strip("'\"]")) is not None
    try:
        form = others.NAMES.get(others.name_of_format(part), "")
        kind = form or model
        name = f"{place} ({kind})" if kind else place
        known = {*table.types(), *table.parts(), *table.names("without"), *table.pairs("unreadable")}
        is_model = part.get("architectures") or model in known or form
        if not is_model:
            reason = f"posenc_fast does not know the model_type {model!r}" if model else "the config has no model_type"
            return Part(name, "unknown", reason, tower=tower)
        kinds = [
            (options, None if arguments is None else Rotary(**arguments))
            for options, arguments in reader.encodings_of(part)
        ]
    except NoRotary as error:
        return Part(name, "unknown", str(error), rotates=False, tower=tower)
    except Undecided as error:
        return Part(name, "unknown", str(error), tower=tower)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # the message of an unexpected error may be unclear without the type of the error
        reason = str(error) if isinstance(error, (TypeError, ValueError)) else f"{type(error).__name__}: {error}"
        return Part(name, "wrong", reason, tower=tower)
    rotaries = tuple(dict.fromkeys(rotary for _, rotary in kinds if rotary is not None))
    if not rotaries:
        return Part(name, "unknown", "no layer has a rotary encoding", rotates=False, tower=tower)
    length = scaled_length(part)
    longest = "" if length is None else f"; {length:g} positions"
    return Part(name, "right", f"{_description_of(kinds)}{longest}; {_COMPUTED}", rotaries, length, tower=tower)


def _description_of(kinds: list[tuple[dict[str, Any], Rotary | None]]) -> str:
    """Return a description of the encodings of the layers, for up to `_MOST_KINDS` different encodings."""
    labels_of_rotary: dict[Rotary | None, list[str]] = {}
    for options, rotary in kinds:
        labels = [f"layer {options['layer']}"] if "layer" in options else []
        labels += [options["layer_type"]] if "layer_type" in options else []
        labels += [f"{options['seq_len']:g} tokens"] if "seq_len" in options else []
        labels_of_rotary.setdefault(rotary, []).append(" at ".join(labels))
    texts = []
    for rotary, names in labels_of_rotary.items():
        words = "no rotary encoding" if rotary is None else f"{described(rotary)}, {rotary.rotary_dim // 2} pairs"
        names = [name for name in names if name]
        texts.append(f"{listed(names, _MOST_KINDS)}: {words}" if names and len(labels_of_rotary) > 1 else words)
    return "; ".join(texts[:_MOST_KINDS]) + ("; .." if texts[_MOST_KINDS:] else "")


def unscaled_length(part: Mapping[str, Any]) -> float | None:
    """Return the largest number of positions that a config contains, or None. The scaling is ignored."""
    return max(_positive_number(part.get(key)) for key in LENGTHS) or None


def scaled_length(part: Mapping[str, Any]) -> float | None:
    """Return the number of positions of a model, or None if it is unknown.

    It is the larger of two numbers: the length in the config, and the original length times the factor of the scaling.
    For longrope, it is the length in the config.
    """
    unscaled = unscaled_length(part) or 0.0
    rope = part.get(parameters_key(part))
    if not isinstance(rope, Mapping):
        return unscaled or None
    name = str(rope.get("rope_type") or rope.get("type"))
    # the factor of longrope only determines the attention factor
    factor = 0.0 if reader.RENAMED.get(name, name) == "longrope" else _positive_number(rope.get("factor"))
    original = _positive_number(rope.get("original_max_position_embeddings")) or unscaled
    return max(unscaled, original * factor) or None


def _positive_number(value: Any) -> float:
    """Return a value of a config as a float if it is a positive number below 2**53, else 0."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**53
    return float(value) if usable else 0.0
