"""Every test that takes ``backend`` runs once for pure Python and once for each instruction-set level of the machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from support.engines import ENGINES, NAMES
from support.seeds import SEED

# no tests: some need optional packages, some are wrong by intent
collect_ignore = ["support", "typed"]
# folders whose tests take long, or look at other packages; elsewhere a file says so of itself, by `pytestmark`.
# ``pytest`` leaves them out, ``pytest -m ""`` runs all
SLOW = {"cli", "frameworks", "identify"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=ENGINES, ids=NAMES)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compute with one backend and level."""
    name, isa = request.param
    with pf.use_backend(name, isa):
        yield name


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the test's own, in which it runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def seed() -> int:
    """Seed of all random draws."""
    return SEED


def pytest_report_header() -> str:
    return f"posenc_fast {pf.__version__}: backends {', '.join(NAMES)}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason, counts in skips(terminalreporter.stats.get("skipped", [])).items():
        numbers = ", ".join(
            f"{count} {kind}{'s' * (count > 1)}" for kind, count in sorted(counts.items(), reverse=True)
        )
        terminalreporter.write_line(f"skipped: {reason}: {numbers}")
    if config.option.markexpr == "not slow" and terminalreporter.stats.get("deselected"):
        count = len(terminalreporter.stats["deselected"])
        terminalreporter.write_line(
            f"left out: {count} tests that take longer, or look at other packages; pytest -m '' runs all"
        )
    # a quiet run has no header, and must be repeated all the more
    terminalreporter.write_line(f"POSENC_FAST_SEED={SEED}")


def skips(reports: list[pytest.TestReport | pytest.CollectReport]) -> dict[str, Counter[str]]:
    """How many tests, or whole files, were skipped for each reason."""
    found: dict[str, Counter[str]] = {}
    for report in reports:
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        # in the words of `optional`, where pytest.importorskip has its own
        reason = re.sub(r"^could not import '(\w+).*", r"\1 is not installed", reason.removeprefix("Skipped: "))
        kind = "file" if isinstance(report, pytest.CollectReport) else "test"
        found.setdefault(reason, Counter())[kind] += 1
    return dict(sorted(found.items(), key=lambda item: -item[1].total()))


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the seed and the test's name alone."""
    return np.random.default_rng([seed, *request.node.name.encode()])
