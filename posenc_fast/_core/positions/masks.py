"""Compute positions from masks and lengths, as models do."""

from __future__ import annotations

import numpy as np

from ..numbers import annotations as npt
from ..numbers.arguments import count_of, real


def checked_mask(mask: npt.ArrayLike, least: int, name: str = "mask") -> npt.NDArray[np.bool_]:
    """Return the mask as bool. Raise an error that names the argument if it has fewer than ``least`` dimensions."""
    array = np.asarray(mask)
    if array.dtype.kind not in "biu":
        raise TypeError(f"{name} must have dtype bool, or contain the integers 0 and 1, but has dtype {array.dtype}")
    invalid = (array != 0) & (array != 1)
    if invalid.any():
        raise ValueError(f"integers in {name} must be 0 or 1, not {array[invalid][0]}")
    if array.ndim < least:
        raise ValueError(f"{name} has shape {array.shape}, but must have at least {least} dimension(s)")
    return array.astype(np.bool_)


def mask_positions(
    mask: npt.ArrayLike, *, start: int | None = None, padding_idx: int | None = None
) -> npt.NDArray[np.int64]:
    """Return the position of each token, without counting padding.

    Parameters
    ----------
    mask : array_like of bool or of 0 and 1, shape (..., L)
        True for tokens, False for padding.
    start : int, optional
        Position of the first token of each sequence, and of all padding, at least 0. Use 0 for models that count from
        0.
    padding_idx : int, optional
        Position of all padding, as in fairseq (default: 1, unless start is given). The first token has position
        padding_idx + 1.

    Returns
    -------
    ndarray of int64, shape (..., L)

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, or both start and padding_idx are given.

    Notes
    -----
    The formula with start is ``(cumsum(mask) - 1) * mask + start``, along the last axis. With padding_idx it is
    ``cumsum(mask) * mask + padding_idx``. In fairseq's tables, rows of padding are zero: ``rows[~mask] = 0``.

    References
    ----------
    facebookresearch/fairseq: fairseq/utils.py, make_positions.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.mask_positions([False, True, True, True], start=0)
    array([0, 0, 1, 2])
    >>> pf.mask_positions([True, True, True, False], padding_idx=1)
    array([2, 3, 4, 1])
    """
    tokens = checked_mask(mask, 1)
    counted = np.cumsum(tokens, axis=-1, dtype=np.int64)
    if start is None:
        return counted * tokens + count_of(1 if padding_idx is None else padding_idx, "padding_idx", 0)
    if padding_idx is not None:
        raise ValueError(
            f"start={start!r} and padding_idx={padding_idx!r} exclude each other; pass only one of the two"
        )
    return (counted - 1) * tokens + count_of(start, "start", 0)


def mask_coordinates(
    mask: npt.ArrayLike,
    *,
    normalize: bool = True,
    offset: float = 0.0,
    scale: float = 2 * np.pi,
    eps: float = 1e-6,
) -> npt.NDArray[np.float64]:
    """Return the coordinates of the cells of padded images, as DETR counts them.

    Parameters
    ----------
    mask : array_like of bool or of 0 and 1, shape (..., H, W)
        True for the image, False for padding. DETR's own masks are inverted.
    normalize : bool
        Whether to divide y by the last y in its column, and x by the last x in its row, and then multiply by scale
        (default: True).
    offset : float
        Number added to the coordinates, before any division (default: 0, as in DETR). Deformable DETR uses -0.5.
    scale : float
        Factor of normalised coordinates (default: 2 pi).
    eps : float
        Number added to the divisor (default: 1e-6).

    Returns
    -------
    ndarray of float64, shape (..., H, W, 2)
        Coordinates (y, x) for `Encoding.encode`. Before offset and normalisation, they count from 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    With ``y = cumsum(mask)`` along the columns, the first coordinate is ``y + offset``, or if normalised
    ``(y + offset) / (y[last] + eps) * scale``. x is computed in the same way, along the rows. In a row with only
    padding, normalised x is ``offset / eps * scale``. The same holds for y in a column with only padding.

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
    image = checked_mask(mask, 2)
    offset, scale, eps = real(offset, "offset"), real(scale, "scale"), real(eps, "eps", positive=True)
    coordinates = np.stack([np.cumsum(image, axis=axis, dtype=np.float64) for axis in (-2, -1)], axis=-1)
    if not normalize:
        return coordinates + offset
    # `last` has the last y of the column and the last x of the row for every cell, with shape (..., H, W, 2)
    last = np.stack(np.broadcast_arrays(coordinates[..., -1:, :, 0], coordinates[..., :, -1:, 1], subok=False), axis=-1)
    result: npt.NDArray[np.float64] = (coordinates + offset) / (last + eps) * scale
    return result


def relative_positions(length: int) -> npt.NDArray[np.int64]:
    """Return all distances between two positions of a sequence, from ``length - 1`` down to ``-(length - 1)``.

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
        If length is not a positive integer.

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
