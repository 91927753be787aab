"""Runs of a model's rotary and sinusoidal modules at chosen positions, after which each module is as it was."""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from .._core.encoding.builders import sinusoidal
from .._core.encoding.value import Encoding
from .._core.rotary.value import Rotary
from ..presets import qwen_omni_timesteps

# in names of classes, which "SolarOpen" is none of
_ROTARY = re.compile(r"Rotary|Rope|RoPE")
# modules whose attention turns backwards, by the sign of their sines
_BACKWARDS = re.compile(r"NanoChat")
# modules that return sines before cosines
_SINES_FIRST = re.compile(r"GPTJ|CodeGen")
# rows of a module that counts tokens, and does not take positions
MOST_TOKENS = 1 << 15


class Tables(NamedTuple):
    """Cosines and sines that a module made, of a column for each pair, of positions (tokens,) or (tokens, axes)."""

    cos: torch.Tensor
    sin: torch.Tensor
    positions: torch.Tensor


class Rows(NamedTuple):
    """Rows that a module made of positions, and the Encoding that it stands for."""

    rows: torch.Tensor
    positions: torch.Tensor
    encoding: Encoding


def parameters(module: torch.nn.Module) -> tuple[str, ...]:
    """Return the names of the arguments of forward."""
    try:
        return tuple(inspect.signature(type(module).forward).parameters)[1:]
    except (TypeError, ValueError):
        return ()


def is_rotary(module: torch.nn.Module) -> bool:
    """Whether a module makes cosines and sines for queries and keys, by its class's name and the arguments of forward."""
    return _ROTARY.search(type(module).__name__) is not None and parameters(module) in _CALLS


def is_sinusoidal(module: torch.nn.Module) -> bool:
    """Whether a module computes sinusoids of positions at each call, by its class's name and the arguments of forward."""
    return "sinus" in type(module).__name__.lower() and parameters(module) in _SINUSOIDS


@contextlib.contextmanager
def _kept(module: torch.nn.Module) -> Iterator[None]:
    """Run a module in evaluation and without gradients; its attributes, its buffers and their values are as before after it.

    Modules whose frequencies depend on the length replace buffers, or write to them, when they see another one.
    """
    modules = [(one, dict(vars(one)), one._buffers.copy()) for one in module.modules()]
    buffers = [buffer for _, _, each in modules for buffer in each.values() if buffer is not None]
    values = [buffer.detach().clone() for buffer in buffers]
    try:
        with torch.no_grad():
            for one, _, _ in modules:
                one.training = False
            yield
    finally:
        for one, attributes, own in modules:
            vars(one).clear()
            vars(one).update(attributes)
            one._buffers.clear()
            one._buffers.update(own)
        with torch.no_grad():
            for buffer, value in zip(buffers, values, strict=True):
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


# ---- rotary modules -------------------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """A call of a module, and the positions of the rows that it returns."""

    positions: torch.Tensor
    run: Callable[[], Any]


def _by_position_ids(module: Any, x: torch.Tensor, positions: torch.Tensor, *labels: str) -> Iterator[_Call]:
    """Yield calls in all forms that modules take positions in: of several axes, some have the last one first."""
    table = getattr(module, "embed_positions", None)
    if isinstance(table, torch.Tensor):
        # a module that reads rows of a table
        positions = positions[positions < len(table)]
    ids = positions.to(x.device)
    if ids.dim() == 1:
        yield _Call(positions, lambda: module(x, ids[None], *labels))
        return
    for axes in (ids, ids.flip(1)):
        # of text: (axes, batch, length), of three axes where pairs read two; of images: (tokens, axes), in a batch or not
        rows = axes.T[:, None]
        for form in (rows, torch.cat((rows, rows[:1])), axes, axes[None]):
            yield _Call(positions, partial(module, x, form, *labels))


