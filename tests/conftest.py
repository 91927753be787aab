"""Fixtures of all tests, and the selection of tests for a quick run.

Tests with the fixture ``backend`` run with each engine: pure Python, and the kernel at each instruction-set level of
the machine. In tests/kernel, each engine is a test case of its own. Elsewhere, one test case runs with all engines in
turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from support.engines import ENGINES, NAMES, with_each_engine
from support.seeds import SEED

# These folders contain no tests. --doctest-modules would import their files: some contain intended errors, and others
# need optional packages.
collect_ignore = ["support", "typed"]
# Folders whose tests take long or need other packages. ``pytest`` omits these tests, and ``pytest -m ""`` runs all
# tests. In other folders, single files and tests have the mark "slow".
SLOW = {"cli", "frameworks", "identify"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)
        if isinstance(item, pytest.Function) and "backend" in item.fixturenames and item.path.parent.name != "kernel":
            item.obj = with_each_engine(item.obj)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames and metafunc.definition.path.parent.name == "kernel":
        metafunc.parametrize("backend", ENGINES, ids=NAMES, indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with one engine, and yield "python" or "cython", the name of its backend.

    Outside tests/kernel, `with_each_engine` replaces this engine and this name by those of each engine in turn.
    """
    name, isa = getattr(request, "param", ENGINES[-1])
    with pf.use_backend(name, isa):
        yield name


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in a new directory, and return the path of this directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def seed() -> int:
    """Return the seed of this run, from which `rng` and some tests draw."""
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
            f"omitted: {count} tests that take long, or need other packages; pytest -m '' runs all"
        )
    # print the seed at the end, because ``pytest -q`` prints no header
    terminalreporter.write_line(f"POSENC_FAST_SEED={SEED}")


def skips(reports: list[pytest.TestReport | pytest.CollectReport]) -> dict[str, Counter[str]]:
    """Return {reason: counts of skipped tests ("test") and whole files ("file")}, the most frequent reason first."""
    found: dict[str, Counter[str]] = {}
    for report in reports:
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        # replace the text of pytest.importorskip by the text of `optional`
        reason = re.sub(r"^could not import '(\w+).*", r"\1 is not installed", reason.removeprefix("Skipped: "))
        kind = "file" if isinstance(report, pytest.CollectReport) else "test"
        found.setdefault(reason, Counter())[kind] += 1
    return dict(sorted(found.items(), key=lambda item: -item[1].total()))


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a random generator that depends only on the seed and the test's name."""
    return np.random.default_rng([seed, *request.node.name.encode()])
