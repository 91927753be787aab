# cython: cdivision=True
"""Work space of the loops: one function lays out an entry's memory, and without any measures how much it takes.

Each function gives the doubles that an entry needs, and the places of its arrays from base on, which may be NULL.
"""

from libc.stdint cimport uint16_t

from cache cimport (
    ADDED, ANGLES_LEAST, ANGLES_MOST, ANGLES_PART, MERGED, PREFETCH_COLUMNS, PREFETCH_LEVEL, PREFETCH_ROWS,
    PREFETCH_ROWS_16, TILE,
)
from entry cimport BFLOAT16, FLOAT16, HALF, SEPARATED, CLattice, CPlan, CRotation, CRow, Output, size_of
from vectors cimport TOGETHER


cdef inline double* take(double* base, Py_ssize_t* used, Py_ssize_t doubles) noexcept nogil:
    cdef Py_ssize_t start = used[0]
    used[0] += doubles
    return base + start if base != NULL else NULL


cdef struct EvaluateWork:
    double* row
    double* row_low
    double* angles  # and their low parts


cdef inline Py_ssize_t lay_out_evaluate(Py_ssize_t waves, EvaluateWork* to, double* base) noexcept nogil:
    cdef Py_ssize_t used = 0
    to.row = take(base, &used, 2 * waves)
    to.row_low = take(base, &used, 2 * waves)
    to.angles = take(base, &used, 2 * waves)
    return used


cdef inline void anchor_rows(const CLattice* lattice, double* rows, CRow* two) noexcept nogil:
    """An anchor's four rows: value and quadrature, and then their low parts."""
    two[0].source, two[0].amplitude = lattice.plan.source, lattice.plan.amplitude
    two[1].source, two[1].amplitude = lattice.quadrature_source, lattice.quadrature_amplitude
    two[0].high, two[0].low = rows, rows + 2 * lattice.stride
    two[1].high, two[1].low = rows + lattice.stride, rows + 3 * lattice.stride


cdef struct EncodeWork:
    EvaluateWork evaluate
    double* high
    double* low
    double* rounding  # two rows, or a row and a stretch of a sum; past the cache its tiles, too


cdef inline Py_ssize_t lay_out_encode(const CPlan* plan, const Output* output, EncodeWork* to,
                                      double* base) noexcept nogil:
    cdef Py_ssize_t used = lay_out_evaluate(plan.waves, &to.evaluate, base), width = plan.width
    to.high = take(base, &used, width)
    to.low = take(base, &used, width)
    to.rounding = take(base, &used, width + max(width, <Py_ssize_t>PREFETCH_COLUMNS)
                       + (2 * TILE if output.stream else 0))
    return used


cdef struct TableWork:
    double* one  # an anchor: four rows
    double* two
    double* exact
    double* discard[4]
    # the same memory, as anchors are there before rows are
    double* evaluation
    double* tiles  # of four rows, and buffers for what goes past the cache


cdef inline Py_ssize_t lay_out_table(const CLattice* lattice, TableWork* to, double* base) noexcept nogil:
    cdef Py_ssize_t used = 0, k
    cdef EvaluateWork inner
    to.one = take(base, &used, 4 * lattice.stride)
    to.two = take(base, &used, 4 * lattice.stride)
    to.exact = take(base, &used, 4 * lattice.stride)
    for k in range(4):
        to.discard[k] = take(base, &used, lattice.stride)
    to.evaluation = to.tiles = take(base, &used, max(lay_out_evaluate(lattice.plan.waves, &inner, NULL),
                                                     4 * TILE + 4 * (TILE + 16)))
    return used


cdef struct RowsWork:
    double* anchor
    double* exact
    double* rows  # pass_rows pairs of rows
    # the same memory, as anchors are there before rows are
    double* evaluation
    double* rounding  # two rows, or a tile and its buffer
    Py_ssize_t pass_rows


