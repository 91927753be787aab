"""The check of functions, modules, files, arrays and configs: each tensor that can be positional is judged."""

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
from .config import Expected, expected_of
from .files import MOST_BYTES, Gap, Tensor, config_in, open_files, read_json
from .frequencies import judge_frequencies
from .modules import findings_of_runs, is_module, parts_of_transformers
from .names import Kind, kind_of, partner_of, sines_first
from .report import Finding, Report
from .rotary_tables import judge_rotary_tables
from .tables import judge_table
from .values import array_of, is_constant

# encodings of a tensor by the config, or the part of the config that does not determine them
_Said = tuple[tuple[Rotary, ...], str]
_NOTHING: _Said = ((), "")


def check(source: Any, expected: Any = None, *, config: Any = None, call: Call | None = None) -> Report:
    """Say whether a position encoding is right: of a function, a torch module, a model's files, arrays or a config.

    Parameters
    ----------
    source : callable, torch.nn.Module, path, mapping of arrays, or config
        A function of positions or of a length that returns rows, or cosines and sines; or a function of
        ``(x, positions)`` that rotates x. A module of torch, or a model of transformers. A folder with a model's files,
        or one of them: safetensors (or their index), .npz, .npy, with the package gguf GGUF, with torch pickled weights.
        A state dictionary, of arrays or tensors by name; or a config, as `Rotary.from_config` reads it. Of files only
        headers are read, and the tensors that can be positional.
    expected : Encoding, Rotary, str, or config, optional
        The encoding that a function or module must compute; a str is the name of a preset or the path of a config.
        Default: the function is identified first, and the report says as what; a module is compared with its own
        buffers.
    config : path, mapping or config of transformers, optional
        The rotary encoding that is expected (default: that of the folder's config.json or params.json).
    call : {"positions", "length"}, optional
        The argument of a function (default: `check` tries both).

    Returns
    -------
    Report
        ``ok`` is False if anything is wrong, None if nothing was compared. ``findings`` has one for each function,
        module and tensor, and for the config. As text a report has a line for each finding that differs.

    Raises
    ------
    TypeError, ValueError, OSError, ImportError
        When an argument does not fit, or a file cannot be read or needs a package; the error has its name.

    Notes
    -----
    A value is right if it is the exact one rounded once to its type, or what float32 arithmetic makes of it: frequencies
    within a few units in the last place, cosines and sines within the error of float32 angles. Tables in 16 bits are
    right if they are rounded once. Frequencies in 16 bits are wrong: angles are their products with positions.
    Without a config, frequencies and tables that any source makes are right. Ambiguous values, and values of
    no known encoding, such as learned positions, are unknown.

    Functions run at about a hundred positions up to a million, as NumPy, torch or jax arrays, whichever they take and
    is imported. Of modules, copies run in evaluation mode, so that nothing of the model changes. Nothing from files is
    executed.

    A config has a verdict of its own, in a finding of kind "config". It is wrong if it contradicts itself, has a key that
    the model does not read, or a value that cannot be read; unknown for a model that posenc_fast does not know, or that
    has no rotary encoding. Frequencies beside a config that cannot be read are unknown. Where no tensor is compared
    with a config that is right, its finding says what it means: most checkpoints store no frequencies. At most 64
    parts, 128 kinds of layers and 4096 keys in a part are read.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> def rows(positions):
    ...     angles = positions[:, None] / 10000 ** (np.arange(32) / 64)
    ...     return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 64)
    >>> finding, = pf.check(rows, pf.sinusoidal(64)).findings
    >>> finding.fault, finding.says.partition(";")[0]
    ('exponent', 'of sinusoidal(64): the exponent is i/64 instead of 2i/64')
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
            raise TypeError(f"call is for functions; source is a {type(source).__name__}")
        return _of_module(source, expected, config)
    if callable(source) and not isinstance(source, Mapping):
        return check_function(source, expected, config, call)
    for name, value in (("expected", expected), ("call", call)):
        if value is not None:
            raise TypeError(f"{name} is for functions and torch modules; source is a {type(source).__name__}")
    if isinstance(source, (str, os.PathLike)):
        return _of_files(os.fspath(source), config)
    if isinstance(source, Mapping) and any(_is_array(value) for value in source.values()):
        expected = expected_of(_config(config)) if config is not None else Expected()
        tensors = (
            Tensor(name, tuple(value.shape), 0, lambda value=value: value)  # type: ignore[misc]
            for name, value in source.items()
            if isinstance(name, str) and _is_array(value)
        )
        return Report("arrays", _findings(tensors, expected))
    if config is not None:
        raise TypeError(f"source must be a path or a mapping of arrays beside a config, not {type(source).__name__}")
    if not _is_config(source):
        raise TypeError(
            "source must be a function, a torch module, a path, a mapping of arrays or a config, not "
            f"{type(source).__name__}"
        )
    return Report("config", tuple(part.finding for part in expected_of(_config(source)).parts))


def _of_module(model: Any, expected: Any, config: Any) -> Report:
    """Return the report on a module of torch: its buffers, and what it computes."""
    wanted, longest = as_expected(expected, config)
    parts = parts_of_transformers(model)
    if wanted is None and parts:
        # a module of a higher level, which needs torch: by its name, as it is imported for such models alone
        report: Report = importlib.import_module("posenc_fast.transformers").check(model)
        runs = findings_of_runs(model, wanted, longest, report.findings, parts)
        return replace(report, findings=(*report.findings, *runs))
    tensors = (
        Tensor(name, tuple(tensor.shape), 0, lambda tensor=tensor: tensor)  # type: ignore[misc]
        for name, tensor in (*model.named_buffers(), *model.named_parameters())
        if not tensor.is_meta
    )
    said = expected if config is None and _is_config(expected) else config
    known = expected_of(_config(said)) if said is not None else Expected()
    buffers = tuple(finding for finding, _ in _judged(tensors, known, False))
    return Report(type(model).__name__, (*buffers, *findings_of_runs(model, wanted, longest, buffers)))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_config(value: Any) -> bool:
    return isinstance(value, Mapping) or callable(getattr(value, "to_dict", None))


def _config(config: Any) -> Any:
    return read_json(os.fspath(config)) if isinstance(config, (str, os.PathLike)) else config


def _of_files(path: str, config: Any) -> Report:
    is_config = path.lower().endswith(".json") and not path.endswith(".index.json")
    if is_config and config is not None:
        raise ValueError(f"{path} is a config: give the weights, and it as config")
    beside = path if is_config else config_in(path)
    if config is None:
        config = beside
    expected = expected_of(_config(config)) if config is not None else Expected()
    with open_files(path) as tensors:
        return Report(path, _findings(tensors, expected, any_name=path.lower().endswith(".npy"), whole=True))


def _findings(
    tensors: Iterable[Tensor | Gap], expected: Expected, any_name: bool = False, whole: bool = False
) -> tuple[Finding, ...]:
    """Return the findings for tensors, and for the parts of the config that were wrong, missed, or not compared.

    any_name: whether all tensors may be positional. whole: whether the tensors are all of a model's.
    """
    judged = list(_judged(tensors, expected, any_name))
    findings = [finding for finding, _ in judged]
    # of a config that is right, tensors that the config is for have verdicts already
    alone = not judged or (whole and not any(said != _NOTHING for _, said in judged))
    missed = {why for _, (_, why) in judged}
    for part in expected.parts:
        needed = alone if part.verdict == "right" else part.name in missed
        if part.verdict == "wrong" or needed or not judged:
            findings.append(part.finding)
    return tuple(findings)


# ---- tensors --------------------------------------------------------------------------------------------------------


def _judged(tensors: Iterable[Tensor | Gap], expected: Expected, any_name: bool) -> Iterator[tuple[Finding, _Said]]:
    """Yield a finding for each tensor that can be positional, with what the config says of the tensor.

    Cosines and sines of a name share a finding.
    """
    chosen: list[tuple[Tensor, Kind]] = []
    gaps = []
    for tensor in tensors:
        if isinstance(tensor, Gap):
            gaps.append(tensor)
            continue
        kind = kind_of(tensor.name, tensor.shape)
        if kind is None and any_name:
            kind = "frequencies" if len(tensor.shape) == 1 else "table"
        if kind is not None:
            chosen.append((tensor, kind))
    names = Counter(tensor.name for tensor, _ in chosen)
    partners = _partners(chosen)
    paired = {(sines.file, sines.name) for sines in partners.values()}
    judgements: dict[Any, Finding] = {}
    for tensor, kind in chosen:
        name, key = tensor.name, (tensor.file, tensor.name)
        if kind == "sin" and key in paired:
            continue
        said = rotaries, why = expected.of(name) if kind not in ("schedule", "table") else _NOTHING
        parts = [tensor, partners[key]] if kind == "cos" and key in partners else [tensor]
        whole = name if len(parts) == 1 else f"{name}, {parts[1].name.rpartition('.')[2]}"
        if names[name] > 1:
            whole = f"{tensor.file}: {whole}"
        unread = next((part.unread for part in parts if part.unread), "")
        if unread:
            yield Finding(whole, "a tensor", "unknown", None, f"numbers of type {unread} are not read"), said
            continue
        if any(part.size > MOST_BYTES for part in parts):
            yield Finding(whole, "a tensor", "unknown", None, f"{tensor.size} bytes are more than are read"), said
            continue
        values = [part.read() for part in parts]
        try:
            arrays = [array_of(value, part.name) for value, part in zip(values, parts, strict=True)]
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            # integer tensors called positions are usually indices
            if kind != "table" or not isinstance(error, TypeError):
                yield Finding(whole, "a tensor", "unknown", None, str(error)), said
            continue
        alike = (kind, said, sines_first(name), *(_content(array) for array in arrays))
        if alike not in judgements:
            finding = _finding(name, kind, arrays, rotaries, expected.length)
            judgements[alike] = finding.undecided(why) if why else finding
        yield replace(judgements[alike], name=whole), said
    for gap in gaps:
        shown = ", ".join(gap.missing[:4]) + (", .." if gap.missing[4:] else "")
        yield Finding(gap.file, "index", "wrong", None, f"names tensors that their files lack: {shown}"), _NOTHING


def _partners(chosen: list[tuple[Tensor, Kind]]) -> dict[tuple[str, str], Tensor]:
    """Return the sines that belong to each table of cosines, by its file and name: those of its own file, or else any."""
    sines = {(tensor.file, tensor.name): tensor for tensor, kind in chosen if kind == "sin"}
    anywhere = {tensor.name: tensor for tensor in sines.values()}
    partners = {}
    for tensor, kind in chosen:
        name = partner_of(tensor.name)
        if kind == "cos" and name in anywhere:
            partners[tensor.file, tensor.name] = sines.get((tensor.file, name), anywhere[name])
    return partners


def _content(array: Array) -> tuple[Any, ...]:
    digest = hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).data).digest()
    return array.dtype.name, array.shape, digest


def _finding(name: str, kind: Kind, arrays: list[Array], rotaries: tuple[Rotary, ...], length: float | None) -> Finding:
    if kind in ("table", "cos", "sin", "both") and all(map(is_constant, arrays)):
        says = f"all values are {arrays[0].flat[0]!s}: never written, or no positions"
        return Finding(name, "a tensor", "unknown", None, says)
    if kind == "table":
        return judge_table(name, arrays[0])
    if kind in ("frequencies", "schedule"):
        finding = judge_frequencies(name, arrays[0], rotaries, length=length)
        if finding.verdict == "wrong" and rotaries and name.endswith("inv_freq"):
            more = "; transformers computes it anew from the config, programs that load it do not"
            return replace(finding, says=finding.says + more)
        return finding
    if kind == "divisors":
        return _divisors(name, arrays[0], rotaries, length)
    if kind == "sin":
        return Finding(name, "a tensor", "unknown", None, "sines without cosines")
    cos, sin = arrays[0], arrays[1] if len(arrays) > 1 else None
    if sin is None and sines_first(name) and cos.dtype.kind != "c":
        cos = cos[..., ::-1] if cos.shape[-1] == 2 else np.roll(cos, cos.shape[-1] // 2, axis=-1)
    return judge_rotary_tables(name, cos, sin, None, rotaries)


def _divisors(name: str, values: Array, rotaries: tuple[Rotary, ...], length: float | None) -> Finding:
    """Return the finding for numbers that a program divides the powers of the base by, as GGUF has them."""
    divisors = values.astype(np.float64).reshape(-1)
    for rotary in rotaries:
        if rotary.base is not None and 2 * len(divisors) == rotary.rotary_dim and divisors.all():
            plain = Rotary(rotary.rotary_dim, base=rotary.base).frequencies
            finding = judge_frequencies(name, plain / divisors, rotaries, length=length)
            return replace(finding, says=f"powers of the base, divided by these: {finding.says}")
    says = "numbers that frequencies are divided by, without a config that says what they are to be"
    return Finding(name, "divisors of rotary frequencies", "unknown", None, says)
