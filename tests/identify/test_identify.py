"""Test that `identify` finds the encoding of tables of every dtype, and rejects other tables."""

from __future__ import annotations

import json
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets
from posenc_fast._models.identify.angles import measure
from posenc_fast._models.identify.encoding import _checked
from posenc_fast.presets._registry import FACTS
from support.errors import raises, wrong_calls
from support.fuzzing import DTYPES
from support.optional import optional

GOLDEN = Path(__file__).parents[1] / "golden"
MAE = pf.grid([14, 14], presets.mae(64)).reshape(196, 64)
WHISPER = presets.whisper(64).table(100)
# the most common type, and the one with the largest tolerances, which needs ml_dtypes
TWO = [dtype for name, dtype in DTYPES.items() if name in ("float32", "bfloat16")]
two_types = pytest.mark.parametrize("dtype", TWO, ids=str)


def agrees(found, table, atol=None):
    """Assert that `found.error` is the largest difference from the table, and at most atol (if given)."""
    assert found
    rows = found.encoding.table(len(table), start=found.start, step=found.step, dtype=np.float64)
    rows[list(found.zero_rows)] = 0
    error = np.abs(rows - table.astype(np.float64)).max()
    assert error == pytest.approx(found.error, rel=1e-6, abs=1e-15)
    if atol is not None:
        assert error <= atol


@pytest.mark.parametrize(("d", "settings"), [
    (64, {}),
    (64, {"layout": "concatenated", "functions": ("cos", "sin")}),
    (512, {"freq_shift": 1.0, "layout": "concatenated"}),
    (65, {}),
    (65, {"freq_shift": 1.0, "odd": "zero", "layout": "concatenated"}),
    (65, {"odd": "zero", "functions": ("cos", "sin")}),
    (64, {"base": 500000.0}),
    (16, {"base": 20.0}),
    (4, {}),
    (2, {}),
    (64, {"freq_shift": 0.5, "layout": "concatenated"}),
    (32, {"first": 0.5}),
], ids=str)  # fmt: skip
def test_parameters(d, settings):
    bounds = {"float64": 1e-12, "float32": 1e-7, "float16": 3e-4, "bfloat16": 2e-3}
    tables = [("float64", 20, 0), ("float32", 20, 2), ("float32", 300, -3), ("float16", 300, 1), ("bfloat16", 20, 2)]
    for name, rows, start in [*tables, ("bfloat16", 300, -3)]:
        if name not in DTYPES:
            continue
        table = pf.sinusoidal(d, **settings).table(rows, start=start, dtype=np.float64).astype(DTYPES[name])
        found = pf.identify(table)
        case = (name, rows, start, found)
        assert (found.start, found.step, found.scale, found.zero_rows) == (start, 1, 1.0, ()), case
        assert found.encoding == pf.sinusoidal(d, **settings), case
        assert found.base == settings.get("base", 10000.0), case
        assert (found.freq_shift, found.first) == (settings.get("freq_shift", 0.0), settings.get("first", 1.0)), case
        # with two columns, both layouts are equal, and "interleaved" is reported
        assert found.layout == ("interleaved" if d == 2 else settings.get("layout", "interleaved")), case
        assert found.functions == settings.get("functions", ("sin", "cos")), case
        agrees(found, table, bounds[name])
        # a bfloat16 table that was converted to float32 is identified too
        assert name != "bfloat16" or pf.identify(table.astype(np.float32)).encoding == found.encoding, case


@two_types
@pytest.mark.parametrize("scale", [0.125, 64**-0.5, (2 / 64) ** 0.5, 8.0, 3.7])
def test_scaled_tables(dtype, scale):
    table = (scale * pf.sinusoidal(64).table(50, start=1, dtype=np.float64)).astype(dtype)
    found = pf.identify(table)
    assert found.scale == pytest.approx(scale, rel=1e-3)
    assert (found.base, found.freq_shift, found.start) == (10000.0, 0.0, 1)
    np.testing.assert_array_equal(np.abs(found.encoding.amplitudes), found.scale)
    agrees(found, table)
    if scale == 0.125:
        assert "nemo_fixed" in found.presets
        assert "annotated_transformer" not in found.presets
    if scale == 3.7:
        # no preset has this factor, so the result lists the presets of the table without the factor
        assert "annotated_transformer" in found.presets


