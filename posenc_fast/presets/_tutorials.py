"""Presets of the paper's encoding and its tutorials."""

from __future__ import annotations

from .._core.encoding.builders import sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of
from ..typing import Precision
from . import _recipes
from ._build import even, positive, sinusoids
from ._registry import preset

__all__ = [
    "annotated_transformer",
    "keras_blog",
    "keras_hub",
    "tensorflow_text",
    "xlm",
]


@preset(
    source="harvardnlp/annotated-transformer: the_annotated_transformer.py, PositionalEncoding",
    frequency="base^(-2i/d)",
    layout="alternating sines and cosines",
    differs="nothing; this is the formula of arXiv:1706.03762, section 3.5",
    also="PyTorch's word_language_model and tutorials, d2l, Informer2020 PositionalEmbedding and FixedEmbedding"
    " (calendar numbers as positions), Time-Series-Library, ESPnet and WeNet PositionalEncoding (reverse=True:"
    " `.table(n, start=n - 1, step=-1)`), OpenNMT-py SinusoidalInterleaved, SpeechBrain PositionalEncoding,"
    " Florence-2, flax nlp_seq, trax PositionalEncoding, burn generate_sinusoids, bert4keras and keras-pos-embd,"
    " simplepe, position-encoding, THP temporal_enc (event times as positions), PatchTST (which then scales its table"
    " t to (t - t.mean()) / (10 t.std(ddof=1)))",
    example="pf.presets.annotated_transformer(4) == pf.sinusoidal(4) -> True",
)
def annotated_transformer(d_model: int, *, base: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """The paper's encoding, as in The Annotated Transformer."""
    return sinusoids(
        even(d_model, "d_model"), frequencies, _recipes.exp_of_even, base=base, layout="interleaved", odd="error"
    )


@preset(
    source="huggingface/transformers: models/xlm, create_sinusoidal_embeddings",
    frequency="10000^(-2i/d)",
    layout="alternating sines and cosines",
    odd="crop if the width is odd: one sine more than cosines",
    differs="odd widths are allowed; the source computes in float64 and rounds the result",
    also="Flaubert, DistilBERT, VideoMAE, jadore801120/attention-is-all-you-need-pytorch since 2017-11, the TensorFlow"
    " tutorial of 2019 to 2022, FastSpeech2 get_sinusoid_encoding_table (row padding_idx is zero:"
    " `table[padding_idx] = 0`)",
    example="pf.presets.xlm(5).encode(0) -> array([0., 1., 0., 1., 0.], dtype=float32)",
)
def xlm(dim: int) -> Encoding:
    """The paper's encoding for any width, as in XLM."""
    return sinusoidal(count_of(dim, "dim", 1))


@preset(
    source="tensorflow/text: docs/tutorials/transformer.ipynb, positional_encoding",
    frequency="10000^(-2i/d)",
    layout="sines, then cosines",
    odd="one column more than requested if the width is odd",
    differs="sines come first; ceil(d/2) sines, and the same number of cosines",
    example="pf.presets.tensorflow_text(5).d_model -> 6",
)
def tensorflow_text(depth: int) -> Encoding:
    """The TensorFlow tutorial's encoding since 2022."""
    d = count_of(depth, "depth", 1)
    count = -(-d // 2)
    return sinusoidal(2 * count, freq_shift=count - d / 2, layout="concatenated")


@preset(
    source="Keras time-series examples: positional encoding with min_freq=1e-4",
    frequency="10000^(-2i/d)",
    layout="alternating cosines and sines",
    odd="crop if the width is odd: one cosine more than sines",
    differs="the cosine comes first",
    example="pf.presets.keras_blog(4).encode(0) -> array([1., 0., 1., 0.], dtype=float32)",
)
def keras_blog(d_model: int) -> Encoding:
    """Encoding of Keras examples, with cosines in even columns and sines in odd ones."""
    return sinusoidal(count_of(d_model, "d_model", 1), functions=("cos", "sin"))


@preset(
    source="keras-team/keras-hub: layers/modeling/sine_position_encoding.py, SinePositionEncoding",
    frequency="max_wavelength^(-2i/d)",
    layout="alternating sines and cosines",
    positions="0, 1, .., or from start_index on: `.table(n, start=start_index)`",
    odd="crop if the width is odd: one sine more than cosines",
    differs="odd widths are allowed; in the source, positions have the layer's compute dtype, such as float16 with mixed"
    " precision",
)
def keras_hub(hidden_size: int, *, max_wavelength: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Sine position encoding of KerasHub."""
    d = count_of(hidden_size, "hidden_size", 1)
    return sinusoids(
        d, frequencies, _recipes.power_of_inverse, base=positive(max_wavelength, "max_wavelength"), layout="interleaved"
    )
