"""Read `models.txt`, the table of model types, and return a `Row` for the rotary encoding of each type."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("models.txt")
# family of types that the table does not have; the caller gives the layout
UNKNOWN = "unknown"


class LayerGroup(NamedTuple):
    """Settings of a kind of layers with its own rotary parameters."""

    # default base
    base: float
    # top-level keys of the base
    base_keys: tuple[str, ...] = ()
    # partial_rotary_factor if the config has no rotary parameters for this group
    factor: float | None = None
    # factor is also the default inside rotary parameters
    always: bool = False
    # rope_type if the config has no rotary parameters
    rope_type: str = "default"
    # rotary parameters that name no group are for this group
    flat: bool = False
    # default attention_factor of yarn
    yarn_factor: float | None = None
    # base applies only if the config has no rotary parameters
    unscaled_base: bool = False
    # layer types of this group (default: the name of the group)
    layer_types: tuple[str, ...] = ()
    # name of a function in rules.HEADS that returns the head width
    head: str = ""


class Pattern(NamedTuple):
    """Layer types if a config lists none.

    full_attention: layers with (i + 1) % every == 0. sliding_attention: all others.
    """

    # distance between full_attention layers
    every: int
    # config key of this distance
    key: str = ""
    # full_attention layers are those with i % every == 0
    first: bool = False
    # the last layer is always full_attention
    last: bool = False


class Sections(NamedTuple):
    """Axis that each pair reads."""

    # name of a function in rules.py
    rule: str
    # counts of pairs if the config has none
    default: tuple[int, ...] | None
    # description of the axes
    axes: str


class Row(NamedTuple):
    """The rotary encoding of a model type. Keys are config keys; base and factor are read in rotary parameters, too."""

    # model_type
    model: str
    # block of models.txt
    family: str
    # where the model's code is
    source: str
    # remark for readers
    note: str = ""
    # layout of the pairs
    layout: str = "half"
    # a config key, and the layout if it is false
    switch: tuple[str, ...] = ()
    # description of what rotates
    turned: str = "the head"
    # config keys of the head width
    width: tuple[str, ...] = ("head_dim",)
    # (numerator, denominator): keys whose quotient is the width if no key of width is set
    per_head: tuple[str, ...] | None = ("hidden_size", "num_attention_heads")
    # the class's default head width, which replaces the quotient
    head: int | None = None
    # the class computes the quotient if head_dim is null
    divides: bool = False
    # default head_dim of classes that compute frequencies from head_dim; 0: use the width
    whole_head: int | None = None
    # default partial_rotary_factor; None: the class reads none
    factor: float | None = None
    # the single factor that a config may contain if factor is None
    only: float = 1.0
    # config keys of the factor
    factor_keys: tuple[str, ...] = ("partial_rotary_factor",)
    # config keys of the number of rotated values
    dims: tuple[str, ...] = ()
    # the class reads these keys
    dims_read: bool = True
    # number of rotated values if these keys are missing
    usual_dim: int | None = None
    # name of a function in rules.ROTARY_DIMS that computes this number
    rotary_dim: str = ""
    # default base
    base: float = 10000.0
    # top-level config keys of the base
    base_keys: tuple[str, ...] = ("rope_theta",)
    # config key with the base of each layer, which overrides base_keys
    layer_bases: str = ""
    # ignore the top-level base if rotary parameters have one
    own_base: bool = False
    # layers with their own rotary parameters, by group name
    groups: Mapping[str, LayerGroup] = {}
    # a config key with one number per layer, and the layer types of these numbers
    codes: tuple[str, Mapping[Any, str]] = ("", {})
    # layer types if the config lists none
    pattern: Pattern | None = None
    # names of functions in rules.py that select layers without RoPE
    without: tuple[str, ...] = ()
    # config key of the layers that are scaled; the others are unscaled
    scaled_layers: str = ""
    # rotary parameters without group names are added to a rope_type, so that `type` is not read
    preset: bool = False
    # a config without rotary parameters has other defaults than one with them, so they are required
    needs_parameters: bool = False
    # the class reads a base inside rotary parameters
    inner_base: bool = True
    # the class reads a factor outside of rotary parameters
    outer_factor: bool = True
    # name of a function in rules.PARAMETERS that builds rotary parameters from other keys
    parameters: str = ""
    # axis that each pair reads
    sections: Sections | None = None
    # name of a function in rules.py that returns the frequencies
    spectrum: str = "geometric"
    # keys of rotary parameters that do not concern scaling
    also: tuple[str, ...] = ()
    # other names of a rope_type
    aliases: Mapping[str, str] = {}
    # the class supports other rope types than default
    scalable: bool = True
    # top-level length before scaling, for classes that read none in rotary parameters
    original_length: int | None = None
    # further config keys that the functions of this row read
    keys: tuple[str, ...] = ()
    # required settings: key, value, value if the key is missing, meaning of other values
    needs: tuple[tuple[str, Any, Any, str], ...] = ()

    @property
    def axial(self) -> bool:
        """Whether pairs read the axes of an image, or of a video."""
        return self.sections is not None and self.sections.rule.startswith("axial")


class Block(NamedTuple):
    """A block of the file: parent family, source of the model's code, and lines."""

    parent: str
    source: str
    lines: list[str]


@functools.cache
def _blocks() -> dict[str, Block]:
    """Return all blocks of the file by name, with continued lines joined."""
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
    # a dict keeps the order and finds names fast
    return dict.fromkeys(" ".join(_blocks()[f"@{block}"].lines).split()).keys()


@functools.cache
def pairs(block: str) -> dict[str, str]:
    """Return a table of names: `architectures`, types of files with another's model_type; `unreadable`, types, and
    `no rotations`, rope types, with the reason; `foreign`, keys of other packages for what is read under another name."""
    return dict(line.split(": ", 1) for line in _blocks()[f"@{block}"].lines)


@functools.cache
def parts() -> dict[str, dict[str, str]]:
    """Return for each composite type the keys of its parts with RoPE, and the default type of each part."""
    texts = (pair.split(":") for pair in " ".join(_blocks()["@texts"].lines).split())
    others = pairs("parts").items()
    return {model: {"text_config": part} for model, part in texts} | {
        model: dict(pair.split(":") for pair in text.split()) for model, text in others
    }


@functools.cache
def types() -> dict[str, tuple[str, str]]:
    """Return the family of each type, and the type's own settings."""
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
    """Return the row of a type, or the row of the family UNKNOWN if the table does not have the type."""
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
    """Parse "key=value, key=value, .."."""
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