@two_types
@pytest.mark.parametrize("zero", [[0], [1], [0, 1], [7, 8, 19], [1, 3, 5, 7, 9, 11, 13, 15]], ids=str)
def test_rows_of_padding(dtype, zero):
    table = presets.fairseq(64).table(30, dtype=np.float64).astype(dtype)
    table[zero] = 0
    found = pf.identify(table)
    assert found.zero_rows == tuple(zero)
    assert (found.start, found.base, found.freq_shift, found.layout) == (0, 10000.0, 1.0, "concatenated")
    assert {"fairseq", "whisper", "ctranslate2", "tensor2tensor"} <= set(found.presets)
    agrees(found, table)


@two_types
def test_descending_positions(dtype):
    table = presets.conformer_relative(64).encode(pf.relative_positions(40), dtype=np.float64).astype(dtype)
    found = pf.identify(table)
    assert (found.start, found.step) == (39, -1)
    assert "conformer_relative" in found.presets
    agrees(found, table)


@pytest.mark.parametrize("start", [5000, 20000, -7000, 0.5, 2.25])
def test_far_and_broken_starts(start):
    found = pf.identify(pf.sinusoidal(128).table(100, start=start))
    assert found.start == pytest.approx(start, abs=1e-4)
    assert isinstance(found.start, int) == (start == int(start))
    assert "annotated_transformer" in found.presets


def test_known_start():
    table = pf.sinusoidal(4).table(50, start=1000)
    agrees(pf.identify(table, start=1000), table)
    assert not pf.identify(table, start=1001)


def test_angles_lie_on_lines(rng):
    """The measured frequency, phase and error are those of a straight line through the angles."""
    rows = np.arange(50)
    angles = 0.3 + 0.1 * rows + 1e-6 * rng.normal(size=50)
    table, _ = _checked(np.stack([np.sin(angles), np.cos(angles)], 1))
    measured = measure(table, "interleaved", ("sin", "cos"))
    line = np.polyfit(rows, angles, 1)
    noise = np.sqrt(np.square(angles - np.polyval(line, rows)).mean())
    assert (measured.frequencies[0], measured.phases[0]) == pytest.approx(line, abs=1e-11)
    assert measured.errors[0] == pytest.approx(noise / np.sqrt(np.square(rows - 24.5).sum()), rel=1e-4)
    assert (measured.known.tolist(), measured.step) == ([True], 1)


def test_long_tables_are_compared_to_the_end():
    table = pf.sinusoidal(16).table(5000)
    agrees(pf.identify(table), table, 1e-7)
    table[4321, 3] += 0.01
    found = pf.identify(table)
    assert not found
    assert found.error == pytest.approx(0.01, rel=1e-2)
    table[4321] = 0
    assert pf.identify(table).zero_rows == (4321,)


def test_frequencies_of_no_schedule():
    own = np.array([1.0, 0.7, 0.3, 0.01])
    table = pf.sinusoidal(8, frequencies=own).table(400, dtype=np.float64)
    found = pf.identify(table)
    assert (found.base, found.freq_shift, found.first, found.presets) == (None, None, None, ())
    np.testing.assert_allclose(found.encoding.frequencies[::2], own, rtol=1e-9)
    agrees(found, table, 1e-9)
    odd = pf.sinusoidal(9, frequencies=[0.74, 0.31, 0.05, 0.006], odd="zero", layout="concatenated")
    table = odd.table(256, dtype=np.float64)
    agrees(pf.identify(table), table, 1e-6)


def test_an_unusual_base():
    found = pf.identify(pf.sinusoidal(64, base=1234.5).table(200))
    assert (found.base, found.freq_shift) == (1234.5, 0.0)
    # `presets` lists presets with an option for the base, but no others
    assert "annotated_transformer" in found.presets
    assert "xlm" not in found.presets


@pytest.mark.parametrize("name", [n for n in presets.names() if FACTS[n].by_width and FACTS[n].axes in ("1", "ndim")])
def test_every_preset_is_found(name):
    encoding = presets.get(name)(48)
    rows = encoding.table(60, start=1, dtype=np.float64)
    for dtype in TWO:
        found = pf.identify(rows.astype(dtype))
        agrees(found, rows.astype(dtype))
        # at frequencies of more than half a turn per position, another preset may have the same rows
        if encoding.d_model == 48 and np.abs(encoding.frequencies).max() <= np.pi:
            assert name in found.presets, dtype


