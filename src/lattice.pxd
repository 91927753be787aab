# cython: cdivision=True
"""Compute rows at integer positions from the row of an *anchor*, an integer nearby, by formulas of angle addition.

Each column of a row is value * cosine + quadrature * sine. The *value* is the column in the anchor's row, and the
*quadrature* is the derivative of this column by the angle. Cosine and sine are those of the angle between anchor and
row. The rows of anchor + offset (*above*) and anchor - offset (*below*) share both products. A *block* is the range of
2^block_bits integers around an anchor. A *span* is a range of 2^span_bits integers. The rows of the anchors in a span
are rotated in the same way, from the row of the span's first integer, which is evaluated directly. The anchor of a
position depends only on the position, so the bits of its row are the same in every table. The largest errors that
``python bench/steps.py`` measures are 2^-50.5 in doubles and 2^-67.0 in double-double (dd).
"""

from libc.stdint cimport int64_t

from columns cimport narrow_row, row_out, store
from compiler cimport crdouble, crfloat, rdouble, rfloat, step
from entry cimport CLattice, CRow
from exact cimport Pair, product, total
from positions cimport evaluate
from work cimport anchor_rows


# ---- anchors and offsets ---------------------------------------------------------------------------------------------


cdef struct Anchor:
    int64_t span
    Py_ssize_t block
    # memory has the anchor's four rows, and the pointers below point to them. For position 0 as the `exact` anchor of
    # `find_anchor`, they point to the rows in lattice.origin instead.
    double* memory
    const double* value
    const double* quadrature
    const double* value_low
    const double* quadrature_low


cdef inline step set_anchor(Anchor* anchor, const double* rows, Py_ssize_t stride) noexcept nogil:
    """Set the pointers of an anchor to its four rows, which are adjacent in memory. `rows` is the first of them."""
    anchor.value, anchor.quadrature = rows, rows + stride
    anchor.value_low, anchor.quadrature_low = rows + 2 * stride, rows + 3 * stride


cdef inline step init_anchor(Anchor* anchor, double* memory, Py_ssize_t stride) noexcept nogil:
    """Initialize an anchor that belongs to no block yet."""
    anchor.memory, anchor.block, anchor.span = memory, -1, 0
    set_anchor(anchor, memory, stride)


# Cosines and sines of all columns at a distance from an anchor. The argument `by` of functions is an Offset.
cdef struct Offset:
    const double* cosine
    const double* sine
    const double* cosine_low
    const double* sine_low


cdef inline Offset offset_at(const double* rows, Py_ssize_t count, Py_ssize_t row, Py_ssize_t stride) noexcept nogil:
    """Return the Offset with index `row` of an array of shape (4, count, stride), or (2, count, stride).

    An array of shape (2, count, stride) has no low parts. The pointers to them are invalid then, and unused.
    """
    cdef Offset offset
    cdef Py_ssize_t plane = count * stride
    rows += row * stride
    offset.cosine, offset.sine = rows, rows + plane
    offset.cosine_low, offset.sine_low = rows + 2 * plane, rows + 3 * plane
    return offset


cdef inline Offset fine_offset(const CLattice* lattice, Py_ssize_t j) noexcept nogil:
    """Return the Offset of rows at distance j from an anchor. j is at most half a block."""
    return offset_at(lattice.fine, (<Py_ssize_t>1 << lattice.block_bits >> 1) + 1, j, lattice.stride)


cdef inline void evaluate_anchor(const CLattice* lattice, double* memory, int64_t span, double* scratch) noexcept nogil:
    """Compute value and quadrature of the anchor at the int64 position span * 2**span_bits, without rotation.

    memory gets four rows: value, quadrature, and the low parts of both.
    """
    cdef CRow two_rows[2]
    cdef int shift = 32 - lattice.span_bits  # 2**32 integers are 2**shift spans
    # position / 2**32, rounded to the nearest integer: small positions of both signs then have a small remainder
    cdef int64_t multiple = (span + (<int64_t>1 << (shift - 1))) >> shift
    cdef double[3] position  # axes as in `Lattice`: `multiple`, the remainder, and 1 for phases
    position[0] = <double>multiple
    # multiply by powers of 2, because a left shift of a negative number is undefined in C
    position[1] = <double>((span - multiple * (<int64_t>1 << shift)) * (<int64_t>1 << lattice.span_bits))
    position[2] = 1.0
    anchor_rows(lattice, memory, two_rows)
    evaluate(lattice.plan, position, two_rows, scratch)


