"""Test that pictures show the values of an encoding, with correct labels."""

from __future__ import annotations

import functools
from datetime import datetime

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.__main__ import main
from support.errors import raises, wrong_calls
from support.memory import peak_of
from support.optional import optional
from support.tables import each_line

optional("matplotlib").use("Agg")
plt = optional("matplotlib.pyplot")
plot = optional("posenc_fast.plot")

DRAWINGS = sorted(plot.__all__)
LINE = pf.sinusoidal(12, base=100.0)
ROTARY = pf.Rotary(12, base=100.0)
PLANE = pf.join([LINE, LINE])
# keys: functions. Values: in SUBJECTS, what the function draws in tests of all functions; in PRESETS, the name of a
# preset that it draws.
SUBJECTS = {"frequencies": ROTARY, "rotary": ROTARY, "grid": PLANE}
PRESETS = {"frequencies": "llama3", "rotary": "llama3", "grid": "mae"}


def draw(drawing, *arguments, **options):
    """Call a function of plot, and return its first Axes. Without arguments, draw SUBJECTS[drawing], or else LINE."""
    drawn = getattr(plot, drawing)(*(arguments or [SUBJECTS.get(drawing, LINE)]), **options)
    return drawn[0] if drawing == "shift" else drawn


def new_axes(**options):
    return plt.figure(**options).gca()


@pytest.fixture(autouse=True)
def no_figure():
    yield
    plt.close("all")


def texts(labels):
    return [label.get_text() for label in labels]


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def legend(ax):
    return texts(ax.get_legend().get_texts())


def shown(ax):
    """Return the matrix that the first image of the Axes shows."""
    return np.asarray(ax.get_images()[0].get_array())


def angles_of(rotary, positions):
    cosines, sines = rotary.tables(positions, dtype=np.float64)
    return np.arctan2(sines, cosines)


# ---- values in pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "step"), [(0, 1), (-7.5, 0.5)])
@pytest.mark.parametrize("encoding", [pf.sinusoidal(5, scale=3.0), pf.Encoding([0.0])], ids=repr)
def test_heatmap(encoding, start, step):
    ax = plot.heatmap(encoding, 30, start=start, step=step)
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), encoding.table(30, start=start, step=step))
    # the colours are symmetric, so zero is white; each pixel is centred at its position and column
    assert image.get_clim() == (-abs(encoding.amplitudes).max(), abs(encoding.amplitudes).max())
    assert image.get_extent() == [-0.5, encoding.d_model - 0.5, start + 29.5 * step, start - 0.5 * step]
    assert labels(ax) == ("column", "position")
    assert image.colorbar.ax.get_ylabel() == "value"


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_wide_pictures_show_whole_pairs(layout):
    """Small pictures show both columns of every n-th frequency, without averaging."""

    def columns_of_every(nth, frequencies):
        drawn = np.arange(0, frequencies, nth)
        pairs = (2 * drawn, 2 * drawn + 1) if layout == "interleaved" else (drawn, frequencies + drawn)
        return np.sort(np.concatenate(pairs))

    encoding = pf.sinusoidal(768, layout=layout)
    ax = plot.heatmap(encoding, 20, ax=new_axes(figsize=(7, 4.2)))
    np.testing.assert_array_equal(shown(ax), encoding.table(20)[:, columns_of_every(3, 384)])
    assert ax.get_images()[0].get_interpolation() == "nearest"
    assert ax.get_xlabel() == "column\n(every 3rd frequency)"
    # the axis still counts the columns of the encoding, not the drawn ones
    assert ax.get_images()[0].get_extent() == [-0.5, 767.5, 19.5, -0.5]
    # a transition matrix has at most 32 columns, and each eighth has a label
    encoding = pf.sinusoidal(128, layout=layout)
    _, ax, _ = plot.shift(encoding, 20, 10)
    columns = columns_of_every(4, 64)
    np.testing.assert_array_equal(shown(ax), encoding.transition_matrix(10)[np.ix_(columns, columns)])
    ax.figure.canvas.draw()
    assert ax.get_xticks().tolist() == [0, 8, 16, 24]
    assert texts(ax.get_xticklabels()) == [str(column) for column in columns[::8]]
    assert ax.get_xlabel() == "column\n(every 4th frequency)"


