/* Rotate one row of each of several heads by the same angles, with vectors of pairs.
 *
 * A *step* is a call of a function posenc_step_.., and loads cosines and sines once for all of its rows. It loads all
 * values before it stores the first one. Heads are often whole pages apart, and a load at such a distance from a store
 * waits for the store. A step rotates as many pairs of each row as a vector has numbers. It rotates twice as many for
 * bfloat16 if the two values of a pair are half a row apart. The numbers are doubles for float64 and float32, and
 * floats for 16-bit types. Values are converted when they are loaded.
 *
 * The functions use intrinsics. In a loop over floats and doubles, compilers would choose vectors of floats, which have
 * twice as many numbers as vectors of doubles. Then the loop would split these vectors, and join them again.
 *
 * Only instruction-set levels with AVX-512, or with AVX2 and F16C, have these functions. Other levels rotate row by row
 * (_rotations.pyx).
 */
#ifndef POSENC_VECTORS_H
#define POSENC_VECTORS_H

#include "compiler.h"
#include "half.h"

#include <stddef.h>

/* maximum number of rows in a step */
enum { POSENC_TOGETHER = 4 };

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__F16C__))
enum { POSENC_VECTORS = 1 };
#if defined(__AVX512F__)
#define POSENC_WIDE(operation) _mm512_##operation
#define POSENC_NARROW(operation) _mm256_##operation
typedef __m512d posenc_pd;
typedef __m512 posenc_ps;
typedef __m512i posenc_words;
typedef __m256i posenc_halves;
#define POSENC_LOAD_WORDS(x) _mm512_loadu_si512((const void *)(x))
#define POSENC_STORE_WORDS(out, v) _mm512_storeu_si512((void *)(out), v)
#define POSENC_LOAD_HALVES(x) _mm256_loadu_si256((const __m256i *)(x))
#define POSENC_STORE_HALVES(out, v) _mm256_storeu_si256((__m256i *)(out), v)
#define POSENC_AS_PS(v) _mm512_castsi512_ps(v)
#define POSENC_AS_WORDS(v) _mm512_castps_si512(v)
#define POSENC_AND(a, b) _mm512_and_si512(a, b)
#define POSENC_HAS_ALL(v, bits) (_mm512_cmpneq_epi32_mask(_mm512_and_si512(v, bits), bits) == 0)
/* a vector of 16-bit numbers: the even places from a, and the odd places from b */
#define POSENC_BLEND(a, b) _mm512_mask_blend_epi16(0xaaaaaaaau, a, b)
/* FIRST has each number of a vector's first half twice, and SECOND each number of the second half twice. SWAP exchanges
   adjacent numbers. SIGNS has minus signs at even places. */
#define POSENC_FIRST_PD(v) _mm512_permutexvar_pd(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), v)
#define POSENC_SECOND_PD(v) _mm512_permutexvar_pd(_mm512_setr_epi64(4, 4, 5, 5, 6, 6, 7, 7), v)
#define POSENC_FIRST_PS(v) _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), v)
#define POSENC_SECOND_PS(v) _mm512_permutexvar_ps(_mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15), v)
#define POSENC_SWAP_PD(v) _mm512_permute_pd(v, 0x55)
#define POSENC_SIGNS_PD _mm512_setr_pd(-0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0)
#else
#define POSENC_WIDE(operation) _mm256_##operation
#define POSENC_NARROW(operation) _mm_##operation
typedef __m256d posenc_pd;
typedef __m256 posenc_ps;
typedef __m256i posenc_words;
typedef __m128i posenc_halves;
#define POSENC_LOAD_WORDS(x) _mm256_loadu_si256((const __m256i *)(x))
#define POSENC_STORE_WORDS(out, v) _mm256_storeu_si256((__m256i *)(out), v)
#define POSENC_LOAD_HALVES(x) _mm_loadu_si128((const __m128i *)(x))
#define POSENC_STORE_HALVES(out, v) _mm_storeu_si128((__m128i *)(out), v)
#define POSENC_AS_PS(v) _mm256_castsi256_ps(v)
#define POSENC_AS_WORDS(v) _mm256_castps_si256(v)
#define POSENC_AND(a, b) _mm256_and_si256(a, b)
#define POSENC_HAS_ALL(v, bits) _mm256_testc_si256(v, bits)
#define POSENC_BLEND(a, b) _mm256_blend_epi16(a, b, 0xaa)
#define POSENC_FIRST_PD(v) _mm256_permute4x64_pd(v, 0x50)
#define POSENC_SECOND_PD(v) _mm256_permute4x64_pd(v, 0xfa)
#define POSENC_FIRST_PS(v) _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3))
#define POSENC_SECOND_PS(v) _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))
#define POSENC_SWAP_PD(v) _mm256_permute_pd(v, 0x5)
#define POSENC_SIGNS_PD _mm256_setr_pd(-0.0, 0.0, -0.0, 0.0)
#endif
/* number of doubles in a vector of doubles, and number of floats in a vector of floats */
enum { POSENC_DOUBLES = sizeof(posenc_pd) / sizeof(double), POSENC_FLOATS = sizeof(posenc_ps) / sizeof(float) };
#define POSENC_SWAP_PS(v) POSENC_WIDE(permute_ps)(v, 0xb1)
#define POSENC_SIGNS_PS POSENC_WIDE(castpd_ps)(POSENC_WIDE(set1_pd)(posenc_double(0x80000000u)))

