"""Compare `positions.mrope` with `get_rope_index` of transformers, for each model type that has this function.

The tests draw texts, images, videos, audio and videos with sound in random order, in batches with padding on either
side. Tokens have the order in which the models' processors write them. Values and dtypes of positions must be equal.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import types

import numpy as np
import pytest

from posenc_fast.presets import positions
from posenc_fast.presets._multimodal import FAMILIES, REFUSED, family_of
from support.optional import optional
from support.seeds import SEED

torch = optional("torch")
optional("transformers")

# models that are not in transformers: the programs of Keye were published with its weights
ELSEWHERE = {"keye", "keye_vl1_5"}
OMNI = {"qwen2_5_omni": "Qwen2_5Omni", "qwen3_omni_moe": "Qwen3OmniMoe"}
MODELS = sorted(set(FAMILIES) - ELSEWHERE)
METHODS = ("get_rope_index", "get_vision_position_ids", "get_llm_pos_ids_for_vision", "get_chunked_index")
# ids of text, marks and padding; no model uses them for images, videos or audio
TEXT, OPEN, CLOSE, SOUND_OPENS, SOUND_CLOSES, PADDING = 7, 1001, 1002, 1003, 1004, 1005


@functools.cache
def source(model):
    """Return an object with the config and methods of the transformers class that counts positions, without weights."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    config = CONFIG_MAPPING[f"{model}_thinker" if model in OMNI else model]()
    name = f"{OMNI.get(model)}PreTrainedModelForConditionalGeneration"
    # take the class that defines get_rope_index, not one that calls the function of another class
    cls = next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and (value.__name__ == name if model in OMNI else "get_rope_index" in vars(value))
    )
    if model in OMNI:
        config.vision_start_token_id, config.audio_start_token_id = OPEN, SOUND_OPENS
    counting = types.SimpleNamespace(config=config, spatial_merge_size=config.vision_config.spatial_merge_size)
    for method in METHODS:
        if hasattr(cls, method):
            setattr(counting, method, types.MethodType(getattr(cls, method), counting))
    return counting


def config_of(model):
    """Return the argument `model` of `mrope`: the model type, or a config if positions depend on tokens per second."""
    config = source(model).config
    rate = getattr(config, "position_id_per_seconds", getattr(config.vision_config, "tokens_per_second", None))
    return model if rate is None else {"model_type": model, "tokens_per_second": rate}


def grid(rng, frames=1):
    return frames, *(2 * int(n) for n in rng.integers(1, 9, 2))


def tokens_of(size):
    return size[0] * size[1] * size[2] // 4


def audio_features(model, tokens):
    """Return a number of audio features that the model encodes as the given number of tokens."""
    whole, rest = divmod(tokens, 13)
    # for Qwen3-Omni, return the smallest length that becomes this number of tokens
    return 4 * tokens if model == "qwen2_5_omni" else 100 * whole + (8 * rest - 7 if rest else 0)


def with_sound(model, size, step, rate, sounds):
    """Return the order of the tokens of a video ("v") and of its sound ("a"), as the processors write them."""
    times = np.repeat((np.arange(size[0], dtype="f4") * np.float32(step) * np.float32(rate)), tokens_of((1, *size[1:])))
    if model == "qwen3_omni_moe":
        # sorted by time, video tokens before audio tokens of the same time
        tokens = [*((time, "v") for time in times), *((time, "a") for time in range(sounds))]
        return "".join(kind for _, kind in sorted(tokens, key=lambda token: token[0]))

    def chunks(values, length):
        begin, edge = 0, 1
        for i, value in enumerate(values):
            if value >= edge * length:
                yield i - begin
                begin, edge = i, edge + 1
        yield len(values) - begin

    pairs = itertools.zip_longest(chunks(times, 2 * rate), chunks(range(sounds), 2 * rate), fillvalue=0)
    return "".join("v" * video + "a" * audio for video, audio in pairs)


