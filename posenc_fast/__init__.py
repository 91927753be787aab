"""Every sinusoidal position encoding, rounded once from the exact value, at the speed of memory."""

from . import reference
from ._api import fourier_features, join, positional_encoding, sinusoidal
from ._backend import backend, isa, isa_levels, use_backend
from ._encoding import Encoding
from ._grid import grid
from ._rotary import Rotary, permute_rotary
from ._schedule import Schedule, geometric, linear
from ._version import __version__

__all__ = [
    "Encoding",
    "Rotary",
    "Schedule",
    "__version__",
    "backend",
    "fourier_features",
    "geometric",
    "grid",
    "isa",
    "isa_levels",
    "join",
    "linear",
    "permute_rotary",
    "positional_encoding",
    "reference",
    "sinusoidal",
    "use_backend",
]
