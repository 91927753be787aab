"""Check arguments that are names. Errors suggest the name that was probably meant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar, cast

Choice = TypeVar("Choice", bound=str)
Function = TypeVar("Function", bound=Callable[..., Any])

# parameter -> names of the same argument in other libraries. If several parameters match, the first is suggested.
_SYNONYMS = {
    "count": "k n num num_bands num_freqs",
    "base": "max_period max_timescale max_wavelength n rope_base rope_theta rotary_base temperature theta wavelength",
    "d_model": "channels d depth d_hid dim embed_dim embedding_dim emb_dim hidden_dim hidden_size num_hiddens",
    "head_dim": "d dim dim_head d_head embed_dim head_size",
    "rotary_dim": "rot_dim rotary_ndims",
    "length": "len max_len max_length max_seq_len n_positions num_positions seq_len sequence_length",
    "start": "offset past_length position_offset start_pos",
    "layout": "concat interleave interleaved is_neox neox_style traditional",
    "axes": "dims shape size sizes",
    "scaling": "rope_scaling rope_parameters",
}


def meant(name: Any, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name, such as ``; did you mean 'sinusoidal'?``, or an empty text."""
    import difflib

    by_lower_case = {known_name.lower(): known_name for known_name in known}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, 1) if isinstance(name, str) else []
    return f"; did you mean {by_lower_case[matches[0]]!r}?" if matches else ""


def one_of(value: Any, name: str, choices: Collection[Choice]) -> Choice:
    """Return the value if it is one of the choices. Raise an error otherwise."""
    if not isinstance(value, str) or value not in choices:
        known = tuple(choices)
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}{meant(value, known)}")
    return value  # type: ignore[return-value]


def hinted(function: Function) -> Function:
    """Decorate a function so that errors about unknown arguments suggest the argument that was probably meant."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # errors raised inside the function do not concern the arguments of this call
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            import inspect

            hint = _hint(kwargs, inspect.signature(function).parameters)
            # newer Python versions suggest similar names themselves
            if not hint or "Did you mean" in str(error):
                raise
            raise TypeError(f"{error}{hint}") from None

    return cast(Function, call)


def _hint(arguments: Iterable[str], known: Iterable[str]) -> str:
    """Return a suggestion for the first unknown argument, or an empty text."""
    parameters = tuple(known)
    for name in arguments:
        if name in parameters:
            continue
        for parameter, others in _SYNONYMS.items():
            if name in others.split():
                if parameter in parameters:
                    return f"; did you mean {parameter!r}?"
                if parameter == "length":
                    return "; pass the length to Encoding.table or Rotary.tables, which have no maximum length"
        return meant(name, parameters)
    return ""
