"""Run a fuzzing case of the tests with random inputs, guided by coverage: ``python fuzz/harness.py CASE SECONDS``.

CASE is one of table, encode, add_to, shift, grid, rotate, c_call, arguments, files, positions, cells, 'odd cells',
recipes, configs, types, 'edited configs', 'cut frequencies', 'edited safetensors', 'edited npz', 'edited GGUF keys'.
POSENC_FAST_BACKEND and POSENC_FAST_ISA choose the engine and its level. c_call needs the compiled engine. A failing
input ends the run, and hypothesis prints the input. Add this input to the tests.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
with atheris.instrument_imports(include=["posenc_fast"]):
    from support import fuzzing, fuzzing_check, fuzzing_grammars, fuzzing_input

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import posenc_fast as pf

CASES = {name: lambda data, call=call: call(data)() for name, call in fuzzing.CALLS.items()}
CASES |= fuzzing_input.CASES | fuzzing_grammars.CASES | fuzzing_check.CASES
SEEDS = 64


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    name, seconds = sys.argv[1], int(sys.argv[2])
    case = CASES[name]

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(data=st.data())
    def one(data: st.DataObject) -> None:
        case(data)

    print(f"{name}: {pf.backend()} {pf.isa()}, {seconds} seconds", flush=True)
    with tempfile.TemporaryDirectory() as corpus:
        for i in range(SEEDS):
            # the first inputs must be long enough to reach the calls; the default inputs of libFuzzer are shorter
            Path(corpus, str(i)).write_bytes(random.Random(i).randbytes(64 * (i + 1)))
        options = [
            f"-max_total_time={seconds}",
            "-max_len=8192",
            "-len_control=0",
            "-timeout=120",
            "-print_final_stats=1",
        ]
        # folder for failing inputs
        options += [f"-artifact_prefix={os.getcwd()}/"]
        atheris.Setup([sys.argv[0], *options, corpus], one.hypothesis.fuzz_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
