"""Positions (t, h, w) of the tokens of multimodal language models, from token ids and the grids of images and videos.

A run is a sequence of adjacent tokens of the same kind: text, image, video or audio. NumPy finds the runs, and writes
each grid in at most three assignments. Python loops over runs and grids, not over tokens. The omni models are
Qwen2.5-Omni and Qwen3-Omni. In comments and docstrings, the source is transformers 5.24.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import numpy as np

from .._core.numbers import annotations as npt
from .._core.numbers.arguments import count_of, real_array
from .._core.numbers.arrays import Array, check_out
from .._core.numbers.names import meant, one_of
from .._core.positions.foreign import as_array
from .._core.positions.masks import checked_mask
from .._models.config.part import as_mapping
from ..typing import MropeFollowing

__all__ = ["FAMILIES", "REFUSED", "Family", "family_of", "from_tokens"]

TEXT, IMAGE, VIDEO, AUDIO = range(4)
_FLOAT32, _INT64, _INT32 = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.int32)
_FOLLOWING: tuple[MropeFollowing, ...] = get_args(MropeFollowing)


class Family(NamedTuple):
    """Rules for the positions of one type of model, as in transformers 5.24.

    image, video, audio: token ids. between: ids of the tokens that begin and end a video, for models whose video frames
    have image tokens. merge: number of patches per side that become one token. frame_merge: number of frames that
    become one token. frames_apart: whether each frame of a video has its own run of tokens, like an image. timed:
    whether the position of a frame is its time in seconds times ``rate``, rounded down. rate: positions per second.
    marked: whether a begin token and an end token (marks) surround each image, video and audio. following: rule for the
    first position after a grid. padding: position of masked tokens. exact_times: whether positions are float32 and
    times are not rounded down.
    """

    image: int = 151655
    video: int = 151656
    audio: int = 151646
    between: tuple[int, int] | None = None
    merge: int = 2
    frame_merge: int = 1
    frames_apart: bool = False
    timed: bool = False
    rate: int | None = None
    marked: bool = False
    following: MropeFollowing = "side"
    padding: int = 0
    exact_times: bool = False


_SPLIT = Family(frames_apart=True)
_QWEN3_5 = _SPLIT._replace(image=248056, video=248057)
_GLM = _SPLIT._replace(image=151343, video=151344, between=(151341, 151342))
_OMNI = Family(timed=True, marked=True, following="largest")

# keys: model_type. Values: rules for its positions. The token ids are the defaults of transformers' config classes and
# the ids of the published models.
FAMILIES: dict[str, Family] = {
    "cohere_compass": _SPLIT._replace(image=255031, video=255032),
    "cosmos3_edge": _SPLIT._replace(image=19, video=18),
    "cosmos3_omni": _SPLIT,
    "ernie4_5_vl_moe": Family(image=100295, video=103367, frame_merge=2),
    "glm46v": _GLM._replace(between=(151361, 151362)),
    "glm4v": _GLM,
    "glm4v_moe": _GLM._replace(image=151363, video=151364),
    "glm_ocr": _GLM._replace(image=59280, video=59281, between=(59258, 59259)),
    "keye": _SPLIT,
    "keye_vl1_5": _SPLIT,
    "paddleocr_vl": Family(image=100295, video=100296),
    "qwen2_5_omni": _OMNI._replace(padding=1),
    "qwen2_5_vl": Family(timed=True),
    "qwen2_vl": Family(),
    "qwen3_5": _QWEN3_5,
    "qwen3_5_moe": _QWEN3_5,
    "qwen3_omni_moe": _OMNI._replace(exact_times=True),
    "qwen3_vl": _SPLIT,
    "qwen3_vl_moe": _SPLIT,
    "qwen4_exp": _QWEN3_5,
}
# keys: other names. Values: the model_type in FAMILIES.
_OTHER_NAMES = {
    "Keye": "keye",
    "KeyeVL1_5": "keye_vl1_5",
    "keye_vl": "keye",
    "qwen2_5_omni_thinker": "qwen2_5_omni",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe",
}
REFUSED: dict[str, str] = {
    "exaone4_5": "all tokens have positions on one axis, including the tokens of images",
    "glm_image": "it draws images, and the tokens of an image get positions before they have ids",
    "hy_v4_vl": "rows of its images end with a newline token, and each frame begins a new block of positions",
    "hunyuan_vl": "its axes are the token's index, column, row and index of the image",
    "lfm3_vl": "all tokens have positions on one axis, including the tokens of images",
    "minicpmv4_7": "the thumbnail and the slices of an image share one grid of positions",
    "video_llama_3": "all tokens have positions on one axis, including the tokens of images",
}
# largest number of tokens in a cached frame or text; a token takes at most 24 bytes
_MOST_CACHED = 1 << 12
# (key of a config, field of Family, smallest allowed value)
_KEYS = (
    *((f"{kind}_token_{suffix}", kind, 0) for kind in ("image", "video", "audio") for suffix in ("index", "id")),
    ("spatial_merge_size", "merge", 1),
    ("temporal_merge_size", "frame_merge", 1),
    ("tokens_per_second", "rate", 1),
    ("position_id_per_seconds", "rate", 1),
)
_BETWEEN = ("video_start_token_id", "video_end_token_id")


def family_of(model: Any) -> Family:
    """Return the rules for a model_type or a config. Token ids, sizes and rates in a config replace the defaults."""
    if isinstance(model, str):
        family = FAMILIES.get(model)
        return _named(model) if family is None else family
    model = as_mapping(model, "model must be a model_type or a config")
    family = _named(model.get("model_type"))
    parts = [model]
    for key in ("thinker_config", "vision_config"):
        parts += [part[key] for part in parts if isinstance(part.get(key), Mapping)]
    fields: dict[str, Any] = {}
    for part in parts:
        for key, field, least in _KEYS:
            if part.get(key) is not None:
                fields[field] = count_of(part[key], f"model[{key!r}]", least)
        if family.between and all(part.get(key) is not None for key in _BETWEEN):
            begin, end = (count_of(part[key], f"model[{key!r}]", 0) for key in _BETWEEN)
            fields["between"] = begin, end
    if family.frame_merge == 1:
        # models whose frame_merge is 1 ignore the key temporal_merge_size
        fields.pop("frame_merge", None)
    return family._replace(**fields)


def _named(model_type: Any) -> Family:
    if isinstance(model_type, str):
        name = _OTHER_NAMES.get(model_type, model_type)
        if name in FAMILIES:
            return FAMILIES[name]
        if name in REFUSED:
            raise ValueError(f"model {name!r} is unsupported: {REFUSED[name]}")
    known = ", ".join(map(repr, FAMILIES))
    raise ValueError(
        f"model has the model_type {model_type!r}, but must have one of {known}{meant(model_type, FAMILIES)}"
    )


def from_tokens(
    tokens: Any,
    model: Any,
    image_grid_thw: Any,
    video_grid_thw: Any,
    second_per_grid: Any,
    fps: Any,
    attention_mask: Any,
    following: MropeFollowing | None,
    out: Array | None,
) -> tuple[Array, Array]:
    """Return the positions and deltas that `presets.positions.mrope` returns for the same arguments."""
    family = family_of(model)
    if following is not None:
        family = family._replace(following=one_of(following, "following", _FOLLOWING))
    ids = tokens if type(tokens) is np.ndarray else as_array(tokens, "tokens")
    if ids.dtype not in (_INT64, _INT32):
        raise TypeError(f"tokens must be token ids of dtype int32 or int64, not {ids.dtype}")
    if ids.ndim not in (1, 2):
        raise ValueError(f"tokens has shape {ids.shape}, but must have shape (length,) or (batch, length)")
    without_grids = family.marked and image_grid_thw is None and video_grid_thw is None
    dtype = _FLOAT32 if family.exact_times else _INT64 if without_grids else ids.dtype
    target = None if out is None else check_out(out, (3, *ids.shape), dtype)
    mask = None
    if attention_mask is not None:
        mask = checked_mask(attention_mask, 1, "attention_mask")
        if mask.shape != ids.shape:
            raise ValueError(f"attention_mask has shape {mask.shape}, but must have the shape of tokens, {ids.shape}")
        mask = mask if ids.ndim == 2 else mask[np.newaxis]
    rows = ids if ids.ndim == 2 else ids[np.newaxis]
    # (batch, 1): the position of the next token, minus the number of unmasked tokens
    deltas = np.zeros((len(rows), 1), dtype if family.exact_times else _INT64)
    if mask is None and image_grid_thw is None and video_grid_thw is None and not _may_have_vision(rows, family):
        positions = _of_text(rows.shape, dtype)
    else:
        positions = np.empty((3, *rows.shape), dtype)
        grids = _Grids(family, image_grid_thw, video_grid_thw, second_per_grid, fps)
        write_sequence = _write_marked_sequence if family.marked and not without_grids else _write_sequence
        # in the source, masked tokens of omni models have position 1 if there are no grids
        padding = 1 if without_grids else family.padding
        for b, row in enumerate(rows):
            kinds = _kinds(row, family)
            if without_grids:
                # audio tokens have positions like text
                kinds[kinds == AUDIO] = TEXT
            if mask is None or mask[b].all():
                write_sequence(kinds, family, grids, positions[:, b])
                largest = positions[:, b].max(initial=0)
            else:
                kinds = kinds[mask[b]]
                unmasked = np.empty((3, len(kinds)), dtype)
                write_sequence(kinds, family, grids, unmasked)
                positions[:, b] = padding
                positions[:, b, mask[b]] = unmasked
                largest = max(unmasked.max(initial=0), padding if without_grids else 0)
            if len(kinds):
                deltas[b] = largest + 1 - len(kinds)
        grids.check_used()
    result = positions if ids.ndim == 2 else positions[:, 0]
    deltas = deltas if ids.ndim == 2 else deltas[0]
    if target is None:
        return result, deltas
    target[...] = result
    assert out is not None
    return out, deltas


def _may_have_vision(ids: Array, family: Family) -> bool:
    """Return whether any id is at least as large as the smaller of the ids of image and video tokens.

    If not, there are no images or videos, and all tokens have the positions of text. This check saves most of the time
    for text, because special tokens have the largest ids of most vocabularies.
    """
    # for small arrays, a search in bytes takes less time than any()
    return b"\1" in (ids >= _scalar(min(family.image, family.video))).tobytes()


def _of_text(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the positions of text without images, (3, batch, tokens)."""
    if shape[0] == 1 and shape[1] <= _MOST_CACHED and dtype == _INT64:
        return _positions_of_longest_text()[:, :, : shape[1]].copy()
    positions = np.empty((3, *shape), dtype)
    positions[:] = np.arange(shape[1])
    return positions


