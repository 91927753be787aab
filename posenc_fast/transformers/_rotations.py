"""What a model's function that turns queries and keys does, found by running it; and one of ours in its place.

Nothing is read off its name or its text. It is called with random numbers, and what comes out is compared with what
each kind of rotation would make of them. The replacement hands whatever was not tried to the function it replaces.
"""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd import forward_ad

from .._rotary.turning import with_plain_nans
from .._rotary.value import LAYOUTS
from ..torch import _memory as memory
from ..torch import _transforms as transforms
from ..torch._by_tables import TABLES as COLUMNS
from ..torch._by_tables import pairs_of, turn_all_by
from ..torch._kept import made_of
from ..torch._short import by_rows, side_by_side
from ..typing import RotaryLayout

__all__ = ["Rotation", "is_candidate", "replacement", "rotation_of"]

TURNED = (("q", "k"), ("xq", "xk"), ("query", "key"), ("x",), ("tensor",), ("hidden_states",))
COMPLEX = ("freqs_cis", "freqs_ci")
# tables: a column for each pair; only the first half of a row is read; both halves; neighbours; complex numbers
FIRST_HALF, COMPLEX_TABLE = "first half", "complex"
TABLES = (COLUMNS[2], FIRST_HALF, COLUMNS[0], COLUMNS[1], COMPLEX_TABLE)
# shapes that are tried: no two axes alike
BATCH, HEADS, LENGTH, PAIRS, REST = 2, 3, 5, 4, 6
_MISSING = object()


class _Form(NamedTuple):
    """How x and tables lie: their dimensions, and which axis of tables is that of the heads."""

    x_dims: int
    table_dims: int
    heads: int


# (batch, heads, length, ..) and (batch, length, heads, ..), with tables (batch, length, ..) and (length, ..), and
# (length, heads, ..) and (heads, length, ..)
FORMS = (_Form(4, 3, 1), _Form(4, 3, 2), _Form(4, 2, 0), _Form(4, 2, 1), _Form(3, 2, 1), _Form(3, 2, 0))


