"""Compare presets with recorded outputs of published implementations; see golden/README.md.

The other outputs are tables, frequencies and rotated vectors of RoPE, or have random inputs that were not recorded.
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
denoising_diffusion_pytorch(17) | g164
depthcharge(16, min_wavelength=0.1) | g235
depthcharge(17, min_wavelength=0.1) | g236
diffusers_timesteps(16, downscale_freq_shift=0, scale=1000.0) | g142 | p / 1000
diffusers_timesteps(16, downscale_freq_shift=0.5, scale=1000.0) | g146 | p / 1000
diffusers_timesteps(16, flip_sin_to_cos=True, downscale_freq_shift=0, scale=1000.0) | g148 | p / 1000
diffusers_timesteps(16, flip_sin_to_cos=True, downscale_freq_shift=1, scale=1000.0) | g150 | p / 1000
edm(16) | g160
enformer_cosine(16) | g323
evans_unpaired(16) | g021 g022
fairseq(17) | g053 g061 g063 g065 g067
fairseq(16) | g052 g060 g062 g064 g066 g068 g069 g102
flaxformer_rotary(16) | g240
flaxformer_rotary(16, min_timescale=2.0) | g122
flaxformer_rotary(16, functions=("cos", "cos")) | g239 g275
framediff_index(16) | g168 | p / pi
funnel(16, part="phi") | g326
funnel(16, part="psi") | g327
geoclip(f.T) | g229 | p / (2 * pi)
gligen(8) | g171
graphmixer(16) | g234
guided_diffusion(16) | g090 g136 g170 g383
guided_diffusion(17) | g137
guided_diffusion(17, max_period=100.0) | g140
k_diffusion_fourier(f.T) | g231 | p / (2 * pi)
keras_blog(64) | g297
keras_hub(16) | g129
keras_hub(17) | g130
lingvo_harmonics(16, length=40) | g127
mae(16) | g174 g205 | p[:, ::-1]
marian(16) | g040 g046 g048 g078
marian(17) | g041 g047 g049 g079
mlx(16) | g131
mlx(16, cos_first=True, scale=1.0) | g132
monai(16, spatial_dims=2) | g179
mp_fourier(f.T) | g166 | p / (2 * pi)
musicgen(16) | g070 g115
musicgen(17) | g071
nerfstudio(3, num_frequencies=5, min_freq_exp=0, max_freq_exp=4) | g225 | p / (2 * pi)
pi0(16) | g089
praxis_2d(16) | g126 g203 g204
pyg(16, granularity=0.5) | g233 | p / 2
pytorch3d(5, omega_0=2.0) | g222
score_sde_fourier(f.T) | g158 | p / (2 * pi)
simple_vit(16) | g173
simple_vit_3d(20) | g177
sockeye(16) | g098
sockeye(16, scale_down_positions=True) | g099
space2vec_theory(4, max_radius=1000.0, min_radius=10.0) | g232
speechbrain_rotary(16) | g113
tancik(f.T) | g227 | p / (2 * pi)
tatp22(17) | g211
tatp22(16, ndim=2) | g209
tatp22(16, ndim=3) | g210
tensor2tensor(16) | g000 g008 g013 g100 g116 g124
tensor2tensor(17) | g001 g101 g117 g125
tensor2tensor(2) | g002
tensor2tensor(3) | g003
tensor2tensor(16, min_timescale=2.0, max_timescale=1000.0) | g121
tensor2tensor_nd(16) | g005
timm(16) | g183
timm(16, reverse_coord=True) | g185 | p[:, ::-1]
timm(16, reverse_coord=True, interleave_sin_cos=True) | g186 | p[:, ::-1]
tiny_cuda_nn(5) | g226 | p / pi
transformer_xl(16) | g034 g080 g081 g082 g084 g085 g103 g109 g274 g289
wavegrad(16, scale=1.0) | g387
wavegrad(16) | g388 | p / 5000
whisper(16) | g072 g074 g093 g105 g176
x_transformers(16) | g287
xlm(16) | g011 g025 g027 g035 g039
xlm(17) | g012 g026 g036
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


def cells(*lengths):
    """Return the indices of all cells of a grid, as an array (cells, axes). The last index varies fastest."""
    return np.stack(np.meshgrid(*map(np.arange, lengths), indexing="ij"), axis=-1).reshape(-1, len(lengths))


def zipformer():
    p, d = np.arange(-8, 9), 16
    s = np.sqrt(d)
    return presets.zipformer(d).encode(np.arctan(2 * np.pi * s / d * np.sign(p) * np.log1p(np.abs(p) / s)))


def with_grid(encoding):
    grid = cells(4, 6) / [3 / 2, 5 / 2] - 1
    return np.concatenate([grid, encoding.encode(grid)], axis=1)


def detr(encoding, mask, **options):
    """Return the encoding of a mask as (batch, channels, rows, columns), like the source."""
    return np.moveaxis(encoding.encode(pf.mask_coordinates(mask, **options)), -1, 1)


def diffusers_3d():
    encoding = presets.diffusers_3d(16, spatial_interpolation_scale=2.0, temporal_interpolation_scale=1.5)
    return encoding.encode(cells(3, 4, 6), dtype=np.float64).reshape(3, 24, 16)


MATRICES = pf.fourier_features(pf.geometric(8), functions=("cos", "-sin", "sin", "cos"), layout="interleaved")
# masks of an image of 3 by 5 cells, and of the same image padded by a row and a column
WHOLE = np.ones((1, 3, 5), bool)
PADDED = np.pad(WHOLE, ((0, 0), (0, 1), (0, 1)))
# keys: dtypes of outputs, and g182, for which diffusers rounds positions to float32. Angles are at most 8 pi.
TOLERANCE = {"int64": 0, "float32": 2e-6, "g182": 5e-8}
NAMED = {
    "g030": lambda: pf.mask_positions([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], padding_idx=1),
    "g110": lambda: np.column_stack([np.linspace(0, 1, 40), presets.hyena(9, 40).table(40)]),
    "g114": zipformer,
    "g178": lambda: presets.wzlxjtu(16).encode(cells(4, 6)).T.reshape(16, 4, 6),
    "g182": diffusers_3d,
    "g187": lambda: with_grid(presets.timm_fourier(4, max_res=16, linear_bands=True)),
    "g188": lambda: with_grid(presets.timm_fourier(4, max_res=16)),
    "g190": lambda: detr(presets.detr(8), PADDED, normalize=False),
    "g191": lambda: detr(presets.detr(8), PADDED),
    "g192": lambda: detr(presets.deformable_detr(8), PADDED, offset=-0.5)[..., :3, :5],
    "g196": lambda: detr(presets.detr(8), WHOLE),
    "g197": lambda: detr(presets.detr(8), WHOLE),
    "g198": lambda: detr(presets.deformable_detr(8), WHOLE, offset=-0.5),
    "g199": lambda: detr(presets.detr(8), WHOLE),
    "g200": lambda: detr(presets.dab_detr(8, temperature_height=20.0, temperature_width=30.0), PADDED),
    "g206": lambda: with_grid(presets.perceiver(3, max_resolution=(4, 6))),
    "g291": lambda: MATRICES.table(9).reshape(9, 8, 2, 2),
    "g207": lambda: presets.loftr(16).encode(cells(4, 6) + 1).T.reshape(16, 4, 6),
}
NAMES = {entry["key"]: entry["name"] for entry in CASES["named"]}


@pytest.mark.parametrize("key", NAMED, ids=[f"{key} {NAMES[key]}" for key in NAMED])
def test_named_output(key, arrays):
    expected, got = arrays[key], NAMED[key]()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[key if key in TOLERANCE else expected.dtype.name])


def test_presets_without_a_formula_have_an_output():
    assert set(CALLS) == {entry["key"] for entry in ENTRIES}
    assert {call.partition("(")[0] for call, _ in CALLS.values()} >= set(RECORDED)
