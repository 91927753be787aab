"""Identification of a model's function that turns queries and keys, by running it, and a replacement of it.

Nothing is read off its name or its text. It is called with random numbers, and its results are compared with those of
each kind of rotation. The replacement calls the original function for all arguments that were not tried.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Literal, NamedTuple

import torch

from .._rotary.value import LAYOUTS
from ..torch import _operators as operators
from ..torch import _tensors as tensors
from ..torch._devices import made_of
from ..typing import RotaryLayout

__all__ = ["Rotation", "is_candidate", "replacement", "rotation_of"]

TURNED = (("q", "k"), ("xq", "xk"), ("query", "key"), ("x",), ("tensor",), ("hidden_states",))
COMPLEX = ("freqs_cis", "freqs_ci")
# kinds of tables that are tried, as in `posenc_fast.torch.apply_rotary_pos_emb`, and two more; as a report names them
Tables = Literal["pairs", "first half", "half", "interleaved", "complex"]
TABLES: dict[Tables, str] = {
    "pairs": "tables of a column for each pair",
    "first half": "tables whose first half is read",
    "half": "tables with both halves alike",
    "interleaved": "tables with neighbours alike",
    "complex": "complex tables",
}
PARTS = {None: "", "first": ", also the first part of a head", "last": ", also the last part of a head"}
# shapes that are tried: no two axes alike
BATCH, HEADS, LENGTH, PAIRS, REST = 2, 3, 5, 4, 6
_MISSING = object()


class _Form(NamedTuple):
    """The shapes of x and tables: their dimensions, and the axis of tables that is that of the heads."""

    x_dims: int
    table_dims: int
    heads: int


# (batch, heads, length, ..) and (batch, length, heads, ..), with tables (batch, length, ..) and (length, ..), and
# (length, heads, ..) and (heads, length, ..)
FORMS = (_Form(4, 3, 1), _Form(4, 3, 2), _Form(4, 2, 0), _Form(4, 2, 1), _Form(3, 2, 1), _Form(3, 2, 0))


class _Arguments(NamedTuple):
    """The parameters of a function, and the indices of those that turn, of tables and of unsqueeze_dim."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    turned: tuple[int, ...]
    tables: tuple[int, ...]
    heads: int | None


class Rotation(NamedTuple):
    """The rotation that a function does.

    layout: as in `Rotary`. tables: one of `TABLES`. sign: 1, or -1 for a rotation backwards. part: of a wider head, the
    part that turns; None where there are no wider ones. forms: those that were tried, each with the axis of the tokens.
    gathers: whether results are contiguous even if x is not, of heads of the width that turns and of wider ones.
    results: the type of results, by those of x and tables.
    """

    arguments: _Arguments
    layout: RotaryLayout
    tables: Tables
    sign: int
    part: str | None
    forms: dict[_Form, int]
    gathers: tuple[bool, bool]
    results: dict[tuple[torch.dtype, torch.dtype], torch.dtype]

    def __str__(self) -> str:
        backwards = "turned backwards, " if self.sign < 0 else ""
        return f"pairs {self.layout}, {backwards}{TABLES[self.tables]}{PARTS[self.part]}"


# ---- parameters -----------------------------------------------------------------------------------------------------


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):
        return None


def is_candidate(function: Any) -> bool:
    """Whether a function takes cosines and sines, and so may be one that turns."""
    if not isinstance(function, FunctionType | torch.nn.Module):
        return False
    signature = _signature(function)
    names = set(signature.parameters) if signature else set()
    return {"cos", "sin"} <= names or bool(names.intersection(COMPLEX))


def _arguments(function: Any) -> _Arguments | str:
    """Return a function's parameters, or why they are not understood."""
    signature = _signature(function)
    every = list(signature.parameters.values()) if signature else []
    names = [one.name for one in every]
    turned = next((group for group in TURNED if set(group) <= set(names)), None)
    tables = ("cos", "sin") if "cos" in names else tuple(name for name in COMPLEX if name in names)
    if turned is None or not tables:
        return f"it takes ({', '.join(names)}), of which none is known as what turns"
    # not those of keywords alone, nor *args and **kwargs
    positional = [one for one in every if one.kind <= one.POSITIONAL_OR_KEYWORD]
    known = {*turned, *tables, "unsqueeze_dim"}
    unknown = [one.name for one in positional if one.name not in known and one.default is one.empty]
    if unknown:
        return f"it also takes {', '.join(unknown)}"
    return _Arguments(
        tuple(one.name for one in positional),
        tuple(_MISSING if one.default is one.empty else one.default for one in positional),
        tuple(names.index(name) for name in turned),
        tuple(names.index(name) for name in tables),
        names.index("unsqueeze_dim") if "unsqueeze_dim" in names else None,
    )


