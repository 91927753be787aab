/* What Cython cannot say: restrict, bits of a double, exact products, half precision, streaming stores.
 *
 * Included once by _kernel.pyx and once for each instruction-set level by the files of loops. Everything is static inline,
 * so that each level gets its own code from its own compiler flags.
 */
#ifndef POSENC_H
#define POSENC_H

#include "arithmetic.h"
#include "tuning.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64) || defined(__SSE2__)
#define POSENC_X86 1
#include <immintrin.h>
#endif
#if defined(_MSC_VER) && defined(__AVX2__) && !defined(__F16C__)
#define __F16C__ 1 /* /arch:AVX2 has it, but does not say so */
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

/* a constant, so that a usual build has nothing of what is behind it */
#if defined(POSENC_FAST_DEBUG)
#define POSENC_DEBUG 1
#else
#define POSENC_DEBUG 0
#endif

#if defined(_MSC_VER)
#define POSENC_RESTRICT __restrict
#else
#define POSENC_RESTRICT __restrict__
#endif

/* a function that stays one */
#if defined(_MSC_VER)
#define POSENC_APART __declspec(noinline)
#else
#define POSENC_APART __attribute__((noinline))
#endif

typedef double *POSENC_RESTRICT rdouble;
typedef float *POSENC_RESTRICT rfloat;
typedef uint16_t *POSENC_RESTRICT ruint16;
typedef const double *POSENC_RESTRICT crdouble;
typedef const float *POSENC_RESTRICT crfloat;
typedef const uint16_t *POSENC_RESTRICT cruint16;
typedef const int32_t *POSENC_RESTRICT crint32;

/* bits of a float, rounded to odd: a second rounding, to 16 bits, then gives what one rounding of the double gives */
typedef uint32_t oddfloat;
typedef const oddfloat *POSENC_RESTRICT croddfloat;
typedef oddfloat *POSENC_RESTRICT roddfloat;
/* bits of a float that is a bfloat16 already: their lower half is zero. Signed, as Cython takes equal types for one */
typedef int32_t widebfloat;
typedef widebfloat *POSENC_RESTRICT rwidebfloat;

/* bits of a bfloat16. Signed for the same reason */
typedef int16_t bfloat;
typedef bfloat *POSENC_RESTRICT rbfloat;

static inline uint64_t posenc_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double posenc_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t posenc_bits32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float posenc_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* a + b, rounded, and what the rounding lost (Knuth) */
static inline double posenc_two_sum(double a, double b, double *error)
{
    double s = a + b, t = s - a;
    *error = (a - (s - t)) + (b - t);
    return s;
}

