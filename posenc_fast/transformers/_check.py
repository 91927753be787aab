"""Check loaded models: compare their buffers and the output of their rotary and sinusoidal modules with exact values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from .._core.rotary.value import Rotary
from .._models.check.check import check as check_arrays
from .._models.check.config import scaled_length, unscaled_length
from .._models.check.frequencies import judge_frequencies
from .._models.check.names import kind_of
from .._models.check.report import Finding, Report, unknown_tensor
from .._models.check.rotary_tables import judge_rotary_tables
from .._models.check.tables import judge_table
from .._models.check.values import array_of, narrowest
from .._models.check.waves import judge_waves
from .._models.config.part import as_mapping
from . import _running as running

# positions at which every model is checked: bfloat16 cannot represent odd integers above 256, float16 above 2048
POSITIONS = (0, 1, 255, 256, 257, 258, 259, 1000, 2049, 2051, 4095, 4096)
# matches names of frequency buffers in rotary modules; the group "label" is the kind of layers, such as
# "sliding_attention", and never "original"
_FREQUENCIES = re.compile(r"(?:(?P<label>(?!original_)\w+?)_)?(?:original_)?inv_freq")
COMPUTED, ON_META = "computed rotary tables", "on the device meta, where tensors have no values"
_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check(model: torch.nn.Module) -> Report:
    """Compare the position encodings of a loaded model, in buffers and in code, with the exact values.

    Parameters
    ----------
    model : torch.nn.Module
        A model of transformers, or of remote code with the same structure. Any dtype and any device. The model is not
        changed.

    Returns
    -------
    Report
        Findings for each tensor that can be positional, and for each rotary or sinusoidal module. The modules are run
        in the dtype of the model, at positions 0, 1, 255 to 259, 1000, 2049, 2051, 4095, 4096 and the model's last
        position, as far as they support these positions. Modules that accept no positions are run at all positions up
        to the last one, but at most 32768, or at all patches of an image.

    Raises
    ------
    TypeError
        If model is not a torch module.

    Notes
    -----
    A rotary module is compared with `Rotary.from_config` of its config. The verdict is unknown if the config cannot be
    read, if no call of the module returns cosines and sines, or if the module is on the device "meta". Cosines and
    sines in 16 bits are right if they are rounded once. Values with the rounding errors of float32 arithmetic are right.

    Examples
    --------
    >>> import torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from posenc_fast.transformers import check
    >>> sizes = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1}
    >>> config = LlamaConfig(vocab_size=99, **sizes)
    >>> model = LlamaForCausalLM(config)
    >>> check(model).ok
    True
    >>> check(model.to(torch.bfloat16)).findings[0].fault
    'rounded'
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    configs = _configs(model)
    findings: list[Finding] = []
    dtype = getattr(model, "dtype", None)
    if dtype not in _TYPES:
        dtype = torch.float32
    for name, module in model.named_modules():
        if running.is_rotary(module):
            findings += _of_rotary(name, module, configs[name], dtype)
        elif running.is_sinusoidal(module):
            findings += _of_sinusoidal(name, module, configs[name], dtype)
    findings += _of_tensors(model, configs, {finding.name for finding in findings})
    return Report(type(model).__name__, tuple(findings))


def _configs(model: torch.nn.Module) -> dict[str, Any]:
    """Return the config of each module by name: its own config, or else the config of the nearest enclosing module."""
    configs: dict[str, Any] = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        # modules come after the modules that contain them
        configs[name] = config if hasattr(config, "to_dict") else configs.get(name.rpartition(".")[0]) if name else None
    return configs


def _last_position(config: Any) -> int:
    """Return the last position of a model, or the last of POSITIONS if the config has no length.

    The last position follows from the scaled length, because some faults, such as a missing dynamic scaling, show only
    beyond the unscaled length.
    """
    length = None if config is None else scaled_length(as_mapping(config))
    return POSITIONS[-1] if length is None or length <= 1 else math.ceil(length) - 1


def _device_of(module: torch.nn.Module) -> torch.device:
    return next((tensor.device for tensor in (*module.buffers(), *module.parameters())), torch.device("cpu"))


# ---- stored tables and frequencies ---------------------------------------------------------------------------------


