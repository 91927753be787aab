"""Every sinusoidal position encoding, rounded once from the exact value, at the speed of memory.

================================  ====================================================
`positional_encoding`             the table of a sequence, in one call
`sinusoidal`, `fourier_features`  an `Encoding`: of one formula, or of any frequencies
`Encoding.table`, `.encode`       rows of 0, 1, ..; of any positions or times
`Encoding.add_to`                 rows added to an array, without a table
`periodic`                        cycles, such as the day and the week, as frequencies
`join`, `grid`                    encodings of several axes, and all points of a grid
`Rotary`                          queries and keys turned: RoPE
`presets`                         some 170 published encodings by name
`identify`, `identify_rotary`     which encoding made a table, or turned vectors
`check`                           whether code, a loaded model or its files are right
`use_backend`                     pure Python, or the kernel of one kind of CPU
================================  ====================================================

In other packages' shapes, each imported by its own name: `posenc_fast.torch`, `posenc_fast.transformers`,
`posenc_fast.jax`, `posenc_fast.numba`, `posenc_fast.dask`, `posenc_fast.sklearn`, `posenc_fast.polars`;
`posenc_fast.plot` draws. `posenc_fast.testing` has an assertion for tests of your own code.

Examples
--------
>>> import posenc_fast as pf
>>> pf.positional_encoding(2048, 512).shape
(2048, 512)
"""

from typing import TYPE_CHECKING, Any

from ._encoding.builders import fourier_features, join, positional_encoding, sinusoidal
from ._encoding.columns import reorder_columns
from ._encoding.periods import periodic
from ._encoding.value import Encoding
from ._encoding.value import encoding_of as _encoding_of
from ._engine.backend import backend, isa, isa_levels, use_backend
from ._numbers.schedule import Schedule, float32_frequencies, geometric, linear
from ._numbers.schedule import schedule_of as _schedule_of
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
    from ._check.check import check
    from ._check.report import Finding, Report
    from ._encoding.capsule import get_include
    from ._encoding.grid import grid
    from ._identify.encoding import Identification, identify
    from ._identify.rotary import RotaryIdentification, identify_rotary
    from ._positions.masks import mask_coordinates, mask_positions, relative_positions
    from ._rotary.value import Rotary
    from ._rotary.weights import permute_rotary

# pickles name them here, and `_rotary_of`
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

# of optional packages
SUBMODULES = ("dask", "jax", "numba", "plot", "polars", "sklearn", "torch", "transformers")
# where names are that are imported when they are used: most programs use few, and together they take longer than the rest
_LATE = {
    "Finding": "_check.report",
    "Identification": "_identify.encoding",
    "Report": "_check.report",
    "Rotary": "_rotary.value",
    "RotaryIdentification": "_identify.rotary",
    "_rotary_of": "_rotary.value",
    "check": "_check.check",
    "get_include": "_encoding.capsule",
    "grid": "_encoding.grid",
    "identify": "_identify.encoding",
    "identify_rotary": "_identify.rotary",
    "mask_coordinates": "_positions.masks",
    "mask_positions": "_positions.masks",
    "permute_rotary": "_rotary.weights",
    "presets": "presets",
    "reference": "reference",
    "relative_positions": "_positions.masks",
    "testing": "testing",
}

# names in other libraries
_OTHERS = {
    "accelerate": "posenc_fast.transformers.accelerate",
    "apply_rotary_pos_emb": "posenc_fast.torch.apply_rotary_pos_emb",
    "positionalencoder": "posenc_fast.sklearn.PositionalEncoder",
    "positionalembedding": "posenc_fast.torch.SinusoidalEncoding, or positional_encoding,",
    "rope": "Rotary",
    "rotary_embedding": "Rotary, or posenc_fast.torch.rotary_embedding,",
    "rotaryembedding": "Rotary, or posenc_fast.torch.RotaryEncoding,",
    "rotaryencoding": "posenc_fast.torch.RotaryEncoding, or Rotary,",
    "sinusoidalencoding": "posenc_fast.torch.SinusoidalEncoding, or sinusoidal,",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        from ._numbers.names import meant

        module = _LATE.get(name)
        if module is not None:
            loaded = import_module(f".{module}", __name__)
            globals()[name] = loaded if name == module else getattr(loaded, name.lstrip("_"))
            return globals()[name]
        if name in SUBMODULES:
            try:
                return import_module(f".{name}", __name__)
            except ImportError as error:
                # for hasattr, help and others that look; `from posenc_fast import` still has the ImportError
                raise AttributeError(
                    f"module {__name__!r} has no attribute {name!r} here: {error}", name=name
                ) from error
        other = _OTHERS.get(name.lower())
        hint = f"; is {other} meant?" if other else meant(name, (*__all__, *SUBMODULES))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)


def __dir__() -> list[str]:
    # help and others ask for all that is named here, which should not import other packages
    return sorted({*__all__, *(name for name in SUBMODULES if name in globals()), "typing"})
