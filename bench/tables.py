"""Save results of the benchmarks in ``bench/results``, and write them as tables into pages.

``python bench/tables.py`` writes all tables again, from the saved results. It measures nothing.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
# packages whose versions are recorded
PACKAGES = (
    "numpy", "torch", "transformers", "diffusers", "jax", "numba", "numexpr", "onnxruntime", "pandas",
    "positional-encodings",
)  # fmt: skip

Run = dict[str, Any]


# ---- files ----------------------------------------------------------------------------------------------------------


def new_run(results: Sequence[Mapping[str, Any]]) -> Run:
    """Return results, rounded by `short`, with the date, the machine, versions of packages, and the backend."""
    import posenc_fast as pf

    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    versions["posenc_fast"] = pf.__version__
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} CPUs, {platform.system()}",
        "versions": versions,
        "backend": f"{pf.backend()}, {pf.isa()} of {', '.join(pf.isa_levels())}",
        "results": [short(result) for result in results],
    }


def processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def short(value: Any) -> Any:
    """Return a value with all floats in it rounded to four significant digits."""
    if isinstance(value, Mapping):
        return {key: short(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [short(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def save(run: Run, file: Path) -> None:
    """Write a run as JSON, with one line for each result."""
    head = [f" {json.dumps(key)}: {json.dumps(run[key])}," for key in run if key != "results"]
    results = ",\n".join(f"  {json.dumps(result, ensure_ascii=False)}" for result in run["results"])
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(["{", *head, ' "results": [', results, " ]", "}", ""]), "utf-8")


def load(name: str) -> Run:
    """Return the run that is saved under a name, which is a key of `TABLES`."""
    run: Run = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return run


# ---- tables ---------------------------------------------------------------------------------------------------------


def row(*cells: Any) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def one_digit(error: float) -> str:
    return f"{error:.0e}" if error < 0.1 else f"{error:.1g}"


def two_digits(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"


def conditions(run: Run) -> str:
    """Return the machine, the versions and the backend of a run, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return f"{run['machine']}; {versions} ({run['backend']})"


def target(result: Run) -> str:
    """Return the row of a speed target in the table of targets."""
    ratio = result["ratio"]
    cells = [result["name"], result["what"], result["target"] or "-", f"{ratio['median']:.3g}"]
    return row(*cells, f"{ratio['low']:.3g} to {ratio['high']:.3g}", result["verdict"])


TARGETS_HEADING = "| name | ratio | target | measured | middle half of the runs | verdict |\n|---|---|---|---|---|---|"


def targets(run: Run) -> str:
    rows = [target(result) for result in run["results"] if result["target"]]
    return "\n".join([f"Measured on {conditions(run)}.\n", TARGETS_HEADING, *rows])


def task(result: Run) -> str:
    """Return the row of a task in the table of tasks."""
    errors = one_digit(result["error today"]), one_digit(result["error here"])
    return row(result["task"], result["today"], two_digits(result["times faster"]), *errors)


TASKS_HEADING = "| task | today | times faster | error today | error here |\n|---|---|---:|---:|---:|"


def tasks(run: Run) -> str:
    return "\n".join([TASKS_HEADING, *map(task, run["results"])])


DISTANCES = ("0", "≤ 0.5", "≤ 1", "≤ 2", "≤ 3", "more")
COUNTS_HEADING = (
    f"{row('implementation', 'type', 'call', 'positions', *DISTANCES, 'largest error')}\n"
    f"|---|---|---|---|{'---:|' * (len(DISTANCES) + 1)}"
)


def count(result: Run) -> str:
    """Return the row of one implementation and one range of positions in the table of counts."""
    names = [result[key] for key in ("implementation", "type", "call", "positions")]
    return row(*names, *(number or "" for number in result["counts"]), f"{result['largest error']:.1e}")


def counts(run: Run) -> str:
    return "\n".join([COUNTS_HEADING, *map(count, run["results"])])


def libraries(run: Run) -> str:
    starts = list(run["results"][0]["largest errors"])
    lines = [row("library", "computes with", *starts), f"|---|---|{'---:|' * len(starts)}"]
    for result in run["results"]:
        errors = (result["largest errors"][start] for start in starts)
        cells = ("" if error is None else one_digit(error) for error in errors)
        lines.append(row(result["library"], result["arithmetic"], *cells))
    return "\n".join(lines)


# keys: names of result files, and of the marks in pages. Values: (page, function that returns the table).
TABLES: dict[str, tuple[str, Callable[[Run], str]]] = {
    "tasks": ("README.md", tasks),
    "targets": ("bench/README.md", targets),
    "counts": ("bench/README.md", counts),
    "libraries": ("docs/why.md", libraries),
}


def place(name: str) -> re.Pattern[str]:
    """Return a regular expression that matches the text between the marks ``<!-- name -->`` and ``<!-- /name -->``."""
    return re.compile(f"(?<=<!-- {name} -->\n).*?(?=\n<!-- /{name} -->\n)", re.DOTALL)


def put(name: str) -> None:
    """Write the table of a saved run into its page, between its marks."""
    page, make = TABLES[name]
    path, table = ROOT / page, make(load(name))
    new, found = place(name).subn(lambda _: table, path.read_text("utf-8"))
    assert found == 1, f"{page} must contain <!-- {name} --> and <!-- /{name} -->, on lines of their own, once"
    path.write_text(new, "utf-8")


def publish(name: str, run: Run) -> None:
    """Save a run under a name, and write its table into the page that shows it."""
    save(run, RESULTS / f"{name}.json")
    put(name)


if __name__ == "__main__":
    for name in TABLES:
        put(name)
