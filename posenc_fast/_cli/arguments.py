"""Add commands to the parser, and read options that commands share: numbers and encodings."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .._core.encoding.builders import FUNCTIONS, LAYOUTS, ODD, sinusoidal
from .._core.encoding.cycles import Cycles
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import PRECISIONS
from .._core.numbers.formats import TYPES
from .._core.numbers.names import meant, one_of
from .._models.check.arrays import read_array, read_vector

# arguments of `sinusoidal` that are options of commands; an absent option keeps the default of `sinusoidal`
_OPTIONS = ("base", "freq_shift", "first", "frequencies", "layout", "functions", "odd", "scale")
# values of --set that are written as words
_WORDS = {"true": True, "false": False, "none": None}


class Parser(argparse.ArgumentParser):
    """Parser that rejects abbreviations, suggests names in errors and keeps line breaks in help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def _hint(self, name: str) -> str:
        """Return a clause that suggests a similar option, or a positional argument, for an unknown option."""
        known = (option[2:] for option in self._option_string_actions if option.startswith("--"))
        hint = meant(name[2:], known).replace("mean '", "mean '--")
        if hint:
            return hint
        arguments = [str(each.metavar) for each in self._actions if not each.option_strings and each.metavar]
        hint = meant(name[2:].replace("-", "_"), arguments)
        return f"{hint} Pass its value without an option name" if hint else ""

    def _check_periods(self, words: Sequence[str]) -> None:
        """Raise an error if the cycles of --periods are separated by spaces instead of commas."""
        parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--periods=") else [word])]
        if "--periods" not in self._option_string_actions or "--periods" not in parts:
            return
        cycles = list(itertools.takewhile(_is_period, parts[parts.index("--periods") + 1 :]))
        if len(cycles) > 1:
            joined = ",".join(each.strip(",") for each in cycles)
            self.error(f"--periods takes one word; separate the cycles by commas: --periods {joined}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        # report misspelt options first, because they often cause an error about a missing argument
        self._check_periods(args or ())
        for word in args or ():
            name = word.partition("=")[0]
            if name == "--" or (self._subparsers is not None and not name.startswith("-")):
                # the remaining words belong to a command, whose parser checks them
                break
            if name.startswith("--") and name not in self._option_string_actions:
                self.error(f"there is no option {name}{self._hint(name)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None:
            try:
                one_of(value, [*action.option_strings, str(action.metavar)][0], tuple(action.choices))
            except ValueError as error:
                self.error(str(error))

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        # use print, because argparse would ignore write errors such as a full disk
        print(message, end="", file=file)


def _is_period(word: str) -> bool:
    """Return whether a word is a list of cycles for --periods, and not the name of an existing file."""
    try:
        Cycles([_number_or_text(each.strip()) for each in word.split(",") if each.strip()])
    except (TypeError, ValueError):
        return False
    return not os.path.exists(word)


def add_command(
    commands: Any,
    run: Callable[[argparse.Namespace], int | None],
    name: str,
    help: str,
    about: str = "",
    end: str = "",
    usage: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command that calls ``run``, and return its parser.

    about, end: text before and after the arguments in the help. usage: arguments in the usage line (default: all).
    """
    shown = f"posenc-fast {name} {usage}" if usage else None
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=about, epilog=end, usage=shown)
    parser.set_defaults(run=run)
    return parser


def shielded(argument: str) -> str:
    """Prefix values such as `-sin` and `-1e3` with a space, so that argparse does not read them as options."""
    if argument.startswith("-"):
        with contextlib.suppress(ValueError):
            float(argument)
            return " " + argument
    return " " + argument if argument in FUNCTIONS else argument


def number(text: str) -> int | float:
    """Return the number in a text: an int for an integer of any size, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Add the options --dtype, --precision and --workers."""
    parser.add_argument("--dtype", choices=TYPES, default="float32", help="type of the values (default: float32)")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="exact",
        help="exact: values rounded once. float32: angles computed in float32 (default: exact)",
    )
    parser.add_argument(
        "--workers", type=int, help="maximum number of threads; negative numbers count back from the CPUs (default: 1)"
    )


def add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar if tqdm is installed (default: on a terminal)",
    )


def add_encoding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("encoding", "a preset, or the arguments of posenc_fast.sinusoidal")
    group.add_argument(
        "--preset", metavar="NAME", help="preset to use instead of the options below (see posenc-fast presets)"
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set an argument of the preset; may be repeated. VALUE is a number, a word, a comma-separated "
        "list of them, or a .npy file",
    )
    add = group.add_argument
    absent: Any = argparse.SUPPRESS
    add("--base", type=float, default=absent, help="base of the geometric frequencies (default: 10000)")
    add(
        "--freq-shift",
        type=float,
        default=absent,
        metavar="SHIFT",
        help="number subtracted from D/2 in the exponent: 0 in the paper, 1 in Whisper (default: 0)",
    )
    add("--first", type=float, default=absent, help="frequency of the first pair (default: 1)")
    add(
        "--frequencies",
        default=absent,
        metavar="FILE.npy",
        help="array of frequencies; replaces --base, --freq-shift and --first",
    )
    add("--layout", choices=LAYOUTS, default=absent, help="order of the columns (default: interleaved)")
    add(
        "--functions",
        nargs=2,
        # strip the space that `shielded` adds
        type=str.strip,
        choices=tuple(FUNCTIONS),
        default=absent,
        help="functions of a pair: two of sin, cos, -sin, -cos (default: sin cos)",
        metavar=("F", "G"),
    )
    add(
        "--odd",
        choices=ODD,
        default=absent,
        help="for an odd width: crop the last column, fill it with zeros, or raise an error (default: crop)",
    )
    add("--scale", type=float, default=absent, help="factor that multiplies all columns (default: 1)")


def cycles_of(arguments: argparse.Namespace) -> Cycles | None:
    """Return the cycles of the option --periods, or None if the option is absent."""
    if arguments.periods is None:
        if arguments.timezone is not None:
            raise ValueError("--timezone is for the cycles of --periods; add --periods, such as --periods day,week")
        return None
    others = {name: getattr(arguments, name, None) for name in ("d_model", "preset", *_OPTIONS) if name != "layout"}
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"--periods excludes --{name.replace('_', '-')}; leave one of them out")
    if arguments.set:
        raise ValueError(
            "--set is for the arguments of a preset, and --periods excludes presets; leave --set or --periods out"
        )
    periods = [_number_or_text(each.strip()) for each in arguments.periods.split(",") if each.strip()]
    return Cycles(periods, getattr(arguments, "layout", "interleaved"), arguments.timezone)


def encoding_of(arguments: argparse.Namespace, metavar: str, default_width: int | None = None) -> Encoding:
    """Return the encoding of one axis that the options describe. The parameters are explained in `value_of`."""
    from ..presets._registry import encoding_preset

    encoding: Encoding = value_of(arguments, metavar, default_width, encoding_preset)
    if encoding.ndim != 1:
        raise ValueError(
            f"the preset {arguments.preset!r} has {encoding.ndim} axes, but this command supports only one; use "
            "posenc_fast.grid or Encoding.encode in Python"
        )
    return encoding


def value_of(
    arguments: argparse.Namespace,
    metavar: str,
    default_width: int | None,
    find_preset: Callable[[str], Callable[..., Any]],
) -> Any:
    """Return the Encoding that the options describe, or the Encoding or Rotary of the preset.

    metavar: name of the argument d_model in the command. default_width: default value of d_model. find_preset: function
    that returns the preset with a name.
    """
    options = {name: getattr(arguments, name) for name in _OPTIONS if hasattr(arguments, name)}
    if arguments.preset is not None:
        for name in options:
            raise ValueError(
                f"--preset excludes --{name.replace('_', '-')}; leave one of them out (--set sets arguments of a "
                "preset)"
            )
        return _preset(arguments, metavar, default_width, find_preset)
    if arguments.set:
        raise ValueError("--set is for the arguments of a preset; add --preset NAME")
    d_model = default_width if arguments.d_model is None else arguments.d_model
    if d_model is None:
        raise ValueError(f"give {metavar}, the number of columns, or a --preset with a fixed number of columns")
    if "frequencies" in options:
        options["frequencies"] = read_vector(options["frequencies"])
    return sinusoidal(d_model, **options)


def _preset(
    arguments: argparse.Namespace,
    metavar: str,
    default_width: int | None,
    find_preset: Callable[[str], Callable[..., Any]],
) -> Any:
    from ..presets._registry import facts

    name, d_model = arguments.preset, arguments.d_model
    try:
        known = facts(name)
    except AttributeError as error:
        raise ValueError(f"--preset: {error}") from None
    build, by_width = find_preset(name), known.by_width
    parameters = inspect.signature(build).parameters
    settings = dict(_setting(text, name, list(parameters)) for text in arguments.set)
    # presets that take a width have it as their first parameter
    if by_width:
        first = next(iter(parameters))
        if d_model is not None and settings.setdefault(first, d_model) != d_model:
            raise ValueError(
                f"{metavar} is {d_model}, but --set gives {first}={settings[first]}; leave one of them out"
            )
        if default_width is not None:
            settings.setdefault(first, default_width)
    missing = [key for key, each in parameters.items() if each.default is each.empty and key not in settings]
    if missing:
        raise ValueError(
            f"the preset {name!r} needs {', '.join(missing)}; add "
            + (metavar if by_width else " ".join(f"--set {key}=VALUE" for key in missing))
        )
    value = build(**settings)
    columns = value.head_dim if known.rotary else value.d_model
    if not by_width and d_model not in (None, columns):
        has = f"heads of {columns} values" if known.rotary else f"{columns} columns"
        raise ValueError(f"the preset {name!r} has {has}, not {d_model}; leave {metavar} out")
    return value


def _setting(text: str, preset: str, known: list[str]) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"--set {text} must have the form KEY=VALUE")
    if key not in known:
        takes = ", ".join(known) or "no arguments"
        raise ValueError(f"--set {text}: the preset {preset!r} takes {takes}, not {key!r}{meant(key, known)}")
    return key, _value(value)


def _value(text: str) -> Any:
    if text.endswith(".npy"):
        return read_array(text)
    if "," in text:
        return tuple(_value(part) for part in text.split(",") if part)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return _number_or_text(text)


def _number_or_text(text: str) -> int | float | str:
    try:
        return number(text)
    except ValueError:
        return text
