"""Decorators that register presets with their facts, and the look-up of presets by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.encoding.recipes import recipe_of
from ._docstrings import documented, names_of_parameters
from ._families import FAMILIES
from ._other_names import ELSEWHERE, LEARNED, OTHER_NAMES
from ._parameters import PARAMETERS, WIDTHS

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    from .._core.encoding.value import Encoding
    from .._core.rotary.value import Rotary

    P = ParamSpec("P")
    Value = TypeVar("Value", Encoding, Rotary)

__all__ = [
    "FACTS",
    "REGISTERED",
    "Facts",
    "advice",
    "encoding_preset",
    "facts",
    "get",
    "names",
    "preset",
    "rotary_preset",
]


class Facts(NamedTuple):
    """Facts of a preset, for its docstring, its row of `presets.table`, and its section of docs/presets.md.

    Attributes
    ----------
    build : callable
        The preset.
    source : str
        Repository, file and function.
    frequency : str
        Formula of frequency i in radians per unit of position, or a description of all frequencies.
    layout : str
        Order of the columns. For a Rotary: the two values of each pair, and the axis that the pair uses.
    positions : str
        Positions to pass: their unit or their first value, and the call that computes them.
    odd : str
        Which numbers of columns are valid, and what the preset does with other numbers. For a Rotary: which widths are
        valid, by the arguments that determine them.
    differs : str
        Differences from `original`, other than the number of axes.
    also : str
        Other sources of the same function.
    axes : str
        Number of axes of a position.
    by_width : bool
        Whether `identify` tries the preset at the width of a table. The first argument of such a preset is the number
        of columns, and all others have defaults.
    rotary : bool
        Whether the preset returns a Rotary.
    """

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

    @property
    def original(self) -> str:
        """The publication whose encoding `differs` compares this preset with."""
        return "RoFormer" if self.rotary else "the paper"

    @property
    def axes_in_words(self) -> str:
        """Number of axes as words of a sentence: "two axes", "any number of axes"."""
        words = {"1": "one", "2": "two", "3": "three", "4": "four", "any number": "any number of"}
        return f"{words.get(self.axes, self.axes)} {'axis' if self.axes == '1' else 'axes'}"


# largest number of suggested names in an error
_MOST_SUGGESTED = 8
# facts of presets whose modules were imported; the decorators add them
REGISTERED: dict[str, Facts] = {}


class _AllFacts(Mapping[str, Facts]):
    """Facts of all presets by name. Looking up a name imports the module that defines the preset."""

    def __getitem__(self, name: str) -> Facts:
        # import each time: another thread may have registered the preset, but not finished its module
        import_module(f".{FAMILIES[name]}", __package__)
        return REGISTERED[name]

    def __iter__(self) -> Iterator[str]:
        return iter(FAMILIES)

    def __len__(self) -> int:
        return len(FAMILIES)


FACTS = _AllFacts()


def preset(
    *,
    source: str,
    frequency: str,
    layout: str,
    differs: str,
    positions: str = "0, 1, ..",
    odd: str = "ValueError if the width is odd",
    also: str = "",
    example: str = "",
    axes: str = "1",
    by_width: bool | None = None,
) -> Callable[[Callable[P, Encoding]], Callable[P, Encoding]]:
    """Return a decorator that registers a preset of an Encoding with its `Facts`, and completes its docstring.

    `documented` describes the format of ``example``. `_takes_a_width` returns the default of by_width. The decorated
    preset stores its call in the Encoding that it returns, as the recipe that rebuilds it (see `recipe_of`), unless
    this Encoding already has a recipe.
    """

    def register(build: Callable[P, Encoding]) -> Callable[P, Encoding]:
        @functools.wraps(build)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> Encoding:
            encoding = build(*args, **kwargs)
            if encoding._recipe:
                return encoding
            return encoding._of(encoding._sinusoids, recipe_of(f"presets.{build.__name__}", *args, **kwargs))

        known = Facts(
            build=recorded,
            source=source,
            frequency=frequency,
            layout=layout,
            positions=positions,
            odd=odd,
            differs=differs,
            also=also,
            axes=axes,
            by_width=_takes_a_width(build) if by_width is None else by_width,
        )
        return _registered(recorded, known, example)

    return register


def rotary_preset(
    *,
    source: str,
    frequency: str,
    pairs: str,
    differs: str = "",
    positions: str = "the token's index from 0",
    odd: str = "ValueError if head_dim is odd",
    also: str = "",
    example: str = "",
    axes: str = "1",
) -> Callable[[Callable[P, Rotary]], Callable[P, Rotary]]:
    """Return a decorator that registers a preset of a Rotary, as `preset` does for an Encoding.

    pairs: the field ``layout`` of the facts. odd: the valid widths. All arguments of the preset need defaults, unless
    they come from a checkpoint. The decorator returns the function itself.
    """

    def register(build: Callable[P, Rotary]) -> Callable[P, Rotary]:
        known = Facts(
            build=build,
            source=source,
            frequency=frequency,
            layout=pairs,
            positions=positions,
            odd=odd,
            differs=differs,
            also=also,
            axes=axes,
            by_width=False,
            rotary=True,
        )
        return _registered(build, known, example)

    return register


def _takes_a_width(build: Any) -> bool:
    """Return whether a preset's first parameter is a number of columns, and all others have defaults."""
    parameters = names_of_parameters(build)
    defaults = len(build.__defaults__ or ()) + len(build.__kwdefaults__ or ())
    return bool(parameters) and parameters[0] in WIDTHS and defaults >= len(parameters) - 1


