"""Checks of loaded models of Hugging Face transformers: their position encodings are compared with exact values."""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("posenc_fast.transformers needs the package torch; run pip install torch") from error

from ._check import check

__all__ = ["check"]


def __dir__() -> list[str]:
    return sorted(__all__)
