# cython: cdivision=True
"""The C interface: the functions of ``posenc_fast.h``. They check their arguments, and call the loops.

They compute rows in the same ways as ``posenc_fast/_core/encoding/rows.py``, and so write the same bits as Python. All
checks precede the first write to the result. The functions cannot check whether the memory at a pointer is as large as
needed.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from cache cimport FITS, PAST, Result, c_stores, is_warm
from entry cimport BFLOAT16, FLOAT32, FLOAT64, Caches, CLattice, CLevel, CPlan, CRotation, Output, size_of
from exact cimport HUGE, MOST, MOST_DIRECT, TINY
from posenc_fast.c_api cimport (
    POSENC_FAST_ERROR_ALIGNMENT as ALIGNMENT,
    POSENC_FAST_ERROR_AXES as AXES,
    POSENC_FAST_ERROR_BEYOND as BEYOND,
    POSENC_FAST_ERROR_LENGTH as LENGTH,
    POSENC_FAST_ERROR_NULL as NULL_POINTER,
    POSENC_FAST_ERROR_OVERLAP as OVERLAP,
    POSENC_FAST_ERROR_SCALE as SCALE,
    POSENC_FAST_ERROR_SCRATCH as SCRATCH,
    POSENC_FAST_ERROR_TYPE as TYPE,
    POSENC_FAST_OK as OK,
)
from work cimport (
    LINE_BYTES, EncodeWork, RotationWork, RowsWork, TableWork, lay_out_encode, lay_out_rotation, lay_out_rows,
    lay_out_table, reserve,
)

cdef enum:
    CHUNK = 256  # maximum number of rows whose components, or spans and offsets, are in scratch at a time
    CHUNK_OF_SUM = 8  # maximum number of rows to compute at a time, for float64 sums with several batches


cdef struct CEncoding:
    const CLevel* level
    # the next four pointers are NULL if the encoding has no such object, or if no Python call has needed it yet
    const CPlan* real
    const CPlan* integer  # for integers, split into high * 2**32 + low by `split_integer`; NULL with single
    const CLattice* lattice
    const CLattice* lattice_dd  # for float64
    const double* least  # smallest frequency of each axis, as `Plans.least`; NULL if no angle needs the check `is_tiny`
    Py_ssize_t axes, width
    Py_ssize_t last_level  # bytes of the last-level cache
    size_t scratch
    bint phase, single


cdef struct CRotary:
    const CEncoding* angles
    Py_ssize_t head_dim
    int layout
    Caches caches


# ---- memory ----------------------------------------------------------------------------------------------------------


cdef inline uintptr_t most_bytes() noexcept nogil:
    """Return the maximum number of bytes of an array: the largest number that a stride can have."""
    return ~<uintptr_t>0 >> 1


# Memory of an array: the addresses from low up to high, without high. Each row has `bytes` bytes. The distance of each
# row from the row at start is a multiple of common.
cdef struct Extent:
    uintptr_t start, low, high, bytes, common


cdef inline uintptr_t common_divisor(uintptr_t a, uintptr_t b) noexcept nogil:
    cdef uintptr_t remainder
    while b:
        remainder = a % b
        a = b
        b = remainder
    return a


cdef inline int find_extent(Extent* to, const void* start, const Py_ssize_t* shape, Py_ssize_t* strides, int dims,
                            Py_ssize_t bytes, Py_ssize_t align, bint written) noexcept nogil:
    """Set `to` to the extent of rows that are arranged in up to three dimensions. Each row has `bytes` bytes.

    All dimensions have a length of at least 1. Strides of dimensions of length 1 are unused. They are replaced by
    `bytes`, so that `check_same_or_apart` finds them equal. Return OK or an error. If `written` is true, return OVERLAP
    if rows may overlap.
    """
    cdef uintptr_t before = 0, behind = bytes, distance, span = bytes
    cdef uintptr_t[3] distances
    cdef uintptr_t[3] lengths
    cdef int k, i, varying = 0  # number of dimensions so far whose length is not 1
    if start == NULL:
        return NULL_POINTER
    to.start, to.bytes, to.common = <uintptr_t>start, bytes, 0
    if to.start % <uintptr_t>align:
        return ALIGNMENT
    for k in range(dims):
        if shape[k] == 1:
            strides[k] = bytes
            continue
        if strides[k] % align:
            return ALIGNMENT
        distance = <uintptr_t>strides[k] if strides[k] >= 0 else <uintptr_t>0 - <uintptr_t>strides[k]
        if distance > most_bytes() // <uintptr_t>(shape[k] - 1):
            return LENGTH
        if strides[k] < 0:
            before += distance * <uintptr_t>(shape[k] - 1)
        else:
            behind += distance * <uintptr_t>(shape[k] - 1)
        if before > most_bytes() or behind > most_bytes():
            return LENGTH
        to.common = common_divisor(distance, to.common)
        # keep dimensions sorted by distance, smallest first, for the test below whether rows overlap
        i = varying
        while i > 0 and distances[i - 1] > distance:
            distances[i], lengths[i] = distances[i - 1], lengths[i - 1]
            i -= 1
        distances[i], lengths[i] = distance, <uintptr_t>shape[k]
        varying += 1
    if before > to.start or behind > ~<uintptr_t>0 - to.start or before + behind > most_bytes():
        return LENGTH
    to.low, to.high = to.start - before, to.start + behind
    if written:
        # rows are apart if each distance is at least the span of the dimensions with smaller distances
        for i in range(varying):
            if distances[i] < span:
                return OVERLAP
            span += distances[i] * (lengths[i] - 1)
    return OK


cdef inline int find_stretch(Extent* to, const void* start, Py_ssize_t count, Py_ssize_t bytes,
                             Py_ssize_t align) noexcept nogil:
    """Set `to` to the extent of count adjacent rows. Return OK or an error."""
    cdef Py_ssize_t stride = bytes
    return find_extent(to, start, &count, &stride, 1, bytes, align, True)


cdef inline bint are_apart(const Extent* a, const Extent* b) noexcept nogil:
    """Return whether two extents certainly share no byte.

    Either one extent lies behind the other, or their rows alternate. Let `common` divide all distances between rows of
    the same extent. The rows alternate if a row of a and a row of b fit into `common` bytes without overlap.
    """
    cdef uintptr_t common, distance
    if a.high <= b.low or b.high <= a.low:
        return True
    common = common_divisor(a.common, b.common)
    if common == 0:
        return False
    # distance of a row of a to the next row of b, if both had a row at each multiple of common
    if b.start >= a.start:
        distance = (b.start - a.start) % common
    else:
        distance = (common - (a.start - b.start) % common) % common
    return distance >= a.bytes and common - distance >= b.bytes


cdef inline int check_scratch(const void* scratch, size_t size, size_t needed, const Extent* others,
                              int n) noexcept nogil:
    cdef Extent extent
    cdef int i, error
    if scratch == NULL:
        return NULL_POINTER
    if size < needed:
        return SCRATCH
    error = find_stretch(&extent, scratch, 1, <Py_ssize_t>needed, 1)
    if error:
        return error
    for i in range(n):
        if not are_apart(&extent, &others[i]):
            return OVERLAP
    return OK


cdef inline int check_same_or_apart(const Extent* x, const Py_ssize_t* x_strides, const Extent* out,
                                    const Py_ssize_t* out_strides, int dims) noexcept nogil:
    """Return OK if x and out are the same rows, or share no byte. Otherwise return OVERLAP."""
    cdef bint same = x.start == out.start
    cdef int k
    for k in range(dims):
        same = same and x_strides[k] == out_strides[k]
    return OK if same or are_apart(x, out) else OVERLAP


cdef inline double* aligned(void* scratch) noexcept nogil:
    """Return the start of the first whole cache line in scratch, at most LINE_BYTES - 1 bytes behind scratch."""
    return <double*>((<uintptr_t>scratch + LINE_BYTES - 1) & ~<uintptr_t>(LINE_BYTES - 1))


cdef inline size_t scratch_bytes(Py_ssize_t doubles) noexcept nogil:
    """Return the bytes of a scratch with room for a number of doubles from ``aligned(scratch)`` on."""
    return <size_t>doubles * sizeof(double) + LINE_BYTES - 1


# ---- rows of any positions -------------------------------------------------------------------------------------------


# Positions of a call. At most one of the two pointers is set. If none is, positions are first, first + 1 and so on.
cdef struct Positions:
    const double* real
    const int64_t* integers
    int64_t first
    bint split  # whether to split all integers by `split_integer`, as Python does if any integer is beyond 2**53


cdef inline bint any_beyond_double(const int64_t* values, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t largest_exact = <int64_t>1 << 53
    for i in range(n):
        if values[i] > largest_exact or values[i] < -largest_exact:
            return True
    return False


cdef inline void split_integer(int64_t value, double* high, double* low) noexcept nogil:
    """Set high and low so that value = high * 2**32 + low. Both have the sign of the value."""
    cdef uint64_t size = <uint64_t>value if value >= 0 else <uint64_t>0 - <uint64_t>value
    cdef double sign = 1.0 if value >= 0 else -1.0
    high[0] = sign * <double>(size >> 32)
    low[0] = sign * <double>(<uint32_t>size)


cdef inline bint is_left(const CPlan* plan, const double* row) noexcept nogil:
    """Return whether a row of finite components is an EXACT_ROW (see `find_kind`), which the loops do not compute."""
    cdef Py_ssize_t a
    cdef double size, turns
    for a in range(plan.axes):
        size = fabs(row[a])
        turns = size * plan.largest[a]
        if not turns <= MOST or size > HUGE or (turns < TINY and size != 0 and plan.largest[a] > 0):
            return True
    return False


cdef inline bint is_tiny(const CEncoding* e, const double* row, bint split) noexcept nogil:
    """Return whether a nonzero angle at the smallest frequency of an axis is below TINY.

    `is_left` checks only the largest frequency of each axis.
    """
    cdef Py_ssize_t a
    cdef double size
    if e.least == NULL:
        return False
    for a in range(e.axes):
        size = fabs(row[a]) + (fabs(row[e.axes + a]) if split else 0.0)
        if size > 0 and size * e.least[a] < TINY:
            return True
    return False


cdef inline const CPlan* find_row(const CEncoding* e, const Positions* p, Py_ssize_t i,
                                  double* components) noexcept nogil:
    """Return the plan that computes the row of position i. Write the components, a number for each axis of this plan.

    Return NULL if the row needs exact arithmetic.
    """
    cdef const CPlan* plan = e.real
    cdef Py_ssize_t a
    cdef bint finite = True
    cdef double size
    if p.split:
        plan = e.integer
    if plan == NULL:
        return NULL
    for a in range(e.axes):
        if p.real != NULL:
            components[a] = p.real[i * e.axes + a]
            finite = finite and fabs(components[a]) < INFINITY
        elif p.integers == NULL:
            components[a] = <double>(p.first + i)
        elif p.split:
            split_integer(p.integers[i * e.axes + a], components + a, components + e.axes + a)
        else:
            components[a] = <double>p.integers[i * e.axes + a]
    if e.phase:
        components[plan.axes - 1] = 1.0
    if not finite:
        return plan
    if is_tiny(e, components, p.split):
        return NULL
    if not is_left(plan, components):
        return plan
    size = fabs(components[0])
    # The loops cannot compute this position. If it is a whole number, split it as an integer, so that each part has
    # fewer turns. All doubles from 2**52 on are whole numbers, and below 2**63 they fit into int64.
    if p.split or e.integer == NULL or e.axes != 1 or not (4503599627370496.0 <= size and size < 9223372036854775808.0):
        return NULL
    split_integer(<int64_t>components[0], components, components + 1)
    if e.phase:
        components[2] = 1.0
    if is_tiny(e, components, True) or is_left(e.integer, components):
        return NULL
    return e.integer


cdef inline Py_ssize_t components_of(const CEncoding* e) noexcept nogil:
    return 2 * e.axes + 1


cdef inline bint all_direct(const CEncoding* e, const Positions* p, Py_ssize_t rows) noexcept nogil:
    """Return whether `sincos_direct_row` can compute all rows, from doubles that need no conversion."""
    cdef Py_ssize_t i
    cdef double size, largest = e.real.largest[0]
    cdef bint direct = True
    if p.real == NULL or e.real.axes != 1 or e.least != NULL or not largest > 0:
        return False
    for i in range(rows):
        size = fabs(p.real[i])
        direct &= (size * largest <= MOST_DIRECT) & (size <= HUGE) & ((size * largest >= TINY) | (size == 0))
    return direct


cdef inline int check_rows(const CEncoding* e, const Positions* p, Py_ssize_t rows, double* scratch) noexcept nogil:
    """Return BEYOND if a row needs exact arithmetic, which only Python has. Otherwise return OK."""
    cdef Py_ssize_t i
    if not all_direct(e, p, rows):
        for i in range(rows):
            if find_row(e, p, i, scratch) == NULL:
                return BEYOND
    return OK


# Work space of `write_rows` and of `write_consecutive`. Like in work.pxd, the functions `lay_out_..` set the pointers,
# and return the number of doubles. The work space of the loops follows, from `loops` on.
cdef struct RowsOfPositions:
    double* row  # components of one row
    double* components  # components of up to CHUNK rows
    double* loops


cdef struct Integers:
    int64_t* spans  # spans and offsets of up to CHUNK rows
    int32_t* offsets
    double* loops


cdef inline Py_ssize_t lay_out_positions(const CEncoding* e, RowsOfPositions* to, double* base) noexcept nogil:
    cdef Py_ssize_t used = 0
    to.row = reserve(base, &used, components_of(e))
    to.components = reserve(base, &used, CHUNK * components_of(e))
    to.loops = base + used if base != NULL else NULL
    return used


cdef inline Py_ssize_t lay_out_integers(Integers* to, double* base) noexcept nogil:
    cdef Py_ssize_t used = 0
    to.spans = <int64_t*>reserve(base, &used, CHUNK)
    to.offsets = <int32_t*>reserve(base, &used, CHUNK)
    to.loops = base + used if base != NULL else NULL
    return used


cdef inline int encode_rows(const CEncoding* e, const CPlan* plan, const double* components, Py_ssize_t rows,
                            const Output* output, double* scratch) noexcept nogil:
    cdef unsigned char* left = NULL
    cdef bint done = e.level.encode(plan, components, rows, output, e.single, scratch, &left)
    # rows are left only if another thread has changed their positions since the check
    done = done and left == NULL
    free(left)
    return OK if done else BEYOND


cdef inline int write_rows(const CEncoding* e, const Positions* p, Py_ssize_t rows, const Output* output,
                           double* scratch) noexcept nogil:
    """Write rows of positions that passed `check_rows`. Return BEYOND if a thread changed the positions since."""
    cdef RowsOfPositions work
    cdef Output part = output[0]
    cdef const CPlan* plan
    cdef const CPlan* next_plan
    cdef Py_ssize_t i = 0, n
    cdef int error = OK
    lay_out_positions(e, &work, scratch)
    if all_direct(e, p, rows):
        return encode_rows(e, e.real, p.real, rows, output, work.loops)
    while i < rows and error == OK:
        n, plan = 0, NULL
        while n < CHUNK and i + n < rows:
            next_plan = find_row(e, p, i + n, work.row)
            if next_plan == NULL:
                return BEYOND
            if n and next_plan != plan:
                break
            plan = next_plan
            memcpy(work.components + n * plan.axes, work.row, plan.axes * sizeof(double))
            n += 1
        part.out = output.out + i * output.row
        if output.x != NULL:
            part.x = output.x + i * output.x_row
        error = encode_rows(e, plan, work.components, n, &part, work.loops)
        i += n
    return error


# ---- rows of consecutive integers ------------------------------------------------------------------------------------


cdef inline const CLattice* find_lattice(const CEncoding* e, int type) noexcept nogil:
    return e.lattice_dd if type == FLOAT64 else e.lattice


cdef inline int check_consecutive(const CEncoding* e, int64_t start, Py_ssize_t rows, int type, Positions* p,
                                  double* scratch) noexcept nogil:
    """Set p to the positions start, start + 1 and so on. Return BEYOND if a row needs exact arithmetic, else OK."""
    cdef int64_t largest_exact = <int64_t>1 << 53
    memset(p, 0, sizeof(p[0]))
    p.first = start
    if find_lattice(e, type) != NULL:
        return OK
    if start < -largest_exact or start > largest_exact or rows - 1 > largest_exact - start:
        return BEYOND
    return check_rows(e, p, rows, scratch)


cdef inline int write_consecutive(const CEncoding* e, const Positions* p, Py_ssize_t rows, const Output* output,
                                  double* scratch) noexcept nogil:
    cdef const CLattice* lattice = find_lattice(e, output.type)
    cdef int64_t span, span_rows
    cdef Integers work
    cdef Output part = output[0]
    cdef Py_ssize_t offset, i = 0, k, n, chunk = CHUNK if output.batches < 2 else CHUNK_OF_SUM
    if lattice == NULL:
        return write_rows(e, p, rows, output, scratch)
    span_rows = <int64_t>1 << lattice.span_bits
    offset = <Py_ssize_t>(p.first & (span_rows - 1))
    span = (p.first - offset) // span_rows
    if output.x == NULL or output.type != FLOAT64:
        e.level.table(lattice, span, offset, rows, output, scratch)
        return OK
    # sums of float64 cannot be computed by `table`, but only by `rows`
    lay_out_integers(&work, scratch)
    while i < rows:
        n = min(chunk, rows - i)
        for k in range(n):
            work.spans[k] = span + ((offset + i + k) >> lattice.span_bits)
            work.offsets[k] = <int32_t>((offset + i + k) & (span_rows - 1))
        part.out, part.x = output.out + i * output.row, output.x + i * output.x_row
        e.level.rows(lattice, work.spans, work.offsets, n, &part, work.loops)
        i += n
    return OK


cdef inline size_t measure_encoding(const CEncoding* e) noexcept nogil:
    """Return the bytes of scratch that suffice for `table`, `encode`, `encode_int64` and `add` of the C interface."""
    cdef Output output
    cdef RowsOfPositions rows_of_positions
    cdef Integers integers
    cdef EncodeWork encode_work
    cdef TableWork table_work
    cdef RowsWork rows_work
    cdef Py_ssize_t doubles
    # both plans have the same numbers of waves and columns, and both lattices have the same plan
    cdef const CPlan* plan = e.real if e.real != NULL else e.integer
    cdef const CLattice* lattice = e.lattice if e.lattice != NULL else e.lattice_dd
    memset(&output, 0, sizeof(output))
    output.stream = True
    doubles = lay_out_positions(e, &rows_of_positions, NULL) + lay_out_encode(plan, &output, &encode_work, NULL)
    if lattice != NULL:
        doubles = max(doubles, lay_out_table(lattice, &table_work, NULL))
        # of all calls of `lay_out_rows`, a sum with several batches needs the most doubles
        output.x, output.batches = <const char*>e, 2
        doubles = max(doubles, lay_out_integers(&integers, NULL)
                      + lay_out_rows(lattice, &output, CHUNK_OF_SUM, &rows_work, NULL))
    return scratch_bytes(doubles)


# ---- the functions of encodings --------------------------------------------------------------------------------------


cdef inline void fill_output(const CEncoding* e, Output* output, void* out, const Py_ssize_t* shape,
                             const Py_ssize_t* strides, int type, const void* x, const Py_ssize_t* x_strides,
                             double scale, bint one_by_one) noexcept nogil:
    """Fill output for an array of shape (batches, rows, width).

    Fields that affect only speed are set as by the function `stores` in _kernel.pyx. one_by_one is as in that function.
    """
    cdef Result result
    cdef int stores
    memset(output, 0, sizeof(output[0]))
    output.out, output.type = <char*>out, type
    output.batches, output.batch, output.row = shape[0], strides[0], strides[1]
    if x != NULL:
        output.x, output.x_batch, output.x_row, output.scale = <const char*>x, x_strides[0], x_strides[1], scale
    memset(&result, 0, sizeof(result))
    result.row = e.width * size_of(type)
    result.bytes = result.row * shape[0] * shape[1]
    result.last_level, result.one_by_one, result.mapped = e.last_level, one_by_one, True
    result.sum, result.wide = x != NULL, type == FLOAT64
    result.in_place = x == out
    result.at_once = x != NULL and shape[0] == 1 and type == FLOAT32
    stores = c_stores(&result)
    # `is_warm` takes system calls to find out whether `out` is mapped, so ask only if the answer matters
    if stores == PAST and x == NULL:
        result.mapped = strides[1] == result.row and is_warm(out, result.bytes)
        stores = c_stores(&result)
    output.stream = stores == PAST
    output.prefetch = x != NULL and stores != FITS


cdef inline int check_arguments(const void* value, int type, Py_ssize_t rows) noexcept nogil:
    """Check an encoding or a rotary, a type, and a number of rows. Return OK or an error."""
    if value == NULL:
        return NULL_POINTER
    if type < FLOAT64 or type > BFLOAT16:
        return TYPE
    return OK if rows >= 0 else LENGTH


cdef inline int table_of(const CEncoding* e, int64_t start, Py_ssize_t rows, int type, void* out, Py_ssize_t out_row,
                         void* scratch, size_t scratch_size) noexcept nogil:
    cdef Py_ssize_t[2] shape
    cdef Py_ssize_t[2] strides
    cdef Extent extent
    cdef Positions positions
    cdef Output output
    cdef int error = check_arguments(e, type, rows)
    if error:
        return error
    if e.axes != 1:
        return AXES
    if rows == 0:
        return OK
    shape[0], shape[1], strides[0], strides[1] = 1, rows, 0, out_row
    error = find_extent(&extent, out, shape, strides, 2, e.width * size_of(type), size_of(type), True)
    if error == OK:
        error = check_scratch(scratch, scratch_size, e.scratch, &extent, 1)
    if error == OK:
        error = check_consecutive(e, start, rows, type, &positions, aligned(scratch))
    if error:
        return error
    fill_output(e, &output, out, shape, strides, type, NULL, NULL, 0.0, find_lattice(e, type) == NULL)
    return write_consecutive(e, &positions, rows, &output, aligned(scratch))


cdef inline int encode_of(const CEncoding* e, const double* real, const int64_t* integers, Py_ssize_t rows, int type,
                          void* out, Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil:
    """Write the rows of positions. Either `real` or `integers` points to the positions, and the other is NULL."""
    cdef Py_ssize_t[2] shape
    cdef Py_ssize_t[2] strides
    cdef Extent[2] extents
    cdef Positions positions
    cdef Output output
    cdef int error = check_arguments(e, type, rows)
    if error or rows == 0:
        return error
    shape[0], shape[1], strides[0], strides[1] = 1, rows, 0, out_row
    error = find_extent(&extents[0], out, shape, strides, 2, e.width * size_of(type), size_of(type), True)
    if error == OK:
        error = find_stretch(&extents[1], <const void*>real if real != NULL else <const void*>integers, rows,
                             8 * e.axes, 8)
    if error == OK and not are_apart(&extents[0], &extents[1]):
        error = OVERLAP
    if error == OK:
        error = check_scratch(scratch, scratch_size, e.scratch, extents, 2)
    if error:
        return error
    memset(&positions, 0, sizeof(positions))
    positions.real, positions.integers = real, integers
    if integers != NULL and not e.single:
        positions.split = any_beyond_double(integers, rows * e.axes)
    error = check_rows(e, &positions, rows, aligned(scratch))
    if error:
        return error
    fill_output(e, &output, out, shape, strides, type, NULL, NULL, 0.0, True)
    return write_rows(e, &positions, rows, &output, aligned(scratch))


cdef inline int add_of(const CEncoding* e, int64_t start, double x_scale, Py_ssize_t batches, Py_ssize_t rows, int type,
                       const void* x, Py_ssize_t x_batch, Py_ssize_t x_row, void* out, Py_ssize_t out_batch,
                       Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil:
    cdef Py_ssize_t[2] shape
    cdef Py_ssize_t[2] strides
    cdef Py_ssize_t[2] x_strides
    cdef Extent[2] extents
    cdef Positions positions
    cdef Output output
    cdef int error = check_arguments(e, type, rows)
    if error:
        return error
    if e.axes != 1:
        return AXES
    if batches < 0:
        return LENGTH
    if not fabs(x_scale) < INFINITY:
        return SCALE
    if rows == 0 or batches == 0:
        return OK
    shape[0], shape[1], strides[0], strides[1] = batches, rows, out_batch, out_row
    x_strides[0], x_strides[1] = x_batch, x_row
    error = find_extent(&extents[0], out, shape, strides, 2, e.width * size_of(type), size_of(type), True)
    if error == OK:
        error = find_extent(&extents[1], x, shape, x_strides, 2, e.width * size_of(type), size_of(type), False)
    if error == OK:
        error = check_same_or_apart(&extents[1], x_strides, &extents[0], strides, 2)
    if error == OK:
        error = check_scratch(scratch, scratch_size, e.scratch, extents, 2)
    if error == OK:
        error = check_consecutive(e, start, rows, type, &positions, aligned(scratch))
    if error:
        return error
    fill_output(e, &output, out, shape, strides, type, x, x_strides, x_scale,
                type == FLOAT64 or e.lattice == NULL)
    return write_consecutive(e, &positions, rows, &output, aligned(scratch))


# ---- the functions of rotations --------------------------------------------------------------------------------------


cdef inline int type_of_angles(int type) noexcept nogil:
    return FLOAT32 if size_of(type) == 2 else FLOAT64


cdef inline Py_ssize_t bytes_of_angles(const CRotary* r, int type) noexcept nogil:
    return r.angles.width * size_of(type_of_angles(type))


cdef inline size_t measure_rotary(const CRotary* r, Py_ssize_t tokens) noexcept nogil:
    """Return the bytes of scratch for a number of tokens of any type. bfloat16 needs the most."""
    cdef CRotation rotation
    cdef RotationWork work
    memset(&rotation, 0, sizeof(rotation))
    rotation.shape[0] = rotation.shape[1] = 1
    # The scratch is the same for all numbers of tokens from 2**20 on. With larger numbers, products could overflow.
    rotation.shape[2], rotation.shape[3] = 2, min(max(<Py_ssize_t>1, tokens), <Py_ssize_t>1 << 20)
    rotation.pairs, rotation.width = r.angles.width // 2, r.head_dim
    rotation.type, rotation.layout, rotation.caches = BFLOAT16, r.layout, r.caches
    return max(r.angles.scratch, scratch_bytes(lay_out_rotation(&rotation, 1, &work, NULL)))


cdef inline int angles_of(const CRotary* r, int64_t start, const int64_t* positions, bint consecutive,
                          Py_ssize_t tokens, int type, void* angles, void* scratch,
                          size_t scratch_size) noexcept nogil:
    cdef int error = check_arguments(r, type, tokens)
    if error or tokens == 0:
        return error
    if consecutive:
        return table_of(r.angles, start, tokens, type_of_angles(type), angles, bytes_of_angles(r, type), scratch,
                        scratch_size)
    return encode_of(r.angles, NULL, positions, tokens, type_of_angles(type), angles, bytes_of_angles(r, type), scratch,
                     scratch_size)


cdef inline int rotate_of(const CRotary* r, const void* angles, bint per_sequence, int type, const Py_ssize_t* shape,
                          const void* x, const Py_ssize_t* x_strides, void* out, const Py_ssize_t* out_strides,
                          void* scratch, size_t scratch_size) noexcept nogil:
    """Check the arguments, and rotate x. If per_sequence is true, each sequence has its own angles.

    Return OK or an error.
    """
    cdef CRotation rotation
    cdef Extent[3] extents
    cdef Py_ssize_t bytes
    cdef int k, error = check_arguments(r, type, 0)
    if error:
        return error
    if shape == NULL:
        return NULL_POINTER
    for k in range(3):
        if shape[k] < 0:
            return LENGTH
    if shape[0] == 0 or shape[1] == 0 or shape[2] == 0:
        return OK
    if x_strides == NULL or out_strides == NULL:
        return NULL_POINTER
    memset(&rotation, 0, sizeof(rotation))
    rotation.shape[0] = 1
    for k in range(3):
        rotation.shape[k + 1], rotation.x_strides[k + 1] = shape[k], x_strides[k]
        rotation.out_strides[k + 1] = out_strides[k]
    bytes = r.head_dim * size_of(type)
    error = find_extent(&extents[0], out, rotation.shape + 1, rotation.out_strides + 1, 3, bytes, size_of(type), True)
    if error == OK:
        error = find_extent(&extents[1], x, rotation.shape + 1, rotation.x_strides + 1, 3, bytes, size_of(type), False)
    if error == OK:
        error = check_same_or_apart(&extents[1], rotation.x_strides + 1, &extents[0], rotation.out_strides + 1, 3)
    if error == OK:
        error = find_stretch(&extents[2], angles, shape[2] * (shape[0] if per_sequence else 1),
                             bytes_of_angles(r, type), size_of(type_of_angles(type)))
    if error == OK and not are_apart(&extents[0], &extents[2]):
        error = OVERLAP
    if error == OK:
        error = check_scratch(scratch, scratch_size, measure_rotary(r, shape[2]), extents, 3)
    if error:
        return error
    if per_sequence:
        rotation.shape[0], rotation.x_strides[0] = shape[0], rotation.x_strides[1]
        rotation.out_strides[0], rotation.shape[1] = rotation.out_strides[1], 1
    rotation.x, rotation.out, rotation.angles = <const char*>x, <char*>out, <const char*>angles
    rotation.pairs, rotation.width = r.angles.width // 2, r.head_dim
    rotation.type, rotation.layout = type, r.layout
    rotation.caches = r.caches
    r.angles.level.rotate(&rotation, aligned(scratch))
    return OK
