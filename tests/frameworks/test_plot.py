"""Pictures show the values of the encoding, and their labels are right."""

from __future__ import annotations

import datetime
import functools
import tracemalloc

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.__main__ import main
from support.optional import optional
from support.processes import python

matplotlib = optional("matplotlib")
matplotlib.use("Agg")
plt = optional("matplotlib.pyplot")
plot = optional("posenc_fast.plot")

DRAWINGS = [
    "angles",
    "clocks",
    "decay",
    "errors",
    "frequencies",
    "grid",
    "heatmap",
    "rotary",
    "shift",
    "similarity",
    "sinusoids",
    "wavelengths",
]
# functions that draw one-axis encodings, and also rotary encodings
OF_ONE_AXIS = [drawing for drawing in DRAWINGS if drawing not in ("frequencies", "grid", "rotary")]
LINE = pf.sinusoidal(12, base=100.0)
ROTARY = pf.Rotary(12, base=100.0)
PLANE = pf.join([LINE, LINE])


def subject(drawing):
    return {"frequencies": ROTARY, "rotary": ROTARY, "grid": PLANE}.get(drawing, LINE)


def test_every_function_is_tested():
    assert sorted(plot.__all__) == DRAWINGS


@pytest.fixture(autouse=True)
def no_figure():
    yield
    plt.close("all")


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ---- values in pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, -7.5], ids="start={}".format)
@pytest.mark.parametrize("encoding", [LINE, pf.sinusoidal(5, scale=3.0), pf.Encoding([0.0])], ids=repr)
def test_heatmap(encoding, start):
    ax = plot.heatmap(encoding, 30, start=start)
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), encoding.table(30, start=start))
    # zero is white, and a pixel is centred at its position
    assert image.get_clim() == (-abs(encoding.amplitudes).max(), abs(encoding.amplitudes).max())
    assert image.get_extent() == [-0.5, encoding.d_model - 0.5, start + 29.5, start - 0.5]
    assert labels(ax) == ("column", "position")
    assert image.colorbar.ax.get_ylabel() == "value"


def shown(ax):
    """Return the drawn matrix."""
    return np.asarray(ax.get_images()[0].get_array())


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_wide_tables_show_whole_pairs(layout):
    """Every n-th row and column is drawn, so each drawn value is a value of the table."""
    encoding = pf.sinusoidal(768, layout=layout)
    _, ax = plt.subplots(figsize=(7, 4.2))
    plot.heatmap(encoding, 20, ax=ax)
    pairs = np.arange(0, 384, 3)
    columns = [2 * pairs[:, np.newaxis] + [0, 1]] if layout == "interleaved" else [pairs, 384 + pairs]
    np.testing.assert_array_equal(shown(ax), encoding.table(20)[:, np.concatenate(columns, axis=None)])
    assert ax.get_images()[0].get_interpolation() == "nearest"
    assert ax.get_xlabel() == "column\n(every 3rd frequency)"
    # the axis shows the column numbers of the encoding
    assert ax.get_images()[0].get_extent() == [-0.5, 767.5, 19.5, -0.5]


def test_small_pictures_show_fewer_columns():
    _, ax = plt.subplots(figsize=(2, 1.5))
    plot.heatmap(pf.sinusoidal(768), 400, ax=ax)
    rows, columns = shown(ax).shape
    pixels = ax.get_window_extent()
    # heatmap chooses the columns before the colour bar takes a fifth of the width
    assert 16 <= columns <= pixels.width
    assert 16 <= rows <= pixels.height
    assert "every" in ax.get_xlabel()
    assert "every" in ax.get_ylabel()


