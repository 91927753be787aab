"""The part of a config that describes RoPE, with the settings of its model type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from ..._core.numbers.arguments import count_of
from .table import UNKNOWN, LayerGroup, Row

Config = Mapping[str, Any]

# names of each setting in configs, in the order of search
SPELLINGS = {
    "hidden_size": ("hidden_size", "embed_dim", "n_embd", "d_model"),
    "decoder_num_attention_heads": ("decoder_num_attention_heads", "num_attention_heads"),
    "num_attention_heads": ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "seq_length"),
    "layer_types": ("layer_types", "layers_block_type"),
    "num_hidden_layers": ("num_hidden_layers", "num_layers", "n_layers", "n_layer"),
}  # fmt: skip
# start of errors about a config that is not a mapping, a path or a config object
ACCEPTED = "config must be a mapping, the path of a config.json or a config of transformers"
# Largest number of layers that a config may have. Models have far fewer. The limit also bounds the list of layer types,
# which has one entry per layer.
MOST_LAYERS = 100_000


class Undecided(ValueError):
    """The config may be valid, but determines no Rotary, for example because programs disagree about its meaning."""


class NoRotary(Undecided):
    """The model has no RoPE."""


class Several(ValueError):
    """The config has several encodings, and the caller must choose one.

    options: one mapping per encoding, with the arguments that choose this encoding.
    """

    def __init__(self, message: str, options: Iterable[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.options = options


def parameters_key(config: Mapping[str, Any]) -> str:
    """Return the key of the rotary parameters: rope_scaling, the old name, if it has a value, else rope_parameters."""
    return "rope_scaling" if config.get("rope_scaling") else "rope_parameters"


def as_mapping(config: Any, accepted: str = ACCEPTED) -> Config:
    """Return a mapping or a transformers config as a mapping. accepted: start of the error for other types."""
    if not isinstance(config, Mapping) and callable(getattr(config, "to_dict", None)):
        # transformers' to_dict omits model_type for some classes
        config = {"model_type": getattr(config, "model_type", None), **config.to_dict()}
    if not isinstance(config, Mapping):
        raise TypeError(f"{accepted}, not {type(config).__name__}")
    return config


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def check_same(places: Sequence[tuple[str, Any]], words: str) -> None:
    """Raise an error if the values of one setting differ.

    places: pairs of a place in the config and its value. words: name of the values, in the plural.
    """
    for where, value in places[1:]:
        if value != places[0][1]:
            raise ValueError(
                f"{places[0][0]}={places[0][1]!r} and {where}={value!r} are different {words}; leave one out of the "
                "config"
            )


class Part(NamedTuple):
    """The part of a config that describes RoPE, for the requested layers."""

    config: Config
    # how errors write the part, for example "config['text_config']"
    where: str
    # settings of the model type
    row: Row
    # rotary parameters
    rope: dict[str, Any]
    # how errors write the rotary parameters, for example "config['rope_parameters']"
    rope_where: str
    # settings of the requested kind of layers, if the model type has several kinds
    group: LayerGroup | None = None
    # index of the requested layer
    layer: int | None = None

    @property
    def model(self) -> str:
        """Model type in the config, or "this model" if it is missing, for errors."""
        return self.row.model or "this model"

    @property
    def is_unknown(self) -> bool:
        """Whether models.txt does not list the model type."""
        return self.row.family == UNKNOWN

    @property
    def nested(self) -> list[str]:
        """Names of the kinds of layers that have their own rotary parameters, which may be null."""
        rope = self.rope
        return [key for key in rope if isinstance(rope[key], Mapping) or self.is_null(key)]

    def is_null(self, label: str) -> bool:
        """Whether the rotary parameters of a group of layers are null, so that these layers have no RoPE."""
        return label in self.row.groups and label in self.rope and self.rope[label] is None

    def key(self, key: str) -> str:
        """Return the place of a key in the config, or of the alias that the config contains instead."""
        present = [name for name in SPELLINGS.get(key, ()) if self.config.get(name) is not None]
        return f"{self.where}[{present[0] if present else key!r}]"

    def get(self, key: str) -> Any:
        """Return the value of a key or of one of its aliases, or None if all are missing or null.

        Raise an error if two of them have different values.
        """
        places = [(self.key(name), self.config.get(name)) for name in SPELLINGS.get(key, (key,))]
        places = [(where, value) for where, value in places if value is not None]
        check_same(places, "values of one setting")
        return places[0][1] if places else None

    def integer(self, key: str, least: int) -> int | None:
        """Return the value of a key, which must be an integer of at least ``least``, or None if the key is missing."""
        value = self.get(key)
        return None if value is None else count_of(value, self.key(key), least)

    def needed(self, key: str, why: str = "is needed") -> Any:
        value = self.get(key)
        if value is None:
            raise Undecided(
                f"{self.where} lacks {key}, which {why}; add {key} to the config, or pass the config object of "
                "transformers, which has the defaults"
            )
        return value

    def depth(self) -> int | None:
        """Return the number of layers, or None if the config lacks it."""
        count = self.integer("num_hidden_layers", 0)
        if count is not None and count > MOST_LAYERS:
            raise ValueError(f"{self.key('num_hidden_layers')}={count} must be at most {MOST_LAYERS}")
        return count

    def types(self) -> list[Any] | None:
        """Return the type of each layer, from the config or from defaults, or None if the types are unknown."""
        listed, pattern, count = self.get("layer_types"), self.row.pattern, self.depth()
        if listed is not None:
            if not is_list(listed):
                raise TypeError(f"{self.key('layer_types')} must be a sequence of strings, not {listed!r}")
            types = list(listed)
            if not self.row.mlp_entries or "mlp" not in types:
                return types
            if len(types) % 2 or types[1::2] != ["mlp"] * (len(types) // 2) or "mlp" in types[::2]:
                raise ValueError(
                    f"{self.key('layer_types')} must have 'mlp' after the type of every layer, or contain no 'mlp'"
                )
            return types[::2]
        key, names = self.row.codes
        codes = self.config.get(key) if key else None
        if is_list(codes):
            unknown = [code for code in codes if code not in list(names)]
            if unknown:
                raise ValueError(
                    f"{self.key(key)} contains {unknown[0]!r}, but the allowed values are {', '.join(map(str, names))}"
                )
            return [names[code] for code in codes]
        if pattern is None or count is None:
            return None
        every = (self.integer(pattern.key, 1) if pattern.key else None) or pattern.every
        is_full = [
            (i if pattern.first else i + 1) % every == 0 or (pattern.last and i == count - 1) for i in range(count)
        ]
        return ["full_attention" if full else "sliding_attention" for full in is_full]

    def label(self, layer_type: Any) -> Any:
        """Return the key of a layer type in rotary parameters: the name of its group, or the type itself."""
        labels = (label for label, group in self.row.groups.items() if layer_type in group.layer_types)
        return next(labels, layer_type)

    def of_layer(self, values: Sequence[Any], where: str) -> Any:
        """Return the value of the requested layer from values per layer.

        If no index is requested, return the common value of the requested kind of layers, or of all layers with RoPE.
        Raise `Several` if these layers have different values or do not exist. where: place of the values in the config,
        for errors.
        """
        if self.layer is not None:
            if self.layer >= len(values):
                raise ValueError(f"{where} has {len(values)} values, one per layer, so layer={self.layer} has no value")
            return values[self.layer]
        # layers without RoPE have the value 0 or None
        used = [value for value in values if value]
        if self.group is not None:
            groups = [self.row.groups.get(self.label(layer_type)) for layer_type in self.types() or ()]
            used = [value for value, group in zip(values, groups, strict=False) if group is self.group]
        if not used or any(value != used[0] for value in used):
            first_layers = {repr(values[i]): i for i in reversed(range(len(values)))}
            raise Several(
                f"{where} has a value for each layer; give layer=, the index of a layer",
                [{"layer": i} for i in sorted(first_layers.values())],
            )
        return used[0]
