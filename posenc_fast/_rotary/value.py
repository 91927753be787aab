"""Rotary encodings: tables of cosines and sines, and the rotation of queries and keys by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from .._encoding.access import bound
from .._encoding.access import rows as rows_of
from .._encoding.conversion import convert, counted
from .._encoding.positions import Given
from .._encoding.value import Encoding
from .._engine import backend as _backend
from .._engine import threads as _threads
from .._engine.blocks import WORTH_A_THREAD
from .._numbers.arguments import check_precision, check_workers, count_of, progression, real
from .._numbers.arrays import base_array, check_out
from .._numbers.formats import TYPES, float_type, kind_of, wanted_type
from .._numbers.names import one_of
from .._numbers.rounding import rounded
from .._numbers.schedule import Explicit, Schedule
from . import pairs as _pairs
from . import scaling as _rope
from . import short
from .pairs import LAYOUTS
from .settings import Settings

__all__ = ["LAYOUTS", "Rotary", "permute_rotary"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)


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
    Schedules and unscaled frequencies are exact real numbers, scaled ones the float64 results of their formulas. Tables are rounded
    once from the exact value; x is turned in doubles and rounded once, so that a value is within half a unit in its
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

    __slots__ = ("__weakref__", "_cache", "_found", "_key", "_last", "_parameters")
    _key: Settings
    _parameters: dict[str, Any]
    _found: _rope.Frequencies
    _cache: dict[Any, Encoding]
    _last: dict[Any, tuple[int, Array]]
    _pinned: str | None = None
    _encodings: type[Encoding] = Encoding

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: str = "half",
        scaling: Mapping[str, Any] | None = None,
        sections: Sequence[int] | None = None,
        frequencies: Schedule | Sequence[Schedule] | npt.ArrayLike | None = None,
        attention_factor: float = 1.0,
    ) -> None:
        head = count_of(head_dim, "head_dim", 2)
        dim = _rope.count_pairs(head if rotary_dim is None else rotary_dim, head)
        number = real(base, "base", positive=True)
        one_of(layout, "layout", LAYOUTS)
        rope_type, parameters = _rope.checked_scaling(scaling, dim // 2)
        axes = _pairs.checked_axes(sections, frequencies, dim // 2)
        if rope_type == "axial" and axes is None:
            raise ValueError("scaling has rope_type='axial', which needs sections: how many pairs read each axis")
        if rope_type == "xpos" and axes is not None:
            raise ValueError("sections and rope_type='xpos' exclude each other: amplitudes have one axis")
        factor, given = real(attention_factor, "attention_factor", positive=True), None
        if frequencies is None:
            if factor != 1:
                raise ValueError(f"attention_factor={factor} needs frequencies; a scaling has one among its parameters")
            found = _rope.frequencies_of(dim, number, rope_type, parameters)
        else:
            if (number, scaling) != (10000.0, None):
                raise ValueError(f"frequencies excludes base={number} and scaling={scaling!r}; leave one side out")
            given = _pairs.checked_frequencies(frequencies, dim // 2, axes)
            found = _rope.Frequencies(given[0], factor)
        key = Settings(head, number, dim, layout, rope_type, tuple(sorted(parameters.items())), axes, given, factor)
        for name, value in (
            ("_key", key),
            ("_parameters", parameters),
            ("_found", found),
            ("_cache", {}),
            ("_last", {}),
        ):
            object.__setattr__(self, name, value)
        self._angles_of("cos")

    @overload
    @classmethod
    def from_config(
        cls,
        config: Any,
        *,
        layer: None = None,
        layer_type: None = None,
        layout: str | None = ...,
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
        layout: str | None = ...,
        seq_len: int | None = ...,
    ) -> Self | None: ...

    @classmethod
    def from_config(
        cls,
        config: Any,
        *,
        layer: int | None = None,
        layer_type: str | None = None,
        layout: str | None = None,
        seq_len: int | None = None,
    ) -> Self | None:
        """The rotary encoding of a model, as its config means it.

        Parameters
        ----------
        config : mapping, path, or config of transformers
            The contents of a config.json, or where it is; a part of one (``config["vision_config"]``) with its
            model_type. Of a model of several parts that of text is read. model_type decides how it is read: the
            documentation has a table of all.
        layer : int, optional
            Index of a layer, where layers differ.
        layer_type : str, optional
            Kind of layers, such as "sliding_attention", instead of layer.
        layout : {"half", "interleaved", "interleaved_to_half"}, optional
            Instead of the model's own, for weights in another order; must be given where model_type is unknown.
        seq_len : int, optional
            Length of the sequence, for the scalings that ask for it (dynamic, longrope); not given, one that is not
            longer than those of the training.

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
        from .config import arguments as _rotary_config

        arguments = _rotary_config.arguments_of(config, layer, layer_type, layout, seq_len)
        return None if arguments is None else cls(**arguments)

    # ---- the value --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Rotary is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Rotary is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Rotary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def _arguments(self) -> dict[str, Any]:
        key = self._key
        sections = key.axes
        if key.axes is not None and list(key.axes) == sorted(key.axes):
            sections = tuple(np.bincount(key.axes).tolist())
        given = {
            "base": key.base,
            "rotary_dim": key.rotary_dim,
            "layout": key.layout,
            "scaling": None if key.rope_type == "default" else {"rope_type": key.rope_type, **self._parameters},
            "sections": sections,
            "frequencies": None if key.frequencies is None else _pairs.written(key.frequencies),
            "attention_factor": key.attention_factor,
        }
        usual = {"base": 10000.0, "rotary_dim": key.head_dim, "layout": "half", "attention_factor": 1.0}
        return {name: value for name, value in given.items() if value != usual.get(name)}

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._arguments().items())
        return f"Rotary({self.head_dim}{options})"

    def __reduce__(self) -> tuple[Any, ...]:
        cls = None if type(self) is Rotary else type(self)
        return rotary_of, (cls, self.head_dim, self._arguments())

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self._key.head_dim

    @property
    def rotary_dim(self) -> int:
        """How many of the first values turn."""
        return self._key.rotary_dim

    @property
    def frequencies(self) -> Floats:
        """Radians per unit of position of each pair, rounded to float64: (rotary_dim/2,), or (rotary_dim/2, axes)."""
        values, axes = self._angles_of("cos").frequencies, self._key.axes
        return values if axes is None or values.ndim == 1 else values[np.arange(len(values)), axes]

    @property
    def attention_factor(self) -> float:
        """Factor of cosines and sines."""
        return self._found.attention_factor

    @property
    def ndim(self) -> int:
        """Number of axes of a position."""
        return self._angles_of("cos").ndim

    def _engine(self) -> _backend.Engine:
        return _backend.current() if self._pinned is None else _backend.select(self._pinned)

    def _angles_of(self, *functions: str, inverse: bool = False) -> Encoding:
        """What computes these functions of all pairs, side by side."""
        found = self._cache.get((functions, inverse))
        if found is None:
            key, values = self._key, self._found.values
            factor = 1 / self.attention_factor if inverse else self.attention_factor
            if key.rope_type == "axial":
                assert key.axes is not None
                values = _pairs.axial(key.base, key.axes)
            schedules = key.frequencies or (values if isinstance(values, Schedule) else Explicit(values),)
            found = bound(self._encodings, _pairs.angles_of(schedules, key.axes, functions, factor))
            self._cache[functions, inverse] = found
        return found

    # ---- tables -----------------------------------------------------------------------------------------------------

    def tables(
        self,
        positions_or_length: npt.ArrayLike | int,
        *,
        start: float = 0,
        dtype: npt.DTypeLike | None = None,
        precision: str = "exact",
        out: tuple[Array, Array] | None = None,
        workers: int | None = None,
    ) -> tuple[Array, Array]:
        """Cosines and sines, the attention factor included.

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
        given: Any = positions_or_length
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            given = count_of(given, "length", 0)
            progression(start, 1, given)
            shape: tuple[int, ...] = (given,)
        else:
            if start != 0:
                raise ValueError(f"start={start!r} is for a length; positions are given as they are")
            given = convert(given, self.ndim)
            shape = given.shape
        pair: Any = (None, None) if out is None else out
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"out must be a pair of arrays for cosines and sines, not {type(out).__name__}")
        result_type = wanted_type(dtype, pair[0])
        single, threads = check_precision(precision), check_workers(workers)
        outs: tuple[Any, Any] = (None, None)
        if out is not None:
            pairs = self.rotary_dim // 2
            outs = check_out(pair[0], (*shape, pairs), result_type), check_out(pair[1], (*shape, pairs), result_type)
            if np.may_share_memory(*outs):
                raise ValueError("out has two arrays that share memory; give cosines and sines memory of their own")
            if isinstance(given, Given):
                # cosines may be written where positions are
                given.keep_from(outs[0])
        results = [
            self._rows(self._angles_of(name), given, start, result_type, into, single, threads)
            for name, into in zip(("cos", "sin"), outs, strict=True)
        ]
        return (results[0], results[1]) if out is None else (out[0], out[1])

    def _rows(
        self,
        encoding: Encoding,
        given: int | Given,
        start: float,
        result_type: np.dtype[Any],
        out: Any = None,
        single: bool = False,
        threads: int = 1,
    ) -> Array:
        """Rows of an encoding of the angles at a number of positions, or at given ones; xPos's amplitudes included."""
        if not isinstance(given, Given):
            if encoding.ndim == 1 and self._key.rope_type != "xpos":
                precision = "float32" if single else "exact"
                return encoding.table(
                    given, start=start, dtype=result_type, out=out, precision=precision, workers=threads
                )
            given = counted(start, given, encoding.ndim)
        if self._key.rope_type == "xpos":
            rows = self._xpos_rows(encoding, given, single, threads)
            if out is None:
                return rounded(rows, result_type)
            out[...] = rounded(rows, result_type)
            return out  # type: ignore[no-any-return]
        return rows_of(encoding, given, result_type, out, single=single, threads=threads)

    def _xpos_rows(
        self, encoding: Encoding, given: Given, single: bool = False, threads: int = 1, inverse: bool = False
    ) -> Floats:
        rows = rows_of(encoding, given, _FLOAT64, single=single, threads=threads)
        pairs = self.rotary_dim // 2
        amplitudes = _rope.xpos_amplitudes(given.rounded(), pairs, self._parameters)
        tiled = np.tile(amplitudes, encoding.d_model // pairs)
        return rows / tiled if inverse else rows * tiled

    # ---- rotation ---------------------------------------------------------------------------------------------------

    def apply(
        self,
        x: Array,
        *,
        positions: npt.ArrayLike | None = None,
        start: float = 0,
        seq_axis: int = -2,
        inverse: bool = False,
        precision: str = "exact",
        out: Array | None = None,
        workers: int | None = None,
    ) -> Array:
        """Turn queries or keys.

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
        if positions is None and workers is None and precision == "exact" and inverse is False:
            turned = short.by_positions(self, x, start, seq_axis, out)
            if turned is not None:
                return turned
        single, threads = check_precision(precision), check_workers(workers)
        x, axis, lead, length = self._checked_x(x, seq_axis)
        dtype = short.angles_type(kind_of(x.dtype) or 0)
        if positions is None:
            if length:
                progression(start, 1, length)

            def angles(part: slice) -> Array:
                return short.rows_kept(self, part.stop - part.start, start + part.start, single, inverse, dtype)

            return self._turned(x, out, axis, lead, 0, angles, threads, inverse)
        if start != 0:
            raise ValueError(f"positions excludes start={start!r}; leave one side out")
        given = convert(positions, self.ndim)
        shape = given.shape
        groups = len(shape) - 1
        if groups < 0 or shape != (*lead[:groups], length):
            raise ValueError(
                f"positions is for {shape}, but must be for {(length,)}, or for the first axes of x and its {length} "
                f"tokens: {(*lead[:1], length)}"
            )
        if isinstance(out, np.ndarray):
            given.keep_from(out)

        def angles_at(part: slice) -> Array:
            rows = self._angle_rows(given.select((slice(None),) * groups + (part,)), 0, single, inverse, dtype)
            return short.with_plain_nans(rows)

        return self._turned(x, out, axis, lead, groups, angles_at, threads, inverse)

    def _angle_rows(self, given: int | Given, start: float, single: bool, inverse: bool, dtype: np.dtype[Any]) -> Array:
        """Cosines and sines side by side, of a number of positions or of given ones."""
        encoding = self._angles_of("cos", "-sin" if inverse else "sin", inverse=inverse)
        if inverse and self._key.rope_type == "xpos":
            if not isinstance(given, Given):
                given = counted(start, given, encoding.ndim)
            return rounded(self._xpos_rows(encoding, given, single, inverse=True), dtype)
        return self._rows(encoding, given, start, dtype, single=single)

    def apply_tables(
        self,
        x: Array,
        cos: npt.ArrayLike,
        sin: npt.ArrayLike,
        *,
        seq_axis: int = -2,
        out: Array | None = None,
        workers: int | None = None,
    ) -> Array:
        """Turn queries or keys by ready tables.

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
        if workers is None:
            turned = short.by_tables(self, x, cos, sin, seq_axis, out)
            if turned is not None:
                return turned
        threads = check_workers(workers)
        x, axis, lead, length = self._checked_x(x, seq_axis, "apply_rotary_pos_emb")
        parts = [np.asarray(cos), np.asarray(sin)]
        for name, part in zip(("cos", "sin"), parts, strict=True):
            if kind_of(part.dtype) is None:
                raise TypeError(f"{name} must have real numbers of one of {', '.join(TYPES)}, not {part.dtype}")
        groups = parts[0].ndim - 2
        expected = (*lead[: max(groups, 0)], length, self.rotary_dim // 2)
        for name, part in zip(("cos", "sin"), parts, strict=True):
            if groups < 0 or part.shape != expected:
                raise ValueError(
                    f"{name} has shape {part.shape}, but must have {(length, self.rotary_dim // 2)}, or the first axes "
                    "of x before that"
                )

        kind = kind_of(x.dtype) or 0

        def angles(part: slice) -> Array:
            cosines, sines = (one[(slice(None),) * groups + (part,)] for one in parts)
            return short.side_by_side(cosines, sines, kind)

        return self._turned(x, out, axis, lead, groups, angles, threads, False)

    def _checked_x(self, x: Any, seq_axis: Any, twin: str = "rotate") -> tuple[Array, int, tuple[int, ...], int]:
        """x as it stays; the axis of the tokens, counted from the front; the lengths of the others and its own."""
        x = base_array(x, "x", twin)
        float_type(x.dtype, "x")
        shape, dims = x.shape, x.ndim
        if dims < 2 or shape[-1] != self._key.head_dim:
            raise ValueError(f"x has shape {shape}, but must have (.., {self.head_dim}), the head_dim last")
        axis = seq_axis if type(seq_axis) is int else count_of(seq_axis, "seq_axis", -dims)
        if not -dims <= axis < dims - 1 or axis == -1:
            raise ValueError(f"seq_axis={axis} must be one of the axes of x, which has shape {shape}, but the last")
        axis %= dims
        return x, axis, shape[:axis] + shape[axis + 1 : -1], shape[axis]

    def _turned(
        self,
        x: Array,
        out: Array | None,
        axis: int,
        lead: tuple[int, ...],
        groups: int,
        angles: Callable[[slice], Array],
        threads: int,
        inverse: bool,
    ) -> Array:
        result = np.empty(x.shape, x.dtype) if out is None else check_out(out, x.shape, x.dtype, "rotate")
        same = result.strides == x.strides and result.ctypes.data == x.ctypes.data
        if out is not None and not same and np.may_share_memory(x, result):
            raise ValueError("out and x overlap without being the same array; give out=x, or memory of its own")
        if x.size == 0:
            return result if out is None else out
        # the engines take whole numbers of values, side by side
        source = x if x.flags.aligned and x.strides[-1] == x.itemsize else np.array(x, order="C")
        target = result if result.flags.aligned else np.empty(x.shape, x.dtype)
        length, pairs, layout = x.shape[axis], self._key.rotary_dim // 2, LAYOUTS.index(self._key.layout)
        back = inverse and layout == 2
        kind = kind_of(x.dtype) or 0
        from_, to = (_arranged(array, kind, axis, groups) for array in (source, target))
        engine = self._engine()

        def turn(part: slice) -> None:
            rows = angles(part).reshape(*lead[:groups], -1, 2 * pairs)
            if to.ndim == 5:
                pieces: Iterable[tuple[Any, Any]] = [((...,), (slice(None),) * 3)]
            else:
                pieces = _pieces(to.shape, max(groups, 1))
            for outer, where in pieces:
                piece = np.ascontiguousarray(rows[outer]).reshape(-1, rows.shape[-2], 2 * pairs)
                where = (*where, part)
                engine.module.rotate(engine.level, piece, from_[where], to[where], kind, 0 if back else layout)

        block = max(1, min(short.ANGLES // (2 * pairs * math.prod(lead[:groups])), -(-length // threads)))
        if block >= length:
            turn(slice(0, length))
        else:
            slices = (slice(i, min(i + block, length)) for i in range(0, length, block))
            _threads.run(turn, slices, threads if x.size >= WORTH_A_THREAD else 1)
        if back:
            turned = target[..., : 2 * pairs].copy()
            target[..., 0 : 2 * pairs : 2], target[..., 1 : 2 * pairs : 2] = turned[..., :pairs], turned[..., pairs:]
        if target is not result:
            result[...] = target
        return result if out is None else out


def permute_rotary(
    weight: npt.ArrayLike,
    head_dim: int,
    *,
    source: str,
    target: str,
    rotary_dim: int | None = None,
    axis: int = 0,
) -> Array:
    """Query or key weights for one layout from those for another.

    Parameters
    ----------
    weight : array_like
        A projection's weight (heads * head_dim, d_model), its bias, or anything with heads side by side on an axis.
    head_dim : int
        Width of a head.
    source, target : {"half", "interleaved"}
        Layouts of `Rotary` that the weights are for, and shall be for.
    rotary_dim : int, optional
        How many of the first values of a head turn; all if not given.
    axis : int
        Which axis has the heads.

    Returns
    -------
    ndarray of the shape and type of weight
        A copy. Scores of queries and keys that are both permuted stay the same.

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit.

    References
    ----------
    The permutation of huggingface/transformers convert_llama_weights_to_hf.py, and its inverse.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> pf.permute_rotary(np.arange(6), 6, source="interleaved", target="half")
    array([0, 2, 4, 1, 3, 5])
    """
    array = np.asarray(weight)
    head = count_of(head_dim, "head_dim", 2)
    dim = _rope.count_pairs(head if rotary_dim is None else rotary_dim, head)
    for name, layout in (("source", source), ("target", target)):
        one_of(layout, name, LAYOUTS[:2])
    place = count_of(axis, "axis", -array.ndim)
    if array.ndim == 0 or place >= array.ndim or array.shape[place] % head:
        raise ValueError(f"weight has shape {array.shape}, whose axis {place} must be a multiple of head_dim={head}")
    order = np.arange(head)
    if source != target:
        pairs = np.arange(dim).reshape((2, -1) if source == "half" else (-1, 2))
        order[:dim] = pairs.T.reshape(-1)
    heads = np.arange(0, array.shape[place], head)[:, np.newaxis]
    return np.take(array, (heads + order).reshape(-1), axis=place)


def rotary_of(cls: type[Rotary] | None, head_dim: int, arguments: dict[str, Any]) -> Rotary:
    """What was pickled."""
    return (cls or Rotary)(head_dim, **arguments)


# what pickles name: it is there, wherever this file may go
rotary_of.__module__ = "posenc_fast"
rotary_of.__qualname__ = rotary_of.__name__ = "_rotary_of"


def _arranged(array: Array, kind: int, axis: int, groups: int) -> Array:
    """At least one group and two batches in front of (length, head_dim); 16-bit floats as uint16."""
    if kind >= 2:
        array = array.view(np.uint16)
    if axis != array.ndim - 2:
        array = np.moveaxis(array, axis, -2)
    if groups == 0:
        array, groups = array[np.newaxis], 1
    missing = 4 - (array.ndim - groups)
    return array[(slice(None),) * groups + (np.newaxis,) * missing] if missing > 0 else array


def _pieces(shape: tuple[int, ...], groups: int) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Indices of parts of five dimensions, which the engines take: of the groups alone, and of all before the rows."""
    for outer in np.ndindex(*shape[: groups - 1]):
        for inner in np.ndindex(*shape[groups:-4]):
            yield outer, (*outer, slice(None), *inner, slice(None), slice(None))