class _Arguments(NamedTuple):
    """Which parameters of a function are what."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    turned: tuple[int, ...]
    tables: tuple[int, ...]
    heads: int | None


class Rotation(NamedTuple):
    """What a function does.

    Of `LAYOUTS`, of `TABLES`, 1 or -1; which part of a wider head turns, if there may be one; whether the keys may be
    left out; the forms that were tried, each with the axis of the tokens; whether results are contiguous even if x is not, of
    heads of the width that turns and of wider ones; and the type that comes out of those of x and tables.
    """

    arguments: _Arguments
    layout: RotaryLayout
    tables: str
    sign: int
    part: str | None
    forms: dict[_Form, int]
    gathers: tuple[bool, bool]
    results: dict[tuple[torch.dtype, torch.dtype], torch.dtype]

    def __str__(self) -> str:
        tables = {
            COLUMNS[2]: "tables of a column for each pair",
            FIRST_HALF: "tables whose first half is read",
            COLUMNS[0]: "tables with both halves alike",
            COLUMNS[1]: "tables with neighbours alike",
            COMPLEX_TABLE: "complex tables",
        }[self.tables]
        part = {None: "", "first": ", also the first part of a head", "last": ", also the last part of a head"}[
            self.part
        ]
        return f"pairs {self.layout}, {'turned backwards, ' if self.sign < 0 else ''}{tables}{part}"


# ---- what a function is given ---------------------------------------------------------------------------------------


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
    """Its parameters, or why they are not understood."""
    signature = _signature(function)
    parameters = list(signature.parameters.values()) if signature else []
    names = [one.name for one in parameters]
    turned = next((group for group in TURNED if set(group) <= set(names)), None)
    tables = ("cos", "sin") if "cos" in names else tuple(name for name in COMPLEX if name in names)
    if turned is None or not tables:
        return f"it takes ({', '.join(names)}), of which none is known as what turns"
    heads = "unsqueeze_dim"
    known = {*turned, *tables, heads}
    more = [one.name for one in parameters if one.name not in known and one.default is one.empty and one.kind < 2]
    if more:
        return f"it also takes {', '.join(more)}"
    return _Arguments(
        tuple(one.name for one in parameters if one.kind < 2),
        tuple(_MISSING if one.default is one.empty else one.default for one in parameters if one.kind < 2),
        tuple(names.index(name) for name in turned),
        tuple(names.index(name) for name in tables),
        names.index(heads) if heads in names else None,
    )


# ---- what it does ---------------------------------------------------------------------------------------------------


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
            where = [LENGTH, heads] if _seq_axis(form) == -3 else [heads, LENGTH]
            parts.append(numbers(*[BATCH][: form.x_dims - 3], *where, width, of=dtype))
        angles = numbers(*lead, PAIRS, of=torch.float64) * 3
        return cls(parts, angles.cos().to(table_dtype), angles.sin().to(table_dtype), form)

    def tables(self, arrangement: str) -> tuple[torch.Tensor, ...]:
        if arrangement == COMPLEX_TABLE:
            return (torch.complex(self.cos, self.sin),)
        if arrangement == FIRST_HALF:
            return torch.cat((self.cos, self.sin * 0.7), -1), torch.cat((self.sin, self.cos * 0.3), -1)
        if arrangement == COLUMNS[0]:
            return torch.cat((self.cos, self.cos), -1), torch.cat((self.sin, self.sin), -1)
        if arrangement == COLUMNS[1]:
            return self.cos.repeat_interleave(2, -1), self.sin.repeat_interleave(2, -1)
        return self.cos, self.sin

    def run(self, function: Any, arguments: _Arguments, arrangement: str) -> tuple[torch.Tensor, ...] | None:
        """What the function makes of it; None if it fails, or gives something else than tensors of these shapes."""
        places = (*arguments.turned, *arguments.tables)
        # copies, in case it writes into what it is given
        tensors = [part.clone() for part in (*self.parts, *self.tables(arrangement))]
        values: dict[str, Any] = dict(zip((arguments.names[i] for i in places), tensors, strict=True))
        if arguments.heads is not None:
            values[arguments.names[arguments.heads]] = self.form.heads
        try:
            found = function(**values)
            if not all(map(torch.equal, tensors, (*self.parts, *self.tables(arrangement)))):
                return None
        except Exception:  # noqa: BLE001 - whatever a model's function may raise
            return None
        found = (found,) if isinstance(found, torch.Tensor) else found
        if not isinstance(found, tuple) or len(found) != len(self.parts):
            return None
        for part, x in zip(found, self.parts, strict=True):
            if not isinstance(part, torch.Tensor) or part.shape != x.shape:
                return None
        return found

    def turned(
        self, layout: RotaryLayout, sign: int, part: str | None, result: torch.dtype
    ) -> tuple[torch.Tensor, ...]:
        """What a rotation makes of it."""
        return _turn(
            self.parts, self.cos, self.sin if sign > 0 else -self.sin, _seq_axis(self.form), layout, part, result
        )


def _seq_axis(form: _Form) -> int:
    return -2 if form.heads < form.table_dims - 1 else -3


def _alike(found: tuple[torch.Tensor, ...] | None, ours: tuple[torch.Tensor, ...]) -> bool:
    if found is None:
        return False
    for theirs, mine in zip(found, ours, strict=True):
        # products that are rounded in the type of x, or taken in float32 whatever that is
        allowed = max(16 * torch.finfo(mine.dtype).eps, 1e-5)
        if theirs.dtype != mine.dtype or not torch.allclose(theirs.double(), mine.double(), rtol=allowed, atol=allowed):
            return False
    return True


def rotation_of(function: Any) -> Rotation | str:
    """What a function does, or why that is not known."""
    arguments = _arguments(function)
    if isinstance(arguments, str):
        return arguments
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return _found(function, arguments)


def _found(function: Any, arguments: _Arguments) -> Rotation | str:
    tables = TABLES[:-1] if len(arguments.tables) == 2 else TABLES[-1:]
    double, count = torch.float64, len(arguments.turned)
    for form, arrangement, layout, sign in itertools.product(FORMS, tables, LAYOUTS, (1, -1)):
        trial = _Trial.of(form, count, 2 * PAIRS, double, double)
        theirs = trial.run(function, arguments, arrangement)
        if theirs is not None and _alike(theirs, trial.turned(layout, sign, None, double)):
            break
    else:
        return "it does not turn pairs of random values in any way that is known"
    forms = {}
    for form in FORMS:
        trial = _Trial.of(form, count, 2 * PAIRS, double, double, 1)
        if _alike(trial.run(function, arguments, arrangement), trial.turned(layout, sign, None, double)):
            forms[form] = _seq_axis(form)
    part = None
    wide = _Trial.of(next(iter(forms)), count, 2 * PAIRS + REST, double, double, 2)
    theirs = wide.run(function, arguments, arrangement)
    for tried in ("first", "last"):
        if _alike(theirs, wide.turned(layout, sign, tried, double)):
            part = tried
    gathers = tuple(
        _gathers(_Trial.of(next(iter(forms)), count, width, double, double), function, arguments, arrangement)
        for width in (2 * PAIRS, 2 * PAIRS + REST)
    )
    results = {}
    for dtype, table_dtype in itertools.product(memory.DTYPES, repeat=2):
        if arrangement == COMPLEX_TABLE and table_dtype not in (torch.float32, torch.float64):
            continue
        trial = _Trial.of(next(iter(forms)), count, 2 * PAIRS, dtype, table_dtype, 3)
        theirs = trial.run(function, arguments, arrangement)
        if theirs is None or torch.promote_types(theirs[0].dtype, dtype) != theirs[0].dtype:
            continue
        try:
            ours = trial.turned(layout, sign, None, theirs[0].dtype)
        except TypeError:
            # bfloat16 without the package ml_dtypes
            continue
        if _alike(theirs, ours):
            results[dtype, trial.tables(arrangement)[0].dtype] = theirs[0].dtype
    return Rotation(arguments, layout, arrangement, sign, part, forms, (gathers[0], gathers[1]), results)


def _gathers(trial: _Trial, function: Any, arguments: _Arguments, arrangement: str) -> bool:
    """Whether results are contiguous where x is not: what comes after may count on that."""
    apart = [x.transpose(-3, -2).contiguous().transpose(-3, -2) for x in trial.parts]
    found = trial._replace(parts=apart).run(function, arguments, arrangement)
    return found is not None and all(part.is_contiguous() for part in found)


# ---- ours in its place ----------------------------------------------------------------------------------------------


def _turn(
    parts: Sequence[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout,
    part: str | None,
    result: torch.dtype,
) -> tuple[torch.Tensor, ...]:
    """Parts turned by tables of a column for each pair."""
    given = [x if x.dtype == result else x.to(result) for x in parts]
    rest = given[0].shape[-1] - 2 * cos.shape[-1]
    if part != "last" or not rest:
        return turn_all_by(given, cos, sin, seq_axis, layout)
    turned = turn_all_by([x[..., rest:] for x in given], cos, sin, seq_axis, layout)
    return tuple([torch.cat((x[..., :rest], y), -1) for x, y in zip(given, turned, strict=True)])


def replacement(function: Any, what: Rotation) -> Callable[..., Any]:
    """Ours, which calls the function itself for what was not tried."""
    names, defaults, turned_at, tables_at, heads_at = what.arguments
    places = {name: place for place, name in enumerate(names)}
    others = [i for i in range(len(names)) if i not in (*turned_at, *tables_at, heads_at)]
    axes = {
        (form.x_dims, form.table_dims, None if heads_at is None else form.heads): axis
        for form, axis in what.forms.items()
    }

    def ours(*args: Any, **kwargs: Any) -> Any:
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
        turned = _turned(what, parts, tables, axes, None if heads_at is None else values[heads_at])
        if turned is None:
            return function(*args, **kwargs)
        return turned if len(turned_at) > 1 else turned[0]

    ours.__name__ = ours.__qualname__ = getattr(function, "__name__", type(function).__name__)
    ours.__doc__ = function.__doc__
    ours.__wrapped__ = function  # type: ignore[attr-defined]
    ours.__posenc_fast__ = what  # type: ignore[attr-defined]
    return ours


def _turned(
    what: Rotation, parts: list[Any], tables: list[Any], axes: dict[tuple[int, int, int | None], int], heads: Any
) -> tuple[torch.Tensor, ...] | None:
    """Parts turned; None for what was not tried, or is nothing for us."""
    x, table = parts[0], tables[0]
    for tensor in (*parts, *tables):
        if type(tensor) is not torch.Tensor or not tensor.is_cpu:
            return None
    # to ask a tensor for its shape takes as long as to compare ten
    shape, columns = x.shape, table.shape
    if table.requires_grad or (len(tables) > 1 and _unlike(tables[1], table, columns)):
        return None
    axis = axes.get((len(shape), len(columns), heads)) if heads is None or type(heads) is int else None
    result = what.results.get((x.dtype, table.dtype))
    if axis is None or result is None:
        return None
    pairs = columns[-1] // (1 if what.tables in (COLUMNS[2], COMPLEX_TABLE) else 2)
    width, length = shape[-1], columns[-2]
    if not 0 < 2 * pairs <= width or (what.part is None and 2 * pairs != width) or shape[axis] != length:
        return None
    if len(columns) == 3 and columns[0] != 1 and columns[0] != shape[0]:
        return None
    for part in parts[1:]:
        other = part.shape
        if len(other) != len(shape) or part.dtype != x.dtype or other[-1] != width or other[axis] != length:
            return None
        if other[0] != shape[0]:
            return None
    if _watched(parts):
        return None
    turned: tuple[torch.Tensor, ...] | None = None
    if len(shape) == 4 and result == x.dtype and (what.part != "last" or 2 * pairs == width):
        turned = _few(what, parts, tables, (columns[0] if len(columns) == 3 else 1, length, 2 * pairs), axis)
    if turned is None:
        each = _columns(what, tables)
        if each is None:
            return None
        cos, sin = each
        turned = _turn(parts, cos, sin if what.sign > 0 else -sin, axis, what.layout, what.part, result)
    return tuple([part.contiguous() for part in turned]) if what.gathers[2 * pairs != width] else turned


def _few(
    what: Rotation, parts: list[Any], tables: list[Any], shape: tuple[int, ...], axis: int
) -> tuple[torch.Tensor, ...] | None:
    """The same of few tokens, whose angles are kept for the next layer; None where that is no usual call."""

    def angles(dtype: Any) -> Any:
        return made_of(tuple(tables), (what.tables, what.sign, dtype), lambda: _angles(what, tables, shape, dtype))

    return by_rows(parts, shape, angles, axis % 4, what.layout)


def _angles(what: Rotation, tables: list[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """Cosines and sines side by side, as the kernel takes them; None where the columns of a pair differ."""
    if what.tables == COLUMNS[0] and what.sign > 0 and all(table.is_contiguous() for table in tables):
        cos, sin = (table.view(shape) for table in tables)
        return side_by_side(cos, sin, dtype)
    columns = _columns(what, tables)
    if columns is None:
        return None
    cos, sin = columns
    rows = torch.cat((cos, sin if what.sign > 0 else -sin), -1).view(shape)
    return with_plain_nans(rows.to(torch.float64 if dtype == np.float64 else torch.float32).numpy())


def _unlike(sin: torch.Tensor, cos: torch.Tensor, shape: torch.Size) -> bool:
    return bool(sin.requires_grad or sin.dtype != cos.dtype or sin.shape != shape)


def _watched(parts: list[torch.Tensor]) -> bool:
    """Whether a transform, a trace or derivatives in forward mode want to see each operation."""
    if transforms.transforms() is not None or transforms.trace() is not None:
        return True
    # a name that torch does not promise to keep, to ask but once
    if getattr(forward_ad, "_current_level", 0) < 0:
        return False
    return any(forward_ad.unpack_dual(part).tangent is not None for part in parts)


def _columns(what: Rotation, tables: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Tables of a column for each pair; None where the columns of a pair differ, so that nothing is turned."""
    if what.tables == COMPLEX_TABLE:
        cos, sin = tables[0].real, tables[0].imag
    elif what.tables == FIRST_HALF:
        cos, sin = (table[..., : table.shape[-1] // 2] for table in tables)
    else:
        try:
            cos, sin = (pairs_of(table, what.tables, "tables") for table in tables)
        except ValueError:
            return None
    return (cos[0], sin[0]) if cos.dim() == 3 and cos.shape[0] == 1 else (cos, sin)
