"""What is known of each preset, kept beside it: for its docstring, the table of all, and the look-up by name."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from textwrap import dedent, fill
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .._encoding.recipes import recipe_of
from .._encoding.value import Encoding
from .._rotary.value import Rotary
from ._other_names import ELSEWHERE, LEARNED, OTHER_NAMES
from ._parameters import PARAMETERS

__all__ = [
    "FACTS",
    "Facts",
    "encoding_preset",
    "facts",
    "get",
    "names",
    "preset",
    "rotary_preset",
    "search",
    "summary",
    "table",
]

P = ParamSpec("P")
Value = TypeVar("Value", Encoding, Rotary)


class Facts(NamedTuple):
    """What a docstring and a row of the table say of a preset."""

    build: Callable[..., Encoding | Rotary]
    source: str
    frequency: str
    layout: str
    positions: str
    odd: str
    differs: str
    also: str
    axes: str
    by_width: bool
    rotary: bool = False


# names in an error
_MOST_NEAR = 8
# filled by the decorator, in the order of the modules
FACTS: dict[str, Facts] = {}


def preset(
    *,
    source: str,
    frequency: str,
    layout: str,
    positions: str,
    odd: str,
    differs: str,
    also: str = "",
    axes: str = "1",
    by_width: bool = True,
) -> Callable[[Callable[P, Encoding]], Callable[P, Encoding]]:
    """Register a preset with its facts, which become sections of its docstring and a row of the table.

    Parameters
    ----------
    source : str
        Repository, file and function.
    frequency : str
        Frequency i in radians per unit of position, or the frequencies.
    layout : str
        Order of the columns.
    positions : str
        Where positions start, what is done to them, and the call that gives it.
    odd : str
        What an odd width does.
    differs : str
        In what it differs from the paper.
    also : str
        Other sources of the same function.
    axes : str
        Number of axes of a position.
    by_width : bool
        Whether the first argument is the number of columns, and all others have defaults.

    Returns
    -------
    callable
        The decorator, which returns the function, whose results know their recipe.
    """

    def register(build: Callable[P, Encoding]) -> Callable[P, Encoding]:
        @functools.wraps(build)
        def whole(*args: P.args, **kwargs: P.kwargs) -> Encoding:
            """With the call as its recipe, where no simpler one makes it."""
            encoding = build(*args, **kwargs)
            if encoding._recipe:
                return encoding
            return encoding._of(encoding._sinusoids, recipe_of(f"presets.{build.__name__}", *args, **kwargs))

        return _registered(
            whole, Facts(whole, source, frequency, layout, positions, odd, differs, also, axes, by_width)
        )

    return register


def rotary_preset(
    *, source: str, frequency: str, pairs: str, positions: str, differs: str, also: str = "", axes: str = "1"
) -> Callable[[Callable[P, Rotary]], Callable[P, Rotary]]:
    """Register a preset that is a Rotary, all of whose arguments have defaults or come from a checkpoint.

    Parameters
    ----------
    source, frequency, also, axes
        As for `preset`.
    pairs : str
        Which values of a head turn together, and by which axis.
    positions : str
        What they count, and the call that gives them.
    differs : str
        In what it differs from RoFormer.

    Returns
    -------
    callable
        The decorator, which returns the function itself.
    """

    def register(build: Callable[P, Rotary]) -> Callable[P, Rotary]:
        return _registered(
            build, Facts(build, source, frequency, pairs, positions, "ValueError", differs, also, axes, False, True)
        )

    return register


def _registered(build: Callable[P, Value], found: Facts) -> Callable[P, Value]:
    FACTS[build.__name__] = found
    if build.__doc__:
        build.__doc__ = _docstring(build, found)
    return build


def _docstring(build: Callable[..., Any], found: Facts) -> str:
    """Without margins, which Python itself takes away since 3.13."""
    summary, _, examples = (build.__doc__ or "").partition("\n\n")
    code = inspect.unwrap(build).__code__
    parameters = "\n".join(
        f"{name} : {PARAMETERS[name]}" for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    )
    notes = [
        f"frequency i, in radians per unit of position: {found.frequency}",
        f"{'pairs' if found.rotary else 'columns'}: {found.layout}",
        f"positions: {found.positions}",
        f"odd widths: {found.odd}",
        f"differs from {'RoFormer' if found.rotary else 'the paper'}: {found.differs}",
    ]
    if found.also:
        notes.append(f"the same function: {found.also}")
    listed = "\n".join(_wrapped(note, "- ", "  ") for note in notes)
    return f"""{summary}

Parameters
----------
{parameters}

Returns
-------
{"Rotary" if found.rotary else "Encoding"}
    Over {"one axis" if found.axes == "1" else found.axes + " axes"}.

Raises
------
TypeError, ValueError
    When an argument does not fit.

Notes
-----
{listed}

References
----------
{_wrapped(found.source, "", "")}

