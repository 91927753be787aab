"""Hold the findings of a check for tensors, functions, modules and configs, and show them as text, HTML and JSON.

In text and HTML, findings that are equal except for numbers in their names share a line.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

Verdict = Literal["right", "wrong", "unknown"]
Fault = Literal[
    "rounded",
    "base",
    "layout",
    "scaling",
    "frequencies",
    "values",
    # only code has the following faults
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

# kind (`Finding.is_`) of the finding for a position table
TABLE = "position table"
_NOTHING_FOUND = "no positional tensors found"
# advice on how to fix each fault
_ADVICE: dict[str, str] = {
    "rounded": (
        "keep frequencies, positions and angles in float32, and round only cosines and sines: leave these buffers out "
        "of .half(), .to(torch.bfloat16) and autocast, and compute inv_freq and arange with dtype=torch.float32"
    ),
    "base": "compute the tensor anew with the config's rope_theta, or set rope_theta to the base of the trained model",
    "layout": (
        "reorder the columns as the model's rotation reads them: cat((x, x), -1) if the columns of a pair are half of "
        "the width apart, x.repeat_interleave(2, -1) if they are adjacent"
    ),
    "scaling": "apply the config's rope_scaling once: compute frequencies and attention factor anew from the config",
    "frequencies": "compute the tensor anew from the config: posenc_fast.Rotary.from_config(config).frequencies",
    "values": "compute the tensor anew, or take it from an undamaged file",
    "amplitude": "add the rows without a factor; scale the embeddings instead",
    "error": "make the code accept the positions or lengths of the failed calls",
    "exponent": "divide position p by base ** (2 * i / d) for both columns of pair i = 0, 1, .. of d columns",
    "functions": "take the sine in one column of each pair, and the cosine of the same angle in the other",
    "length": "compute rows for the longest sequence, and raise an error beyond the last row",
    "padding": "compute every row, and mask padding tokens instead",
    "shape": "return one row for each position, with the columns of the encoding",
    "sign": "multiply positions by frequencies without a minus sign, and subtract only in the rotation of a pair",
    "start": "count positions from 0: add pe[:n], or use arange(n)",
    "units": "take sines and cosines of position * frequency in radians, without a conversion",
}
# advice on how to fix a fault of code, for faults that tensors can have as well
_ADVICE_FOR_CODE: dict[str, str] = {
    "rounded": (
        "compute positions, frequencies and angles in float32 or float64, and round only cosines and sines: "
        "use torch.arange(n) without dtype=x.dtype, and torch.autocast(.., enabled=False)"
    ),
    "base": "divide by powers of the expected base",
    "layout": "write the columns in the expected order: stack((sin, cos), -1).flatten(-2), or cat((sin, cos), -1)",
    "scaling": "multiply frequencies by the expected scaling once, and cosines and sines by its attention factor",
    "frequencies": "compare the rows with expected.encode(positions), or cosines and sines with expected.tables(positions)",
    "values": "compute every row and column by the same formula",
}
# kinds (`Finding.is_`) of findings for code
CODE = ("computed rows", "computed cosines and sines", "computed rotation")
# lines of Python that check a loaded model, for models whose files do not contain the frequencies
_LOADED = ("model = AutoModel.from_pretrained(..)", "posenc_fast.check(model)")


@dataclass(frozen=True)
class Finding:
    """The outcome for one tensor, function, module, part of a config, or index with missing tensors.

    Parameters
    ----------
    name : str
        Name of the tensor, module, function, part of the config, or index.
    is_ : str
        Kind of what was checked, such as "rotary frequencies", "computed rows" or "config". Its key in JSON is ``is``.
    verdict : {"right", "wrong", "unknown"}
        unknown: the check cannot decide, for example because of learned positions, other weights, an unknown or
        ambiguous config, or code that could not be called.
    fault : str or None
        Kind of fault if the verdict is wrong: rounded (values, positions or angles were rounded to 16 bits), base,
        layout, scaling, frequencies (they differ for an unknown reason), values (some values are wrong). Code can also
        have the faults amplitude, error, exponent, functions, length, padding, shape, sign, start and units.
    says : str
        Reason for the verdict.
    largest_error : float or None
        Largest absolute difference from the exact values; None if it is unknown.
    radians : float or None
        Largest error of an angle at the longest position, in radians; for rows, a lower bound of it. None if it is
        unknown.
    first_position : float or None
        First position with a wrong value.
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
        """Return the finding for a tensor whose encoding the config leaves open. The verdict "right" becomes "unknown".

        reason: name of the part of the config whose finding says why.
        """
        if self.verdict != "right":
            return self
        return replace(
            self, verdict="unknown", says=f"{self.says}; unknown whether the model needs these values, see {reason}"
        )

    def twice_rounded(self) -> Finding:
        """Return the finding "wrong" for values that were rounded to bfloat16 and then stored in float16."""
        reason = self.says.removesuffix(", with values of bfloat16, rounded once")
        reason = f"{reason}, but the values were rounded to bfloat16 before they were stored in float16"
        return replace(self, verdict="wrong", fault="rounded", says=reason)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON. The key of ``is_`` is ``is``."""
        fields = {name.rstrip("_"): value for name, value in vars(self).items()}
        # JSON has no infinity and no NaN
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }


def listed(items: Iterable[Any], most: int) -> str:
    """Return the first ``most`` items as text, separated by commas, and ".." if there are more."""
    texts = [str(item) for item in islice(items, most + 1)]
    if len(texts) > most:
        texts[most] = ".."
    return ", ".join(texts)


def unknown_tensor(name: str, reason: str) -> Finding:
    """Return the finding, of verdict "unknown", for a tensor that cannot be judged or is probably not positional."""
    return Finding(name, "a tensor", "unknown", None, reason)


@dataclass(frozen=True)
class Report:
    """The outcome of a check.

    Parameters
    ----------
    path : str
        File or folder that was checked, the name of the function or of the module's class, "arrays" or "config".
    findings : tuple of Finding
        One for each function, module and positional tensor, and for each index with missing tensors. A part of the
        config has a finding if it is wrong, if a tensor could not be compared because of it, or if there is no tensor
        to compare with the config.
    """

    path: str
    findings: tuple[Finding, ...]

    @property
    def compared(self) -> int:
        """Number of findings that are right, wrong or about a position table.

        A position table counts even if its verdict is "unknown", because the check looked for a known encoding in it.
        """
        return sum(finding.verdict != "unknown" or finding.is_ == TABLE for finding in self.findings)

    @property
    def ok(self) -> bool | None:
        """False if anything is wrong, None if nothing was compared, True otherwise."""
        if any(finding.verdict == "wrong" for finding in self.findings):
            return False
        return True if self.compared else None

    def to_json(self) -> dict[str, Any]:
        """Return `path`, `compared` and `findings` as a dictionary for JSON."""
        findings = [finding.to_json() for finding in self.findings]
        return {"path": self.path, "compared": self.compared, "findings": findings}

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.path}: {_NOTHING_FOUND}"
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
        if not self.findings:
            return f"<p><code>{html.escape(self.path)}</code>: {_NOTHING_FOUND}</p>"
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
            f"<p><code>{html.escape(self.path)}</code></p><table>{rows}</table>{f'<ul>{advice}</ul>' if advice else ''}"
        )

    def _lines(self) -> list[tuple[str, Finding]]:
        """Return (name, finding) for each line.

        Findings that are equal except for numbers in their names share a line.
        """
        groups: dict[Any, list[Finding]] = {}
        for finding in self.findings:
            fields = tuple(value for name, value in vars(finding).items() if name != "name")
            groups.setdefault((re.sub(r"\d+", "*", finding.name), fields), []).append(finding)
        return [
            (alike[0].name if len(alike) == 1 else f"{pattern} ({len(alike)} alike)", alike[0])
            for (pattern, _), alike in groups.items()
        ]

    def _computes(self) -> bool:
        """Return whether a part of the config is right. Programs that load the model compute the encoding from it."""
        return any(finding.is_ == "config" and finding.verdict == "right" for finding in self.findings)

    def _advice(self) -> Iterable[tuple[Fault, str]]:
        """Return (fault, advice on how to fix it) for each fault of the findings."""
        # the keys of a dict are an ordered set
        advice: dict[tuple[Fault, str], None] = {}
        for finding in self.findings:
            if finding.fault is not None:
                for_tensor = _ADVICE[finding.fault]
                words = _ADVICE_FOR_CODE.get(finding.fault, for_tensor) if finding.is_ in CODE else for_tensor
                advice[finding.fault, words] = None
        return advice


def _in_one_line(text: str) -> str:
    """Return text with unprintable characters escaped. File names may contain line feeds and escape sequences."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _words(finding: Finding) -> str:
    """Return the text that follows the name in a line of the report."""
    parts = [f"{finding.is_}: {finding.fault + ': ' if finding.fault else ''}{finding.says}"]
    if finding.largest_error is not None:
        parts.append(f"largest error {finding.largest_error:.3g}")
    if finding.radians is not None:
        parts.append(f"{finding.radians:.3g} radians at the longest position")
    if finding.first_position is not None:
        parts.append(f"first wrong at position {finding.first_position:g}")
    return "; ".join(parts)
