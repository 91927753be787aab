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


# ---- rotary ---------------------------------------------------------------------------------------------------------


def onnx_rotary(x: Array, cos: Array, sin: Array) -> Call:
    """ONNX Runtime's operator on queries (batch, heads, length, head_dim), inputs and outputs bound."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    inputs = {"x": x, "p": np.arange(x.shape[2])[np.newaxis], "cos": cos, "sin": sin}
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, x.shape)
    node = onnx.helper.make_node("RotaryEmbedding", list(inputs), ["y"], domain="com.microsoft")
    domains = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)]
    graph = onnx.helper.make_graph([node], "rotary", values, [result])
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding, kept = session.io_binding(), [runtime.OrtValue.ortvalue_from_numpy(array) for array in inputs.values()]
    for name, value in zip(inputs, kept, strict=True):
        binding.bind_ortvalue_input(name, value)
    out = runtime.OrtValue.ortvalue_from_numpy(np.zeros_like(x))
    binding.bind_ortvalue_output("y", out)

    def rotate() -> Array:
        session.run_with_iobinding(binding)
        return out.numpy()

    # a result as an array is a copy, which is not timed
    rotate.timed = lambda: session.run_with_iobinding(binding)  # type: ignore[attr-defined]
    return rotate


def transformers_rotary(x: Array, cos: Array, sin: Array) -> Call:
    """Hugging Face's function for the queries and keys of Llama."""
    torch = one_thread()
    module = importlib.import_module("transformers.models.llama.modeling_llama")
    q, k = torch.from_numpy(x), torch.from_numpy(x.copy())
    tables = [torch.from_numpy(np.tile(table, 2))[None] for table in (cos, sin)]

    def rotate() -> Any:
        with torch.no_grad():
            return module.apply_rotary_pos_emb(q, k, *tables)

    return rotate
