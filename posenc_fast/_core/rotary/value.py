"""Rotary encodings: tables of cosines and sines, and the rotation of queries and keys by them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack, overload

import numpy as np

from ...typing import Function, Precision, RotaryLayout
from ..encoding import recipes
from ..encoding.recipes import Recipe, recipe_of
from ..encoding.value import Encoding
from ..engine.blocks import one_thread
from ..numbers import annotations as npt
from ..numbers.arguments import check_width, count_of, is_exact, real
from ..numbers.arrays import Array, Floats
from ..numbers.names import hinted, one_of
from ..numbers.schedule import Schedule
from ..numbers.signatures import DType, Float, TablesOptions
from . import pairs as _pairs
from . import scaling as _rope
from .angles import Angles
from .pairs import LAYOUTS, Settings
from .rotator import Rotator

if TYPE_CHECKING:
    from ..numbers.signatures import Out


class OnnxCache(NamedTuple):
    """Inputs cos_cache and sin_cache of an ONNX operator RotaryEmbedding, and the attributes of the operator."""

    cos: npt.NDArray[Any]
    sin: npt.NDArray[Any]
    attributes: dict[str, int]


class Rotary:
    """RoPE: rotation of pairs of values by angles ``position * frequency``.

    A Rotary is immutable. Two Rotary objects with the same settings compare equal and have the same hash.

    Parameters
    ----------
    head_dim : int
        Number of values in a head.
    base : float
        Base of the frequencies (default: 10000). Without scaling, pair i rotates by ``base ** (-2i / rotary_dim)``
        radians per unit of position.
    rotary_dim : int, optional
        Number of leading values to rotate (default: all). The rest is unchanged.
    layout : {"half", "interleaved", "interleaved_to_half"}
        Places of the two values of a pair. "half": rotary_dim/2 apart, as in GPT-NeoX and Hugging Face's Llama
        (default). "interleaved": adjacent, as in GPT-J and the original Llama. "interleaved_to_half": adjacent in x,
        and rotary_dim/2 apart in the result, as in Hugging Face's DeepSeek.
    scaling : mapping, optional
        Scaling of the frequencies: ``rope_type`` and its parameters, as in a Hugging Face config. These are the types
        with their parameters. linear: factor. dynamic: factor, max_position_embeddings, seq_len. ntk: alpha. ntk_fixed:
        factor. ntk_mixed: factor, b. yarn: factor, original_max_position_embeddings, beta_fast, beta_slow, truncate,
        attention_factor, mscale, mscale_all_dim. yarn_log: factor, original_max_position_embeddings, beta_fast,
        beta_slow, extrapolation_factor. theta_scale: factor, original_max_position_embeddings. longrope: short_factor,
        long_factor, original_max_position_embeddings, max_position_embeddings, factor, attention_factor, seq_len.
        llama3: factor, low_freq_factor, high_freq_factor, original_max_position_embeddings. proportional: factor,
        partial_rotary_factor. axial: no parameters; each section has its own frequencies. xpos: scale_base, center,
        smoothing, keys. xpos multiplies the cosine and sine of pair i by ``zeta[i] ** ((position - center) /
        scale_base)``, where zeta[i] is ``(2i / rotary_dim + smoothing) / (1 + smoothing)``. With keys=True, xpos
        divides by this number instead.
    sections : sequence of int, optional
        For positions with several axes: how many pairs read each axis (at least 1), in order. Or the axis that each
        pair reads, counted from 0.
    frequencies : Schedule, sequence of Schedule, or array_like of shape (pairs,) or (pairs, axes), optional
        Frequencies of the rotary_dim/2 pairs in radians per unit of position, instead of base and scaling. Negative
        frequencies rotate backwards. With several axes, give a schedule for each axis, with a frequency for each pair
        that reads the axis. If each pair reads all axes, give a matrix, or for each axis a schedule of all pairs. The
        angle of such a pair is the sum over the axes.
    attention_factor : float
        Factor of cosines and sines if frequencies are given (default: 1). With a scaling, the formula of its
        rope_type gives this factor.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    Frequencies are exact real numbers if they come from a base, its scaling or a schedule. An array of frequencies is
    used unchanged. The attention factor is rounded to float64. There is no maximum length.

    Tables are as accurate as those of an `Encoding`. With xpos, they are products in float64, rounded to the dtype.
    `apply` rotates float64 and float32 in float64, and rounds float32 results once. With L for the Euclidean length of
    a pair in the result, the error of a float32 value is at most half a unit in its last place plus 2^-51 L. The error
    of a float64 value is at most 2^-51 L. `apply` rotates float16 and bfloat16 in float32, by cosines and sines rounded
    once to float32. Then the error is at most half a unit in the last place plus 2^-20 L.

    To move rotated keys to other positions, use `shift`.

    References
    ----------
    Su et al., 2021, RoFormer, arXiv:2104.09864. Scalings: huggingface/transformers modeling_rope_utils.py; Peng et
    al., 2023, YaRN, arXiv:2309.00071; Ding et al., 2024, LongRoPE, arXiv:2402.13753; vLLM rotary_embedding. xPos: Sun
    et al., 2022, arXiv:2212.10554. Sections: Qwen2-VL, arXiv:2409.12191.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> rotary = pf.Rotary(4)
    >>> queries = np.ones((1, 2, 3, 4), np.float32)
    >>> rotary.apply(queries, out=queries)[0, 0, 1].round(4)
    array([-0.3012,  0.99  ,  1.3818,  1.0099], dtype=float32)

    Two axes, each with its own frequencies and every second pair. Then pairs that read both axes:

    >>> pf.Rotary(8, frequencies=[pf.geometric(2, base=100.0), pf.geometric(2)], sections=[0, 1, 0, 1]).frequencies
    array([1.  , 1.  , 0.1 , 0.01])
    >>> pf.Rotary(4, frequencies=[[1.0, 0.5], [0.25, -2.0]]).tables([[1, 2]])[1].round(4)
    array([[0.9093, 0.5716]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_angles", "_rotator", "_settings")
    _settings: Settings
    _angles: Angles
    _rotator: Rotator

    @hinted
    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: RotaryLayout = "half",
        scaling: Mapping[str, Any] | None = None,
        sections: Sequence[int] | None = None,
        frequencies: Schedule | Sequence[Schedule] | npt.ArrayLike | None = None,
        attention_factor: float = 1.0,
    ) -> None:
        head = count_of(head_dim, "head_dim", 2)
        check_width(head, "head_dim")
        dim = _rope.count_pairs(head if rotary_dim is None else rotary_dim, head)
        base = real(base, "base", positive=True)
        one_of(layout, "layout", LAYOUTS)
        rope_type, parameters = _rope.checked_scaling(scaling, dim // 2)
        if frequencies is not None and (base, scaling) != (10000.0, None):
            raise ValueError(f"pass frequencies, or base={base} and scaling={scaling!r}, not both")
        axes = _pairs.checked_axes(sections, frequencies, dim // 2)
        if rope_type == "axial" and axes is None:
            raise ValueError("scaling has rope_type='axial', which needs sections (the number of pairs of each axis)")
        if rope_type == "xpos" and axes is not None:
            raise ValueError(
                "sections and rope_type='xpos' exclude each other, because the amplitudes of xpos need positions of "
                "one axis"
            )
        factor = real(attention_factor, "attention_factor", positive=True)
        explicit: tuple[Schedule, ...] | None = None
        if frequencies is None:
            if factor != 1:
                raise ValueError(
                    f"attention_factor={factor} needs frequencies; without frequencies, only a scaling with rope_type yarn "
                    "or longrope accepts an attention_factor, as a key of scaling"
                )
            scaled = _rope.frequencies_of(dim, base, rope_type, parameters)
            schedules: tuple[Schedule, ...] = (scaled.values,)
            scaled_factor = scaled.attention_factor
            if rope_type == "axial":
                assert axes is not None
                schedules = _pairs.axial(base, axes)
        else:
            explicit = _pairs.checked_frequencies(frequencies, dim // 2, axes)
            schedules, scaled_factor = explicit, factor
        settings = Settings(head, base, dim, layout, rope_type, tuple(parameters.items()), axes, explicit, factor)
        angles = Angles(settings, schedules, scaled_factor)
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_angles", angles)
        object.__setattr__(self, "_rotator", Rotator(settings, angles))
        # this raises the error for amplitudes that are too large; without it, the error would come on first use
        angles.of("cos")

    @overload
    @classmethod
    def from_config(
        cls,
        config: Any,
        *,
        layer: None = None,
        layer_type: None = None,
        layout: RotaryLayout | None = ...,
        seq_len: int | None = ...,
    ) -> Self: ...

    @overload
    @classmethod
    def from_config(
        cls,
        config: Any,
        *,
        layer: int | None = ...,
        layer_type: str | None = ...,
        layout: RotaryLayout | None = ...,
        seq_len: int | None = ...,
    ) -> Self | None: ...

    @classmethod
    def from_config(
        cls,
        config: Any,
        *,
        layer: int | None = None,
        layer_type: str | None = None,
        layout: RotaryLayout | None = None,
        seq_len: int | None = None,
    ) -> Self | None:
        """Return the rotary encoding that the config of a model describes.

        Parameters
        ----------
        config : mapping, path, or config of transformers
            Contents or path of a config.json, or a part of it (``config["vision_config"]``) with its model_type. From a
            config with several parts, the text part is read. The documentation has a table of all model types. Other
            formats: params.json of Meta or Mistral (whose weights have adjacent pairs), ``config["model"]`` of a
            torchtune config, and a litgpt config.
        layer : int, optional
            Index of a layer. Needed if layers differ.
        layer_type : str, optional
            Kind of layers, such as "sliding_attention", instead of layer.
        layout : {"half", "interleaved", "interleaved_to_half"}, optional
            Layout of the weights, if it is not the model's own layout (the default). Needed if the model_type is
            unknown.
        seq_len : int, optional
            Length of the sequence. Needed for scalings that depend on it (dynamic, longrope).

        Returns
        -------
        Rotary or None
            None for a layer without RoPE.

        Raises
        ------
        TypeError, ValueError, OSError
            If the config cannot be read, is incomplete or ambiguous, or has a key about RoPE that the model does not
            read. Also if the model has no RoPE, or a RoPE that does not rotate pairs.

        References
        ----------
        huggingface/transformers 5.24. The tests compare its classes with this function.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0}
        >>> pf.Rotary.from_config(config)
        Rotary(128, base=500000.0)
        """
        # imported here because the table of models is large, and few programs need it
        from ..._models.config import reader as _rotary_config

        arguments = _rotary_config.arguments_of(config, layer, layer_type, layout, seq_len)
        return None if arguments is None else cls(**arguments)

    @overload
    @classmethod
    def from_gguf(cls, source: Any, *, layer: None = None, seq_len: int | None = ...) -> Self: ...

    @overload
    @classmethod
    def from_gguf(cls, source: Any, *, layer: int | None = ..., seq_len: int | None = ...) -> Self | None: ...

    @classmethod
    def from_gguf(cls, source: Any, *, layer: int | None = None, seq_len: int | None = None) -> Self | None:
        """Return the rotary encoding of a GGUF file, as llama.cpp computes it.

        Parameters
        ----------
        source : path or mapping
            Path of a file, or its metadata by name. From a file, the package gguf reads the header and the tensors
            rope_freqs, rope_factors_short and rope_factors_long. In metadata, name these tensors "rope_freqs.weight"
            and so on.
        layer : int, optional
            Index of a layer. Needed if layers differ.
        seq_len : int, optional
            Length of the sequence. Needed for files with two lists of factors (longrope).

        Returns
        -------
        Rotary or None
            None for a layer without RoPE.

        Raises
        ------
        TypeError, ValueError, OSError, ImportError
            If the file cannot be read, is incomplete, or has an unknown key about RoPE. Also if its architecture is
            unknown or has no RoPE.

        Notes
        -----
        The layout describes the rows of the query and key weights in the file. These rows can have another order than
        in the Hugging Face model. Converters permute rows if llama.cpp rotates adjacent values and transformers does
        not, as for Llama. The divisors ``rope_freqs`` become factors of the scaling longrope. Numbers of the file are
        used unchanged; most are float32. Pairs of Qwen3-VL outside of all sections read the first axis, as in the
        original model. llama.cpp rotates these pairs by a fourth axis, which is 0 in texts.

        References
        ----------
        ggml-org/llama.cpp: llama_model_rope_type, llama_context and ggml's rope_yarn.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> metadata = {"general.architecture": "qwen2", "qwen2.attention.head_count": 28,
        ...             "qwen2.embedding_length": 3584, "qwen2.rope.freq_base": 1000000.0}
        >>> pf.Rotary.from_gguf(metadata)
        Rotary(128, base=1000000.0)
        """
        # imported here because few programs need the table of architectures
        from ..._models import gguf as metadata

        arguments = metadata.arguments_of(source, layer, seq_len)
        return None if arguments is None else cls(**arguments)

    # ---- the value --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Rotary is frozen: {name} cannot be set; create a new Rotary")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Rotary is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._settings == other._settings if isinstance(other, Rotary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._settings)

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that rebuild the Rotary, by name. head_dim and defaults are left out."""
        settings = self._settings
        sections = settings.axes
        if sections is not None and list(sections) == sorted(sections):
            sections = tuple(np.bincount(sections).tolist())
        scaling = {"rope_type": settings.rope_type, **dict(settings.parameters)}
        arguments = {
            "base": settings.base,
            "rotary_dim": settings.rotary_dim,
            "layout": settings.layout,
            "scaling": None if settings.rope_type == "default" else scaling,
            "sections": sections,
            "frequencies": None if settings.frequencies is None else _pairs.written(settings.frequencies),
            "attention_factor": settings.attention_factor,
        }
        defaults = {"base": 10000.0, "rotary_dim": settings.head_dim, "layout": "half", "attention_factor": 1.0}
        return {name: value for name, value in arguments.items() if value != defaults.get(name)}

    def _call(self) -> Recipe:
        return recipe_of("Rotary", self.head_dim, **self._arguments())

    def __repr__(self) -> str:
        return recipes.shown(self._call())

    def _repr_html_(self) -> str:
        # imported here because only notebooks need it
        from ..encoding.picture import figure

        return figure(self._angles_of("cos")._sinusoids, repr(self), f"cosines of {self.rotary_dim // 2} pairs")

    def __reduce__(self) -> tuple[Any, ...]:
        cls = None if type(self) is Rotary else type(self)
        return rotary_of, (cls, self.head_dim, self._arguments())

    def __posenc_rotary__(self) -> Any:
        """Return a capsule for programs compiled with ``posenc_fast.h`` (see `get_include`).

        The pointer in the capsule is valid as long as the capsule exists. Programs that use the capsule compute at the
        instruction-set level that is active when this method is called.

        Raises
        ------
        ValueError
            If positions have several axes, or amplitudes depend on them (xPos). The C interface supports neither.
        RuntimeError
            If there is no compiled kernel.
        """
        # imported here because only compiled programs need it
        from ..encoding.capsule import rotary_capsule

        settings = self._settings
        if settings.amplitudes_vary:
            raise ValueError(
                "a Rotary with rope_type='xpos' has no C interface, because its amplitudes are computed in Python"
            )
        return rotary_capsule(self._angles_of("cos", "sin")._plans, settings.head_dim, LAYOUTS.index(settings.layout))

    @property
    def recipe(self) -> str:
        """Python expression that rebuilds the Rotary with all its numbers.

        Evaluate it with ``eval(recipe, vars(posenc_fast))``. `repr` equals the recipe, except that lists of more than
        64 numbers are shortened.
        """
        return recipes.written(self._call())

    @property
    def base(self) -> float | None:
        """Base of the frequencies before scaling. None if frequencies were given."""
        return self._settings.base if self._settings.frequencies is None else None

    @property
    def layout(self) -> RotaryLayout:
        """Places of the two values of a pair, as in the parameter layout."""
        return self._settings.layout

    @property
    def head_dim(self) -> int:
        """Number of values in a head."""
        return self._settings.head_dim

    @property
    def rotary_dim(self) -> int:
        """Number of leading values that rotate."""
        return self._settings.rotary_dim

    @property
    def frequencies(self) -> Floats:
        """Frequency of each pair after scaling, in radians per unit of position, rounded to float64.

        The shape is (rotary_dim/2,), or (rotary_dim/2, axes) if each pair reads several axes.
        """
        values, axes = self._angles_of("cos").frequencies, self._settings.axes
        return values if axes is None or values.ndim == 1 else values[np.arange(len(values)), axes]

    @property
    def attention_factor(self) -> float:
        """Factor of cosines and sines."""
        return self._angles.factor

    @property
    def ndim(self) -> int:
        """Number of axes of a position."""
        return self._angles.ndim

    def _angles_of(self, *functions: Function, inverse: bool = False) -> Encoding:
        """Return the Encoding that computes these functions of the pairs' angles (see `Angles.of`)."""
        return self._angles.of(*functions, inverse=inverse)

    # ---- tables -----------------------------------------------------------------------------------------------------

    @overload
    def tables(
        self,
        positions_or_length: npt.ArrayLike,
        *,
        dtype: None = ...,
        out: None = ...,
        **options: Unpack[TablesOptions],
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...

    @overload
    def tables(
        self,
        positions_or_length: npt.ArrayLike,
        *,
        dtype: DType[Float],
        out: None = ...,
        **options: Unpack[TablesOptions],
    ) -> tuple[npt.NDArray[Float], npt.NDArray[Float]]: ...

    @overload
    def tables(
        self,
        positions_or_length: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike | None = ...,
        out: tuple[Out, Out] | None = ...,
        **options: Unpack[TablesOptions],
    ) -> tuple[Out, Out]: ...

    def tables(
        self,
        positions_or_length: npt.ArrayLike,
        *,
        start: float = 0,
        dtype: npt.DTypeLike | None = None,
        precision: Precision = "exact",
        out: tuple[Array, Array] | None = None,
        workers: int | None = None,
    ) -> tuple[Array, Array]:
        """Return cosines and sines, times the attention factor and the amplitudes of xpos.

        Parameters
        ----------
        positions_or_length : int or array_like
            An integer n means the positions ``start .. start + n - 1``. Otherwise positions as in `Encoding.encode`, of
            shape (...), or (..., axes) for several axes.
        start : float
            First position, if the first argument is an integer (default: 0).
        dtype, precision, workers
            As in `Encoding.table`.
        out : pair of ndarrays of shape (..., rotary_dim/2), optional
            Arrays for cosines and sines.

        Returns
        -------
        cos, sin : ndarray of shape (..., rotary_dim/2)

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. Nothing is written in this case.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> cos, sin = pf.Rotary(4).tables(2)
        >>> sin.round(4)
        array([[0.    , 0.    ],
               [0.8415, 0.01  ]], dtype=float32)
        """
        return self._angles.tables(positions_or_length, start, dtype, precision, out, workers)

    # ---- for other programs -----------------------------------------------------------------------------------------

    def onnx_cache(self, length: int, *, dtype: npt.DTypeLike | None = None, num_heads: int | None = None) -> OnnxCache:
        """Return the cosines and sines of an ONNX operator RotaryEmbedding, and its attributes.

        Parameters
        ----------
        length : int
            Number of positions, from 0.
        dtype : dtype, optional
            Dtype of the model's queries, as in `Encoding.table` (default: float32).
        num_heads : int, optional
            Attribute num_heads, for inputs of three axes. com.microsoft's operator also needs it for partial rotary.

        Returns
        -------
        OnnxCache
            ``cos`` and ``sin`` are the inputs cos_cache and sin_cache, of shape (length, rotary_dim/2), times the
            attention factor. ``attributes`` are for RotaryEmbedding of ai.onnx (from opset 23) and com.microsoft.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid, or the operator cannot express the rotation.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> cache = pf.Rotary(128, base=500000.0, rotary_dim=64).onnx_cache(4096)
        >>> cache.cos.shape, cache.attributes
        ((4096, 32), {'interleaved': 0, 'rotary_embedding_dim': 64})
        """
        # imported here because few programs need it
        from ..._models import exports

        attributes = exports.onnx_attributes(self._settings, num_heads)
        cos, sin = self.tables(count_of(length, "length", 1), dtype=dtype)
        return OnnxCache(cos, sin, attributes)

    def config(self) -> dict[str, Any] | None:
        """Return the keys of a Hugging Face config that describe this Rotary: head_dim and rope_parameters.

        Returns
        -------
        dict or None
            Keys for transformers 5 and `from_config`, with max_position_embeddings for rope_type dynamic. None if
            transformers cannot express this Rotary, for example with custom frequencies, xPos, a scaling of another
            package, or an unsupported order of sections. Configs contain neither seq_len nor the layout, which depends
            on the class of the model.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> pf.Rotary(64, scaling={"rope_type": "linear", "factor": 2.0}).config()
        {'head_dim': 64, 'rope_parameters': {'rope_type': 'linear', 'rope_theta': 10000.0, 'factor': 2.0}}
        """
        from ..._models import exports

        return exports.config_of(self._settings, self.attention_factor)

    def gguf(self, architecture: str) -> dict[str, Any]:
        """Return the metadata of a GGUF file from which llama.cpp and `from_gguf` compute this Rotary.

        Parameters
        ----------
        architecture : str
            llama.cpp's name of the architecture, such as "llama". It determines the layout.

        Returns
        -------
        dict
            Keys and values of the header. If keys cannot express the frequencies, also a float32 array
            "rope_freqs.weight". llama.cpp divides the frequencies of the base by this tensor.

        Raises
        ------
        ValueError
            If the architecture is unknown, if its layout is not the layout of this Rotary, or if GGUF cannot express
            this Rotary.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> metadata = pf.Rotary(128, base=1000000.0).gguf("qwen2")
        >>> metadata["qwen2.rope.freq_base"], pf.Rotary.from_gguf(metadata)
        (1000000.0, Rotary(128, base=1000000.0))
        """
        from ..._models import exports

        return exports.gguf_of(self._settings, self.frequencies, self.attention_factor, architecture)

    # ---- rotation ---------------------------------------------------------------------------------------------------

    def apply(
        self,
        x: npt.NDArray[Float],
        *,
        positions: npt.ArrayLike | None = None,
        start: float = 0,
        seq_axis: int = -2,
        inverse: bool = False,
        precision: Precision = "exact",
        out: npt.NDArray[Float] | None = None,
        workers: int | None = None,
    ) -> npt.NDArray[Float]:
        """Rotate queries or keys by the angles of their positions.

        Parameters
        ----------
        x : ndarray of shape (..., head_dim)
            Array of float64, float32, float16 or bfloat16, such as (batch, heads, length, head_dim).
        positions : array_like, optional
            Positions of the tokens, as in `Encoding.encode` (default: ``start, start + 1, ..``). The shape is
            (length,), or (batch, length) if each sequence has its own positions. In general, the shape has the lengths
            of some first axes of x (without seq_axis), and then length. If positions have several axes, append an axis
            with one number for each. At missing positions, the pairs become NaN.
        start : float
            Position of the first token (default: 0).
        seq_axis : int
            Axis of the tokens in x: -2 for (batch, heads, length, head_dim), the default; 1 for (batch, length, heads,
            head_dim).
        inverse : bool
            Whether to rotate backwards (default: False). This undoes `apply` except for the last bits.
        precision, workers
            As in `Encoding.table`.
        out : ndarray of the shape and dtype of x, optional
            Array for the result. ``out=x`` rotates in place. Otherwise, out must share no memory with x.

        Returns
        -------
        ndarray of the shape and dtype of x

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. x and out are unchanged in this case.

        Examples
        --------
        A new token at position 100, after 100 tokens whose keys are cached:

        >>> import numpy as np, posenc_fast as pf
        >>> rotary, key = pf.Rotary(64), np.ones((1, 8, 1, 64), np.float32)
        >>> rotated = rotary.apply(key, start=100)
        >>> bool(np.abs(rotary.apply(rotated, start=100, inverse=True) - key).max() < 2e-7)
        True
        """
        single_thread = workers is None or one_thread(workers, 0)
        if single_thread and positions is None and inverse is False and is_exact(precision):
            rotated = self._rotator.few_by_positions(x, start, seq_axis, out)
            if rotated is not None:
                return rotated
        return self._rotator.by_positions(x, positions, start, seq_axis, inverse, precision, out, workers)

    def shift(
        self,
        keys: npt.NDArray[Float],
        offset: npt.ArrayLike,
        *,
        seq_axis: int = -2,
        out: npt.NDArray[Float] | None = None,
        workers: int | None = None,
    ) -> npt.NDArray[Float]:
        """Move cached keys from positions p to positions p + offset.

        Use it for context shift, sliding windows, and chunks that are used again at other positions. The value
        vectors of attention are not rotated, and need no shift.

        Parameters
        ----------
        keys : ndarray of shape (..., head_dim)
            Keys returned by `apply`, for any positions.
        offset : float or array_like
            Distance for all keys. Or an array: (length,) for each token, (batch, length) for the tokens of each
            sequence, (blocks, 1) for each block of a paged cache, if the first axis of keys has the blocks. If
            positions have several axes, a number is the distance on every axis, and an array needs a last axis with a
            distance for each.
        seq_axis, out, workers
            As in `apply`. ``out=keys`` moves keys in place.

        Returns
        -------
        ndarray of the shape and dtype of keys

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid, or the norms of rotated keys depend on positions (xpos). keys and out are
            unchanged in this case.

        Notes
        -----
        Rotations add up, so you need not know the positions. A single offset needs one row of cosines and sines.
        `apply` rounds keys once, and each `shift` rounds them again. For float32, each rounding adds at most 2^-24 of
        the length of a pair to the error bound of `apply` (float16: 2^-11, bfloat16: 2^-8). So shift the original keys
        by the whole distance, instead of shifting keys many times.

        shift rotates keys as `apply` does at the positions ``offset``, with two exceptions. It does not multiply by the
        attention factor, which the keys already contain. After ``layout="interleaved_to_half"``, it reads pairs whose
        values are rotary_dim/2 apart.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> rotary, keys = pf.Rotary(64), np.ones((1, 8, 100, 64), np.float32)
        >>> cache = rotary.apply(keys)
        >>> cache = np.ascontiguousarray(cache[:, :, 40:])
        >>> bool(np.abs(rotary.shift(cache, -40, out=cache) - rotary.apply(keys[:, :, :60])).max() < 4e-7)
        True
        """
        return self._rotator.by_offset(keys, offset, seq_axis, out, workers)

    def apply_tables(
        self,
        x: npt.NDArray[Float],
        cos: npt.ArrayLike,
        sin: npt.ArrayLike,
        *,
        seq_axis: int = -2,
        out: npt.NDArray[Float] | None = None,
        workers: int | None = None,
    ) -> npt.NDArray[Float]:
        """Rotate queries or keys by given cosines and sines.

        Parameters
        ----------
        x, seq_axis, out, workers
            As in `apply`.
        cos, sin : array_like of shape (length, rotary_dim/2), or (batch, length, rotary_dim/2)
            Cosines and sines, for example from `tables`, whose results contain the attention factor. `apply_tables`
            does not multiply them by the attention factor again.

        Returns
        -------
        ndarray of the shape and dtype of x

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid. x and out are unchanged in this case.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> rotary, x = pf.Rotary(8), np.ones((2, 3, 8), np.float32)
        >>> bool(np.allclose(rotary.apply_tables(x, *rotary.tables(3)), rotary.apply(x), atol=1e-7))
        True
        """
        if workers is None or one_thread(workers, 0):
            rotated = self._rotator.few_by_tables(x, cos, sin, seq_axis, out)
            if rotated is not None:
                return rotated
        return self._rotator.by_tables(x, cos, sin, seq_axis, out, workers)


def rotary_of(cls: type[Rotary] | None, head_dim: int, arguments: dict[str, Any]) -> Rotary:
    """Return the Rotary with these arguments. Pickles call this function."""
    return (cls or Rotary)(head_dim, **arguments)


# Pickles contain the name posenc_fast._rotary_of, not the path of this module, so that the file can move.
rotary_of.__module__ = "posenc_fast"
rotary_of.__qualname__ = rotary_of.__name__ = "_rotary_of"


def rotator_of(rotary: Rotary) -> Rotator:
    """Return the Rotator of a Rotary."""
    return rotary._rotator


# Users call eval(recipe, vars(posenc_fast)). eval does not call the __getattr__ of the module, which imports Rotary on
# first use. So vars(posenc_fast) must contain Rotary.
vars(sys.modules[__name__.partition(".")[0]])["Rotary"] = Rotary
