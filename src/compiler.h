/* Words to the C compiler that Cython does not have: restrict, what is inlined and what is not, debug builds.
 *
 * This and the headers next to it are included once by _kernel.pyx and once for each instruction-set level by the files of
 * loops. Everything in them is static inline, so that each level gets its own code from its own compiler flags.
 */
#ifndef POSENC_COMPILER_H
#define POSENC_COMPILER_H

#include <stdint.h>

#if defined(__x86_64__) || defined(_M_X64) || defined(__SSE2__)
#define POSENC_X86 1
#include <immintrin.h>
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

/* POSENC_ALWAYS: a step of a loop, which becomes no vectors as long as there is a call in it. POSENC_APART: a function that
   stays one */
#if defined(_MSC_VER)
#define POSENC_ALWAYS __forceinline
#define POSENC_APART __declspec(noinline)
#else
#define POSENC_ALWAYS __inline__ __attribute__((__always_inline__))
#define POSENC_APART __attribute__((noinline))
#endif
/* what a step that Cython writes returns, as Cython has no other place for it */
#define POSENC_STEP POSENC_ALWAYS void

/* rows that do not overlap: const ones are inputs, the others outputs */
typedef double *POSENC_RESTRICT rdouble;
typedef float *POSENC_RESTRICT rfloat;
typedef uint16_t *POSENC_RESTRICT ruint16;
typedef const double *POSENC_RESTRICT crdouble;
typedef const float *POSENC_RESTRICT crfloat;
typedef const uint16_t *POSENC_RESTRICT cruint16;
typedef const int32_t *POSENC_RESTRICT crint32;

#endif
