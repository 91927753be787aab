"""Tensors as arrays of the same memory and back, new memory for results, and checks of tensors."""

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

# the tensor types that there are, each with its format
DTYPES = {getattr(torch, each.name): each for each in FORMATS}
# bytes from which NumPy asks the system for huge pages, and torch does not: then most of the time goes into page faults
HUGE_PAGES_FROM = 1 << 22

# ---- who else must see a call ---------------------------------------------------------------------------------------

try:
    modes = torch._C._len_torch_dispatch_stack
    transforms = torch._C._functorch.peek_interpreter_stack
    trace = torch._C._get_tracing_state
    _is_wrapped, _functionalize = (
        torch._C._functorch.is_functorch_wrapped_tensor,
        torch._C._functorch.TransformType.Functionalize,
    )
except AttributeError:
    # names that torch does not promise to keep; without them every call is that of an operator, and errors are torch's
    modes = transforms = trace = functools.partial(int, 1)
    _functionalize = None

    def _is_wrapped(tensor: Any) -> bool:
        return False


def in_transform() -> bool:
    """Whether a transform of torch.func or a trace is under way."""
    return transforms() is not None or trace() is not None


def in_forward_mode() -> bool:
    """Whether derivatives in forward mode are under way."""
    # a name that torch does not promise to keep; to ask each tensor takes longer
    return bool(getattr(forward_ad, "_current_level", 0) >= 0)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether derivatives in forward mode go through a tensor."""
    return in_forward_mode() and forward_ad.unpack_dual(tensor).tangent is not None


def is_followed(*tensors: torch.Tensor | None) -> bool:
    """Whether a transform of torch.func, or derivatives in forward mode, must see an eager call.

    A compiler sees the operators instead, and functionalization has nothing to see in them.
    """
    if torch.compiler.is_compiling():
        return False
    transform = transforms()
    if transform is None:
        return in_forward_mode() and any(x is not None and has_tangent(x) for x in tensors)
    return _functionalize is not None and transform.key() != _functionalize


def is_plain(x: Any) -> bool:
    """Return whether x is a CPU tensor without gradients, not a subclass, whose memory holds its values."""
    return plain_address(x) is not None


def plain_address(x: Any) -> int | None:
    """Return the address of the values of x; None if x is not plain (see `is_plain`)."""
    if type(x) is not torch.Tensor or not x.is_cpu or x.requires_grad or x.is_neg() or x.is_nested:
        return None
    return _address(x)


def _address(x: torch.Tensor) -> int | None:
    """Return the address of a CPU tensor; None without memory, as of fake tensors and autograd's tensors of zeros."""
    try:
        address: int = x.data_ptr()
    except RuntimeError:
        # batches of gradients
        return None
    return address if address != 0 or x.numel() == 0 else None


def _has_memory(x: torch.Tensor) -> bool:
    """Return whether a CPU tensor has memory, which tensors that dispatch to Python do not show."""
    if type(x) is not torch.Tensor and type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    return _address(x) is not None


def needs_operator(*tensors: torch.Tensor | None) -> bool:
    """Whether a call on CPU tensors must call an operator: for a compiler, mode or trace, or tensors without memory."""
    # the compiler's other stages are modes
    if torch.compiler.is_dynamo_compiling() or modes() or trace() is not None:
        return True
    return bool(tensors) and any(x is not None and not _has_memory(x) for x in tensors)


def is_eager(*tensors: torch.Tensor | None) -> bool:
    """Whether a call can do without an operator: no compiler, mode, trace or transform has to see it, tensors are plain."""
    # the compiler's other stages are modes
    if torch.compiler.is_dynamo_compiling() or modes() or transforms() is not None or trace() is not None:
        return False
    for x in tensors:
        if x is None or is_plain(x):
            continue
        return False
    return True


def is_direct(*tensors: torch.Tensor | None) -> bool:
    """Whether a call is eager, and no derivatives in forward mode are under way: then nothing else must see it."""
    return not in_forward_mode() and is_eager(*tensors)


# ---- memory ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def numpy_type(dtype: Any, name: str) -> np.dtype[Any]:
    """Return the array type of a tensor type."""
    check_dtype(dtype, name)
    return float_type(DTYPES[dtype].name, name)


def array_of(tensor: Any, name: str, *, overwritten: bool = False) -> npt.NDArray[Any]:
    """Return the memory of a CPU tensor as an array."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
    if not tensor.is_cpu:
        raise _elsewhere(tensor, name)
    if transforms() is not None and _is_wrapped(tensor):
        raise ValueError(
            f"{name} is inside a transform of torch.func (grad, vmap, jvp, ..) and has no memory of its own"
            f"{f'; leave {name} out' if overwritten else ''}"
        )
    if overwritten and wants_gradients(tensor):
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; give other memory, or use torch.no_grad()"
        )
    if tensor.is_neg():
        if overwritten:
            raise ValueError(
                f"{name} is the negative of what its memory holds, as the imaginary part of a conjugate is, and cannot be "
                "overwritten; give other memory"
            )
        tensor = tensor.resolve_neg()
    if tensor.requires_grad:
        tensor = tensor.detach()
    as_numpy = numpy_type(tensor.dtype, name) if tensor.dtype == torch.bfloat16 else None
    try:
        array = tensor.numpy() if as_numpy is None else tensor.view(torch.int16).numpy().view(as_numpy)
    except (TypeError, RuntimeError) as error:
        raise unreadable(tensor, name, error) from None
    if overwritten and _overlaps_itself(tensor):
        raise ValueError(
            f"{name} has strides {tensor.stride()}: several of its values are one and cannot be overwritten; "
            f"give {name}.contiguous()"
        )
    return array  # type: ignore[no-any-return]


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return the memory of an array as a tensor."""
    # the size first, as the format takes longer to find
    if array.itemsize == 2 and kind_of(array.dtype) == BFLOAT16.kind:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def new_like(x: torch.Tensor, device: str | None = None) -> torch.Tensor:
    """Return a new tensor with the axes of x in the same order in memory, but contiguous rows."""
    # half a microsecond less where no device is named
    like = torch.empty_like(x) if device is None else torch.empty_like(x, device=device)
    # stride() takes half the time of stride(-1)
    return like if like.stride()[-1] == 1 else torch.empty(x.shape, dtype=x.dtype, device=like.device)


