"""The Python of the README and of the pages in docs/ runs as it stands, from top to bottom."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from optional import optional

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = {
    path.stem: path
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
    if BLOCK.search(path.read_text("utf-8"))
}
# what the examples may need beyond NumPy
PACKAGES = re.compile(r"^(?:import|from) (dask|jax|matplotlib|pandas|sklearn|torch|transformers|zarr)\b", re.MULTILINE)


@pytest.mark.parametrize("page", list(PAGES))
def test_page(page, tmp_path, monkeypatch):
    text = "\n".join(BLOCK.findall(PAGES[page].read_text("utf-8")))
    for package in sorted(set(PACKAGES.findall(text))):
        optional(package)
    # files that an example writes go here
    monkeypatch.chdir(tmp_path)
    program = tmp_path / f"{page}.py"
    program.write_text(text, "utf-8")
    names = runpy.run_path(str(program))
    if page == "README":
        # scores depend on the distance of a query and a key alone, which a shift of both leaves as it is
        rotary, queries, keys = names["rotary"], names["queries"], names["keys"]
        back = rotary.apply(queries, positions=np.full(16, -4))
        moved = back @ np.repeat(keys, 4, axis=1).swapaxes(-1, -2)
        np.testing.assert_allclose(moved, names["scores"], rtol=0, atol=1e-4)
