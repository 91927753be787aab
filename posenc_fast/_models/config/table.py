"""The table of models: a `Row` with the RoPE settings of each model type in `models.txt`."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("models.txt")
# family of model types that models.txt does not list. For these types, the caller must give the layout.
UNKNOWN = "unknown"


class LayerGroup(NamedTuple):
    """Settings of a kind of layers that has its own rotary parameters."""

    # default base
    base: float
    # config keys of the base
    base_keys: tuple[str, ...] = ()
    # default fraction of the width that rotates; see `always_factor`
    factor: float | None = None
    # whether `factor` is also the default if the config has rotary parameters for this group
    always_factor: bool = False
    # default rope_type
    rope_type: str = "default"
    # whether rotary parameters that all layers share apply to this group
    reads_shared: bool = False
    # default attention_factor if the rope_type is yarn
    yarn_factor: float | None = None
    # whether `base` applies only if the config has no rotary parameters
    unscaled_base: bool = False
    # entries of layer_types that mean this group, besides its name
    layer_types: tuple[str, ...] = ()
    # name of a function in rules.HEADS that computes the head width of this group
    head: str = ""


class Pattern(NamedTuple):
    """Types of layers for a config without layer_types: full_attention at every n-th layer, else sliding_attention."""

    # default n: every n-th layer has full_attention
    every: int
    # config key of n
    key: str = ""
    # whether layers with i % every == 0 have full_attention, instead of (i + 1) % every == 0
    first: bool = False
    # whether the last layer always has full_attention
    last: bool = False


class Sections(NamedTuple):
    """Assignment of pairs to the axes of a position."""

    # name of a function in rules.py that computes the axis of each pair, or "flagged": the config chooses the function
    rule: str
    # default numbers of pairs per axis
    default: tuple[int, ...] | None
    # names of the axes, for the documentation and errors
    axes: str


class Need(NamedTuple):
    """A config key of which `Rotary.from_config` supports only one value."""

    key: str
    required: Any
    default: Any
    # meaning of other values, for errors
    others_mean: str


class Row(NamedTuple):
    """RoPE settings of a model type.

    In the comments, "key" means a key of a config, and "the class" means the class of the model in its source code.
    Configs contain most keys at their top level. The base and the fraction of the width that rotates may also be in the
    rotary parameters.
    """

    # model_type
    model: str
    # name of the family in models.txt
    family: str
    # project and files of the family's source code
    source: str
    # other facts for readers
    note: str = ""
    # layout of the pairs
    layout: str = "half"
    # (key, layout): the layout if the value of this key is false; empty if the layout is fixed
    switch: tuple[str, ...] = ()
    # description of the part that rotates
    rotated: str = "the head"
    # keys of the head width
    width: tuple[str, ...] = ("head_dim",)
    # (numerator, denominator): keys whose quotient is the head width if a config has none of the keys in `width`
    per_head: tuple[str, ...] | None = ("hidden_size", "num_attention_heads")
    # default head width of the class, used instead of the quotient
    head: int | None = None
    # whether the class computes the quotient if head_dim is null; other classes fail
    divides: bool = False
    # Some classes compute frequencies from the key head_dim, although the keys in `width` give the head width. For
    # these classes: the default of head_dim, or 0 if it is the head width by default. None for other classes.
    whole_head: int | None = None
    # default fraction of the width that rotates. None: the class reads no fraction.
    factor: float | None = None
    # the only fraction that a config may contain if `factor` is None
    only_factor: float = 1.0
    # keys of the fraction
    factor_keys: tuple[str, ...] = ("partial_rotary_factor",)
    # keys of the number of values that rotate, in place of a fraction
    dim_keys: tuple[str, ...] = ()
    # whether the class reads the keys in `dim_keys`; if not, their values must agree with the fraction
    reads_dim_keys: bool = True
    # default value of the keys in `dim_keys`
    default_dim: int | None = None
    # name of a function in rules.ROTARY_DIMS that computes the number of values that rotate
    rotary_dim: str = ""
    # default base
    base: float = 10000.0
    # whether programs disagree about the default base, so that a config must contain one
    needs_base: bool = False
    # keys of the base
    base_keys: tuple[str, ...] = ("rope_theta",)
    # key of a list of bases, one per layer, which overrides the base
    layer_bases: str = ""
    # whether the class ignores the top-level base if the rotary parameters contain one
    prefers_inner_base: bool = False
    # kinds of layers with their own rotary parameters, by name
    groups: Mapping[str, LayerGroup] = {}
    # (key, layer type of each number): key of a list with one number per layer, for configs without layer_types
    codes: tuple[str, Mapping[Any, str]] = ("", {})
    # whether layer_types may list the MLP of each layer after the layer
    mlp_entries: bool = False
    # types of layers for a config without layer_types
    pattern: Pattern | None = None
    # names of functions in rules.WITHOUT that find layers without RoPE
    without: tuple[str, ...] = ()
    # key of a list of the layers that have the scaling; the other layers are not scaled
    scaled_layers: str = ""
    # Whether the class has default rotary parameters with a rope_type. The parameters that a config has for all layers
    # replace these defaults one by one. So there is always a rope_type, and the key `type` has no effect.
    preset: bool = False
    # whether a config must contain rotary parameters and a base, because the defaults of the class depend on whether a
    # config has rotary parameters
    needs_parameters: bool = False
    # whether the class reads a base in the rotary parameters
    inner_base: bool = True
    # whether the class reads a fraction outside of the rotary parameters
    outer_factor: bool = True
    # name of a function in rules.py that collects the rotary parameters from other keys
    parameters: str = ""
    # axes of the pairs
    sections: Sections | None = None
    # name of a function in rules.SPECTRA that computes the frequencies, or "geometric"
    spectrum: str = "geometric"
    # more keys that the rotary parameters may contain, besides the parameters of the scaling
    more_parameters: tuple[str, ...] = ()
    # rope_type that each alias in a config means
    aliases: Mapping[str, str] = {}
    # whether the class reads a scaling
    scalable: bool = True
    # original_max_position_embeddings, for classes that do not read it from the rotary parameters
    original_length: int | None = None
    # other keys that the functions of this row read
    keys: tuple[str, ...] = ()
    # keys of which `Rotary` supports only one value
    needs: tuple[Need, ...] = ()

    @property
    def fills_groups(self) -> bool:
        """Whether the class fills in missing parameters of groups. Only classes with base keys for groups do."""
        return any(group.base_keys for group in self.groups.values())

    @property
    def axial(self) -> bool:
        """Whether pairs are divided equally among the axes of an image or a video."""
        return self.sections is not None and self.sections.rule.startswith("axial")


class Block(NamedTuple):
    """A block of models.txt: its parent family, the source of its code, and its lines."""

    parent: str
    source: str
    lines: list[str]


@functools.cache
def _blocks() -> dict[str, Block]:
    """Return all blocks of models.txt by name, with continued lines joined."""
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
    """Return the names in a block that lists only names.

    The block `without` lists model types without RoPE. `bases` lists keys of bases outside of the rotary parameters.
    `unrelated` lists keys of other settings, whose names resemble keys that are read.
    """
    # the keys of a dict keep the order of the file, and are found quickly
    return dict.fromkeys(" ".join(_blocks()[f"@{block}"].lines).split()).keys()


@functools.cache
def pairs(block: str) -> dict[str, str]:
    """Return a dict from names to texts, for a block whose lines have the form "name: text".

    `architectures`: model type of each class whose configs have the model_type of another model. `unreadable`: why
    `from_config` returns no Rotary for a model type. `no rotations`: why `from_config` returns no Rotary for a
    rope_type. `foreign`: key to use instead of a key of another package.
    """
    return dict(line.split(": ", 1) for line in _blocks()[f"@{block}"].lines)


@functools.cache
def parts() -> dict[str, dict[str, str]]:
    """Return a dict from each composite model type to its parts with RoPE.

    The parts are a dict from the key of a part in the config to the default model type of the part.
    """
    texts = (pair.split(":") for pair in " ".join(_blocks()["@texts"].lines).split())
    others = pairs("parts").items()
    return {model: {"text_config": part} for model, part in texts} | {
        model: dict(pair.split(":") for pair in text.split()) for model, text in others
    }


@functools.cache
def types() -> dict[str, tuple[str, str]]:
    """Return a dict from each model type to (family, text of the settings that only this type has)."""
    return {
        model: (family_name, settings)
        for family_name, block in _blocks().items()
        for line in block.lines
        if line.startswith("models ")
        for model, settings in re.findall(r"([\w.-]+)(?:\(([^)]*)\))?", line.removeprefix("models "))
    }


@functools.cache
def families() -> dict[str, list[str]]:
    """Return a dict from each family with model types to these types, in the order of the file."""
    models: dict[str, list[str]] = {}
    for model, (family_name, _) in types().items():
        models.setdefault(family_name, []).append(model)
    return models


@functools.cache
def family(name: str) -> Row:
    """Return the row of a family, without the settings of its types."""
    return Row(model="", family=name, **_fields(name))


@functools.lru_cache(maxsize=1024)
def row(model: str) -> Row:
    """Return the row of a model type. An unlisted type has the row of the family UNKNOWN."""
    family_name, settings = types().get(model, (UNKNOWN, ""))
    return family(family_name)._replace(model=model, **_settings(settings))


def _fields(family_name: str) -> dict[str, Any]:
    """Return the fields of the row of a family, from its block and the blocks of its parents."""
    block = _blocks()[family_name]
    fields = {key: value for key, value in _fields(block.parent).items() if key != "note"} if block.parent else {}
    fields["source"] = block.source
    groups, needs = {}, []
    for line in block.lines:
        keyword, _, text = line.partition(" ")
        text = text.strip()
        before_colon, _, after_colon = text.partition(": ")
        match keyword:
            case "rules":
                fields |= _settings(text)
            case "layers":
                groups[before_colon] = LayerGroup(**_settings(after_colon))
            case "codes":
                layer_types = _settings(after_colon)
                fields["codes"] = before_colon, {int(code): layer_type for code, layer_type in layer_types.items()}
            case "pattern":
                fields["pattern"] = Pattern(**_settings(text)) if text else None
            case "axes":
                rule, *counts = before_colon.split()
                fields["sections"] = Sections(rule, tuple(map(int, counts)) or None, after_colon)
            case "aliases":
                fields["aliases"] = _settings(text)
            case "needs":
                # "key=required, default=value: meaning of other values"
                (key, required), (_, default) = _settings(before_colon).items()
                needs.append(Need(key, required, default, after_colon))
            case "rotated" | "note":
                fields[keyword] = text
    return fields | ({"groups": groups} if groups else {}) | ({"needs": tuple(needs)} if needs else {})


# settings whose value is a list of words
WORDS = {
    "switch", "width", "per_head", "factor_keys", "dim_keys", "base_keys", "without", "more_parameters", "keys",
    "layer_types",
}  # fmt: skip
# settings whose value is a float
NUMBERS = {"base", "factor", "only_factor", "yarn_factor"}
CONSTANTS = {"true": True, "false": False, "null": None}


def _settings(text: str) -> dict[str, Any]:
    """Return the value of each key in a text "key=value, key=value, ..". A key without a value is True."""
    return dict(_setting(*setting.strip().partition("=")) for setting in text.split(",")) if text else {}


def _setting(key: str, equals: str, text: str) -> tuple[str, Any]:
    """Return (key, value) of the three parts of a text "key=value"."""
    if not equals:
        return key, True
    if text in CONSTANTS:
        return key, CONSTANTS[text]
    if key in WORDS:
        return key, tuple(text.split())
    if key in NUMBERS:
        return key, float(text)
    return key, int(text) if text.isdigit() else text
