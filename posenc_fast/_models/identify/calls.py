"""Build the call that rebuilds an identified encoding, and the text and HTML of an identification."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..._core.encoding.value import Encoding
from ..._core.rotary.value import Rotary
from ...presets._registry import get

# longest recipe in characters that is shown instead of the call of a preset
_SHORT = 60


def call_of(value: Encoding | Rotary, presets: Sequence[str] = ()) -> str:
    """Return the call that rebuilds a value, with the package's name, or "" if the call would be too long to show.

    The call is the recipe, or for a Rotary with a long recipe, the first preset that returns this Rotary.
    """
    # a recipe longer than the repr is too long to show
    text = value.recipe if value.recipe == repr(value) else None
    if isinstance(value, Rotary) and (text is None or len(text) > _SHORT):
        text = _preset_call(value, presets) or text
    if text is None:
        return ""
    import posenc_fast

    names = "|".join(sorted(posenc_fast.__all__))
    return re.sub(rf"(?<![\w.'])(?={names}\b)(?=\w+[(.])", "posenc_fast.", text)


def _preset_call(rotary: Rotary, presets: Sequence[str]) -> str:
    """Return the call of the first preset that returns this Rotary, or an empty string."""
    for name in presets:
        for options in ({}, {"head_dim": rotary.head_dim}, {"head_dim": rotary.head_dim, "theta": rotary.base}):
            build: Any = get(name)
            try:
                same = build(**options) == rotary
            except (TypeError, ValueError):
                # the preset does not have the argument, or its source does not have the width
                continue
            if same:
                arguments = ", ".join(f"{key}={value!r}" for key, value in options.items())
                return f"presets.{name}({arguments})"
    return ""


class Shown:
    """Text and HTML of an identification: lines of titles and texts, or the closest preset."""

    closest: str | None
    error: float
    # what was searched for
    _kind = "encoding"

    def _rows(self) -> dict[str, str]:
        """Return the text of each title; titles with an empty text are left out. Empty if nothing was found."""
        raise NotImplementedError

    def _lines(self) -> list[tuple[str, str]]:
        return [(title, text) for title, text in self._rows().items() if text]

    def _nothing(self) -> str:
        if self.closest:
            return f"no known {self._kind}; the closest is {self.closest}, off by {self.error:.3g}"
        return f"no known {self._kind}, and no preset is close"

    def __str__(self) -> str:
        return "\n".join(f"{title:<11} {text}" for title, text in self._lines()) or self._nothing()

    def _repr_html_(self) -> str:
        # only notebooks call this, so the import waits
        from ..._core.numbers.notebook import html_table

        return html_table(self._lines() or [(self._nothing(),)])
