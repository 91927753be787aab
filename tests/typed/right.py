"""Correct programs, with the types that type checkers must infer. The tests also run this file and compare dtypes."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import posenc_fast as pf
from posenc_fast.typing import Backend, Function, Isa, Layout, Odd, Precision, RotaryLayout

Float16 = npt.NDArray[np.float16]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

encoding = pf.sinusoidal(8)
assert_type(encoding, pf.Encoding)

# ---- dtype decides the type (default: float32)
assert_type(encoding.table(3, start=2, step=0.5, workers=1, dtype=None), Float32)
assert_type(encoding.table(3, dtype=np.float64), Float64)
assert_type(encoding.table(3, dtype=np.float16, precision="float32"), Float16)
assert_type(encoding.table(3, dtype=np.dtype(np.float64)), Float64)
assert_type(encoding.encode([0.5, 2]), Float32)
assert_type(encoding.encode([0.5, 2], variance=[0.1, 0.2], dtype=np.float64), Float64)
assert_type(encoding.encode(np.datetime64("2026-01-01T00:00:00"), dtype=np.float64), Float64)
assert_type(pf.positional_encoding(4, 8), Float32)
assert_type(pf.positional_encoding(4, 8, base=100.0, layout="concatenated", dtype=np.float64), Float64)

# ---- types that are known only at run time
assert_type(encoding.table(3, dtype="float64"), npt.NDArray[Any])


def given(dtype: npt.DTypeLike, maybe: Float64 | None) -> None:
    assert_type(encoding.table(3, dtype=dtype), npt.NDArray[Any])
    assert_type(encoding.table(3, out=maybe), Float64)


# ---- out or x decides the type
out64: Float64 = np.empty((3, 8))
assert_type(encoding.table(3, out=out64), Float64)
assert_type(encoding.encode([0, 1, 2], dtype=np.float64, out=out64), Float64)
x16: Float16 = np.zeros((3, 8), np.float16)
assert_type(encoding.add_to(x16), Float16)
assert_type(encoding.add_to(out64, positions=[3, 4, 5], out=out64), Float64)
assert_type(encoding.shift(x16, 2), Float16)
assert_type(encoding.transition_matrix(1), Float64)
assert_type(encoding.locate(encoding.encode(3)), tuple[Float64, Float64])

# ---- several axes
both = pf.join([encoding, pf.fourier_features(pf.geometric(4), functions=("cos", "-sin"))])
assert_type(pf.grid([2, 3], both), Float32)
assert_type(pf.grid([2, [0.5, 1.5]], both, indexing="xy", dtype=np.float64), Float64)
out4: Float16 = np.empty((2, 3, 16), np.float16)
assert_type(pf.grid([2, 3], both, out=out4), Float16)

# ---- rotary
rotary = pf.Rotary(8, layout="interleaved")
assert_type(rotary.tables(4), tuple[Float32, Float32])
assert_type(rotary.tables([0.5, 1.5], dtype=np.float64), tuple[Float64, Float64])
assert_type(rotary.tables(4, start=3, dtype="float16"), tuple[npt.NDArray[Any], npt.NDArray[Any]])
pair: tuple[Float64, Float64] = np.empty((3, 4)), np.empty((3, 4))
assert_type(rotary.tables(3, out=pair), tuple[Float64, Float64])
assert_type(rotary.apply(x16, start=5), Float16)
assert_type(rotary.apply_tables(out64, *rotary.tables(3)), Float64)
assert_type(pf.permute_rotary(out64, 8, source="half", target="interleaved", axis=1), Float64)
assert_type(pf.permute_rotary([0, 1, 2, 3], 4, source="half", target="interleaved"), npt.NDArray[Any])
assert_type(pf.Rotary.from_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8}), pf.Rotary)

# ---- other functions
assert_type(pf.reorder_columns(x16, "interleaved", "concatenated-cos-first"), Float16)
assert_type(pf.backend(), Backend)
assert_type(pf.isa(), Isa | None)
assert_type(pf.isa_levels(), tuple[Isa, ...])
assert_type(pf.identify(encoding.table(16)).layout, Layout | None)
assert_type(pf.identify_rotary(frequencies=rotary.frequencies).layout, RotaryLayout | None)
assert_type(pf.presets.whisper(8, frequencies="float32"), pf.Encoding)
assert_type(pf.presets.llama(8), pf.Rotary)


def passed_on(layout: Layout, functions: tuple[Function, Function], odd: Odd, precision: Precision) -> Float32:
    return pf.sinusoidal(8, layout=layout, functions=functions, odd=odd).table(2, precision=precision)


with pf.use_backend("python"):
    assert_type(passed_on("concatenated", ("cos", "sin"), "error", "exact"), Float32)
