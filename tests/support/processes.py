"""Run code in a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import posenc_fast as pf


def python(code, *arguments, flags=(), timeout=60, **environment):
    """Run code or a file in a new interpreter, with the tested package. Return the finished process.

    environment: variables to set. POSENC_FAST variables and PYTHONWARNINGS of this process are not passed on.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POSENC_FAST") and k != "PYTHONWARNINGS"}
    path = os.pathsep.join([str(Path(pf.__file__).parents[1]), clean.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *flags, *([code] if isinstance(code, Path) else ["-c", code]), *map(str, arguments)],
        env=clean | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