def test_parts_of_large_pictures():
    small = new_axes(figsize=(2, 1.5))
    rows, columns = shown(plot.heatmap(pf.sinusoidal(768), 400, ax=small)).shape
    # at most one row and column for each pixel of the Axes, which a colour bar may make narrower afterwards
    pixels = small.get_window_extent()
    assert 16 <= columns <= pixels.width
    assert 16 <= rows <= pixels.height
    patches = plot.grid(PLANE, (3000, 5000), (1234, 4321), step=0.125, ax=new_axes())
    assert max(shown(patches).shape) <= 256
    # patches are left out, but not the patch at (1234, 4321), whose similarity with itself is 1
    assert shown(patches).max() == 1.0
    assert all("every" in label for ax in (small, patches) for label in labels(ax))
    long = plot.heatmap(LINE, 1_000_000, start=5, ax=new_axes())
    every = -(-1_000_000 // len(shown(long)))
    np.testing.assert_array_equal(shown(long), LINE.table(len(shown(long)), start=5, step=every))
    ending = {1: "st", 2: "nd", 3: "rd"}.get(every % 10, "th")
    assert long.get_ylabel() == f"position\n(every {every:,}{ending})"
    many = plot.similarity(LINE, span=10**12, ax=new_axes())
    offsets = many.get_lines()[0].get_xdata()
    assert len(offsets) <= 2001
    assert 0 in offsets
    assert many.get_xlabel() == "offset from position 0\n(every 1,000,000,000th row)"


@pytest.mark.parametrize("drawing", ["angles", "heatmap", "rotary", "shift", "sinusoids"])
def test_any_number_of_rows_takes_little_memory(drawing):
    encoding = SUBJECTS.get(drawing, LINE)
    draw(drawing, encoding, 100)
    plt.close("all")
    assert peak_of(lambda: draw(drawing, encoding, 10**13)) < 20e6


@pytest.mark.parametrize("drawing", sorted({*DRAWINGS} - {"frequencies", "grid", "rotary"}))
def test_a_million_columns(drawing):
    """A picture of a million columns takes only seconds. `shift` raises an error, because the columns form no pairs."""
    million = pf.Encoding(np.linspace(0.1, 1, 10**6), np.arange(10**6) % 4 / 4)
    if drawing == "shift":
        with pytest.raises(ValueError, match="partner"):
            draw(drawing, million)
    else:
        draw(drawing, million).figure.canvas.draw()


def test_any_positions():
    positions = [3, 1000, 2.5, np.nan]
    angles = angles_of(ROTARY, positions)
    for drawing, expected in (("heatmap", LINE.encode(positions)), ("angles", angles), ("rotary", angles)):
        ax = draw(drawing, SUBJECTS.get(drawing, LINE), positions=positions, ax=new_axes())
        drawn = np.ma.filled(ax.get_images()[0].get_array(), np.nan)
        np.testing.assert_allclose(drawn, expected, rtol=0, atol=1e-12, err_msg=drawing)
        assert texts(ax.get_yticklabels()) == ["3", "1000", "2.5", "nan"]


def test_default_steps_and_sizes():
    ax = plot.sinusoids(LINE, 4, step=2, columns=[0])
    np.testing.assert_array_equal(ax.get_lines()[1].get_xdata(), [0, 2, 4, 6])
    # by default, the step is chosen so that a picture of exact periods spans the longest period
    encoding = pf.fourier_features(pf.periodic(["1D", "7D"]))
    ax = plot.heatmap(encoding, 84, ax=new_axes())
    np.testing.assert_array_equal(shown(ax), encoding.table(84, step=7200))
    assert plot.heatmap(encoding, 84, step=1, ax=new_axes()).get_ylim() == (83.5, -0.5)
    assert shown(plot.grid("mae", ax=new_axes())).shape == (14, 14)
    assert plot.grid(PLANE, (6, 8), ax=new_axes()).get_aspect() == 1


@pytest.mark.parametrize(("positions", "expected"), [
    (np.array(["2026-01-01T12:30:00", "2026-01-01T12:30:15"], "M8[ns]"), ["2026-01-01T12:30", "2026-01-01T12:30:15"]),
    ([datetime(2026, 1, 1), datetime(2026, 1, 1, 6)], ["2026-01-01 00:00", "2026-01-01 06:00"]),
    (np.array(["2026-01-01T06", "NaT", "2026-07-01T00"], "M8[h]"), ["2026-01-01T06", "NaT", "2026-07-01T00"]),
], ids=["nanoseconds", "datetimes", "hours"])  # fmt: skip
def test_labels_of_times(positions, expected):
    """Labels of times omit the seconds if they are zero."""
    days = pf.fourier_features(pf.periodic(["7D"]))
    assert texts(plot.clocks(days, positions).get_yticklabels()) == expected
    ax = plot.heatmap(days, positions=positions, ax=new_axes())
    assert texts(ax.get_yticklabels()) == expected
    np.testing.assert_array_equal(shown(ax), days.encode(np.array(positions, "M8[ns]")))


def test_angles():
    encoding = pf.sinusoidal(6, functions=("cos", "-sin"), scale=7.0, layout="concatenated")
    ax = plot.angles(encoding, 40, start=3)
    (image,) = ax.get_images()
    # the picture shows the angle of each frequency, with the fastest frequency at the left
    whole = np.arange(3, 43)[:, np.newaxis] * encoding.frequencies[:3]
    np.testing.assert_allclose(np.exp(1j * image.get_array()), np.exp(1j * whole), rtol=0, atol=1e-13)
    assert image.get_clim() == (-np.pi, np.pi)
    first, last = image.get_cmap()([0.0, 1.0])
    # the colours of +π and -π are equal, and the colour of 0 is light
    np.testing.assert_allclose(first, last, atol=0.02)
    assert min(image.get_cmap()(0.5)[:3]) > 0.8 > max(first[:3])
    assert ax.get_xticks().tolist() == [0, 1, 2]
    assert texts(ax.get_xticklabels()) == ["6.28", "135", "2,916"]
    assert labels(ax) == ("wavelength (positions)", "position")


def test_wavelengths():
    ax = plot.wavelengths(pf.Encoding([1.0, 0.0, -0.5, 0.25]))
    (dots,) = ax.get_lines()
    np.testing.assert_array_equal(dots.get_xdata(), [0, 2, 3])
    np.testing.assert_allclose(dots.get_ydata(), 2 * np.pi * np.array([1, 2, 4]))
    assert ax.get_yscale() == "log"
    assert labels(ax) == ("column", "wavelength (positions)")
    ax = plot.wavelengths(LINE, ax=new_axes())
    assert (ax.get_title(), ax.get_legend()) == ("sinusoidal(12, base=100.0)", None)
    plot.wavelengths("whisper", d_model=8, ax=ax)
    # the second call removes the title, which named only the first curve
    assert ax.get_title() == ""
    assert legend(ax) == ["sinusoidal(12, base=100.0)", "whisper, 8 columns"]
    ax = plot.wavelengths("llama", ax=new_axes())
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), 2 * np.pi / pf.presets.llama().frequencies)
    assert ax.get_xlabel() == "pair"


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
    # the title of narrow Axes is above the legend
    ax = plot.sinusoids(LINE, columns=range(8), ax=new_axes(figsize=(3, 4)))
    ax.figure.canvas.draw()
    assert ax.title.get_window_extent().y0 >= ax.get_legend().get_window_extent().y1


