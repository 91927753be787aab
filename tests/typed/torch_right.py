"""Correct programs that use torch, with the types that type checkers must infer. The tests also run this file."""

from __future__ import annotations

from typing import assert_type

import torch

import posenc_fast as pf
import posenc_fast.torch as pt

x = torch.zeros(2, 3, 8)
adding = pt.SinusoidalEncoding(8, precision="float32")
assert_type(adding(x, start=3), torch.Tensor)
assert_type(adding.forward(x), torch.Tensor)

rotating = pt.RotaryEncoding(pf.Rotary(8))
assert_type(rotating(x, x, start=2, key_start=1), tuple[torch.Tensor, torch.Tensor])
assert_type(rotating.rotate_queries_with_cached_keys(x, x), tuple[torch.Tensor, torch.Tensor])

encoding = pf.sinusoidal(8)
assert_type(pt.table(encoding, 3, dtype=torch.float64), torch.Tensor)
assert_type(pt.encode(encoding, torch.arange(3), precision="exact"), torch.Tensor)
assert_type(pt.add_to(encoding, x), torch.Tensor)
assert_type(pt.rotate(pf.Rotary(8), x), torch.Tensor)
assert_type(pt.grid([2, 3], pf.join([encoding, encoding]), indexing="xy"), torch.Tensor)
cos, sin = torch.ones(1, 3, 8), torch.zeros(1, 3, 8)
heads = torch.zeros(1, 2, 3, 8)
turned = pt.apply_rotary_pos_emb(heads, heads, cos, sin, layout="interleaved", tables="half")
assert_type(turned, tuple[torch.Tensor, torch.Tensor])
