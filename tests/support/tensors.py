"""Helpers for several tests of torch. Helpers import torch when they are called, so the module needs no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

import posenc_fast as pf
from support.optional import optional


def random(rng: Any, *shape: int, dtype: Any = None) -> Any:
    """Return a tensor of normally distributed values (default dtype: float32)."""
    import torch

    return torch.from_numpy(rng.normal(size=shape)).to(dtype or torch.float32)


def array(tensor: Any) -> Any:
    """Return a copy of a tensor's values as an array of the same dtype."""
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.detach().float().numpy().astype(optional("ml_dtypes").bfloat16)
    return tensor.detach().numpy().copy()


def equal(tensor: Any, expected: Any) -> None:
    """Assert that a tensor has the dtype and the values of an array."""
    assert str(tensor.dtype) == f"torch.{expected.dtype.name}"
    np.testing.assert_array_equal(array(tensor).astype(np.float64), expected.astype(np.float64))


def half_ulp(exact: Any, dtype: Any) -> Any:
    """Return half an ulp of a dtype at exact values. In float16, it is at least half of the least positive number."""
    import torch

    half = torch.ldexp(torch.full_like(exact, torch.finfo(dtype).eps / 2), torch.frexp(exact)[1] - 1)
    return half.clamp(min=2.0**-25) if dtype == torch.float16 else half


def tables(rotary: Any, positions: Any, dtype: Any = None, **options: Any) -> Any:
    """Return tensors of cosines and sines with one column for each pair (default dtype: float64)."""
    import torch

    both = rotary.tables(positions, dtype=np.float64, **options)
    return [torch.from_numpy(each).to(dtype or torch.float64) for each in both]


def widened(table: Any, columns: str) -> Any:
    """Return a table, given with one column for each pair, in the column order "pairs", "half" or "interleaved"."""
    if columns == "pairs":
        return table
    return table.repeat(1, 2) if columns == "half" else table.repeat_interleave(2, -1)


def rotated(x: Any, cos: Any, sin: Any, layout: str = "half", inverse: bool = False) -> Any:
    """Return x rotated by plain torch operations. cos, sin: tables with one column for each pair."""
    import torch

    source, target = ("interleaved", "half") if layout == "interleaved_to_half" else (layout, layout)
    if inverse:
        source, target, squares = target, source, cos**2 + sin**2
        cos, sin = cos / squares, -sin / squares
    values, rest = x[..., : 2 * cos.shape[-1]], x[..., 2 * cos.shape[-1] :]
    first, second = values.chunk(2, -1) if source == "half" else (values[..., 0::2], values[..., 1::2])
    parts = first * cos - second * sin, first * sin + second * cos
    return torch.cat([torch.cat(parts, -1) if target == "half" else torch.stack(parts, -1).flatten(-2), rest], -1)


def encoded(encoding: pf.Encoding, positions: Any) -> Any:
    """Return rows computed by plain torch operations from the frequencies, phases and amplitudes of an encoding."""
    import torch

    positions = positions.double()[..., None] if encoding.ndim == 1 else positions.double()
    frequencies = torch.from_numpy(encoding.frequencies.reshape(encoding.d_model, encoding.ndim).copy())
    phases, amplitudes = (torch.from_numpy(each.copy()) for each in (encoding.phases, encoding.amplitudes))
    return amplitudes * torch.sin(positions @ frequencies.T + 2 * torch.pi * phases)
