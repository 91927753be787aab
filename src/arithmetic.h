/* Flags under which sums and products of two doubles, and so every result, would be wrong: no build is better.
 *
 * setup.py takes back what CFLAGS say of these; what it cannot take back ends here.
 */
#ifndef POSENC_ARITHMETIC_H
#define POSENC_ARITHMETIC_H

#include <float.h>

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#error "posenc_fast: -ffast-math (/fp:fast) reorders sums that must stay as they are written; build without it"
#endif
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "posenc_fast: -ffinite-math-only drops the checks of infinities; build without it"
#endif
#if defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "posenc_fast: -funsafe-math-optimizations or a part of it is on; build without it"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "posenc_fast: doubles are computed in more than 53 bits; on 32-bit x86 build with -msse2 -mfpmath=sse"
#endif
#if FLT_RADIX != 2 || DBL_MANT_DIG != 53 || DBL_MAX_EXP != 1024 || FLT_MANT_DIG != 24
#error "posenc_fast: float and double must be the binary32 and binary64 of IEEE 754"
#endif
/* -fsingle-precision-constant */
typedef char posenc_constants_are_doubles[sizeof(1.0) == sizeof(double) ? 1 : -1];

/* no product is added unrounded but where the source says fma; gcc has no such pragma, but takes the flag */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#endif