def test_default_columns_and_bands():
    # by default, up to four columns are drawn, with wavelengths of at most twice the length of the picture
    ax = plot.sinusoids(pf.sinusoidal(128), 100)
    assert legend(ax) == ["column 0: 6.28", "column 16: 19.9", "column 32: 62.8", "column 48: 199"]
    # the column of period 16 is drawn, because half a period fits into the eight positions
    periods = pf.fourier_features(pf.periodic([8, 16, 32]))
    assert legend(plot.sinusoids(periods, 8, step=1, ax=new_axes())) == ["column 0: 8", "column 1: 16"]
    # a column with many periods is drawn as a band, because its curve would fill the area
    ax = plot.sinusoids(pf.sinusoidal(128), 100_000, columns=[0, 110], ax=new_axes())
    (curve,), (band,) = ax.get_lines(), ax.collections
    assert curve.get_label() == "column 110: 17,206"
    assert (band.get_label(), band.get_datalim(ax.transData).extents.tolist()) == ("column 0: 6.28", [0, -1, 99_999, 1])


@pytest.mark.parametrize("position", [0, 50.5, 1e9], ids="at={:g}".format)
@pytest.mark.parametrize("step", [1, 0.25], ids="step={}".format)
def test_similarity(position, step):
    ax = plot.similarity(LINE, position, span=30, step=step)
    (dots,) = ax.get_lines()
    offsets = step * np.arange(-30, 31)
    np.testing.assert_array_equal(dots.get_xdata(), offsets)
    # the similarity is divided by its largest value, 6, the squared length of a row of six sines and six cosines
    np.testing.assert_allclose(dots.get_ydata(), LINE.similarity(offsets) / 6, rtol=0, atol=1e-13)
    assert labels(ax) == (f"offset from position {position:.15g}", "similarity")
    assert ax.get_title() == "Similarity of rows of sinusoidal(12, base=100.0)"


