"""The command plot."""

from __future__ import annotations

import argparse
import contextlib
import inspect
from datetime import datetime
from pathlib import Path
from typing import Any

from .._core.numbers.arguments import real
from .arguments import add_command, add_encoding, cycles_of, number, value_of
from .output import opened, report_written

# description of each kind of plot, with its options
PLOTS = {
    "angles": "the angle of each column at each position, in colours that close\na circle (--length, --start, --step, --positions)",
    "clocks": "pairs of columns as hands of clocks (--positions, --pairs)",
    "decay": "alignment of queries and keys against distance (--distance)",
    "errors": "error against position, of float32 angles and of this package\n(--positions)",
    "frequencies": "factor by which the scaling of a rotary preset slows each\npair",
    "grid": "similarity of all patches of an image to one patch, for a preset\nof two axes (--shape, --patch, --step)",
    "heatmap": "the table (--length, --start, --step, --positions)",
    "rotary": "the angles of a head, for a rotary preset (--length, --start,\n--step, --positions)",
    "shift": "a table, its transition matrix, and both multiplied (--length,\n--offset)",
    "similarity": "dot products with the row of a position (--position, --span,\n--step)",
    "sinusoids": "columns against position (--length, --start, --step,\n--columns)",
    "wavelengths": "wavelength of every column, on a logarithmic scale",
}
# kinds of plots that need a rotary preset
_ROTARY = ("frequencies", "rotary")
# (number of words, type, metavar, help) of each option; None for any number of words, and for `_position` as the type
_SETTINGS: dict[str, tuple[int | None, Any, Any, str]] = {
    "length": (1, int, "N", "number of positions"),
    "start": (1, number, "P", "first position"),
    "step": (1, number, "S", "distance between positions"),
    "position": (1, number, "P", "position in the middle of the picture"),
    "positions": (None, None, "P", "positions: numbers, or ISO dates and times"),
    "columns": (None, int, "C", "numbers of columns, from 0"),
    "pairs": (1, int, "N", "maximum number of clocks per row"),
    "span": (1, int, "N", "number of rows on each side of --position"),
    "offset": (1, number, "P", "distance by which the table is shifted"),
    "distance": (1, int, "N", "largest distance"),
    "shape": (2, int, ("ROWS", "COLUMNS"), "patches of an image"),
    "patch": (2, int, ("ROW", "COLUMN"), "patch to compare all others with"),
    "title": (1, str, "TEXT", "title of the picture (default: the encoding's name)"),
    "cmap": (1, str, "NAME", "name of a matplotlib colormap"),
}
# options whose values are positions
_POSITIONS_OF = ("start", "step", "position", "positions", "offset")
# matplotlib draws at most _PIXELS pixels per side. Its text needs at least _DPI pixels per inch.
_PIXELS, _DPI = 2**16 - 1, 10
# largest position; beyond it, neighbouring integers are equal in float64, the type of matplotlib's axes
_POSITIONS = 2**53
PLOT_HELP = "kinds:\n" + "".join(
    f"  {name:<12} {text}\n".replace("\n", "\n" + 15 * " ").rstrip(" ") for name, text in PLOTS.items()
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
    parser.add_argument("d_model", type=int, metavar="D_MODEL", nargs="?", help="number of columns (default: 128)")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="file to write: .png, .svg, .pdf or another that matplotlib writes",
    )
    for name, (count, read, metavar, text) in _SETTINGS.items():
        several: dict[str, Any] = {} if count == 1 else {"nargs": "+" if count is None else count}
        parser.add_argument(f"--{name}", type=read or _position, metavar=metavar, help=text, **several)
    parser.add_argument(
        "--periods",
        metavar="LENGTHS",
        help="draw cycles of times instead of an encoding: lengths such as 12h or 7D, separated by commas",
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
    cycles = cycles_of(arguments)
    if cycles is not None and cycles.calendar:
        raise ValueError(
            f"--periods {arguments.periods}: plots support only lengths such as 1D, not {cycles.calendar[0]}"
        )
    value = value_of(arguments, "D_MODEL", 128, get) if cycles is None else cycles.encoding
    # without --set, pass the name of the preset to the plot, so that its title shows the name
    named = arguments.preset is not None and not arguments.set
    draw = getattr(plot, kind)
    parameters = inspect.signature(draw).parameters
    settings = {name: getattr(arguments, name) for name in _SETTINGS}
    settings = {name: value for name, value in settings.items() if value is not None}
    for name in settings:
        if name not in parameters:
            raise ValueError(f"{kind} takes no --{name} (see posenc-fast plot --help)")
        if name in _POSITIONS_OF:
            _check_positions(name, settings[name] if name == "positions" else [settings[name]])
    if "d_model" in parameters:
        settings["d_model"] = 128 if arguments.d_model is None else arguments.d_model
    figure, axes = new_figure(3 if "axes" in parameters else 1)
    most = _PIXELS / max(figure.get_size_inches())
    if not _DPI <= real(arguments.dpi, "--dpi") <= most:
        raise ValueError(
            f"--dpi {arguments.dpi:g} must be from {_DPI} to {most:.0f}, because a side of the picture has at most "
            f"{_PIXELS} pixels"
        )
    known, suffix = figure.canvas.get_supported_filetypes(), Path(arguments.output).suffix[1:].lower()
    if suffix not in known:
        raise ValueError(f"{arguments.output} must end with one of {', '.join(f'.{name}' for name in sorted(known))}")
    draw(arguments.preset if named else value, **settings, **{"axes" if "axes" in parameters else "ax": axes})
    with opened(arguments.output) as file:
        try:
            figure.savefig(file, format=suffix, dpi=arguments.dpi)
        except MemoryError:
            wide, high = figure.get_size_inches() * arguments.dpi
            raise MemoryError(f"--dpi {arguments.dpi:g} makes a picture of {wide:.0f} x {high:.0f} pixels") from None
        report_written(arguments.output, file, kind)


def _check_positions(name: str, values: list[Any]) -> None:
    for value in values:
        if not isinstance(value, datetime) and abs(real(value, f"--{name}")) > _POSITIONS:
            raise ValueError(
                f"--{name} {value} is beyond 2^53, where neighbouring positions are equal on the axes of pictures"
            )
