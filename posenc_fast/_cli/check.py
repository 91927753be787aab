"""The command check."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .arguments import add_command
from .output import report_error, say

ABOUT = """\
Say whether the position encoding of a model is right: frequencies, cosines and
sines, and position tables in its files, by their exact values and its config.

PATH is a folder of a model, or one of its files: .safetensors (or their index),
.npz, .npy, .gguf with the package gguf, .bin, .pt, .pth and .ckpt with torch,
which loads weights alone. Only tensors that can be positional are read.
"""
HELP = """\
Tensors that are alike but for numbers in their names share a line. Verdicts:
right, wrong, unknown (learned positions, or what has two readings).

examples:
  posenc-fast check models/llama
  posenc-fast check pytorch_model.bin --config config.json --json

A config without tensors has a verdict, too: current checkpoints store no
frequencies.

exit status: 0 all that was compared is right; 1 something is wrong; 2 nothing
could be compared, or a file could not be read.
"""


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser = add_command(commands, _check, "check", "is the position encoding of a model right?", ABOUT, HELP)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folder or file of a model")
    parser.add_argument("--config", metavar="FILE", help="config.json (default: that beside the files)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each PATH: path, compared and findings")


def _check(arguments: argparse.Namespace) -> int:
    from .._models.check.check import check

    status = 0
    for path in arguments.paths:
        try:
            report = check(path, config=arguments.config)
        except OSError as error:
            # the others are checked all the same
            report_error(f"{error.filename or path}: {error.strerror or error}")
            status = 2
            continue
        except (ValueError, TypeError, ImportError) as error:
            report_error(str(error))
            status = 2
            continue
        if arguments.json:
            say(json.dumps(report.to_json()))
        else:
            say(str(report), {"right": "green", "wrong": "red", "unknown": "yellow"})
        if report.ok is None:
            report_error(f"{path}: nothing could be compared")
            status = 2
        elif not report.ok:
            status = status or 1
    return status
