# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rotation of pairs, for rotary encodings: compiled once for each instruction-set level, as ``_loops.pyx`` is.

The pairs of a row are turned by one angle each, in doubles and rounded once, in place or on the way to where the row
belongs. Cosines and sines come from ``_loops.pyx``, for some rows at a time, and serve all batches and heads.
"""

from posenc cimport (
    FLOAT16, FLOAT32, FLOAT64, HALF, INTERLEAVED, SEPARATED, CLevel, CRotation, crdouble, crfloat,
    from_bfloat, from_half, oddfloat, prefetch, rdouble, rfloat, roddfloat, rwidebfloat, to_bfloat, to_half, to_odd,
    to_wide_bfloat, widebfloat,
)
from libc.stdint cimport uint16_t
from libc.string cimport memcpy

cdef enum:
    NEAR = 1 << 11  # angles

ctypedef fused turned:
    rdouble
    rfloat

ctypedef fused plain:
    double
    float


cdef inline void turn_pairs(const plain* first, const plain* second, Py_ssize_t step, plain* out_first,
                            plain* out_second, Py_ssize_t out_step, crdouble cosine, crdouble sine,
                            Py_ssize_t n) noexcept nogil:
    """The steps from pair to pair are known where this is inlined: 1 for halves, 2 for neighbours."""
    cdef Py_ssize_t j
    cdef double a, b
    for j in range(n):
        a = first[step * j]
        b = second[step * j]
        out_first[out_step * j] = <plain>(a * cosine[j] - b * sine[j])
        out_second[out_step * j] = <plain>(b * cosine[j] + a * sine[j])


# What is the same memory and what is not is said here, and most heads have 128 values: a loop of known length has no
# ends to look after. A row goes to where it belongs at once: one that was copied there first, and then turned, would
# wait for its own stores.


cdef void halves_within(turned first, turned second, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(first, second, 1, first, second, 1, cosine, sine, 64)
    else:
        turn_pairs(first, second, 1, first, second, 1, cosine, sine, n)


cdef void halves_across(turned first, turned second, turned out_first, turned out_second, crdouble cosine,
                        crdouble sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(first, second, 1, out_first, out_second, 1, cosine, sine, 64)
    else:
        turn_pairs(first, second, 1, out_first, out_second, 1, cosine, sine, n)


cdef void neighbours_within(turned row, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(row, row + 1, 2, row, row + 1, 2, cosine, sine, 64)
    else:
        turn_pairs(row, row + 1, 2, row, row + 1, 2, cosine, sine, n)


cdef void neighbours_across(turned row, turned out, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(row, row + 1, 2, out, out + 1, 2, cosine, sine, 64)
    else:
        turn_pairs(row, row + 1, 2, out, out + 1, 2, cosine, sine, n)


cdef void separated_across(turned row, turned out_first, turned out_second, crdouble cosine, crdouble sine,
                           Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(row, row + 1, 2, out_first, out_second, 1, cosine, sine, 64)
    else:
        turn_pairs(row, row + 1, 2, out_first, out_second, 1, cosine, sine, n)


cdef inline void turn(int layout, turned row, turned out, const double* cosine, const double* sine,
                      Py_ssize_t n) noexcept nogil:
    """row may be out, but not for pairs that are separated."""
    if layout == HALF and row == out:
        halves_within[turned](row, row + n, cosine, sine, n)
    elif layout == HALF:
        halves_across[turned](row, row + n, out, out + n, cosine, sine, n)
    elif layout == INTERLEAVED and row == out:
        neighbours_within[turned](row, cosine, sine, n)
    elif layout == INTERLEAVED:
        neighbours_across[turned](row, out, cosine, sine, n)
    else:
        separated_across[turned](row, out, out + n, cosine, sine, n)


cdef void widen(crfloat row, rdouble out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = row[j]


cdef void to_odds(crdouble row, roddfloat out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = to_odd(row[j])


cdef void to_floats(crdouble row, rfloat out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = <float>row[j]


cdef void to_wide_bfloats(crdouble row, rwidebfloat out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = to_wide_bfloat(row[j])


cdef void turn_narrow(int type, int layout, const uint16_t* row, uint16_t* out, const double* cosine,
                      const double* sine, Py_ssize_t n, double* scratch) noexcept nogil:
    """A row of 16-bit floats. scratch: 5 * n doubles."""
    cdef void* narrow = scratch + 2 * n
    cdef double* turned_row = scratch + 3 * n if layout == SEPARATED else scratch
    if type == FLOAT16:
        from_half(row, <float*>narrow, 2 * n)
    else:
        from_bfloat(row, <float*>narrow, 2 * n)
    widen(<float*>narrow, scratch, 2 * n)
    turn[rdouble](layout, scratch, turned_row, cosine, sine, n)
    if type == FLOAT16:
        to_odds(turned_row, <oddfloat*>narrow, 2 * n)
        to_half(<oddfloat*>narrow, out, 2 * n)
    else:
        to_floats(turned_row, <float*>narrow, 2 * n)
        if to_bfloat(narrow, out, 2 * n):
            to_wide_bfloats(turned_row, <widebfloat*>narrow, 2 * n)
            to_bfloat(narrow, out, 2 * n)


cdef void rotate_row(const CRotation* r, const char* x, char* out, const double* cosine,
                     double* scratch) noexcept nogil:
    cdef const double* sine = cosine + r.pairs
    cdef Py_ssize_t size = 8 if r.type == FLOAT64 else 4 if r.type == FLOAT32 else 2
    cdef Py_ssize_t turning = 2 * r.pairs * size
    if x != out and r.width > 2 * r.pairs:
        memcpy(out + turning, x + turning, r.width * size - turning)
    if x == out and size > 2 and r.layout == SEPARATED:
        memcpy(scratch, x, turning)
        x = <char*>scratch
    if r.type == FLOAT64:
        turn[rdouble](r.layout, <double*>x, <double*>out, cosine, sine, r.pairs)
    elif r.type == FLOAT32:
        turn[rfloat](r.layout, <float*>x, <float*>out, cosine, sine, r.pairs)
    else:
        turn_narrow(r.type, r.layout, <const uint16_t*>x, <uint16_t*>out, cosine, sine, r.pairs, scratch)


cdef void rotate(const CRotation* r, double* scratch) noexcept nogil:
    """Every row of (groups, batches, heads, rows), by the angles of its group and row. scratch: 5 * pairs doubles."""
    cdef Py_ssize_t g, b, i, j, h, s, first
    cdef Py_ssize_t heads = r.shape[2], rows = r.shape[3]
    # whichever lie closer together are taken one after the other
    cdef bint heads_inside = heads > 1 and (rows == 1 or r.out_strides[2] < r.out_strides[3])
    cdef Py_ssize_t inner = r.out_strides[2] if heads_inside else r.out_strides[3]
    cdef Py_ssize_t x_inner = r.x_strides[2] if heads_inside else r.x_strides[3]
    cdef Py_ssize_t size = 8 if r.type == FLOAT64 else 4 if r.type == FLOAT32 else 2
    # so many rows of angles stay in the first-level cache for all heads
    cdef Py_ssize_t many = max(<Py_ssize_t>1, NEAR // (2 * r.pairs)), end
    cdef const char* x
    cdef char* out
    for g in range(r.shape[0]):
        for b in range(r.shape[1]):
            first = 0
            while first < rows:
                end = min(first + many, rows)
                for i in range(end - first if heads_inside else heads):
                    for j in range(heads if heads_inside else end - first):
                        h = j if heads_inside else i
                        s = first + (i if heads_inside else j)
                        x = (r.x + g * r.x_strides[0] + b * r.x_strides[1] + h * r.x_strides[2] + s * r.x_strides[3])
                        out = (r.out + g * r.out_strides[0] + b * r.out_strides[1] + h * r.out_strides[2]
                               + s * r.out_strides[3])
                        prefetch(out + 16 * inner, r.width * size)
                        if x != out:
                            prefetch(x + 16 * x_inner, r.width * size)
                        rotate_row(r, x, out, r.angles + (g * rows + s) * 2 * r.pairs, scratch)
                first = end


cdef public void fill_level "POSENC_DOOR"(CLevel* level) noexcept nogil:
    level.rotate = rotate
