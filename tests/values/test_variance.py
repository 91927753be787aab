"""Test integrated encodings, `encode(positions, variance=...)`, against mpmath and other programs."""

from __future__ import annotations

import importlib.util

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets
from support.engines import ENGINES
from support.errors import raises, wrong_calls
from support.exact import half_ulp, number, some_columns
from support.optional import optional

DTYPES = ["float64", "float32", "float16", *(["bfloat16"] if importlib.util.find_spec("ml_dtypes") else [])]
DENSE = np.random.default_rng(3).normal(size=(7, 3)) * [3.0, 0.1, 40.0]
ENCODINGS = {
    "bands": presets.mip_nerf(-2, 7),
    "dense": pf.fourier_features(DENSE),
    "random phases": presets.rbf_sampler(DENSE.T, np.linspace(0, 6, 7)),
    "constant columns": pf.join([pf.fourier_features([0.0, 1.0]), pf.fourier_features([2.5])] * 2, axes=[0, 1, 2, 0]),
}


def numbers(values):
    """Return an array of exact mpmath numbers."""
    return np.vectorize(lambda value: number(float(value)), otypes=[object])(values)


def exactly(encoding, position, variance, columns):
    """Return (value, angle) of some columns of a row, as mpmath numbers."""
    frequencies = numbers(encoding.frequencies.reshape(encoding.d_model, -1)[columns])
    covariance = numbers(variance if np.ndim(variance) == 2 else np.diag(np.broadcast_to(variance, encoding.ndim)))
    phases, amplitudes = numbers(encoding.phases[columns]), numbers(encoding.amplitudes[columns])
    with mpmath.workprec(400):
        angles, spreads = (
            frequencies @ numbers(np.atleast_1d(position)),
            (frequencies @ covariance * frequencies).sum(1),
        )
        return [
            (amplitude * mpmath.sin(angle + 2 * mpmath.pi * phase) * mpmath.exp(-spread / 2), abs(angle))
            for amplitude, angle, phase, spread in zip(amplitudes, angles, phases, spreads, strict=True)
        ]


def assert_within_bounds(encoding, positions, variances, columns):
    """Assert that errors of some columns are within the bounds in the docstring of `encode`, for each dtype."""
    rows = [exactly(encoding, p, variance, columns) for p, variance in zip(positions, variances, strict=True)]
    for name in DTYPES:
        got = encoding.encode(positions, variance=variances, dtype=name)[:, columns]
        for row, values, position, variance in zip(got, rows, positions, variances, strict=True):
            for value, (exact, angle) in zip(row, values, strict=True):
                bound = abs(exact) * mpmath.mpf(2) ** -50 + mpmath.mpf(2) ** -59 * min(1, angle)
                # subnormal float64 values have fewer bits
                rounding = mpmath.mpf(2) ** -1073 if name == "float64" else half_ulp(exact, name)
                error = abs(number(float(value)) - exact)
                assert error <= bound + rounding, (name, position, variance, value, exact)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", ENCODINGS)
def test_bounds(name, rng):
    encoding = ENCODINGS[name]
    columns = some_columns(rng, encoding.d_model)
    positions = rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-6, 5, size=(4, 1))
    sizes = 10.0 ** rng.uniform(-8, 1, size=(4, 1))
    assert_within_bounds(encoding, positions, np.full((4, 3), sizes[0]), columns)
    assert_within_bounds(encoding, positions, sizes * rng.uniform(size=(4, 3)), columns)
    root = rng.normal(size=(4, 3, 3)) * np.sqrt(sizes)[..., None]
    assert_within_bounds(encoding, positions, np.einsum("nab,ncb->nac", root, root), columns)


@pytest.mark.usefixtures("backend")
def test_bounds_over_one_axis(rng):
    encoding = pf.sinusoidal(24)
    exact = pf.Encoding(encoding.frequencies, encoding.phases)
    positions, variances = rng.uniform(-1e4, 1e4, size=8), 10.0 ** rng.uniform(-3, 8, size=8)
    assert_within_bounds(exact, positions, variances, some_columns(rng, 24))
    # the encoding of a schedule, whose frequencies are exact, differs little from the one with float64 frequencies
    got, expected = (e.encode(positions, variance=variances, dtype=np.float64) for e in (encoding, exact))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11)