@functools.lru_cache(maxsize=1)
def _positions_of_longest_text() -> Array:
    """Return the positions of a text of _MOST_CACHED tokens, (3, 1, tokens), as a read-only view."""
    return np.broadcast_to(np.arange(_MOST_CACHED), (3, 1, _MOST_CACHED))


# comparing an array with a 0-d array takes half the time of comparing it with an int
@functools.lru_cache(maxsize=64)
def _scalar(number: int) -> Array:
    return np.array(number)


def _kinds(ids: Array, family: Family) -> npt.NDArray[np.uint8]:
    """Return the kind of each token: TEXT, IMAGE, VIDEO or AUDIO."""
    # as uint8, True is 1 (IMAGE) and False is 0 (TEXT)
    kinds: npt.NDArray[np.uint8] = (ids == family.image).view(np.uint8)
    if family.between is not None:
        begin, end = family.between
        in_video = np.cumsum(ids == begin) > np.cumsum(ids == end)
        kinds[in_video & (kinds == IMAGE)] = VIDEO
        return kinds
    kinds[ids == family.video] = VIDEO
    if family.marked:
        kinds[ids == family.audio] = AUDIO
    return kinds


# ---- runs of tokens --------------------------------------------------------------------------------------------------


def _write_sequence(kinds: npt.NDArray[np.uint8], family: Family, grids: _Grids, positions: Array) -> None:
    """Write the positions of a sequence into positions, (3, tokens). kinds: kind of each token."""
    runs, start = list(_runs(kinds)), 0
    if _write_images(runs, grids, positions):
        return
    for begin, end, kind in runs:
        if kind == TEXT:
            positions[:, begin:end] = np.arange(start, start + end - begin)
            start += end - begin
        else:
            start = grids.fill(kind, positions[:, begin:end], start, family.following)


