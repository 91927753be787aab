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
(h) Worst errors, as ``python bench/steps.py --samples 1048576`` measures them: ``reduce`` 2^-105.9 of the angle, ``quick``
    2^-52.5 with FMA and 2^-52.1 without, ``accurate`` 2^-66.9 of the value, rotated rows 2^-50.5 in doubles and
    2^-67.0 as sums of two.

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


# ---- sums and products of two doubles ---------------------------------------------------------------------------

cdef inline double horner(double c, double c_low, double z, double z_low, double* low, double sum_) noexcept nogil:
    """c + z * (sum_ + low), |c| the larger term."""
    cdef double p = z * sum_
    cdef double e = product_error(z, sum_, p) + (z * low[0] + z_low * sum_)
    cdef double s = c + p
    low[0] = (p - (s - c)) + (e + c_low)
    return s


# ---- sine and cosine of one wave --------------------------------------------------------------------------------

cdef inline void turn(uint64_t quadrant, double* s, double* c) noexcept nogil:
    """Turn (s, c) by quadrant quarter turns: swap when odd, then the signs."""
    cdef uint64_t a = bits(s[0])
    cdef uint64_t b = bits(c[0])
    cdef uint64_t swap = (a ^ b) & (0 - (quadrant & 1))
    s[0] = from_bits(a ^ swap ^ ((quadrant << 62) & SIGN_BIT))
    c[0] = from_bits(b ^ swap ^ (((quadrant + 1) << 62) & SIGN_BIT))


cdef inline void quick(double x, uint64_t quadrant, bint fused, double* s, double* c) noexcept nogil:
    """Sine and cosine of x turns, |x| <= 0.1255, plus quadrant quarter turns. fused is known where this is inlined."""
    cdef double zz, z = x * x
    if fused:
        s[0] = x * fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, S6, S5), S4), S3), S2), S1), S0)
        c[0] = fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, C6, C5), C4), C3), C2), C1), 1.0)
    else:
        # by pairs of terms: without FMA a chain of all of them would be twice as long
        zz = z * z
        s[0] = x * ((S0 + z * S1) + zz * ((S2 + z * S3) + zz * ((S4 + z * S5) + zz * S6)))
        c[0] = (1.0 + z * C1) + zz * ((C2 + z * C3) + zz * ((C4 + z * C5) + zz * C6))
    turn(quadrant, s, c)


cdef inline void quick_product(double p, double high, double low, bint fused, double* s, double* c) noexcept nogil:
    """Sine and cosine of p * (high + low) turns, at most QUICK of them."""
    cdef double t = p * high
    cdef double error = product_error(p, high, t)
    cdef double q = t + QUARTERS
    # t is within an eighth of a turn of the quarter turn, so the difference is exact
    quick((t - (q - QUARTERS)) + (p * low + error), bits(q), fused, s, c)


cdef inline void accurate(double x, double x_low, uint64_t quadrant, double* s, double* s_low, double* c,
                          double* c_low) noexcept nogil:
    """Sine and cosine of x + x_low turns, |x| <= 1/8, plus quadrant quarter turns, each as a sum of two doubles.

    Taylor's series in radians, the leading terms in two doubles.
    """
    cdef double r = x * TWO_PI
    cdef double r_low = product_error(x, TWO_PI, r) + (x * TWO_PI_LOW + x_low * TWO_PI)
    cdef double z = r * r
    cdef double z_low = product_error(r, r, z) + 2.0 * r * r_low
    cdef double low, sum_, t, zz
    # the small terms in one double, by pairs, so that no long chain holds up what follows
    zz = z * z
    sum_ = (T7 + z * T9) + zz * ((T11 + z * T13) + zz * ((T15 + z * T17) + zz * T19))
    low = 0.0
    sum_ = horner(T5, T5_LOW, z, z_low, &low, sum_)
    sum_ = horner(T3, T3_LOW, z, z_low, &low, sum_)
    # r + r * z * sum_: the one in front of the series is left out, so that a small angle keeps its own bits
    t = z * sum_
    low = product_error(z, sum_, t) + (z * low + z_low * sum_)
    sum_ = r * t
    low = product_error(r, t, sum_) + (r * low + r_low * (1.0 + t))
    s[0] = r + sum_
    s_low[0] = (sum_ - (s[0] - r)) + low

    sum_ = (T8 + z * T10) + zz * ((T12 + z * T14) + zz * ((T16 + z * T18) + zz * T20))
    low = 0.0
    sum_ = horner(T6, T6_LOW, z, z_low, &low, sum_)
    sum_ = horner(T4, T4_LOW, z, z_low, &low, sum_)
    sum_ = horner(-0.5, 0.0, z, z_low, &low, sum_)
    c[0] = horner(1.0, 0.0, z, z_low, &low, sum_)
    c_low[0] = low
    # both parts are turned alike
    turn(quadrant, s, c)
    turn(quadrant, s_low, c_low)


cdef inline double reduce(double turns, double turns_low, double* low, uint64_t* quadrant) noexcept nogil:
    """Distance, high and low part, of an angle of a few turns to the nearest quarter turn."""
    cdef double h = two_sum(turns, turns_low, low)
    cdef double q = h + QUARTERS
    quadrant[0] = bits(q)
    return h - (q - QUARTERS)


cdef void add_axis(double p, crdouble high, crdouble low, rdouble turns, rdouble turns_low,
                   Py_ssize_t n) noexcept nogil:
    """Add p * (high + low) to angles, whole turns taken off."""
    cdef Py_ssize_t j
    cdef double t, e, error
    for j in range(n):
        t = p * high[j]
        e = product_error(p, high[j], t)
        turns[j] = two_sum(turns[j], t - ((t + ROUNDER) - ROUNDER), &error)
        turns_low[j] += error + (p * low[j] + e)


cdef void add_axis_single(float p, crdouble single, rdouble radians, Py_ssize_t n) noexcept nogil:
    """float32 frameworks round frequency and position, then their product (and its sum over axes)."""
    cdef Py_ssize_t j
    for j in range(n):
        radians[j] = <double>(<float>(radians[j] + <double>(<float>(p * single[j]))))