cdef inline void rotate_row(crdouble v, crdouble q, crdouble cosine, crdouble sine, double sign, rdouble out,
                            Py_ssize_t n) noexcept nogil:
    """Compute v * cosine + sign * q * sine, where v and q are value and quadrature of an anchor, in either order.

    Functions below that compute in doubles use the same operations, and so compute the same bits.
    """
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = v[c] * cosine[c] + sign * (q[c] * sine[c])


cdef inline void rotate_row_dd(crdouble v, crdouble v_low, crdouble q, crdouble q_low, crdouble cosine,
                               crdouble cosine_low, crdouble sine, crdouble sine_low, double sign, rdouble out,
                               rdouble out_low, Py_ssize_t n) noexcept nogil:
    """Do the same as `rotate_row` in double-double."""
    cdef Py_ssize_t c
    cdef Pair a, b
    for c in range(n):
        a = product(Pair(v[c], v_low[c]), Pair(cosine[c], cosine_low[c]))
        b = product(Pair(q[c], q_low[c]), Pair(sine[c], sine_low[c]))
        a = total(a, Pair(sign * b.high, sign * b.low))
        out[c], out_low[c] = a.high, a.low


cdef inline void rotate_anchor(const Anchor* from_, Anchor* to, const Offset* by, Py_ssize_t stride, Py_ssize_t n,
                               bint double_double) noexcept nogil:
    cdef double* rows = to.memory
    if not double_double:
        rotate_row(from_.value, from_.quadrature, by.cosine, by.sine, 1.0, rows, n)
        rotate_row(from_.quadrature, from_.value, by.cosine, by.sine, -1.0, rows + stride, n)
        return
    rotate_row_dd(from_.value, from_.value_low, from_.quadrature, from_.quadrature_low, by.cosine, by.cosine_low,
                  by.sine, by.sine_low, 1.0, rows, rows + 2 * stride, n)
    rotate_row_dd(from_.quadrature, from_.quadrature_low, from_.value, from_.value_low, by.cosine, by.cosine_low,
                  by.sine, by.sine_low, -1.0, rows + stride, rows + 3 * stride, n)


cdef inline void find_anchor(const CLattice* lattice, Anchor* exact, Anchor* anchor, int64_t span, Py_ssize_t block,
                             bint double_double, double* scratch) noexcept nogil:
    """Compute the anchor of a block, unless `anchor` is already the anchor of this block.

    block is counted from the start of the span, and may lie past the end of the span. `exact` becomes the first anchor
    of the span in which the block lies, unless nothing is computed.
    """
    cdef int bits = lattice.span_bits - lattice.block_bits  # a span has 2**bits blocks
    cdef Offset by
    span += block >> bits
    block &= (1 << bits) - 1
    if anchor.block == block and anchor.span == span:
        return
    if exact.block != 0 or exact.span != span:
        if span == 0:
            set_anchor(exact, lattice.origin, lattice.stride)
        else:
            set_anchor(exact, exact.memory, lattice.stride)
            evaluate_anchor(lattice, exact.memory, span, scratch)
        exact.span, exact.block = span, 0
    by = offset_at(lattice.coarse, <Py_ssize_t>1 << bits, block, lattice.stride)
    rotate_anchor(exact, anchor, &by, lattice.stride, lattice.plan.width, double_double)
    anchor.span, anchor.block = span, block


# ---- rows at one offset: two (above and below an anchor), four (of two anchors), or the outer two of the four --------
# The row above is at anchor + offset, and the row below is at anchor - offset. v and q are value and quadrature of an
# anchor.


