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
from .turning import Turner

if TYPE_CHECKING:
    from ..numbers.signatures import Out


class OnnxCache(NamedTuple):
    """The inputs cos_cache and sin_cache of an ONNX operator RotaryEmbedding, and its attributes."""

    cos: npt.NDArray[Any]
    sin: npt.NDArray[Any]
    attributes: dict[str, int]


class Rotary:
    """Rotation of pairs of values by angles ``position * frequency``: a frozen value, equal by value, hashable.

    Parameters
    ----------
    head_dim : int
        Width of a head.
    base : float
        Pair i turns by ``base ** (-2i / rotary_dim)`` radians per unit of position.
    rotary_dim : int, optional
        How many of the first values turn; the rest stays. All if not given.
    layout : {"half", "interleaved", "interleaved_to_half"}
        A pair's values are half of rotary_dim apart (GPT-NeoX; Llama in Hugging Face), side by side (GPT-J; the
        original Llama), or side by side in x and half of rotary_dim apart in the result (DeepSeek in Hugging Face).
    scaling : mapping, optional
        How frequencies are stretched: ``rope_type`` and its parameters, as in a Hugging Face config. linear: factor.
        dynamic: factor, max_position_embeddings, seq_len. ntk: alpha. ntk_fixed: factor. ntk_mixed: factor, b. yarn:
        factor, original_max_position_embeddings, beta_fast, beta_slow, truncate, attention_factor, mscale,
        mscale_all_dim. yarn_log: factor, original_max_position_embeddings, beta_fast, beta_slow, extrapolation_factor.
        theta_scale: factor, original_max_position_embeddings. longrope: short_factor, long_factor,
        original_max_position_embeddings, max_position_embeddings, factor, attention_factor, seq_len. llama3: factor,
        low_freq_factor, high_freq_factor, original_max_position_embeddings. proportional: factor,
        partial_rotary_factor. axial: none; each of the sections has frequencies of its own. xpos: scale_base, center,
        smoothing, keys; cosines and sines are multiplied by ``zeta[i] ** ((position - center) / scale_base)``, for
        keys by its reciprocal.
    sections : sequence of int, optional
        How many pairs read each axis of a position of several axes, in order; or an axis for each pair, if there are
        as many as pairs and they do not add up to them.
    frequencies : Schedule, sequence of Schedule, or array_like of shape (pairs,) or (pairs, axes), optional
        Radians per unit of position, in place of base and scaling; with a negative one a pair turns backwards. One for
        each of rotary_dim/2 pairs; or a schedule for each axis, of as many frequencies as pairs read it (as sections
        say, or side by side). A matrix, or a schedule of all pairs for each axis, has the sum over the axes as angle.
    attention_factor : float
        Factor of cosines and sines, with frequencies; a scaling has its own.

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit.

    Notes
    -----
    Frequencies are exact real numbers, those of a base, of its scaling and of schedules; numbers that are given are taken as they
    are. An attention factor is rounded to float64. Tables are rounded once from the exact value; x is turned in doubles and rounded once, so that a value is within half a unit in its
    last place and 2^-51 of the length of its pair (float64: 2^-51 of it in all). float16 and bfloat16 are turned in
    float32, by cosines and sines rounded once to that, and a value is within half a unit and 2^-20 of the length. Nothing limits the position. Keys
    that were turned for other positions are turned by the difference; with an attention factor they are turned back
    (``inverse=True``, which takes it off) and turned anew.

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

    Two axes with frequencies of their own, whose pairs take turns; and pairs that read both:

    >>> pf.Rotary(8, frequencies=[pf.geometric(2, base=100.0), pf.geometric(2)], sections=[0, 1, 0, 1]).frequencies
    array([1.  , 1.  , 0.1 , 0.01])
    >>> pf.Rotary(4, frequencies=[[1.0, 0.5], [0.25, -2.0]]).tables([[1, 2]])[1].round(4)
    array([[0.9093, 0.5716]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_angles", "_settings", "_turner")
    _settings: Settings
    _angles: Angles
    _turner: Turner

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
        number = real(base, "base", positive=True)
        one_of(layout, "layout", LAYOUTS)
        rope_type, parameters = _rope.checked_scaling(scaling, dim // 2)
        axes = _pairs.checked_axes(sections, frequencies, dim // 2)
        if rope_type == "axial" and axes is None:
            raise ValueError("scaling has rope_type='axial', which needs sections: how many pairs read each axis")
        if rope_type == "xpos" and axes is not None:
            raise ValueError("sections and rope_type='xpos' exclude each other: amplitudes have one axis")
        factor = real(attention_factor, "attention_factor", positive=True)
        explicit: tuple[Schedule, ...] | None = None
        if frequencies is None:
            if factor != 1:
                raise ValueError(f"attention_factor={factor} needs frequencies; a scaling has one among its parameters")
            scaled = _rope.frequencies_of(dim, number, rope_type, parameters)
            schedules: tuple[Schedule, ...] = (scaled.values,)
            scaled_factor = scaled.attention_factor
            if rope_type == "axial":
                assert axes is not None
                schedules = _pairs.axial(number, axes)
        else:
            if (number, scaling) != (10000.0, None):
                raise ValueError(f"frequencies excludes base={number} and scaling={scaling!r}; leave one side out")
            explicit = _pairs.checked_frequencies(frequencies, dim // 2, axes)
            schedules, scaled_factor = explicit, factor
        settings = Settings(head, number, dim, layout, rope_type, tuple(parameters.items()), axes, explicit, factor)
        angles = Angles(settings, schedules, scaled_factor)
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_angles", angles)
        object.__setattr__(self, "_turner", Turner(settings, angles))
        # amplitudes too large are an error now
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
            The contents of a config.json, or where it is; a part of one (``config["vision_config"]``) with its
            model_type. Of a model of several parts that of text is read. model_type decides how it is read: the
            documentation has a table of all. Or params.json of Meta or Mistral, whose weights have pairs side by side; the
            model of a config of torchtune; a config of litgpt.
        layer : int, optional
            Index of a layer, where layers differ.
        layer_type : str, optional
            Kind of layers, such as "sliding_attention", instead of layer.
        layout : {"half", "interleaved", "interleaved_to_half"}, optional
            Instead of the model's own, for weights in another order; must be given where model_type is unknown.
        seq_len : int, optional
            Length of the sequence; must be given for the scalings whose frequencies depend on it (dynamic, longrope).

        Returns
        -------
        Rotary or None
            None where the layer has no rotary encoding.

        Raises
        ------
        TypeError, ValueError, OSError
            When the config lacks something, has a key that is not known, or does not tell one encoding; when the
            model has none, or none that turns pairs.

        References
        ----------
        huggingface/transformers 5.23, whose classes are compared with this in the tests.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0}
        >>> pf.Rotary.from_config(config)
        Rotary(128, base=500000.0)
        """
        # the table of models is large, and few programs need it
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
            A file, of which the package gguf reads the header and the tensors rope_freqs, rope_factors_short and
            rope_factors_long; or its metadata by name, and those tensors as "rope_freqs.weight" and so on.
        layer : int, optional
            Index of a layer, where layers differ.
        seq_len : int, optional
            Length of the sequence; must be given where there are two lists of factors (longrope).

        Returns
        -------
        Rotary or None
            None where the layer has no rotary encoding.

        Raises
        ------
        TypeError, ValueError, OSError, ImportError
            When the file cannot be read or lacks something; when its architecture is not known, has no rotary encoding,
            or has a key that llama.cpp does not read for it.

        Notes
        -----
        The layout is for the rows of queries and keys in the file, which are not always those of a Hugging Face model:
        converters permute them where llama.cpp turns values side by side and transformers does not, such as Llama's.
        Frequencies that ``rope_freqs`` divides have it as the factors of the scaling longrope. Numbers are those of the
        file, most of them float32. Pairs of Qwen3-VL that no section counts read the first axis, as the model has it;
        llama.cpp turns them by its fourth, which is 0 in texts.

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
        # the table of architectures is for few programs
        from ..._models import gguf as metadata

        arguments = metadata.arguments_of(source, layer, seq_len)
        return None if arguments is None else cls(**arguments)

    # ---- the value --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Rotary is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Rotary is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._settings == other._settings if isinstance(other, Rotary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._settings)

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that rebuild it, but for head_dim and those that have their defaults."""
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
        # only notebooks ask
        from ..encoding.picture import figure

        return figure(self._angles_of("cos")._sinusoids, repr(self), f"cosines of {self.rotary_dim // 2} pairs")

    def __reduce__(self) -> tuple[Any, ...]:
        cls = None if type(self) is Rotary else type(self)
        return rotary_of, (cls, self.head_dim, self._arguments())

    def __posenc_rotary__(self) -> Any:
        """Return a capsule for programs that are compiled with ``posenc_fast.h`` of `get_include`.

        It keeps what the pointer in it needs, at the instruction-set level of the call.

        Raises
        ------
        ValueError
            When positions have several axes, or amplitudes depend on them (xPos), which only Python's calls have.
        RuntimeError
            When there is no compiled kernel.
        """
        # only compiled programs ask
        from ..encoding.capsule import rotary_capsule

        settings = self._settings
        if settings.rope_type == "xpos":
            raise ValueError("a Rotary with rope_type='xpos' has no C interface: its amplitudes are computed in Python")
        return rotary_capsule(self._angles_of("cos", "sin")._plans, settings.head_dim, LAYOUTS.index(settings.layout))

    @property
    def recipe(self) -> str:
        """Python expression that rebuilds the Rotary with all its numbers.

        Evaluate it with the names of posenc_fast. `repr` equals the recipe, except that lists of more than 64 numbers are
        shortened.
        """
        return recipes.written(self._call())

    @property
    def base(self) -> float | None:
        """The base of its frequencies, before any scaling; None where frequencies were given."""
        return self._settings.base if self._settings.frequencies is None else None

    @property
    def layout(self) -> RotaryLayout:
        """Order of the values of pairs, as in the parameter."""
        return self._settings.layout

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self._settings.head_dim

    @property
    def rotary_dim(self) -> int:
        """Number of values, the first of a head, that turn."""
        return self._settings.rotary_dim

    @property
    def frequencies(self) -> Floats:
        """Radians per unit of position of each pair, as the argument has them, rounded to float64.

        (rotary_dim/2,), or (rotary_dim/2, axes); after scaling.
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
        return self._angles.of("cos").ndim

    def _angles_of(self, *functions: Function, inverse: bool = False) -> Encoding:
        """Return the Encoding that computes these functions of all pairs, side by side."""
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
        """Return cosines and sines, the attention factor included.

        Parameters
        ----------
        positions_or_length : int or array_like
            A number n, for the positions ``start .. start + n - 1``, or positions as in `Encoding.encode`, of shape
            (...), with sections (..., axes).
        start : float
            First position, where a number is given.
        dtype, precision, workers
            As in `Encoding.table`.
        out : pair of ndarrays of shape (..., rotary_dim/2), optional
            Where to write cosines and sines.

        Returns
        -------
        cos, sin : ndarray of shape (..., rotary_dim/2)

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit; nothing has been written then.

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
            Number of positions, from 0 on.
        dtype : data-type, optional
            As in `Encoding.table`: that of the model's queries.
        num_heads : int, optional
            The attribute of this name, for inputs of three axes; com.microsoft's operator needs it, too, where a part of
            a head turns.

        Returns
        -------
        OnnxCache
            ``cos`` and ``sin`` of shape (length, rotary_dim/2), the attention factor included, for cos_cache and
            sin_cache; ``attributes``, of ai.onnx's RotaryEmbedding (from opset 23) as well as com.microsoft's.

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit, or the operator cannot turn so.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> cache = pf.Rotary(128, base=500000.0, rotary_dim=64).onnx_cache(4096)
        >>> cache.cos.shape, cache.attributes
        ((4096, 32), {'interleaved': 0, 'rotary_embedding_dim': 64})
        """
        # for few programs, as those below
        from ..._models import exports

        attributes = exports.onnx_attributes(self._settings, num_heads)
        cos, sin = self.tables(count_of(length, "length", 1), dtype=dtype)
        return OnnxCache(cos, sin, attributes)

    def config(self) -> dict[str, Any] | None:
        """Return the keys of a Hugging Face config that mean this: head_dim and rope_parameters.

        Returns
        -------
        dict or None
            As transformers 5 reads them, and `from_config`; for dynamic, max_position_embeddings too. None where
            transformers has no parameters for it: frequencies of one's own, xPos, scalings of other packages, sections in
            another order. The layout is in no config: the class of the model has it.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> pf.Rotary(64, scaling={"rope_type": "linear", "factor": 2.0}).config()
        {'head_dim': 64, 'rope_parameters': {'rope_type': 'linear', 'rope_theta': 10000.0, 'factor': 2.0}}
        """
        from ..._models import exports

        return exports.config_of(self._settings, self.attention_factor)

    def gguf(self, architecture: str) -> dict[str, Any]:
        """Return metadata of a GGUF file that means this to llama.cpp, as `from_gguf` reads it.

        Parameters
        ----------
        architecture : str
            llama.cpp's name of the model's, such as "llama", which has the layout.

        Returns
        -------
        dict
            Keys and values of the header; and where llama.cpp does not know the scaling, an array "rope_freqs.weight" of
            float32, the tensor by which it divides the powers of the base.

        Raises
        ------
        ValueError
            When the architecture is not known or has another layout, or GGUF cannot say this.

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
            float64, float32, float16 or bfloat16, such as (batch, heads, length, head_dim).
        positions : array_like, optional
            Of the tokens, as in `Encoding.encode` (where one is missing, the pairs become NaN): of shape (length,), or
            (batch, length) for each sequence of the batch (in general, the first axes of x and length); with sections
            one more axis of (axes,). Not given, ``start, start + 1, ..``.
        start : float
            Position of the first token.
        seq_axis : int
            Which axis of x is that of the tokens: -2 for (batch, heads, length, head_dim), 1 for (batch, length,
            heads, head_dim).
        inverse : bool
            Whether to turn back, which undoes it to the last bits.
        precision, workers
            As in `Encoding.table`.
        out : ndarray of the shape and type of x, optional
            Where to write; ``out=x`` turns in place. Other memory shared with x is an error.

        Returns
        -------
        ndarray of the shape and type of x

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit; x and out are as they were then.

        Examples
        --------
        A new token at position 100, with a cache of the keys before it:

        >>> import numpy as np, posenc_fast as pf
        >>> rotary, key = pf.Rotary(64), np.ones((1, 8, 1, 64), np.float32)
        >>> turned = rotary.apply(key, start=100)
        >>> bool(np.abs(rotary.apply(turned, start=100, inverse=True) - key).max() < 2e-7)
        True
        """
        alone = workers is None or one_thread(workers, 0)
        if alone and positions is None and inverse is False and is_exact(precision):
            turned = self._turner.few_by_positions(x, start, seq_axis, out)
            if turned is not None:
                return turned
        return self._turner.by_positions(x, positions, start, seq_axis, inverse, precision, out, workers)

    def shift(
        self,
        keys: npt.NDArray[Float],
        offset: npt.ArrayLike,
        *,
        seq_axis: int = -2,
        out: npt.NDArray[Float] | None = None,
        workers: int | None = None,
    ) -> npt.NDArray[Float]:
        """Turn keys of positions p, as a cache has them, into those of positions p + offset.

        For caches that slide: context shift, sliding windows, chunks that are used again elsewhere. Values have no
        position, and stay.

        Parameters
        ----------
        keys : ndarray of shape (..., head_dim)
            What `apply` returned, for any positions.
        offset : float or array_like
            How far all keys move; or of shape (length,) or (batch, length), each token or those of each sequence; or
            (blocks, 1), each block of a paged cache, the first axis of keys. With sections, a number moves all axes, and
            an array has one more axis of (axes,).
        seq_axis, out, workers
            As in `apply`; ``out=keys`` moves them in place.

        Returns
        -------
        ndarray of the shape and type of keys

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit, or the lengths of keys depend on their positions (xpos); keys and out are as
            they were then.

        Notes
        -----
        Turns add up, so no position need be known, and one number costs one row of cosines and sines. Keys are rounded
        when they are first turned and whenever they are moved: each time adds at most half a unit in the last place of
        the length of a pair, 2^-24 (float16: 2^-11, bfloat16: 2^-8) of it, to what `apply` promises. So moving keys
        that are kept as they were, by the whole distance, is better than moving them bit by bit.

        It is `apply` at positions ``offset``, but for two things: an attention factor is in the keys already, and
        ``layout="interleaved_to_half"`` has put their pairs half a head apart.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> rotary, keys = pf.Rotary(64), np.ones((1, 8, 100, 64), np.float32)
        >>> cache = rotary.apply(keys)
        >>> cache = np.ascontiguousarray(cache[:, :, 40:])
        >>> bool(np.abs(rotary.shift(cache, -40, out=cache) - rotary.apply(keys[:, :, :60])).max() < 4e-7)
        True
        """
        return self._turner.by_offset(keys, offset, seq_axis, out, workers)

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
        """Rotate queries or keys by ready tables.

        Parameters
        ----------
        x, seq_axis, out, workers
            As in `apply`.
        cos, sin : array_like of shape (length, rotary_dim/2), or (batch, length, rotary_dim/2)
            Such as `tables` makes; taken as they are, whatever the scaling.

        Returns
        -------
        ndarray of the shape and type of x

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit; x and out are as they were then.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> rotary, x = pf.Rotary(8), np.ones((2, 3, 8), np.float32)
        >>> bool(np.allclose(rotary.apply_tables(x, *rotary.tables(3)), rotary.apply(x), atol=1e-7))
        True
        """
        if workers is None or one_thread(workers, 0):
            turned = self._turner.few_by_tables(x, cos, sin, seq_axis, out)
            if turned is not None:
                return turned
        return self._turner.by_tables(x, cos, sin, seq_axis, out, workers)


def rotary_of(cls: type[Rotary] | None, head_dim: int, arguments: dict[str, Any]) -> Rotary:
    """Return the Rotary of a pickle."""
    return (cls or Rotary)(head_dim, **arguments)


# what pickles name: it is there, wherever this file may go
rotary_of.__module__ = "posenc_fast"
rotary_of.__qualname__ = rotary_of.__name__ = "_rotary_of"


def turner_of(rotary: Rotary) -> Turner:
    """Return what rotates for a Rotary."""
    return rotary._turner


# recipes are text for eval(recipe, vars(posenc_fast)), which does not ask the package for what it imports late
vars(sys.modules[__name__.partition(".")[0]])["Rotary"] = Rotary