def _write_images(runs: list[tuple[int, int, int]], grids: _Grids, positions: Array) -> bool:
    """Write the positions of text and images and return True. Return False if there are other kinds of tokens.

    Also return False if a grid is missing, does not fit its run, has several frames, or has more than _MOST_CACHED
    tokens. After False, the caller must overwrite all positions. runs: (begin, end, kind) of each run. Images are first
    written with positions from 0. Then one addition moves all runs to their starts. Moving each run by itself takes a
    third longer.
    """
    images = grids.next_grids(IMAGE, len(runs))
    positions[:] = np.arange(positions.shape[1])
    # start: position of the next token. offsets: the number to add to the positions of each run.
    start, offsets, used = 0, [], 0
    for begin, end, kind in runs:
        if kind == TEXT:
            offsets.append(start - begin)
            start += end - begin
            continue
        if kind != IMAGE or used == len(images):
            return False
        times, _, rows, columns = images[used]
        if times is not None or rows * columns != end - begin or end - begin > _MOST_CACHED:
            return False
        positions[:, begin:end] = _one_frame(rows, columns)
        offsets.append(start)
        start += max(rows, columns)
        used += 1
    grids.use(IMAGE, used)
    if runs:
        positions += np.repeat(offsets, [end - begin for begin, end, _ in runs])
    return True