def test_rotary():
    rotary = pf.Rotary(16, base=100.0, rotary_dim=12, layout="interleaved")
    ax = plot.rotary(rotary, 40, start=3)
    whole = np.arange(3, 43)[:, np.newaxis] * rotary.frequencies
    np.testing.assert_allclose(np.exp(1j * shown(ax)), np.exp(1j * whole), rtol=0, atol=1e-12)
    assert ax.get_images()[0].get_extent() == [-0.5, 5.5, 42.5, 2.5]
    assert labels(ax) == ("pair", "token")
    # functions of encodings draw cosines and sines
    ax = plot.heatmap(rotary, 40, start=3, ax=new_axes())
    np.testing.assert_array_equal(shown(ax), np.hstack(rotary.tables(range(3, 43))))


def test_rotary_of_several_axes():
    patches, tokens = pf.presets.positions.grid(3, 5), np.repeat(np.arange(10)[:, np.newaxis], 2, axis=1)
    of_patches = plot.rotary("qwen2_vl_vision", positions=patches)
    assert of_patches.get_yticklabels()[0].get_text() == "(0, 0)"
    of_tokens = plot.rotary("qwen2_vl_vision", 10, ax=new_axes())
    assert of_tokens.get_ylabel() == "token (all axes)"
    for ax, positions in ((of_patches, patches), (of_tokens, tokens)):
        expected = angles_of(pf.presets.qwen2_vl_vision(), positions)
        np.testing.assert_allclose(shown(ax), expected, rtol=0, atol=1e-12)


def test_decay():
    """The curve is the mean of the cosines, weighted by the squared amplitudes of an encoding."""
    weighted = pf.Encoding([1.0, 0.5, 0.0], [0, 0.25, 0.25], [1.0, 2.0, 0.5])
    # the curve of gpt_oss ignores its attention factor
    subjects = [ROTARY, pf.presets.gpt_oss(), weighted]
    ax = plot.decay(ROTARY, 1000)
    for subject in subjects[1:]:
        plot.decay(subject, 1000, label="other", ax=ax)
    for line, subject in zip(ax.get_lines(), subjects, strict=True):
        distances = line.get_xdata()
        assert (distances[0], distances[-1]) == (1, 1000)
        weights = getattr(subject, "amplitudes", np.ones(len(subject.frequencies))) ** 2
        expected = np.cos(distances[:, np.newaxis] * subject.frequencies) @ weights / weights.sum()
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-12)
    assert legend(ax) == ["Rotary(12, base=100.0)", "other", "other"]
    assert ax.get_xscale() == "log"


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
    assert plot.frequencies("llama3", ax=new_axes()).get_legend() is None
    # a pair of frequency 0 is not drawn, because no factor describes how much slower it is
    ax = plot.frequencies(pf.Rotary(4, frequencies=[0.5, 0.0]), pf.Rotary(4, base=100.0), ax=new_axes())
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
    # at position 10^6, float32 angles cause an error of some hundredths
    assert 0.01 < single.get_ydata()[np.searchsorted(positions, 1e6)] < 0.1


