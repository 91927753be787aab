# Declarations of exact.h and constants.h.
from libc.stdint cimport uint64_t


cdef extern from "exact.h" nogil:
    uint64_t bits "posenc_bits"(double)
    double from_bits "posenc_double"(uint64_t)
    bint FUSES "POSENC_FUSES"
    double fma "posenc_fma"(double, double, double)
    double two_sum "posenc_two_sum"(double, double, double*)
    double product_error "posenc_product_error"(double, double, double)

    ctypedef struct Pair "posenc_pair":
        double high, low

    Pair product "posenc_product"(Pair, Pair)
    Pair total "posenc_total"(Pair, Pair)
    Pair horner "posenc_horner"(Pair, Pair, Pair)

cdef extern from "constants.h" nogil:
    uint64_t SIGN_BIT
    double ROUNDER, QUARTERS, REACH, MOST_DIRECT, MOST, TINY, BEYOND_HUGE, HUGE "POSENC_HUGE"
    double TWO_PI, TWO_PI_LOW, PER_RADIAN, PER_RADIAN_LOW
    double S0, S1, S2, S3, S4, S5, S6, C1, C2, C3, C4, C5, C6
    double T3, T3_LOW, T4, T4_LOW, T5, T5_LOW, T6, T6_LOW
    double T7, T8, T9, T10, T11, T12, T13, T14, T15, T16, T17, T18, T19, T20
