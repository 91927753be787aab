# Included by _loops.pyx: integer positions, whose rows are rotated from those of anchors.

cdef struct Anchor:
    int64_t span
    Py_ssize_t block
    double* room  # its own memory, four rows; what is read may be elsewhere
    const double* value
    const double* quadrature
    const double* value_low
    const double* quadrature_low


cdef inline void show(Anchor* anchor, const double* rows, Py_ssize_t stride) noexcept nogil:
    """Let an anchor be these four rows."""
    anchor.value, anchor.quadrature = rows, rows + stride
    anchor.value_low, anchor.quadrature_low = rows + 2 * stride, rows + 3 * stride


cdef inline void begin(Anchor* anchor, double* room, Py_ssize_t stride) noexcept nogil:
    """An anchor of no block yet."""
    anchor.room, anchor.block = room, -1
    show(anchor, room, stride)


cdef struct Offset:
    const double* cosine
    const double* sine
    const double* cosine_low
    const double* sine_low


cdef inline Offset offset_at(const double* rows, Py_ssize_t count, Py_ssize_t row, Py_ssize_t stride) noexcept nogil:
    """One of count rows, each in four parts: (4, count, stride)."""
    cdef Offset offset
    cdef Py_ssize_t plane = count * stride
    rows += row * stride
    offset.cosine, offset.sine = rows, rows + plane
    offset.cosine_low, offset.sine_low = rows + 2 * plane, rows + 3 * plane
    return offset


cdef void exact_anchor(const CLattice* lattice, double* room, int64_t span, double* scratch) noexcept nogil:
    """Values and quadratures at span * 2**span_bits, an integer of up to 64 bits."""
    cdef CRow two[2]
    cdef int shift = 32 - lattice.span_bits
    # the nearest multiple of 2**32, so that what is left is small where the position is, on both sides of zero
    cdef int64_t multiple = (span + (<int64_t>1 << (shift - 1))) >> shift
    cdef double[3] position
    position[0] = <double>multiple
    # no shift to the left: of a negative number it has no meaning in C
    position[1] = <double>((span - multiple * (<int64_t>1 << shift)) * (<int64_t>1 << lattice.span_bits))
    position[2] = 1.0
    anchor_rows(lattice, room, two)
    evaluate(lattice.plan, position, two, scratch)


cdef inline double product(double a, double a_low, double b, double b_low, double* low) noexcept nogil:
    cdef double p = a * b
    low[0] = product_error(a, b, p) + (a * b_low + a_low * b)
    return p


cdef inline double total(double a, double a_low, double b, double b_low, double* low) noexcept nogil:
    cdef double e
    cdef double s = two_sum(a, b, &e)
    cdef double r
    e += a_low + b_low
    r = s + e
    low[0] = e - (r - s)
    return r


cdef void rotate_row(crdouble v, crdouble q, crdouble cosine, crdouble sine, double sign, rdouble out,
                     Py_ssize_t n) noexcept nogil:
    """v * cosine + sign * q * sine: the operations of all rows in doubles, so that they have the same bits."""
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = v[c] * cosine[c] + sign * (q[c] * sine[c])


cdef void rotate_accurate(crdouble v, crdouble v_low, crdouble q, crdouble q_low, crdouble cosine, crdouble cosine_low,
                          crdouble sine, crdouble sine_low, double sign, rdouble out, rdouble out_low,
                          Py_ssize_t n) noexcept nogil:
    """The same of sums of two doubles."""
    cdef Py_ssize_t c
    cdef double a, b, a_low, b_low, low
    for c in range(n):
        a = product(v[c], v_low[c], cosine[c], cosine_low[c], &a_low)
        b = product(q[c], q_low[c], sine[c], sine_low[c], &b_low)
        out[c] = total(a, a_low, sign * b, sign * b_low, &low)
        out_low[c] = low


cdef void rotate_anchor(const Anchor* from_, Anchor* to, const Offset* by, Py_ssize_t stride, Py_ssize_t n,
                        bint wide) noexcept nogil:
    cdef double* room = to.room
    if not wide:
        rotate_row(from_.value, from_.quadrature, by.cosine, by.sine, 1.0, room, n)
        rotate_row(from_.quadrature, from_.value, by.cosine, by.sine, -1.0, room + stride, n)
        return
    rotate_accurate(from_.value, from_.value_low, from_.quadrature, from_.quadrature_low, by.cosine, by.cosine_low,
                    by.sine, by.sine_low, 1.0, room, room + 2 * stride, n)
    rotate_accurate(from_.quadrature, from_.quadrature_low, from_.value, from_.value_low, by.cosine, by.cosine_low,
                    by.sine, by.sine_low, -1.0, room + stride, room + 3 * stride, n)


