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
from support.fuzzing import DTYPES
from support.optional import optional
from support.own_code import (
    ROTARIES,
    ROTATION_FAULTS,
    SCALED_FAULTS,
    SINUSOIDAL_FAULTS,
    STYLES,
    TABLE_FAULTS,
    Style,
    Turns,
)
from support.preset_formulas import ONE_AXIS, SEVERAL_AXES, WITH_ARGUMENTS
from support.processes import python


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
        if FACTS[name].odd.startswith("ValueError") and d % 2:
            d = 16
        yield f"{name}-{way}", name, formula, d, way
        yield f"{name}-name", name, formula, 48, "name"


@pytest.mark.parametrize(("name", "formula", "d", "way"), some_slow(_right_rows(), 20))
def test_rows_of_sources(name, formula, d, way):
    encoding = presets.get(name)(d)
    functions = {
        "float64": lambda p: formula(np.asarray(p, float), d),
        "float32": lambda p: encoding.encode(p, precision="float32"),
        "bfloat16": lambda p: formula(np.asarray(p, float), d).astype(DTYPES.get("bfloat16", np.float16)),
        "length": lambda n: formula(np.arange(n, dtype=float), d),
    }
    functions["name"] = functions["float64"]
    is_right(functions[way], name if way == "name" else encoding)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=() if one == "mae" else pytest.mark.slow) for one in (*SEVERAL_AXES, *WITH_ARGUMENTS)],
)
def test_rows_over_several_axes(name):
    if name in SEVERAL_AXES:
        _, formula = SEVERAL_AXES[name]
        arguments, options = (48,), {}
    else:
        _, formula, calls = WITH_ARGUMENTS[name]
        # the first width of tensor2tensor_nd has no valid encoding
        arguments, options = calls[-1 if name == "tensor2tensor_nd" else 0]
    encoding = presets.get(name)(*arguments, **options)
    is_right(lambda p: formula(np.asarray(p, float), *arguments, **options), encoding)


TABLES = {
    "pair": lambda t: t.tables,
    "halves": lambda t: lambda p: tuple(np.concatenate([each, each], -1) for each in t.tables(p)),
    "complex": lambda t: lambda p: t.tables(p)[0] + 1j * t.tables(p)[1],
    "stacked": lambda t: lambda p: np.stack(t.tables(p), -1),
    "batch": lambda t: lambda p: tuple(each[None, None] for each in t.tables(p)),
    "side by side": lambda t: lambda p: np.concatenate(t.tables(p), -1),
    "matrices": lambda t: lambda p: _matrices(*t.tables(p)),
    "length": lambda t: lambda n: t.tables(np.arange(n)),
    "float16": lambda t: lambda p: tuple(each.astype(np.float16) for each in t.tables(p)),
    "rotation": lambda t: lambda x, p: t.rotate(x, *t.tables(p)),
    "one by one": lambda t: lambda p: tuple(each[0] for each in t.tables(np.array([float(p)]))),
}


def _matrices(cos, sin):
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


@pytest.mark.parametrize("way", TABLES)
@pytest.mark.parametrize("name", ["neox", pytest.param("yarn", marks=pytest.mark.slow)])
def test_tables_and_rotations(name, way):
    is_right(TABLES[way](Turns(ROTARIES[name])), ROTARIES[name])


@pytest.mark.parametrize("name", ROTARIES)
def test_tables_and_rotations_in_float32(name):
    turns = Turns(ROTARIES[name], np.float32)
    is_right(TABLES["pair"](turns), ROTARIES[name])
    is_right(TABLES["rotation"](turns), ROTARIES[name])


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
        is_right(function, pf.sinusoidal(64))
        is_right(function)
    is_right(lambda t: of_torch(t).bfloat16(), pf.sinusoidal(64))
    is_wrong("start", lambda t: of_jax(t + 1), pf.sinusoidal(64))
    is_wrong("rounded", lambda t: of_torch(t.bfloat16()), pf.sinusoidal(64))


def test_integers_that_index_a_table():
    table = pf.positional_encoding(3000, 64)
    finding = is_right(lambda positions: table[positions], pf.sinusoidal(64))
    assert "up to position 2999" in finding.says
    config = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096}
    cos, sin = pf.Rotary(64).tables(2048)
    finding = is_wrong("length", lambda positions: (cos[positions], sin[positions]), config)
    assert "4096" in finding.says


def test_real_positions_may_be_truncated():
    encoding = pf.sinusoidal(64)
    finding = is_right(lambda positions: encoding.encode(np.floor(positions)), encoding)
    assert "truncated" in finding.says
    is_wrong("frequencies", lambda p: np.where((np.asarray(p) % 1 > 0)[:, None], 0.3, encoding.encode(p)), encoding)


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


def _tables_with_faults():
    """Yield (id, expected fault, program, Rotary, dtype): each fault in two encodings."""
    scaled = {name: rotary for name, rotary in ROTARIES.items() if "scaling" in rotary._arguments()}
    rotations = {f"rotation: {key}": one for key, one in ROTATION_FAULTS.items()}
    for faults, rotaries in ((TABLE_FAULTS | rotations, ROTARIES), (SCALED_FAULTS, scaled)):
        names = itertools.cycle(rotaries)
        for fault, (word, make) in faults.items():
            for dtype in (np.float64, np.float32):
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


