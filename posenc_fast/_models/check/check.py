"""Check functions, modules, files, arrays and configs: judge each tensor that can be positional."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.numbers.arrays import Array
from ..._core.rotary.value import Rotary
from .code import Call, as_expected, check_function
from .config import ConfigParts, parts_of
from .files import MOST_BYTES, Gap, Tensor, config_in, open_files, read_json
from .frequencies import judge_frequencies
from .modules import findings_of_runs, is_module, parts_of_transformers
from .names import Kind, kind_of, partner_of, sines_first
from .report import Finding, Report, listed, unknown_tensor
from .rotary_tables import judge_rotary_tables
from .tables import judge_table
from .values import array_of, is_constant

# (encodings, part) for a tensor. The encodings are those that the config allows for the tensor. If a part of the config
# describes the tensor, but does not determine its encoding, there are no encodings, and `part` is the name of this
# part. Otherwise `part` is "".
_ByConfig = tuple[tuple[Rotary, ...], str]
# the value of _ByConfig for a tensor that no config describes
_NOTHING: _ByConfig = ((), "")


def check(source: Any, expected: Any = None, *, config: Any = None, call: Call | None = None) -> Report:
    """Check the position encoding of a function, a torch module, a model's files, arrays or a config.

    Parameters
    ----------
    source : callable, torch.nn.Module, path, mapping of arrays, or config
        A function of positions or of a length that returns rows, or cosines and sines. A function of ``(x, positions)``
        that rotates x. A torch module, or a transformers model. A folder with a model's files, or one file:
        safetensors (or their index), .npz, .npy, GGUF (needs gguf), or pickled weights (need torch). A state
        dictionary: arrays or tensors by name. A config, as `Rotary.from_config` reads it. Of a file, only the header
        and the tensors that can be positional are read.
    expected : Encoding, Rotary, str, or config, optional
        The encoding that a function or module must compute. A str is the name of a preset or the path of a config.
        By default, `check` identifies the encoding of a function, and compares a module with its own buffers.
    config : path, mapping or config of transformers, optional
        Config of the expected rotary encoding (default for files: config.json or params.json in their folder).
    call : {"positions", "length"}, optional
        What the function takes as its argument: positions, or a number of rows (default: `check` tries both).

    Returns
    -------
    Report
        ``ok`` is False if anything is wrong, None if nothing was compared, and True otherwise. ``findings`` has one
        entry for each function, module and positional tensor. Some parts of the config have entries too, and so does an
        index with missing tensors. A table of cosines and a table of sines share an entry. In the text of the report,
        findings that differ only in the numbers in their names share a line.

    Raises
    ------
    TypeError, ValueError, OSError, ImportError
        If an argument is invalid, or if a file cannot be read or needs a package that is not installed.

    Notes
    -----
    A value is right if it is the exact value rounded once to its type, or differs from it only by the errors of
    float32 arithmetic. These are a few units in the last place for frequencies, and the error of float32 angles for
    cosines and sines. Tables in 16 bits are right if they are rounded once. Frequencies that were rounded to 16 bits
    are wrong, because positions multiply their errors. Without a config, frequencies and tables of any known encoding
    are right. Ambiguous values, and values of unknown encodings, such as learned positions, are unknown.

    Functions of positions are called at about a hundred positions from 0 to 1000000. Positions are passed as arrays of
    NumPy, or of torch or jax if these are imported. If a function accepts no array, `check` passes a list, or one
    position at a time. Modules run in evaluation mode, and the model stays unchanged. Code in files is never executed.

    A config has its own verdict, in a finding of kind "config". A config is wrong if it contradicts itself, or has a
    key about RoPE that the model does not read, or a misspelt key, or a value that cannot be read. It is unknown if the
    model is unknown or has no rotary encoding, or if programs read the config differently. It is also unknown if it has
    more than 64 parts, or a part has more than 4096 keys or 128 kinds of layers. Frequencies are unknown if their
    config cannot be read. Most checkpoints store no frequencies. If no tensor is compared with a right config, the
    finding of the config describes the encoding.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> def rows(positions):
    ...     angles = positions[:, None] / 10000 ** (np.arange(32) / 64)
    ...     return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 64)
    >>> finding, = pf.check(rows, pf.sinusoidal(64)).findings
    >>> finding.fault, finding.says.partition(";")[0]
    ('exponent', 'compared with sinusoidal(64): the exponent is i/64 instead of 2i/64')
    >>> frequencies = pf.Rotary(128, base=500000.0).frequencies
    >>> report = pf.check({"rotary_emb.inv_freq": frequencies.astype(np.float32), "pe": pf.positional_encoding(50, 64)})
    >>> report.ok, [finding.verdict for finding in report.findings]
    (True, ['right', 'right'])
    >>> halves = frequencies.astype(np.float16)
    >>> finding, = pf.check({"rotary_emb.inv_freq": halves}).findings
    >>> finding.verdict, finding.fault
    ('wrong', 'rounded')
    """
    if is_module(source):
        if call is not None:
            raise TypeError(f"call is for functions; source is a {type(source).__name__}, so leave call out")
        return _of_module(source, expected, config)
    if callable(source) and not isinstance(source, Mapping):
        return check_function(source, expected, config, call)
    for name, value, users in (("expected", expected, "functions and torch modules"), ("call", call, "functions")):
        if value is not None:
            raise TypeError(f"{name} is for {users}; source is a {type(source).__name__}, so leave {name} out")
    if isinstance(source, (str, os.PathLike)):
        return _of_files(os.fspath(source), config)
    if isinstance(source, Mapping) and any(_is_array(value) for value in source.values()):
        parts = parts_of(_config(config)) if config is not None else ConfigParts()
        tensors = [
            Tensor.in_memory(name, value)
            for name, value in source.items()
            if isinstance(name, str) and _is_array(value)
        ]
        return Report("arrays", _findings(tensors, parts))
    if not _is_config(source):
        raise TypeError(
            "source must be a function, a torch module, a path, a mapping of arrays or a config, not "
            f"{type(source).__name__}"
        )
    if config is not None:
        raise TypeError("source is a config or a mapping without arrays; leave config out, or pass arrays as source")
    return Report("config", tuple(part.finding for part in parts_of(_config(source)).parts))


def _of_module(model: Any, expected: Any, config: Any) -> Report:
    """Return the report on a torch module, with findings for its tensors and for the values that it computes."""
    encoding, longest = as_expected(expected, config)
    modules_with_config = parts_of_transformers(model)
    if encoding is None and modules_with_config:
        # posenc_fast.transformers needs torch, so import it only for these models. Import it by name, because an import
        # statement would make `_models` depend on it.
        report: Report = importlib.import_module("posenc_fast.transformers").check(model)
        runs = findings_of_runs(model, encoding, longest, report.findings, modules_with_config)
        return replace(report, findings=(*report.findings, *runs))
    tensors = [
        Tensor.in_memory(name, tensor)
        for name, tensor in (*model.named_buffers(), *model.named_parameters())
        if not tensor.is_meta
    ]
    config_of_model = expected if config is None and _is_config(expected) else config
    parts = parts_of(_config(config_of_model)) if config_of_model is not None else ConfigParts()
    buffers = tuple(finding for finding, _ in _judge_tensors(tensors, parts, False))
    return Report(type(model).__name__, (*buffers, *findings_of_runs(model, encoding, longest, buffers)))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_config(value: Any) -> bool:
    return isinstance(value, Mapping) or callable(getattr(value, "to_dict", None))


def _config(config: Any) -> Any:
    return read_json(os.fspath(config)) if isinstance(config, (str, os.PathLike)) else config


def _of_files(path: str, config: Any) -> Report:
    is_config = path.lower().endswith(".json") and not path.endswith(".index.json")
    if is_config and config is not None:
        raise ValueError(f"{path} is a config; pass the weights as source and this file as config")
    if config is None:
        config = path if is_config else config_in(path)
    parts = parts_of(_config(config)) if config is not None else ConfigParts()
    with open_files(path) as tensors:
        return Report(path, _findings(tensors, parts, any_name=path.lower().endswith(".npy"), whole=True))


def _findings(
    tensors: Iterable[Tensor | Gap], config_parts: ConfigParts, any_name: bool = False, whole: bool = False
) -> tuple[Finding, ...]:
    """Return the findings for tensors, and for some parts of the config.

    A wrong part has a finding. An unknown part has a finding if it describes a tensor. A right part has a finding if
    ``tensors`` are all tensors of a model, and none of them was compared with the config. If there are no positional
    tensors, every part has a finding. any_name: whether tensors of any name may be positional. whole: whether
    ``tensors`` are all tensors of a model.
    """
    judged = list(_judge_tensors(tensors, config_parts, any_name))
    findings = [finding for finding, _ in judged]
    any_compared = any(by_config != _NOTHING for _, by_config in judged)
    open_parts = {open_part for _, (_, open_part) in judged}
    for part in config_parts.parts:
        # maps the verdict on a part to whether the report contains the finding for the part
        shown = {"right": whole and not any_compared, "wrong": True, "unknown": part.name in open_parts}
        if not judged or shown[part.verdict]:
            findings.append(part.finding)
    return tuple(findings)


# ---- tensors --------------------------------------------------------------------------------------------------------


def _judge_tensors(
    tensors: Iterable[Tensor | Gap], parts: ConfigParts, any_name: bool
) -> Iterator[tuple[Finding, _ByConfig]]:
    """Yield (finding, value of _ByConfig) for each tensor that can be positional, and for each `Gap`.

    A table of cosines and a table of sines with matching names share a finding. Integer tables have none.
    """
    positional: list[tuple[Tensor, Kind]] = []
    gaps = []
    for tensor in tensors:
        if isinstance(tensor, Gap):
            gaps.append(tensor)
            continue
        kind = kind_of(tensor.name, tensor.shape)
        if kind is None and any_name:
            kind = "frequencies" if len(tensor.shape) == 1 else "table"
        if kind is not None:
            positional.append((tensor, kind))
    name_counts = Counter(tensor.name for tensor, _ in positional)
    partners = _partners(positional)
    paired = {(sines.file, sines.name) for sines in partners.values()}
    finding_of_content: dict[Any, Finding] = {}
    for tensor, kind in positional:
        name, key = tensor.name, (tensor.file, tensor.name)
        if kind == "sin" and key in paired:
            continue
        # a config describes only rotary encodings
        by_config = _NOTHING if kind in ("schedule", "table") else parts.for_tensor(name)
        rotaries, open_part = by_config
        sources = [tensor, partners[key]] if kind == "cos" and key in partners else [tensor]
        # a finding for cosines and sines names the table of sines as well
        title = name if len(sources) == 1 else f"{name}, {sources[1].name.rpartition('.')[2]}"
        if name_counts[name] > 1:
            title = f"{tensor.file}: {title}"
        unread = next((source.unread for source in sources if source.unread), "")
        if unread:
            yield unknown_tensor(title, f"numbers of type {unread} are unsupported"), by_config
            continue
        size = max(source.size for source in sources)
        if size > MOST_BYTES:
            reason = f"{size} bytes exceed the limit of {MOST_BYTES}"
            yield unknown_tensor(title, reason), by_config
            continue
        values = [source.read() for source in sources]
        try:
            arrays = [array_of(value, source.name) for value, source in zip(values, sources, strict=True)]
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            # an integer tensor with the name of a position table usually contains indices, so it gets no finding
            if kind != "table" or not isinstance(error, TypeError):
                yield unknown_tensor(title, str(error)), by_config
            continue
        content = (kind, by_config, sines_first(name), *(_content(array) for array in arrays))
        if content not in finding_of_content:
            finding = _judge_arrays(name, kind, arrays, rotaries, parts.length)
            finding_of_content[content] = finding.undecided(open_part) if open_part else finding
        yield replace(finding_of_content[content], name=title), by_config
    for gap in gaps:
        reason = f"lists tensors that are missing in their files: {listed(gap.missing, 4)}"
        yield Finding(gap.file, "index", "wrong", None, reason), _NOTHING


def _partners(positional: list[tuple[Tensor, Kind]]) -> dict[tuple[str, str], Tensor]:
    """Return a dict from (file, name) of each table of cosines to its table of sines, for all that have one.

    A table of sines in the same file as the cosines takes precedence.
    """
    sines = {(tensor.file, tensor.name): tensor for tensor, kind in positional if kind == "sin"}
    anywhere = {tensor.name: tensor for tensor in sines.values()}
    partners = {}
    for tensor, kind in positional:
        name = partner_of(tensor.name)
        if kind == "cos" and name in anywhere:
            partners[tensor.file, tensor.name] = sines.get((tensor.file, name), anywhere[name])
    return partners


def _content(array: Array) -> tuple[Any, ...]:
    digest = hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).data).digest()
    return array.dtype.name, array.shape, digest


def _judge_arrays(
    name: str, kind: Kind, arrays: list[Array], rotaries: tuple[Rotary, ...], length: float | None
) -> Finding:
    if kind in ("table", "cos", "sin", "both") and all(map(is_constant, arrays)):
        reason = f"all values are {arrays[0].flat[0]!s}; the tensor was never written, or is not positional"
        return unknown_tensor(name, reason)
    if kind == "table":
        return judge_table(name, arrays[0])
    if kind in ("frequencies", "schedule"):
        finding = judge_frequencies(name, arrays[0], rotaries, length=length)
        if finding.verdict == "wrong" and rotaries and name.endswith("inv_freq"):
            more = "; transformers computes frequencies from the config instead, but other programs may load these"
            return replace(finding, says=finding.says + more)
        return finding
    if kind == "divisors":
        return _judge_divisors(name, arrays[0], rotaries, length)
    if kind == "sin":
        return unknown_tensor(name, "sines without cosines")
    cos, sin = arrays[0], arrays[1] if len(arrays) > 1 else None
    if sin is None and sines_first(name) and cos.dtype.kind != "c":
        cos = cos[..., ::-1] if cos.shape[-1] == 2 else np.roll(cos, cos.shape[-1] // 2, axis=-1)
    return judge_rotary_tables(name, cos, sin, None, rotaries)


def _judge_divisors(name: str, values: Array, rotaries: tuple[Rotary, ...], length: float | None) -> Finding:
    """Return the finding for a tensor of divisors, as in GGUF. Powers of the base, divided by them, are frequencies."""
    divisors = values.astype(np.float64).reshape(-1)
    for rotary in rotaries:
        if rotary.base is not None and 2 * len(divisors) == rotary.rotary_dim and divisors.all():
            plain = Rotary(rotary.rotary_dim, base=rotary.base).frequencies
            finding = judge_frequencies(name, plain / divisors, rotaries, length=length)
            return replace(finding, says=f"powers of the base, divided by these values: {finding.says}")
    reason = "divisors of frequencies, without an encoding of a config to compare them with"
    return Finding(name, "divisors of rotary frequencies", "unknown", None, reason)