def _write_marked_sequence(kinds: npt.NDArray[np.uint8], family: Family, grids: _Grids, positions: Array) -> None:
    """Write the positions of a sequence whose images, videos and audio have marks: a token before and one after them.

    A video that is mixed with audio tokens, its sound, has two marks before it and two after it. The two marks share a
    position unless exact_times is true. Positions of marks are computed separately from those of text, so that sums of
    times and counts are rounded to float32 as in the source.
    """
    start: Any = np.float32(0) if family.exact_times else 0
    # number of marks after the previous image, video or audio
    closing, runs = 0, list(_runs(kinds > 0))
    for i, (begin, end, inside) in enumerate(runs):
        block = positions[:, begin:end]
        if inside:
            content = kinds[begin:end]
            start = _write_content(content, family, grids, block, start)
            closing = _marks(content)
            if i in (0, len(runs) - 1):
                raise ValueError(
                    "tokens begin or end with the content of an image, video or audio. Put the begin token before "
                    "the content, and the end token after the content"
                )
            continue
        # number of marks before the next image, video or audio
        opening = 0
        if i + 1 < len(runs):
            next_begin, next_end, _ = runs[i + 1]
            opening = _marks(kinds[next_begin:next_end])
        text = end - begin - closing - opening
        if text < 0:
            raise ValueError(
                f"tokens {begin} to {end - 1} must contain the begin and end tokens of the images, videos and audio "
                f"next to them, {closing + opening} in total"
            )
        start = _write_marks(block[:, :closing], start, family)
        if closing:
            # as in the source, the position of text after marks is 1 plus their largest coordinate
            start = _position_after(block[:, :closing])
        block[:, closing : closing + text] = np.arange(text) + start
        start = _write_marks(block[:, closing + text :], _advanced(start, text), family)


def _write_marks(block: Array, start: Any, family: Family) -> Any:
    """Write the positions of up to two marks, and return the position after them."""
    marks = block.shape[1]
    if marks == 2 and not family.exact_times:
        block[:] = start
        return start + 1
    block[:] = np.arange(marks) + start
    return _advanced(start, marks)


def _write_content(kinds: npt.NDArray[np.uint8], family: Family, grids: _Grids, block: Array, start: Any) -> Any:
    """Write the positions of an image, video, audio or video with audio, and return the next position."""
    is_audio = kinds == AUDIO
    audio_tokens = np.count_nonzero(is_audio)
    if audio_tokens == 0:
        if (kinds != kinds[0]).any():
            raise ValueError(
                "tokens have an image directly next to a video; put the end token of the first and the begin token of "
                "the second between them"
            )
        return grids.fill(int(kinds[0]), block, start, family.following)
    if audio_tokens < len(kinds):
        if (kinds == IMAGE).any():
            raise ValueError(
                "tokens have an image directly next to audio; put the end token of the first and the begin token of "
                "the second between them"
            )
        frames = np.empty((3, len(kinds) - audio_tokens), block.dtype)
        grids.fill(VIDEO, frames, start, family.following)
        block[:, ~is_audio] = frames
    block[:, is_audio] = np.arange(audio_tokens) + start
    # as in the source, the next position follows that of the last token, whatever its kind
    return _position_after(block)


def _marks(kinds: npt.NDArray[np.uint8]) -> int:
    """Return the number of marks before (and after) an image, video or audio. A video with audio has two."""
    return 2 if kinds.min() == VIDEO and kinds.max() == AUDIO else 1