def test_several_faults_are_all_named():
    other = pf.sinusoidal(64, base=1000.0, layout="concatenated")
    finding = is_wrong("start", lambda p: 2 * other.encode(p + 1), pf.sinusoidal(64))
    for words in ("position 1", "concatenated", "base is 1000", "multiplied by 2"):
        assert words in finding.says
    encoding = pf.sinusoidal(64)
    finding = is_wrong("start", lambda p: 2 * encoding.encode(p + 1), encoding)
    assert "row p has the values of position p + 1, and all values are multiplied by 2" in finding.says
    # the finding about a row of zeros also names the fault of the other rows, if they have one
    for fault, other_rows in (("a padding row", False), ("a padding row and one too far", True)):
        finding = is_wrong("padding", SINUSOIDAL_FAULTS[fault][1](Style(64)), encoding)
        assert ("in the other rows" in finding.says) is other_rows


def test_axes_in_another_order(rng):
    encoding = pf.fourier_features(rng.normal(size=(8, 3)))
    for order, words in (([2, 0, 1], "another order"), ([1, 2, 0], "another order"), ([2, 1, 0], "reverse order")):
        finding = is_wrong("layout", lambda p, order=order: encoding.encode(p[:, order]), encoding)
        assert f"the axes of a position are in {words}" in finding.says


def test_another_base_of_frequencies_without_a_preset():
    encoding, other = (pf.sinusoidal(64, base=base, freq_shift=0.25) for base in (10000.0, 12345.6789))
    assert "the base is 12345.7 instead of 10000" in is_wrong("base", other.encode, encoding).says


def test_the_largest_error():
    encoding = pf.sinusoidal(64)
    assert is_right(encoding.encode, encoding).largest_error < 1e-6
    assert is_wrong("amplitude", lambda p: 2 * encoding.encode(p), encoding).largest_error == pytest.approx(1)
    assert is_wrong("sign", lambda p: -encoding.encode(p), encoding).largest_error == pytest.approx(2)


def test_every_row_of_short_and_long_tables_is_checked():
    def short(n):
        return pf.sinusoidal(64).table(n, start=0 if n > 32 else 1)

    def long(n):
        table = pf.sinusoidal(64).table(n)
        table[333:334] += 0.01
        return table

    assert "the rows of longer tables are right" in is_wrong("start", short, pf.sinusoidal(64)).says
    assert is_wrong("values", long, pf.sinusoidal(64)).first_position == 333


def test_torch_is_not_imported_for_functions():
    run = python("""if True:
        import sys, posenc_fast as pf
        from posenc_fast.testing import assert_right
        assert_right(lambda p: pf.sinusoidal(64).encode(p), pf.sinusoidal(64))
        assert not {'torch', 'jax', 'transformers'} & set(sys.modules)
    """)
    assert run.returncode == 0, run.stderr


def test_functions_may_change_their_arguments():
    def rows(positions):
        positions += 0
        encoded = pf.sinusoidal(64).encode(positions)
        positions *= 3
        return encoded

    is_right(rows, pf.sinusoidal(64))
    turns = Turns(pf.Rotary(64))

    def rotation(x, positions):
        x[:] = turns.rotate(x, *turns.tables(positions))
        return x

    is_right(rotation, pf.Rotary(64))


def test_additive_presets_are_not_compared_with_rotations():
    """A preset that adds rows does not explain a function that rotates vectors."""
    turns = Turns(pf.Rotary(64))
    finding = finding_of(lambda x, positions: turns.rotate(x, *turns.tables(positions)), "detr")
    assert (finding.verdict, "raised TypeError" in finding.says) == ("unknown", True)


def test_functions_may_compute_a_table_at_each_call():
    longest = []

    def rows(positions):
        longest.append(int(np.max(positions)) + 1)
        return np.array([pf.sinusoidal(64).encode(p) for p in range(longest[-1])])[positions]

    is_right(rows, pf.sinusoidal(64))
    assert max(longest) < 10**5


def test_other_values_at_each_call_are_unknown():
    rng = np.random.default_rng(3)
    finding = finding_of(lambda p: pf.sinusoidal(64).encode(p) + rng.normal(size=(len(p), 64)), pf.sinusoidal(64))
    assert (finding.verdict, "returned different values" in finding.says) == ("unknown", True)


