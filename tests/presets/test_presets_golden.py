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
NAMES = {entry["key"]: entry["name"] for part in CASES.values() for entry in part}
PI, TWO_PI = np.pi, 2 * np.pi


@pytest.fixture(scope="module")
def arrays():
    with np.load(GOLDEN / "golden.npz") as file:
        return dict(file)


def swapped(positions):
    """Return positions (y, x) for positions that were recorded as (x, y), or the reverse."""
    return positions[:, ::-1]


def divided(by):
    """Return a function that divides positions by a factor. The preset multiplies positions by this factor."""
    return lambda positions: positions / by


# each line: preset and width, then keys of its recorded outputs
PLAIN = """
tensor2tensor 16: g000 g008 g013 g100 g116 g124
tensor2tensor 17: g001 g101 g117 g125
tensor2tensor 2: g002
tensor2tensor 3: g003
tensor2tensor_nd 16: g005
xlm 16: g011 g025 g027 g035 g039
xlm 17: g012 g026 g036
annotated_transformer 16: g014 g015 g019 g032 g083 g094 g104 g325 g392
evans_unpaired 16: g021 g022
transformer_xl 16: g034 g080 g081 g082 g084 g085 g103 g109 g274 g289
fairseq 17: g053 g061 g063 g065 g067
fairseq 16: g052 g060 g062 g064 g066 g068 g069 g102
musicgen 16: g070 g115
musicgen 17: g071
whisper 16: g072 g074 g093 g105 g176
marian 16: g040 g046 g048 g078
marian 17: g041 g047 g049 g079
conformer_relative 16: g088 g108 g111
pi0 16: g089
guided_diffusion 16: g090 g136 g170 g383
sockeye 16: g098
speechbrain_rotary 16: g113
praxis_2d 16: g126 g203 g204
keras_hub 16: g129
keras_hub 17: g130
mlx 16: g131
guided_diffusion 17: g137
edm 16: g160
denoising_diffusion_pytorch 16: g163
denoising_diffusion_pytorch 17: g164
gligen 8: g171
simple_vit 16: g173
simple_vit_3d 20: g177
timm 16: g183
tatp22 17: g211
graphmixer 16: g234
flaxformer_rotary 16: g240
x_transformers 16: g287
keras_blog 64: g297
enformer_cosine 16: g323
"""
PLAIN_ROWS = [(*row.partition(":")[0].split(), row.partition(":")[2]) for row in PLAIN.strip().splitlines()]
# keys: keys of recorded outputs. Values: (preset, its arguments, function of the recorded positions).
PARAMETRISED = {
    **{key: (presets.get(name), int(d)) for name, d, keys in PLAIN_ROWS for key in keys.split()},
    "g099": (presets.sockeye, 16, {"scale_down_positions": True}),
    "g121": (presets.tensor2tensor, 16, {"min_timescale": 2.0, "max_timescale": 1000.0}),
    "g122": (presets.flaxformer_rotary, 16, {"min_timescale": 2.0}),
    "g127": (presets.lingvo_harmonics, 16, {"length": 40}),
    "g132": (presets.mlx, 16, {"cos_first": True, "scale": 1.0}),
    "g140": (presets.guided_diffusion, 17, {"max_period": 100.0}),
    **{
        f"g{key}": (
            presets.diffusers_timesteps,
            16 + key % 2,
            {"flip_sin_to_cos": key >= 148, "downscale_freq_shift": shift, "scale": 1000.0},
            divided(1000.0),
        )
        for key, shift in zip(range(142, 154), (0, 0, 1, 1, 0.5, 0.5) * 2, strict=True)
        if key not in (144, 145)
    },
    "g168": (presets.framediff_index, 16, {}, divided(PI)),
    "g174": (presets.mae, 16, {}, swapped),
    "g179": (presets.monai, 16, {"spatial_dims": 2}),
    "g185": (presets.timm, 16, {"reverse_coord": True}, swapped),
    "g186": (presets.timm, 16, {"reverse_coord": True, "interleave_sin_cos": True}, swapped),
    "g194": (presets.deformable_detr_proposals, 128, {}, divided(TWO_PI)),
    "g205": (presets.mae, 16, {}, swapped),
    "g209": (presets.tatp22, 16, {"ndim": 2}),
    "g210": (presets.tatp22, 16, {"ndim": 3}),
    "g215": (presets.tatp22, 18, {"ndim": 2}),
    "g216": (presets.tatp22, 18, {"ndim": 3}),
    "g222": (presets.pytorch3d, 5, {"omega_0": 2.0}),
    "g225": (presets.nerfstudio, 3, {"num_frequencies": 5, "min_freq_exp": 0, "max_freq_exp": 4}, divided(TWO_PI)),
    "g226": (presets.tiny_cuda_nn, 5, {}, divided(PI)),
    "g232": (presets.space2vec_theory, 4, {"max_radius": 1000.0, "min_radius": 10.0}),
    "g233": (presets.pyg, 16, {"granularity": 0.5}, divided(2.0)),
    "g235": (presets.depthcharge, 16, {"min_wavelength": 0.1}),
    "g236": (presets.depthcharge, 17, {"min_wavelength": 0.1}),
    "g239": (presets.flaxformer_rotary, 16, {"functions": ("cos", "cos")}),
    "g275": (presets.flaxformer_rotary, 16, {"functions": ("cos", "cos")}),
    "g326": (presets.funnel, 16, {"part": "phi"}),
    "g327": (presets.funnel, 16, {"part": "psi"}),
    "g387": (presets.wavegrad, 16, {"scale": 1.0}),
    "g388": (presets.wavegrad, 16, {}, divided(5000.0)),
    "g389": (presets.clay, 32, {"gsd": 10.0}, swapped),
}
# presets whose recorded frequencies are a matrix (axes, k) in turns; the recorded positions contain the factor 2 pi
WEIGHTS = {
    "g158": presets.score_sde_fourier,
    "g166": presets.mp_fourier,
    "g227": presets.tancik,
    "g229": presets.geoclip,
    "g231": presets.k_diffusion_fourier,
}
ENTRIES = [entry for entry in CASES["parametrised"] if entry["key"] in PARAMETRISED or entry["key"] in WEIGHTS]


