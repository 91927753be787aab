"""Peers: other programs that compute position encodings, in one list for all benchmarks.

Each peer runs with one thread. It computes float32 values unless its entry in `PEERS` names another dtype.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Call = Callable[[], Any]
Rows = Callable[[Array], Any]

# jax reads this variable when it starts
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


def frequencies(width: int) -> Array:
    """Return the frequencies of the paper's formula, rounded to float32."""
    return (10000.0 ** (-np.arange(0, width, 2) / width)).astype(np.float32)


def columns(table: Any, layout: str) -> tuple[Any, Any]:
    """Return two views of a table: its columns of sines, and its columns of cosines."""
    half = table.shape[1] // 2
    return (table[:, 0::2], table[:, 1::2]) if layout == "interleaved" else (table[:, :half], table[:, half:])


def one_thread() -> Any:
    """Return torch, limited to one thread."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    return torch


def diffusers_embeddings() -> Any:
    """Return the module of diffusers with its position encodings."""
    one_thread()
    return importlib.import_module("diffusers.models.embeddings")


def llama() -> Any:
    """Return the module of transformers with Llama's rotary encoding."""
    one_thread()
    return importlib.import_module("transformers.models.llama.modeling_llama")


# ---- tables ---------------------------------------------------------------------------------------------------------


def numpy_float32(length: int, width: int, layout: str) -> Call:
    """Return a call that computes the table by NumPy, with float32 angles."""

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
    """Return a call that computes the table as PyTorch's tutorial does."""
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
    """Return a call that computes the tutorial's formula, compiled by torch.

    It joins sines and cosines, because assigning them to columns compiles to slower code.
    """
    torch = one_thread()
    div_term = torch.from_numpy(frequencies(width))

    def interleaved(_: Any) -> Any:
        # compute the frequencies here, because this compiles to faster code than reading them from a tensor
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

    # div_term is an argument: if it were a constant, jax would compute the table during compilation
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


def positional_encodings(length: int, width: int, layout: str) -> Call:
    torch = one_thread()
    encoder = importlib.import_module("positional_encodings.torch_encodings").PositionalEncoding1D(width)
    x = torch.zeros(1, length, width)

    def table() -> Any:
        encoder.cached_penc = None  # without this line, only the first call computes the table
        return encoder(x)[0]

    return table


def diffusers(length: int, width: int, layout: str) -> Call:
    torch, embedding = one_thread(), diffusers_embeddings().get_timestep_embedding
    return lambda: embedding(torch.arange(length), width, downscale_freq_shift=0)


