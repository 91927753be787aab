"""Compare presets, and the functions in docs/howto-features.md, with unchanged programs of their sources.

test_presets_golden.py contains outputs of other programs.
"""

from __future__ import annotations

import re
import runpy
import sys

import numpy as np
import pytest

from posenc_fast import presets
from support.checkout import checkout
from support.optional import optional
from support.programs import program

pytestmark = pytest.mark.slow

# tolerance per radian of the angle, for programs that round frequency, position and product to float32
OF_FLOAT32_ANGLES = 2.0**-22
# tolerance for float64 arithmetic whose result is rounded to float32
ROUNDED = 2.0**-24


def same(made, expected, angles=0.0, bound=OF_FLOAT32_ANGLES):
    """Assert that rows are equal up to bound * (1 + largest angle)."""
    assert made.shape == tuple(expected.shape)
    np.testing.assert_allclose(made, np.asarray(expected), rtol=0, atol=bound * (1 + np.abs(angles).max()))


@pytest.fixture
def torch():
    return optional("torch")


@pytest.mark.parametrize("expansion", ["pos", "scale", "lead_time", "levels", "absolute_time"])
def test_aurora(expansion, torch, rng):
    """`aurora` has the source's rows for the published ranges.

    The tolerance is proportional to upper / lower, because the largest angle is 2 pi upper / lower.
    """
    theirs = getattr(program("microsoft-aurora", "aurora/model/fourier.py"), f"{expansion}_expansion")
    x = np.exp(rng.uniform(np.log(theirs.lower), np.log(theirs.upper), size=50))
    made = presets.aurora(32, lower=theirs.lower, upper=theirs.upper).encode(x)
    same(made, theirs(torch.from_numpy(x), 32), 1e-7 * theirs.upper / theirs.lower, ROUNDED)


def test_plr(torch, rng):
    module = program("rtdl_num_embeddings", "rtdl_num_embeddings.py")
    theirs = module._Periodic(3, 5, 0.5).requires_grad_(False)
    (weight,), x = theirs.parameters(), rng.normal(size=(7, 3)).astype(np.float32)
    made = presets.plr(weight.numpy()).encode(x).reshape(7, 3, 10)
    same(made, theirs(torch.from_numpy(x)), 2 * np.pi * weight.abs().max().item() * x)


def test_pbld(torch, rng):
    """`pbld` has the columns of pytabkit's layer, whose linear layer is the identity here."""
    module = program("pytabkit", "pytabkit/models/nn_models/nn.py")
    x, weight = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=(3, 1, 5)).astype(np.float32)
    bias = rng.uniform(-np.pi, np.pi, size=(3, 1, 5)).astype(np.float32)
    theirs = module.PLREmbeddingsLayerCosBias(
        fitter=module.PLREmbeddingsFactory(),
        weight_1=torch.from_numpy(weight),
        weight_2=torch.eye(5).expand(3, 5, 5),
        bias_1=torch.from_numpy(bias),
        bias_2=torch.zeros(3, 1, 5),
        plr_act_name="linear",
    )
    made = presets.pbld(weight[:, 0], bias[:, 0]).encode(x)
    same(made, theirs.forward_cont(torch.from_numpy(x)), 2 * np.pi * np.abs(weight).max() * x)


@pytest.mark.parametrize(("period", "order"), [(365.25, 10), (7, 3), (1, 4)])
def test_prophet(period, order, rng):
    """`prophet` has the columns of Prophet, in float64, also for angles of some hundred thousand radians."""
    pandas = optional("pandas")
    unused = ("prophet.make_holidays", "prophet.models", "prophet.plot")
    theirs = program("prophet", "prophet/forecaster.py", *unused).Prophet.fourier_series
    dates = np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 10**8, size=50).astype("m8[s]")
    expected = theirs(pandas.Series(dates), period, order)
    angles = 2 * np.pi * order * dates.astype("M8[s]").astype(np.int64) / 86400 / period
    same(presets.prophet(period, order).encode(dates, dtype=np.float64), expected, angles, 2.0**-51)


