"""Position encodings as a scikit-learn transformer: timestamps and other numbers become sines and cosines.

Needs scikit-learn: ``pip install scikit-learn``.

Examples
--------
>>> import pandas as pd
>>> from posenc_fast.sklearn import PositionalEncoder
>>> encoder = PositionalEncoder(periods=["1D", "7D"]).set_output(transform="pandas")
>>> times = pd.DataFrame({"time": pd.date_range("2026-01-01 03:00", periods=3, freq="8h")})
>>> encoder.fit_transform(times).round(3)
   time_sin0  time_cos0  time_sin1  time_cos1
0      0.707      0.707      0.112      0.994
1      0.259     -0.966      0.400      0.917
2     -0.966      0.259      0.652      0.758
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ._encoding.builders import LAYOUTS, columns_of, fourier_features, sinusoidal
from ._encoding.periods import periodic
from ._encoding.rows import encode
from ._encoding.value import Encoding
from ._numbers.arrays import Array
from ._numbers.formats import wanted_type
from ._numbers.names import one_of
from ._positions.conversion import convert
from ._positions.positions import Converted
from .typing import Layout

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import _check_feature_names_in, check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("posenc_fast.sklearn needs scikit-learn: pip install scikit-learn") from error

__all__ = ["PositionalEncoder"]


def __dir__() -> list[str]:
    return sorted(__all__)


# the arguments that periods replace, and their defaults
_SCHEDULE = {"d_model": 16, "base": 10000.0, "freq_shift": 0.0, "first": 1.0}


class PositionalEncoder(TransformerMixin, BaseEstimator):
    """Encode every column as positions: sines and cosines of geometrically spaced frequencies, or of given periods.

    Parameters
    ----------
    d_model : int
        Columns made of each column.
    base, freq_shift, first : float
        Frequencies, as in `posenc_fast.sinusoidal`: those of the transformer by default.
    periods : sequence of shape (k,), optional
        Lengths of k cycles, as in `posenc_fast.periodic`: numbers in units of the column, or times such as "1D"; all
        of one sort. Of a time column, numbers are seconds: "1D", 86400 and ``numpy.timedelta64(1, "D")`` are a day, and
        24 is 24 seconds. They replace d_model, base, freq_shift and first, and each column becomes 2 k. Whole periods
        are whole turns: the sine of midnight is 0.
    layout : {"interleaved", "concatenated"}
        Sine and cosine of one frequency next to each other, or all sines of a column before all cosines.
    dtype : dtype, optional
        Of what `transform` returns: float64, float32 (the default) or float16; every value is rounded once.

    Attributes
    ----------
    encoding_ : Encoding
        What each column is encoded with.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of str
        Their names, where all are strings.

    See Also
    --------
    posenc_fast.sinusoidal : the formula, and its source.
    sklearn.compose.ColumnTransformer : for settings of their own for some columns.

    Notes
    -----
    Column c of value p becomes ``sin(p * frequency), cos(p * frequency), ..``. Nothing is learned but the names of the
    columns.

    Columns of a pandas DataFrame may be of different types: integers (exact over all of int64 and uint64), real
    numbers, and times, which count seconds since 1970, or seconds, exact to their own unit; times with a zone count as
    UTC. Everything else is taken as `sklearn.utils.check_array` takes it. A missing value, NaN or NaT, gives NaN in
    all columns made of it; infinite values are an error.

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
        layout: Layout = "interleaved",
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.d_model = d_model
        self.base = base
        self.freq_shift = freq_shift
        self.first = first
        self.periods = periods
        self.layout: Layout = layout
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the settings, and the types and names of the columns.

        Parameters
        ----------
        X : array_like or DataFrame of shape (n_samples, n_features)
            Integers, real numbers or times.
        y : None
            Ignored.

        Returns
        -------
        PositionalEncoder
            Itself.

        Raises
        ------
        TypeError, ValueError
            When a setting or a column does not fit.
        """
        encoding = self._encoding()
        wanted_type(self.dtype)
        self._columns(X, reset=True)
        self.encoding_ = encoding
        return self

    def transform(self, X: Any) -> Array:
        """Return the sines and cosines of every column.

        Parameters
        ----------
        X : array_like or DataFrame of shape (n_samples, n_features)
            The columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_features * encoding_.d_model)
            Those of the first column first; of another type after `set_output`.

        Raises
        ------
        TypeError, ValueError
            When a column does not fit, or `fit` was not called.
        """
        check_is_fitted(self)
        columns = self._columns(X, reset=False)
        d, result_type = self.encoding_.d_model, wanted_type(self.dtype)
        result = np.empty((len(columns[0]), len(columns) * d), result_type)
        for i, column in enumerate(columns):
            encode(self.encoding_._plans, column, result_type, result[:, i * d : (i + 1) * d])
        return result

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that `transform` makes: ``time_sin0, time_cos0, time_sin1, ..``.

        Parameters
        ----------
        input_features : array_like of str, optional
            Names of the columns, where `fit` saw none; ``x0, x1, ..`` by default.

        Returns
        -------
        ndarray of str, of type object

        Raises
        ------
        ValueError
            When the names are not those that `fit` saw, or as many.
        """
        check_is_fitted(self)
        d = self.encoding_.d_model
        made = [f"{('sin', 'cos')[f]}{i}" for f, i in columns_of([-(-d // 2), d // 2], self.layout).T]
        names = _check_feature_names_in(self, input_features)
        return np.array([f"{name}_{each}" for name in names for each in made], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        # dtype says what comes out
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _encoding(self) -> Encoding:
        layout = one_of(self.layout, "layout", LAYOUTS)
        schedule = {name: getattr(self, name) for name in _SCHEDULE}
        if self.periods is None:
            return sinusoidal(**schedule, layout=layout)
        cycles = periodic(self.periods)
        for name, usual in _SCHEDULE.items():
            if schedule[name] != usual:
                raise ValueError(f"periods excludes {name}={schedule[name]!r}; leave one of them out")
        return fourier_features(cycles, layout=layout)

    def _columns(self, X: Any, *, reset: bool) -> list[Converted]:
        """Return the positions of each column."""
        if not (hasattr(X, "iloc") and hasattr(X, "columns")):
            values = validate_data(self, X, reset=reset, ensure_all_finite="allow-nan")
            return [convert(column, 1, "X") for column in values.T]
        # as one array, times and integers beside real numbers would become objects
        validate_data(self, X, reset=reset, skip_check_array=True)
        if len(X.columns) == 0:
            raise ValueError(f"X has no columns, but {type(self).__name__} needs at least one")
        columns = []
        for i, label in enumerate(X.columns):
            name = f"X[{label!r}]"
            column = convert(X.iloc[:, i], 1, name)
            check_array(column.rounded()[:, np.newaxis], ensure_all_finite="allow-nan", estimator=self, input_name=name)
            columns.append(column)
        return columns
