/* Constants of the loops, equal to those in posenc_fast/_core: engine/python.py and numbers/rounding.py. */
#ifndef POSENC_CONSTANTS_H
#define POSENC_CONSTANTS_H

#include "coefficients.h"

/* 1.5 * 2^52. Adding it to a number rounds the number to an integer. The low bits of the sum are this integer. */
#define ROUNDER 6755399441055744.0
/* 1.5 * 2^50. Adding it to a number rounds the number to a multiple of 1/4. The low bits of the sum count the
   quarters. */
#define QUARTERS 1688849860263936.0
/* bound of the relative difference between results of `sincos` with FMA and without (proven: at most 2^-50.8) */
#define REACH 0x1p-49
#define SIGN_BIT ((uint64_t)1 << 63)
/* Three limits of a product position * frequency, in turns. Up to MOST_DIRECT (2^40), the low part of a product is so
   small that only the high part must be reduced by quarter turns. Beyond MOST (2^49), adding QUARTERS does not round a
   product to quarter turns. Below TINY, the rounding error of a product may be subnormal, and so lose bits. */
#define MOST_DIRECT 1099511627776.0
#define MOST 562949953421312.0
#define TINY 1e-270
/* 2^990. Products without FMA split each number into two halves, which is safe from overflow up to this limit. */
#define POSENC_HUGE 0x1p990
/* 2^34; the product with a number of at least 2^990 is infinite */
#define BEYOND_HUGE 0x1p34

#endif
