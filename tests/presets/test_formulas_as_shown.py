"""Test the formulas in the facts of presets: they give the frequencies of each preset."""

from __future__ import annotations

import importlib
import inspect
import itertools
import re

import numpy as np
import pytest

from posenc_fast import presets
from posenc_fast.presets._registry import FACTS
from support.checkout import checkout
from support.preset_formulas import RECORDED, WITH_ARGUMENTS

PLACES = {"pi": np.pi, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "ceil": np.ceil}
PLACES |= {"linspace": lambda first, last, count: np.linspace(first, last, int(count))}
WEIGHTS = np.random.default_rng(20).normal(size=5)
SLIDING = [{}, {"layer_type": "sliding_attention"}]
# keys: presets. Values: arguments of calls. Each formula of a preset gives the frequencies of one of these calls. Tests
# call other presets with the arguments in `WITH_ARGUMENTS`, or with 24 columns.
CALLS = {
    **{name: [{"weights": WEIGHTS}] for name in RECORDED},
    **{name: [{"factor": 1.0}] for name in presets.names() if "divided by factor" in FACTS[name].frequency},
    "diffusers_2d": [{"embed_dim": 24, "grid_size": 8, "base_size": 6, "interpolation_scale": 3.0}],
    "diffusers_3d": [{"embed_dim": 48, "spatial_interpolation_scale": 2.0, "temporal_interpolation_scale": 3.0}],
    "edm": [{}, {"endpoint": True}],
    "fairseq2_3d": [{}, {"uniform_power": True}],
    "gemma3": [{"factor": 8.0}, {"layer_type": "sliding_attention"}],
    "gemma4": SLIDING,
    "loftr": [{}, {"temp_bug_fix": False}],
    "ltx2": [{}, {"axes": 1}],
    "lumina_next": [{"linear_factor": 2.0, "ntk_factor": 3.0}],
    "mimo_v2_flash": SLIDING,
    "modernbert": SLIDING,
    "nerf": [{"max_freq_log2": 7.0}, {"max_freq_log2": 7.0, "log_sampling": False}],
    "nemos": [{"masked_frequencies": np.arange(1, 6)[None], "period": 2.5}],
    "pytorch3d": [{"omega_0": 3.0}, {"omega_0": 3.0, "logspace": False}],
    "tensor2tensor_nd": [{"channels": 24}],
    "timm_fourier": [{}, {"linear_bands": True}, {"in_pixels": False}],
}
# keys: presets. Values: functions of the arguments of a call, which return values for letters and words in formulas
# that are not names of arguments.
LETTERS = {
    "cosmos": lambda a: {"D": [44, 42]},
    "dab_detr": lambda a: {"temperature": [a["temperature_height"], a["temperature_width"]]},
    "depthcharge": lambda a: {"n": [12]},
    "diffusers_2d": lambda a: {"s": [a["grid_size"]]},
    "mimo_v2_flash": lambda a: {"theta": [5e6 if a["layer_type"] == "full_attention" else 1e4]},
    "perceiver": lambda a: {"n": list(a["max_resolution"])},
    "pytorch3d": lambda a: {"n": [a["n_harmonic_functions"]]},
    "space2vec_grid": lambda a: {"n": [a["frequency_num"]]},
    "space2vec_theory": lambda a: {"n": [a["frequency_num"]]},
    "timm_fourier": lambda a: {"n": [a["num_bands"]]},
}
# presets without a formula: frequencies come from a checkpoint or another preset, or the facts give periods in words
WITHOUT = {"fone", "galileo_months", "geo_prior", "graphcast", "lightglue", "ltx2_split", "mochi", "satclip_wrap"}


def calls_of(name):
    if name in CALLS or name not in WITH_ARGUMENTS:
        return CALLS.get(name, [{}])
    arguments, options = WITH_ARGUMENTS[name][2][0]
    return [inspect.signature(presets.get(name)).bind(*arguments, **options).arguments]


