"""Test `check` for functions. Correct functions of any style have the verdict "right", and each fault is named."""

from __future__ import annotations

import itertools
import math
import sys
import typing

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets
from posenc_fast._models.check import report
from posenc_fast.presets._registry import FACTS
from posenc_fast.testing import assert_right
from support.errors import raises, wrong_calls
from support.fuzzing import DTYPES
from support.optional import optional
from support.own_code import ROTARIES, SCALED_FAULTS, SINUSOIDAL_FAULTS, STYLES, TABLE_FAULTS, Style, Turns
from support.preset_formulas import ONE_AXIS
from support.processes import python

ENCODING, ROTARY = pf.sinusoidal(64), pf.Rotary(64)


def finding_of(*arguments, **options):
    (finding,) = pf.check(*arguments, **options).findings
    return finding


def is_right(*arguments, **options):
    finding = finding_of(*arguments, **options)
    assert (finding.verdict, finding.fault) == ("right", None), finding
    return finding


def is_wrong(fault, *arguments, **options):
    report = pf.check(*arguments, **options)
    (finding,) = report.findings
    assert (finding.verdict, finding.fault) == ("wrong", fault), finding
    assert fault in str(report)
    return finding


def some_slow(cases, quick):
    """Return test cases from tuples (name, values..). One of every `quick` cases lacks the mark "slow"."""
    return [
        pytest.param(*values, id=name, marks=() if i % quick == quick // 2 else pytest.mark.slow)
        for i, (name, *values) in enumerate(cases)
    ]


# ---- no false alarm -------------------------------------------------------------------------------------------------


def _right_rows():
    """Yield (id, preset, formula, width, way): for each preset, its name and one other way to pass the encoding.

    way: key of `functions` in `test_rows_of_sources`, for the function that the test passes to `check`.
    """
    ways = itertools.cycle([("float64", 7), ("length", 16), ("bfloat16", 64), ("float32", 512)])
    for name, formula in ONE_AXIS.items():
        way, d = next(ways)
        d = 16 if d % 2 and FACTS[name].odd.startswith("ValueError") else d
        yield f"{name}-{way}", name, formula, d, way
        yield f"{name}-name", name, formula, 48, "name"


@pytest.mark.parametrize(("name", "formula", "d", "way"), some_slow(_right_rows(), 20))
def test_rows_of_sources(name, formula, d, way):
    encoding = presets.get(name)(d)
    functions = {
        "name": lambda p: formula(np.asarray(p, float), d),
        "float64": lambda p: formula(np.asarray(p, float), d),
        "float32": lambda p: encoding.encode(p, precision="float32"),
        "bfloat16": lambda p: formula(np.asarray(p, float), d).astype(DTYPES.get("bfloat16", np.float16)),
        "length": lambda n: formula(np.arange(n, dtype=float), d),
    }
    is_right(functions[way], name if way == "name" else encoding)


TABLES = {
    "pair": lambda t: t.tables,
    "halves": lambda t: lambda p: tuple(np.concatenate([each, each], -1) for each in t.tables(p)),
    "complex": lambda t: lambda p: t.tables(p)[0] + 1j * t.tables(p)[1],
    "stacked": lambda t: lambda p: np.stack(t.tables(p), -1),
    "side by side": lambda t: lambda p: np.concatenate(t.tables(p), -1),
    "matrices": lambda t: lambda p: _matrices(*t.tables(p)),
    "length": lambda t: lambda n: t.tables(np.arange(n)),
    "float16": lambda t: lambda p: tuple(each.astype(np.float16) for each in t.tables(p)),
    "rotation": lambda t: lambda x, p: t.rotate(x, *t.tables(p)),
    "one by one": lambda t: lambda p: tuple(each[0] for each in t.tables(np.array([float(p)]))),
}


def _matrices(cos, sin):
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


RIGHT = [(f"{name}-{way}", ROTARIES[name], way, np.float64) for name in ("neox", "yarn") for way in TABLES]
RIGHT += [(f"{name}-{way}", ROTARIES[name], way, np.float32) for name in ROTARIES for way in ("pair", "rotation")]


@pytest.mark.parametrize(("rotary", "way", "dtype"), some_slow(RIGHT, 3))
def test_tables_and_rotations(rotary, way, dtype):
    is_right(TABLES[way](Turns(rotary, dtype)), rotary)


@pytest.mark.parametrize("name", some_slow([(name, name) for name in STYLES], 4))
def test_programs_of_one_s_own_are_right_and_identified(name):
    style = STYLES[name]
    is_right(style.rows, style.encoding)
    assert "identified from the rows" in is_right(style.rows).says
    is_right(lambda n: style.rows(np.arange(n)), style.encoding)
    is_right(lambda position: style.rows(np.array([position]))[0], style.encoding)
    is_right(lambda positions: style.rows(positions).tolist(), style.encoding)


@pytest.mark.slow
def test_functions_of_torch_and_jax():
    torch = optional("torch")
    jnp = optional("jax").numpy
    sys.modules.setdefault("jax.numpy", jnp)

    def of_torch(t):
        w = torch.exp(torch.arange(0, 64, 2) * (-math.log(10000.0) / 64))
        angles = t[:, None].float() * w
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)

    def of_jax(t):
        w = 10000.0 ** (-jnp.arange(0, 64, 2) / 64)
        angles = jnp.einsum("p,w->pw", t, w)
        return jnp.stack([jnp.sin(angles), jnp.cos(angles)], 2).reshape(len(t), -1)

    for function in (of_torch, lambda n: of_torch(torch.arange(n)), of_jax):
        is_right(function, ENCODING)
        is_right(function)
    is_right(lambda t: of_torch(t).bfloat16(), ENCODING)
    is_wrong("start", lambda t: of_jax(t + 1), ENCODING)
    is_wrong("rounded", lambda t: of_torch(t.bfloat16()), ENCODING)


