"""Incorrect programs that use torch. Type checkers must report an error on each marked line, and on no other line."""

from __future__ import annotations

import torch

import posenc_fast as pf
import posenc_fast.torch as pt

x = torch.zeros(2, 3, 8)
pt.SinusoidalEncoding(8, precision="half")  # mistake
pt.SinusoidalEncoding(8)(x, begin=3)  # mistake
pt.RotaryEncoding(8)(x).append(x)  # mistake
shape = pt.RotaryEncoding(8)(x, x).shape  # mistake
pt.apply_rotary_pos_emb(x, x, x, x, layout="neox")  # mistake
pt.apply_rotary_pos_emb(x, x, x, x, tables="both")  # mistake
pt.encode(pf.sinusoidal(8), torch.arange(3), precision="fast")  # mistake
pt.grid([2], pf.sinusoidal(8), indexing="yx")  # mistake
number: int = pt.SinusoidalEncoding(8)(x)  # mistake
