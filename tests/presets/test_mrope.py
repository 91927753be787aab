"""Test `positions.mrope`, which computes positions from token ids and grids: examples, other programs, and errors.

`test_mrope_transformers.py` compares the positions with transformers.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from posenc_fast.presets import positions
from posenc_fast.presets._multimodal import FAMILIES, REFUSED, family_of
from support.tables import each_line

IMAGE, VIDEO, AUDIO = 151655, 151656, 151646
# token ids of "a photo <image> of a cat", with an image of 2 by 3 tokens
PHOTO = np.array([5, 6, 151652, *[IMAGE] * 6, 151653, 7, 8])
TIMED = {"model_type": "qwen2_5_vl", "vision_config": {"tokens_per_second": 2}}
CLIP = np.array([1, *[VIDEO] * 3, 2])
GLM = [151343, 1, 151341, 151343, 5, 151343, 151342, 1]


def photos(model="qwen2_vl", **options):
    return positions.mrope(PHOTO, model, image_grid_thw=[[1, 4, 6]], **options)


SIDE = [[0, 1, 1, 1, 2]] * 2
# a video of two frames, and an image. Two tokens precede each frame: text, and a token for the time of the frame.
KEYE = [1, 2, *[VIDEO] * 4, 2, 9, *[VIDEO] * 4, 3, *[IMAGE] * 2]
AT_KEYE = [
    [0, 1, 2, 2, 2, 2, 4, 5, 6, 6, 6, 6, 8, 9, 9],
    [0, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 7, 8, 9, 9],
    [0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10],
]
OF_CLIP = {"video_grid_thw": [[3, 2, 2]]}
OF_KEYE = {"video_grid_thw": [[2, 4, 4]], "image_grid_thw": [[1, 2, 4]]}
OWN = {"model_type": "qwen3_vl", "image_token_id": 1, "video_token_id": 2, "vision_config": {"spatial_merge_size": 1}}
# fmt: off
# each row: tokens, model, options, and the expected positions on the three axes
LAYOUTS = [
    (PHOTO, "qwen2_vl", {"image_grid_thw": [[1, 4, 6]]}, [
        [0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 8],
        [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7, 8],
        [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8],
    ]),
    # In transformers 5.3 and later (not omni models), text begins at a video's first position plus its longer side. In
    # transformers 4 and vLLM, it begins one after the largest position of the video.
    (CLIP, "qwen2_vl", OF_CLIP, [[0, 1, 2, 3, 2], *SIDE]),
    (CLIP, "qwen2_vl", OF_CLIP | {"following": "largest"}, [[0, 1, 2, 3, 4], *[[0, 1, 1, 1, 4]] * 2]),
    # the times 1.6 and 3.2 of frames are rounded down to 1 and 3, and added to position 1, the first after the text
    *((CLIP, TIMED, OF_CLIP | {key: time}, [[0, 1, 2, 4, 2], *SIDE])
      for key, time in (("second_per_grid", [0.8]), ("second_per_grid", 0.8), ("fps", 2.5), ("fps", [2.5]))),
    # without a time, frames are a second apart
    (CLIP, TIMED, OF_CLIP, [[0, 1, 3, 5, 2], *SIDE]),
    # two images, without and with text between them
    ([1, *[IMAGE] * 6, 2], "qwen2_vl", {"image_grid_thw": [[1, 4, 4], [1, 2, 4]]},
     [[0, 1, 1, 1, 1, 3, 3, 5], [0, 1, 1, 2, 2, 3, 3, 5], [0, 1, 2, 1, 2, 3, 4, 5]]),
    ([1, *[IMAGE] * 4, 2, *[IMAGE] * 2, 3], "qwen2_vl", {"image_grid_thw": [[1, 4, 4], [1, 2, 4]]},
     [[0, 1, 1, 1, 1, 3, 4, 4, 6], [0, 1, 1, 2, 2, 3, 4, 4, 6], [0, 1, 2, 1, 2, 3, 4, 5, 6]]),
    # frames of a Keye video count as separate images, also if no other token lies between them
    ([VIDEO] * 6 + [1], "keye", {"video_grid_thw": [[3, 2, 4]]}, [[0, 0, 2, 2, 4, 4, 6]] * 2 + [[0, 1, 2, 3, 4, 5, 6]]),
    *((KEYE, model, OF_KEYE, AT_KEYE) for model in ("keye", "keye_vl1_5", {"model_type": "KeyeVL1_5"})),
    # frames of GLM are images between its marks
    (GLM, "glm4v", {"image_grid_thw": [[1, 2, 2]], "video_grid_thw": [[2, 2, 2]]}, [[*range(8)]] * 3),
    # audio without a video counts like text
    ([1, 151652, IMAGE, 151653, 151647, AUDIO, AUDIO, 151648, 1], "qwen2_5_omni", {"image_grid_thw": [[1, 2, 2]]},
     [[*range(9)]] * 3),
    # a config has ids and sizes of its own; token types as transformers' processors write them
    (np.array([0, 1, 1, 0], np.int32), OWN, {"image_grid_thw": [[1, 1, 2]]}, [*[[0, 1, 1, 3]] * 2, [0, 1, 2, 3]]),
    *((np.arange(5), model, {}, [[0, 1, 2, 3, 4]] * 3) for model in sorted(FAMILIES)),
]
# fmt: on


@pytest.mark.parametrize(("tokens", "model", "options", "expected"), LAYOUTS)
def test_positions_of_layouts(tokens, model, options, expected):
    where, deltas = positions.mrope(tokens, model, **options)
    assert where.tolist() == expected
    assert where.dtype == (np.float32 if model == "qwen3_omni_moe" else np.asarray(tokens).dtype)
    assert deltas.tolist() == [where.max() + 1 - len(tokens)]


def test_parts_and_generated_tokens_go_on_alike():
    where, deltas = photos()
    np.testing.assert_array_equal(positions.mrope([3, (1, 2, 3), 3]), where.T)
    longer, _ = positions.mrope([*PHOTO, 1, 2], "qwen2_vl", image_grid_thw=[[1, 4, 6]])
    np.testing.assert_array_equal(longer, np.hstack([where, np.arange(12, 14) + np.tile(deltas, (3, 1))]))


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_padding_has_no_position_of_its_own(left):
    where, deltas = photos()
    sides = (3, 0) if left else (0, 3)
    batch = np.stack([np.pad(PHOTO, sides), np.arange(15)])
    mask = np.stack([np.pad(np.ones(12, bool), sides), np.ones(15, bool)])
    both, both_deltas = positions.mrope(batch, "qwen2_vl", image_grid_thw=[[1, 4, 6]], attention_mask=mask)
    np.testing.assert_array_equal(both[:, 0], np.pad(where, [(0, 0), sides]))
    np.testing.assert_array_equal(both[:, 1], np.tile(np.arange(15), (3, 1)))
    assert both_deltas.tolist() == [[deltas[0]], [0]]


def test_rows_without_a_token_count_nothing():
    where, deltas = positions.mrope([[1, 2], [3, 4]], "qwen2_vl", attention_mask=[[1, 1], [0, 0]])
    assert where[:, 1].tolist() == [[0, 0]] * 3
    assert deltas.tolist() == [[0], [0]]
    # omni models without grids pad with 1
    where, deltas = positions.mrope([0, 0, 5], "qwen2_5_omni", attention_mask=[0, 0, 1])
    assert (where.tolist(), deltas.tolist()) == ([[1, 1, 0]] * 3, [1])
    for shape in ((0,), (2, 0), (0, 3)):
        none = np.zeros(shape, int)
        for mask in (None, none):
            where, deltas = positions.mrope(none, "qwen2_vl", attention_mask=mask)
            assert (where.shape, deltas.shape, deltas.any()) == ((3, *shape), (*shape[:-1], 1), False)


@pytest.mark.parametrize(("model", "same"), [("qwen2_5_omni", 0), ("qwen3_omni_moe", 1)])
def test_a_video_with_its_sound_has_one_clock(model, same):
    config = {"model_type": model, "thinker_config": {"position_id_per_seconds": 4}}
    ids = [1, 151652, 151647, VIDEO, AUDIO, AUDIO, VIDEO, AUDIO, 151648, 151653, 1]
    where, deltas = positions.mrope(ids, config, video_grid_thw=[[2, 2, 2]], second_per_grid=0.5)
    # the two marks before the video share a position in Qwen2.5-Omni (same=0), but not in Qwen3-Omni (same=1)
    begin = 2 + same
    end = begin + 3
    expected = [0, 1, 1 + same, begin, begin, begin + 1, begin + 2, begin + 2, end, end + same, end + same + 1]
    assert where[0].tolist() == expected
    assert where.dtype == (np.float32 if model == "qwen3_omni_moe" else np.int64)
    assert deltas.dtype == where.dtype
    assert deltas.tolist() == [end + same + 2 - len(ids)]


def test_only_models_that_merge_frames_read_the_key_temporal_merge_size():
    for model, merged in (("qwen2_vl", 1), ("ernie4_5_vl_moe", 3)):
        config = {"model_type": model, "vision_config": {"temporal_merge_size": 3}}
        assert family_of(config).frame_merge == merged


BAD_CALLS = r"""
mrope(PHOTO, "qwen2_lv") | 'qwen2_lv', but must have one of .*; did you mean 'qwen2_vl'
mrope(PHOTO, {}) | model has the model_type None
mrope(PHOTO, 3) | model must be a model_type or a config, not int
mrope(PHOTO, "qwen2_vl") | more images than image_grid_thw has grids; both must be of the same images
photos(video_grid_thw=[[1, 2, 2]]) | video_grid_thw has more grids than there are videos
mrope(PHOTO, "qwen2_vl", image_grid_thw=[[1, 4, 6], [1, 2, 2]]) | image_grid_thw has more grids than there are images in tokens; both
mrope(PHOTO, "qwen2_vl", image_grid_thw=[[1, 4, 8]]) | a run of 6 .* The next grid has 8 tokens, but only 6 tokens are left
mrope(PHOTO, "qwen2_vl", image_grid_thw=[1, 4, 6]) | image_grid_thw has shape \(3,\)
mrope(PHOTO, "qwen2_vl", image_grid_thw=[[1, 4, 1]]) | has the grid \[1, 4, 1\], but the smallest grid of this model is \[1, 2, 2\]
mrope(PHOTO, "qwen2_vl", image_grid_thw=[[1.0, 4, 6]]) | image_grid_thw must contain integers, not float64
mrope(PHOTO / 2, "qwen2_vl") | tokens must be token ids of dtype int32 or int64, not float64
mrope(PHOTO[None, None], "qwen2_vl") | tokens has shape \(1, 1, 12\)
photos(attention_mask=np.ones(11)) | attention_mask must have dtype bool
photos(attention_mask=np.ones(11, bool)) | attention_mask has shape \(11,\)
photos(attention_mask=np.full(12, 2)) | integers in attention_mask must be 0 or 1
photos(following="last") | following must be one of 'side', 'largest', not 'last'
photos(start=3) | start=3 cannot be combined with model; leave out start
photos(time_step=2.5) | time_step=2.5 cannot be combined with model; leave out time_step
mrope([PHOTO]) | each part of tokens \(without model\) must be an integer
mrope([3], image_grid_thw=[[1, 2, 2]]) | image_grid_thw needs model
mrope(CLIP, "qwen2_5_vl", video_grid_thw=[[3, 2, 2]]) | does not determine the number of positions per second. Pass the config
mrope(CLIP, TIMED, video_grid_thw=[[3, 2, 2]], fps=1, second_per_grid=1) | second_per_grid and fps=1 exclude each other
mrope(CLIP, TIMED, video_grid_thw=[[3, 2, 2]], fps=0) | fps must be positive, not 0.0
mrope(CLIP, TIMED, video_grid_thw=[[3, 2, 2]], second_per_grid=-1) | second_per_grid must be 0 or larger, not -1.0
mrope(CLIP, TIMED, video_grid_thw=[[3, 2, 2]], second_per_grid=[1, 2]) | shape \(2,\), but .* for each of 1 videos
mrope(CLIP, TIMED, video_grid_thw=[[3, 2, 2]], second_per_grid=2e9) | the last of 3 frames at position .*, but positions must be below
mrope([1, 2, *CLIP], "qwen2_5_omni", video_grid_thw=[[3, 2, 2]]) | video_grid_thw needs second_per_grid or fps, .* pass one
mrope(GLM, "glm4v", video_grid_thw=[[3, 2, 2]]) | more images than image_grid_thw has
mrope([IMAGE, 1], "qwen2_5_omni", image_grid_thw=[[1, 2, 2]]) | Put the begin token before
mrope([1, IMAGE, 2, AUDIO, 1], "qwen2_5_omni", image_grid_thw=[[1, 2, 2]]) | tokens 2 to 2 must contain the begin and end tokens of .* 2 in total
mrope([1, IMAGE, AUDIO, 1], "qwen2_5_omni", image_grid_thw=[[1, 2, 2]]) | an image directly next to audio
"""
UNSUPPORTED = [f"mrope(PHOTO, {name!r}) | model '{name}' is unsupported: {reason}" for name, reason in REFUSED.items()]


@each_line("\n".join(["call | words", BAD_CALLS.strip(), *UNSUPPORTED]))
def test_bad_arguments(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        eval(call, {**globals(), "mrope": positions.mrope})


def test_out_is_written_unless_an_error_is_raised():
    out = np.full((3, 20), -1)[:, :12]
    with pytest.raises(ValueError, match=r"a run of 6 .* The next grid has 8 tokens, but only 6 tokens are left"):
        positions.mrope(PHOTO, "qwen2_vl", image_grid_thw=[[1, 4, 8]], out=out)
    with pytest.raises(ValueError, match=re.escape("out has shape (3, 12), but must have shape (3, 1, 12)")):
        positions.mrope(PHOTO[None], "qwen2_vl", image_grid_thw=[[1, 4, 6]], out=out)
    assert (out == -1).all()
    assert photos(out=out)[0] is out
    np.testing.assert_array_equal(out, photos()[0])
    assert (out.base[:, 12:] == -1).all()
