"""Build the call that rebuilds an identified encoding, and the text and HTML of an identification."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..._core.encoding.value import Encoding
from ..._core.rotary.value import Rotary
from ...presets._registry import get

# largest number of characters of a Rotary's recipe; a longer recipe is replaced by the call of a preset, if one matches
_SHORT = 60


def call_of(value: Encoding | Rotary, presets: Sequence[str] = ()) -> str:
    """Return the call that rebuilds a value, with the package's name, or "" if the call would be too long to show.

    The call is the `recipe` of the value. For a Rotary with a long recipe, it is the call of the first preset that
    returns this Rotary, if there is such a preset.
    """
    # the repr shortens long arrays, so a recipe that differs from the repr is None or too long to show
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
                # the preset does not have this argument, or its source does not support this width
                continue
            if same:
                arguments = ", ".join(f"{key}={value!r}" for key, value in options.items())
                return f"presets.{name}({arguments})"
    return ""


class Shown:
    """Show an identification as text and HTML. If nothing was found, name the closest preset if it is close."""

    closest: str | None
    error: float
    # kind of encoding that was searched for
    _kind = "encoding"

    def _rows(self) -> dict[str, str]:
        """Return the lines to show as {title: text}, or {} if nothing was found. Lines without a text are not shown."""
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
        # import here, because only notebooks call this method
        from ..._core.numbers.notebook import html_table

        return html_table(self._lines() or [(self._nothing(),)])
