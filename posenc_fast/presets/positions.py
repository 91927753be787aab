"""Compute the positions of tokens for rotary presets, and the positions of dates in calendar cycles (`calendar`).

If one of these functions computes the positions of a preset, the notes of the preset name it. Most results have one row
for each token and one column for each axis. The tokens of a grid are ordered by frame, then by row, then by column,
except in `qwen2_vl_vision`.

Examples
--------
>>> import posenc_fast as pf
>>> pf.presets.positions.grid(1, 2, 3).tolist()
[[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .._core.numbers.arguments import count_of, real, real_array
from .._core.numbers.arrays import Floats
from .._core.positions.calendar import calendar
from ..typing import MropeFollowing
from ._docstrings import Function, documented
from ._multimodal import from_tokens

__all__ = [
    "calendar",
    "cogvideox",
    "cogview4",
    "cosmos",
    "cropped",
    "dinov3",
    "flux",
    "flux2",
    "grid",
    "llama4_vision",
    "ltx",
    "ltx2",
    "ltx2_audio",
    "lumina2",
    "mochi",
    "mrope",
    "qwen2_vl_vision",
    "qwen_image",
    "z_image",
]


def __dir__() -> list[str]:
    return sorted(__all__)


# limit of positions: sums of two positions must fit in int64
_FARTHEST = 2**62
Integers = npt.NDArray[np.int64]

# keys: names of parameters. Values: type and meaning, with {grid} for the cells of the grid.
_TEXTS = {
    **dict.fromkeys(("rows", "columns", "frames"), "int: Size of the grid of {grid}."),
    **dict.fromkeys(("base_rows", "base_columns"), "int: Size of the base grid."),
    **dict.fromkeys(("base_height", "base_width"), "int: Sides of the base area."),
    "fps": "float: Frames per second.",
    "image": "int: Index of the image among several.",
    "merge": "int: Side of the squares of patches that become one token. It must divide rows and columns.",
    "sizes": "sequence of int: Rows and columns of the table that positions are scaled to.",
    "text": "int: Number of tokens of text.",
}


def _tokens(
    shape: str, *, example: str, grid: str = "patches", references: str = "", **texts: str
) -> Callable[[Function], Function]:
    """Return a decorator that adds sections to a docstring of one line, such as the parameters.

    Parameters
    ----------
    shape : str
        Shape and type of the result.
    example, references : str
        Passed to `documented`.
    grid : str
        Noun for the cells of the grid, such as "patches".
    **texts : str
        Type and meaning of parameters whose meaning differs from the default text.

    Returns
    -------
    callable
        The decorator, which returns the function itself.
    """
    of_grid = {name: text.format(grid=grid) for name, text in _TEXTS.items()}
    return documented(of_grid | texts, returns=f"ndarray of shape {shape}", example=example, references=references)


def grid(*axes: int | npt.ArrayLike) -> npt.NDArray[Any]:
    """Return every combination of the coordinates of several axes. The last coordinate varies fastest.

    Parameters
    ----------
    *axes : int or array_like
        For each axis, its coordinates, or a number n for the coordinates 0 .. n - 1.

    Returns
    -------
    ndarray of shape (tokens, axes)
        int64, or float64 if any coordinates are floats.

    Raises
    ------
    TypeError, ValueError
        If there are no axes, or an axis is neither an integer nor a one-dimensional array of numbers.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.presets.positions.grid([7], 2, [0.5]).tolist()
    [[7.0, 0.0, 0.5], [7.0, 1.0, 0.5]]
    """
    if not axes:
        raise ValueError("axes is empty; give at least one axis")
    arrays = []
    for axis in axes:
        array: npt.NDArray[Any] = np.asarray(axis)
        if array.ndim == 0:
            array = np.arange(count_of(axis, "axes", 0))
        if array.ndim != 1:
            raise ValueError(
                f"axes has coordinates of shape {array.shape}, but the coordinates of an axis must have one dimension"
            )
        if array.dtype.kind not in "iu":
            array = real_array(array, "axes")
        if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
            raise ValueError(f"axes has the coordinate {array.max()}, but integers must be below 2**63")
        arrays.append(array.astype(np.int64) if array.dtype.kind in "iu" else array)
    return np.stack(np.meshgrid(*arrays, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _counts(**sizes: Any) -> list[Integers]:
    """Return the array 0 .. n - 1 for each size n. Raise an error unless n is an integer, 0 or larger."""
    return [np.arange(count_of(size, name, 0)) for name, size in sizes.items()]


@overload
def mrope(tokens: Sequence[int | Sequence[int]], *, start: int = ..., time_step: float = ...) -> npt.NDArray[Any]: ...


@overload
def mrope(
    tokens: npt.ArrayLike,
    model: str | Mapping[str, Any],
    *,
    image_grid_thw: npt.ArrayLike | None = ...,
    video_grid_thw: npt.ArrayLike | None = ...,
    second_per_grid: npt.ArrayLike | None = ...,
    fps: npt.ArrayLike | None = ...,
    attention_mask: npt.ArrayLike | None = ...,
    following: MropeFollowing | None = ...,
    out: npt.NDArray[Any] | None = ...,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...


def mrope(
    tokens: Any,
    model: str | Mapping[str, Any] | None = None,
    *,
    image_grid_thw: npt.ArrayLike | None = None,
    video_grid_thw: npt.ArrayLike | None = None,
    second_per_grid: npt.ArrayLike | None = None,
    fps: npt.ArrayLike | None = None,
    attention_mask: npt.ArrayLike | None = None,
    following: MropeFollowing | None = None,
    out: npt.NDArray[Any] | None = None,
    start: int = 0,
    time_step: float = 1.0,
) -> Any:
    """Return positions (t, h, w) of text, images, videos and audio for Qwen2-VL and later multimodal models.

    Parameters
    ----------
    tokens : array_like of int, shape (length,) or (batch, length); or a sequence of int and (frames, rows, columns)
        Token ids, if model is given. Otherwise, parts in the order of the tokens. A part is a number of text tokens, or
        the grid of an image or video, counted in merged patches. Text has the same position on all axes. The first
        position of a part is the largest position of the previous part plus 1.
    model : str or config, optional
        A model_type, such as "qwen2_5_vl", which stands for the token ids of published models. Or a config, as a
        mapping or an object of transformers, with its own token ids and sizes.
    image_grid_thw, video_grid_thw : array_like of int, shape (n, 3), optional
        Frames, rows and columns of each image and video, in patches before merging, in the order of the tokens.
    second_per_grid, fps : float or array_like of shape (n,), optional
        Seconds between neighbouring frames of each video's grid (second_per_grid), or frames per second of each video
        (fps). Two frames of a video are one frame of its grid. Models that do not count frames in seconds ignore both.
    attention_mask : array_like of bool or of 0 and 1, of the shape of tokens, optional
        True for tokens, False for padding.
    following : {"side", "largest"}, optional
        First position of text after a grid (default: as in transformers 5.24). "side": the first position of the grid
        plus its longer side, as in transformers from 5.3 on, except for Qwen2.5-Omni and Qwen3-Omni. "largest": one
        after the largest position, as in transformers 4 and vLLM. The two rules differ only if the last frame has a
        larger position than all rows and columns.
    out : ndarray of shape (3, batch, length), or (3, length), optional
        Array for the positions, of the dtype of the result.
    start : int
        Position of the first token. Only for parts.
    time_step : float
        Difference of the positions of two neighbouring frames. Only for parts. In Qwen2.5-VL, this is tokens_per_second
        of the config times the seconds between the frames. Qwen2.5-VL rounds positions down, but this function does so
        only if you pass model.

    Returns
    -------
    positions : ndarray of shape (3, batch, length), or (3, length) for one sequence
        Positions in the dtype of tokens. Exceptions: float32 for Qwen3-Omni, and int64 for Qwen2.5-Omni without grids.
        For parts, the result is only an array of shape (tokens, 3), int64 or (if time_step is not an integer) float64.
    deltas : ndarray of shape (batch, 1), or (1,)
        Offset for generated tokens: token n of a sequence (masked tokens are not counted) has position ``n + delta`` on
        all axes.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, the model_type is unknown, or tokens and grids contradict each other. out is then
        unchanged.

    Notes
    -----
    Models: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5, qwen4_exp, Qwen2.5-Omni, Qwen3-Omni, GLM-4V, GLM-4.6V, GLM-OCR,
    ERNIE 4.5 VL, PaddleOCR-VL, Keye-VL, Cohere Compass, Cosmos 3. To pass the token types of transformers' processors
    (mm_token_type_ids) as tokens, use ``{"model_type": .., "image_token_id": 1, "video_token_id": 2}`` as model. This
    does not work for videos of GLM models, which are found by the ids of the tokens before and after a video.

    In Qwen2.5-Omni and Qwen3-Omni, audio tokens between the tokens of a video are the sound of the video. Sound and
    video begin at the same position. For models that count frames in seconds, pass a config with tokens_per_second or
    position_id_per_seconds.

    References
    ----------
    huggingface/transformers: get_rope_index of models/qwen2_vl/modeling_qwen2_vl.py and others. Keye:
    vllm-project/vllm, get_mrope_input_positions of model_executor/models/keye_vl1_5.py.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> ids = np.array([[9, 151652, 151655, 151655, 151655, 151653, 9]])
    >>> positions, deltas = pf.presets.positions.mrope(ids, "qwen2_vl", image_grid_thw=[[1, 2, 6]])
    >>> positions[:, 0]
    array([[0, 1, 2, 2, 2, 5, 6],
           [0, 1, 2, 2, 2, 5, 6],
           [0, 1, 2, 3, 4, 5, 6]])
    >>> deltas
    array([[0]])

    The same sequence as parts, and its cosines and sines:

    >>> parts = pf.presets.positions.mrope([2, (1, 1, 3), 2])
    >>> np.array_equal(parts, positions[:, 0].T)
    True
    >>> cos, sin = pf.presets.qwen2_vl().tables(np.moveaxis(positions, 0, -1))
    >>> cos.shape
    (1, 7, 64)
    """
    if model is not None:
        if start != 0 or time_step != 1:
            wrong, number = ("start", start) if start != 0 else ("time_step", time_step)
            raise ValueError(
                f"{wrong}={number!r} cannot be combined with model; leave out {wrong}, or leave out model and pass "
                "parts as tokens"
            )
        return from_tokens(
            tokens, model, image_grid_thw, video_grid_thw, second_per_grid, fps, attention_mask, following, out
        )
    only_with_model = {
        "image_grid_thw": image_grid_thw,
        "video_grid_thw": video_grid_thw,
        "second_per_grid": second_per_grid,
        "fps": fps,
        "attention_mask": attention_mask,
        "following": following,
        "out": out,
    }
    for name, value in only_with_model.items():
        if value is not None:
            raise ValueError(f"{name} needs model (a model_type or a config); without model, tokens must be parts")
    return _of_parts(tokens, start, time_step)


def _of_parts(parts: Sequence[int | Sequence[int]], start: Any, time_step: Any) -> npt.NDArray[Any]:
    """Return the positions of a sequence of parts, (tokens, 3). `mrope` describes the arguments."""
    step = real(time_step, "time_step", positive=True)
    next_position: Any = count_of(start, "start", -_FARTHEST)
    blocks: list[npt.NDArray[Any]] = []
    for part in parts:
        if isinstance(part, Sequence):
            if len(part) != 3:
                raise ValueError(
                    f"tokens has the part {part!r}, but without model, a part must be a number of text tokens, or a "
                    "grid (frames, rows, columns)"
                )
            frames, rows, columns = (count_of(size, "each size of a grid in tokens", 1) for size in part)
            if step * frames > _FARTHEST:
                raise ValueError(
                    f"time_step={time_step!r} puts {frames} frames beyond position 2**62; pass a smaller time_step"
                )
            times = step * np.arange(frames)
            block = grid(times if step % 1 else times.astype(np.int64), rows, columns)
        else:
            text = count_of(part, "each part of tokens (without model)", 0)
            block = np.repeat(np.arange(text)[:, np.newaxis], 3, axis=1)
        if next_position > _FARTHEST:
            raise ValueError(
                f"start={start!r} and time_step={time_step!r} put parts beyond position 2**62; pass smaller numbers"
            )
        if len(block):
            blocks.append(next_position + block)
            next_position = blocks[-1].max() + 1
    return np.concatenate(blocks) if blocks else np.empty((0, 3), np.int64)


def _with_text(text: Any, image: npt.NDArray[Any], factors: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the positions of text tokens, then the positions of an image.

    text: number of text tokens. factors: a factor for each axis; the position of a text token is its index times these
    factors.
    """
    indices = np.arange(count_of(text, "text", 0))[:, np.newaxis]
    return np.concatenate([indices * np.asarray(factors), image])


