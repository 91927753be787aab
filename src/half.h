/* Convert doubles and floats to float16 and bfloat16, and back. */
#ifndef POSENC_HALF_H
#define POSENC_HALF_H

#include "entry.h"
#include "exact.h"

#if defined(_MSC_VER) && defined(__AVX2__) && !defined(__F16C__)
#define __F16C__ 1 /* /arch:AVX2 enables F16C without defining this macro */
#endif

/* bits of the float that posenc_odd returns for a double; rounding this float to float16 gives the same as rounding the
   double to float16 */
typedef uint32_t oddfloat;
typedef const oddfloat *POSENC_RESTRICT croddfloat;
typedef oddfloat *POSENC_RESTRICT roddfloat;
/* Bits of a float that equals a bfloat16: the lower 16 bits are zero. The type is signed to differ from oddfloat,
   because Cython cannot distinguish equal types. */
typedef int32_t widebfloat;
typedef widebfloat *POSENC_RESTRICT rwidebfloat;

/* bits of a bfloat16; the type is signed to differ from uint16_t, the type for float16 */
typedef int16_t bfloat;
typedef bfloat *POSENC_RESTRICT rbfloat;

/* Return a double as a float, rounded to odd: the last 29 bits are dropped, and if one of them was set, the last bit of
   the float is set. If the float is subnormal, the conversion rounds once more. This is harmless, because the float16
   of a subnormal float is zero. */
static inline oddfloat posenc_odd(double x)
{
    const uint64_t low = ((uint64_t)1 << 29) - 1;
    uint64_t u = posenc_bits(x);
    return posenc_bits32((float)posenc_double((u | ((u & low) + low)) & ~low));
}

static inline uint16_t posenc_half_one(oddfloat u)
{
    uint32_t a = u & 0x7fffffffu; /* without the sign */
    uint32_t normal = ((a + 0xfffu + ((a >> 13) & 1u)) >> 13) - (112u << 10);
    /* 0.5f has the same last place as subnormal float16, so the sum is rounded at this place */
    uint32_t tiny = posenc_bits32(posenc_float(a) + 0.5f) - 0x3f000000u;
    uint32_t h = a < 0x38800000u ? tiny : normal; /* below 2^-14, a float16 is subnormal */
    h = a >= 0x477ff000u ? 0x7c00u : h;           /* numbers from 65520 on round to infinity */
    h = a > 0x7f800000u ? 0x7e00u : h;            /* NaN */
    return (uint16_t)(h | ((u >> 16) & 0x8000u));
}

/* Return the value of a float16. Its exponent and fraction are shifted to their places in a float, whose fraction is 13
   bits longer. Then 112 is added to the exponent of a normal number, because a float's exponent is stored with a larger
   bias. A subnormal float16 has no leading 1, so the leading 1 that the float has is subtracted (`tiny`). */
static inline float posenc_half_value(uint16_t h)
{
    uint32_t a = (uint32_t)(h & 0x7fffu) << 13; /* without the sign */
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    float normal = posenc_float(a + (112u << 23));
    float tiny = posenc_float(a + (113u << 23)) - posenc_float(113u << 23);
    float special = posenc_float(a + (224u << 23));
    float value = a < (1u << 23) ? tiny : normal;
    value = a >= (31u << 23) ? special : value; /* infinity or NaN */
    return posenc_float(posenc_bits32(value) | sign);
}

/* Return a double as a bfloat16, rounded once. Adding a number about 2^45 times as large as x, and subtracting it
   again, rounds x to the last place of the bfloat16. A conversion by way of float32 (posenc_odd) would be wrong,
   because subnormal floats have lost bits that decide the second rounding. */
static inline widebfloat posenc_wide_bfloat(double x)
{
    double large = 0x1.8p45 * posenc_double(posenc_bits(x) & ((uint64_t)0x7ff << 52));
    large = large > 0x1.8p-81 ? large : 0x1.8p-81; /* subnormals have the last place of the smallest normal number */
    large = large < 0x1.8p245 ? large : 0x1.8p245; /* from x = 2^200 on, the float is infinite anyway */
    large = (x + large) - large;
    /* set the sign bit of x again, because a result of zero may have lost it */
    return (widebfloat)posenc_bits32((float)posenc_double(posenc_bits(large) | (posenc_bits(x) & ((uint64_t)1 << 63))));
}

static inline void posenc_to_half(croddfloat x, ruint16 out, ptrdiff_t n)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps((const void *)(x + i)), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    /* without unrolling, the loop is a tenth slower if its code crosses a cache line */
#pragma GCC unroll 4
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(x + i)), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        out[i] = posenc_half_one(x[i]);
}

static inline void posenc_from_half(cruint16 x, rfloat out, ptrdiff_t n)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
#endif
    for (; i < n; i++)
        out[i] = posenc_half_value(x[i]);
}

