"""Types for annotations of arguments and results that are one of a fixed set of strings.

Examples
--------
>>> import posenc_fast as pf
>>> from posenc_fast.typing import Layout
>>> def table(length: int, layout: Layout = "interleaved"):
...     return pf.positional_encoding(length, 4, layout=layout)
>>> table(2, "concatenated").round(2)
array([[0.  , 0.  , 1.  , 1.  ],
       [0.84, 0.01, 0.54, 1.  ]], dtype=float32)
"""

from typing import Literal

__all__ = [
    "Backend",
    "ColumnOrder",
    "Cycle",
    "Function",
    "FunnelPart",
    "Indexing",
    "Isa",
    "LastColumn",
    "LayerType",
    "Layout",
    "MropeFollowing",
    "Odd",
    "Precision",
    "RotaryLayout",
    "TableLayout",
    "WeightLayout",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Layout = Literal["interleaved", "concatenated"]
"""The functions of one frequency next to each other, or all of one function first."""

Function = Literal["sin", "cos", "-sin", "-cos"]
"""What a column is of its angle."""

Odd = Literal["crop", "zero", "error"]
"""What becomes of an odd number of columns, as in `sinusoidal`."""

LastColumn = Literal["crop", "zero"]
"""What the last column of an odd width is, as in `reorder_columns`."""

ColumnOrder = Literal["interleaved", "concatenated", "interleaved-cos-first", "concatenated-cos-first"]
"""Orders of columns of `reorder_columns`."""

Cycle = Literal["day", "week", "month", "quarter", "year"]
"""A cycle of the calendar, as in `presets.positions.calendar`; weeks begin on Monday."""

MropeFollowing = Literal["side", "largest"]
"""Where text begins after the grid of an image or video, as in `presets.positions.mrope`."""

Precision = Literal["exact", "float32"]
"""Real numbers, or what frameworks that compute in float32 give."""

Indexing = Literal["ij", "xy"]
"""Order of the axes of a grid, as in `numpy.meshgrid`."""

RotaryLayout = Literal["half", "interleaved", "interleaved_to_half"]
"""Which values of a head are a pair, as in `Rotary`."""

WeightLayout = Literal["half", "interleaved"]
"""Layouts that weights of queries and keys can be for."""

TableLayout = Literal["half", "interleaved", "pairs"]
"""Which columns of cosines and sines are a pair's, as in `posenc_fast.torch.apply_rotary_pos_emb`."""

LayerType = Literal["full_attention", "sliding_attention"]
"""Kinds of layers of presets whose source has two."""

FunnelPart = Literal["phi", "pi", "psi", "omega"]
"""Factors of the attention of `posenc_fast.presets.funnel`."""

Backend = Literal["cython", "python"]
"""What computes."""

Isa = Literal["baseline", "avx2", "avx512", "neon"]
"""Instruction-set levels of the compiled kernel."""
