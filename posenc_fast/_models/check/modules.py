"""Check torch modules that encode positions: run copies of them, so that the model stays unchanged.

This module does not import torch, because a caller who has a torch module has imported torch already.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.rotary.value import Rotary
from ...presets._registry import facts
from ..identify.rotary import identify_rotary
from .code import FUNCTION, HEADS, VECTORS, Call, call_quietly, finding_of, first_line, judge_rotated, unit_pairs
from .faults import Sample
from .names import kind_of
from .report import Finding
from .results import Expected, Unusable, identified, numbers_in, rows_in, shape_of, tables_in
from .values import array_of, narrowest

# words in class names, converted to snake case, that suggest a position encoding
_POSITIONAL = re.compile(
    r"pos(ition(s|al)?)?(_|$|emb|enc)|sinus|sine_|rotary|rope|timestep|fourier|(^|_)pe(_|$)|time_?(step|enc|emb)"
)
# words in class names of layers with weights, which compute more than an encoding
_WEIGHTS = ("Linear", "Conv", "Attention", "LSTM", "GRU")
# attributes of modules that may be the width of the encoding; the most likely attribute comes first
_WIDTH_NAMES = (
    "d_model", "embed_dim", "embedding_dim", "dim", "hidden_size", "num_hiddens", "hidden_dim", "emb_size", "d_emb",
    "channels", "num_channels", "demb", "d_hid", "size", "width", "n_embd", "dim_model", "model_dim",
)  # fmt: skip
# A module that numbers the tokens of x itself is called with at most _MOST_TOKENS tokens. Modules with more than
# _MOST_BYTES bytes of weights are not copied.
_MOST_TOKENS, _MOST_BYTES = 20_000, 1 << 30
# number of tokens of the first calls, which find out how a module can be called
_FEW_TOKENS = 7
# kind (`Finding.is_`) of the finding for a module that could not be called
_MODULE = "a module"


def is_module(source: Any) -> bool:
    """Return whether source is a torch module, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def parts_of_transformers(model: Any) -> tuple[str, ...]:
    """Return the names of modules that have a config, as modules of transformers do. The model's own name is ""."""
    return tuple(
        name
        for name, module in model.named_modules()
        if callable(getattr(getattr(module, "config", None), "to_dict", None))
    )


def findings_of_runs(
    model: Any, expected: Expected, longest: float | None, buffers: Sequence[Finding], skipped: Sequence[str] = ()
) -> Iterator[Finding]:
    """Yield a finding for each of a model's modules that seem to encode positions.

    If no module seems to encode positions, the model itself is judged, unless ``skipped`` has names or the model has
    layers such as Linear or Conv.

    expected: encoding that the user expects, or None. longest: number of positions in the config, or None. buffers:
    findings for the model's tensors. skipped: names of modules to leave out, together with their submodules.
    """
    wrong_buffers = {finding.name: finding for finding in buffers if finding.verdict == "wrong"}
    skipped_prefixes = tuple(f"{name}." if name else "" for name in skipped)
    candidates = [
        (name, module)
        for name, module in model.named_modules()
        if _may_encode(module) and not f"{name}.".startswith(skipped_prefixes)
    ]
    if not candidates and not skipped and not _has_weights(model):
        candidates = [("", model)]
    alone = len(candidates) == 1
    with _random_state_kept():
        for name, module in candidates:
            title = name or type(module).__name__
            finding = _judge_module(title, module, expected, longest, alone)
            keys = [f"{name}.{key}" if name else key for key, _ in _own_tensors(module)]
            cause = next((wrong_buffers[key] for key in keys if key in wrong_buffers), None)
            if cause is not None and expected is None and finding.verdict != "wrong":
                # the module was compared with its own buffer, which is wrong
                reason = f"{cause.name}: {cause.says}"
                finding = replace(finding, verdict="wrong", fault=cause.fault, says=reason)
            yield finding


