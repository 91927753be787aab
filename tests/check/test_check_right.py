"""Test that `check` never reports tensors of correct programs as wrong, in any dtype."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets
from posenc_fast._models.check.config import parts_of
from posenc_fast._models.check.frequencies import judge_frequencies
from posenc_fast._models.check.rotary_tables import judge_rotary_tables
from posenc_fast._models.check.tables import judge_table
from posenc_fast.presets._registry import FACTS
from support.fuzzing import DTYPES
from support.optional import optional
from support.own_code import LLAMA3, YARN
from support.preset_formulas import WITH_ARGUMENTS

every_type = pytest.mark.parametrize("dtype", DTYPES.values(), ids=tuple(DTYPES))
# fmt: off
FACTORS = {"short_factor": [1 + i / 100 for i in range(48)], "long_factor": [1.0 + i for i in range(48)]}
CONFIGS = {
    "llama": {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "rope_scaling": LLAMA3},
    "qwen3-yarn": {"model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6, "rope_scaling": YARN},
    "gemma3": {"model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 26, "rope_theta": 1e6,
               "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "phi3": {"model_type": "phi3", "head_dim": 96, "max_position_embeddings": 131072,
             "original_max_position_embeddings": 4096, "rope_scaling": {"rope_type": "longrope", **FACTORS}},
}
# fmt: on


def float32_frequencies(rotary):
    """Return frequencies as programs compute them, with powers and quotients in float32."""
    exponents = np.arange(0, rotary.rotary_dim, 2, dtype=np.float32) / np.float32(rotary.rotary_dim)
    return np.float32(1) / np.float32(rotary.base) ** exponents


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_frequencies_of_a_config(config, dtype):
    tensors = [rotary.frequencies.astype(dtype) for rotary in parts_of(config).rotaries]
    findings = pf.check(
        {f"model.layers.{i}.inv_freq": tensor for i, tensor in enumerate(tensors)}, config=config
    ).findings
    assert len(findings) == len(tensors) > 0
    for finding in findings:
        assert (finding.verdict, finding.fault) == ("right", None), finding
        assert finding.largest_error < 1e-7


def test_towers_without_a_config_are_not_compared_with_the_text_config():
    vision = float32_frequencies(pf.Rotary(128))
    for name, verdict in (("vision_tower", "right"), ("model", "wrong")):
        (finding,) = pf.check({f"{name}.rotary_emb.inv_freq": vision}, config=CONFIGS["llama"]).findings
        assert finding.verdict == verdict


def test_powers_of_two_in_16_bits_are_right():
    """For powers of two in any dtype, `check` reports no rounding, because 16 bits represent them exactly."""
    for dtype in DTYPES.values():
        assert judge_frequencies("freqs", 2.0 ** np.arange(10).astype(dtype)).verdict == "right"


@pytest.mark.parametrize(("denominator", "kind"), [(160, "rotary"), (159.5, "rotary"), (159, "timestep")])
def test_denominators_of_exponents(denominator, kind):
    values = np.exp(-np.log(1e4) * np.arange(160) / denominator).astype(np.float32)
    finding = judge_frequencies("time_proj.freqs", values)
    assert (finding.verdict, finding.is_) == ("right", f"{kind} frequencies")
    assert "powers of base 10000" in finding.says
    assert finding.largest_error < 1e-7


@pytest.mark.slow
def test_every_class_of_transformers():
    """No buffer of a rotary class of transformers is wrong, compared with the default config of its model.

    The float32 frequencies that `Rotary` computes from these configs are not wrong either.
    """
    transformers = optional("transformers")
    from rotary import test_rotary_transformers as classes

    transformers.logging.set_verbosity_error()
    configs = classes.configs.__wrapped__(transformers)
    judged = 0
    for model in classes.models():
        config, said = classes.default(configs, model, **classes.NEEDED.get(model, {}))
        arrays = {}
        for rotary in parts_of(said).rotaries:
            if rotary.frequencies.ndim == 1:
                arrays[f"own{len(arrays)}.inv_freq"] = np.abs(rotary.frequencies).astype(np.float32)
        _, cls = classes.rotary_class(model, config)
        if inspect.isclass(cls) and model not in ("roformer",):
            buffers = cls(config).named_buffers()
            arrays |= {f"rotary_emb.{name}": buffer for name, buffer in buffers if buffer.is_floating_point()}
        for finding in pf.check(arrays, config=said).findings if arrays else ():
            assert finding.verdict != "wrong", (model, finding)
            judged += finding.verdict == "right"
    assert judged >= 700


@every_type
@pytest.mark.parametrize("scaling", [None, pytest.param(YARN, marks=pytest.mark.slow)], ids=["plain", "yarn"])
@pytest.mark.parametrize("precision", ["exact", "float32"])
@pytest.mark.parametrize("columns", ["pairs", "halves", "cosines beside sines"])
def test_rotary_tables(dtype, scaling, precision, columns):
    rotary = pf.Rotary(64, base=5e5, scaling=scaling)
    cos, sin = rotary.tables(600, dtype=dtype, precision=precision)
    if columns == "halves":
        cos, sin = np.concatenate([cos, cos], axis=1)[None], np.concatenate([sin, sin], axis=1)[None]
    if columns == "cosines beside sines":
        cos, sin = np.concatenate([cos, sin], axis=1), None
    for rotaries in ([rotary], []):
        finding = judge_rotary_tables("rope", cos, sin, None, rotaries)
        assert (finding.verdict, finding.is_) == ("right", "rotary tables"), finding
        assert finding.first_position is None


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_rotary_tables(dtype):
    rotary = pf.Rotary(64)
    cos, sin = rotary.tables(100, dtype=np.float64)
    table = (cos + 1j * sin).astype(dtype)
    for each in (table, np.stack([table.real, table.imag], axis=-1)):
        assert judge_rotary_tables("freqs_cis", each, None, None, [rotary]).verdict == "right"


# keys: presets whose arguments are weights. Values: shapes of the weights.
# fmt: off
LEARNED = {"geoclip": (32, 2), "k_diffusion_fourier": (32,), "lightglue": (16, 2), "mochi": (3, 2, 16),
           "mp_fourier": (32,), "score_sde_fourier": (32,), "tancik": (32, 2)}
# fmt: on
WIDTHS = {"monai": 66, "tensor2tensor_nd": 64}


def encoding_of(name):
    """Return the encoding of a preset.

    The preset is called with what it needs: random weights, arguments from `WITH_ARGUMENTS`, a width, or nothing.
    """
    build = presets.get(name)
    if name in LEARNED:
        return build(np.random.default_rng(0).normal(size=LEARNED[name]))
    if name in WITH_ARGUMENTS and name not in WIDTHS:
        arguments, more = WITH_ARGUMENTS[name][2][0]
        return build(*arguments, **more)
    needed = [p for p in inspect.signature(build).parameters.values() if p.default is p.empty]
    return build(WIDTHS.get(name, 64)) if FACTS[name].by_width or needed else build()


def table_of(encoding, dtype, precision):
    if encoding.ndim == 1:
        return encoding.table(64, dtype=dtype, precision=precision)
    cells = np.indices([8, 8] if encoding.ndim == 2 else [4] * encoding.ndim).reshape(encoding.ndim, -1).T
    return encoding.encode(cells, dtype=dtype, precision=precision)


def check_preset(name, dtype, precision):
    encoding = encoding_of(name)
    if isinstance(encoding, pf.Rotary):
        cells = np.stack(np.unravel_index(np.arange(64), (4, 4, 2, 2)), axis=1)[:, : encoding.ndim]
        where = cells if encoding.ndim > 1 else None
        cos, sin = encoding.tables(64 if where is None else where, dtype=dtype, precision=precision)
        findings = [judge_rotary_tables(name, cos, sin, where, rotaries) for rotaries in ([], [encoding])]
        expected = ["unknown" if name in LEARNED else "right", "right"]
        assert [finding.verdict for finding in findings] == expected, name
        if dtype in (np.float32, np.float64):
            frequencies = encoding.frequencies.astype(dtype)
            findings += [judge_frequencies(name, frequencies, rotaries) for rotaries in ([], [encoding])]
    else:
        findings = [judge_table(name, table_of(encoding, dtype, precision))]
        if precision == "exact" and encoding.ndim == 1 and FACTS[name].by_width:
            assert findings[0].verdict == "right", findings[0]
    assert all(finding.verdict != "wrong" for finding in findings), findings


NAMES = [pytest.param(i, n, marks=() if i % 16 == 1 else pytest.mark.slow, id=n) for i, n in enumerate(presets.names())]


@pytest.mark.parametrize(("i", "name"), NAMES)
def test_every_preset(i, name):
    # every second preset is stored in float64 and float16, the others in float32 and bfloat16
    for dtype in list(DTYPES.values())[i % 2 :: 2]:
        check_preset(name, dtype, "exact")
    check_preset(name, DTYPES["float32"], "float32")


@every_type
def test_long_table_in_float32_arithmetic(dtype):
    """A long table is right although it has the errors of float32 angles, which exceed 1e-6."""
    table = pf.sinusoidal(64).table(6000, precision="float32", dtype=np.float32).astype(dtype)
    finding = judge_table("pe", table[None])
    assert finding.verdict == "right"
    assert finding.largest_error > 1e-6
