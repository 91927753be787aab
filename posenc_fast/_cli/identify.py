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
.safetensors file with a --key. Without --key, the file has one array, or arrays
named like the arguments of posenc_fast.identify_rotary: frequencies; cos and
sin; or x, turned and positions. In an .npz or .safetensors file, an array of
one dimension holds the frequencies of a rotary encoding.
"""
HELP = """\
Arrays of type |V2 (raw bytes) are read as bfloat16, because NumPy stores
bfloat16 in this way.

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

    path, start = arguments.table, arguments.start
    arrays = _read_arrays(path, arguments.key)
    if "table" not in arrays and start is not None:
        raise ValueError(
            "--start is for a table with one row per position; leave --start out. For cos and sin, or x and turned, "
            "add an array named positions to the file"
        )
    try:
        # NumPy warns when it converts some NaNs; the warning is not needed, because `identify` raises an error for NaN
        with np.errstate(invalid="ignore"):
            identification = identify(arrays["table"], start=start) if "table" in arrays else identify_rotary(**arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    say(str(identification))
    return 0 if identification else 1


def _read_arrays(path: str, key: str | None) -> dict[str, Any]:
    """Return {name: array} of a file: arguments of `identify_rotary`, or one array named "table".

    Without ``key``, if all names in an archive are arguments of `identify_rotary`, all arrays are returned. Otherwise
    one array of the archive is read. It is named "frequencies" if it has one dimension, else "table".
    """
    from .. import identify_rotary

    if not path.lower().endswith((".npz", ".safetensors")):
        if key is not None:
            raise ValueError(f"{path} has no keys (only .npz and .safetensors files have keys); leave --key out")
        return {"table": as_bfloat16(read_array(path))}
    known = tuple(inspect.signature(identify_rotary).parameters)
    with open_archive(path) as archive:
        if key is None and not archive.names:
            raise ValueError(f"{path} contains no arrays")
        if key is None and set(archive.names) <= set(known):
            return {name: archive.read(name) for name in archive.names}
        array = archive.read(_key(archive, key, path, known))
    return {"frequencies" if array.ndim == 1 else "table": array}


def _key(archive: Archive, key: str | None, path: str, known: tuple[str, ...]) -> str:
    """Return the name of the array to read. known: names of the arguments of `identify_rotary`."""
    if key is None and len(archive.names) == 1:
        return archive.names[0]
    # in the list of names, those that look positional come first
    names = sorted(archive.names, key=lambda name: not any(part in name.lower() for part in ("pos", "freq", "pe.")))
    listed = f"{', '.join(names[:20])}{', ..' if len(names) > 20 else ''}" or "none"
    if key is None:
        others = [name for name in archive.names if name not in known]
        raise ValueError(
            f"{path} has several arrays; choose one with --key. Without --key, all names must be arguments of "
            f"identify_rotary ({', '.join(known)}), but {others[0]!r} is not; the keys are {listed}"
        )
    if key not in archive.names:
        raise ValueError(f"{path} has no key {key!r}; the keys are {listed}{meant(key, names)}")
    return key
