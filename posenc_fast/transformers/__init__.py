"""Loaded models of Hugging Face's transformers: their position encodings compared with the exact values."""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("posenc_fast.transformers needs the package torch: pip install torch") from error

from ._check import check

__all__ = ["check"]


def __dir__() -> list[str]:
    return sorted(__all__)