/* posenc_product_error: a*b - p exactly, where p = a*b rounded; posenc_fma: a*b + c, rounded once */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__) || defined(_M_ARM64)
#define POSENC_FUSES 1
static inline double posenc_product_error(double a, double b, double p) { return fma(a, b, -p); }
static inline double posenc_fma(double a, double b, double c) { return fma(a, b, c); }
#else
#define POSENC_FUSES 0
/* Dekker 1971: split each factor in halves of 26 bits, whose products are exact */
static inline double posenc_product_error(double a, double b, double p)
{
    const double splitter = 134217729.0; /* 2^27 + 1 */
    double t = splitter * a, ah = t - (t - a), al = a - ah;
    double u = splitter * b, bh = u - (u - b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
}

/* Boldo and Melquiond 2008: of the four parts of the sum the two small ones are added first and rounded to odd. Many
   times slower than a processor's, but the same result */
static inline double posenc_fma(double a, double b, double c)
{
    double p = a * b, t_low, v_low, lost;
    double t = posenc_two_sum(c, posenc_product_error(a, b, p), &t_low);
    double v = posenc_two_sum(p, t, &v_low);
    double rest = posenc_two_sum(t_low, v_low, &lost);
    uint64_t u = posenc_bits(rest);
    if (lost != 0.0 && !(u & 1))
        rest = posenc_double((lost > 0.0) == (rest > 0.0) ? u + 1 : u - 1);
    return v + rest;
}
#endif

/* double -> float, rounded to odd: drop 29 bits and keep in the last place that some of them were set. What becomes
   subnormal is rounded once more, but is nothing in a float16 */
static inline oddfloat posenc_odd(double x)
{
    const uint64_t low = ((uint64_t)1 << 29) - 1;
    uint64_t u = posenc_bits(x);
    return posenc_bits32((float)posenc_double((u | ((u & low) + low)) & ~low));
}

static inline uint16_t posenc_half_one(oddfloat u)
{
    uint32_t a = u & 0x7fffffffu;
    uint32_t normal = ((a + 0xfffu + ((a >> 13) & 1u)) >> 13) - (112u << 10);
    uint32_t tiny = posenc_bits32(posenc_float(a) + 0.5f) - 0x3f000000u; /* half an ulp of 0.5f is half an ulp there */
    uint32_t h = a < 0x38800000u ? tiny : normal;
    h = a >= 0x477ff000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(h | ((u >> 16) & 0x8000u));
}

static inline float posenc_half_value(uint16_t h)
{
    uint32_t a = (uint32_t)(h & 0x7fffu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
    float normal = posenc_float(a + (112u << 23));
    float tiny = posenc_float(a + (113u << 23)) - posenc_float(113u << 23);
    float special = posenc_float(a + (224u << 23));
    float value = a < (1u << 23) ? tiny : normal;
    value = a >= (31u << 23) ? special : value;
    return posenc_float(posenc_bits32(value) | sign);
}

/* double -> bfloat16, rounded once. A sum with what is 2^45 times as large has its last place where the bfloat16 has it.
   No stop at float32, which has the same exponents: its subnormals have lost bits that decide */
static inline widebfloat posenc_wide_bfloat(double x)
{
    double large = 0x1.8p45 * posenc_double(posenc_bits(x) & ((uint64_t)0x7ff << 52));
    large = large > 0x1.8p-81 ? large : 0x1.8p-81; /* the last place of a subnormal is that of the least normal number */
    large = large < 0x1.8p245 ? large : 0x1.8p245; /* x is infinite in any case */
    large = (x + large) - large;
    /* zero keeps its sign */
    return (widebfloat)posenc_bits32((float)posenc_double(posenc_bits(large) | (posenc_bits(x) & ((uint64_t)1 << 63))));
}

static inline void posenc_to_half(croddfloat x, ruint16 out, ptrdiff_t n)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps((const void *)(x + i)), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    /* a tenth slower, one at a time, wherever the loop happens to lie across two cache lines */
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

/* float -> bfloat16, to nearest. The float was rounded itself: where it lies in the middle, either side is as near to what
   is meant, and the larger one takes a third of the operations that the even one does. A NaN must have zeros in its last
   15 bits, as those of arithmetic have with numbers: looking for others would double the time of a loop */
static inline bfloat posenc_nearest_bfloat(float x) { return (bfloat)((posenc_bits32(x) + 0x8000u) >> 16); }

/* floats or widebfloats -> bfloat16, each by posenc_nearest_bfloat. 1: a float that was rounded from a double may have been
   rounded to the wrong side by this second rounding, since it lies in the middle of two bfloat16 or is subnormal; from
   widebfloats all is well */
static inline int posenc_to_bfloat(const void *POSENC_RESTRICT x, ruint16 out, ptrdiff_t n)
{
    uint32_t nearest = 0xffffffffu, least = 0xffffffffu;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint32_t u, distance, size;
        memcpy(&u, (const char *)x + 4 * i, sizeof u);
        out[i] = (uint16_t)posenc_nearest_bfloat(posenc_float(u));
        distance = (u << 16) ^ 0x80000000u; /* from the middle */
        nearest = distance < nearest ? distance : nearest;
        size = (u << 1) - 1u; /* nothing is less than zero's */
        least = size < least ? size : least;
    }
    return nearest == 0 || least < 0xffffffu;
}

static inline void posenc_from_bfloat(cruint16 x, rfloat out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = posenc_float((uint32_t)x[i] << 16);
}

static inline float posenc_bfloat_value(uint32_t x) { return posenc_float(x << 16); }

/* two bfloat16 side by side as one number, the first in its lower half: no shuffles of vectors where they are a pair */
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

/* of two bfloat16 side by side: the bits of POSENC_USUAL are set where both are from 2^-63 to 2^65. What is added carries
   the two highest bits of such an exponent, 01 or 10, to 1x, and those of all others to 0x */
enum { POSENC_USUAL = 0x40004000 };
static inline uint32_t posenc_usual_bits(uint32_t two) { return two + 0x20002000u; }

/* whether a product with a float32 cosine or sine may leave the range of float32: of subnormal bfloat16, and of those
   from 2^97 on. Zeros are none of them, but are not usual: they are looked at twice */
static inline int posenc_any_far(const bfloat *x, ptrdiff_t n)
{
    uint16_t least = 0xffff, most = 0, usual = 0xffff;
#pragma GCC unroll 4
    for (ptrdiff_t i = 0; i < n; i++)
        usual &= (uint16_t)posenc_usual_bits((uint16_t)x[i]);
    if (usual & POSENC_USUAL)
        return 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint16_t size = (uint16_t)(x[i] & 0x7fff), less = (uint16_t)(size - 1u); /* nothing is less than zero's */
        least = less < least ? less : least;
        most = size > most ? size : most;
    }
    return least < 0x7f || most >= 0x7000;
}

