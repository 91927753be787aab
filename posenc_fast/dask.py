"""Tables, encodings and grids as lazy Dask arrays: a worker computes each chunk from the positions of that chunk.

A graph contains the encoding and the arguments of the call, but no rows. Workers exchange no data, except to change the
chunks of positions in a Dask array. Dask recomputes a chunk that is lost with its worker. Chunks divide the rows, not
the columns, because the sine and the cosine of an angle, which are in different columns, are computed together. Needs
Dask: ``pip install 'dask[array]'``.

``POSENC_FAST_BACKEND`` and ``POSENC_FAST_ISA`` select the backend and the instruction set of the threads that compute
chunks. `posenc_fast.use_backend` around the call has no effect on these threads. All backends and instruction sets
compute the same bits.

Examples
--------
>>> import posenc_fast as pf, posenc_fast.dask as pfd
>>> rows = pfd.table(pf.sinusoidal(64), 10**9, chunks=10**6)
>>> rows.shape, rows.numblocks
((1000000000, 64), (1000, 1))
>>> rows[123456789].compute().shape
(64,)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ._core.encoding import grid as _grid
from ._core.encoding.value import Encoding
from ._core.numbers.arguments import check_precision, count_of, progression
from ._core.numbers.arrays import Array
from ._core.numbers.formats import wanted_type
from ._core.positions.conversion import check_type
from ._core.positions.positions import Converted
from .typing import Indexing, Precision

try:
    import dask.array as da
    from dask.utils import is_index_like, is_series_like
except ImportError as error:
    raise ImportError("posenc_fast.dask needs Dask; run pip install 'dask[array]'") from error

__all__ = ["encode", "grid", "table"]


def __dir__() -> list[str]:
    return sorted(__all__)


def table(
    encoding: Encoding,
    length: int,
    *,
    start: float = 0,
    step: float = 1,
    dtype: npt.DTypeLike | None = None,
    precision: Precision = "exact",
    chunks: Any = "auto",
) -> Any:
    """Return the rows of the positions ``start + i * step`` as a lazy array.

    See `Encoding.table`.

    Parameters
    ----------
    encoding : Encoding
        Encoding of one axis.
    length, start, step, dtype, precision
        As in `Encoding.table`.
    chunks : int, str or tuple
        Division of the rows, as in Dask for an array of shape (length,): one number of rows for every chunk, a tuple
        with the number of rows of each chunk, "auto" (default), or a size in bytes such as "64 MiB".

    Returns
    -------
    dask.array.Array of shape (length, d_model)
        Lazy rows. Each chunk has all columns.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    The first position of a chunk is computed exactly, with Python integers (or fractions, for real numbers). The row of
    an integer position has the same bits as in `Encoding.table`, for any chunks.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf, posenc_fast.dask as pfd
    >>> encoding = pf.sinusoidal(4)
    >>> rows = pfd.table(encoding, 1000, start=2**60 + 1, chunks=300)
    >>> rows.chunks
    ((300, 300, 300, 100), (4,))
    >>> np.array_equal(rows.compute(), encoding.table(1000, start=2**60 + 1))
    True
    """
    _check_encoding(encoding)
    encoding._one_axis("table")
    rows = count_of(length, "length", 0)
    result_type = wanted_type(dtype)
    check_precision(precision)
    first, exact_step = progression(start, step, rows)
    return da.map_blocks(
        _table_block,
        encoding=encoding,
        first=first,
        exact_step=exact_step,
        result_type=result_type,
        precision=precision,
        chunks=_normalize(chunks, (rows,), encoding.d_model, result_type),
        meta=_meta(result_type),
    )


def encode(
    encoding: Encoding,
    positions: Any,
    *,
    dtype: npt.DTypeLike | None = None,
    precision: Precision = "exact",
    chunks: Any = None,
) -> Any:
    """Return the rows of any positions as a lazy array.

    See `Encoding.encode`.

    Parameters
    ----------
    encoding : Encoding
        Encoding of A axes.
    positions : dask.array.Array, dask Series or Index, or ndarray
        Positions of shape (...), or (..., A) for an encoding of A axes, of the dtypes that `Encoding.encode` accepts.
        The sizes of chunks may be unknown. Columns of a Dask DataFrame may contain integers, real numbers and times,
        with missing values. Times with a zone are converted to UTC.
    dtype, precision
        As in `Encoding.encode`.
    chunks : int, str or tuple, optional
        Division of the positions, without the axis of coordinates, as in Dask. "auto" chooses chunks whose rows take at
        most the bytes of Dask's setting ``array.chunk-size``. By default, Dask positions keep their chunks, and NumPy
        positions are divided as by "auto". A chunk of n positions becomes a chunk of n rows. For a Series or Index,
        leave chunks out.

    Returns
    -------
    dask.array.Array of shape (..., d_model)
        Lazy rows. Each chunk has all columns. Partitions of a Series or Index become chunks of unknown size.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    Each chunk is passed to `Encoding.encode`. The rows have the same bits as one call for all positions, with one
    exception: if only some chunks contain integers beyond 2**53, rows of the other chunks may differ by a rounding. The
    error bounds of `Encoding.encode` hold for these rows, too.

    Examples
    --------
    >>> import dask.array as da, posenc_fast as pf, posenc_fast.dask as pfd
    >>> positions = da.arange(10, chunks=4) * 0.5
    >>> pfd.encode(pf.sinusoidal(6), positions[positions > 1]).compute().shape
    (7, 6)
    """
    _check_encoding(encoding)
    result_type = wanted_type(dtype)
    check_precision(precision)
    axes, d_model = encoding.ndim, encoding.d_model
    options: dict[str, Any] = {"encoding": encoding, "result_type": result_type, "precision": precision}
    if not isinstance(positions, (da.Array, np.ndarray)):
        example: Any = getattr(positions, "_meta", None)
        if not (is_series_like(example) or is_index_like(example)):
            raise TypeError(
                "positions must be a Dask array, a column of a Dask DataFrame or a NumPy array, "
                f"not {type(positions).__name__}; pass numpy.asarray(positions), or one column of a Dask DataFrame"
            )
        if axes != 1:
            raise ValueError(
                f"positions is one column, but the encoding has {axes} axes; pass an array of shape (n, {axes}), such "
                "as frame[[...]].to_dask_array()"
            )
        if chunks is not None:
            raise ValueError(
                f"chunks={chunks!r} cannot divide a column, because the length of a column is unknown; call "
                "positions.repartition(..) instead"
            )
        # raise an error for an unsupported type now, not when the rows are computed
        _encode_column(example[:0], **options)
        return positions.map_partitions(_encode_column, meta=np.empty((0, d_model), result_type), **options)
    check_type(positions.dtype)
    if axes > 1 and (positions.ndim == 0 or positions.shape[-1] != axes):
        raise ValueError(
            f"positions has shape {positions.shape}, but the encoding has {axes} axes, so the last dimension of "
            f"positions must be {axes}"
        )
    shape = positions.shape if axes == 1 else positions.shape[:-1]
    # result_chunks: chunks of the result (.., d_model). position_chunks: chunks of the positions, (..) or (.., axes).
    if isinstance(positions, np.ndarray):
        result_chunks = _normalize("auto" if chunks is None else chunks, shape, d_model, result_type)
    elif chunks is None:
        result_chunks = (*positions.chunks[: len(shape)], (d_model,))
    elif np.isnan(shape).any():
        raise ValueError(
            f"chunks={chunks!r} cannot divide positions of unknown shape {shape}; call "
            "positions.compute_chunk_sizes() first"
        )
    else:
        result_chunks = _normalize(chunks, shape, d_model, result_type)
    position_chunks = result_chunks[:-1] if axes == 1 else (*result_chunks[:-1], (axes,))
    if isinstance(positions, np.ndarray):
        positions = da.from_array(positions, chunks=position_chunks)
    elif chunks is not None or (axes > 1 and positions.numblocks[-1] > 1):
        positions = positions.rechunk(position_chunks)
    return positions.map_blocks(
        _encode_block,
        chunks=result_chunks,
        new_axis=[positions.ndim] if axes == 1 else None,
        meta=_meta(result_type),
        **options,
    )


def grid(
    axes: Sequence[int | npt.ArrayLike],
    encoding: Encoding,
    *,
    indexing: Indexing = "ij",
    dtype: npt.DTypeLike | None = None,
    chunks: Any = "auto",
) -> Any:
    """Return the rows of all points of a grid as a lazy array.

    See `posenc_fast.grid`.

    Parameters
    ----------
    axes, encoding, indexing, dtype
        As in `posenc_fast.grid`. Arrays of coordinates become part of the graph.
    chunks : int, str or tuple
        Division of the grid, as in Dask for an array of shape (n0, n1, ..), or (n1, n0, ..) for "xy" (default: "auto").

    Returns
    -------
    dask.array.Array of shape (n0, n1, .., d_model), or (n1, n0, .., d_model) for "xy"
        Lazy rows. Each chunk has all columns.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Examples
    --------
    >>> import posenc_fast as pf, posenc_fast.dask as pfd
    >>> image = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    >>> pixels = pfd.grid([100000, 80000], image, chunks=1000)
    >>> pixels.shape, pixels.chunksize
    ((100000, 80000, 8), (1000, 1000, 8))
    >>> bool((pixels[2000:2002, :3].compute() == pf.grid([range(2000, 2002), 3], image)).all())
    True
    """
    _check_encoding(encoding)
    coordinates = _grid.coordinates_of(axes, encoding.ndim)
    order = _grid.order_of(indexing, encoding.ndim)
    result_type = wanted_type(dtype)
    shape = tuple(_grid.length_of(coordinates[axis]) for axis in order)
    return da.map_blocks(
        _grid_block,
        encoding=encoding,
        coordinates=coordinates,
        indexing=indexing,
        result_type=result_type,
        chunks=_normalize(chunks, shape, encoding.d_model, result_type),
        meta=_meta(result_type),
    )


# ---- blocks, computed by workers ------------------------------------------------------------------------------------


def _table_block(
    encoding: Encoding,
    first: Fraction | int,
    exact_step: Fraction | int,
    result_type: np.dtype[Any],
    precision: Precision,
    block_info: Any = None,
) -> Array:
    begin, end = map(int, block_info[None]["array-location"][0])
    start: Any = first + begin * exact_step
    step: Any = exact_step
    return encoding.table(end - begin, start=start, step=step, dtype=result_type, precision=precision)


def _encode_block(positions: Array, encoding: Encoding, result_type: np.dtype[Any], precision: Precision) -> Array:
    return encoding.encode(positions, dtype=result_type, precision=precision)


def _encode_column(column: Any, encoding: Encoding, result_type: np.dtype[Any], precision: Precision) -> Array:
    return encoding.encode(column, dtype=result_type, precision=precision)


def _grid_block(
    encoding: Encoding,
    coordinates: list[range | Converted],
    indexing: Indexing,
    result_type: np.dtype[Any],
    block_info: Any = None,
) -> Array:
    location = block_info[None]["array-location"]
    order = _grid.order_of(indexing, encoding.ndim)
    parts = [_grid.part_of(coordinates[axis], slice(*map(int, location[order[axis]]))) for axis in range(encoding.ndim)]
    return _grid.filled(parts, encoding, order, result_type)


# ---- checks ---------------------------------------------------------------------------------------------------------


def _check_encoding(encoding: Any) -> None:
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be an Encoding, not {type(encoding).__name__}")


def _meta(result_type: np.dtype[Any]) -> Array:
    """Return an empty array of the results' type. Dask itself changes its number of axes."""
    return np.empty(0, result_type)


def _normalize(
    chunks: Any, shape: tuple[int, ...], d_model: int, result_type: np.dtype[Any]
) -> tuple[tuple[int, ...], ...]:
    """Return the chunks of the axes of shape in Dask's notation, followed by one chunk of d_model columns."""
    if isinstance(chunks, bool):
        raise TypeError(f"chunks must be an integer, a string or a tuple, not {chunks!r}")
    chunks_by_axis = chunks
    if isinstance(chunks, (int, np.integer, str)):
        chunks_by_axis = (chunks,) * len(shape)
    elif isinstance(chunks, (tuple, list)) and len(shape) == 1 and len(chunks) > 1:
        # for one dimension, a tuple contains the sizes of all chunks
        chunks_by_axis = (tuple(chunks),)
    try:
        result: tuple[tuple[int, ...], ...] = da.core.normalize_chunks(
            (*chunks_by_axis, (d_model,)), shape=(*shape, d_model), dtype=result_type
        )
        if min((size for sizes in result for size in sizes), default=0) < 0:
            raise ValueError("sizes must not be negative")
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"chunks={chunks!r} cannot divide an array of shape {shape} ({error})") from None
    return result
