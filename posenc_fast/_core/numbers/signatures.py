"""Types of results, and types of options that are the same in each overload of a function.

The argument dtype or out determines the type of a result (default: float32). Type checkers use Any if dtype is a
string, a type of another package, or known only at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np

from ...typing import Indexing, Layout, Precision
from . import annotations as npt

Float = TypeVar("Float", bound=np.floating[Any])
Scalar = TypeVar("Scalar", bound=np.generic)
DType = type[Float] | np.dtype[Float]

if TYPE_CHECKING:
    # Python's TypeVar has defaults from version 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    Out = TypeVarWithDefault("Out", bound=npt.NDArray[Any], default=npt.NDArray[Any])


class _Options(TypedDict, total=False):
    workers: int | None


class _PrecisionOptions(_Options, total=False):
    precision: Precision


class EncodeOptions(_PrecisionOptions, total=False):
    """Options of `Encoding.encode`."""

    variance: npt.ArrayLike | None


class TableOptions(_PrecisionOptions, total=False):
    """Options of `Encoding.table`."""

    start: float
    step: float


class TablesOptions(_PrecisionOptions, total=False):
    """Options of `Rotary.tables`."""

    start: float


class FormulaOptions(_Options, total=False):
    """Options of `positional_encoding`."""

    start: float
    step: float
    base: float
    layout: Layout


class GridOptions(_Options, total=False):
    """Options of `grid`."""

    indexing: Indexing
