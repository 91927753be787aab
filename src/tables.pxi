# Included by _loops.pyx: tables, sums with tables, and rows of integers in any order, from the lattice.

cdef void table(const CLattice* lattice, int64_t span, Py_ssize_t offset, Py_ssize_t rows, const CSink* sink,
                double* scratch) noexcept nogil:
    """Rows of consecutive integers, the first of them offset rows behind the start of a span."""
    if sink.x != NULL:
        add_table(lattice, span, offset, rows, sink, scratch)
        return
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride
    cdef Py_ssize_t size = 1 << lattice.block_bits
    cdef Py_ssize_t half = size >> 1
    cdef Py_ssize_t first = (offset + half) >> lattice.block_bits
    cdef Py_ssize_t last = (offset + rows - 1 + half) >> lattice.block_bits
    cdef Py_ssize_t block, other, row, other_row, nearest, farthest, step, j, k, head
    cdef bint both, any_row, wide = sink.type == FLOAT64
    cdef bint direct = not sink.stream and (wide or sink.type == FLOAT32)
    cdef Offset by
    cdef Anchor exact, one, two
    cdef const Anchor* second
    cdef Rows at
    cdef TableWork work
    lay_out_table(lattice, &work, scratch)
    begin(&one, work.one, stride)
    begin(&two, work.two, stride)
    begin(&exact, work.exact, stride)
    # pairs of blocks; the first and the last together when each of them is half a block
    block = first
    other = first + 1
    both = first < last
    if both and offset >= first * size and offset + rows <= last * size:
        other = last
        last -= 1
    while block <= last:
        find_anchor(lattice, &exact, &one, span, block, wide, work.rest)
        second = &one
        if both:
            second = &two
            find_anchor(lattice, &exact, &two, span, other, wide, work.rest)
        nearest, farthest, step = half, 0, 1
        row, other_row = block * size - offset, other * size - offset
        reach(row, rows, half, &nearest, &farthest)
        if both:
            reach(other_row, rows, half, &nearest, &farthest)
        if direct and not wide and both and half <= row and other_row + half <= rows:
            rotate_run(lattice, &one, &two, sink, row, other_row)
            # what is left are the anchors' own rows, and those half a block away
            step = half
        j = nearest - step
        while j < farthest:
            j += step
            any_row = wanted(row, j, rows, half, at.index)
            at.index[2] = at.index[3] = -1
            if both and wanted(other_row, j, rows, half, at.index + 2):
                any_row = True
            if not any_row:
                continue
            for k in range(4):
                at.to[k] = sink.out + at.index[k] * sink.row if at.index[k] >= 0 else <char*>work.discard[k]
            if sink.stream:
                # a store that waits for a line which two rows share holds up all those behind it
                for k in range(4):
                    if at.index[k] >= 0:
                        prefetch(<uintptr_t>sink.out + (at.index[k] + (-1 if k & 1 else 2)) * sink.row, 1)
            by = offset_at(lattice.fine, half + 1, j, stride)
            if direct:
                head = head_of(at.to[0], size_of(sink.type), n)
                if head:
                    rotate(&one, second, &by, &at, sink.type, 0, head)
                    for k in range(4):
                        at.to[k] = <char*>at.to[k] + head * size_of(sink.type)
                rotate(&one, second, &by, &at, sink.type, head, n - head)
            elif sink.type == FLOAT32 and alike(&at, 0) and (not both or alike(&at, 2)):
                rotate_past(&one, &by, <char*>at.to[0], <char*>at.to[1], n, <float*>work.rest)
                if both:
                    rotate_past(&two, &by, <char*>at.to[2], <char*>at.to[3], n, <float*>work.rest)
            else:
                rotate_through(&one, second, &by, &at, sink, n, work.rest)
        block += 2 if other == block + 1 else 1
        other = block + 1
        both = other <= last
    if sink.stream:
        stream_end()


cdef void rotate_and_add(const Anchor* anchor, const Offset* by, const CSink* sink, Py_ssize_t above, Py_ssize_t below,
                         Py_ssize_t next_above, Py_ssize_t next_below, Py_ssize_t n, float* discard) noexcept nogil:
    """Add two rows to one batch of float32, without storing them first; negative ones are not wanted.

    Beyond the cache, the next ones are fetched meanwhile.
    """
    cdef Py_ssize_t c = 0, m, stretch = PREFETCH_COLUMNS if sink.ahead else n
    cdef bint elsewhere = sink.x != sink.out
    cdef char* up = sink.out + above * sink.row if above >= 0 else <char*>discard
    cdef char* down = sink.out + below * sink.row if below >= 0 else <char*>discard
    # there is always something to read
    cdef const char* x_up = sink.x + (above if above >= 0 else below) * sink.x_row
    cdef const char* x_down = sink.x + (below if below >= 0 else above) * sink.x_row
    next_above -= above
    next_below -= below
    while c < n:
        m = head_of(up, 4, n - c)
        if m == 0:
            m = min(stretch, n - c)
        if sink.ahead:
            prefetch(<uintptr_t>up + next_above * sink.row, 4 * m)
            prefetch(<uintptr_t>down + next_below * sink.row, 4 * m)
            if elsewhere:
                prefetch(<uintptr_t>x_up + next_above * sink.x_row, 4 * m)
                prefetch(<uintptr_t>x_down + next_below * sink.x_row, 4 * m)
        if elsewhere:
            rotate_pair_sum(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, sink.scale,
                            <const float*>x_up, <const float*>x_down, <float*>up, <float*>down, m)
        else:
            rotate_pair_add(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, sink.scale,
                            <float*>up, <float*>down, m)
        c += m
        up += 4 * m
        down += 4 * m
        x_up += 4 * m
        x_down += 4 * m