/* vectors as long as a cache line lie across two of them wherever a row does not begin at one, which takes a quarter to two
   thirds longer on a Sapphire Rapids; with vectors of half a line it is 3 to 7 %, and what a loop for the head takes is more */
#if defined(__AVX512F__)
#define POSENC_LONG_VECTORS 1
#else
#define POSENC_LONG_VECTORS 0
#endif

/* how many values of a size come before the first cache line */
static inline ptrdiff_t posenc_before_line(const void *row, ptrdiff_t size) { return (ptrdiff_t)(-(uintptr_t)row & 63u) / size; }

/* copy whole cache lines past the cache: right for memory that is mapped already and will not be read soon */
static inline void posenc_stream(void *out, const void *x, ptrdiff_t n)
{
#if defined(POSENC_X86)
    char *to = (char *)out;
    const char *from = (const char *)x;
    for (; n > 0; n -= 64, to += 64, from += 64) {
#if defined(__AVX512F__)
        _mm512_stream_si512((void *)to, _mm512_loadu_si512((const void *)from));
#elif defined(__AVX__)
        _mm256_stream_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
        _mm256_stream_si256((__m256i *)(to + 32), _mm256_loadu_si256((const __m256i *)(from + 32)));
#else
        for (int k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *)(to + k), _mm_loadu_si128((const __m128i *)(from + k)));
#endif
    }
#else
    memcpy(out, x, (size_t)n);
#endif
}

/* x | y, of n 16-bit pieces, a multiple of 32, as whole lines past the cache */
static inline void posenc_merge_lines(cruint16 x, cruint16 y, ruint16 out, ptrdiff_t n)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i < n; i += 32)
        _mm512_stream_si512((void *)(out + i), _mm512_or_si512(_mm512_loadu_si512(x + i), _mm512_loadu_si512(y + i)));
#elif defined(__AVX2__)
    for (; i < n; i += 16)
        _mm256_stream_si256((__m256i *)(out + i), _mm256_or_si256(_mm256_loadu_si256((const __m256i *)(x + i)),
                                                                  _mm256_loadu_si256((const __m256i *)(y + i))));
#elif defined(POSENC_X86)
    for (; i < n; i += 8)
        _mm_stream_si128((__m128i *)(out + i), _mm_or_si128(_mm_loadu_si128((const __m128i *)(x + i)),
                                                            _mm_loadu_si128((const __m128i *)(y + i))));
#else
    for (; i < n; i++)
        out[i] = (uint16_t)(x[i] | y[i]);
#endif
}

/* rows above and below an anchor, n columns of them, a multiple of 16: whole lines of the one above past the cache, from
   registers. Here, as there is no other way to say that the inner loop is to become vectors before it is unrolled */
static inline void posenc_rotate_lines(crdouble v, crdouble q, crdouble cosine, crdouble sine, char *above, rfloat below, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 16) {
        float line[16];
#pragma GCC unroll 1
        for (int j = 0; j < 16; j++) {
            double a = v[i + j] * cosine[i + j], b = q[i + j] * sine[i + j];
            line[j] = (float)(a + b);
            below[i + j] = (float)(a - b);
        }
        posenc_stream(above + 4 * i, line, sizeof line);
    }
}

/* ask for lines that will be written: hardware foresees a row, but not where the next one lies. An address is a number
   here, as there need not be anything at it */
static inline void posenc_prefetch(uintptr_t start, ptrdiff_t n)
{
#if defined(__GNUC__)
    for (ptrdiff_t i = 0; i < n; i += 64)
        __builtin_prefetch((const void *)(start + (uintptr_t)i), 1, 3);
#else
    (void)start, (void)n;
#endif
}

static inline void posenc_stream_end(void)
{
#if defined(POSENC_X86)
    _mm_sfence();
#endif
}

/* 1: the whole range is mapped (in three samples); 0: not, or nobody can tell */
static inline int posenc_is_warm(const void *start, ptrdiff_t n)
{
#if defined(__linux__)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)start & ~(page - 1);
    uintptr_t last = ((uintptr_t)start + (uintptr_t)n - 1) & ~(page - 1);
    uintptr_t samples[3] = {first, first + (last - first) / 2 / page * page, last};
    for (int k = 0; k < 3; k++) {
        unsigned char resident = 0;
        if (mincore((void *)samples[k], page, &resident) != 0 || !(resident & 1))
            return 0;
    }
    return 1;
#else
    (void)start, (void)n;
    return 0;
#endif
}

