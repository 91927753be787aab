"""A small picture of an encoding for notebooks: rows of its first positions, as a PNG in a line of HTML."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import numpy as np

from .._positions.conversion import convert
from .plans import Plans
from .rows import encode
from .sinusoids import Sinusoids

__all__ = ["figure"]

ROWS, COLUMNS, LEVELS = 48, 96, 63
# red above zero, blue below, as in the pictures of `posenc_fast.plot`; pale in the middle, on light and on dark pages
_COLD, _PALE, _WARM = (33.0, 102.0, 172.0), (247.0, 247.0, 247.0), (178.0, 24.0, 43.0)


def figure(sinusoids: Sinusoids, title: str, columns: str) -> str:
    """Return HTML: the title, and a picture with a row for each of the first positions (the same on all axes)."""
    places = np.unique(np.linspace(0, sinusoids.width - 1, min(sinusoids.width, COLUMNS)).round().astype(int))
    positions = np.arange(ROWS)
    where = positions if sinusoids.axes == 1 else np.repeat(positions[:, np.newaxis], sinusoids.axes, axis=1)
    some = sinusoids.take(places)
    values = encode(Plans(some, None), convert(where, some.axes), np.dtype(np.float64))
    largest = float(np.abs(some.amplitudes).max()) or 1.0
    levels = np.rint((np.clip(values / largest, -1, 1) + 1) / 2 * (LEVELS - 1)).astype(np.uint8)
    picture = base64.b64encode(_png(levels)).decode()
    which = columns if len(places) == sinusoids.width else f"{len(places)} of {columns}"
    words = (
        f"{which}, positions 0 to {ROWS - 1} downwards{', on all axes' if sinusoids.axes > 1 else ''}; red is above 0"
    )
    return (
        f'<figure style="margin:0"><code>{html.escape(title)}</code><br>'
        f'<img alt="{html.escape(words)}" src="data:image/png;base64,{picture}" '
        'style="width:384px;max-width:100%;height:192px;image-rendering:pixelated">'
        f"<figcaption><small>{html.escape(words)}</small></figcaption></figure>"
    )


def _png(levels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    """Return a PNG of LEVELS colours; W3C, Portable Network Graphics, third edition."""
    height, width = levels.shape
    # no filter for any row
    rows = np.concatenate([np.zeros((height, 1), np.uint8), levels], axis=1).tobytes()
    steps = np.linspace(-1, 1, LEVELS)[:, np.newaxis]
    ends = np.where(steps < 0, np.array(_COLD), np.array(_WARM))
    colours = np.rint(np.array(_PALE) + np.abs(steps) * (ends - np.array(_PALE))).astype(np.uint8)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", colours.tobytes()),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
