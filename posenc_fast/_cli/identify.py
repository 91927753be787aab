"""The command identify."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

import numpy as np

from .._core.numbers.names import meant
from .._models.check.arrays import Archive, as_bfloat16, open_archive, read_array
from .arguments import add_command, number
from .output import say

ABOUT = """\
Print the encoding that computed TABLE, its presets, and the call that rebuilds
it. The exit status is 1 if no known encoding matches.

TABLE has the rows of consecutive positions. Give a .npy file, or an .npz or
.safetensors file with a --key. An array of one dimension under a key holds the
frequencies of a rotary encoding. Without --key, the file has one array, or
arrays named like the arguments of posenc_fast.identify_rotary: frequencies; cos
and sin; or x, turned and positions.
"""
HELP = """\
Arrays of type |V2 are read as bfloat16: NumPy stores bfloat16 as raw bytes.

examples:
  posenc-fast identify pe.npy
  posenc-fast identify model.safetensors --key encoder.embed_positions.weight
  posenc-fast identify rotary.npz
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, _identify, "identify", "identify the encoding that computed a table", ABOUT, HELP)
    parser.add_argument("table", metavar="TABLE", help=".npy, .npz or .safetensors file")
    parser.add_argument("--key", metavar="NAME", help="name of the array in an .npz or .safetensors file")
    parser.add_argument("--start", type=number, help="position of the first row (default: identified from the table)")


def _identify(arguments: argparse.Namespace) -> int:
    from .. import identify, identify_rotary

    rotary: dict[str, Any] = {}
    table = np.empty(0)
    path = arguments.table
    if path.lower().endswith((".npz", ".safetensors")):
        with open_archive(path) as archive:
            known = tuple(inspect.signature(identify_rotary).parameters)
            if arguments.key is None and set(archive.names) <= set(known):
                rotary = {name: archive.read(name) for name in archive.names}
            else:
                key = _key(archive, arguments.key, path, known)
                table = archive.read(key)
                if table.ndim == 1:
                    rotary = {"frequencies": table}
    elif arguments.key is not None:
        raise ValueError(f"{path} has no keys (only .npz and .safetensors files have keys); leave --key out")
    else:
        table = as_bfloat16(read_array(path))
    if rotary and arguments.start is not None:
        raise ValueError("--start is for a table; for a rotary encoding, add an array named positions to the .npz file")
    try:
        # NumPy warns when it converts some NaNs, which identify reports as an error
        with np.errstate(invalid="ignore"):
            identification = identify_rotary(**rotary) if rotary else identify(table, start=arguments.start)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    say(str(identification))
    return 0 if identification else 1


def _key(archive: Archive, key: str | None, path: str, known: tuple[str, ...]) -> str:
    if key is None and len(archive.names) == 1:
        return archive.names[0]
    # in the list of names, those that look positional come first
    names = sorted(archive.names, key=lambda name: not any(part in name.lower() for part in ("pos", "freq", "pe.")))
    listed = f"{', '.join(names[:20])}{', ..' if len(names) > 20 else ''}" or "none"
    if key is None:
        others = [name for name in archive.names if name not in known]
        raise ValueError(
            f"{path} has several arrays, and {others[0]!r} is not one of {', '.join(known)}; choose an array with "
            f"--key; the keys are {listed}"
        )
    if key not in archive.names:
        raise ValueError(f"{path} has no key {key!r}; the keys are {listed}{meant(key, names)}")
    return key
