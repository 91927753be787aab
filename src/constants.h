/* Constants of the loops, equal to those in posenc_fast/_core/engine/python.py and _core/numbers/rounding.py. */
#ifndef POSENC_CONSTANTS_H
#define POSENC_CONSTANTS_H

#include "coefficients.h"

/* 1.5 * 2^52: adding it rounds to an integer, which is then in the low bits of the sum */
#define ROUNDER 6755399441055744.0
/* 1.5 * 2^50: adding it rounds to quarters, and the low bits of the sum count them */
#define QUARTERS 1688849860263936.0
/* bound of the relative difference between `sincos` with and without FMA, which is at most 2^-50.8 */
#define REACH 0x1p-49
#define SIGN_BIT ((uint64_t)1 << 63)
/* In turns. Up to MOST_DIRECT, the low part of a product is so small that one reduction by quarter turns suffices.
   Beyond MOST, a product no longer rounds to quarter turns. Below TINY, its error may be subnormal and so inexact. */
#define MOST_DIRECT 1099511627776.0
#define MOST 562949953421312.0
#define TINY 1e-270
/* 2^990: larger numbers cannot be split into halves, which exact products without FMA need */
#define POSENC_HUGE 0x1p990
/* factor that makes enormous numbers infinite */
#define BEYOND_HUGE 0x1p34

#endif
