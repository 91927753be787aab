# cython: cdivision=True
"""Lay out the work space of the loops. A function ``lay_out_..`` sets pointers to the arrays that one loop needs.

It returns the number of doubles in all arrays. The arrays follow each other in memory from base on. If base is NULL,
the function only computes this number, and sets all pointers to NULL.
"""

from libc.stdint cimport uint16_t

from cache cimport (
    ADDED, ANGLES_LEAST, ANGLES_MOST, ANGLES_PART, LINE_BUFFER, MERGED, PREFETCH_COLUMNS, PREFETCH_ROWS,
    PREFETCH_ROWS_16, TILE,
)
from entry cimport BFLOAT16, FLOAT16, HALF, SEPARATED, CLattice, CPlan, CRotation, CRow, Output, size_of
from vectors cimport TOGETHER


cdef inline double* reserve(double* base, Py_ssize_t* used, Py_ssize_t doubles) noexcept nogil:
    """Return the address of the next doubles of the work space, or NULL if base is NULL. Add their number to used."""
    cdef Py_ssize_t start = used[0]
    used[0] += doubles
    return base + start if base != NULL else NULL


cdef struct EvaluateWork:
    double* row
    double* row_low
    double* angles  # angles of the waves, and then the low parts of the angles


cdef inline Py_ssize_t lay_out_evaluate(Py_ssize_t waves, EvaluateWork* to, double* base) noexcept nogil:
    cdef Py_ssize_t used = 0
    to.row = reserve(base, &used, 2 * waves)
    to.row_low = reserve(base, &used, 2 * waves)
    to.angles = reserve(base, &used, 2 * waves)
    return used


cdef inline void anchor_rows(const CLattice* lattice, double* rows, CRow* two_rows) noexcept nogil:
    """Fill two_rows for the computation of an anchor's value and quadrature.

    `rows` is the memory of four rows: value, quadrature, and the low parts of both.
    """
    two_rows[0].source, two_rows[0].amplitude = lattice.plan.source, lattice.plan.amplitude
    two_rows[1].source, two_rows[1].amplitude = lattice.quadrature_source, lattice.quadrature_amplitude
    two_rows[0].high, two_rows[0].low = rows, rows + 2 * lattice.stride
    two_rows[1].high, two_rows[1].low = rows + lattice.stride, rows + 3 * lattice.stride


cdef struct EncodeWork:
    EvaluateWork evaluate
    double* high
    double* low
    double* rounding  # two rows (the second of at least PREFETCH_COLUMNS), and 2 * TILE doubles to store past the cache


cdef inline Py_ssize_t lay_out_encode(const CPlan* plan, const Output* output, EncodeWork* to,
                                      double* base) noexcept nogil:
    cdef Py_ssize_t used = lay_out_evaluate(plan.waves, &to.evaluate, base), width = plan.width
    to.high = reserve(base, &used, width)
    to.low = reserve(base, &used, width)
    to.rounding = reserve(base, &used, width + max(width, <Py_ssize_t>PREFETCH_COLUMNS)
                          + (2 * TILE if output.stream else 0))
    return used


cdef struct TableWork:
    double* anchor1  # each of anchor1, anchor2 and exact has the four rows of an anchor
    double* anchor2
    double* exact
    double* discard[4]  # memory for computed rows that are not in the table
    # evaluation and tiles share memory, because an anchor is complete before its rows are computed
    double* evaluation
    double* tiles  # TILE columns of four rows, then line buffers of these rows for stores past the cache


cdef inline Py_ssize_t lay_out_table(const CLattice* lattice, TableWork* to, double* base) noexcept nogil:
    cdef Py_ssize_t used = 0, k
    cdef EvaluateWork layout
    to.anchor1 = reserve(base, &used, 4 * lattice.stride)
    to.anchor2 = reserve(base, &used, 4 * lattice.stride)
    to.exact = reserve(base, &used, 4 * lattice.stride)
    for k in range(4):
        to.discard[k] = reserve(base, &used, lattice.stride)
    to.evaluation = to.tiles = reserve(base, &used, max(lay_out_evaluate(lattice.plan.waves, &layout, NULL),
                                                        4 * TILE + 4 * LINE_BUFFER))
    return used


cdef struct RowsWork:
    double* anchor
    double* exact
    double* rows  # pass_rows times two rows: high and low parts
    # evaluation and rounding share memory, because an anchor is complete before its rows are rounded
    double* evaluation
    double* rounding  # two rows, and at least 2 * TILE doubles
    Py_ssize_t pass_rows  # number of rows to compute before they are added to each batch


