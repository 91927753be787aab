# cython: cdivision=True
"""Compute one row: the angles of the waves, the sines and cosines of the angles, and the columns.

``entry.h`` explains waves, columns and rows of waves.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memset

from compiler cimport crdouble, crint32, rdouble, rfloat, step
from entry cimport CPlan
from exact cimport PER_RADIAN, PER_RADIAN_LOW, ROUNDER, Pair, product_error, two_sum
from half cimport roddfloat, rwidebfloat, to_odd, to_wide_bfloat
from sincos cimport nearest_quarter, sincos, sincos_dd, sincos_product

# types of the rows that functions write: doubles, floats, or a type that is rounded to 16 bits later (half.h)
ctypedef fused row_out:
    rdouble
    rfloat
    roddfloat
    rwidebfloat

ctypedef fused narrow_row:
    rfloat
    roddfloat
    rwidebfloat


# ---- argument reduction: angles in turns, with whole turns subtracted ------------------------------------------------


cdef inline void add_axis(double p, crdouble high, crdouble low, rdouble turns, rdouble turns_low,
                          Py_ssize_t n) noexcept nogil:
    """Add p * (high + low), minus the nearest whole number of turns, to the angle of each wave, in turns.

    |p * high| is at most MOST. The error is at most 2^-105.9 of the product.
    """
    cdef Py_ssize_t j
    cdef double t, e, error
    for j in range(n):
        t = p * high[j]
        e = product_error(p, high[j], t)
        turns[j] = two_sum(turns[j], t - ((t + ROUNDER) - ROUNDER), &error)
        turns_low[j] += error + (p * low[j] + e)


cdef inline void add_axis_single(float p, crdouble single, rdouble radians, Py_ssize_t n) noexcept nogil:
    """Add p * frequency to the angle of each wave, in radians. Products and sums are rounded to float32."""
    cdef Py_ssize_t j
    for j in range(n):
        radians[j] = <double>(<float>(radians[j] + <double>(<float>(p * single[j]))))


cdef inline void radians_to_turns(rdouble turns, rdouble turns_low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double p, t
    for j in range(n):
        p = turns[j]
        t = p * PER_RADIAN
        turns_low[j] = p * PER_RADIAN_LOW + product_error(p, PER_RADIAN, t)
        turns[j] = t - ((t + ROUNDER) - ROUNDER)


cdef inline void angles(const CPlan* plan, const double* position, bint single, double* turns,
                        double* turns_low) noexcept nogil:
    """Compute the angles of all waves, in turns, as double-doubles. position has a number for each axis.

    If single is true, the angles are sums of float32 products, as in frameworks that compute in float32.
    """
    cdef Py_ssize_t a, n = plan.waves
    memset(turns, 0, n * sizeof(double))
    memset(turns_low, 0, n * sizeof(double))
    for a in range(plan.axes):
        if single:
            add_axis_single(<float>position[a], plan.high + a * n, turns, n)
        else:
            add_axis(position[a], plan.high + a * n, plan.low + a * n, turns, turns_low, n)
    if single:
        radians_to_turns(turns, turns_low, n)


# ---- sines and cosines of waves --------------------------------------------------------------------------------------
# spacing is the distance from one sine to the next in a row of waves: 1 if all sines precede all cosines, and 2 if
# sines and cosines alternate. Callers pass a constant, so that the compiler optimizes the loops for it.


cdef inline step sincos_row(crdouble turns, crdouble turns_low, rdouble sines, rdouble cosines, Py_ssize_t spacing,
                            Py_ssize_t n, bint fused) noexcept nogil:
    cdef Py_ssize_t j
    cdef double x, low, s, c
    cdef uint64_t quadrant
    for j in range(n):
        nearest_quarter(two_sum(turns[j], turns_low[j], &low), &x, &quadrant)
        sincos(x + low, quadrant, fused, &s, &c)
        sines[spacing * j] = s
        cosines[spacing * j] = c


cdef inline step sincos_dd_row(crdouble turns, crdouble turns_low, rdouble sines, rdouble cosines, rdouble sines_low,
                               rdouble cosines_low, Py_ssize_t spacing, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef Pair s, c
    for j in range(n):
        sincos_dd(Pair(turns[j], turns_low[j]), &s, &c)
        sines[spacing * j], sines_low[spacing * j] = s.high, s.low
        cosines[spacing * j], cosines_low[spacing * j] = c.high, c.low


cdef inline step store(row_out out, Py_ssize_t c, double value) noexcept nogil:
    """Write a value to out[c], rounded to the type of `out`.

    An oddfloat is rounded to float16 later. The result then equals the value, rounded once to float16. A widebfloat is
    a bfloat16 already, stored as the bits of a float.
    """
    if row_out is roddfloat:
        out[c] = to_odd(value)
    elif row_out is rwidebfloat:
        out[c] = to_wide_bfloat(value)
    elif row_out is rfloat:
        out[c] = <float>value
    else:
        out[c] = value


cdef inline step sincos_products(double p, crdouble high, crdouble low, row_out sines, row_out cosines,
                                 Py_ssize_t spacing, Py_ssize_t n, bint fused) noexcept nogil:
    cdef Py_ssize_t j
    cdef double s, c
    for j in range(n):
        sincos_product(p, high[j], low[j], fused, &s, &c)
        store[row_out](sines, spacing * j, s)
        store[row_out](cosines, spacing * j, c)


cdef inline step sincos_direct_row(const CPlan* plan, double p, row_out row, bint fused) noexcept nogil:
    """Compute a row of waves at position p on the plan's only axis, without storing angles.

    |p| times the largest frequency is at most MOST_DIRECT turns.
    """
    cdef Py_ssize_t n = plan.waves
    if plan.planar:
        sincos_products[row_out](p, plan.high, plan.low, row, row + n, 1, n, fused)
    else:
        sincos_products[row_out](p, plan.high, plan.low, row, row + 1, 2, n, fused)


cdef inline void sincos_any_row(const CPlan* plan, const double* position, bint single, bint double_double, bint fused,
                                double* row, double* row_low, double* scratch) noexcept nogil:
    """Compute a row of waves at any position. scratch has 2 * waves doubles.

    If double_double is true, write the low parts to row_low. Otherwise, row_low is unused.
    """
    cdef Py_ssize_t n = plan.waves
    cdef double* turns = scratch
    cdef double* low = scratch + n
    angles(plan, position, single, turns, low)
    if double_double and plan.planar:
        sincos_dd_row(turns, low, row, row + n, row_low, row_low + n, 1, n)
    elif double_double:
        sincos_dd_row(turns, low, row, row + 1, row_low, row_low + 1, 2, n)
    elif fused and plan.planar:
        sincos_row(turns, low, row, row + n, 1, n, True)
    elif fused:
        sincos_row(turns, low, row, row + 1, 2, n, True)
    elif plan.planar:
        sincos_row(turns, low, row, row + n, 1, n, False)
    else:
        sincos_row(turns, low, row, row + 1, 2, n, False)


# ---- columns: amplitude * value of the column's wave -----------------------------------------------------------------


cdef inline void scale_row(crdouble row, crdouble amplitude, row_out out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[row_out](out, c, amplitude[c] * row[c])


cdef inline void gather_row(crdouble row, crint32 source, crdouble amplitude, row_out out,
                            Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[row_out](out, c, amplitude[c] * row[source[c]])


cdef inline void columns(const CPlan* plan, const double* row, row_out out) noexcept nogil:
    cdef Py_ssize_t k, first
    if plan.nruns * 8 > plan.width:
        gather_row[row_out](row, plan.source, plan.amplitude, out, plan.width)
        return
    for k in range(plan.nruns):
        first = plan.runs[k]
        scale_row[row_out](row + plan.source[first], plan.amplitude + first, out + first, plan.runs[k + 1] - first)


cdef inline void scale_row_dd(crdouble row, crdouble row_low, crdouble amplitude, rdouble high, rdouble low,
                              Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double p
    for c in range(n):
        p = amplitude[c] * row[c]
        high[c] = p
        low[c] = amplitude[c] * row_low[c] + product_error(amplitude[c], row[c], p)


cdef inline void gather_row_dd(crdouble row, crdouble row_low, crint32 source, crdouble amplitude, rdouble high,
                               rdouble low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double p, value
    for c in range(n):
        value = row[source[c]]
        p = amplitude[c] * value
        high[c] = p
        low[c] = amplitude[c] * row_low[source[c]] + product_error(amplitude[c], value, p)


cdef inline void columns_dd(const CPlan* plan, const double* row, const double* row_low, double* high,
                            double* low) noexcept nogil:
    cdef Py_ssize_t k, first, wave
    if plan.nruns * 8 > plan.width:
        gather_row_dd(row, row_low, plan.source, plan.amplitude, high, low, plan.width)
        return
    for k in range(plan.nruns):
        first = plan.runs[k]
        wave = plan.source[first]
        scale_row_dd(row + wave, row_low + wave, plan.amplitude + first, high + first, low + first,
                     plan.runs[k + 1] - first)
