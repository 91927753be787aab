/* Functions for cache lines: non-temporal stores, prefetches, sizes of caches, and whether memory is mapped. */
#ifndef POSENC_CACHE_H
#define POSENC_CACHE_H

#include "compiler.h"
#include "cpu.h"

#include <stddef.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

/* POSENC_LONG_VECTORS is 1 if a vector is as long as a cache line (64 bytes). Loops then write the values before the
   first start of a cache line in a row separately. Otherwise each vector would lie in two lines, which takes a quarter
   to two thirds longer on a Sapphire Rapids. Shorter vectors lose only 3 to 7 %, less than a separate loop costs. */
#if defined(__AVX512F__)
#define POSENC_LONG_VECTORS 1
#else
#define POSENC_LONG_VECTORS 0
#endif

/* Return the number of values, of size bytes each, from the start of a row to the next start of a cache line. */
static inline ptrdiff_t posenc_before_line(const void *row, ptrdiff_t size) { return (ptrdiff_t)(-(uintptr_t)row & 63u) / size; }

/* Copy n bytes to out by non-temporal stores. out begins at a cache line, and n is a multiple of 64. Non-temporal
   stores are faster than ordinary stores if the memory is already mapped, and is not read soon. On other CPUs than x86,
   the stores are ordinary. */
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

/* Write x | y to out, like posenc_stream. n is the number of 16-bit pieces, a multiple of 32 (a cache line). */
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

/* Compute n columns (a multiple of 16) of the rows above and below an anchor (see lattice.pxd). The row above is
   stored by posenc_stream. The function is in C, because Cython cannot write the pragma. The pragma makes the compiler
   vectorize the inner loop. Otherwise the compiler would unroll it first. */
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

/* Prefetch n bytes from start on for writing. This is needed at the start of a row: hardware prefetches the rest of a
   row, but cannot predict the address of the next row. start is an integer, because C forbids pointers outside of
   arrays. */
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

/* Return 1 if the first, middle and last page of the n bytes from start are mapped. Return 0 if one is not, or if the
   system cannot tell. */
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

/* Return the number of bytes of a core's second-level cache, or 512 KiB if it is unknown. */
static inline ptrdiff_t posenc_second_level(void)
{
#if defined(_SC_LEVEL2_CACHE_SIZE)
    long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (size > 0)
        return (ptrdiff_t)size;
#endif
    return posenc_cpu_second_level();
}

/* Return the number of bytes of the last-level cache, or 0 if it is unknown. */
static inline ptrdiff_t posenc_cache_size(void)
{
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size > 0 ? (ptrdiff_t)size : 0;
#else
    return 0;
#endif
}

#endif
