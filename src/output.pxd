# cython: cdivision=True
"""Write rows of doubles: add scale * x if there is an x, round once, and store through the cache or past it.

Stores *past the cache* are non-temporal stores of whole cache lines, which are first assembled in a *line buffer*.
"""

from libc.math cimport fabs
from libc.stdint cimport uint16_t, uintptr_t
from libc.string cimport memcpy

from cache cimport LONG_VECTORS, PREFETCH_COLUMNS, PREFETCH_DISTANCE, TILE, before_line, prefetch, stream
from columns cimport narrow_row, store
from compiler cimport crdouble, crfloat, rdouble, rfloat, step
from entry cimport FLOAT16, FLOAT32, FLOAT64, Output, size_of
from exact cimport BEYOND_HUGE, product_error, two_sum
from half cimport from_bfloat, from_half, oddfloat, roddfloat, rwidebfloat, to_bfloat, to_half, widebfloat
from work cimport LINE_BYTES


cdef inline Py_ssize_t prefetch_rows(const Output* output, Py_ssize_t n) noexcept nogil:
    """Return the number of rows (of n columns) between the prefetch of a row and its use."""
    return max(1, PREFETCH_DISTANCE // n if output.x == output.out or output.stream else PREFETCH_DISTANCE // (2 * n))


cdef inline step add_row(crfloat x, double scale, crdouble row, narrow_row out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](out, c, scale * <double>x[c] + row[c])


cdef inline step add_row_in_place(rfloat x, double scale, crdouble row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        x[c] = <float>(scale * <double>x[c] + row[c])


cdef inline step add_dd(double x, double scale, double high, double low, double overflow, double* out) noexcept nogil:
    """Set `out` to scale * x + (high + low).

    The double e sums low and the rounding errors of the product scale * x and of the sum with high.
    overflow is `overflow_factor(scale)`.
    """
    cdef double e
    cdef double p = scale * x
    cdef double s = two_sum(p, high, &e)
    # All instruction-set levels must return the same sum. Without FMA, product_error is NaN if a factor is too large to
    # split. The last term makes e NaN at every level then: x * overflow is infinite or NaN, and times 0.0 it is NaN.
    e += (product_error(scale, x, p) + low) + x * overflow * 0.0
    # if e is NaN, leave e out
    out[0] = s + (e if e == e else 0.0)


cdef inline double overflow_factor(double scale) noexcept nogil:
    """Return a factor f: x * f is infinite or NaN if |x|, |scale| or |scale * x| is 2^990 or more."""
    return BEYOND_HUGE * max(1.0, fabs(scale))


cdef inline void add_row_dd(crdouble x, double scale, crdouble high, crdouble low, rdouble out,
                            Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double overflow = overflow_factor(scale)
    for c in range(n):
        add_dd(x[c], scale, high[c], low[c], overflow, &out[c])


cdef inline void add_row_dd_in_place(rdouble x, double scale, crdouble high, crdouble low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double overflow = overflow_factor(scale)
    for c in range(n):
        add_dd(x[c], scale, high[c], low[c], overflow, &x[c])


cdef inline void round_row_dd(crdouble high, crdouble low, rdouble out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = high[c] + low[c]


cdef inline void round_row(crdouble row, narrow_row out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](out, c, row[c])


cdef inline Py_ssize_t unaligned_head(const void* row, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    """Return how many of n values precede the first whole cache line, or 0 if vectors are shorter than cache lines."""
    return min(n, before_line(row, size)) if LONG_VECTORS else 0


cdef struct LineBuffer:
    uintptr_t line  # address of the cache line to which the first bytes of the buffer are written
    char* buffer
    # head: offset of the row's start from the start of its first cache line, or 0 after this line was written
    # filled: number of bytes in the buffer, including an unused head
    Py_ssize_t head, filled


cdef inline step open_line_buffer(LineBuffer* to, char* out, double* buffer) noexcept nogil:
    to.head = <uintptr_t>out & (LINE_BYTES - 1)
    to.line = <uintptr_t>out - to.head
    to.filled = to.head
    to.buffer = <char*>buffer


cdef inline step send_lines(LineBuffer* to, bint last) noexcept nogil:
    """Write the whole cache lines of a buffer by non-temporal stores, and move the rest to the start of the buffer.

    If last is true, the row ends, and the rest is written too. Ordinary stores write the parts of lines at both ends of
    the row, because other rows may share these lines.
    """
    cdef Py_ssize_t whole_bytes = to.filled & ~<Py_ssize_t>(LINE_BYTES - 1), head_end = 0
    if to.head and (whole_bytes or last):
        head_end = min(<Py_ssize_t>LINE_BYTES, to.filled)
        memcpy(<char*>(to.line + to.head), to.buffer + to.head, head_end - to.head)
        to.head = 0
    if whole_bytes > head_end:
        stream(<char*>(to.line + head_end), to.buffer + head_end, whole_bytes - head_end)
    if last and to.filled > max(whole_bytes, head_end):
        memcpy(<char*>(to.line + whole_bytes), to.buffer + whole_bytes, to.filled - whole_bytes)
    elif not last:
        memcpy(to.buffer, to.buffer + whole_bytes, LINE_BYTES)
    to.line += whole_bytes
    to.filled -= whole_bytes


cdef inline step add_row_16_bits(const Output* output, const char* x, const double* row, char* out, Py_ssize_t n,
                                 double* scratch) noexcept nogil:
    """Write scale * x + row to `out`, for 16-bit types. scratch has n doubles."""
    cdef float* floats = <float*>scratch + n
    if output.type == FLOAT16:
        from_half(<const uint16_t*>x, floats, n)
        add_row[roddfloat](floats, output.scale, row, <oddfloat*>scratch, n)
        to_half(<oddfloat*>scratch, <uint16_t*>out, n)
    else:
        from_bfloat(<const uint16_t*>x, floats, n)
        add_row[rfloat](floats, output.scale, row, <float*>scratch, n)
        if to_bfloat(scratch, <uint16_t*>out, n):
            add_row[rwidebfloat](floats, output.scale, row, <widebfloat*>scratch, n)
            to_bfloat(scratch, <uint16_t*>out, n)


cdef inline void add_row_streamed(const Output* output, const char* x, uintptr_t next_x, const double* row, char* out,
                                  uintptr_t next_out, Py_ssize_t n, double* scratch) noexcept nogil:
    """Write scale * x + row past the cache, for types of at most 32 bits. scratch has 2 * TILE doubles.

    The next row is prefetched meanwhile.
    """
    cdef Py_ssize_t c = 0, m, size = size_of(output.type)
    cdef LineBuffer to
    open_line_buffer(&to, out, scratch + TILE)
    prefetch(next_out, 1)
    prefetch(next_out + n * size - 1, 1)
    while c < n:
        m = min(<Py_ssize_t>TILE, n - c)
        if output.type == FLOAT32:
            add_row[rfloat](<const float*>x, output.scale, row + c, <float*>(to.buffer + to.filled), m)
        else:
            add_row_16_bits(output, x, row + c, to.buffer + to.filled, m, scratch)
        prefetch(next_x, m * size)
        to.filled += m * size
        send_lines(&to, c + m == n)
        c += m
        x += m * size
        next_x += m * size


cdef inline void add_into(const Output* output, Py_ssize_t i, Py_ssize_t batch, const double* high,
                          const double* low, Py_ssize_t n, Py_ssize_t next_i, Py_ssize_t next_batch,
                          double* scratch) noexcept nogil:
    """Write scale * x + row for row i of one batch. The row is high, or for float64 the double-doubles high + low.

    scratch has PREFETCH_COLUMNS doubles, or 2 * TILE doubles if the result is written past the cache.

    A later row (row next_i of batch next_batch) is prefetched meanwhile, because hardware cannot predict its address.
    The address may lie past the end of x and `out`, because a prefetch of any address is harmless.
    """
    cdef Py_ssize_t size = size_of(output.type), c = 0, m
    cdef char* out = output.out + batch * output.batch + i * output.row
    cdef const char* x = output.x + batch * output.x_batch + i * output.x_row
    cdef uintptr_t next_out = <uintptr_t>output.out + next_batch * output.batch + next_i * output.row
    cdef uintptr_t next_x = <uintptr_t>output.x + next_batch * output.x_batch + next_i * output.x_row
    # float32 is the most common type: its loops over PREFETCH_COLUMNS columns have a constant length, and no branches
    cdef Py_ssize_t full_columns = n - n % PREFETCH_COLUMNS if output.type == FLOAT32 else 0
    if output.stream:
        add_row_streamed(output, x, next_x, high, out, next_out, n, scratch)
        return
    if x == out:
        while c < full_columns:
            prefetch(next_out + 4 * c, 4 * PREFETCH_COLUMNS)
            add_row_in_place(<float*>out + c, output.scale, high + c, PREFETCH_COLUMNS)
            c += PREFETCH_COLUMNS
    while c < full_columns:
        add_row[rfloat](<const float*>x + c, output.scale, high + c, <float*>out + c, PREFETCH_COLUMNS)
        prefetch(next_out + 4 * c, 4 * PREFETCH_COLUMNS)
        prefetch(next_x + 4 * c, 4 * PREFETCH_COLUMNS)
        c += PREFETCH_COLUMNS
    x += c * size
    out += c * size
    next_x += c * size
    next_out += c * size
    while c < n:
        m = min(<Py_ssize_t>PREFETCH_COLUMNS, n - c)
        prefetch(next_out, m * size)
        if output.x != output.out:
            prefetch(next_x, m * size)
        if output.type == FLOAT64:
            if x == out:
                add_row_dd_in_place(<double*>out, output.scale, high + c, low + c, m)
            else:
                add_row_dd(<const double*>x, output.scale, high + c, low + c, <double*>out, m)
        elif output.type == FLOAT32:
            if x == out:
                add_row_in_place(<float*>out, output.scale, high + c, m)
            else:
                add_row[rfloat](<const float*>x, output.scale, high + c, <float*>out, m)
        else:
            add_row_16_bits(output, x, high + c, out, m, scratch)
        c += m
        x += m * size
        out += m * size
        next_x += m * size
        next_out += m * size


cdef inline void round_into(const Output* output, Py_ssize_t i, const double* high, const double* low, Py_ssize_t n,
                            double* scratch) noexcept nogil:
    """Write row i, or with x the sum scale * x + row in each batch, rounded once.

    The row is high, or for float64 the double-doubles high + low. scratch has 2 * n doubles, or for a sum the scratch
    of `add_into`. Without x, only rows of float64 are written past the cache.
    """
    cdef Py_ssize_t b, distance
    cdef LineBuffer to
    cdef char* out = output.out + i * output.row
    if output.x != NULL:
        distance = prefetch_rows(output, n) if output.x == output.out and low == NULL else 1
        for b in range(output.batches):
            add_into(output, i, b, high, low, n, i + (b + distance) // output.batches, (b + distance) % output.batches,
                     scratch)
    elif output.type == FLOAT64 and output.stream:
        open_line_buffer(&to, out, scratch)
        round_row_dd(high, low, <double*>(to.buffer + to.filled), n)
        to.filled += n * sizeof(double)
        send_lines(&to, True)
    elif output.type == FLOAT64:
        round_row_dd(high, low, <double*>out, n)
    elif output.type == FLOAT32:
        round_row[rfloat](high, <float*>out, n)
    elif output.type == FLOAT16:
        round_row[roddfloat](high, <oddfloat*>scratch, n)
        to_half(<oddfloat*>scratch, <uint16_t*>out, n)
    else:
        round_row[rfloat](high, <float*>scratch, n)
        if to_bfloat(scratch, <uint16_t*>out, n):
            round_row[rwidebfloat](high, <widebfloat*>scratch, n)
            to_bfloat(scratch, <uint16_t*>out, n)
