# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops of posenc_fast. Compiled once for each instruction-set level; only levels that the CPU supports are called.

Design
------
(a) A *wave* has a frequency for each axis, in turns per unit of position, stored as the sum of two doubles. A column of
    the output is amplitude * (sine or cosine of a wave). Waves are evaluated once and shared by their columns.
(b) Argument reduction: position * frequency is computed as a product and its exact error. Whole turns, then quarter
    turns are subtracted, which is exact. The rest is a sum of two doubles, the first of at most an eighth of a turn.
    This reduction needs no tables and no branches.
(c) ``sincos`` returns sine and cosine of the rest in doubles, for results that are rounded to 32 or 16 bits.
    ``sincos_dd`` returns them in double-double, as sums of two doubles, for float64 results and for (d).
(d) Rows of integer positions are not evaluated, but rotated from the row of an *anchor*, an integer nearby: value *
    cosine + quadrature * sine (see ``lattice.pxd``). The rows of anchor + offset and anchor - offset share both
    products. The rows of anchors are themselves rotated, from a row that is evaluated once per *span*. The anchor of a
    position depends only on the position, and so do the bits of the position's row.
(e) An *output* describes how rows are stored: written, or added to scale * x, in any of the four types, through the
    cache or past it by non-temporal stores.
(f) The bits are the same at every level. Products and sums are separate operations, except in two places that use FMA.
    The first is the error of a product, which is exact with FMA and without. The second is the polynomials of
    ``sincos`` in rows of 32 and 16 bits, but not in sums with x. A level without FMA computes these polynomials in
    plain products and sums. The relative difference is at most REACH (``constants.h``). If this difference could
    change the rounded result, the row is evaluated again with emulated FMA.
(g) Range: angles of up to 2^49 turns at positions of up to 2^990. Rows beyond this range, or with so few turns that
    errors of products are subnormal, are EXACT_ROWs: Python computes them in exact arithmetic. Rows at positions that
    are NaN or infinite are NaN. If an encoding has a lattice, rows of 64-bit integers are rotated (d), at any angle.
(h) Worst errors, as ``python bench/steps.py --samples 1048576`` measures them: argument reduction 2^-105.9 of the
    angle, ``sincos`` 2^-52.5 with FMA and 2^-52.1 without, ``sincos_dd`` 2^-66.9 of the value, rotated rows 2^-50.5 in
    doubles and 2^-67.0 in double-double.

``sincos.pxd`` contains (c), ``columns.pxd`` (a) and (b), ``output.pxd`` (e), ``positions.pxd`` rows of any positions,
``lattice.pxd`` (d), and ``tables.pxd`` tables by (d). Cython includes these files, so that all functions are static.
Functions that return a ``step`` are always inlined. Pointers to const are inputs, all others outputs or work space.

The loops check nothing: ``_kernel.pyx``, ``interface.pxd`` and the Python callers of the kernel check all arguments.
The loops must not use Python objects, because the init function that Cython writes for this file never runs.
"""

from entry cimport CLevel
from positions cimport encode, evaluate
from tables cimport rows_in_any_order, table


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.encode = encode
    level.evaluate = evaluate
    level.table = table
    level.rows = rows_in_any_order
