"""Tables of measurements in the pages that show them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def put(page: str, mark: str, table: str) -> None:
    """Write a table into a page, between ``<!-- mark -->`` and ``<!-- /mark -->``."""
    path = ROOT / page
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    place = re.compile(f"(?<={begin}).*?(?={end})", re.DOTALL)
    new, found = place.subn(lambda _: table + "\n", path.read_text("utf-8"))
    assert found == 1, f"{page} has no place for {mark}"
    path.write_text(new, "utf-8")
