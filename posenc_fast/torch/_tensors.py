"""Convert between tensors and arrays that share memory, create tensors for results, and check tensors."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd import forward_ad

from .._core.engine.blocks import WORTH_A_THREAD
from .._core.numbers.arrays import empty
from .._core.numbers.formats import BFLOAT16, FORMATS, float_type, kind_of
from .._core.positions.foreign import unreadable

# keys: supported dtypes of torch. Values: their formats.
DTYPES = {getattr(torch, each.name): each for each in FORMATS}
# NumPy requests huge pages from the system for arrays of at least this number of bytes. torch does not request
# them, so a call that writes to a new tensor of this size would spend most of its time on page faults.
HUGE_PAGES_FROM = 1 << 22

# ---- compilers, modes and transforms --------------------------------------------------------------------------------

try:
    modes = torch._C._len_torch_dispatch_stack
    transforms = torch._C._functorch.peek_interpreter_stack
    trace = torch._C._get_tracing_state
    _is_wrapped, _functionalize = (
        torch._C._functorch.is_functorch_wrapped_tensor,
        torch._C._functorch.TransformType.Functionalize,
    )
except AttributeError:
    # Another version of torch may lack these private names. The functions then return 1 ("something is active"), so
    # that every call uses an operator. For a tensor inside a transform, torch itself raises an error.
    modes = transforms = trace = functools.partial(int, 1)
    _functionalize = None

    def _is_wrapped(tensor: Any) -> bool:
        return False


def in_forward_mode() -> bool:
    """Return whether forward-mode differentiation is active."""
    # read _current_level, a private name of torch, because checking each tensor would take longer
    return bool(getattr(forward_ad, "_current_level", 0) >= 0)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has a tangent of forward-mode differentiation."""
    return in_forward_mode() and forward_ad.unpack_dual(tensor).tangent is not None


