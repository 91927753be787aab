"""Convert the metadata of a GGUF file to the arguments of a `Rotary` with llama.cpp's angles."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.numbers.arguments import count_of, real, shown
from .._core.numbers.arrays import Floats
from .._core.numbers.exact import log
from .._core.numbers.names import meant
from .._core.rotary.pairs import MOST_VALUES, in_turn
from ..typing import WeightLayout

# These texts list architectures by their llama_model_rope_type in llama.cpp. The two values of a pair are adjacent in
# _NORMAL, and half of the rotated width apart in _NEOX. _CONTIGUOUS and _INTERLEAVED are like _NEOX, with contiguous or
# interleaved sections of axes. Architectures in _WITHOUT have no RoPE.
_NORMAL = """
    llama llada llama4 deci baichuan internlm2 minicpm xverse command-r cohere2 olmo arctic deepseek deepseek2
    deepseek2-ocr deepseek32 plm chatglm granite granitemoe granitehybrid chameleon bailingmoe neo-bert smollm3 arcee
    ernie4_5 ernie4_5-moe mistral3 mistral4 llama-embed maincoder glm-dsa glm4
"""
_NEOX = """
    falcon falcon-h1 grok dbrx nomic-bert nomic-bert-moe jina-bert-v3 modern-bert eurobert stablelm bitnet qwen qwen2
    qwen2moe qwen3 qwen3moe dream llada-moe rnd1 olmo2 olmoe phi2 phi3 phimoe plamo plamo2 gemma gemma2 gemma3 gemma3n
    gemma4 gemma-embedding starcoder2 openelm gptneox codeshell orion nemotron exaone exaone4 minicpm3 bailingmoe2 dots1
    hunyuan-moe hunyuan-dense jais2 gpt-oss lfm2 lfm2moe seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded afmoe
    laguna qwen3next mimo2 mellum glm4moe
"""
_CONTIGUOUS = "qwen2vl paddleocr"
_INTERLEAVED = "qwen3vl qwen3vlmoe qwen35 qwen35moe"
_WITHOUT = """
    clip gpt2 gptj mpt refact bloom starcoder bert mamba mamba2 jamba jina-bert-v2 t5 t5encoder jais rwkv6 rwkv6qwen2 rwkv7
    arwkv7 wavtokenizer-dec nemotron_h nemotron_h_moe kimi-linear
"""
# maps each architecture to its mode, one of the words below
ARCHITECTURES = {
    architecture: mode
    for mode, text in (
        ("normal", _NORMAL),
        ("neox", _NEOX),
        ("contiguous", _CONTIGUOUS),
        ("interleaved", _INTERLEAVED),
        ("none", _WITHOUT),
    )
    for architecture in text.split()
}
# architectures of _NORMAL and _NEOX whose files may have sections; these sections are contiguous
_SECTIONED = ("glm4", "glm4moe")
# architectures that rotate whole heads; llama.cpp rejects files in which only a part of the head rotates
_WHOLE = ("llama", "deci", "falcon", "llama-embed")
# architectures in which every fourth layer has no RoPE
_EVERY_FOURTH_WITHOUT = ("llama4", "smollm3")
# architectures in which rope.scaling.finetuned switches RoPE on or off
_SWITCHED = ("granite", "granitemoe", "granitehybrid")
# architectures in which most layers are recurrent
_RECURRENT = ("qwen3next", "qwen35", "qwen35moe")
# architectures that read beta_fast and beta_slow of YaRN; for other architectures, both are constants of llama.cpp
BETAS = ("mistral3", "grok", "laguna")
# maps each architecture that reads yarn_log_multiplier to the value of this key for models with mscale_all_dim=1
_LOG_MULTIPLIERS = {"deepseek2": 0.1, "deepseek2-ocr": 0.1, "deepseek32": 0.1, "mistral4": 0.1, "glm-dsa": 0.1,
                    "mistral3": 1.0}  # fmt: skip
# names of tensors that contain divisors of the frequencies
FACTORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
# all keys that this module reads, without the architecture's prefix
_READ = """
    block_count context_length embedding_length full_attention_interval attention.head_count attention.head_count_kv
    attention.key_length attention.key_length_swa attention.kv_lora_rank attention.sliding_window
    attention.sliding_window_pattern rope.dimension_count rope.dimension_count_swa rope.dimension_sections rope.freq_base
    rope.freq_base_swa rope.scale_linear rope.scaling.type rope.scaling.factor rope.scaling.attn_factor
    rope.scaling.original_context_length rope.scaling.finetuned rope.scaling.yarn_log_multiplier
    rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow
