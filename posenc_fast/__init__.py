"""Sinusoidal and rotary (RoPE) position encodings, accurate at any position and fast on the CPU.

================================  ====================================================
`positional_encoding`             compute the table of a sequence in one call
`sinusoidal`, `fourier_features`  build an `Encoding` from the formula, or from frequencies
`Encoding.table`, `.encode`       compute the rows of positions 0, 1, .., or of any positions
`Encoding.add_to`                 add rows to an array, without a table
`periodic`                        use cycles, such as the day and the week, as frequencies
`join`, `grid`                    combine axes, and encode all points of a grid
`Rotary`                          apply RoPE to queries and keys
`presets`                         some 170 published encodings by name
`identify`, `identify_rotary`     find the encoding of a table, or of rotated vectors
`check`                           check code, a loaded model, or the files of a model
`use_backend`                     choose NumPy, or the compiled kernel and its instruction set
================================  ====================================================

Modules for other packages, which ``import posenc_fast`` does not load: `posenc_fast.torch`,
`posenc_fast.transformers`, `posenc_fast.jax`, `posenc_fast.numba`, `posenc_fast.dask`, `posenc_fast.sklearn`,
`posenc_fast.polars`. `posenc_fast.plot` draws encodings. `posenc_fast.testing` has an assertion for tests of your code.

Examples
--------
>>> import posenc_fast as pf
>>> pf.positional_encoding(2048, 512).shape
(2048, 512)
"""

from ._start import end_quietly as _end_quietly

_end_quietly()

from typing import TYPE_CHECKING, Any

from ._core.encoding.builders import fourier_features, join, positional_encoding, sinusoidal
from ._core.encoding.columns import reorder_columns
from ._core.encoding.periods import periodic
from ._core.encoding.value import Encoding
from ._core.encoding.value import encoding_of as _encoding_of
from ._core.engine.backend import backend, isa, isa_levels, use_backend
from ._core.numbers.schedule import Schedule, float32_frequencies, geometric, linear
from ._core.numbers.schedule import schedule_of as _schedule_of
from ._version import __version__

if TYPE_CHECKING:
    from . import dask as dask
    from . import numba as numba
    from . import plot as plot
    from . import presets, reference
    from . import sklearn as sklearn
    from . import testing as testing
    from . import torch as torch
    from . import transformers as transformers
    from ._core.encoding.capsule import get_include
    from ._core.encoding.grid import grid
    from ._core.positions.masks import mask_coordinates, mask_positions, relative_positions
    from ._core.rotary.value import Rotary
    from ._core.rotary.weights import permute_rotary
    from ._models.check.check import check
    from ._models.check.report import Finding, Report
    from ._models.identify.encoding import Identification, identify
    from ._models.identify.rotary import RotaryIdentification, identify_rotary

# Pickles name these functions, and `_rotary_of`, as attributes of this module, so they must be available here.
_PICKLED = (_encoding_of, _schedule_of)

__all__ = [
    "Encoding",
    "Finding",
    "Identification",
    "Report",
    "Rotary",
    "RotaryIdentification",
    "Schedule",
    "__version__",
    "backend",
    "check",
    "float32_frequencies",
    "fourier_features",
    "geometric",
    "get_include",
    "grid",
    "identify",
    "identify_rotary",
    "isa",
    "isa_levels",
    "join",
    "linear",
    "mask_coordinates",
    "mask_positions",
    "periodic",
    "permute_rotary",
    "positional_encoding",
    "presets",
    "reference",
    "relative_positions",
    "reorder_columns",
    "sinusoidal",
    "use_backend",
]

# modules that need an optional package
SUBMODULES = ("dask", "jax", "numba", "plot", "polars", "sklearn", "torch", "transformers")
# name -> module from which it is imported on first use, because most programs use few names, and importing all is slow
_LAZY = {
    "Finding": "_models.check.report",
    "Identification": "_models.identify.encoding",
    "Report": "_models.check.report",
    "Rotary": "_core.rotary.value",
    "RotaryIdentification": "_models.identify.rotary",
    "_rotary_of": "_core.rotary.value",
    "check": "_models.check.check",
    "get_include": "_core.encoding.capsule",
    "grid": "_core.encoding.grid",
    "identify": "_models.identify.encoding",
    "identify_rotary": "_models.identify.rotary",
    "mask_coordinates": "_core.positions.masks",
    "mask_positions": "_core.positions.masks",
    "permute_rotary": "_core.rotary.weights",
    "presets": "presets",
    "reference": "reference",
    "relative_positions": "_core.positions.masks",
    "testing": "testing",
}

# name in other libraries, in lower case -> equivalent here
_OTHERS = {
    "accelerate": "posenc_fast.torch.RotaryEncoding or posenc_fast.torch.apply_rotary_pos_emb",
    "apply_rotary_pos_emb": "posenc_fast.torch.apply_rotary_pos_emb",
    "positionalencoder": "posenc_fast.sklearn.PositionalEncoder",
    "positionalembedding": "posenc_fast.torch.SinusoidalEncoding or positional_encoding",
    "rope": "Rotary",
    "rotary_embedding": "Rotary or posenc_fast.torch.rotary_embedding",
    "rotaryembedding": "Rotary or posenc_fast.torch.RotaryEncoding",
    "rotaryencoding": "posenc_fast.torch.RotaryEncoding or Rotary",
    "sinusoidalencoding": "posenc_fast.torch.SinusoidalEncoding or sinusoidal",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        from ._core.numbers.names import meant

        module = _LAZY.get(name)
        if module is not None:
            loaded = import_module(f".{module}", __name__)
            globals()[name] = loaded if name == module else getattr(loaded, name.lstrip("_"))
            return globals()[name]
        if name in SUBMODULES:
            try:
                return import_module(f".{name}", __name__)
            except ImportError as error:
                # hasattr and help expect an AttributeError; `from posenc_fast import ..` still raises the ImportError
                raise AttributeError(
                    f"module {__name__!r} cannot import its submodule {name!r}: {error}", name=name
                ) from error
        other = _OTHERS.get(name.lower())
        hint = f"; did you mean {other}?" if other else meant(name, (*__all__, *SUBMODULES))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)


def __dir__() -> list[str]:
    # help() reads, and so imports, each name in this list; list modules for optional packages only if they are imported
    return sorted({*__all__, *(name for name in SUBMODULES if name in globals()), "typing"})
