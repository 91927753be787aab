"""The command completion."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from .._core.numbers.names import one_of
from .arguments import Parser, add_command

ABOUT = """\
Print a script that lets SHELL complete commands, options, names of presets and
files. It needs the package shtab (pip install shtab).
"""
EXAMPLES = """\
examples:
  eval "$(posenc-fast completion bash)"  # in .bashrc
  posenc-fast completion zsh > ~/.zfunc/_posenc-fast  # in a folder of fpath
  posenc-fast completion fish > ~/.config/fish/completions/posenc-fast.fish
"""
# metavars of arguments that name files
_FILES = ("FILE", "FILE.npy", "INPUT", "MODEL", "OUT", "PATH", "TABLE")


def add(commands: Any, parser: Parser) -> None:
    """Add the command to the parser. The command prints a script that completes all commands of the parser."""
    run = functools.partial(_complete, parser, commands)
    completion = add_command(commands, run, "completion", "print a script that completes commands", ABOUT, EXAMPLES)
    completion.add_argument("shell", metavar="SHELL", help="bash, zsh, fish or another shell that shtab supports")


def _complete(parser: Parser, commands: Any, arguments: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError:
        raise ImportError("completion needs the package shtab; run pip install shtab") from None
    from ..presets import names

    one_of(arguments.shell, "SHELL", shtab.SUPPORTED_SHELLS)
    for command in commands.choices.values():
        for action in command._actions:
            if action.metavar == "NAME" and action.dest in ("name", "preset"):
                action.choices = names()
            elif action.metavar in _FILES:
                action.complete = shtab.FILE
    print(shtab.complete(parser, arguments.shell))
