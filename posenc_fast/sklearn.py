"""Position encodings as a scikit-learn transformer: timestamps and other numbers become sines and cosines.

Needs scikit-learn: ``pip install scikit-learn``.

Examples
--------
>>> import pandas as pd
>>> from posenc_fast.sklearn import PositionalEncoder
>>> encoder = PositionalEncoder(periods=["day", "week"]).set_output(transform="pandas")
>>> times = pd.DataFrame({"time": pd.date_range("2026-01-01 03:00", periods=3, freq="8h")})
>>> encoder.fit_transform(times).round(3)
   time_day_sin  time_day_cos  time_week_sin  time_week_cos
0         0.707         0.707          0.330         -0.944
1         0.259        -0.966          0.037         -0.999
2        -0.966         0.259         -0.259         -0.966
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ._core.encoding.builders import LAYOUTS, columns_of, fourier_features, sinusoidal
from ._core.encoding.cycles import Cycles
from ._core.encoding.periods import periodic
from ._core.encoding.rows import encode
from ._core.encoding.value import Encoding
from ._core.numbers.arrays import Array, Floats
from ._core.numbers.formats import wanted_type
from ._core.numbers.names import one_of
from ._core.positions.calendar import clock_of
from ._core.positions.conversion import convert
from .typing import Layout

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import _check_feature_names_in, check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("posenc_fast.sklearn needs scikit-learn; run pip install scikit-learn") from error

__all__ = ["PositionalEncoder"]


def __dir__() -> list[str]:
    return sorted(__all__)


# arguments of PositionalEncoder that have no effect if `periods` is given, and their defaults
_SCHEDULE = {"d_model": 16, "base": 10000.0, "freq_shift": 0.0, "first": 1.0}


class _Column(NamedTuple):
    """An input column. name is for errors. letter is "M" for timestamps, "m" for durations, and "" for numbers."""

    name: str
    values: Any
    letter: str


class PositionalEncoder(TransformerMixin, BaseEstimator):
    """Encode every column as positions: sines and cosines of geometrically spaced frequencies, or of given periods.

    Parameters
    ----------
    d_model : int
        Number of output columns for each input column.
    base, freq_shift, first : float
        Parameters of the frequencies, as in `posenc_fast.sinusoidal` (default: 10000, 0 and 1).
    periods : sequence of shape (k,), optional
        Periods of the sines and cosines, which replace d_model, base, freq_shift and first. Each column becomes 2 k
        columns. Three kinds of periods exist:

        - Cycles by name, for columns of timestamps: "day", "week", "month", "quarter" or "year". The encoder computes
          the part of the cycle that has passed by the wall clock and the calendar, as in
          `posenc_fast.presets.positions.calendar`.
        - Lengths such as "12h", as in `posenc_fast.periodic`, for columns of timestamps or durations. "1D" and
          ``numpy.timedelta64(1, "D")`` are 24 hours of UTC. You can combine lengths and cycles.
        - Numbers in units of the column. You cannot combine numbers with lengths or cycles.

        Columns of timestamps need periods. After a whole number of periods, the sine is exactly 0, such as the sine of
        "day" at midnight.
    timezone : str, optional
        Key of the zone database, such as "Europe/Berlin". Its wall clock defines days, weeks, months, quarters and
        years, and times without a zone are read as UTC. Default: the zone that each column had in `fit`, to which
        `transform` converts columns of another zone. Times without a zone are then read as local times, and a column
        must have a zone both in `fit` and in `transform`, or in neither. Lengths are always counted in UTC.
    layout : {"interleaved", "concatenated"}
        Sine and cosine of one frequency next to each other (default), or all sines of a column before all cosines.
    dtype : dtype, optional
        dtype of the result of `transform`: float64, float32 (default) or float16. Every value is rounded once.

    Attributes
    ----------
    encoding_ : Encoding
        Encoding of each column. If periods contain cycles of the calendar, its only period is 1, and it encodes the
        part of each period that has passed.
    range_ : ndarray of float64, of shape (n, 2)
        Smallest and largest position of each of the n columns. Defined only without periods.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of str
        Names of these columns. Defined only if all names are strings.

    See Also
    --------
    posenc_fast.sinusoidal : formula and source.
    posenc_fast.presets.positions.calendar : parts of cycles as numbers.
    sklearn.compose.ColumnTransformer : different settings for some columns.

    Notes
    -----
    A value p becomes ``sin(p * frequency), cos(p * frequency), ..``. `fit` stores the names and time zones of
    the columns. Without periods, `fit` also stores their ranges, which `inverse_transform` searches.

    Columns of a pandas or polars DataFrame, or of an Arrow table, may have different types: integers (exact over int64
    and uint64), real numbers, timestamps and durations (converted to seconds, without loss of precision). Other input
    is converted by `sklearn.utils.check_array`. A missing value, NaN or NaT, becomes NaN in all columns that encode it.
    Infinite values raise an error.

    Examples
    --------
    >>> import numpy as np
    >>> from posenc_fast.sklearn import PositionalEncoder
    >>> encoder = PositionalEncoder(4, base=100.0).fit([[0.0], [1.0]])
    >>> encoder.transform([[0.0], [2.5], [np.nan]]).round(2)
    array([[ 0.  ,  1.  ,  0.  ,  1.  ],
           [ 0.6 , -0.8 ,  0.25,  0.97],
           [  nan,   nan,   nan,   nan]], dtype=float32)
    >>> encoder.get_feature_names_out(["age"])
    array(['age_sin0', 'age_cos0', 'age_sin1', 'age_cos1'], dtype=object)
    """

    def __init__(
        self,
        d_model: int = 16,
        *,
        base: float = 10000.0,
        freq_shift: float = 0.0,
        first: float = 1.0,
        periods: Any = None,
        timezone: str | None = None,
        layout: Layout = "interleaved",
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.d_model = d_model
        self.base = base
        self.freq_shift = freq_shift
        self.first = first
        self.periods = periods
        self.timezone = timezone
        self.layout: Layout = layout
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the settings and the columns, and store what `transform` and `inverse_transform` need.

        Parameters
        ----------
        X : array_like or DataFrame of shape (n_samples, n_features)
            Integers, real numbers or times.
        y : None
            Ignored.

        Returns
        -------
        PositionalEncoder
            The encoder itself.

        Raises
        ------
        TypeError, ValueError
            If a setting or a column is invalid.
        """
        schedule = self._schedule()
        wanted_type(self.dtype)
        columns = self._columns(X, reset=True)
        self._check_times(columns, schedule if isinstance(schedule, Cycles) else None)
        clocks = [clock_of(column.values, column.name) if column.letter == "M" else None for column in columns]
        if isinstance(schedule, Cycles):
            for column in columns:
                schedule.check(column.values, column.name)
            self.encoding_ = schedule.encoding
        else:
            positions = [convert(column.values, 1, column.name).rounded() for column in columns]
            self.range_ = np.array([(np.fmin.reduce(numbers), np.fmax.reduce(numbers)) for numbers in positions])
            self.encoding_ = schedule
        # one entry for each column: the result of `clock_of` for timestamps, None for other columns
        self._clocks = clocks
        return self

    def transform(self, X: Any) -> Array:
        """Return the sines and cosines of every column.

        Parameters
        ----------
        X : array_like or DataFrame of shape (n_samples, n_features)
            Columns of the same names and order as in `fit`, with any number of rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features * d)
            Encoded columns, in the order of the input columns. d is d_model, or 2 k for k periods. `set_output` can
            change the type.

        Raises
        ------
        TypeError, ValueError
            If a column is invalid, or `fit` was not called.
        """
        check_is_fitted(self)
        columns, d, result_type = self._columns(X, reset=False), len(self._endings()), wanted_type(self.dtype)
        cycles = None if self.periods is None else self._cycles()
        self._check_times(columns, cycles)
        zones = [self._zone(i, column) for i, column in enumerate(columns)]
        result = np.empty((len(columns[0].values), len(columns) * d), result_type)
        for i, (name, values, _) in enumerate(columns):
            out = result[:, i * d : (i + 1) * d]
            if cycles is not None:
                cycles.encode(values, result_type, out, name=name, zone=zones[i])
            else:
                encode(self.encoding_._plans, convert(values, 1, name), result_type, out)
        return result

    def inverse_transform(self, X: Any) -> Any:
        """Return the positions of encoded rows; with periods, return the part of each cycle that has passed.

        Parameters
        ----------
        X : array_like or DataFrame of shape (n_samples, columns of the result of `transform`)
            Encoded rows, which may contain noise. The columns of a frame must have the names of
            `get_feature_names_out`.

        Returns
        -------
        ndarray or DataFrame of float64
            Without periods: the positions of each column of `fit`, searched within ``range_`` (seconds for durations).
            With periods: one column for each input column and period, in [0, 1).
            The accuracy depends on the dtype of X. Results computed from NaN are NaN. If X is a frame, the result is a
            frame, with the names of the input columns, or with periods ``time_day, time_week, ..``.

        Raises
        ------
        TypeError, ValueError
            If the columns differ from those of `transform`, or a position cannot be recovered. Without periods, each
            column must have had a position in `fit`, and its range must be shorter than the longest wavelength of a
            pair of sine and cosine. With periods, the two values of a pair must not both be 0.

        Examples
        --------
        >>> import numpy as np
        >>> from posenc_fast.sklearn import PositionalEncoder
        >>> encoder = PositionalEncoder(8, dtype=np.float64).fit([[0], [500]])
        >>> encoder.inverse_transform(encoder.transform([[20], [123]])).round(6)
        array([[ 20.],
               [123.]])
        >>> times = np.array([["2026-01-05T06:00"], ["2026-01-08T12:00"]], "M8[s]")
        >>> clock = PositionalEncoder(periods=["day", "week"], dtype=np.float64)
        >>> clock.inverse_transform(clock.fit_transform(times)).round(6)
        array([[0.25    , 0.035714],
               [0.5     , 0.5     ]])
        """
        check_is_fitted(self)
        width, columns = len(self._endings()), self.get_feature_names_out()
        names = list(X.columns) if hasattr(X, "columns") else None
        if names is not None and names != columns.tolist():
            raise ValueError(
                f"X has the columns {names}, but must have the columns of get_feature_names_out: {columns.tolist()}"
            )
        values = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
        if values.shape[1] != len(columns):
            raise ValueError(
                f"X has {values.shape[1]} columns, but must have {len(columns)}, like the result of transform"
            )
        labels: list[str] = [] if self.periods is None else self._cycles().labels
        features = _check_feature_names_in(self).tolist()
        # `blocks` has the encoded columns of each feature
        blocks = [values[:, i * width : (i + 1) * width] for i in range(len(features))]
        if self.periods is None:
            result = np.stack([self._located(i, block) for i, block in enumerate(blocks)], axis=1)
        else:
            features = [f"{feature}_{label}" for feature in features for label in labels]
            result = np.hstack(
                [_parts_of_cycles(block, columns[i * width :], self.layout) for i, block in enumerate(blocks)]
            )
        if names is None:
            return result
        if hasattr(X, "iloc"):
            return type(X)(result, columns=features, index=X.index)
        return type(X)(result, schema=features)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the output columns: ``time_sin0, time_cos0, ..``, or with periods ``time_day_sin, ..``.

        Parameters
        ----------
        input_features : array_like of str, optional
            Names of the input columns if `fit` saw none (default: ``x0, x1, ..``).

        Returns
        -------
        ndarray of str, of type object

        Raises
        ------
        ValueError
            If the names, or the number of names, differ from `fit`.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array([f"{name}_{ending}" for name in names for ending in self._endings()], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        # the output has the dtype of the parameter `dtype`, whatever the dtype of X is
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _cycles(self) -> Cycles:
        return Cycles(self.periods, one_of(self.layout, "layout", LAYOUTS), self.timezone)

    def _schedule(self) -> Encoding | Cycles:
        """Return the Encoding or the Cycles of the settings, or raise an error."""
        layout = one_of(self.layout, "layout", LAYOUTS)
        schedule = {name: getattr(self, name) for name in _SCHEDULE}
        if self.periods is None:
            if self.timezone is not None:
                raise ValueError(
                    f"timezone={self.timezone!r} needs periods with a calendar cycle; pass periods, such as ['day'], "
                    "or leave timezone out"
                )
            return sinusoidal(**schedule, layout=layout)
        cycles = self._cycles()
        for name, default in _SCHEDULE.items():
            if schedule[name] != default:
                raise ValueError(f"pass periods or {name}={schedule[name]!r}, not both")
        return cycles

    def _check_times(self, columns: list[_Column], cycles: Cycles | None) -> None:
        """Raise an error for timestamps if periods is missing or contains a number without a unit."""
        for name, _, letter in columns:
            if cycles is not None:
                cycles.check_lengths(letter, name)
            elif letter == "M":
                raise ValueError(f"periods is missing, but {name} has timestamps; pass periods, such as ['day', '24h']")

    def _zone(self, i: int, column: _Column) -> datetime.tzinfo | None:
        """Return the zone that a column had in `fit`. Return None for numbers and durations, or if `timezone` is given.

        Also return None if the column had no zone in `fit`, or several. Raise an error if timestamps have a zone only
        in `fit`, or only in `transform`.
        """
        clock = self._clocks[i]
        if self.timezone is not None or column.letter != "M" or clock is None:
            return None
        had_zone, zone = clock
        has_zone, _ = clock_of(column.values, column.name)
        if has_zone != had_zone:
            now, before = ("a time zone", "no time zone") if has_zone else ("no time zone", "a time zone")
            raise ValueError(
                f"{column.name} has {now}, but had {before} in fit; use a time zone in fit and in transform, or "
                "in neither, for example with .dt.tz_localize of pandas or .dt.replace_time_zone of polars"
            )
        return zone

    def _endings(self) -> list[str]:
        """Return the name endings of the output columns of one input column."""
        if self.periods is not None:
            return self._cycles().columns
        functions, frequencies = self._order()
        return [f"{('sin', 'cos')[function]}{i}" for function, i in zip(functions, frequencies, strict=True)]

    def _order(self) -> Array:
        """Return the function (0 sine, 1 cosine) and the index of the frequency of each column, of shape (2, d_model).

        Only for settings without periods.
        """
        d = self.encoding_.d_model
        return columns_of([-(-d // 2), d // 2], self.layout)

    def _located(self, feature: int, rows: Floats) -> Floats:
        """Return the positions of one column's rows within the range of `fit`."""
        low, high = self.range_[feature].tolist()
        name, d = _check_feature_names_in(self)[feature], self.encoding_.d_model
        # if the width is odd, omit the last sine, because it has no cosine
        _, frequency_of_column = self._order()
        in_pairs = frequency_of_column < d // 2
        longest = max(self.encoding_.wavelengths[in_pairs].tolist(), default=0.0)
        if np.isnan(low):
            raise ValueError(f"column {name!r} cannot be recovered: all its positions were missing in fit")
        if not in_pairs.any():
            raise ValueError(
                f"column {name!r} cannot be recovered: d_model={d} has a sine without a cosine; pass a d_model of at least 2"
            )
        if high - low >= longest:
            raise ValueError(
                f"column {name!r} cannot be recovered: fit saw positions from {low!r} to {high!r}, but sines and "
                f"cosines repeat after at most {longest:.6g}; pass a smaller first=, or a larger base= if "
                "d_model is at least 4"
            )
        return self.encoding_.locate(rows, low=low, high=high)[0]

    def _columns(self, X: Any, *, reset: bool) -> list[_Column]:
        """Check columns as scikit-learn does, and return them."""
        labelled = _columns_of_frame(X)
        if labelled is None:
            values = validate_data(self, X, reset=reset, ensure_all_finite="allow-nan")
            letter = values.dtype.kind if values.dtype.kind in "mM" else ""
            return [_Column("X", column, letter) for column in values.T]
        # check columns one by one: one array of times, integers and real numbers would have dtype object
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not labelled:
            raise ValueError(f"X has no columns, but {type(self).__name__} needs at least one")
        columns = []
        for label, column in labelled:
            name = f"X[{label!r}]"
            converted = convert(column, 1, name)
            # the check below finds infinite values. Times are never infinite, so check zeros in their place.
            numbers = np.zeros(len(converted)) if converted.letter else converted.rounded()
            check_array(numbers[:, np.newaxis], ensure_all_finite="allow-nan", estimator=self, input_name=name)
            columns.append(_Column(name, column, converted.letter))
        return columns


def _columns_of_frame(X: Any) -> list[tuple[Any, Any]] | None:
    """Return labels and columns of a frame of pandas or polars, or of a table of Arrow; None for other input."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return [(label, X.iloc[:, i]) for i, label in enumerate(X.columns)]
    if hasattr(X, "get_columns"):
        return [(column.name, column) for column in X.get_columns()]
    if hasattr(X, "itercolumns"):
        return list(zip(X.column_names, X.itercolumns(), strict=True))
    return None


def _parts_of_cycles(rows: Floats, names: Any, layout: Layout) -> Floats:
    """Return the part of each cycle, (rows, k), from its sine and cosine."""
    count = rows.shape[1] // 2
    # `pairs` has the sine and the cosine of each cycle, in the shape (rows, k, 2)
    pairs = rows.reshape(-1, count, 2) if layout == "interleaved" else rows.reshape(-1, 2, count).swapaxes(1, 2)
    at_centre = np.argwhere((pairs == 0).all(axis=2))
    if len(at_centre):
        row, cycle = at_centre[0].tolist()
        sine = 2 * cycle if layout == "interleaved" else cycle
        raise ValueError(
            f"row {row} of X is 0 in {names[sine]!r} and in the column of its cosine, so the phase is undefined"
        )
    cycle_of_1 = fourier_features(periodic([1]))
    # project each pair onto the circle; scale it first, so that its squares neither overflow nor underflow
    pairs = np.ldexp(pairs, -np.frexp(np.abs(pairs).max(axis=2, keepdims=True))[1])
    pairs = pairs / np.sqrt((pairs**2).sum(axis=2, keepdims=True))
    parts = cycle_of_1.locate(pairs, low=0, high=1)[0]
    # locate moves a part beyond an end of [0, 1] to this end. Search such parts again in an interval around 0.
    ends = (parts == 0) | (parts == 1)
    parts[ends] = cycle_of_1.locate(pairs[ends], low=-0.5, high=0.5)[0]
    parts = parts - np.floor(parts)
    # part - floor(part) rounds a tiny negative part to 1, which is 0 on the circle
    return np.where(parts == 1, 0.0, parts)
