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
_SINUSOIDAL = ("base", "freq_shift", "first", "frequencies", "layout", "functions", "odd", "scale")
# values of --set that are written as words
_WORDS = {"true": True, "false": False, "none": None}


class Parser(argparse.ArgumentParser):
    """Parser that rejects abbreviations, suggests names in errors and keeps line breaks in help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def _suggestion(self, unknown: str) -> str:
        """Return a clause that suggests a similar option or positional argument for an unknown option, or ""."""
        options = (option[2:] for option in self._option_string_actions if option.startswith("--"))
        # `meant` compares names without the two hyphens, so add the hyphens to its suggestion
        suggestion = meant(unknown[2:], options).replace("mean '", "mean '--")
        if suggestion:
            return suggestion
        positional = [str(action.metavar) for action in self._actions if not action.option_strings and action.metavar]
        suggestion = meant(unknown[2:].replace("-", "_"), positional)
        return f"{suggestion} Pass its value without an option name" if suggestion else ""

    def _check_periods(self, words: Sequence[str]) -> None:
        """Raise an error if the cycles of --periods are separated by spaces instead of commas."""
        if "--periods" not in self._option_string_actions:
            return
        # treat --periods=CYCLES like the two words --periods CYCLES
        split = itertools.chain(*(word.split("=", 1) if word.startswith("--periods=") else [word] for word in words))
        periods_on = itertools.dropwhile(lambda word: word != "--periods", split)
        cycles = list(itertools.takewhile(_is_period, itertools.islice(periods_on, 1, None)))
        if len(cycles) > 1:
            joined = ",".join(word.strip(",") for word in cycles)
            self.error(f"--periods takes one word; separate the cycles by commas: --periods {joined}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        # report misspelt options first, because they often cause an error about a missing argument
        self._check_periods(args or ())
        for word in args or ():
            name = word.partition("=")[0]
            if name == "--" or (self._subparsers is not None and not name.startswith("-")):
                # the remaining words are positional arguments, or belong to a command, whose parser checks them
                break
            if name.startswith("--") and name not in self._option_string_actions:
                self.error(f"there is no option {name}{self._suggestion(name)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None:
            name = action.option_strings[0] if action.option_strings else str(action.metavar)
            try:
                one_of(value, name, tuple(action.choices))
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
        Cycles(_periods_in(word))
    except (TypeError, ValueError):
        return False
    return not os.path.exists(word)


def _periods_in(text: str) -> list[int | float | str]:
    """Return the periods in a value of --periods, a list with commas."""
    return [_number_or_text(period.strip()) for period in text.split(",") if period.strip()]


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
    usage_line = f"posenc-fast {name} {usage}" if usage else None
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help, description=about, epilog=end, usage=usage_line
    )
    parser.set_defaults(run=run)
    return parser


def shielded(argument: str) -> str:
    """Prefix values such as `-sin` and `-1e3` with a space, so that argparse does not read them as options."""
    return (
        " " + argument if (argument in FUNCTIONS and argument[0] == "-") or _is_negative_number(argument) else argument
    )


def _is_negative_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return text.startswith("-")
    return False


def number(text: str) -> int | float:
    """Return the number in a text: an int for an integer, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def add_computation(parser: argparse.ArgumentParser) -> None:
    """Add the options --dtype, --precision and --workers."""
    parser.add_argument("--dtype", choices=TYPES, default="float32", help="dtype of the encoding (default: float32)")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="exact",
        help="exact: compute accurate angles. float32: compute angles in float32, with larger errors (default: exact)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        help="maximum number of threads; -1 means all CPUs, -2 all but one, .. (default: 1)",
    )


def add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar if tqdm is installed (default: only on a terminal)",
    )


def add_encoding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("encoding", "a preset, or the arguments of posenc_fast.sinusoidal")
    group.add_argument(
        "--preset",
        metavar="NAME",
        help="name of a preset (see posenc-fast presets); excludes the options below, from --base to --scale",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set an argument of the preset; may be repeated. VALUE is a number, a word such as true, several of "
        "these separated by commas, or the path of a .npy file",
    )
    add = group.add_argument
    absent: Any = argparse.SUPPRESS
    add("--base", type=float, default=absent, help="base of the geometric frequencies (default: 10000)")
    add(
        "--freq-shift",
        type=float,
        default=absent,
        metavar="SHIFT",
        help="SHIFT in FIRST * BASE ** (-i / (D/2 - SHIFT)), the frequency of pair i of D columns: 0 in Attention Is "
        "All You Need, 1 in Whisper (default: 0)",
    )
    add("--first", type=float, default=absent, help="frequency of the first pair (default: 1)")
    add(
        "--frequencies",
        default=absent,
        metavar="FILE.npy",
        help="array with one frequency per pair, in radians per unit of position; excludes --base, --freq-shift and "
        "--first",
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
        help="for an odd number of columns. crop: leave out the second function of the last frequency. zero: set the "
        "last column to 0. error: raise an error (default: crop)",
    )
    add("--scale", type=float, default=absent, help="factor that multiplies all columns (default: 1)")