{dedent(examples)}"""


def _wrapped(text: str, first: str, others: str) -> str:
    """Lines of a docstring; what is code stays in one piece."""
    whole = re.sub("`([^`]*)`", lambda code: "``" + code[1].replace(" ", "\0") + "``", text)
    return fill(whole, 108, initial_indent=first, subsequent_indent=others, break_on_hyphens=False).replace("\0", " ")


def names() -> tuple[str, ...]:
    """Names of all presets, sorted.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import posenc_fast as pf
    >>> "whisper" in pf.presets.names()
    True
    """
    return tuple(sorted(FACTS))


def facts(name: str) -> Facts:
    """What is known of the preset of a name, or an error that lists the nearest names."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {name!r}")
    found = FACTS.get(name)
    if found is None:
        raise AttributeError(f"there is no preset {name!r}; {_advice(name)}", name=name)
    return found


def _advice(name: str) -> str:
    """What may be meant by a name that no preset has."""
    plain = re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")
    if plain in ELSEWHERE:
        return ELSEWHERE[plain]
    if plain in LEARNED:
        return "that model's positions are learned, and have no formula"
    if plain in OTHER_NAMES:
        return f"that is {', '.join(OTHER_NAMES[plain])}"
    mentioned = [
        other for other, facts in FACTS.items() if len(name) > 2 and name.lower() in (facts.source + facts.also).lower()
    ]
    near = list(dict.fromkeys(mentioned + difflib.get_close_matches(name, FACTS, n=3, cutoff=0.5)))
    if not near:
        return "posenc_fast.presets.names() lists them"
    more = f" and others that search({name!r}) finds" if len(near) > _MOST_NEAR else ""
    return f"perhaps {', '.join(near[:_MOST_NEAR])}{more}"


def search(*words: str) -> tuple[str, ...]:
    """Find the presets that mention all of some words.

    Parameters
    ----------
    *words : str
        In upper or lower case, several in one string or apart. They may stand in the name, in the first line of the
        docstring, in the facts of `table`, or in another name of the model.

    Returns
    -------
    tuple of str
        Names, sorted; empty where none does.

    Raises
    ------
    TypeError, ValueError
        When a word is no string, or there is none.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.presets.search("stable diffusion")
    ('diffusers_timesteps', 'guided_diffusion')
    """
    for each in words:
        if not isinstance(each, str):
            raise TypeError(f"words must be strings, not {each!r}")
    wanted = " ".join(words).lower().split()
    if not wanted:
        raise ValueError(f"words must be at least one, not {words!r}; names() lists all presets")
    others: dict[str, str] = {}
    for other, meant in OTHER_NAMES.items():
        for call in meant:
            name = call.partition("(")[0]
            others[name] = f"{others.get(name, '')} {other.replace('_', ' ')}"
    found = []
    for name, facts in FACTS.items():
        family = "rotary" if facts.rotary else ""
        text = (name, summary(name), family, others.get(name, ""), *(part for part in facts if isinstance(part, str)))
        if all(word in " ".join(text).lower() for word in wanted):
            found.append(name)
    return tuple(sorted(found))


def summary(name: str) -> str:
    """The first line of a preset's docstring."""
    return (FACTS[name].build.__doc__ or "").partition("\n")[0]


def get(name: str) -> Callable[..., Any]:
    """The preset of a name.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    callable
        The function that makes its Encoding or Rotary.

    Raises
    ------
    AttributeError
        When there is none; the message lists the nearest names, and presets whose sources mention the name.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.presets.get("whisper")(4) == pf.presets.whisper(4)
    True
    """
    return facts(name).build


def encoding_preset(name: str) -> Callable[..., Encoding]:
    """The preset of a name, which must be an Encoding's."""
    found = facts(name)
    if found.rotary:
        raise ValueError(f"the preset {name!r} is a Rotary, not an Encoding; posenc_fast.presets.{name}() makes it")
    build: Callable[..., Any] = found.build
    return build


def table(*, rotary: bool | None = None) -> str:
    """All presets as a Markdown table.

    Parameters
    ----------
    rotary : bool, optional
        True for those that are a Rotary, False for those that are an Encoding; all if not given.

    Returns
    -------
    str
        One line a preset, sorted by name, below two lines of heading.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> len(pf.presets.table().splitlines()) == len(pf.presets.names()) + 2
    True
    """
    columns = {None: "columns, or pairs", False: "columns", True: "pairs"}[rotary]
    paper = {None: "the paper", False: "the paper", True: "RoFormer"}[rotary]
    heading = (
        "preset",
        "source",
        "frequency i",
        columns,
        "axes",
        "positions",
        "odd widths",
        f"differs from {paper}",
    )
    rows = [heading, ("---",) * len(heading)]
    for name in names():
        found = FACTS[name]
        if rotary is not None and found.rotary != rotary:
            continue
        source = found.source + (f"; also {found.also}" if found.also else "")
        rows.append(
            (f"`{name}`", source, found.frequency, found.layout, found.axes, found.positions, found.odd, found.differs)
        )
    return "\n".join("| " + " | ".join(cell.replace("|", "∥") for cell in row) + " |" for row in rows)
