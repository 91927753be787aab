"""Create the capsules of an Encoding and of a Rotary, which compiled programs read with ``posenc_fast.h``."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from ..engine import backend
from ..engine.blocks import cache_size
from .plans import Plans


def get_include() -> str:
    """Return the folder of ``posenc_fast.h``. Pass it to a C, C++ or Cython compiler as an include path.

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
    """Return the capsule of an encoding. The plans cache it, so calls at the same level return the same capsule."""
    engine = plans.engine()
    if engine.backend != "cython":
        # C programs cannot call the NumPy engine. The compiled engine computes the same bits.
        engine = backend.select("cython", caller="the C interface")
    sinusoids = plans.sinusoids
    if sinusoids.periods():
        raise ValueError(
            "an encoding with periods has no C interface, because the C interface does not support exact periods; "
            "create the encoding from frequencies instead"
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
    """Return the capsule of a rotation. `plans` are the Plans of the cosines and sines. They cache the capsule."""
    if plans.axes != 1:
        raise ValueError(
            f"a Rotary of {plans.axes} axes has no C interface, because the C interface supports only one axis of "
            "positions"
        )
    angles = encoding_capsule(plans)
    assert backend.kernel is not None
    make = backend.kernel.rotary_capsule
    # the id of the capsule `angles` identifies the level, because the plans have one such capsule for each level
    return plans.capsule((id(angles), head_dim, layout), lambda: make(angles, head_dim, layout))
