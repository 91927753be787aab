/* Instructions to the C compiler that Cython cannot express: restrict, inlining, debug builds.
 *
 * _kernel.pyx and, for each instruction-set level, the files of loops include this and the other headers. All functions
 * are static inline, so that each level compiles them with its own flags.
 */
#ifndef POSENC_COMPILER_H
#define POSENC_COMPILER_H

#include <stdint.h>

#if defined(__x86_64__) || defined(_M_X64) || defined(__SSE2__)
#define POSENC_X86 1
#include <immintrin.h>
#endif

/* POSENC_DEBUG is 1 if arguments are checked. It is a constant, so that the compiler removes the checks if it is 0. */
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

/* POSENC_ALWAYS marks functions that are always inlined. They are steps of a loop, and a loop with a call is not
   vectorized. POSENC_APART marks functions that are never inlined. */
#if defined(_MSC_VER)
#define POSENC_ALWAYS __forceinline
#define POSENC_APART __declspec(noinline)
#else
#define POSENC_ALWAYS __inline__ __attribute__((__always_inline__))
#define POSENC_APART __attribute__((noinline))
#endif
/* return type of an inlined step; Cython can emit the attribute only in the return type */
#define POSENC_STEP POSENC_ALWAYS void

/* pointers to rows that do not overlap; pointers to const are inputs, and the others are outputs */
typedef double *POSENC_RESTRICT rdouble;
typedef float *POSENC_RESTRICT rfloat;
typedef uint16_t *POSENC_RESTRICT ruint16;
typedef const double *POSENC_RESTRICT crdouble;
typedef const float *POSENC_RESTRICT crfloat;
typedef const uint16_t *POSENC_RESTRICT cruint16;
typedef const int32_t *POSENC_RESTRICT crint32;

#endif
