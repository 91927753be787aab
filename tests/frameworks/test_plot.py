"""Pictures: the drawn data are the encoding's, the labels say what they are."""

from __future__ import annotations

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

DRAWINGS = ["angles", "clocks", "heatmap", "shift", "similarity", "sinusoids", "wavelengths"]
LINE = pf.sinusoidal(12, base=100.0)


@pytest.fixture(autouse=True)
def no_figure():
    yield
    plt.close("all")


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ---- what is drawn ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, -7.5], ids="start={}".format)
@pytest.mark.parametrize("encoding", [LINE, pf.sinusoidal(5, scale=3.0), pf.Encoding([0.0])], ids=repr)
def test_heatmap(encoding, start):
    ax = plot.heatmap(encoding, 30, start=start)
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), encoding.table(30, start=start))
    # white is zero, and a pixel lies about its position
    assert image.get_clim() == (-abs(encoding.amplitudes).max(), abs(encoding.amplitudes).max())
    assert image.get_extent() == [-0.5, encoding.d_model - 0.5, start + 29.5, start - 0.5]
    assert labels(ax) == ("column", "position")
    assert image.colorbar.ax.get_ylabel() == "value"


def test_large_tables_show_means():
    # a column whose sign changes from row to row, beside a constant one
    encoding = pf.Encoding([np.pi, 0.0], [0.25, 0.25])
    ax = plot.heatmap(encoding, 4000)
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[::-1, :, :3].astype(float)
    (x0, y0), (x1, y1) = ax.get_window_extent().get_points().astype(int)
    inside = pixels[y0 + 9 : y1 - 9, x0 + 9 : x1 - 9]
    middle = inside.shape[1] // 2
    left, right = inside[:, : middle - 9], inside[:, middle + 9 :]
    white, warm = (255 * np.array(plt.get_cmap("RdBu_r")(value)[:3]) for value in (0.5, 1.0))
    # red is more than blue where the value is positive
    assert warm[0] > 2 * warm[2]
    # the mean is zero; the other one is as it is, up to the edge
    assert np.abs(left - white).max() < 12
    assert np.abs(right - warm).max() < 2


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
def test_axes_that_were_drawn_on(drawing):
    # clocks set ticks of their own
    ax = plot.clocks(LINE)
    assert getattr(plot, drawing)(LINE, ax=ax) is ax
    ax.figure.canvas.draw()


def test_angles():
    encoding = pf.sinusoidal(6, functions=("cos", "-sin"), scale=7.0, layout="concatenated")
    ax = plot.angles(encoding, 40, start=3)
    (image,) = ax.get_images()
    angles = image.get_array()
    # the hands of the clocks, the fastest at the left
    whole = np.arange(3, 43)[:, np.newaxis] * encoding.frequencies[:3]
    np.testing.assert_allclose(np.cos(angles), np.cos(whole), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.sin(angles), np.sin(whole), rtol=0, atol=1e-13)
    assert image.get_clim() == (-np.pi, np.pi)
    first, last = image.get_cmap()([0.0, 1.0])
    # the colours of half a turn forwards and backwards are the same
    np.testing.assert_allclose(first, last, atol=0.02)
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
    # no title is right for both
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


def test_columns_that_are_worth_seeing():
    # of different wavelengths, up to twice what is shown
    ax = plot.sinusoids(pf.sinusoidal(128), 100)
    assert legend(ax) == ["column 0: 6.28", "column 16: 19.9", "column 32: 62.8", "column 48: 199"]
    assert len(legend(plot.sinusoids(pf.sinusoidal(4), 1, ax=plt.figure().gca()))) == 1


