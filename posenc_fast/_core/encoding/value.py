"""The class Encoding: an immutable value with frequencies, phases and amplitudes, and methods that compute rows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np

from ...typing import Layout, Precision
from ..engine.blocks import Target, one_thread
from ..numbers import annotations as npt
from ..numbers.arguments import (
    check_precision,
    check_size,
    check_workers,
    count_of,
    progression,
    real,
    real_array,
)
from ..numbers.arrays import Array, Floats, base_array, check_out, empty, overlap
from ..numbers.formats import float_type, wanted_type
from ..numbers.schedule import Schedule, explicit
from ..numbers.signatures import DType, EncodeOptions, Float, TableOptions
from ..positions.conversion import convert
from ..positions.positions import Converted
from . import algebra as _algebra
from . import recipes
from .plans import Plans
from .recipes import Recipe, recipe_of
from .rows import add, encode, fill_progression, same_memory
from .sinusoids import Partners, Sinusoids
from .windows import coarse_to_fine

if TYPE_CHECKING:
    from ..numbers.signatures import Out

# default values of phases and amplitudes
_COLUMNS = {"phases": 0.0, "amplitudes": 1.0}


class Encoding:
    """A row of sinusoids: ``amplitude[c] * sin(sum_a position[a] * frequency[c, a] + 2 pi phase[c])``.

    An Encoding is immutable. Encodings are equal, and have the same hash, if their schedules of frequencies are equal,
    and each column has the same frequency on each axis, phase and amplitude. You can pickle an Encoding, and share it
    between threads.

    Parameters
    ----------
    frequencies : array_like of shape (d,) or (d, A), or Schedule
        Frequency of each column in radians per unit of position, for one axis or for A axes. Numbers are converted to
        float64, and then used without further rounding.
    phases : array_like of shape () or (d,)
        Phase of each column in turns (default: 0). A cosine is a sine with a phase of 0.25.
    amplitudes : array_like of shape () or (d,)
        Factor of each column (default: 1). A column of zeros has amplitude 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, for example not finite, or of a shape that does not match.

    See Also
    --------
    sinusoidal, fourier_features, join : functions that return an Encoding.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> encoding = pf.Encoding([1.0, 1.0], phases=[0.0, 0.25])
    >>> encoding.encode(0)
    array([0., 1.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_derived", "_plans", "_recipe", "_sinusoids")
    _sinusoids: Sinusoids
    _recipe: Recipe
    _plans: Plans
    _derived: dict[str, Any]

    def __init__(
        self, frequencies: npt.ArrayLike | Schedule, phases: npt.ArrayLike = 0.0, amplitudes: npt.ArrayLike = 1.0
    ) -> None:
        schedule: Schedule
        if isinstance(frequencies, Schedule):
            schedule, index = frequencies, np.arange(len(frequencies))[:, np.newaxis]
            written: Schedule | Floats = schedule
        else:
            values = real_array(frequencies, "frequencies")
            if values.ndim not in (1, 2) or values.size == 0:
                raise ValueError(
                    f"frequencies has shape {values.shape}, but must have shape (d,) or (d, axes), with d and axes at "
                    "least 1"
                )
            (schedule, index), written = explicit(values), values.copy()
        d = len(index)
        arrays: list[Floats] = []
        for name, column in (("phases", phases), ("amplitudes", amplitudes)):
            array = real_array(column, name)
            if array.shape not in ((), (d,)):
                raise ValueError(
                    f"{name} has shape {array.shape}, but must be one number, or have shape ({d},) with one number for "
                    "each frequency"
                )
            arrays.append(np.broadcast_to(array, (d,)))
        sinusoids = Sinusoids((schedule,), index, *arrays)
        columns = {"phases": sinusoids.phases, "amplitudes": sinusoids.amplitudes}
        short_columns = {name: float(a[0]) if (a == a[0]).all() else a for name, a in columns.items()}
        self._set(sinusoids, recipe_of("Encoding", written, defaults=_COLUMNS, **short_columns))

    @classmethod
    def _of(cls, sinusoids: Sinusoids, recipe: Recipe = "") -> Self:
        """Return an encoding with these columns. recipe is the call that creates the encoding (see `recipes`)."""
        self = cls.__new__(cls)
        self._set(sinusoids, recipe)
        return self

    def _set(self, sinusoids: Sinusoids, recipe: Recipe) -> None:
        # _derived is a cache of values computed from this encoding; the keys are names
        values: dict[str, Any] = {
            "_sinusoids": sinusoids,
            "_recipe": recipe,
            "_plans": Plans(sinusoids),
            "_derived": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # ---- the value ----------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Encoding is frozen: {name} cannot be set; create a new Encoding")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Encoding is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        sinusoids = self._sinusoids
        columns = sinusoids.index, sinusoids.phases, sinusoids.amplitudes
        cls = None if type(self) is Encoding else type(self)
        return encoding_of, (cls, sinusoids.schedules, *columns, self._recipe)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoding):
            return NotImplemented
        return self._sinusoids == other._sinusoids

    def __hash__(self) -> int:
        return hash(self._sinusoids)

    def __repr__(self) -> str:
        if self._recipe:
            return recipes.shown(self._recipe)
        axes = f" over {self.ndim} axes" if self.ndim > 1 else ""
        return f"<Encoding of {self.d_model} columns{axes}>"

    def _repr_html_(self) -> str:
        # imported here because only notebooks need it
        from .picture import figure

        return figure(self._sinusoids, repr(self), f"{self.d_model} columns")

    def __posenc_encoding__(self) -> Any:
        """Return a capsule for programs compiled with ``posenc_fast.h`` (see `get_include`).

        The pointer in the capsule is valid as long as the capsule exists. Programs that use the capsule compute at the
        instruction-set level that is active when this method is called.

        Raises
        ------
        ValueError
            If the encoding has exact periods, which the C interface does not support.
        RuntimeError
            If there is no compiled kernel.
        """
        # imported here because only compiled programs need it
        from .capsule import encoding_capsule

        return encoding_capsule(self._plans)

    @property
    def recipe(self) -> str | None:
        """Python expression that rebuilds the encoding with all its numbers.

        Evaluate it with ``eval(recipe, vars(posenc_fast))``. Exact periods that are neither integers nor float64
        numbers, such as 16/3, are written as ``Fraction(16, 3)``. Then `eval` also needs the name ``Fraction``. The
        recipe is None if posenc_fast knows no call that rebuilds the encoding. Otherwise `repr` returns the recipe,
        with arrays of more than 64 numbers shortened.
        """
        return recipes.written(self._recipe) or None

    @property
    def base(self) -> float | None:
        """Base of the frequencies. None unless `sinusoidal` created the encoding from a base."""
        base: float | None = recipes.option(self._recipe, "sinusoidal", "base", 10000.0)
        return None if recipes.option(self._recipe, "sinusoidal", "frequencies", None) is not None else base

    @property
    def layout(self) -> Layout | None:
        """Layout passed to `sinusoidal` or `fourier_features`. None if another function created the encoding."""
        layout: Layout | None = recipes.option(self._recipe, "sinusoidal", "layout", "interleaved")
        if layout is None:
            layout = recipes.option(self._recipe, "fourier_features", "layout", "concatenated")
        return layout

    @property
    def d_model(self) -> int:
        """Number of columns."""
        return self._sinusoids.width

    @property
    def ndim(self) -> int:
        """Number of axes of a position."""
        return self._sinusoids.axes

    @property
    def frequencies(self) -> Floats:
        """Frequency of each column in radians per unit of position, rounded to float64.

        The shape is (d,), or (d, A) for A axes. The argument `frequencies` of `sinusoidal` has one frequency for each
        pair of columns instead, about d/2 in all.
        """
        values = self._sinusoids.radians()[self._sinusoids.index]
        return values[:, 0] if self.ndim == 1 else values

    @property
    def phases(self) -> Floats:
        """Phase of each column in turns, an array of shape (d,)."""
        return self._sinusoids.phases

    @property
    def amplitudes(self) -> Floats:
        """Amplitude of each column, an array of shape (d,)."""
        return self._sinusoids.amplitudes

    @property
    def wavelengths(self) -> Floats:
        """Wavelength of each column in units of position; infinite for frequency 0.

        The shape is (d,), or (d, A) for A axes.
        """
        with np.errstate(divide="ignore"):
            return 2 * np.pi / np.abs(self.frequencies)

    # ---- tables -------------------------------------------------------------------------------------------------

    @overload
    def table(
        self, length: int, *, dtype: None = ..., out: None = ..., **options: Unpack[TableOptions]
    ) -> npt.NDArray[np.float32]: ...

    @overload
    def table(
        self, length: int, *, dtype: DType[Float], out: None = ..., **options: Unpack[TableOptions]
    ) -> npt.NDArray[Float]: ...

    @overload
    def table(
        self, length: int, *, dtype: npt.DTypeLike | None = ..., out: Out | None = ..., **options: Unpack[TableOptions]
    ) -> Out: ...

    def table(
        self,
        length: int,
        *,
        start: float = 0,
        step: float = 1,
        dtype: npt.DTypeLike | None = None,
        precision: Precision = "exact",
        out: Array | None = None,
        workers: int | None = None,
    ) -> Array:
        """Return a table whose row i has the position ``start + i * step``.

        Parameters
        ----------
        length : int
            Number of rows. For 0, the result is an empty array.
        start, step : int or float
            First position, and distance between positions (default: 0 and 1). Integer positions may be any of int64 and
            uint64.
        dtype : dtype, optional
            float64, float32, float16 or bfloat16 of ml_dtypes (default: the dtype of out, or float32).
        precision : {"exact", "float32"}
            "exact" rounds the exact value once (default). "float32" reproduces frameworks that compute in float32: it
            rounds frequencies, positions and their products to float32, then evaluates the exact sine.
        out : ndarray of shape (length, d_model), optional
            Array for the result. If dtype is given, out must have this dtype. Each row must be contiguous.
        workers : int, optional
            Maximum number of threads, as in `scipy.fft` (default: 1). Small tables use one thread.

        Returns
        -------
        ndarray of shape (length, d_model)

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. Nothing is written in this case.

        Notes
        -----
        The bits of a row at an integer position do not depend on start, length, step, workers or out.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> pf.sinusoidal(4, base=100.0).table(2)
        array([[0.        , 1.        , 0.        , 1.        ],
               [0.84147096, 0.5403023 , 0.09983341, 0.9950042 ]], dtype=float32)
        """
        if workers is None or (type(length) is int and one_thread(workers, length * self._plans.width)):
            calls = self._plans.calls()
            rows = None if calls is None else calls.table(length, start, step, dtype, precision, out)
            if rows is not None:
                return rows  # type: ignore[no-any-return]
        length = count_of(length, "length", 0)
        shape = length, self._plans.width
        check_size("length", length, shape, 2)
        self._one_axis("table")
        result_type = wanted_type(dtype, out, "table")
        check_size("length", length, shape, result_type.itemsize)
        single, threads = check_precision(precision), check_workers(workers)
        first, exact_step = progression(start, step, length)
        result = empty(shape, result_type) if out is None else check_out(out, shape, result_type, "table")
        if length:
            fill_progression(self._plans, Target(result, warm=out is not None), first, exact_step, single, threads)
        return result if out is None else out

    @overload
    def encode(
        self, positions: npt.ArrayLike, *, dtype: None = ..., out: None = ..., **options: Unpack[EncodeOptions]
    ) -> npt.NDArray[np.float32]: ...

    @overload
    def encode(
        self, positions: npt.ArrayLike, *, dtype: DType[Float], out: None = ..., **options: Unpack[EncodeOptions]
    ) -> npt.NDArray[Float]: ...

    @overload
    def encode(
        self,
        positions: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike | None = ...,
        out: Out | None = ...,
        **options: Unpack[EncodeOptions],
    ) -> Out: ...

    def encode(
        self,
        positions: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike | None = None,
        precision: Precision = "exact",
        out: Array | None = None,
        workers: int | None = None,
        variance: npt.ArrayLike | None = None,
    ) -> Array:
        """Return the rows of any positions.

        Parameters
        ----------
        positions : array_like of shape (...), or (..., A) for an encoding of A axes
            Integers (all of int64 and uint64), real numbers, or times of NumPy, Python, pandas, polars or pyarrow.
            Timestamps count seconds since 1970 (UTC if they have no time zone), and durations count seconds. Times are
            used without rounding, in every unit except durations in months or years. Arrays may be of NumPy, pandas,
            polars or pyarrow, or a torch tensor on the CPU. A list may mix integers and real numbers. NaN, infinite,
            masked and missing positions (None, NA, NaT) become rows of NaN.
        dtype, precision, out, workers
            As in `table`. The shape of out is (..., d_model).
        variance : array_like, optional
            Variance of uncertain positions, in squared units of position: one number, an array with the shape of the
            positions, or a matrix for each position, (..., A, A). Each column is then averaged over a normal
            distribution around the position, which multiplies it by exp(-frequency^2 variance / 2). For several axes,
            frequency^2 variance is the sum of frequency[a] frequency[b] covariance[a, b] over axes a and b. This is an
            integrated encoding.

        Returns
        -------
        ndarray of shape (..., d_model)

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. Nothing is written in this case.

        Notes
        -----
        These bounds are for columns of amplitude 1, with a = abs(position * frequency). The error of float32, float16
        and bfloat16 is at most half a unit in the last place of the result plus 2^-50 min(1, a), for a up to 2^53. For
        64-bit integers and frequencies up to 1, this bound holds for every a. The error of float64 is at most one unit
        in the last place plus 2^-60 min(1, a) for a up to 2^31, and at most 2^-50 for a up to 2^53. If all phases are
        whole quarter turns, the rows of -p and p differ only in the signs of the sine columns. All other bits are
        equal.

        With a variance, the product of a column and exp(..) has a relative error of at most 2^-50, for float64 too.
        Then it is rounded once.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> pf.sinusoidal(2).encode([0.0, -0.5])
        array([[ 0.        ,  1.        ],
               [-0.47942555,  0.87758255]], dtype=float32)
        >>> pf.sinusoidal(2).encode(np.datetime64("2026-01-01T00:00:00")).shape
        (2,)
        >>> pf.fourier_features([1.0, 4.0]).encode(0.0, variance=0.5).round(4)
        array([0.    , 0.    , 0.7788, 0.0183], dtype=float32)
        """
        if variance is None and (workers is None or one_thread(workers, 0)):
            calls = self._plans.calls()
            rows = None if calls is None else calls.encode(positions, dtype, precision, out)
            if rows is not None:
                return rows  # type: ignore[no-any-return]
        result_type = wanted_type(dtype, out, "encode")
        single, threads = check_precision(precision), check_workers(workers)
        converted = convert(positions, self._plans.axes)
        if variance is not None:
            from .integrated import integrate

            return integrate(self._plans, converted, variance, result_type, out, single=single, threads=threads)
        return encode(self._plans, converted, result_type, out, single=single, threads=threads)

    def add_to(
        self,
        x: npt.NDArray[Float],
        *,
        start: float = 0,
        step: float = 1,
        positions: npt.ArrayLike | None = None,
        x_scale: float = 1.0,
        precision: Precision = "exact",
        out: npt.NDArray[Float] | None = None,
        workers: int | None = None,
    ) -> npt.NDArray[Float]:
        """Return ``x_scale * x + encoding``, rounded once, without creating a table.

        Parameters
        ----------
        x : ndarray of shape (..., L, d_model)
            Array of float64, float32, float16 or bfloat16.
        start, step : int or float
            Row i of the L rows has position ``start + i * step`` (default: 0 and 1).
        positions : array_like, optional
            Positions of the rows instead of start and step. Shape (L,), or (..., L) if each sequence of the batch has
            its own positions; with A axes, (L, A) or (..., L, A).
        x_scale : float
            Factor of x (default: 1).
        precision, workers
            As in `table`.
        out : ndarray of the shape and dtype of x, optional
            Array for the result. ``out=x`` adds in place. Otherwise, out must share no memory with x.

        Returns
        -------
        ndarray of the shape and dtype of x

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. x and out are unchanged in this case.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> x = np.ones((3, 2, 4), np.float32)
        >>> pf.sinusoidal(4).add_to(x, out=x) is x
        True
        >>> x[2, 0]
        array([1., 2., 1., 2.], dtype=float32)
        """
        if positions is None and (workers is None or one_thread(workers, 0)):
            calls = self._plans.calls()
            total = None if calls is None else calls.add(x, start, step, x_scale, precision, out)
            if total is not None:
                return total  # type: ignore[no-any-return]
        values = base_array(x, "x", "add_to")
        dtype, shape, plans = float_type(values.dtype, "x"), values.shape, self._plans
        if len(shape) < 2 or shape[-1] != plans.width:
            raise ValueError(
                f"x has shape {shape}, but must have shape (..., L, {plans.width}), where {plans.width} is the d_model "
                "of the encoding"
            )
        scale = real(x_scale, "x_scale")
        single, threads = check_precision(precision), check_workers(workers)
        rows = self._rows_of(shape, start, step, positions)
        result = empty(shape, dtype) if out is None else check_out(out, shape, dtype, "add_to")
        if out is not None and not same_memory(values, result) and overlap(values, result):
            raise ValueError(
                "out and x overlap without being the same array; pass out=x, or an out that shares no memory with x"
            )
        if values.size:
            add(plans, values, result, rows, scale, single, threads)
        return result if out is None else out

    def _rows_of(
        self, shape: tuple[int, ...], start: float, step: float, positions: npt.ArrayLike | None
    ) -> Converted | tuple[Fraction | int, Fraction | int]:
        """Return the converted positions, or (start, step) if positions is None. Raise an error for invalid arguments.

        shape is the shape of x.
        """
        if positions is None:
            self._one_axis("add_to without positions")
            return progression(start, step, shape[-2])
        if np.ndim(start) or np.ndim(step) or (start, step) != (0, 1):
            raise ValueError(f"pass positions, or start={start!r} and step={step!r}, not both")
        converted = convert(positions, self._plans.axes)
        if converted.shape not in (shape[-2:-1], shape[:-1]):
            own = f", or {shape[:-1]} if each sequence has its own positions" if len(shape) > 2 else ""
            raise ValueError(
                f"positions has shape {converted.shape}, but must have shape {shape[-2:-1]}{own}. For an encoding of "
                "several axes, these shapes leave out the last axis of positions"
            )
        return converted

    # ---- angle addition -----------------------------------------------------------------------------------------

    def shift(
        self, encoded: npt.NDArray[Float], offset: float, *, out: npt.NDArray[Float] | None = None
    ) -> npt.NDArray[Float]:
        """Return the rows of positions p + offset, given only the rows of positions p.

        Parameters
        ----------
        encoded : ndarray of shape (..., d_model)
            Rows of this encoding, in float64, float32, float16 or bfloat16.
        offset : float, or one for each axis
            Distance in units of position.
        out : ndarray of the shape and dtype of encoded, optional
            Array for the result. ``out=encoded`` shifts in place.

        Returns
        -------
        ndarray of the shape and dtype of encoded
            The error is at most the amplitude times two units in the last place of 1 in this dtype.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid, or a column that is not constant has no partner. A partner is a column of the
            same frequency and amplitude whose phase differs by a quarter turn.

        Notes
        -----
        sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b. So the row of p + offset is
        a linear function of the row of p. This is why Vaswani et al., 2017, arXiv:1706.03762, section 3.5, chose
        sinusoids.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> encoding = pf.sinusoidal(8)
        >>> moved = encoding.shift(encoding.encode(3), 4)
        >>> bool(np.abs(moved - encoding.encode(7)).max() < 3e-7)
        True
        """
        return _algebra.shift(self._plans, self._partners("shift"), encoded, offset, out)

    def transition_matrix(self, offset: float) -> Floats:
        """Return the matrix M for which ``encode(p) @ M`` is ``encode(p + offset)`` for every p, except for rounding.

        Parameters
        ----------
        offset : float, or one for each axis
            Distance in units of position.

        Returns
        -------
        ndarray of float64, shape (d_model, d_model)
            Orthogonal matrix. It is block diagonal if the two columns of each pair are adjacent.

        Raises
        ------
        TypeError, ValueError
            As for `shift`.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> encoding = pf.sinusoidal(8)
        >>> table = encoding.table(20, dtype=np.float64)
        >>> bool(np.allclose(table[10:] @ encoding.transition_matrix(-10), table[:10]))
        True
        """
        return _algebra.transition_matrix(self._plans, self._partners("transition_matrix"), offset)

    def similarity(self, offsets: npt.ArrayLike) -> Floats:
        """Return the dot product of encode(p) and encode(p + offset), which is the same for every p.

        Parameters
        ----------
        offsets : array_like of shape (...), or (..., A) for an encoding of A axes
            Distances in units of position.

        Returns
        -------
        ndarray of float64, shape (...)

        Raises
        ------
        TypeError, ValueError
            As for `shift`.

        Notes
        -----
        The result is the sum of ``amplitude**2 * cos(frequency * offset)`` over pairs of a sine and a cosine. Constant
        columns add the squares of their values.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> pf.sinusoidal(8).similarity(0)
        np.float64(4.0)
        """
        return _algebra.similarity(self._plans, self._partners("similarity"), offsets)

    def coarse_to_fine(self, alpha: float) -> Floats:
        """Return amplitudes that enable the frequencies one after another during training, the lowest first.

        Parameters
        ----------
        alpha : float
            Number of enabled frequencies. A fraction enables the next frequency in part. 0 disables all frequencies.
            The number of distinct frequencies enables all.

        Returns
        -------
        ndarray of float64, shape (d_model,)
            `amplitudes`, times ``(1 - cos(pi * clip(alpha - k, 0, 1))) / 2``, where k counts the distinct frequencies
            from 0, lowest first. With several axes, k counts the distinct lengths of frequency vectors. Constant
            columns keep their amplitude.

        Raises
        ------
        TypeError, ValueError
            If alpha is not a finite number.

        Notes
        -----
        For BARF (Lin et al. 2021, arXiv:2104.06405), use ``alpha = (progress - start) / (end - start) * n`` for n
        distinct frequencies. BARF's progress, start and end are fractions of the training. For Nerfies (Park et al.
        2021, arXiv:2011.12948), whose frequencies double from band to band, use the alpha of Nerfies minus
        min_freq_log2. Pass the amplitudes to a new Encoding, as in the example.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> bands = pf.presets.nerf(3, input_dims=1)
        >>> bands.coarse_to_fine(1.5).round(4)
        array([1. , 1. , 0.5, 0.5, 0. , 0. ])
        >>> now = pf.Encoding(bands.frequencies, bands.phases, bands.coarse_to_fine(1.5))
        """
        return coarse_to_fine(self._sinusoids, real(alpha, "alpha"))

    def locate(
        self, encoded: npt.ArrayLike, *, low: float | None = None, high: float | None = None
    ) -> tuple[Floats, Floats]:
        """Return the positions whose encodings are nearest to the given rows.

        Parameters
        ----------
        encoded : array_like of shape (..., d_model)
            Rows, exact or with noise.
        low, high : float, optional
            Ends of the interval to search (default: minus and plus half the longest wavelength). The time is
            proportional to the length of the interval divided by the shortest wavelength.

        Returns
        -------
        position : ndarray of float64, shape (...)
            Position in the interval whose encoding is nearest to the row; NaN for rows that are not finite.
        residual : ndarray of float64, shape (...)
            Euclidean distance between the row and the encoding of the position; NaN for rows that are not finite.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid, the encoding has several axes or only constant columns, or the interval is too
            long.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> encoding = pf.sinusoidal(8, base=100.0)
        >>> position, residual = encoding.locate(encoding.encode(12.5))
        >>> round(float(position), 4), bool(residual < 1e-6)
        (12.5, True)
        """
        return _algebra.locate(self._plans, encoded, low, high)

    def _partners(self, call: str) -> Partners:
        partners = self._sinusoids.partners()
        if isinstance(partners, int):
            # `partners` is the index of the first column without a partner
            column = partners
            raise ValueError(  # noqa: TRY004
                f"{call} needs sines and cosines in pairs: two columns of the same frequency and amplitude whose "
                f"phases differ by a quarter turn; column {column} of {self!r} has no partner"
            )
        return partners

    def _one_axis(self, call: str) -> None:
        if self._plans.axes != 1:
            fix = "use encode or grid" if call == "table" else "pass positions"
            raise ValueError(f"{call} needs an encoding of one axis, but this encoding has {self.ndim} axes; {fix}")


def encoding_of(cls: type[Encoding] | None, *state: Any) -> Encoding:
    """Return the Encoding with this state. Pickles call this function."""
    return (cls or Encoding)._of(Sinusoids(*state[:-1]), state[-1])


# Pickles contain the name posenc_fast._encoding_of, not the path of this module, so that the file can move.
encoding_of.__module__ = "posenc_fast"
encoding_of.__qualname__ = encoding_of.__name__ = "_encoding_of"
