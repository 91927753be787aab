"""The Python of the README and of the pages in docs/ runs as it stands, from top to bottom."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checkout import checkout
from optional import optional

import posenc_fast as pf

ROOT = checkout(whole_file=True)
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
    blocks = BLOCK.findall(PAGES[page].read_text("utf-8"))
    for package in sorted(set(PACKAGES.findall("\n".join(blocks)))):
        optional(package)
    # files that an example writes go here
    monkeypatch.chdir(tmp_path)
    program = tmp_path / f"{page}.py"
    program.write_text("\n".join(block for block in blocks if "__main__" not in block), "utf-8")
    names = runpy.run_path(str(program))
    for block in blocks:
        if "__main__" in block:
            run_alone(block, tmp_path / "alone.py")
    if page == "README":
        # scores depend on the distance of a query and a key alone, which a shift of both leaves as it is
        rotary, queries, keys = names["rotary"], names["queries"], names["keys"]
        back = rotary.apply(queries, positions=np.full(16, -4))
        moved = back @ np.repeat(keys, 4, axis=1).swapaxes(-1, -2)
        np.testing.assert_allclose(moved, names["scores"], rtol=0, atol=1e-4)


def run_alone(text, program):
    """A program whose processes import it."""
    program.write_text(text, "utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(pf.__file__).parents[1])}
    command = [sys.executable, "-W", "error", str(program)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