def layout(rng, model):
    """Return arguments of a random batch: ids, types of tokens, mask, grids, seconds and lengths of audio."""
    family, rate = FAMILIES[model], getattr(source(model).config, "position_id_per_seconds", None)
    images, videos, seconds, sounds, rows = [], [], [], [], []
    scenes = bool(rng.integers(2))

    def text(most=20):
        return [TEXT] * int(rng.integers(1, most))

    for _ in range(rng.integers(1, 4)):
        ids = text()
        for _ in range(rng.integers(0, 6)):
            # if scenes is true, all videos in a batch of an omni model have sound, else none has
            kind = rng.choice(["image", "video", "audio"] if model in OMNI else ["image", "video"])
            if kind == "image":
                images.append(grid(rng))
                ids += [OPEN, *[family.image] * tokens_of(images[-1]), CLOSE]
            elif kind == "audio":
                count = int(rng.integers(1, 40))
                sounds.append(audio_features(model, count))
                ids += [SOUND_OPENS, *[family.audio] * count, SOUND_CLOSES]
            else:
                frames = int(rng.integers(1, 6)) * family.frame_merge
                size = grid(rng, frames)
                videos.append(size)
                # a frame of the grid is two frames of the video, as in the processors; draw the frame rate of the video
                seconds.append(2 / float(rng.choice([0.7, 1, 2, 3, 4, 24, 29.97])))
                count = tokens_of((1, *size[1:]))
                if family.frames_apart:
                    begin, end = family.between or (OPEN, CLOSE)
                    token = family.image if family.between else family.video
                    ids += [begin, *(id for _ in range(frames) for id in [*[token] * count, *text(4)]), end]
                elif model in OMNI and scenes:
                    length = int(rng.integers(1, 200))
                    sounds.append(audio_features(model, length))
                    kinds = with_sound(model, size, np.float32(seconds[-1]), rate, length)
                    between = [family.video if kind == "v" else family.audio for kind in kinds]
                    ids += [OPEN, SOUND_OPENS, *between, SOUND_CLOSES, CLOSE]
                else:
                    ids += [OPEN, *[family.video] * (count * frames // family.frame_merge), CLOSE]
            ids += text() if rng.integers(2) else []
        rows.append(ids)
    longest = max(map(len, rows)) + int(rng.integers(3))
    left, batch, mask = bool(rng.integers(2)), [], []
    for row in rows:
        before, after = (longest - len(row), 0) if left else (0, longest - len(row))
        batch.append([PADDING] * before + row + [PADDING] * after)
        mask.append([0] * before + [1] * len(row) + [0] * after)
    return np.array(batch), np.array(mask), images, videos, np.array(seconds, "f4"), sounds, scenes


def compare(model, ids, mask, images, videos, seconds, sounds, scenes, masked):
    counting, family = source(model), FAMILIES[model]
    grids = {"image_grid_thw": images, "video_grid_thw": videos}
    tensors = {name: torch.tensor(value) if value else None for name, value in grids.items()}
    options = {"attention_mask": torch.from_numpy(mask)} if masked or model in OMNI else {}
    if model in OMNI:
        options |= {"use_audio_in_video": scenes, "audio_seqlens": torch.tensor(sounds)}
        options |= {"second_per_grids": torch.from_numpy(seconds)}
    else:
        of_video = ids == family.video
        if family.between:
            inside = np.cumsum(ids == family.between[0], 1) > np.cumsum(ids == family.between[1], 1)
            of_video = (ids == family.image) & inside
        types_of_tokens = np.where(of_video, 2, ids == family.image)
        options |= {"mm_token_type_ids": torch.from_numpy(types_of_tokens)}
        if model == "qwen2_5_vl":
            options |= {"second_per_grid_ts": torch.from_numpy(seconds) if len(seconds) else None}
    expected, expected_deltas = counting.get_rope_index(torch.from_numpy(ids), **tensors, **options)
    out = np.empty(expected.shape, expected.numpy().dtype)
    got, deltas = positions.mrope(
        torch.from_numpy(ids),
        config_of(model),
        **tensors,
        second_per_grid=seconds if len(seconds) else None,
        attention_mask=options.get("attention_mask"),
        out=out,
    )
    assert got is out
    np.testing.assert_array_equal(got, expected.numpy())
    np.testing.assert_array_equal(deltas, expected_deltas.numpy())
    assert deltas.dtype == expected_deltas.numpy().dtype


@pytest.mark.parametrize("count", [4, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", MODELS)
def test_random_layouts(model, count):
    rng = np.random.default_rng([SEED, *model.encode()])
    for i in range(count):
        *arguments, scenes = layout(rng, model)
        masked = bool(rng.integers(4)) or not arguments[1].all()
        try:
            compare(model, *arguments, scenes, masked)
        except BaseException:
            print(f"layout {i} of {model}")
            raise


def test_every_model_that_counts_so_is_known():
    import transformers

    folder = importlib.resources.files(transformers) / "models"
    files = folder.glob("*/mod*.py")
    counting = {file.parent.name for file in files if "def get_rope_index" in file.read_text(encoding="utf-8")}
    # only transformers 5.24 and later have this model
    newer = set() if (folder / "hy_v4_vl").is_dir() else {"hy_v4_vl"}
    assert counting | newer == set(MODELS) | set(REFUSED)


@pytest.mark.parametrize("model", MODELS)
def test_facts_are_those_of_the_config_classes(model):
    """A config, whose token ids and sizes replace those of `FAMILIES`, gives the same rules as the model type."""
    config, expected = source(model).config, family_of(config_of(model))
    assert family_of(config) == family_of(config.to_dict()) == expected
    assert expected.frame_merge == getattr(config.vision_config, "temporal_merge_size", 1)