@pytest.mark.parametrize(
    "mask",
    ["all", "no-intercept", lambda *frequencies: sum(frequencies) < 3, lambda *frequencies: not any(frequencies)],
    ids=["all", "no intercept", "low ones", "one"],
)
@pytest.mark.parametrize(
    ("frequencies", "bounds"),
    [(5, [(0.0, 2.5)]), ([3, 4], [(0.0, 2.0), (-1.0, 4.0)]), (2, [(0.0, 1.0)] * 3)],
    ids=["1 axis", "2 axes", "3 axes"],
)
def test_nemos(mask, frequencies, bounds, rng):
    """`nemos` has the columns of the NeMoS basis (computed in float32), for the frequencies that its mask keeps."""
    optional("jax")
    theirs = program("nemos", "nemos/basis/basis.py", "lazy_loader").FourierEval(
        frequencies, ndim=len(bounds), bounds=bounds if len(bounds) > 1 else bounds[0], frequency_mask=mask
    )
    low, high = np.transpose(bounds)
    x = rng.uniform(low, high, size=(20, len(bounds))).astype(np.float32)
    made = presets.nemos(theirs.masked_frequencies, period=high - low)
    angles = 2 * np.pi * np.asarray(theirs.masked_frequencies).sum(axis=0)
    same(made.encode(x - low).reshape(20, -1), theirs.compute_features(*x.T), angles)
    if (mask, frequencies) == ("all", 5):
        assert np.array_equal(presets.nemos(5, period=2.5).encode(x), made.encode(x))


def test_alphafold3(torch, rng):
    """`alphafold3` has the columns of Boltz, whose times are a quarter of the positions of the preset."""
    unused = ("data", "model.layers.transition", "model.modules.transformers", "model.modules.utils")
    module = program("boltz", "boltz/model/modules/encoders.py", *(f"boltz.{name}" for name in unused))
    theirs = module.FourierEmbedding(64).requires_grad_(False)
    weight, bias, times = theirs.proj.weight.numpy().ravel(), theirs.proj.bias.numpy(), rng.normal(size=20).astype("f4")
    made = presets.alphafold3(weight, bias).encode(4.0 * times)
    same(made, theirs(torch.from_numpy(times)), 2 * np.pi * (np.outer(times, weight) + bias))


def test_tgn(monkeypatch, torch, rng):
    unused = ("torch_geometric.nn.inits", "torch_geometric.utils")
    memory = program("torch_geometric", "torch_geometric/nn/models/tgn.py", *unused)
    monkeypatch.setattr(memory, "Linear", torch.nn.Linear)
    theirs = memory.TimeEncoder(16).requires_grad_(False)
    # before training, the authors of TGN use the frequencies of `tgn` as weights, and biases of 0
    theirs.lin.weight[:, 0] = torch.from_numpy(presets.tgn(16).frequencies)
    theirs.lin.bias[:] = 0
    times = rng.uniform(0, 100, size=20).astype(np.float32)
    same(presets.tgn(16).encode(times), theirs(torch.from_numpy(times)), times)