"""
_KEYS = frozenset(_READ.split())
# prefixes of keys about positions; unknown keys with such a prefix raise an error
_ABOUT_POSITIONS = ("rope", "attention.rope", "attention.key_length")
# keys about positions that this module accepts and ignores
_UNUSED = ("attention.key_length_mla",)
# maps each key of the scaling yarn to its default, which llama.cpp uses for all architectures that do not read the key
_YARN = {"yarn_ext_factor": 1.0, "yarn_attn_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}


class Windows(NamedTuple):
    """The layers with a sliding window (all except every n-th), and how they differ from layers without a window."""

    # n, the distance from one layer without a window to the next; None if the file lists the layers
    every: int | None
    # whether the layer without a window is the first of every n layers, instead of the last
    first: bool = False
    # default base of layers with a window; None: these layers have the base of the other layers
    base: float | None = None
    # whether layers with a window also have the scaling of the other layers
    scaled: bool = True
    # whether layers without a window have RoPE
    others_rotate: bool = True


# sliding windows of each architecture that has layers with and without them
_WINDOWS = {
    "gemma3": Windows(6, base=10000.0, scaled=False),
    "gemma3n": Windows(5, base=10000.0, scaled=False),
    "gemma-embedding": Windows(6, base=10000.0, scaled=False),
    "gemma4": Windows(None, base=10000.0, scaled=False),
    "modern-bert": Windows(3, first=True, base=10000.0, scaled=False),
    "laguna": Windows(None, base=10000.0, scaled=False),
    "olmo2": Windows(4, scaled=False),
    "mellum": Windows(4, scaled=False),
    "mimo2": Windows(None, base=10000.0, scaled=False),
    "gpt-oss": Windows(2),
    "cohere2": Windows(4, others_rotate=False),
    "exaone4": Windows(4, others_rotate=False),
    "afmoe": Windows(4, others_rotate=False),
}


class Metadata:
    """The metadata of a GGUF file, and its architecture. where: place of the metadata, for errors.

    layer: index of the requested layer. `get` returns the value of this layer if a key has one value per layer.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values, self.where = values, where
        if values.get("general.architecture") is None:
            raise ValueError(f"{where} lacks 'general.architecture'; pass the complete metadata of a GGUF file")
        architecture = str(values["general.architecture"])
        self.architecture, self.mode = architecture, ARCHITECTURES.get(architecture, "")
        self.layer: int | None = None
        if not self.mode:
            raise ValueError(
                f"{where}: the architecture {architecture!r} is unknown, and GGUF has no key for the order of pairs, so "
                f"call Rotary(head_dim, base=.., layout='half' or 'interleaved'){meant(architecture, ARCHITECTURES)}"
            )
        if self.mode == "none":
            raise ValueError(f"{where}: the architecture {architecture!r} has no rotary encoding in llama.cpp")

    def check_keys(self) -> None:
        """Raise an error for unknown keys about positions, misspelt keys, and keys of another architecture."""
        known = {*(f"{self.architecture}.{key}" for key in (*_KEYS, *_UNUSED)), *FACTORS, "general.architecture"}
        shortened = set().union(*map(_shortened, known))
        for key, value in self._values.items():
            if value is None or key in known:
                continue
            key = str(key)
            _, _, without_prefix = key.partition(".")
            if (
                without_prefix in _KEYS
                or without_prefix.startswith(_ABOUT_POSITIONS)
                or key.startswith("rope_")
                or not shortened.isdisjoint(_shortened(key))
            ):
                suggestion = meant(key, known)
                raise ValueError(
                    f"{self.where}[{key!r}] is unknown for the architecture {self.architecture!r}"
                    f"{f'{suggestion} Correct' if suggestion else '; correct'} or remove the key, or call "
                    "Rotary(head_dim, base=.., scaling=..)"
                )

    def key(self, key: str) -> str:
        return f"{self.where}['{self.architecture}.{key}']"

    def has_factors(self) -> bool:
        return any(self._values.get(name) is not None for name in FACTORS)

    def tensor(self, name: str, pairs: int) -> Floats | None:
        """Return the divisors of all frequencies from the tensor with this name, or None if the tensor is missing."""
        value = self._values.get(name)
        if value is None:
            return None
        array = np.asarray(value, np.float64).reshape(-1)
        if array.shape != (pairs,):
            raise ValueError(
                f"{self.where}[{name!r}] has {array.size} numbers, but must have one number for each of {pairs} pairs"
            )
        is_valid = (array > 0) & np.isfinite(array)
        if not is_valid.all():
            k = int(np.argmin(is_valid))
            raise ValueError(
                f"{self.where}[{name!r}][{k}] is {array[k]:g}, but must be finite and above 0, because frequencies "
                "are divided by this number"
            )
        return array

    def get(self, key: str) -> Any:
        """Return the value of a key for the requested layer, or None if the key is missing.

        If no layer is requested, the values of all layers must be equal.
        """
        value = self._values.get(f"{self.architecture}.{key}")
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            return value
        if self.layer is not None and self.layer < len(value):
            return value[self.layer]
        if not value or (self.layer is not None and any(one != value[0] for one in value)):
            raise ValueError(f"{self.key(key)}={value!r} must have one value per layer")
        if any(one != value[0] for one in value):
            raise ValueError(f"{self.key(key)}={value!r} differs between layers; give layer=, the index of a layer")
        return value[0]

    def listed(self, key: str) -> list[Any] | None:
        """Return the array in a key as a list, or None if the key is missing or contains a single value."""
        value = self._values.get(f"{self.architecture}.{key}")
        return list(value) if isinstance(value, (list, tuple, np.ndarray)) else None

    def count(self, key: str, least: int = 1) -> int | None:
        value = self.get(key)
        return None if value is None else count_of(value, self.key(key), least)

    def number(self, key: str, default: float) -> float:
        value = self.get(key)
        return default if value is None else real(value, self.key(key), positive=True)

    def needed(self, key: str) -> int:
        count = self.count(key)
        if count is None:
            raise ValueError(
                f"{self.where} lacks '{self.architecture}.{key}', which the encoding depends on; add it to the metadata"
            )
        return count