def _registered(build: Callable[P, Value], known: Facts, example: str) -> Callable[P, Value]:
    REGISTERED[build.__name__] = known
    kind, columns = ("Rotary", "pairs") if known.rotary else ("Encoding", "columns")
    notes = [
        f"frequency i, in radians per unit of position: {known.frequency}",
        f"{columns}: {known.layout}",
        f"positions: {known.positions}",
        f"widths: {known.odd}",
    ]
    if known.differs:
        notes.append(f"differs from {known.original}: {known.differs}")
    if known.also:
        notes.append(f"the same function in: {known.also}")
    returns = f"{kind}\n    Over {known.axes_in_words}."
    return documented(PARAMETERS, returns=returns, example=example, notes=notes, references=known.source)(build)


def names() -> tuple[str, ...]:
    """Return the names of all presets, sorted.

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
    """Return the facts of a preset by name. Raise AttributeError with advice if there is no such preset."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {name!r}")
    known = FACTS.get(name)
    if known is None:
        fix = advice(name) or "posenc_fast.presets.names() lists all presets"
        raise AttributeError(f"there is no preset {name!r}; {fix}", name=name)
    return known


def advice(name: str) -> str:
    """Return advice for a name that is not a preset, such as similar names. Return "" if there is none."""
    import difflib

    from .._models.config.table import types

    normalized = re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")
    if normalized in ELSEWHERE:
        return ELSEWHERE[normalized]
    if normalized in LEARNED:
        return "the positions of that model are learned, and have no formula"
    if normalized in OTHER_NAMES:
        return f"use {', '.join(OTHER_NAMES[normalized])}"
    mentioned = [
        other for other, facts in FACTS.items() if len(name) > 2 and name.lower() in (facts.source + facts.also).lower()
    ]
    if not mentioned and normalized.replace("_", "") in {re.sub("[^a-z0-9]", "", model) for model in types()}:
        return "posenc_fast.Rotary.from_config reads the config.json of that model"
    suggested = list(dict.fromkeys(mentioned + difflib.get_close_matches(name, FACTS, n=3, cutoff=0.5)))
    if not suggested:
        return ""
    search_hint = f", or another result of search({name!r})" if len(suggested) > _MOST_SUGGESTED else ""
    return f"perhaps {', '.join(suggested[:_MOST_SUGGESTED])}{search_hint}"


def get(name: str) -> Callable[..., Any]:
    """Return the preset of a name.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    callable
        Function that returns the Encoding or Rotary.

    Raises
    ------
    AttributeError
        If there is no such preset. The message gives advice, such as similar names, or presets whose sources mention
        the name.
    TypeError
        If name is not a string.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> pf.presets.get("whisper")(4) == pf.presets.whisper(4)
    True
    """
    return facts(name).build


def encoding_preset(name: str) -> Callable[..., Encoding]:
    """Return a preset by name. Raise AttributeError for an unknown name, ValueError for a preset of a Rotary."""
    known = facts(name)
    if known.rotary:
        raise ValueError(f"the preset {name!r} is a Rotary, not an Encoding; posenc_fast.presets.{name}(..) returns it")
    build: Callable[..., Any] = known.build
    return build
