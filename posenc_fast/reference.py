"""What is computed: the definition, the tutorials' programs, and the package's names bound to NumPy.

Every encoding is a row of independent sinusoids::

    out[n, c] = amplitude[c] * sin(sum_a position[n, a] * frequency[c, a] + 2 pi phase[c])

A cosine is a phase of a quarter turn, a layout is an order of the columns, and a rotary encoding turns pairs of values
by the same angles. The functions and classes here have the names, signatures and accuracy of the package's own, and
compute in pure Python and NumPy, whatever backend is chosen: they are what the compiled kernel is compared with.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ._encoding import builders as _api
from ._encoding import grid as _grid
from ._encoding import periods as _periods
from ._encoding import value as _encoding
from ._engine import backend as _backend
from ._numbers import schedule as _schedule
from ._numbers.arrays import Floats
from ._rotary import value as _rotary
from ._rotary import weights as _weights

__all__ = [
    "Encoding",
    "Rotary",
    "float32_frequencies",
    "fourier_features",
    "geometric",
    "grid",
    "join",
    "linear",
    "periodic",
    "permute_rotary",
    "positional_encoding",
    "sinusoidal",
    "vaswani_loops",
    "vaswani_numpy",
]


def __dir__() -> list[str]:
    return sorted(__all__)


P = ParamSpec("P")
# a function of several signatures keeps them
Tabled = TypeVar("Tabled", bound=Callable[..., Any])

# ---- the two programs of the tutorials --------------------------------------------------------------------------


def vaswani_loops(length: int, d_model: int) -> Floats:
    """The paper's formula as a double loop.

    Parameters
    ----------
    length, d_model : int
        Rows and columns.

    Returns
    -------
    ndarray of float64, shape (length, d_model)

    Notes
    -----
    PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)): section 3.5 of Vaswani et al.,
    "Attention Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> from posenc_fast import reference
    >>> reference.vaswani_loops(2, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """
    table = np.empty((length, d_model))
    for p in range(length):
        for c in range(d_model):
            angle = p / 10000.0 ** ((c - c % 2) / d_model)
            table[p, c] = math.sin(angle) if c % 2 == 0 else math.cos(angle)
    return table


def vaswani_numpy(length: int, d_model: int) -> Floats:
    """The paper's formula in array operations.

    Parameters
    ----------
    length, d_model : int
        Rows and columns.

    Returns
    -------
    ndarray of float64, shape (length, d_model)

    Notes
    -----
    The formula of `vaswani_loops`, in the form in which tutorials vectorise it.

    Examples
    --------
    >>> from posenc_fast import reference
    >>> reference.vaswani_numpy(2, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """
    positions = np.arange(length)[:, np.newaxis]
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(positions * frequencies)
    table[:, 1::2] = np.cos(positions * frequencies[: d_model // 2])
    return table


# ---- the package's public names, bound to this implementation ---------------------------------------------------


class Encoding(_encoding.Encoding):
    __doc__ = _encoding.Encoding.__doc__
    __slots__ = ()
    _pinned = "python"


class Rotary(_rotary.Rotary):
    __doc__ = _rotary.Rotary.__doc__
    __slots__ = ()
    _pinned = "python"
    _encodings = Encoding


def _bound(function: Callable[P, _encoding.Encoding]) -> Callable[P, Encoding]:
    """The same builder, for an Encoding that computes here."""

    @functools.wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> Encoding:
        encoding = function(*args, **kwargs)
        return Encoding._of(encoding._sinusoids, encoding._recipe)

    return build


sinusoidal = _bound(_api.sinusoidal)
fourier_features = _bound(_api.fourier_features)
join = _bound(_api.join)
float32_frequencies = _schedule.float32_frequencies
geometric = _schedule.geometric
permute_rotary = _weights.permute_rotary
linear = _schedule.linear
periodic = _periods.periodic


def _here(function: Tabled) -> Tabled:
    """The same function, computing here."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _backend.use_backend("python"):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


positional_encoding = _here(_api.positional_encoding)
grid = _here(_grid.grid)
