"""Everything that computes on this machine: pure Python, and the kernel at each instruction-set level."""

from __future__ import annotations

import posenc_fast as pf

# the arguments of `posenc_fast.use_backend`, and the names in ids of tests
ENGINES = [("python", None), *(("cython", isa) for isa in pf.isa_levels())]
NAMES = ["python", *(f"cython-{isa}" for isa in pf.isa_levels())]
