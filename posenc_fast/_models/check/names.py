"""Recognize, by name and shape, the tensors that can be positional, and determine their kind."""

from __future__ import annotations

import math
import re
from typing import Literal

# Kinds of tensors. "frequencies" belong to rotary encodings, a "schedule" to other encodings, such as of timesteps.
# "divisors" divide frequencies. A tensor of the kind "both" contains cosines and sines.
Kind = Literal["frequencies", "schedule", "divisors", "cos", "sin", "both", "table"]

# endings of names that any kind of tensor may have
_ENDINGS = re.compile(r"(\.(weight|data|_data|default))+$")
_FREQUENCIES = re.compile(
    r"(\w+_)?inv_?freqs?(_\w+)?|((rope|rotary|rot|time|pos|axis|base)_)?(freqs?|frequencies|freq_bands|omega|div_term)"
    r"|(inv_)?timescales?|freqs?_(base|bands|buffer)"
)
_SCHEDULES = re.compile(r"div_term|(time|pos)_\w+|(inv_)?timescales?")
_BOTH = re.compile(r"(\w+_)?(freqs?_cis|cos_?sin(_cached?)?|sin_?cos(_cached?)?|freqs?_complex)(_\w+)?")
_COS, _SIN = re.compile(r"(^|_)cos(_|s?$)"), re.compile(r"(^|_)sin(_|s?$)")
# words in names of position tables
_POSITIONAL = {
    "pe", "wpe", "pos", "position", "positions", "positional", "posemb", "posembed", "posenc", "posembedding", "poses",
    "abspos", "posembeddings",
}  # fmt: skip
# words in names of tensors that are not position tables, such as learned weights, indices and masks
_NOT_POSITIONAL = {
    "bias", "biases", "id", "ids", "index", "idx", "proj", "projection", "conv", "linear", "rel", "relative", "rpb", "u",
    "v", "mlp", "norm", "mask", "ln", "layernorm", "scale", "dense", "fc", "head", "query", "key", "value", "token",
    "drop", "dropout", "gate", "prior", "weights",
}  # fmt: skip
# largest number of frequencies; models have far fewer
_MOST_FREQUENCIES = 1 << 16
# A position table has at least _LEAST_ROWS rows and _LEAST_COLUMNS columns.
_LEAST_ROWS, _LEAST_COLUMNS = 8, 4


def kind_of(name: str, shape: tuple[int, ...]) -> Kind | None:
    """Return the kind of a tensor with this name and shape, or None if the tensor is not positional."""
    sides = [n for n in shape if n != 1]
    last_part = _last_part_of(name)
    if len(sides) == 1 and name.lower().endswith("rope_freqs.weight"):
        # GGUF stores divisors of frequencies under this name
        return "divisors"
    if _FREQUENCIES.fullmatch(last_part):
        if not sides and shape and "inv_freq" in last_part:
            # all axes have length 1, so there is one frequency
            return "frequencies"
        if len(sides) != 1 or not 2 <= sides[0] <= _MOST_FREQUENCIES:
            # some programs give these names to tables of complex numbers, or of pairs (cosine, sine)
            return "both" if last_part in ("freqs", "rope_freqs", "rotary_freqs") and len(shape) >= 2 else None
        return "schedule" if _SCHEDULES.fullmatch(last_part) else "frequencies"
    if len(sides) < 2:
        return None
    if _BOTH.fullmatch(last_part):
        return "both"
    words = set(re.split(r"[_\-]+", last_part))
    if words & _NOT_POSITIONAL:
        return None
    if _COS.search(last_part):
        return "cos"
    if _SIN.search(last_part):
        return "sin"
    if not (words & _POSITIONAL or "sinusoid" in last_part or "position" in last_part):
        return None
    is_large = shape[-1] >= _LEAST_COLUMNS and math.prod(sides) >= _LEAST_ROWS * shape[-1]
    return "table" if is_large else None


def sines_first(name: str) -> bool:
    """Return whether a name such as ``sin_cos`` means that sines come before cosines."""
    return re.search(r"sin_?cos", _last_part_of(name)) is not None


def _last_part_of(name: str) -> str:
    """Return the last part of a name in lower case, without endings such as ``.weight``."""
    return _ENDINGS.sub("", name).rpartition(".")[2].lower()


def partner_of(name: str) -> str:
    """Return the name of the table of sines that belongs to a table of cosines with this name."""
    head, dot, last = name.rpartition(".")
    if last.lower() in ("weight", "data"):
        inner = partner_of(head)
        return f"{inner}{dot}{last}"
    return f"{head}{dot}{last.replace('cos', 'sin').replace('Cos', 'Sin')}"
