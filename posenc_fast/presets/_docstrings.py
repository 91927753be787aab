"""Docstrings made of facts: the sections that presets, and their positions, have alike are worded once, here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from textwrap import fill
from types import CodeType
from typing import Any

__all__ = ["docstring", "names_of_parameters", "wrapped"]

_WIDTH = 108


def names_of_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters, which all have one, in order."""
    code: CodeType = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def wrapped(text: str, first: str = "", others: str = "") -> str:
    """Return the lines of a paragraph; what is code stays in one piece."""
    if "`" in text:
        text = re.sub("`([^`]*)`", lambda code: "``" + code[1].replace(" ", "\0") + "``", text)
    if len(first) + len(text) > _WIDTH:
        text = fill(text, _WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    else:
        text = first + text
    return text.replace("\0", " ")


def docstring(
    summary: str,
    *,
    parameters: Iterable[tuple[str, str]],
    returns: str,
    example: str,
    notes: Iterable[str] = (),
    references: str = "",
) -> str:
    """Return a docstring without margins, which Python itself takes away since 3.13.

    Parameters
    ----------
    summary : str
        First line.
    parameters : iterable of (names, text)
        Type and meaning of each parameter.
    returns, references : str
        Text of these sections.
    example : str
        Statements, each in a line, and the result of the last behind an arrow: ``"x = 2\\nx + x -> 4"``.
    notes : iterable of str
        Points of the notes.

    Returns
    -------
    str
    """
    statements, _, result = example.rpartition(" -> ")
    calls = "\n".join(f">>> {line}" for line in ("import posenc_fast as pf", *statements.split("\n")))
    sections = {
        "Parameters": "\n".join(f"{names} : {text}" for names, text in parameters),
        "Returns": returns,
        "Raises": "TypeError, ValueError\n    When an argument does not fit.",
        "Notes": "\n".join(wrapped(note, "- ", "  ") for note in notes),
        "References": wrapped(references),
        "Examples": f"{calls}\n{result}",
    }
    # a preset without parameters has a section of them all the same
    kept = {title: text for title, text in sections.items() if text or title == "Parameters"}
    return "\n\n".join([summary, *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in kept.items())]) + "\n"
