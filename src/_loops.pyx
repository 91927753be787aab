# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops of posenc_fast: compiled once for each instruction-set level, called only after a look at the CPU.

Design
------
(a) A *wave* is a frequency, in turns per unit of position, kept as the sum of two doubles. A column of the output is
    amplitude * (sine or cosine of a wave). Waves are evaluated once, however many columns share them.
(b) Argument reduction: position * turns is a product and its exact error; whole turns, then quarter turns are
    subtracted, which is exact; what is left is at most an eighth of a turn, with a low part. No tables, no branches,
    no Payne-Hanek.
(c) ``sincos``: sine and cosine of it in doubles, for results that are rounded to 32 or 16 bits.
    ``sincos_dd``: the same in double-double, as sums of two doubles, for float64 results and for (d).
(d) Consecutive positions are not evaluated but rotated: value and quadrature of an anchor row, times cosine and sine
    of the offset. The row above and the row below the anchor by the same offset share both products. Anchors are
    themselves rotated from one exact evaluation per *span*. Which anchor serves a position depends on the position
    alone, and so do the bits of its row.
(e) An *output* is where rows go: written, or added to scale * x, in any of the four types; through the cache, or past
    it by non-temporal stores.
(f) The bits are the same at every level. Products and sums are written out where levels without FMA compute them, too,
    and contraction is off. FMA stands in the polynomials of ``sincos`` alone, where results are rounded to fewer bits:
    a level without it takes plain products and sums, whose values are within REACH, and evaluates those rows again,
    with products and sums that are rounded once, in which a value lies so close to the middle of two.
(g) Range: angles of up to 2^49 turns at positions of up to 2^990. A row beyond (an EXACT_ROW), or of so few turns that
    errors of products are subnormal, is left to exact arithmetic in Python; one without a position is not a number.
    Rows of integers of 64 bits are rotated, whatever their angles.
(h) Worst errors, as ``python bench/steps.py --samples 1048576`` measures them: argument reduction 2^-105.9 of the
    angle, ``sincos`` 2^-52.5 with FMA and 2^-52.1 without, ``sincos_dd`` 2^-66.9 of the value, rotated rows 2^-50.5 in
    doubles and 2^-67.0 in double-double.

``sincos.pxd`` has (c), ``columns.pxd`` (a) and (b), ``output.pxd`` (e), ``positions.pxd`` rows of any positions,
``lattice.pxd`` (d), and ``tables.pxd`` what is made by it. All their functions become static ones of this file, and
those that return a ``step`` are always inlined. Pointers to const are inputs, all others outputs or work space.

Nothing here is checked: ``_kernel.pyx`` and the Python wrapper have done that. Nothing here may touch a Python
object: the module's init function never runs.
"""

from entry cimport CLevel
from positions cimport encode, evaluate
from tables cimport rows_in_any_order, table


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.encode = encode
    level.evaluate = evaluate
    level.table = table
    level.rows = rows_in_any_order
