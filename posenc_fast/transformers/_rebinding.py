"""Copies of functions in which some global names mean something else, and subclasses that have such methods.

To exchange a function in its module's namespace would exchange it for every object there is. Here the code of a method
is copied with another name in the place of the function's, and the copy goes to a class of its own, which single
objects get: the name is all that is added to the namespace, and nothing that was there changes.
"""

from __future__ import annotations

import copyreg
import dis
import threading
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

__all__ = ["Rebinding", "subclass"]

_lock = threading.Lock()
# copies, by the function and what it calls: the same ones for every object of a class
_copies: dict[Any, FunctionType] = {}


class Rebinding:
    """Copies of functions that call others.

    Parameters
    ----------
    replacement : callable
        Returns the replacement of a function; None if there is none.
    """

    def __init__(self, replacement: Callable[[Any], Any]) -> None:
        self._replacement = replacement
        self._made: dict[int, tuple[Any, Any]] = {}
        self._calls: dict[int, list[Any]] = {}

    def rebound(self, function: Any) -> Any:
        """Return a function's replacement, or a copy in which what it calls is replaced; None where nothing is."""
        if id(function) not in self._made:
            # for recursive calls, direct or not
            self._made[id(function)] = function, None
            self._made[id(function)] = function, self._copy(function)
        return self._made[id(function)][1]

    def reached(self, function: Any) -> Iterator[Any]:
        """Yield a function and all that it calls, but not what replaced ones call."""
        self.rebound(function)
        waiting, seen = [function], set()
        while waiting:
            reached = waiting.pop()
            if id(reached) not in seen:
                seen.add(id(reached))
                waiting.extend(self._calls.get(id(reached), ()))
                yield reached

    def _copy(self, function: Any) -> Any:
        ours = self._replacement(function)
        if ours is not None or not isinstance(function, FunctionType):
            return ours
        space, names = function.__globals__, {}
        calls = self._calls[id(function)] = []
        for name in sorted(set(_loaded(function.__code__))):
            called = space.get(name)
            # of functions of other modules only those that are replaced themselves
            if isinstance(called, FunctionType) and called.__globals__ is not space:
                ours = self._replacement(called)
            else:
                ours = self.rebound(called)
            calls.append(called)
            if ours is not None:
                names[name] = _named(space, name, ours)
        before = function.__closure__ or ()
        cells = tuple(self._cell(cell, calls) for cell in before)
        if not names and cells == before:
            return None
        # a cell that stays is the same for each copy, and a new one is known by its contents
        kept = tuple(id(cell if new is cell else new.cell_contents) for new, cell in zip(cells, before, strict=True))
        key = function, frozenset(names.items()), kept
        return _copies.setdefault(key, _copied(function, names, cells))

    def _cell(self, cell: CellType, calls: list[Any]) -> CellType:
        """Return a closure's cell, or a new one with the copy of the function in it, as decorators have them."""
        try:
            kept = cell.cell_contents
        except ValueError:
            return cell
        if not isinstance(kept, FunctionType):
            return cell
        calls.append(kept)
        ours = self.rebound(kept)
        return cell if ours is None else CellType(ours)


def _copied(function: FunctionType, names: dict[str, str], cells: tuple[CellType, ...]) -> FunctionType:
    code = _renamed(function.__code__, names)
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, cells or None)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__doc__, copy.__module__ = function.__qualname__, function.__doc__, function.__module__
    copy.__annotations__ = function.__annotations__
    copy.__dict__.update(function.__dict__)
    return copy


def _loaded(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and functions within it read."""
    yield from _own(code)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _loaded(part)


def _own(code: CodeType) -> set[str]:
    """Return those of its own code, but not names of attributes too: both share a place in co_names."""
    globals_, attributes = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            globals_.add(step.argval)
        elif step.opcode in dis.hasname:
            attributes.add(step.argval)
    return globals_ - attributes


def _renamed(code: CodeType, names: dict[str, str]) -> CodeType:
    own = _own(code)
    parts = tuple(_renamed(part, names) if isinstance(part, CodeType) else part for part in code.co_consts)
    renamed = tuple(names.get(name, name) if name in own else name for name in code.co_names)
    return code.replace(co_names=renamed, co_consts=parts)


def _named(space: dict[str, Any], name: str, value: Any) -> str:
    """Bind a value to a free name in a namespace, or find the name that it has there, and return it."""
    with _lock:
        number, wanted = 0, f"_posenc_fast_{name}"
        while space.setdefault(wanted, value) is not value:
            number += 1
            wanted = f"_posenc_fast_{name}_{number}"
    return wanted


def subclass(cls: Any, methods: dict[str, Any]) -> type:
    """Return a subclass of the same name with other methods; copies and pickles of its objects are of cls itself."""

    def reduced(self: Any, protocol: Any) -> Any:
        _, _, *rest = cls.__reduce_ex__(self, protocol)
        # not as pickle would by itself, which takes no other class than that of the object
        return copyreg._reconstructor, (cls, object, None), *rest  # type: ignore[attr-defined]

    space = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    made: type = type(cls)(cls.__name__, (cls,), {**space, **methods, "__reduce_ex__": reduced})
    return made
