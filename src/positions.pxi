# Included by _loops.pyx: rows of any positions, each evaluated for itself.

cdef enum:
    QUICK_ROW
    ANY_ROW
    HARD_ROW
    NO_ROW


cdef inline int difficulty(const CPlan* plan, const double* position) noexcept nogil:
    """Which way a row can go; a HARD_ROW is left to exact arithmetic, a NO_ROW has no position."""
    cdef Py_ssize_t a
    cdef double turns
    cdef bint hard = False
    cdef int answer = QUICK_ROW if plan.axes == 1 else ANY_ROW
    for a in range(plan.axes):
        turns = fabs(position[a]) * plan.largest[a]
        # an infinite frequency at a position of zero is no number, and hard too
        if not turns <= QUICK or fabs(position[a]) > HUGE:
            answer = ANY_ROW
            if not fabs(position[a]) < INFINITY:
                return NO_ROW
            hard = hard or not turns <= MOST or fabs(position[a]) > HUGE
        # of an axis that no wave reads, nothing is lost
        hard = hard or (turns < TINY and position[a] != 0 and plan.largest[a] > 0)
    return HARD_ROW if hard else answer


cdef inline void round_columns(const CPlan* plan, double* waves, const double* positions, Py_ssize_t k,
                               narrow_row out) noexcept nogil:
    """The columns of waves: of those at a position, with FMA, or where there is none (NULL) as they are."""
    if positions != NULL and plan.straight:
        # as they are made
        quick_columns[narrow_row](plan, positions[k], out, True)
        return
    if positions != NULL:
        quick_columns[rdouble](plan, positions[k], waves, True)
    columns[narrow_row](plan, waves, out)


cdef void emit(const CPlan* plan, const CSink* sink, Py_ssize_t i, Py_ssize_t rows, double* waves,
               const double* positions, double* scratch) noexcept nogil:
    """Rows of quickly evaluated waves to the sink, as `round_columns` makes them; without positions, and of a sum, one.

    scratch: width doubles, then what `deliver` takes.
    """
    cdef Py_ssize_t k, n = plan.width
    cdef char* out = sink.out + i * sink.row
    cdef uint16_t* narrow
    if sink.x != NULL:
        columns[rdouble](plan, waves, scratch)
        deliver(sink, i, scratch, NULL, n, scratch + n)
    elif sink.type == FLOAT32:
        for k in range(rows):
            round_columns[rfloat](plan, waves, positions, k, <float*>(out + k * sink.row))
    elif sink.type == FLOAT16:
        for k in range(rows):
            round_columns[roddfloat](plan, waves, positions, k, <oddfloat*>scratch)
            to_half(<oddfloat*>scratch, <uint16_t*>(out + k * sink.row), n)
    else:
        for k in range(rows):
            narrow = <uint16_t*>(out + k * sink.row)
            round_columns[rfloat](plan, waves, positions, k, <float*>scratch)
            if to_bfloat(scratch, narrow, n):
                round_columns[rwidebfloat](plan, waves, positions, k, <widebfloat*>scratch)
                to_bfloat(scratch, narrow, n)


cdef void any_row(const CPlan* plan, const double* position, bint single, bint wide, bint fused, double* row,
                  double* row_low, double* scratch) noexcept nogil:
    """A row of waves at any position, if wide as sums of two doubles. scratch: 2 * waves."""
    cdef Py_ssize_t n = plan.waves
    cdef double* turns = scratch
    cdef double* low = scratch + n
    angles(plan, position, single, turns, low)
    if wide and plan.planar:
        accurate_waves(turns, low, row, row + n, row_low, row_low + n, 1, n)
    elif wide:
        accurate_waves(turns, low, row, row + 1, row_low, row_low + 1, 2, n)
    elif fused and plan.planar:
        quick_waves(turns, low, row, row + n, 1, n, True)
    elif fused:
        quick_waves(turns, low, row, row + 1, 2, n, True)
    elif plan.planar:
        quick_waves(turns, low, row, row + n, 1, n, False)
    else:
        quick_waves(turns, low, row, row + 1, 2, n, False)


cdef void quick_any_row(const CPlan* plan, const double* position, int kind, bint single, bint fused, double* row,
                        double* row_low, double* work) noexcept nogil:
    """A row of waves for types of at most 32 bits."""
    if kind == ANY_ROW or single:
        any_row(plan, position, single, False, fused, row, row_low, work)
        if single:
            settle(row, row_low, 2 * plan.waves)
    elif fused:
        quick_columns[rdouble](plan, position[0], row, True)
    else:
        quick_columns[rdouble](plan, position[0], row, False)


cdef void settle(rdouble high, rdouble low, Py_ssize_t n) noexcept nogil:
    """One NaN for all: which one comes of infinite angles, and of which sign, is up to the processor and compiler."""
    cdef Py_ssize_t c
    for c in range(n):
        if high[c] != high[c]:
            high[c] = NAN
            low[c] = 0.0


cdef void spread(const CPlan* plan, CPlan* larger, CPlan* smaller, double* more, double* less) noexcept nogil:
    """Plans whose amplitudes are REACH larger and smaller."""
    cdef Py_ssize_t c
    for c in range(plan.width):
        more[c] = plan.amplitude[c] * (1.0 + REACH)
        less[c] = plan.amplitude[c] * (1.0 - REACH)
    larger[0] = smaller[0] = plan[0]
    larger.amplitude = more
    smaller.amplitude = less


