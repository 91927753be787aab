# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops of posenc_fast: compiled once for each instruction-set level, called only after a look at the CPU.

Design
------
(a) A *wave* is a frequency, in turns per unit of position, kept as the sum of two doubles. A column of the output is
    amplitude * (sine or cosine of a wave). Waves are evaluated once, however many columns share them.
(b) ``reduce``: position * turns is a product and its exact error; whole quarter turns are subtracted, which is exact;
    what is left is at most an eighth of a turn, with a low part. No tables, no branches, no Payne-Hanek.
(c) ``quick``: sine and cosine of it in doubles, for results that are rounded to 32 or 16 bits.
    ``accurate``: the same as sums of two doubles, for float64 results and for (d).
(d) Consecutive positions are not evaluated but rotated: value and quadrature of an anchor row, times cosine and sine
    of the offset. The row above and the row below the anchor by the same offset share both products. Anchors are
    themselves rotated from one exact evaluation per *span*. Which anchor serves a position depends on the position
    alone, and so do the bits of its row.
(e) A *sink* is the destination of rows: written, or added to scale * x, in any of the four types.
(f) The bits are the same at every level. Products and sums are written out where levels without FMA compute them, too,
    and contraction is off. FMA stands in the polynomials of ``quick`` alone, where results are rounded to fewer bits: a
    level without it takes plain products and sums, whose values are within REACH, and evaluates those rows again,
    with products and sums that are rounded once, in which a value lies so close to the middle of two.
(g) Range: angles of up to 2^49 turns at positions of up to 2^990. A row beyond (a HARD_ROW), or of so few turns that
    errors of products are subnormal, is left to exact arithmetic in Python; one without a position is not a number.
    Rows of integers of 64 bits are rotated, whatever their angles.
(h) Worst errors, as ``python bench/steps.py --samples 1048576`` measures them: ``reduce`` 2^-105.9 of the angle,
    ``quick`` 2^-52.5 with FMA and 2^-52.1 without, ``accurate`` 2^-66.9 of the value, rotated rows 2^-50.5 in doubles
    and 2^-67.0 as sums of two.

``waves.pxi`` has (a) to (c), ``sinks.pxi`` (e), ``positions.pxi`` rows of any positions, ``lattice.pxi`` (d), and
``tables.pxi`` what is made by it.

Nothing here is checked: ``_kernel.pyx`` and the Python wrapper have done that. Nothing here may touch a Python
object: the module's init function never runs.
"""

from posenc cimport (
    BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FUSES, LONG_VECTORS, PREFETCH_BLOCK, PREFETCH_COLUMNS, PREFETCH_DISTANCE,
    TILE, CLattice, CLevel, CPlan, CRow, CSink, before_line, bits, crdouble, crfloat, crint32, fma, from_bfloat,
    from_bits, from_half, oddfloat, prefetch, product_error, rdouble, rfloat, roddfloat, rotate_lines, rwidebfloat,
    size_of, stream, stream_end, to_bfloat, to_half, to_odd, to_wide_bfloat, two_sum, widebfloat,
)
from work cimport (
    EncodeWork, EvaluateWork, RowsWork, TableWork, anchor_rows, lay_out_encode, lay_out_evaluate, lay_out_rows,
    lay_out_table,
)
from libc.math cimport INFINITY, NAN, fabs
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc
from libc.string cimport memcmp, memcpy, memset

# rows that are written: restricted pointers, so that the compiler need not ask whether they overlap
ctypedef fused row_out:
    rdouble
    rfloat
    roddfloat
    rwidebfloat

ctypedef fused narrow_row:
    rfloat
    roddfloat
    rwidebfloat

cdef extern from *:
    """
    #include "coefficients.h"
    /* 1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits of the sum */
    #define ROUNDER 6755399441055744.0
    /* the same with quarters */
    #define QUARTERS 1688849860263936.0
    /* how far, relative to it, a value of ``quick`` with FMA may lie from one without: at most 2^-50.8 */
    #define REACH 0x1p-49
    #define SIGN_BIT ((uint64_t)1 << 63)
    /* turns: up to QUICK the low part of a product is small; beyond MOST it no longer rounds to quarter turns;
       below TINY its error may be subnormal, that is, inexact */
    #define QUICK 1099511627776.0
    #define MOST 562949953421312.0
    #define TINY 1e-270
    /* 2^990: beyond, a number cannot be split into halves, which is how products are made exact without FMA */
    #define POSENC_HUGE 0x1p990
    /* makes infinities of what is enormous */
    #define BEYOND_HUGE 0x1p34
    """
    uint64_t SIGN_BIT
    double ROUNDER, QUARTERS, REACH, QUICK, MOST, TINY, BEYOND_HUGE, HUGE "POSENC_HUGE"
    double TWO_PI, TWO_PI_LOW, PER_RADIAN, PER_RADIAN_LOW
    double S0, S1, S2, S3, S4, S5, S6, C1, C2, C3, C4, C5, C6
    double T3, T3_LOW, T4, T4_LOW, T5, T5_LOW, T6, T6_LOW
    double T7, T8, T9, T10, T11, T12, T13, T14, T15, T16, T17, T18, T19, T20


include "waves.pxi"
include "sinks.pxi"
include "positions.pxi"
include "lattice.pxi"
include "tables.pxi"


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.encode = encode
    level.evaluate = evaluate
    level.table = table
    level.rows = rows_of