cdef void find_anchor(const CLattice* lattice, Anchor* exact, Anchor* anchor, int64_t span, Py_ssize_t block,
                      bint wide, double* scratch) noexcept nogil:
    """The anchor of a block, counted from the start of a span (and perhaps beyond its end)."""
    cdef int bits_ = lattice.span_bits - lattice.block_bits
    cdef Offset by
    span += block >> bits_
    block &= (1 << bits_) - 1
    if anchor.block == block and anchor.span == span:
        return
    if exact.block != 0 or exact.span != span:
        if span == 0:
            show(exact, lattice.origin, lattice.stride)
        else:
            show(exact, exact.room, lattice.stride)
            exact_anchor(lattice, exact.room, span, scratch)
        exact.span, exact.block = span, 0
    by = offset_at(lattice.coarse, <Py_ssize_t>1 << bits_, block, lattice.stride)
    rotate_anchor(exact, anchor, &by, lattice.stride, lattice.plan.width, wide)
    anchor.span, anchor.block = span, block


cdef void rotate_pairs(crdouble v, crdouble q, crdouble v2, crdouble q2, crdouble cosine, crdouble sine,
                       narrow_row above, narrow_row below, narrow_row above2, narrow_row below2,
                       Py_ssize_t n) noexcept nogil:
    """The rows at one offset above and below two anchors: four rows for one pass over the offset's."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        store[narrow_row](above, c, a + b)
        store[narrow_row](below, c, a - b)
        a = v2[c] * cosine[c]
        b = q2[c] * sine[c]
        store[narrow_row](above2, c, a + b)
        store[narrow_row](below2, c, a - b)


cdef void rotate_pair(crdouble v, crdouble q, crdouble cosine, crdouble sine, row_out above, row_out below,
                      Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        store[row_out](above, c, a + b)
        store[row_out](below, c, a - b)


cdef void rotate_pair_add(crdouble v, crdouble q, crdouble cosine, crdouble sine, double scale, rfloat above,
                          rfloat below, Py_ssize_t n) noexcept nogil:
    """scale * what is there + the rows at one offset above and below an anchor."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        above[c] = <float>(scale * <double>above[c] + (a + b))
        below[c] = <float>(scale * <double>below[c] + (a - b))


