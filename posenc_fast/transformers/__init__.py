"""Loaded models of Hugging Face's transformers: their position encodings checked, and their rotation faster on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType, TracebackType
from typing import Any, Self

try:
    import torch
except ImportError as error:
    raise ImportError("posenc_fast.transformers needs the package torch: pip install 'posenc-fast[torch]'") from error

from . import _sinusoids as sinusoids
from ._check import check
from ._rebinding import Rebinding, subclass
from ._rotations import Rotation, is_candidate, replacement, rotation_of

__all__ = ["Line", "Report", "accelerate", "check"]


def __dir__() -> list[str]:
    return sorted(__all__)


_lock = threading.RLock()
# of each function its rotation, or why it is left, and its replacement
_functions: dict[Any, tuple[Rotation | str, Callable[..., Any] | None]] = {}
# subclasses with replaced methods, by the class and these methods
_classes: dict[tuple[type, frozenset[Any]], type] = {}


@dataclass(frozen=True)
class Line:
    """The outcome for one function of one module of a model.

    Parameters
    ----------
    module, kind : str
        The module's name in the model, and that of its class.
    function : str
        What the module calls.
    replaced : bool
        Whether it calls ours now.
    why : str
        What the function was found to do, or why it was left.
    """

    module: str
    kind: str
    function: str
    replaced: bool
    why: str

    def __str__(self) -> str:
        return (
            f"{'replaced' if self.replaced else 'left    '}  {self.module} ({self.kind}): {self.function}: {self.why}"
        )


class Report:
    """The outcome of `accelerate`, line by line, and the way back.

    As a context manager it goes back at the end.

    Attributes
    ----------
    lines : tuple of Line
        One for each such function in each module that calls one, and for each module of a sinusoidal encoding.

    Examples
    --------
    >>> import torch
    >>> from posenc_fast.transformers import accelerate
    >>> print(accelerate(torch.nn.Linear(2, 2)))
    nothing to replace: no module calls a function that takes cosines and sines
    """

    def __init__(self, lines: list[Line], undone: list[Callable[[], str | None]]) -> None:
        self.lines = tuple(lines)
        self._undone = undone

    @property
    def replaced(self) -> tuple[Line, ...]:
        """The lines of what was replaced."""
        return tuple(line for line in self.lines if line.replaced)

    @property
    def left(self) -> tuple[Line, ...]:
        """The lines of what was left."""
        return tuple(line for line in self.lines if not line.replaced)

    def undo(self) -> None:
        """Restore the model bit for bit; another call does nothing.

        Raises
        ------
        RuntimeError
            Where somebody else has changed the class or the method of a module since; everything else is undone.
        """
        with _lock:
            problems = [problem for problem in (undo() for undo in self._undone) if problem]
            self._undone = []
        if problems:
            raise RuntimeError(f"{', '.join(problems)}: changed by somebody else since; take that back first")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __str__(self) -> str:
        if not self.lines:
            return "nothing to replace: no module calls a function that takes cosines and sines"
        return "\n".join(map(str, self.lines))

    def __repr__(self) -> str:
        return f"<Report: {len(self.replaced)} replaced, {len(self.left)} left>"


def accelerate(model: torch.nn.Module) -> Report:
    """Let this package rotate the queries and keys of a loaded model, wherever a trial gives the same results.

    Each function that a module calls with cosines and sines is run on random numbers first: which values are pairs, in
    which direction they turn, how tables are laid out, and which types come out. It is replaced if a rotation gives the
    same, and else left. Ours hands back to it whatever was not tried: other shapes and types, tensors that are not on
    the CPU, tables that learn, or that do not turn pairs, and what `torch.func` transforms.

    Parameters
    ----------
    model : torch.nn.Module
        A model of transformers, or of remote code that is built alike. It is changed in place, and no other model is,
        of the same class or not. Weights, names and classes' names stay; copies of it are as it was.

    Returns
    -------
    Report
        A line for each module that calls such a function. ``report.undo()`` makes the model what it was; so does
        the end of ``with accelerate(model):``.

    Raises
    ------
    TypeError
        When model is none.

    Notes
    -----
    Results are rounded once, so they differ from the model's own in the last places. Training, ``generate()``,
    and several models at a time work as before, and a second call replaces nothing twice. In what `torch.compile` makes
    the model's own function stays, since a compiler makes one loop of it and of what is around it.

    A module that computes sinusoidal rows at each call (Pegasus-X) gets them from this package, of the same float32 angles.
    One that reads them from a ready table is left: reading takes no longer than computing, checkpoints may have the table,
    and exact values would not be those that the model was trained with.

    The kernels that transformers maps to its functions by name (``use_kernels=True``) are not used for this: such a
    mapping holds for every model of a process, and does not ask whether two functions of a name do the same.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> config = LlamaConfig(hidden_size=64, intermediate_size=64, vocab_size=99, num_hidden_layers=1)
    >>> model = LlamaForCausalLM(config)
    >>> with accelerate(model) as report:
    ...     print(report)
    replaced  model.layers.0.self_attn (LlamaAttention): apply_rotary_pos_emb: pairs half, tables with both halves alike
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    with _lock:
        work = _Work()
        for name, module in model.named_modules():
            work.visit(name, module)
    return Report(work.lines, work.undone)


