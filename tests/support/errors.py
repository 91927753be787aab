"""Parametrize tests by tables of wrong calls. A line has a call, the type of its error, and words of the message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest


def wrong_calls(table: str, *parameters: str) -> Callable[[Any], Any]:
    """Parametrize a test with `call`, `error` and `words`, from lines such as `f(-1) | ValueError | length; -1`.

    table: text with one call on each line, and comments on lines that begin with #. The call may use names of the test's
    file, and the names in `parameters`. The test passes values for these parameters to `call`. words: the texts after
    the last bar, which the message must contain.
    """

    def decorate(test: Any) -> Any:
        cases = []
        for line in table.strip().splitlines():
            if line.strip().startswith("#"):
                continue
            call, error, words = line.strip().split(" | ")
            function = eval(f"lambda {', '.join(parameters)}: ({call})", test.__globals__)
            case = function, eval(error, test.__globals__), words.split("; ")
            cases.append(pytest.param(*case, id=call))
        return pytest.mark.parametrize(("call", "error", "words"), cases)(test)

    return decorate


def raises(call: Callable[[], Any], error: Any, words: list[str]) -> str:
    """Assert that a call raises the given type of error, with all words in its message. Return the message."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    patterns = [re.escape(word) for word in words]
    if words[0].isidentifier():
        # the name of an argument, such as base, must not be part of a longer word
        patterns[0] = rf"\b{words[0]}\b"
    missing = [word for word, pattern in zip(words, patterns, strict=True) if not re.search(pattern, message)]
    assert not missing, f"the error {message!r} lacks {missing}"
    return message
