# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rotation of pairs, for rotary encodings: compiled once for each instruction-set level, as ``_loops.pyx`` is.

A row is turned in place, its pairs by one angle each, in doubles and rounded once; where it has to end up elsewhere
it is copied first. Cosines and sines come from ``_loops.pyx``, for some rows at a time, and
serve all batches and heads.
"""

from posenc cimport (
    FLOAT16, FLOAT32, FLOAT64, HALF, INTERLEAVED, CLevel, CRotation, crdouble, crfloat, fma, from_bfloat,
    from_half, oddfloat, prefetch, rdouble, rfloat, roddfloat, to_bfloat, to_half, to_odd,
)
from libc.stdint cimport uint16_t
from libc.string cimport memcpy

cdef enum:
    NEAR = 1 << 11  # angles

ctypedef fused turned:
    rdouble
    rfloat

ctypedef fused value_type:
    double
    float
    uint16_t


cdef inline void turn_halves(turned first, turned second, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double a, b
    for j in range(n):
        a = first[j]
        b = second[j]
        if turned is rfloat:
            first[j] = <float>fma(a, cosine[j], -(b * sine[j]))
            second[j] = <float>fma(b, cosine[j], a * sine[j])
        else:
            first[j] = fma(a, cosine[j], -(b * sine[j]))
            second[j] = fma(b, cosine[j], a * sine[j])


cdef inline void turn_neighbours(turned row, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double a, b
    for j in range(n):
        a = row[2 * j]
        b = row[2 * j + 1]
        if turned is rfloat:
            row[2 * j] = <float>fma(a, cosine[j], -(b * sine[j]))
            row[2 * j + 1] = <float>fma(b, cosine[j], a * sine[j])
        else:
            row[2 * j] = fma(a, cosine[j], -(b * sine[j]))
            row[2 * j + 1] = fma(b, cosine[j], a * sine[j])


cdef void turn_any_halves(turned first, turned second, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    turn_halves[turned](first, second, cosine, sine, n)


cdef void turn_64_halves(turned first, turned second, crdouble cosine, crdouble sine) noexcept nogil:
    turn_halves[turned](first, second, cosine, sine, 64)


cdef void turn_any_neighbours(turned row, crdouble cosine, crdouble sine, Py_ssize_t n) noexcept nogil:
    turn_neighbours[turned](row, cosine, sine, n)


cdef void turn_64_neighbours(turned row, crdouble cosine, crdouble sine) noexcept nogil:
    turn_neighbours[turned](row, cosine, sine, 64)


cdef inline void turn(int layout, turned row, const double* cosine, const double* sine, Py_ssize_t n) noexcept nogil:
    # most heads have 128 values, and a loop of known length has no ends to look after
    if layout == INTERLEAVED:
        if n == 64:
            turn_64_neighbours[turned](row, cosine, sine)
        else:
            turn_any_neighbours[turned](row, cosine, sine, n)
    elif n == 64:
        turn_64_halves[turned](row, row + n, cosine, sine)
    else:
        turn_any_halves[turned](row, row + n, cosine, sine, n)


cdef void separate(const value_type* row, value_type* out, Py_ssize_t n) noexcept nogil:
    """Firsts of all pairs, then seconds."""
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = row[2 * j]
    for j in range(n):
        out[n + j] = row[2 * j + 1]


cdef void widen(crfloat row, rdouble out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = row[j]


cdef void to_odds(crdouble row, roddfloat out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = to_odd(row[j])


cdef void turn_narrow(int type, int layout, uint16_t* row, const double* cosine, const double* sine, Py_ssize_t n,
                      double* scratch) noexcept nogil:
    """A row of 16-bit floats. scratch: 3 * n doubles."""
    cdef oddfloat* odd = <oddfloat*>(scratch + 2 * n)
    if type == FLOAT16:
        from_half(row, <float*>odd, 2 * n)
    else:
        from_bfloat(row, <float*>odd, 2 * n)
    widen(<float*>odd, scratch, 2 * n)
    turn[rdouble](layout, scratch, cosine, sine, n)
    to_odds(scratch, odd, 2 * n)
    if type == FLOAT16:
        to_half(odd, row, 2 * n)
    else:
        to_bfloat(odd, row, 2 * n)


cdef void bring(const CRotation* r, const char* x, char* out, Py_ssize_t size, char* scratch) noexcept nogil:
    """The row where it has to be, with its pairs as they have to be."""
    cdef Py_ssize_t turned_bytes = 2 * r.pairs * size
    if r.layout == HALF or r.layout == INTERLEAVED:
        if x != out:
            memcpy(out, x, r.width * size)
        return
    if x == out:
        memcpy(scratch, x, turned_bytes)
        x = scratch
    else:
        memcpy(out + turned_bytes, x + turned_bytes, r.width * size - turned_bytes)
    if size == 8:
        separate[double](<const double*>x, <double*>out, r.pairs)
    elif size == 4:
        separate[float](<const float*>x, <float*>out, r.pairs)
    else:
        separate[uint16_t](<const uint16_t*>x, <uint16_t*>out, r.pairs)


cdef void rotate_row(const CRotation* r, const char* x, char* out, const double* cosine,
                     double* scratch) noexcept nogil:
    cdef const double* sine = cosine + r.pairs
    cdef Py_ssize_t size = 8 if r.type == FLOAT64 else 4 if r.type == FLOAT32 else 2
    bring(r, x, out, size, <char*>scratch)
    if r.type == FLOAT64:
        turn[rdouble](r.layout, <double*>out, cosine, sine, r.pairs)
    elif r.type == FLOAT32:
        turn[rfloat](r.layout, <float*>out, cosine, sine, r.pairs)
    else:
        turn_narrow(r.type, r.layout, <uint16_t*>out, cosine, sine, r.pairs, scratch)


cdef void rotate(const CRotation* r, double* scratch) noexcept nogil:
    """Every row of (groups, batches, heads, rows), by the angles of its group and row. scratch: 3 * pairs doubles."""
    cdef Py_ssize_t g, b, i, j, h, s, first = 0
    cdef Py_ssize_t heads = r.shape[2], rows = r.shape[3]
    # whichever lie closer together are taken one after the other
    cdef bint heads_inside = heads > 1 and (rows == 1 or r.out_strides[2] < r.out_strides[3])
    cdef Py_ssize_t inner = r.out_strides[2] if heads_inside else r.out_strides[3]
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
                        rotate_row(r, x, out, r.angles + (g * rows + s) * 2 * r.pairs, scratch)
                first = end


cdef public void fill_level "POSENC_DOOR"(CLevel* level) noexcept nogil:
    level.rotate = rotate
