"""Every sinusoidal position encoding, rounded once from the exact value, at the speed of memory."""

from typing import TYPE_CHECKING, Any

from . import reference
from ._api import fourier_features, join, positional_encoding, sinusoidal
from ._backend import backend, isa, isa_levels, use_backend
from ._encoding import Encoding
from ._grid import grid
from ._helpers import mask_coordinates, mask_positions, relative_positions, reorder_columns
from ._rotary import Rotary, permute_rotary
from ._schedule import Schedule, geometric, linear
from ._version import __version__

if TYPE_CHECKING:
    from . import presets
    from ._identify import Identification, identify
    from ._identify_rotary import RotaryIdentification, identify_rotary

__all__ = [
    "Encoding",
    "Identification",
    "Rotary",
    "RotaryIdentification",
    "Schedule",
    "__version__",
    "backend",
    "fourier_features",
    "geometric",
    "grid",
    "identify",
    "identify_rotary",
    "isa",
    "isa_levels",
    "join",
    "linear",
    "mask_coordinates",
    "mask_positions",
    "permute_rotary",
    "positional_encoding",
    "presets",
    "reference",
    "relative_positions",
    "reorder_columns",
    "sinusoidal",
    "use_backend",
]

# where names are that are imported when they are used
_LATE = {
    "Identification": "_identify",
    "RotaryIdentification": "_identify_rotary",
    "identify": "_identify",
    "identify_rotary": "_identify_rotary",
    "presets": "presets",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # only few programs use these, and they take as long to import as all the rest
        module = _LATE.get(name)
        if module is not None:
            from importlib import import_module

            found = import_module(f".{module}", __name__)
            globals()[name] = found if name == module else getattr(found, name)
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
