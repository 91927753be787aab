"""Verdicts on the parts of a model's config, and the rotary encodings that each tensor may have."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..._core.rotary.value import Rotary
from ..config import others, reader, table
from ..config.part import SPELLINGS, NoRotary, Undecided, as_mapping
from .frequencies import called
from .report import Finding, Verdict

# keys of the longest position
LENGTHS = SPELLINGS["max_position_embeddings"]
# names of parts that encode no text
_TOWERS = re.compile(
    r"(^|[._])(vis|vision|visual|image|img|pixel|patch|vit|clip|siglip|video|audio|speech|sound|codec|mel|whisper|vocoder"
    r"|token2wav|code2wav|talker|dit|thinker|tower|depth|detok|decoder_model|vae|connector|projector|qformer|resampler)"
)
_TEXT = re.compile(r"(^|[._])(text|language|llm|lm)([._]|_model|$)|^model\.layers\.\d|^layers\.\d|^transformer\.h\.\d")
# parts of a config that are no models
_OTHERS = ("quantization_config", "compression_config", "generation_config")
# keys of which a model without a type has one
_SIZES = {name for names in SPELLINGS.values() for name in names}
# how deep parts of parts are; more parts than any model has, and more keys in one
_DEPTH, _MOST_PARTS, _MOST_KEYS = 3, 64, 4096
# kinds of layers that a finding describes, and its characters
_MOST_KINDS, _MOST_LETTERS = 8, 600
_STORED = "no file stores the frequencies: the program that loads the model computes them"


class Part(NamedTuple):
    """A part of a config that is a model. turns: False for a model without a rotary encoding. tower: no part for text."""

    name: str
    verdict: Verdict
    says: str
    rotaries: tuple[Rotary, ...] = ()
    length: float | None = None
    turns: bool = True
    tower: bool = False

    @property
    def finding(self) -> Finding:
        says = self.says if len(self.says) <= _MOST_LETTERS else f"{self.says[:_MOST_LETTERS]}.."
        return Finding(self.name, "config", self.verdict, None, says)


class Expected(NamedTuple):
    """The parts of a config; none without a config. alone: whether the config has one part."""

    parts: tuple[Part, ...] = ()
    alone: bool = True

    @property
    def rotaries(self) -> tuple[Rotary, ...]:
        return tuple(dict.fromkeys(rotary for part in self.parts for rotary in part.rotaries))

    @property
    def length(self) -> float | None:
        """The longest position; None if no part has one."""
        return max((part.length for part in self.parts if part.length is not None), default=None)

    def of(self, name: str) -> tuple[tuple[Rotary, ...], str]:
        """Return the encodings that a tensor of this name may have; if there are none, the part of the config that does not tell.

        Without a config, and for a tower that a config for text does not describe, there are neither.
        """
        tower = _TOWERS.search(name) is not None
        if not self.parts or (self.alone and tower and not self.parts[0].tower):
            return (), ""
        may_be = self.parts
        if _TEXT.search(name) and not tower:
            may_be = tuple(part for part in self.parts if not part.tower) or self.parts
        unread = [part for part in may_be if part.turns and not part.rotaries]
        rotaries = () if unread else self.rotaries
        part = (*unread, *may_be)[0]
        return rotaries, "" if rotaries else part.name


def expected_of(config: Any) -> Expected:
    """Return what all parts of a config say, a mapping or an object of transformers."""
    config = as_mapping(config)
    pairs = list(itertools.islice(_parts("config", config, _DEPTH), _MOST_PARTS + 1))
    if len(pairs) > _MOST_PARTS or any(len(part) > _MOST_KEYS for _, part in pairs):
        says = f"posenc_fast reads no config of more than {_MOST_PARTS} parts, or of {_MOST_KEYS} keys in one"
        return Expected((Part("config", "unknown", says),))
    parts = [_part_of(where, part) for where, part in pairs]
    whole, inner = parts[0], parts[1:]
    if inner and str(config.get("model_type") or "") not in table.types():
        # parts say what the whole says
        of_parts = {rotary for part in inner for rotary in part.rotaries}
        said = {
            "right": set(whole.rotaries) <= of_parts,
            "wrong": any(part.verdict == "wrong" for part in inner),
            "unknown": not all(part.tower for part in inner),
        }
        if said[whole.verdict]:
            return Expected(tuple(inner), False)
    return Expected(tuple(parts), not inner)


def _parts(where: str, config: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a config and its parts, those of text first, each with its own type."""
    yield where, config
    whole = str(config.get("model_type") or "")
    inner = [(str(key), value) for key, value in config.items() if str(key).endswith("_config")]
    for key, value in sorted(inner, key=lambda one: not _TEXT.search(one[0])):
        if depth and isinstance(value, Mapping) and value and key not in _OTHERS:
            model = _type_of(value, key, whole)
            # of a whole that posenc_fast knows, the parts that rotate are known, too
            if model or (_SIZES & set(value) and whole not in {*table.types(), *table.parts()}):
                yield from _parts(f"{where}[{key!r}]", {**value, "model_type": model}, depth - 1)


