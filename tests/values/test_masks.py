"""Test positions from masks, relative positions, and orders of columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls

ORDERS = ["interleaved", "concatenated", "interleaved-cos-first", "concatenated-cos-first"]


def table(order, d, odd="crop"):
    layout, functions = order.removesuffix("-cos-first"), ("cos", "sin") if "cos" in order else ("sin", "cos")
    return pf.sinusoidal(d, layout=layout, functions=functions, odd=odd).table(5, start=1, dtype=np.float64)


def test_mask_positions():
    mask = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 0, 1]])
    np.testing.assert_array_equal(pf.mask_positions(mask), [[2, 3, 4, 1, 1], [1, 2, 3, 1, 4]], strict=True)
    np.testing.assert_array_equal(pf.mask_positions(mask[0].astype(bool), padding_idx=0), [1, 2, 3, 0, 0])
    assert pf.mask_positions(np.zeros((2, 0), bool)).shape == (2, 0)
    # positions of 300 tokens exceed uint8, the dtype of the mask
    assert pf.mask_positions(np.ones(300, np.uint8)).max() == 301


def test_mask_positions_from_a_start():
    """With start, positions of unmasked tokens count from start, and masked tokens have position start.

    The four rows have left padding, right padding, no padding, and only padding.
    """
    mask = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    expected = np.array([[0, 0, 0, 1], [0, 1, 0, 0], [0, 1, 2, 3], [0, 0, 0, 0]])
    np.testing.assert_array_equal(pf.mask_positions(mask, start=0), expected, strict=True)
    np.testing.assert_array_equal(pf.mask_positions(mask, start=7), expected + 7)
    assert pf.mask_positions(np.zeros((2, 0), bool), start=0).shape == (2, 0)


def test_mask_coordinates_cell_by_cell(rng):
    mask = rng.random((3, 5, 7)) < 0.7
    mask[2] = False
    got = pf.mask_coordinates(mask, offset=-0.5, scale=3.0, eps=1e-3)
    plain = pf.mask_coordinates(mask, normalize=False, offset=0.25)
    assert got.shape == plain.shape == (3, 5, 7, 2)
    assert got.dtype == np.float64
    for b, y, x in np.ndindex(mask.shape):
        above, left = mask[b, : y + 1, x].sum(), mask[b, y, : x + 1].sum()
        np.testing.assert_array_equal(plain[b, y, x], [above + 0.25, left + 0.25])
        expected = [(above - 0.5) / (mask[b, :, x].sum() + 1e-3) * 3, (left - 0.5) / (mask[b, y].sum() + 1e-3) * 3]
        np.testing.assert_allclose(got[b, y, x], expected, rtol=1e-15)


def test_relative_positions():
    np.testing.assert_array_equal(pf.relative_positions(4), [3, 2, 1, 0, -1, -2, -3], strict=True)
    assert pf.relative_positions(1).tolist() == [0]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ORDERS, repeat=2)))
@pytest.mark.parametrize("d", [1, 2, 7, 8])
@pytest.mark.parametrize("odd", ["crop", "zero"])
def test_reorder_columns(source, target, d, odd):
    array = table(source, d, odd)
    before = array.copy()
    if d % 2 and odd == "crop" and ("cos" in source) != ("cos" in target):
        with pytest.raises(ValueError, match=f"array has {d} columns along axis -1, an odd number. .* has one"):
            pf.reorder_columns(array, source, target)
        return
    got = pf.reorder_columns(array, source, target, odd=odd)
    np.testing.assert_array_equal(got, table(target, d, odd), strict=True)
    np.testing.assert_array_equal(pf.reorder_columns(got, target, source, odd=odd), array, strict=True)
    np.testing.assert_array_equal(pf.reorder_columns(array.T, source, target, axis=0, odd=odd).T, got)
    assert not np.shares_memory(got, array)
    np.testing.assert_array_equal(array, before)


def reorder(source, target, shape=2, **options):
    return pf.reorder_columns(np.ones(shape), source, target, **options)


@wrong_calls("""
    pf.mask_positions([0.5, 1.0]) | TypeError | mask must have dtype bool, or contain the integers 0 and 1
    pf.mask_positions([1, 2]) | ValueError | integers in mask must be 0 or 1
    pf.mask_positions(True) | ValueError | mask has shape (), but must have at least 1
    pf.mask_positions([1], padding_idx=-1) | ValueError | padding_idx must be at least 0, not -1
    pf.mask_positions([1], start="0") | TypeError | start must be an integer, not '0'
    pf.mask_positions([1], start=0, padding_idx=1) | ValueError | start=0 and padding_idx=1 exclude each other; pass
    pf.mask_coordinates([1, 1]) | ValueError | mask has shape (2,), but must have at least 2
    pf.mask_coordinates([[1]], eps=0) | ValueError | eps must be a finite positive number, not 0
    pf.mask_coordinates([[1]], scale="2") | TypeError | scale must be a real number; not '2'
    pf.relative_positions(0) | ValueError | length must be at least 1, not 0
    pf.reorder_columns([1.0], "interleaved", "concatenated") | TypeError | array must be a numpy array
    reorder("half", "concatenated") | ValueError | source must be one of; 'half'
    reorder("interleaved", "concatenated", axis=1) | ValueError | axis=1 is out of range for an array of 1 dim
    reorder("interleaved", "concatenated", 3, odd="drop") | ValueError | odd must be one of 'crop', 'zero', not 'drop'
    reorder("interleaved", "interleaved-cos-first", 7) | ValueError | 7 columns along axis -1, an odd number. ; has one
""")
def test_wrong_arguments(call, error, words):
    raises(call, error, words)
