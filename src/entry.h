/* Structs of arguments for the loops, and a struct of the loops' functions.
 *
 * The loops are compiled once for each instruction-set level. A level fills a posenc_level with its functions. The
 * Python methods (_kernel.pyx) and the C interface (interface.pxd) call these functions.
 */
#ifndef POSENC_ENTRY_H
#define POSENC_ENTRY_H

#include <stddef.h>
#include <stdint.h>

enum { POSENC_FLOAT64, POSENC_FLOAT32, POSENC_FLOAT16, POSENC_BFLOAT16 };
static inline ptrdiff_t posenc_size_of(int type) { return type == POSENC_FLOAT64 ? 8 : type == POSENC_FLOAT32 ? 4 : 2; }

/* Waves and columns of an encoding. A wave has a frequency on each axis of the positions. If some phase is not a whole
   number of quarter turns, there is one more axis, on which all positions are 1. The frequency of a wave on this axis
   is its phase minus the nearest quarter turn. A row of waves has the sine and the cosine of each wave. */
typedef struct {
    ptrdiff_t axes, waves, width; /* width: number of columns */
    const double *high, *low;     /* (axes, waves): frequency high + low in turns per unit. For products in float32,
                                     high is in radians per unit, rounded to float32, and low is 0. */
    const double *largest;        /* (axes,): largest absolute frequency of each axis, in turns per unit */
    const int32_t *source;        /* (width,): index of each column's value in a row of waves */
    const double *amplitude;      /* (width,): factor of each column */
    const int32_t *runs;          /* (nruns + 1,): first column of each run of consecutive sources, then the width */
    ptrdiff_t nruns;
    int planar;                   /* 1: a row of waves has all sines, then all cosines; 0: both alternate */
    int straight;                 /* 1: the columns are the row of waves, unchanged */
} posenc_plan;

/* Rows from which the rows of integer positions are computed (see lattice.pxd). A block has 2^block_bits rows. The rows
   of a block are rotated from the row of the integer in the middle of the block, the anchor. A span is a range of
   2^span_bits integers. The anchors in a span are rotated from the row of its first integer, which is evaluated
   directly. The arrays fine and coarse have rows of cosines, then rows of sines. For float64, the low parts of the
   cosines and the low parts of the sines follow. */
typedef struct {
    const posenc_plan *plan;      /* axes: position / 2^32 rounded to an integer, the remainder, and 1 for phases */
    const int32_t *quadrature_source; /* source and amplitude of the columns' derivatives by the angle */
    const double *quadrature_amplitude;
    const double *fine;           /* (4 or 2, block/2 + 1, stride): at the offsets 0, 1, .. block/2 from an anchor */
    const double *coarse;         /* (4 or 2, span/block, stride): at the offsets 0, block, 2 * block, .. */
    const double *origin;         /* (4, stride): row of position 0, its quadrature, and the low parts of both */
    ptrdiff_t stride;             /* doubles from row to row */
    int block_bits, span_bits;
} posenc_lattice;

typedef struct {
    char *out;
    ptrdiff_t row, batch;         /* bytes from row to row, from batch to batch */
    const char *x;                /* if NULL, write the encoding, else write scale * x + encoding */
    ptrdiff_t x_row, x_batch;
    ptrdiff_t batches;
    double scale;
    int type;                     /* POSENC_FLOAT64 .. */
    int stream, prefetch;         /* stream: store past the cache; prefetch: fetch x and out ahead of their use */
} posenc_output;

/* sizes in bytes that decide how a rotation uses the caches */
typedef struct {
    ptrdiff_t second_level;       /* size of the second-level cache */
    ptrdiff_t prefetch_from;      /* least size of x for which rows of x are prefetched */
} posenc_caches;

typedef struct {
    char *out;
    const char *x;
    ptrdiff_t shape[4];           /* groups, batches, heads, rows: all batches and heads of a group share its angles */
    ptrdiff_t out_strides[4], x_strides[4];
    const char *angles;           /* (groups, rows, 2 * pairs): cosines, then sines; floats for 16 bits, else doubles */
    ptrdiff_t pairs, width;       /* width: number of values in a row; values behind the pairs are copied */
    int type, layout;
    int stream;                   /* store the result past the cache; out is not x then */
    posenc_caches caches;
} posenc_rotation;

/* Where the two values of a pair lie. HALF: as many values apart as there are pairs. INTERLEAVED: adjacent. SEPARATED:
   adjacent in x, but in `out` as in HALF. */
enum { POSENC_HALF, POSENC_INTERLEAVED, POSENC_SEPARATED };

/* Where to write a row of columns as sums of two doubles (high and low). The source and the amplitude of each column
   replace those of the plan. */
typedef struct {
    const int32_t *source;        /* (width,) */
    const double *amplitude;
    double *high, *low;
} posenc_row;

typedef struct {
    int (*encode)(const posenc_plan *, const double *positions, ptrdiff_t rows, const posenc_output *, int single,
                  double *scratch, unsigned char **left);
    void (*evaluate)(const posenc_plan *, const double *position, const posenc_row two[2], double *scratch);
    void (*table)(const posenc_lattice *, int64_t span, ptrdiff_t offset, ptrdiff_t rows, const posenc_output *,
                  double *scratch);
    void (*rows)(const posenc_lattice *, const int64_t *spans, const int32_t *offsets, ptrdiff_t rows,
                 const posenc_output *, double *scratch);
    void (*rotate)(const posenc_rotation *, double *scratch);
    void (*merge)(const uint16_t *outer, const uint16_t *inner, ptrdiff_t rows, ptrdiff_t width, const posenc_output *,
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
