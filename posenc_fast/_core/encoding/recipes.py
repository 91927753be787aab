"""Recipes, which are calls that rebuild an encoding. They are converted to text only when needed.

A recipe is a tuple (name of a function, positional arguments, options by name). Arguments are numbers, text, arrays,
schedules and recipes. A recipe can also be text, which is empty if no recipe exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..numbers.schedule import Explicit, Single

Recipe = str | tuple[str, tuple[Any, ...], dict[str, Any]]

# maximum number of values in an array that `shown` writes in full
SHOWN = 64


def recipe_of(name: str, *arguments: Any, defaults: Mapping[str, Any] | None = None, **options: Any) -> Recipe:
    """Return the recipe of a call, without the options whose value is their default. Options with arrays are kept."""
    kept = {
        key: value
        for key, value in options.items()
        if isinstance(value, np.ndarray) or defaults is None or key not in defaults or value != defaults[key]
    }
    return name, arguments, kept


def option(recipe: Recipe, function: str, name: str, default: Any) -> Any:
    """Return an option of the recipe, or its default, if the recipe is a call of this function. Else return None."""
    return recipe[2].get(name, default) if isinstance(recipe, tuple) and recipe[0] == function else None


def written(recipe: Recipe) -> str:
    """Return the whole recipe as a Python expression."""
    return recipe if isinstance(recipe, str) else _text(recipe, None)


def shown(recipe: Recipe) -> str:
    """Return the recipe as text. Arrays of more than SHOWN values are shortened; then the text is in brackets <>."""
    whole = recipe if isinstance(recipe, str) else _text(recipe, SHOWN)
    return f"<{whole}, shortened; the attribute recipe is complete>" if ", .., " in whole else whole


def _text(value: Any, most: int | None) -> str:
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[1], tuple) and isinstance(value[2], dict):
        name, arguments, options = value
        parts = [_text(argument, most) for argument in arguments]
        parts += [f"{key}={_text(each, most)}" for key, each in options.items()]
        return f"{name}({', '.join(parts)})"
    if isinstance(value, Single):
        return f"float32_frequencies({_text(value.values, most)})"
    if isinstance(value, Explicit):
        value = value.values
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(each, most)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        begin, end = "[]" if isinstance(value, list) else "()"
        items = list(value)
        left_out = most is not None and len(items) > 3 and _size(value) > most
        texts = [_text(item, most) for item in ([*items[:2], items[-1]] if left_out else items)]
        if left_out:
            texts.insert(2, "..")
        return begin + ", ".join(texts) + ("," if len(texts) == 1 and begin == "(" else "") + end
    return repr(value)


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1
