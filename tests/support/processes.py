"""Code in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import posenc_fast as pf


def python(code, *arguments, timeout=60, **environment):
    """Run code, with no choice of a backend but the given one."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POSENC_FAST") and k != "PYTHONWARNINGS"}
    # the package of this run, however it was found
    path = os.pathsep.join([str(Path(pf.__file__).parents[1]), clean.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *([code] if isinstance(code, Path) else ["-c", code]), *map(str, arguments)],
        env=clean | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
