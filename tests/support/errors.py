"""Parametrize tests by tables of wrong calls. A line has a call, the type of its error, and words of the message."""

from __future__ import annotations

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


def raises(call: Callable[[], Any], error: Any, words: list[str]) -> None:
    """Assert that a call raises the given type of error, with all words in its message."""
    with pytest.raises(error) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"the error {str(caught.value)!r} lacks {missing}"