# ---- language and vision ----------------------------------------------------------------------------------------


@_tokens(
    "(frames * rows * columns, 2), int64",
    grid="patches; every frame has the same positions",
    example="pf.presets.positions.qwen2_vl_vision(2, 4)[:5].tolist() -> [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2]]",
)
def qwen2_vl_vision(rows: int, columns: int, *, frames: int = 1, merge: int = 2) -> Integers:
    """Return (row, column) of patches, ordered by the squares of merge * merge patches that become one token."""
    side = count_of(merge, "merge", 1)
    for name, size in (("rows", rows), ("columns", columns)):
        if count_of(size, name, 1) % side:
            raise ValueError(f"{name}={size} must be a multiple of merge={side}")
    squares = grid(rows, columns).reshape(rows // side, side, columns // side, side, 2)
    return np.tile(squares.transpose(0, 2, 1, 3, 4).reshape(-1, 2), (count_of(frames, "frames", 1), 1))


@_tokens(
    "(rows * columns, 2), float64",
    example="pf.presets.positions.dinov3(1, 2).tolist() -> [[0.0, -0.5], [0.0, 0.5]]",
)
def dinov3(rows: int, columns: int) -> Floats:
    """Return (row, column) of the centres of DINOv3's patches, scaled to [-1, 1]."""
    sizes = count_of(rows, "rows", 1), count_of(columns, "columns", 1)
    return grid(*(2 * (np.arange(n) + 0.5) / n - 1 for n in sizes))


@_tokens(
    "(rows * columns + 1, 2), int64",
    example="pf.presets.positions.llama4_vision(1, 2).tolist() -> [[1, 1], [1, 2], [0, 0]]",
)
def llama4_vision(rows: int, columns: int) -> Integers:
    """Return (row, column), counted from 1, for Llama 4's patches, then (0, 0) for the class token."""
    return np.concatenate([1 + grid(*_counts(rows=rows, columns=columns)), np.zeros((1, 2), np.int64)])


# ---- diffusion --------------------------------------------------------------------------------------------------


@_tokens(
    "(text + rows * columns, 3), int64",
    example="pf.presets.positions.flux(1, 2, text=1).tolist() -> [[0, 0, 0], [0, 0, 0], [0, 0, 1]]",
)
def flux(rows: int, columns: int, text: int = 0) -> Integers:
    """Return positions for Flux: (0, 0, 0) for text, then (0, row, column) for the image."""
    return _with_text(text, grid([0], *_counts(rows=rows, columns=columns)), [0, 0, 0])


@_tokens(
    "(text + rows * columns, 4), int64",
    image="int: Index of the image; 10, 20, ... for reference images.",
    example="pf.presets.positions.flux2(1, 2, text=2).tolist()"
    " -> [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]",
)
def flux2(rows: int, columns: int, text: int = 0, *, image: int = 0) -> Integers:
    """Return positions for Flux.2: (0, 0, 0, index) for text, then (image, row, column, 0)."""
    images = [count_of(image, "image", 0)]
    return _with_text(text, grid(images, *_counts(rows=rows, columns=columns), [0]), [0, 0, 0, 1])


@_tokens(
    "(text + rows * columns, 3), int64",
    example="pf.presets.positions.lumina2(1, 2, text=2).tolist() -> [[0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 0, 1]]",
)
def lumina2(rows: int, columns: int, text: int) -> Integers:
    """Return positions for Lumina-Image 2: (index, 0, 0) for text, then (text, row, column) for the image."""
    return _with_text(text, grid([count_of(text, "text", 0)], *_counts(rows=rows, columns=columns)), [1, 0, 0])


@_tokens(
    "(tokens, 3), int64",
    grid="patches. Padding tokens at (0, 0, 0) follow the grid, up to a multiple of 32 tokens",
    text="int: Number of tokens of text. Padding tokens continue the count, up to a multiple of 32.",
    example="where = pf.presets.positions.z_image(1, 2, text=5)\n"
    "where.shape, where[:3].tolist(), where[32:34].tolist()"
    " -> ((64, 3), [[33, 0, 0], [33, 0, 1], [0, 0, 0]], [[1, 0, 0], [2, 0, 0]])",
)
def z_image(rows: int, columns: int, text: int, *, frames: int = 1) -> Integers:
    """Return Z-Image's positions: (1 + n + frame, row, column), then (1 + index, 0, 0) for text padded to n tokens."""
    padded_text = -(-count_of(text, "text", 0) // 32) * 32
    times, *sides = _counts(frames=frames, rows=rows, columns=columns)
    image = grid(1 + padded_text + times, *sides)
    padding = np.zeros((-len(image) % 32, 3), np.int64)
    return np.concatenate([image, padding, grid(1 + np.arange(padded_text), [0], [0])])


@_tokens(
    "(text + frames * rows * columns, 3), int64\n    Text comes first, as in the source's attention.",
    example="pf.presets.positions.qwen_image(2, 3, text=1).tolist()[:3] -> [[1, 1, 1], [0, -1, -2], [0, -1, -1]]",
)
def qwen_image(rows: int, columns: int, text: int = 0, *, frames: int = 1, image: int = 0) -> Integers:
    """Return positions for Qwen-Image: (image + frame, centred row and column). Text starts at half the longer side."""
    times, *sides = _counts(frames=frames, rows=rows, columns=columns)
    times += count_of(image, "image", 0)
    centred = [side - (len(side) - len(side) // 2) for side in sides]
    indices = np.arange(count_of(text, "text", 0))[:, np.newaxis] + max(rows // 2, columns // 2)
    return np.concatenate([np.repeat(indices, 3, axis=1), grid(times, *centred)])


@_tokens(
    "(frames * rows * columns, 3)\n    float64; int64 without fps.",
    fps="float, optional: Frames per second (default: count frames).",
    example="pf.presets.positions.cosmos(2, 1, 1, fps=16).tolist() -> [[0.0, 0.0, 0.0], [1.5, 0.0, 0.0]]",
)
def cosmos(frames: int, rows: int, columns: int, *, fps: float | None = None) -> npt.NDArray[Any]:
    """Return positions for Cosmos: (frame * 24 / fps, row, column)."""
    times: npt.NDArray[Any]
    times, *sides = _counts(frames=frames, rows=rows, columns=columns)
    if fps is not None:
        times = times / real(fps, "fps", positive=True) * 24
    return grid(times, *sides)


@_tokens(
    "(frames * rows * columns, 3), float64",
    grid="latents of 8 frames and 32 by 32 pixels",
    example="pf.presets.positions.ltx(1, 1, 2).tolist() -> [[-1.0, -1.0, -1.0], [-1.0, -1.0, -0.96875]]",
)
def ltx(frames: int, rows: int, columns: int, *, fps: float = 25.0) -> Floats:
    """Return positions for LTX-Video: (seconds / 20, pixels / 2048, pixels / 2048) of latents, scaled to [-1, 1]."""
    scales = 8 / real(fps, "fps", positive=True) / 20, 32 / 2048, 32 / 2048
    latents = grid(*_counts(frames=frames, rows=rows, columns=columns))
    return np.asarray(2 * latents * np.array(scales) - 1, np.float64)


def _causal_middles(count: Any, name: str) -> Floats:
    """Return the middle of each latent, in frames. The first latent has one frame, the others have 8 frames each."""
    edges = np.maximum(8 * np.arange(count_of(count, name, 0) + 1) - 7, 0)
    return (edges[:-1] + edges[1:]) / 2


@_tokens(
    "(frames * rows * columns, 3), float64",
    grid="latents of 8 frames (the first: 1 frame) and 32 by 32 pixels",
    example="pf.presets.positions.ltx2(2, 1, 1, fps=25)[:, 0].round(3).tolist() -> [-0.998, -0.98]",
)
def ltx2(frames: int, rows: int, columns: int, *, fps: float = 24.0) -> Floats:
    """Return positions for LTX-2: like `ltx`, but at the middles of latents."""
    times = _causal_middles(frames, "frames") / real(fps, "fps", positive=True) / 20
    sides = [(side + 0.5) * 32 / 2048 for side in _counts(rows=rows, columns=columns)]
    return 2 * grid(times, *sides) - 1


@_tokens(
    "(frames,), float64",
    frames="int: Number of latents. The first has one step of 0.01 seconds, the others have 8 steps each.",
    example="pf.presets.positions.ltx2_audio(2).tolist() -> [-0.9995, -0.995]",
)
def ltx2_audio(frames: int) -> Floats:
    """Return positions for LTX-2's audio: seconds / 20 at the middles of latents, scaled to [-1, 1]."""
    return 2 * (_causal_middles(frames, "frames") * 0.01 / 20) - 1


@_tokens(
    "(frames * rows * columns, 3), float64",
    example="pf.presets.positions.mochi(1, 1, 2, base_height=2, base_width=4).tolist()"
    " -> [[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]",
)
def mochi(frames: int, rows: int, columns: int, *, base_height: int = 192, base_width: int = 192) -> Floats:
    """Return positions for Mochi: (frame, row, column). Rows and columns are centred, and scaled to the base area."""
    sizes = count_of(rows, "rows", 1), count_of(columns, "columns", 1)
    area = count_of(base_height, "base_height", 1) * count_of(base_width, "base_width", 1)
    scale = math.sqrt(area / (sizes[0] * sizes[1]))
    sides = (scale * (np.arange(n) + 0.5 - n / 2) for n in sizes)
    return grid(*_counts(frames=frames), *sides).astype(np.float64)


@_tokens(
    "(rows * columns, 2), float64",
    references="huggingface/diffusers: pipelines/cogvideo/pipeline_cogvideox.py, get_resize_crop_region_for_grid.",
    example="pf.presets.positions.cropped(1, 2, base_rows=4, base_columns=4).tolist() -> [[1.0, 0.0], [1.0, 2.0]]",
)
def cropped(rows: int, columns: int, *, base_rows: int, base_columns: int) -> Floats:
    """Return (row, column) of a grid that is scaled to fit into the middle of a base grid."""
    return grid(*_cropped(rows, columns, base_rows, base_columns))


def _cropped(rows: int, columns: int, base_rows: int, base_columns: int) -> list[Floats]:
    """Return the coordinates of the rows and of the columns for `cropped`."""
    n, m = count_of(rows, "rows", 1), count_of(columns, "columns", 1)
    base_n, base_m = count_of(base_rows, "base_rows", 1), count_of(base_columns, "base_columns", 1)
    # scale the grid by one factor, so that it fills the base grid along one axis and fits along the other
    tall = n / m > base_n / base_m
    rows_in_base = base_n if tall else round(base_m / m * n)
    columns_in_base = round(base_n / n * m) if tall else base_m
    coordinates = []
    for count, base, size in ((n, base_n, rows_in_base), (m, base_m, columns_in_base)):
        begin = round((base - size) / 2)
        last = (begin + size) * (count - 1) / count
        coordinates.append(begin + (last - begin) * np.arange(count) / max(count - 1, 1))
    return coordinates


@_tokens(
    "(frames * rows * columns, 3), float64",
    example="pf.presets.positions.cogvideox(1, 30, 45)[-1].tolist() -> [0.0, 29.0, 44.0]",
)
def cogvideox(frames: int, rows: int, columns: int, *, base_rows: int = 30, base_columns: int = 45) -> Floats:
    """Return positions for CogVideoX: (frame, row, column). Rows and columns are scaled to fit into the base grid."""
    return grid(*_counts(frames=frames), *_cropped(rows, columns, base_rows, base_columns)).astype(np.float64)


@_tokens(
    "(rows * columns, 2), int64",
    example="pf.presets.positions.cogview4(1, 3).tolist() -> [[0, 0], [0, 85], [0, 170]]",
)
def cogview4(rows: int, columns: int, *, sizes: Sequence[int] = (256, 256)) -> Integers:
    """Return positions for CogView4: (row, column), scaled to the rows and columns of a table, and rounded down."""
    if np.shape(sizes) != (2,):
        raise ValueError(f"sizes must be two integers, rows and columns of the table, not {sizes!r}")
    table_rows, table_columns = (count_of(size, "sizes", 1) for size in sizes)
    n, m = count_of(rows, "rows", 1), count_of(columns, "columns", 1)
    return grid(np.arange(n) * table_rows // n, np.arange(m) * table_columns // m)