@pytest.mark.parametrize("position", [0, 50.5, 1e9], ids="at={:g}".format)
def test_similarity(position):
    ax = plot.similarity(LINE, position, span=30)
    (right,) = [other for other in ax.figure.axes if other is not ax]
    (dots,), (errors,) = ax.get_lines(), right.get_lines()
    offsets = np.arange(-30, 31)
    np.testing.assert_array_equal(dots.get_xdata(), offsets)
    np.testing.assert_allclose(dots.get_ydata(), LINE.similarity(offsets), rtol=0, atol=1e-13)
    # of columns whose squares add up to 6
    np.testing.assert_allclose(errors.get_ydata(), 2 * (6 - LINE.similarity(offsets)), rtol=0, atol=1e-13)
    assert f"{position:.15g}" in ax.get_xlabel()
    assert ax.get_ylabel().startswith("dot product")
    assert right.get_ylabel().startswith("sum of squared differences")
    assert ax.yaxis.label.get_color() == dots.get_color() != right.yaxis.label.get_color() == errors.get_color()


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
    # equal scales shrink what does not fit the shape of the Axes
    assert abs(after.width / before.width - 1) < 0.01
    assert abs(after.height / before.height - 1) < 0.01
    # and no clock overlaps another
    centres = np.array([patch.center for patch in ax.patches])
    apart = np.hypot(*(centres[:, np.newaxis] - centres).T)
    assert apart[apart > 0].min() >= 2.5


def test_clocks_that_stand():
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
    assert ax.get_title().endswith("32 of 128 columns")


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_titles_say_which_encoding(drawing):
    def title(what):
        plt.close("all")
        drawn = getattr(plot, drawing)(what)
        return (drawn if drawing != "shift" else drawn[0]).get_title()

    assert "sinusoidal(12, base=100.0)" in title(LINE)
    assert "whisper, 128 columns" in title("whisper")
    # what built it is a matter of pages
    long = pf.sinusoidal(
        4, frequencies=[1.000000000001, 0.000000000123456789], layout="concatenated", scale=0.123456789
    )
    assert "4 columns" in title(long)
    assert "\n" not in title(long)


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_nothing_is_cut_off(drawing):
    drawn = getattr(plot, drawing)("tensor2tensor")
    figure = (drawn if drawing != "shift" else drawn[0]).figure
    figure.canvas.draw()
    # saved as it is: half a pixel is no loss
    whole, seen = figure.bbox.padded(0.5), figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert min(seen.x0 - whole.x0, seen.y0 - whole.y0, whole.x1 - seen.x1, whole.y1 - seen.y1) >= 0


def test_times_are_labelled_as_times():
    """And not as the seconds that they count."""
    times = np.array(["2026-01-01T06", "NaT", "2026-07-01T00"], "M8[h]")
    axes = plot.clocks(pf.fourier_features(pf.periodic(["1D", "7D"])), times)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["2026-01-01T06", "NaT", "2026-07-01T00"]
    axes = plot.clocks(LINE, [0, 1.5])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "1.5"]
    parts = plot.shift(LINE, 20, np.timedelta64(2, "m"))
    assert [ax.get_title() for ax in parts[1:]] == [
        "transition matrix of 2 minutes",
        "table times matrix: moved by 2 minutes",
    ]
    assert parts[2].get_ylim() == (139.5, 119.5)


# ---- how it is called -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_presets_and_places(drawing):
    draw = getattr(plot, drawing)
    figure, axes = plt.subplots(1, 3)
    if drawing == "shift":
        assert draw("whisper", d_model=16, axes=axes).tolist() == axes.tolist()
        assert draw(pf.presets.whisper(16))[0].figure is not figure
    else:
        assert draw("whisper", d_model=16, ax=axes[1]) is axes[1]
        assert not axes[0].has_data()
        other = plt.figure()
        assert draw(pf.presets.whisper(16)).figure is other
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
        (lambda: plot.heatmap(LINE, 10**13), MemoryError, ["(10000000000000, 12)", "float32"]),
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
    assert main(["plot", drawing, "16", "-o", str(target), "--dpi", "50"]) == 0
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
    assert seen["what"] == pf.presets.diffwave()


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
        (
            ["heatmap", "8", "-o", "a.png", "--length", "100000000000000"],
            ["out of memory: Unable to allocate", "iB for length=100000000000000 and d_model=8"],
        ),
        (["pie", "8", "-o", "a.png"], ["pie", "heatmap"]),
        (["heatmap", "0", "-o", "a.png"], ["d_model", "0"]),
    ],
    ids=lambda value: "-".join(value) if value[-1].startswith("-") or "-o" in value else None,
)
def test_command_says_what_is_wrong(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_text("mine")
    assert main(["plot", *arguments]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert len(message.splitlines()) == 1
    # what was there is there, and nothing else
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.png", "mine")]


def test_picture_that_does_not_fit(tmp_path, monkeypatch, capsys):
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
