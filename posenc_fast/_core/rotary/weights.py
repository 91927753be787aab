"""Permute query and key weights from one layout of pairs to another."""

from __future__ import annotations

from typing import Any, get_args, overload

import numpy as np

from ...typing import WeightLayout
from ..numbers import annotations as npt
from ..numbers.arguments import count_of
from ..numbers.names import one_of
from ..numbers.signatures import Scalar
from .scaling import count_pairs


@overload
def permute_rotary(
    weight: npt.NDArray[Scalar],
    head_dim: int,
    *,
    source: WeightLayout,
    target: WeightLayout,
    rotary_dim: int | None = ...,
    axis: int = ...,
) -> npt.NDArray[Scalar]: ...


@overload
def permute_rotary(
    weight: npt.ArrayLike,
    head_dim: int,
    *,
    source: WeightLayout,
    target: WeightLayout,
    rotary_dim: int | None = ...,
    axis: int = ...,
) -> npt.NDArray[Any]: ...


def permute_rotary(
    weight: npt.ArrayLike,
    head_dim: int,
    *,
    source: WeightLayout,
    target: WeightLayout,
    rotary_dim: int | None = None,
    axis: int = 0,
) -> npt.NDArray[Any]:
    """Permute query or key weights from one layout of pairs to another.

    Parameters
    ----------
    weight : array_like
        Weight of a projection (heads * head_dim, d_model), its bias, or any array with heads side by side on an axis.
    head_dim : int
        Width of a head.
    source, target : {"half", "interleaved"}
        Layouts of `Rotary` before and after the permutation.
    rotary_dim : int, optional
        Number of leading values of a head that `Rotary` rotates (default: all). The rest is not permuted.
    axis : int
        Axis of the heads (default: 0).

    Returns
    -------
    ndarray of the shape and dtype of weight
        Permuted copy. Attention scores stay the same if you permute the weights of queries and of keys, and rotate both
        in the layout ``target``.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    References
    ----------
    The permutation of huggingface/transformers convert_llama_weights_to_hf.py, and its inverse.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> pf.permute_rotary(np.arange(6), 6, source="interleaved", target="half")
    array([0, 2, 4, 1, 3, 5])
    """
    array = np.asarray(weight)
    head = count_of(head_dim, "head_dim", 2)
    dim = count_pairs(head if rotary_dim is None else rotary_dim, head)
    for name, layout in (("source", source), ("target", target)):
        one_of(layout, name, get_args(WeightLayout))
    axis_number = count_of(axis, "axis", -array.ndim)
    if array.ndim == 0 or axis_number >= array.ndim or array.shape[axis_number] % head:
        raise ValueError(
            f"weight has shape {array.shape}, but must have an axis {axis_number} whose length is a multiple of "
            f"head_dim={head}"
        )
    order = np.arange(head)
    if source != target:
        pairs = np.arange(dim).reshape((2, -1) if source == "half" else (-1, 2))
        order[:dim] = pairs.T.reshape(-1)
    # index of the first value of each head
    heads = np.arange(0, array.shape[axis_number], head)[:, np.newaxis]
    return np.take(array, (heads + order).reshape(-1), axis=axis_number)
