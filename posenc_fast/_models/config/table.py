"""The table of models: what the types of `models.txt` say of their rotary encodings, a `Row` for each."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("models.txt")
# the family of types that no other one has, whose layout the caller gives
UNKNOWN = "unknown"


class LayerGroup(NamedTuple):
    """Layers that have rotary parameters of their own, and the settings of these."""

    base: float
    base_keys: tuple[str, ...] = ()
    # where a config has no rotary parameters for them; the factor always where these have none
    factor: float | None = None
    always: bool = False
    rope_type: str = "default"
    # whether rotary parameters that name no group are for this one; the attention_factor of a yarn that has none
    flat: bool = False
    yarn_factor: float | None = None
    # whether its base is for a config without rotary parameters alone
    unscaled_base: bool = False
    # types of layers, where they do not have the name of the group; another width of heads: a function of rules.py
    layer_types: tuple[str, ...] = ()
    head: str = ""


class Pattern(NamedTuple):
    """Layers that are full_attention where a config does not list them: those with (i + 1) % every == 0, or with
    i % every == 0, and the last if it always is; the others are sliding_attention."""

    every: int
    key: str = ""
    first: bool = False
    last: bool = False


class Sections(NamedTuple):
    """The axes that pairs read: a rule of rules.py, the counts if a config has none, what the axes are."""

    rule: str
    default: tuple[int, ...] | None
    axes: str


class Row(NamedTuple):
    """The rotary encoding of models of a type. Keys are those of a config; base and factor may stand in its rotary parameters as well."""

    model: str
    family: str
    source: str
    note: str = ""
    # of the pairs; a key, and the layout where it is false; what turns, in words
    layout: str = "half"
    switch: tuple[str, ...] = ()
    turned: str = "the head"
    # how many values are turned together: keys, or else a quotient of two, or a width of the class instead of that;
    # whether the class divides where head_dim is null, which others do not take
    width: tuple[str, ...] = ("head_dim",)
    per_head: tuple[str, ...] | None = ("hidden_size", "num_attention_heads")
    head: int | None = None
    divides: bool = False
    # for a class with frequencies for head_dim, not for the key of the width: head_dim where a config has none, 0 for
    # that width
    whole_head: int | None = None
    # the part of them that turns if a config has none; None where the class reads none, and all turn: then `only` is
    # the one that may stand there
    factor: float | None = None
    only: float = 1.0
    factor_keys: tuple[str, ...] = ("partial_rotary_factor",)
    # or how many turn: keys, whether the class reads them, and the number where they are missing
    dims: tuple[str, ...] = ()
    dims_read: bool = True
    usual_dim: int | None = None
    # or that number from the width, and from what a key has: a function of rules.py
    rotary_dim: str = ""
    # the base; a key of the bases of all layers, which win over it; whether a base outside of the rotary parameters is
    # that of the class, if these have another
    base: float = 10000.0
    base_keys: tuple[str, ...] = ("rope_theta",)
    layer_bases: str = ""
    own_base: bool = False
    # layers with rotary parameters of their own, by the names of these
    groups: Mapping[str, LayerGroup] = {}
    # the types of all layers, beside layer_types: a key of numbers that stand for them; what they are if a config has none
    codes: tuple[str, Mapping[Any, str]] = ("", {})
    pattern: Pattern | None = None
    # layers that do not turn, functions of rules.py; a key of those that are scaled, where others are not
    without: tuple[str, ...] = ()
    scaled_layers: str = ""
    # whether rotary parameters that name no group are added to a rope_type, so that `type` is not read
    preset: bool = False
    # whether a config without rotary parameters has others than one that has some, which reads none beside these
    needs_parameters: bool = False
    # whether a base, and a part of the width outside of it, are read in rotary parameters
    inner_base: bool = True
    outer_factor: bool = True
    # makes the rotary parameters of a config that has them elsewhere: a function of rules.py
    parameters: str = ""
    # which axes pairs read; frequencies that are no progression from 1, a function of rules.py
    sections: Sections | None = None
    spectrum: str = "geometric"
    # keys of rotary parameters that are of no scaling; other names of a rope_type; whether there is any but the default
    also: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    scalable: bool = True
    # the length before stretching, outside of the rotary parameters, of a class that reads none inside
    original_length: int | None = None
    # further keys that the functions of this row read
    keys: tuple[str, ...] = ()
    # what a config must have: a key, its value, the value where it is missing, and what another means
    needs: tuple[tuple[str, Any, Any, str], ...] = ()

    @property
    def axial(self) -> bool:
        """Whether pairs read the axes of an image, or of a video."""
        return self.sections is not None and self.sections.rule.startswith("axial")


class Block(NamedTuple):
    """A part of the file: the family that it is like, where its code is, and its lines."""

    parent: str
    source: str
    lines: list[str]


@functools.cache
def _blocks() -> dict[str, Block]:
    """Return all blocks of the file, by name, with each of their lines in one piece."""
    blocks: dict[str, Block] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            head, _, source = line[1:].partition("]")
            name, _, parent = head.partition(" < ")
            lines: list[str] = []
            blocks[name] = Block(parent, source.strip(), lines)
        elif line.startswith("        "):
            lines[-1] += " " + line.strip()
        elif line.startswith("    "):
            lines.append(line.strip())
    return blocks


@functools.cache
def names(block: str) -> Collection[str]:
    """Return the names of a table without values: `without`, types of no rotary encoding; `bases`, keys outside the
    rotary parameters that have a base; `unrelated`, keys of models that turn which look like others that are read."""
    # which keeps their order, and finds them
    return dict.fromkeys(" ".join(_blocks()[f"@{block}"].lines).split()).keys()


@functools.cache
def pairs(block: str) -> dict[str, str]:
    """Return a table of names: `architectures`, types of files with another's model_type; `unreadable`, types, and
    `no rotations`, rope types, with the reason; `foreign`, keys of other packages for what is read under another name."""
    return dict(line.split(": ", 1) for line in _blocks()[f"@{block}"].lines)


@functools.cache
def parts() -> dict[str, dict[str, str]]:
    """Return by the type of a whole the keys of the parts that turn, and their types where a part does not name its own."""
    texts = (pair.split(":") for pair in " ".join(_blocks()["@texts"].lines).split())
    others = pairs("parts").items()
    return {model: {"text_config": part} for model, part in texts} | {
        model: dict(pair.split(":") for pair in text.split()) for model, text in others
    }


@functools.cache
def types() -> dict[str, tuple[str, str]]:
    """Return the family of each type, and the settings of its own."""
    return {
        model: (name, own)
        for name, block in _blocks().items()
        for line in block.lines
        if line.startswith("models ")
        for model, own in re.findall(r"([\w.-]+)(?:\(([^)]*)\))?", line[7:])
    }


@functools.cache
def families() -> dict[str, list[str]]:
    """Return the types of each family that has some, in the order of the file."""
    result: dict[str, list[str]] = {}
    for model, (name, _) in types().items():
        result.setdefault(name, []).append(model)
    return result


@functools.cache
def family(name: str) -> Row:
    """Return the row of a family, without the settings of its types."""
    return Row(model="", family=name, **_fields(name))


@functools.lru_cache(maxsize=1024)
def row(model: str) -> Row:
    """Return the row of a type, that of the family UNKNOWN if the table does not have it."""
    name, own = types().get(model, (UNKNOWN, ""))
    return family(name)._replace(model=model, **_settings(own))


def _fields(name: str) -> dict[str, Any]:
    block = _blocks()[name]
    fields = {key: value for key, value in _fields(block.parent).items() if key != "note"} if block.parent else {}
    fields["source"] = block.source
    groups, needs = {}, []
    for line in block.lines:
        keyword, _, text = line.partition(" ")
        text = text.strip()
        first, _, rest = text.partition(": ")
        match keyword:
            case "rules":
                fields |= _settings(text)
            case "layers":
                groups[first] = LayerGroup(**_settings(rest))
            case "codes":
                fields["codes"] = first, {int(code): name for code, name in _settings(rest).items()}
            case "pattern":
                fields["pattern"] = Pattern(**_settings(text)) if text else None
            case "axes":
                rule, *counts = first.split()
                fields["sections"] = Sections(rule, tuple(map(int, counts)) or None, rest)
            case "aliases":
                fields["aliases"] = _settings(text)
            case "needs":
                (key, value), (_, usual) = _settings(first).items()
                needs.append((key, value, usual, rest))
            case "turned" | "note":
                fields[keyword] = text
    return fields | ({"groups": groups} if groups else {}) | ({"needs": tuple(needs)} if needs else {})


WORDS = {"switch", "width", "per_head", "factor_keys", "dims", "base_keys", "without", "also", "keys", "layer_types"}
NUMBERS = {"base", "factor", "only", "yarn_factor"}
CONSTANTS = {"true": True, "false": False, "null": None}


def _settings(text: str) -> dict[str, Any]:
    """Return what "key=value, key=value, .." says."""
    return dict(_setting(*one.strip().partition("=")) for one in text.split(",")) if text else {}


def _setting(key: str, equals: str, text: str) -> tuple[str, Any]:
    if not equals:
        return key, True
    if text in CONSTANTS:
        return key, CONSTANTS[text]
    if key in WORDS:
        return key, tuple(text.split())
    if key in NUMBERS:
        return key, float(text)
    return key, int(text) if text.isdigit() else text