def test_esmfold2(torch, rng):
    theirs = optional("transformers.models.esmfold2.modeling_esmfold2").EsmFold2FourierEmbedding(64)
    times = rng.normal(size=20).astype(np.float32)
    frequencies, phases = theirs.frequencies.numpy(), theirs.phases.numpy()
    made = presets.esmfold2(frequencies, phases).encode(times)
    same(made, theirs(torch.from_numpy(times)), 2 * np.pi * (np.outer(times, frequencies) + phases))


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """Run the code of docs/howto-features.md, and return the functions that it defines, and presets by name."""
    text = (checkout() / "docs" / "howto-features.md").read_text("utf-8")
    page = tmp_path_factory.mktemp("page") / "features.py"
    page.write_text("\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)), "utf-8")
    return runpy.run_path(str(page)) | {
        "grid": lambda places, **scales: presets.space2vec_grid(16, **scales).encode(places),
        "theory": lambda places, **scales: presets.space2vec_theory(16, **scales).encode(places),
        "wrap": lambda places: presets.geo_prior().encode(places),
    }


SCALES = {"max_radius": 360.0, "min_radius": 0.01}
# argument `angles` of `same`: with the bound ROUNDED, it allows for an error of 2^-52 per radian of float64 angles
FINE = 360 / SCALES["min_radius"] * 2.0**-28
SCALED = {
    "grid": "GridCell",
    "theory": "TheoryGridCell",
    "sphere_c": "Sphere",
    "sphere_c_plus": "SphereGird",
    "sphere_m": "SphereMixScale",
}


# each row: our function, its options, the encoder of TorchSpatial, its options, and `angles`
@pytest.mark.parametrize(
    ("ours", "options", "name", "settings", "angles"),
    [
        *((ours, {}, name, {}, 0) for ours, name in SCALED.items()),
        *((ours, SCALES, name, SCALES, FINE) for ours, name in SCALED.items()),
        ("wrap", {}, "AodhaFFT", {"extent": None, "do_pos_enc": True}, 0),
        ("sphere_dfs", {}, "DFT", {}, 0),
        ("sphere_dfs", {"n": 5, "max_radius": 360.0}, "DFT", {"frequency_num": 5, "max_radius": 360.0}, 0),
        ("xyz", {}, "XYZ", {}, 0),
    ],
)
def test_places_on_the_earth(ours, options, name, settings, angles, recipes, monkeypatch, rng):
    for module in ("module", "data_utils"):
        monkeypatch.setitem(sys.modules, module, program("torchspatial", f"torchspatial/{module}.py", "paths"))
    module = program("torchspatial", "torchspatial/SpatialRelationEncoder.py", "spherical_harmonics_ylm_numpy")
    theirs = getattr(module, f"{name}SpatialRelationPositionEncoder")(device="cpu", **settings)
    places = np.stack([rng.uniform(-180, 180, 40), rng.uniform(-90, 90, 40)], axis=1)
    # pass a copy, because some encoders write into their input
    expected = theirs(places.copy()[:, np.newaxis])[:, 0]
    same(recipes[ours](places, **options), expected, angles, ROUNDED)


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
@pytest.mark.parametrize("axes", [2, 3])
def test_geoclip_positional(axes, torch, rng):
    theirs = program("geoclip", "geoclip/model/rff/functional.py")
    x = rng.normal(size=(20, axes)).astype(np.float32)
    expected = theirs.positional_encoding(torch.from_numpy(x), 8.0, 6)
    same(presets.geoclip_positional(8.0, 6, input_dims=axes).encode(x), expected, 2 * np.pi * 8 * x)


@pytest.mark.parametrize("width", [20, 96])
@pytest.mark.parametrize(
    ("grid", "options"),
    [((3, 5), {}), ((2, 3, 5), {}), ((2, 3, 5), {"uniform_power": True})],
    ids=["2d", "3d", "thirds"],
)
def test_fairseq2(grid, options, width):
    """`fairseq2_2d` and `fairseq2_3d` have the rows of fairseq2 for all cells of a grid."""
    unused = ("data_type", "device", "nn.batch_layout", "nn.incremental_state", "nn.utils.module", "ops")
    module = program("fairseq2", "fairseq2/nn/position_encoder.py", *(f"fairseq2.{name}" for name in unused))
    theirs = getattr(module, f"Sinusoidal{len(grid)}dPositionEncoder")(width, grid, **options).freqs
    preset = {2: presets.fairseq2_2d, 3: presets.fairseq2_3d}[len(grid)]
    same(preset(width, **options).encode(np.moveaxis(np.indices(grid), 0, -1)), theirs, 4)


@pytest.mark.parametrize(("width", "scale"), [(16, 1.0), (24, 2.0)])
def test_patches_of_diffusers(width, scale):
    """`diffusers_2d` has the rows of diffusers for a grid whose cells are scaled to a square of 16 by 16."""
    theirs = optional("diffusers.models.embeddings").get_2d_sincos_pos_embed
    expected = theirs(width, (5, 12), interpolation_scale=scale).reshape(5, 12, width)
    made = presets.diffusers_2d(width, (5, 12), interpolation_scale=scale)
    same(made.encode(np.moveaxis(np.indices((5, 12)), 0, -1)), expected, 16)


@pytest.mark.parametrize("width", [6, 128])
def test_boxes_of_dab_detr(width, torch, rng):
    theirs = optional("transformers.models.dab_detr.modeling_dab_detr").encode_sinusoidal_position_embedding
    boxes = rng.uniform(size=(20, 4)).astype(np.float32)
    same(presets.dab_detr_boxes(width).encode(boxes), theirs(torch.from_numpy(boxes), width), 2 * np.pi)


def test_segment_anything(torch):
    theirs = program("segment-anything", "segment_anything/modeling/prompt_encoder.py").PositionEmbeddingRandom(16)
    made = presets.sam(theirs.positional_encoding_gaussian_matrix.numpy())
    angles = 2 * np.pi * np.abs(theirs.positional_encoding_gaussian_matrix.numpy()).sum(axis=0)
    x, y = np.meshgrid((np.arange(8) + 0.5) / 8, (np.arange(4) + 0.5) / 4)
    same(made.encode(2 * np.stack([x, y], -1) - 1), theirs((4, 8)).permute(1, 2, 0), angles)


def test_nerfstudio(torch, rng):
    unused = ("utils", "utils.external", "utils.printing", "data.scene_box")
    names = (f"nerfstudio.{name}" for name in unused)
    module = program("nerfstudio", "nerfstudio/field_components/encodings.py", "jaxtyping", *names)
    x, root = rng.uniform(size=(20, 3)).astype(np.float32), rng.normal(0, 1, (20, 3, 3)).astype(np.float32)
    covs = root @ root.swapaxes(1, 2)
    expected = module.NeRFEncoding(3, 6, 0.0, 5.0)(torch.from_numpy(x), torch.from_numpy(covs))
    variance = np.diagonal(covs, 0, -2, -1).astype(float) / (2 * np.pi) ** 2
    same(presets.nerfstudio(3, 6, 0.0, 5.0).encode(x, variance=variance), expected, 2 * np.pi * 32)