# ---- trials ---------------------------------------------------------------------------------------------------------


class _Trial(NamedTuple):
    """A call of a function with random numbers."""

    parts: list[torch.Tensor]
    cos: torch.Tensor
    sin: torch.Tensor
    form: _Form

    @classmethod
    def of(
        cls, form: _Form, turned: int, width: int, dtype: torch.dtype, table_dtype: torch.dtype, seed: int = 0
    ) -> _Trial:
        source = torch.Generator("cpu").manual_seed(seed)
        lead = (BATCH, LENGTH)[3 - form.table_dims :]

        def numbers(*shape: int, of: torch.dtype) -> torch.Tensor:
            return torch.randn(*shape, generator=source, dtype=torch.float64, device="cpu").to(of)

        parts = []
        for heads in (HEADS, 1)[:turned]:
            axes = [LENGTH, heads] if _seq_axis(form) == -3 else [heads, LENGTH]
            parts.append(numbers(*[BATCH][: form.x_dims - 3], *axes, width, of=dtype))
        angles = numbers(*lead, PAIRS, of=torch.float64) * 3
        return cls(parts, angles.cos().to(table_dtype), angles.sin().to(table_dtype), form)

    def tables(self, kind: Tables) -> tuple[torch.Tensor, ...]:
        """Return the tables, as those of a kind of `TABLES`."""
        if kind == "complex":
            return (torch.complex(self.cos, self.sin),)
        if kind == "first half":
            return torch.cat((self.cos, self.sin * 0.7), -1), torch.cat((self.sin, self.cos * 0.3), -1)
        if kind == "half":
            return torch.cat((self.cos, self.cos), -1), torch.cat((self.sin, self.sin), -1)
        if kind == "interleaved":
            return self.cos.repeat_interleave(2, -1), self.sin.repeat_interleave(2, -1)
        return self.cos, self.sin

    def run(self, function: Any, arguments: _Arguments, kind: Tables) -> tuple[torch.Tensor, ...] | None:
        """Return a function's results; None if it fails, writes into x or tables, or has results of other shapes."""
        indices, originals = (*arguments.turned, *arguments.tables), (*self.parts, *self.tables(kind))
        copies = [tensor.clone() for tensor in originals]
        values: dict[str, Any] = dict(zip((arguments.names[i] for i in indices), copies, strict=True))
        if arguments.heads is not None:
            values[arguments.names[arguments.heads]] = self.form.heads
        try:
            results = function(**values)
            if not all(map(torch.equal, copies, originals)):
                return None
        except Exception:  # noqa: BLE001 - whatever a model's function may raise
            return None
        results = (results,) if isinstance(results, torch.Tensor) else results
        if not isinstance(results, tuple) or len(results) != len(self.parts):
            return None
        for result, x in zip(results, self.parts, strict=True):
            if not isinstance(result, torch.Tensor) or result.shape != x.shape:
                return None
        return results

    def rotated(
        self, layout: RotaryLayout, sign: int, part: str | None, result: torch.dtype
    ) -> tuple[torch.Tensor, ...]:
        """Return the results of a rotation."""
        sin = self.sin if sign > 0 else -self.sin
        return _rotated(self.parts, self.cos, sin, _seq_axis(self.form), layout, part, result)


def _seq_axis(form: _Form) -> int:
    return -2 if form.heads < form.table_dims - 1 else -3


def _alike(results: tuple[torch.Tensor, ...] | None, expected: tuple[torch.Tensor, ...]) -> bool:
    if results is None:
        return False
    for one, other in zip(results, expected, strict=True):
        # products that are rounded in the type of x, or taken in float32 whatever that is
        allowed = max(16 * torch.finfo(other.dtype).eps, 1e-5)
        if one.dtype != other.dtype or not torch.allclose(one.double(), other.double(), rtol=allowed, atol=allowed):
            return False
    return True


def rotation_of(function: Any) -> Rotation | str:
    """Return the rotation that a function does, or why it is not known."""
    arguments = _arguments(function)
    if isinstance(arguments, str):
        return arguments
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return _identified(function, arguments)


