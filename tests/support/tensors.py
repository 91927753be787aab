"""Tensors for several tests of torch. torch is imported on first use."""

from __future__ import annotations

from typing import Any


def random(rng: Any, *shape: int, dtype: Any = None) -> Any:
    """Return normally distributed values, float32 unless another type is asked for."""
    import torch

    return torch.from_numpy(rng.normal(size=shape)).to(dtype or torch.float32)
