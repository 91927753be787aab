"""Format tables as HTML for notebooks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

_LEFT = ' style="text-align:left"'


def html_table(rows: Iterable[Sequence[str]], heading: Sequence[str] = ()) -> str:
    """Return an HTML table. The first cell of each row is a title. Text between backticks becomes code."""
    head = "".join(f"<th{_LEFT}>{_cell(text)}</th>" for text in heading)
    body = "".join(
        f"<tr><th{_LEFT}>{_cell(title)}</th>{''.join(f'<td{_LEFT}>{_cell(text)}</td>' for text in rest)}</tr>"
        for title, *rest in rows
    )
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return re.sub("`+(.+?)`+", r"<code>\1</code>", html.escape(text))
