"""The report of a check: a finding for each tensor, printed in a line for those that are alike, and as JSON."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

Verdict = Literal["right", "wrong", "unknown"]
Fault = Literal[
    "rounded",
    "base",
    "layout",
    "scaling",
    "frequencies",
    "values",
    # of code alone
    "amplitude",
    "error",
    "exponent",
    "functions",
    "length",
    "padding",
    "shape",
    "sign",
    "start",
    "units",
]

# the kind of a finding for a position table
TABLE = "position table"
# what to do about each fault
_ADVICE: dict[str, str] = {
    "rounded": (
        "keep frequencies, positions and angles in float32, and round cosines and sines alone: leave these buffers out "
        "of .half(), .to(torch.bfloat16) and autocast, and compute inv_freq and arange with dtype=torch.float32"
    ),
    "base": "compute the tensor anew with the config's rope_theta, or correct the config that it was trained with",
    "layout": "reorder the columns as the model's rotation reads them: cat((x, x)) for halves, repeat_interleave(2) for pairs",
    "scaling": "apply the config's rope_scaling once: compute frequencies and attention factor anew from the config",
    "frequencies": "compute the tensor anew from the config: posenc_fast.Rotary.from_config(config).frequencies",
    "values": "compute the tensor anew, or take it from a file that is whole",
    "amplitude": "add the rows as they are: scale the embeddings instead, or leave the factor out",
    "error": "let the code accept these positions",
    "exponent": "divide position p by base ** (2 * i / d) for both columns of pair i = 0, 1, .. of d columns",
    "functions": "take the sine in one column of each pair, and the cosine of the same angle in the other",
    "length": "compute rows for the longest sequence, and raise an error beyond the last one",
    "padding": "compute every row, and mask padding tokens by their own positions",
    "shape": "return one row for each position, with the columns of the encoding",
    "sign": "multiply positions and frequencies without a minus sign, and subtract only in the rotation of a pair",
    "start": "count positions from 0: add pe[:n], or use arange(n)",
    "units": "take sines and cosines of position * frequency in radians, without a conversion",
}
# what to do about faults that tensors have too, where code computes the values
_ADVICE_FOR_CODE: dict[str, str] = {
    "rounded": (
        "compute positions, frequencies and angles in float32 or more, and round cosines and sines alone: "
        "use torch.arange(n) without dtype=x.dtype, and torch.autocast(.., enabled=False)"
    ),
    "base": "divide by powers of the expected base",
    "layout": "write the columns in the expected order: stack((sin, cos), -1).flatten(-2), or cat((sin, cos), -1)",
    "scaling": "multiply frequencies by the expected scaling once, and cosines and sines by its attention factor",
    "frequencies": "compare the rows with expected.encode(positions), or cosines and sines with expected.tables(positions)",
    "values": "compute every row and column by the same formula",
}
# the kinds of findings for code
CODE = ("computed rows", "computed cosines and sines", "computed rotation")
# for frequencies that no file stores
_LOADED = ("model = AutoModel.from_pretrained(..)", "posenc_fast.check(model)")


@dataclass(frozen=True)
class Finding:
    """The outcome for one tensor, function or module.

    Parameters
    ----------
    name : str
        The name of the tensor, module or function; or the part of the config.
    is_ : str
        The kind of tensor, such as "rotary frequencies", or "config"; in JSON its key is ``is``.
    verdict : {"right", "wrong", "unknown"}
        unknown: learned positions, other weights, a config that posenc_fast does not know, or an ambiguous one.
    fault : str or None
        Of what is wrong: rounded (values, positions or angles went through fewer bits), base, layout, scaling,
        frequencies (none of these), values (single rows or columns). Of code also amplitude, error, exponent,
        functions, length, padding, shape, sign, start and units.
    says : str
        The reason, in words.
    largest_error : float or None
        Largest absolute difference of a value from the exact one; None where nothing is exact to compare with.
    radians : float or None
        Largest error of an angle at the longest position.
    first_position : float or None
        The first position at which a table is wrong.
    """

    name: str
    is_: str
    verdict: Verdict
    fault: Fault | None
    says: str
    largest_error: float | None = None
    radians: float | None = None
    first_position: float | None = None

    def undecided(self, reason: str) -> Finding:
        """Return the finding where nothing says whether the model needs these values: right becomes unknown."""
        if self.verdict != "right":
            return self
        return replace(
            self, verdict="unknown", says=f"{self.says}; but what the model needs is not known, see {reason}"
        )

    def twice_rounded(self) -> Finding:
        """Return the finding for values that are right in bfloat16, but are stored in float16."""
        says = self.says.removesuffix(", with values of bfloat16, rounded once")
        says = f"{says}, but rounded to bfloat16 before they were stored in float16"
        return replace(self, verdict="wrong", fault="rounded", says=says)

    def to_json(self) -> dict[str, Any]:
        """Return its fields for JSON, under their names, but for ``is``."""
        fields = {name.rstrip("_"): value for name, value in vars(self).items()}
        # JSON has no infinity and no NaN
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }


@dataclass(frozen=True)
class Report:
    """The outcome of a check.

    Parameters
    ----------
    path : str
        The file or folder that was checked.
    findings : tuple of Finding
        One for each tensor that may have to do with positions, and for parts of the config.
    """

    path: str
    findings: tuple[Finding, ...]

    @property
    def compared(self) -> int:
        """Number of tensors that were compared, and of configs that are right or wrong.

        A position table is always compared, with every known encoding. Other tensors that are unknown do not count.
        """
        return sum(finding.verdict != "unknown" or finding.is_ == TABLE for finding in self.findings)

    @property
    def ok(self) -> bool | None:
        """False if anything is wrong, None if nothing was compared, True otherwise."""
        if any(finding.verdict == "wrong" for finding in self.findings):
            return False
        return True if self.compared else None

    def to_json(self) -> dict[str, Any]:
        """Return path, number of comparisons and findings as a dictionary for JSON."""
        findings = [finding.to_json() for finding in self.findings]
        return {"path": self.path, "compared": self.compared, "findings": findings}

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.path}: nothing that may be positional"
        lines = [f"{finding.verdict:<7}  {name}: {_words(finding)}" for name, finding in self._lines()]
        advice = [f"{fault}: {words}" for fault, words in self._advice()]
        if self._computes():
            advice += ["check the loaded model:", *(f"    {line}" for line in _LOADED)]
        return "\n".join([self.path, *map(_in_one_line, lines), *(["what to do:", *advice] if advice else [])])

    def __repr__(self) -> str:
        counts = dict.fromkeys(("right", "wrong", "unknown"), 0)
        for finding in self.findings:
            counts[finding.verdict] += 1
        return f"<Report: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}>"

    def _repr_html_(self) -> str:
        colours = {"right": "#1a7f37", "wrong": "#cf222e", "unknown": "#6e7781"}
        rows = "".join(
            f'<tr><td style="color:{colours[finding.verdict]}"><b>{finding.verdict}</b></td>'
            f'<td style="text-align:left"><code>{html.escape(name)}</code></td>'
            f'<td style="text-align:left">{html.escape(_words(finding))}</td></tr>'
            for name, finding in self._lines()
        )
        advice = "".join(f"<li><b>{fault}</b>: {html.escape(words)}</li>" for fault, words in self._advice())
        if self._computes():
            advice += f"<li>check the loaded model: <pre>{'<br>'.join(map(html.escape, _LOADED))}</pre></li>"
        return (
            f"<p><code>{html.escape(self.path)}</code>{'' if self.findings else ': nothing that may be positional'}</p>"
            f"<table>{rows}</table>{f'<ul>{advice}</ul>' if advice else ''}"
        )

    def _lines(self) -> list[tuple[str, Finding]]:
        """Return a name and a finding for each line: those that differ in the numbers of their names alone share one."""
        groups: dict[Any, list[Finding]] = {}
        for finding in self.findings:
            fields = tuple(value for name, value in vars(finding).items() if name != "name")
            groups.setdefault((re.sub(r"\d+", "*", finding.name), fields), []).append(finding)
        return [
            (alike[0].name if len(alike) == 1 else f"{pattern} ({len(alike)} alike)", alike[0])
            for (pattern, _), alike in groups.items()
        ]

    def _computes(self) -> bool:
        """Whether the program that loads the model computes what no file stores."""
        return any(finding.is_ == "config" and finding.verdict == "right" for finding in self.findings)

    def _advice(self) -> Iterable[tuple[Fault, str]]:
        """Return each fault with what to do about it."""
        advice: dict[tuple[Fault, str], None] = {}
        for finding in self.findings:
            if finding.fault is not None:
                own = _ADVICE_FOR_CODE if finding.is_ in CODE else _ADVICE
                advice[finding.fault, own.get(finding.fault, _ADVICE[finding.fault])] = None
        return advice


def _in_one_line(text: str) -> str:
    """Return text with escapes for what is not printable: a name of a file may hold line feeds, and escape sequences."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _words(finding: Finding) -> str:
    """Return what a line says behind the name."""
    parts = [f"{finding.is_}: {finding.fault + ': ' if finding.fault else ''}{finding.says}"]
    if finding.largest_error is not None:
        parts.append(f"largest error {finding.largest_error:.3g}")
    if finding.radians is not None:
        parts.append(f"{finding.radians:.3g} radians at the longest position")
    if finding.first_position is not None:
        parts.append(f"first wrong at position {finding.first_position:g}")
    return "; ".join(parts)