cdef void single_to_turns(rdouble turns, rdouble turns_low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double p, t
    for j in range(n):
        p = turns[j]
        t = p * PER_RADIAN
        turns_low[j] = p * PER_RADIAN_LOW + product_error(p, PER_RADIAN, t)
        turns[j] = t - ((t + ROUNDER) - ROUNDER)


cdef void angles(const CPlan* plan, const double* position, bint single, double* turns,
                 double* turns_low) noexcept nogil:
    """Angles of all waves at one position of any number of axes, whole turns taken off, as sums of two doubles."""
    cdef Py_ssize_t a, n = plan.waves
    memset(turns, 0, n * sizeof(double))
    memset(turns_low, 0, n * sizeof(double))
    for a in range(plan.axes):
        if single:
            add_axis_single(<float>position[a], plan.high + a * n, turns, n)
        else:
            add_axis(position[a], plan.high + a * n, plan.low + a * n, turns, turns_low, n)
    if single:
        single_to_turns(turns, turns_low, n)


# ---- one row of waves, then one row of columns ------------------------------------------------------------------

cdef inline void quick_waves(crdouble turns, crdouble turns_low, rdouble sines, rdouble cosines, Py_ssize_t n,
                             bint fused) noexcept nogil:
    cdef Py_ssize_t j
    cdef double x, low, s, c
    cdef uint64_t quadrant
    for j in range(n):
        x = reduce(turns[j], turns_low[j], &low, &quadrant)
        quick(x + low, quadrant, fused, &s, &c)
        sines[j] = s
        cosines[j] = c


cdef void accurate_waves(crdouble turns, crdouble turns_low, rdouble sines, rdouble cosines, rdouble sines_low,
                         rdouble cosines_low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double x, x_low, s, c, s_low, c_low
    cdef uint64_t quadrant
    for j in range(n):
        x = reduce(turns[j], turns_low[j], &x_low, &quadrant)
        accurate(x, x_low, quadrant, &s, &s_low, &c, &c_low)
        sines[j] = s
        cosines[j] = c
        sines_low[j] = s_low
        cosines_low[j] = c_low


cdef void interleave(crdouble sines, crdouble cosines, rdouble row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        row[2 * j] = sines[j]
        row[2 * j + 1] = cosines[j]


cdef inline void store(row_out out, Py_ssize_t c, double value) noexcept nogil:
    if row_out is roddfloat:
        out[c] = to_odd(value)
    elif row_out is rwidebfloat:
        out[c] = to_wide_bfloat(value)
    elif row_out is rfloat:
        out[c] = <float>value
    else:
        out[c] = value


cdef inline void quick_products(crdouble p, Py_ssize_t step, crdouble high, crdouble low, row_out sines,
                                row_out cosines, Py_ssize_t out_step, Py_ssize_t n, bint fused) noexcept nogil:
    """n waves, each at a position of its own, or with a step of 0 all at the same one, of at most QUICK turns."""
    cdef Py_ssize_t j
    cdef double s, c
    for j in range(n):
        quick_product(p[step * j], high[j], low[j], fused, &s, &c)
        store[row_out](sines, out_step * j, s)
        store[row_out](cosines, out_step * j, c)


cdef inline void quick_columns(const CPlan* plan, const double* p, Py_ssize_t step, row_out row,
                               bint fused) noexcept nogil:
    """Sines before cosines, or side by side. Steps are known where loops are inlined."""
    cdef Py_ssize_t n = plan.waves
    if plan.planar:
        quick_products[row_out](p, step, plan.high, plan.low, row, row + n, 1, n, fused)
    else:
        quick_products[row_out](p, step, plan.high, plan.low, row, row + 1, 2, n, fused)


cdef void scale_row(crdouble row, crdouble amplitude, row_out out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[row_out](out, c, amplitude[c] * row[c])


cdef void gather_row(crdouble row, crint32 source, crdouble amplitude, row_out out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[row_out](out, c, amplitude[c] * row[source[c]])


cdef void columns(const CPlan* plan, const double* row, row_out out) noexcept nogil:
    """amplitude * the column's place in a row of waves."""
    cdef Py_ssize_t k, first
    if plan.nruns * 8 > plan.width:
        gather_row[row_out](row, plan.source, plan.amplitude, out, plan.width)
        return
    for k in range(plan.nruns):
        first = plan.runs[k]
        scale_row[row_out](row + plan.source[first], plan.amplitude + first, out + first, plan.runs[k + 1] - first)


cdef void scale_row_accurate(crdouble row, crdouble row_low, crdouble amplitude, rdouble high, rdouble low,
                             Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double p
    for c in range(n):
        p = amplitude[c] * row[c]
        high[c] = p
        low[c] = amplitude[c] * row_low[c] + product_error(amplitude[c], row[c], p)


cdef void gather_row_accurate(crdouble row, crdouble row_low, crint32 source, crdouble amplitude, rdouble high,
                              rdouble low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double p, value
    for c in range(n):
        value = row[source[c]]
        p = amplitude[c] * value
        high[c] = p
        low[c] = amplitude[c] * row_low[source[c]] + product_error(amplitude[c], value, p)


cdef void columns_accurate(const CPlan* plan, const double* row, const double* row_low, double* high,
                           double* low) noexcept nogil:
    """The same as sums of two doubles."""
    cdef Py_ssize_t k, first, wave
    if plan.nruns * 8 > plan.width:
        gather_row_accurate(row, row_low, plan.source, plan.amplitude, high, low, plan.width)
        return
    for k in range(plan.nruns):
        first = plan.runs[k]
        wave = plan.source[first]
        scale_row_accurate(row + wave, row_low + wave, plan.amplitude + first, high + first, low + first,
                           plan.runs[k + 1] - first)


# ---- sinks ------------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t fetched_rows(const CSink* sink, Py_ssize_t n) noexcept nogil:
    """How many rows of n columns ahead of its use a row is asked for."""
    return max(1, PREFETCH_DISTANCE // n if sink.x == sink.out or sink.stream else PREFETCH_DISTANCE // (2 * n))


cdef inline void add_row(crfloat x, double scale, crdouble row, narrow_row out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](out, c, scale * <double>x[c] + row[c])


cdef inline void add_row_in_place(rfloat x, double scale, crdouble row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        x[c] = <float>(scale * <double>x[c] + row[c])


cdef inline double add_accurate(double x, double scale, double high, double low, double beyond) noexcept nogil:
    """beyond: of `beyond_of` the scale."""
    cdef double e
    cdef double p = scale * x
    cdef double s = two_sum(p, high, &e)
    # no number, with FMA as without, where a factor cannot be split
    e += (product_error(scale, x, p) + low) + x * beyond * 0.0
    # of a sum that is infinite or enormous there is no error to be had
    return s + (e if e == e else 0.0)


cdef inline double beyond_of(double scale) noexcept nogil:
    """What makes an infinity of an x that is enormous, or is with the scale."""
    return BEYOND_HUGE * max(1.0, fabs(scale))


cdef void add_row_accurate(crdouble x, double scale, crdouble high, crdouble low, rdouble out,
                           Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double beyond = beyond_of(scale)
    for c in range(n):
        out[c] = add_accurate(x[c], scale, high[c], low[c], beyond)


cdef void add_row_accurate_in_place(rdouble x, double scale, crdouble high, crdouble low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double beyond = beyond_of(scale)
    for c in range(n):
        x[c] = add_accurate(x[c], scale, high[c], low[c], beyond)


cdef void sum_row(crdouble high, crdouble low, rdouble out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = high[c] + low[c]


cdef void store_row(crdouble row, narrow_row out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](out, c, row[c])


cdef inline Py_ssize_t head_of(const void* row, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    """How many of n values those are, where vectors are to begin at a line."""
    return min(n, before_line(row, size)) if LONG_VECTORS else 0


cdef struct Flow:
    uintptr_t line  # of the cache line that the buffer's first 64 bytes stand for, where the row may not begin yet
    char* buffer
    Py_ssize_t head, filled  # the row begins at head of its first line; so many bytes of the buffer are filled


cdef inline void open_flow(Flow* to, char* out, double* buffer) noexcept nogil:
    to.head = <uintptr_t>out & 63
    to.line = <uintptr_t>out - to.head
    to.filled = to.head
    to.buffer = <char*>buffer


cdef inline void flow(Flow* to, bint last) noexcept nogil:
    """Send a buffer's whole lines past the cache. What is left waits for the next stretch of the row.

    The row's first and last lines may be shared with other rows: these bytes are written in the ordinary way.
    """
    cdef Py_ssize_t whole = to.filled & ~<Py_ssize_t>63, first = 0
    if to.head and (whole or last):
        first = min(<Py_ssize_t>64, to.filled)
        memcpy(<char*>(to.line + to.head), to.buffer + to.head, first - to.head)
        to.head = 0
    if whole > first:
        stream(<char*>(to.line + first), to.buffer + first, whole - first)
    if last and to.filled > max(whole, first):
        memcpy(<char*>(to.line + whole), to.buffer + whole, to.filled - whole)
    elif not last:
        memcpy(to.buffer, to.buffer + whole, 64)
    to.line += whole
    to.filled -= whole


cdef inline void add_narrow(const CSink* sink, const char* x, const double* row, char* out, Py_ssize_t n,
                            double* scratch) noexcept nogil:
    """scale * x + doubles, in 16 bits; scratch: n doubles."""
    cdef float* floats = <float*>scratch + n
    if sink.type == FLOAT16:
        from_half(<const uint16_t*>x, floats, n)
        add_row[roddfloat](floats, sink.scale, row, <oddfloat*>scratch, n)
        to_half(<oddfloat*>scratch, <uint16_t*>out, n)
    else:
        from_bfloat(<const uint16_t*>x, floats, n)
        add_row[rfloat](floats, sink.scale, row, <float*>scratch, n)
        if to_bfloat(scratch, <uint16_t*>out, n):
            add_row[rwidebfloat](floats, sink.scale, row, <widebfloat*>scratch, n)
            to_bfloat(scratch, <uint16_t*>out, n)


cdef void add_past(const CSink* sink, const char* x, uintptr_t next_x, const double* row, char* out,
                   uintptr_t next_out, Py_ssize_t n, double* scratch) noexcept nogil:
    """scale * x + doubles, in at most 32 bits, past the cache; scratch: 2 * TILE doubles."""
    cdef Py_ssize_t c = 0, m, size = size_of(sink.type)
    cdef Flow to
    open_flow(&to, out, scratch + TILE)
    prefetch(next_out, 1)
    prefetch(next_out + n * size - 1, 1)
    while c < n:
        m = min(<Py_ssize_t>TILE, n - c)
        if sink.type == FLOAT32:
            add_row[rfloat](<const float*>x, sink.scale, row + c, <float*>(to.buffer + to.filled), m)
        else:
            add_narrow(sink, x, row + c, to.buffer + to.filled, m, scratch)
        prefetch(next_x, m * size)
        to.filled += m * size
        flow(&to, c + m == n)
        c += m
        x += m * size
        next_x += m * size


cdef void add_to(const CSink* sink, Py_ssize_t i, Py_ssize_t batch, const double* high, const double* low,
                 Py_ssize_t n, Py_ssize_t next_i, Py_ssize_t next_batch, double* scratch) noexcept nogil:
    """scale * x + doubles (float64: sums of two), for one row of one batch.

    scratch: PREFETCH_COLUMNS doubles, 2 * TILE past the cache.

    Stretch by stretch, the row that comes next is fetched: no hardware foresees where it lies. It need not exist.
    """
    cdef Py_ssize_t size = size_of(sink.type), c = 0, m
    cdef char* out = sink.out + batch * sink.batch + i * sink.row
    cdef const char* x = sink.x + batch * sink.x_batch + i * sink.x_row
    cdef uintptr_t next_out = <uintptr_t>sink.out + next_batch * sink.batch + next_i * sink.row
    cdef uintptr_t next_x = <uintptr_t>sink.x + next_batch * sink.x_batch + next_i * sink.x_row
    # the usual case without questions in between, and loops of a length that the compiler knows
    cdef Py_ssize_t whole = n - n % PREFETCH_COLUMNS if sink.type == FLOAT32 else 0
    if sink.stream:
        add_past(sink, x, next_x, high, out, next_out, n, scratch)
        return
    if x == out:
        while c < whole:
            prefetch(next_out + 4 * c, 4 * PREFETCH_COLUMNS)
            add_row_in_place(<float*>out + c, sink.scale, high + c, PREFETCH_COLUMNS)
            c += PREFETCH_COLUMNS
    while c < whole:
        add_row[rfloat](<const float*>x + c, sink.scale, high + c, <float*>out + c, PREFETCH_COLUMNS)
        prefetch(next_out + 4 * c, 4 * PREFETCH_COLUMNS)
        prefetch(next_x + 4 * c, 4 * PREFETCH_COLUMNS)
        c += PREFETCH_COLUMNS
    x += c * size
    out += c * size
    next_x += c * size
    next_out += c * size
    while c < n:
        m = min(<Py_ssize_t>PREFETCH_COLUMNS, n - c)
        prefetch(next_out, m * size)
        if sink.x != sink.out:
            prefetch(next_x, m * size)
        if sink.type == FLOAT64:
            if x == out:
                add_row_accurate_in_place(<double*>out, sink.scale, high + c, low + c, m)
            else:
                add_row_accurate(<const double*>x, sink.scale, high + c, low + c, <double*>out, m)
        elif sink.type == FLOAT32:
            if x == out:
                add_row_in_place(<float*>out, sink.scale, high + c, m)
            else:
                add_row[rfloat](<const float*>x, sink.scale, high + c, <float*>out, m)
        else:
            add_narrow(sink, x, high + c, out, m, scratch)
        c += m
        x += m * size
        out += m * size
        next_x += m * size
        next_out += m * size


cdef void deliver(const CSink* sink, Py_ssize_t i, const double* high, const double* low, Py_ssize_t n,
                  double* scratch) noexcept nogil:
    """Send a row of doubles (float64: of sums of two) to the sink; scratch: 2 * n doubles, 2 * TILE for a sum.

    Of rows that are no sums those of float64 alone go past the cache.
    """
    cdef Py_ssize_t b, distance
    cdef Flow to
    cdef char* out = sink.out + i * sink.row
    if sink.x != NULL:
        distance = fetched_rows(sink, n) if sink.x == sink.out and low == NULL else 1
        for b in range(sink.batches):
            add_to(sink, i, b, high, low, n, i + (b + distance) // sink.batches, (b + distance) % sink.batches, scratch)
    elif sink.type == FLOAT64 and sink.stream:
        open_flow(&to, out, scratch)
        sum_row(high, low, <double*>(to.buffer + to.filled), n)
        to.filled += n * sizeof(double)
        flow(&to, True)
    elif sink.type == FLOAT64:
        sum_row(high, low, <double*>out, n)
    elif sink.type == FLOAT32:
        store_row[rfloat](high, <float*>out, n)
    elif sink.type == FLOAT16:
        store_row[roddfloat](high, <oddfloat*>scratch, n)
        to_half(<oddfloat*>scratch, <uint16_t*>out, n)
    else:
        store_row[rfloat](high, <float*>scratch, n)
        if to_bfloat(scratch, <uint16_t*>out, n):
            store_row[rwidebfloat](high, <widebfloat*>scratch, n)
            to_bfloat(scratch, <uint16_t*>out, n)


# ---- any positions ----------------------------------------------------------------------------------------------

cdef enum:
    QUICK_ROW
    ANY_ROW
    HARD_ROW
    NO_ROW


cdef inline int difficulty(const CPlan* plan, const double* position) noexcept nogil:
    """Which way a row can go; a HARD_ROW is left to exact arithmetic, a NO_ROW has no position."""
    cdef Py_ssize_t a
    cdef double turns = 0.0
    cdef bint hard = False
    cdef int answer = QUICK_ROW if plan.axes == 1 else ANY_ROW
    for a in range(plan.axes):
        turns = fabs(position[a]) * plan.largest[a]
        # an infinite frequency at a position of zero is no number, and hard too
        if not turns <= QUICK or fabs(position[a]) > HUGE:
            answer = ANY_ROW
            if not fabs(position[a]) < INFINITY:
                return NO_ROW
            hard = hard or not turns <= MOST or fabs(position[a]) > HUGE
    if hard:
        return HARD_ROW
    if plan.axes == 1 and turns < TINY and position[0] != 0:
        return HARD_ROW
    return answer


cdef void flatten(const CPlan* plan, Py_ssize_t rows, CPlan* flat, double* scratch) noexcept nogil:
    """A plan whose one row is several rows of the given plan, side by side."""
    cdef Py_ssize_t i, j, c, k, n = plan.waves, width = plan.width
    cdef double* high = scratch
    cdef double* low = high + rows * n
    cdef double* amplitude = low + rows * n
    cdef int32_t* source = <int32_t*>(amplitude + rows * width)
    cdef int32_t* runs = source + rows * width
    flat[0] = plan[0]
    flat.waves = rows * n
    flat.width = rows * width
    flat.nruns = 0
    for i in range(rows):
        for j in range(n):
            high[i * n + j] = plan.high[j]
            low[i * n + j] = plan.low[j]
        for c in range(width):
            k = plan.source[c]
            amplitude[i * width + c] = plan.amplitude[c]
            # planar: the sines of all rows, then the cosines of all rows
            k += i * 2 * n if not plan.planar else i * n if k < n else (rows - 1 + i) * n
            c += i * width
            source[c] = <int32_t>k
            if c == 0 or k != source[c - 1] + 1:
                runs[flat.nruns] = <int32_t>c
                flat.nruns += 1
    runs[flat.nruns] = <int32_t>flat.width
    flat.high = high
    flat.low = low
    flat.amplitude = amplitude
    flat.source = source
    flat.runs = runs


cdef inline void round_columns(const CPlan* plan, const double* waves, const double* position,
                               narrow_row out) noexcept nogil:
    """The columns of waves; without those (NULL) the waves at a position, which are the columns, as they are made."""
    if waves == NULL:
        quick_columns[narrow_row](plan, position, 0, out, True)
    else:
        columns[narrow_row](plan, waves, out)


cdef void emit(const CPlan* plan, const CSink* sink, Py_ssize_t i, const double* waves, const double* position,
               double* scratch) noexcept nogil:
    """One row of quickly evaluated waves to the sink; or of a position, see `round_columns`, with FMA, and no sum.

    scratch: width doubles, then what `deliver` takes.
    """
    cdef char* out = sink.out + i * sink.row
    if sink.x != NULL:
        columns[rdouble](plan, waves, scratch)
        deliver(sink, i, scratch, NULL, plan.width, scratch + plan.width)
    elif sink.type == FLOAT32:
        round_columns[rfloat](plan, waves, position, <float*>out)
    elif sink.type == FLOAT16:
        round_columns[roddfloat](plan, waves, position, <oddfloat*>scratch)
        to_half(<oddfloat*>scratch, <uint16_t*>out, plan.width)
    else:
        round_columns[rfloat](plan, waves, position, <float*>scratch)
        if to_bfloat(scratch, <uint16_t*>out, plan.width):
            round_columns[rwidebfloat](plan, waves, position, <widebfloat*>scratch)
            to_bfloat(scratch, <uint16_t*>out, plan.width)


cdef void any_row(const CPlan* plan, const double* position, bint single, bint wide, bint fused, double* row,
                  double* row_low, double* scratch) noexcept nogil:
    """A row of waves at any position, if wide as sums of two doubles. scratch: 6 * waves."""
    cdef Py_ssize_t n = plan.waves
    cdef double* turns = scratch
    cdef double* turns_low = scratch + n
    cdef double* sines = row if plan.planar else scratch + 2 * n
    cdef double* sines_low = row_low if plan.planar else scratch + 4 * n
    angles(plan, position, single, turns, turns_low)
    if wide:
        accurate_waves(turns, turns_low, sines, sines + n, sines_low, sines_low + n, n)
    elif fused:
        quick_waves(turns, turns_low, sines, sines + n, n, True)
    else:
        quick_waves(turns, turns_low, sines, sines + n, n, False)
    if not plan.planar:
        interleave(sines, sines + n, row, n)
        if wide:
            interleave(sines_low, sines_low + n, row_low, n)


cdef void quick_any_row(const CPlan* plan, const double* position, int kind, bint single, bint fused, double* row,
                        double* row_low, double* work) noexcept nogil:
    """A row of waves for types of at most 32 bits."""
    if kind == ANY_ROW or single:
        any_row(plan, position, single, False, fused, row, row_low, work)
        if single:
            settle(row, row_low, 2 * plan.waves)
    elif fused:
        quick_columns[rdouble](plan, position, 0, row, True)
    else:
        quick_columns[rdouble](plan, position, 0, row, False)


cdef void settle(rdouble high, rdouble low, Py_ssize_t n) noexcept nogil:
    """One NaN for all: which one comes of infinite angles, and of which sign, is up to the processor and compiler."""
    cdef Py_ssize_t c
    for c in range(n):
        if high[c] != high[c]:
            high[c] = NAN
            low[c] = 0.0


cdef void spread(const CPlan* plan, CPlan* larger, CPlan* smaller, double* more, double* less) noexcept nogil:
    """Plans whose amplitudes are REACH larger and smaller."""
    cdef Py_ssize_t c
    for c in range(plan.width):
        more[c] = plan.amplitude[c] * (1.0 + REACH)
        less[c] = plan.amplitude[c] * (1.0 - REACH)
    larger[0] = smaller[0] = plan[0]
    larger.amplitude = more
    smaller.amplitude = less


cdef bint emit_surely(const CPlan* larger, const CPlan* smaller, const CSink* sink, Py_ssize_t i, const double* waves,
                      double* scratch) noexcept nogil:
    """Emit a row of waves; whether all that lies within REACH is rounded to what was written. scratch: 2 * width."""
    cdef Py_ssize_t n = larger.width
    cdef char* out = sink.out + i * sink.row
    cdef void* one = scratch
    cdef void* other = scratch + n
    cdef bint same
    if sink.type == FLOAT32:
        columns[rfloat](larger, waves, <float*>out)
        columns[rfloat](smaller, waves, <float*>other)
        return memcmp(out, other, 4 * n) == 0
    if sink.type == FLOAT16:
        columns[roddfloat](larger, waves, <oddfloat*>one)
        columns[roddfloat](smaller, waves, <oddfloat*>other)
        to_half(<oddfloat*>one, <uint16_t*>out, n)
        # these differ when there is a float between them; seldom it is the middle of two float16
        if memcmp(one, other, 4 * n) == 0:
            return True
        to_half(<oddfloat*>other, <uint16_t*>one, n)
    else:
        columns[rfloat](larger, waves, <float*>one)
        columns[rfloat](smaller, waves, <float*>other)
        same = memcmp(one, other, 4 * n) == 0
        if not to_bfloat(one, <uint16_t*>out, n) and same:
            return True
        columns[rwidebfloat](larger, waves, <widebfloat*>one)
        columns[rwidebfloat](smaller, waves, <widebfloat*>other)
        to_bfloat(one, <uint16_t*>out, n)
        to_bfloat(other, <uint16_t*>one, n)
    return memcmp(out, one, 2 * n) == 0


cdef bint encode(const CPlan* plan, const double* positions, Py_ssize_t rows, const CSink* sink, bint single,
                 double* scratch, unsigned char** left) noexcept nogil:
    """Rows of any positions. left: where HARD_ROWs are left out, a byte for each row, to be freed: 1 for those.

    False when there is no memory for that.
    """
    cdef Py_ssize_t i = 0, c, k, j, n = plan.waves, width = plan.width, step
    cdef EncodeWork work
    cdef double* row
    cdef double* row_low
    cdef double* high
    cdef double* low
    cdef double* rest
    cdef double* blank
    cdef const double* position
    cdef bint wide = sink.type == FLOAT64
    # sums, of which x is gone once they are written, are made without FMA at every level
    cdef bint fused = FUSES and sink.x == NULL, doubtful = not FUSES and sink.x == NULL and not wide
    cdef int kind
    cdef CPlan flat, larger, smaller, flat_larger, flat_smaller
    lay_out_encode(plan, sink, single, &work, scratch)
    row, row_low, high, low, rest = work.evaluate.row, work.evaluate.row_low, work.high, work.low, work.rest
    step = 0 if fused and plan.straight else work.step
    if doubtful:
        spread(plan, &larger, &smaller, high, low)
    if step:
        flatten(plan, step, &flat, work.flat_plan)
        if doubtful:
            spread(&flat, &flat_larger, &flat_smaller, work.flat_more, work.flat_less)
    while i < rows:
        if step and i + step <= rows:
            for k in range(step):
                if difficulty(plan, positions + i + k) != QUICK_ROW:
                    break
                for j in range(n):
                    work.flat_positions[k * n + j] = positions[i + k]
            else:
                quick_columns[rdouble](&flat, work.flat_positions, 1, work.flat_row, FUSES)
                if not doubtful:
                    emit(&flat, sink, i, work.flat_row, NULL, work.flat_rest)
                if not doubtful or emit_surely(&flat_larger, &flat_smaller, sink, i, work.flat_row, work.flat_rest):
                    i += step
                    continue
        position = positions + i * plan.axes
        kind = difficulty(plan, position)
        if kind == HARD_ROW:
            if left[0] == NULL:
                left[0] = <unsigned char*>calloc(rows, 1)
                if left[0] == NULL:
                    return False
            left[0][i] = 1
        elif kind == NO_ROW:
            blank = high if wide else rest
            for c in range(width):
                blank[c] = NAN
            if wide:
                memset(low, 0, width * sizeof(double))
            deliver(sink, i, blank, low if wide else NULL, width, rest if wide else rest + width)
        elif wide:
            any_row(plan, position, single, True, False, row, row_low, work.evaluate.rest)
            if not plan.straight:
                columns_accurate(plan, row, row_low, high, low)
            if single:
                settle(row if plan.straight else high, row_low if plan.straight else low, width)
            deliver(sink, i, row if plan.straight else high, row_low if plan.straight else low, width, rest)
        elif fused and plan.straight and kind == QUICK_ROW and not single:
            emit(plan, sink, i, NULL, position, rest)
        else:
            quick_any_row(plan, position, kind, single, fused, row, row_low, work.evaluate.rest)
            if not doubtful:
                emit(plan, sink, i, row, NULL, rest)
            elif not emit_surely(&larger, &smaller, sink, i, row, rest):
                quick_any_row(plan, position, kind, single, True, row, row_low, work.evaluate.rest)
                emit(plan, sink, i, row, NULL, rest)
        i += 1
    if sink.stream:
        stream_end()
    return True


cdef void evaluate(const CPlan* plan, const double* position, const CRow* two, double* scratch) noexcept nogil:
    """Two rows at a position, of any choices of columns, as sums of two doubles."""
    cdef EvaluateWork work
    cdef const CRow* row
    cdef int k
    lay_out_evaluate(plan.waves, &work, scratch)
    any_row(plan, position, False, True, False, work.row, work.row_low, work.rest)
    for k in range(2):
        row = &two[k]
        gather_row_accurate(work.row, work.row_low, row.source, row.amplitude, row.high, row.low, plan.width)


# ---- positions on the integer lattice ---------------------------------------------------------------------------

cdef struct Anchor:
    int64_t span
    Py_ssize_t block
    double* room  # its own memory, four rows; what is read may be elsewhere
    const double* value
    const double* quadrature
    const double* value_low
    const double* quadrature_low


cdef inline void show(Anchor* anchor, const double* rows, Py_ssize_t stride) noexcept nogil:
    """Let an anchor be these four rows."""
    anchor.value, anchor.quadrature = rows, rows + stride
    anchor.value_low, anchor.quadrature_low = rows + 2 * stride, rows + 3 * stride


cdef inline void begin(Anchor* anchor, double* room, Py_ssize_t stride) noexcept nogil:
    """An anchor of no block yet."""
    anchor.room, anchor.block = room, -1
    show(anchor, room, stride)


cdef struct Offset:
    const double* cosine
    const double* sine
    const double* cosine_low
    const double* sine_low


cdef inline Offset offset_at(const double* rows, Py_ssize_t count, Py_ssize_t row, Py_ssize_t stride) noexcept nogil:
    """One of count rows, each in four parts: (4, count, stride)."""
    cdef Offset offset
    cdef Py_ssize_t plane = count * stride
    rows += row * stride
    offset.cosine, offset.sine = rows, rows + plane
    offset.cosine_low, offset.sine_low = rows + 2 * plane, rows + 3 * plane
    return offset


cdef void exact_anchor(const CLattice* lattice, double* room, int64_t span, double* scratch) noexcept nogil:
    """Values and quadratures at span * 2**span_bits, an integer of up to 64 bits."""
    cdef CRow two[2]
    cdef int shift = 32 - lattice.span_bits
    # the nearest multiple of 2**32, so that what is left is small where the position is, on both sides of zero
    cdef int64_t multiple = (span + (<int64_t>1 << (shift - 1))) >> shift
    cdef double[3] position
    position[0] = <double>multiple
    # no shift to the left: of a negative number it has no meaning in C
    position[1] = <double>((span - multiple * (<int64_t>1 << shift)) * (<int64_t>1 << lattice.span_bits))
    position[2] = 1.0
    anchor_rows(lattice, room, two)
    evaluate(lattice.plan, position, two, scratch)


cdef inline double product(double a, double a_low, double b, double b_low, double* low) noexcept nogil:
    cdef double p = a * b
    low[0] = product_error(a, b, p) + (a * b_low + a_low * b)
    return p


cdef inline double total(double a, double a_low, double b, double b_low, double* low) noexcept nogil:
    cdef double e
    cdef double s = two_sum(a, b, &e)
    cdef double r
    e += a_low + b_low
    r = s + e
    low[0] = e - (r - s)
    return r


cdef void rotate_both(crdouble v, crdouble q, crdouble cosine, crdouble sine, rdouble v2, rdouble q2,
                      Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        v2[c] = v[c] * cosine[c] + q[c] * sine[c]
        q2[c] = q[c] * cosine[c] - v[c] * sine[c]


cdef void rotate_accurate(crdouble v, crdouble v_low, crdouble q, crdouble q_low, crdouble cosine, crdouble cosine_low,
                          crdouble sine, crdouble sine_low, double sign, rdouble out, rdouble out_low,
                          Py_ssize_t n) noexcept nogil:
    """v * cosine + sign * q * sine, all of them sums of two doubles."""
    cdef Py_ssize_t c
    cdef double a, b, a_low, b_low, low
    for c in range(n):
        a = product(v[c], v_low[c], cosine[c], cosine_low[c], &a_low)
        b = product(q[c], q_low[c], sine[c], sine_low[c], &b_low)
        out[c] = total(a, a_low, sign * b, sign * b_low, &low)
        out_low[c] = low


cdef void rotate_anchor(const Anchor* from_, Anchor* to, const Offset* by, Py_ssize_t stride, Py_ssize_t n,
                        bint wide) noexcept nogil:
    cdef double* room = to.room
    if not wide:
        rotate_both(from_.value, from_.quadrature, by.cosine, by.sine, room, room + stride, n)
        return
    rotate_accurate(from_.value, from_.value_low, from_.quadrature, from_.quadrature_low, by.cosine, by.cosine_low,
                    by.sine, by.sine_low, 1.0, room, room + 2 * stride, n)
    rotate_accurate(from_.quadrature, from_.quadrature_low, from_.value, from_.value_low, by.cosine, by.cosine_low,
                    by.sine, by.sine_low, -1.0, room + stride, room + 3 * stride, n)


cdef void find_anchor(const CLattice* lattice, Anchor* exact, Anchor* anchor, int64_t span, Py_ssize_t block,
                      bint wide, double* scratch) noexcept nogil:
    """The anchor of a block, counted from the start of a span (and perhaps beyond its end)."""
    cdef int bits_ = lattice.span_bits - lattice.block_bits
    cdef Offset by
    span += block >> bits_
    block &= (1 << bits_) - 1
    if anchor.block == block and anchor.span == span:
        return
    if exact.block != 0 or exact.span != span:
        if span == 0:
            show(exact, lattice.origin, lattice.stride)
        else:
            show(exact, exact.room, lattice.stride)
            exact_anchor(lattice, exact.room, span, scratch)
        exact.span, exact.block = span, 0
    by = offset_at(lattice.coarse, <Py_ssize_t>1 << bits_, block, lattice.stride)
    rotate_anchor(exact, anchor, &by, lattice.stride, lattice.plan.width, wide)
    anchor.span, anchor.block = span, block


cdef void rotate_pairs(crdouble v, crdouble q, crdouble v2, crdouble q2, crdouble cosine, crdouble sine,
                       narrow_row above, narrow_row below, narrow_row above2, narrow_row below2,
                       Py_ssize_t n) noexcept nogil:
    """The rows at one offset above and below two anchors: four rows for one pass over the offset's."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        store[narrow_row](above, c, a + b)
        store[narrow_row](below, c, a - b)
        a = v2[c] * cosine[c]
        b = q2[c] * sine[c]
        store[narrow_row](above2, c, a + b)
        store[narrow_row](below2, c, a - b)


cdef void rotate_pair(crdouble v, crdouble q, crdouble cosine, crdouble sine, row_out above, row_out below,
                      Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        store[row_out](above, c, a + b)
        store[row_out](below, c, a - b)


cdef void rotate_pair_add(crdouble v, crdouble q, crdouble cosine, crdouble sine, double scale, rfloat above,
                          rfloat below, Py_ssize_t n) noexcept nogil:
    """scale * what is there + the rows at one offset above and below an anchor."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        above[c] = <float>(scale * <double>above[c] + (a + b))
        below[c] = <float>(scale * <double>below[c] + (a - b))


cdef void rotate_pair_sum(crdouble v, crdouble q, crdouble cosine, crdouble sine, double scale, crfloat x_above,
                          crfloat x_below, rfloat above, rfloat below, Py_ssize_t n) noexcept nogil:
    """The same, of what is elsewhere: written out, as a body that both inline has to ask at run time what overlaps."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        above[c] = <float>(scale * <double>x_above[c] + (a + b))
        below[c] = <float>(scale * <double>x_below[c] + (a - b))


cdef void rotate_pair_accurate(crdouble v, crdouble v_low, crdouble q, crdouble q_low, crdouble cosine,
                               crdouble cosine_low, crdouble sine, crdouble sine_low, rdouble above, rdouble below,
                               Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double a, b, a_low, b_low, low
    for c in range(n):
        a = product(v[c], v_low[c], cosine[c], cosine_low[c], &a_low)
        b = product(q[c], q_low[c], sine[c], sine_low[c], &b_low)
        above[c] = total(a, a_low, b, b_low, &low)
        below[c] = total(a, a_low, -b, -b_low, &low)


cdef void rotate_row(crdouble v, crdouble q, crdouble cosine, crdouble sine, double sign, rdouble out,
                     Py_ssize_t n) noexcept nogil:
    """One row, at sign times the offset: the same operations as above, so the same bits."""
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = v[c] * cosine[c] + sign * (q[c] * sine[c])


cdef void rotate_halves(crdouble v, crdouble q, crdouble v2, crdouble q2, crdouble cosine, crdouble sine,
                        narrow_row above, narrow_row below2, Py_ssize_t n) noexcept nogil:
    """The row above one anchor and the row below another, where a table begins and ends with half a block."""
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](above, c, v[c] * cosine[c] + q[c] * sine[c])
        store[narrow_row](below2, c, v2[c] * cosine[c] - q2[c] * sine[c])


cdef struct Rows:
    Py_ssize_t index[4]  # above and below the first anchor, above and below the second; -1 where no row is wanted
    void* to[4]


cdef inline void rotate_narrow(const Anchor* one, const Anchor* two, const Offset* by, const Rows* rows, narrow_row to,
                               Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    cdef const double* cosine = by.cosine + first
    cdef const double* sine = by.sine + first
    if rows.index[1] < 0 and rows.index[2] < 0:
        rotate_halves[narrow_row](one.value + first, one.quadrature + first, two.value + first, two.quadrature + first,
                                  cosine, sine, to, <narrow_row>rows.to[3], n)
    elif rows.index[2] < 0 and rows.index[3] < 0:
        rotate_pair[narrow_row](one.value + first, one.quadrature + first, cosine, sine, to, <narrow_row>rows.to[1], n)
    else:
        rotate_pairs[narrow_row](one.value + first, one.quadrature + first, two.value + first, two.quadrature + first,
                                 cosine, sine, to, <narrow_row>rows.to[1], <narrow_row>rows.to[2],
                                 <narrow_row>rows.to[3], n)


cdef void rotate(const Anchor* one, const Anchor* two, const Offset* by, const Rows* rows, int type, Py_ssize_t first,
                 Py_ssize_t n) noexcept nogil:
    """Columns first .. first + n of up to four rows at one offset, as `store` makes them for the type."""
    cdef Py_ssize_t k
    cdef const Anchor* anchor
    if type == FLOAT64:
        for k in range(0, 4, 2):
            anchor = two if k else one
            if rows.index[k] >= 0 or rows.index[k + 1] >= 0:
                rotate_pair_accurate(anchor.value + first, anchor.value_low + first, anchor.quadrature + first,
                                     anchor.quadrature_low + first, by.cosine + first, by.cosine_low + first,
                                     by.sine + first, by.sine_low + first, <double*>rows.to[k],
                                     <double*>rows.to[k + 1], n)
    elif type == FLOAT32:
        rotate_narrow[rfloat](one, two, by, rows, <float*>rows.to[0], first, n)
    elif type == FLOAT16:
        rotate_narrow[roddfloat](one, two, by, rows, <oddfloat*>rows.to[0], first, n)
    else:
        rotate_narrow[rwidebfloat](one, two, by, rows, <widebfloat*>rows.to[0], first, n)


cdef bint narrow_rows(const Rows* tile, const CSink* sink, const Flow* to, Py_ssize_t first,
                      Py_ssize_t n) noexcept nogil:
    """Columns first .. first + n, to 16 bits; whether a second rounding of one of them is in doubt."""
    cdef bint doubtful = False
    cdef uint16_t* out
    for k in range(4):
        if tile.index[k] < 0:
            continue
        if sink.stream:
            out = <uint16_t*>(to[k].buffer + to[k].filled)
        else:
            out = <uint16_t*>(sink.out + tile.index[k] * sink.row) + first
        if sink.type == FLOAT16:
            to_half(<oddfloat*>tile.to[k], out, n)
        elif to_bfloat(tile.to[k], out, n):
            doubtful = True
    return doubtful


cdef void rotate_through(const Anchor* one, const Anchor* two, const Offset* by, const Rows* rows, const CSink* sink,
                         Py_ssize_t n, double* scratch) noexcept nogil:
    """The rows at one offset, a few cache lines at a time through buffers: narrowed to 16 bits, or past the cache.

    The work on the next lines overlaps with the memory's on these.
    """
    cdef Py_ssize_t k, m, c = 0, size = size_of(sink.type)
    cdef Rows tile = rows[0]
    cdef Flow to[4]
    cdef bint narrowed = size == 2
    for k in range(4):
        tile.to[k] = scratch + k * TILE
        # a row that is not wanted goes into a buffer and no further
        open_flow(&to[k], sink.out + max(<Py_ssize_t>0, rows.index[k]) * sink.row,
                  scratch + 4 * TILE + k * (TILE + 16))
    while c < n:
        m = min(TILE, n - c)
        if sink.stream and not narrowed and c == 0 and to[0].head:
            # from the next line on, so that vectors are read from a buffer as they were written to it
            m = min(n, (64 - to[0].head) // size)
        if not narrowed:
            for k in range(4):
                tile.to[k] = to[k].buffer + to[k].filled
        rotate(one, two, by, &tile, FLOAT32 if sink.type == BFLOAT16 else sink.type, c, m)
        if narrowed and narrow_rows(&tile, sink, to, c, m):
            rotate(one, two, by, &tile, BFLOAT16, c, m)
            narrow_rows(&tile, sink, to, c, m)
        if sink.stream:
            for k in range(4):
                if rows.index[k] >= 0:
                    to[k].filled += m * size
                    flow(&to[k], c + m == n)
        c += m


cdef inline bint alike(const Rows* rows, Py_ssize_t k) noexcept nogil:
    """Whether the rows above and below an anchor are both wanted, and begin at the same place of a line."""
    return rows.index[k] >= 0 and rows.index[k + 1] >= 0 and not (
        (<uintptr_t>rows.to[k] ^ <uintptr_t>rows.to[k + 1]) & 63)


cdef void rotate_past(const Anchor* anchor, const Offset* by, char* above, char* below, Py_ssize_t n,
                      float* buffer) noexcept nogil:
    """The two float32 rows at one offset past the cache: of the one above whole lines as they are made.

    Lines of both in turn would often lie at the same place of a page, which takes some processors twice as long, so the
    one below waits in the buffer, of TILE columns. What is no whole line is written in the ordinary way.
    """
    cdef Py_ssize_t c = 0, m
    while c < n:
        m = before_line(above, 4)
        if m == 0 and n - c >= 16:
            m = min(<Py_ssize_t>TILE, (n - c) & ~<Py_ssize_t>15)
            rotate_lines(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, above, buffer, m)
            stream(below, buffer, 4 * m)
        else:
            m = min(m, n - c) if m else n - c
            rotate_pair[rfloat](anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, <float*>above,
                                <float*>below, m)
        c += m
        above += 4 * m
        below += 4 * m


cdef inline bint wanted(const CLattice* lattice, Py_ssize_t block, Py_ssize_t j, Py_ssize_t offset, Py_ssize_t rows,
                        Py_ssize_t* index) noexcept nogil:
    """Which of the rows are j above and j below a block's anchor, -1 for none; whether there is one.

    Each row is written once: the anchor's own from above, the one half a block away from below.
    """
    cdef Py_ssize_t size = <Py_ssize_t>1 << lattice.block_bits, above = block * size + j - offset, below = above - 2 * j
    index[0] = above if 2 * j < size and 0 <= above < rows else -1
    index[1] = below if j > 0 and 0 <= below < rows else -1
    return index[0] >= 0 or index[1] >= 0


cdef void table(const CLattice* lattice, int64_t span, Py_ssize_t offset, Py_ssize_t rows, const CSink* sink,
                double* scratch) noexcept nogil:
    """Rows of consecutive integers, the first of them offset rows behind the start of a span."""
    if sink.x != NULL:
        add_table(lattice, span, offset, rows, sink, scratch)
        return
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride
    cdef Py_ssize_t size = 1 << lattice.block_bits
    cdef Py_ssize_t half = size >> 1
    cdef Py_ssize_t first = (offset + half) >> lattice.block_bits
    cdef Py_ssize_t last = (offset + rows - 1 + half) >> lattice.block_bits
    cdef Py_ssize_t block, other, j, k, head
    cdef bint both, any_row, wide = sink.type == FLOAT64
    cdef bint direct = not sink.stream and (wide or sink.type == FLOAT32)
    cdef Offset by
    cdef Anchor exact, one, two
    cdef const Anchor* second
    cdef Rows at
    cdef TableWork work
    lay_out_table(lattice, &work, scratch)
    begin(&one, work.one, stride)
    begin(&two, work.two, stride)
    begin(&exact, work.exact, stride)
    # pairs of blocks; the first and the last together when each of them is half a block
    block = first
    other = first + 1
    both = first < last
    if both and offset >= first * size and offset + rows <= last * size:
        other = last
        last -= 1
    while block <= last:
        find_anchor(lattice, &exact, &one, span, block, wide, work.rest)
        second = &one
        if both:
            second = &two
            find_anchor(lattice, &exact, &two, span, other, wide, work.rest)
        for j in range(half + 1):
            any_row = wanted(lattice, block, j, offset, rows, at.index)
            at.index[2] = at.index[3] = -1
            if both and wanted(lattice, other, j, offset, rows, at.index + 2):
                any_row = True
            if not any_row:
                continue
            for k in range(4):
                at.to[k] = sink.out + at.index[k] * sink.row if at.index[k] >= 0 else <char*>work.discard[k]
            if sink.stream:
                # a store that waits for a line which two rows share holds up all those behind it
                for k in range(4):
                    if at.index[k] >= 0:
                        prefetch(<uintptr_t>sink.out + (at.index[k] + (-1 if k & 1 else 2)) * sink.row, 1)
            by = offset_at(lattice.fine, half + 1, j, stride)
            if direct:
                head = head_of(at.to[0], size_of(sink.type), n)
                if head:
                    rotate(&one, second, &by, &at, sink.type, 0, head)
                    for k in range(4):
                        at.to[k] = <char*>at.to[k] + head * size_of(sink.type)
                rotate(&one, second, &by, &at, sink.type, head, n - head)
            elif sink.type == FLOAT32 and alike(&at, 0) and (not both or alike(&at, 2)):
                rotate_past(&one, &by, <char*>at.to[0], <char*>at.to[1], n, <float*>work.rest)
                if both:
                    rotate_past(&two, &by, <char*>at.to[2], <char*>at.to[3], n, <float*>work.rest)
            else:
                rotate_through(&one, second, &by, &at, sink, n, work.rest)
        block += 2 if other == block + 1 else 1
        other = block + 1
        both = other <= last
    if sink.stream:
        stream_end()


cdef void rotate_and_add(const Anchor* anchor, const Offset* by, const CSink* sink, Py_ssize_t above, Py_ssize_t below,
                         Py_ssize_t next_above, Py_ssize_t next_below, Py_ssize_t n, float* discard) noexcept nogil:
    """Add two rows to one batch of float32, without storing them first; negative ones are not wanted.

    Beyond the cache, the next ones are fetched meanwhile.
    """
    cdef Py_ssize_t c = 0, m, stretch = PREFETCH_COLUMNS if sink.ahead else n
    cdef bint elsewhere = sink.x != sink.out
    cdef char* up = sink.out + above * sink.row if above >= 0 else <char*>discard
    cdef char* down = sink.out + below * sink.row if below >= 0 else <char*>discard
    # there is always something to read
    cdef const char* x_up = sink.x + (above if above >= 0 else below) * sink.x_row
    cdef const char* x_down = sink.x + (below if below >= 0 else above) * sink.x_row
    next_above -= above
    next_below -= below
    while c < n:
        m = head_of(up, 4, n - c)
        if m == 0:
            m = min(stretch, n - c)
        if sink.ahead:
            prefetch(<uintptr_t>up + next_above * sink.row, 4 * m)
            prefetch(<uintptr_t>down + next_below * sink.row, 4 * m)
            if elsewhere:
                prefetch(<uintptr_t>x_up + next_above * sink.x_row, 4 * m)
                prefetch(<uintptr_t>x_down + next_below * sink.x_row, 4 * m)
        if elsewhere:
            rotate_pair_sum(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, sink.scale,
                            <const float*>x_up, <const float*>x_down, <float*>up, <float*>down, m)
        else:
            rotate_pair_add(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, sink.scale,
                            <float*>up, <float*>down, m)
        c += m
        up += 4 * m
        down += 4 * m
        x_up += 4 * m
        x_down += 4 * m


cdef void add_table(const CLattice* lattice, int64_t span, Py_ssize_t offset, Py_ssize_t rows, const CSink* sink,
                    double* scratch) noexcept nogil:
    """scale * x + rows of consecutive integers, in types of at most 32 bits."""
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride
    cdef Py_ssize_t size = 1 << lattice.block_bits
    cdef Py_ssize_t half = size >> 1
    cdef Py_ssize_t block = (offset + half) >> lattice.block_bits
    cdef Py_ssize_t last = (offset + rows - 1 + half) >> lattice.block_bits
    cdef Py_ssize_t b, j, above, below, batch, ahead, distance = max(1, fetched_rows(sink, n) // 2)
    cdef Py_ssize_t down = -1
    cdef Py_ssize_t[2] index
    cdef bint fused = sink.batches == 1 and sink.type == FLOAT32
    cdef Offset by
    cdef Anchor exact, anchor
    cdef RowsWork work
    lay_out_rows(lattice, sink, 1, &work, scratch)
    begin(&anchor, work.anchor, stride)
    begin(&exact, work.exact, stride)
    if size * sink.batches * n <= (PREFETCH_BLOCK if sink.x == sink.out else PREFETCH_BLOCK // 4):
        # what is fetched is then a row of the next block: up and down from its middle, too
        distance = size * sink.batches
        down = 1
    for block in range(block, last + 1):
        find_anchor(lattice, &exact, &anchor, span, block, False, work.rest)
        for j in range(half + 1):
            if not wanted(lattice, block, j, offset, rows, index):
                continue
            above, below = index[0], index[1]
            by = offset_at(lattice.fine, half + 1, j, stride)
            if fused:
                rotate_and_add(&anchor, &by, sink, above, below, above + distance, below + down * distance, n,
                               <float*>work.rows)
                continue
            rotate_pair[rdouble](anchor.value, anchor.quadrature, by.cosine, by.sine, work.rows, work.rows + stride,
                                 n)
            for b in range(sink.batches):
                # the batches of a row come one after the other
                batch = (b + distance) % sink.batches
                ahead = (b + distance) // sink.batches
                if above >= 0:
                    add_to(sink, above, b, work.rows, NULL, n, above + ahead, batch, work.rest)
                if below >= 0:
                    add_to(sink, below, b, work.rows + stride, NULL, n, below + down * ahead, batch, work.rest)
    if sink.stream:
        stream_end()


cdef void rows_of(const CLattice* lattice, const int64_t* spans, const int32_t* offsets, Py_ssize_t rows,
                  const CSink* sink, double* scratch) noexcept nogil:
    """Rows of integers in any order, each given as a span and an offset in it."""
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride, i, j, k, b, block, first = 0
    cdef Py_ssize_t pass_rows, next_k, batch
    cdef Py_ssize_t half = (1 << lattice.block_bits) >> 1
    cdef bint wide = sink.type == FLOAT64
    cdef Py_ssize_t distance = fetched_rows(sink, n) if sink.x == sink.out and not wide else 1
    cdef Offset by
    cdef Anchor exact, anchor
    cdef double* high
    cdef RowsWork work
    lay_out_rows(lattice, sink, rows, &work, scratch)
    begin(&anchor, work.anchor, stride)
    begin(&exact, work.exact, stride)
    while first < rows:
        pass_rows = min(work.pass_rows, rows - first)
        for k in range(pass_rows):
            i = first + k
            high = work.rows + k * 2 * stride
            block = (offsets[i] + half) >> lattice.block_bits
            j = offsets[i] - (block << lattice.block_bits)
            find_anchor(lattice, &exact, &anchor, spans[i], block, wide, work.rest)
            by = offset_at(lattice.fine, half + 1, j if j >= 0 else -j, stride)
            if wide:
                rotate_accurate(anchor.value, anchor.value_low, anchor.quadrature, anchor.quadrature_low, by.cosine,
                                by.cosine_low, by.sine, by.sine_low, 1.0 if j >= 0 else -1.0, high, high + stride, n)
            else:
                rotate_row(anchor.value, anchor.quadrature, by.cosine, by.sine, 1.0 if j >= 0 else -1.0, high, n)
        if sink.x == NULL:
            deliver(sink, first, work.rows, work.rows + stride, n, work.rest)
        else:
            for b in range(sink.batches):
                for k in range(pass_rows):
                    batch = b + (k + distance) // pass_rows
                    next_k = (k + distance) % pass_rows + batch // sink.batches * pass_rows
                    high = work.rows + k * 2 * stride
                    add_to(sink, first + k, b, high, high + stride, n, first + next_k, batch % sink.batches, work.rest)
        first += pass_rows
    if sink.stream:
        stream_end()


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.encode = encode
    level.evaluate = evaluate
    level.table = table
    level.rows = rows_of
