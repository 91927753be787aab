"""The command plot."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import Any

from .._numbers.arguments import real
from .arguments import add_command, add_encoding, encoding_of, number
from .output import opened, report_written

__all__ = ["add"]

PLOTS = ("angles", "clocks", "heatmap", "shift", "similarity", "sinusoids", "wavelengths")
# pixels of a side that matplotlib draws at most, pixels an inch that its letters need at least
_PIXELS, _DPI = 2**16 - 1, 10
# positions up to which an axis of float64 tells neighbours apart
_POSITIONS = 2**53
PLOT_HELP = """\
angles       the angle of each column at each position, in colours that close a
             circle (--length, --start)
clocks       pairs of columns as hands of clocks (--positions)
heatmap      the table (--length, --start)
shift        a table, its transition matrix, and both multiplied (--length,
             --offset)
similarity   dot product and squared differences around a position (--position)
sinusoids    columns against position (--length, --start)
wavelengths  of every column, on a logarithmic scale
"""
EXAMPLES = """
examples:
  posenc-fast plot heatmap 128 -o heatmap.png
  posenc-fast plot clocks 16 --positions 0 1 10 -o clocks.svg
  posenc-fast plot similarity 384 --preset whisper --position 50 -o whisper.pdf
"""


def add(commands: Any) -> None:
    """Put the command on the parser."""
    about = "Draw an encoding of D_MODEL columns, or a preset of that width, with\nmatplotlib."
    parser = add_command(commands, _plot, "plot", "draw an encoding", about, PLOT_HELP + EXAMPLES)
    parser.add_argument("drawing", metavar="KIND", choices=PLOTS, help=", ".join(PLOTS))
    parser.add_argument("d_model", type=int, metavar="D_MODEL", nargs="?", help="columns (default 128)")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=".png, .svg or .pdf file, say")
    parser.add_argument("--length", type=int, help="number of positions")
    parser.add_argument("--start", type=number, help="first position")
    parser.add_argument("--position", type=number, help="position in the middle")
    parser.add_argument("--positions", type=number, nargs="+", metavar="P", help="what the clocks show")
    parser.add_argument("--offset", type=number, help="how far to shift")
    parser.add_argument("--dpi", type=float, default=150.0, help="pixels an inch (default 150)")
    add_encoding(parser)


def _plot(arguments: argparse.Namespace) -> None:
    from .. import plot
    from ..presets._registry import facts

    encoding = encoding_of(arguments, "D_MODEL", 128)
    # by its name where that says all, for the title
    named = arguments.preset is not None and not arguments.set and facts(arguments.preset).by_width
    d_model = 128 if arguments.d_model is None else arguments.d_model
    draw = getattr(plot, arguments.drawing)
    taken = inspect.signature(draw).parameters
    settings = {name: getattr(arguments, name) for name in ("length", "start", "position", "positions", "offset")}
    settings = {name: value for name, value in settings.items() if value is not None}
    for name in settings:
        if name not in taken:
            raise ValueError(f"{arguments.drawing} takes no --{name} (see posenc-fast plot --help)")
        _check_positions(name, settings[name] if name == "positions" else [settings[name]])
    figure, axes = plot.new_figure(3 if "axes" in taken else 1)
    most = _PIXELS / max(figure.get_size_inches())
    if not _DPI <= real(arguments.dpi, "--dpi") <= most:
        raise ValueError(
            f"--dpi {arguments.dpi:g} must be from {_DPI} to {most:.0f}: a side has {_PIXELS} pixels at most"
        )
    known, suffix = figure.canvas.get_supported_filetypes(), Path(arguments.output).suffix[1:].lower()
    if suffix not in known:
        raise ValueError(f"{arguments.output} must end with one of {', '.join(f'.{name}' for name in sorted(known))}")
    draw(
        arguments.preset if named else encoding,
        d_model=d_model,
        **settings,
        **{"axes" if "axes" in taken else "ax": axes},
    )
    with opened(arguments.output) as file:
        try:
            figure.savefig(file, format=suffix, dpi=arguments.dpi)
        except MemoryError:
            wide, high = figure.get_size_inches() * arguments.dpi
            raise MemoryError(f"--dpi {arguments.dpi:g} makes a picture of {wide:.0f} x {high:.0f} pixels") from None
        report_written(arguments.output, file, arguments.drawing)


def _check_positions(name: str, values: list[Any]) -> None:
    for value in values:
        if abs(real(value, f"--{name}")) > _POSITIONS:
            raise ValueError(f"--{name} {value} is beyond 2^53, where the axes of pictures tell no positions apart")
