"""Run rotary and sinusoidal modules of a model at chosen positions, and restore each module afterwards."""

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

# matches names of rotary classes. The case matters: "SolarOpen" contains "rOpe", but is not rotary.
_ROTARY = re.compile(r"Rotary|Rope|RoPE")
# matches names of rotary classes of models that rotate backwards, so that their sines have the opposite sign
_BACKWARDS = re.compile(r"NanoChat")
# matches names of rotary classes that return sines before cosines
_SINES_FIRST = re.compile(r"GPTJ|CodeGen")
# largest number of rows requested from modules that accept a number of tokens instead of positions
MOST_TOKENS = 1 << 15


class Tables(NamedTuple):
    """Cosines and sines from a module, one column per pair. Positions have the shape (tokens,) or (tokens, axes)."""

    cos: torch.Tensor
    sin: torch.Tensor
    positions: torch.Tensor


class Rows(NamedTuple):
    """Rows that a module computed for positions. encoding: the Encoding that the rows should equal."""

    rows: torch.Tensor
    positions: torch.Tensor
    encoding: Encoding


def parameters(module: torch.nn.Module) -> tuple[str, ...]:
    """Return the names of the arguments of forward, without self. Return an empty tuple if they are unknown."""
    try:
        return tuple(inspect.signature(type(module).forward).parameters)[1:]
    except (TypeError, ValueError):
        return ()


def is_rotary(module: torch.nn.Module) -> bool:
    """Return whether a module computes cosines and sines of RoPE, judged by its class name and arguments of forward."""
    return _ROTARY.search(type(module).__name__) is not None and parameters(module) in _CALLS


def has_sinusoidal_name(module: torch.nn.Module) -> bool:
    """Return whether the class of a module is named after sinusoids."""
    return "sinus" in type(module).__name__.lower()


def is_sinusoidal(module: torch.nn.Module) -> bool:
    """Return whether a module computes sinusoids in each call, by the name of its class and the arguments of forward."""
    return has_sinusoidal_name(module) and parameters(module) in _SINUSOIDS


