# cython: cdivision=True
"""Compute tables, sums with tables, and rows of integers in any order, from a lattice (see ``lattice.pxd``).

A *block* contains the rows around an anchor. A table is written two blocks at a time. Rows are written through the
cache or past it (see ``output.pxd``), in one of these ways:

- `write_run`: float32 through the cache, all offsets of two whole blocks in one loop;
- `write_direct`: float32 and float64 through the cache;
- `write_streamed`: float32 past the cache, if the rows above and below begin at the same byte of a cache line;
- `stream_run`: float32 past the cache, all offsets of two whole blocks in one loop;
- `write_buffered`: all other rows (16-bit types, and other rows past the cache), a few cache lines at a time.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uintptr_t
from libc.string cimport memcpy

from cache cimport (
    LINE_BUFFER, LONG_VECTORS, PREFETCH_BLOCK, PREFETCH_COLUMNS, TILE, before_line, prefetch, rotate_lines, stream,
    stream_end,
)
from columns cimport narrow_row
from compiler cimport rdouble, rfloat, step
from entry cimport BFLOAT16, FLOAT16, FLOAT32, FLOAT64, CLattice, Output, size_of
from half cimport oddfloat, roddfloat, rwidebfloat, to_bfloat, to_half, widebfloat
from lattice cimport (
    Anchor, Offset, find_anchor, fine_offset, init_anchor, offset_span, rotate_four, rotate_outer, rotate_row,
    rotate_row_dd, rotate_two, rotate_two_add, rotate_two_add_in_place, rotate_two_dd, rows_at_offset,
)
from output cimport (
    LineBuffer, add_into, open_line_buffer, prefetch_rows, round_into, send_lines, unaligned_head,
)
from work cimport LINE_BYTES, RowsWork, TableWork, lay_out_rows, lay_out_table


# ---- ways to write the rows at one offset ----------------------------------------------------------------------------


cdef struct OffsetRows:
    Py_ssize_t index[4]  # above and below the first anchor, above and below the second; -1 if not in the table
    void* to[4]  # where to write each of these rows, in the table or in a buffer


cdef inline step rotate_narrow(const Anchor* anchor1, const Anchor* anchor2, const Offset* by, const OffsetRows* rows,
                               narrow_row to, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    cdef const double* cosine = by.cosine + first
    cdef const double* sine = by.sine + first
    # compute all four rows, unless only rows 0 and 3, or only rows 0 and 1, can be in the table
    if rows.index[1] < 0 and rows.index[2] < 0:
        rotate_outer[narrow_row](anchor1.value + first, anchor1.quadrature + first, anchor2.value + first,
                                 anchor2.quadrature + first, cosine, sine, to, <narrow_row>rows.to[3], n)
    elif rows.index[2] < 0 and rows.index[3] < 0:
        rotate_two[narrow_row](anchor1.value + first, anchor1.quadrature + first, cosine, sine, to,
                               <narrow_row>rows.to[1], n)
    else:
        rotate_four[narrow_row](anchor1.value + first, anchor1.quadrature + first, anchor2.value + first,
                                anchor2.quadrature + first, cosine, sine, to, <narrow_row>rows.to[1],
                                <narrow_row>rows.to[2], <narrow_row>rows.to[3], n)


cdef inline void rotate_columns(const Anchor* anchor1, const Anchor* anchor2, const Offset* by, const OffsetRows* rows,
                                int type, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    """Compute n columns of up to four rows, from column first on. 16-bit types become oddfloats or widebfloats."""
    cdef Py_ssize_t k
    cdef const Anchor* anchor
    if type == FLOAT64:
        for k in range(0, 4, 2):
            anchor = anchor2 if k else anchor1
            if rows.index[k] >= 0 or rows.index[k + 1] >= 0:
                rotate_two_dd(anchor.value + first, anchor.value_low + first, anchor.quadrature + first,
                              anchor.quadrature_low + first, by.cosine + first, by.cosine_low + first,
                              by.sine + first, by.sine_low + first, <double*>rows.to[k], <double*>rows.to[k + 1], n)
    elif type == FLOAT32:
        rotate_narrow[rfloat](anchor1, anchor2, by, rows, <float*>rows.to[0], first, n)
    elif type == FLOAT16:
        rotate_narrow[roddfloat](anchor1, anchor2, by, rows, <oddfloat*>rows.to[0], first, n)
    else:
        rotate_narrow[rwidebfloat](anchor1, anchor2, by, rows, <widebfloat*>rows.to[0], first, n)


cdef inline void write_run(const CLattice* lattice, const Anchor* anchor1, const Anchor* anchor2, const Output* output,
                           Py_ssize_t row1, Py_ssize_t row2) noexcept nogil:
    """Write the float32 rows of two blocks, except the anchors' rows (row1 and row2) and the rows half a block away.

    All of these rows are in the table, so the loop does not check whether a row is in it. For narrow rows, such checks
    would take as long as computing the rows.
    """
    cdef Py_ssize_t n = lattice.plan.width, half = <Py_ssize_t>1 << lattice.block_bits >> 1, j, head
    cdef char* above1
    cdef char* below1
    cdef char* above2
    cdef char* below2
    cdef Offset by
    for j in range(1, half):
        by = fine_offset(lattice, j)
        above1, below1 = output.out + (row1 + j) * output.row, output.out + (row1 - j) * output.row
        above2, below2 = output.out + (row2 + j) * output.row, output.out + (row2 - j) * output.row
        head = unaligned_head(above1, 4, n)
        if head:
            rotate_four[rfloat](anchor1.value, anchor1.quadrature, anchor2.value, anchor2.quadrature, by.cosine,
                                by.sine, <float*>above1, <float*>below1, <float*>above2, <float*>below2, head)
        rotate_four[rfloat](anchor1.value + head, anchor1.quadrature + head, anchor2.value + head,
                            anchor2.quadrature + head, by.cosine + head, by.sine + head, <float*>above1 + head,
                            <float*>below1 + head, <float*>above2 + head, <float*>below2 + head, n - head)


cdef inline void write_direct(const Anchor* anchor1, const Anchor* anchor2, const Offset* by, OffsetRows* rows,
                              int type, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k, head = unaligned_head(rows.to[0], size_of(type), n)
    if head:
        rotate_columns(anchor1, anchor2, by, rows, type, 0, head)
        for k in range(4):
            rows.to[k] = <char*>rows.to[k] + head * size_of(type)
    rotate_columns(anchor1, anchor2, by, rows, type, head, n - head)


cdef inline bint same_alignment(const OffsetRows* rows, Py_ssize_t k) noexcept nogil:
    """Return whether rows k and k + 1 are in the table, and begin at the same byte of a cache line.

    k is 0 or 2, so these are the rows above and below one anchor.
    """
    return rows.index[k] >= 0 and rows.index[k + 1] >= 0 and not (
        (<uintptr_t>rows.to[k] ^ <uintptr_t>rows.to[k + 1]) & (LINE_BYTES - 1))


cdef inline step prefetch_shared_lines(const Output* output, Py_ssize_t above, Py_ssize_t below) noexcept nogil:
    """Prefetch lines that the next rows above and below an anchor share with their neighbours.

    `above` and `below` are the indices of the rows that the caller is about to write, or -1 for rows that are not in
    the table. The next row above (row `above + 1`) ends in the line where row `above + 2` begins. The next row below
    (row `below - 1`) begins in the line where row `below - 2` ends. A store to a line outside of the cache would stall
    the store buffer.
    """
    if above >= 0:
        prefetch(<uintptr_t>output.out + (above + 2) * output.row, 1)
    if below >= 0:
        prefetch(<uintptr_t>output.out + (below - 1) * output.row, 1)


cdef inline void write_streamed(const Anchor* anchor, const Offset* by, char* above, char* below, Py_ssize_t n,
                                float* buffer, float* shared, bint first, bint last) noexcept nogil:
    """Write the rows above and below an anchor past the cache.

    Whole lines of the row above are stored as they are computed. Lines of the row below are first collected in
    `buffer`, which has TILE columns. If stores alternated between the two rows, some processors would take twice as
    long, because lines of the two rows often have the same offset in their memory pages.

    If shared is NULL, ordinary stores write the parts of lines at both ends of each row. Otherwise the rows of the
    table are adjacent in memory, and the function is called for one offset after another, from the anchor outwards.
    From one call to the next, shared keeps two incomplete lines. Rows above the anchor have higher addresses, and rows
    below have lower addresses. The first line is the line in which this call's row above ends. The next row above
    begins in it. The second line is the line in which this call's row below begins. The next row below ends in it.
    first and last are true for the first and the last of these calls.
    """
    cdef Py_ssize_t head = min(n, before_line(above, 4)), tail = (n - head) % 16, end = n - tail, c = head, m
    cdef const double* value = anchor.value
    cdef const double* quadrature = anchor.quadrature
    cdef float[16] kept_start, kept_end
    # where to write the parts of lines at the start and at the end of both rows
    cdef float* start_above = <float*>above
    cdef float* end_above = <float*>above + end
    cdef float* start_below = <float*>below
    cdef float* end_below = <float*>below + end
    cdef bint shares = shared != NULL and head > 0
    if shares:
        start_above, end_above, start_below, end_below = shared + tail, kept_end, kept_start, shared + 16
    rotate_two[rfloat](value, quadrature, by.cosine, by.sine, start_above, start_below, head)
    rotate_two[rfloat](value + end, quadrature + end, by.cosine + end, by.sine + end, end_above, end_below, tail)
    while c < end:
        m = min(<Py_ssize_t>TILE, end - c)
        rotate_lines(value + c, quadrature + c, by.cosine + c, by.sine + c, above + 4 * c, buffer, m)
        stream(below + 4 * c, buffer, 4 * m)
        c += m
    if not shares:
        return
    # `shared` is read only now, because a read of a line waits for the stores to parts of this line
    if first:
        memcpy(above, start_above, 4 * head)
        memcpy(below + 4 * end, end_below, 4 * tail)
    else:
        stream(above - 4 * tail, shared, LINE_BYTES)
        stream(below + 4 * end, shared + 16, LINE_BYTES)
    if last:
        memcpy(above + 4 * end, kept_end, 4 * tail)
        memcpy(below, kept_start, 4 * head)
    memcpy(shared, kept_end, 4 * tail)
    memcpy(shared + 16 + tail, kept_start, 4 * head)


cdef inline void stream_run(const CLattice* lattice, const Anchor* anchor1, const Anchor* anchor2,
                            const Output* output, Py_ssize_t row1, Py_ssize_t row2, double* tiles) noexcept nogil:
    """Do the same as `write_run` past the cache, for adjacent rows whose length is a whole number of cache lines."""
    cdef Py_ssize_t n = lattice.plan.width, half = <Py_ssize_t>1 << lattice.block_bits >> 1, j
    cdef float* buffer = <float*>tiles
    # With long vectors, a line that two rows share is written in one piece. If it were written in two parts, the CPU
    # would read it from memory first, which took half of the time on a Zen 5. With short vectors (Zen 3), a prefetch
    # hides this time.
    cdef float* shared1 = <float*>(tiles + TILE) if LONG_VECTORS else NULL
    cdef float* shared2 = shared1 + 32 if LONG_VECTORS else NULL
    cdef Offset by
    for j in range(1, half):
        if not LONG_VECTORS:
            prefetch_shared_lines(output, row1 + j, row1 - j)
            prefetch_shared_lines(output, row2 + j, row2 - j)
        by = fine_offset(lattice, j)
        write_streamed(anchor1, &by, output.out + (row1 + j) * output.row, output.out + (row1 - j) * output.row, n,
                       buffer, shared1, j == 1, j == half - 1)
        write_streamed(anchor2, &by, output.out + (row2 + j) * output.row, output.out + (row2 - j) * output.row, n,
                       buffer, shared2, j == 1, j == half - 1)


cdef inline bint round_16_bits(const OffsetRows* tile, const Output* output, const LineBuffer* to, Py_ssize_t first,
                               Py_ssize_t n) noexcept nogil:
    """Round n columns to 16 bits, and write them to the table from column first on, or to the line buffers.

    The values in tile were already rounded once, to floats. Return whether a bfloat16 may be wrong because its value
    was rounded twice.
    """
    cdef bint doubtful = False
    cdef uint16_t* out
    for k in range(4):
        if tile.index[k] < 0:
            continue
        if output.stream:
            out = <uint16_t*>(to[k].buffer + to[k].filled)
        else:
            out = <uint16_t*>(output.out + tile.index[k] * output.row) + first
        if output.type == FLOAT16:
            to_half(<oddfloat*>tile.to[k], out, n)
        elif to_bfloat(tile.to[k], out, n):
            doubtful = True
    return doubtful


cdef inline void write_buffered(const Anchor* anchor1, const Anchor* anchor2, const Offset* by, const OffsetRows* rows,
                                const Output* output, Py_ssize_t n, double* tiles) noexcept nogil:
    """Write rows a few cache lines at a time, so that lines are computed while memory stores the lines before them."""
    cdef Py_ssize_t k, m, c = 0, size = size_of(output.type)
    cdef OffsetRows tile = rows[0]
    cdef LineBuffer to[4]
    cdef bint narrow = size == 2
    for k in range(4):
        tile.to[k] = tiles + k * TILE
        # rows that are not in the table are computed into a buffer, but not written
        open_line_buffer(&to[k], output.out + max(<Py_ssize_t>0, rows.index[k]) * output.row,
                         tiles + 4 * TILE + k * LINE_BUFFER)
    while c < n:
        m = min(TILE, n - c)
        if output.stream and not narrow and c == 0 and to[0].head:
            # end the first part at a cache line, so that the next parts begin at a cache line of the buffer
            m = min(n, (LINE_BYTES - to[0].head) // size)
        if not narrow:
            for k in range(4):
                tile.to[k] = to[k].buffer + to[k].filled
        rotate_columns(anchor1, anchor2, by, &tile, FLOAT32 if output.type == BFLOAT16 else output.type, c, m)
        if narrow and round_16_bits(&tile, output, to, c, m):
            rotate_columns(anchor1, anchor2, by, &tile, BFLOAT16, c, m)
            round_16_bits(&tile, output, to, c, m)
        if output.stream:
            for k in range(4):
                if rows.index[k] >= 0:
                    to[k].filled += m * size
                    send_lines(&to[k], c + m == n)
        c += m


# ---- sums with tables ------------------------------------------------------------------------------------------------


cdef inline void add_two_rows(const Anchor* anchor, const Offset* by, const Output* output, Py_ssize_t above,
                              Py_ssize_t below, Py_ssize_t next_above, Py_ssize_t next_below, Py_ssize_t n,
                              float* discard) noexcept nogil:
    """Write scale * x + row for the rows above and below an anchor, for one batch of float32.

    above, below, next_above and next_below are indices of rows. A row with a negative index is not written. Values are
    added to x as they are computed. If output.prefetch is true, the rows next_above and next_below are prefetched
    meanwhile.
    """
    cdef Py_ssize_t c = 0, m, stretch = PREFETCH_COLUMNS if output.prefetch else n
    cdef bint elsewhere = output.x != output.out
    cdef char* out_above = output.out + above * output.row if above >= 0 else <char*>discard
    cdef char* out_below = output.out + below * output.row if below >= 0 else <char*>discard
    # for a row with a negative index, read x of the other row, so that both addresses are valid
    cdef const char* x_above = output.x + (above if above >= 0 else below) * output.x_row
    cdef const char* x_below = output.x + (below if below >= 0 else above) * output.x_row
    next_above -= above
    next_below -= below
    while c < n:
        m = unaligned_head(out_above, 4, n - c)
        if m == 0:
            m = min(stretch, n - c)
        if output.prefetch:
            prefetch(<uintptr_t>out_above + next_above * output.row, 4 * m)
            prefetch(<uintptr_t>out_below + next_below * output.row, 4 * m)
            if elsewhere:
                prefetch(<uintptr_t>x_above + next_above * output.x_row, 4 * m)
                prefetch(<uintptr_t>x_below + next_below * output.x_row, 4 * m)
        if elsewhere:
            rotate_two_add(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, output.scale,
                           <const float*>x_above, <const float*>x_below, <float*>out_above, <float*>out_below, m)
        else:
            rotate_two_add_in_place(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, output.scale,
                                    <float*>out_above, <float*>out_below, m)
        c += m
        out_above += 4 * m
        out_below += 4 * m
        x_above += 4 * m
        x_below += 4 * m


cdef inline void add_table(const CLattice* lattice, int64_t span, Py_ssize_t offset, Py_ssize_t rows,
                           const Output* output, double* scratch) noexcept nogil:
    """Write scale * x + rows of consecutive integers, for types of at most 32 bits."""
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride
    cdef Py_ssize_t size = 1 << lattice.block_bits
    cdef Py_ssize_t half = size >> 1
    cdef Py_ssize_t block = (offset + half) >> lattice.block_bits
    cdef Py_ssize_t last = (offset + rows - 1 + half) >> lattice.block_bits
    cdef Py_ssize_t b, anchor_row, j, nearest, farthest, above, below, batch, ahead
    cdef Py_ssize_t distance = max(1, prefetch_rows(output, n) // 2)
    cdef Py_ssize_t below_direction = -1  # within a block, the rows below the anchor are written in descending order
    cdef Py_ssize_t[2] index
    cdef bint at_once = output.batches == 1 and output.type == FLOAT32
    cdef Offset by
    cdef Anchor exact, anchor
    cdef RowsWork work
    lay_out_rows(lattice, output, 1, &work, scratch)
    init_anchor(&anchor, work.anchor, stride)
    init_anchor(&exact, work.exact, stride)
    if size * output.batches * n <= (PREFETCH_BLOCK if output.x == output.out else PREFETCH_BLOCK // 4):
        # blocks are small, so prefetch the rows at the same offset in the next block
        distance = size * output.batches
        below_direction = 1
    for block in range(block, last + 1):
        find_anchor(lattice, &exact, &anchor, span, block, False, work.evaluation)
        nearest, farthest = half, 0
        anchor_row = block * size - offset
        offset_span(anchor_row, rows, half, &nearest, &farthest)
        for j in range(nearest, farthest + 1):
            if not rows_at_offset(anchor_row, j, rows, half, index):
                continue
            above, below = index[0], index[1]
            by = fine_offset(lattice, j)
            if at_once:
                add_two_rows(&anchor, &by, output, above, below, above + distance, below + below_direction * distance,
                             n, <float*>work.rows)
                continue
            rotate_two[rdouble](anchor.value, anchor.quadrature, by.cosine, by.sine, work.rows, work.rows + stride, n)
            for b in range(output.batches):
                # Prefetch for the sum that comes `distance` sums later. The rows above and below are added to all
                # batches before the next two rows are computed.
                batch = (b + distance) % output.batches
                ahead = (b + distance) // output.batches
                if above >= 0:
                    add_into(output, above, b, work.rows, NULL, n, above + ahead, batch, work.rounding)
                if below >= 0:
                    add_into(output, below, b, work.rows + stride, NULL, n, below + below_direction * ahead, batch,
                             work.rounding)
    if output.stream:
        stream_end()


# ---- tables ----------------------------------------------------------------------------------------------------------


cdef inline void write_blocks(const CLattice* lattice, const Anchor* anchor1, const Anchor* anchor2,
                              const Output* output, Py_ssize_t rows, Py_ssize_t row1, Py_ssize_t row2, bint both,
                              const TableWork* work) noexcept nogil:
    """Write the rows of one block, or of two blocks if both is true. Rows that are not in the table are left out.

    row1 and row2 are the indices of the anchors' rows, counted from the first row of the table. An anchor's row may lie
    before or behind the table.
    """
    cdef Py_ssize_t n = lattice.plan.width, half = <Py_ssize_t>1 << lattice.block_bits >> 1
    cdef Py_ssize_t nearest = half, farthest = 0, j_step = 1, j, k
    cdef bint any_row, direct = not output.stream and (output.type == FLOAT64 or output.type == FLOAT32)
    # whether one loop can write two whole blocks; past the cache, only if rows are whole lines without gaps
    cdef bint runs = output.type == FLOAT32 and both and half <= row1 and row2 + half <= rows and (
        direct or output.row == 4 * n and output.row % LINE_BYTES == 0)
    cdef Offset by
    cdef OffsetRows targets
    offset_span(row1, rows, half, &nearest, &farthest)
    if both:
        offset_span(row2, rows, half, &nearest, &farthest)
    if runs:
        if direct:
            write_run(lattice, anchor1, anchor2, output, row1, row2)
        else:
            stream_run(lattice, anchor1, anchor2, output, row1, row2, work.tiles)
        # only the anchors' rows and the rows half a block away remain
        j_step = half
    # Cython compiles a range with a variable step to a slow loop
    j = nearest - j_step
    while j < farthest:
        j += j_step
        any_row = rows_at_offset(row1, j, rows, half, targets.index)
        targets.index[2] = targets.index[3] = -1
        if both and rows_at_offset(row2, j, rows, half, targets.index + 2):
            any_row = True
        if not any_row:
            continue
        for k in range(4):
            targets.to[k] = (output.out + targets.index[k] * output.row if targets.index[k] >= 0
                             else <char*>work.discard[k])
        if output.stream:
            prefetch_shared_lines(output, targets.index[0], targets.index[1])
            prefetch_shared_lines(output, targets.index[2], targets.index[3])
        by = fine_offset(lattice, j)
        if direct:
            write_direct(anchor1, anchor2, &by, &targets, output.type, n)
        elif output.type == FLOAT32 and same_alignment(&targets, 0) and (not both or same_alignment(&targets, 2)):
            write_streamed(anchor1, &by, <char*>targets.to[0], <char*>targets.to[1], n, <float*>work.tiles, NULL,
                           True, True)
            if both:
                write_streamed(anchor2, &by, <char*>targets.to[2], <char*>targets.to[3], n, <float*>work.tiles,
                               NULL, True, True)
        else:
            write_buffered(anchor1, anchor2, &by, &targets, output, n, work.tiles)


cdef inline void table(const CLattice* lattice, int64_t span, Py_ssize_t offset, Py_ssize_t rows, const Output* output,
                       double* scratch) noexcept nogil:
    """Write rows of consecutive integers from span * 2**span_bits + offset on, or scale * x + these rows."""
    if output.x != NULL:
        add_table(lattice, span, offset, rows, output, scratch)
        return
    cdef Py_ssize_t stride = lattice.stride, size = 1 << lattice.block_bits
    cdef Py_ssize_t half = size >> 1
    cdef Py_ssize_t block1 = (offset + half) >> lattice.block_bits
    cdef Py_ssize_t last = (offset + rows - 1 + half) >> lattice.block_bits
    cdef Py_ssize_t block2 = block1 + 1
    cdef bint both = block1 < last, double_double = output.type == FLOAT64
    cdef Anchor exact, anchor1, anchor2
    cdef TableWork work
    lay_out_table(lattice, &work, scratch)
    init_anchor(&anchor1, work.anchor1, stride)
    init_anchor(&anchor2, work.anchor2, stride)
    init_anchor(&exact, work.exact, stride)
    # blocks are written in pairs; the first and the last form a pair if the table has at most half of each
    if both and offset >= block1 * size and offset + rows <= last * size:
        block2 = last
        last -= 1
    while block1 <= last:
        find_anchor(lattice, &exact, &anchor1, span, block1, double_double, work.evaluation)
        if both:
            find_anchor(lattice, &exact, &anchor2, span, block2, double_double, work.evaluation)
        write_blocks(lattice, &anchor1, &anchor2 if both else &anchor1, output, rows, block1 * size - offset,
                     block2 * size - offset, both, &work)
        block1 += 2 if block2 == block1 + 1 else 1
        block2 = block1 + 1
        both = block2 <= last
    if output.stream:
        stream_end()


# ---- rows in any order -----------------------------------------------------------------------------------------------


cdef inline void rows_in_any_order(const CLattice* lattice, const int64_t* spans, const int32_t* offsets,
                                   Py_ssize_t rows, const Output* output, double* scratch) noexcept nogil:
    """Write rows of integers, or scale * x + rows. Each integer is given by a span and an offset in the span."""
    cdef Py_ssize_t n = lattice.plan.width, stride = lattice.stride, i, j, k, b, block, first = 0
    cdef Py_ssize_t pass_rows, next_k, batch
    cdef Py_ssize_t half = (1 << lattice.block_bits) >> 1
    cdef bint double_double = output.type == FLOAT64
    cdef Py_ssize_t distance = prefetch_rows(output, n) if output.x == output.out and not double_double else 1
    cdef double sign
    cdef Offset by
    cdef Anchor exact, anchor
    cdef double* high
    cdef RowsWork work
    lay_out_rows(lattice, output, rows, &work, scratch)
    init_anchor(&anchor, work.anchor, stride)
    init_anchor(&exact, work.exact, stride)
    while first < rows:
        pass_rows = min(work.pass_rows, rows - first)
        for k in range(pass_rows):
            i = first + k
            high = work.rows + k * 2 * stride
            block = (offsets[i] + half) >> lattice.block_bits
            j = offsets[i] - (block << lattice.block_bits)
            sign = 1.0 if j >= 0 else -1.0
            find_anchor(lattice, &exact, &anchor, spans[i], block, double_double, work.evaluation)
            by = fine_offset(lattice, j if j >= 0 else -j)
            if double_double:
                rotate_row_dd(anchor.value, anchor.value_low, anchor.quadrature, anchor.quadrature_low, by.cosine,
                              by.cosine_low, by.sine, by.sine_low, sign, high, high + stride, n)
            else:
                rotate_row(anchor.value, anchor.quadrature, by.cosine, by.sine, sign, high, n)
        if output.x == NULL:
            round_into(output, first, work.rows, work.rows + stride, n, work.rounding)
        else:
            for b in range(output.batches):
                for k in range(pass_rows):
                    # Prefetch the row that is added `distance` rows later. All rows of a pass are added to one batch
                    # after another. Then come the rows of the next pass.
                    batch = b + (k + distance) // pass_rows
                    next_k = (k + distance) % pass_rows + batch // output.batches * pass_rows
                    high = work.rows + k * 2 * stride
                    add_into(output, first + k, b, high, high + stride, n, first + next_k, batch % output.batches,
                             work.rounding)
        first += pass_rows
    if output.stream:
        stream_end()
