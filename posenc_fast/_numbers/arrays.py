"""Arrays of other packages as arrays of NumPy, with the same values."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_array", "is_tensor"]


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch, which is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any, name: str) -> npt.NDArray[Any]:
    """What `numpy.asarray` makes of it; a CPU tensor of any type, bfloat16 included, which NumPy does not know."""
    if not is_tensor(value):
        try:
            return np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name} must be an array, not {value!r}: {error}") from None
    if value.requires_grad:
        raise ValueError(f"{name} requires gradients, which would end here; give {name}.detach()")
    if not value.is_cpu:
        raise ValueError(f"{name} is on {value.device}, but must be on the CPU: give {name}.cpu()")
    # float32 holds every bfloat16
    array: npt.NDArray[Any] = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy(force=True)
    return array
