"""Test the definition in `posenc_fast/reference.py`: its values are right, and all engines round them correctly."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import reference

SIN_1 = Decimal("0.84147098480789650665250232163029899962256306079837106567275170999191040439")
COS_1 = Decimal("0.54030230586813971740093660744297660373231042061792222767009725538110039477")
SCHEDULE = reference.exact_frequencies(6)


@pytest.fixture(autouse=True)
def many_digits():
    with localcontext(reference.CONTEXT):
        yield


def test_digits():
    assert SCHEDULE[0] == 1
    assert abs(SCHEDULE[1] - Decimal("0.04641588833612778892410076350919446576551")) < Decimal("1e-40")
    row = reference.exact_row(1, [1, 1, 1, 1], [0, 0.25, 0.5, 0.75], [1, 1, 1, 2])
    for value, expected in zip(row, [SIN_1, COS_1, -SIN_1, -2 * COS_1], strict=True):
        assert abs(value - expected) < Decimal("1e-58")
    assert reference.exact_row(0, [1, 1, 1], [0, 0.25, 0.5], [1, 1, 1]) == [0, 1, 0]
    # axes are summed
    assert reference.exact_row((2, 3), [(5, 7)], [0.125], [4]) == reference.exact_row(31, [1], [0.125], [4])


def test_a_denominator_of_zero_needs_a_single_pair():
    assert reference.exact_frequencies(2, freq_shift=1) == reference.exact_frequencies(1, freq_shift=0.5) == [1]
    with pytest.raises(ValueError, match="freq_shift=2 makes the denominator zero for d_model=4"):
        reference.exact_frequencies(4, freq_shift=2)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("point", [(3, -0.3), (0, 0), (-7, 0.1), (2**40 + 1, 2)])
def test_rows(point, name, backend):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name).type
    encoding = pf.Encoding([[0.5, 3.0], [1e-3, 7.0], [2.0, 0.0]], [0.1, 0.625, 0.25], [1.0, -2.0, 0.5])
    frequencies = map(tuple, encoding.frequencies.tolist())
    exact = reference.exact_row(point, frequencies, encoding.phases.tolist(), encoding.amplitudes.tolist())
    for value, true in zip(encoding.encode(point, dtype=dtype), exact, strict=True):
        # errors are at most half an ulp + 2^-50, or for float64 one ulp + 2^-50
        ulp = Decimal(float(np.spacing(np.abs(dtype(float(true))))))
        allowed = ulp * (1 if name == "float64" else Decimal("0.5"))
        assert abs(Decimal(float(value)) - true) <= allowed + Decimal(2) ** -50


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotation(layout, backend):
    x = np.random.default_rng(5).standard_normal(8)
    rotary = pf.Rotary(8, rotary_dim=6, layout=layout)
    exact = reference.exact_rotation(x.tolist(), 100, SCHEDULE, layout)
    got = rotary.apply(x[np.newaxis], start=100)[0]
    for value, true in zip(got.tolist(), exact, strict=True):
        assert abs(Decimal(value) - true) <= Decimal(2) ** -51 * Decimal(float(np.abs(x).max()))
    # values behind rotary_dim are unchanged
    assert exact[6:] == [Decimal(value) for value in x[6:].tolist()]
