"""The names ArrayLike, DTypeLike and NDArray for annotations, without importing numpy.typing.

numpy.typing is imported only when a program reads `ArrayLike` or `DTypeLike`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

__all__ = ["ArrayLike", "DTypeLike", "NDArray"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray
else:
    Scalar = TypeVar("Scalar", bound=np.generic)
    NDArray = np.ndarray[Any, np.dtype[Scalar]]

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        import numpy.typing

        return getattr(numpy.typing, name)