cdef void rotate_pair_sum(crdouble v, crdouble q, crdouble cosine, crdouble sine, double scale, crfloat x_above,
                          crfloat x_below, rfloat above, rfloat below, Py_ssize_t n) noexcept nogil:
    """The same, of what is elsewhere: written out, as a body that both inline has to ask at run time what overlaps."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        above[c] = <float>(scale * <double>x_above[c] + (a + b))
        below[c] = <float>(scale * <double>x_below[c] + (a - b))


cdef void rotate_pair_accurate(crdouble v, crdouble v_low, crdouble q, crdouble q_low, crdouble cosine,
                               crdouble cosine_low, crdouble sine, crdouble sine_low, rdouble above, rdouble below,
                               Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double a, b, a_low, b_low, low
    for c in range(n):
        a = product(v[c], v_low[c], cosine[c], cosine_low[c], &a_low)
        b = product(q[c], q_low[c], sine[c], sine_low[c], &b_low)
        above[c] = total(a, a_low, b, b_low, &low)
        below[c] = total(a, a_low, -b, -b_low, &low)


cdef void rotate_halves(crdouble v, crdouble q, crdouble v2, crdouble q2, crdouble cosine, crdouble sine,
                        narrow_row above, narrow_row below2, Py_ssize_t n) noexcept nogil:
    """The row above one anchor and the row below another, where a table begins and ends with half a block."""
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](above, c, v[c] * cosine[c] + q[c] * sine[c])
        store[narrow_row](below2, c, v2[c] * cosine[c] - q2[c] * sine[c])


cdef struct Rows:
    Py_ssize_t index[4]  # above and below the first anchor, above and below the second; -1 where no row is wanted
    void* to[4]


cdef inline void rotate_narrow(const Anchor* one, const Anchor* two, const Offset* by, const Rows* rows, narrow_row to,
                               Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    cdef const double* cosine = by.cosine + first
    cdef const double* sine = by.sine + first
    if rows.index[1] < 0 and rows.index[2] < 0:
        rotate_halves[narrow_row](one.value + first, one.quadrature + first, two.value + first, two.quadrature + first,
                                  cosine, sine, to, <narrow_row>rows.to[3], n)
    elif rows.index[2] < 0 and rows.index[3] < 0:
        rotate_pair[narrow_row](one.value + first, one.quadrature + first, cosine, sine, to, <narrow_row>rows.to[1], n)
    else:
        rotate_pairs[narrow_row](one.value + first, one.quadrature + first, two.value + first, two.quadrature + first,
                                 cosine, sine, to, <narrow_row>rows.to[1], <narrow_row>rows.to[2],
                                 <narrow_row>rows.to[3], n)


cdef void rotate_run(const CLattice* lattice, const Anchor* one, const Anchor* two, const CSink* sink,
                     Py_ssize_t first, Py_ssize_t second) noexcept nogil:
    """All float32 rows of two blocks that lie less than half a block from the anchors, whose own rows are given.

    Of narrow rows, to ask at each offset what is wanted would take as long as the rows.
    """
    cdef Py_ssize_t n = lattice.plan.width, half = <Py_ssize_t>1 << lattice.block_bits >> 1, j, head
    cdef char* above
    cdef char* below
    cdef char* above2
    cdef char* below2
    cdef Offset by
    for j in range(1, half):
        by = offset_at(lattice.fine, half + 1, j, lattice.stride)
        above, below = sink.out + (first + j) * sink.row, sink.out + (first - j) * sink.row
        above2, below2 = sink.out + (second + j) * sink.row, sink.out + (second - j) * sink.row
        head = head_of(above, 4, n)
        if head:
            rotate_pairs[rfloat](one.value, one.quadrature, two.value, two.quadrature, by.cosine, by.sine,
                                 <float*>above, <float*>below, <float*>above2, <float*>below2, head)
        rotate_pairs[rfloat](one.value + head, one.quadrature + head, two.value + head, two.quadrature + head,
                             by.cosine + head, by.sine + head, <float*>above + head, <float*>below + head,
                             <float*>above2 + head, <float*>below2 + head, n - head)


cdef void rotate(const Anchor* one, const Anchor* two, const Offset* by, const Rows* rows, int type, Py_ssize_t first,
                 Py_ssize_t n) noexcept nogil:
    """Columns first .. first + n of up to four rows at one offset, as `store` makes them for the type."""
    cdef Py_ssize_t k
    cdef const Anchor* anchor
    if type == FLOAT64:
        for k in range(0, 4, 2):
            anchor = two if k else one
            if rows.index[k] >= 0 or rows.index[k + 1] >= 0:
                rotate_pair_accurate(anchor.value + first, anchor.value_low + first, anchor.quadrature + first,
                                     anchor.quadrature_low + first, by.cosine + first, by.cosine_low + first,
                                     by.sine + first, by.sine_low + first, <double*>rows.to[k],
                                     <double*>rows.to[k + 1], n)
    elif type == FLOAT32:
        rotate_narrow[rfloat](one, two, by, rows, <float*>rows.to[0], first, n)
    elif type == FLOAT16:
        rotate_narrow[roddfloat](one, two, by, rows, <oddfloat*>rows.to[0], first, n)
    else:
        rotate_narrow[rwidebfloat](one, two, by, rows, <widebfloat*>rows.to[0], first, n)


cdef bint narrow_rows(const Rows* tile, const CSink* sink, const Flow* to, Py_ssize_t first,
                      Py_ssize_t n) noexcept nogil:
    """Columns first .. first + n, to 16 bits; whether a second rounding of one of them is in doubt."""
    cdef bint doubtful = False
    cdef uint16_t* out
    for k in range(4):
        if tile.index[k] < 0:
            continue
        if sink.stream:
            out = <uint16_t*>(to[k].buffer + to[k].filled)
        else:
            out = <uint16_t*>(sink.out + tile.index[k] * sink.row) + first
        if sink.type == FLOAT16:
            to_half(<oddfloat*>tile.to[k], out, n)
        elif to_bfloat(tile.to[k], out, n):
            doubtful = True
    return doubtful


cdef void rotate_through(const Anchor* one, const Anchor* two, const Offset* by, const Rows* rows, const CSink* sink,
                         Py_ssize_t n, double* scratch) noexcept nogil:
    """The rows at one offset, a few cache lines at a time through buffers: narrowed to 16 bits, or past the cache.

    The work on the next lines overlaps with the memory's on these.
    """
    cdef Py_ssize_t k, m, c = 0, size = size_of(sink.type)
    cdef Rows tile = rows[0]
    cdef Flow to[4]
    cdef bint narrowed = size == 2
    for k in range(4):
        tile.to[k] = scratch + k * TILE
        # a row that is not wanted goes into a buffer and no further
        open_flow(&to[k], sink.out + max(<Py_ssize_t>0, rows.index[k]) * sink.row,
                  scratch + 4 * TILE + k * (TILE + 16))
    while c < n:
        m = min(TILE, n - c)
        if sink.stream and not narrowed and c == 0 and to[0].head:
            # from the next line on, so that vectors are read from a buffer as they were written to it
            m = min(n, (64 - to[0].head) // size)
        if not narrowed:
            for k in range(4):
                tile.to[k] = to[k].buffer + to[k].filled
        rotate(one, two, by, &tile, FLOAT32 if sink.type == BFLOAT16 else sink.type, c, m)
        if narrowed and narrow_rows(&tile, sink, to, c, m):
            rotate(one, two, by, &tile, BFLOAT16, c, m)
            narrow_rows(&tile, sink, to, c, m)
        if sink.stream:
            for k in range(4):
                if rows.index[k] >= 0:
                    to[k].filled += m * size
                    flow(&to[k], c + m == n)
        c += m


cdef inline bint alike(const Rows* rows, Py_ssize_t k) noexcept nogil:
    """Whether the rows above and below an anchor are both wanted, and begin at the same place of a line."""
    return rows.index[k] >= 0 and rows.index[k + 1] >= 0 and not (
        (<uintptr_t>rows.to[k] ^ <uintptr_t>rows.to[k + 1]) & 63)


cdef void rotate_past(const Anchor* anchor, const Offset* by, char* above, char* below, Py_ssize_t n,
                      float* buffer) noexcept nogil:
    """The two float32 rows at one offset past the cache: of the one above whole lines as they are made.

    Lines of both in turn would often lie at the same place of a page, which takes some processors twice as long, so the
    one below waits in the buffer, of TILE columns. What is no whole line is written in the ordinary way.
    """
    cdef Py_ssize_t c = 0, m
    while c < n:
        m = before_line(above, 4)
        if m == 0 and n - c >= 16:
            m = min(<Py_ssize_t>TILE, (n - c) & ~<Py_ssize_t>15)
            rotate_lines(anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, above, buffer, m)
            stream(below, buffer, 4 * m)
        else:
            m = min(m, n - c) if m else n - c
            rotate_pair[rfloat](anchor.value + c, anchor.quadrature + c, by.cosine + c, by.sine + c, <float*>above,
                                <float*>below, m)
        c += m
        above += 4 * m
        below += 4 * m


cdef inline void reach(Py_ssize_t anchor, Py_ssize_t rows, Py_ssize_t half, Py_ssize_t* nearest,
                       Py_ssize_t* farthest) noexcept nogil:
    """Widen the two to how far the wanted rows of a block are from its anchor, whose own row is given."""
    nearest[0] = min(nearest[0], max(<Py_ssize_t>0, max(-anchor, anchor - rows + 1)))
    farthest[0] = max(farthest[0], min(half, max(anchor, rows - 1 - anchor)))


cdef inline bint wanted(Py_ssize_t anchor, Py_ssize_t j, Py_ssize_t rows, Py_ssize_t half,
                        Py_ssize_t* index) noexcept nogil:
    """Which of the rows are j above and j below an anchor, whose own row is given, -1 for none; whether there is one.

    Each row is written once: the anchor's own from above, the one half a block away from below.
    """
    cdef Py_ssize_t above = anchor + j, below = anchor - j
    index[0] = above if j < half and 0 <= above < rows else -1
    index[1] = below if j > 0 and 0 <= below < rows else -1
    return index[0] >= 0 or index[1] >= 0
