"""Run random calls on guarded memory, and calls with random input.

POSENC_FAST_FUZZ=n runs each test n times (default: 20 for quick tests, 40 for slow tests).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from support import fuzzing, fuzzing_grammars, fuzzing_input
from support.engines import with_each_engine
from support.seeds import SEED

EXAMPLES = int(os.environ.get("POSENC_FAST_FUZZ", "0") or 0)

INPUT = fuzzing_input.CASES | fuzzing_grammars.CASES

fuzz = settings(
    max_examples=EXAMPLES or 20,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("call", list(fuzzing.CALLS.values()), ids=list(fuzzing.CALLS))
@seed(SEED)
@fuzz
@given(data=st.data())
def test_any_memory(call, data):
    with_each_engine(call(data))()


@pytest.mark.slow
@pytest.mark.parametrize("case", list(INPUT.values()), ids=list(INPUT))
@seed(SEED)
@settings(fuzz, max_examples=EXAMPLES or 40)
@given(data=st.data())
def test_any_input(case, data):
    case(data)