def _runs(values: Array) -> Iterator[tuple[int, int, int]]:
    """Return begin, end and value of each run of equal values."""
    if len(values) == 0:
        return iter(())
    edges = np.concatenate([[0], (values[1:] != values[:-1]).nonzero()[0] + 1])
    begins = edges.tolist()
    return zip(begins, [*begins[1:], len(values)], values[edges].tolist(), strict=True)


def _position_after(block: Array) -> Any:
    """Return 1 plus the largest coordinate of the last token of a block, (3, tokens)."""
    return _advanced(block[:, -1].max(), 1)


def _advanced(start: Any, count: int) -> Any:
    """Return start + count: rounded to float32 if start is a float, else as an int."""
    return np.float32(start + count) if isinstance(start, np.floating) else int(start) + count


# ---- grids -----------------------------------------------------------------------------------------------------------


class _Grid(NamedTuple):
    """Grid of an image, a video or a frame of a video. Sizes count tokens.

    times: position of each frame, relative to the first frame. If it is None, the grid has one frame.
    """

    times: Array | None
    frames: int
    rows: int
    columns: int


def _write_grid(grid: _Grid, start: Any, block: Array) -> None:
    """Write the positions of a grid's tokens, (3, tokens), with the same start on each axis."""
    times, frames, rows, columns = grid
    if times is None and rows * columns <= _MOST_CACHED:
        np.add(_one_frame(rows, columns), start, out=block, casting="same_kind")
        return
    axes = block.reshape(3, frames, rows, columns)
    axes[0] = start if times is None else (times + start)[:, np.newaxis, np.newaxis]
    axes[1] = (np.arange(rows) + start)[:, np.newaxis]
    axes[2] = np.arange(columns) + start


# the cache is small, because images of a model have few sizes and all frames of a video have the same size
@functools.lru_cache(maxsize=64)
def _one_frame(rows: int, columns: int) -> Array:
    """Return the positions of the tokens of a frame, (3, tokens), counted from 0 on each axis."""
    return np.indices((1, rows, columns)).reshape(3, -1)


class _Grids:
    """Grids of images and of videos, in the order of their tokens, and how many of each were used."""

    def __init__(self, family: Family, images: Any, videos: Any, seconds: Any, fps: Any) -> None:
        self._grids = {IMAGE: _images(images, family), VIDEO: list(_videos(videos, family, seconds, fps))}
        self._used = {IMAGE: 0, VIDEO: 0}

    def next_grids(self, kind: int, count: int) -> list[_Grid]:
        """Return up to ``count`` of the next grids of images or videos."""
        used = self._used[kind]
        return self._grids[kind][used : used + count]

    def use(self, kind: int, count: int) -> None:
        """Mark the next ``count`` grids as used."""
        self._used[kind] += count

    def fill(self, kind: int, positions: Array, start: Any, following: MropeFollowing) -> Any:
        """Write the positions of a run, (3, tokens), from the next grids. Return the position after the run."""
        (name, title, noun), tokens, begin = _NAMES[kind], positions.shape[1], 0
        while begin < tokens:
            grids = self.next_grids(kind, 1)
            if not grids:
                raise ValueError(f"tokens have more {noun} than {name} has grids; both must be of the same {title}")
            self.use(kind, 1)
            _, frames, rows, columns = grid = grids[0]
            size = frames * rows * columns
            if begin + size > tokens:
                raise ValueError(
                    f"the grids of {name} do not fit a run of {tokens} tokens of {noun}. The next grid has {size} "
                    f"tokens, but only {tokens - begin} tokens are left"
                )
            block = positions if size == tokens else positions[:, begin : begin + size]
            _write_grid(grid, start, block)
            start = start + max(rows, columns) if following == "side" else _position_after(block)
            begin += size
        return start

    def check_used(self) -> None:
        """Raise a ValueError if a grid is unused, because the sequences have no tokens for it."""
        for kind, (name, title, noun) in _NAMES.items():
            if self.next_grids(kind, 1):
                raise ValueError(
                    f"{name} has more grids than there are {noun} in tokens; both must be of the same {title}"
                )


# keys: kinds of tokens. Values: words for errors: the argument, the objects that it describes, the objects in tokens.
_NAMES = {
    IMAGE: ("image_grid_thw", "images", "images"),
    VIDEO: ("video_grid_thw", "videos", "videos or frames of videos"),
}


