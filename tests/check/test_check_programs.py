"""Test that `check` reports the correct programs of other projects as right."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.testing import assert_right
from support.optional import optional
from support.programs import program

torch = optional("torch")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("distribution", "file", "name", "dim"), [
    ("timesfm", "timesfm/torch/transformer.py", "RotaryPositionalEmbedding", 80),
    ("timesfm", "timesfm3/torch/transformer.py", "RotaryPositionalEmbedding", 80),
    ("esm", "esm/layers/rotary.py", "RotaryEmbedding", 64),
])  # fmt: skip
def test_timesfm_and_esmc(distribution, file, name, dim):
    module = getattr(program(distribution, file), name)(dim)
    assert_right(module)
    assert_right(module, pf.Rotary(dim))
    with pytest.raises(AssertionError, match="base"):
        assert_right(module, pf.Rotary(dim, base=5e5))


@pytest.mark.parametrize(("dim", "theta"), [(64, 1e4), (128, 5e5)])
def test_complex_numbers_of_llama_and_mistral(dim, theta):
    parallel = ("", ".nn", ".nn.model_parallel", ".nn.model_parallel.initialize", ".nn.model_parallel.layers")
    llama = program("llama_models", "llama_models/llama3/model.py", *(f"fairscale{name}" for name in parallel))
    mistral = program("mistral_inference", "mistral_inference/rope.py")
    rotary = pf.Rotary(dim, base=theta, layout="interleaved")
    assert_right(lambda n: llama.precompute_freqs_cis(dim, n, theta), rotary)
    assert_right(lambda n: mistral.precompute_freqs_cis(dim, n, theta), rotary)

    def rotate(x, positions):
        factors = mistral.precompute_freqs_cis(dim, int(positions.max()) + 1, theta)[positions]
        return mistral.apply_rotary_emb(x, x.clone(), factors)[0]

    assert_right(rotate, rotary)
    with pytest.raises(AssertionError, match="layout"):
        assert_right(rotate, pf.Rotary(dim, base=theta))


def test_tables_of_litgpt():
    model = program("litgpt", "litgpt/model.py", "litgpt.scripts.convert_hf_checkpoint")
    assert_right(lambda n: model.build_rope_cache(n, 64), pf.Rotary(64))
    assert_right(lambda n: model.build_rope_cache(n, 64, base=500000), pf.Rotary(64, base=5e5))


def test_torch_geometric():
    width = 16
    encoding = program("torch_geometric", "torch_geometric/nn/encoding.py")
    assert_right(encoding.PositionalEncoding(width), pf.presets.pyg(width))
    assert_right(encoding.PositionalEncoding(width, granularity=0.25), pf.presets.pyg(width, granularity=0.25))
    assert_right(encoding.TemporalEncoding(width), pf.presets.graphmixer(width))


@pytest.mark.parametrize("d", [32, 320])
def test_functions_of_diffusers(d):
    embeddings = optional("diffusers.models.embeddings")
    for flip, shift in ((True, 0), (False, 1)):
        expected = pf.presets.diffusers_timesteps(d, flip_sin_to_cos=flip, downscale_freq_shift=shift)
        assert_right(lambda t, flip=flip, shift=shift: embeddings.get_timestep_embedding(t, d, flip, shift), expected)
    rotary = pf.Rotary(d, layout="interleaved")
    for options in ({"use_real": True}, {"use_real": False}, {"freqs_dtype": torch.float64}):
        assert_right(lambda n, options=options: embeddings.get_1d_rotary_pos_embed(d, n, **options), rotary)


def test_functions_of_transformers():
    gptj, whisper, m2m = (
        optional(f"transformers.models.{name}.modeling_{name}") for name in ("gptj", "whisper", "m2m_100")
    )
    assert_right(lambda n: gptj.create_sinusoidal_positions(n, 64), "transformer_xl")
    assert_right(lambda n: whisper.sinusoids(n, 64), "whisper")
    embedding = m2m.M2M100SinusoidalPositionalEmbedding
    assert_right(lambda n: embedding.get_embedding(n, 64), pf.presets.fairseq(64))


def test_segment_anything():
    theirs = program("segment-anything", "segment_anything/modeling/prompt_encoder.py").PositionEmbeddingRandom(16)
    expected = pf.presets.sam(theirs.positional_encoding_gaussian_matrix.numpy())
    assert_right(lambda p: theirs._pe_encoding((torch.as_tensor(np.asarray(p)).float() + 1) / 2), expected)
