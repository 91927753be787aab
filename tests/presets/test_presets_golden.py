"""Compare presets with recorded outputs of published implementations; see golden/README.md.

The other outputs are of RoPE, are of calls that test_presets.py compares with formulas, or have random inputs that
were not recorded.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets
from support.preset_formulas import RECORDED

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = json.loads((GOLDEN / "golden.json").read_text(encoding="utf-8"))
# each line: the call of a preset, the keys of its recorded outputs, and the positions to pass, if they differ from
# the recorded positions p. f: recorded frequencies in turns, if the recorded positions contain the factor 2 pi.
OUTPUTS = """
annotated_transformer(16) | g014 g015 g019 g032 g083 g094 g104 g325 g392
clay(32, gsd=10.0) | g389 | p[:, ::-1]
conformer_relative(16) | g088 g108 g111
deformable_detr_proposals(128) | g194 | p / (2 * pi)
denoising_diffusion_pytorch(16) | g163
depthcharge(16, min_wavelength=0.1) | g235
diffusers_timesteps(16, flip_sin_to_cos=True, downscale_freq_shift=0, scale=1000.0) | g148 | p / 1000
edm(16) | g160
enformer_cosine(16) | g323
evans_unpaired(16) | g021 g022
fairseq(16) | g052 g060 g062 g064 g066 g068 g069 g102
flaxformer_rotary(16) | g240
framediff_index(16) | g168 | p / pi
funnel(16, part="phi") | g326
geoclip(f.T) | g229 | p / (2 * pi)
gligen(8) | g171
graphmixer(16) | g234
guided_diffusion(16) | g090 g136 g170 g383
k_diffusion_fourier(f.T) | g231 | p / (2 * pi)
keras_blog(64) | g297
keras_hub(16) | g129
lingvo_harmonics(16, length=40) | g127
mae(16) | g174 g205 | p[:, ::-1]
marian(16) | g040 g046 g048 g078
mlx(16) | g131
monai(16, spatial_dims=2) | g179
mp_fourier(f.T) | g166 | p / (2 * pi)
musicgen(16) | g070 g115
nerfstudio(3, num_frequencies=5, min_freq_exp=0, max_freq_exp=4) | g225 | p / (2 * pi)
pi0(16) | g089
praxis_2d(16) | g126 g203 g204
pyg(16, granularity=0.5) | g233 | p / 2
pytorch3d(5, omega_0=2.0) | g222
score_sde_fourier(f.T) | g158 | p / (2 * pi)
simple_vit(16) | g173
simple_vit_3d(20) | g177
sockeye(16) | g098
space2vec_theory(4, max_radius=1000.0, min_radius=10.0) | g232
speechbrain_rotary(16) | g113
tancik(f.T) | g227 | p / (2 * pi)
tatp22(16, ndim=3) | g210
tensor2tensor(16) | g000 g008 g013 g100 g116 g124
tensor2tensor_nd(16) | g005
timm(16) | g183
timm(16, reverse_coord=True, interleave_sin_cos=True) | g186 | p[:, ::-1]
tiny_cuda_nn(5) | g226 | p / pi
transformer_xl(16) | g034 g080 g081 g082 g084 g085 g103 g109 g274 g289
wavegrad(16) | g388 | p / 5000
whisper(16) | g072 g074 g093 g105 g176
x_transformers(16) | g287
xlm(16) | g011 g025 g027 g035 g039
"""
ROWS = [(row + " | p").split(" | ")[:3] for row in OUTPUTS.strip().splitlines()]
CALLS = {key: (call, at) for call, keys, at in ROWS for key in keys.split()}
ENTRIES = [entry for entry in CASES["parametrised"] if entry["key"] in CALLS]


@pytest.fixture(scope="module")
def arrays():
    with np.load(GOLDEN / "golden.npz") as file:
        return dict(file)


def tolerance(dtype, encoding, positions):
    angle = np.abs(positions.reshape(-1, encoding.ndim) @ encoding.frequencies.reshape(-1, encoding.ndim).T).max()
    return 2e-6 + 2.4e-7 * angle if dtype == "float32" else 1e-12 * max(1.0, angle)


@pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry['key']} {entry['name']}" for entry in ENTRIES])
def test_published_output(entry, arrays):
    key, args, (call, at) = entry["key"], entry["args"], CALLS[entry["key"]]
    expected, positions = arrays[key], arrays[key + "X"].astype(np.float64)
    encoding = eval(f"presets.{call}", {"presets": presets, "f": arrays.get(key + "f")})
    at = eval(at, {"p": positions.reshape(-1) if encoding.ndim == 1 else positions, "pi": np.pi})
    got = encoding.encode(at, dtype=entry["dtype"])
    got[args.get("zero_rows", [])] = 0
    if args.get("include_input") == "last":
        got = np.concatenate([got, positions], axis=1)
    assert got.size == expected.size
    np.testing.assert_allclose(
        got.reshape(expected.shape), expected, rtol=0, atol=tolerance(entry["dtype"], encoding, at)
    )


# ---- outputs without recorded positions: the tests compute them like the source -------------------------------------


def detr(encoding, mask, **options):
    """Return the encoding of a mask as (batch, channels, rows, columns), like the source."""
    return np.moveaxis(encoding.encode(pf.mask_coordinates(mask, **options)), -1, 1)


# masks of an image of 3 by 5 cells, and of the same image padded by a row and a column
WHOLE = np.ones((1, 3, 5), bool)
PADDED = np.pad(WHOLE, ((0, 0), (0, 1), (0, 1)))
# keys: dtypes of outputs. Angles are at most 8 pi.
TOLERANCE = {"int64": 0, "float32": 2e-6}
NAMED = {
    "g030": lambda: pf.mask_positions([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], padding_idx=1),
    "g190": lambda: detr(presets.detr(8), PADDED, normalize=False),
    "g191": lambda: detr(presets.detr(8), PADDED),
    "g192": lambda: detr(presets.deformable_detr(8), PADDED, offset=-0.5)[..., :3, :5],
    "g196": lambda: detr(presets.detr(8), WHOLE),
    "g198": lambda: detr(presets.deformable_detr(8), WHOLE, offset=-0.5),
    "g200": lambda: detr(presets.dab_detr(8, temperature_height=20.0, temperature_width=30.0), PADDED),
}
NAMES = {entry["key"]: entry["name"] for entry in CASES["named"]}


@pytest.mark.parametrize("key", NAMED, ids=[f"{key} {NAMES[key]}" for key in NAMED])
def test_named_output(key, arrays):
    expected, got = arrays[key], NAMED[key]()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[expected.dtype.name])


def test_presets_without_a_formula_have_an_output():
    assert set(CALLS) == {entry["key"] for entry in ENTRIES}
    assert {call.partition("(")[0] for call, _ in CALLS.values()} >= set(RECORDED)
