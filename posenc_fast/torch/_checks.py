"""Checks of what modules and functions are given."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from . import _memory as memory
from . import _transforms as transforms

__all__ = ["check_positions", "check_x", "no_gradients", "unit", "wants_gradients"]


def wants_gradients(tensor: torch.Tensor) -> bool:
    return bool(tensor.requires_grad and torch.is_grad_enabled())


def no_gradients(tensor: torch.Tensor, name: str) -> None:
    if wants_gradients(tensor):
        raise ValueError(f"{name} requires gradients, which do not go through it; give {name}.detach()")


def check_x(x: Any, name: str, start: Any = 0, inplace: bool = False, first: str = "start") -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(x).__name__}")
    memory.is_float(x, name)
    if not isinstance(start, (int, torch.SymInt)) or isinstance(start, bool):
        raise TypeError(f"{first} must be an integer, not {start!r}; give positions of any kind as such")
    if inplace and wants_gradients(x):
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; use inplace=False, or torch.no_grad() where no "
            "gradients are wanted"
        )
    if not torch.compiler.is_compiling():
        if forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(
                f"{name} has a tangent, but there are no derivatives in forward mode; use backward mode"
            )
        if transforms.is_differentiated(x):
            raise NotImplementedError(
                f"{name} is inside torch.func.grad or a relative of it, which no operator written in Python knows; use "
                "torch.autograd.grad or backward()"
            )
    if inplace and memory.overlaps_itself(x):
        raise ValueError(f"{name} is expanded, several of its values are one and cannot be overwritten; give a copy")
    if inplace and not torch.compiler.is_compiling() and x.is_neg():
        raise ValueError(
            f"{name} is the negative of what its memory holds, as the imaginary part of a conjugate is, and cannot be "
            "overwritten; give a copy"
        )


def check_positions(positions: Any, x: torch.Tensor, start: Any) -> None:
    if not isinstance(positions, torch.Tensor):
        raise TypeError(f"positions must be a torch.Tensor, not {type(positions).__name__}")
    if positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be integers or real numbers, not {positions.dtype}")
    if positions.device.type != x.device.type and positions.device.type != "cpu":
        raise ValueError(f"positions is on {positions.device}, but must be on {x.device} or on the CPU")
    if start != 0:
        raise ValueError(f"positions excludes start={start!r}; leave one side out")
    no_gradients(positions, "positions")


def unit(stored: torch.Tensor) -> float:
    """Distance from 1 to the next number of a tensor's type."""
    return float(torch.finfo(stored.dtype).eps) if stored.is_floating_point() else 0.0