def result_for(x: torch.Tensor) -> torch.Tensor | None:
    """Return the same, on huge pages if it is large; None where a new array would be the same."""
    if x.is_contiguous():
        return None
    if x.numel() * x.element_size() < HUGE_PAGES_FROM:
        return new_like(x)
    like = new_like(x, "meta")
    memory = torch.from_numpy(empty((x.numel() * x.element_size(),), np.dtype(np.uint8)))
    return memory.view(x.dtype).as_strided(like.shape, like.stride())


def on_cpu(x: torch.Tensor) -> bool:
    """Whether the kernel can read a tensor."""
    return bool(x.is_cpu)


def has_strided_rows(x: torch.Tensor) -> bool:
    """Whether the values of a row of a CPU tensor are not contiguous, so that the kernel cannot write them."""
    return on_cpu(x) and x.stride(-1) != 1


def workers(x: torch.Tensor) -> int | None:
    """Return as many threads as torch has, where x is large enough for them: to ask takes longer than a token."""
    threads = torch.get_num_threads() if x.numel() >= WORTH_A_THREAD else 1
    return None if threads == 1 else threads


def relative_spacing(tensor: torch.Tensor) -> float:
    """Return the distance from 1 to the next number of a tensor's type; 0 for integers."""
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Whether several values share memory, as those of an expanded tensor: an axis steps into those within it."""
    if x.is_contiguous() or x.numel() == 0:
        return False
    end = 1
    for stride, count in sorted((stride, n) for stride, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride < end:
            return True
        end += stride * (count - 1)
    return False


# ---- checks ---------------------------------------------------------------------------------------------------------


def wants_gradients(tensor: torch.Tensor) -> bool:
    """Whether autograd would follow an operation on a tensor."""
    return bool(tensor.requires_grad and torch.is_grad_enabled())


def refuse_gradients() -> NoReturn:
    """Raise the error of positions whose derivatives would be lost."""
    raise ValueError(
        "positions requires gradients, or has a tangent, which do not go through it; give positions.detach()"
    )


def check_dtype(dtype: Any, name: str) -> None:
    """Refuse a dtype of results that posenc_fast does not compute."""
    if dtype not in DTYPES:
        raise TypeError(f"{name} must be one of {', '.join(map(str, DTYPES))}, not {dtype!r}")


def check_dense(tensor: torch.Tensor, name: str) -> None:
    """Refuse sparse and nested tensors, whose shapes and strides cannot be asked for."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise unreadable(tensor, name, "")


def check_operand(tensor: torch.Tensor, name: str) -> None:
    """Refuse what an operator cannot take in place of the memory of a CPU tensor."""
    if not tensor.is_cpu:
        raise _elsewhere(tensor, name)
    check_dense(tensor, name)


def _elsewhere(tensor: torch.Tensor, name: str) -> ValueError:
    """Return the error for a tensor on another device."""
    return ValueError(
        f"{name} is on {tensor.device}, but must be on the CPU: give {name}.cpu(); the modules work on any device"
    )


def check_x(x: Any, name: str, start: Any = 0, inplace: bool = False, start_name: str = "start") -> None:
    """Refuse what no operator takes: other types, starts that are no integers, what cannot be differentiated or written."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(x).__name__}")
    if x.dtype not in DTYPES:
        raise TypeError(f"{name} must be of float64, float32, float16 or bfloat16, not of {x.dtype}")
    # as check_dense, without the call
    if x.layout is not torch.strided or x.is_nested:
        raise unreadable(x, name, "")
    if not isinstance(start, (int, torch.SymInt)) or isinstance(start, bool):
        raise TypeError(f"{start_name} must be an integer, not {start!r}; give positions of any kind as such")
    if type(start) is int and not -(2**63) <= start < 2**63 and not is_eager(x):
        raise ValueError(f"{start_name}={start} is no integer of 64 bits, which gradients and other devices need")
    if inplace and wants_gradients(x):
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; use inplace=False, or torch.no_grad() where no "
            "gradients are wanted"
        )
    if inplace and _overlaps_itself(x):
        raise ValueError(f"{name} is expanded, several of its values are one and cannot be overwritten; give a copy")
    if inplace and not torch.compiler.is_compiling() and x.is_neg():
        raise ValueError(
            f"{name} is the negative of what its memory holds, as the imaginary part of a conjugate is, and cannot be "
            "overwritten; give a copy"
        )


def check_positions(positions: Any, x: torch.Tensor, start: Any) -> None:
    """Refuse positions that are no real tensor, on another device than x, or beside a start."""
    if not isinstance(positions, torch.Tensor):
        raise TypeError(f"positions must be a torch.Tensor, not {type(positions).__name__}")
    if positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be integers or real numbers, not {positions.dtype}")
    check_dense(positions, "positions")
    if positions.device.type != x.device.type and positions.device.type != "cpu":
        raise ValueError(f"positions is on {positions.device}, but must be on {x.device} or on the CPU")
    if start != 0:
        raise ValueError(f"positions excludes start={start!r}; leave one side out")
    if wants_gradients(positions):
        refuse_gradients()
