"""Compare presets, and the functions in docs/howto-features.md, with unchanged programs of their sources.

test_presets_golden.py contains outputs of other programs.
"""

from __future__ import annotations

import operator
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


def test_a_file_is_run_without_its_package(tmp_path, monkeypatch):
    """`program` imports a file although the import of its package fails. Excluded imports of the file are mocks."""
    files = {
        "pack-1.0.dist-info/METADATA": "Name: pack\nVersion: 1.0\n",
        "pack/__init__.py": "raise RuntimeError",
        "pack/beside.py": "NUMBER = 3",
        "pack/heavy.py": "raise RuntimeError",
        "pack/part.py": "from absent import Base\nfrom . import beside\nfrom .heavy import gone\nNUMBER = beside.NUMBER",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    assert program("pack", "pack/part.py", "absent", "pack.heavy").NUMBER == 3
    assert not {"absent", "pack", "pack.beside", "pack.heavy", "pack.part"} & (set(sys.modules) - before)
    with pytest.raises(RuntimeError):
        program("pack", "pack/part.py", "absent")
    monkeypatch.setenv("POSENC_FAST_REQUIRE_EXTRAS", "1")
    with pytest.raises(ImportError, match="absent"):
        program("pack", "pack/part.py")
    with pytest.raises(ImportError):
        program("no-such-distribution", "part.py")
    monkeypatch.delenv("POSENC_FAST_REQUIRE_EXTRAS")
    with pytest.raises(pytest.skip.Exception, match="no-such-distribution is not installed"):
        program("no-such-distribution", "part.py")


@pytest.fixture
def torch():
    return optional("torch")


# ---- weather --------------------------------------------------------------------------------------------------------


@pytest.fixture
def aurora():
    return program("microsoft-aurora", "aurora/model/fourier.py")


@pytest.mark.parametrize("expansion", ["pos", "scale", "lead_time", "levels", "absolute_time"])
def test_aurora(expansion, aurora, torch, rng):
    """`aurora` has the source's rows for the published ranges.

    The tolerance is proportional to upper / lower, because the largest angle is 2 pi upper / lower.
    """
    theirs = getattr(aurora, f"{expansion}_expansion")
    x = np.exp(rng.uniform(np.log(theirs.lower), np.log(theirs.upper), size=50))
    made = presets.aurora(32, lower=theirs.lower, upper=theirs.upper).encode(x)
    same(made, theirs(torch.from_numpy(x), 32), 1e-7 * theirs.upper / theirs.lower, ROUNDED)


def test_aurora_with_a_linear_column(aurora, torch, rng):
    """In Aurora's third version of lead times, x / upper replaces the slowest sine."""
    theirs = aurora.lead_time_expansion_v3
    x = rng.uniform(0, theirs.upper, size=50)
    made = presets.aurora(32, lower=theirs.lower, upper=theirs.upper).encode(x)
    made[:, 15] = x / theirs.upper
    same(made, theirs(torch.from_numpy(x), 32), bound=ROUNDED)


# ---- tabular data and series ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distribution", "file", "name"),
    [
        ("rtdl_num_embeddings", "rtdl_num_embeddings.py", "_Periodic"),
        ("pytabkit", "pytabkit/models/nn_models/tabr_lib.py", "PeriodicEmbeddings"),
    ],
    ids=["rtdl", "tabr"],
)
def test_plr(distribution, file, name, torch, rng):
    theirs = getattr(program(distribution, file), name)(3, 5, 0.5).requires_grad_(False)
    (weight,), x = theirs.parameters(), rng.normal(size=(7, 3)).astype(np.float32)
    made = presets.plr(weight.numpy()).encode(x).reshape(7, 3, 10)
    same(made, theirs(torch.from_numpy(x)), 2 * np.pi * weight.abs().max().item() * x)


