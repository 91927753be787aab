"""The command plot."""

from __future__ import annotations

import argparse
import contextlib
import inspect
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from .._core.numbers.arguments import real
from .arguments import add_command, add_encoding, cycles_of, number, value_of
from .output import opened, report_written

# description of each kind of plot, with its options
PLOTS = {
    "angles": "the angle of each frequency at each position, in cyclic colours\n(--length, --start, --step, --positions)",
    "clocks": "pairs of columns as hands of clocks (--positions, --pairs)",
    "decay": "alignment of queries and keys against distance (--distance)",
    "errors": "error against position, of float32 angles and of this package\n(--positions)",
    "frequencies": "factor by which the scaling of a rotary preset slows each\npair",
    "grid": "similarity of all patches of an image to one patch, for a preset\nof two axes (--shape, --patch, --step)",
    "heatmap": "the table (--length, --start, --step, --positions)",
    "rotary": "the angles of a head, for a rotary preset (--length, --start,\n--step, --positions)",
    "shift": "a table, the transition matrix of an offset, and their product\n(--length, --offset)",
    "similarity": "dot products with the row of a position (--position, --span,\n--step)",
    "sinusoids": "columns against position (--length, --start, --step,\n--columns)",
    "wavelengths": "wavelength of every column, on a logarithmic scale",
}
# kinds of plots that need a rotary preset
_ROTARY = ("frequencies", "rotary")
# matplotlib draws at most _MOST_PIXELS pixels per side. Its text needs at least _LEAST_DPI pixels per inch.
_MOST_PIXELS, _LEAST_DPI = 2**16 - 1, 10
# largest position; beyond it, float64, the type of matplotlib's axes, cannot represent all integers
_LARGEST_POSITION = 2**53
_DEFAULT_WIDTH = 128
PLOT_HELP = "kinds:\n" + "".join(
    f"  {kind:<12} " + text.replace("\n", "\n" + 15 * " ") + "\n" for kind, text in PLOTS.items()
)
EXAMPLES = """
examples:
  posenc-fast plot heatmap 128 -o heatmap.png
  posenc-fast plot clocks 16 --positions 0 1 10 -o clocks.svg
  posenc-fast plot similarity 384 --preset whisper --position 50 -o whisper.pdf
  posenc-fast plot rotary --preset llama3 --length 4096 -o llama3.png
  posenc-fast plot clocks --periods 1D,7D -o week.png \\
    --positions 2026-01-01 2026-01-02T06:00
  posenc-fast plot grid 256 --preset mae --patch 4 9 -o patches.png
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    about = "Draw an encoding of D_MODEL columns, a preset of that width, or the cycles of\n--periods, with matplotlib."
    parser = add_command(
        commands, _plot, "plot", "draw an encoding", about, PLOT_HELP + EXAMPLES, "KIND [D_MODEL] -o OUT [OPTION ..]"
    )
    parser.add_argument("drawing", metavar="KIND", choices=tuple(PLOTS), help=", ".join(PLOTS))
    parser.add_argument(
        "d_model",
        type=int,
        metavar="D_MODEL",
        nargs="?",
        help=f"number of columns (default: {_DEFAULT_WIDTH}); leave it out with --periods, or with a preset that has a "
        "fixed number of columns",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="file to write: .png, .svg, .pdf or another format of matplotlib",
    )
    for name, option in _OPTIONS.items():
        parser.add_argument(
            f"--{name}", type=option.convert, metavar=option.metavar, nargs=option.nargs, help=option.help
        )
    parser.add_argument(
        "--periods",
        metavar="LENGTHS",
        help="draw cycles of these lengths, such as 12h or 7D, separated by commas; replaces D_MODEL and --preset",
    )
    parser.set_defaults(timezone=None)
    parser.add_argument("--dpi", type=float, default=150.0, help="pixels per inch (default: 150)")
    add_encoding(parser)


def _position(text: str) -> int | float | datetime:
    """Return the position that a text contains: a number, or the datetime of an ISO date or time."""
    with contextlib.suppress(ValueError):
        return number(text)
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor an ISO date") from None


class _Option(NamedTuple):
    """An option that is an argument of some functions of posenc_fast.plot."""

    help: str
    metavar: str | tuple[str, ...]
    convert: Callable[[str], Any]
    nargs: int | str | None = None


_OPTIONS = {
    "length": _Option("number of positions", "N", int),
    "start": _Option("first position", "P", number),
    "step": _Option("distance between positions", "S", number),
    "position": _Option("position in the middle of the picture", "P", number),
    "positions": _Option("positions: numbers, or ISO dates and times", "P", _position, "+"),
    "columns": _Option("indices of columns, from 0", "C", int, "+"),
    "pairs": _Option("maximum number of clocks per row", "N", int),
    "span": _Option("number of rows on each side of --position", "N", int),
    "offset": _Option("distance by which the table is shifted", "P", number),
    "distance": _Option("largest distance", "N", int),
    "shape": _Option("patches of an image", ("ROWS", "COLUMNS"), int, 2),
    "patch": _Option("patch to compare all others with", ("ROW", "COLUMN"), int, 2),
    "title": _Option("title of the picture (default: the encoding's name)", "TEXT", str),
    "cmap": _Option("name of a matplotlib colormap", "NAME", str),
}
# options whose values are positions, or distances between positions
_POSITION_OPTIONS = ("start", "step", "position", "positions", "offset")


def _plot(arguments: argparse.Namespace) -> None:
    from .. import plot
    from ..plot._canvas import new_figure
    from ..presets._registry import get

    kind = arguments.drawing
    if kind in _ROTARY and arguments.preset is None:
        raise ValueError(
            f"{kind} draws a rotary encoding; pass a rotary preset with --preset (see posenc-fast presets --search "
            "rotary)"
        )
    cycles = cycles_of(arguments, "D_MODEL")
    if cycles is not None and cycles.calendar:
        raise ValueError(
            f"--periods {arguments.periods}: plots support only lengths such as 1D, not {cycles.calendar[0]}"
        )
    value = value_of(arguments, "D_MODEL", _DEFAULT_WIDTH, get) if cycles is None else cycles.encoding
    if arguments.preset is not None and not arguments.set:
        # without --set, pass the name of the preset to the plot, so that its title shows the name
        value = arguments.preset
    draw = getattr(plot, kind)
    parameters = inspect.signature(draw).parameters
    settings = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    for name, setting in settings.items():
        if name not in parameters:
            raise ValueError(f"KIND {kind} takes no --{name} (see posenc-fast plot --help)")
        if name in _POSITION_OPTIONS:
            _check_positions(name, setting if name == "positions" else [setting])
    if "d_model" in parameters:
        settings["d_model"] = _DEFAULT_WIDTH if arguments.d_model is None else arguments.d_model
    # a plot function takes three Axes of matplotlib as its parameter "axes", or one as its parameter "ax"
    axes_parameter, axes_count = ("axes", 3) if "axes" in parameters else ("ax", 1)
    figure, settings[axes_parameter] = new_figure(axes_count)
    largest_dpi = _MOST_PIXELS / max(figure.get_size_inches())
    if not _LEAST_DPI <= real(arguments.dpi, "--dpi") <= largest_dpi:
        raise ValueError(
            f"--dpi {arguments.dpi:g} must be from {_LEAST_DPI} to {largest_dpi:.0f}, so that matplotlib can draw the "
            f"text, and a side of the picture has at most {_MOST_PIXELS} pixels"
        )
    suffixes, suffix = figure.canvas.get_supported_filetypes(), Path(arguments.output).suffix[1:].lower()
    if suffix not in suffixes:
        listed = ", ".join(f".{each}" for each in sorted(suffixes))
        raise ValueError(f"{arguments.output} must end with one of {listed}")
    draw(value, **settings)
    with opened(arguments.output) as file:
        try:
            figure.savefig(file, format=suffix, dpi=arguments.dpi)
        except MemoryError:
            width, height = figure.get_size_inches() * arguments.dpi
            raise MemoryError(
                f"reduce --dpi {arguments.dpi:g}, which makes a picture of {width:.0f} x {height:.0f} pixels"
            ) from None
        report_written(arguments.output, file, kind)


def _check_positions(name: str, values: list[Any]) -> None:
    for value in values:
        if not isinstance(value, datetime) and abs(real(value, f"--{name}")) > _LARGEST_POSITION:
            raise ValueError(
                f"--{name} {value} must be from -2^53 to 2^53, because axes of pictures do not distinguish larger "
                "integers"
            )
