"""Other programs that make the same table: each where it is installed, with one thread, in float32.

A maker takes (length, width, layout) and returns a call that makes a new table, or None where it has no such layout.
The layouts are those of posenc_fast; "one sine" is the interleaved one by another formula, see `rewritten_torch`.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Call = Callable[[], Any]
Maker = Callable[[int, int, str], Call | None]

# read when jax starts
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


def frequencies(width: int) -> Array:
    return (10000.0 ** (-np.arange(0, width, 2) / width)).astype(np.float32)


def columns(table: Any, layout: str) -> tuple[Any, Any]:
    """Views of the sines and of the cosines."""
    half = table.shape[1] // 2
    return (table[:, 0::2], table[:, 1::2]) if layout == "interleaved" else (table[:, :half], table[:, half:])


def one_thread() -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    return torch


def numpy_float32(length: int, width: int, layout: str) -> Call:
    """float32 angles, each function straight into its columns."""

    def table() -> Array:
        angles = np.arange(length, dtype=np.float32)[:, np.newaxis] * frequencies(width)
        out = np.empty((length, width), np.float32)
        sines, cosines = columns(out, layout)
        np.sin(angles, out=sines)
        np.cos(angles, out=cosines)
        return out

    return table


def numexpr(length: int, width: int, layout: str) -> Call:
    ne = importlib.import_module("numexpr")
    ne.set_num_threads(1)

    def table() -> Array:
        p, f = np.arange(length, dtype=np.float32)[:, np.newaxis], frequencies(width)
        out = np.empty((length, width), np.float32)
        sines, cosines = columns(out, layout)
        ne.evaluate("sin(p * f)", {"p": p, "f": f}, out=sines)
        ne.evaluate("cos(p * f)", {"p": p, "f": f}, out=cosines)
        return out

    return table


def torch_tutorial(length: int, width: int, layout: str) -> Call:
    """The program of PyTorch's own tutorial."""
    torch = one_thread()

    def table() -> Any:
        position = torch.arange(length).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        out = torch.zeros(length, width)
        sines, cosines = columns(out, layout)
        sines[...] = torch.sin(position * div_term)
        cosines[...] = torch.cos(position * div_term)
        return out

    return table


def torch_compile(length: int, width: int, layout: str) -> Call:
    """The same formula in the form that compiles best: a join of both functions in place of two assignments."""
    torch = one_thread()
    div_term = torch.from_numpy(frequencies(width))

    def interleaved(_: Any) -> Any:
        # a schedule made on the spot compiles to better code here than one that is read
        exponents = torch.arange(0, width, 2) * (-math.log(10000.0) / width)
        angles = torch.arange(length).unsqueeze(1) * torch.exp(exponents)
        return torch.stack((torch.sin(angles), torch.cos(angles)), -1).reshape(length, width)

    def concatenated(div_term: Any) -> Any:
        angles = torch.arange(length).unsqueeze(1) * div_term
        return torch.cat((torch.sin(angles), torch.cos(angles)), -1)

    table = torch.compile(interleaved if layout == "interleaved" else concatenated, dynamic=False)
    return lambda: table(div_term)


def jax(length: int, width: int, layout: str) -> Call:
    jax = importlib.import_module("jax")
    jnp = jax.numpy

    @jax.jit
    def table(div_term: Any) -> Any:
        angles = jnp.arange(length, dtype=jnp.float32)[:, jnp.newaxis] * div_term
        if layout == "interleaved":
            return jnp.stack((jnp.sin(angles), jnp.cos(angles)), -1).reshape(length, width)
        return jnp.concatenate((jnp.sin(angles), jnp.cos(angles)), -1)

    # an argument: a constant would be folded, and the table with it
    div_term = jnp.asarray(frequencies(width))
    return lambda: table(div_term).block_until_ready()


def numba(length: int, width: int, layout: str) -> Call:
    step, shift = (2, 1) if layout == "interleaved" else (1, width // 2)
    div_term = frequencies(width)

    @importlib.import_module("numba").njit(fastmath=True)
    def table(div_term: Array) -> Array:
        out = np.empty((length, width), np.float32)
        for p in range(length):
            for i in range(len(div_term)):
                angle = np.float32(p) * div_term[i]
                out[p, step * i] = math.sin(angle)
                out[p, step * i + shift] = math.cos(angle)
        return out

    return lambda: table(div_term)


def positional_encodings(length: int, width: int, layout: str) -> Call | None:
    if layout != "interleaved":
        return None
    torch = one_thread()
    encoder = importlib.import_module("positional_encodings.torch_encodings").PositionalEncoding1D(width)
    x = torch.zeros(1, length, width)

    def table() -> Any:
        encoder.cached_penc = None  # else only the first call computes
        return encoder(x)[0]

    return table


def diffusers(length: int, width: int, layout: str) -> Call | None:
    if layout != "concatenated":
        return None
    torch = one_thread()
    embedding = importlib.import_module("diffusers.models.embeddings").get_timestep_embedding
    return lambda: embedding(torch.arange(length), width, downscale_freq_shift=0)


def phases(width: int) -> tuple[Array, Array]:
    """Frequency and phase of each interleaved column: a cosine is a sine a quarter turn on."""
    return np.repeat(frequencies(width), 2), np.tile(np.array([0, np.pi / 2], np.float32), width // 2)


def rewritten_numpy(length: int, width: int, layout: str) -> Call:
    def table() -> Array:
        columns, shift = phases(width)
        angles = np.arange(length, dtype=np.float32)[:, np.newaxis] * columns
        angles += shift
        return np.sin(angles, out=angles)

    return table


def rewritten_torch(length: int, width: int, layout: str) -> Call:
    """One sine for every column, with a phase: not how anybody writes it, but a compiler makes the best of it."""
    torch = one_thread()
    columns, shift = map(torch.from_numpy, phases(width))

    def sines(columns: Any, shift: Any) -> Any:
        return torch.sin(torch.arange(length).unsqueeze(1) * columns + shift)

    table = torch.compile(sines, dynamic=False)
    return lambda: table(columns, shift)


# name: (module that it needs, maker)
PEERS: dict[str, tuple[str, Maker]] = {
    "numpy float32": ("numpy", numpy_float32),
    "numexpr": ("numexpr", numexpr),
    "torch": ("torch", torch_tutorial),
    "torch.compile": ("torch", torch_compile),
    "jax": ("jax", jax),
    "numba": ("numba", numba),
    "positional-encodings": ("positional_encodings", positional_encodings),
    "diffusers": ("diffusers", diffusers),
}
REWRITTEN: dict[str, tuple[str, Maker]] = {
    "numpy, one sine": ("numpy", rewritten_numpy),
    "torch.compile, one sine": ("torch", rewritten_torch),
}


def found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def calls(length: int, width: int, layout: str) -> dict[str, Call]:
    """A call for every peer that is installed and has this layout."""
    table = REWRITTEN if layout == "one sine" else PEERS
    made = {name: maker(length, width, layout) for name, (module, maker) in table.items() if found(module)}
    return {name: call for name, call in made.items() if call is not None}


def skipped() -> list[str]:
    """Peers that are not installed."""
    return [name for name, (module, _) in PEERS.items() if not found(module)]
