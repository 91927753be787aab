"""Incorrect programs. Type checkers must report an error on each marked line, and on no other line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import posenc_fast as pf

encoding = pf.sinusoidal(8)
x = np.zeros((3, 8), np.float32)

pf.sinusoidal(8, layout="concat")  # mistake
pf.sinusoidal(8, functions=("sin", "cosine"))  # mistake
pf.sinusoidal(7, odd="pad")  # mistake
pf.fourier_features([1.0], layout="half")  # mistake
pf.positional_encoding("4", 8)  # mistake
encoding.table(4, precison="exact")  # mistake
encoding.table(4, out=[0.0])  # mistake
encoding.encode([1, 2], precision="fast")  # mistake
encoding.add_to(np.zeros((3, 8), np.int64))  # mistake
encoding.d_model = 16  # mistake
pf.grid([2], encoding, indexing="yx")  # mistake
pf.Rotary(8, layout="neox")  # mistake
pf.Rotary(8).apply(x, seq_axis="heads")  # mistake
pf.permute_rotary(x, 8, source="half", target="interleaved_to_half")  # mistake
pf.reorder_columns(x, "interleaved", "cos-first")  # mistake
pf.use_backend("numpy")  # mistake
pf.use_backend("cython", "avx")  # mistake
pf.presets.whisper(8, frequencies="single")  # mistake
pf.presets.gemma3(layer_type="local")  # mistake
pf.presets.wisper(8)  # mistake

float64: npt.NDArray[np.float64] = encoding.table(3)  # mistake
out: npt.NDArray[np.float64] = encoding.table(3, out=x)  # mistake
cos: npt.NDArray[np.float64] = pf.Rotary(8).tables(3)  # mistake
tuple_of_one: tuple[npt.NDArray[np.float32]] = pf.Rotary(8).tables(3)  # mistake
maybe: pf.Rotary = pf.Rotary.from_config({}, layer=3)  # mistake

# correct lines
pf.sinusoidal(8, layout="concatenated", functions=("-cos", "sin"), odd="zero")
right: npt.NDArray[np.float32] = encoding.table(3)
