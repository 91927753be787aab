/* Constants of the loops: the same as in posenc_fast/_core/engine/python.py and _core/numbers/rounding.py. */
#ifndef POSENC_CONSTANTS_H
#define POSENC_CONSTANTS_H

#include "coefficients.h"

/* 1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits of the sum */
#define ROUNDER 6755399441055744.0
/* the same with quarters */
#define QUARTERS 1688849860263936.0
/* how far, relative to it, a value of `sincos` with FMA may lie from one without: at most 2^-50.8 */
#define REACH 0x1p-49
#define SIGN_BIT ((uint64_t)1 << 63)
/* turns: up to MOST_DIRECT the low part of a product is so small that one reduction by quarter turns will do; beyond MOST a
   product no longer rounds to quarter turns; below TINY its error may be subnormal, that is, inexact */
#define MOST_DIRECT 1099511627776.0
#define MOST 562949953421312.0
#define TINY 1e-270
/* 2^990: beyond, a number cannot be split into halves, which is how products are made exact without FMA */
#define POSENC_HUGE 0x1p990
/* makes infinities of what is enormous */
#define BEYOND_HUGE 0x1p34

#endif
