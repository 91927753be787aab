"""Published encodings by name: each function returns the `Encoding` or `Rotary` of one source.

A preset is named after the source that it reproduces. Its docstring tells which positions to pass, and how the source
differs from the original: "Attention Is All You Need" (called the paper), or RoFormer for rotary presets. `names` lists
all presets, `search` finds presets by words, and `table` returns formulas, columns and sources of all presets as a
Markdown table.

Examples
--------
>>> import posenc_fast as pf
>>> pf.presets.whisper(384).table(1500).shape
(1500, 384)
>>> pf.presets.flux().tables(pf.presets.positions.flux(64, 64, text=512))[0].shape
(4608, 64)
"""

from typing import TYPE_CHECKING, Any

# if another thread is importing the package, wait for it here. A later wait could deadlock: this thread would then hold
# the import lock of another module, for which the other thread may be waiting.
import posenc_fast as _package  # noqa: F401

from . import _catalogue, _registry
from ._catalogue import search as search
from ._catalogue import table as table
from ._families import FAMILIES
from ._registry import get as get
from ._registry import names as names

if TYPE_CHECKING:
    from . import positions as positions
    from ._axes import *
    from ._detection import *
    from ._earth import *
    from ._features import *
    from ._images import *
    from ._language import *
    from ._molecules import *
    from ._random import *
    from ._rotary_diffusion import *
    from ._rotary_language import *
    from ._rotary_multimodal import *
    from ._rotary_vision import *
    from ._speech import *
    from ._tabular import *
    from ._timesteps import *
    from ._tutorials import *
    from ._unpaired import *
else:
    # type checkers read the names from the lines above
    __all__ = ["get", "names", "positions", "search", "table"]
    __all__ += list(FAMILIES)

    def __dir__() -> list[str]:
        return sorted(__all__)

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        if name == "positions":
            from importlib import import_module

            return import_module(".positions", __name__)
        globals()[name] = _registry.get(name)
        return globals()[name]


def _repr_html_() -> str:
    # notebooks look up this name on the module, and call it to show the module
    return _catalogue.catalogue()
