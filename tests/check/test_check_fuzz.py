"""Test that `check` finds random edits of configs, frequencies and files. `fuzz/harness.py` draws more of them."""

from __future__ import annotations

import random

import pytest

from support import fuzzing_check
from support.optional import optional


@pytest.mark.parametrize("count", [15, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", fuzzing_check.EDITS)
def test_random_edits(name, count, seed):
    if name == "edited safetensors":
        optional("safetensors")
    fuzzing_check.run(name, count, seed)


def test_headers_that_are_right_are_read(tmp_path, seed):
    """`check` reads valid headers. A reader that rejects every header would pass the tests of edited headers."""
    safetensors = optional("safetensors")
    draw = random.Random(seed)
    for _ in range(40):
        entries, size = fuzzing_check.valid_header(draw)
        data = fuzzing_check.file_of(entries, size)
        safetensors.deserialize(data)
        path = tmp_path / "model.safetensors"
        path.write_bytes(data)
        assert fuzzing_check.is_read(str(path))