# key of a recorded output, name of its preset, first position
OUTPUTS = """
g011 xlm 0, g014 annotated_transformer 0, g021 evans_unpaired 0, g022 evans_unpaired 0, g040 marian 0, g041 marian 0,
g052 fairseq 0, g053 fairseq 0, g070 musicgen 0, g071 musicgen 0, g093 whisper 0, g099 x_transformers 0, g102 fairseq 2,
g113 speechbrain_rotary 0, g129 keras_hub 3, g130 keras_hub 3, g131 mlx 0, g287 x_transformers 3, g326 funnel 0
"""


def test_published_outputs():
    names = {e["key"]: e for part in json.loads((GOLDEN / "golden.json").read_text()).values() for e in part}
    with np.load(GOLDEN / "golden.npz") as file:
        tables = dict(file)
    for row in OUTPUTS.split(","):
        key, name, start = row.split()
        found = pf.identify(tables[key].reshape(-1, tables[key].shape[-1]))
        assert (name in found.presets, found.start) == (True, int(start)), names[key]["name"]


# ---- tables as in checkpoints --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(50, 1, 64), (1, 50, 64), (1, 1, 50, 64), (50, 1, 1, 64), (1, 50, 1, 64)], ids=str)
def test_axes_of_length_one(shape):
    table = pf.positional_encoding(50, 64)
    assert pf.identify(table.reshape(shape)) == pf.identify(table)
    assert pf.identify(table[:, :1].reshape(50, 1, 1)) == pf.identify(table[:, :1])
    assert pf.identify(np.broadcast_to(table, (3, 2, 50, 64))) == pf.identify(table)


