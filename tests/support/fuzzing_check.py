"""Random edits of configs, weights and GGUF metadata: `check` or `from_gguf` must notice a changed encoding."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

import posenc_fast as pf
from posenc_fast._models.check.arrays import open_archive
from posenc_fast._models.config.table import types

NAME = "model.layers.0.self_attn.rotary_emb.inv_freq"
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 5.0,
          "original_max_position_embeddings": 2048}  # fmt: skip
# configs whose values differ from the defaults of the model's class, so that omitted keys change the encoding
# fmt: off
CONFIGS = [
    {"model_type": "llama", "head_dim": 96, "rope_theta": 5e5},
    {"model_type": "llama", "head_dim": 96, "rope_theta": 5e5, "rope_scaling": YARN},
    {"model_type": "llama", "head_dim": 96, "rope_theta": 5e5, "rope_scaling": LLAMA3},
    {"model_type": "mistral", "head_dim": 96, "rope_theta": 2e4, "rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    {"model_type": "gpt_neox", "hidden_size": 1024, "num_attention_heads": 8, "rotary_pct": 0.5, "rotary_emb_base": 3e4},
    {"model_type": "qwen3", "head_dim": 96, "rope_parameters": {"rope_theta": 2e6, "rope_type": "default"}},
]
# fmt: on
# (part of the config, key) of values that do not change the encoding
WITHOUT_EFFECT = {("rope_parameters", "rope_type")}


def frequencies_of(config):
    return pf.Rotary.from_config(config).frequencies.astype(np.float32)


def misspelt(word, draw):
    """Return a word with one letter omitted, doubled, replaced, or exchanged with the next."""
    i = draw.randrange(len(word) - 1)
    one, two = word[i], word[i + 1]
    changes = (two, one * 2 + two, draw.choice("abcxyz_0") + two, two + one)
    return word[:i] + draw.choice(changes) + word[i + 2 :]


def edited(config, draw):
    """Return a config with one key omitted or misspelt, or with another value or type."""
    result = copy.deepcopy(config)
    places = [(key,) for key in result]
    places += [(key, inner) for key, value in result.items() if isinstance(value, dict) for inner in value]
    *outer, key = draw.choice([place for place in places if place not in WITHOUT_EFFECT])
    part = result[outer[0]] if outer else result
    value = part.pop(key)
    kind = draw.randrange(4)
    if kind == 1:
        part[misspelt(key, draw)] = value
    elif kind == 2 and isinstance(value, str):
        part[key] = misspelt(value, draw)
    elif kind == 2 and isinstance(value, (int, float)):
        part[key] = value * draw.choice([2, 3, 0.5, -1, 0, float("nan"), float("inf")])
    elif kind >= 2:
        part[key] = draw.choice([str(value), [value], {"value": value}, None, True])
    return result


def one_config(draw):
    config = draw.choice(CONFIGS)
    values, other = frequencies_of(config), edited(config, draw)
    model = other.get("model_type")
    if other == config or (model != config["model_type"] and model in list(types())):
        # the edit changed nothing, or gives another known type that may have the same encoding (mixtral for mistral)
        return
    report = pf.check({NAME: values}, config=other)
    assert report.findings[0].verdict != "right", (other, str(report))
    assert report.ok is not True, (other, str(report))
    try:
        pf.Rotary.from_config(other)
        can_be_read = True
    except (TypeError, ValueError):
        can_be_read = False
    assert (pf.check(other).ok is True) == can_be_read, other


def one_cut(draw):
    """`check` never reports frequencies as right if some of them are missing."""
    base = draw.choice([1e4, 1e5, 5e5, 1e6, 1.5e5, float(draw.randrange(100, 10**7))])
    config = {"model_type": "llama", "head_dim": 2 * draw.randrange(4, 65), "rope_theta": base}
    config |= draw.choice(
        [{}, *({"rope_scaling": one} for one in (YARN, LLAMA3, {"rope_type": "linear", "factor": 4.0}))]
    )
    values = frequencies_of(config)
    first, last = sorted(draw.sample(range(len(values) + 1), 2))
    cuts = values[first:last], values[: last - first], values[:: draw.randrange(2, 5)], np.delete(values, first - 1)
    some = draw.choice(cuts)
    if len(some) < len(values):
        report = pf.check({NAME: some}, config=config)
        assert report.ok is not True, (config, len(some), str(report))


def is_read(path):
    """Return whether `check` can read all headers and arrays of a file, instead of raising an error with a reason."""
    try:
        with open_archive(path) as archive:
            for name in archive.names:
                if not archive.header(name).unread:
                    archive.read(name)
    except ValueError as refused:
        error = str(refused)
    else:
        return True
    assert path in error
    assert len(error) < 900
    return False


def valid_header(draw):
    """Draw the entries of a safetensors header. Return them with the number of bytes of the data after the header."""
    entries, begin = {"__metadata__": {"format": "pt"}}, 0
    for i in range(draw.randrange(1, 4)):
        kind, size = draw.choice([("F32", 4), ("F16", 2), ("BF16", 2), ("I64", 8), ("BOOL", 1), ("F8_E4M3", 1)])
        shape = [draw.randrange(0, 5) for _ in range(draw.randrange(0, 3))]
        end = begin + size * int(np.prod(shape))
        entries[f"tensor {i}"] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return entries, begin


def file_of(entries, size):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


def edited_header(entries, draw):
    """Return the text of a header after one random edit of a value, a key or a letter."""
    name = draw.choice(list(entries)[1:])
    entry = entries[name]
    odd = [-1, 0, 1, 2, 7, 2**63, 2**64, 1e3, 1.5, False, None, "4", [], {}, "F32", "F64", "F4", "X", "\ud800"]
    kind = draw.randrange(9)
    if kind == 0:
        entry[draw.choice(list(entry))] = draw.choice(odd)
    elif kind == 1:
        numbers = entry[draw.choice(["shape", "data_offsets"])]
        if numbers and draw.random() < 0.7:
            del numbers[draw.randrange(len(numbers))]
        numbers.insert(draw.randrange(len(numbers) + 1), draw.choice(odd))
    elif kind == 2:
        numbers = entry["data_offsets"]
        numbers[draw.randrange(2)] += draw.choice([-8, -1, 1, 8])
    elif kind == 3:
        del entry[draw.choice(list(entry))]
    elif kind == 4:
        entries["__metadata__"] = draw.choice([*odd, {"a": 1}, {"a": None}, {"a": "\ud800"}, {"a": "b"}])
    elif kind == 5:
        entries["copy"] = dict(entry)
    text = json.dumps(entries, ensure_ascii=draw.random() < 0.9).encode("utf-8", "surrogatepass")
    if kind == 6:
        key = draw.choice([f'"{name}"', '"dtype"', '"shape"', '"data_offsets"', '"__metadata__"']).encode()
        end = text.index(key) + len(key) + 2
        value, _ = json.JSONDecoder().raw_decode(text[end:].decode())
        text = text[:end] + json.dumps(value).encode() + b", " + key + b": " + text[end:]
    elif kind == 7:
        i = draw.randrange(len(text))
        text = text[:i] + draw.choice([b"", b" ", b"0", b"9", b"-", b"}", b"]", b",", b"\xff", b"\0"]) + text[i + 1 :]
    elif kind == 8:
        text = draw.choice([b" " + text, text + b"  ", text + b"x", b"\xef\xbb\xbf" + text, b"[" + text + b"]"])
    return text


def one_header(draw):
    """`check` rejects all headers that the package safetensors rejects."""
    import safetensors

    entries, size = valid_header(draw)
    text = edited_header(entries, draw)
    size = max(0, size + draw.choice([0, 0, 0, 0, -1, 1, 8]))
    data = file_of(text, size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        path.write_bytes(data)
        try:
            safetensors.deserialize(data)
        except Exception:  # noqa: BLE001 - safetensors has its own type of error
            assert not is_read(str(path)), data


def one_archive(draw):
    """`check` reads the same arrays from an .npz file with changed bytes in its headers, or rejects the file."""
    arrays = {f"layers.{i}.inv_freq": frequencies_of(CONFIGS[0]) for i in range(draw.randrange(1, 3))}
    file = io.BytesIO()
    np.savez(file, **arrays)
    data = bytearray(file.getvalue())
    # change only headers, because a checksum protects the numbers
    headers = [i for i in range(len(data)) if i < 200 or i > len(data) - 300]
    for i in draw.sample(headers, draw.randrange(1, 4)):
        data[i] = draw.randrange(256)
    if draw.random() < 0.2:
        del data[draw.randrange(len(data)) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.npz")
        path.write_bytes(data)
        if not is_read(str(path)):
            return
        with open_archive(str(path)) as archive, contextlib.suppress(ValueError, KeyError, OSError):
            for name in archive.names:
                np.testing.assert_array_equal(archive.read(name), next(iter(arrays.values())))


# ---- metadata of GGUF -----------------------------------------------------------------------------------------------------

GGUF = {
    "general.architecture": "qwen2",
    "qwen2.embedding_length": 4096,
    "qwen2.attention.head_count": 32,
    "qwen2.attention.key_length": 128,
    "qwen2.rope.dimension_count": 128,
    "qwen2.rope.freq_base": 1e6,
    "qwen2.rope.scaling.type": "yarn",
    "qwen2.rope.scaling.factor": 4.0,
    "qwen2.rope.scaling.original_context_length": 32768,
}


def edit_gguf_key(draw):
    """from_gguf raises an error for a misspelt key, and names the key (except for general.architecture)."""
    key = draw.choice(list(GGUF))
    other = misspelt(key, draw)
    if other in GGUF:
        return
    metadata = {other if name == key else name: value for name, value in GGUF.items()}
    with pytest.raises((TypeError, ValueError)) as caught:
        pf.Rotary.from_gguf(metadata)
    assert repr(other) in str(caught.value) or key == "general.architecture", other


EDITS = {
    "edited configs": one_config,
    "cut frequencies": one_cut,
    "edited safetensors": one_header,
    "edited npz": one_archive,
    "edited GGUF keys": edit_gguf_key,
}
CASES = {
    name: lambda data, edit=edit: edit(data.draw(st.randoms(use_true_random=False))) for name, edit in EDITS.items()
}


def run(name, count, seed):
    """Run the named check of random edits `count` times."""
    draw = random.Random(seed)
    for _ in range(count):
        EDITS[name](draw)
