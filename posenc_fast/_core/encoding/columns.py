"""Orders of columns: from one layout to another."""

from __future__ import annotations

from typing import Any, get_args, overload

import numpy as np

from ...typing import ColumnOrder, LastColumn
from ..numbers import annotations as npt
from ..numbers.arguments import count_of
from ..numbers.names import one_of
from ..numbers.signatures import Scalar
from ..positions.foreign import as_array

# layout, and whether cosines come first
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
        Any type, bfloat16 included (of ml_dtypes); not changed.
    source, target : {"interleaved", "concatenated", "interleaved-cos-first", "concatenated-cos-first"}
        Order that the columns have, and order that they shall have.
    axis : int
        Axis that counts the columns.
    odd : {"crop", "zero"}
        What the last column of an odd width is. "crop": the function that comes first has one column more. "zero": a
        column of its own, which stays the last.

    Returns
    -------
    ndarray
        A new array of the same shape and type.

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; with "crop" and an odd width, when sines come first in one order and cosines in
        the other: there is a sine, or a cosine, too many.

    Notes
    -----
    With rotary embeddings, interleaved and concatenated are the pairings of GPT-J and of GPT-NeoX: the same permutation
    takes the weights of queries and keys from one to the other.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> table = pf.sinusoidal(8).table(3)
    >>> moved = pf.reorder_columns(table, "interleaved", "concatenated")
    >>> np.array_equal(moved, pf.sinusoidal(8, layout="concatenated").table(3))
    True
    """
    if not hasattr(array, "__array__"):
        raise TypeError(f"array must be a numpy array, not {type(array).__name__}")
    if not isinstance(array, np.ndarray):
        array = as_array(array, "array", keep_type=True)
    for name, value in (("source", source), ("target", target)):
        one_of(value, name, ORDERS)
    one_of(odd, "odd", get_args(LastColumn))
    place = count_of(axis, "axis", -array.ndim)
    if place >= array.ndim:
        raise ValueError(f"axis={axis} is out of range for an array of {array.ndim} dimensions")
    d = array.shape[place]
    if d % 2 and odd == "crop" and ORDERS[source][1] != ORDERS[target][1]:
        raise ValueError(
            f"array has {d} columns along axis {axis}: an odd number has one function more than the other, "
            f"and {source!r} and {target!r} begin with different ones; with zeros in the last column, give odd='zero'"
        )
    paired = d if odd == "crop" else d // 2 * 2
    at = {column: i for i, column in enumerate(_columns(paired, *ORDERS[source]))}
    order = [at[column] for column in _columns(paired, *ORDERS[target])]
    return np.take(array, [*order, *range(paired, d)], axis=place)


def _columns(d: int, interleaved: bool, cos_first: bool) -> list[tuple[bool, int]]:
    """Return for each column whether it is a cosine, and of which frequency."""
    first, second = [(cos_first, i) for i in range(-(-d // 2))], [(not cos_first, i) for i in range(d // 2)]
    if not interleaved:
        return first + second
    return [(first if c % 2 == 0 else second)[c // 2] for c in range(d)]
