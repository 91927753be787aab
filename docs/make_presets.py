"""Write presets.md from the facts kept beside each preset: ``python docs/make_presets.py``, or ``--print``."""

from __future__ import annotations

import sys
from pathlib import Path

from posenc_fast import presets

HEAD = """\
# Presets

`posenc_fast.presets.<name>(...)` returns the `Encoding` or the `Rotary` of a source. This page is written by `docs/make_presets.py`.

`d` is the number of columns, `i` counts frequencies and `c` columns, from 0; `//` rounds down. A frequency is in
radians per unit of position. Columns "in turn" alternate.

What an `Encoding` does not hold is under positions: where they start, what is put before or behind the columns, and
rows of zeros. `mask_positions`, `mask_coordinates` and `relative_positions` are functions of `posenc_fast`.

"""

ROTARY = """
## Rotary

`Rotary` turns pairs of a head's values by position times frequency; `i` counts pairs, those of each axis where there
are several. Positions are made by the functions of `posenc_fast.presets.positions`. Every preset was compared with
the tables or the turned queries of its source.

"""

TAIL = """
## What is no preset

- Tables of rotary encodings are `flaxformer_rotary` and `speechbrain_rotary` where a source has them as encodings.
- What two angles turn within a pair is no rotation: V-JEPA 2, ERNIE-Image and HunyuanVL in transformers. Allegro and
  Gemma 4's vision tower turn each part of a head by itself: apply a `Rotary` to each.
- Sphere2Vec's sphereC and sphereM are products of sinusoids, FoPE a learned mixture of them.
- Sums of encodings: Mask2Former for video adds that of the frame to `detr`. `Encoding.add_to` adds the second.
- Learned frequencies and trax's random positions, phases and drifts: `fourier_features` and `Encoding` take what a
  checkpoint has.
"""


def page() -> str:
    return HEAD + presets.table(rotary=False) + "\n" + ROTARY + presets.table(rotary=True) + "\n" + TAIL


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(page())
    else:
        Path(__file__).with_name("presets.md").write_text(page(), encoding="utf-8")