def peak_of(call):
    """Return the largest number of bytes that a call allocates, without the memory of its result."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("drawing", ["angles", "heatmap", "rotary", "shift", "sinusoids"])
def test_any_number_of_rows_takes_little_memory(drawing):
    draw = functools.partial(getattr(plot, drawing), subject(drawing))
    draw(100)
    plt.close("all")
    assert peak_of(lambda: draw(10**13)) < 20e6


def test_long_tables_show_every_nth_row():
    _, ax = plt.subplots()
    plot.heatmap(LINE, 1_000_000, start=5, ax=ax)
    rows = len(shown(ax))
    every = -(-1_000_000 // rows)
    np.testing.assert_array_equal(shown(ax), LINE.table(rows, start=5, step=every))
    assert ax.get_ylabel() == f"position\n(every {every:,}th)".replace("1th", "1st").replace("2th", "2nd").replace(
        "3th", "3rd"
    )
    assert ax.get_images()[0].get_extent()[3] == 4.5
    assert ax.get_images()[0].get_extent()[2] >= 1_000_004


MILLION = pf.Encoding(np.linspace(0.1, 1, 10**6), np.arange(10**6) % 4 / 4)


@pytest.mark.parametrize("drawing", OF_ONE_AXIS)
def test_a_million_columns(drawing):
    """A picture takes seconds, or raises an error."""
    call = functools.partial(getattr(plot, drawing), MILLION)
    if drawing == "shift":
        with pytest.raises(ValueError, match="partner"):
            call()
    else:
        call()
        plt.gcf().canvas.draw()


@pytest.mark.parametrize("drawing", ["heatmap", "angles", "rotary"])
def test_any_positions(drawing):
    positions = [3, 1000, 2.5, np.nan]
    ax = getattr(plot, drawing)(subject(drawing), positions=positions)
    expected = {
        "heatmap": LINE.encode(positions),
        "angles": np.arange(4)[:, np.newaxis] * np.nan,
        "rotary": np.arctan2(*ROTARY.tables(positions, dtype=np.float64)[::-1]),
    }[drawing]
    if drawing == "angles":
        whole = np.array(positions)[:, np.newaxis] * LINE.frequencies[::2]
        expected = np.arctan2(np.sin(whole), np.cos(whole))
    np.testing.assert_allclose(np.ma.filled(ax.get_images()[0].get_array(), np.nan), expected, rtol=0, atol=1e-12)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["3", "1000", "2.5", "nan"]


def test_steps():
    ax = plot.heatmap(LINE, 10, start=1, step=0.5)
    np.testing.assert_array_equal(shown(ax), LINE.table(10, start=1, step=0.5))
    assert ax.get_images()[0].get_extent()[2:] == [5.75, 0.75]
    ax = plot.sinusoids(LINE, 4, step=2, columns=[0], ax=plt.figure().gca())
    np.testing.assert_array_equal(ax.get_lines()[1].get_xdata(), [0, 2, 4, 6])


def test_pictures_of_exact_periods_span_the_longest():
    encoding = pf.fourier_features(pf.periodic(["1D", "7D"]))
    ax = plot.heatmap(encoding, 84)
    np.testing.assert_array_equal(shown(ax), encoding.table(84, step=7200))
    assert plot.heatmap(encoding, 84, step=1, ax=plt.figure().gca()).get_ylim() == (83.5, -0.5)


def test_one_row_has_one_tick():
    ax = plot.heatmap(LINE, 1, start=7)
    assert ax.get_yticks().tolist() == [7]


def test_seconds_that_are_zero_are_left_out():
    times = np.array(["2026-01-01T00:00:00", "2026-01-01T12:30:00", "2026-01-01T12:30:15"], "M8[ns]")
    ax = plot.heatmap(pf.fourier_features(pf.periodic(["7D"])), positions=times)
    rows = ["2026-01-01T00:00", "2026-01-01T12:30", "2026-01-01T12:30:15"]
    assert [text.get_text() for text in ax.get_yticklabels()] == rows
    plot.heatmap(LINE, positions=[datetime.datetime(2026, 1, 1, 6)], ax=ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["2026-01-01 06:00"]


@pytest.mark.parametrize("kind", ["numpy", "python"])
def test_rows_of_dates_are_labelled_as_dates(kind):
    times = np.arange("2026-01-01", "2026-01-05", dtype="M8[D]")
    positions = times if kind == "numpy" else [datetime.datetime(2026, 1, day) for day in range(1, 5)]
    encoding = pf.fourier_features(pf.periodic(["7D"]))
    ax = plot.heatmap(encoding, positions=positions)
    np.testing.assert_array_equal(shown(ax), encoding.encode(times))
    labels_of_rows = [text.get_text() for text in ax.get_yticklabels()]
    assert [text[:10] for text in labels_of_rows] == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]


def test_columns_and_positions_are_whole_numbers():
    ax = plot.heatmap(pf.sinusoidal(6), 4)
    for ticks, last in ((ax.get_xticks(), 5.5), (ax.get_yticks(), 3.5)):
        seen = [tick for tick in ticks if -0.5 <= tick <= last]
        assert len(seen) >= 3
        assert all(tick == int(tick) for tick in seen)


def test_positions_between_whole_numbers():
    ax = plot.heatmap(pf.sinusoidal(6), 2, start=0.5)
    assert any(tick != int(tick) for tick in ax.get_yticks())


@pytest.mark.parametrize("drawing", [drawing for drawing in DRAWINGS if drawing != "shift"])
def test_axes_that_already_contain_a_drawing(drawing):
    # clocks set their own ticks
    ax = plot.clocks(LINE)
    assert getattr(plot, drawing)(subject(drawing), ax=ax) is ax
    ax.figure.canvas.draw()


def test_angles():
    encoding = pf.sinusoidal(6, functions=("cos", "-sin"), scale=7.0, layout="concatenated")
    ax = plot.angles(encoding, 40, start=3)
    (image,) = ax.get_images()
    angles = image.get_array()
    # the angle of each hand of the clocks, the fastest at the left
    whole = np.arange(3, 43)[:, np.newaxis] * encoding.frequencies[:3]
    np.testing.assert_allclose(np.cos(angles), np.cos(whole), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.sin(angles), np.sin(whole), rtol=0, atol=1e-13)
    assert image.get_clim() == (-np.pi, np.pi)
    first, last = image.get_cmap()([0.0, 1.0])
    # the colours of +π and -π are equal, and the colour of 0 is light
    np.testing.assert_allclose(first, last, atol=0.02)
    assert min(image.get_cmap()(0.5)[:3]) > 0.8 > max(first[:3])
    assert ax.get_xticks().tolist() == [0, 1, 2]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["6.28", "135", "2,916"]
    assert labels(ax) == ("wavelength (positions)", "position")


def test_wavelengths():
    ax = plot.wavelengths(pf.Encoding([1.0, 0.0, -0.5, 0.25]))
    (dots,) = ax.get_lines()
    np.testing.assert_array_equal(dots.get_xdata(), [0, 2, 3])
    np.testing.assert_allclose(dots.get_ydata(), 2 * np.pi * np.array([1, 2, 4]))
    assert ax.get_yscale() == "log"
    assert labels(ax) == ("column", "wavelength (positions)")


def test_wavelengths_of_several():
    ax = plot.wavelengths(LINE)
    assert (ax.get_title(), ax.get_legend()) == ("sinusoidal(12, base=100.0)", None)
    plot.wavelengths("whisper", d_model=8, ax=ax)
    # one title cannot name both
    assert ax.get_title() == ""
    assert legend(ax) == ["sinusoidal(12, base=100.0)", "whisper, 8 columns"]


def test_sinusoids():
    ax = plot.sinusoids(LINE, 20, start=5, columns=[0, 3])
    curves, dots = ax.get_lines()[0::2], ax.get_lines()[1::2]
    for column, curve, points in zip((0, 3), curves, dots, strict=True):
        np.testing.assert_array_equal(points.get_xdata(), np.arange(5, 25))
        np.testing.assert_array_equal(points.get_ydata(), LINE.table(20, start=5)[:, column])
        np.testing.assert_array_equal(curve.get_ydata(), LINE.encode(curve.get_xdata())[:, column])
        assert curve.get_color() is points.get_color()
    assert legend(ax) == ["column 0: 6.28", "column 3: 13.5"]
    assert labels(ax) == ("position", "value")


def test_default_columns_have_visible_wavelengths():
    # four different wavelengths, at most twice the length
    ax = plot.sinusoids(pf.sinusoidal(128), 100)
    assert legend(ax) == ["column 0: 6.28", "column 16: 19.9", "column 32: 62.8", "column 48: 199"]
    assert len(legend(plot.sinusoids(pf.sinusoidal(4), 1, ax=plt.figure().gca()))) == 1
    # half a period of 16 spans the eight positions
    periods = pf.fourier_features(pf.periodic([8, 16, 32]))
    assert legend(plot.sinusoids(periods, 8, step=1, ax=plt.figure().gca())) == ["column 0: 8", "column 1: 16"]


def test_columns_with_many_periods_are_bands():
    ax = plot.sinusoids(pf.sinusoidal(128), 100_000, columns=[0, 110])
    (curve,) = ax.get_lines()
    assert curve.get_label() == "column 110: 17,206"
    (band,) = ax.collections
    assert (band.get_label(), band.get_datalim(ax.transData).extents.tolist()) == ("column 0: 6.28", [0, -1, 99_999, 1])


@pytest.mark.parametrize("position", [0, 50.5, 1e9], ids="at={:g}".format)
@pytest.mark.parametrize("step", [1, 0.25], ids="step={}".format)
def test_similarity(position, step):
    ax = plot.similarity(LINE, position, span=30, step=step)
    (dots,) = ax.get_lines()
    offsets = step * np.arange(-30, 31)
    np.testing.assert_array_equal(dots.get_xdata(), offsets)
    # the squares of a row add up to 6
    np.testing.assert_allclose(dots.get_ydata(), LINE.similarity(offsets) / 6, rtol=0, atol=1e-13)
    assert labels(ax) == (f"offset from position {position:.15g}", "similarity")
    assert ax.get_title() == "Similarity of rows of sinusoidal(12, base=100.0)"


def test_similarity_of_many_rows():
    ax = plot.similarity(LINE, span=10**12)
    (dots,) = ax.get_lines()
    assert len(dots.get_xdata()) <= 2001
    assert 0 in dots.get_xdata()
    assert ax.get_xlabel() == "offset from position 0\n(every 1,000,000,000th row)"


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary(layout):
    rotary = pf.Rotary(16, base=100.0, rotary_dim=12, layout=layout)
    ax = plot.rotary(rotary, 40, start=3)
    whole = np.arange(3, 43)[:, np.newaxis] * rotary.frequencies
    np.testing.assert_allclose(np.exp(1j * shown(ax)), np.exp(1j * whole), rtol=0, atol=1e-12)
    assert ax.get_images()[0].get_extent() == [-0.5, 5.5, 42.5, 2.5]
    assert labels(ax) == ("pair", "token")


def test_rotary_of_several_axes():
    positions = pf.presets.positions.grid(3, 5)
    ax = plot.rotary("qwen2_vl_vision", positions=positions)
    rotary = pf.presets.qwen2_vl_vision()
    cos, sin = rotary.tables(positions, dtype=np.float64)
    np.testing.assert_allclose(shown(ax), np.arctan2(sin, cos), rtol=0, atol=1e-12)
    assert ax.get_yticklabels()[0].get_text() == "(0, 0)"
    ax = plot.rotary("qwen2_vl_vision", 10, ax=plt.figure().gca())
    cos, sin = rotary.tables(np.repeat(np.arange(10)[:, np.newaxis], 2, axis=1), dtype=np.float64)
    np.testing.assert_allclose(shown(ax), np.arctan2(sin, cos), rtol=0, atol=1e-12)
    assert ax.get_ylabel() == "token (all axes)"


def test_wide_heads_show_every_nth_pair():
    _, ax = plt.subplots(figsize=(7, 4.2))
    plot.rotary("ltx", 10, ax=ax)
    assert shown(ax).shape == (10, 256)
    assert ax.get_xlabel() == "pair\n(every 4th)"


def test_decay():
    ax = plot.decay(ROTARY, 1000)
    plot.decay(pf.Rotary(12), 1000, label="base 10,000", ax=ax)
    for line, rotary in zip(ax.get_lines(), (ROTARY, pf.Rotary(12)), strict=True):
        distances = line.get_xdata()
        assert (distances[0], distances[-1]) == (1, 1000)
        expected = np.cos(distances[:, np.newaxis] * rotary.frequencies).mean(axis=1)
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-12)
    assert legend(ax) == ["Rotary(12, base=100.0)", "base 10,000"]
    assert ax.get_xscale() == "log"
    assert len({line.get_color() for line in ax.get_lines()}) == 2


def test_decay_of_an_encoding_is_its_mean_similarity():
    for encoding in (
        LINE,
        pf.sinusoidal(12, scale=3.0),
        pf.Encoding([1.0, 0.5, 0.0], [0, 0.25, 0.25], [1.0, 2.0, 0.5]),
    ):
        (line,) = plot.decay(encoding, 1000, ax=plt.figure().gca()).get_lines()
        angles = line.get_xdata()[:, np.newaxis] * encoding.frequencies
        weights = encoding.amplitudes**2
        np.testing.assert_allclose(line.get_ydata(), np.cos(angles) @ weights / weights.sum(), rtol=0, atol=1e-12)


def test_decay_ignores_the_attention_factor():
    (line,) = plot.decay("gpt_oss", 100).get_lines()
    assert 0.9 < line.get_ydata()[0] < 1


def test_frequencies():
    scaled = pf.Rotary(12, base=100.0, scaling={"rope_type": "linear", "factor": 8.0})
    ax = plot.frequencies(scaled, label="linear")
    plot.frequencies("llama3", ax=ax)
    linear, llama3 = ax.get_lines()
    np.testing.assert_array_equal(linear.get_xdata(), np.arange(6))
    np.testing.assert_allclose(linear.get_ydata(), 8, rtol=1e-14)
    plain = pf.Rotary(128, base=500_000.0)
    np.testing.assert_allclose(llama3.get_ydata(), plain.frequencies / pf.presets.llama3().frequencies, rtol=1e-14)
    assert legend(ax) == ["linear", "llama3, 64 pairs"]
    # both curves are within the limits of the axis
    low, high = ax.get_ylim()
    assert low < 1
    assert high > 8
    assert labels(ax) == ("pair", "times slower")


def test_frequencies_compared_with_an_original():
    own = pf.Rotary(4, frequencies=[0.5, 0.0])
    ax = plot.frequencies(own, pf.Rotary(4, base=100.0))
    # pairs of frequency 0 have no factor
    assert ax.get_lines()[0].get_xydata().tolist() == [[0, 2]]


@pytest.mark.parametrize("name", ["mae", "sam2"])
def test_grid(name):
    ax = plot.grid(name, (6, 8), (4, 1), d_model=32)
    points = np.stack(np.meshgrid(np.arange(6), np.arange(8), indexing="ij"), axis=-1)
    if name == "mae":
        rows = pf.presets.mae(32).encode(points, dtype=np.float64)
    else:
        rows = np.concatenate(pf.presets.sam2().tables(points, dtype=np.float64), axis=-1)
    centre = rows[4, 1]
    np.testing.assert_allclose(shown(ax), rows @ centre / (centre @ centre), rtol=0, atol=1e-13)
    assert shown(ax).argmax() == 4 * 8 + 1
    (mark,) = ax.get_lines()
    assert mark.get_xydata().tolist() == [[1, 4]]
    assert ax.get_title().endswith("similarity to patch (4, 1)")
    assert labels(ax) == ("column", "row")


def test_grid_of_many_patches():
    ax = plot.grid(PLANE, (3000, 5000), (1234, 4321), step=0.125)
    rows, columns = shown(ax).shape
    assert max(rows, columns) <= 256
    # the patch itself is drawn
    assert shown(ax).max() == 1.0
    assert "every" in ax.get_xlabel()
    assert "every" in ax.get_ylabel()


def test_errors_of_values_against_positions():
    positions = np.array([1, 10, 1000])
    wrong = LINE.encode(positions, dtype=np.float64) + np.array([[1e-3], [1e-6], [0.0]])
    ax = plot.errors(LINE, wrong, positions, label="mine")
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_ydata(), [1e-3, 1e-6, 0.0], rtol=1e-9, atol=0)
    assert (ax.get_xscale(), ax.get_yscale(), legend(ax)) == ("log", "log", ["mine"])
    plot.errors(LINE, LINE.encode, positions, ax=ax)
    assert legend(ax) == ["mine", "encode"]
    assert 0 < ax.get_lines()[1].get_ydata().max() < 2**-24
    assert labels(ax) == ("position", "largest error")


def test_errors_of_float32_programs():
    ax = plot.errors(LINE)
    single, own = ax.get_lines()
    assert legend(ax) == ["angles in float32", "posenc_fast"]
    positions = single.get_xdata()
    assert (positions[0], positions[-1]) == (1, 2e13)
    assert own.get_ydata().max() < 2**-24
    # float32 rounds the position and the product, each by up to half an ulp
    assert 0.01 < single.get_ydata()[np.searchsorted(positions, 1e6)] < 0.1
    np.testing.assert_allclose(
        single.get_ydata()[0],
        np.abs(
            LINE.encode(np.arange(1, 5), precision="float32") - LINE.encode(np.arange(1, 5), dtype=np.float64)
        ).max(),
    )


@pytest.mark.parametrize("drawing", OF_ONE_AXIS)
def test_rotary_encodings_in_functions_of_encodings(drawing):
    drawn = getattr(plot, drawing)("llama")
    title = (drawn if drawing != "shift" else drawn[0]).get_title()
    if drawing != "errors":
        assert "llama, 64 pairs" in title
    if drawing == "heatmap":
        np.testing.assert_array_equal(shown(drawn), np.hstack(pf.presets.llama().tables(100)))
    if drawing == "wavelengths":
        (dots,) = drawn.get_lines()
        np.testing.assert_allclose(dots.get_ydata(), 2 * np.pi / pf.presets.llama().frequencies)
        assert drawn.get_xlabel() == "pair"


def test_clocks():
    ax = plot.clocks(LINE, [0, 2.5, 40], pairs=4)
    hands = np.array([line.get_xydata() for line in ax.get_lines()]).reshape(3, 4, 2, 2)
    pointed = hands[:, :, 1] - hands[:, :, 0]
    frequencies = LINE.frequencies[[0, 4, 6, 10]]
    angles = np.array([0, 2.5, 40])[:, np.newaxis] * frequencies
    np.testing.assert_allclose(pointed, np.stack([np.cos(angles), np.sin(angles)], axis=-1), rtol=0, atol=1e-13)
    centres = [patch.center for patch in ax.patches]
    np.testing.assert_array_equal(hands[:, :, 0].reshape(-1, 2), centres)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "2.5", "40"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["6.28", "29.2", "62.8", "292"]
    assert ax.get_aspect() == 1
    assert ax.get_title() == "sinusoidal(12, base=100.0): 4 of 6 pairs"


@pytest.mark.parametrize("size", [(8, 4.5), (4, 8), (12, 2)], ids=str)
def test_clocks_fill_their_axes(size):
    _, ax = plt.subplots(figsize=size)
    before = ax.get_window_extent()
    plot.clocks(pf.sinusoidal(128), ax=ax)
    ax.figure.canvas.draw()
    after = ax.get_window_extent()
    # an equal aspect ratio would shrink Axes that the clocks do not fill
    assert abs(after.width / before.width - 1) < 0.01
    assert abs(after.height / before.height - 1) < 0.01
    # clocks do not overlap
    centres = np.array([patch.center for patch in ax.patches])
    apart = np.hypot(*(centres[:, np.newaxis] - centres).T)
    assert apart[apart > 0].min() >= 2.5


def test_clock_of_frequency_zero():
    ax = plot.clocks(pf.Encoding([1.0, 0.0, -1.0]), [3])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["6.28", "∞"]


def test_shift():
    axes = plot.shift(LINE, 25, 7)
    table, matrix, moved = [ax.get_images()[0].get_array() for ax in axes]
    np.testing.assert_array_equal(table, LINE.table(25, dtype=np.float64))
    np.testing.assert_array_equal(matrix, LINE.transition_matrix(7))
    np.testing.assert_allclose(moved, LINE.table(25, start=7, dtype=np.float64), rtol=0, atol=1e-14)
    assert axes[2].get_images()[0].get_extent()[2:] == [31.5, 6.5]
    assert [ax.get_ylabel() for ax in axes] == ["position", "column", "position"]


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_wide_matrices_are_shown_in_part(layout):
    encoding = pf.sinusoidal(128, layout=layout)
    _, ax, _ = plot.shift(encoding, 20, 10)
    (image,) = ax.get_images()
    shown = image.get_array()
    assert shown.shape == (32, 32)
    # pairs stay together: each block is a rotation
    np.testing.assert_allclose(shown @ shown.T, np.eye(32), rtol=0, atol=1e-14)
    ax.figure.canvas.draw()
    columns = [int(text.get_text()) for text in ax.get_xticklabels()]
    places = ax.get_xticks()
    whole = encoding.transition_matrix(10)
    for place, column in zip(places, columns, strict=True):
        assert shown[int(place), int(place)] == whole[column, column]
    assert ax.get_xlabel() == "column\n(every 4th frequency)"


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_custom_titles(drawing):
    drawn = getattr(plot, drawing)(subject(drawing), title="Mine")
    assert (drawn if drawing != "shift" else drawn[0]).get_title() == "Mine"


@pytest.mark.parametrize("drawing", ["angles", "grid", "heatmap", "rotary", "shift"])
def test_custom_colours(drawing):
    drawn = getattr(plot, drawing)(subject(drawing), cmap="cividis")
    assert (drawn if drawing != "shift" else drawn[0]).get_images()[0].get_cmap().name == "cividis"


@pytest.mark.parametrize("drawing", [drawing for drawing in OF_ONE_AXIS if drawing != "errors"])
def test_titles_say_which_encoding(drawing):
    def title(what):
        plt.close("all")
        drawn = getattr(plot, drawing)(what)
        return (drawn if drawing != "shift" else drawn[0]).get_title()

    assert "sinusoidal(12, base=100.0)" in title(LINE)
    assert "whisper, 128 columns" in title("whisper")
    # a call too long for a title is not shown
    long = pf.sinusoidal(
        4, frequencies=[1.000000000001, 0.000000000123456789], layout="concatenated", scale=0.123456789
    )
    assert "4 columns" in title(long)
    assert "\n" not in title(long)


@pytest.mark.parametrize("size", [(6.4, 4.8), (3, 2.2)], ids=str)
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_nothing_is_cut_off(drawing, size):
    preset = {"frequencies": "llama3", "rotary": "llama3", "grid": "mae"}.get(drawing, "tensor2tensor")
    if drawing != "shift":
        plt.figure(figsize=size)
    drawn = getattr(plot, drawing)(preset)
    figure = (drawn if drawing != "shift" else drawn[0]).figure
    figure.canvas.draw()
    # the figure is saved without resizing, and half a pixel is tolerated
    whole, seen = figure.bbox.padded(0.5), figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert min(seen.x0 - whole.x0, seen.y0 - whole.y0, whole.x1 - seen.x1, whole.y1 - seen.y1) >= 0


def test_times_are_labelled_as_times():
    """Labels show times, not seconds."""
    times = np.array(["2026-01-01T06", "NaT", "2026-07-01T00"], "M8[h]")
    axes = plot.clocks(pf.fourier_features(pf.periodic(["1D", "7D"])), times)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["2026-01-01T06", "NaT", "2026-07-01T00"]
    axes = plot.clocks(LINE, [0, 1.5])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "1.5"]
    parts = plot.shift(LINE, 20, np.timedelta64(2, "m"))
    assert [ax.get_title() for ax in parts[1:]] == [
        "× transition matrix of 2 minutes",
        "= table moved by 2 minutes",
    ]
    assert parts[2].get_ylim() == (139.5, 119.5)


# ---- presets and errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_presets_and_axes(drawing):
    draw = getattr(plot, drawing)
    figure, axes = plt.subplots(1, 3)
    if drawing == "shift":
        assert draw("whisper", d_model=16, axes=axes).tolist() == axes.tolist()
        assert draw(pf.presets.whisper(16))[0].figure is not figure
    else:
        options = {} if drawing in ("frequencies", "rotary") else {"d_model": 16}
        preset = {"frequencies": "llama3", "rotary": "llama3", "grid": "mae"}.get(drawing, "whisper")
        assert draw(preset, ax=axes[1], **options) is axes[1]
        assert not axes[0].has_data()
        other = plt.figure()
        assert draw(pf.presets.get(preset)(*options.values())).figure is other
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: plot.heatmap("wisper"), ValueError, ["encoding='wisper'", "perhaps whisper"]),
        (lambda: plot.heatmap(3), TypeError, ["encoding", "int"]),
        (lambda: plot.wavelengths(pf.join([LINE, LINE])), ValueError, ["encoding", "2 axes"]),
        (lambda: plot.angles(LINE, 0), ValueError, ["length", "0"]),
        (lambda: plot.heatmap(LINE, 2.5), TypeError, ["length", "2.5"]),
        (lambda: plot.sinusoids(LINE, columns=[12]), ValueError, ["columns", "12", "11"]),
        (lambda: plot.sinusoids(LINE, columns=[-1]), ValueError, ["columns", "-1"]),
        (lambda: plot.similarity(LINE, float("nan")), ValueError, ["position", "nan"]),
        (lambda: plot.sinusoids(LINE, start="x"), TypeError, ["start must be a real number, not 'x'"]),
        (lambda: plot.sinusoids(LINE, start=None), TypeError, ["start must be a real number, not None"]),
        (lambda: plot.sinusoids(LINE, start=np.datetime64("2026-01-01")), TypeError, ["start must be", "2026-01-01"]),
        (lambda: plot.heatmap(LINE, positions=[]), ValueError, ["positions", "(0,)", "at least one"]),
        (lambda: plot.heatmap(LINE, positions=[[1, 2]]), ValueError, ["positions", "(1, 2)"]),
        (lambda: plot.heatmap(LINE, positions=[np.nan, np.inf]), ValueError, ["positions", "no finite number"]),
        (lambda: plot.heatmap(LINE, positions=[1], step=2), ValueError, ["step=2", "positions"]),
        (lambda: plot.heatmap(LINE, step=0), ValueError, ["step=0"]),
        (
            lambda: plot.heatmap(LINE, start=1e300),
            ValueError,
            ["start=1e+300", "step=1", "equal neighbouring positions"],
        ),
        (lambda: plot.wavelengths(pf.Encoding([0.0])), ValueError, ["no column with a wavelength"]),
        (lambda: plot.heatmap(LINE, start=np.nan), ValueError, ["start", "nan"]),
        (lambda: plot.heatmap(LINE, cmap="RdBo"), ValueError, ["cmap='RdBo'", "RdBu"]),
        (lambda: plot.heatmap("flux"), ValueError, ["3 axes", "rotary"]),
        (lambda: plot.heatmap("mochi"), ValueError, ["encoding='mochi'", "needs pos_frequencies"]),
        (
            lambda: plot.heatmap(pf.Rotary(8, scaling={"rope_type": "xpos", "scale_base": 512})),
            ValueError,
            ["xpos", "rotary"],
        ),
        (lambda: plot.sinusoids(LINE, columns=[]), ValueError, ["columns"]),
        (lambda: plot.clocks(LINE, []), ValueError, ["positions"]),
        (lambda: plot.clocks(LINE, range(1000)), ValueError, ["6 x 1,000 clocks", "2000"]),
        (lambda: plot.similarity(LINE, np.nan), ValueError, ["position", "nan"]),
        (lambda: plot.similarity(pf.Encoding([1.0])), ValueError, ["position 0", "zeros"]),
        (lambda: plot.rotary(LINE), TypeError, ["rotary", "an Encoding", "angles"]),
        (lambda: plot.rotary("whisper"), TypeError, ["rotary", "an Encoding"]),
        (lambda: plot.rotary(7), TypeError, ["rotary", "int"]),
        (lambda: plot.rotary(ROTARY, positions=[[1, 2]]), ValueError, ["positions", "(1, 2)"]),
        (lambda: plot.decay(ROTARY, 1), ValueError, ["distance", "1"]),
        (lambda: plot.decay(ROTARY, 2**63), ValueError, ["distance", "2^62"]),
        (lambda: plot.decay(pf.Encoding([1.0], amplitudes=0.0)), ValueError, ["all columns of encoding are zero"]),
        (lambda: plot.frequencies("flux"), ValueError, ["original"]),
        (lambda: plot.frequencies(ROTARY, "llama"), ValueError, ["(6,)", "(64,)"]),
        (lambda: plot.grid(LINE), ValueError, ["1 axes", "two"]),
        (lambda: plot.grid(PLANE, 14), ValueError, ["shape", "14"]),
        (lambda: plot.grid(PLANE, (0, 3)), ValueError, ["shape[0]", "0"]),
        (lambda: plot.grid(PLANE, (3, 3), (1, 3)), ValueError, ["patch=(1, 3)", "(3, 3)"]),
        (lambda: plot.errors(LINE, np.zeros((3, 12))), ValueError, ["positions"]),
        (lambda: plot.errors(LINE, np.zeros((3, 12)), [1, 2]), ValueError, ["(3, 12)", "(2, 12)"]),
        (lambda: plot.errors(LINE, lambda p: p), ValueError, ["(160,)", "(160, 12)"]),
        (lambda: plot.errors(LINE, np.full((2, 12), np.nan), [1, 2]), ValueError, ["NaN"]),
        (lambda: plot.errors(LINE, np.zeros((0, 12)), []), ValueError, ["positions", "(0,)"]),
        (lambda: plot.shift(LINE, offset="x"), TypeError, ["offset", "'x'"]),
        (lambda: plot.similarity(LINE, span=0), ValueError, ["span", "0"]),
        (lambda: plot.clocks(LINE, pairs=0), ValueError, ["pairs", "0"]),
        (lambda: plot.shift(pf.sinusoidal(3)), ValueError, ["column 2", "partner"]),
        (lambda: plot.shift(LINE, axes=[None]), ValueError, ["axes", "three"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert all(word in str(raised.value) for word in words), raised.value
    assert not any(ax.has_data() for number in plt.get_fignums() for ax in plt.figure(number).axes)


# ---- the command ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_command(drawing, tmp_path, capsys):
    target = tmp_path / "figure.png"
    preset = {
        "frequencies": ["--preset", "llama3"],
        "rotary": ["--preset", "llama3"],
        "grid": ["16", "--preset", "mae"],
    }
    assert main(["plot", drawing, *preset.get(drawing, ["16"]), "-o", str(target), "--dpi", "50"]) == 0
    assert capsys.readouterr().out == f"wrote {target}: {drawing}, {target.stat().st_size} bytes\n"
    pixels = plt.imread(target)
    assert pixels.shape == ((175, 600, 4) if drawing == "shift" else (210, 350, 4))
    assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 3
    assert plt.get_fignums() == []
    assert list(tmp_path.iterdir()) == [target]


def test_command_takes_the_options_of_its_kind(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(plot, "heatmap", lambda what, length=1, *, start=0, d_model=1, ax=None: seen.update(locals()))
    target = str(tmp_path / "a.svg")
    assert main(["plot", "heatmap", "20", "--length", "7", "--start", "-3", "--base", "100", "-o", target]) == 0
    assert (seen["what"], seen["length"], seen["start"]) == (pf.sinusoidal(20, base=100.0), 7, -3)
    assert main(["plot", "heatmap", "20", "--preset", "whisper", "-o", target]) == 0
    assert (seen["what"], seen["d_model"], seen["length"]) == ("whisper", 20, 1)
    assert main(["plot", "heatmap", "--preset", "whisper", "-o", target]) == 0
    assert (seen["what"], seen["d_model"]) == ("whisper", 128)
    assert main(["plot", "heatmap", "8", "--preset", "whisper", "--set", "max_timescale=9", "-o", target]) == 0
    assert seen["what"] == pf.presets.whisper(8, max_timescale=9.0)
    assert main(["plot", "heatmap", "--preset", "diffwave", "-o", target]) == 0
    assert seen["what"] == "diffwave"
    assert main(["plot", "heatmap", "--preset", "llama", "--set", "head_dim=16", "-o", target]) == 0
    assert seen["what"] == pf.presets.llama(16)


def test_command_takes_dates(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        plot,
        "heatmap",
        lambda what, *, positions=None, title=None, cmap=None, d_model=1, ax=None: seen.update(locals()),
    )
    positions = ["2026-01-01", "2026-01-01T12:30", "2026-01-02T00:00+01:00"]
    target = str(tmp_path / "a.svg")
    words = ["--title", "A day", "--cmap", "cividis"]
    assert main(["plot", "heatmap", "8", "--positions", *positions, *words, "-o", target]) == 0
    np.testing.assert_array_equal(LINE.encode(seen["positions"]), LINE.encode([1767225600, 1767270600, 1767308400]))
    assert (seen["title"], seen["cmap"]) == ("A day", "cividis")
    assert main(["plot", "heatmap", "8", "--positions", "0", "-1.5", "-o", target]) == 0
    assert seen["positions"] == [0, -1.5]


def test_command_draws_cycles_of_times(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(plot, "clocks", lambda what, positions, *, pairs=8, d_model=1, ax=None: seen.update(locals()))
    words = ["--periods", "1D,7D", "--positions", "2026-01-01", "2026-01-02T06:00", "--pairs", "2"]
    assert main(["plot", "clocks", *words, "-o", str(tmp_path / "a.svg")]) == 0
    assert (seen["what"], seen["pairs"]) == (pf.fourier_features(pf.periodic(["1D", "7D"]), layout="interleaved"), 2)
    np.testing.assert_array_equal(
        seen["what"].encode(seen["positions"])[:, 0], seen["what"].encode([1767225600, 1767333600])[:, 0]
    )


def test_command_draws_columns(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(plot, "sinusoids", lambda what, *, columns=None, d_model=1, ax=None: seen.update(locals()))
    assert main(["plot", "sinusoids", "16", "--columns", "0", "7", "-o", str(tmp_path / "a.svg")]) == 0
    assert seen["columns"] == [0, 7]


def test_command_draws_patches(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(plot, "grid", lambda what, shape, patch, *, d_model=1, ax=None: seen.update(locals()))
    words = ["--preset", "mae", "--shape", "6", "8", "--patch", "4", "1", "-o", str(tmp_path / "a.svg")]
    assert main(["plot", "grid", "16", *words]) == 0
    assert (seen["what"], seen["d_model"], seen["shape"], seen["patch"]) == ("mae", 16, [6, 8], [4, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["heatmap", "8", "-o", "a.xyz"], ["a.xyz", ".png", ".svg", ".pdf"]),
        (["heatmap", "8", "-o", "a"], ["a must end", ".png"]),
        (["heatmap", "8", "-o", "none/a.png"], ["none", "no such directory"]),
        (["heatmap", "8", "-o", "a.png", "--offset", "3"], ["heatmap takes no --offset"]),
        (["clocks", "8", "-o", "a.png", "--length", "3"], ["clocks takes no --length"]),
        (["heatmap", "8", "-o", "a.png", "--preset", "wisper"], ["wisper", "perhaps whisper"]),
        (["heatmap", "8", "-o", "a.png", "--preset", "whisper", "--freq-shift", "1"], ["--preset", "--freq-shift"]),
        (["heatmap", "8", "-o", "a.png", "--dpi", "0"], ["--dpi 0 must be from 10 to 9362"]),
        (
            ["shift", "8", "-o", "a.png", "--dpi", "1e9"],
            ["--dpi 1e+09 must be from 10 to 5461: a side has 65535 pixels"],
        ),
        (["heatmap", "8", "-o", "a.png", "--dpi", "nan"], ["--dpi must be a finite number, not nan"]),
        (["heatmap", "8", "-o", "a.png", "--start", "1e300"], ["--start 1e+300 is beyond 2^53"]),
        (["shift", "8", "-o", "a.png", "--offset", "-9007199254740994"], ["--offset -9007199254740994 is beyond 2^53"]),
        (["similarity", "8", "-o", "a.png", "--position", "inf"], ["--position must be a finite number, not inf"]),
        (["clocks", "8", "-o", "a.png", "--positions", "1", "nan"], ["--positions must be a finite number, not nan"]),
        (["clocks", "8", "-o", "a.png", "--positions", "soon"], ["--positions", "'soon'", "ISO date"]),
        (["clocks", "8", "-o", "a.png", "--positions", "1", "2026-01-01"], ["positions"]),
        (["heatmap", "8", "-o", "a.png", "--cmap", "virids"], ["'virids'", "viridis"]),
        (["rotary", "8", "-o", "a.png"], ["rotary", "--preset"]),
        (["rotary", "-o", "a.png", "--preset", "whisper"], ["rotary", "an Encoding"]),
        (["rotary", "64", "-o", "a.png", "--preset", "llama"], ["'llama' has heads of 128 values, not 64"]),
        (["heatmap", "-o", "a.png", "--preset", "mochi"], ["needs pos_frequencies", "--set pos_frequencies=VALUE"]),
        (["grid", "8", "-o", "a.png"], ["1 axes", "two"]),
        (["grid", "8", "-o", "a.png", "--preset", "mae", "--shape", "3"], ["--shape", "2"]),
        (["pie", "8", "-o", "a.png"], ["pie", "heatmap"]),
        (["heatmap", "-o", "a.png", "--periods", "day,12h"], ["--periods day,12h", "lengths such as 1D, not day"]),
        (["heatmap", "8", "-o", "a.png", "--periods", "1D"], ["--periods excludes"]),
        (["sinusoids", "8", "-o", "a.png", "--columns", "9"], ["columns has 9"]),
        (["heatmap", "0", "-o", "a.png"], ["d_model", "0"]),
    ],
    ids=lambda value: "-".join(value) if value[-1].startswith("-") or "-o" in value else None,
)
def test_errors_of_the_command(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_text("mine")
    assert main(["plot", *arguments]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert len(message.splitlines()) == 1
    # the old file is unchanged, and there is no other file
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.png", "mine")]


def test_full_disk(tmp_path, monkeypatch, capsys):
    def full(*arguments, **settings):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    assert main(["plot", "heatmap", "8", "--dpi", "9000", "-o", str(tmp_path / "a.png")]) == 2
    words = "out of memory: --dpi 9000 makes a picture of 63000 x 37800 pixels for d_model=8"
    assert capsys.readouterr().err == f"posenc-fast: error: {words}\n"
    assert not list(tmp_path.iterdir())


def test_without_matplotlib():
    run = python("import sys; sys.modules['matplotlib'] = None; import posenc_fast.plot")
    assert run.returncode == 1
    assert "ImportError: posenc_fast.plot needs matplotlib: pip install matplotlib" in run.stderr


def test_sizes_of_pictures_by_default():
    assert shown(plot.grid("mae")).shape == (14, 14)
    assert "128 columns" in plot.similarity("whisper").get_title()
    for draw, encoding, length in ((plot.sinusoids, LINE, 50), (plot.rotary, ROTARY, 100)):
        default, stated, longer = (
            draw(encoding, *lengths, ax=plt.figure().gca()).dataLim.bounds for lengths in ((), (length,), (length + 1,))
        )
        assert default == stated != longer


def test_labels_of_angles_are_at_most_six():
    assert len(plot.angles(pf.sinusoidal(64), ax=plt.figure(figsize=(30, 4)).gca()).get_xticks()) <= 6


def test_cells_of_a_grid_are_squares():
    assert plot.grid(PLANE, (6, 8)).get_aspect() == 1


def test_one_curve_of_frequencies_has_no_legend():
    assert plot.frequencies("llama3", ax=plt.figure().gca()).get_legend() is None