def built(build, width, settings=None, prepare=lambda positions: positions):
    return build(width, **settings or {}), prepare


def tolerance(dtype, encoding, positions):
    angle = np.abs(positions.reshape(-1, encoding.ndim) @ encoding.frequencies.reshape(-1, encoding.ndim).T).max()
    return 2e-6 + 2.4e-7 * angle if dtype == "float32" else 1e-12 * max(1.0, angle)


@pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry['key']} {entry['name']}" for entry in ENTRIES])
def test_published_output(entry, arrays):
    key, args = entry["key"], entry["args"]
    expected, positions = arrays[key], arrays[key + "X"].astype(np.float64)
    if key in WEIGHTS:
        encoding, prepare = WEIGHTS[key](arrays[key + "f"].T), divided(TWO_PI)
    else:
        encoding, prepare = built(*PARAMETRISED[key])
    at = prepare(positions.reshape(-1) if encoding.ndim == 1 else positions)
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


def below_zeros(count, rows):
    return np.concatenate([np.zeros((count, rows.shape[1]), rows.dtype), rows])


def hyena():
    rows = presets.hyena(9, 40).table(40)
    return np.column_stack([np.linspace(0, 1, 40), rows])


def zipformer():
    p, d = np.arange(-8, 9), 16
    s = np.sqrt(d)
    return presets.zipformer(d).encode(np.arctan(TWO_PI * s / d * np.sign(p) * np.log1p(np.abs(p) / s)))


def with_grid(encoding):
    grid = cells(4, 6) / [3 / 2, 5 / 2] - 1
    return np.concatenate([grid, encoding.encode(grid)], axis=1)


def detr(encoding, mask, **options):
    """Return the encoding of a mask as (batch, channels, rows, columns), like the source."""
    return np.moveaxis(encoding.encode(pf.mask_coordinates(mask, **options)), -1, 1)