cdef inline Py_ssize_t lay_out_rows(const CLattice* lattice, const Output* output, Py_ssize_t rows, RowsWork* to,
                                    double* base) noexcept nogil:
    """Some rows are made, then added to each batch in turn, so that x is read in order."""
    cdef Py_ssize_t used = 0
    cdef EvaluateWork inner
    to.pass_rows = 1
    if output.x != NULL and output.batches > 1:
        to.pass_rows = max(<Py_ssize_t>1, min(rows, ADDED // lattice.stride))
    to.anchor = take(base, &used, 4 * lattice.stride)
    to.exact = take(base, &used, 4 * lattice.stride)
    to.rows = take(base, &used, to.pass_rows * 2 * lattice.stride)
    to.evaluation = to.rounding = take(base, &used, max(lay_out_evaluate(lattice.plan.waves, &inner, NULL),
                                                        max(2 * lattice.plan.width, 2 * TILE)))
    return used


cdef enum:
    LINE_BYTES = 64
    LINE = LINE_BYTES >> 1  # 16-bit pieces


cdef struct RotationWork:
    double* row
    bint heads_inside  # a token's heads lie closer together than tokens do: whichever do come one after the other
    bint vectors  # several rows are turned together
    int members  # so many
    int rows_ahead  # rows that are asked for so many before they are turned; 0: none are
    char* buffer  # of what goes past the cache, a row for each of the members; or NULL
    Py_ssize_t buffer_row
    Py_ssize_t pass_rows  # of angles, by which all batches and heads are turned, one after the other
    bint splits  # whether they are split first: worth it where several batches or heads have the same ones
    float* split


cdef inline Py_ssize_t row_of_angles(const CRotation* r) noexcept nogil:
    """Bytes of the cosines and sines of a row: doubles, but for 16-bit floats floats."""
    return 2 * r.pairs * (4 if size_of(r.type) == 2 else 8)


cdef inline Py_ssize_t row_of_split(const CRotation* r) noexcept nogil:
    """Floats of a row of angles that are split: four parts, of which those of odd pairs may be shorter."""
    return 4 * ((r.pairs + 1) // 2)


cdef inline bint lines_apart(const CRotation* r) noexcept nogil:
    """Whether each row of the result begins at a cache line."""
    cdef Py_ssize_t offsets = <Py_ssize_t>r.out
    cdef int k
    for k in range(4):
        if r.shape[k] > 1:
            offsets |= r.out_strides[k]
    return offsets % LINE_BYTES == 0


cdef inline bint rows_touch(const CRotation* r, const RotationWork* work, Py_ssize_t row) noexcept nogil:
    """Whether each row of the result ends where the next one begins that is made."""
    return not work.heads_inside and r.out_strides[3] == row


cdef inline Py_ssize_t lay_out_rotation(const CRotation* r, Py_ssize_t floats, RotationWork* to,
                                        double* base) noexcept nogil:
    """floats: in a vector of the level that turns, 0 without; for all levels 1, which takes no less memory."""
    cdef Py_ssize_t used = 0, size = size_of(r.type), row = r.width * size, bytes = row, k
    cdef Py_ssize_t angles = min(max(r.second_level // ANGLES_PART, <Py_ssize_t>ANGLES_LEAST),
                                 <Py_ssize_t>ANGLES_MOST)
    for k in range(4):
        bytes *= r.shape[k]
    to.pass_rows = min(r.shape[3], max(<Py_ssize_t>1, angles // row_of_angles(r)))
    to.splits = r.type == BFLOAT16 and r.layout == HALF and r.shape[1] * r.shape[2] > 1
    to.heads_inside = r.shape[2] > 1 and (r.shape[3] == 1 or r.out_strides[2] < r.out_strides[3])
    to.rows_ahead = PREFETCH_ROWS_16 if size == 2 else PREFETCH_ROWS
    if bytes <= r.second_level or r.second_level < PREFETCH_LEVEL:
        to.rows_ahead = 0
    to.vectors = floats > 0 and r.layout != SEPARATED
    # one head alone gains nothing but for float16, whose pairs behind the last vector would be converted one by one
    if r.type == FLOAT16:
        to.vectors = to.vectors and r.pairs % floats == 0
    else:
        to.vectors = to.vectors and r.shape[1] * r.shape[2] > 1
    if r.type == BFLOAT16 and r.layout == HALF:
        # row by row into other memory they are looked at while they are turned: as fast as heads together
        to.vectors = to.vectors and r.pairs % (2 * floats) == 0 and (r.x == r.out or r.stream or to.rows_ahead)
    to.members = 1 if not to.vectors else 2 if to.heads_inside else TOGETHER
    to.row = take(base, &used, 2 * r.pairs)
    to.split = <float*>take(base, &used, (row_of_split(r) * to.pass_rows + 1) // 2 if to.splits else 0)
    to.buffer, to.buffer_row = NULL, row + LINE_BYTES
    if to.vectors and r.stream and row % LINE_BYTES == 0 and (lines_apart(r) or rows_touch(r, to, row)):
        to.buffer = <char*>take(base, &used, TOGETHER * to.buffer_row // 8)
    return used


cdef struct GridWork:
    Py_ssize_t stretch  # so many rows lie side by side, and are merged as if they were one
    Py_ssize_t period
    uint16_t* row  # of one table, again and again, period pieces and a line more


cdef inline Py_ssize_t lay_out_grid(Py_ssize_t rows, Py_ssize_t width, const Output* output, GridWork* to,
                                    double* base) noexcept nogil:
    cdef Py_ssize_t used = 0
    to.stretch = rows if output.row == width * <Py_ssize_t>sizeof(uint16_t) else 1
    # narrow rows several times, so that a loop over them has some way to go
    to.period = width * min(to.stretch, 1 + (MERGED - 1) // width)
    to.row = <uint16_t*>take(base, &used, (to.period + LINE + 3) // 4)
    return used