def test_integers_that_index_a_table():
    table, (cos, sin) = pf.positional_encoding(3000, 64), ROTARY.tables(2048)
    assert "up to position 2999" in is_right(lambda positions: table[positions], ENCODING).says
    config = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096}
    assert "4096" in is_wrong("length", lambda positions: (cos[positions], sin[positions]), config).says
    # positions that are not integers may be truncated
    assert "truncated" in is_right(lambda positions: ENCODING.encode(np.floor(positions)), ENCODING).says


def test_functions_may_change_their_arguments():
    def rows(positions):
        positions += 0
        encoded = ENCODING.encode(positions)
        positions *= 3
        return encoded

    def rotation(x, positions):
        x[:] = ROTARY.apply(x, positions=positions)
        return x

    is_right(rows, ENCODING)
    is_right(rotation, ROTARY)


def test_functions_may_compute_a_table_at_each_call():
    longest = []

    def rows(positions):
        longest.append(int(np.max(positions)) + 1)
        # four calls for each row, so that the time counts on a fast computer too
        return np.array([ENCODING.encode(p // 4) for p in range(4 * longest[-1])])[4 * positions]

    is_right(rows, ENCODING)
    assert max(longest) < 10**5


# ---- no fault missed ------------------------------------------------------------------------------------------------


def _rows_with_faults():
    """Yield (id, style, fault): each fault in the program of the paper, and in one of the other styles."""
    others = itertools.cycle([name for name in STYLES if name != "paper"])
    for fault in SINUSOIDAL_FAULTS:
        for name in ("paper", next(others)):
            yield f"{name}-{fault}", STYLES[name], fault


@pytest.mark.parametrize(("style", "fault"), some_slow(_rows_with_faults(), 9))
def test_faults_of_rows(style, fault):
    name, make = SINUSOIDAL_FAULTS[fault]
    finding = is_wrong(name, make(style), style.encoding)
    assert finding.largest_error > 0
    assert ("in the other rows" in finding.says) == (fault == "a padding row and one too far")


def _tables_with_faults():
    """Yield (id, expected fault, program, Rotary, dtype): each fault in two encodings."""
    scaled = {name: rotary for name, rotary in ROTARIES.items() if "scaling" in rotary._arguments()}
    for faults, rotaries in ((TABLE_FAULTS, ROTARIES), (SCALED_FAULTS, scaled)):
        names = itertools.cycle(rotaries)
        for (fault, (word, make)), dtype in itertools.product(faults.items(), (np.float64, np.float32)):
            name = next(names)
            yield f"{name}-{fault}", word, make, rotaries[name], dtype


@pytest.mark.parametrize(("word", "make", "rotary", "dtype"), some_slow(_tables_with_faults(), 11))
def test_faults_of_tables_and_rotations(word, make, rotary, dtype):
    is_wrong(word, make(Turns(rotary, dtype)), rotary)


def test_faults_of_random_programs(rng):
    """`check` finds faults of programs with random widths, bases and layouts."""
    names = list(SINUSOIDAL_FAULTS)
    for _ in range(12):
        style = Style(
            int(2 * rng.integers(6, 160)),
            str(rng.choice(["interleaved", "concatenated"])),
            bool(rng.integers(2)),
            float(rng.integers(2)),
            float(rng.choice([5000.0, 10000.0, 20000.0, 77777.0])),
            np.float64 if rng.integers(2) else np.float32,
        )
        is_right(style.rows, style.encoding)
        fault = names[rng.integers(len(names))]
        (finding,) = pf.check(SINUSOIDAL_FAULTS[fault][1](style), style.encoding).findings
        assert finding.verdict == "wrong", (style, fault, finding)


AXES = pf.fourier_features(np.random.default_rng(0).normal(size=(8, 3)))
OTHER = pf.sinusoidal(64, base=1000.0, layout="concatenated")


def _not_finite_from_9(rotary):
    return lambda x, p: rotary.apply(np.where(p[:, np.newaxis] < 9, x, np.nan), positions=p)


# (function, expected encoding, fault, words that the finding must contain once)
# fmt: off
WRONG = [
    # all faults of a function are named
    (lambda p: 2 * OTHER.encode(p + 1), ENCODING, "start", "position 1", "concatenated", "base is 1000", "multiplied by 2"),
    (lambda p: 2 * ENCODING.encode(p + 1), ENCODING, "start",
     "row p has the values of position p + 1, and all values are multiplied by 2"),
    (SINUSOIDAL_FAULTS["a padding row and one too far"][1](Style(64)), ENCODING, "padding", "in the other rows"),
    (lambda p: AXES.encode(p[:, [2, 0, 1]]), AXES, "layout", "the axes of a position are in another order"),
    (lambda p: AXES.encode(p[:, [1, 2, 0]]), AXES, "layout", "the axes of a position are in another order"),
    (lambda p: AXES.encode(p[:, [2, 1, 0]]), AXES, "layout", "the axes of a position are in reverse order"),
    (pf.sinusoidal(64, base=12345.6789, freq_shift=0.25).encode, pf.sinusoidal(64, freq_shift=0.25), "base",
     "the base is 12345.7 instead of 10000"),
    (lambda p: np.where((np.asarray(p) % 1 > 0)[:, None], 0.3, ENCODING.encode(p)), ENCODING, "frequencies"),
    (lambda p: pf.sinusoidal(63).encode(p), ENCODING, "shape", "63 columns"),
    (lambda p: ENCODING.encode(p + np.zeros(1)).T, ENCODING, "shape", "exchanged"),
    (lambda p: pf.Rotary(32).tables(p), ROTARY, "shape"),
    (lambda p: np.full((len(p), 64), np.nan), ENCODING, "values"),
    (lambda x, p: np.nan * x, ROTARY, "values"),
    (_not_finite_from_9(ROTARY), ROTARY, "values", "values that are not finite, first at position 9; called as"),
    (_not_finite_from_9(pf.Rotary(64, base=5e5)), ROTARY, "base",
     "values that are not finite, first at position 9; called as"),
]
# fmt: on


@pytest.mark.parametrize("case", WRONG)
def test_words_of_findings(case):
    function, expected, fault, *words = case
    says = is_wrong(fault, function, expected).says
    assert [says.count(word) for word in words] == [1] * len(words), says


def test_the_largest_error():
    for encoding in (ENCODING, AXES):
        assert is_right(encoding.encode, encoding).largest_error < 1e-6
    assert is_wrong("amplitude", lambda p: 2 * ENCODING.encode(p), ENCODING).largest_error == pytest.approx(1)
    assert is_wrong("sign", lambda p: -ENCODING.encode(p), ENCODING).largest_error == pytest.approx(2)


def test_every_row_of_short_and_long_tables_is_checked():
    def long(n):
        table = ENCODING.table(n)
        table[333:334] += 0.01
        return table

    finding = is_wrong("start", lambda n: ENCODING.table(n, start=0 if n > 32 else 1), ENCODING)
    assert "the rows of longer tables are right" in finding.says
    assert is_wrong("values", long, ENCODING).first_position == 333


def test_check_and_torch_are_imported_when_they_are_used():
    run = python("""if True:
        import sys, posenc_fast as pf
        assert not any('posenc_fast._models.check' in name for name in sys.modules)
        from posenc_fast.testing import assert_right
        assert_right(lambda p: pf.sinusoidal(64).encode(p), pf.sinusoidal(64))
        assert not {'torch', 'jax', 'transformers'} & set(sys.modules)
    """)
    assert run.returncode == 0, run.stderr


def test_each_fault_has_advice():
    assert set(report._ADVICE) == set(typing.get_args(report.Fault))
    # the advice for functions is about code, not about configs
    text = str(pf.check(lambda p: pf.Rotary(64, base=5e5).tables(p), ROTARY))
    assert "the expected Rotary has 10000" in text
    assert "divide by powers of the expected base" in text
    assert "config" not in text


# ---- bad input ------------------------------------------------------------------------------------------------------


FREQUENCIES = np.sort(np.random.default_rng(0).uniform(0.01, 1, 32))[::-1]
RANDOM = np.random.default_rng(3)
# (function, expected encoding, words of the finding)
# fmt: off
UNKNOWN = [
    (lambda p: 1 / 0, ENCODING, "ZeroDivisionError: division by zero"),
    (lambda p: None, ENCODING, "the call returned None"),
    (lambda p: "rows", ENCODING, "the call returned a value of type str"),
    (lambda p: np.array(["a", "b"]), ENCODING, "<U1"),
    (lambda p: {}, ENCODING, "the call returned a value of type dict"),
    (lambda: 0, ENCODING, "takes 0 positional arguments"),
    (lambda p: ENCODING.encode(p)[None].T, ENCODING, "(64, 11, 1)"),
    (lambda p: ENCODING.encode(p) + RANDOM.normal(size=(len(p), 64)), ENCODING, "returned different values"),
    # a preset that adds rows does not explain a function that rotates vectors
    (lambda x, positions: ROTARY.apply(x, positions=positions), "detr", "raised TypeError"),
    # without an expected encoding, the differences from known encodings may be intended
    (lambda p: pf.fourier_features(FREQUENCIES).encode(p), None, "pass expected"),
    (lambda p: ENCODING.encode(np.asarray(p) + 1), None, "position 1"),
    (lambda p: 8 * ENCODING.encode(p), None, "multiplied by 8"),
    (lambda p: 8 * pf.sinusoidal(64, base=5e5).encode(p), None, "multiplied by 8"),
]
# fmt: on


@pytest.mark.parametrize(("function", "expected", "words"), UNKNOWN)
def test_functions_that_cannot_be_judged_are_unknown(function, expected, words):
    finding = finding_of(function, expected)
    assert (finding.verdict, finding.fault) == ("unknown", None)
    assert words in finding.says
    assert "\n" not in finding.says
    assert ("pass expected" in finding.says) == (expected is None)


def test_functions_that_raise_are_wrong_with_call():
    for call in ("positions", "length"):
        finding = is_wrong("error", lambda p: 1 / 0, ENCODING, call=call)
        assert "ZeroDivisionError" in finding.says
    is_wrong("shape", lambda n: pf.positional_encoding(n + 1, 64), ENCODING, call="length")


@wrong_calls("""
    pf.check(np.sin, 3) | TypeError | expected must be a config, the path
    pf.check(np.sin, config=3) | TypeError | config must be
    pf.check(np.sin, "no_such_preset") | AttributeError | no_such_preset
    pf.check(np.sin, ENCODING, config={}) | TypeError | pass expected or config, not both
    pf.check(np.sin, ENCODING, call="rows") | ValueError | call must be 'positions' or 'length'
    pf.check(Style) | TypeError | source is the class Style
    pf.check(np.zeros((4, 4))) | TypeError | source must be a function
    pf.check(None) | TypeError | source must be a function
    pf.check([1.0], config={}) | TypeError | source must be a function
    pf.check(ENCODING) | TypeError | source must be a function
    pf.check({}, ENCODING) | TypeError | expected is for functions
    pf.check({}, call="length") | TypeError | call is for functions
    pf.check(ENCODING.encode, "nemos") | ValueError | pass an Encoding
    pf.check(ENCODING.encode, "alphafold3") | ValueError | pass an Encoding
""")
def test_errors_name_the_argument(call, error, words):
    raises(call, error, words)


def test_verdicts_without_expected():
    for fault in ("positions in float16", "frequencies in float16", "repeats after 512"):
        word, make = SINUSOIDAL_FAULTS[fault]
        is_wrong(word, make(Style(64)))
    # multiplied rows are right if a preset multiplies its rows by the same factor
    is_right(lambda p: pf.presets.x_transformers(64).encode(p))


# ---- assertions -----------------------------------------------------------------------------------------------------


def test_assertions_show_the_report():
    assert_right(ENCODING.encode, "annotated_transformer")
    assert_right({"inv_freq": pf.Rotary(64).frequencies})
    with pytest.raises(AssertionError, match="start: count positions from 0"):
        assert_right(lambda p: ENCODING.encode(p + 1), "annotated_transformer")
    with pytest.raises(AssertionError):
        assert_right({"bias": np.zeros(3)})