/* bytes of the last-level cache, 0 where unknown */
static inline ptrdiff_t posenc_cache_size(void)
{
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size > 0 ? (ptrdiff_t)size : 0;
#else
    return 0;
#endif
}

/* ---- the one entry of the loops: plain structs, filled by _kernel.pyx, read by every level ---- */

typedef struct {
    ptrdiff_t axes, waves, width; /* a wave is one frequency with one residual phase: a sine and a cosine */
    const double *high, *low;     /* (axes, waves): turns per unit, as a sum of two doubles; or radians in float32 */
    const double *largest;        /* (axes,): largest |turns per unit| */
    const int32_t *source;        /* (width,): where in a row of sines and cosines the column's value stands */
    const double *amplitude;      /* (width,) */
    const int32_t *runs;          /* (nruns + 1,): first columns of the stretches of consecutive sources */
    ptrdiff_t nruns;
    int planar;                   /* sines before cosines, or sine and cosine of each wave side by side */
    int straight;                 /* the columns are that row, all of it and in its order, with amplitudes of 1 */
} posenc_plan;

typedef struct {
    const posenc_plan *plan;      /* axes: multiples of 2^32, the rest, and (with residual phases) 1 */
    const int32_t *quadrature_source;
    const double *quadrature_amplitude;
    const double *fine;           /* (4, block/2 + 1, stride): cos, sin and their low parts of 0 .. block/2 steps */
    const double *coarse;         /* (4, span/block, stride): the same of 0, block, .. */
    const double *origin;         /* (4, stride): value, quadrature and their low parts at 0 */
    ptrdiff_t stride;
    int block_bits, span_bits;    /* block: rows around one anchor; span: rows around one exact evaluation */
} posenc_lattice;

typedef struct {
    char *out;
    ptrdiff_t row, batch;         /* bytes from row to row, from batch to batch */
    const char *x;                /* NULL: write the encoding; else write scale * x + encoding */
    ptrdiff_t x_row, x_batch;
    ptrdiff_t batches;
    double scale;
    int type;                     /* POSENC_FLOAT64 .. */
    int stream, ahead;            /* out is written past the cache; what is added to lies beyond it: fetch early */
} posenc_sink;

enum { POSENC_FLOAT64, POSENC_FLOAT32, POSENC_FLOAT16, POSENC_BFLOAT16 };
static inline ptrdiff_t posenc_size_of(int type) { return type == POSENC_FLOAT64 ? 8 : type == POSENC_FLOAT32 ? 4 : 2; }

/* the first half of a row of 2 * n values of a type, as doubles or floats from out[2 * n * row + first] on; 0 where the
   second half has others */
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

typedef struct {
    char *out;
    const char *x;
    ptrdiff_t shape[4];           /* groups, batches, heads, rows: the pairs of a group's row turn by the same angles */
    ptrdiff_t out_strides[4], x_strides[4];
    const char *angles;           /* (groups, rows, 2 * pairs): cosines, then sines; doubles, or floats for 16-bit types */
    ptrdiff_t pairs, width;       /* values behind the pairs are left as they are */
    int type, layout;
} posenc_rotation;

/* how the two values of a pair lie: half a row apart, side by side, or side by side in x and half a row apart in out */
enum { POSENC_HALF, POSENC_INTERLEAVED, POSENC_SEPARATED };

/* a row of any choice of a plan's columns, as a sum of two doubles */
typedef struct {
    const int32_t *source;        /* (width,) */
    const double *amplitude;
    double *high, *low;
} posenc_row;

typedef struct {
    int (*encode)(const posenc_plan *, const double *positions, ptrdiff_t rows, const posenc_sink *, int single,
                  double *scratch, unsigned char **left);
    void (*evaluate)(const posenc_plan *, const double *position, const posenc_row two[2], double *scratch);
    void (*table)(const posenc_lattice *, int64_t span, ptrdiff_t offset, ptrdiff_t rows, const posenc_sink *,
                  double *scratch);
    void (*rows)(const posenc_lattice *, const int64_t *spans, const int32_t *offsets, ptrdiff_t rows,
                 const posenc_sink *, double *scratch);
    void (*rotate)(const posenc_rotation *, double *scratch);
    void (*merge)(const uint16_t *outer, const uint16_t *inner, ptrdiff_t rows, ptrdiff_t width, const posenc_sink *,
                  double *scratch);
} posenc_level;

#define POSENC_ENTRIES(level) \
    void posenc_loops_##level(posenc_level *); \
    void posenc_rotations_##level(posenc_level *); \
    void posenc_grids_##level(posenc_level *); \
    static inline void posenc_level_##level(posenc_level *to) \
    { \
        posenc_loops_##level(to), posenc_rotations_##level(to), posenc_grids_##level(to); \
    }

#endif
