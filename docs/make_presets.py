"""Write presets.md from the facts kept beside each preset: ``python docs/make_presets.py``, or ``--print``."""

from __future__ import annotations

import sys
from pathlib import Path

from posenc_fast import presets

HEAD = """\
# Presets

`posenc_fast.presets.<name>(...)` returns the `Encoding` of a source. This page is written by `docs/make_presets.py`.

`d` is the number of columns, `i` counts frequencies and `c` columns, from 0; `//` rounds down. A frequency is in
radians per unit of position. Columns "in turn" alternate.

What an `Encoding` does not hold is under positions: where they start, what is put before or behind the columns, and
rows of zeros. `mask_positions`, `mask_coordinates` and `relative_positions` are functions of `posenc_fast`.

"""

TAIL = """
## What is no preset

- Rotary embeddings turn vectors; their tables are `flaxformer_rotary` and `speechbrain_rotary` where a source has them
  as encodings.
- Sphere2Vec's sphereC and sphereM are products of sinusoids, FoPE a learned mixture of them.
- Sums of encodings: Mask2Former for video adds that of the frame to `detr`. `Encoding.add_to` adds the second.
- Learned frequencies and trax's random positions, phases and drifts: `fourier_features` and `Encoding` take what a
  checkpoint has.
"""


def page() -> str:
    return HEAD + presets.table() + "\n" + TAIL


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(page())
    else:
        Path(__file__).with_name("presets.md").write_text(page(), encoding="utf-8")
