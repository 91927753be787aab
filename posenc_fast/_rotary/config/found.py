"""The part of a config that turns queries and keys, with what its family says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from ..._numbers.arguments import count_of
from .families import Family, LayerGroup

__all__ = ["SPELLINGS", "Config", "Found", "check_same", "is_list"]

Config = Mapping[str, Any]

# other spellings of a key, in the order in which they are looked for
SPELLINGS = {
    "hidden_size": ("hidden_size", "embed_dim", "n_embd", "d_model"),
    "decoder_num_attention_heads": ("decoder_num_attention_heads", "num_attention_heads"),
    "num_attention_heads": ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "seq_length"),
    "layer_types": ("layer_types", "layers_block_type"),
    "num_hidden_layers": ("num_hidden_layers", "num_layers", "n_layers", "n_layer"),
}  # fmt: skip


# more layers than any model has; their types are told one by one
MOST_LAYERS = 100_000


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def check_same(given: Sequence[tuple[str, Any]], words: str) -> None:
    """An error for places, with their values, that mean the same and have two of them; words: what they are."""
    for where, value in given[1:]:
        if value != given[0][1]:
            raise ValueError(f"{given[0][0]}={given[0][1]!r} and {where}={value!r} are two {words}; leave one out")


class Found(NamedTuple):
    """config: the part, and where it is, as an error names it. model: its type. rope: its rotary parameters, and where.

    group, layer: of the layers that are meant, where there are several groups, or bases for each.
    """

    config: Config
    where: str
    model: str
    family: Family
    rope: dict[str, Any]
    rope_where: str
    group: LayerGroup | None = None
    layer: int | None = None

    def key(self, key: str) -> str:
        return f"{self.where}[{key!r}]"

    def get(self, key: str) -> Any:
        """The value of a key that is there and not null, in any of its spellings."""
        found = {name: self.config.get(name) for name in SPELLINGS.get(key, (key,))}
        given = [(self.key(name), value) for name, value in found.items() if value is not None]
        check_same(given, "spellings of one key")
        return given[0][1] if given else None

    def needed(self, key: str, why: str = "is needed") -> Any:
        value = self.get(key)
        if value is None:
            raise ValueError(
                f"{self.where} lacks {key}, which {why}; add it, or give transformers' config object, which knows the "
                "values that a file leaves out"
            )
        return value

    def depth(self) -> int | None:
        """The number of layers, where the config has it."""
        value = self.get("num_hidden_layers")
        count = None if value is None else count_of(value, self.key("num_hidden_layers"), 0)
        if count is not None and count > MOST_LAYERS:
            raise ValueError(f"{self.key('num_hidden_layers')}={count} must be at most {MOST_LAYERS}")
        return count

    def types(self) -> list[Any] | None:
        """The types of all layers, where the config or the family tells."""
        given, pattern, count = self.get("layer_types"), self.family.pattern, self.depth()
        if given is not None:
            if not is_list(given):
                raise TypeError(f"{self.key('layer_types')} must be a sequence of strings, not {given!r}")
            return list(given)
        key, names = self.family.codes
        codes = self.config.get(key) if key else None
        if is_list(codes):
            unknown = [code for code in codes if code not in list(names)]
            if unknown:
                raise ValueError(f"{self.key(key)} has {unknown[0]!r}, which is none of {', '.join(map(str, names))}")
            return [names[code] for code in codes]
        if pattern is None or count is None:
            return None
        every = self.config.get(pattern.key) if pattern.key else None
        every = pattern.every if every is None else count_of(every, self.key(pattern.key), 1)
        full = [(i if pattern.first else i + 1) % every == 0 or (pattern.last and i == count - 1) for i in range(count)]
        return ["full_attention" if one else "sliding_attention" for one in full]

    def label(self, layer_type: Any) -> Any:
        """The name that the rotary parameters for layers of a type have."""
        named = (label for label, group in self.family.groups.items() if layer_type in group.layer_types)
        return next(named, layer_type)

    def of_layer(self, values: Sequence[Any], where: str) -> Any:
        """A layer's own among the values of all; or the one that all layers have that are meant."""
        if self.layer is not None:
            if self.layer >= len(values):
                raise ValueError(f"{where} has {len(values)} values, none for layer={self.layer}")
            return values[self.layer]
        mine = [value for value in values if value]
        if self.group is not None:
            types = self.types() or ()
            mine = [value for value, one in zip(values, types, strict=False) if self.is_mine(one)]
        if not mine or any(value != mine[0] for value in mine):
            raise ValueError(f"{where} has a value for each layer; give layer=")
        return mine[0]

    def is_mine(self, layer_type: Any) -> bool:
        """Whether layers of a type are of the group that is meant."""
        return self.family.groups.get(self.label(layer_type)) is self.group