#define POSENC_LOAD_FLOAT64(x) POSENC_WIDE(loadu_pd)(x)
#define POSENC_STORE_FLOAT64(out, v) POSENC_WIDE(storeu_pd)(out, v)
#define POSENC_LOAD_FLOAT32(x) POSENC_WIDE(cvtps_pd)(POSENC_NARROW(loadu_ps)(x))
#define POSENC_STORE_FLOAT32(out, v) POSENC_NARROW(storeu_ps)(out, POSENC_WIDE(cvtpd_ps)(v))
#define POSENC_LOAD_FLOAT16(x) POSENC_WIDE(cvtph_ps)(POSENC_LOAD_HALVES(x))
#define POSENC_STORE_FLOAT16(out, v) POSENC_STORE_HALVES(out, POSENC_WIDE(cvtps_ph)(v, _MM_FROUND_TO_NEAREST_INT))

/* Rotate pairs j, j + 1, .. of each row of n pairs, as many as a vector has numbers. angle has n cosines and n sines.
   For step_half, the two values of a pair are n values apart, and for step_interleaved they are adjacent.
   step_interleaved alternates the signs of the sines, so that it only adds products. The results have the same bits as
   the differences and sums of step_half. */
#define POSENC_STEPS(type, value, number, p, P, LOAD, STORE)                                                                  \
    static POSENC_ALWAYS void posenc_step_half_##type(const value *const *x, value *const *out, const number *angle,          \
                                                      ptrdiff_t n, ptrdiff_t j, int rows)                                     \
    {                                                                                                                         \
        posenc_##p c = POSENC_WIDE(loadu_##p)(angle + j), s = POSENC_WIDE(loadu_##p)(angle + n + j);                          \
        posenc_##p a[POSENC_TOGETHER], b[POSENC_TOGETHER];                                                                    \
        for (int k = 0; k < rows; k++)                                                                                        \
            a[k] = LOAD(x[k] + j), b[k] = LOAD(x[k] + n + j);                                                                 \
        for (int k = 0; k < rows; k++) {                                                                                      \
            STORE(out[k] + j, POSENC_WIDE(sub_##p)(POSENC_WIDE(mul_##p)(a[k], c), POSENC_WIDE(mul_##p)(b[k], s)));            \
            STORE(out[k] + n + j, POSENC_WIDE(add_##p)(POSENC_WIDE(mul_##p)(b[k], c), POSENC_WIDE(mul_##p)(a[k], s)));        \
        }                                                                                                                     \
    }                                                                                                                         \
    static POSENC_ALWAYS posenc_##p posenc_rotated_##type(posenc_##p v, posenc_##p c, posenc_##p s)                           \
    {                                                                                                                         \
        return POSENC_WIDE(add_##p)(POSENC_WIDE(mul_##p)(v, c), POSENC_WIDE(mul_##p)(POSENC_SWAP_##P(v), s));                 \
    }                                                                                                                         \
    static POSENC_ALWAYS void posenc_step_interleaved_##type(const value *const *x, value *const *out, const number *angle,   \
                                                             ptrdiff_t n, ptrdiff_t j, int rows)                              \
    {                                                                                                                         \
        posenc_##p c = POSENC_WIDE(loadu_##p)(angle + j), s = POSENC_WIDE(loadu_##p)(angle + n + j);                          \
        posenc_##p c0 = POSENC_FIRST_##P(c), c1 = POSENC_SECOND_##P(c);                                                       \
        posenc_##p s0 = POSENC_WIDE(xor_##p)(POSENC_FIRST_##P(s), POSENC_SIGNS_##P);                                          \
        posenc_##p s1 = POSENC_WIDE(xor_##p)(POSENC_SECOND_##P(s), POSENC_SIGNS_##P);                                         \
        posenc_##p a[POSENC_TOGETHER], b[POSENC_TOGETHER];                                                                    \
        for (int k = 0; k < rows; k++)                                                                                        \
            a[k] = LOAD(x[k] + 2 * j), b[k] = LOAD(x[k] + 2 * j + sizeof c / sizeof *angle);                                  \
        for (int k = 0; k < rows; k++) {                                                                                      \
            STORE(out[k] + 2 * j, posenc_rotated_##type(a[k], c0, s0));                                                       \
            STORE(out[k] + 2 * j + sizeof c / sizeof *angle, posenc_rotated_##type(b[k], c1, s1));                            \
        }                                                                                                                     \
    }
POSENC_STEPS(float64, double, double, pd, PD, POSENC_LOAD_FLOAT64, POSENC_STORE_FLOAT64)
POSENC_STEPS(float32, float, double, pd, PD, POSENC_LOAD_FLOAT32, POSENC_STORE_FLOAT32)
POSENC_STEPS(float16, uint16_t, float, ps, PS, POSENC_LOAD_FLOAT16, POSENC_STORE_FLOAT16)

/* ---- bfloat16: vectors of 32-bit numbers, each of which has two adjacent values -------------------------------- */

/* Return the first value (even) or the second value (odd) of each 32-bit number, as a vector of floats. */
static POSENC_ALWAYS posenc_ps posenc_even_values(posenc_words v) { return POSENC_AS_PS(POSENC_WIDE(slli_epi32)(v, 16)); }
static POSENC_ALWAYS posenc_ps posenc_odd_values(posenc_words v)
{
    return POSENC_AS_PS(POSENC_AND(v, POSENC_WIDE(set1_epi32)((int)0xffff0000u)));
}

/* Round two vectors of floats as posenc_nearest_bfloat does, and return them as one vector of bfloat16. */
static POSENC_ALWAYS posenc_words posenc_two_nearest(posenc_ps even, posenc_ps odd)
{
    posenc_words half = POSENC_WIDE(set1_epi32)(0x8000);
    posenc_words first = POSENC_WIDE(add_epi32)(POSENC_AS_WORDS(even), half);
    return POSENC_BLEND(POSENC_WIDE(srli_epi32)(first, 16), POSENC_WIDE(add_epi32)(POSENC_AS_WORDS(odd), half));
}

/* Return x * c - y * s. */
static POSENC_ALWAYS posenc_ps posenc_difference(posenc_ps x, posenc_ps c, posenc_ps y, posenc_ps s)
{
    return POSENC_WIDE(sub_ps)(POSENC_WIDE(mul_ps)(x, c), POSENC_WIDE(mul_ps)(y, s));
}
/* Return x * c + y * s. */
static POSENC_ALWAYS posenc_ps posenc_sum(posenc_ps x, posenc_ps c, posenc_ps y, posenc_ps s)
{
    return POSENC_WIDE(add_ps)(POSENC_WIDE(mul_ps)(x, c), POSENC_WIDE(mul_ps)(y, s));
}

/* Return whether the first n values of each row are *usual*: their absolute values are at least 2^-63 and less than
   2^65 (see half.h). n is even. */
static POSENC_ALWAYS int posenc_usual_rows(const bfloat *const *x, ptrdiff_t n, int rows)
{
    posenc_words bits = POSENC_WIDE(set1_epi32)(POSENC_USUAL), added = POSENC_WIDE(set1_epi32)((int)posenc_usual_bits(0));
    posenc_words all = bits;
    uint32_t usual_of_rest = POSENC_USUAL;
    ptrdiff_t i = 0;
    for (; i + 2 * POSENC_FLOATS <= n; i += 2 * POSENC_FLOATS)
        for (int k = 0; k < rows; k++)
            all = POSENC_AND(all, POSENC_WIDE(add_epi32)(POSENC_LOAD_WORDS(x[k] + i), added));
    for (; i < n; i += 2)
        for (int k = 0; k < rows; k++)
            usual_of_rest &= posenc_usual_bits(posenc_two_bfloats(x[k] + i));
    return (usual_of_rest & POSENC_USUAL) == POSENC_USUAL && POSENC_HAS_ALL(all, bits);
}

static POSENC_ALWAYS void posenc_step_interleaved_bfloat16(const bfloat *const *x, bfloat *const *out, const float *angle,
                                                           ptrdiff_t n, ptrdiff_t j, int rows)
{
    posenc_ps c = POSENC_WIDE(loadu_ps)(angle + j), s = POSENC_WIDE(loadu_ps)(angle + n + j);
    posenc_words v[POSENC_TOGETHER];
    for (int k = 0; k < rows; k++)
        v[k] = POSENC_LOAD_WORDS(x[k] + 2 * j);
    for (int k = 0; k < rows; k++) {
        posenc_ps a = posenc_even_values(v[k]), b = posenc_odd_values(v[k]);
        POSENC_STORE_WORDS(out[k] + 2 * j, posenc_two_nearest(posenc_difference(a, c, b, s), posenc_sum(b, c, a, s)));
    }
}

/* Rotate 2 * POSENC_FLOATS pairs of each row, from pair j on. split is a row of angles in four parts: cosines of pairs
   0, 2, 4, .., cosines of pairs 1, 3, 5, .., sines of pairs 0, 2, 4, .., and sines of pairs 1, 3, 5, .. */
static POSENC_ALWAYS void posenc_step_half_bfloat16(const bfloat *const *x, bfloat *const *out, const float *split,
                                                    ptrdiff_t n, ptrdiff_t j, int rows)
{
    ptrdiff_t i = j / 2, m = (n + 1) / 2;
    posenc_ps c0 = POSENC_WIDE(loadu_ps)(split + i), c1 = POSENC_WIDE(loadu_ps)(split + m + i);
    posenc_ps s0 = POSENC_WIDE(loadu_ps)(split + 2 * m + i), s1 = POSENC_WIDE(loadu_ps)(split + 3 * m + i);
    posenc_words v[POSENC_TOGETHER], w[POSENC_TOGETHER];
    for (int k = 0; k < rows; k++)
        v[k] = POSENC_LOAD_WORDS(x[k] + j), w[k] = POSENC_LOAD_WORDS(x[k] + n + j);
    for (int k = 0; k < rows; k++) {
        posenc_ps a0 = posenc_even_values(v[k]), a1 = posenc_odd_values(v[k]);
        posenc_ps b0 = posenc_even_values(w[k]), b1 = posenc_odd_values(w[k]);
        POSENC_STORE_WORDS(out[k] + j, posenc_two_nearest(posenc_difference(a0, c0, b0, s0), posenc_difference(a1, c1, b1, s1)));
        POSENC_STORE_WORDS(out[k] + n + j, posenc_two_nearest(posenc_sum(b0, c0, a0, s0), posenc_sum(b1, c1, a1, s1)));
    }
}

#else /* levels without these vectors: the names must be declared, but the code that uses them is never reached */
enum { POSENC_VECTORS = 0, POSENC_DOUBLES = 1, POSENC_FLOATS = 1 };
#define posenc_step_half_float64(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_half_float32(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_half_float16(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_half_bfloat16(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_interleaved_float64(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_interleaved_float32(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_interleaved_float16(x, out, angle, n, j, rows) ((void)(x))
#define posenc_step_interleaved_bfloat16(x, out, angle, n, j, rows) ((void)(x))
#define posenc_usual_rows(x, n, rows) 0
#endif

#endif