def _may_encode(module: Any) -> bool:
    """Return whether the name of a module's class, or the names of its tensors, suggest a position encoding.

    Return False for classes of torch, and for modules without own tensors whose submodules have parameters. If only the
    names of tensors suggest it, return False for modules with layers such as Linear or Conv.
    """
    if type(module).__module__.startswith("torch."):
        return False
    class_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(module).__name__).lower()
    if _POSITIONAL.search(class_name) is not None:
        has_tensors = next(_own_tensors(module), None) is not None
        return has_tensors or next(module.parameters(), None) is None
    positional = any(kind_of(key, tuple(tensor.shape)) is not None for key, tensor in _own_tensors(module))
    return positional and not _has_weights(module)


def _has_weights(module: Any) -> bool:
    return any(word in type(one).__name__ for one in module.modules() for word in _WEIGHTS)


def _own_tensors(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor) for buffers, parameters and plain attributes of a module, without those of submodules."""
    torch = sys.modules["torch"]
    yield from module.named_buffers(recurse=False)
    yield from module.named_parameters(recurse=False)
    yield from ((key, value) for key, value in vars(module).items() if isinstance(value, torch.Tensor))


# ---- runs of copies -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _random_state_kept() -> Iterator[None]:
    """Restore the random states of Python, NumPy and torch (on the CPU) at the end of the ``with`` block."""
    torch = sys.modules["torch"]
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])


def _copied(module: Any) -> Any:
    """Return a copy of a module in evaluation mode, without forward hooks and gradients, or raise `Unusable`."""
    torch = sys.modules["torch"]
    memo: dict[int, Any] = {}
    size = 0
    for one in module.modules():
        for _, tensor in _own_tensors(one):
            size += tensor.numel() * tensor.element_size()
            if size > _MOST_BYTES:
                raise Unusable(
                    f"the tensors of the module have more than {_MOST_BYTES} bytes in total, too many to copy"
                )
            clone = tensor.detach().clone()
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            memo[id(tensor)] = torch.nn.Parameter(clone, requires_grad=False) if is_parameter else clone
    try:
        twin = copy.deepcopy(module, memo)
    # an attribute that cannot be copied may raise any error
    except Exception as error:  # noqa: BLE001
        raise Unusable(f"the module cannot be copied: {first_line(error)}") from None
    for one in twin.modules():
        one.training = False
        for hooks in ("_forward_hooks", "_forward_pre_hooks"):
            getattr(one, hooks).clear()
    return twin


class _Runner(NamedTuple):
    """A copy of a module that can be called, with the dtype and the device of its inputs."""

    module: Any
    dtype: Any
    device: Any

    @classmethod
    def of(cls, module: Any) -> _Runner:
        torch = sys.modules["torch"]
        twin = _copied(module)
        tensors = [tensor for one in twin.modules() for _, tensor in _own_tensors(one)]
        floats = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        return cls(twin, floats[0] if floats else torch.float32, tensors[0].device if tensors else torch.device("cpu"))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        torch = sys.modules["torch"]
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return call_quietly(self.module.forward, *arguments, **options)

    def zeros(self, *shape: int) -> Any:
        return sys.modules["torch"].zeros(shape, dtype=self.dtype, device=self.device)

    def tensor(self, array: Array) -> Any:
        torch = sys.modules["torch"]
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


# ---- one module -----------------------------------------------------------------------------------------------------


def _judge_module(name: str, module: Any, expected: Expected, longest: float | None, alone: bool) -> Finding:
    if any(tensor.is_meta for _, tensor in _own_tensors(module)):
        return Finding(
            name, _MODULE, "unknown", None, "the module has tensors on the meta device, which have no values"
        )
    if _has_weights(module):
        reason = "the module has weights, so it does more than encode positions; pass the module or function that only encodes positions"
        return Finding(name, _MODULE, "unknown", None, reason)
    try:
        runner = _Runner.of(module)
    except Unusable as error:
        return Finding(name, _MODULE, "unknown", None, str(error))
    wanted = _Wanted(expected, _encoding_of_tensors(module), longest, alone)
    errors: list[str] = []
    for judge in (_judge_rows_for_x, _judge_of_positions, _judge_of_x_and_positions, _judge_rotation):
        finding = judge(runner, name, wanted, errors)
        if finding is not None:
            return finding
    reasons = "; ".join(dict.fromkeys(errors[:4])) or "none of the calls that were tried returned an encoding"
    return Finding(name, _MODULE, "unknown", None, reasons)


class _Wanted(NamedTuple):
    """The encodings with which a module can be compared.

    expected: encoding that the user expects, or None. reference: encoding of the module's own buffers, or None.
    longest: number of positions in the config, or None. alone: whether the model has only one module that encodes
    positions.
    """

    expected: Expected
    reference: Encoding | Rotary | None
    longest: float | None
    alone: bool

    def of(self, kind: type) -> Expected:
        """Return the encoding to compare with, or None. ``expected`` takes precedence over ``reference``.

        kind: Encoding for rows, Rotary for cosines and sines and for rotations.
        """
        if isinstance(self.expected, kind):
            return self.expected
        if isinstance(self.expected, str) and facts(self.expected).rotary == (kind is Rotary):
            return self.expected
        return self.reference if isinstance(self.reference, kind) else None

    def clause(self, kind: type) -> str:
        """Return a clause for a module that is compared with its own buffer, else an empty string."""
        expected = self.of(kind)
        return ", compared with its own buffer" if expected is not None and expected is self.reference else ""


def _encoding_of_tensors(module: Any) -> Encoding | Rotary | None:
    """Return the encoding of a module's own tensors, identified from their values, or None."""
    for key, tensor in _own_tensors(module):
        kind = kind_of(key, tuple(tensor.shape))
        with contextlib.suppress(TypeError, ValueError, NotImplementedError, RuntimeError):
            if kind == "table":
                array = array_of(tensor, key)
                rows = array.reshape(-1, array.shape[-1])
                positions = np.arange(len(rows), dtype=np.float64)[:, np.newaxis]
                answer = identified(Sample(rows.astype(np.float64), positions, narrowest(rows)))
                if answer is not None and answer.start == 0:
                    return answer.encoding
            elif kind == "frequencies":
                values = array_of(tensor, key).astype(np.float64).reshape(-1)
                rotary = identify_rotary(frequencies=values).rotary
                if rotary is not None and rotary.frequencies.shape == values.shape:
                    return rotary
                return Rotary(2 * len(values), frequencies=values)
    return None


