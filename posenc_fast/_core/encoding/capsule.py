"""Capsules for compiled programs: what ``posenc_fast.h`` makes of an Encoding and of a Rotary."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from ..engine import backend
from ..engine.blocks import cache_size
from .plans import Plans


def get_include() -> str:
    """Return the folder of ``posenc_fast.h``, for compilers of C, C++ and Cython.

    Returns
    -------
    str

    Examples
    --------
    >>> import pathlib, posenc_fast as pf
    >>> (pathlib.Path(pf.get_include()) / "posenc_fast.h").is_file()
    True
    """
    return str(Path(__file__).parents[2] / "include")


def encoding_capsule(plans: Plans) -> Any:
    """Return the capsule of an encoding, which lives as long as its plans, and keeps none of Python's."""
    engine = plans.engine()
    if engine.backend != "cython":
        # the engine in NumPy has nothing to call from C; the bits are the same
        engine = backend.select("cython", origin="__posenc_encoding__")
    sinusoids = plans.sinusoids
    if sinusoids.periods():
        raise ValueError(
            "an encoding with periods has no C interface: their whole turns are counted in Python; give frequencies instead"
        )

    def make() -> Any:
        single = sinusoids.single_products
        real, phase = plans.plan(engine, "real", single=single)
        return engine.module.encoding_capsule(
            engine.level,
            real,
            None if single else plans.plan(engine, "integer")[0],
            plans.lattice(engine, False)[0],
            plans.lattice(engine, True)[0],
            None if single else plans.least(Fraction(1)),
            phase,
            single,
            plans.axes,
            cache_size(),
        )

    return plans.capsule(engine.level, make)


def rotary_capsule(plans: Plans, head_dim: int, layout: int) -> Any:
    """Return the capsule of a rotation, which lives as long as plans: those of its cosines and sines."""
    if plans.axes != 1:
        raise ValueError(f"a Rotary of {plans.axes} axes has no C interface: a token has one position there")
    angles = encoding_capsule(plans)
    assert backend.kernel is not None
    make = backend.kernel.rotary_capsule
    # of the same level as its angles
    return plans.capsule((id(angles), head_dim, layout), lambda: make(angles, head_dim, layout))
