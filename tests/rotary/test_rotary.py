"""Test rotary encodings: exact values, layouts and shapes, inverses, and errors for invalid arguments."""

from __future__ import annotations

import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.rotary import rotator as _rotator
from support import exact
from support.errors import raises, wrong_calls

DTYPES = [np.float64, np.float32, np.float16]
LAYOUTS = ["half", "interleaved", "interleaved_to_half"]
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}


def rotated(x, angles, layout, rotary_dim):
    """Return x rotated in float64 by NumPy. angles: (..., rotary_dim/2), broadcast against the rows of x."""
    x, half = x.astype(np.float64), rotary_dim // 2
    part = x[..., :rotary_dim]
    if layout == "half":
        first, second = part[..., :half], part[..., half:]
    else:
        first, second = part[..., 0::2], part[..., 1::2]
    a = first * np.cos(angles) - second * np.sin(angles)
    b = second * np.cos(angles) + first * np.sin(angles)
    pairs = np.stack([a, b], -1).reshape(part.shape) if layout == "interleaved" else np.concatenate([a, b], -1)
    return np.concatenate([pairs, x[..., rotary_dim:]], -1)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize(
    ("head_dim", "rotary_dim"), [(24, 24), (24, 16), (24, 2), *((n, n) for n in (2, 6, 64, 80, 128, 130, 256))]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_formula(layout, head_dim, rotary_dim, dtype, rng):
    rotary = pf.Rotary(head_dim, rotary_dim=rotary_dim, layout=layout, base=500.0)
    x = rng.normal(size=(2, 3, 9, head_dim)).astype(dtype)
    before = x.copy()
    angles = np.outer(np.arange(9) + 5, 500.0 ** (-np.arange(0, rotary_dim, 2) / rotary_dim))
    got = rotary.apply(x, start=5)
    assert (got.dtype, got.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(x, before)
    # 1.5 eps times the largest input, plus NumPy's own error
    atol = np.abs(x).max() * 1.5 * float(np.finfo(dtype).eps) + 1e-12
    np.testing.assert_allclose(got, rotated(x, angles, layout, rotary_dim), rtol=0, atol=atol)
    np.testing.assert_array_equal(got[..., rotary_dim:], x[..., rotary_dim:])
    assert rotary.apply(x, start=5, out=x) is x
    np.testing.assert_array_equal(x, got)


# ---- accuracy ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("start", [0, 10**6, 2**40 + 1, -(2**62)], ids=["0", "1e6", "2^40", "-2^62"])
def test_exact_rotation(start, dtype, rng):
    """Errors in float32 are at most half a unit in the last place, plus 2^-51 times the length of the pair.

    For float16, the factor of the length is 2^-20. In float64, errors are at most 2^-51.5 times the length.
    """
    x = rng.normal(size=(4, 5, 16)).astype(dtype)
    got, frequencies = pf.Rotary(16).apply(x, start=start), exact.schedule(16)
    for i, j in np.ndindex(5, 8):
        angle = exact.sincos(start + i, frequencies[j])
        for h in range(4):
            rotated, length = exact.rotation(x[h, i, j::8], *angle)
            for value, true in zip(got[h, i, j::8], rotated, strict=True):
                with mpmath.workprec(300):
                    error = abs(mpmath.mpf(float(value)) - true)
                    if dtype is np.float64:
                        assert error <= length * mpmath.mpf(2) ** -51.5
                    else:
                        more = 2.0**-20 if dtype is np.float16 else 2.0**-51
                        assert error <= exact.half_ulp(true, np.dtype(dtype).name) + length * more


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_tables_equal_the_encoding(dtype):
    rotary = pf.Rotary(16, base=100.0)
    cos, sin = rotary.tables(50, start=10**9, dtype=dtype)
    both = pf.sinusoidal(16, base=100.0, layout="concatenated").table(50, start=10**9, dtype=dtype)
    np.testing.assert_array_equal(sin, both[:, :8])
    np.testing.assert_array_equal(cos, both[:, 8:])
    np.testing.assert_array_equal(rotary.frequencies, pf.sinusoidal(16, base=100.0).frequencies[::2])


@pytest.mark.usefixtures("backend")
def test_tables_into_parts_of_one_array():
    rotary, room = pf.Rotary(8), np.zeros((5, 11), np.float32)
    out = room[:, :4], room[:, 7:]
    cos, sin = rotary.tables(5, out=out)
    assert cos is out[0]
    assert sin is out[1]
    np.testing.assert_array_equal((cos, sin), rotary.tables(5))
    np.testing.assert_array_equal((cos, sin), rotary.tables(np.arange(5)))
    assert not room[:, 4:7].any()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda t: t.__name__)
@pytest.mark.parametrize("scaling", [None, YARN, {"rope_type": "xpos"}], ids=["unscaled", "yarn", "xpos"])
def test_inverse(scaling, dtype, layout, rng):
    rotary = pf.Rotary(32, rotary_dim=24, layout=layout, scaling=scaling)
    x = rng.normal(size=(2, 6, 32)).astype(dtype)
    back = rotary.apply(rotary.apply(x, start=700), start=700, inverse=True)
    np.testing.assert_allclose(back, x, rtol=0, atol=3 * np.finfo(dtype).eps * np.abs(x).max())


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("start", [0, 10**6, 2**50])
def test_norms_and_scores(start, layout, rng):
    rotary = pf.Rotary(64, layout=layout)
    queries, keys = rng.normal(size=(2, 20, 64))
    there = [rotary.apply(x, start=start) for x in (queries, keys)]
    np.testing.assert_allclose(np.linalg.norm(there[0], axis=1), np.linalg.norm(queries, axis=1), rtol=1e-15 * 8)
    here = [rotary.apply(x) for x in (queries, keys)]
    # scores depend only on the difference of positions, also at position 2^50
    np.testing.assert_allclose(there[0] @ there[1].T, here[0] @ here[1].T, rtol=0, atol=2e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda t: t.__name__)
@pytest.mark.parametrize("rotary_dim", [128, 126, 10, 6, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_engine_rotates_by_tables_to_the_same_bits(layout, rotary_dim, dtype, rng):
    rotary, x = pf.Rotary(128, rotary_dim=rotary_dim, layout=layout), rng.normal(size=(1, 4, 9, 128)).astype(dtype)
    tables = rng.normal(size=(2, 9, rotary_dim // 2))
    with pf.use_backend("python"):
        expected = rotary.apply_tables(x, *tables)
    for isa in pf.isa_levels():
        with pf.use_backend("cython", isa):
            np.testing.assert_array_equal(rotary.apply_tables(x, *tables), expected)
            inside = x.copy()
            np.testing.assert_array_equal(rotary.apply_tables(inside, *tables, out=inside), expected)


# ---- shapes -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_batched_positions(layout, dtype, rng):
    rotary = pf.Rotary(16, layout=layout)
    x = rng.normal(size=(3, 4, 7, 16)).astype(dtype)
    positions = rng.integers(-5, 10**6, (3, 7))
    got = rotary.apply(x, positions=positions)
    for b in range(3):
        # each sequence of a batch has its own positions, and gets the same result as in a separate call
        np.testing.assert_array_equal(got[b], rotary.apply(x[b], positions=positions[b]))
    swapped = np.ascontiguousarray(x.swapaxes(1, 2))
    np.testing.assert_array_equal(rotary.apply(swapped, positions=positions, seq_axis=1).swapaxes(1, 2), got)
    each = np.broadcast_to(positions[:, np.newaxis], (3, 4, 7))
    np.testing.assert_array_equal(rotary.apply(x, positions=each), got)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("shape", [(9, 16), (2, 9, 16), (2, 3, 9, 16), (2, 3, 2, 9, 16), (2, 1, 3, 2, 9, 16)])
def test_any_number_of_axes(shape, rng):
    rotary = pf.Rotary(16)
    x = rng.normal(size=shape).astype(np.float32)
    flat = rotary.apply(x.reshape(-1, 9, 16), start=3)
    np.testing.assert_array_equal(rotary.apply(x, start=3).reshape(flat.shape), flat)
    for axis in range(len(shape) - 1):
        moved = np.ascontiguousarray(np.moveaxis(x, -2, axis))
        got = rotary.apply(moved, start=3, seq_axis=axis)
        np.testing.assert_array_equal(np.moveaxis(got, axis, -2).reshape(flat.shape), flat)
        assert rotary.apply(moved, start=3, seq_axis=axis - len(shape), out=moved) is moved
        np.testing.assert_array_equal(moved, got)


@pytest.mark.usefixtures("backend")
def test_strides(rng):
    rotary, x = pf.Rotary(16), rng.normal(size=(2, 4, 6, 16)).astype(np.float32)
    expected = rotary.apply(x)
    wide = np.zeros((4, 4, 12, 40), np.float32)
    view = wide[::2, ::-1, 1::2, 3:19]
    view[...] = x
    np.testing.assert_array_equal(rotary.apply(view), expected)
    assert rotary.apply(view, out=view) is view
    np.testing.assert_array_equal(view, expected)
    view[...] = 0
    assert not wide.any()
    apart = np.asfortranarray(x)
    np.testing.assert_array_equal(rotary.apply(apart), expected)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    np.testing.assert_array_equal(rotary.apply(unaligned, out=unaligned), expected)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [2, 700], ids=["small", "large"])
def test_x_and_out_are_halves_of_one_array(length, layout, rng):
    """x and out share no memory, although their ranges of addresses overlap."""
    rotary, both = pf.Rotary(64, layout=layout), rng.normal(size=(1, 4, length, 128)).astype(np.float32)
    x, out = both[..., :64], both[..., 64:]
    before, tables = x.copy(), rotary.tables(length)
    for call in (
        rotary.apply,
        lambda x, out=None: rotary.apply(x, positions=np.arange(length), out=out),
        lambda x, out=None: rotary.apply_tables(x, *tables, out=out),
    ):
        out[...] = 0
        assert call(x, out=out) is out
        np.testing.assert_array_equal(out, call(before))
        np.testing.assert_array_equal(x, before)


@pytest.mark.usefixtures("backend")
def test_a_token_is_rotated_as_in_its_prompt(rng):
    rotary, x = pf.Rotary(64), rng.normal(size=(1, 4, 200, 64)).astype(np.float32)
    expected = rotary.apply(x, start=10)
    for i in (0, 1, 31, 32, 33, 150):
        np.testing.assert_array_equal(rotary.apply(x[:, :, i : i + 1].copy(), start=10 + i), expected[:, :, i : i + 1])
        np.testing.assert_array_equal(rotary.apply(x[:, :, i : i + 3].copy(), start=10 + i), expected[:, :, i : i + 3])


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("workers", [2, -1])
def test_workers_give_the_same(workers, monkeypatch, rng):
    rotary, x = pf.Rotary(128), rng.normal(size=(1, 8, 42, 128)).astype(np.float32)
    expected = rotary.apply(x)
    # with these numbers, several threads each compute rows of cosines and sines
    monkeypatch.setattr(_rotator, "WORTH_THREADS", 1)
    monkeypatch.setattr(_rotator, "ANGLES", 100)
    np.testing.assert_array_equal(pf.Rotary(128).apply(x, workers=workers), expected)


@pytest.mark.usefixtures("backend")
def test_empty():
    assert pf.Rotary(8).apply(np.zeros((2, 0, 8))).shape == (2, 0, 8)
    assert pf.Rotary(8).apply(np.zeros((0, 3, 8)), positions=[1, 2, 3]).shape == (0, 3, 8)
    assert pf.Rotary(8).tables(0)[0].shape == (0, 4)


@pytest.mark.usefixtures("backend")
def test_positions_of_every_type(rng):
    rotary, x = pf.Rotary(8), rng.normal(size=(3, 8))
    last = np.arange(2**64 - 3, 2**64, dtype=np.uint64)
    np.testing.assert_array_equal(rotary.tables(3, start=2**64 - 3), rotary.tables(last))
    halves = rotary.apply(x, positions=[0.5, 1.5, 2.5])
    np.testing.assert_allclose(halves, rotary.apply(x, start=0.5), rtol=0, atol=4e-15)


@pytest.mark.usefixtures("backend")
def test_float32_precision():
    """precision="float32" rounds frequencies, positions and their products to float32, as frameworks do."""
    rotary = pf.Rotary(64)
    angles = np.float32(10**6 + np.arange(8))[:, np.newaxis] * rotary.frequencies.astype(np.float32)
    expected = np.cos(angles.astype(np.float64))
    cos, _ = rotary.tables(8, start=10**6, precision="float32", dtype=np.float64)
    np.testing.assert_allclose(cos, expected, rtol=0, atol=1e-15)
    rotated = rotary.apply(np.eye(64)[:1], start=10**6, precision="float32")
    np.testing.assert_allclose(rotated[0, 0], expected[0, 0], rtol=0, atol=1e-15)


# ---- axes -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
def test_sections(rng):
    rotary = pf.Rotary(16, sections=[2, 3, 3])
    assert rotary.ndim == 3
    positions, x = rng.integers(0, 500, (2, 5, 3)), rng.normal(size=(2, 4, 5, 16))
    angles = positions[..., np.repeat([0, 1, 2], [2, 3, 3])] * pf.Rotary(16).frequencies
    np.testing.assert_allclose(
        rotary.apply(x, positions=positions), rotated(x, angles[:, np.newaxis], "half", 16), rtol=0, atol=1e-11
    )
    # without positions, a token has the same position on every axis, as in text
    np.testing.assert_allclose(rotary.apply(x, start=7), pf.Rotary(16).apply(x, start=7), rtol=0, atol=1e-14)
    np.testing.assert_allclose(rotary.tables(6, start=7), pf.Rotary(16).tables(6, start=7), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(rotary.frequencies, pf.Rotary(16).frequencies)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_frequencies(layout, rng):
    """Frequencies may be negative. The angle of a pair may use one axis, or be a sum over all axes."""
    x, points = rng.normal(size=(2, 5, 16)), rng.normal(size=(5, 3)) * 10
    given, axes = rng.normal(size=(6, 3)), [2, 0, 1, 0, 0, 2]
    for frequencies, sections, positions, angles in (
        (given[:, 0], None, points[:, 0], np.outer(points[:, 0], given[:, 0])),
        (given[:, 0], axes, points, points[:, axes] * given[:, 0]),
        (given, None, points, points @ given.T),
    ):
        options = {"frequencies": frequencies, "sections": sections, "attention_factor": 1.25}
        rotary = pf.Rotary(16, rotary_dim=12, layout=layout, **options)
        assert (rotary.ndim, rotary.attention_factor) == (positions.ndim * 2 - 1, 1.25)
        np.testing.assert_array_equal(rotary.frequencies, frequencies)
        expected = rotated(x, angles, layout, 12)
        expected[..., :12] *= 1.25
        got = rotary.apply(x, positions=positions)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)
        np.testing.assert_allclose(rotary.apply(got, positions=positions, inverse=True), x, rtol=0, atol=1e-14)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("sections", [None, [0, 1, 1, 0, 1, 1]], ids=["side by side", "mixed"])
def test_a_schedule_for_each_axis(sections):
    """Frequencies from schedules are exact real numbers, so tables are right even at positions beyond 2^40."""
    rotary = pf.Rotary(12, frequencies=[pf.geometric(2, base=7.0), pf.geometric(4)], sections=sections)
    parts = [(0, 7.0, Fraction(0)), (0, 7.0, Fraction(1, 2)), *((1, 10000.0, Fraction(i, 4)) for i in range(4))]
    order = range(6) if sections is None else [0, 2, 3, 1, 4, 5]
    position = (2**40 + 1, -(2**41) + 3)
    cos, sin = rotary.tables([position], dtype=np.float64)
    for k, (axis, base, exponent) in enumerate(parts[i] for i in order):
        with mpmath.workprec(200):
            frequency = mpmath.power(base, -mpmath.mpf(exponent.numerator) / exponent.denominator)
            angle = position[axis] * frequency
            assert abs(cos[0, k] - mpmath.cos(angle)) < mpmath.mpf(2) ** -50
            assert abs(sin[0, k] - mpmath.sin(angle)) < mpmath.mpf(2) ** -50


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"], ids=lambda t: getattr(t, "__name__", t))
def test_xpos_is_infinite_far_away(dtype):
    """With xPos, far positions may give infinity, but not NaN or a warning (in tests, warnings are errors)."""
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    cos, _ = pf.Rotary(8, scaling={"rope_type": "xpos"}).tables(np.array([-(10**6), 10**6]), dtype=dtype)
    values = cos.astype(np.float64)
    if dtype != np.float64:
        assert np.isinf(values[:, 0]).any()
    assert not np.isnan(values).any()


# ---- tables of the caller ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("table_dtype", DTYPES, ids=lambda t: t.__name__)
def test_apply_tables(table_dtype, rng):
    rotary, x = pf.Rotary(16, rotary_dim=12), rng.normal(size=(2, 3, 5, 16))
    angles = rng.uniform(-3, 3, (5, 6))
    cos, sin = np.cos(angles).astype(table_dtype), np.sin(angles).astype(table_dtype)
    a, b = x[..., :6], x[..., 6:12]
    expected = np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 12:]], axis=-1)
    np.testing.assert_allclose(rotary.apply_tables(x, cos, sin), expected, rtol=0, atol=1e-14)
    batch = rotary.apply_tables(x, np.stack([cos, cos]), np.stack([sin, sin]))
    np.testing.assert_array_equal(batch, rotary.apply_tables(x, cos, sin))
    np.testing.assert_array_equal(batch, rotary.apply_tables(x, cos, sin, workers=-1))
    assert rotary.apply_tables(x, cos, sin, out=x) is x
    np.testing.assert_array_equal(x, batch)


@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_permutation(rotary_dim, rng):
    """Values that are permuted to the other layout and rotated equal values that are rotated and then permuted."""
    x, to_half = rng.normal(size=(5, 24)), {"source": "interleaved", "target": "half", "rotary_dim": rotary_dim}
    moved = pf.permute_rotary(x, 8, **to_half, axis=-1)
    interleaved, half = (
        pf.Rotary(8, rotary_dim=rotary_dim, layout=layout).apply(values.reshape(5, 3, 8), seq_axis=0).reshape(5, 24)
        for layout, values in (("interleaved", x), ("half", moved))
    )
    np.testing.assert_allclose(pf.permute_rotary(interleaved, 8, **to_half, axis=-1), half, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(pf.permute_rotary(x.T, 8, **to_half).T, moved)
    to_interleaved = {"source": "half", "target": "interleaved", "rotary_dim": rotary_dim}
    np.testing.assert_array_equal(pf.permute_rotary(moved, 8, **to_interleaved, axis=-1), x)


# ---- the value --------------------------------------------------------------------------------------------------


VALUES = [
    pf.Rotary(8, base=5e5, rotary_dim=4, layout="interleaved"),
    pf.Rotary(8, scaling={"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 64}),
    pf.Rotary(8, sections=[1, 3]),
    pf.Rotary(8, sections=[0, 1, 0, 1]),
    pf.Rotary(8, frequencies=pf.geometric(4, base=3.0, freq_shift=0.25)),
    pf.Rotary(8, frequencies=np.array([0.1, -0.2, 0.0, 1 / 3], np.float32)),
    pf.Rotary(8, frequencies=[0.1, -0.2, 0.0, 1 / 3], attention_factor=1.5),
    pf.Rotary(8, frequencies=[0.1, -0.2, 0.0, 1 / 3], sections=[1, 0, 0, 1]),
    pf.Rotary(8, frequencies=[[0.1, 0.5], [-0.2, 0.5], [0.0, 0.0], [1.0, 1.0]]),
    pf.Rotary(8, frequencies=[pf.geometric(1), pf.geometric(3, base=7.0)]),
    pf.Rotary(8, frequencies=[pf.geometric(1), pf.geometric(3, base=7.0)], sections=[1, 0, 1, 1]),
]  # fmt: skip


@pytest.mark.parametrize("rotary", VALUES, ids=repr)
def test_value(rotary):
    again = eval(repr(rotary), vars(pf))
    copy = pickle.loads(pickle.dumps(rotary))
    assert rotary == again == copy
    assert hash(rotary) == hash(copy)
    assert sum(rotary == other for other in VALUES) == 1
    assert rotary != "Rotary(8)"
    np.testing.assert_array_equal(rotary.frequencies, copy.frequencies)
    with pytest.raises(AttributeError, match="frozen"):
        rotary.base = 3
    with pytest.raises(AttributeError, match="frozen"):
        del rotary._settings


# ---- bad input --------------------------------------------------------------------------------------------------

ROTARY, X, COS, ONES = pf.Rotary(8), np.ones((2, 3, 8), np.float32), np.ones((3, 4)), np.ones(4)
LINEAR = {"rope_type": "linear", "factor": 2.0}
LONGROPE = {"rope_type": "longrope", "long_factor": [1.0, 1.0], "original_max_position_embeddings": 9}


@wrong_calls("""
    pf.Rotary(8, rotary_dim=3) | ValueError | rotary_dim=3; odd
    pf.Rotary(8, rotary_dim=10) | ValueError | rotary_dim=10; head_dim=8
    pf.Rotary(0) | ValueError | head_dim
    pf.Rotary(8.5) | TypeError | head_dim; 8.5
    pf.Rotary(8, base=-1.0) | ValueError | base; -1.0
    pf.Rotary(8, scaling={"rope_type": "su"}) | ValueError | 'su'; longrope; yarn
    pf.Rotary(8, scaling="yarn") | TypeError | scaling; 'yarn'
    pf.Rotary(8, scaling={"rope_type": "linear"}) | ValueError | 'factor'; 'linear'
    pf.Rotary(8, scaling={"rope_type": "linear", "factor": 0}) | ValueError | 'factor'; positive
    pf.Rotary(8, scaling={"rope_type": "linear", "factor": "2"}) | TypeError | 'factor'; '2'
    pf.Rotary(8, scaling={**LONGROPE, "short_factor": [1.0]}) | ValueError | 'short_factor'; 4 pairs; (1,)
    pf.Rotary(4, scaling={**LONGROPE, "short_factor": [1.0, -1.0]}) | ValueError | 'short_factor'; only positive numbers, not -1.0
    pf.Rotary(8, sections=[1, 2]) | ValueError | sections=(1, 2); 4 pairs
    pf.Rotary(8, sections=[0, 2, 0, 2]) | ValueError | sections=(0, 2, 0, 2)
    pf.Rotary(8, sections=4) | TypeError | sections; 4
    pf.Rotary(8, scaling={"rope_type": "axial"}) | ValueError | axial; sections
    pf.Rotary(8, scaling={"rope_type": "xpos"}, sections=[2, 2]) | ValueError | xpos; sections
    pf.Rotary(8, frequencies=[1.0, 2.0]) | ValueError | frequencies has 2 values; rotary_dim=8 has 4 pairs
    pf.Rotary(8, frequencies=np.ones((4, 2)), sections=[2, 2]) | ValueError | 4 and 4; 2 and 2
    pf.Rotary(8, frequencies=[pf.geometric(1), pf.geometric(2)]) | ValueError | has 1 and 2 values; 4 pairs
    pf.Rotary(8, frequencies=[pf.geometric(2), pf.geometric(2)], sections=[1, 3]) | ValueError | 2 and 2; 1 and 3 on
    pf.Rotary(8, frequencies=np.ones((2, 2, 2))) | ValueError | (2, 2, 2); (4, axes)
    pf.Rotary(8, frequencies=[1.0, np.inf, 1.0, 1.0]) | ValueError | frequencies must be finite
    pf.Rotary(8, frequencies="slow") | TypeError | frequencies must be real numbers
    pf.Rotary(8, frequencies=ONES, base=5.0) | ValueError | pass frequencies, or base=5.0
    pf.Rotary(8, frequencies=ONES, scaling=LINEAR) | ValueError | pass frequencies; 'linear'
    pf.Rotary(8, sections=[1.5, 2.5]) | TypeError | each number in sections must be an integer, not 1.5
    pf.Rotary(8, attention_factor=2.0) | ValueError | attention_factor=2.0 needs frequencies
    pf.Rotary(8, frequencies=ONES, attention_factor=-1) | ValueError | attention_factor; -1
    ROTARY.apply([[1.0]]) | TypeError | x; list
    ROTARY.apply(X[..., :6]) | ValueError | (2, 3, 6); head_dim
    ROTARY.apply(X.astype(int)) | TypeError | x; int64
    ROTARY.apply(X[0, 0]) | ValueError | (8,)
    ROTARY.apply(X, seq_axis=-1) | ValueError | seq_axis=-1
    ROTARY.apply(X, seq_axis=-4) | ValueError | seq_axis
    ROTARY.apply(X, positions=[1, 2]) | ValueError | positions; (2,); (3,)
    ROTARY.apply(X, positions=np.zeros((3, 3))) | ValueError | positions; (3, 3); (2, 3)
    ROTARY.apply(X, positions=["a", "b", "c"]) | TypeError | positions
    ROTARY.apply(X, positions=[1, 2, 3], start=4) | ValueError | start=4
    ROTARY.apply(X, start=np.nan) | ValueError | start; nan
    ROTARY.apply(X, start=2**64) | ValueError | 18446744073709551616
    ROTARY.apply(X, workers=0) | ValueError | workers must not be 0
    ROTARY.apply(X, workers="2") | TypeError | workers; '2'
    ROTARY.apply(X, start="5") | TypeError | start; '5'
    ROTARY.apply(X, seq_axis=1.0) | TypeError | seq_axis; 1.0
    ROTARY.apply(X, precision="double") | ValueError | precision; 'double'
    ROTARY.apply(X, out=np.zeros((3, 2, 8), np.float32)) | ValueError | out; (3, 2, 8)
    ROTARY.apply(X, out=np.zeros((2, 3, 8))) | ValueError | out; float64
    ROTARY.apply(X, out=X[::-1]) | ValueError | overlap
    ROTARY.apply_tables(X, np.ones((3, 3)), COS) | ValueError | cos; (3, 3); (3, 4)
    ROTARY.apply_tables(X, COS, np.ones((2, 4))) | ValueError | sin; (2, 4)
    ROTARY.apply_tables(X, COS.astype(int), COS) | TypeError | cos; int64
    ROTARY.tables(3, out=COS) | TypeError | out; ndarray
    ROTARY.tables(3, out=(np.zeros((3, 4)), np.zeros((3, 4))), dtype="f4") | ValueError | out; float64
    ROTARY.tables(3, out=(X[0, :, :4], X[0, :, 3:7])) | ValueError | share
    ROTARY.tables(3, dtype=int) | TypeError | dtype
    ROTARY.tables([1, 2], start=1) | ValueError | start=1
    pf.permute_rotary(np.ones((9, 2)), 8, source="half", target="interleaved") | ValueError | (9, 2); head_dim=8
    pf.permute_rotary(np.ones((8, 2)), 8, source="half", target="interleaved", axis=2) | ValueError | axis 2
    pf.permute_rotary(np.ones((8, 2)), 8, source="half", target="interleaved", rotary_dim=3) | ValueError | rotary_dim=3
    pf.Rotary(64, theta=1e6) | TypeError | did you mean 'base'
    ROTARY.apply(X, start=[5, 9]) | TypeError | start must be one number, not [5, 9]; numpy.add.outer(start, range(3))
    pf.Rotary(4, scaling={"rope_type": "ntk", "alpha": 1e-320}) | ValueError | rope_type 'ntk'; not finite; {'alpha': 1e-320}
""")
def test_bad_arguments(call, error, words):
    before = X.copy()
    raises(call, error, words)
    np.testing.assert_array_equal(X, before)


def test_a_base_that_vanishes():
    """A Rotary whose scaled base underflows is valid if its frequencies are finite."""
    assert pf.Rotary(4, scaling={"rope_type": "ntk", "alpha": 1e-300}).frequencies.tolist() == [1.0, 1e298]


@pytest.mark.parametrize("which", ["cos", "sin", "both"])
@pytest.mark.usefixtures("backend")
def test_tables_in_the_memory_of_out(which):
    """`apply_tables` reads tables that lie in the memory of `out` before it writes to `out`."""
    rotary, length = pf.Rotary(64), 4000
    cos, sin = rotary.tables(length, dtype="f8")
    x = np.ones((1, 1, length, 64))
    expected = rotary.apply_tables(x, cos, sin)
    memory = np.zeros(length * 64)
    parts = memory[: length * 32].reshape(length, 32), memory[length * 32 :].reshape(length, 32)
    parts[0][...], parts[1][...] = cos, sin
    given = parts[0] if which != "sin" else cos, parts[1] if which != "cos" else sin
    np.testing.assert_array_equal(rotary.apply_tables(x, *given, out=memory.reshape(x.shape)), expected)
