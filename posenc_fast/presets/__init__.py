"""Every known encoding by name: one function a source, each returns an `Encoding`.

A preset is named after the source that it reproduces, has that source's parameters, and says in its docstring where
positions start and in what it differs from the paper. `names` lists them, `table` shows them all.

Examples
--------
>>> import posenc_fast as pf
>>> pf.presets.whisper(384).table(1500).shape
(1500, 384)
"""

from typing import TYPE_CHECKING, Any

from . import (
    _axes,
    _detection,
    _features,
    _images,
    _language,
    _random,
    _registry,
    _speech,
    _timesteps,
    _tutorials,
    _unpaired,
)
from ._axes import *
from ._detection import *
from ._features import *
from ._images import *
from ._language import *
from ._random import *
from ._registry import get, names, table
from ._speech import *
from ._timesteps import *
from ._tutorials import *
from ._unpaired import *

__all__ = ["get", "names", "table"]
__all__ += _axes.__all__
__all__ += _detection.__all__
__all__ += _features.__all__
__all__ += _images.__all__
__all__ += _language.__all__
__all__ += _random.__all__
__all__ += _speech.__all__
__all__ += _timesteps.__all__
__all__ += _tutorials.__all__
__all__ += _unpaired.__all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return _registry.get(name)