def built(name, arguments):
    """Call a preset. Return the result and all arguments, including defaults."""
    build = presets.get(name)
    signature = inspect.signature(build)
    first = next(iter(signature.parameters), None)
    arguments = {first: 24} | arguments if FACTS[name].by_width else arguments
    bound = signature.bind(**arguments)
    bound.apply_defaults()
    return build(**arguments), bound.arguments


def expressions(text, names, monkeypatch):
    """Return the text of a fact with its formulas as Python expressions between dollar signs."""
    monkeypatch.syspath_prepend(checkout() / "docs")
    formulas = importlib.import_module("formulas")
    typeset = formulas.formula

    def formula(tokens, names):
        shown = typeset(tokens, names)
        return f"${formulas.in_python(tokens).replace('@', '*')}$" if shown.startswith("$") else shown

    with monkeypatch.context() as patch:
        patch.setattr(formulas, "formula", formula)
        return formulas.typeset(text, names)


def read(name, arguments, monkeypatch):
    """Return the formulas of a preset, and {name in a formula: list of values}.

    A list has one value for all axes, one for each axis, or one without and one with an option.
    """
    shown = [each for each in arguments if each not in ("frequencies", "functions")]
    text = expressions(FACTS[name].frequency, shown, monkeypatch)
    names = {key: list(value) if isinstance(value, (tuple, list)) else [value] for key, value in arguments.items()}
    names |= {"d": [next(iter(arguments.values()), None)]}
    if "where $D$ is the `axes_dim` of the axis" in text:
        names["D"] = list(arguments["axes_dim"])
    names |= LETTERS.get(name, lambda a: {})(arguments)
    formulas, last = [], None
    for formula in re.findall(r"\$(.+?)\$", text):
        firsts = {key: values[0] for key, values in names.items()}
        letter, equals, right = formula.partition(" == ")
        if "<<" in formula or re.fullmatch(r"\w+", formula):
            continue
        if equals and letter not in names:
            last = letter
            names[letter] = [value_of(right, firsts)]
        elif not equals and re.search(r"\b[ick]\b|linspace", formula):
            formulas.append(formula)
        elif not equals and last is not None:
            # a formula without = and without an index is another value of the name before it: the value for another
            # axis, or the value if an option is set
            names[last].append(value_of(formula, firsts))
    if "rounded down" in text:
        names["D"] = [int(value) for value in names["D"]]
    return formulas, names


def value_of(formula, scope):
    with np.errstate(divide="ignore", invalid="ignore"):
        return eval(formula, PLACES | scope)


def values_of(formula, scope, count):
    """Return all values of a formula that contains a linspace or an array, or else its first `count` values."""
    if "linspace" in formula or "[" in formula:
        return np.ravel(value_of(re.sub(r"\[.*\]", "", formula), scope))
    first = scope.get("min_deg", 0)
    return np.array([value_of(formula, scope | dict.fromkeys("ick", float(first + i))) for i in range(count)])


@pytest.mark.parametrize("name", presets.names())
def test_formulas_are_the_frequencies(name, monkeypatch):
    """Each frequency of a preset is a value of one of its formulas, and each formula has such values."""
    if name in WITHOUT:
        assert "$" not in expressions(FACTS[name].frequency, ["weights"], monkeypatch)
        return
    used = set()
    for call in calls_of(name):
        value, arguments = built(name, call)
        formulas, names = read(name, arguments, monkeypatch)
        rates = np.asarray(value.frequencies, np.float64)
        # the frequencies of space2vec_theory are vectors, whose lengths the formula gives
        rates = np.linalg.norm(rates, axis=1) if name == "space2vec_theory" else rates[rates != 0]
        found = np.zeros(len(rates), bool)
        for formula, numbers in itertools.product(formulas, itertools.product(*names.values())):
            values = values_of(formula, dict(zip(names, numbers, strict=True)), len(rates))
            equal = np.isclose(rates[:, np.newaxis], values, rtol=1e-12, atol=0).any(axis=1)
            used |= {formula} if equal.any() else set()
            found |= equal
        assert found.all(), f"{FACTS[name].frequency}: {call}"
    assert used == set(formulas), f"no call has the frequencies of {set(formulas) - used}"