@contextlib.contextmanager
def _restored(module: torch.nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, without gradients, for the ``with`` block.

    At the end of the block, restore the module's attributes, its buffers and their values. Modules whose frequencies
    depend on the length replace buffers, or write to them, when the length changes.
    """
    saved = [(part, dict(vars(part)), part._buffers.copy()) for part in module.modules()]
    buffers = [buffer for _, _, by_name in saved for buffer in by_name.values() if buffer is not None]
    values = [buffer.detach().clone() for buffer in buffers]
    try:
        with torch.no_grad():
            for part, _, _ in saved:
                part.training = False
            yield
    finally:
        for part, attributes, buffers_of_part in saved:
            vars(part).clear()
            vars(part).update(attributes)
            part._buffers.clear()
            part._buffers.update(buffers_of_part)
        with torch.no_grad():
            for buffer, value in zip(buffers, values, strict=True):
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


# ---- rotary modules -------------------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """A call of a module. positions: positions of the returned rows. run: function that calls the module."""

    positions: torch.Tensor
    run: Callable[[], Any]


def _by_position_ids(module: Any, x: torch.Tensor, positions: torch.Tensor, *labels: str) -> Iterator[_Call]:
    """Yield calls with every shape of position_ids that modules accept. Some modules expect the axes in reverse order.

    labels: at most one kind of layers.
    """
    table = getattr(module, "embed_positions", None)
    if table is not None and isinstance(table, torch.Tensor):
        # the module looks up its rows in a table of fixed length: omit positions beyond the end of the table
        positions = positions[positions < len(table)]
    ids = positions.to(x.device)
    if ids.dim() == 1:
        yield _Call(positions, lambda: module(x, ids[None], *labels))
        return
    for axes in (ids, ids.flip(1)):
        # text models expect (axes, batch, length), and some expect axes + 1 rows in the first dimension; image models
        # expect (tokens, axes), with or without a batch dimension in front
        by_axis = axes.T[:, None]
        for position_ids in (by_axis, torch.cat((by_axis, by_axis[:1])), axes, axes[None]):
            yield _Call(positions, partial(module, x, position_ids, *labels))


def _by_length(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Iterator[_Call]:
    """Yield the call of a module that counts the tokens of hidden states, or the patches of an image."""
    if positions.dim() == 2:
        # the module counts rows and columns of patches from 1, and puts the class token at (0, 0) after the patches
        sides = torch.arange(module.config.image_size // module.config.patch_size) + 1
        cells = torch.cat((torch.cartesian_prod(sides, sides), torch.zeros(1, 2, dtype=sides.dtype)))
        yield _Call(cells, lambda: module(x))
    else:
        count = min(int(positions.max()) + 1, MOST_TOKENS)
        yield _Call(torch.arange(count), lambda: module(x.new_zeros(1, count, 1)))


def _by_given_length(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Iterator[_Call]:
    """Yield the call of a module that accepts the number of positions as an argument."""
    if positions.dim() == 1:
        count = min(int(positions.max()) + 1, MOST_TOKENS)
        yield _Call(torch.arange(count), lambda: module(x, seq_len=count))


def _by_pixels(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Iterator[_Call]:
    """Yield the call of a module whose positions are the centres of an image's patches, between -1 and 1."""
    size, patch = module.config.image_size, module.config.patch_size
    if positions.dim() == 2 and isinstance(size, int) and isinstance(patch, int):
        patches = size // patch
        centres = 2 * (torch.arange(patches, dtype=torch.float64) + 0.5) / patches - 1
        side = patches * patch
        yield _Call(torch.cartesian_prod(centres, centres), lambda: module(x.new_zeros(1, 3, side, side)))


# keys: argument names of forward. Values: functions that yield the calls of such a module.
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
        # the module has other arguments or attributes, for example a config without image sizes
        return []


def tables_of(
    module: torch.nn.Module, rotary: Rotary, positions: torch.Tensor, x: torch.Tensor, *labels: str
) -> Tables | None:
    """Try all calls of a module, and return the tables closest to those of `rotary`. None if no call returns tables.

    x: a tensor with the dtype and device of the model. labels: one kind of layers if the module serves several kinds,
    else nothing.
    """
    best, least_error = None, math.inf
    with _restored(module), torch.autocast(x.device.type, enabled=False):
        for call in _calls(module, x, positions, *labels):
            tables = None
            # a module may raise any error for a shape that it does not accept
            with contextlib.suppress(Exception):
                tables = _pairs(call.run(), len(call.positions), rotary.rotary_dim // 2)
            if tables is None:
                continue
            cos, sin = reversed(tables) if _SINES_FIRST.search(type(module).__name__) else tables
            exact_cos, exact_sin = map(torch.from_numpy, rotary.tables(call.positions.numpy(), dtype="float64"))
            for signed in (sin, -sin) if _BACKWARDS.search(type(module).__name__) else (sin,):
                error = float((cos.double() - exact_cos).abs().mean() + (signed.double() - exact_sin).abs().mean())
                # keep tables with NaN only until a call returns tables without NaN
                if best is None or error < least_error:
                    best, least_error = Tables(cos, signed, call.positions), math.inf if math.isnan(error) else error
    return best


def tables_depend_on(
    module: torch.nn.Module,
    buffers: list[torch.Tensor],
    rotary: Rotary,
    positions: torch.Tensor,
    x: torch.Tensor,
    *labels: str,
) -> bool:
    """Return whether the tables of a module change if these buffers are set to zero."""
    before = tables_of(module, rotary, positions, x, *labels)
    with _restored(module):
        for buffer in buffers:
            buffer.zero_()
        after = tables_of(module, rotary, positions, x, *labels)
    if before is None or after is None:
        return before is not after
    return not (torch.equal(before.cos, after.cos) and torch.equal(before.sin, after.sin))


def _pairs(result: Any, tokens: int, pairs: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return cosines and sines with one column per pair from any known form of result, or None for other results."""
    if isinstance(result, torch.Tensor):
        if result.is_complex():
            result = result.real, result.imag
        elif result.dim() == 3:
            # the module returns angles, because attention computes the cosines and sines
            result = result.cos(), result.sin()
        else:
            result = tuple(result)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return None
    cos, sin = (_columns(table, tokens, pairs) for table in result)
    return None if cos is None or sin is None else (cos, sin)


def _columns(table: Any, tokens: int, pairs: int) -> torch.Tensor | None:
    """Return a table of shape (tokens, pairs), or None if the shape is unknown or the two columns of a pair differ."""
    if not isinstance(table, torch.Tensor) or table.numel() != tokens * table.shape[-1]:
        return None
    table = table.detach().reshape(tokens, -1).cpu()
    if table.shape[1] == pairs:
        return table
    if table.shape[1] != 2 * pairs:
        return None
    halves, neighbours = (table[:, :pairs], table[:, pairs:]), (table[:, 0::2], table[:, 1::2])
    for first, second in (halves, neighbours):
        # NaN in both columns counts as equal
        if torch.allclose(first, second, 0, 0, equal_nan=True):
            return first
    return None


# ---- sinusoidal modules -----------------------------------------------------------------------------------------------


def _pegasus_x(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Rows:
    d = module.embed_dim
    rows = module(x.new_zeros(1, len(positions), d), 0, positions.to(x.device)[:, None])[0]
    encoding = sinusoidal(d, base=float(module.max_scale), freq_shift=1, layout="concatenated")
    return Rows(rows, positions, encoding)


def _qwen_omni(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Rows:
    # the module converts positions to the dtype of x: omit positions above 256, which bfloat16 may not represent
    exact_positions = positions[positions <= 256]
    return Rows(module(exact_positions.to(x), scale=1), exact_positions, qwen_omni_timesteps(module.dim, scale=1.0))


def _vibevoice(module: Any, x: torch.Tensor, positions: torch.Tensor) -> Rows:
    config = module.config
    encoding = sinusoidal(
        config.frequency_embedding_size,
        base=float(config.diffusion_max_period),
        layout="concatenated",
        functions=("cos", "sin"),
    )
    return Rows(module(positions.to(x.device)), positions, encoding)


# keys: argument names of forward. Values: functions that run such a module. Modules that keep their table in a buffer
# are not here, because `check` reads the buffer.
_SINUSOIDS: dict[tuple[str, ...], Callable[..., Rows]] = {
    ("inputs_embeds", "cache_length", "position_ids"): _pegasus_x,
    # names of the arguments until transformers 5.23
    ("inputs_embeds", "past_key_values_length", "position_ids"): _pegasus_x,
    ("hidden_states", "scale"): _qwen_omni,
    ("timesteps",): _vibevoice,
}


def rows_of(module: torch.nn.Module, positions: torch.Tensor, x: torch.Tensor) -> Rows | None:
    """Return the rows that a sinusoidal module computes. Return None if the call fails or their shape is wrong."""
    with _restored(module), torch.autocast(x.device.type, enabled=False), contextlib.suppress(Exception):
        computed = _SINUSOIDS[parameters(module)](module, x, positions)
        if computed.rows.shape == (len(computed.positions), computed.encoding.d_model):
            return computed._replace(rows=computed.rows.detach().cpu())
    return None