cdef inline Py_ssize_t lay_out_rows(const CLattice* lattice, const Output* output, Py_ssize_t rows, RowsWork* to,
                                    double* base) noexcept nogil:
    """Lay out the memory for rows of any integers, and for sums of consecutive rows and x.

    For a sum with several batches, pass_rows may be more than 1, so that adjacent rows of a batch of x are read in
    order.
    """
    cdef Py_ssize_t used = 0
    cdef EvaluateWork layout
    to.pass_rows = 1
    if output.x != NULL and output.batches > 1:
        to.pass_rows = max(<Py_ssize_t>1, min(rows, ADDED // lattice.stride))
    to.anchor = reserve(base, &used, 4 * lattice.stride)
    to.exact = reserve(base, &used, 4 * lattice.stride)
    to.rows = reserve(base, &used, to.pass_rows * 2 * lattice.stride)
    to.evaluation = to.rounding = reserve(base, &used, max(lay_out_evaluate(lattice.plan.waves, &layout, NULL),
                                                           max(2 * lattice.plan.width, 2 * TILE)))
    return used


cdef enum:
    LINE_BYTES = 64
    LINE = LINE_BYTES >> 1  # number of 16-bit pieces in a cache line


cdef struct RotationWork:
    double* row
    bint heads_inside  # whether to rotate all heads of a token, then the next token (if heads are closer in memory)
    bint vectors  # whether to use the functions of vectors.h, which rotate rows of several heads at once
    int members  # maximum number of heads to rotate at once
    int rows_ahead  # number of rows between the prefetch of a row and its rotation; 0 for no prefetch
    char* buffer  # rows of `members` heads, for stores past the cache, or NULL
    Py_ssize_t buffer_row  # bytes from row to row of the buffer
    Py_ssize_t pass_rows  # number of rows of angles that are applied to all batches and heads before the next rows
    bint splits  # whether to call `split_angles` first, which saves time if several batches or heads share the angles
    # pass_rows rows of angles from `split_angles`
    float* split


cdef inline Py_ssize_t row_of_angles(const CRotation* r) noexcept nogil:
    """Return the bytes of a row of cosines and sines, which are doubles, or floats for 16-bit types."""
    return 2 * r.pairs * (4 if size_of(r.type) == 2 else 8)


cdef inline Py_ssize_t row_of_split(const CRotation* r) noexcept nogil:
    """Return the number of floats in the four parts of a row of split angles. A part may have one unused float."""
    return 4 * ((r.pairs + 1) // 2)


cdef inline bint lines_apart(const CRotation* r) noexcept nogil:
    """Return whether each row of the result begins at a cache line."""
    cdef Py_ssize_t offsets = <Py_ssize_t>r.out
    cdef int k
    for k in range(4):
        if r.shape[k] > 1:
            offsets |= r.out_strides[k]
    return offsets % LINE_BYTES == 0


cdef inline bint rows_touch(const CRotation* r, const RotationWork* work, Py_ssize_t row) noexcept nogil:
    """Return whether each row ends where the next row of its head begins, and the loop computes that row next."""
    return not work.heads_inside and r.out_strides[3] == row


cdef inline Py_ssize_t lay_out_rotation(const CRotation* r, Py_ssize_t floats, RotationWork* to,
                                        double* base) noexcept nogil:
    """Lay out the memory of a rotation.

    floats is the number of floats in a vector of the instruction-set level, or 0 for a level that does not use
    vectors.h. If floats is 1, the returned size suffices for all levels.
    """
    cdef Py_ssize_t used = 0, size = size_of(r.type), row_bytes = r.width * size, all_bytes = row_bytes, k
    cdef Py_ssize_t angle_bytes = min(max(r.caches.second_level // ANGLES_PART, <Py_ssize_t>ANGLES_LEAST),
                                      <Py_ssize_t>ANGLES_MOST)
    for k in range(4):
        all_bytes *= r.shape[k]
    to.pass_rows = min(r.shape[3], max(<Py_ssize_t>1, angle_bytes // row_of_angles(r)))
    to.splits = r.type == BFLOAT16 and r.layout == HALF and r.shape[1] * r.shape[2] > 1
    to.heads_inside = r.shape[2] > 1 and (r.shape[3] == 1 or r.out_strides[2] < r.out_strides[3])
    to.rows_ahead = PREFETCH_ROWS_16 if size == 2 else PREFETCH_ROWS
    if all_bytes < r.caches.prefetch_from:
        to.rows_ahead = 0
    to.vectors = floats > 0 and r.layout != SEPARATED
    # For a single head, vectors save time only in float16. In float16, all pairs must fill whole vectors, because the
    # pairs of an incomplete vector would be converted one by one.
    if r.type == FLOAT16:
        to.vectors = to.vectors and r.pairs % floats == 0
    else:
        to.vectors = to.vectors and r.shape[1] * r.shape[2] > 1
    if r.type == BFLOAT16 and r.layout == HALF:
        # Unless the condition below is true, `split_elsewhere` is as fast as vectors. It rotates single rows of x into
        # `out`, and checks them for far values (half.h) at the same time.
        to.vectors = to.vectors and r.pairs % (2 * floats) == 0 and (r.x == r.out or r.stream or to.rows_ahead)
    to.members = 1 if not to.vectors else 2 if to.heads_inside else TOGETHER
    to.row = reserve(base, &used, 2 * r.pairs)
    to.split = <float*>reserve(base, &used, (row_of_split(r) * to.pass_rows + 1) // 2 if to.splits else 0)
    to.buffer, to.buffer_row = NULL, row_bytes + LINE_BYTES
    # `stream_row` writes whole cache lines. So a row must not share a line with another row, unless the other row is
    # computed next and completes the line.
    if to.vectors and r.stream and row_bytes % LINE_BYTES == 0 and (lines_apart(r) or rows_touch(r, to, row_bytes)):
        to.buffer = <char*>reserve(base, &used, TOGETHER * to.buffer_row // 8)
    return used


cdef struct GridWork:
    Py_ssize_t stretch  # number of adjacent rows that are merged as one
    Py_ssize_t period  # number of 16-bit pieces in the copies of a row: a multiple of the width
    uint16_t* row  # copies of one row of a table: period pieces, and a cache line more


cdef inline Py_ssize_t lay_out_grid(Py_ssize_t rows, Py_ssize_t width, const Output* output, GridWork* to,
                                    double* base) noexcept nogil:
    cdef Py_ssize_t used = 0
    to.stretch = rows if output.row == width * <Py_ssize_t>sizeof(uint16_t) else 1
    # repeat narrow rows, so that loops over them are long
    to.period = width * min(to.stretch, 1 + (MERGED - 1) // width)
    to.row = <uint16_t*>reserve(base, &used, (to.period + LINE + 3) // 4)
    return used