def test_clocks():
    ax = plot.clocks(LINE, [0, 2.5, 40], pairs=4)
    hands = np.array([line.get_xydata() for line in ax.get_lines()]).reshape(3, 4, 2, 2)
    pointed = hands[:, :, 1] - hands[:, :, 0]
    angles = np.array([0, 2.5, 40])[:, np.newaxis] * LINE.frequencies[[0, 4, 6, 10]]
    np.testing.assert_allclose(pointed, np.stack([np.cos(angles), np.sin(angles)], axis=-1), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(hands[:, :, 0].reshape(-1, 2), [patch.center for patch in ax.patches])
    assert texts(ax.get_yticklabels()) == ["0", "2.5", "40"]
    assert texts(ax.get_xticklabels()) == ["6.28", "29.2", "62.8", "292"]
    assert ax.get_aspect() == 1
    assert ax.get_title() == "sinusoidal(12, base=100.0): 4 of 6 pairs"


@pytest.mark.parametrize("size", [(8, 4.5), (4, 8), (12, 2)], ids=str)
def test_clocks_fill_their_axes(size):
    ax = new_axes(figsize=size)
    before = ax.get_window_extent().size
    plot.clocks(pf.sinusoidal(128), ax=ax)
    ax.figure.canvas.draw()
    # the Axes keep their size; an equal aspect ratio would shrink Axes that the clocks do not fill
    np.testing.assert_allclose(ax.get_window_extent().size, before, rtol=0.01)
    # clocks do not overlap
    centres = np.array([patch.center for patch in ax.patches])
    apart = np.hypot(*(centres[:, np.newaxis] - centres).T)
    assert apart[apart > 0].min() >= 2.5


def test_shift():
    axes = plot.shift(LINE, 25, 7)
    table, matrix, moved = [shown(ax) for ax in axes]
    np.testing.assert_array_equal(table, LINE.table(25, dtype=np.float64))
    np.testing.assert_array_equal(matrix, LINE.transition_matrix(7))
    np.testing.assert_allclose(moved, LINE.table(25, start=7, dtype=np.float64), rtol=0, atol=1e-14)
    assert axes[2].get_images()[0].get_extent()[2:] == [31.5, 6.5]
    assert [ax.get_ylabel() for ax in axes] == ["position", "column", "position"]
    parts = plot.shift(LINE, 20, np.timedelta64(2, "m"))
    assert [ax.get_title() for ax in parts[1:]] == ["× transition matrix of 2 minutes", "= table moved by 2 minutes"]
    assert parts[2].get_ylim() == (139.5, 119.5)
    # narrow Axes show fewer columns of the table
    narrow = plt.figure(figsize=(6, 2)).subplots(1, 3, width_ratios=[1, 9, 9])
    assert shown(plot.shift("whisper", axes=narrow)[0]).shape[1] <= narrow[0].get_window_extent().width


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_titles_colours_and_axes(drawing):
    ax = draw(drawing, title="Mine")
    assert ax.get_title() == "Mine"
    if ax.get_images():
        plt.close("all")
        assert draw(drawing, cmap="cividis").get_images()[0].get_cmap().name == "cividis"
    if drawing == "shift":
        axes = plt.figure().subplots(1, 3)
        assert plot.shift("whisper", d_model=16, axes=axes).tolist() == axes.tolist()
        assert draw(drawing).figure is not axes[0].figure
    else:
        # each function can draw into Axes that already contain a drawing, even clocks, which replace the ticks
        ax, other = plot.clocks(LINE, ax=new_axes()), plt.figure()
        options = {} if drawing in ("frequencies", "rotary") else {"d_model": 16}
        assert draw(drawing, PRESETS.get(drawing, "whisper"), ax=ax, **options) is ax
        ax.figure.canvas.draw()
        # by default, functions draw into the current Axes
        assert not other.axes
        assert draw(drawing).figure is other


@pytest.mark.parametrize("size", [(6.4, 4.8), (3, 2.2)], ids=str)
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_nothing_is_cut_off(drawing, size):
    if drawing != "shift":
        plt.figure(figsize=size)
    figure = draw(drawing, PRESETS.get(drawing, "tensor2tensor")).figure
    figure.canvas.draw()
    # everything is drawn inside the figure, up to half a pixel
    whole, seen = figure.bbox.padded(0.5), figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert min(seen.x0 - whole.x0, seen.y0 - whole.y0, whole.x1 - seen.x1, whole.y1 - seen.y1) >= 0


# ---- errors -----------------------------------------------------------------------------------------------------


@wrong_calls(
    """
    plot.heatmap("wisper") | ValueError | encoding='wisper'; perhaps whisper
    plot.heatmap(3) | TypeError | encoding; int
    plot.wavelengths(pf.Rotary(4, frequencies=np.ones((2, 2)))) | ValueError | encoding; 2 frequencies for each pair
    plot.angles(LINE, 0) | ValueError | length; 0
    plot.sinusoids(LINE, columns=[12]) | ValueError | columns; 12; 11
    plot.sinusoids(LINE, columns=[]) | ValueError | columns
    plot.heatmap(LINE, positions=[[1, 2]]) | ValueError | positions; (1, 2)
    plot.heatmap(LINE, positions=[np.nan, np.inf]) | ValueError | positions; no finite number
    plot.heatmap(LINE, positions=[1], step=2) | ValueError | step=2; positions
    plot.heatmap(LINE, step=0) | ValueError | step=0
    plot.heatmap(LINE, start=1e300) | ValueError | step=1 is too small; start=1e+300
    plot.wavelengths(pf.Encoding([0.0])) | ValueError | no column with a wavelength
    plot.heatmap(LINE, cmap="RdBo") | ValueError | cmap='RdBo'; RdBu
    plot.heatmap(LINE, cmap=plt.get_cmap("viridis")) | TypeError | cmap; ListedColormap
    plot.heatmap("flux") | ValueError | 3 axes; rotary
    plot.heatmap("mochi") | ValueError | encoding='mochi'; needs pos_frequencies
    plot.heatmap(pf.Rotary(8, scaling={"rope_type": "xpos", "scale_base": 512})) | ValueError | xpos; rotary
    plot.clocks(LINE, []) | ValueError | positions
    plot.clocks(LINE, range(1000)) | ValueError | 6 x 1,000 clocks; 2000
    plot.similarity(pf.Encoding([1.0])) | ValueError | position 0; zeros
    plot.rotary(LINE) | TypeError | rotary; an Encoding; angles
    plot.decay(ROTARY, 2**63) | ValueError | distance; 2^62
    plot.decay(pf.Encoding([1.0], amplitudes=0.0)) | ValueError | all columns of encoding are zero
    plot.frequencies("flux") | ValueError | original
    plot.frequencies(ROTARY, "llama") | ValueError | (6,); (64,)
    plot.frequencies(pf.Rotary(4, frequencies=[0.5, 0.0]), pf.Rotary(4, frequencies=[0.0, 1.0])) | ValueError | no pair
    plot.grid(LINE) | ValueError | two axes; has 1
    plot.grid(PLANE, 14) | ValueError | shape; 14
    plot.grid(PLANE, (3, 3), (1, 3)) | ValueError | patch=(1, 3); (3, 3)
    plot.errors(LINE, np.zeros((3, 12))) | ValueError | positions
    plot.errors(LINE, np.zeros((3, 12)), [1, 2]) | ValueError | (3, 12); (2, 12)
    plot.errors(LINE, np.full((2, 12), np.nan), [1, 2]) | ValueError | NaN
    plot.shift(pf.sinusoidal(3)) | ValueError | column 2; partner
    plot.shift(LINE, axes=[None]) | ValueError | axes; three
    """
)
def test_errors(call, error, words):
    raises(call, error, words)
    assert not any(ax.has_data() for number in plt.get_fignums() for ax in plt.figure(number).axes)


# ---- the command ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_command(drawing, tmp_path, capsys):
    target = tmp_path / "figure.png"
    options = [] if drawing in ("frequencies", "rotary") else ["16"]
    options += ["--preset", PRESETS[drawing]] if drawing in PRESETS else []
    assert main(["plot", drawing, *options, "-o", str(target), "--dpi", "50"]) == 0
    assert capsys.readouterr().out == f"wrote {target}: {drawing}, {target.stat().st_size} bytes\n"
    pixels = plt.imread(target)
    assert pixels.shape == ((175, 600, 4) if drawing == "shift" else (210, 350, 4))
    assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 3
    assert plt.get_fignums() == []
    assert list(tmp_path.iterdir()) == [target]


CYCLES = pf.fourier_features(pf.periodic(["1D", "7D"]), layout="interleaved")
TIMES = "2026-01-01 2026-01-01T12:30 2026-01-02T00:00+01:00"


@pytest.mark.parametrize(("arguments", "expected"), [
    ("heatmap 20 --length 7 --start -3 --base 100", {"encoding": pf.sinusoidal(20, base=100.0), "length": 7, "start": -3}),
    ("heatmap --preset whisper", {"encoding": "whisper", "d_model": 128}),
    ("heatmap 8 --preset whisper --set max_timescale=9", {"encoding": pf.presets.whisper(8, max_timescale=9.0)}),
    ("heatmap --preset llama --set head_dim=16", {"encoding": pf.presets.llama(16)}),
    (f"heatmap 8 --positions {TIMES} --title Day --cmap cividis", {"positions": [1767225600, 1767270600, 1767308400], "title": "Day", "cmap": "cividis"}),
    ("clocks --periods 1D,7D --positions 2026-01-01 2026-01-02T06:00 --pairs 2", {"encoding": CYCLES, "positions": [1767225600, 1767333600], "pairs": 2}),
    ("sinusoids 16 --columns 0 7", {"columns": [0, 7]}),
    ("grid 16 --preset mae --shape 6 8 --patch 4 1", {"encoding": "mae", "d_model": 16, "shape": [6, 8], "patch": [4, 1]}),
], ids=str)  # fmt: skip
def test_command_passes_its_options(arguments, expected, tmp_path, monkeypatch):
    drawing, seen = arguments.split()[0], {}

    @functools.wraps(getattr(plot, drawing))
    def record(encoding, **options):
        seen.update(options, encoding=encoding)

    monkeypatch.setattr(plot, drawing, record)
    assert main(["plot", *arguments.split(), "-o", str(tmp_path / "a.svg")]) == 0
    # the command passes only the options that it got
    assert seen.keys() - {"encoding", "d_model", "ax"} == expected.keys() - {"encoding", "d_model"}
    if "2026" in arguments:
        np.testing.assert_array_equal(CYCLES.encode(seen["positions"]), CYCLES.encode(expected["positions"]))
        expected = expected | {"positions": seen["positions"]}
    assert {name: seen[name] for name in expected} == expected


WRONG_COMMANDS = """
    heatmap 8 -o a.xyz | a.xyz; .png; .svg; .pdf
    heatmap 8 -o a.png --offset 3 | heatmap takes no --offset
    heatmap 8 -o a.png --preset whisper --freq-shift 1 | --preset; --freq-shift
    shift 8 -o a.png --dpi 1e9 | --dpi 1e+09 must be from 10 to 5461; a side of the picture has at most 65535 pixels
    heatmap 8 -o a.png --start 1e300 | --start 1e+300 must be from -2^53 to 2^53
    clocks 8 -o a.png --positions soon | --positions; 'soon'; ISO date
    clocks 8 -o a.png --positions 1 2026-01-01 | positions
    rotary 8 -o a.png | rotary; --preset
    rotary 64 -o a.png --preset llama | 'llama' has heads of 128 values, not 64
    pie 8 -o a.png | pie; heatmap
    heatmap -o a.png --periods day,12h | --periods day,12h; lengths such as 1D, not day
    heatmap 8 -o a.png --periods 1D | --periods excludes D_MODEL
"""


@each_line(f"arguments | words{WRONG_COMMANDS}")
def test_errors_of_the_command(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_text("mine")
    assert main(["plot", *arguments.split()]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words.split("; ")), message
    assert len(message.splitlines()) == 1
    # the old file is unchanged, and there is no other file
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.png", "mine")]


def test_full_disk(tmp_path, monkeypatch, capsys):
    def full(*arguments, **settings):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    assert main(["plot", "heatmap", "8", "--dpi", "9000", "-o", str(tmp_path / "a.png")]) == 2
    words = "out of memory: reduce --dpi 9000, which makes a picture of 63000 x 37800 pixels for d_model=8"
    assert capsys.readouterr().err == f"posenc-fast: error: {words}\n"
    assert not list(tmp_path.iterdir())
