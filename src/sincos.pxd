# cython: cdivision=True
"""Compute sine and cosine of an angle in turns: reduce to an eighth of a turn, evaluate a polynomial, set the quadrant.

The functions have no tables and no branches, so that loops over waves are vectorized. Except for `sincos_product`,
``posenc_fast/_core/engine/python.py`` has functions with the same names and operations. ``python bench/steps.py``
measures the errors of these Python functions. *Double-double* (dd) means a number as a sum of two doubles, a high and a
low one.
"""

from libc.stdint cimport uint64_t

from compiler cimport step
from exact cimport (
    C1, C2, C3, C4, C5, C6, QUARTERS, S0, S1, S2, S3, S4, S5, S6, SIGN_BIT, T3, T3_LOW, T4, T4_LOW, T5, T5_LOW, T6,
    T6_LOW, T7, T8, T9, T10, T11, T12, T13, T14, T15, T16, T17, T18, T19, T20, TWO_PI, TWO_PI_LOW, Pair, bits,
    fma, from_bits, horner, product, product_error, two_sum,
)


cdef inline step nearest_quarter(double turns, double* x, uint64_t* quadrant) noexcept nogil:
    """Set x to turns minus the nearest multiple of a quarter turn.

    The last two bits of quadrant are the number of quarter turns in this multiple, modulo 4.
    |turns| is at most 2^49. The subtraction is exact, because the two numbers differ by at most an eighth of a turn.
    """
    cdef double q = turns + QUARTERS
    quadrant[0] = bits(q)
    x[0] = turns - (q - QUARTERS)


cdef inline step apply_quadrant(uint64_t quadrant, double* sine, double* cosine) noexcept nogil:
    """Add the quarter turns of quadrant to the angle of a sine and a cosine, exactly.

    For an odd number of quarter turns, sine and cosine are swapped. Then their signs are set.
    """
    cdef uint64_t a = bits(sine[0])
    cdef uint64_t b = bits(cosine[0])
    cdef uint64_t swap = (a ^ b) & (0 - (quadrant & 1))
    sine[0] = from_bits(a ^ swap ^ ((quadrant << 62) & SIGN_BIT))
    cosine[0] = from_bits(b ^ swap ^ (((quadrant + 1) << 62) & SIGN_BIT))


cdef inline step sincos(double x, uint64_t quadrant, bint fused, double* sine, double* cosine) noexcept nogil:
    """Compute sine and cosine of x turns plus the quarter turns of quadrant, where |x| is at most 0.1255.

    If fused is true, FMA is used, and the error is at most 2^-52.5. Otherwise, it is at most 2^-52.1. Callers pass a
    constant for fused, so that the compiler keeps only one of the two ways.
    """
    cdef double zz, z = x * x
    if fused:
        sine[0] = x * fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, S6, S5), S4), S3), S2), S1), S0)
        cosine[0] = fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, C6, C5), C4), C3), C2), C1), 1.0)
    else:
        # terms are added in pairs: without FMA, a chain of all terms would have twice as many steps
        zz = z * z
        sine[0] = x * ((S0 + z * S1) + zz * ((S2 + z * S3) + zz * ((S4 + z * S5) + zz * S6)))
        cosine[0] = (1.0 + z * C1) + zz * ((C2 + z * C3) + zz * ((C4 + z * C5) + zz * C6))
    apply_quadrant(quadrant, sine, cosine)


cdef inline step sincos_product(double p, double high, double low, bint fused, double* sine,
                                double* cosine) noexcept nogil:
    """Compute sine and cosine of p * (high + low) turns, |p * high| <= MOST_DIRECT, with the error of `sincos`."""
    cdef double x, t = p * high
    cdef double error = product_error(p, high, t)
    cdef uint64_t quadrant
    nearest_quarter(t, &x, &quadrant)
    sincos(x + (p * low + error), quadrant, fused, sine, cosine)


cdef inline step sincos_dd(Pair turns, Pair* sine, Pair* cosine) noexcept nogil:
    """Compute sine and cosine of a double-double angle, where |turns| is at most 2^49, as double-doubles.

    The Taylor series is in radians, with the leading terms in double-double. The error is at most 2^-66.9 of the value.
    """
    cdef Pair x, r, z, value
    cdef double t, zz, first
    cdef uint64_t quadrant
    # argument reduction
    nearest_quarter(two_sum(turns.high, turns.low, &x.low), &x.high, &quadrant)
    r = product(x, Pair(TWO_PI, TWO_PI_LOW))
    z = product(r, r)
    # small terms are single doubles, and are added in pairs, because a chain of all of them would take longer
    t = z.high
    zz = t * t
    value = Pair((T7 + t * T9) + zz * ((T11 + t * T13) + zz * ((T15 + t * T17) + zz * T19)), 0.0)
    value = horner(Pair(T5, T5_LOW), z, value)
    value = horner(Pair(T3, T3_LOW), z, value)
    # r + r * z * value instead of r * (1 + z * value), so that small angles keep their bits
    value = product(z, value)
    first = r.high * value.high
    value.low = product_error(r.high, value.high, first) + (r.high * value.low + r.low * (1.0 + value.high))
    sine.high = r.high + first
    sine.low = (first - (sine.high - r.high)) + value.low

    value = Pair((T8 + t * T10) + zz * ((T12 + t * T14) + zz * ((T16 + t * T18) + zz * T20)), 0.0)
    value = horner(Pair(T6, T6_LOW), z, value)
    value = horner(Pair(T4, T4_LOW), z, value)
    value = horner(Pair(-0.5, 0.0), z, value)
    cosine[0] = horner(Pair(1.0, 0.0), z, value)
    # high and low parts get the same quadrant
    apply_quadrant(quadrant, &sine.high, &cosine.high)
    apply_quadrant(quadrant, &sine.low, &cosine.low)
