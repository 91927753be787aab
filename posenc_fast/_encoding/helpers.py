"""Positions from masks, relative positions, and columns of tables and weights in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._numbers.arguments import count_of, real
from .._numbers.arrays import as_array
from .._numbers.names import one_of

__all__ = ["mask_coordinates", "mask_positions", "relative_positions", "reorder_columns"]

# layout, and whether cosines come first
ORDERS = {
    "interleaved": (True, False),
    "concatenated": (False, False),
    "interleaved-cos-first": (True, True),
    "concatenated-cos-first": (False, True),
}


def _mask(mask: npt.ArrayLike, least: int) -> npt.NDArray[np.bool_]:
    array = np.asarray(mask)
    if array.dtype.kind not in "biu":
        raise TypeError(f"mask must be of bool, or of the integers 0 and 1, not of {array.dtype}")
    if not ((array == 0) | (array == 1)).all():
        raise ValueError(f"mask must have no integers but 0 and 1, not {array!r}")
    if array.ndim < least:
        raise ValueError(f"mask has shape {array.shape}, but must have at least {least} dimension(s)")
    return array.astype(np.bool_)


def mask_positions(mask: npt.ArrayLike, *, padding_idx: int = 1) -> npt.NDArray[np.int64]:
    """Positions of tokens among padding, as fairseq counts them.

    Parameters
    ----------
    mask : array_like of bool or of 0 and 1, shape (..., L)
        Where there are tokens; False is padding.
    padding_idx : int
        Position of all padding. The first token has padding_idx + 1.

    Returns
    -------
    ndarray of int64, shape (..., L)

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit.

    Notes
    -----
    ``cumsum(mask) * mask + padding_idx``, along the last axis. Rows of padding are zero in the source's tables:
    ``rows[~mask] = 0``.

    References
    ----------
    facebookresearch/fairseq: fairseq/utils.py, make_positions.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.mask_positions([True, True, True, False])
    array([2, 3, 4, 1])
    """
    tokens = _mask(mask, 1)
    padding = count_of(padding_idx, "padding_idx", 0)
    return np.cumsum(tokens, axis=-1, dtype=np.int64) * tokens + padding


def mask_coordinates(
    mask: npt.ArrayLike,
    *,
    normalize: bool = True,
    offset: float = 0.0,
    scale: float = 2 * np.pi,
    eps: float = 1e-6,
) -> npt.NDArray[np.float64]:
    """Coordinates of the cells of padded images, as DETR counts them.

    Parameters
    ----------
    mask : array_like of bool or of 0 and 1, shape (..., H, W)
        Where there is an image; False is padding. DETR's own masks are the other way round.
    normalize : bool
        Whether coordinates are divided by the last one of their column or row, and multiplied by scale.
    offset : float
        Added before the division: 0 in DETR, -0.5 in Deformable DETR.
    scale : float
        Largest coordinate.
    eps : float
        Added to the divisor.

    Returns
    -------
    ndarray of float64, shape (..., H, W, 2)
        (y, x), ready for `Encoding.encode`. They count from 1.

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit.

    Notes
    -----
    ``y = cumsum(mask)`` along the columns; normalised, ``(y + offset) / (y[last] + eps) * scale``. The same for x,
    along the rows. A row or column of padding alone has coordinates of about ``offset / eps * scale``.

    References
    ----------
    facebookresearch/detr, fundamentalvision/Deformable-DETR: models/position_encoding.py, PositionEmbeddingSine.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.mask_coordinates([[1, 1, 0], [1, 1, 0]], normalize=False)[..., 1]
    array([[1., 2., 2.],
           [1., 2., 2.]])
    """
    inside = _mask(mask, 2)
    shift, factor, small = real(offset, "offset"), real(scale, "scale"), real(eps, "eps", positive=True)
    coordinates = np.stack([np.cumsum(inside, axis=axis, dtype=np.float64) for axis in (-2, -1)], axis=-1)
    if not normalize:
        return coordinates + shift
    last = np.stack(np.broadcast_arrays(coordinates[..., -1:, :, 0], coordinates[..., :, -1:, 1], subok=False), axis=-1)
    result: npt.NDArray[np.float64] = (coordinates + shift) / (last + small) * factor
    return result


def relative_positions(length: int) -> npt.NDArray[np.int64]:
    """Distances of the positions of a sequence, from ``length - 1`` down to ``-(length - 1)``.

    Parameters
    ----------
    length : int
        Length of the sequence, at least 1.

    Returns
    -------
    ndarray of int64, shape (2 * length - 1,)

    Raises
    ------
    TypeError, ValueError
        When length is no positive integer.

    References
    ----------
    Dai et al., "Transformer-XL", 2019, arXiv:1901.02860; espnet/espnet, RelPositionalEncoding.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.relative_positions(3)
    array([ 2,  1,  0, -1, -2])
    """
    last = count_of(length, "length", 1) - 1
    return np.arange(last, -last - 1, -1, dtype=np.int64)


def reorder_columns(
    array: npt.ArrayLike, source: str, target: str, *, axis: int = -1, odd: str = "crop"
) -> npt.NDArray[Any]:
    """The columns of a table, or the rows or columns of a weight matrix, in another order.

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
    one_of(odd, "odd", ("crop", "zero"))
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
    """For each column whether it is a cosine, and of which frequency."""
    first, second = [(cos_first, i) for i in range(-(-d // 2))], [(not cos_first, i) for i in range(d // 2)]
    if not interleaved:
        return first + second
    return [(first if c % 2 == 0 else second)[c // 2] for c in range(d)]
