"""Draw encodings with matplotlib.

Pass an Encoding, a Rotary, or the name of a preset. Functions draw into the given Axes. The default is the current
Axes, or for `shift` a new figure. If a table has more rows or columns than fit in the picture, every n-th row or
frequency is drawn, and the axis labels give n. On the command line: ``posenc-fast plot KIND -o FILE``.
"""

from __future__ import annotations

try:
    import matplotlib.pyplot as _  # noqa: F401
except ImportError as error:
    raise ImportError("posenc_fast.plot needs matplotlib; run pip install matplotlib") from error

from ._clocks import clocks
from ._curves import errors, frequencies, sinusoids, wavelengths
from ._likeness import decay, grid, similarity
from ._tables import angles, heatmap, rotary, shift

__all__ = [
    "angles",
    "clocks",
    "decay",
    "errors",
    "frequencies",
    "grid",
    "heatmap",
    "rotary",
    "shift",
    "similarity",
    "sinusoids",
    "wavelengths",
]


def __dir__() -> list[str]:
    return sorted(__all__)


for _name in __all__:
    globals()[_name].__module__ = __name__