@pytest.mark.usefixtures("backend")
def test_a_mean_over_a_normal_distribution():
    """With a variance, a row is the mean of rows over normally distributed positions (by Gauss-Hermite quadrature)."""
    encoding, mean, variance = pf.fourier_features([0.3, 1.0, 2.0]), 1.7, 0.5
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    columns = encoding.encode(mean + np.sqrt(variance) * points, dtype=np.float64)
    made = encoding.encode(mean, variance=variance, dtype=np.float64)
    np.testing.assert_allclose(made, weights @ columns / weights.sum(), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("encoding", "frequencies", "by_axis", "factor"), [
    (presets.mip_nerf(0, 16), 2.0 ** np.arange(16), False, 1.0),
    # Nerfstudio multiplies positions by 2 pi but not standard deviations, so divide variances by (2 pi)^2
    (presets.nerfstudio(3, 5, 0.0, 4.0), 2.0 ** np.linspace(0, 4, 5), True, 2 * np.pi),
], ids=["mip-nerf", "nerfstudio"])  # fmt: skip
def test_formulas_of_programs(encoding, frequencies, by_axis, factor, rng):
    """Rows equal sin(f x) exp(-f^2 variance / 2), and then the same with a cosine, as other programs compute them.

    Columns are ordered by axis and frequency, or by frequency and axis.
    """

    def columns(values):
        return (values if by_axis else values.swapaxes(1, 2)).reshape(9, -1)

    x, v = rng.uniform(0, 2, size=(9, 3)), rng.uniform(0, 0.02, size=(9, 3))
    angles = columns(factor * x[..., None] * frequencies)
    weights = np.exp(-0.5 * np.tile(columns(v[..., None] * frequencies**2), 2))
    expected = weights * np.sin(np.concatenate([angles, angles + np.pi / 2], axis=-1))
    got = encoding.encode(x, variance=v / factor**2, dtype=np.float64)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11 if frequencies[-1] > 100 else 1e-13)


