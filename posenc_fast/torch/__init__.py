"""Encodings in torch: modules for models on any device, and functions that read and write CPU tensors without copies.

Modules and functions support autograd in backward and forward mode, the transforms of ``torch.func``, ``torch.compile``
and ``torch.export``. Compiled code supports only backward mode. `apply_rotary_pos_emb` and `rotary_embedding` accept
tensors on any device. Import this module before you run an exported program: the import registers the operators that
the program calls.

Create each Encoding and Rotary outside of a function that you compile. ``torch.compile`` cannot trace their
constructors, and recompiles for each new object. In compiled code, ``start`` and ``step`` must be Python numbers, which
must fit in 64 bits if they are integers. With ``out``, compiled code copies the result to the given tensor.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("posenc_fast.torch needs the package torch; run pip install torch") from error

from typing import TYPE_CHECKING, Any

from .._core.numbers.names import meant
from ._functions import add_to, apply_rotary_pos_emb, encode, grid, rotary_embedding, rotate, table
from ._modules import RotaryEncoding, SinusoidalEncoding, _Dropout

__all__ = [
    "RotaryEncoding",
    "SinusoidalEncoding",
    "add_to",
    "apply_rotary_pos_emb",
    "encode",
    "grid",
    "rotary_embedding",
    "rotate",
    "table",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # keys: lowercase class names in tutorials and other libraries. Values: names of the same kind of class here.
        other = {"rotaryembedding": "RotaryEncoding", "positionalencoding": "SinusoidalEncoding"}.get(name.lower())
        hint = f"; did you mean {other!r}?" if other else meant(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)


# the module name that pickles refer to
for _public in (_Dropout, *(globals()[_name] for _name in __all__)):
    _public.__module__ = __name__
