/* Find the instruction-set level that CPU and operating system support, and the size of the second-level cache.
 *
 * The functions use the CPUID instruction, because some compilers can compile for x86-64-v3 and -v4, but cannot ask
 * whether the CPU supports them (gcc 11, clang 14 to 16). The levels are those of the x86-64 psABI.
 */
#ifndef POSENC_CPU_H
#define POSENC_CPU_H

#include <stddef.h>
#include <stdint.h>

enum { POSENC_USUAL_SECOND_LEVEL = 1 << 19 };

#if defined(__x86_64__) || defined(_M_X64)
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
static inline void posenc_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
    __cpuidex((int *)r, (int)leaf, (int)subleaf);
}
static inline uint64_t posenc_xcr0(void) { return _xgetbv(0); }
#else
#include <cpuid.h>
static inline void posenc_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
}
static inline uint64_t posenc_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}
#endif

/* Bits that the levels require. The names say where CPUID returns them: v3 or v4 is the level, 1c is register ECX of
   leaf 1, 7b is EBX of leaf 7, and ec is ECX of leaf 80000001. */
#define POSENC_BIT(n) ((uint32_t)1 << (n))
enum {
    POSENC_XMM_YMM = 0x06, /* bits of XCR0, set if the operating system saves these registers on thread switches */
    POSENC_ZMM = 0xe0
};
static const uint32_t posenc_v3_1c = /* SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C */
    POSENC_BIT(0) | POSENC_BIT(9) | POSENC_BIT(12) | POSENC_BIT(13) | POSENC_BIT(19) | POSENC_BIT(20) | POSENC_BIT(22)
    | POSENC_BIT(23) | POSENC_BIT(27) | POSENC_BIT(28) | POSENC_BIT(29);
static const uint32_t posenc_v3_7b = /* BMI1, AVX2, BMI2 */ POSENC_BIT(3) | POSENC_BIT(5) | POSENC_BIT(8);
static const uint32_t posenc_v3_ec = /* LAHF, LZCNT */ POSENC_BIT(0) | POSENC_BIT(5);
static const uint32_t posenc_v4_7b = /* AVX512 F, DQ, CD, BW, VL */
    POSENC_BIT(16) | POSENC_BIT(17) | POSENC_BIT(28) | POSENC_BIT(30) | POSENC_BIT(31);

/* Return the highest level that CPU and operating system support: 0 (baseline), 1 (x86-64-v3) or 2 (x86-64-v4). */
static inline int posenc_cpu_level(void)
{
    uint32_t leaf1[4], leaf7[4], extended[4];
    uint64_t saved;
    /* the first number of leaf 0 is the largest basic leaf, that of leaf 80000000 is the largest extended leaf */
    posenc_cpuid(0, 0, leaf1);
    posenc_cpuid(0x80000000u, 0, extended);
    if (leaf1[0] < 7 || extended[0] < 0x80000001u)
        return 0;
    posenc_cpuid(1, 0, leaf1);
    posenc_cpuid(7, 0, leaf7);
    posenc_cpuid(0x80000001u, 0, extended);
    if ((leaf1[2] & posenc_v3_1c) != posenc_v3_1c || (leaf7[1] & posenc_v3_7b) != posenc_v3_7b
        || (extended[2] & posenc_v3_ec) != posenc_v3_ec)
        return 0;
    saved = posenc_xcr0(); /* the CPU has this register, because OSXSAVE is set */
    if ((saved & POSENC_XMM_YMM) != POSENC_XMM_YMM)
        return 0;
    if ((leaf7[1] & posenc_v4_7b) != posenc_v4_7b)
        return 1;
#if !defined(__APPLE__) /* macOS sets the ZMM bits for a thread only when the thread first uses a ZMM register */
    if ((saved & POSENC_ZMM) != POSENC_ZMM)
        return 1;
#endif
    return 2;
}

/* Return the size of the second-level cache in bytes, from the list of caches in CPUID leaf 4 (Intel) or 8000001D
   (AMD). Return 512 KiB if the list has no second-level cache. */
static inline ptrdiff_t posenc_cpu_second_level(void)
{
    static const uint32_t leaves[2] = {4, 0x8000001du};
    for (int k = 0; k < 2; k++) {
        uint32_t largest_leaf[4], r[4];
        posenc_cpuid(leaves[k] & 0x80000000u, 0, largest_leaf);
        for (uint32_t i = 0; largest_leaf[0] >= leaves[k] && i < 8; i++) {
            posenc_cpuid(leaves[k], i, r);
            if ((r[0] & 31u) == 0) /* the list ends */
                break;
            if (((r[0] >> 5) & 7u) == 2) /* level 2: ways * partitions * bytes of a line * sets */
                return (ptrdiff_t)((r[1] >> 22) + 1) * (((r[1] >> 12) & 0x3ff) + 1) * ((r[1] & 0xfff) + 1) * ((ptrdiff_t)r[2] + 1);
        }
    }
    return POSENC_USUAL_SECOND_LEVEL;
}
#else
static inline int posenc_cpu_level(void) { return 0; }
static inline ptrdiff_t posenc_cpu_second_level(void) { return POSENC_USUAL_SECOND_LEVEL; }
#endif

#endif
