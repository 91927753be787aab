"""Convert tables and weights from one order of columns to another."""

from __future__ import annotations

from typing import Any, get_args, overload

import numpy as np

from ...typing import ColumnOrder, LastColumn
from ..numbers import annotations as npt
from ..numbers.arguments import count_of
from ..numbers.names import one_of
from ..numbers.signatures import Scalar
from ..positions.foreign import as_array

# (whether columns are interleaved, whether cosines come first) of each order
ORDERS: dict[ColumnOrder, tuple[bool, bool]] = {
    "interleaved": (True, False),
    "concatenated": (False, False),
    "interleaved-cos-first": (True, True),
    "concatenated-cos-first": (False, True),
}


@overload
def reorder_columns(
    array: npt.NDArray[Scalar], source: ColumnOrder, target: ColumnOrder, *, axis: int = ..., odd: LastColumn = ...
) -> npt.NDArray[Scalar]: ...


@overload
def reorder_columns(
    array: npt.ArrayLike, source: ColumnOrder, target: ColumnOrder, *, axis: int = ..., odd: LastColumn = ...
) -> npt.NDArray[Any]: ...


def reorder_columns(
    array: npt.ArrayLike, source: ColumnOrder, target: ColumnOrder, *, axis: int = -1, odd: LastColumn = "crop"
) -> npt.NDArray[Any]:
    """Return the columns of a table, or the rows or columns of a weight matrix, in another order.

    Parameters
    ----------
    array : ndarray, or array of another package such as a CPU tensor
        Array of any dtype, including bfloat16 of ml_dtypes. It is not changed.
    source, target : {"interleaved", "concatenated", "interleaved-cos-first", "concatenated-cos-first"}
        Present order of the columns, and order in the result.
    axis : int
        Axis of the columns (default: -1, the last).
    odd : {"crop", "zero"}
        Meaning of the last column of an odd width. "crop" (default): there is one more sine than cosines if sines come
        first, and one more cosine otherwise. "zero": the last column belongs to no pair, and stays last.

    Returns
    -------
    ndarray
        A new array of the same shape and dtype.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. With "crop" and an odd width, also if sines come first in one of the two orders and
        cosines in the other, because the numbers of sines and cosines do not match.

    Notes
    -----
    In rotary embeddings, GPT-J pairs values as in "interleaved", and GPT-NeoX as in "concatenated". `permute_rotary`
    converts query and key weights between these two orders.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> table = pf.sinusoidal(8).table(3)
    >>> moved = pf.reorder_columns(table, "interleaved", "concatenated")
    >>> np.array_equal(moved, pf.sinusoidal(8, layout="concatenated").table(3))
    True
    """
    if not hasattr(array, "__array__"):
        raise TypeError(f"array must be a numpy array, not {type(array).__name__}; give numpy.asarray(array)")
    if not isinstance(array, np.ndarray):
        array = as_array(array, "array", keep_type=True)
    for name, value in (("source", source), ("target", target)):
        one_of(value, name, ORDERS)
    one_of(odd, "odd", get_args(LastColumn))
    axis_number = count_of(axis, "axis", -array.ndim)
    if axis_number >= array.ndim:
        raise ValueError(f"axis={axis} is out of range for an array of {array.ndim} dimensions")
    d = array.shape[axis_number]
    if d % 2 and odd == "crop" and ORDERS[source][1] != ORDERS[target][1]:
        raise ValueError(
            f"array has {d} columns along axis {axis}, an odd number. {_more(source)}, but {_more(target)}. If the last "
            "column is zero, pass odd='zero'"
        )
    paired = d if odd == "crop" else d // 2 * 2
    source_index = {column: i for i, column in enumerate(_columns(paired, *ORDERS[source]))}
    order = [source_index[column] for column in _columns(paired, *ORDERS[target])]
    return np.take(array, [*order, *range(paired, d)], axis=axis_number)


def _more(order: ColumnOrder) -> str:
    """Return the clause of an error that says which function has one column more in an odd number of columns."""
    more, fewer = ("cosine", "sines") if ORDERS[order][1] else ("sine", "cosines")
    return f"{order!r} has one {more} more than {fewer}"


def _columns(d: int, interleaved: bool, cos_first: bool) -> list[tuple[bool, int]]:
    """Return for each column (whether the column is a cosine, index of the frequency)."""
    first, second = [(cos_first, i) for i in range(-(-d // 2))], [(not cos_first, i) for i in range(d // 2)]
    if not interleaved:
        return first + second
    return [(first if c % 2 == 0 else second)[c // 2] for c in range(d)]