def test_each_fault_has_advice():
    assert set(report._ADVICE) == set(typing.get_args(report.Fault))
    # the advice for functions is about code, not about configs
    text = str(pf.check(lambda p: pf.Rotary(64, base=5e5).tables(p), pf.Rotary(64)))
    assert "the expected Rotary has 10000" in text
    assert "divide by powers of the expected base" in text
    assert "config" not in text


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda p: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda p: None, "the call returned None"),
        (lambda p: "rows", "the call returned a value of type str"),
        (lambda p: np.array(["a", "b"]), "<U1"),
        (lambda p: {}, "the call returned a value of type dict"),
        (lambda: 0, "takes 0 positional arguments"),
        (lambda p: pf.sinusoidal(64).encode(p)[None].T, "(64, 11, 1)"),
    ],
)
def test_functions_that_cannot_be_judged_are_unknown(function, words):
    finding = finding_of(function, pf.sinusoidal(64))
    assert finding.verdict == "unknown"
    assert words in finding.says
    assert "\n" not in finding.says


def test_functions_that_raise_are_wrong_with_call():
    for call in ("positions", "length"):
        finding = is_wrong("error", lambda p: 1 / 0, pf.sinusoidal(64), call=call)
        assert "ZeroDivisionError" in finding.says


def test_other_widths_and_values_that_are_not_finite():
    encoding = pf.sinusoidal(64)
    assert "63 columns" in is_wrong("shape", lambda p: pf.sinusoidal(63).encode(p), encoding).says
    assert "exchanged" in is_wrong("shape", lambda p: encoding.encode(p + np.zeros(1)).T, encoding).says
    is_wrong("shape", lambda p: pf.Rotary(32).tables(p), pf.Rotary(64))
    is_wrong("values", lambda p: np.full((len(p), 64), np.nan), encoding)
    is_wrong("shape", lambda n: pf.positional_encoding(n + 1, 64), encoding, call="length")
    rotary = pf.Rotary(64)
    is_wrong("values", lambda x, p: np.nan * x, rotary)
    for fault, other in (("values", rotary), ("base", pf.Rotary(64, base=5e5))):

        def rotated(x, p, other=other):
            return other.apply(np.where(p[:, np.newaxis] < 9, x, np.nan), positions=p)

        says = is_wrong(fault, rotated, rotary).says
        assert says.count("values that are not finite, first at position 9; called as") == 1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((np.sin, 3), {}, TypeError, "expected must be a config, the path"),
        ((np.sin,), {"config": 3}, TypeError, "config must be"),
        ((np.sin, "no_such_preset"), {}, AttributeError, "no_such_preset"),
        ((np.sin, pf.sinusoidal(4)), {"config": {}}, TypeError, "pass expected or config, not both"),
        ((np.sin, pf.sinusoidal(4)), {"call": "rows"}, ValueError, "call must be 'positions' or 'length'"),
        ((Style,), {}, TypeError, "source is the class Style"),
        ((np.zeros((4, 4)),), {}, TypeError, "source must be a function"),
        ((None,), {}, TypeError, "source must be a function"),
        (([1.0],), {"config": {}}, TypeError, "source must be a function"),
        ((pf.sinusoidal(4),), {}, TypeError, "source must be a function"),
        (({}, pf.sinusoidal(4)), {}, TypeError, "expected is for functions"),
        (({},), {"call": "length"}, TypeError, "call is for functions"),
        ((lambda p: pf.sinusoidal(64).encode(p), "nemos"), {}, ValueError, "pass an Encoding"),
        ((lambda p: pf.sinusoidal(64).encode(p), "alphafold3"), {}, ValueError, "pass an Encoding"),
    ],
)
def test_errors_name_the_argument(arguments, options, error, words):
    with pytest.raises(error, match=words):
        pf.check(*arguments, **options)


def test_unusual_encodings_are_unknown_without_expected(rng):
    frequencies = np.sort(rng.uniform(0.01, 1, 32))[::-1]
    finding = finding_of(lambda p: pf.fourier_features(frequencies).encode(p))
    assert (finding.verdict, finding.fault) == ("unknown", None)
    assert "pass expected" in finding.says
    for function, words in (
        (lambda p: pf.sinusoidal(64).encode(np.asarray(p) + 1), "position 1"),
        (lambda p: 8 * pf.sinusoidal(64).encode(p), "multiplied by 8"),
        (lambda p: 8 * pf.sinusoidal(64, base=5e5).encode(p), "multiplied by 8"),
    ):
        finding = finding_of(function)
        assert finding.verdict == "unknown"
        assert words in finding.says
        assert "pass expected" in finding.says
    # without an expected encoding, multiplied rows are right if a preset multiplies its rows by the same factor
    is_right(lambda p: pf.presets.x_transformers(64).encode(p))


def test_rounding_and_lengths_are_known_without_expected():
    for fault in ("positions in float16", "frequencies in float16", "repeats after 512"):
        word, make = SINUSOIDAL_FAULTS[fault]
        is_wrong(word, make(Style(64)))


# ---- assertions -----------------------------------------------------------------------------------------------------


def test_assertions_show_the_report():
    assert_right(Style(64).rows, "annotated_transformer")
    assert_right({"inv_freq": pf.Rotary(64).frequencies})
    with pytest.raises(AssertionError, match="start: count positions from 0"):
        assert_right(lambda p: Style(64).rows(p + 1), "annotated_transformer")
    with pytest.raises(AssertionError):
        assert_right({"bias": np.zeros(3)})