def _type_of(part: Mapping[str, Any], key: str, whole: str) -> str:
    """Return the model type of a part; if it is missing or the parent's, the parent's default for this key."""
    own = str(part.get("model_type") or "")
    if own and own != whole:
        return own
    default = table.parts().get(whole, {}).get(key) or (f"{whole}_vision" if "vision" in key else "")
    return default if default in table.types() else own


def _part_of(where: str, part: Mapping[str, Any]) -> Part:
    """Return the verdict on one part, without the parts in it."""
    model = str(part.get("model_type") or "")
    tower = _TOWERS.search(model) is not None or _TOWERS.search(where.rpartition("[")[2].strip("'\"]")) is not None
    try:
        form = others.NAMES.get(others.form_of(part), "")
        kind = form or model
        name = f"{where} ({kind})" if kind else where
        known = {*table.types(), *table.parts(), *table.names("without"), *table.pairs("unreadable")}
        if not (part.get("architectures") or model in known or form):
            says = f"posenc_fast does not know the model_type {model!r}" if model else "the config has no model_type"
            return Part(name, "unknown", says, tower=tower)
        kinds = [
            (options, None if arguments is None else Rotary(**arguments))
            for options, arguments in reader.encodings_of(part)
        ]
    except NoRotary as error:
        return Part(name, "unknown", str(error), turns=False, tower=tower)
    except Undecided as error:
        return Part(name, "unknown", str(error), tower=tower)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # what the reader did not expect says little by itself
        says = str(error) if isinstance(error, (TypeError, ValueError)) else f"{type(error).__name__}: {error}"
        return Part(name, "wrong", says, tower=tower)
    rotaries = tuple(dict.fromkeys(rotary for _, rotary in kinds if rotary is not None))
    if not rotaries:
        return Part(name, "unknown", "no layer has a rotary encoding", turns=False, tower=tower)
    length = scaled_length(part)
    longest = "" if length is None else f"; longest position {length:g}"
    return Part(name, "right", f"{_words(kinds)}{longest}; {_STORED}", rotaries, length, tower=tower)


def _words(kinds: list[tuple[dict[str, Any], Rotary | None]]) -> str:
    """Return the encodings of all kinds of layers in words."""
    layers: dict[Rotary | None, list[str]] = {}
    for options, rotary in kinds:
        labels = [f"layer {options['layer']}"] if "layer" in options else []
        labels += [options["layer_type"]] if "layer_type" in options else []
        labels += [f"{options['seq_len']:g} tokens"] if "seq_len" in options else []
        layers.setdefault(rotary, []).append(" at ".join(labels))
    said = []
    for rotary, names in layers.items():
        words = "no rotary encoding" if rotary is None else f"{called(rotary)}, {rotary.rotary_dim // 2} pairs"
        names = [name for name in names if name]
        shown = ", ".join(names[:_MOST_KINDS]) + (", .." if names[_MOST_KINDS:] else "")
        said.append(f"{shown}: {words}" if names and len(layers) > 1 else words)
    return "; ".join(said[:_MOST_KINDS]) + ("; .." if said[_MOST_KINDS:] else "")


def _scaling_of(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a scaling, empty where there is none."""
    for name in ("rope_scaling", "rope_parameters"):
        scaling = part.get(name)
        if isinstance(scaling, Mapping) and scaling:
            return scaling
    return {}


def unscaled_length(part: Mapping[str, Any]) -> float | None:
    """Return the length in a config, without its scaling; None if the config has none."""
    return max(_count(part.get(key)) for key in LENGTHS) or None


def scaled_length(part: Mapping[str, Any]) -> float | None:
    """Return the longest length of a model: the one in the config, or the one after the scaling if that is longer."""
    scaling = _scaling_of(part)
    unscaled = unscaled_length(part) or 0.0
    original = _count(scaling.get("original_max_position_embeddings")) or unscaled
    factor = _count(scaling.get("factor")) if scaling.get("rope_type", scaling.get("type")) != "longrope" else 0.0
    return max(unscaled, original * factor) or None


def _count(value: Any) -> float:
    """Return a positive number, or 0 for other values."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**53
    return float(value) if usable else 0.0