@pytest.mark.parametrize("name", ["PLREmbeddingsLayer", "PLREmbeddingsLayerCosBias"])
def test_embeddings_of_realmlp(name, torch, rng):
    """`plr` and `pbld` have the columns of pytabkit's layers, whose linear layer is the identity here."""
    module = program("pytabkit", "pytabkit/models/nn_models/nn.py")
    x, weight = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=(3, 1, 5)).astype(np.float32)
    bias = rng.uniform(-np.pi, np.pi, size=(3, 1, 5)).astype(np.float32)
    if name == "PLREmbeddingsLayer":
        encoding, biases = presets.plr(weight[:, 0]), {}
    else:
        encoding, biases = presets.pbld(weight[:, 0], bias[:, 0]), {"bias_1": torch.from_numpy(bias)}
    width = encoding.d_model // 3
    theirs = getattr(module, name)(
        fitter=module.PLREmbeddingsFactory(),
        weight_1=torch.from_numpy(weight),
        weight_2=torch.eye(width).expand(3, width, width),
        bias_2=torch.zeros(3, 1, width),
        plr_act_name="linear",
        **biases,
    )
    same(encoding.encode(x), theirs.forward_cont(torch.from_numpy(x)), 2 * np.pi * np.abs(weight).max() * x)


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


MASKS = {
    "all": "all",
    "no intercept": "no-intercept",
    "low ones": lambda *frequencies: sum(frequencies) < 3,
    "one": lambda *frequencies: not any(frequencies),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("frequencies", "bounds"),
    [(5, [(0.0, 2.5)]), ([3, 4], [(0.0, 2.0), (-1.0, 4.0)]), (2, [(0.0, 1.0)] * 3)],
    ids=["1 axis", "2 axes", "3 axes"],
)
def test_nemos(mask, frequencies, bounds, rng):
    """`nemos` has the columns of the NeMoS basis (computed in float32), for the frequencies that its mask keeps."""
    optional("jax")
    theirs = program("nemos", "nemos/basis/basis.py", "lazy_loader").FourierEval(
        frequencies, ndim=len(bounds), bounds=bounds if len(bounds) > 1 else bounds[0], frequency_mask=MASKS[mask]
    )
    low, high = np.transpose(bounds)
    x = rng.uniform(low, high, size=(20, len(bounds))).astype(np.float32)
    made = presets.nemos(theirs.masked_frequencies, period=high - low)
    angles = 2 * np.pi * np.asarray(theirs.masked_frequencies).sum(axis=0)
    same(made.encode(x - low).reshape(20, -1), theirs.compute_features(*x.T), angles)
    if (mask, frequencies) == ("all", 5):
        assert np.array_equal(presets.nemos(5, period=2.5).encode(x), made.encode(x))


# ---- molecules and graphs -------------------------------------------------------------------------------------------


BOLTZ = """boltz.data boltz.model.layers.transition boltz.model.modules.transformers boltz.model.modules.transformersv2
    boltz.model.modules.utils"""
PROTENIX = "protenix.model.modules.primitives protenix.model.modules.transformer protenix.utils.logger"


@pytest.mark.parametrize(
    ("file", "unused", "names"),
    [
        ("boltz/model/modules/encoders.py", BOLTZ, ("proj.weight", "proj.bias")),
        ("boltz/model/modules/encodersv2.py", BOLTZ, ("proj.weight", "proj.bias")),
        ("protenix/model/modules/embedders.py", PROTENIX, ("w", "b")),
    ],
    ids=["boltz", "boltz 2", "protenix"],
)
def test_alphafold3(file, unused, names, torch, rng):
    """`alphafold3` has the columns of Boltz and Protenix, whose times are a quarter of the positions of the preset."""
    theirs = program(file.partition("/")[0], file, *unused.split()).FourierEmbedding(64).requires_grad_(False)
    weight, bias = (operator.attrgetter(name)(theirs).numpy().ravel() for name in names)
    times = rng.normal(size=20).astype(np.float32)
    made = presets.alphafold3(weight, bias).encode(4.0 * times)
    same(made, theirs(torch.from_numpy(times)), 2 * np.pi * (np.outer(times, weight) + bias))


@pytest.fixture
def memory():
    """Return the module of PyTorch Geometric that contains the time encoder of temporal graph networks."""
    unused = ("torch_geometric.nn.inits", "torch_geometric.utils")
    return program("torch_geometric", "torch_geometric/nn/models/tgn.py", *unused)