TENSORS = {
    "parameter": lambda torch, table: torch.nn.Parameter(torch.tensor(table)[None]),
    "float16": lambda torch, table: torch.tensor(table).half(),
    "bfloat16": lambda torch, table: torch.nn.Parameter(torch.tensor(table)[:, None].bfloat16()),
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_tensors(make, monkeypatch):
    torch = optional("torch")
    # tensors of bfloat16 do not need ml_dtypes
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    given = make(torch, pf.positional_encoding(50, 64))
    found = pf.identify(given)
    assert found.encoding == pf.sinusoidal(64)
    # the tolerance depends on the dtype of the tensor
    assert found.error < {"float16": 3e-4, "bfloat16": 2e-3}.get(str(given.dtype)[6:], 1e-7)
    assert given.requires_grad == (given.dtype != torch.float16)


# ---- grids ------------------------------------------------------------------------------------------------------

GRIDS = {
    "mae": ([14, 14], lambda: presets.mae(64)),
    "praxis_2d": ([range(-5, 5), range(-4, 5)], lambda: presets.praxis_2d(64)),
    "detr": ([range(1, 7), range(1, 10)], lambda: presets.detr(32)),
    "tensor2tensor_nd": ([5, 6], lambda: presets.tensor2tensor_nd(64, 2)),
    "tatp22": ([5, 6, 7], lambda: presets.tatp22(48, 3)),
    "diffusers_3d": ([4, 8, 6], lambda: presets.diffusers_3d(96)),
    "monai": ([6, 6, 6], lambda: presets.monai(96)),
}


@two_types
@pytest.mark.parametrize(("name", "axes", "build"), [(name, *given) for name, given in GRIDS.items()], ids=GRIDS)
def test_grids(name, axes, build, dtype):
    table = pf.grid(axes, build(), dtype=np.float64).astype(dtype)
    rows = table.reshape(-1, table.shape[-1])
    # pass the table in the shape of the grid, and as a batch of one, after two rows of zeros
    for given, zeros in ((table, 0), (np.pad(rows, ((2, 0), (0, 0)))[None], 2)):
        found = pf.identify(given)
        assert name in found.presets
        assert (found.axes, found.zero_rows) == (tuple(axes), tuple(range(zeros)))
        again = pf.grid(found.axes, found.encoding, dtype=np.float64).reshape(-1, rows.shape[-1])
        assert np.abs(again - rows.astype(np.float64)).max() == pytest.approx(found.error, rel=1e-6, abs=1e-14)
        # the text of the result shows a call of `grid`, which returns an array of the same shape as the rows
        text = next(line for line in str(found).splitlines() if line.startswith("positions"))
        called = eval(text.partition("grid")[2].join(["pf.grid", ""]), {"pf": pf, "encoding": found.encoding})
        assert called.shape == rows.shape


@pytest.mark.parametrize(
    ("side", "options"),
    [(24, {"base_size": 8}), (24, {}), (20, {"base_size": 20, "interpolation_scale": 2}), (96, {"base_size": 64})],
    ids=["unknown", "usual", "interpolated", "larger"],
)
def test_grids_of_diffusers(side, options):
    """Identify grids whose coordinates have steps below 1, as in Stable Diffusion 3 and PixArt.

    Steps of 1/2 and 2/3 are identified, but not steps of 1/3.
    """
    encoding = presets.diffusers_2d(32, side, **options)
    found = pf.identify(pf.grid([side, side], encoding).reshape(1, -1, 32))
    if options == {"base_size": 8}:
        assert not found
    else:
        assert (found.presets, found.axes) == (("diffusers_2d",), (side, side))
        np.testing.assert_allclose(found.encoding.frequencies, encoding.frequencies, rtol=1e-15)


def test_scaled_grids_and_given_starts():
    table = 0.02 * pf.grid([6, 8], presets.mae(64), dtype=np.float64).reshape(48, 64)
    found = pf.identify(table)
    assert (found.axes, found.scale) == ((6, 8), pytest.approx(0.02))
    assert np.abs(pf.grid(found.axes, found.encoding, dtype=np.float64).reshape(48, 64) - table).max() < 1e-15
    assert pf.identify(table, start=0).axes == (6, 8)
    assert not pf.identify(table, start=1)
    shifted = pf.grid([range(7, 13), range(7, 15)], presets.mae(64)).reshape(48, 64)
    assert not pf.identify(shifted)
    found = pf.identify(shifted, start=7)
    assert (found.axes, found.start) == ((range(7, 13), range(7, 15)), 7)


def test_changed_grids_are_not_identified():
    # only rows before a grid may be zero, and `closest` is always None for a grid
    wrong, zero = MAE.copy(), MAE.copy()
    wrong[123, 45] += 0.01
    zero[123] = 0
    for changed in (MAE[:-1], MAE[1:], np.roll(MAE, 1, axis=0), MAE[::-1], MAE.reshape(2, 98, 64), wrong, zero):
        found = pf.identify(changed)
        assert (bool(found), found.closest) == (False, None)
    found = pf.identify(MAE.reshape(2, 98, 64))
    assert (found.start, found.step, found.scale, found.error) == (0, 1, 1.0, np.inf)


# ---- tables that are not identified -----------------------------------------------------------------------------


@two_types
@pytest.mark.parametrize("d", [1, 2, 3, 64])
def test_random_matrices(dtype, d, rng):
    for table in (rng.normal(size=(60, d)), 0.02 * rng.normal(size=(60, d)), rng.uniform(size=(20, d))):
        found = pf.identify(table.astype(dtype))
        assert not found
        assert (found.encoding, found.presets, found.base, found.closest, found.axes) == (None, (), None, None, ())
        assert found.error > 0
        assert str(found) == "no known encoding, and no preset is close"


@two_types
def test_learned_tables(dtype, rng):
    """A table that training changed by about 0.05 is not identified. `closest` names a preset of the original table."""
    table = pf.sinusoidal(64, layout="concatenated").table(100, dtype=np.float64)
    found = pf.identify((table + 0.05 * rng.normal(size=table.shape)).astype(dtype))
    assert not found
    assert found.closest in ("marian", "tensorflow_text", "transformer_xl")
    assert 0.1 < found.error < 0.4
    assert str(found).startswith("no known encoding; the closest is ")


def test_tables_of_no_encoding():
    cells = np.stack(np.meshgrid(range(6), range(6)), -1).reshape(-1, 2)
    shuffled = presets.mae(16).encode(np.random.default_rng(0).permutation(cells))
    constant = np.tile(pf.sinusoidal(8).table(1), (30, 1))
    for table in (shuffled, np.eye(20), np.ones((30, 8)), constant, np.sin(np.arange(400.0)).reshape(40, 10) ** 2):
        assert not pf.identify(table)


# ---- arguments and results -----------------------------------------------------------------------------------


@wrong_calls(
    """
    np.ones(20) | ValueError | table has shape (20,), but must have shape (rows, columns), or; for a grid
    np.ones(()) | ValueError | table has shape ()
    np.ones((1, 1, 8)) | ValueError | table has shape (1, 1, 8)
    np.arange(1280.0).reshape(2, 2, 2, 20, 8) | ValueError | table has shape (2, 2, 2, 20, 8)
    np.ones((0, 20, 8)) | ValueError | only 0 of the first 0 rows
    np.ones((20, 0)) | ValueError | table has shape (20, 0)
    np.ones((7, 8)) | ValueError | only 7 of the first 7 rows, but needs at least 8 such rows
    np.ones((0, 8)) | ValueError | only 0 of the first 0 rows
    np.zeros((50, 8)) | ValueError | only 0 of the first 50 rows
    np.full((20, 8), np.nan) | ValueError | table has values that are not finite
    np.vstack([np.ones((2000, 2)), [1, np.inf]]) | ValueError | not finite
    np.ones((20, 8), int) | TypeError | the dtype of table must be one of float64, ; not dtype
    np.ones((20, 8), complex) | TypeError | the dtype of table must be one of float64
    optional("torch").ones(20, 8).long() | TypeError | table must be one of float64; not dtype('int64'
    optional("torch").ones(20, 8).cfloat() | TypeError | table must be one of float64; not dtype('complex64'
    optional("torch").full((20, 8), np.nan).bfloat16() | ValueError | not finite
    np.ones((20, 2)), "1" | TypeError | start must be a real number; not '1'
    np.ones((20, 2)), np.nan | ValueError | start must be a finite number; not nan
    """
)
def test_bad_arguments(call, error, words):
    given = call()
    table, start = given if isinstance(given, tuple) else (given, None)
    raises(lambda: pf.identify(table, start=start), error, words)


def test_results_are_values():
    table = pf.sinusoidal(16).table(30, start=1)
    table[3] = 0
    before = table.copy()
    table.setflags(write=False)
    one, two = pf.identify(table), pf.identify(table.tolist())
    np.testing.assert_array_equal(table, before)
    assert isinstance(one, pf.Identification)
    assert one.encoding == two.encoding
    assert one == pf.identify(table)
    with pytest.raises(FrozenInstanceError):
        one.start = 3
    assert str(one).splitlines()[1:3] == ["encoding    sinusoidal(16)", "positions   1, 2, .."]


# ---- paths ----------------------------------------------------------------------------------------------------------


def test_paths(tmp_path, monkeypatch):
    """`identify` reads the only tensor of a path, or else the only one with a name that is typical of position tables."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", WHISPER)
    np.savez("one.npz", x=WHISPER)
    np.savez("named.npz", weight=np.ones((64, 64), "f4"), **{"encoder.positional_embedding": WHISPER})
    Path("folder").mkdir()
    np.savez("folder/a.npz", weight=np.ones((64, 64), "f4"))
    np.savez("folder/b.npz", pe=WHISPER, bias=np.ones(3))
    for path in ("x.npy", "one.npz", Path("named.npz"), tmp_path / "folder"):
        found = pf.identify(path)
        assert "whisper" in found.presets, path
        assert found == pf.identify(WHISPER)
    assert pf.identify("x.npy", start=1).start == pf.identify(WHISPER, start=1).start


def test_paths_of_torch(tmp_path):
    torch = optional("torch")
    weights = {"decoder.pos_embed": torch.from_numpy(MAE).bfloat16()[None], "decoder.weight": torch.ones(9, 9)}
    for name, state in (
        ("a.pt", weights["decoder.pos_embed"]),
        ("b.bin", weights),
        ("c.ckpt", {"state_dict": weights}),
    ):
        torch.save(state, tmp_path / name)
        assert "mae" in pf.identify(tmp_path / name).presets, name


@pytest.mark.parametrize(("arrays", "words"), [
    ({"pe": WHISPER, "other.pe": MAE, "weight": MAE},
     "several position tables; load one tensor, .* The position tables are: pe, other.pe$"),
    ({"weight": MAE, "bias": np.ones(3)}, "no tensor with the name of a position table; .*: weight, bias$"),
    ({}, "no tensor .*: none$"),
    ({f"w{i}": np.ones(3) for i in range(99)}, r": w0, .*, w19, \.\.$"),
], ids=["several", "no-name", "empty", "many"])  # fmt: skip
def test_paths_without_one_table(arrays, words, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=words):
        pf.identify(tmp_path / "a.npz")


def test_paths_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="the file or folder does not exist"):
        pf.identify(str(tmp_path / "nowhere.pt"))
    (tmp_path / "x.txt").write_text("1")
    with pytest.raises(ValueError, match=r"x\.txt must be a folder.*\.safetensors"):
        pf.identify(tmp_path / "x.txt")
    (tmp_path / "x.npy").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"x\.npy cannot be read"):
        pf.identify(tmp_path / "x.npy")
    with pytest.raises(ValueError, match="the path is empty"):
        pf.identify("")
