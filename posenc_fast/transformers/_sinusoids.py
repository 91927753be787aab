"""Identification of a model's module that computes sines of positions, by running it, and a replacement of its method.

Most modules read a ready table, which takes as long as to compute it anew, and which checkpoints may have: they are left.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .._encoding.value import Encoding
from ..torch import encode
from ..torch._tensors import is_eager

__all__ = ["TABLE", "encoding_of", "is_candidate", "replacement"]

# why most are left
TABLE = "it reads a ready table, which takes no longer than to compute one"
# of forward: a tensor that tells the shape and type, the first position, and positions in its place
PARAMETERS = ("inputs_embeds", "past_key_values_length", "position_ids")
# a position whose sine is the angle itself in float32, and those whose rows are compared
TINY, POSITIONS = 2.0**-24, (0, 1, 2, 77, 1000, 4095)


def is_candidate(module: torch.nn.Module) -> bool:
    """Whether a module's class has sinusoidal in its name."""
    cls = type(module)
    return "sinusoidal" in cls.__name__.lower() and cls.__module__.startswith("transformers.")


def encoding_of(module: Any) -> Encoding | str:
    """Return the Encoding whose rows a module gives, in float32 arithmetic; or why it is left."""
    if hasattr(type(module).forward, "__posenc_fast__"):
        return "it is ours already"
    if next(module.parameters(), None) is not None or next(module.buffers(), None) is not None:
        return TABLE
    names = tuple(inspect.signature(module.forward).parameters)
    if names != PARAMETERS or type(getattr(module, "embed_dim", None)) is not int:
        return f"it takes ({', '.join(names)}), which is not known"
    with torch.no_grad():
        try:
            return _identified(module, torch.zeros(2, len(POSITIONS), module.embed_dim, device="cpu"))
        except Exception:  # noqa: BLE001 - whatever a model's module may raise
            return "it fails on the CPU in float32"


def _identified(module: Any, x: torch.Tensor) -> Encoding | str:
    tiny = module(x, 0, torch.full((len(POSITIONS), 1), TINY))[0, 0].double().numpy() / TINY
    half = len(tiny) // 2
    # cosines are 1 there: they are taken to have the frequencies of the sines
    encoding = Encoding(np.tile(tiny[:half], 2), np.repeat([0.0, 0.25], half)) if len(tiny) == 2 * half else None
    for start in POSITIONS if encoding is not None else ():
        if not torch.allclose(module(x, start), _rows(encoding, x, start), rtol=0, atol=1e-6):
            encoding = None
            break
    return encoding or "it does not give sines and cosines of positions in any way that is known"


def _rows(encoding: Any, x: torch.Tensor, start: int, positions: torch.Tensor | None = None) -> torch.Tensor:
    where = torch.arange(start, start + x.shape[1], device="cpu") if positions is None else positions[:, 0]
    return encode(encoding, where, precision="float32")[None].expand(x.shape[0], -1, -1)


def _are_exact(x: torch.Tensor, start: Any, positions: Any) -> bool:
    """Whether positions are integers that float32 has."""
    if positions is not None:
        integers = positions.dtype == torch.int64 and positions.shape == (x.shape[1], 1) and positions.numel()
        return bool(integers) and int(positions.abs().max()) < 1 << 23
    return type(start) is int and 0 <= start < 1 << 23


def replacement(original: Callable[..., Any], encoding: Encoding) -> Callable[..., Any]:
    """Return a method in place of a module's own, which it calls with all arguments but those that were tried."""

    def forward(
        self: Any, inputs_embeds: Any, past_key_values_length: Any = 0, position_ids: Any = None
    ) -> torch.Tensor:
        x, start = inputs_embeds, past_key_values_length
        tried = type(x) is torch.Tensor and x.dtype == torch.float32 and x.dim() == 3
        # gradients go around the rows
        if not tried or not is_eager(x.detach(), position_ids) or not _are_exact(x, start, position_ids):
            rows: torch.Tensor = original(self, inputs_embeds, past_key_values_length, position_ids)
            return rows
        return _rows(encoding, x, start, position_ids)

    forward.__doc__, forward.__qualname__ = original.__doc__, original.__qualname__
    forward.__posenc_fast__ = encoding  # type: ignore[attr-defined]
    return forward
