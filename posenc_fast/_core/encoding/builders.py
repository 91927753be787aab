"""Functions that build an Encoding from the options of common implementations."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack, get_args, overload

import numpy as np

from ...typing import Function, Layout, Odd
from ..numbers import annotations as npt
from ..numbers.arguments import check_size, check_width, count_of, real, real_array
from ..numbers.arrays import Floats
from ..numbers.names import hinted, one_of
from ..numbers.schedule import Explicit, Geometric, Schedule, checked, explicit
from ..numbers.signatures import DType, Float, FormulaOptions
from .recipes import Recipe, recipe_of
from .sinusoids import Sinusoids
from .value import Encoding

if TYPE_CHECKING:
    from ..numbers.signatures import Out

LAYOUTS: tuple[Layout, ...] = get_args(Layout)
ODD: tuple[Odd, ...] = get_args(Odd)
# (phase in turns, sign of the amplitude) of each function
FUNCTIONS: dict[Function, tuple[float, float]] = {
    "sin": (0.0, 1.0),
    "cos": (0.25, 1.0),
    "-sin": (0.0, -1.0),
    "-cos": (0.25, -1.0),
}

# default values; a recipe leaves out arguments with these values
_DEFAULTS = {
    "base": 10000.0,
    "freq_shift": 0.0,
    "first": 1.0,
    "layout": "interleaved",
    "functions": ("sin", "cos"),
    "odd": "crop",
    "scale": 1.0,
}
_FEATURE_DEFAULTS = {"functions": ("sin", "cos"), "layout": "concatenated", "scale": 1.0}


def _functions(functions: Any) -> tuple[Function, ...]:
    if isinstance(functions, str) or not isinstance(functions, Sequence) or not functions:
        raise TypeError(f"functions must be a sequence of at least one name, such as ('sin', 'cos'), not {functions!r}")
    return tuple(one_of(f, "each name in functions", FUNCTIONS) for f in functions)


def _schedule_of(frequencies: Any, name: str) -> Schedule:
    if isinstance(frequencies, Schedule):
        return frequencies
    values = real_array(frequencies, name)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} has shape {values.shape}, but must have shape (k,), with at least one number")
    return Explicit(values)


def columns_of(counts: Sequence[int], layout: Layout) -> npt.NDArray[np.intp]:
    """Return an array (2, d) with the index of the function and the index of the frequency of each column.

    counts has the number of frequencies of each function.
    """
    columns = np.stack([np.repeat(np.arange(len(counts)), counts), np.concatenate([np.arange(n) for n in counts])])
    return columns if layout == "concatenated" else columns[:, np.argsort(columns[1], kind="stable")]


def _phases_and_amplitudes(
    functions: npt.NDArray[np.intp], names: Sequence[Function], factor: float
) -> tuple[Floats, Floats]:
    phases, signs = np.array([FUNCTIONS[name] for name in names]).T
    return phases[functions], factor * signs[functions]


@overload
def positional_encoding(
    length: int, d_model: int, *, dtype: None = ..., out: None = ..., **options: Unpack[FormulaOptions]
) -> npt.NDArray[np.float32]: ...


@overload
def positional_encoding(
    length: int, d_model: int, *, dtype: DType[Float], out: None = ..., **options: Unpack[FormulaOptions]
) -> npt.NDArray[Float]: ...


@overload
def positional_encoding(
    length: int,
    d_model: int,
    *,
    dtype: npt.DTypeLike | None = ...,
    out: Out | None = ...,
    **options: Unpack[FormulaOptions],
) -> Out: ...


@hinted
def positional_encoding(
    length: int,
    d_model: int,
    *,
    start: float = 0,
    step: float = 1,
    base: float = 10000.0,
    layout: Layout = "interleaved",
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
    workers: int | None = None,
) -> npt.NDArray[Any]:
    """Return the sinusoidal position encoding of a sequence: ``sinusoidal(d_model, ...).table(length, ...)``.

    Parameters
    ----------
    length : int
        Number of positions (rows).
    d_model : int
        Number of columns.
    start, step : int or float
        Row i has position ``start + i * step`` (default: 0 and 1).
    base : float
        Base of the powers in the formula (default: 10000, as in the paper). For a large d_model, the longest wavelength
        is almost 2 pi times the base.
    layout : {"interleaved", "concatenated"}
        "interleaved": sines in even columns, cosines in odd columns (default). "concatenated": all sines before all
        cosines.
    dtype : dtype, optional
        float64, float32, float16 or bfloat16 of ml_dtypes (default: the dtype of out, or float32). Each value is
        rounded once.
    out : ndarray of shape (length, d_model), optional
        Array for the result.
    workers : int, optional
        Maximum number of threads, as in `scipy.fft` (default: 1).

    Returns
    -------
    ndarray of shape (length, d_model)

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is written in this case.

    Notes
    -----
    PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos(p / base^(2i/d)): section 3.5 of Vaswani et al., "Attention
    Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.positional_encoding(4, 4, base=100.0)
    array([[ 0.        ,  1.        ,  0.        ,  1.        ],
           [ 0.84147096,  0.5403023 ,  0.09983341,  0.9950042 ],
           [ 0.9092974 , -0.41614684,  0.19866933,  0.9800666 ],
           [ 0.14112   , -0.9899925 ,  0.29552022,  0.9553365 ]],
          dtype=float32)
    """
    rows, columns = count_of(length, "length", 0), count_of(d_model, "d_model", 1)
    check_width(columns)
    check_size("length", rows, (rows, columns), 2)
    one_of(layout, "layout", LAYOUTS)
    encoding = _geometric(columns, real(base, "base", positive=True), 0.0, 1.0, layout, ("sin", "cos"), "crop", 1.0)
    return encoding.table(rows, start=start, step=step, dtype=dtype, out=out, workers=workers)


@hinted
def sinusoidal(
    d_model: int,
    *,
    base: float = 10000.0,
    freq_shift: float = 0.0,
    first: float = 1.0,
    frequencies: npt.ArrayLike | Schedule | Mapping[str, Any] | None = None,
    layout: Layout = "interleaved",
    functions: Sequence[Function] = ("sin", "cos"),
    odd: Odd = "crop",
    scale: float = 1.0,
) -> Encoding:
    """Return an Encoding with geometric frequencies: the transformer's position encoding and its variants.

    Parameters
    ----------
    d_model : int
        Number of columns.
    base, freq_shift, first : float
        Frequency i is ``first * base ** (-i / (d_model/2 - freq_shift))`` radians per unit of position (defaults:
        10000, 0 and 1). The power is not rounded. freq_shift=0 gives the exponents 2i/d of the paper. freq_shift=1
        gives i/(d/2-1), as in tensor2tensor, fairseq and Whisper. For an even d_model of at least 4, the last frequency
        is then exactly ``first / base``.
    frequencies : Schedule, array_like or mapping, optional
        Frequencies instead of base, freq_shift and first, one for each pair of columns: ``ceil(d_model/2)`` of them, or
        ``d_model//2`` if odd is "zero". A mapping such as ``{"sin": ..., "cos": ...}`` has separate frequencies for
        each function. The attribute `Encoding.frequencies` has one frequency for each column.
    layout : {"interleaved", "concatenated"}
        "interleaved": columns of one frequency are adjacent (default). "concatenated": all columns of the first
        function come first.
    functions : sequence of two of {"sin", "cos", "-sin", "-cos"}
        Functions of a pair, in the order of their columns (default: "sin", "cos").
    odd : {"crop", "zero", "error"}
        Treatment of an odd d_model. "crop": the first function has one more column, and d_model/2 in the formula is
        not rounded (default). "zero": ``d_model//2`` frequencies with the denominator ``d_model//2 - freq_shift``, and
        a last column of zeros. "error": a ValueError.
    scale : float
        Factor of all columns (default: 1).

    Returns
    -------
    Encoding

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, or if the denominator of the exponents is zero and there are several frequencies. If
        there is only one frequency, it is ``first`` for any denominator.

    Notes
    -----
    The formula is in section 3.5 of Vaswani et al., 2017, arXiv:1706.03762. A widely copied program returns
    [0.909, 0.9998, 0.0002, 1.0] for position 2 and width 4, because its exponent 2c/d uses the column c instead of the
    pair. The last example reproduces this row with separate frequencies for each function.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.sinusoidal(4).encode(2).round(4)
    array([ 0.9093, -0.4161,  0.02  ,  0.9998], dtype=float32)
    >>> own = {"sin": [1.0, 1e-4], "cos": [1e-2, 1e-6]}
    >>> [round(float(value), 4) for value in pf.sinusoidal(4, frequencies=own).encode(2)]
    [0.9093, 0.9998, 0.0002, 1.0]
    """
    d = count_of(d_model, "d_model", 1)
    check_width(d)
    one_of(layout, "layout", LAYOUTS)
    one_of(odd, "odd", ODD)
    names = _functions(functions)
    if len(names) != 2:
        raise ValueError(
            f"functions must be two names, not {functions!r}; fourier_features accepts any number of names"
        )
    factor = real(scale, "scale")
    settings = (real(base, "base", positive=True), real(freq_shift, "freq_shift"), real(first, "first"))
    if d % 2 and odd == "error":
        raise ValueError(f"d_model={d} is odd; give an even width, or odd='crop' or odd='zero'")
    if frequencies is None:
        return _geometric(d, *settings, layout, names, odd, factor)
    if settings != (10000.0, 0.0, 1.0):
        raise ValueError("pass frequencies, or base={}, freq_shift={} and first={}, not both".format(*settings))
    return _build(d, frequencies, layout, names, odd, factor, {})


@functools.lru_cache(maxsize=32)
def _geometric(
    d: int,
    base: float,
    shift: float,
    first: float,
    layout: Layout,
    names: tuple[Function, ...],
    odd: Odd,
    factor: float,
) -> Encoding:
    count = d // 2 if odd == "zero" else -(-d // 2)
    schedule = None
    if count:
        denominator = (Fraction(count) if odd == "zero" else Fraction(d, 2)) - Fraction(shift)
        schedule = checked(Geometric(count, base, denominator, first))
    return _build(d, schedule, layout, names, odd, factor, {"base": base, "freq_shift": shift, "first": first})


def _build(
    d: int,
    frequencies: Any,
    layout: Layout,
    names: tuple[Function, ...],
    odd: Odd,
    factor: float,
    formula: dict[str, Any],
) -> Encoding:
    # `used` is the number of columns without the column of zeros. `counts` has the number of columns of each function.
    used = d // 2 * 2 if odd == "zero" else d
    counts = [-(-used // 2), used // 2]
    if isinstance(frequencies, Mapping):
        if set(frequencies) != set(names) or len(set(names)) != 2:
            raise ValueError(
                f"frequencies has the keys {sorted(frequencies, key=str)}, but must have one key for each name in "
                f"functions={names!r}, and these two names must differ"
            )
        labels = [f"frequencies[{name!r}]" for name in names]
        schedules = [_schedule_of(frequencies[name], label) for name, label in zip(names, labels, strict=True)]
        lengths = counts
    elif frequencies is None:
        labels, schedules, lengths = [], [], []
    else:
        labels, schedules, lengths = ["frequencies"], [_schedule_of(frequencies, "frequencies")], counts[:1]
    for label, schedule, count in zip(labels, schedules, lengths, strict=True):
        if len(schedule) != count:
            raise ValueError(f"{label} has {len(schedule)} values, but d_model={d} with odd={odd!r} needs {count}")
    if schedules and not formula:
        formula = {"frequencies": dict(zip(names, schedules, strict=True)) if len(lengths) == 2 else schedules[0]}
    # an encoding of width 1 has no column for the second function
    if len(schedules) == 2 and counts[1] == 0:
        schedules.pop()
    function, index = columns_of(counts, layout)
    if len(schedules) == 2:
        # the index counts the frequencies of the first schedule and then those of the second
        index = index + function * len(schedules[0])
    phases, amplitudes = _phases_and_amplitudes(function, names, factor)
    if used < d:
        index, phases, amplitudes = np.append(index, -1), np.append(phases, 0.0), np.append(amplitudes, 0.0)
    options = formula | {"layout": layout, "functions": names, "odd": odd, "scale": factor}
    return Encoding._of(
        Sinusoids(schedules, index[:, np.newaxis], phases, amplitudes),
        recipe_of("sinusoidal", d, defaults=_DEFAULTS, **options),
    )


@hinted
def fourier_features(
    frequencies: npt.ArrayLike | Schedule,
    *,
    functions: Sequence[Function] = ("sin", "cos"),
    layout: Layout = "concatenated",
    scale: float = 1.0,
) -> Encoding:
    """Return an Encoding with any frequencies: random Fourier features, NeRF bands, frequencies over several axes.

    Parameters
    ----------
    frequencies : Schedule or array_like of shape (k,) or (k, A)
        Frequencies in radians per unit of position. With A axes, each row has a frequency for each axis. Each function
        has a column for each of the k frequencies or rows. The attribute `Encoding.frequencies` has one frequency for
        each column.
    functions : sequence of {"sin", "cos", "-sin", "-cos"}
        Functions of each frequency, in the order of their columns (default: "sin", "cos").
    layout : {"concatenated", "interleaved"}
        "concatenated": all columns of the first function come first (default). "interleaved": columns of one frequency
        are adjacent.
    scale : float
        Factor of all columns (default: 1).

    Returns
    -------
    Encoding
        Encoding with ``k * len(functions)`` columns.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    Tancik et al., "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains", 2020,
    arXiv:2006.10739. Pass ``2 pi B``, where B is the matrix of the paper.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> dense = pf.fourier_features([[1.0, 0.0], [1.0, 2.0]])
    >>> dense.encode([[0.5, 0.25]]).shape
    (1, 4)
    """
    one_of(layout, "layout", LAYOUTS)
    names = _functions(functions)
    factor = real(scale, "scale")
    schedule: Schedule
    if isinstance(frequencies, Schedule):
        schedule, index = frequencies, np.arange(len(frequencies))[:, np.newaxis]
        written: Any = schedule
    else:
        values = real_array(frequencies, "frequencies")
        if values.ndim not in (1, 2) or values.size == 0:
            raise ValueError(
                f"frequencies has shape {values.shape}, but must have shape (k,) or (k, axes), with k and axes at "
                "least 1"
            )
        (schedule, index), written = explicit(values), values.copy()
    function, number = columns_of([len(index)] * len(names), layout)
    return Encoding._of(
        Sinusoids((schedule,), index[number], *_phases_and_amplitudes(function, names, factor)),
        recipe_of(
            "fourier_features", written, defaults=_FEATURE_DEFAULTS, functions=names, layout=layout, scale=factor
        ),
    )


@hinted
def join(encodings: Sequence[Encoding], *, axes: Sequence[int | Sequence[int]] | None = None) -> Encoding:
    """Return an Encoding with the columns of several encodings side by side, over one or several axes.

    Parameters
    ----------
    encodings : sequence of Encoding
        Encodings to join, in the order of their columns.
    axes : sequence, optional
        Axis of the positions that each encoding reads, or a sequence of axes for an encoding of several axes. Several
        encodings may read the same axis. By default, no two encodings read the same axis: the axes follow each other in
        the order of the encodings.

    Returns
    -------
    Encoding
        Encoding over all axes that the encodings read.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, for example if axes leaves out an axis.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> row, column = pf.sinusoidal(4), pf.sinusoidal(6)
    >>> pf.join([row, column]).encode([3, 5]).shape
    (10,)
    """
    items: Any = encodings
    parts = list(items) if isinstance(items, Iterable) else []
    if not parts or not all(isinstance(part, Encoding) for part in parts):
        raise TypeError(f"encodings must be a sequence of at least one Encoding, not {encodings!r}")
    if axes is None:
        ends = np.cumsum([part.ndim for part in parts])
        axes_of_parts = [list(range(end - part.ndim, end)) for part, end in zip(parts, ends, strict=True)]
    elif not isinstance(axes, Sequence):
        raise TypeError(f"axes must be a sequence with the axis of each encoding, not {axes!r}")
    else:
        axes_of_parts = [
            [count_of(a, "each axis in axes", 0) for a in (item if isinstance(item, Sequence) else [item])]
            for item in axes
        ]
    if len(axes_of_parts) != len(parts) or any(
        len(part_axes) != part.ndim for part_axes, part in zip(axes_of_parts, parts, strict=False)
    ):
        raise ValueError(
            f"axes={axes!r} must have one item for each of the {len(parts)} encodings. An item is the axis of the "
            "encoding, or a sequence of its axes if the encoding has several"
        )
    count = max(a for part_axes in axes_of_parts for a in part_axes) + 1
    missing = set(range(count)).difference(*axes_of_parts)
    if missing:
        raise ValueError(f"axes={axes!r} leaves out axis {min(missing)}; number the axes from 0 without gaps")
    schedules: list[Schedule] = []
    indices = []
    # number of frequencies of all parts before `part`
    offset = 0
    for part, part_axes in zip(parts, axes_of_parts, strict=True):
        index = np.full((part.d_model, count), -1)
        # `index` has one frequency for each column and axis, so a column cannot have two frequencies on one axis
        if len(set(part_axes)) != len(part_axes):
            raise ValueError(f"axes={axes!r} lists an axis more than once for one encoding; list each axis once")
        sinusoids = part._sinusoids
        index[:, part_axes] = np.where(sinusoids.index < 0, -1, sinusoids.index + offset)
        indices.append(index)
        schedules += sinusoids.schedules
        offset += sum(len(schedule) for schedule in sinusoids.schedules)
    recipe: Recipe = ""
    if all(part._recipe for part in parts):
        shown_axes = None if axes is None else [a[0] if len(a) == 1 else a for a in axes_of_parts]
        recipe = recipe_of("join", [part._recipe for part in parts], defaults={"axes": None}, axes=shown_axes)
    return Encoding._of(
        Sinusoids(
            schedules,
            np.concatenate(indices),
            np.concatenate([part.phases for part in parts]),
            np.concatenate([part.amplitudes for part in parts]),
        ),
        recipe,
    )
