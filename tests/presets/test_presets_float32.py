"""Compare float32 frequencies of presets with the operations of their sources, and with recorded tables."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

from posenc_fast import presets
from posenc_fast.presets import _recipes
from posenc_fast.presets._registry import FACTS

BASE = 10000.0
# fmt: off
# keys: recorded tables. Values: how many of their 128 columns differ from our columns because their frequencies differ.
MOVED = {
    "diffusers_timesteps shift=0": 4, "diffusers_timesteps shift=0.5": 2, "diffusers_timesteps shift=1": 0,
    "espnet_scaled": 2, "fairseq": 0, "musicgen": 0, "tatp22": 0, "transformer_xl": 0, "transformer_xl at 1000000": 0,
    "whisper": 0,
}
# fmt: on
# keys: recipes. Values: how many of 64 frequencies differ from those of torch by one unit in the last place, because
# torch does not always round exp and pow correctly; and the presets that use the recipe.
RECIPES = {
    "exp_of_even": (2, "annotated_transformer conformer_relative nemo_fixed wzlxjtu"),
    "exp_of_index": (0, "ctranslate2 ddpm denoising_diffusion_pytorch tensor2tensor tensor2tensor_nd"),
    "exp_divided": (2, "flux_timesteps guided_diffusion"),
    "power": (0, "monai simple_vit simple_vit_3d timm"),
    "power_negative": (3, "x_transformers"),
    "power_of_inverse": (2, "edm keras_hub"),
}
USERS = [(recipe, name) for recipe, (_, names) in RECIPES.items() for name in names.split()]


@pytest.fixture(scope="module")
def arrays():
    with np.load(Path(__file__).parents[1] / "golden" / "float32.npz") as file:
        return dict(file)


def rounded(value):
    """Return a real number, rounded once to the 24 bits of float32."""
    with mpmath.workprec(24):
        return +mpmath.mpf(value)


# keys: recipes. Values: expressions of the sources, as functions of index, base and denominator, which return a
# frequency. Each operation is rounded once to float32.
EXPRESSIONS = {
    "exp_of_index": lambda i, b, d: mpmath.exp(rounded(i * rounded(-(math.log(b) / d)))),
    "exp_of_even": lambda i, b, d: mpmath.exp(rounded(2 * i * rounded(-(math.log(b) / (2 * d))))),
    "exp_divided": lambda i, b, d: mpmath.exp(rounded(rounded(rounded(-math.log(b)) * i) / d)),
    "power": lambda i, b, d: 1 / rounded(rounded(b) ** rounded(mpmath.mpf(i) / d)),
    "power_negative": lambda i, b, d: rounded(b) ** -rounded(mpmath.mpf(i) / d),
    "power_of_inverse": lambda i, b, d: rounded(1 / b) ** rounded(mpmath.mpf(i) / d),
}


@pytest.mark.parametrize("recipe", EXPRESSIONS)
@pytest.mark.parametrize("base", [500000.0, 20.0])
def test_every_operation_is_rounded_once(recipe, base):
    with mpmath.workprec(200):
        for count, denominator in ((8, 8.0), (9, 8.5), (192, 191.0)):
            expected = [rounded(EXPRESSIONS[recipe](i, base, denominator)) for i in range(count)]
            got = getattr(_recipes, recipe)(count, base, denominator)
            np.testing.assert_array_equal(got, np.array(expected, np.float32), strict=True)


@pytest.mark.parametrize("recipe", RECIPES)
def test_frequencies_of_torch(recipe, arrays):
    mine = getattr(_recipes, recipe)(64, BASE, 63.0 if recipe == "exp_of_index" else 64.0)
    apart = np.abs(mine.view(np.int32) - arrays[f"frequencies {recipe}"].view(np.int32))
    assert np.count_nonzero(apart) == RECIPES[recipe][0]
    assert apart.max() <= 1


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("key", MOVED)
def test_tables_of_float32_sources(key, arrays):
    """With float32 frequencies, presets reproduce recorded tables of float32 programs, unlike exact tables.

    MOVED gives the number of columns that differ by more than rounding errors.
    """
    name, _, shift = key.removesuffix(" at 1000000").partition(" shift=")
    more = {"downscale_freq_shift": float(shift), "flip_sin_to_cos": shift == "0"} if shift else {}
    encoding = presets.get(name)(128, frequencies="float32", **more)
    start = 1000000 if shift or key.endswith("1000000") else 4096
    got = encoding.table(8, start=start)
    exact = presets.get(name)(128, **more).table(8, start=start)
    # the limit is about 2^-23, because the rounding of both tables may change values by a few units in the last place
    off, exact_off = (np.abs(table - arrays[key]).max(axis=0) for table in (got, exact))
    assert np.count_nonzero(off > 1.2e-7) == MOVED[key]
    assert np.count_nonzero(exact_off > 1.2e-7) > 40
    assert exact_off.max() > 1e-4


def test_every_recipe_is_the_one_of_its_source():
    with_keyword = {
        name
        for name in presets.names()
        if not FACTS[name].rotary and "frequencies" in inspect.signature(presets.get(name)).parameters
    }
    tested = {name for _, name in USERS} | {key.partition(" ")[0] for key in MOVED}
    assert tested | {"qwen_omni_timesteps"} == with_keyword


@pytest.mark.parametrize(("recipe", "name"), USERS)
def test_frequencies_of_presets(recipe, name):
    more = {"time_factor": 1.0} if name == "flux_timesteps" else {}
    exact, encoding = presets.get(name)(48, **more), presets.get(name)(48, frequencies="float32", **more)
    got, real = encoding.frequencies.reshape(48, -1).max(axis=1), exact.frequencies.reshape(48, -1).max(axis=1)
    assert (got == got.astype(np.float32)).all()
    np.testing.assert_allclose(got, real, rtol=1e-6)
    np.testing.assert_array_equal(encoding.phases, exact.phases)
    np.testing.assert_array_equal(encoding.amplitudes, exact.amplitudes)
    count = len(np.unique(real))
    denominator = count - 1 if math.isclose(real.min(), 1e-4) else count
    expected = getattr(_recipes, recipe)(count, BASE, float(denominator))
    np.testing.assert_array_equal(np.unique(got), np.unique(expected.astype(np.float64)))


def test_factors_are_rounded_too():
    got = presets.tensor2tensor(8, min_timescale=1 / 3, max_timescale=50.0, frequencies="float32").frequencies[:4]
    steps = _recipes.exp_of_index(4, 50.0 / (1 / 3), 3.0)
    np.testing.assert_array_equal(got, (steps * np.float32(1 / 3)).astype(np.float64))
    qwen = presets.qwen_omni_timesteps(8, frequencies="float32").frequencies[:4]
    np.testing.assert_array_equal(qwen, _recipes.exp_of_index(4, BASE, 3.0) * np.float32(1000))


@pytest.mark.parametrize("name", ["tensor2tensor", "fairseq", "musicgen", "ddpm", "diffusers_timesteps"])
def test_smallest_widths(name):
    for d in range(1, 6):
        got, exact = presets.get(name)(d, frequencies="float32"), presets.get(name)(d)
        np.testing.assert_allclose(got.frequencies, exact.frequencies, rtol=1e-6, equal_nan=False, err_msg=str(d))


def test_odd_widths_have_the_real_denominator():
    """If the width d is odd, the float32 exponents of `keras_hub` are 2i/d, not 2i/(d + 1) or 2i/(d - 1)."""
    got = presets.keras_hub(5, frequencies="float32").frequencies
    expected = [np.float32(float(np.float32(1e-4)) ** float(np.float32(Fraction(2 * i, 5)))) for i in (0, 0, 1, 1, 2)]
    np.testing.assert_array_equal(got, np.array(expected, np.float64))
