"""Complete the docstrings of presets, and of functions that compute positions, from facts and shared texts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from textwrap import fill
from types import CodeType
from typing import Any, TypeVar

__all__ = ["Function", "documented", "names_of_parameters", "wrapped"]

_WIDTH = 108
# text between the type and the meaning of a parameter
_INDENTED = "\n    "
Function = TypeVar("Function", bound=Callable[..., Any])


def names_of_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters, in order."""
    code: CodeType = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def wrapped(text: str, first: str = "", others: str = "") -> str:
    """Return a paragraph in lines of at most _WIDTH characters. Code gets double backticks, and stays on one line.

    first: indent of the first line. others: indent of the other lines.
    """
    if "`" in text:
        text = re.sub("`([^`]*)`", lambda code: "``" + code[1].replace(" ", "\0") + "``", text)
    if len(first) + len(text) > _WIDTH:
        text = fill(text, _WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    else:
        text = first + text
    return text.replace("\0", " ")


def documented(
    texts: Mapping[str, str], *, returns: str, example: str = "", notes: Iterable[str] = (), references: str = ""
) -> Callable[[Function], Function]:
    """Return a decorator that adds sections to a docstring of one line.

    Parameters
    ----------
    texts : mapping of str to str
        "type: meaning" of each parameter. Parameters with the same text share an entry.
    returns, references : str
        Text of these sections.
    example : str
        Statements, one on each line, then an arrow and the result of the last one: ``"x = 2\\nx + x -> 4"``.
    notes : iterable of str
        Items of the section Notes.

    Returns
    -------
    callable
        The decorator, which returns the function itself.
    """

    def complete(function: Function) -> Function:
        # python -OO removes docstrings
        if not function.__doc__:
            return function
        sharing: dict[str, list[str]] = {}
        for name in names_of_parameters(function):
            sharing.setdefault(texts[name], []).append(name)
        entries = (f"{', '.join(names)} : {text.replace(': ', _INDENTED, 1)}" for text, names in sharing.items())
        statements, _, result = example.rpartition(" -> ")
        calls = "\n".join(f">>> {line}" for line in ("import posenc_fast as pf", *statements.split("\n")))
        sections = {
            "Parameters": "\n".join(entries),
            "Returns": returns,
            "Raises": "TypeError, ValueError\n    If an argument is invalid.",
            "Notes": "\n".join(wrapped(note, "- ", "  ") for note in notes),
            "References": wrapped(references),
            "Examples": f"{calls}\n{result}" if example else "",
        }
        # empty sections are left out, except Parameters
        kept = (
            f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text or title == "Parameters"
        )
        # sections are not indented, because Python removes the indent of docstrings since 3.13
        function.__doc__ = "\n\n".join([function.__doc__, *kept]) + "\n"
        return function

    return complete
