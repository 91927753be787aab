"""Skip the docstring examples of modules that need a missing package. With POSENC_FAST_REQUIRE_EXTRAS=1, they fail."""

from __future__ import annotations

import importlib.util
import os

from posenc_fast import SUBMODULES

# submodule -> names of the packages that it needs; most submodules have the name of their package
OPTIONAL = {name: name for name in SUBMODULES} | {"plot": "matplotlib", "transformers": "torch transformers"}
MISSING = {
    module: package
    for module, packages in OPTIONAL.items()
    for package in packages.split()
    if importlib.util.find_spec(package) is None and not os.environ.get("POSENC_FAST_REQUIRE_EXTRAS")
}

# modules whose examples cannot run, because their package is not installed
collect_ignore = [path for module in MISSING for path in (f"posenc_fast/{module}.py", f"posenc_fast/{module}")]


def pytest_report_header() -> list[str]:
    return [
        f"skipped: {package} is not installed: the examples of posenc_fast.{module}"
        for module, package in MISSING.items()
    ]
