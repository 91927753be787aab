"""What a model's module that computes sines of consecutive positions gives, found by running it; and ours in its place.

Most modules read a ready table, which takes as long as to compute it anew, and which checkpoints may have: they are left.
"""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .._encoding.value import Encoding
from ..torch import encode
from ..torch._eager import only_values

__all__ = ["TABLE", "encoding_of", "is_candidate", "replacement"]

# why most are left
TABLE = "it reads a ready table, which takes no longer than to compute one"
# what it takes: an array of which the shape and the type count, the first position, and others in its place
PARAMETERS = ("inputs_embeds", "past_key_values_length", "position_ids")
# positions of which the sine is the angle itself in float32, and such as are compared
TINY, TRIED = 2.0**-24, (0, 1, 2, 77, 1000, 4095)


def is_candidate(module: torch.nn.Module) -> bool:
    """Whether a module says that it has sines."""
    cls = type(module)
    return "sinusoidal" in cls.__name__.lower() and cls.__module__.startswith("transformers.")


def encoding_of(module: Any) -> Encoding | str:
    """What a module adds, in float32 arithmetic; or why it is left."""
    if hasattr(type(module).forward, "__posenc_fast__"):
        return "it is ours already"
    if next(module.parameters(), None) is not None or next(module.buffers(), None) is not None:
        return TABLE
    names = tuple(inspect.signature(module.forward).parameters)
    if names != PARAMETERS or type(getattr(module, "embed_dim", None)) is not int:
        return f"it takes ({', '.join(names)}), which is not known"
    with torch.no_grad():
        try:
            return _found(module, torch.zeros(2, len(TRIED), module.embed_dim, device="cpu"))
        except Exception:  # noqa: BLE001 - whatever a model's module may raise
            return "it fails on the CPU in float32"


def _found(module: Any, x: torch.Tensor) -> Encoding | str:
    tiny = module(x, 0, torch.full((len(TRIED), 1), TINY))[0, 0].double().numpy() / TINY
    half = len(tiny) // 2
    # of a cosine nothing shows there: it is taken for that of the sine in the same place
    encoding = Encoding(np.tile(tiny[:half], 2), np.repeat([0.0, 0.25], half)) if len(tiny) == 2 * half else None
    for start in TRIED if encoding is not None else ():
        if not torch.allclose(module(x, start), _rows(encoding, x, start), rtol=0, atol=1e-6):
            encoding = None
            break
    return encoding or "it does not give sines and cosines of positions in any way that is known"


def _rows(encoding: Any, x: torch.Tensor, start: int, positions: torch.Tensor | None = None) -> torch.Tensor:
    where = torch.arange(start, start + x.shape[1]) if positions is None else positions[:, 0]
    return encode(encoding, where, precision="float32")[None].expand(x.shape[0], -1, -1)


def _counted(x: torch.Tensor, start: Any, positions: Any) -> bool:
    """Whether positions are integers that float32 has."""
    if positions is not None:
        usual = positions.dtype == torch.int64 and positions.shape == (x.shape[1], 1) and positions.numel()
        return bool(usual) and int(positions.abs().max()) < 1 << 23
    return type(start) is int and 0 <= start < 1 << 23


def replacement(theirs: Callable[..., Any], encoding: Encoding) -> Callable[..., Any]:
    """Ours for a method, which calls it for what was not tried."""

    def forward(
        self: Any, inputs_embeds: Any, past_key_values_length: Any = 0, position_ids: Any = None
    ) -> torch.Tensor:
        x, start = inputs_embeds, past_key_values_length
        usual = type(x) is torch.Tensor and x.dtype == torch.float32 and x.dim() == 3
        # gradients go around the rows
        if not usual or not only_values(x.detach(), position_ids) or not _counted(x, start, position_ids):
            found: torch.Tensor = theirs(self, inputs_embeds, past_key_values_length, position_ids)
            return found
        return _rows(encoding, x, start, position_ids)

    forward.__doc__, forward.__qualname__ = theirs.__doc__, theirs.__qualname__
    forward.__posenc_fast__ = encoding  # type: ignore[attr-defined]
    return forward