def phases(width: int) -> tuple[Array, Array]:
    """Return the frequency and phase of each interleaved column. A cosine is a sine with a phase of π/2."""
    return np.repeat(frequencies(width), 2), np.tile(np.array([0, np.pi / 2], np.float32), width // 2)


def rewritten_numpy(length: int, width: int, layout: str) -> Call:
    def table() -> Array:
        columns, shift = phases(width)
        angles = np.arange(length, dtype=np.float32)[:, np.newaxis] * columns
        angles += shift
        return np.sin(angles, out=angles)

    return table


def rewritten_torch(length: int, width: int, layout: str) -> Call:
    """Return a compiled call that computes each column as a sine with a phase.

    Few people write this form, but it compiles to the fastest code.
    """
    torch = one_thread()
    columns, shift = map(torch.from_numpy, phases(width))

    def sines(columns: Any, shift: Any) -> Any:
        return torch.sin(torch.arange(length).unsqueeze(1) * columns + shift)

    table = torch.compile(sines, dynamic=False)
    return lambda: table(columns, shift)


# ---- rows of any positions ------------------------------------------------------------------------------------------


def interleaved(sines_then_cosines: Any) -> Array:
    """Return rows with interleaved columns, from rows that have all sines first."""
    halves = np.asarray(sines_then_cosines)
    return halves.reshape(len(halves), 2, -1).transpose(0, 2, 1).reshape(len(halves), -1)


def numpy_rows(width: int, angles: npt.DTypeLike, dtype: npt.DTypeLike) -> Rows:
    """Return a function that computes rows by NumPy. angles: dtype of the angles. dtype: dtype of the rows."""
    div_term = (10000.0 ** (-np.arange(0, width, 2) / width)).astype(angles)

    def rows(positions: Array) -> Array:
        products = positions.astype(angles)[:, np.newaxis] * div_term
        out = np.empty((len(positions), width), dtype)
        out[:, 0::2] = np.sin(products)
        out[:, 1::2] = np.cos(products)
        return out

    return rows


def torch_rows(width: int) -> Rows:
    """Return a function that computes the rows of any positions by the formula of PyTorch's tutorial."""
    torch = one_thread()

    def rows(positions: Array) -> Any:
        position = torch.from_numpy(positions).float().unsqueeze(1)
        div_term = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        out = torch.empty(len(positions), width)
        out[:, 0::2] = torch.sin(position * div_term)
        out[:, 1::2] = torch.cos(position * div_term)
        return out

    return rows


def jax_rows(width: int) -> Rows:
    jnp = importlib.import_module("jax.numpy")

    def rows(positions: Array) -> Array:
        div_term = jnp.exp(jnp.arange(0, width, 2) * (-math.log(10000.0) / width))
        angles = jnp.asarray(positions.astype(np.float32))[:, np.newaxis] * div_term
        return interleaved(jnp.concatenate((jnp.sin(angles), jnp.cos(angles)), 1))

    return rows


def gptj_rows(width: int) -> Rows:
    """Return a function that reads rows from GPT-J's table.

    Each call computes the table anew, up to the largest position that is passed.
    """
    torch = one_thread()
    table = importlib.import_module("transformers.models.gptj.modeling_gptj").create_sinusoidal_positions
    return lambda positions: interleaved(table(int(max(positions)) + 1, width)[torch.from_numpy(positions)])


def llama_rows(width: int, dtype: str, converted: bool = False) -> Rows:
    """Return a function that computes rows (sines and cosines) by Llama's rotary module.

    dtype: dtype of the module's input, to which it rounds sines and cosines. converted: whether the module is
    converted by ``.to(dtype)``, which rounds its frequencies.
    """
    torch, config = one_thread(), importlib.import_module("transformers").LlamaConfig
    module = llama().LlamaRotaryEmbedding(config(head_dim=width))
    x = torch.zeros(1, dtype=getattr(torch, dtype))
    module = module.to(x.dtype) if converted else module

    def rows(positions: Array) -> Array:
        cos, sin = module(x, torch.from_numpy(positions)[np.newaxis])
        return interleaved(torch.cat((sin[0, :, : width // 2], cos[0, :, : width // 2]), 1).float())

    return rows


def diffusers_rows(width: int) -> Rows:
    torch, embedding = one_thread(), diffusers_embeddings().get_timestep_embedding
    return lambda positions: interleaved(embedding(torch.from_numpy(positions), width, downscale_freq_shift=0))


def diffusers_rotary_rows(width: int, dtype: str) -> Rows:
    torch, embedding = one_thread(), diffusers_embeddings().get_1d_rotary_pos_embed

    def rows(positions: Array) -> Array:
        cos, sin = embedding(
            width, positions, use_real=True, repeat_interleave_real=False, freqs_dtype=getattr(torch, dtype)
        )
        return interleaved(torch.cat((sin[:, : width // 2], cos[:, : width // 2]), 1))

    return rows


def positional_encodings_rows(width: int) -> Rows:
    torch = one_thread()
    encoder = importlib.import_module("positional_encodings.torch_encodings").PositionalEncoding1D(width)
    return lambda positions: encoder(torch.zeros(1, int(max(positions)) + 1, width))[0][torch.from_numpy(positions)]


# ---- rotary ---------------------------------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """A call by which a peer rotates x, and the rotated x."""

    # call that is timed
    call: Call
    # the rotated x
    result: Array
    # number of arrays of the size of x that one call rotates
    arrays: int


def onnx_rotary(x: Array, cos: Array, sin: Array) -> Rotation:
    """Return the rotation of queries (batch, heads, length, head_dim) by ONNX Runtime's operator.

    Inputs and outputs are bound in advance, so that calls copy nothing.
    """
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

    rotate = partial(session.run_with_iobinding, binding)
    rotate()
    return Rotation(rotate, out.numpy(), 1)


def transformers_rotary(x: Array, cos: Array, sin: Array) -> Rotation:
    """Return the rotation of queries and keys by the function of transformers' Llama."""
    torch, module = one_thread(), llama()
    q, k = torch.from_numpy(x), torch.from_numpy(x.copy())
    tables = [torch.from_numpy(np.tile(table, 2))[None] for table in (cos, sin)]

    def rotate() -> Any:
        with torch.no_grad():
            return module.apply_rotary_pos_emb(q, k, *tables)

    return Rotation(rotate, rotate()[0].numpy(), 2)


# ---- the list of peers ----------------------------------------------------------------------------------------------


class Peer(NamedTuple):
    """A program other than posenc_fast, with a function for each kind of result: tables, rows or rotations."""

    # name in figures and in the accuracy table of bench/README.md
    name: str
    # modules that the program needs
    modules: tuple[str, ...]
    # function of length, width and layout, which returns a call; the call returns a new table
    table: Callable[[int, int, str], Call] | None = None
    # layouts that `table` supports; "one sine" stands for interleaved columns that are all computed as sines
    layouts: tuple[str, ...] = ("interleaved", "concatenated")
    # function of the width, which returns a function of positions; that function returns rows with interleaved columns
    rows: Callable[[int], Rows] | None = None
    # largest position of `rows`; programs that build a table up to the largest position have a lower limit
    largest: int = 2**63
    # function of x, cosines and sines, which returns the rotation of x
    rotary: Callable[[Array, Array, Array], Rotation] | None = None
    # name and arithmetic in the table of libraries; the name is empty for programs that are not in this table
    library: str = ""
    arithmetic: str = "float32 angles"
    # dtype of `rows`
    dtype: str = "float32"


# longest table that `rows` may build
MOST_ROWS = 2**21
TORCH, TRANSFORMERS, DIFFUSERS = ("torch",), ("torch", "transformers"), ("torch", "diffusers")
PEERS = (
    Peer(
        "NumPy float64 formula",
        ("numpy",),
        rows=partial(numpy_rows, angles=np.float64, dtype=np.float64),
        library="NumPy's formula",
        arithmetic="float64 angles",
        dtype="float64",
    ),
    Peer("NumPy float64, stored as float32", ("numpy",), rows=partial(numpy_rows, angles=np.float64, dtype=np.float32)),
    Peer(
        "NumPy float32 angles",
        ("numpy",),
        table=numpy_float32,
        rows=partial(numpy_rows, angles=np.float32, dtype=np.float32),
        library="NumPy's formula",
    ),
    Peer("numexpr", ("numexpr",), table=numexpr),
    Peer("torch", TORCH, table=torch_tutorial, rows=torch_rows, library="PyTorch's tutorial"),
    Peer("torch.compile", TORCH, table=torch_compile),
    Peer("jax", ("jax",), table=jax, rows=jax_rows, library="the same in jax"),
    Peer("numba", ("numba",), table=numba),
    Peer("transformers", TRANSFORMERS, rows=gptj_rows, largest=MOST_ROWS, library="transformers, GPT-J's table"),
    Peer(
        "transformers, Llama",
        TRANSFORMERS,
        rows=partial(llama_rows, dtype="float32"),
        rotary=transformers_rotary,
        library="transformers, Llama",
    ),
    Peer(
        "transformers, Llama, bfloat16 tables",
        TRANSFORMERS,
        rows=partial(llama_rows, dtype="bfloat16"),
        library="transformers, Llama, bfloat16 tables",
    ),
    Peer(
        "transformers, Llama in bfloat16",
        TRANSFORMERS,
        rows=partial(llama_rows, dtype="bfloat16", converted=True),
        library="transformers, Llama, after `.to(torch.bfloat16)`",
        arithmetic="**bfloat16 frequencies**",
    ),
    Peer(
        "diffusers",
        DIFFUSERS,
        table=diffusers,
        layouts=("concatenated",),
        rows=diffusers_rows,
        library="diffusers, timesteps",
    ),
    Peer(
        "diffusers, rotary",
        DIFFUSERS,
        rows=partial(diffusers_rotary_rows, dtype="float32"),
        library="diffusers, rotary",
    ),
    Peer(
        "diffusers, rotary of Flux",
        DIFFUSERS,
        rows=partial(diffusers_rotary_rows, dtype="float64"),
        library="diffusers, rotary of Flux",
        arithmetic="float64 angles",
    ),
    Peer(
        "positional-encodings",
        ("torch", "positional_encodings"),
        table=positional_encodings,
        layouts=("interleaved",),
        rows=positional_encodings_rows,
        largest=MOST_ROWS,
        library="positional-encodings",
    ),
    Peer("ONNX Runtime", ("onnx", "onnxruntime"), rotary=onnx_rotary),
    Peer("numpy, one sine", ("numpy",), table=rewritten_numpy, layouts=("one sine",)),
    Peer("torch.compile, one sine", TORCH, table=rewritten_torch, layouts=("one sine",)),
)


def found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def missing(peer: Peer) -> list[str]:
    """Return the modules that a peer needs and that are not installed."""
    return [module for module in peer.modules if not found(module)]


def installed() -> list[Peer]:
    return [peer for peer in PEERS if not missing(peer)]


def calls(length: int, width: int, layout: str) -> dict[str, Call]:
    """Return {name: call that computes a table} for the installed peers that support this layout."""
    return {
        peer.name: peer.table(length, width, layout)
        for peer in installed()
        if peer.table is not None and layout in peer.layouts
    }


def skipped() -> list[str]:
    """Return all modules that peers need and that are not installed."""
    return sorted({module for peer in PEERS for module in missing(peer)})
