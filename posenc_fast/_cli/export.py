"""The command export."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
from typing import Any, get_args

import numpy as np

from .._core.numbers.formats import TYPES, float_type
from .._core.rotary.value import Rotary
from .._models.check.arrays import named
from ..typing import WeightLayout
from .arguments import add_command
from .formats import BFLOAT16_HELP
from .output import STANDARD, complain, opened, report_written, usable_target

ABOUT = """\
Export the rotary encoding of a model: a cache of cosines and sines for ONNX,
the header of a GGUF file, or the rotary parameters of a config.json.

MODEL is a config.json or params.json, a folder with one, or a .gguf file (with
the package gguf).
"""
HELP = """\
--onnx writes an .npz file with cos_cache and sin_cache, and prints attributes.
The caches and attributes are for RotaryEmbedding of ai.onnx (opset 23) and
com.microsoft. --gguf and --config write JSON. For some scalings, the JSON of
--gguf has arrays: rope_freqs.weight, or rope_factors_short.weight and
rope_factors_long.weight. Store them as float32 tensors, by which llama.cpp
divides the frequencies.

"""
EXAMPLES = """
examples:
  posenc-fast export config.json --onnx 4096 --dtype float16 -o rope.npz
  posenc-fast export models/llama --gguf llama --layout interleaved
  posenc-fast export model.gguf --config -o rope.json

exit status: 0 on success; 1 if a config.json cannot express the encoding, or
the layer has no rotary encoding; 2 for bad arguments or files, or an encoding
that --onnx or --gguf cannot express.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        _export,
        "export",
        "write a rotary encoding for another program",
        ABOUT,
        HELP + BFLOAT16_HELP + EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="config, folder or .gguf file")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--onnx", type=int, metavar="LENGTH", help="write cos_cache and sin_cache of LENGTH positions")
    target.add_argument(
        "--gguf", metavar="ARCHITECTURE", help="write metadata of a GGUF file for ARCHITECTURE, such as llama"
    )
    target.add_argument("--config", action="store_true", help="write head_dim and rope_parameters of a config.json")
    parser.add_argument(
        "-o",
        "--output",
        default=STANDARD,
        metavar="OUT",
        help="file (needed with --onnx), or - for standard output (default with --gguf and --config)",
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="index of the layer, from 0, if layers have different encodings"
    )
    parser.add_argument(
        "--layout",
        choices=get_args(WeightLayout),
        help="with --onnx and --gguf, unless MODEL is a .gguf file: layout of the weights (default: the layout of the "
        "model)",
    )
    parser.add_argument(
        "--seq-len", type=int, metavar="N", help="sequence length (needed for the scalings dynamic and longrope)"
    )
    parser.add_argument(
        "--num-heads", type=int, metavar="N", help="with --onnx: attribute num_heads, for inputs with 3 axes"
    )
    parser.add_argument("--dtype", choices=TYPES, help="with --onnx: dtype of the caches (default: float32)")


def _export(arguments: argparse.Namespace) -> int:
    for option in ("num_heads", "dtype") if arguments.onnx is None else ():
        if getattr(arguments, option) is not None:
            raise ValueError(f"--{option.replace('_', '-')} is only for --onnx; leave the option out")
    try:
        rotary = _rotary_of(arguments)
    except ValueError as error:
        # Errors of `from_config` and `from_gguf` name arguments. Name the options instead, and leave out layer_type,
        # which has no option.
        message = str(error).replace("give layer_type= (one of these kinds) or layer=", "give layer=")
        raise ValueError(re.sub(r"(?<= )(seq_len|layer|layout)=(?=[, ]|$)", _option_of, message)) from None
    if rotary is None:
        complain(f"posenc-fast: error: {arguments.model}: the layer has no rotary encoding")
        return 1
    if arguments.onnx is not None:
        _write_cache(arguments, rotary)
        return 0
    content = rotary.config() if arguments.config else rotary.gguf(arguments.gguf)
    if content is None:
        complain(f"posenc-fast: error: {arguments.model}: a config.json cannot express {rotary}")
        return 1
    text = json.dumps(content, indent=2, default=np.ndarray.tolist) + "\n"
    with opened(arguments.output) as file:
        file.write(text.encode())
        if arguments.output != STANDARD:
            report_written(arguments.output, file, repr(rotary))
    return 0


def _option_of(argument: re.Match[str]) -> str:
    """Return the option for an argument of `from_config`, such as ``--seq-len`` for ``seq_len=``."""
    return f"--{argument[1].replace('_', '-')}"


def _rotary_of(arguments: argparse.Namespace) -> Rotary | None:
    from .._models.check.files import config_in

    path: str = arguments.model
    layer: int | None = arguments.layer
    seq_len: int | None = arguments.seq_len
    if path.lower().endswith(".gguf"):
        if arguments.layout is not None:
            raise ValueError(
                f"--layout is only for configs, because the architecture of {path} determines the layout; leave "
                "--layout out"
            )
        return Rotary.from_gguf(path, layer=layer, seq_len=seq_len)
    file = path if path.lower().endswith(".json") else config_in(path)
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "the file or folder does not exist", path)
    if file is None:
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        raise ValueError(f"the folder {folder} has no config.json and no params.json; pass the path of a config")
    with named(str(file)):
        return Rotary.from_config(file, layer=layer, layout=arguments.layout, seq_len=seq_len)


def _write_cache(arguments: argparse.Namespace, rotary: Rotary) -> None:
    if not arguments.output.lower().endswith(".npz"):
        raise ValueError(f"--onnx writes an .npz file of two arrays; pass -o FILE.npz, not {arguments.output}")
    usable_target(arguments.output)
    dtype = float_type(arguments.dtype or "float32")
    cache = rotary.onnx_cache(arguments.onnx, dtype=dtype, num_heads=arguments.num_heads)
    # .npz files cannot contain the dtype bfloat16, so store raw bytes
    arrays = [array.view("V2") if dtype.name == "bfloat16" else array for array in cache[:2]]
    with opened(arguments.output) as file:
        np.savez(file, cos_cache=arrays[0], sin_cache=arrays[1])
        attributes = ", ".join(f"{name}={value}" for name, value in cache.attributes.items())
        report_written(arguments.output, file, f"shape {arrays[0].shape}, {dtype.name}", repr(rotary), attributes)
