"""Catalogue of all presets: search by words, a table, and HTML for notebooks."""

from __future__ import annotations

import re
import sys

from ._other_names import OTHER_NAMES
from ._registry import FACTS, names

__all__ = ["catalogue", "family", "other_names", "search", "summary", "table"]


def search(*words: str) -> tuple[str, ...]:
    """Find the presets that mention all given words.

    Parameters
    ----------
    *words : str
        Words to search, separate or in one string. Case does not matter. Points, hyphens and underscores are equal, and
        may be missing between a letter and a digit: "gpt2", "gpt_2" and "GPT-2" find the same presets. The search
        covers names, titles of families (weather, molecules ..), first lines of docstrings, all cells of `table`, and
        other common names of a preset.

    Returns
    -------
    tuple of str
        Names, sorted; empty if no preset matches.

    Raises
    ------
    TypeError, ValueError
        If a word is not a string, or if there are no words.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.presets.search("stable diffusion")
    ('diffusers_timesteps', 'guided_diffusion', 'stable_audio')
    >>> pf.presets.search("tabular")
    ('fone', 'moirai', 'nemos', 'pbld', 'plr', 'prophet', 'rbf_sampler')
    """
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"words must be strings, not {word!r}")
    lowered = " ".join(words).lower().split()
    if not lowered:
        raise ValueError("words is empty; pass at least one word. names() lists all presets")
    patterns = [_pattern(word) for word in lowered]
    matching = []
    for name, facts in FACTS.items():
        texts = [name, family(name), summary(name), *other_names(name), facts.axes_in_words]
        texts += ["rotary"] * facts.rotary
        texts += (fact for fact in facts if isinstance(fact, str))
        text = "\n".join(texts).lower()
        if all(pattern.search(text) for pattern in patterns):
            matching.append(name)
    return tuple(sorted(matching))


def other_names(name: str) -> list[str]:
    """Return the names that people type for a preset, with spaces between their words."""
    return [
        other.replace("_", " ")
        for other, calls in OTHER_NAMES.items()
        if any(call.partition("(")[0] == name for call in calls)
    ]


def _pattern(word: str) -> re.Pattern[str]:
    """Return a pattern that allows separators between the letters and the digits of a word: "gpt2" matches "gpt-2"."""
    parts = re.findall(r"[^\W\d_]+|\d+", word)
    return re.compile(r"[\W_]*".join(parts) or re.escape(word))


def family(name: str) -> str:
    """Return the subject of the module that defines a preset, from the first line of the module's docstring."""
    text = sys.modules[FACTS[name].build.__module__].__doc__ or ""
    return text.partition("\n")[0].removeprefix("Presets of ").rstrip(".")


def summary(name: str) -> str:
    """Return the first line of a preset's docstring."""
    return (FACTS[name].build.__doc__ or "").partition("\n")[0]


class _Table(str):
    """A Markdown table that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # imported here, because only notebooks call this function
        from .._core.numbers.notebook import html_table

        heading, _, *rows = (line[2:-2].split(" | ") for line in self.splitlines())
        return html_table(rows, heading)


def catalogue() -> str:
    """Return HTML: each family with its presets, and the first docstring line of each preset."""
    import html

    from .._core.numbers.notebook import html_table

    by_family: dict[str, list[str]] = {}
    for name in names():
        by_family.setdefault(family(name), []).append(name)
    return "".join(
        f"<details><summary>{html.escape(about[0].upper() + about[1:])} ({len(members)})</summary>"
        f"{html_table((f'`{name}`', summary(name)) for name in members)}</details>"
        for about, members in sorted(by_family.items(), key=lambda item: item[0].lower())
        if about
    )


def table(*, rotary: bool | None = None) -> str:
    """Return the presets as a Markdown table.

    Parameters
    ----------
    rotary : bool, optional
        True for presets that return a Rotary, False for presets that return an Encoding (default: all).

    Returns
    -------
    str
        Two lines of heading, then one line for each preset, sorted by name. Notebooks show it as a table.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> len(pf.presets.table().splitlines()) == len(pf.presets.names()) + 2
    True
    """
    columns = {None: "columns, or pairs", False: "columns", True: "pairs"}[rotary]
    paper = "RoFormer" if rotary else "the paper"
    heading = (
        "preset",
        "source",
        "frequency i",
        columns,
        "axes",
        "positions",
        "widths",
        f"differs from {paper}",
    )
    rows = [heading, ("---",) * len(heading)]
    for name in names():
        known = FACTS[name]
        if rotary is not None and known.rotary != rotary:
            continue
        source = known.source + (f"; also {known.also}" if known.also else "")
        rows.append(
            (f"`{name}`", source, known.frequency, known.layout, known.axes, known.positions, known.odd, known.differs)
        )
    return _Table("\n".join("| " + " | ".join(cell.replace("|", "∥") for cell in row) + " |" for row in rows))
