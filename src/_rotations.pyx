# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rotation of pairs, for rotary encodings: compiled once for each instruction-set level, as ``_loops.pyx`` is.

The pairs of a row are turned by one angle each and rounded once, in place or on the way to where the row belongs: in
doubles, those of 16-bit floats in floats. Cosines and sines come from ``_loops.pyx``, for some rows at a time, and
serve all batches and heads.
"""

from posenc cimport (
    FLOAT16, FLOAT32, FLOAT64, HALF, INTERLEAVED, SEPARATED, CLevel, CRotation, any_far, bfloat, crdouble, crfloat,
    from_half, oddfloat, prefetch, rbfloat, rdouble, rfloat, set_two_bfloats, to_half, to_nearest_bfloat,
    to_wide_bfloat, two_bfloats, value_of_bfloat,
)
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    NEAR = 1 << 14  # bytes of angles

ctypedef fused turned:
    rdouble
    rfloat
    rbfloat

ctypedef fused plain:
    double
    float
    bfloat

ctypedef fused angles:
    crdouble
    crfloat


cdef inline void turn_pairs(const plain* first, const plain* second, Py_ssize_t step, plain* out_first,
                            plain* out_second, Py_ssize_t out_step, angles cosine, angles sine,
                            Py_ssize_t n) noexcept nogil:
    """The steps from pair to pair are known where this is inlined: 1 for halves, 2 for neighbours.

    What is computed has the type of the angles. Products and sums are written out, the same with and without FMA.
    """
    cdef Py_ssize_t j
    cdef double a, b
    cdef float c, d
    cdef bfloat e, f
    cdef uint32_t both
    for j in range(n):
        if angles is crdouble and plain is not bfloat:
            a = first[step * j]
            b = second[step * j]
            out_first[out_step * j] = <plain>(a * cosine[j] - b * sine[j])
            out_second[out_step * j] = <plain>(b * cosine[j] + a * sine[j])
        elif angles is crfloat:
            if plain is bfloat:
                if step == 2:
                    both = two_bfloats(first + 2 * j)
                    c, d = value_of_bfloat(both), value_of_bfloat(both >> 16)
                else:
                    c, d = value_of_bfloat(first[step * j]), value_of_bfloat(second[step * j])
                e = to_nearest_bfloat(c * cosine[j] - d * sine[j])
                f = to_nearest_bfloat(d * cosine[j] + c * sine[j])
                if out_step == 2:
                    set_two_bfloats(out_first + 2 * j, e, f)
                else:
                    out_first[out_step * j], out_second[out_step * j] = e, f
            else:
                c = <float>first[step * j]
                d = <float>second[step * j]
                out_first[out_step * j] = c * cosine[j] - d * sine[j]
                out_second[out_step * j] = d * cosine[j] + c * sine[j]


# What is the same memory and what is not is said here, and most heads have 128 values: a loop of known length has no
# ends to look after. A row goes to where it belongs at once: one that was copied there first, and then turned, would
# wait for its own stores.


cdef void halves_within(turned first, turned second, angles cosine, angles sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(first, second, 1, first, second, 1, cosine, sine, 64)
    else:
        turn_pairs(first, second, 1, first, second, 1, cosine, sine, n)


cdef void halves_across(turned first, turned second, turned out_first, turned out_second, angles cosine,
                        angles sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(first, second, 1, out_first, out_second, 1, cosine, sine, 64)
    else:
        turn_pairs(first, second, 1, out_first, out_second, 1, cosine, sine, n)


cdef void neighbours_within(turned row, angles cosine, angles sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(row, row + 1, 2, row, row + 1, 2, cosine, sine, 64)
    else:
        turn_pairs(row, row + 1, 2, row, row + 1, 2, cosine, sine, n)


cdef void neighbours_across(turned row, turned out, angles cosine, angles sine, Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(row, row + 1, 2, out, out + 1, 2, cosine, sine, 64)
    else:
        turn_pairs(row, row + 1, 2, out, out + 1, 2, cosine, sine, n)


cdef void separated_across(turned row, turned out_first, turned out_second, angles cosine, angles sine,
                           Py_ssize_t n) noexcept nogil:
    if n == 64:
        turn_pairs(row, row + 1, 2, out_first, out_second, 1, cosine, sine, 64)
    else:
        turn_pairs(row, row + 1, 2, out_first, out_second, 1, cosine, sine, n)


cdef inline void turn(int layout, turned row, turned out, angles cosine, angles sine, Py_ssize_t n) noexcept nogil:
    """row may be out, but not for pairs that are separated."""
    if layout == HALF and row == out:
        halves_within[turned, angles](row, row + n, cosine, sine, n)
    elif layout == HALF:
        halves_across[turned, angles](row, row + n, out, out + n, cosine, sine, n)
    elif layout == INTERLEAVED and row == out:
        neighbours_within[turned, angles](row, cosine, sine, n)
    elif layout == INTERLEAVED:
        neighbours_across[turned, angles](row, out, cosine, sine, n)
    else:
        separated_across[turned, angles](row, out, out + n, cosine, sine, n)


# ---- bfloat16 whose products leave the range of float32 --------------------------------------------------------------


cdef void turn_far(int layout, const bfloat* row, bfloat* out, const float* cosine, const float* sine,
                   Py_ssize_t n) noexcept nogil:
    """In doubles where a value of the pair is far from 1, as always elsewhere. row may be out, but not for pairs that
    are separated."""
    cdef Py_ssize_t j, step = 1 if layout == HALF else 2, apart = n if layout == HALF else 1
    cdef Py_ssize_t out_step = 2 if layout == INTERLEAVED else 1, out_apart = 1 if layout == INTERLEAVED else n
    cdef const bfloat* first
    cdef bfloat* out_first
    cdef double a, b
    for j in range(n):
        first, out_first = row + step * j, out + out_step * j
        if any_far(first, 1) or any_far(first + apart, 1):
            a, b = value_of_bfloat(first[0]), value_of_bfloat(first[apart])
            out_first[0] = <bfloat>(to_wide_bfloat(a * cosine[j] - b * sine[j]) >> 16)
            out_first[out_apart] = <bfloat>(to_wide_bfloat(b * cosine[j] + a * sine[j]) >> 16)
        else:
            turn_pairs(first, first + apart, 0, out_first, out_first + out_apart, 0, <crfloat>(cosine + j),
                       <crfloat>(sine + j), 1)


# ---- rows -----------------------------------------------------------------------------------------------------------


cdef void turn_halfs(int layout, const uint16_t* row, uint16_t* out, crfloat cosine, crfloat sine, Py_ssize_t n,
                     float* scratch) noexcept nogil:
    """A row of float16. scratch: 4 * n floats."""
    cdef float* turned_row = scratch + 2 * n if layout == SEPARATED else scratch
    from_half(row, scratch, 2 * n)
    turn[rfloat, crfloat](layout, scratch, turned_row, cosine, sine, n)
    to_half(<oddfloat*>turned_row, out, 2 * n)


cdef inline Py_ssize_t size_of(int type) noexcept nogil:
    return 8 if type == FLOAT64 else 4 if type == FLOAT32 else 2


cdef inline Py_ssize_t row_of_angles(const CRotation* r) noexcept nogil:
    """Bytes of the cosines and sines of a row: doubles, but for 16-bit floats floats."""
    return 2 * r.pairs * (4 if size_of(r.type) == 2 else 8)


cdef void rotate_row(const CRotation* r, const char* x, char* out, const char* angle, double* scratch) noexcept nogil:
    cdef Py_ssize_t size = size_of(r.type), turning = 2 * r.pairs * size, n = r.pairs
    cdef const double* wide = <const double*>angle
    cdef const float* cosine = <const float*>angle
    if x != out and r.width > 2 * n:
        memcpy(out + turning, x + turning, r.width * size - turning)
    if x == out and r.type != FLOAT16 and r.layout == SEPARATED:
        memcpy(scratch, x, turning)
        x = <char*>scratch
    if r.type == FLOAT64:
        turn[rdouble, crdouble](r.layout, <double*>x, <double*>out, wide, wide + n, n)
    elif r.type == FLOAT32:
        turn[rfloat, crdouble](r.layout, <float*>x, <float*>out, wide, wide + n, n)
    elif r.type == FLOAT16:
        turn_halfs(r.layout, <const uint16_t*>x, <uint16_t*>out, cosine, cosine + n, n, <float*>scratch)
    elif any_far(<bfloat*>x, 2 * n):
        turn_far(r.layout, <bfloat*>x, <bfloat*>out, cosine, cosine + n, n)
    else:
        turn[rbfloat, crfloat](r.layout, <bfloat*>x, <bfloat*>out, cosine, cosine + n, n)


cdef void rotate(const CRotation* r, double* scratch) noexcept nogil:
    """Every row of (groups, batches, heads, rows), by the angles of its group and row. scratch: 2 * pairs doubles."""
    cdef Py_ssize_t g, b, i, j, h, s, first
    cdef Py_ssize_t heads = r.shape[2], rows = r.shape[3]
    # whichever lie closer together are taken one after the other
    cdef bint heads_inside = heads > 1 and (rows == 1 or r.out_strides[2] < r.out_strides[3])
    cdef Py_ssize_t inner = r.out_strides[2] if heads_inside else r.out_strides[3]
    cdef Py_ssize_t x_inner = r.x_strides[2] if heads_inside else r.x_strides[3]
    cdef Py_ssize_t size = size_of(r.type), row = row_of_angles(r)
    # so many rows of angles stay in the first-level cache for all heads
    cdef Py_ssize_t many = max(<Py_ssize_t>1, NEAR // row), end
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
                        rotate_row(r, x, out, r.angles + (g * rows + s) * row, scratch)
                first = end


cdef public void fill_level "POSENC_DOOR"(CLevel* level) noexcept nogil:
    level.rotate = rotate