def _of_tensors(model: torch.nn.Module, configs: dict[str, Any], seen: set[str]) -> Iterator[Finding]:
    """Yield findings for the buffers and parameters that can be positional, and whose names are not in `seen`.

    configs: config of each module by name.
    """
    # keys: ids of configs. Values: a config, and the tensors of all modules with this config by name.
    by_config: dict[int, tuple[Any, dict[str, torch.Tensor]]] = {}
    for owner, module in model.named_modules():
        for key, tensor in (*module.named_buffers(recurse=False), *module.named_parameters(recurse=False)):
            name = f"{owner}.{key}" if owner else key
            if name in seen:
                continue
            if tensor.is_meta:
                if kind_of(name, tuple(tensor.shape)) is not None:
                    yield unknown_tensor(name, ON_META)
                continue
            if key == "weights" and running.has_sinusoidal_name(module):
                yield judge_table(name, tensor)
                continue
            _, tensors_of_config = by_config.setdefault(id(configs[owner]), (configs[owner], {}))
            tensors_of_config[name] = tensor
    for config, tensors_of_config in by_config.values():
        report = check_arrays(tensors_of_config, config=config)
        # skip findings about the config itself, because its class has filled in keys that the config file may lack
        yield from (finding for finding in report.findings if finding.is_ != "config")


# ---- rotary modules -------------------------------------------------------------------------------------------------


def _of_rotary(name: str, module: torch.nn.Module, config: Any, dtype: torch.dtype) -> Iterator[Finding]:
    """Yield findings for the frequencies and the computed tables of a rotary module, for each kind of layers."""
    # keys: kinds of layers, or None. Values: names and values of the frequency buffers.
    buffers: dict[str | None, list[tuple[str, torch.Tensor]]] = {}
    for key, buffer in module.named_buffers(recurse=False):
        match = _FREQUENCIES.fullmatch(key)
        if match:
            buffers.setdefault(match["label"], []).append((key, buffer))
    for label, label_buffers in (buffers or {None: []}).items():
        title = name if label is None else f"{name} ({label})"
        if _device_of(module).type == "meta":
            for key, _ in label_buffers:
                yield Finding(f"{name}.{key}", "rotary frequencies", "unknown", None, ON_META)
            yield _unknown(title, ON_META)
            continue
        named_buffers = [(f"{name}.{key}", buffer) for key, buffer in label_buffers]
        yield from _of_layers(title, module, config, dtype, label, named_buffers)


def _unknown(name: str, reason: str) -> Finding:
    return Finding(name, COMPUTED, "unknown", None, reason)


class _Run(NamedTuple):
    """A call of a rotary module. rotary: the encoding that its tables should equal. title: title of the finding."""

    title: str
    positions: torch.Tensor
    rotary: Rotary


def _of_layers(
    title: str,
    module: torch.nn.Module,
    config: Any,
    dtype: torch.dtype,
    label: str | None,
    buffers: list[tuple[str, torch.Tensor]],
) -> Iterator[Finding]:
    """Yield findings for the frequencies and the computed tables of one kind of layers of a module.

    title: title of the findings about tables. label: kind of layers, or None if the module serves only one. buffers:
    names and values of the frequency buffers.
    """
    longest = _last_position(config)
    positions = sorted({*POSITIONS, longest})
    try:
        rotaries = [_rotary(config, label, position + 1) for position in positions]
        cached = _rotary(config, label, int(getattr(module, "max_seq_len_cached", 1)))
    except (TypeError, ValueError) as error:
        for name, buffer in buffers:
            finding = judge_frequencies(name, buffer, length=longest)
            yield finding if config is None else finding.undecided(title)
        yield _unknown(title, str(error))
        return
    expected = [rotaries[0], rotaries[-1], cached]
    buffer_findings = [judge_frequencies(name, buffer, expected, length=longest) for name, buffer in buffers]
    cause = next((finding for finding in buffer_findings if finding.verdict == "wrong"), None)
    runs = _runs(title, module, config, positions, rotaries)
    labels = () if label is None else (label,)
    x = torch.zeros(1, dtype=dtype, device=_device_of(module))
    table_findings = []
    for run in runs:
        tables = running.tables_of(module, run.rotary, run.positions, x, *labels)
        if tables is None:
            table_findings.append(
                _unknown(run.title, "returned no tables of cosines and sines for any of the arguments that were tried")
            )
            continue
        finding = judge_rotary_tables(run.title, tables.cos, tables.sin, tables.positions, [run.rotary])
        if finding.fault in ("values", "frequencies") and cause is not None:
            # the buffers show the cause more clearly than tables of a few positions
            finding = replace(finding, fault=cause.fault, says=f"{cause.name}: {cause.says}")
        table_findings.append(replace(finding, is_=COMPUTED))
    if cause is not None and all(finding.verdict == "right" for finding in table_findings):
        # The tables are right in spite of wrong buffers. Either the module computes frequencies in each call, and does
        # not use the buffers, or the dtype of the tables hides the fault. Find out which of the two is true.
        wrong = {finding.name for finding in buffer_findings if finding.verdict == "wrong"}
        wrong_buffers = [buffer for name, buffer in buffers if name in wrong]
        if not any(
            running.tables_depend_on(module, wrong_buffers, run.rotary, run.positions, x, *labels) for run in runs
        ):
            buffer_findings = [
                _unused(finding) if finding.verdict == "wrong" else finding for finding in buffer_findings
            ]
    yield from buffer_findings
    yield from table_findings


