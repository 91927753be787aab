/* Instructions to the C compiler that Cython cannot express: restrict, inlining, debug builds.
 *
 * _kernel.pyx and the files of loops (_loops.pyx, _rotations.pyx, _grids.pyx) include this and the other headers. The
 * loops are compiled once for each instruction-set level, with its own flags. All functions in headers are static, so
 * that each level also has its own copy of these functions.
 */
#ifndef POSENC_COMPILER_H
#define POSENC_COMPILER_H

#include <stdint.h>

#if defined(__x86_64__) || defined(_M_X64) || defined(__SSE2__)
#define POSENC_X86 1
#include <immintrin.h>
#endif

/* POSENC_DEBUG is 1 in debug builds, which check the arguments of the kernel. It is a constant, so that the compiler
   removes the checks from other builds. */
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

/* POSENC_ALWAYS marks functions that must be inlined, because loops call them, and compilers do not vectorize a loop
   with a call. POSENC_APART marks functions that are never inlined. */
#if defined(_MSC_VER)
#define POSENC_ALWAYS __forceinline
#define POSENC_APART __declspec(noinline)
#else
#define POSENC_ALWAYS __inline__ __attribute__((__always_inline__))
#define POSENC_APART __attribute__((noinline))
#endif
/* return type of Cython functions that are always inlined; Cython can write POSENC_ALWAYS only as part of this type */
#define POSENC_STEP POSENC_ALWAYS void

/* types of pointers, for arguments; no other argument of the function points to the same values */
typedef double *POSENC_RESTRICT rdouble;
typedef float *POSENC_RESTRICT rfloat;
typedef uint16_t *POSENC_RESTRICT ruint16;
typedef const double *POSENC_RESTRICT crdouble;
typedef const float *POSENC_RESTRICT crfloat;
typedef const uint16_t *POSENC_RESTRICT cruint16;
typedef const int32_t *POSENC_RESTRICT crint32;

#endif
