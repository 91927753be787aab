#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Run tasks in separate environments. ``nox -l`` lists the tasks. Some of them only call scripts in .ci/."""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")


def install(session: nox.Session, *groups: str) -> None:
    """Install the package, built in place, and dependency groups."""
    wanted = [requirement for group in groups for requirement in nox.project.dependency_groups(PROJECT, group)]
    session.install("-e", ".", *wanted, env={"POSENC_FAST_REQUIRE_EXT": "1"})


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """Run all tests, and the examples of the docstrings. This takes some minutes."""
    install(session, "test")
    session.run("pytest", "-m", "", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the sources, the types, the repository and its workflows."""
    session.install(*nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    cython = [str(path) for kind in ("src/*.pyx", "src/*.pxd", "posenc_fast/*.pxd") for path in Path().glob(kind)]
    session.run("cython-lint", "--max-line-length", "120", *cython)
    session.run("mypy")
    session.run("pyright")
    session.run("repo-review", ".")
    session.run("zizmor", "--offline", ".github")


@nox.session(default=False)
def extras(session: nox.Session) -> None:
    """Test the optional modules with all packages they can use, and build the documentation."""
    session.run(".ci/extras", external=True)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation in docs/_build."""
    install(session, "docs")
    session.run("sphinx-build", "-W", "-q", "--keep-going", "docs", "docs/_build", *session.posargs)


@nox.session(default=False)
def screenshots(session: nox.Session) -> None:
    """Take pictures of the documentation at two widths, and check that each page fits. Needs Chromium."""
    docs(session)
    session.run("python", "docs/screenshots.py", "docs/_build", "--out", "docs/_build/screenshots")


@nox.session(default=False)
def play(session: nox.Session) -> None:
    """Try the page Play and the search in the lists of presets and RoPE models, in a browser. Needs Chromium."""
    docs(session)
    session.run("python", "docs/try_play.py", "docs/_build")
    session.run("python", "docs/try_lists.py", "docs/_build")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure the speed targets. Most are ratios of the times of two programs that run alternately."""
    install(session, "bench")
    session.run("python", "bench/targets.py", *session.posargs)


@nox.session(default=False)
def wheel(session: nox.Session) -> None:
    """Build, audit, install and test sdist and wheel."""
    session.run(".ci/wheels", external=True)


@nox.session(default=False)
def sanitize(session: nox.Session) -> None:
    """Run most tests under AddressSanitizer and UndefinedBehaviorSanitizer, and fuzz tests under valgrind."""
    session.run(".ci/sanitize", "--nightly", external=True)
    session.run(".ci/valgrind", external=True)


@nox.session(default=False)
def compilers(session: nox.Session) -> None:
    """Build the kernel with several compilers, also with unsafe math flags: ``nox -s compilers -- gcc-11 clang-16``."""
    session.run(".ci/emulated/compilers", *session.posargs, external=True)


@nox.session(default=False)
def avx512(session: nox.Session) -> None:
    """Run the AVX-512 loops, built by several compilers, in an emulator: ``nox -s avx512 -- gcc-11 clang-16``."""
    session.run(".ci/emulated/avx512", *session.posargs, external=True)


@nox.session(default=False)
def architectures(session: nox.Session) -> None:
    """Run some tests on emulated architectures: ``nox -s architectures -- arm64 armhf i386 s390x``."""
    tests = [
        "values/test_golden",
        "rotary/test_rotary_golden",
        "core/test_tables",
        "values/test_grid",
        "core/test_errors",
    ]
    chosen = " ".join(f"tests/{name}.py" for name in tests)
    machines = session.posargs or ["arm64", "armhf", "i386", "s390x"]
    session.run(".ci/emulated/architectures", *machines, env={"TESTS": chosen}, external=True)


@nox.session(default=False)
def free_threaded(session: nox.Session) -> None:
    """Run the tests on Python without the GIL. ``nox -s free_threaded -- FOLDER`` keeps a built Python in FOLDER."""
    session.run(".ci/free-threaded", *session.posargs, external=True)


@nox.session(default=False)
def workflows(session: nox.Session) -> None:
    """Check the GitHub workflows, and run those of their scripts that work locally."""
    session.run(".ci/workflows", external=True)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Fuzz a case, guided by coverage: ``nox -s fuzz -- CASE SECONDS``."""
    install(session, "fuzz")
    session.run("python", "fuzz/harness.py", *(session.posargs or ["encode", "600"]))


if __name__ == "__main__":
    nox.main()
