"""Position encodings as polars expressions: columns of times and numbers become Array columns of sines and cosines.

Importing this module registers the namespace ``posenc`` of expressions. It works on eager and lazy frames, and in
streaming, which encodes each batch of rows separately. Needs polars: ``pip install polars``.

``POSENC_FAST_BACKEND`` and ``POSENC_FAST_ISA`` select the backend and the instruction set of the threads of polars that
compute batches. `posenc_fast.use_backend` around the call has no effect on these threads. All backends and instruction
sets compute the same bits.

Examples
--------
>>> import datetime
>>> import polars as pl
>>> import posenc_fast.polars
>>> frame = pl.LazyFrame({"time": [datetime.datetime(2026, 1, 1, 6), None, datetime.datetime(2026, 1, 1, 18)]})
>>> rows = frame.select(pl.col("time").posenc.cycles(["day"]))
>>> rows.collect_schema()["time"]
Array(Float32, shape=(2,))
>>> rows.collect()["time"].to_list()
[[1.0, 0.0], None, [-1.0, 0.0]]
"""

# without polars, pyright resolves `import polars` to this module
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ._core.encoding.builders import LAYOUTS, sinusoidal
from ._core.encoding.cycles import Cycles
from ._core.encoding.rows import encode
from ._core.numbers.arrays import Array
from ._core.numbers.formats import wanted_type
from ._core.numbers.names import one_of
from ._core.positions.conversion import convert
from .typing import Layout

try:
    import polars as pl
except ImportError as error:
    raise ImportError("posenc_fast.polars needs polars; run pip install polars") from error

__all__ = ["ExprNamespace"]


def __dir__() -> list[str]:
    return sorted(__all__)