def arguments_of(source: Any, layer: Any = None, seq_len: Any = None) -> dict[str, Any] | None:
    """Return the arguments of the `Rotary` that GGUF metadata or a file describes; None for a layer without RoPE."""
    if isinstance(source, Mapping):
        metadata = Metadata(source, "source")
    elif isinstance(source, (str, os.PathLike)):
        metadata = Metadata(_read(os.fspath(source)), os.fspath(source))
    else:
        raise TypeError(
            f"source must be the path of a GGUF file or a mapping of its metadata, not {type(source).__name__}"
        )
    metadata.check_keys()
    if layer is not None:
        metadata.layer = _checked_layer(metadata, layer)
    if not _rotates(metadata):
        return None
    windows = _WINDOWS.get(metadata.architecture, Windows(None))
    has_window = _has_window(metadata)
    if has_window is False and not windows.others_rotate:
        return None
    head, dim = _widths(metadata, "_swa" if has_window else "")
    base = metadata.number("rope.freq_base", 10000.0)
    if has_window:
        base = metadata.number("rope.freq_base_swa", base if windows.base is None else windows.base)
    scaling = _scaling(metadata, dim // 2, seq_len, is_scaled=windows.scaled or not has_window)
    result: dict[str, Any] = {"head_dim": head, "rotary_dim": dim, "base": base, "scaling": scaling}
    sections = _sections(metadata, dim // 2)
    result["layout"] = "interleaved" if metadata.mode == "normal" and not sections else "half"
    return result | ({"sections": sections} if sections and any(sections) else {})


def _shortened(key: str) -> set[str]:
    """Return the key, and each text that results if one character of the key is left out.

    The sets of two keys that differ by one character have a common element.
    """
    # keys of 100 or more characters are not shortened, because all known keys are much shorter
    return {key, *(key[:i] + key[i + 1 :] for i in range(len(key) if len(key) < 100 else 0))}


def layout_of(architecture: Any) -> WeightLayout:
    """Return the layout of an architecture, or raise an error if the architecture is unknown or has no RoPE."""
    mode = ARCHITECTURES.get(architecture) if isinstance(architecture, str) else None
    if mode is None:
        advice = meant(architecture, ARCHITECTURES) or "; give llama.cpp's name of a model, such as 'llama'"
        raise ValueError(f"architecture={architecture!r} is unknown{advice}")
    if mode == "none":
        raise ValueError(
            f"architecture={architecture!r} has no rotary encoding in llama.cpp; give another architecture"
        )
    return "interleaved" if mode == "normal" else "half"


# ---- files -----------------------------------------------------------------------------------------------------------


def open_gguf(path: str) -> Any:
    """Return the reader of the package gguf for a file. Tensors are memory-mapped."""
    try:
        import gguf
    except ImportError:
        raise ImportError(f"{path}: GGUF needs the package gguf; run pip install gguf") from None
    if not os.path.exists(path):
        raise FileNotFoundError(2, "the file does not exist", path)
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a regular file; give the path of a GGUF file")

    class Reader(gguf.GGUFReader):  # type: ignore[misc]  # gguf has no types
        """A reader that raises EOFError if the file ends too early. The package's own reader returns fewer values."""

        def _get(self, offset: Any, dtype: Any, count: int = 1, *options: Any, **more: Any) -> Any:
            if int(offset) + np.dtype(dtype).itemsize * int(count) > len(self.data):
                raise EOFError("the file ends too early")
            return super()._get(offset, dtype, count, *options, **more)

    with _errors_about(path):
        return Reader(path)


@contextlib.contextmanager
def _errors_about(path: str) -> Iterator[None]:
    """Convert errors of the package's reader to a ValueError with the path. A broken file may cause any error."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        raise ValueError(f"{path} cannot be read as GGUF: {type(error).__name__}: {error}") from None


def _read(path: str) -> dict[str, Any]:
    reader = open_gguf(path)
    with _errors_about(path):
        values = {
            name: field.contents()
            for name, field in reader.fields.items()
            # the vocabulary is large, and not needed
            if not name.startswith("tokenizer.")
        }
    for tensor in reader.tensors:
        if tensor.name.startswith("rope_"):
            if tensor.tensor_type.name != "F32":
                raise ValueError(f"{path}: {tensor.name} is of type {tensor.tensor_type.name}, but must be F32")
            values[tensor.name] = np.array(tensor.data)
    return values


# ---- layers ----------------------------------------------------------------------------------------------------------


def _checked_layer(metadata: Metadata, layer: Any) -> int:
    index, blocks = count_of(layer, "layer", 0), metadata.count("block_count")
    if blocks is not None and index >= blocks:
        raise ValueError(
            f"layer={index} is too large: {metadata.key('block_count')} is {blocks}, and layers are counted from 0"
        )
    return index


def _rotates(metadata: Metadata) -> bool:
    """Return whether the requested layer has RoPE.

    If no layer is requested, return True, or raise an error if no layer has RoPE.
    """
    architecture, layer = metadata.architecture, metadata.layer
    if architecture == "baichuan" and metadata.count("block_count") == 40:
        raise ValueError(f"{metadata.key('block_count')}=40 means Baichuan 13B, which has ALiBi instead of RoPE")
    if architecture in _SWITCHED and metadata.get("rope.scaling.finetuned") is False:
        if layer is None:
            raise ValueError(
                f"{metadata.key('rope.scaling.finetuned')}=False means no rotary encoding in {architecture!r}"
            )
        return False
    if layer is None:
        return True
    for key in ("attention.head_count", "attention.head_count_kv"):
        heads = metadata.listed(key)
        if heads is not None and layer < len(heads) and heads[layer] == 0:
            return False
    if architecture in _RECURRENT:
        return (layer + 1) % (metadata.count("full_attention_interval") or 4) == 0
    if architecture == "llama4" and metadata.get("attention.sliding_window") == 0:
        raise ValueError(
            f"{metadata.key('attention.sliding_window')}=0 leaves open which layers of {architecture!r} have RoPE; "
            "leave the argument layer out"
        )
    return architecture not in _EVERY_FOURTH_WITHOUT or (layer + 1) % 4 != 0


def _has_window(metadata: Metadata) -> bool | None:
    """Return whether the requested layer has a sliding window, or None if all layers have the same encoding.

    If no layer is requested and only layers with a sliding window have RoPE, return True.
    """
    windows, layer = _WINDOWS.get(metadata.architecture), metadata.layer
    size = metadata.get("attention.sliding_window")
    if metadata.architecture == "exaone4" and metadata.get("block_count") != 64:
        size = None
    # keys for layers with sliding-window attention
    swa_keys = ("rope.freq_base_swa", "rope.dimension_count_swa", "attention.key_length_swa")
    present = [key for key in swa_keys if metadata.get(key) is not None]
    if windows is None or not size:
        for key in present:
            other = metadata.get(key.removesuffix("_swa"))
            if metadata.get(key) != other:
                raise ValueError(
                    f"{metadata.key(key)}={metadata.get(key)!r} is for layers with a sliding window, but posenc_fast "
                    f"does not know which layers of this {metadata.architecture!r} model have one; call "
                    "Rotary(head_dim, base=.., layout=..)"
                )
        return None
    if layer is None:
        if not windows.others_rotate:
            return True
        if not present and windows.base is None and (windows.scaled or _is_unscaled(metadata)):
            return None
        raise ValueError(
            f"layers with a sliding window ({metadata.key('attention.sliding_window')}={size!r}) and the other layers "
            "may have different encodings; give layer=, the index of a layer"
        )
    key = "attention.sliding_window_pattern"
    pattern = metadata.listed(key)
    if pattern is not None:
        if layer >= len(pattern):
            raise ValueError(
                f"{metadata.key(key)} has {len(pattern)} values, one per layer, so layer={layer} has no value"
            )
        return bool(pattern[layer])
    if windows.every is None:
        raise ValueError(
            f"{metadata.key(key)} must be an array with one value per layer; the value is 0 for layers without a "
            "sliding window"
        )
    every = metadata.count(key) or windows.every
    return layer % every != 0 if windows.first else layer % every < every - 1


def _is_unscaled(metadata: Metadata) -> bool:
    return metadata.number("rope.scaling.factor", 1.0) == 1 and not metadata.has_factors()


# ---- widths, axes, scalings ------------------------------------------------------------------------------------------


def _widths(metadata: Metadata, swa: str) -> tuple[int, int]:
    """Return (head width, number of rotated values). swa: suffix of the keys for layers with a sliding window, or "".

    With latent attention, both numbers are the width of the rotated part.
    """
    head = metadata.count(f"attention.key_length{swa}") or metadata.count("attention.key_length")
    if head is None:
        head = metadata.needed("embedding_length") // metadata.needed("attention.head_count")
    if head > MOST_VALUES:
        raise ValueError(
            f"{metadata.where} has heads of {shown(head)} values, but at most {MOST_VALUES} values can rotate; correct "
            "attention.key_length, or embedding_length and attention.head_count"
        )
    key = f"rope.dimension_count{swa}"
    dim = metadata.count(key)
    if dim is None:
        key = "rope.dimension_count"
        dim = metadata.count(key)
    if metadata.count("attention.kv_lora_rank", 0):
        dim = metadata.needed("rope.dimension_count")
        return dim, dim
    if dim is None:
        dim = head
    if dim > head:
        raise ValueError(f"{metadata.key(key)}={dim} is more than the {head} values of a head; correct the key")
    if dim != head and metadata.architecture in _WHOLE:
        raise ValueError(
            f"{metadata.key(key)}={dim} differs from the head width {head}; llama.cpp rejects such a file. Correct one "
            "of the two"
        )
    return head, dim


def _sections(metadata: Metadata, pairs: int) -> list[int] | None:
    """Return the axis of each pair, or None if there is one axis."""
    key = "rope.dimension_sections"
    counts, mode = metadata.listed(key), metadata.mode
    if not counts or not any(counts):
        if mode in ("contiguous", "interleaved"):
            raise ValueError(
                f"{metadata.key(key)} is missing or 0, but {metadata.architecture!r} needs it; add it to the metadata"
            )
        return None
    if mode in ("normal", "neox") and metadata.architecture not in _SECTIONED:
        raise ValueError(
            f"{metadata.key(key)}={counts} is not read by llama.cpp for {metadata.architecture!r}; remove the key"
        )
    numbers = [count_of(number, metadata.key(key), 0) for number in counts]
    while numbers and not numbers[-1]:
        numbers.pop()
    if sum(numbers) != pairs or 0 in numbers:
        raise ValueError(f"{metadata.key(key)}={counts} must add up to {pairs} pairs, with zeros only at the end")
    if mode == "interleaved":
        return in_turn(numbers, pairs)
    return [axis for axis, number in enumerate(numbers) for _ in range(number)]


def _scaling(metadata: Metadata, pairs: int, seq_len: Any, is_scaled: bool) -> dict[str, Any] | None:
    """Return rope_type and its parameters, or None if the frequencies have no scaling.

    is_scaled: whether the file's scaling applies to the requested layer.
    """
    factor, attention = _factor(metadata), metadata.number("rope.scaling.attn_factor", 1.0)
    name = metadata.get("rope.scaling.type")
    name = "linear" if name is None else name
    if name not in ("none", "linear", "yarn", "longrope"):
        raise ValueError(f"{metadata.key('rope.scaling.type')}={name!r} must be one of none, linear, yarn, longrope")
    _check_yarn(metadata, name)
    if not is_scaled:
        if attention != 1:
            raise ValueError(
                f"{metadata.key('rope.scaling.attn_factor')}={attention} leaves open whether layers with a "
                "sliding window have this factor; if they do not, call Rotary(head_dim, base=.., layout=..)"
            )
        return None
    divisors = metadata.tensor("rope_freqs.weight", pairs)
    short, long = (metadata.tensor(f"rope_factors_{kind}.weight", pairs) for kind in ("short", "long"))
    length = metadata.number("rope.scaling.original_context_length", metadata.number("context_length", 1.0))
    if short is not None or long is not None:
        if short is None or long is None:
            missing, other = ("short", "long") if short is None else ("long", "short")
            raise ValueError(
                f"{metadata.where} has rope_factors_{other}.weight, but lacks rope_factors_{missing}.weight; add the "
                "missing tensor"
            )
        if divisors is not None:
            raise ValueError("rope_freqs.weight and rope_factors_short.weight exclude each other; remove one of them")
        if factor != 1 or name == "yarn":
            scaling = "the scaling type yarn" if name == "yarn" else f"the scaling factor {factor:g}"
            raise ValueError(f"rope_factors_short.weight and {scaling} exclude each other; remove one of them")
        if seq_len is None:
            raise ValueError(
                f"{metadata.where} has different frequencies for sequences up to {length:g} tokens and for longer "
                f"ones; give seq_len=, the length of your sequence (or {length:g} for all shorter sequences)"
            )
        seq_len = real(seq_len, "seq_len", positive=True)
        return _divided(short.tolist(), long.tolist(), length, attention) | {"seq_len": seq_len}
    if name == "longrope":
        raise ValueError(
            f"{metadata.key('rope.scaling.type')}='longrope' needs the tensors rope_factors_short.weight and "
            "rope_factors_long.weight; pass the path of the file, or a mapping that contains these tensors"
        )
    if name == "yarn":
        if divisors is not None:
            raise ValueError("rope_freqs.weight and the scaling type yarn exclude each other; remove one of them")
        return _yarn(metadata, factor, attention, length)
    if name == "none":
        factor = 1.0
    if divisors is not None:
        if factor != 1:
            raise ValueError(
                f"rope_freqs.weight and a scaling factor of {factor:g} exclude each other; remove one of them"
            )
        return _divided(divisors.tolist(), divisors.tolist(), length, attention)
    if attention != 1:
        return _divided([factor] * pairs, [factor] * pairs, length, attention)
    return None if factor == 1 else {"rope_type": "linear", "factor": factor}


def _divided(short: list[float], long: list[float], length: float, attention: float) -> dict[str, Any]:
    """Return a scaling that divides each frequency by a number in a list.

    short: divisors for sequences up to ``length``. long: divisors for longer sequences. attention: factor of cosines
    and sines.
    """
    return {
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": length,
        "attention_factor": attention,
    }


def _factor(metadata: Metadata) -> float:
    """Return the divisor of the positions from the current or the old key, or 1 if both are missing or 0."""
    for key in ("rope.scaling.factor", "rope.scale_linear"):
        value = metadata.get(key)
        # zero means that the value is missing
        if value:
            return real(value, metadata.key(key), positive=True)
    return 1.0


def _check_yarn(metadata: Metadata, name: str) -> None:
    """Raise an error if a key of yarn differs from its default, but llama.cpp does not read it.

    Which keys llama.cpp reads depends on the architecture and on the scaling type.
    """
    for key, default in _YARN.items():
        value = metadata.number(f"rope.scaling.{key}", default)
        is_read = key.startswith("yarn_beta") and metadata.architecture in BETAS and name == "yarn"
        if value != default and not is_read:
            raise ValueError(
                f"{metadata.key('rope.scaling.' + key)}={value:g} is not read by llama.cpp for "
                f"{metadata.architecture!r} and the scaling type {name!r}; llama.cpp uses {default:g} instead. "
                "Remove the key, or call Rotary(head_dim, scaling=..)"
            )


def _yarn(metadata: Metadata, factor: float, attention: float, length: float) -> dict[str, Any]:
    architecture = metadata.architecture
    result = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": length}
    for name in ("beta_fast", "beta_slow"):
        result[name] = metadata.number(f"rope.scaling.yarn_{name}", _YARN[f"yarn_{name}"])
    multiplier = metadata.get("rope.scaling.yarn_log_multiplier")
    if multiplier:
        unit = _LOG_MULTIPLIERS.get(architecture)
        value = real(multiplier, metadata.key("rope.scaling.yarn_log_multiplier"), positive=True)
        # in DeepSeek 2, mscale equals mscale_all_dim, and only their quotient, 1, matters, so any multiplier is right
        if unit is None or (architecture != "deepseek2" and abs(value / unit - 1) > 1e-6):
            raise ValueError(
                f"{metadata.key('rope.scaling.yarn_log_multiplier')}={value:g} has no known meaning for "
                f"{architecture!r}; "
                "call Rotary(head_dim, scaling={'rope_type': 'yarn', .., 'attention_factor': ..})"
            )
        result["attention_factor"] = attention
    elif attention != 1:
        result["attention_factor"] = yarn_attention_factor(factor) * attention
    return result


def yarn_attention_factor(factor: float) -> float:
    """Return the attention factor that llama.cpp computes from the factor of a YaRN scaling."""
    return 1.0 if factor <= 1 else 0.1 * float(log(factor)) + 1.0