def _sizes(values: Any, name: str, frame_merge: int, merge: int) -> list[tuple[int, int, int]]:
    """Return (frames, rows, columns) of each grid, counted in tokens. values: the grids, counted in patches."""
    if values is None:
        return []
    array = as_array(values, name)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must contain integers, not {array.dtype}")
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(
            f"{name} has shape {array.shape}, but must have shape (n, 3), with the numbers of frames, rows and columns "
            "of patches"
        )
    sizes = []
    for frames, rows, columns in array.tolist():
        if frames < frame_merge or rows < merge or columns < merge:
            least = [frame_merge, merge, merge]
            raise ValueError(
                f"{name} has the grid {[frames, rows, columns]}, but the smallest grid of this model is {least} "
                "(frames, rows, columns)"
            )
        sizes.append((frames // frame_merge, rows // merge, columns // merge))
    return sizes


def _images(values: Any, family: Family) -> list[_Grid]:
    grids = []
    for frames, rows, columns in _sizes(values, "image_grid_thw", 1, family.merge):
        # the omni models compute positions from seconds, and in the source the frames of an image are one second apart
        apart = _rate(family) if family.marked and frames > 1 else 1
        grids.append(_Grid(np.arange(frames) * apart if frames > 1 else None, frames, rows, columns))
    return grids


def _videos(values: Any, family: Family, seconds: Any, fps: Any) -> Iterator[_Grid]:
    sizes = _sizes(values, "video_grid_thw", family.frame_merge, family.merge)
    steps = _seconds(family, seconds, fps, len(sizes))
    for (frames, rows, columns), step in zip(sizes, steps, strict=True):
        if family.frames_apart:
            yield from [_Grid(None, 1, rows, columns)] * frames
        else:
            times = _times(family, frames, step) if family.timed and frames > 1 else np.arange(frames)
            yield _Grid(times, frames, rows, columns)


def _times(family: Family, frames: int, seconds: float) -> Array:
    """Return the positions of frames, relative to the first. Round them down unless exact_times is true.

    seconds: seconds between neighbouring frames. The products with the rate are rounded to float32, as in the source.
    """
    rate, counts = _rate(family), np.arange(frames, dtype=np.float32)
    # the omni models multiply twice and round both products
    times = counts * np.float32(seconds) * np.float32(rate) if family.marked else counts * np.float32(seconds * rate)
    if family.exact_times:
        return times
    if not times[-1] < 2**31:
        raise ValueError(
            f"second_per_grid (or fps) puts the last of {frames} frames at position {times[-1]:g}, but positions must "
            "be below 2**31"
        )
    return times.astype(np.int64)


def _rate(family: Family) -> int:
    if family.rate is None:
        raise ValueError(
            "model counts frames in seconds, but its model_type does not determine the number of positions per second. "
            "Pass the config of the model, or {'model_type': .., 'tokens_per_second': ..} (position_id_per_seconds for "
            "an omni model)"
        )
    return family.rate


def _seconds(family: Family, seconds: Any, fps: Any, videos: int) -> list[float]:
    """Return the seconds between neighbouring frames of each video's grid."""
    if seconds is not None and fps is not None:
        raise ValueError(f"second_per_grid and fps={fps!r} exclude each other; pass only one of the two")
    if not family.timed:
        # these models ignore time: neighbouring frames have positions that differ by 1
        return [1.0] * videos
    name, value = ("fps", fps) if seconds is None else ("second_per_grid", seconds)
    if value is None:
        if family.marked and videos:
            raise ValueError(
                "video_grid_thw needs second_per_grid or fps, because this model computes positions from seconds; pass "
                "one of the two"
            )
        return [1.0] * videos
    array = real_array(as_array(value, name), name)
    if array.shape not in ((), (videos,)):
        raise ValueError(
            f"{name} has shape {array.shape}, but must be one number, or have one number for each of {videos} videos"
        )
    if not (array > 0 if name == "fps" else array >= 0).all():
        allowed = "positive" if name == "fps" else "0 or larger"
        raise ValueError(f"{name} must be {allowed}, not {array.tolist()}")
    # two frames of the video are one frame of the grid, so frames of the grid are 2 / fps seconds apart
    steps: list[float] = np.broadcast_to(2 / array if name == "fps" else array, (videos,)).tolist()
    return steps