/* Return the nearest bfloat16 of a float. Ties round away from zero, which takes a third of the operations of ties to
   even. This is harmless, because the float was rounded itself: if it lies in the middle of two bfloat16, the exact
   value may be nearer to either of them. The last 16 bits of a NaN must be zero. This is true for NaNs that were
   bfloat16, and for NaNs that arithmetic creates. A check for other NaNs would double the time of a loop. */
static inline bfloat posenc_nearest_bfloat(float x) { return (bfloat)((posenc_bits32(x) + 0x8000u) >> 16); }

/* Convert floats or widebfloats to bfloat16 by posenc_nearest_bfloat. Return 1 if a float lies in the middle of two
   bfloat16. If such a float was rounded from a double, the second rounding may be wrong. For widebfloats, all results
   are right. */
static inline int posenc_to_bfloat(const void *POSENC_RESTRICT x, ruint16 out, ptrdiff_t n)
{
    uint32_t nearest = 0xffffffffu;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint32_t u, distance;
        memcpy(&u, (const char *)x + 4 * i, sizeof u);
        out[i] = (uint16_t)posenc_nearest_bfloat(posenc_float(u));
        distance = (u << 16) ^ 0x80000000u; /* 0 if the float lies in the middle */
        nearest = distance < nearest ? distance : nearest;
    }
    return nearest == 0;
}

static inline void posenc_from_bfloat(cruint16 x, rfloat out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = posenc_float((uint32_t)x[i] << 16);
}

static inline float posenc_bfloat_value(uint32_t x) { return posenc_float(x << 16); }

/* Return two adjacent bfloat16 as one number, the first in the lower 16 bits. A loop over such numbers needs no
   shuffles of vectors between 16 and 32 bits. */
static inline uint32_t posenc_two_bfloats(const bfloat *x)
{
    uint32_t u;
    memcpy(&u, x, sizeof u);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    u = u << 16 | u >> 16;
#endif
    return u;
}

static inline void posenc_set_two_bfloats(bfloat *x, bfloat first, bfloat second)
{
    uint32_t u = (uint16_t)first | (uint32_t)(uint16_t)second << 16;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    u = u << 16 | u >> 16;
#endif
    memcpy(x, &u, sizeof u);
}

/* A bfloat16 is *usual* if its absolute value is at least 2^-63 and less than 2^65: the two highest bits of its
   exponent are 01 or 10. posenc_usual_bits gets two adjacent bfloat16. Its sum changes these two bits to 10 or 11
   if a bfloat16 is usual, and otherwise to 00 or 01. So the result has both bits of POSENC_USUAL if and only if both
   bfloat16 are usual. */
enum { POSENC_USUAL = 0x40004000 };
static inline uint32_t posenc_usual_bits(uint32_t two) { return two + 0x20002000u; }

/* A bfloat16 is *far* if it is subnormal, infinite or NaN, or its absolute value is 2^97 or more. Cosines and sines
   are multiplied by the attention factor. In float32, their products with far values may overflow, or lose bits below
   the smallest float32. Return whether any of n values is far. The first loop is fast. It is enough if all values are
   usual, because usual values are not far. Otherwise the second loop checks the values. Zeros are neither far nor
   usual. */
static inline int posenc_any_far(const bfloat *x, ptrdiff_t n)
{
    uint16_t least = 0xffff, most = 0, usual = 0xffff;
#pragma GCC unroll 4
    for (ptrdiff_t i = 0; i < n; i++)
        usual &= (uint16_t)posenc_usual_bits((uint16_t)x[i]);
    if (usual & POSENC_USUAL)
        return 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint16_t size = (uint16_t)(x[i] & 0x7fff), size_minus_1 = (uint16_t)(size - 1u); /* 0xffff for zeros */
        least = size_minus_1 < least ? size_minus_1 : least;
        most = size > most ? size : most;
    }
    return least < 0x7f || most >= 0x7000;
}

/* Copy the first half of a row of x to out, from out[2 * n * row + first] on. x and out have rows of 2 * n values. row
   is the index of a row. type is the type of x. out has doubles if wide is true, else floats. Return 1 if both halves
   of the row of x are equal, else 0. */
static inline int posenc_half_row(const char *x, int type, ptrdiff_t row, ptrdiff_t n, char *out, int wide, ptrdiff_t first)
{
    int alike = 1;
    for (ptrdiff_t j = 0; j < n; j++) {
        double value[2];
        for (int k = 0; k < 2; k++) {
            ptrdiff_t i = 2 * n * row + k * n + j;
            value[k] = type == POSENC_FLOAT64 ? ((const double *)x)[i]
                : type == POSENC_FLOAT32 ? (double)((const float *)x)[i]
                : type == POSENC_FLOAT16 ? (double)posenc_half_value(((const uint16_t *)x)[i])
                : (double)posenc_bfloat_value(((const uint16_t *)x)[i]);
        }
        alike &= value[0] == value[1];
        if (wide)
            ((double *)out)[2 * n * row + first + j] = value[0];
        else
            ((float *)out)[2 * n * row + first + j] = (float)value[0];
    }
    return alike;
}

#endif