def _runs(title: str, module: torch.nn.Module, config: Any, positions: list[int], rotaries: list[Rotary]) -> list[_Run]:
    """Return the calls that check the tables of one kind of layers.

    rotaries: for each position p, the encoding of a sequence of p + 1 tokens. With some scalings, frequencies depend on
    the length of the sequence.
    """
    shortest, longest = rotaries[0], rotaries[-1]
    if _alike(shortest, longest):
        return [_Run(title, _of_axes(positions, shortest.ndim), shortest)]
    # Frequencies depend on the length of the sequence. The first run has only positions that use the frequencies of the
    # shortest length, the second run has all positions. After a longer sequence, a module restores its first
    # frequencies only for sequences shorter than the training length.
    trained_length = getattr(module, "original_max_seq_len", unscaled_length(as_mapping(config)) or math.inf)
    short = [
        position
        for position, rotary in zip(positions, rotaries, strict=True)
        if _alike(rotary, shortest) and position + 1 < trained_length
    ]
    return [
        _Run(f"{title} up to {short[-1]}", _of_axes(short, shortest.ndim), shortest),
        _Run(f"{title} up to {positions[-1]}", _of_axes(positions, longest.ndim), longest),
    ]


def _unused(finding: Finding) -> Finding:
    says = f"{finding.says}; but the module computes right tables, which do not depend on this buffer"
    return replace(finding, verdict="unknown", fault=None, says=says)


def _rotary(config: Any, label: str | None, seq_len: int) -> Rotary:
    """Return the Rotary that the config describes for a kind of layers.

    Raise ValueError if the config says that these layers have no RoPE.
    """
    rotary = Rotary.from_config(config, seq_len=seq_len, layer_type=label)
    if rotary is None:
        raise ValueError("according to the config, the layers of this module have no RoPE")
    return rotary


def _alike(a: Rotary, b: Rotary) -> bool:
    """Return whether two encodings of the same config at different lengths are equal."""
    return np.array_equal(a.frequencies, b.frequencies) and a.attention_factor == b.attention_factor


def _of_axes(positions: list[int], axes: int) -> torch.Tensor:
    """Return positions of shape (tokens,), or (tokens, axes) with a different order of the positions on each axis."""
    column = torch.tensor(positions)
    return column if axes == 1 else torch.stack([column.roll(axis) for axis in range(axes)], dim=1)


# ---- sinusoidal modules -----------------------------------------------------------------------------------------------


def _of_sinusoidal(name: str, module: torch.nn.Module, config: Any, dtype: torch.dtype) -> Iterator[Finding]:
    """Yield the finding for a sinusoidal module, which computes its rows in each call."""
    kind = "computed sinusoids"
    device = _device_of(module)
    computed = None
    if device.type != "meta":
        positions = torch.tensor(sorted({*POSITIONS, _last_position(config)}))
        computed = running.rows_of(module, positions, torch.zeros(1, dtype=dtype, device=device))
    if computed is None:
        reason = ON_META if device.type == "meta" else "raised an error, or returned rows of an unexpected shape"
        yield Finding(name, kind, "unknown", None, reason)
        return
    rows = array_of(computed.rows, name)
    positions_of_rows = computed.positions.double().numpy()[:, np.newaxis]
    judged = judge_waves(rows, computed.encoding, positions_of_rows, narrowest(rows))
    expected, errors = repr(computed.encoding), (judged.largest_error, judged.radians)
    if judged.complete and judged.fault is None:
        yield Finding(name, kind, "right", None, f"same as {expected}", *errors)
    elif judged.complete:
        says = f"differs from {expected}: {judged.reason}"
        yield Finding(name, kind, "wrong", judged.fault, says, *errors, judged.first_position)
    else:
        says = f"differs from {expected}, and no known cause explains the difference"
        yield Finding(name, kind, "wrong", "frequencies", says, *errors, judged.first_position)