@pl.api.register_expr_namespace("posenc")
class ExprNamespace:
    """Namespace ``posenc`` of polars expressions: encode a column as positions.

    Null stays null. NaN and infinite numbers become rows of NaN.

    See Also
    --------
    posenc_fast.sklearn.PositionalEncoder : encoder of whole frames, for scikit-learn pipelines.

    Examples
    --------
    >>> import polars as pl
    >>> import posenc_fast.polars
    >>> frame = pl.DataFrame({"age": [0.0, None, 2.5]})
    >>> frame.select(pl.col("age").posenc.encode(4, base=100.0))["age"].is_null().to_list()
    [False, True, False]
    """

    def __init__(self, expr: Any) -> None:
        self._expr = expr

    def cycles(
        self,
        periods: Any,
        *,
        timezone: str | None = None,
        layout: Layout = "interleaved",
        dtype: npt.DTypeLike | None = None,
    ) -> Any:
        """Return the sine and cosine of each of k cycles for a column of times or numbers.

        Parameters
        ----------
        periods : sequence of shape (k,)
            Names of cycles of the calendar: "day", "week" (from Monday), "month", "quarter" and "year". Or lengths of
            cycles, as in `posenc_fast.periodic`: "12h", 43200 and ``datetime.timedelta(hours=12)`` are half a day.
            For columns of numbers, give lengths, not names.
        timezone : str, optional
            Key of the zone database, such as "Europe/Berlin". Its wall clock defines days, weeks, months, quarters and
            years, and times without a zone are read as UTC. Default: the zone of the column. Times without a zone are
            then read as local times. Lengths are always counted in UTC.
        layout : {"interleaved", "concatenated"}
            Sine and cosine of one cycle side by side (default), or all sines before all cosines.
        dtype : dtype, optional
            As in `encode`.

        Returns
        -------
        polars.Expr
            Expression of type ``Array(Float32, 2 * k)`` (or with the given dtype), with the name of the column.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. An invalid column raises the error when the frame is computed.

        Examples
        --------
        >>> import datetime
        >>> import polars as pl
        >>> import posenc_fast.polars
        >>> frame = pl.DataFrame({"time": [datetime.datetime(2026, 1, 1, 6)]})
        >>> frame.select(pl.col("time").posenc.cycles(["day", "week", "12h"]))["time"].to_numpy().round(2)
        array([[ 1.  ,  0.  ,  0.22, -0.97,  0.  , -1.  ]], dtype=float32)
        """
        cycles = Cycles(periods, one_of(layout, "layout", LAYOUTS), timezone)
        result_type = wanted_type(dtype)

        def rows(column: Any) -> Array:
            return cycles.encode(column, result_type, name=_label(column))

        # raise the error for an unknown timezone now, not when the frame is computed
        rows(pl.Series([], dtype=pl.Datetime))
        return self._mapped(rows, len(cycles.columns), result_type)

    def encode(
        self,
        d_model: int,
        *,
        base: float = 10000.0,
        freq_shift: float = 0.0,
        first: float = 1.0,
        layout: Layout = "interleaved",
        dtype: npt.DTypeLike | None = None,
    ) -> Any:
        """Return the rows of `posenc_fast.sinusoidal` for a column of positions.

        Parameters
        ----------
        d_model : int
            Width of the Array column.
        base, freq_shift, first : float
            Parameters of the frequencies, as in `posenc_fast.sinusoidal` (default: 10000, 0 and 1).
        layout : {"interleaved", "concatenated"}
            Sine and cosine of one frequency side by side (default), or all sines before all cosines.
        dtype : dtype, optional
            float64, float32 (default), or float16 if this version of polars supports it. Every value is rounded once.

        Returns
        -------
        polars.Expr
            Expression of type ``Array(Float32, d_model)`` (or with the given dtype), with the name of the column.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. A column of another type than integers, real numbers or times raises the error
            when the frame is computed.

        Notes
        -----
        Integers of up to 64 bits are exact, and 128-bit integers must fit in 64 bits. Dates and timestamps are
        converted to seconds since 1970, and durations to seconds, without loss of precision. Timestamps with a zone are
        converted to UTC.

        Examples
        --------
        >>> import polars as pl
        >>> import posenc_fast.polars
        >>> frame = pl.DataFrame({"position": [0, 1]})
        >>> encoded = frame.select(pl.col("position").posenc.encode(4, base=100.0))
        >>> encoded["position"].to_numpy().round(2)
        array([[0.  , 1.  , 0.  , 1.  ],
               [0.84, 0.54, 0.1 , 1.  ]], dtype=float32)
        """
        encoding = sinusoidal(d_model, base=base, freq_shift=freq_shift, first=first, layout=layout)
        result_type = wanted_type(dtype)

        def rows(column: Any) -> Array:
            return encode(encoding._plans, convert(column, 1, _label(column)), result_type)

        return self._mapped(rows, encoding.d_model, result_type)

    def _mapped(self, rows: Callable[[Any], Array], width: int, result_type: np.dtype[Any]) -> Any:
        """Return an expression that calls rows for each batch of the column."""
        # the polars type with the name of the dtype, such as pl.Float32
        number_type = getattr(pl, result_type.name.capitalize(), None)
        if number_type is None:
            raise TypeError(
                f"dtype must be one that polars {pl.__version__} supports, such as 'float32', not {result_type.name}"
            )
        array_type = pl.Array(number_type, width)

        def encoded(column: Any) -> Any:
            if column.dtype.is_nested():
                raise TypeError(
                    f"{_label(column)} is of type {column.dtype}, but must contain integers, real numbers or times"
                )
            # polars cannot infer the width from an array without rows
            result = pl.Series(column.name, rows(column) if len(column) else [], array_type)
            if column.null_count():
                # replace rows by null where the column is null
                result = pl.select(pl.when(column.is_not_null()).then(result)).to_series()
            return result

        return self._expr.map_batches(encoded, array_type, is_elementwise=True)


def _label(column: Any) -> str:
    return f"column {column.name!r}"