def test_tgn_before_and_after_training(memory, monkeypatch, torch, rng):
    """An Encoding of the weights and biases of the time encoder has its columns.

    With the frequencies of `tgn` as weights, and biases of 0, `tgn` has the columns of the time encoder. The authors of
    TGN use these values before training.
    """
    monkeypatch.setattr(memory, "Linear", torch.nn.Linear)
    theirs = memory.TimeEncoder(16).requires_grad_(False)
    times = rng.uniform(0, 100, size=20).astype(np.float32)
    weight, bias = theirs.lin.weight[:, 0].numpy(), theirs.lin.bias.numpy()
    trained = presets.tgn(16)
    trained = type(trained)(weight, bias / (2 * np.pi) + 0.25)
    same(trained.encode(times), theirs(torch.from_numpy(times)), 100 * weight)
    theirs.lin.weight[:, 0] = torch.from_numpy(presets.tgn(16).frequencies)
    theirs.lin.bias[:] = 0
    same(presets.tgn(16).encode(times), theirs(torch.from_numpy(times)), times)


def test_esmfold2(torch, rng):
    theirs = optional("transformers.models.esmfold2.modeling_esmfold2").EsmFold2FourierEmbedding(64)
    times = rng.normal(size=20).astype(np.float32)
    frequencies, phases = theirs.frequencies.numpy(), theirs.phases.numpy()
    made = presets.esmfold2(frequencies, phases).encode(times)
    same(made, theirs(torch.from_numpy(times)), 2 * np.pi * (np.outer(times, frequencies) + phases))


# ---- the Earth ------------------------------------------------------------------------------------------------------


@pytest.fixture
def places(rng):
    return np.stack([rng.uniform(-180, 180, 40), rng.uniform(-90, 90, 40)], axis=1)


