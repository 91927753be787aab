# Included by _loops.pyx: rows of doubles are rounded, added, and written through the cache or past it.

cdef inline Py_ssize_t fetched_rows(const CSink* sink, Py_ssize_t n) noexcept nogil:
    """How many rows of n columns ahead of its use a row is asked for."""
    return max(1, PREFETCH_DISTANCE // n if sink.x == sink.out or sink.stream else PREFETCH_DISTANCE // (2 * n))


cdef inline void add_row(crfloat x, double scale, crdouble row, narrow_row out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](out, c, scale * <double>x[c] + row[c])


cdef inline void add_row_in_place(rfloat x, double scale, crdouble row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        x[c] = <float>(scale * <double>x[c] + row[c])


cdef inline double add_accurate(double x, double scale, double high, double low, double beyond) noexcept nogil:
    """beyond: of `beyond_of` the scale."""
    cdef double e
    cdef double p = scale * x
    cdef double s = two_sum(p, high, &e)
    # no number, with FMA as without, where a factor cannot be split
    e += (product_error(scale, x, p) + low) + x * beyond * 0.0
    # of a sum that is infinite or enormous there is no error to be had
    return s + (e if e == e else 0.0)


cdef inline double beyond_of(double scale) noexcept nogil:
    """What makes an infinity of an x that is enormous, or is with the scale."""
    return BEYOND_HUGE * max(1.0, fabs(scale))


cdef void add_row_accurate(crdouble x, double scale, crdouble high, crdouble low, rdouble out,
                           Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double beyond = beyond_of(scale)
    for c in range(n):
        out[c] = add_accurate(x[c], scale, high[c], low[c], beyond)


cdef void add_row_accurate_in_place(rdouble x, double scale, crdouble high, crdouble low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double beyond = beyond_of(scale)
    for c in range(n):
        x[c] = add_accurate(x[c], scale, high[c], low[c], beyond)


cdef void sum_row(crdouble high, crdouble low, rdouble out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = high[c] + low[c]


cdef void store_row(crdouble row, narrow_row out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](out, c, row[c])


cdef inline Py_ssize_t head_of(const void* row, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    """How many of n values those are, where vectors are to begin at a line."""
    return min(n, before_line(row, size)) if LONG_VECTORS else 0


cdef struct Flow:
    uintptr_t line  # of the cache line that the buffer's first 64 bytes stand for, where the row may not begin yet
    char* buffer
    Py_ssize_t head, filled  # the row begins at head of its first line; so many bytes of the buffer are filled


cdef inline void open_flow(Flow* to, char* out, double* buffer) noexcept nogil:
    to.head = <uintptr_t>out & 63
    to.line = <uintptr_t>out - to.head
    to.filled = to.head
    to.buffer = <char*>buffer


cdef inline void flow(Flow* to, bint last) noexcept nogil:
    """Send a buffer's whole lines past the cache. What is left waits for the next stretch of the row.

    The row's first and last lines may be shared with other rows: these bytes are written in the ordinary way.
    """
    cdef Py_ssize_t whole = to.filled & ~<Py_ssize_t>63, first = 0
    if to.head and (whole or last):
        first = min(<Py_ssize_t>64, to.filled)
        memcpy(<char*>(to.line + to.head), to.buffer + to.head, first - to.head)
        to.head = 0
    if whole > first:
        stream(<char*>(to.line + first), to.buffer + first, whole - first)
    if last and to.filled > max(whole, first):
        memcpy(<char*>(to.line + whole), to.buffer + whole, to.filled - whole)
    elif not last:
        memcpy(to.buffer, to.buffer + whole, 64)
    to.line += whole
    to.filled -= whole


cdef inline void add_narrow(const CSink* sink, const char* x, const double* row, char* out, Py_ssize_t n,
                            double* scratch) noexcept nogil:
    """scale * x + doubles, in 16 bits; scratch: n doubles."""
    cdef float* floats = <float*>scratch + n
    if sink.type == FLOAT16:
        from_half(<const uint16_t*>x, floats, n)
        add_row[roddfloat](floats, sink.scale, row, <oddfloat*>scratch, n)
        to_half(<oddfloat*>scratch, <uint16_t*>out, n)
    else:
        from_bfloat(<const uint16_t*>x, floats, n)
        add_row[rfloat](floats, sink.scale, row, <float*>scratch, n)
        if to_bfloat(scratch, <uint16_t*>out, n):
            add_row[rwidebfloat](floats, sink.scale, row, <widebfloat*>scratch, n)
            to_bfloat(scratch, <uint16_t*>out, n)


cdef void add_past(const CSink* sink, const char* x, uintptr_t next_x, const double* row, char* out,
                   uintptr_t next_out, Py_ssize_t n, double* scratch) noexcept nogil:
    """scale * x + doubles, in at most 32 bits, past the cache; scratch: 2 * TILE doubles."""
    cdef Py_ssize_t c = 0, m, size = size_of(sink.type)
    cdef Flow to
    open_flow(&to, out, scratch + TILE)
    prefetch(next_out, 1)
    prefetch(next_out + n * size - 1, 1)
    while c < n:
        m = min(<Py_ssize_t>TILE, n - c)
        if sink.type == FLOAT32:
            add_row[rfloat](<const float*>x, sink.scale, row + c, <float*>(to.buffer + to.filled), m)
        else:
            add_narrow(sink, x, row + c, to.buffer + to.filled, m, scratch)
        prefetch(next_x, m * size)
        to.filled += m * size
        flow(&to, c + m == n)
        c += m
        x += m * size
        next_x += m * size


cdef void add_to(const CSink* sink, Py_ssize_t i, Py_ssize_t batch, const double* high, const double* low,
                 Py_ssize_t n, Py_ssize_t next_i, Py_ssize_t next_batch, double* scratch) noexcept nogil:
    """scale * x + doubles (float64: sums of two), for one row of one batch.

    scratch: PREFETCH_COLUMNS doubles, 2 * TILE past the cache.

    Stretch by stretch, the row that comes next is fetched: no hardware foresees where it lies. It need not exist.
    """
    cdef Py_ssize_t size = size_of(sink.type), c = 0, m
    cdef char* out = sink.out + batch * sink.batch + i * sink.row
    cdef const char* x = sink.x + batch * sink.x_batch + i * sink.x_row
    cdef uintptr_t next_out = <uintptr_t>sink.out + next_batch * sink.batch + next_i * sink.row
    cdef uintptr_t next_x = <uintptr_t>sink.x + next_batch * sink.x_batch + next_i * sink.x_row
    # the usual case without questions in between, and loops of a length that the compiler knows
    cdef Py_ssize_t whole = n - n % PREFETCH_COLUMNS if sink.type == FLOAT32 else 0
    if sink.stream:
        add_past(sink, x, next_x, high, out, next_out, n, scratch)
        return
    if x == out:
        while c < whole:
            prefetch(next_out + 4 * c, 4 * PREFETCH_COLUMNS)
            add_row_in_place(<float*>out + c, sink.scale, high + c, PREFETCH_COLUMNS)
            c += PREFETCH_COLUMNS
    while c < whole:
        add_row[rfloat](<const float*>x + c, sink.scale, high + c, <float*>out + c, PREFETCH_COLUMNS)
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
        if sink.x != sink.out:
            prefetch(next_x, m * size)
        if sink.type == FLOAT64:
            if x == out:
                add_row_accurate_in_place(<double*>out, sink.scale, high + c, low + c, m)
            else:
                add_row_accurate(<const double*>x, sink.scale, high + c, low + c, <double*>out, m)
        elif sink.type == FLOAT32:
            if x == out:
                add_row_in_place(<float*>out, sink.scale, high + c, m)
            else:
                add_row[rfloat](<const float*>x, sink.scale, high + c, <float*>out, m)
        else:
            add_narrow(sink, x, high + c, out, m, scratch)
        c += m
        x += m * size
        out += m * size
        next_x += m * size
        next_out += m * size


cdef void deliver(const CSink* sink, Py_ssize_t i, const double* high, const double* low, Py_ssize_t n,
                  double* scratch) noexcept nogil:
    """Send a row of doubles (float64: of sums of two) to the sink; scratch: 2 * n doubles, 2 * TILE for a sum.

    Of rows that are no sums those of float64 alone go past the cache.
    """
    cdef Py_ssize_t b, distance
    cdef Flow to
    cdef char* out = sink.out + i * sink.row
    if sink.x != NULL:
        distance = fetched_rows(sink, n) if sink.x == sink.out and low == NULL else 1
        for b in range(sink.batches):
            add_to(sink, i, b, high, low, n, i + (b + distance) // sink.batches, (b + distance) % sink.batches, scratch)
    elif sink.type == FLOAT64 and sink.stream:
        open_flow(&to, out, scratch)
        sum_row(high, low, <double*>(to.buffer + to.filled), n)
        to.filled += n * sizeof(double)
        flow(&to, True)
    elif sink.type == FLOAT64:
        sum_row(high, low, <double*>out, n)
    elif sink.type == FLOAT32:
        store_row[rfloat](high, <float*>out, n)
    elif sink.type == FLOAT16:
        store_row[roddfloat](high, <oddfloat*>scratch, n)
        to_half(<oddfloat*>scratch, <uint16_t*>out, n)
    else:
        store_row[rfloat](high, <float*>scratch, n)
        if to_bfloat(scratch, <uint16_t*>out, n):
            store_row[rwidebfloat](high, <widebfloat*>scratch, n)
            to_bfloat(scratch, <uint16_t*>out, n)