def _identified(function: Any, arguments: _Arguments) -> Rotation | str:
    kinds: list[Tables] = [kind for kind in TABLES if (kind == "complex") == (len(arguments.tables) == 1)]
    double, count = torch.float64, len(arguments.turned)
    for form, kind, layout, sign in itertools.product(FORMS, kinds, LAYOUTS, (1, -1)):
        trial = _Trial.of(form, count, 2 * PAIRS, double, double)
        results = trial.run(function, arguments, kind)
        if results is not None and _alike(results, trial.rotated(layout, sign, None, double)):
            break
    else:
        return "it does not turn pairs of random values in any way that is known"
    forms = {}
    for form in FORMS:
        trial = _Trial.of(form, count, 2 * PAIRS, double, double, 1)
        if _alike(trial.run(function, arguments, kind), trial.rotated(layout, sign, None, double)):
            forms[form] = _seq_axis(form)
    form, part = next(iter(forms)), None
    trial = _Trial.of(form, count, 2 * PAIRS + REST, double, double, 2)
    results = trial.run(function, arguments, kind)
    for tried in ("first", "last"):
        if _alike(results, trial.rotated(layout, sign, tried, double)):
            part = tried
    gathers = tuple(
        _gathers(_Trial.of(form, count, width, double, double), function, arguments, kind)
        for width in (2 * PAIRS, 2 * PAIRS + REST)
    )
    types = {}
    for dtype, table_dtype in itertools.product(tensors.DTYPES, repeat=2):
        if kind == "complex" and table_dtype not in (torch.float32, torch.float64):
            continue
        trial = _Trial.of(form, count, 2 * PAIRS, dtype, table_dtype, 3)
        results = trial.run(function, arguments, kind)
        if results is None or torch.promote_types(results[0].dtype, dtype) != results[0].dtype:
            continue
        try:
            expected = trial.rotated(layout, sign, None, results[0].dtype)
        except TypeError:
            # bfloat16 without the package ml_dtypes
            continue
        if _alike(results, expected):
            types[dtype, trial.tables(kind)[0].dtype] = results[0].dtype
    return Rotation(arguments, layout, kind, sign, part, forms, (gathers[0], gathers[1]), types)


def _gathers(trial: _Trial, function: Any, arguments: _Arguments, kind: Tables) -> bool:
    """Whether results are contiguous where x is not: what comes after may count on that."""
    strided = [x.transpose(-3, -2).contiguous().transpose(-3, -2) for x in trial.parts]
    results = trial._replace(parts=strided).run(function, arguments, kind)
    return results is not None and all(result.is_contiguous() for result in results)


# ---- replacement ----------------------------------------------------------------------------------------------------


