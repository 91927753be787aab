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
"""Order of columns: sine and cosine of each frequency adjacent, or all sines before all cosines."""

Function = Literal["sin", "cos", "-sin", "-cos"]
"""Function of the angle in a column."""

Odd = Literal["crop", "zero", "error"]
"""Treatment of an odd number of columns, as in `sinusoidal`."""

LastColumn = Literal["crop", "zero"]
"""Meaning of the last column of an odd width, as in `reorder_columns`."""

ColumnOrder = Literal["interleaved", "concatenated", "interleaved-cos-first", "concatenated-cos-first"]
"""Orders of columns of `reorder_columns`."""

Cycle = Literal["day", "week", "month", "quarter", "year"]
"""A cycle of the calendar, as in `presets.positions.calendar`; weeks begin on Monday."""

MropeFollowing = Literal["side", "largest"]
"""Rule for the first text position after an image or video, as in `presets.positions.mrope`."""

Precision = Literal["exact", "float32"]
"""Exact results, or the results of frameworks that compute in float32."""

Indexing = Literal["ij", "xy"]
"""Order of the axes of a grid, as in `numpy.meshgrid`."""

RotaryLayout = Literal["half", "interleaved", "interleaved_to_half"]
"""Places of the two values of a pair in a head, as in `Rotary`."""

WeightLayout = Literal["half", "interleaved"]
"""Layouts of the weights of queries and keys."""

TableLayout = Literal["half", "interleaved", "pairs"]
"""Columns of a pair in tables of cosines and sines, as in `posenc_fast.torch.apply_rotary_pos_emb`."""

LayerType = Literal["full_attention", "sliding_attention"]
"""Kinds of layers in presets whose source has two kinds."""

FunnelPart = Literal["phi", "pi", "psi", "omega"]
"""Name of one of the four tables of `posenc_fast.presets.funnel`."""

Backend = Literal["cython", "python"]
"""Name of the backend that computes."""

Isa = Literal["baseline", "avx2", "avx512", "neon"]
"""Instruction-set levels of the compiled kernel."""
