"""Test that an Encoding reproduces each recorded output of published implementations; see golden/README.md."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf

GOLDEN = Path(__file__).parents[1] / "golden"
ENTRIES = json.loads((GOLDEN / "golden.json").read_text(encoding="utf-8"))["parametrised"]
PHASE_AND_SIGN = {"sin": (0.0, 1.0), "cos": (0.25, 1.0), "-sin": (0.0, -1.0), "-cos": (0.25, -1.0)}
KNOWN = {"order", "funcs", "axes", "width", "fit", "scale", "zero_rows", "include_input", "mix", "unpaired"}


@pytest.fixture(scope="module")
def arrays():
    with np.load(GOLDEN / "golden.npz") as file:
        return dict(file)


def frequency_rows(freqs, arrays, functions, axes, order):
    """Yield (number of the function, frequency for each axis) of each column, in the order of the output."""
    if "matrix" in freqs:
        matrix = arrays[freqs["matrix"]].astype(np.float64)
        schedules, places = [list(matrix.T)] * functions, [0]
    else:
        parts = freqs["per_function"] if "per_function" in freqs else [freqs] * functions
        schedules = [arrays[part["array"]].astype(np.float64) for part in parts]
        places = axes
    ranges = {"a": places, "f": range(max(map(len, schedules))), "s": range(functions)}
    for choice in itertools.product(*(ranges[letter] for letter in order)):
        at = dict(zip(order, choice, strict=True))
        if at["f"] < len(schedules[at["s"]]):
            value = schedules[at["s"]][at["f"]]
            yield at["s"], value if "matrix" in freqs else value * (np.arange(len(axes)) == at["a"])


def encoding_of(entry, arrays, ndim):
    """Return the Encoding that must reproduce an entry of golden.json."""
    args = entry["args"]
    names = args.get("funcs", ["sin", "cos"])
    axes = args.get("axes", list(range(ndim)))
    columns = list(frequency_rows(entry["freqs"], arrays, len(names), axes, args["order"]))[: args.get("width")]
    missing = args.get("width", len(columns)) - len(columns)
    assert not missing or args["fit"] == "zero"
    frequencies = np.concatenate([[row for _, row in columns], np.zeros((missing, ndim))])
    phases, signs = np.array([PHASE_AND_SIGN[names[function]] for function, _ in columns]).T
    return pf.Encoding(
        frequencies[:, 0] if ndim == 1 else frequencies,
        np.append(phases, np.zeros(missing)),
        np.append(args.get("scale", 1.0) * signs, np.zeros(missing)),
    )


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry['key']} {entry['name']}" for entry in ENTRIES])
def test_published_output(entry, arrays):
    args = entry["args"]
    assert set(args) <= KNOWN
    expected, positions = arrays[entry["key"]], arrays[entry["key"] + "X"].astype(np.float64)
    ndim = 1 if positions.ndim == 1 else positions.shape[1]
    encoding = encoding_of(entry, arrays, ndim)
    got = encoding.encode(positions if ndim > 1 else positions.reshape(-1), dtype=entry["dtype"])
    got[args.get("zero_rows", [])] = 0
    if args.get("include_input") == "last":
        got = np.concatenate([got, positions.reshape(len(positions), ndim)], axis=1)
    angle = np.abs(positions.reshape(-1, ndim) @ encoding.frequencies.reshape(-1, ndim).T).max()
    tolerance = 2e-6 + 2.4e-7 * angle if entry["dtype"] == "float32" else 1e-12 * max(1.0, angle)
    assert got.size == expected.size
    np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=0, atol=tolerance)


def test_every_output_is_covered(arrays):
    assert len({entry["key"] for entry in ENTRIES}) == 155
    assert all(arrays[entry["key"]].dtype.name == entry["dtype"] for entry in ENTRIES)