def is_followed(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call needs the rules of `_derivatives`, for torch.func or forward-mode differentiation.

    Under a compiler, return False, because the compiler traces the operators instead. Also return False under
    functionalization, which needs no derivatives.
    """
    if torch.compiler.is_compiling():
        return False
    transform = transforms()
    if transform is None:
        return in_forward_mode() and any(x is not None and has_tangent(x) for x in tensors)
    return _functionalize is not None and transform.key() != _functionalize


def is_plain(x: Any) -> bool:
    """Return whether x is a CPU tensor that has memory and requires no gradients.

    Subclasses of torch.Tensor, negated views and nested tensors are not plain.
    """
    return plain_address(x) is not None


def plain_address(x: Any) -> int | None:
    """Return the address of the values of x; None if x is not plain (see `is_plain`)."""
    if type(x) is not torch.Tensor or not x.is_cpu or x.requires_grad or x.is_neg() or x.is_nested:
        return None
    return _address(x)


def _address(x: torch.Tensor) -> int | None:
    """Return the address of a CPU tensor; None if it has no memory, like fake tensors and autograd's zero tensors."""
    try:
        address: int = x.data_ptr()
    except RuntimeError:
        # tensors that hold a batch of gradients have no address
        return None
    return address if address != 0 or x.numel() == 0 else None


def _has_memory(x: torch.Tensor) -> bool:
    """Return whether a CPU tensor has accessible memory; False for subclasses with their own __torch_dispatch__."""
    if type(x) is not torch.Tensor and type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    return _address(x) is not None


def needs_operator(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call on CPU tensors needs an operator.

    A call needs it if a compiler, a dispatch mode of torch or a trace is active, or if a tensor has no accessible
    memory.
    """
    # is_dynamo_compiling() is true only in the compiler's first stage; modes() is true in the later ones
    if torch.compiler.is_dynamo_compiling() or modes() or trace() is not None:
        return True
    return bool(tensors) and any(x is not None and not _has_memory(x) for x in tensors)


def is_eager(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call is eager, so that it can be computed directly on the memory of the tensors.

    A call is eager if no compiler, dispatch mode, trace or transform of torch is active, and all tensors are plain (see
    `is_plain`).
    """
    # for the first two conditions, see needs_operator
    if torch.compiler.is_dynamo_compiling() or modes() or transforms() is not None or trace() is not None:
        return False
    for x in tensors:  # noqa: SIM110 - a loop takes less time than all()
        if x is not None and not is_plain(x):
            return False
    return True


def is_direct(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call is eager (see `is_eager`) and forward-mode differentiation is inactive."""
    return not in_forward_mode() and is_eager(*tensors)


# ---- memory ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def numpy_type(dtype: Any, name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a torch dtype. Raise an error for unsupported dtypes. name: name of the argument."""
    check_dtype(dtype, name)
    return float_type(DTYPES[dtype].name, name)


def array_of(tensor: Any, name: str, *, overwritten: bool = False) -> npt.NDArray[Any]:
    """Return an array that shares the memory of a CPU tensor, or a copy of the values if the tensor is a negated view.

    overwritten: whether the caller writes to the array. Raise an error if the tensor cannot be read, or if the caller
    writes to the array and the tensor cannot be overwritten.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
    if not tensor.is_cpu:
        raise _elsewhere(tensor, name)
    if transforms() is not None and _is_wrapped(tensor):
        raise ValueError(
            f"{name} is inside a transform of torch.func (grad, vmap, jvp, ..) and has no memory of its own"
            f"{f'; do not pass {name}' if overwritten else ''}"
        )
    if overwritten and wants_gradients(tensor):
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; pass another tensor, or use torch.no_grad()"
        )
    if tensor.is_neg():
        if overwritten:
            raise ValueError(
                f"{name} is a negated view ({name}.is_neg() is True), so it cannot be overwritten; pass another tensor"
            )
        tensor = tensor.resolve_neg()
    if tensor.requires_grad:
        tensor = tensor.detach()
    # torch cannot convert bfloat16 to NumPy: request the dtype of ml_dtypes for it
    bfloat16 = numpy_type(tensor.dtype, name) if tensor.dtype == torch.bfloat16 else None
    try:
        array = tensor.numpy() if bfloat16 is None else tensor.view(torch.int16).numpy().view(bfloat16)
    except (TypeError, RuntimeError) as error:
        raise unreadable(tensor, name, error) from None
    if overwritten and _overlaps_itself(tensor):
        raise ValueError(
            f"{name} has strides {tensor.stride()}, so several values share memory and cannot be overwritten; pass a "
            f"copy, such as {name}.contiguous()"
        )
    return array  # type: ignore[no-any-return]


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return a tensor that shares the memory of an array."""
    # compare the item size first, because kind_of takes longer
    if array.itemsize == 2 and kind_of(array.dtype) == BFLOAT16.kind:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def new_like(x: torch.Tensor, device: str | None = None) -> torch.Tensor:
    """Return a new tensor with the shape and dtype of x, and contiguous rows.

    The axes have the same order in memory as the axes of x, if the rows of x are contiguous.
    """
    # a call without device= is half a microsecond faster
    result = torch.empty_like(x) if device is None else torch.empty_like(x, device=device)
    # stride() takes half the time of stride(-1)
    return result if result.stride()[-1] == 1 else torch.empty(x.shape, dtype=x.dtype, device=result.device)


def result_for(x: torch.Tensor) -> torch.Tensor | None:
    """Return a new tensor as `new_like` does, on huge pages if it is large. Return None if x is contiguous.

    For a contiguous x, NumPy can create the result, because new NumPy arrays are contiguous as well.
    """
    if x.is_contiguous():
        return None
    if x.numel() * x.element_size() < HUGE_PAGES_FROM:
        return new_like(x)
    # template: a tensor without memory, for the shape and strides of the result
    template = new_like(x, "meta")
    memory = torch.from_numpy(empty((x.numel() * x.element_size(),), np.dtype(np.uint8)))
    return memory.view(x.dtype).as_strided(template.shape, template.stride())


def arrays_of(
    x: torch.Tensor, out: torch.Tensor | None
) -> tuple[npt.NDArray[Any], torch.Tensor | None, npt.NDArray[Any] | None]:
    """Return (array of x, tensor for the result, array of this tensor). out: the tensor for the result, or None.

    out may be x. If out is None, `result_for` creates the tensor for the result. If `result_for` returns None, the last
    two items are None.
    """
    values = array_of(x, "x")
    result = result_for(x) if out is None else out
    if result is None:
        return values, None, None
    return values, result, values if result is x else array_of(result, "out")


def on_cpu(x: torch.Tensor) -> bool:
    """Return whether a tensor is on the CPU, where the kernel can read it."""
    return bool(x.is_cpu)


def has_strided_rows(x: torch.Tensor) -> bool:
    """Return whether x is a CPU tensor whose rows are not contiguous. The kernel cannot write to such rows."""
    return on_cpu(x) and x.stride(-1) != 1


def is_batch_of_one(table: torch.Tensor) -> bool:
    """Return whether a table has the shape (1, length, columns), so that all sequences share it."""
    return bool(table.dim() == 3 and table.shape[0] == 1)


def workers(x: torch.Tensor) -> int | None:
    """Return torch's number of threads if x is large. Return None, for one thread, if x is small or the number is 1.

    For small tensors, do not call torch.get_num_threads, because it takes longer than the computation for one token.
    """
    threads = torch.get_num_threads() if x.numel() >= WORTH_A_THREAD else 1
    return None if threads == 1 else threads


def relative_spacing(tensor: torch.Tensor) -> float:
    """Return the distance from 1 to the next number of a tensor's dtype; 0 for integers."""
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Return whether several values of x may share memory, as in an expanded tensor.

    Compare each stride, from the shortest to the longest, with the memory that the axes of shorter strides span. Values
    may overlap if a stride is shorter than this memory.
    """
    if x.is_contiguous() or x.numel() == 0:
        return False
    # number of values in memory that the axes checked so far span
    extent = 1
    for stride, count in sorted((stride, n) for stride, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride < extent:
            return True
        extent += stride * (count - 1)
    return False


# ---- checks ---------------------------------------------------------------------------------------------------------


def wants_gradients(tensor: torch.Tensor) -> bool:
    """Return whether autograd would record an operation on a tensor."""
    return bool(tensor.requires_grad and torch.is_grad_enabled())


def refuse_gradients() -> NoReturn:
    """Raise the error for positions that require gradients or have tangents, whose derivatives would be lost."""
    raise ValueError(
        "positions requires gradients or has a forward-mode tangent, but only posenc_fast.torch.encode and grid "
        "compute derivatives with respect to positions; pass positions.detach()"
    )


def check_dtype(dtype: Any, name: str) -> None:
    """Raise an error if posenc_fast cannot compute results of a dtype."""
    if dtype not in DTYPES:
        raise TypeError(f"{name} must be one of {', '.join(map(str, DTYPES))}, not {dtype!r}")


def check_dense(tensor: torch.Tensor, name: str) -> None:
    """Raise an error for sparse and nested tensors, which have no plain shape and strides."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise unreadable(tensor, name, "")


def check_operand(tensor: torch.Tensor, name: str) -> None:
    """Raise an error unless a tensor is dense and on the CPU."""
    if not tensor.is_cpu:
        raise _elsewhere(tensor, name)
    check_dense(tensor, name)


def _elsewhere(tensor: torch.Tensor, name: str) -> ValueError:
    """Return the error for a tensor that is not on the CPU."""
    fixes = {
        "x": "pass x.cpu(), or use SinusoidalEncoding or RotaryEncoding, which accept any device",
        "out": "pass a CPU tensor, or do not pass out",
    }
    return ValueError(f"{name} is on {tensor.device}, but must be on the CPU; {fixes.get(name, f'pass {name}.cpu()')}")


def check_x(x: Any, name: str, start: Any = 0, inplace: bool = False, start_name: str = "start") -> None:
    """Raise an error if x or start is unsupported, or if inplace is true and x cannot be overwritten.

    name, start_name: names of the arguments in the errors.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(x).__name__}")
    if x.dtype not in DTYPES:
        raise TypeError(f"{name} must be of float64, float32, float16 or bfloat16, not {x.dtype}")
    # same as check_dense, without the call
    if x.layout is not torch.strided or x.is_nested:
        raise unreadable(x, name, "")
    if not isinstance(start, (int, torch.SymInt)) or isinstance(start, bool):
        fix = "; for other positions, pass positions" if start_name == "start" else ""
        raise TypeError(f"{start_name} must be an integer, not {start!r}{fix}")
    if type(start) is int and not -(2**63) <= start < 2**63 and not is_eager(x):
        raise ValueError(
            f"{start_name}={start} does not fit in a signed 64-bit integer, which is necessary if {name} requires "
            "gradients or is not on the CPU, and in compiled or transformed functions"
        )
    if inplace and wants_gradients(x):
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; create the module with inplace=False, or call it "
            "under torch.no_grad() if you need no gradients"
        )
    if inplace and _overlaps_itself(x):
        raise ValueError(
            f"several values of {name} share memory, as in an expanded tensor, so {name} cannot be overwritten; pass "
            f"{name}.contiguous()"
        )
    if inplace and not torch.compiler.is_compiling() and x.is_neg():
        raise ValueError(
            f"{name} is a negated view ({name}.is_neg() is True), so it cannot be overwritten; pass "
            f"{name}.resolve_neg()"
        )


def check_positions(positions: Any, x: torch.Tensor, start: Any) -> None:
    """Raise an error for positions that are not a dense tensor of real numbers, or that require gradients.

    Also raise an error if start is not 0, or if positions are neither on the CPU nor on the same type of device as x.
    """
    if not isinstance(positions, torch.Tensor):
        raise TypeError(f"positions must be a torch.Tensor, not {type(positions).__name__}")
    if positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be integers or real numbers, not {positions.dtype}")
    check_dense(positions, "positions")
    if positions.device.type != x.device.type and positions.device.type != "cpu":
        devices = "on the CPU" if x.is_cpu else f"on {x.device} or on the CPU"
        raise ValueError(f"positions is on {positions.device}, but must be {devices}; pass positions.cpu()")
    if start != 0:
        raise ValueError(f"pass positions or start={start!r}, not both")
    if wants_gradients(positions):
        refuse_gradients()
