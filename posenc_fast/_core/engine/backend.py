"""Choose the engine: the compiled kernel at one instruction-set level, or the NumPy engine."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import os
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple, get_args

from ...typing import Backend, Isa
from ..numbers.names import one_of

BACKENDS: tuple[Backend, ...] = get_args(Backend)
ISAS: tuple[Isa, ...] = get_args(Isa)
VARIABLE, ISA_VARIABLE = "POSENC_FAST_BACKEND", "POSENC_FAST_ISA"

kernel: ModuleType | None = None
reason = ""
try:
    kernel = importlib.import_module("posenc_fast._kernel")
except ImportError as error:
    reason = str(error)
# number of bytes of the last-level cache, or 0 if it is unknown
CACHE_SIZE: int = kernel.CACHE_SIZE if kernel is not None else 0


class Engine(NamedTuple):
    """A module that computes, and the instruction-set level that it uses.

    backend is the name of the engine. level is the index of the level in `isa_levels`, and isa is the name of the
    level. For the NumPy engine, level is 0 and isa is None.
    """

    module: ModuleType
    backend: Backend
    level: int
    isa: Isa | None


_chosen: contextvars.ContextVar[Engine | None] = contextvars.ContextVar("posenc_fast_engine", default=None)
_default: Engine | None = None


def isa_levels() -> tuple[Isa, ...]:
    """Return the instruction-set levels that this build and this machine support, slowest first.

    The tuple is empty without the compiled kernel.

    Returns
    -------
    tuple of str
        A subset of "baseline", "avx2", "avx512" on x86-64, "neon" on 64-bit ARM, "baseline" elsewhere.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> isinstance(pf.isa_levels(), tuple)
    True
    """
    return tuple(kernel.LEVELS) if kernel is not None else ()


def select(name: str, isa: str | None = None, *, caller: str = "use_backend") -> Engine:
    """Return the engine with this name at the level isa (default: the fastest).

    Raise ValueError for an unknown name or isa, and if the python engine is given a level. Raise RuntimeError with the
    reason if the engine or level is unavailable. Messages begin with the caller. The caller "" means that name and isa
    come from the environment variables. Then messages begin with the name of the variable concerned, and the argument
    name may also be "auto", which means "cython".
    """
    one_of(name, f"{caller or VARIABLE}: the backend", BACKENDS if caller else ("auto", *BACKENDS))
    if isa is not None:
        one_of(isa, f"{caller or ISA_VARIABLE}: isa", ISAS)
    if name == "auto":
        name = "cython"
    origin = caller or (VARIABLE if isa is None else ISA_VARIABLE)
    if name == "python":
        if isa is not None:
            fix = f"omit isa={isa!r}" if caller else f"unset {ISA_VARIABLE} (now {isa!r}), or set {VARIABLE}=cython"
            raise ValueError(f"{origin}: the python backend has no instruction-set levels; {fix}")
        from . import python

        return Engine(python, "python", 0, None)
    if kernel is None:
        raise RuntimeError(
            f"{origin}: the cython backend is unavailable: {reason}. Install a C compiler, then reinstall posenc_fast"
        )
    levels = isa_levels()
    if isa is None:
        isa = levels[-1]
    if isa not in levels:
        raise RuntimeError(
            f"{origin}: isa {isa!r} is unavailable on this machine or in this build; the available levels are {levels}"
        )
    return Engine(kernel, "cython", levels.index(isa), isa)


def _from_environment() -> Engine:
    name = os.environ.get(VARIABLE, "") or "auto"
    isa = os.environ.get(ISA_VARIABLE, "") or None
    if name == "auto" and kernel is None and isa is None:
        warnings.warn(
            f"posenc_fast runs in pure Python, many times slower: the compiled kernel is unavailable ({reason}). "
            f"Install a C compiler and reinstall, or set {VARIABLE}=python if this is intended.",
            RuntimeWarning,
            stacklevel=2,
        )
        return select("python")
    if name in ("auto", "cython") and isa is None and kernel is not None and kernel.MISSED:
        warnings.warn(
            f"posenc_fast runs at the level {kernel.LEVELS[-1]!r}, slower than this CPU allows: the build omitted "
            f"{', '.join(kernel.MISSED)}, because the compiler does not support it. Reinstall with a newer compiler, "
            f"or set {ISA_VARIABLE}={kernel.LEVELS[-1]} if this is intended.",
            RuntimeWarning,
            stacklevel=2,
        )
    return select(name, isa, caller="")


def current() -> Engine:
    """Return the engine that is active in this context."""
    global _default
    engine = _chosen.get()
    if engine is None:
        engine = _default
        if engine is None:
            engine = _default = _from_environment()
    return engine


def backend() -> Backend:
    """Return the name of the backend that is active in this context.

    Returns
    -------
    str
        "cython" for the compiled kernel, "python" for pure Python (NumPy).

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.backend() in ("cython", "python")
    True
    """
    return current().backend


def isa() -> Isa | None:
    """Return the instruction-set level of the kernel in this context, or None for the python backend.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.isa() in (*pf.isa_levels(), None)
    True
    """
    return current().isa


@contextlib.contextmanager
def use_backend(name: Backend, isa: Isa | None = None) -> Iterator[None]:
    """Compute with one backend inside a ``with`` block.

    The choice applies to the current context (`contextvars`). Tasks that were created before are not affected. A thread
    is affected only if it runs in a copy of this context. To choose for a whole process, set the environment variables
    POSENC_FAST_BACKEND ("auto", "cython" or "python") and POSENC_FAST_ISA before the first call of posenc_fast.

    Parameters
    ----------
    name : {"cython", "python"}
        Compiled kernel, or pure Python.
    isa : str, optional
        One of `isa_levels` (default: the fastest).

    Raises
    ------
    ValueError
        If the backend or level does not exist, or isa is given for the backend "python", which has no levels.
    RuntimeError
        If the backend or level is unavailable here. The message gives the reason.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> with pf.use_backend("python"):
    ...     pf.backend()
    'python'
    """
    token = _chosen.set(select(name, isa))
    try:
        yield
    finally:
        _chosen.reset(token)
