"""The command check."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .arguments import add_command
from .output import report_error, say

ABOUT = """\
Check the position encoding of a model: frequencies, cosines and sines, and
position tables. Compare them with exact values and the model's config.

PATH is a model folder or file: .safetensors (or their index), .npz, .npy, .gguf
(needs gguf), .bin, .pt, .pth or .ckpt (need torch; loaded with weights_only).
Only tensors that can be positional are read.
"""
HELP = """\
Equal tensors whose names differ only in numbers share a line. Verdicts: right,
wrong, unknown (learned positions, other weights, or an ambiguous config).

examples:
  posenc-fast check models/llama
  posenc-fast check pytorch_model.bin --config config.json --json

A config is checked even without tensors, because current checkpoints store no
frequencies.

exit status: 0 if every comparison is right; 1 if one is wrong; 2 if nothing
could be compared or a file could not be read.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, _check, "check", "check the position encoding of a model", ABOUT, HELP)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folder or file of a model")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="config.json or params.json (default: the one in the folder PATH, or next to the file PATH)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON for each PATH that can be read, with the "
        "keys path, compared (number of comparisons) and findings",
    )


def _check(arguments: argparse.Namespace) -> int:
    from .._models.check.check import check

    status = 0
    for path in arguments.paths:
        try:
            report = check(path, config=arguments.config)
        except OSError as error:
            # report the error, and continue with the other paths
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
