"""The examples that people know, and equivalence to the programs that tutorials show."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.reference import vaswani_loops, vaswani_numpy

pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.parametrize(("length", "d_model"), [(1, 1), (4, 4), (100, 512), (128, 512), (50, 7), (3, 2)], ids=str)
@pytest.mark.parametrize("program", [vaswani_loops, vaswani_numpy], ids=lambda program: program.__name__)
def test_tutorial_programs(program, length, d_model):
    table = pf.positional_encoding(length, d_model, dtype=np.float64)
    assert table.shape == (length, d_model)
    np.testing.assert_allclose(table, program(length, d_model), rtol=0, atol=1e-12)
    single = pf.positional_encoding(length, d_model)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, table.astype(np.float32))


def test_vaswani_numpy_at_large_positions(rng):
    positions = rng.integers(0, 10**6, 300)
    frequencies = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    ours = pf.sinusoidal(64).encode(positions, dtype=np.float64)
    assert np.abs(ours[:, 0::2] - np.sin(positions[:, None] * frequencies)).max() < 1e-9
    assert np.abs(ours[:, 1::2] - np.cos(positions[:, None] * frequencies)).max() < 1e-9


def test_length_4_width_4_base_100():
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.84147098, 0.54030231, 0.09983342, 0.99500417],
        [0.90929743, -0.41614684, 0.19866933, 0.98006658],
        [0.14112001, -0.9899925, 0.29552021, 0.95533649],
    ]
    np.testing.assert_allclose(pf.positional_encoding(4, 4, base=100), expected, atol=6e-8)


def test_position_2_width_4():
    expected = [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)]
    np.testing.assert_allclose(pf.sinusoidal(4).encode(2, dtype=np.float64), expected, atol=1e-15)


def test_copied_example_has_an_exponent_for_each_column():
    # [0.909, 0.9998, 0.0002, 1.0] for position 2: column c has frequency 10000^(-2c/d)
    own = {"sin": 10000.0 ** (-np.array([0, 4]) / 4), "cos": 10000.0 ** (-np.array([2, 6]) / 4)}
    row = pf.sinusoidal(4, frequencies=own).encode(2)
    np.testing.assert_allclose(row, [0.909, 0.9998, 0.0002, 1.0], atol=5e-4)
    assert abs(row - pf.sinusoidal(4).encode(2)).max() > 1


def test_halves_with_endpoint_frequencies_and_nearest_positions():
    encoding = pf.sinusoidal(512, freq_shift=1, layout="concatenated")
    np.testing.assert_allclose(encoding.frequencies[[0, 255, 256, 511]], [1, 1e-4, 1, 1e-4], rtol=1e-15)
    table = encoding.table(50, dtype=np.float64)
    frequencies = 10000.0 ** (-np.arange(256) / 255)
    angles = np.arange(50)[:, None] * frequencies
    np.testing.assert_allclose(table, np.concatenate([np.sin(angles), np.cos(angles)], axis=1), atol=1e-13)
    for p in (1, 25, 48):
        dots = table @ table[p]
        squares = ((table - table[p]) ** 2).sum(axis=1)
        assert np.argsort(dots)[-3:][::-1][0] == p
        assert set(np.argsort(dots)[-3:]) == set(np.argsort(squares)[:3]) == {p - 1, p, p + 1}


def test_transition_matrix_takes_ten_positions_back():
    encoding = pf.sinusoidal(512)
    table = encoding.table(100, dtype=np.float64)
    np.testing.assert_allclose(table[10:] @ encoding.transition_matrix(-10), table[:90], atol=1e-14)


LAYOUTS = {
    "interleaved": lambda s, c: np.stack([s, c], axis=2).reshape(len(s), -1),
    "concatenated": lambda s, c: np.concatenate([s, c], axis=1),
}


@pytest.mark.parametrize("functions", [("sin", "cos"), ("cos", "sin"), ("-sin", "cos"), ("cos", "-cos")], ids="-".join)
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("freq_shift", [0, 1, 0.5], ids=str)
def test_layouts_functions_and_shifts(layout, functions, freq_shift):
    d, base = 40, 500.0
    encoding = pf.sinusoidal(
        d, base=base, freq_shift=freq_shift, first=2.5, layout=layout, functions=functions, scale=3
    )
    angles = np.arange(-3, 70)[:, None] * (2.5 * base ** (-np.arange(20) / (20 - freq_shift)))
    values = {"sin": np.sin, "cos": np.cos, "-sin": lambda a: -np.sin(a), "-cos": lambda a: -np.cos(a)}
    expected = 3 * LAYOUTS[layout](values[functions[0]](angles), values[functions[1]](angles))
    np.testing.assert_allclose(encoding.table(73, start=-3, dtype=np.float64), expected, atol=1e-12)


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("d", [1, 3, 5, 33])
def test_odd_widths(d, layout):
    p = np.arange(20)[:, None]
    crop = pf.sinusoidal(d, layout=layout).table(20, dtype=np.float64)
    frequencies = 10000.0 ** (-np.arange(-(-d // 2)) / (d / 2))
    sines, cosines = np.sin(p * frequencies), np.cos(p * frequencies[: d // 2])
    if layout == "interleaved":
        expected = np.empty((20, d))
        expected[:, 0::2], expected[:, 1::2] = sines, cosines
    else:
        expected = np.concatenate([sines, cosines], axis=1)
    np.testing.assert_allclose(crop, expected, atol=1e-13)
    zero = pf.sinusoidal(d, layout=layout, odd="zero").table(20, dtype=np.float64)
    assert (zero[:, -1] == 0).all()
    if d > 1:
        np.testing.assert_array_equal(zero[:, :-1], pf.sinusoidal(d - 1, layout=layout).table(20, dtype=np.float64))
    with pytest.raises(ValueError, match=f"d_model={d} is odd"):
        pf.sinusoidal(d, odd="error")


@pytest.mark.parametrize(("d", "odd"), [(2, "crop"), (2, "zero"), (3, "zero")])
def test_one_frequency_and_a_denominator_of_zero(d, odd):
    encoding = pf.sinusoidal(d, freq_shift=1, first=0.75, odd=odd)
    assert encoding.frequencies[:2].tolist() == [0.75, 0.75]
    assert np.isfinite(encoding.table(9)).all()


@pytest.mark.parametrize(("d", "shift"), [(4, 2), (3, 1.5)], ids=str)
def test_several_frequencies_and_a_denominator_of_zero(d, shift):
    with pytest.raises(ValueError, match="denominator of zero"):
        pf.sinusoidal(d, freq_shift=shift)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_zero_length(dtype):
    pytest.importorskip("ml_dtypes")
    table = pf.sinusoidal(6).table(0, dtype=dtype)
    assert table.shape == (0, 6)
    assert table.dtype.name == dtype
    assert pf.sinusoidal(6).encode(np.empty((3, 0)), dtype=dtype).shape == (3, 0, 6)
    assert pf.sinusoidal(6).encode([]).shape == (0, 6)


def test_general_phases_and_amplitudes(rng):
    frequencies, phases, amplitudes = rng.uniform(-2, 2, 30), rng.uniform(-2, 2, 30), rng.uniform(-5, 5, 30)
    encoding = pf.Encoding(frequencies, phases, amplitudes)
    p = np.arange(-40, 90)[:, None]
    expected = amplitudes * np.sin(p * frequencies + 2 * np.pi * phases)
    np.testing.assert_allclose(encoding.table(130, start=-40, dtype=np.float64), expected, atol=1e-12)
    np.testing.assert_allclose(encoding.encode(p[:, 0] + 0.0, dtype=np.float64), expected, atol=1e-12)


def test_several_axes(rng):
    matrix = rng.normal(size=(9, 3))
    points = rng.normal(size=(4, 5, 3)) * 100
    encoding = pf.fourier_features(2 * np.pi * matrix)
    angles = points @ (2 * np.pi * matrix).T
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    np.testing.assert_allclose(encoding.encode(points, dtype=np.float64), expected, atol=1e-9)
    x = rng.normal(size=(4, 5, 18))
    np.testing.assert_allclose(encoding.add_to(x, positions=points), x + expected, atol=1e-9)


def test_join_reads_each_axis():
    joined = pf.join([pf.sinusoidal(6), pf.sinusoidal(4, base=7.0), pf.sinusoidal(6)], axes=[1, 0, 0])
    row = joined.encode([3.5, -2.0], dtype=np.float64)
    parts = [pf.sinusoidal(6).encode(-2.0), pf.sinusoidal(4, base=7.0).encode(3.5), pf.sinusoidal(6).encode(3.5)]
    np.testing.assert_allclose(row, np.concatenate(parts), atol=6e-8)
    assert joined.ndim == 2