def _widths(module: Any) -> list[int]:
    """Return the widths to try: widths of tables, then integer attributes and twice these, then common widths."""
    tables = [tensor.shape[-1] for key, tensor in _own_tensors(module) if kind_of(key, tuple(tensor.shape)) == "table"]
    likely = [vars(module).get(key) for key in _WIDTH_NAMES]
    others = [value for key, value in vars(module).items() if key not in _WIDTH_NAMES]
    integers = [n for n in (*likely, *others) if isinstance(n, int) and not isinstance(n, bool)]
    attributes = [n for n in integers if 1 < n <= 1 << 14]
    widths = [*tables, *attributes, *(2 * n for n in attributes), *HEADS, 512]
    return list(dict.fromkeys(int(n) for n in widths))


def _count_required(module: Any) -> int:
    """Return the number of required positional arguments of ``forward``, or 1 if this is unknown."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(parameter.default is inspect.Parameter.empty and parameter.kind in kinds for parameter in parameters)


# maps each order of the axes of x to (function of n and d that returns the shape of x, index of the axis of length n)
_AXIS_ORDERS: dict[str, tuple[Callable[[int, int], tuple[int, ...]], int]] = {
    "(batch, n, d)": (lambda n, d: (2, n, d), 1),
    "(n, batch, d)": (lambda n, d: (n, 2, d), 0),
    "(n, d)": (lambda n, d: (n, d), 0),
    "(batch, d, n)": (lambda n, d: (2, d, n), 2),
}


def _judge_rows_for_x(runner: _Runner, name: str, wanted: _Wanted, errors: list[str]) -> Finding | None:
    """Return the finding for a module that adds rows to x or returns rows for x, or None if no call works.

    The reasons why calls failed are appended to errors.
    """
    if _count_required(runner.module) != 1:
        return None
    for width in _widths(runner.module):
        for order, (shape, rows_axis) in _AXIS_ORDERS.items():
            rows = partial(_rows_for_x, runner, shape, rows_axis, width)
            try:
                if not np.asarray(rows(_FEW_TOKENS), np.float64).any():
                    continue
            except Unusable as error:
                errors.append(f"forward(x {order}): {error}")
                continue
            words = f"forward(x {order}){wanted.clause(Encoding)}"
            finding = finding_of(rows, name, wanted.of(Encoding), wanted.longest, "length", words)
            finding = _undecided_width(finding, wanted)
            return finding if order == "(n, d)" else _with_batch_clause(runner, rows, width, finding)
    return None


def _undecided_width(finding: Finding, wanted: _Wanted) -> Finding:
    """Return the finding. Its verdict is "unknown" if its shape is wrong, and the model has several encoding modules.

    One of these modules may compute an encoding other than the expected one.
    """
    if finding.fault == "shape" and not wanted.alone:
        return replace(finding, verdict="unknown", fault=None)
    return finding


def _rows_for_x(runner: _Runner, shape: Any, rows_axis: int, width: int, n: int) -> Array:
    """Call a module with an x of zeros, and return its n rows.

    Raise `Unusable` if the result does not consist of n rows, or if the rows differ between the two sequences of the
    batch. For n = `_FEW_TOKENS`, also raise it if the rows depend on x.

    shape: function of n and d that returns the shape of x. rows_axis: axis of length n in x. width: d.
    """
    x = runner.zeros(*shape(n, width))
    result = _first_of_tuple(runner(x), x)
    if n == _FEW_TOKENS:
        _check_rows_are_added(runner, x, result)
    if not hasattr(result, "shape"):
        raise Unusable(f"the call returned {shape_of(result)} instead of one tensor")
    array = numbers_in(result, "x")
    if array.dtype.kind == "c" or array.ndim < 2:
        raise Unusable(
            f"the call returned {shape_of(result)} instead of an array of real numbers with at least two axes"
        )
    if array.shape != tuple(x.shape):
        rows = rows_in(array, n, "x") if rows_axis != 2 else None
        if rows is None:
            raise Unusable(
                f"the call returned {shape_of(result)} for x of shape {tuple(x.shape)}, instead of this shape or one "
                "row for each token"
            )
        return rows
    if array.ndim == 2:
        return array
    # move the axis of length n to the front: each order of axes becomes (n, batch, d), with a batch of 2
    batches = np.moveaxis(array, rows_axis, 0)
    if not np.array_equal(batches[:, 0], batches[:, 1], equal_nan=True):
        raise Unusable("for a batch of two sequences, the call returned different rows for the same position")
    return np.ascontiguousarray(batches[:, 0])


def _first_of_tuple(result: Any, x: Any) -> Any:
    """Return the first item of a tuple if the item has the shape of x, else the result itself.

    Some modules return a tuple (sum of x and rows, rows).
    """
    first = next(iter(result), None) if isinstance(result, (tuple, list)) else None
    return result if first is None or getattr(first, "shape", None) != x.shape else first


def _check_rows_are_added(runner: _Runner, x: Any, result: Any) -> None:
    """Raise `Unusable` unless the module adds rows to a multiple of x, or returns rows that do not depend on x.

    x: tensor of zeros. result: result of the module for x.
    """
    vectors = runner.tensor(unit_pairs(1, int(np.prod(x.shape))).reshape(x.shape).astype(np.float32))
    for_vectors = numbers_in(_first_of_tuple(runner(vectors), x), "x").astype(np.float64)
    for_zeros = numbers_in(result, "x").astype(np.float64)
    if for_vectors.shape != for_zeros.shape:
        raise Unusable("the shape of the result depends on the values of x")
    if not np.isfinite(for_zeros).any():
        raise Unusable("no value of the result is finite")
    difference = np.nan_to_num(for_vectors - for_zeros)
    factor = 0.0
    if for_zeros.shape == tuple(x.shape):
        # find by least squares which multiple of x the module adds
        values = numbers_in(vectors, "x").astype(np.float64)
        factor = float((difference * values).sum() / (values**2).sum())
        difference = difference - factor * values
    if np.abs(difference).max() > 0.02 * max(1.0, abs(factor)):
        raise Unusable("the result is not a multiple of x plus rows that are independent of x")


def _with_batch_clause(runner: _Runner, rows: Any, width: int, finding: Finding) -> Finding:
    """Return the finding. If it is right, but an x without a batch axis gets different rows, add a clause about this.

    rows: function of a length that returns the rows for an x with a batch axis.
    """
    if finding.verdict != "right":
        return finding
    with contextlib.suppress(Unusable):
        without_batch = numbers_in(runner(runner.zeros(_FEW_TOKENS, width)), "x")
        if without_batch.shape == (_FEW_TOKENS, width) and not np.array_equal(without_batch, rows(_FEW_TOKENS)):
            return replace(finding, says=f"{finding.says}; x without a batch axis gets different rows")
    return finding


def _judge_of_positions(runner: _Runner, name: str, wanted: _Wanted, errors: list[str]) -> Finding | None:
    """Return the finding for a module that is a function of positions or of a length, or None if no call works."""
    if _count_required(runner.module) != 1:
        return None

    def function(positions: Any) -> Any:
        torch = sys.modules["torch"]
        if not isinstance(positions, (int, torch.Tensor)):
            raise Unusable("not called, because forward takes tensors")
        return runner(positions.to(runner.device) if isinstance(positions, torch.Tensor) else positions)

    kinds = [Encoding, Rotary] if wanted.of(Encoding) is not None else [Rotary]
    comparisons: list[tuple[Expected, str]] = [(wanted.of(kind), wanted.clause(kind)) for kind in kinds]
    if wanted.expected is None:
        # First identify the result by itself. A comparison with the encoding of the buffers comes later: frequencies in
        # a buffer are read as a Rotary, but the module may return rows.
        comparisons.insert(0, (None, ""))
    unknown = None
    for expected, clause in comparisons:
        finding = finding_of(function, name, expected, wanted.longest, None)
        if finding.is_ == FUNCTION:
            errors.append(finding.says)
            continue
        finding = _undecided_width(replace(finding, says=f"{finding.says}{clause}"), wanted)
        if finding.verdict != "unknown":
            return finding
        unknown = finding
    return unknown


def _judge_of_x_and_positions(runner: _Runner, name: str, wanted: _Wanted, errors: list[str]) -> Finding | None:
    """Return the finding for a module that uses only the dtype or the length of x, or None if no call works.

    The module returns cosines and sines, or rows.
    """
    torch = sys.modules["torch"]

    def of_ids(positions: Any, batched: bool) -> Any:
        if not isinstance(positions, torch.Tensor):
            raise Unusable("not called, because forward takes tensors")
        ids = positions.to(runner.device)
        return runner(runner.zeros(1, len(ids), 1), ids[None] if batched else ids)

    calls: dict[str, tuple[Callable[[Any], Any], Call]] = {
        "forward(x, positions)": (partial(of_ids, batched=True), "positions"),
        "forward(x, positions) without a batch": (partial(of_ids, batched=False), "positions"),
        "forward(x, seq_len=n)": (lambda n: runner(runner.zeros(1, 1, n, 1), seq_len=n), "length"),
        "forward(x, n)": (lambda n: runner(runner.zeros(1, 1, n, 1), n), "length"),
        "forward(x)": (lambda n: runner(runner.zeros(1, n, 1)), "length"),
    }
    for words, (function, call) in calls.items():
        try:
            value = function(torch.arange(_FEW_TOKENS) if call == "positions" else _FEW_TOKENS)
            usable = tables_in(value, _FEW_TOKENS, name) is not None or rows_in(value, _FEW_TOKENS, name) is not None
        except Unusable as error:
            errors.append(f"{words}: {error}")
            continue
        if not usable:
            errors.append(
                f"{words}: the call returned {shape_of(value)} instead of one row, or cosines and sines, for each "
                "position"
            )
            continue
        judge = partial(finding_of, function, name, longest=wanted.longest, call=call, words=words)
        finding = _judge_in_any_layout(wanted, judge)
        if finding.is_ != FUNCTION:
            return _undecided_width(finding, wanted)
    return None


def _judge_in_any_layout(wanted: _Wanted, judge: Callable[[Expected], Finding]) -> Finding:
    """Return the finding for a rotation, or for cosines and sines.

    If the comparison is with the module's own buffer of frequencies, any layout is right, because frequencies do not
    determine the layout.

    judge: function that returns the finding for an expected encoding.
    """
    rotary = wanted.of(Rotary)
    finding = judge(rotary)
    if wanted.expected is None and isinstance(rotary, Rotary) and finding.verdict == "wrong":
        frequencies, factor = rotary.frequencies, rotary.attention_factor
        for layout in ("interleaved", "interleaved_to_half"):
            other = Rotary(rotary.head_dim, frequencies=frequencies, attention_factor=factor, layout=layout)
            finding_in_layout = judge(other)
            if finding_in_layout.verdict == "right":
                finding = finding_in_layout
                break
    return replace(finding, says=f"{finding.says}{wanted.clause(Rotary)}")


def _judge_rotation(runner: _Runner, name: str, wanted: _Wanted, errors: list[str]) -> Finding | None:
    """Return the finding for a module that rotates x, or None if no call works.

    The module takes positions as an argument, or counts them from 0.
    """
    rotary = wanted.of(Rotary)
    heads = [rotary.head_dim] if isinstance(rotary, Rotary) else []
    if wanted.expected is None or not heads:
        heads = list(dict.fromkeys([*heads, *_widths(runner.module)]))
    positions = np.arange(_FEW_TOKENS, dtype=np.float64)[:, np.newaxis]
    for head, (shape, arrange), with_keys in product(heads, VECTORS.items(), (False, True)):
        x = unit_pairs(_FEW_TOKENS, head)
        for more_arguments, run in _rotations(runner, arrange, with_keys):
            call = f"forward(x {shape}{more_arguments})"
            try:
                rotated = run(x, positions)
            except Unusable as error:
                errors.append(f"{call}: {error}")
                continue
            if np.abs(np.asarray(rotated, np.float64) - x).max() < 1e-3:
                # the module does not rotate x
                continue
            clause = f"; called as {call}"
            judge = partial(judge_rotated, name, run, head, longest=wanted.longest, axes=1, call_clause=clause)
            return _judge_in_any_layout(wanted, judge)
    return None


def _rotations(
    runner: _Runner, arrange: Any, with_keys: bool
) -> Iterator[tuple[str, Callable[[Floats, Floats], Array]]]:
    """Yield (description of the arguments after x, function of vectors and positions that returns rotated vectors).

    arrange: function that converts vectors to the shape of x. with_keys: whether forward takes queries and keys.
    """

    def rotate(x: Array, *arguments: Any) -> Array:
        vectors = arrange(x.astype(np.float32))
        tensor = runner.tensor(vectors)
        result = runner(tensor, *([tensor.clone()] if with_keys else []), *arguments)
        if with_keys and isinstance(result, (tuple, list)) and len(result) == 2:
            # forward returns rotated queries and rotated keys, and only the queries are judged
            result = result[0]
        rotated = numbers_in(result, "x")
        if rotated.shape != vectors.shape:
            raise Unusable(
                f"the call returned {shape_of(rotated)} for x of shape {vectors.shape}; the shapes must be equal"
            )
        return rotated.reshape(x.shape)

    def with_counted_positions(x: Floats, positions: Floats) -> Array:
        indices = positions[:, 0].astype(np.intp)
        if (positions[:, 0] != indices).any() or indices.max() >= _MOST_TOKENS:
            raise Unusable(
                f"the module counts positions from 0, so the check tries only integers from 0 to {_MOST_TOKENS - 1}"
            )
        tokens = np.ones((int(indices.max()) + 1, x.shape[1]))
        tokens[indices] = x
        result: Array = rotate(tokens)[indices]
        return result

    def with_position_ids(batched: bool, x: Floats, positions: Floats) -> Array:
        ids = runner.tensor(positions[:, 0].astype(np.int64))
        return rotate(x, ids[None] if batched else ids)

    key = ", x" if with_keys else ""
    required_after_x = _count_required(runner.module) - 1 - with_keys
    if required_after_x == 0:
        yield key, with_counted_positions
    if required_after_x <= 1:
        yield f"{key}, positions", partial(with_position_ids, False)
        yield f"{key}, positions (batch, n)", partial(with_position_ids, True)