class _Work:
    """One call of accelerate."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.undone: list[Callable[[], str | None]] = []
        self._rebinding = Rebinding(_replacement)
        # of each class: replacements of its methods, and the candidates that its own methods call
        self._of_class: dict[type, tuple[dict[str, Any], list[Any]]] = {}

    def visit(self, name: str, module: torch.nn.Module) -> None:
        """Replace what a module calls."""
        cls = type(module)
        if cls not in self._of_class:
            self._of_class[cls] = self._methods(cls)
        methods, called = self._of_class[cls]
        called = list(called)
        if methods:
            key = cls, frozenset(methods.items())
            if key not in _classes:
                _classes[key] = subclass(cls, methods)
            self._exchange_class(name, module, _classes[key])
        # attributes of the object itself, as hooks set them in place of methods
        for attribute, value in list(vars(module).items()):
            if isinstance(value, MethodType) and value.__self__ is module:
                function = self._rebound(value.__func__, called)
                ours = None if function is None else MethodType(function, module)
            elif isinstance(value, FunctionType):
                ours = self._rebound(value, called)
            else:
                continue
            if ours is not None:
                self._exchange_attribute(name, module, attribute, ours)
        if sinusoids.is_candidate(module):
            self._visit_sinusoids(name, module)
        for function in dict.fromkeys(called):
            title, rotation = getattr(function, "__name__", type(function).__name__), _known(function)[0]
            self.lines.append(Line(name, cls.__name__, title, isinstance(rotation, Rotation), str(rotation)))

    def _visit_sinusoids(self, name: str, module: torch.nn.Module) -> None:
        cls, encoding = type(module), sinusoids.encoding_of(module)
        if not isinstance(encoding, str):
            key = cls, frozenset([encoding])
            if key not in _classes:
                _classes[key] = subclass(cls, {"forward": sinusoids.replacement(cls.forward, encoding)})
            self._exchange_class(name, module, _classes[key])
            why = f"sines and cosines of {encoding.d_model} columns, in float32 arithmetic"
            self.lines.append(Line(name, cls.__name__, "forward", True, why))
        else:
            self.lines.append(Line(name, cls.__name__, "forward", False, encoding))

    def _methods(self, cls: type) -> tuple[dict[str, Any], list[Any]]:
        methods: dict[str, Any] = {}
        called: list[Any] = []
        # methods that run before there is an object
        seen = {"__init__", "__new__"}
        for base in cls.__mro__:
            if base is torch.nn.Module:
                break
            for attribute, value in vars(base).items():
                function = value.__func__ if isinstance(value, staticmethod) else value
                if attribute in seen or not isinstance(function, FunctionType):
                    continue
                seen.add(attribute)
                ours = self._rebound(function, called)
                if ours is not None:
                    methods[attribute] = ours if function is value else staticmethod(ours)
        return methods, called

    def _rebound(self, function: Any, called: list[Any]) -> Any:
        ours = self._rebinding.rebound(function)
        called.extend(one for one in self._rebinding.reached(function) if is_candidate(one))
        return ours

    def _exchange_class(self, name: str, module: torch.nn.Module, ours: type) -> None:
        theirs = type(module)
        module.__class__ = ours

        def undo() -> str | None:
            if type(module) is not ours:
                return name
            module.__class__ = theirs
            return None

        self.undone.append(undo)

    def _exchange_attribute(self, name: str, module: torch.nn.Module, attribute: str, ours: Any) -> None:
        theirs = vars(module)[attribute]
        vars(module)[attribute] = ours

        def undo() -> str | None:
            if vars(module).get(attribute) is not ours:
                return f"{name}.{attribute}"
            vars(module)[attribute] = theirs
            return None

        self.undone.append(undo)


def _known(function: Any) -> tuple[Rotation | str, Callable[..., Any] | None]:
    """Return the rotation that a function does and its replacement, or why it is left and None."""
    if hasattr(function, "__posenc_fast__"):
        return "it is ours already", None
    # where a module wraps the function, its method may be exchanged
    method = getattr(function, "forward", None)
    key = function, getattr(method, "__func__", method)
    if key not in _functions:
        rotation = rotation_of(function)
        _functions[key] = rotation, None if isinstance(rotation, str) else replacement(function, rotation)
    return _functions[key]


def _replacement(function: Any) -> Callable[..., Any] | None:
    """Return the replacement of a function that turns; None for all others."""
    return _known(function)[1] if is_candidate(function) else None
