"""Assertion for tests of your code: check that its position encoding is right.

Examples
--------
>>> import numpy as np
>>> from posenc_fast.testing import assert_right
>>> def rows(positions):
...     angles = positions[:, None] / 10000 ** (2 * np.arange(32) / 64)
...     return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 64)
>>> assert_right(rows, "annotated_transformer")
"""

from __future__ import annotations

from typing import Any

from ._models.check.check import check

__all__ = ["assert_right"]


def __dir__() -> list[str]:
    return sorted(__all__)


def assert_right(source: Any, expected: Any = None, *, config: Any = None) -> None:
    """Raise an AssertionError unless `posenc_fast.check` finds that a position encoding is right.

    Parameters
    ----------
    source, expected, config
        As in `posenc_fast.check`: a function, torch module, file, arrays or config, and what it must compute.

    Raises
    ------
    AssertionError
        If a finding has the verdict "wrong", or none has the verdict "right". The message is the report.
    TypeError, ValueError, OSError, ImportError
        If an argument is invalid, or a file cannot be read.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> from posenc_fast.testing import assert_right
    >>> assert_right(lambda positions: pf.Rotary(64).tables(positions), pf.Rotary(64))
    >>> try:
    ...     assert_right(lambda positions: pf.Rotary(64).tables(positions + 1), pf.Rotary(64))
    ... except AssertionError as error:
    ...     print(str(error).partition(";")[0])
    <lambda>
    wrong    <lambda>: computed cosines and sines: start: compared with base 10000: row p has the values of position p + 1
    """
    report = check(source, expected, config=config)
    verdicts = {finding.verdict for finding in report.findings}
    if "wrong" in verdicts or "right" not in verdicts:
        raise AssertionError(str(report))