cdef inline void rotate_two(crdouble v, crdouble q, crdouble cosine, crdouble sine, row_out above, row_out below,
                            Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        store[row_out](above, c, a + b)
        store[row_out](below, c, a - b)


cdef inline void rotate_four(crdouble v1, crdouble q1, crdouble v2, crdouble q2, crdouble cosine, crdouble sine,
                             narrow_row above1, narrow_row below1, narrow_row above2, narrow_row below2,
                             Py_ssize_t n) noexcept nogil:
    """Compute the rows above and below each of two anchors, in one pass over cosine and sine."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v1[c] * cosine[c]
        b = q1[c] * sine[c]
        store[narrow_row](above1, c, a + b)
        store[narrow_row](below1, c, a - b)
        a = v2[c] * cosine[c]
        b = q2[c] * sine[c]
        store[narrow_row](above2, c, a + b)
        store[narrow_row](below2, c, a - b)


cdef inline void rotate_outer(crdouble v1, crdouble q1, crdouble v2, crdouble q2, crdouble cosine, crdouble sine,
                              narrow_row above1, narrow_row below2, Py_ssize_t n) noexcept nogil:
    """Compute the row above anchor 1 and the row below anchor 2.

    This is for a first block whose lower half is not in the table, and a last block whose upper half is not.
    """
    cdef Py_ssize_t c
    for c in range(n):
        store[narrow_row](above1, c, v1[c] * cosine[c] + q1[c] * sine[c])
        store[narrow_row](below2, c, v2[c] * cosine[c] - q2[c] * sine[c])


cdef inline void rotate_two_dd(crdouble v, crdouble v_low, crdouble q, crdouble q_low, crdouble cosine,
                               crdouble cosine_low, crdouble sine, crdouble sine_low, rdouble above, rdouble below,
                               Py_ssize_t n) noexcept nogil:
    """Compute the rows above and below an anchor in double-double, and round them."""
    cdef Py_ssize_t c
    cdef Pair a, b
    for c in range(n):
        a = product(Pair(v[c], v_low[c]), Pair(cosine[c], cosine_low[c]))
        b = product(Pair(q[c], q_low[c]), Pair(sine[c], sine_low[c]))
        above[c] = total(a, b).high
        below[c] = total(a, Pair(-b.high, -b.low)).high


cdef inline void rotate_two_add_in_place(crdouble v, crdouble q, crdouble cosine, crdouble sine, double scale,
                                         rfloat above, rfloat below, Py_ssize_t n) noexcept nogil:
    """Replace the values in above and below by scale * value + the row above or below the anchor."""
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        above[c] = <float>(scale * <double>above[c] + (a + b))
        below[c] = <float>(scale * <double>below[c] + (a - b))


cdef inline void rotate_two_add(crdouble v, crdouble q, crdouble cosine, crdouble sine, double scale, crfloat x_above,
                                crfloat x_below, rfloat above, rfloat below, Py_ssize_t n) noexcept nogil:
    """Write scale * x + row for the rows above and below the anchor. x does not share memory with the result.

    This function is separate from `rotate_two_add_in_place`, because a common function would test at run time which
    arrays overlap.
    """
    cdef Py_ssize_t c
    cdef double a, b
    for c in range(n):
        a = v[c] * cosine[c]
        b = q[c] * sine[c]
        above[c] = <float>(scale * <double>x_above[c] + (a + b))
        below[c] = <float>(scale * <double>x_below[c] + (a - b))


# ---- which rows a table has. `anchor` is the index of the anchor's row, and may lie outside of the table -------------


cdef inline step offset_span(Py_ssize_t anchor, Py_ssize_t rows, Py_ssize_t half, Py_ssize_t* nearest,
                             Py_ssize_t* farthest) noexcept nogil:
    """Lower nearest and raise farthest, so that they enclose the distances from an anchor to rows of its block.

    Only rows in the table count. half is half the number of rows in a block.
    """
    nearest[0] = min(nearest[0], max(<Py_ssize_t>0, max(-anchor, anchor - rows + 1)))
    farthest[0] = max(farthest[0], min(half, max(anchor, rows - 1 - anchor)))


cdef inline bint rows_at_offset(Py_ssize_t anchor, Py_ssize_t j, Py_ssize_t rows, Py_ssize_t half,
                                Py_ssize_t* index) noexcept nogil:
    """Set index to the indices of the rows j above and j below an anchor, or to -1 for rows that are not in the table.

    Return whether at least one of the two rows is in the table. Each row of a table is written once. So for j = 0, the
    anchor's row counts as the row above, and there is no row below. For j = half, there is only the row below, because
    the row above belongs to the next block.
    """
    cdef Py_ssize_t above = anchor + j, below = anchor - j
    index[0] = above if j < half and 0 <= above < rows else -1
    index[1] = below if j > 0 and 0 <= below < rows else -1
    return index[0] >= 0 or index[1] >= 0
