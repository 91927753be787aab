"""The operators behind posenc_fast.torch, which autograd, torch.compile and torch.export know; and memory shared with NumPy.

An operator takes an encoding as text, so that an exported program carries it wherever it goes. On the CPU the kernel
does the work; other devices get tables, which are kept for each device and type.
"""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
import json
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .._encoding import access
from .._encoding.value import Encoding
from .._engine.blocks import WORTH_A_THREAD
from .._numbers.formats import TYPES, float_type, kind_of
from .._rotary.access import read as rotary_read
from .._rotary.access import settings
from .._rotary.access import written as rotary_written
from .._rotary.value import LAYOUTS, Rotary
from ..typing import Precision, RotaryLayout

__all__ = [
    "add",
    "add_encoding",
    "add_encoding_",
    "array_of",
    "check_cpu",
    "is_differentiated",
    "is_float",
    "numpy_type",
    "only_values",
    "overlaps_itself",
    "pairs_of",
    "read",
    "rotate",
    "rotate_",
    "rotate_by",
    "tensor_of",
    "turn",
    "turn_all_by",
    "write",
]

DTYPES = {torch.float64: "float64", torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
# which columns of cosines are those of pair i: i and i + pairs, 2i and 2i + 1, or i alone
TABLES = ("half", "interleaved", "pairs")
# bytes from which NumPy asks the system for huge pages, and torch does not: then most of the time goes into page faults
HUGE = 1 << 22


try:
    _modes = torch._C._len_torch_dispatch_stack
    transforms = torch._C._functorch.peek_interpreter_stack
    trace = torch._C._get_tracing_state
    _wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    _unwrapped = torch._C._functorch.get_unwrapped
    _batched, _tracked = torch._C._functorch.is_batchedtensor, torch._C._functorch.is_gradtrackingtensor
except AttributeError:
    # names that torch does not promise to keep; without them every call is that of an operator, and errors are torch's
    _modes = transforms = trace = functools.partial(int, 1)

    def _is_none(tensor: Any) -> Any:
        return False

    _wrapped = _unwrapped = _batched = _tracked = _is_none


# ---- arrays and tensors of the same memory --------------------------------------------------------------------------


def is_differentiated(tensor: torch.Tensor) -> bool:
    """Whether a transform of torch.func takes derivatives of a tensor, at any depth."""
    while transforms() is not None and _wrapped(tensor):
        if _tracked(tensor):
            return True
        tensor = _unwrapped(tensor)
    return False


def is_float(tensor: torch.Tensor, name: str) -> None:
    """A TypeError for other types than the four."""
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{name} must be of float64, float32, float16 or bfloat16, not of {tensor.dtype}")


@functools.lru_cache(maxsize=64)
def numpy_type(dtype: Any, name: str) -> np.dtype[Any]:
    """The array type of a tensor type."""
    if dtype not in DTYPES:
        raise TypeError(f"{name} must be one of {', '.join(map(str, DTYPES))}, not {dtype!r}")
    return float_type(DTYPES[dtype], name)


def check_cpu(tensor: Any, name: str) -> None:
    """An error for what is no CPU tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
    if not tensor.is_cpu:
        raise ValueError(
            f"{name} is on {tensor.device}, but must be on the CPU: give {name}.cpu(); the modules work on any device"
        )
    if transforms() is not None and (_batched(tensor) or _tracked(tensor)):
        raise NotImplementedError(
            f"{name} is inside a transform of torch.func (grad, vmap, jvp, ..) and has no memory of its own; the modules "
            "know vmap, and torch.autograd.grad"
        )


def array_of(tensor: Any, name: str, *, written: bool = False) -> npt.NDArray[Any]:
    """The memory of a CPU tensor as an array."""
    check_cpu(tensor, name)
    if written and tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; give other memory, or use torch.no_grad()"
        )
    if written and overlaps_itself(tensor):
        raise ValueError(
            f"{name} has strides {tensor.stride()}: several of its values are one and cannot be overwritten; "
            f"give {name}.contiguous()"
        )
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        kind = numpy_type(tensor.dtype, name)
        return tensor.view(torch.int16).numpy().view(kind)  # type: ignore[no-any-return]
    return tensor.numpy()  # type: ignore[no-any-return]


def overlaps_itself(x: torch.Tensor) -> bool:
    """Whether several values are one, as of an expanded tensor."""
    if x.is_contiguous() or x.numel() == 0:
        return False
    return any(n > 1 and stride == 0 for n, stride in zip(x.shape, x.stride(), strict=True))


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """An array's memory as a tensor."""
    if kind_of(array.dtype) == TYPES.index("bfloat16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _new_like(x: torch.Tensor, device: str | None = None) -> torch.Tensor:
    """A new tensor in the order of x, but with the values of a row next to each other."""
    where = x.device if device is None else device
    like = torch.empty_like(x, device=where)
    return like if like.stride(-1) == 1 else torch.empty(x.shape, dtype=x.dtype, device=where)


def _result_for(x: torch.Tensor) -> torch.Tensor | None:
    """The same, of memory that is soon had; None for what a new array would be."""
    if x.is_contiguous():
        return None
    if x.numel() * x.element_size() < HUGE:
        return _new_like(x)
    like = _new_like(x, "meta")
    memory = torch.from_numpy(np.empty(x.numel() * x.element_size(), np.uint8))
    return memory.view(x.dtype).as_strided(like.shape, like.stride())


def _on_cpu(x: torch.Tensor) -> bool:
    return bool(x.is_cpu)


def only_values(*tensors: torch.Tensor | None) -> bool:
    """Whether nothing but the values counts: no compiler, trace, transform, mode or gradient, which need an operator."""
    if torch.compiler.is_compiling() or _modes() or transforms() is not None or trace() is not None:
        return False
    for x in tensors:
        if x is None:
            continue
        if type(x) is not torch.Tensor or not _on_cpu(x) or x.requires_grad or x.is_neg():
            return False
    return True


def _apart(x: torch.Tensor) -> bool:
    """Whether the values of a row are not next to each other, which the kernel cannot write."""
    return _on_cpu(x) and x.stride(-1) != 1


def _wide(x: torch.Tensor) -> torch.dtype:
    """The type that other devices compute in."""
    return torch.promote_types(x.dtype, torch.float32)


def _workers(x: torch.Tensor) -> int | None:
    """As many threads as torch has, where the core would use them: it takes longer to ask than a token takes."""
    threads = torch.get_num_threads() if x.numel() >= WORTH_A_THREAD else 1
    return None if threads == 1 else threads


def _either(
    x: torch.Tensor,
    positions: torch.Tensor | None,
    inplace: bool,
    compute: Callable[..., torch.Tensor],
    operators: tuple[Callable[..., Any], Callable[..., Any]],
    *given: Any,
) -> torch.Tensor:
    """``compute(x, out, *given)``, or the first operator of that, or the second in place, where one is needed."""
    if not only_values(x, positions) or (inplace and _apart(x)):
        made = operators[inplace](x, *given)
        return x if inplace else made
    made = compute(x, x if inplace else None, *given)
    if inplace:
        torch.autograd.graph.increment_version(x)
    return made


# ---- encodings as text ----------------------------------------------------------------------------------------------


def write(value: Encoding | Rotary) -> str:
    """An encoding as text: equal ones are written alike, and what is read equals what was written."""
    written = rotary_written(value) if isinstance(value, Rotary) else access.written(value)
    return json.dumps(written, separators=(",", ":"))


@functools.lru_cache(maxsize=64)
def read(text: str) -> Encoding | Rotary:
    """What was written."""
    found = json.loads(text)
    return rotary_read(found) if isinstance(found, dict) else access.read(*found)


# ---- tables for other devices ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _kept(
    text: str, length: int, first: int, device: torch.device, dtype: torch.dtype, precision: Precision
) -> tuple[torch.Tensor, ...]:
    value, kind = read(text), numpy_type(dtype, "x")
    arrays: Sequence[npt.NDArray[Any]]
    if isinstance(value, Rotary):
        arrays = value.tables(length, start=first, dtype=kind, precision=precision)
    else:
        arrays = [value.table(length, start=first, dtype=kind, precision=precision)]
    return tuple(tensor_of(array).to(device) for array in arrays)


def _rows(
    text: str,
    start: int,
    length: int,
    positions: torch.Tensor | None,
    device: torch.device,
    dtype: torch.dtype,
    precision: Precision = "exact",
) -> tuple[torch.Tensor, ...]:
    """Rows on a device: of an encoding, or cosines and sines of a rotary one.

    Those of consecutive positions are parts of a table that is kept, of whole blocks, so that sequences of many lengths
    and the tokens of a text that is being written share a few.
    """
    if positions is None:
        block = max(1024, 1 << (length - 1).bit_length()) if length else 1024
        first = start // block * block
        last = max(-(-(start + length) // block) * block, first + block)
        kept = _kept(text, last - first, first, device, dtype, precision)
        return tuple(table[start - first :][:length] for table in kept)
    value, kind, where = read(text), numpy_type(dtype, "x"), array_of(positions.cpu(), "positions")
    if isinstance(value, Rotary):
        return tuple(tensor_of(array).to(device) for array in value.tables(where, dtype=kind, precision=precision))
    return (tensor_of(value.encode(where, dtype=kind, precision=precision)).to(device),)


# ---- addition -------------------------------------------------------------------------------------------------------

_ADDED = "str encoding, SymInt start, Tensor? positions, float x_scale, str precision='exact'"


def _add(
    x: torch.Tensor,
    out: torch.Tensor | None,
    text: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
) -> torch.Tensor:
    """The sum in out, which may be x, or in a new tensor."""
    if not _on_cpu(x):
        (rows,) = _rows(text, start, x.shape[-2], positions, x.device, _wide(x), precision)
        # one operation in the type of the rows, which rounds the sum once where that of x is narrower
        return torch.add(rows, x, alpha=x_scale, out=_new_like(x) if out is None else out)
    encoding, values, out = read(text), array_of(x, "x"), _result_for(x) if out is None else out
    assert isinstance(encoding, Encoding)
    result = encoding.add_to(
        values,
        start=start,
        positions=None if positions is None else array_of(positions, "positions"),
        x_scale=x_scale,
        precision=precision,
        out=values if out is x else None if out is None else array_of(out, "out"),
        workers=_workers(x),
    )
    return tensor_of(result) if out is None else out


@torch.library.custom_op("posenc_fast::add_encoding", mutates_args=(), schema=f"(Tensor x, {_ADDED}) -> Tensor")
def add_encoding(
    x: torch.Tensor,
    encoding: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
) -> torch.Tensor:
    """x_scale * x + encoding."""
    return _add(x, None, encoding, start, positions, x_scale, precision)


@torch.library.custom_op("posenc_fast::add_encoding_", mutates_args=("x",), schema=f"(Tensor(a!) x, {_ADDED}) -> ()")
def add_encoding_(
    x: torch.Tensor,
    encoding: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
) -> None:
    """The same, in place."""
    given = encoding, start, positions, x_scale, precision
    if _apart(x):
        x.copy_(add_encoding(x, *given))
    else:
        _add(x, x, *given)


def add(
    x: torch.Tensor,
    encoding: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    inplace: bool,
    precision: Precision,
) -> torch.Tensor:
    """Either, without the operator where nothing but the values counts."""
    given = encoding, start, positions, x_scale, precision
    return _either(x, positions, inplace, _add, (add_encoding, add_encoding_), *given)


def _keep_scale(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.x_scale = inputs[4]


def _scaled(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return gradient if ctx.x_scale == 1 else gradient * ctx.x_scale, None, None, None, None, None


torch.library.register_autograd("posenc_fast::add_encoding", _scaled, setup_context=_keep_scale)


# ---- rotation by positions ------------------------------------------------------------------------------------------

_TURNED = "str rotary, SymInt start, Tensor? positions, int seq_axis, bool transposed, str precision='exact'"


def _rotate(
    x: torch.Tensor,
    out: torch.Tensor | None,
    text: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool = False,
    precision: Precision = "exact",
) -> torch.Tensor:
    """x turned into out, which may be x, or into a new tensor."""
    rotary = read(text)
    assert isinstance(rotary, Rotary)
    if not _on_cpu(x):
        cos, sin = _rows(text, start, x.shape[seq_axis], positions, x.device, _wide(x), precision)
        turned = _rotated(x, cos, sin, seq_axis, settings(rotary).layout, transposed)
        return (_new_like(x) if out is None else out).copy_(turned)
    values, workers, out = array_of(x, "x"), _workers(x), _result_for(x) if out is None else out
    into = values if out is x else None if out is None else array_of(out, "out")
    where = None if positions is None else array_of(positions, "positions")
    if not transposed:
        result = rotary.apply(
            values,
            positions=where,
            start=start,
            seq_axis=seq_axis,
            precision=precision,
            out=into,
            workers=workers,
        )
        return tensor_of(result) if out is None else out
    # not the inverse, which would divide by amplitudes
    if where is None:
        tables = rotary.tables(x.shape[seq_axis], start=start, dtype=np.float64, precision=precision)
    else:
        tables = rotary.tables(where, dtype=np.float64, precision=precision)
    result = _turned_by(values, into, *tables, seq_axis, settings(rotary).layout, True, workers)
    return tensor_of(result) if out is None else out


def _turned_by(
    x: npt.NDArray[Any],
    out: npt.NDArray[Any] | None,
    cos: npt.NDArray[Any],
    sin: npt.NDArray[Any],
    seq_axis: int,
    layout: RotaryLayout,
    transposed: bool,
    workers: int | None,
) -> npt.NDArray[Any]:
    """x turned by tables of a column for each pair; transposed, times the transposed matrix of that."""
    spread = transposed and layout == LAYOUTS[2]
    rotary = _plain_rotary(x.shape[-1], 2 * cos.shape[-1], LAYOUTS[0] if spread else layout)
    result = rotary.apply_tables(x, cos, -sin if transposed else sin, seq_axis=seq_axis, out=out, workers=workers)
    if spread:
        pairs = result[..., : rotary.rotary_dim]
        pairs[...] = pairs.reshape(*x.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(pairs.shape)
    return result


@functools.lru_cache(maxsize=64)
def _plain_rotary(head_dim: int, rotary_dim: int, layout: RotaryLayout) -> Rotary:
    """What turns by given tables, whose own angles do not matter."""
    return Rotary(head_dim, rotary_dim=rotary_dim, layout=layout)


def _rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout, transposed: bool = False
) -> torch.Tensor:
    """Rotation by tables (length, pairs) or (batch, length, pairs), in torch's own arithmetic, rounded once in the end."""
    work = _wide(x)
    shape = (*cos.shape[:-2], *[1] * (x.ndim - cos.ndim), *cos.shape[-2:])
    cos, sin = (table.reshape(shape).movedim(-2, seq_axis).to(work) for table in (cos, sin))
    if transposed:
        sin = -sin
    pairs, dim = cos.shape[-1], 2 * cos.shape[-1]
    source, target = {
        LAYOUTS[0]: (LAYOUTS[0], LAYOUTS[0]),
        LAYOUTS[1]: (LAYOUTS[1], LAYOUTS[1]),
        LAYOUTS[2]: (LAYOUTS[0], LAYOUTS[1]) if transposed else (LAYOUTS[1], LAYOUTS[0]),
    }[layout]
    turning = x[..., :dim].to(work)
    if source == LAYOUTS[0]:
        first, second = turning[..., :pairs], turning[..., pairs:]
    else:
        first, second = turning[..., 0::2], turning[..., 1::2]
    parts = first * cos - second * sin, second * cos + first * sin
    turned = torch.cat(parts, -1) if target == LAYOUTS[0] else torch.stack(parts, -1).flatten(-2)
    return torch.cat((turned.to(x.dtype), x[..., dim:]), -1)


@torch.library.custom_op("posenc_fast::rotate", mutates_args=(), schema=f"(Tensor x, {_TURNED}) -> Tensor")
def rotate(
    x: torch.Tensor,
    rotary: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool,
    precision: Precision = "exact",
) -> torch.Tensor:
    """x turned; transposed, times the transposed matrix of that."""
    return _rotate(x, None, rotary, start, positions, seq_axis, transposed, precision)


@torch.library.custom_op("posenc_fast::rotate_", mutates_args=("x",), schema=f"(Tensor(a!) x, {_TURNED}) -> ()")
def rotate_(
    x: torch.Tensor,
    rotary: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool,
    precision: Precision = "exact",
) -> None:
    """The same, in place."""
    given = rotary, start, positions, seq_axis, transposed, precision
    if _apart(x):
        x.copy_(rotate(x, *given))
    else:
        _rotate(x, x, *given)


def turn(
    x: torch.Tensor,
    rotary: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    inplace: bool,
    precision: Precision,
) -> torch.Tensor:
    """Either, without the operator where nothing but the values counts."""
    given = rotary, start, positions, seq_axis, False, precision
    return _either(x, positions, inplace, _rotate, (rotate, rotate_), *given)


def _keep_angles(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.rotary, ctx.start, positions, ctx.seq_axis, ctx.transposed, ctx.precision = inputs
    ctx.save_for_backward(positions)


def _turned_back(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (positions,) = ctx.saved_tensors
    turned = rotate(gradient, ctx.rotary, ctx.start, positions, ctx.seq_axis, not ctx.transposed, ctx.precision)
    return turned, None, None, None, None, None, None


torch.library.register_autograd("posenc_fast::rotate", _turned_back, setup_context=_keep_angles)


# ---- rotation by tables ---------------------------------------------------------------------------------------------


class _Columns(threading.local):
    """Tables of a column for each pair that a thread has made of wider ones: a model's layers all get the same tables."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, str], tuple[weakref.ref[torch.Tensor], int, torch.Tensor]] = {}


_columns = _Columns()
# so many, of tables that stay where they are
COLUMNS = 8


def pairs_of(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    """A table of a column for each pair; a ValueError where the two columns of a pair differ.

    It has two axes where all sequences share it.
    """
    if columns == TABLES[2]:
        return table[0] if table.dim() == 3 and table.shape[0] == 1 else table
    if not only_values(table):
        return pair_columns(table, columns, name)
    if table.is_inference():
        # without a version, so that nobody would know of changes
        return _pair_columns(table, columns, name)
    key, version = (id(table), columns), table._version
    made = _columns.made
    if key in made:
        known, then, pairs = made[key]
        if known() is table and then == version:
            return pairs
    pairs = _pair_columns(table, columns, name)
    if len(made) >= COLUMNS:
        made.pop(next(iter(made)), None)
    made[key] = weakref.ref(table, lambda _: made.pop(key, None)), version, pairs
    return pairs


def _pair_columns(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    pairs = table.shape[-1] // 2
    if table.dim() == 3 and table.shape[0] == 1:
        table = table[0]
    if columns == TABLES[0]:
        first, second = table[..., :pairs], table[..., pairs:]
    else:
        first, second = table[..., 0::2], table[..., 1::2]
    # other devices would have to wait
    if _on_cpu(table) and not torch.equal(first, second):
        places = "both halves of a row" if columns == TABLES[0] else "columns 2i and 2i + 1"
        raise ValueError(
            f"{name} must have the same values in {places}, with tables={columns!r}; tables must be one of "
            f"{', '.join(map(repr, TABLES))}"
        )
    # not a view, which would keep the table
    return first.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op(
    "posenc_fast::pair_columns", mutates_args=(), schema="(Tensor table, str columns, str name) -> Tensor"
)
def pair_columns(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    """The same, which looks at the values wherever a compiled program runs."""
    return _pair_columns(table, columns, name)


def _fake_pairs(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    lead = table.shape[1:-1] if table.dim() == 3 and table.shape[0] == 1 else table.shape[:-1]
    return torch.empty((*lead, table.shape[-1] // 2), dtype=table.dtype, device=table.device)


torch.library.register_fake("posenc_fast::pair_columns", _fake_pairs)


def _rotate_by(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout, transposed: bool = False
) -> torch.Tensor:
    if not _on_cpu(x):
        return _rotated(x, cos, sin, seq_axis, layout, transposed)
    out, tables = _result_for(x), (array_of(cos, "cos"), array_of(sin, "sin"))
    into = None if out is None else array_of(out, "out")
    result = _turned_by(array_of(x, "x"), into, *tables, seq_axis, layout, transposed, _workers(x))
    return tensor_of(result) if out is None else out


@torch.library.custom_op(
    "posenc_fast::rotate_by",
    mutates_args=(),
    schema="(Tensor x, Tensor cos, Tensor sin, int seq_axis, str layout='half', bool transposed=False) -> Tensor",
)
def rotate_by(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout = LAYOUTS[0],
    transposed: bool = False,
) -> torch.Tensor:
    """x turned by tables of a column for each pair; transposed, times the transposed matrix of that."""
    return _rotate_by(x, cos, sin, seq_axis, layout, transposed)


def turn_all_by(
    parts: Sequence[torch.Tensor], cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout
) -> tuple[torch.Tensor, ...]:
    """Queries and keys, or either alone, without the operator where nothing but the values counts."""
    function = _rotate_by if only_values(*parts, cos, sin) else rotate_by
    return tuple([function(part, cos, sin, seq_axis, layout) for part in parts])


def _keep_tables(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, cos, sin, ctx.seq_axis, ctx.layout, ctx.transposed = inputs
    ctx.save_for_backward(cos, sin)


def _turned_back_by(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    cos, sin = ctx.saved_tensors
    turned = rotate_by(gradient, cos, sin, ctx.seq_axis, ctx.layout, not ctx.transposed)
    return turned, None, None, None, None, None


torch.library.register_autograd("posenc_fast::rotate_by", _turned_back_by, setup_context=_keep_tables)


# ---- what shapes come out -------------------------------------------------------------------------------------------


def _fake_result(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return _new_like(x)


def _fake_nothing(*_: Any) -> None:
    return None


for _name in ("add_encoding", "rotate", "rotate_by"):
    torch.library.register_fake(f"posenc_fast::{_name}", _fake_result)
for _name in ("add_encoding_", "rotate_"):
    torch.library.register_fake(f"posenc_fast::{_name}", _fake_nothing)