def cycles_of(arguments: argparse.Namespace, metavar: str) -> Cycles | None:
    """Return the cycles of the option --periods, or None if the option is absent.

    metavar: name of the argument d_model in the command.
    """
    if arguments.periods is None:
        if arguments.timezone is not None:
            raise ValueError("--timezone is for the cycles of --periods; add --periods, such as --periods day,week")
        return None
    for name in ("d_model", "preset", *_SINUSOIDAL):
        if name != "layout" and getattr(arguments, name, None) is not None:
            excluded = metavar if name == "d_model" else f"--{name.replace('_', '-')}"
            raise ValueError(f"--periods excludes {excluded}; leave one of them out")
    if arguments.set:
        raise ValueError("--set is for the arguments of a preset, and --periods excludes presets; leave --set out")
    return Cycles(_periods_in(arguments.periods), getattr(arguments, "layout", "interleaved"), arguments.timezone)


def encoding_of(arguments: argparse.Namespace, metavar: str, default_width: int | None = None) -> Encoding:
    """Return the encoding that the options describe. Raise an error if it has several axes.

    The parameters are explained in `value_of`.
    """
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
    that takes the name of a preset and returns the preset.
    """
    options = {name: getattr(arguments, name) for name in _SINUSOIDAL if hasattr(arguments, name)}
    if arguments.preset is not None:
        if options:
            option = next(iter(options)).replace("_", "-")
            raise ValueError(f"--preset excludes --{option}; leave one of them out (--set sets arguments of a preset)")
        return _value_of_preset(arguments, metavar, default_width, find_preset)
    if arguments.set:
        raise ValueError("--set is for the arguments of a preset; add --preset NAME")
    d_model = default_width if arguments.d_model is None else arguments.d_model
    if d_model is None:
        raise ValueError(f"give {metavar}, the number of columns, or a --preset with a fixed number of columns")
    if "frequencies" in options:
        options["frequencies"] = read_vector(options["frequencies"])
    return sinusoidal(d_model, **options)


def _value_of_preset(
    arguments: argparse.Namespace,
    metavar: str,
    default_width: int | None,
    find_preset: Callable[[str], Callable[..., Any]],
) -> Any:
    """Return the Encoding or Rotary of the preset. The parameters are explained in `value_of`."""
    from ..presets._registry import facts as facts_of

    name, d_model = arguments.preset, arguments.d_model
    try:
        facts = facts_of(name)
    except AttributeError as error:
        raise ValueError(f"--preset: {error}") from None
    build = find_preset(name)
    parameters = inspect.signature(build).parameters
    settings = dict(_setting(text, name, list(parameters)) for text in arguments.set)
    if facts.by_width:
        width_key = next(iter(parameters))
        if d_model is not None and settings.setdefault(width_key, d_model) != d_model:
            raise ValueError(
                f"{metavar} is {d_model}, but --set gives {width_key}={settings[width_key]}; leave one of them out"
            )
        if default_width is not None:
            settings.setdefault(width_key, default_width)
    missing = [
        key for key, parameter in parameters.items() if parameter.default is parameter.empty and key not in settings
    ]
    if missing:
        to_add = (
            f"{metavar}, the number of columns" if facts.by_width else " ".join(f"--set {key}=VALUE" for key in missing)
        )
        raise ValueError(f"the preset {name!r} needs {', '.join(missing)}; add {to_add}")
    value = build(**settings)
    width = value.head_dim if facts.rotary else value.d_model
    if not facts.by_width and d_model not in (None, width):
        size = f"heads of {width} values" if facts.rotary else f"{width} columns"
        raise ValueError(f"the preset {name!r} has {size}, not {d_model}; leave {metavar} out")
    return value


def _setting(text: str, preset: str, known: list[str]) -> tuple[str, Any]:
    """Return (key, value) of a text KEY=VALUE. known: keys that the preset accepts."""
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"--set {text} must have the form KEY=VALUE")
    if not known:
        raise ValueError(f"--set {text}: the preset {preset!r} has no arguments; leave --set out")
    if key not in known:
        raise ValueError(
            f"--set {text}: the preset {preset!r} has the arguments {', '.join(known)}, not {key!r}{meant(key, known)}"
        )
    return key, _setting_value(value)


def _setting_value(text: str) -> Any:
    if text.endswith(".npy"):
        return read_array(text)
    if "," in text:
        return tuple(_setting_value(part) for part in text.split(",") if part)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return _number_or_text(text)


def _number_or_text(text: str) -> int | float | str:
    try:
        return number(text)
    except ValueError:
        return text