def mask2former_video():
    """Return the sum of the encodings of (y, x) and of the frame, with normalised positions."""
    frames = np.arange(1, 4) / (3 + 1e-6) * TWO_PI
    plane = presets.detr(8).encode(pf.mask_coordinates(np.ones((3, 4, 6), bool)))
    return plane + presets.annotated_transformer(16).encode(frames)[:, np.newaxis, np.newaxis]


def diffusers_3d():
    encoding = presets.diffusers_3d(16, spatial_interpolation_scale=2.0, temporal_interpolation_scale=1.5)
    return encoding.encode(cells(3, 4, 6), dtype=np.float64).reshape(3, 24, 16)


def loftr():
    return presets.loftr(16).encode(cells(4, 6) + 1).T.reshape(16, 4, 6)


# masks of an image of 3 by 5 cells, and of the same image padded by a row and a column
WHOLE = np.ones((1, 3, 5), bool)
PADDED = np.pad(WHOLE, ((0, 0), (0, 1), (0, 1)))
# keys: dtypes of outputs, and the output g182, for which diffusers rounds positions to float32. Angles are at most 8 pi
# in float32 outputs, and at most 6 in float64 outputs.
TOLERANCE = {"float32": 2e-6, "float64": 1e-12, "g182": 5e-8}
NAMED = {
    "g020": lambda: presets.annotated_transformer(16).table(24),
    "g110": hyena,
    "g114": zipformer,
    "g141": lambda: below_zeros(1, presets.mae(16).encode(cells(5, 5), dtype=np.float64)),
    "g172": lambda: below_zeros(1, presets.mae(16).encode(cells(5, 5), dtype=np.float64)),
    "g178": lambda: presets.wzlxjtu(16).encode(cells(4, 6)).T.reshape(16, 4, 6),
    "g182": diffusers_3d,
    "g187": lambda: with_grid(presets.timm_fourier(4, max_res=16, linear_bands=True)),
    "g188": lambda: with_grid(presets.timm_fourier(4, max_res=16)),
    "g190": lambda: detr(presets.detr(8), PADDED, normalize=False),
    "g191": lambda: detr(presets.detr(8), PADDED),
    "g192": lambda: detr(presets.deformable_detr(8), PADDED, offset=-0.5)[..., :3, :5],
    "g195": mask2former_video,
    "g196": lambda: detr(presets.detr(8), WHOLE),
    "g197": lambda: detr(presets.detr(8), WHOLE),
    "g198": lambda: detr(presets.deformable_detr(8), WHOLE, offset=-0.5),
    "g199": lambda: detr(presets.detr(8), WHOLE),
    "g200": lambda: detr(presets.dab_detr(8, temperature_height=20.0, temperature_width=30.0), PADDED),
    "g206": lambda: with_grid(presets.perceiver(3, max_resolution=(4, 6))),
    "g207": loftr,
}


@pytest.mark.parametrize("key", NAMED, ids=[f"{key} {NAMES[key]}" for key in NAMED])
def test_named_output(key, arrays):
    expected, got = arrays[key], NAMED[key]()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE.get(key, TOLERANCE[expected.dtype.name]))


def test_outputs_of_builders_and_helpers(arrays):
    """Functions other than presets reproduce some recorded outputs: positions, cosines, and matrices of rotations."""
    tokens = [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    np.testing.assert_array_equal(pf.mask_positions(tokens, padding_idx=1), arrays["g030"], strict=True)
    cosines = pf.fourier_features(pf.geometric(8), functions=("cos",)).table(9)
    np.testing.assert_allclose(cosines, arrays["g278"], rtol=0, atol=TOLERANCE["float32"])
    rotations = pf.fourier_features(pf.geometric(8), functions=("cos", "-sin", "sin", "cos"), layout="interleaved")
    np.testing.assert_allclose(
        rotations.table(9).reshape(9, 8, 2, 2), arrays["g291"], rtol=0, atol=TOLERANCE["float32"]
    )


def test_presets_without_a_formula_have_an_output():
    assert {*PARAMETRISED, *WEIGHTS} == {entry["key"] for entry in ENTRIES}
    assert {build.__name__ for build in WEIGHTS.values()} == set(RECORDED)
