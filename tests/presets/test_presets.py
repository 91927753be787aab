"""Compare presets with independent formulas, and the stored facts about each preset with its results."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets
from posenc_fast.presets import _other_names, _registry
from posenc_fast.presets._families import FAMILIES
from posenc_fast.presets._registry import FACTS
from support.checkout import checkout
from support.preset_formulas import ONE_AXIS, RECORDED, SEVERAL_AXES, WITH_ARGUMENTS, call
from support.processes import python
from support.tables import each_line

# rotary presets are tested in tests/rotary
ENCODINGS = tuple(name for name in presets.names() if not FACTS[name].rotary)
WIDTHS = (*range(1, 9), 15, 16, 17, 20, 24, 36, 48)
# keys: presets. Values: calls with options, as (arguments, options).
OPTIONS = {
    "aurora": [call(8, lower=1 / 60, upper=504.0)],
    "clay": [call(32, gsd=10.0)],
    "depthcharge": [call(9, min_wavelength=0.1, max_wavelength=50.0)],
    "diffusers_3d": [call(32, spatial_interpolation_scale=2.0, temporal_interpolation_scale=1.5)],
    "diffusers_timesteps": [call(9, flip_sin_to_cos=True), call(16, downscale_freq_shift=0.5, scale=1000.0)],
    "edm": [call(8, endpoint=True)],
    "espnet_scaled": [call(6, alpha=-0.3)],
    "fairseq2_3d": [call(d, uniform_power=True) for d in (14, 16, 24)],
    "flaxformer_rotary": [call(8, functions=("cos", "cos"), min_timescale=2.0)],
    "flux_timesteps": [call(8, time_factor=1.0)],
    "funnel": [call(6, part=part) for part in ("pi", "psi", "omega")],
    "loftr": [call(16, temp_bug_fix=False)],
    "mlx": [call(8, cos_first=True, scale=1.0), call(8, full_turns=True, min_freq=0.01, max_freq=2.0)],
    "monai": [call(12, spatial_dims=2)],
    "pi0": [call(8, min_period=0.1, max_period=2.0)],
    "pyg": [call(8, base_freq=0.1, granularity=4.0)],
    "qwen_omni_timesteps": [call(8, scale=1.0)],
    "sockeye": [call(8, scale_down_positions=True)],
    "speechbrain_rotary": [call(8, functions=("cos", "cos"))],
    "tatp22": [call(7, ndim=2), call(20, ndim=3)],
    "tensor2tensor": [call(9, min_timescale=2.0, max_timescale=50.0)],
    "timm": [call(8, reverse_coord=True), call(8, interleave_sin_cos=True)],
    "wavegrad": [call(8, scale=1.0)],
    "wavegrad_swapped": [call(8, scale=1.0)],
    "x_transformers": [call(8, scale=2.0)],
}
CALLS = [(name, *each) for name, calls in OPTIONS.items() for each in calls]
CALLS += [(name, *each) for name, (_, _, calls) in WITH_ARGUMENTS.items() for each in calls]


def same(encoding, positions, expected):
    """Assert that rows have the expected width, and the expected values up to rounding errors of angles."""
    assert encoding.d_model == expected.shape[1]
    got = encoding.encode(positions, dtype=np.float64)
    rows = positions.reshape(len(positions), -1)
    angle = np.abs(rows) @ np.abs(encoding.frequencies.reshape(encoding.d_model, -1)).max(axis=0)
    np.testing.assert_array_less(np.abs(got - expected).max(axis=1), 1e-15 + 4e-15 * np.maximum(angle, 1))


def positions_of(axes, rng):
    positions = np.concatenate([np.arange(5.0)[:, None] * np.ones(axes), rng.uniform(-30, 30, size=(20, axes))])
    return positions[:, 0] if axes == 1 else positions


@pytest.mark.parametrize("name", sorted({**ONE_AXIS, **SEVERAL_AXES}))
def test_formula_at_all_widths(name, rng):
    axes, formula = SEVERAL_AXES.get(name) or (1, ONE_AXIS[name])
    positions, fits = positions_of(axes, rng), 0
    for d in WIDTHS:
        expected = formula(positions, d)
        if expected is None:
            with pytest.raises(ValueError, match=rf"={d} |, not {d}"):
                presets.get(name)(d)
        else:
            same(presets.get(name)(d), positions, expected)
            fits += 1
    assert fits >= 2


@pytest.mark.parametrize(("name", "arguments", "options"), CALLS, ids=str)
def test_formula_with_arguments(name, arguments, options, rng):
    axes, formula, *_ = WITH_ARGUMENTS.get(name) or SEVERAL_AXES.get(name) or (1, ONE_AXIS[name])
    axes, build = options.get("ndim", options.get("spatial_dims", axes)), presets.get(name)
    positions = positions_of(axes, rng)
    expected = formula(positions, *arguments, **options)
    if expected is None:
        with pytest.raises(ValueError, match=rf"={arguments[0]} "):
            build(*arguments, **options)
    else:
        same(build(*arguments, **options), positions, expected)
    if name not in WITH_ARGUMENTS:
        assert build(*arguments, **options) != build(*arguments)


def test_every_preset_has_a_formula():
    """Each preset is compared with a formula, or with recorded outputs."""
    covered = [*ONE_AXIS, *SEVERAL_AXES, *WITH_ARGUMENTS, *RECORDED]
    assert sorted(covered) == list(ENCODINGS)


BASES = [
    (name, option)
    for name in ENCODINGS
    for option in inspect.signature(presets.get(name)).parameters
    if option in ("base", "max_len", "max_period", "max_positions", "max_timescale", "max_wavelength", "theta")
    or option.startswith("temperature")
]


def test_bases():
    """Each frequency is a power of the base, times a factor that does not depend on the base."""
    start = {"pi0": {"min_period": 1.0}, "depthcharge": {"min_wavelength": 1.0}, "timm_fourier": {"in_pixels": False}}
    for name, option in BASES:
        build, more = presets.get(name), start.get(name, {})
        d = 4 if name == "timm_fourier" else 24
        one, low, high = (build(d, **more, **{option: base}).frequencies for base in (1.0, 100.0, 10000.0))
        np.testing.assert_allclose(low**2, one * high, rtol=1e-12, err_msg=f"{name} {option}")
        assert (low > high).any() or (low < high).any(), (name, option)


def test_every_option_is_tested():
    tested = {(name, option) for name, _, options in CALLS for option in options} | {*BASES}
    # each keyword-only argument must be in `tested`, except frequencies and input_dims, which other tests cover
    for name in ENCODINGS:
        for parameter in inspect.signature(presets.get(name)).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in ("frequencies", "input_dims"):
                assert (name, parameter.name) in tested, (name, parameter)


def test_number_of_axes_is_an_option(rng):
    x = rng.normal(size=(4, 5))
    calls = dict.fromkeys(("nerf", "pytorch3d", "tiny_cuda_nn"), (3,))
    for name, arguments in {**calls, "mip_nerf": (0, 3), "geoclip_positional": (2.0, 3)}.items():
        assert presets.get(name)(*arguments, input_dims=5).encode(x).shape == (4, 30), name


# ---- facts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", sorted({*FAMILIES.values()}))
def test_facts_are_those_of_the_function(family):
    for name in (name for name in presets.names() if FAMILIES[name] == family):
        facts, build = FACTS[name], presets.get(name)
        assert facts.build is build is getattr(presets, name)
        # users see presets.__all__, and type checkers read the __all__ of each module
        assert name in {*presets.__all__} & {*sys.modules[build.__module__].__all__}, name
        assert all((facts.source, facts.frequency, facts.layout, facts.positions, facts.odd)), name
        assert facts.differs or facts.axes != "1", name
        parameters = list(inspect.signature(build).parameters.values())
        assert not facts.by_width or all(p.default is not p.empty for p in parameters[1:]), name
        document = inspect.getdoc(build)
        for section in ("Parameters", "Returns", "Raises", "Notes", "References"):
            assert f"\n{section}\n{'-' * len(section)}\n" in document, name
        words = " ".join(document.split())
        assert (f"differs from {facts.original}: " in words) == bool(facts.differs), name
        assert ("the same function in: " in words) == bool(facts.also), name
        for parameter in parameters:
            assert re.search(rf"^(\w+, )*{parameter.name}(, \w+)* : ", document, re.MULTILINE), name


@pytest.mark.parametrize("name", sorted(name for name in presets.names() if FACTS[name].by_width))
def test_odd_widths_do_what_the_facts_say(name):
    said, build = FACTS[name].odd, presets.get(name)
    more = {"one column less": -1, "one column more": 1}.get(said.partition(" than requested")[0], 0)
    assert more or re.match("ValueError|zero|crop|one sine more|any number", said)
    for d in (7, 17):
        if said.startswith("ValueError"):
            with pytest.raises(ValueError, match=str(d)):
                build(d)
            continue
        encoding = build(d)
        assert encoding.d_model == d + more
        if not more:
            last = encoding.encode(np.full((3, encoding.ndim), 7.0).squeeze())[..., -1]
            assert last.any() != said.startswith("zero")


def test_numbers_of_axes_are_those_of_the_facts():
    for name in ENCODINGS:
        said, build, arguments = FACTS[name].axes, presets.get(name), required(name)
        parameters = inspect.signature(build).parameters
        if said in parameters:
            said = str(arguments.get(said, parameters[said].default))
        # "any number" means that an array of the caller determines the number of axes
        assert said == "any number" or str(build(**arguments).ndim) in said.split(" or "), name


# ---- look-up ----------------------------------------------------------------------------------------------------


def test_other_names_lead_to_presets():
    """The names in `_other_names` are not names of presets, and the calls that they lead to are valid."""
    known = {*_other_names.OTHER_NAMES, *_other_names.LEARNED, *_other_names.ELSEWHERE}
    assert len(known) == sum(map(len, (_other_names.OTHER_NAMES, _other_names.LEARNED, _other_names.ELSEWHERE)))
    assert not known & set(presets.names())
    for calls in _other_names.OTHER_NAMES.values():
        for each in calls:
            assert eval(f"presets.{each if '(' in each else f'get({each!r})'}", {"presets": presets})
    for text in _other_names.ELSEWHERE.values():
        for name in re.findall(r"\b[a-z]+_[a-z0-9_]+\b|\b(?:mae|roformer|llama)\b", text.replace("posenc_fast.", "")):
            assert name in presets.names()


def test_search():
    for words in ("stable diffusion", "stable-diffusion"):
        assert "diffusers_timesteps" in presets.search(words)
    for words in ("qwen2-vl", "multimodal", "mrope"):
        assert "qwen2_vl" in presets.search(words)
    assert presets.search("stable", "DIFFUSION") == presets.search("Stable  Diffusion")
    assert presets.search("pytorch tutorial")[0] == "annotated_transformer"
    assert {name for name in presets.names() if FACTS[name].rotary} < set(presets.search("rotary"))
    assert presets.search("whisper", "flux2") == presets.search("§") == ()
    assert presets.search("e") == presets.names()
    # search also finds words in the titles of families, and ignores case, points and hyphens
    assert {"ddpm", "edm", "flux", "wan", "diffusers_timesteps"} < set(presets.search("diffusion"))
    assert presets.search("Llama-3.1") == presets.search("llama 3.1") == presets.search("llama3.1") == ("llama3",)
    for words in ((), ("",), (" ", "")):
        with pytest.raises(ValueError, match="words is empty"):
            presets.search(*words)
    with pytest.raises(TypeError, match="words must be strings, not 3"):
        presets.search("whisper", 3)


def test_names_are_sorted_and_complete():
    assert list(presets.names()) == sorted(presets.names())
    assert sorted(presets.__all__) == sorted([*presets.names(), "get", "names", "positions", "search", "table"])


UNKNOWN = r"""
wisper | no preset 'wisper'; perhaps whisper
aimv2 | no preset 'aimv2'; perhaps mae
streaming | no preset 'streaming'; perhaps streampetr_time, sam, hidream$
BERT4Keras | perhaps annotated_transformer
qqqqqq | no preset 'qqqqqq'; posenc_fast.presets.names\(\) lists all presets
diffusers | perhaps diffusers_3d(, \w+){7}, or another result of search\('diffusers'\)
stable_diffusion | ; use diffusers_timesteps\(320, flip_sin_to_cos=True, downscale_freq_shift=0\)$
Stable-Diffusion XL | ; use diffusers_timesteps\(
pytorch_tutorial | ; use annotated_transformer$
vit | ; ViT's positions are learned, .* mae and simple_vit
bert | ; the positions of that model are learned, and have no formula$
GPT-2 | ; the positions of that model are learned
rope | ; posenc_fast\.Rotary is RoPE
phi-3 | ; posenc_fast\.Rotary\.from_config reads the config\.json of that model$
"""


@each_line(f"name | words{UNKNOWN}")
def test_unknown_names(name, words):
    with pytest.raises(AttributeError, match=words):
        presets.get(name)
    with pytest.raises(AttributeError, match=words):
        getattr(presets, name)


def test_names_that_are_refused():
    with pytest.raises(ValueError, match="'flux' is a Rotary, not an Encoding"):
        _registry.encoding_preset("flux")
    with pytest.raises(TypeError, match="name must be a string, not 7"):
        presets.get(7)
    with pytest.raises(AttributeError, match="no preset ''; posenc_fast"):
        presets.get("")
    with pytest.raises(AttributeError, match="no attribute '_nothing'"):
        presets._nothing  # noqa: B018


BAD_CALLS = r"""
whisper(7) | ValueError | channels=7 is odd, but .* has only even widths; give 8 or 6
whisper(1) | ValueError | channels=1 is odd, but .* has only even widths; give 2$
whisper(0) | ValueError | channels must be at least 1, not 0
whisper(8, max_timescale=-1.0) | ValueError | max_timescale must be a finite positive number, not -1.0
whisper(8, frequencies="double") | ValueError | must be one of 'exact', 'float32', not 'double'
mae(6) | ValueError | embed_dim=6 must be a multiple of 4, so that each of 2 axes .*; give 8
monai(9) | ValueError | embed_dim=9 must be a multiple of 6, so that each of 3 axes .*; give 12
monai(8, spatial_dims=4) | ValueError | spatial_dims must be 2 or 3, not 4
funnel(8, part="chi") | ValueError | part must be one of 'phi', .*, not 'chi'
tensor2tensor(8, min_timescale=0) | ValueError | min_timescale must be a finite positive number
tensor2tensor_nd(5, 3) | ValueError | channels=5 has less than one pair of columns for each of 3 axes; give at least 6
tatp22(7, 3) | ValueError | channels=7 leaves no column for the last of 3 axes; give 12
fairseq2_2d(2) | ValueError | encoding_dim=2 leaves no column for the last of 2 axes; .* such as 4
fairseq2_3d(8, uniform_power=True) | ValueError | encoding_dim=8 leaves no column for the last of 3 axes; .* such as 12
diffusers_timesteps(16, downscale_freq_shift=8) | ValueError | downscale_freq_shift=8 makes the denominator of the exponents zero for 8 freq
hyena(8, 40) | ValueError | emb_dim=8 must be odd .*; give 7 or 9
sam([1.0, 2.0]) | ValueError | gaussian_matrix has shape \(2,\), but must have shape \(axes, k\)
tancik([np.nan]) | ValueError | weights must be finite
nemos([[0, 1], [-1, 0]]) | ValueError | masked_frequencies must be a non-empty array of whole numbers
nemos([[0.5]]) | ValueError | masked_frequencies must be a non-empty array of whole numbers
nemos([[]]) | ValueError | masked_frequencies must be a non-empty array
nemos([[1], [2]], period=[1.0]) | ValueError | period has 1 numbers, .* each of 2 axes
plr([1.0, 2.0]) | ValueError | weight has shape \(2,\), but must have shape \(features, k\)
pbld([[1.0, 2.0]], [[1.0], [2.0]]) | ValueError | bias_1 has shape \(2, 1\), but must .* of weight_1, \(1, 2\)
rbf_sampler([[1.0, 2.0]], [1.0]) | ValueError | random_offset has shape \(1,\), but must have shape \(2,\)
fone(43) | ValueError | embedding_dim=43 leaves no columns .* 22 periods; give at least 44
fone(44, period_base_list=7) | TypeError | period_base_list must be a sequence of numbers, not 7
tancik(0.5) | ValueError | weights has shape \(\), but must have shape \(k,\) or \(k, axes\)
alphafold3([1.0], [0.0, 0.5]) | ValueError | biases has shape \(2,\), but must have shape \(1,\)
fone(44, period_base_list=(2, -5)) | ValueError | period_base_list must be a finite positive
mip_nerf(3, 3) | ValueError | max_deg must be at least 4, not 3
nerfstudio(3, 5, 1e300, 1) | ValueError | min_freq_exp=1e\+300 must lie between -1000 and 1000
nerfstudio(3, 5, 0, np.inf) | ValueError | max_freq_exp must be a finite number, not inf
"""


@each_line(f"call | error | words{BAD_CALLS}")
def test_bad_arguments(call, error, words):
    with pytest.raises({"TypeError": TypeError, "ValueError": ValueError}[error], match=words):
        eval(f"presets.{call}", {"presets": presets, "np": np})


def required(name):
    """Return simple arguments for the parameters of a preset that have no default."""
    some = {
        "weights": [1.0], "weight": [[1.0]], "weight_1": [[1.0]], "random_weights": [[1.0]], "gaussian_matrix": [[1.0]],
        "biases": [0.0], "bias_1": [[0.0]], "random_offset": [0.0],
        "min_freq_exp": 0.0, "max_freq_exp": 1.0, "sigma": 2.0, "emb_dim": 49,
    }  # fmt: skip
    parameters = inspect.signature(presets.get(name)).parameters.values()
    return {p.name: some.get(p.name, 48) for p in parameters if p.default is p.empty}


@pytest.mark.parametrize("name", ENCODINGS)
def test_errors_name_the_argument(name):
    """Text, NaN and None (unless allowed) in place of a number raise an error that names the parameter."""
    build = presets.get(name)
    for p in inspect.signature(build).parameters.values():
        if not isinstance(p.default, float) and p.annotation not in ("int", "float", "float | None"):
            continue
        arguments = required(name)
        if (name, p.name) == ("timm_fourier", "temperature"):
            arguments["in_pixels"] = False
        for bad, kind in (("7", TypeError), (None, TypeError), (np.nan, (TypeError, ValueError))):
            if bad is not None or "None" not in p.annotation:
                with pytest.raises(kind, match=f"^{p.name} must be a"):
                    build(**arguments | {p.name: bad})


# ---- the documentation ------------------------------------------------------------------------------------------


def test_table_of_the_documentation_is_current():
    root = checkout()
    script = python(root / "docs" / "make_presets.py", "--print")
    files = ("posenc_fast/presets/_families.py", "docs/presets.md")
    written = "".join((root / file).read_text(encoding="utf-8") for file in files)
    assert written == script.stdout, f"python docs/make_presets.py is due: {script.stderr}"


def test_table_has_a_row_for_each():
    lines = presets.table().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(presets.names())
    assert {line.count(" | ") for line in lines} == {lines[0].count(" | ")}
    parts = [presets.table(rotary=rotary).splitlines()[2:] for rotary in (False, True)]
    assert sorted(parts[0] + parts[1]) == sorted(lines[2:])
    assert [line.split("`")[1] for line in parts[0]] == list(ENCODINGS)


def fresh(code):
    """Run code in a new process without errors, and return its output."""
    run = python(code)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_a_family_is_imported_when_one_of_its_names_is_used():
    steps = [
        ("import posenc_fast as pf", set()),
        ("presets = pf.presets; presets.names(), dir(presets), presets.__all__, presets.get, presets.search", set()),
        ("presets.whisper", {"_speech"}),
        # _axes imports _language, because tensor2tensor_nd calls tensor2tensor
        ("presets.get('tatp22')", {"_speech", "_axes", "_language"}),
        ("presets.search('whisper')", {*FAMILIES.values()}),
    ]
    code = "import sys\n" + "".join(f"{step}\nprint(*sys.modules)\n" for step, _ in steps)
    for (step, families), line in zip(steps, fresh(code).splitlines(), strict=True):
        loaded = {name.removeprefix("posenc_fast.") for name in line.split() if name.startswith("posenc_fast.")}
        assert {name for name in FAMILIES.values() if f"presets.{name}" in loaded} == families, step
        assert not loaded & {"presets.positions", "_models.identify"}
        assert ("presets" in loaded) == (step != steps[0][0])
    with pytest.raises(AttributeError, match="module 'posenc_fast' has no attribute 'preset'"):
        pf.preset  # noqa: B018


def test_type_checkers_read_every_family():
    source = Path(presets.__file__).read_text(encoding="utf-8")
    assert {*re.findall(r"^    from \.(\w+) import \*$", source, re.MULTILINE)} == {*FAMILIES.values()}


def test_star_import_and_help_have_every_preset():
    code = "from posenc_fast.presets import *; names = dir(); import posenc_fast.presets, pydoc; print(*names)\n"
    names, _, text = fresh(code + "print(pydoc.plain(pydoc.render_doc(posenc_fast.presets)))").partition("\n")
    assert {*presets.__all__} <= {*names.split()}
    assert all(f"    {name}(" in text for name in presets.names())


def test_threads_get_whole_modules():
    """While another thread imports the module of a preset, a thread that gets the preset waits."""
    code = """if True:
        import threading, time
        from posenc_fast import presets
        from posenc_fast.presets import _registry
        halfway, registered = threading.Event(), _registry._registered
        def slow(build, *facts):
            if build.__name__ == "fairseq2_3d":
                halfway.set()
                time.sleep(0.3)
            return registered(build, *facts)
        _registry._registered = slow
        thread = threading.Thread(target=presets.get, args=("tatp22",))
        thread.start()
        assert halfway.wait(60)
        print(presets.fairseq2_2d(8).d_model)
        thread.join()
    """
    assert fresh(code) == "8\n"