cdef bint emit_surely(const CPlan* larger, const CPlan* smaller, const CSink* sink, Py_ssize_t i, const double* waves,
                      double* scratch) noexcept nogil:
    """Emit a row of waves; whether all that lies within REACH is rounded to what was written. scratch: 2 * width."""
    cdef Py_ssize_t n = larger.width
    cdef char* out = sink.out + i * sink.row
    cdef void* one = scratch
    cdef void* other = scratch + n
    cdef bint same
    if sink.type == FLOAT32:
        columns[rfloat](larger, waves, <float*>out)
        columns[rfloat](smaller, waves, <float*>other)
        return memcmp(out, other, 4 * n) == 0
    if sink.type == FLOAT16:
        columns[roddfloat](larger, waves, <oddfloat*>one)
        columns[roddfloat](smaller, waves, <oddfloat*>other)
        to_half(<oddfloat*>one, <uint16_t*>out, n)
        # these differ when there is a float between them; seldom it is the middle of two float16
        if memcmp(one, other, 4 * n) == 0:
            return True
        to_half(<oddfloat*>other, <uint16_t*>one, n)
    else:
        columns[rfloat](larger, waves, <float*>one)
        columns[rfloat](smaller, waves, <float*>other)
        same = memcmp(one, other, 4 * n) == 0
        if not to_bfloat(one, <uint16_t*>out, n) and same:
            return True
        columns[rwidebfloat](larger, waves, <widebfloat*>one)
        columns[rwidebfloat](smaller, waves, <widebfloat*>other)
        to_bfloat(one, <uint16_t*>out, n)
        to_bfloat(other, <uint16_t*>one, n)
    return memcmp(out, one, 2 * n) == 0


cdef bint encode(const CPlan* plan, const double* positions, Py_ssize_t rows, const CSink* sink, bint single,
                 double* scratch, unsigned char** left) noexcept nogil:
    """Rows of any positions. left: where HARD_ROWs are left out, a byte for each row, to be freed: 1 for those.

    False when there is no memory for that.
    """
    cdef Py_ssize_t i = 0, c, k, width = plan.width
    cdef EncodeWork work
    cdef double* row
    cdef double* row_low
    cdef double* high
    cdef double* low
    cdef double* rest
    cdef double* value
    cdef double* value_low
    cdef double* blank
    cdef const double* position
    cdef bint wide = sink.type == FLOAT64
    # sums, of which x is gone once they are written, are made without FMA at every level
    cdef bint fused = FUSES and sink.x == NULL, doubtful = not FUSES and sink.x == NULL and not wide
    cdef int kind
    cdef CPlan larger, smaller
    lay_out_encode(plan, sink, &work, scratch)
    row, row_low, high, low, rest = work.evaluate.row, work.evaluate.row_low, work.high, work.low, work.rest
    # of sums of two doubles: waves, where they are the columns
    value = row if plan.straight else high
    value_low = row_low if plan.straight else low
    if doubtful:
        spread(plan, &larger, &smaller, high, low)
    while i < rows:
        position = positions + i * plan.axes
        kind = difficulty(plan, position)
        if kind == HARD_ROW:
            if left[0] == NULL:
                left[0] = <unsigned char*>calloc(rows, 1)
                if left[0] == NULL:
                    return False
            left[0][i] = 1
        elif kind == NO_ROW:
            blank = high if wide else rest
            for c in range(width):
                blank[c] = NAN
            if wide:
                memset(low, 0, width * sizeof(double))
            deliver(sink, i, blank, low if wide else NULL, width, rest if wide else rest + width)
        elif wide:
            any_row(plan, position, single, True, False, row, row_low, work.evaluate.rest)
            if not plan.straight:
                columns_accurate(plan, row, row_low, high, low)
            if single:
                settle(value, value_low, width)
            deliver(sink, i, value, value_low, width, rest)
        elif fused and kind == QUICK_ROW and not single:
            k = 1
            while i + k < rows and difficulty(plan, position + k) == QUICK_ROW:
                k += 1
            emit(plan, sink, i, k, row, position, rest)
            i += k - 1
        else:
            quick_any_row(plan, position, kind, single, fused, row, row_low, work.evaluate.rest)
            if not doubtful:
                emit(plan, sink, i, 1, row, NULL, rest)
            elif not emit_surely(&larger, &smaller, sink, i, row, rest):
                quick_any_row(plan, position, kind, single, True, row, row_low, work.evaluate.rest)
                emit(plan, sink, i, 1, row, NULL, rest)
        i += 1
    if sink.stream:
        stream_end()
    return True


cdef void evaluate(const CPlan* plan, const double* position, const CRow* two, double* scratch) noexcept nogil:
    """Two rows at a position, of any choices of columns, as sums of two doubles."""
    cdef EvaluateWork work
    cdef const CRow* row
    cdef int k
    lay_out_evaluate(plan.waves, &work, scratch)
    any_row(plan, position, False, True, False, work.row, work.row_low, work.rest)
    for k in range(2):
        row = &two[k]
        gather_row_accurate(work.row, work.row_low, row.source, row.amplitude, row.high, row.low, plan.width)
