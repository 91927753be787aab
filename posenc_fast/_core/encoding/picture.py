"""Draw a small picture of an encoding for notebooks: its rows at 48 positions, as a PNG inside HTML."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import numpy as np
import numpy.typing as npt

from ..positions.conversion import convert
from .plans import Plans
from .rows import encode
from .sinusoids import Sinusoids

ROWS, COLUMNS, LEVELS = 48, 96, 63
# Colours of negative values, zero and positive values, as in `posenc_fast.plot`. The pale colour of zero is visible on
# light and dark pages.
_COLD, _PALE, _WARM = (33.0, 102.0, 172.0), (247.0, 247.0, 247.0), (178.0, 24.0, 43.0)


def figure(sinusoids: Sinusoids, title: str, columns: str) -> str:
    """Return HTML with the title and a picture. The picture has a row for each of 48 positions.

    The positions are 0 to 47. With exact periods, the positions divide the longest period into 48 steps instead. All
    axes have the same position.
    """
    columns_shown, selection = whole_pairs(sinusoids, COLUMNS)
    longest = max((period.length for period in sinusoids.periods()), default=None)
    positions = np.arange(ROWS) if longest is None else np.arange(ROWS) * float(longest / ROWS)
    points = positions if sinusoids.axes == 1 else np.repeat(positions[:, np.newaxis], sinusoids.axes, axis=1)
    shown = sinusoids.take(columns_shown)
    values = encode(Plans(shown), convert(points, shown.axes), np.dtype(np.float64))
    largest = float(np.abs(shown.amplitudes).max()) or 1.0
    levels = np.rint((np.clip(values / largest, -1, 1) + 1) / 2 * (LEVELS - 1)).astype(np.uint8)
    picture = base64.b64encode(_png(levels)).decode()
    if selection:
        columns = f"{len(columns_shown)} of {columns} ({selection})"
    last = f"{ROWS - 1}" if longest is None else f"{float(longest):,.6g}, the longest period,"
    words = f"{columns}, positions 0 to {last} downwards{', on all axes' if sinusoids.axes > 1 else ''}; red is above 0"
    return (
        f'<figure style="margin:0"><code>{html.escape(title)}</code><br>'
        f'<img alt="{html.escape(words)}" src="data:image/png;base64,{picture}" '
        'style="width:384px;max-width:100%;height:192px;image-rendering:pixelated">'
        f"<figcaption><small>{html.escape(words)}</small></figcaption></figure>"
    )


def whole_pairs(sinusoids: Sinusoids, most: int) -> tuple[npt.NDArray[np.intp], str]:
    """Return (indices of at most ``most`` columns, description of the choice, or "" for all columns).

    If columns share frequencies, the result has all columns of every n-th frequency. If it had every n-th column
    instead, one part of the picture could show only sines, and the next only cosines. If no two columns share a
    frequency, adjacent columns are treated as pairs. Every n-th column is chosen only if a frequency has more than
    ``most`` columns.
    """
    width = sinusoids.width
    if width <= most:
        return np.arange(width), ""
    index = sinusoids.index[:, 0] if sinusoids.axes == 1 else sinusoids.index
    _, first, frequency = np.unique(index, axis=0, return_index=True, return_inverse=True)
    if len(first) == width:
        # no two columns share a frequency, so two adjacent columns are treated as a pair
        group, description = np.arange(width) // 2, "two of every {columns} columns"
    else:
        # number the frequencies in the order of their first columns
        group, description = first.argsort().argsort()[frequency.reshape(-1)], "every {nth} frequency"
    largest = int(np.bincount(group).max())
    if largest > most:
        group, largest, description = np.arange(width), 1, "every {nth} column"
    step = -(-(int(group.max()) + 1) // (most // largest))
    return np.flatnonzero(group % step == 0), description.format(nth=ordinal(step), columns=2 * step)


def ordinal(number: int) -> str:
    """Return a number with its ending: 1st, 2nd, 3rd, 4th."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _png(levels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    """Return a PNG with a palette of LEVELS colours (format: W3C, Portable Network Graphics, third edition)."""
    height, width = levels.shape
    # each row begins with its filter type, 0 for none
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
