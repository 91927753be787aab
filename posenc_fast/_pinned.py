"""The package's public names, bound to the engine in NumPy: `posenc_fast.reference` offers them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ._core.encoding import builders as _api
from ._core.encoding import grid as _grid
from ._core.encoding import periods as _periods
from ._core.encoding import value as _encoding
from ._core.engine import backend as _backend
from ._core.numbers import schedule as _schedule
from ._core.rotary import value as _rotary
from ._core.rotary import weights as _weights

P = ParamSpec("P")
# a function of several signatures keeps them
Tabled = TypeVar("Tabled", bound=Callable[..., Any])


class Encoding(_encoding.Encoding):
    __doc__ = _encoding.Encoding.__doc__
    # pickles name it there
    __module__ = "posenc_fast.reference"
    __slots__ = ()
    _pinned = "python"


class Rotary(_rotary.Rotary):
    __doc__ = _rotary.Rotary.__doc__
    __module__ = "posenc_fast.reference"
    __slots__ = ()
    _pinned = "python"
    _encodings = Encoding


def _bound(function: Callable[P, _encoding.Encoding]) -> Callable[P, Encoding]:
    """Return the same builder, for an Encoding that computes here."""

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
    """Return the same function, computing here."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _backend.use_backend("python"):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


positional_encoding = _here(_api.positional_encoding)
grid = _here(_grid.grid)
