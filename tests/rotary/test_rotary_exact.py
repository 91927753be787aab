"""Test that the frequencies of scaled rotary encodings are exact, by formulas in mpmath."""

from __future__ import annotations

import pickle

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.rotary.scaling import SCALINGS
from support import exact

mpf = mpmath.mpf
BITS = 400
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192.0}
YARN = {"factor": 4.0, "original_max_position_embeddings": 4096.0}


def plain(dim, base):
    return [mpf(base) ** (mpf(-2 * i) / dim) for i in range(dim // 2)]


def clip(x):
    return min(max(x, mpf(0)), mpf(1))


def ramp(dim, base, original, fast=32, slow=1, truncate=True):
    """Return the weight of each pair's scaled frequency, by its turns over the original length (YaRN, section 3.2)."""
    lengths = (mpf(original) / (turns * 2 * mpmath.pi) for turns in (fast, slow))
    low, high = (dim * mpmath.log(length) / (2 * mpmath.log(base)) for length in lengths)
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, mpf(0)), min(high, mpf(dim - 1))
    return [clip((i - low) / (high - low)) for i in range(dim // 2)]


def ntk(dim, base, alpha):
    return plain(dim, mpf(base) * mpf(alpha) ** (mpf(dim) / (dim - 2)))


def llama3(dim, base, factor, low_freq_factor, high_freq_factor, original_max_position_embeddings):
    found = []
    for value in plain(dim, base):
        wavelength = 2 * mpmath.pi / value
        if wavelength < original_max_position_embeddings / mpf(high_freq_factor):
            found.append(value)
        elif wavelength > original_max_position_embeddings / mpf(low_freq_factor):
            found.append(value / factor)
        else:
            turns = original_max_position_embeddings / wavelength
            smooth = (turns - low_freq_factor) / (mpf(high_freq_factor) - low_freq_factor)
            found.append((1 - smooth) * value / factor + smooth * value)
    return found


def yarn(dim, base, factor, original, **how):
    parts = zip(plain(dim, base), ramp(dim, base, original, **how), strict=True)
    return [value / factor * part + value * (1 - part) for value, part in parts]


def yarn_log(dim, base, factor, original):
    return [v / mpf(factor) ** part for v, part in zip(plain(dim, base), ramp(dim, base, original), strict=True)]


def ntk_mixed(dim, base, factor, b):
    # the source divides frequencies by exp(a m^b), with a = ln(factor) / (dim/2)^b and m from 1
    a = mpmath.log(factor) / (mpf(dim) / 2) ** mpf(b)
    return [value / mpmath.exp(a * mpf(m) ** mpf(b)) for m, value in enumerate(plain(dim, base), 1)]


def theta_scale(dim, base, factor, original):
    turns = mpf(original) / (2 * mpmath.pi)
    return plain(dim, mpf(base) ** (mpmath.log(turns * factor) / mpmath.log(turns)))


FACTORS = [1.0 + 0.7 * i for i in range(32)]
# keys: names of cases. Values: (rotary_dim, base, scaling, formula of the frequencies, attention factor).
CASES = {
    "linear": (64, 5e5, {"rope_type": "linear", "factor": 3.0}, lambda d, b: [v / 3 for v in plain(d, b)], lambda: 1),
    "dynamic": (64, 1e4, {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 2048, "seq_len": 7000}, lambda d, b: ntk(d, b, mpf(2) * 7000 / 2048 - 1), lambda: 1),
    "ntk": (96, 1e4, {"rope_type": "ntk", "alpha": 1000.0}, lambda d, b: ntk(d, b, 1000), lambda: 1),
    "ntk_fixed": (64, 1e4, {"rope_type": "ntk_fixed", "factor": 5.0}, lambda d, b: [v / mpf(5) ** (mpf(2) / d) for v in plain(d, mpf(b) * 5)], lambda: 1),
    "ntk_mixed": (64, 1e4, {"rope_type": "ntk_mixed", "factor": 5.0, "b": 0.625}, lambda d, b: ntk_mixed(d, b, 5, 0.625), lambda: 1),
    "yarn": (64, 1e4, {"rope_type": "yarn", **YARN}, lambda d, b: yarn(d, b, 4, 4096), lambda: mpmath.log(4) / 10 + 1),
    "yarn-untruncated": (64, 150000.0, {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False},
        lambda d, b: yarn(d, b, 32, 4096, truncate=False), lambda: mpmath.log(32) / 10 + 1),
    # with this base, the ramp between unscaled and scaled pairs would end beyond the last pair
    "yarn-small-base": (16, 10.0, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1000}, lambda d, b: yarn(d, b, 4, 1000), lambda: mpmath.log(4) / 10 + 1),
    "yarn-mscale": (64, 1e4,
        {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.75, "mscale_all_dim": 0.5},
        lambda d, b: yarn(d, b, 40, 4096), lambda: (mpf(0.75) / 10 * mpmath.log(40) + 1) / (mpf(0.5) / 10 * mpmath.log(40) + 1)),
    "yarn_log": (64, 1e4, {"rope_type": "yarn_log", **YARN}, lambda d, b: yarn_log(d, b, 4, 4096), lambda: 1),
    "theta_scale": (64, 1e4, {"rope_type": "theta_scale", **YARN}, lambda d, b: theta_scale(d, b, 4, 4096), lambda: 1),
    "longrope": (64, 1e4,
        {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": FACTORS, "original_max_position_embeddings": 4096, "factor": 32.0, "seq_len": 5000},
        lambda d, b: [v / mpf(f) for v, f in zip(plain(d, b), FACTORS, strict=True)],
        lambda: mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096))),
    "llama3": (128, 5e5, {"rope_type": "llama3", **LLAMA3}, lambda d, b: llama3(d, b, **LLAMA3), lambda: 1),
    "proportional": (64, 1e6, {"rope_type": "proportional", "factor": 3.0, "partial_rotary_factor": 0.25}, lambda d, b: [v / 3 if i < 8 else mpf(0) for i, v in enumerate(plain(d, b))], lambda: 1),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    """Return a Rotary, and its exact frequencies and attention factor as mpmath numbers."""
    dim, base, scaling, formula, factor = CASES[request.param]
    with exact._working(BITS):
        values = [mpmath.mpf(value) for value in formula(dim, base)]
        return pf.Rotary(dim, base=base, scaling=scaling), values, mpmath.mpf(factor())


def test_all_scalings_are_here():
    kinds = {scaling["rope_type"] for _, _, scaling, *_ in CASES.values()}
    assert kinds == set(SCALINGS) - {"default", "axial", "xpos"}


def test_rounded_once(case):
    rotary, values, factor = case
    for pickled in (rotary, rotary._angles_of("cos")):
        assert pickle.loads(pickle.dumps(pickled)) == pickled
    assert rotary.frequencies.tolist() == [float(value) for value in values]
    assert rotary.attention_factor == float(factor)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("position", [131071, 2**53 - 1, *(pytest.param(p, marks=pytest.mark.slow) for p in (1000, 10**6 + 1, 1700000000))])  # fmt: skip
def test_the_bound_at_any_position(case, position):
    """Errors of tables in float32 are at most half a unit in the last place + 2^-50, at any position.

    In float64, errors are at most one unit + 2^-60 for angles up to 2^31, and 2^-50 for larger angles. If the attention
    factor is above 1, 2^-50 and 2^-60 are multiplied by it.
    """
    rotary, values, _ = case
    factor = rotary.attention_factor
    for dtype in (np.float32, np.float64):
        cosines, sines = rotary.tables(1, start=position, dtype=dtype)
        for i, value in enumerate(values):
            sine, cosine = exact.sincos(position, value)
            for got, true in ((cosines[0, i], cosine), (sines[0, i], sine)):
                with exact._working(BITS):
                    true = true * mpf(factor)
                    largest = max(1.0, factor)
                    beyond = 2.0**-60 if position * value <= 2**31 else 2.0**-50
                    if dtype is np.float32:
                        over = exact.excess(got, true, "float32") - largest * 2.0**-50
                    elif beyond == 2.0**-60:
                        over = exact.excess(got, true, "float64", 1.0) - largest * beyond
                    else:
                        over = float(abs(mpf(float(got)) - true)) - largest * beyond
                assert over <= 0, (dtype.__name__, i, float(true), float(got))


def test_axial_is_exact():
    """With "axial" scaling, a section of n pairs equals a Rotary of n pairs, in frequencies and in values at 2^40."""
    rotary = pf.Rotary(64, base=100.0, scaling={"rope_type": "axial"}, sections=[12, 20])
    with exact._working(BITS):
        values = [float(value) for count in (12, 20) for value in plain(2 * count, 100.0)]
    assert rotary.frequencies.tolist() == values
    cosines = rotary.tables([[0, 2**40]], dtype="f8")[0][0, 12:]
    np.testing.assert_array_equal(cosines, pf.Rotary(40, base=100.0).tables(1, start=2**40, dtype="f8")[0][0])


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("keys", [False, True], ids=["queries", "keys"])
def test_xpos_amplitudes(keys, rng):
    """xPos multiplies cosines by zeta ** ((p - center) / scale_base), or for keys by the reciprocal of this number.

    The products are right to four units in the last place.
    """
    rotary = pf.Rotary(16, scaling={"rope_type": "xpos", "scale_base": 64.0, "center": 3.0, "keys": keys})
    positions = np.concatenate([rng.uniform(-5000, 5000, 20), [0.0, 3.0, 3000.5]])
    cosines, _ = rotary.tables(positions, dtype="f8")
    # the first value of each pair is 1, and the second 0
    x = np.repeat([[1.0] * 8 + [0.0] * 8], 23, axis=0)
    np.testing.assert_array_equal(rotary.apply(x, positions=positions)[:, :8], cosines)
    for p, row in zip(positions.tolist(), cosines.tolist(), strict=True):
        for i, got in enumerate(row):
            with exact._working(BITS):
                zeta = (mpf(i) / 8 + mpf(0.4)) / (1 + mpf(0.4))
                true = zeta ** ((-1 if keys else 1) * mpf((p - 3.0) / 64)) * exact.sincos(p, plain(16, 1e4)[i])[1]
                assert abs(mpf(got) - true) <= 4 * 2 * exact.half_ulp(true, "float64"), (p, i)