def _by_length(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Iterator[_Call]:
    """Yield the call of a module that counts the tokens of hidden states, or the patches of its images."""
    count = min(int(positions.max()) + 1, MOST_TOKENS)
    if positions.dim() == 2:
        # rows and columns count from 1, and the class token is at 0
        sides = torch.arange(module.config.image_size // module.config.patch_size) + 1
        cells = torch.cat((torch.cartesian_prod(sides, sides), torch.zeros(1, 2, dtype=sides.dtype)))
        yield _Call(cells, lambda: module(x))
    else:
        yield _Call(torch.arange(count), lambda: module(x.new_zeros(1, count, 1)))


def _by_given_length(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Iterator[_Call]:
    """Yield the call of a module that is told how many positions there are."""
    count = min(int(positions.max()) + 1, MOST_TOKENS)
    if positions.dim() == 1:
        yield _Call(torch.arange(count), lambda: module(x, seq_len=count))


def _by_pixels(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Iterator[_Call]:
    """Yield the call of a module that takes the centres of an image's patches, between -1 and 1, for positions."""
    size, patch = module.config.image_size, module.config.patch_size
    if positions.dim() == 2 and isinstance(size, int) and isinstance(patch, int):
        count = size // patch
        centres = 2 * (torch.arange(count, dtype=torch.float64) + 0.5) / count - 1
        side = count * patch
        yield _Call(torch.cartesian_prod(centres, centres), lambda: module(x.new_zeros(1, 3, side, side)))


# by the arguments of forward
_CALLS: dict[tuple[str, ...], Callable[..., Iterator[_Call]]] = {
    ("x", "position_ids"): _by_position_ids,
    ("x", "position_ids", "layer_type"): _by_position_ids,
    ("x", "seq_len"): _by_given_length,
    ("hidden_states",): _by_length,
    ("pixel_values",): _by_pixels,
}


def _calls(module: torch.nn.Module, x: torch.Tensor, positions: torch.Tensor, *labels: str) -> list[_Call]:
    try:
        return list(_CALLS[parameters(module)](module, x, positions, *labels))
    except (AttributeError, TypeError):
        # a module of another kind, whose config has no sizes of images
        return []


def tables_of(
    module: torch.nn.Module, rotary: Rotary, positions: torch.Tensor, x: torch.Tensor, *labels: str
) -> Tables | None:
    """Return what a module makes of positions, in the form that is nearest to a Rotary; None where no form fits.

    x: a tensor of the type and device of the model. labels: the kind of layers, where a module serves several.
    """
    best, least = None, math.inf
    with _kept(module), torch.autocast(x.device.type, enabled=False):
        for call in _calls(module, x, positions, *labels):
            tables = None
            # whatever a module may raise for a form that it does not take
            with contextlib.suppress(Exception):
                tables = _pairs(call.run(), len(call.positions), rotary.rotary_dim // 2)
            if tables is None:
                continue
            cos, sin = reversed(tables) if _SINES_FIRST.search(type(module).__name__) else tables
            exact = [torch.from_numpy(table) for table in rotary.tables(call.positions.numpy(), dtype="float64")]
            for turned in (sin, -sin) if _BACKWARDS.search(type(module).__name__) else (sin,):
                errors = [(one.double() - true).abs().mean() for one, true in zip((cos, turned), exact, strict=True)]
                error = float(sum(errors))
                # tables that are not finite are tables all the same
                if best is None or error < least:
                    best, least = Tables(cos, turned, call.positions), math.inf if math.isnan(error) else error
    return best


def reads(
    module: torch.nn.Module,
    buffers: list[torch.Tensor],
    rotary: Rotary,
    positions: torch.Tensor,
    x: torch.Tensor,
    *labels: str,
) -> bool:
    """Whether the tables that a module makes change with its buffers."""
    before = tables_of(module, rotary, positions, x, *labels)
    with _kept(module):
        for buffer in buffers:
            buffer.zero_()
        after = tables_of(module, rotary, positions, x, *labels)
    if before is None or after is None:
        return before is not after
    return not (torch.equal(before.cos, after.cos) and torch.equal(before.sin, after.sin))


def _pairs(result: Any, tokens: int, pairs: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return cosines and sines of a column for each pair, however a result has them; None for other results."""
    if isinstance(result, torch.Tensor):
        if result.is_complex():
            result = result.real, result.imag
        elif result.dim() == 3:
            # angles, of which attention takes both
            result = result.cos(), result.sin()
        else:
            result = tuple(result)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return None
    cos, sin = (_columns(table, tokens, pairs) for table in result)
    return None if cos is None or sin is None else (cos, sin)


def _columns(table: Any, tokens: int, pairs: int) -> torch.Tensor | None:
    """Return a table of a column for each pair; None where the columns of a pair differ."""
    if not isinstance(table, torch.Tensor) or table.numel() != tokens * table.shape[-1]:
        return None
    table = table.detach().reshape(tokens, -1).cpu()
    if table.shape[1] == pairs:
        return table
    if table.shape[1] != 2 * pairs:
        return None
    halves, neighbours = (table[:, :pairs], table[:, pairs:]), (table[:, 0::2], table[:, 1::2])
    # a NaN is equal to none
    return next((one for one, other in (halves, neighbours) if torch.allclose(one, other, 0, 0, equal_nan=True)), None)


# ---- sinusoidal modules -----------------------------------------------------------------------------------------------


def _pegasus_x(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Rows:
    d = module.embed_dim
    rows = module(x.new_zeros(1, len(positions), d), 0, positions.to(x.device)[:, None])[0]
    encoding = sinusoidal(d, base=float(module.max_scale), freq_shift=1, layout="concatenated")
    return Rows(rows, positions, encoding)


def _qwen_omni(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Rows:
    # a type of 16 bits holds no others
    some = positions[positions <= 256]
    return Rows(module(some.to(x), scale=1), some, qwen_omni_timesteps(module.dim, scale=1.0))


def _vibevoice(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Rows:
    config = module.config
    encoding = sinusoidal(
        config.frequency_embedding_size,
        base=float(config.diffusion_max_period),
        layout="concatenated",
        functions=("cos", "sin"),
    )
    return Rows(module(positions.to(x.device)), positions, encoding)


# by the arguments of forward; those that read a ready table have it among their buffers
_SINUSOIDS: dict[tuple[str, ...], Callable[..., Rows]] = {
    ("inputs_embeds", "cache_length", "position_ids"): _pegasus_x,
    # until transformers 5.23
    ("inputs_embeds", "past_key_values_length", "position_ids"): _pegasus_x,
    ("hidden_states", "scale"): _qwen_omni,
    ("timesteps",): _vibevoice,
}


def rows_of(module: torch.nn.Module, positions: torch.Tensor, x: torch.Tensor) -> Rows | None:
    """Return what a sinusoidal module makes of positions; None where it does not run as its arguments say."""
    with _kept(module), torch.autocast(x.device.type, enabled=False), contextlib.suppress(Exception):
        made = _SINUSOIDS[parameters(module)](module, x, positions)
        if made.rows.shape == (len(made.positions), made.encoding.d_model):
            return made._replace(rows=made.rows.detach().cpu())
    return None