def _rotated(
    parts: Sequence[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout,
    part: str | None,
    result: torch.dtype,
) -> tuple[torch.Tensor, ...]:
    """Return parts rotated by tables of a column for each pair, in the type of the result."""
    parts = [x if x.dtype == result else x.to(result) for x in parts]
    rest = parts[0].shape[-1] - 2 * cos.shape[-1]
    if part != "last" or not rest:
        return operators.run_rotate_by(parts, cos, sin, seq_axis, layout)
    rotated = operators.run_rotate_by([x[..., rest:] for x in parts], cos, sin, seq_axis, layout)
    return tuple([torch.cat((x[..., :rest], y), -1) for x, y in zip(parts, rotated, strict=True)])


def replacement(function: Any, rotation: Rotation) -> Callable[..., Any]:
    """Return a function in place of another, which it calls with all arguments but those that were tried."""
    names, defaults, turned_at, tables_at, heads_at = rotation.arguments
    places = {name: place for place, name in enumerate(names)}
    others = [i for i in range(len(names)) if i not in (*turned_at, *tables_at, heads_at)]
    axes = {
        (form.x_dims, form.table_dims, None if heads_at is None else form.heads): axis
        for form, axis in rotation.forms.items()
    }

    def replaced(*args: Any, **kwargs: Any) -> Any:
        # a compiler makes one loop of the model's own and what is around it
        if torch.compiler.is_compiling() or len(args) > len(names) or not places.keys() >= kwargs.keys():
            return function(*args, **kwargs)
        values = [*args, *defaults[len(args) :]]
        for name, value in kwargs.items():
            values[places[name]] = value
        for i in others:
            if values[i] is not defaults[i]:
                return function(*args, **kwargs)
        parts, tables = [values[i] for i in turned_at], [values[i] for i in tables_at]
        results = _results(rotation, parts, tables, axes, None if heads_at is None else values[heads_at])
        if results is None:
            return function(*args, **kwargs)
        return results if len(turned_at) > 1 else results[0]

    replaced.__name__ = replaced.__qualname__ = getattr(function, "__name__", type(function).__name__)
    replaced.__doc__ = function.__doc__
    replaced.__wrapped__ = function  # type: ignore[attr-defined]
    replaced.__posenc_fast__ = rotation  # type: ignore[attr-defined]
    return replaced


def _results(
    rotation: Rotation, parts: list[Any], tables: list[Any], axes: dict[tuple[int, int, int | None], int], heads: Any
) -> tuple[torch.Tensor, ...] | None:
    """Return parts rotated; None for arguments that were not tried, or that the kernel does not take."""
    x, table = parts[0], tables[0]
    for tensor in (*parts, *tables):
        if type(tensor) is not torch.Tensor or not tensor.is_cpu:
            return None
    # to ask a tensor for its shape takes as long as to compare ten
    shape, columns = x.shape, table.shape
    if table.requires_grad or (len(tables) > 1 and _unlike(tables[1], table, columns)):
        return None
    axis = axes.get((len(shape), len(columns), heads)) if heads is None or type(heads) is int else None
    result = rotation.results.get((x.dtype, table.dtype))
    if axis is None or result is None:
        return None
    pairs = columns[-1] // (1 if rotation.tables in ("pairs", "complex") else 2)
    width, length = shape[-1], columns[-2]
    if not 0 < 2 * pairs <= width or (rotation.part is None and 2 * pairs != width) or shape[axis] != length:
        return None
    if len(columns) == 3 and columns[0] != 1 and columns[0] != shape[0]:
        return None
    for part in parts[1:]:
        other = part.shape
        if len(other) != len(shape) or part.dtype != x.dtype or other[-1] != width or other[axis] != length:
            return None
        if other[0] != shape[0]:
            return None
    # who must see each operation: transforms, traces, derivatives in forward mode
    if tensors.in_transform() or any(map(tensors.has_tangent, parts)):
        return None
    rotated: tuple[torch.Tensor, ...] | None = None
    if len(shape) == 4 and result == x.dtype and (rotation.part != "last" or 2 * pairs == width):
        rotated = _few(rotation, parts, tables, (columns[0] if len(columns) == 3 else 1, length, 2 * pairs), axis)
    if rotated is None:
        pair_tables = _pair_tables(rotation, tables)
        if pair_tables is None:
            return None
        rotated = _rotated(parts, *pair_tables, axis, rotation.layout, rotation.part, result)
    return tuple([part.contiguous() for part in rotated]) if rotation.gathers[2 * pairs != width] else rotated


def _unlike(sin: torch.Tensor, cos: torch.Tensor, shape: torch.Size) -> bool:
    return bool(sin.requires_grad or sin.dtype != cos.dtype or sin.shape != shape)


def _few(
    rotation: Rotation, parts: list[Any], tables: list[Any], shape: tuple[int, ...], axis: int
) -> tuple[torch.Tensor, ...] | None:
    """Return parts of few tokens rotated, by angles that are kept for the next layer; None for other calls."""
    if math.prod(shape) > operators.ANGLES:
        return None

    def angles_of(length: int, head_dim: int, dtype: Any) -> Any:
        return made_of(tuple(tables), (rotation.tables, rotation.sign, dtype), lambda: make(dtype))

    def make(dtype: Any) -> Any:
        cos_and_sin: Any = tables
        if rotation.tables != "half" or rotation.sign < 0 or not all(table.is_contiguous() for table in tables):
            pair_tables = _pair_tables(rotation, tables)
            if pair_tables is None:
                return None
            cos_and_sin = (torch.cat((table, table), -1) for table in pair_tables)
        cos, sin = (table.view(shape) for table in cos_and_sin)
        return operators.angles_of_tables(cos, sin, dtype)

    return operators.rotate_few_by(parts, angles_of, axis % 4, rotation.layout)


def _pair_tables(rotation: Rotation, tables: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return cosines and sines of a column for each pair; None where the columns of a pair differ."""
    if rotation.tables == "complex":
        cos, sin = tables[0].real, tables[0].imag
    elif rotation.tables == "first half":
        cos, sin = (table[..., : table.shape[-1] // 2] for table in tables)
    else:
        try:
            cos, sin = (operators.columns_of_pairs(table, rotation.tables, "tables") for table in tables)
        except ValueError:
            return None
    if cos.dim() == 3 and cos.shape[0] == 1:
        cos, sin = cos[0], sin[0]
    return cos, sin if rotation.sign > 0 else -sin