class TestCalls:
    encoding = ENCODINGS["dense"]

    def test_shapes_of_equal_variances(self, rng):
        x = rng.normal(size=(5, 4, 3))
        for one in (0.01, 0.0):
            expected = self.encoding.encode(x, variance=one, dtype=np.float64)
            matrices = np.broadcast_to(one * np.eye(3), (5, 4, 3, 3))
            for variance in (np.full((5, 4, 3), one), np.full((1, 1, 3), one), matrices):
                got = self.encoding.encode(x, variance=variance, dtype=np.float64)
                np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(expected, self.encoding.encode(x, dtype=np.float64))
        assert self.encoding.encode(x[:0], variance=x[:0]).shape == (0, 4, 14)

    def test_rows_do_not_depend_on_others(self, rng):
        """The bits of a row do not depend on other rows, on memory layouts or on threads."""
        x, v = rng.normal(size=(20000, 3)), rng.uniform(size=(20000, 3))
        encoding = presets.mip_nerf(0, 12)
        whole = encoding.encode(x, variance=v, workers=2)
        np.testing.assert_array_equal(whole[7000:7003], encoding.encode(x[7000:7003], variance=v[7000:7003]))
        out = np.empty((20000, 80), np.float32)[:, 3 : 3 + encoding.d_model]
        assert encoding.encode(np.asfortranarray(x), variance=v, out=out) is out
        np.testing.assert_array_equal(out, whole)

    @pytest.mark.parametrize("name", DTYPES)
    def test_same_bits_everywhere(self, name, rng):
        x, v, results = rng.normal(size=(50, 3)), rng.uniform(size=(50, 3)), set()
        for engine in ENGINES:
            with pf.use_backend(*engine):
                results.add(self.encoding.encode(x, variance=v, dtype=name).tobytes())
        assert len(results) == 1

    def test_variance_in_the_memory_of_out(self):
        encoding = pf.fourier_features([1.0], functions=("sin",))
        memory = np.array([[0.5], [0.25]])
        expected = encoding.encode([1.0, 2.0], variance=[0.5, 0.25], dtype=np.float64)
        encoding.encode([1.0, 2.0], variance=memory[:, 0], out=memory)
        np.testing.assert_array_equal(memory, expected)

    def test_missing_positions(self):
        got = pf.sinusoidal(4).encode([0.0, np.nan, None], variance=[1.0, 1.0, 2.0])
        assert np.isnan(got[1:]).all()
        assert not np.isnan(got[0]).any()

    def test_times(self):
        """Variances of times are in seconds squared, for each unit and for exact periods."""
        clock = pf.fourier_features(pf.periodic(["1D", "7D"]))
        hour = 3600.0
        times = np.array(["2026-01-01T00:00", "2026-01-02T06:00"], "M8[m]")
        rows = clock.encode(times, variance=hour**2, dtype=np.float64)
        factor = np.exp(-((2 * np.pi / (24 * np.array([1, 7]))) ** 2) / 2)
        np.testing.assert_allclose(rows[1, 0], factor[0], rtol=1e-14)
        assert rows[0, 0] == 0
        np.testing.assert_allclose(rows[0, 2:], factor * [1, clock.encode(0 * 86400 + 20454 * 86400)[3]], rtol=1e-6)

    @wrong_calls(
        """
        encode(-1.0) | ValueError | variance must be from 0 to 2**300, not -1.0
        encode([[1.0, 1.0, -2.0]] * 5) | ValueError | variance must be from 0; not -2.0
        encode(np.full((5, 3, 3), -np.eye(3))) | ValueError | variance must be from 0
        encode(np.nan) | ValueError | variance must be finite
        encode("wide") | TypeError | variance must be real numbers
        encode(np.ma.array(np.ones((5, 3)), mask=[[1, 0, 0]] * 5)) | ValueError | variance has masked values
        encode(np.ones(5)) | ValueError | variance has shape (5,); one number, or have shape (5, 3), or (5, 3, 3)
        encode(np.ones((4, 3))) | ValueError | variance has shape (4, 3)
        encode(np.full((5, 3, 3), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])) | ValueError | covariance matrices; [[0.0, 1.0
        encode(1.0, pf.fourier_features([[1e200, 0, 0]])) | ValueError | variance needs frequencies of at most 2**300
        """,
        "encode",
    )
    def test_wrong_variances(self, call, error, words):
        out = np.full((5, 14), 7.0, np.float32)

        def encode(variance, encoding=self.encoding):
            encoding.encode(np.ones((5, 3)), variance=variance, out=out[:, : encoding.d_model])

        raises(lambda: call(encode), error, words)
        assert (out == 7).all()

    def test_largest_frequency(self):
        # at the limit, the squared frequency is finite, and the weight underflows to 0
        assert pf.Encoding([2.0**300]).encode(1.0, variance=2.0**300) == 0

    @pytest.mark.parametrize(("amplitude", "variance"), [
        (2.0**60, 1488.0), (2.0**100, 1500.0), (2.0**960, 2800.0), (1.0, 1480.0), (2.0**-1000, 80.0),
    ])  # fmt: skip
    def test_weights_below_float64(self, amplitude, variance, backend):
        """The product of amplitude and weight is accurate, also if the weight alone is below the range of float64."""
        row = pf.Encoding([1.0], amplitudes=amplitude).encode(1.0, variance=variance, dtype=np.float64)
        with mpmath.workprec(400):
            exact = amplitude * mpmath.sin(1) * mpmath.exp(-mpmath.mpf(variance) / 2)
            assert abs(mpmath.mpf(float(row[0])) - exact) <= 2**-50 * exact + mpmath.mpf(2) ** -1074

    def test_rounding_errors_of_singular_covariances(self):
        """Covariances that contradict their variances only by rounding errors are no error."""
        difference, roots = pf.Encoding([[1.0, -1.0]]), np.random.default_rng(3).normal(size=(500, 2, 1))
        rows = difference.encode(np.zeros((500, 2)) + [1.5, 0], variance=roots @ roots.swapaxes(1, 2), dtype=np.float64)
        assert (np.abs(rows) <= np.sin(1.5)).all()

    @pytest.mark.slow
    def test_variances_of_other_packages(self):
        torch = optional("torch")
        encoding = pf.sinusoidal(2)
        expected = encoding.encode([1.0, 2.0], variance=[1.0, 2.0])
        for dtype in (torch.float64, torch.bfloat16):
            rows = encoding.encode([1.0, 2.0], variance=torch.tensor([1.0, 2.0], dtype=dtype))
            np.testing.assert_array_equal(rows, expected)
        with pytest.raises(ValueError, match=r"variance\.detach\(\)"):
            encoding.encode([1.0], variance=torch.ones(1, requires_grad=True))
