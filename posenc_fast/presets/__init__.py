"""Every known encoding by name: one function a source, each returns an `Encoding` or a `Rotary`.

A preset is named after the source that it reproduces, has that source's parameters, and says in its docstring where
positions start and in what it differs from the paper. `names` lists them, `search` finds some, `table` shows them all.

Examples
--------
>>> import posenc_fast as pf
>>> pf.presets.whisper(384).table(1500).shape
(1500, 384)
>>> pf.presets.flux().tables(pf.presets.positions.flux(64, 64, text=512))[0].shape
(4608, 64)
"""

from typing import TYPE_CHECKING, Any

# a thread waits here while another one imports the package, as it holds the lock of none of the package's modules yet
import posenc_fast as _package  # noqa: F401

from . import (
    _axes,
    _detection,
    _earth,
    _features,
    _images,
    _language,
    _molecules,
    _random,
    _registry,
    _rotary_diffusion,
    _rotary_language,
    _rotary_multimodal,
    _rotary_vision,
    _speech,
    _tabular,
    _timesteps,
    _tutorials,
    _unpaired,
    positions,
)
from ._axes import *
from ._detection import *
from ._earth import *
from ._features import *
from ._images import *
from ._language import *
from ._molecules import *
from ._random import *
from ._registry import get, names, search, table
from ._rotary_diffusion import *
from ._rotary_language import *
from ._rotary_multimodal import *
from ._rotary_vision import *
from ._speech import *
from ._tabular import *
from ._timesteps import *
from ._tutorials import *
from ._unpaired import *

__all__ = ["get", "names", "positions", "search", "table"]
__all__ += _axes.__all__
__all__ += _detection.__all__
__all__ += _earth.__all__
__all__ += _features.__all__
__all__ += _images.__all__
__all__ += _language.__all__
__all__ += _molecules.__all__
__all__ += _random.__all__
__all__ += _rotary_diffusion.__all__
__all__ += _rotary_language.__all__
__all__ += _rotary_multimodal.__all__
__all__ += _rotary_vision.__all__
__all__ += _speech.__all__
__all__ += _tabular.__all__
__all__ += _timesteps.__all__
__all__ += _tutorials.__all__
__all__ += _unpaired.__all__


def __dir__() -> list[str]:
    return sorted(__all__)


def _repr_html_() -> str:
    # notebooks ask a module as they ask an object
    return _registry.catalogue()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return _registry.get(name)
