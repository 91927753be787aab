"""Measure common tasks: how much faster posenc_fast is than the program people use today, and the errors of both.

    python bench/tasks.py [--write] [--only WORD] [--runs N]

Both programs alternate in one process, with one thread each. Modules and their tables are built before the timed calls,
and results are new arrays. An error is the largest absolute difference from the exact value over 300 random values.
``--write`` saves the results in bench/results and writes the table into README.md. Needs torch, transformers and
diffusers.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
import numpy as np
import peers
import tables
import timing

import posenc_fast as pf

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support import exact

SAMPLES = 300


class Task(NamedTuple):
    name: str
    # name of the program that people use today, and a call of it
    today: str
    theirs: Callable[[], Any]
    ours: Callable[[], Any]
    # (index into the result, exact value) of some values, to compute the errors of both
    true: list[tuple[tuple[int, ...], Any]]


def drawn(*sizes: int) -> Iterable[tuple[int, ...]]:
    """Return random indices into an array of these sizes.

    A tenth of them have the last index of the first axis. If positions are along this axis, errors are usually largest
    there.
    """
    rng = np.random.default_rng(0)
    places = [rng.integers(0, size, SAMPLES) for size in sizes]
    places[0][: SAMPLES // 10] = sizes[0] - 1
    return list(zip(*(place.tolist() for place in places), strict=True))


def column(position: Any, c: int, width: int, layout: str) -> Any:
    """Return the exact value of column c of ``sinusoidal(width, layout=layout)`` at a position.

    layout may also be "cosines first": concatenated, with the cosines before the sines.
    """
    half = width // 2
    pair, second = divmod(c, 2) if layout == "interleaved" else (c % half, c // half)
    return exact.sincos(position, exact.schedule(width)[pair])[second ^ (layout == "cosines first")]


# ---- sinusoids ------------------------------------------------------------------------------------------------------


def table() -> Task:
    length, width = 2048, 512
    true = [((p, c), column(p, c, width, "interleaved")) for p, c in drawn(length, width)]
    return Task(
        "a table, 2048 × 512",
        "PyTorch's tutorial",
        peers.torch_tutorial(length, width, "interleaved"),
        lambda: pf.positional_encoding(length, width),
        true,
    )


def seconds_since_1970() -> Any:
    return np.random.default_rng(1706).integers(1_600_000_000, 1_900_000_000, 1_000_000)


def timestamps_torch() -> Task:
    width, seconds = 64, seconds_since_1970()
    encoding, rows = pf.sinusoidal(width), peers.torch_rows(width)
    true = [((p, c), column(int(seconds[p]), c, width, "interleaved")) for p, c in drawn(len(seconds), width)]
    return Task(
        "a million timestamps (seconds), 64 columns",
        "the same formula in torch",
        lambda: rows(seconds),
        lambda: encoding.encode(seconds),
        true,
    )


def timestamps_numpy() -> Task:
    seconds, rows = seconds_since_1970(), peers.numpy_rows(64, np.float64, np.float32)
    return timestamps_torch()._replace(today="NumPy in float64", theirs=lambda: rows(seconds))


def timestep() -> Task:
    library, width = peers.one_thread(), 320
    embedding = peers.diffusers_embeddings().get_timestep_embedding
    own = importlib.import_module("posenc_fast.torch")
    tensor = library.tensor([981.0], dtype=library.float64)
    encoding = pf.presets.diffusers_timesteps(width, flip_sin_to_cos=True, downscale_freq_shift=0)
    true = [((p, c), column(981, c, width, "cosines first")) for p, c in drawn(1, width)]
    return Task(
        "one diffusion timestep, 320 columns",
        "diffusers",
        lambda: embedding(tensor, width, flip_sin_to_cos=True, downscale_freq_shift=0),
        lambda: own.encode(encoding, tensor),
        true,
    )


def add() -> Task:
    library, shape = peers.one_thread(), (32, 512, 768)
    module = importlib.import_module("posenc_fast.torch").SinusoidalEncoding(
        shape[2], batch_first=True, x_scale="sqrt", dropout=0
    )
    module.eval()
    ready = peers.torch_tutorial(5000, shape[2], "interleaved")()
    x, scale = library.full(shape, 0.375), math.sqrt(shape[2])
    with mpmath.workprec(exact.PRECISION):
        true = [
            ((b, p, c), exact.number(scale) * 0.375 + column(p, c, shape[2], "interleaved"))
            for b, p, c in drawn(*shape)
        ]
    return Task(
        "x · √d + encoding, 32 × 512 × 768",
        "PyTorch's tutorial, precomputed table",
        lambda: x * scale + ready[: shape[1]],
        lambda: module(x),
        true,
    )


def image() -> Task:
    side, width = 64, 768
    make = peers.diffusers_embeddings().get_2d_sincos_pos_embed
    encoding = pf.presets.mae(width)
    # the first half of each table row encodes the patch's column in the image (p % side), the second half its row there
    true = [
        ((p, c), column((p % side, p // side)[c // (width // 2)], c % (width // 2), width // 2, "concatenated"))
        for p, c in drawn(side * side, width)
    ]
    return Task(
        "an image of 64 × 64 patches, 768 columns, float64",
        "diffusers",
        lambda: make(width, side, base_size=side),
        lambda: pf.grid([side, side], encoding, dtype=np.float64).reshape(side * side, width),
        true,
    )


# ---- rotary ---------------------------------------------------------------------------------------------------------


def rotary(name: str, tokens: int, start: int, dtype: str) -> Task:
    """Return the task to rotate queries of 32 heads and keys of 8 heads, of width 128, as in Llama 3."""
    library, llama = peers.one_thread(), peers.llama()
    own = importlib.import_module("posenc_fast.torch")
    width, base = 128, 500000.0
    library.manual_seed(0)
    queries, keys = (library.randn(1, heads, tokens, width).to(getattr(library, dtype)) for heads in (32, 8))
    config = importlib.import_module("transformers").LlamaConfig(
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=8,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    positions = library.arange(start, start + tokens)[None]
    # compute the tables outside of the timed call, because a model computes them once for all layers
    cos, sin = llama.LlamaRotaryEmbedding(config)(queries, positions)
    rotate = own.RotaryEncoding(pf.Rotary(width, base=base))

    def theirs() -> Any:
        with library.no_grad():
            return llama.apply_rotary_pos_emb(queries, keys, cos, sin)[0]

    def ours() -> Any:
        with library.no_grad():
            return rotate(queries, keys, start=start)[0]

    frequencies, half, true = exact.schedule(width, base), width // 2, []
    doubles = queries.double().numpy()
    for p, head, c in drawn(tokens, 32, width):
        first, second = (exact.number(float(doubles[0, head, p, k])) for k in (c % half, c % half + half))
        sine, cosine = exact.sincos(start + p, frequencies[c % half])
        with mpmath.workprec(exact.PRECISION):
            value = first * cosine - second * sine if c < half else second * cosine + first * sine
        true.append(((0, head, p, c), value))
    return Task(name, "transformers, precomputed tables", theirs, ours, true)


TASKS: dict[str, Callable[[], Task]] = {
    "table": table,
    "timestamps": timestamps_torch,
    "timestamps-numpy": timestamps_numpy,
    "timestep": timestep,
    "add": add,
    "image": image,
    "prefill": lambda: rotary("rotary, 2048 tokens, float32", 2048, 0, "float32"),
    "prefill-bfloat16": lambda: rotary("rotary, 2048 tokens, bfloat16", 2048, 0, "bfloat16"),
    "token": lambda: rotary("rotary, the token at position 100 000, float32", 1, 100_000, "float32"),
    "token-bfloat16": lambda: rotary("rotary, the token at position 100 000, bfloat16", 1, 100_000, "bfloat16"),
}


def error(result: Any, true: list[tuple[tuple[int, ...], Any]]) -> float:
    got = np.asarray(result.double() if hasattr(result, "double") else result, np.float64)
    with mpmath.workprec(exact.PRECISION):
        return max(float(abs(mpmath.mpf(float(got[place])) - value)) for place, value in true)


def measure(task: Task, runs: int) -> dict[str, Any]:
    wrong, right = error(task.theirs(), task.true), error(task.ours(), task.true)
    ratio = timing.ratio(timing.alternate({"theirs": task.theirs, "ours": task.ours}, runs), "theirs", "ours").median
    result = {"task": task.name, "today": task.today, "times faster": ratio}
    return result | {"error today": wrong, "error here": right}


def run(names: Iterable[str], runs: int) -> list[dict[str, Any]]:
    """Measure each task, print its row at once, and return the results."""
    print(tables.TASKS_HEADING)
    results = []
    for name in names:
        results.append(measure(TASKS[name](), runs))
        print(tables.task(results[-1]), flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--write", action="store_true", help="save the results in bench/results, and write the table into README.md"
    )
    parser.add_argument("--only", default="", help="measure only tasks with this word in their name")
    parser.add_argument("--runs", type=int, default=31)
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write needs all tasks; leave out --only")
    results = run([name for name in TASKS if arguments.only in name], arguments.runs)
    if arguments.write:
        tables.publish("tasks", tables.new_run(results))


if __name__ == "__main__":
    main()
