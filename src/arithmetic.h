/* Stop the build if compiler flags make sums and products of two doubles wrong, and with them every result.
 *
 * setup.py overrides such flags from CFLAGS. The errors below report flags that it cannot override.
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
/* with -fsingle-precision-constant, this array has size -1, which stops the build */
typedef char posenc_constants_are_doubles[sizeof(1.0) == sizeof(double) ? 1 : -1];

/* These pragmas forbid the compiler to contract a product and a sum to one FMA instruction, so that FMA is used only
   where the source calls fma. gcc has no such pragma, and gets the flag -ffp-contract=off from setup.py. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#endif