cdef void add_table(const CLattice* lattice, int64_t span, Py_ssize_t offset, Py_ssize_t rows, const CSink* sink,
                    double* scratch) noexcept nogil:
    """scale * x + rows of consecutive integers, in types of at most 32 bits."""
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride
    cdef Py_ssize_t size = 1 << lattice.block_bits
    cdef Py_ssize_t half = size >> 1
    cdef Py_ssize_t block = (offset + half) >> lattice.block_bits
    cdef Py_ssize_t last = (offset + rows - 1 + half) >> lattice.block_bits
    cdef Py_ssize_t b, row, j, nearest, farthest, above, below, batch, ahead
    cdef Py_ssize_t distance = max(1, fetched_rows(sink, n) // 2)
    cdef Py_ssize_t down = -1
    cdef Py_ssize_t[2] index
    cdef bint fused = sink.batches == 1 and sink.type == FLOAT32
    cdef Offset by
    cdef Anchor exact, anchor
    cdef RowsWork work
    lay_out_rows(lattice, sink, 1, &work, scratch)
    begin(&anchor, work.anchor, stride)
    begin(&exact, work.exact, stride)
    if size * sink.batches * n <= (PREFETCH_BLOCK if sink.x == sink.out else PREFETCH_BLOCK // 4):
        # what is fetched is then a row of the next block: up and down from its middle, too
        distance = size * sink.batches
        down = 1
    for block in range(block, last + 1):
        find_anchor(lattice, &exact, &anchor, span, block, False, work.rest)
        nearest, farthest = half, 0
        row = block * size - offset
        reach(row, rows, half, &nearest, &farthest)
        for j in range(nearest, farthest + 1):
            if not wanted(row, j, rows, half, index):
                continue
            above, below = index[0], index[1]
            by = offset_at(lattice.fine, half + 1, j, stride)
            if fused:
                rotate_and_add(&anchor, &by, sink, above, below, above + distance, below + down * distance, n,
                               <float*>work.rows)
                continue
            rotate_pair[rdouble](anchor.value, anchor.quadrature, by.cosine, by.sine, work.rows, work.rows + stride,
                                 n)
            for b in range(sink.batches):
                # the batches of a row come one after the other
                batch = (b + distance) % sink.batches
                ahead = (b + distance) // sink.batches
                if above >= 0:
                    add_to(sink, above, b, work.rows, NULL, n, above + ahead, batch, work.rest)
                if below >= 0:
                    add_to(sink, below, b, work.rows + stride, NULL, n, below + down * ahead, batch, work.rest)
    if sink.stream:
        stream_end()


cdef void rows_of(const CLattice* lattice, const int64_t* spans, const int32_t* offsets, Py_ssize_t rows,
                  const CSink* sink, double* scratch) noexcept nogil:
    """Rows of integers in any order, each given as a span and an offset in it."""
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride, i, j, k, b, block, first = 0
    cdef Py_ssize_t pass_rows, next_k, batch
    cdef Py_ssize_t half = (1 << lattice.block_bits) >> 1
    cdef bint wide = sink.type == FLOAT64
    cdef Py_ssize_t distance = fetched_rows(sink, n) if sink.x == sink.out and not wide else 1
    cdef Offset by
    cdef Anchor exact, anchor
    cdef double* high
    cdef RowsWork work
    lay_out_rows(lattice, sink, rows, &work, scratch)
    begin(&anchor, work.anchor, stride)
    begin(&exact, work.exact, stride)
    while first < rows:
        pass_rows = min(work.pass_rows, rows - first)
        for k in range(pass_rows):
            i = first + k
            high = work.rows + k * 2 * stride
            block = (offsets[i] + half) >> lattice.block_bits
            j = offsets[i] - (block << lattice.block_bits)
            find_anchor(lattice, &exact, &anchor, spans[i], block, wide, work.rest)
            by = offset_at(lattice.fine, half + 1, j if j >= 0 else -j, stride)
            if wide:
                rotate_accurate(anchor.value, anchor.value_low, anchor.quadrature, anchor.quadrature_low, by.cosine,
                                by.cosine_low, by.sine, by.sine_low, 1.0 if j >= 0 else -1.0, high, high + stride, n)
            else:
                rotate_row(anchor.value, anchor.quadrature, by.cosine, by.sine, 1.0 if j >= 0 else -1.0, high, n)
        if sink.x == NULL:
            deliver(sink, first, work.rows, work.rows + stride, n, work.rest)
        else:
            for b in range(sink.batches):
                for k in range(pass_rows):
                    batch = b + (k + distance) // pass_rows
                    next_k = (k + distance) % pass_rows + batch // sink.batches * pass_rows
                    high = work.rows + k * 2 * stride
                    add_to(sink, first + k, b, high, high + stride, n, first + next_k, batch % sink.batches, work.rest)
        first += pass_rows
    if sink.stream:
        stream_end()