@pytest.fixture
def torchspatial(monkeypatch, places):
    """Return a function that returns the rows for places of an encoder of TorchSpatial (by name)."""
    for name in ("module", "data_utils"):
        monkeypatch.setitem(sys.modules, name, program("torchspatial", f"torchspatial/{name}.py", "paths"))
    module = program("torchspatial", "torchspatial/SpatialRelationEncoder.py", "spherical_harmonics_ylm_numpy")

    def rows(name, **settings):
        theirs = getattr(module, f"{name}SpatialRelationPositionEncoder")(device="cpu", **settings)
        # pass a copy, because some encoders write into their input
        return theirs(places.copy()[:, np.newaxis])[:, 0]

    return rows


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """Run the code of docs/howto-features.md, and return the names that it defines."""
    text = (checkout() / "docs" / "howto-features.md").read_text("utf-8")
    page = tmp_path_factory.mktemp("page") / "features.py"
    page.write_text("\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)), "utf-8")
    return runpy.run_path(str(page))


SCALES = {"max_radius": 360.0, "min_radius": 0.01}
# argument `angles` of `same`: with the bound ROUNDED, it allows for an error of 2^-52 per radian of float64 angles
FINE = 360 / SCALES["min_radius"] * 2.0**-28


@pytest.mark.parametrize(
    ("name", "preset"),
    [("GridCell", presets.space2vec_grid), ("TheoryGridCell", presets.space2vec_theory)],
    ids=["grid", "theory"],
)
@pytest.mark.parametrize("scales", [{}, SCALES], ids=["as it is", "finer"])
def test_space2vec(name, preset, scales, torchspatial, places):
    expected = torchspatial(name, **scales)
    same(preset(16, **scales).encode(places), expected, FINE if scales else 0, ROUNDED)


def test_wrap(torchspatial, places):
    expected = torchspatial("AodhaFFT", extent=None, do_pos_enc=True)
    same(presets.geo_prior().encode(places), expected, bound=ROUNDED)


SPHERES = {"sphere_c": "Sphere", "sphere_c_plus": "SphereGird", "sphere_m": "SphereMixScale"}


@pytest.mark.parametrize("recipe", SPHERES)
@pytest.mark.parametrize("scales", [{}, SCALES], ids=["as it is", "finer"])
def test_products_of_sphere2vec(recipe, scales, recipes, torchspatial, places):
    expected = torchspatial(SPHERES[recipe], **scales)
    same(recipes[recipe](places, **scales), expected, FINE if scales else 0, ROUNDED)


@pytest.mark.parametrize("scales", [{}, {"n": 5, "max_radius": 360.0}], ids=["as it is", "others"])
def test_double_fourier_sphere(scales, recipes, torchspatial, places):
    expected = torchspatial("DFT", **{{"n": "frequency_num"}.get(key, key): value for key, value in scales.items()})
    same(recipes["sphere_dfs"](places, **scales), expected, bound=ROUNDED)


def test_points_of_the_unit_sphere(recipes, torchspatial, places):
    expected = torchspatial("XYZ")
    same(recipes["xyz"](places), expected, bound=ROUNDED)
    # The program geo_prior with its option encode_3D computes the products below. It multiplies latitudes by pi / 90
    # instead of pi / 180, so the function xyz of howto-features.md gets doubled latitudes.
    lon, lat = np.pi * (places / [180, 90]).T
    expected = np.stack([np.cos(lon) * np.cos(lat), np.sin(lon) * np.cos(lat), np.sin(lat)], axis=1)
    same(recipes["xyz"](places * [1, 2]), expected, bound=ROUNDED)


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
@pytest.mark.parametrize("axes", [2, 3])
def test_geoclip_positional(axes, torch, rng):
    theirs = program("geoclip", "geoclip/model/rff/functional.py")
    x = rng.normal(size=(20, axes)).astype(np.float32)
    expected = theirs.positional_encoding(torch.from_numpy(x), 8.0, 6)
    same(presets.geoclip_positional(8.0, 6, input_dims=axes).encode(x), expected, 2 * np.pi * 8 * x)


# ---- images and video -----------------------------------------------------------------------------------------------


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


def test_segment_anything(torch, rng):
    """`sam` has the rows of Segment Anything, for the centres of cells and for points."""
    theirs = program("segment-anything", "segment_anything/modeling/prompt_encoder.py").PositionEmbeddingRandom(16)
    made = presets.sam(theirs.positional_encoding_gaussian_matrix.numpy())
    angles = 2 * np.pi * np.abs(theirs.positional_encoding_gaussian_matrix.numpy()).sum(axis=0)
    x, y = np.meshgrid((np.arange(8) + 0.5) / 8, (np.arange(4) + 0.5) / 4)
    same(made.encode(2 * np.stack([x, y], -1) - 1), theirs((4, 8)).permute(1, 2, 0), angles)
    points = rng.uniform(size=(1, 20, 2)).astype(np.float32) * [8, 4]
    expected = theirs.forward_with_coords(torch.from_numpy(points), (4, 8))
    same(made.encode(2 * points / [8, 4] - 1), expected, angles)


# ---- scenes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def nerfstudio():
    unused = ("utils", "utils.external", "utils.printing", "data.scene_box")
    names = (f"nerfstudio.{name}" for name in unused)
    return program("nerfstudio", "nerfstudio/field_components/encodings.py", "jaxtyping", *names)


@pytest.mark.parametrize("blurred", [False, True], ids=["points", "cones"])
def test_nerfstudio(blurred, nerfstudio, torch, rng):
    theirs = nerfstudio.NeRFEncoding(3, 6, 0.0, 5.0)
    x, root = rng.uniform(size=(20, 3)).astype(np.float32), rng.normal(0, 1, (20, 3, 3)).astype(np.float32)
    covs = root @ root.swapaxes(1, 2)
    expected = theirs(torch.from_numpy(x), torch.from_numpy(covs) if blurred else None)
    variance = {"variance": np.diagonal(covs, 0, -2, -1).astype(float) / (2 * np.pi) ** 2} if blurred else {}
    same(presets.nerfstudio(3, 6, 0.0, 5.0).encode(x, **variance), expected, 2 * np.pi * 32)
