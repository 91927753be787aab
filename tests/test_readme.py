"""The README's Python runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_readme(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(program))
    # scores depend on the distance of a query and a key alone, which a shift of both leaves as it is
    rotary, queries, keys = names["rotary"], names["queries"], names["keys"]
    back = rotary.apply(queries, positions=np.full(16, -4))
    moved = back @ np.repeat(keys, 4, axis=1).swapaxes(-1, -2)
    np.testing.assert_allclose(moved, names["scores"], rtol=0, atol=1e-4)
