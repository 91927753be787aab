"""Measure rotations of queries and keys, most of them compared with NumPy or other packages."""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import peers
import timing
from timing import Array, Ratio

import posenc_fast as pf
from posenc_fast.typing import RotaryLayout

from . import Measured, Skipped, compare

QUERIES = (1, 32, 2048, 128)


def rotary_sides(shape: tuple[int, ...]) -> tuple[Array, Array, Callable[[], Any]]:
    """Return random queries, the rotated queries, and a call that rotates a copy of the queries in place."""
    rotary, rng = pf.Rotary(shape[-1]), np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32)
    warm = x.copy()
    turned = rotary.apply(x)
    half = shape[-1] // 2
    angles = np.outer(np.arange(shape[-2]), rotary.frequencies)
    first, second = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    exact = first * np.cos(angles) - second * np.sin(angles)
    assert np.abs(turned[..., :half] - exact).max() < 2.0**-24 * np.abs(x).max() * 2
    return x, turned, partial(rotary.apply, warm, out=warm)


def rotary_and_numpy(
    heads: int, layout: RotaryLayout, dtype: str, tokens_first: bool, elsewhere: bool, runs: int
) -> Measured:
    """Compare `apply`, at new positions in each call, with a pass of NumPy over the same number of float32 values.

    Both sides write in place, or into other memory if elsewhere is true. Times are CPU time of the thread.
    """
    shape = (1, QUERIES[2], heads, QUERIES[3]) if tokens_first else (1, heads, *QUERIES[2:])
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    plain, factor = x.copy(), np.float32(-1)
    rotary, start, queries = pf.Rotary(QUERIES[3], layout=layout), itertools.count(), x.astype(dtype)
    out, copy = (np.ones_like(queries), np.ones_like(plain)) if elsewhere else (queries, plain)
    sides = {
        "apply": lambda: rotary.apply(queries, start=next(start), seq_axis=1 if tokens_first else -2, out=out),
        "np.copyto" if elsewhere else "np.multiply": (
            (lambda: np.copyto(copy, plain)) if elsewhere else (lambda: np.multiply(plain, factor, out=plain))
        ),
    }
    return compare(timing.alternate(sides, runs, time.thread_time), *sides, x.size)


def rotary_and_peer(name: str, runs: int) -> Measured:
    peer = next(peer for peer in peers.PEERS if peer.name == name)
    if missing := peers.missing(peer):
        raise Skipped(f"not installed: {', '.join(missing)}")
    x, rotated, apply = rotary_sides(QUERIES)
    assert peer.rotary is not None
    rotation = peer.rotary(x, *pf.Rotary(QUERIES[-1]).tables(QUERIES[-2]))
    assert np.abs(rotation.result - rotated).max() < 1e-5
    sides = {name: rotation.call, "apply in place": lambda: [apply() for _ in range(rotation.arrays)]}
    return compare(timing.alternate(sides, runs, time.thread_time), *sides, rotation.arrays * x.size)


def rotary_cell(dtype: str, tokens: int, ours: str, runs: int) -> Measured:
    """Compare the rotation of queries and keys by `posenc_fast.torch` and by transformers, on one thread.

    There are 32 heads of queries and 8 heads of keys. Both sides return new tensors. Tables are computed before the
    timed calls. ours: "module" for `RotaryEncoding`, "function" for `apply_rotary_pos_emb`.
    """
    for package in ("torch", "transformers", *(["ml_dtypes"] if dtype == "bfloat16" else [])):
        if not peers.found(package):
            raise Skipped(f"{package} is not installed")
    torch, rotary = peers.one_thread(), pf.Rotary(128)
    theirs = peers.llama().apply_rotary_pos_emb
    package = importlib.import_module("posenc_fast.torch")
    number_type, source = getattr(torch, dtype), torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, heads, tokens, 128, generator=source).to(number_type) for heads in (32, 8))
    exact = [torch.from_numpy(table).repeat(1, 2)[None] for table in rotary.tables(tokens, start=1000)]
    cos, sin = (table.to(number_type) for table in exact)
    module = package.RotaryEncoding(rotary)
    calls = {
        "module": lambda: module(q, k, start=1000),
        "function": lambda: package.apply_rotary_pos_emb(q, k, cos, sin),
    }
    sides = {ours: calls[ours], "Hugging Face": lambda: theirs(q, k, cos, sin)}
    with torch.no_grad():
        tables = exact if ours == "module" else (cos, sin)
        expected = theirs(q.double(), k.double(), *(table.double() for table in tables))
        for got, true in zip(sides[ours](), expected, strict=True):
            assert (got.double() - true).abs().max() < torch.finfo(number_type).eps * true.abs().max()
        return compare(timing.alternate(sides, runs), ours, "Hugging Face", 1)


def rotary_token(runs: int) -> Measured:
    """Measure the rotation of one token at a new position. `Measured.ratio` contains microseconds."""
    rotary, x = pf.Rotary(128), np.ones((1, 32, 1, 128), np.float32)
    position = iter(range(10**9))
    sides = {
        "a new position": lambda: rotary.apply(x, start=next(position), out=x),
        "the same position": lambda: rotary.apply(x, start=1000, out=x),
    }
    times = {name: timing.alternate({name: side}, 10 * runs)[name] for name, side in sides.items()}
    micro = np.percentile(times["a new position"] * 1e6, [50, 25, 75])
    return Measured(Ratio(*micro.tolist()), {name: float(np.median(t)) * 1e9 for name, t in times.items()}, 1)
