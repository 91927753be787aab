# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rotation of pairs, for rotary encodings: compiled once for each instruction-set level, as ``_loops.pyx`` is.

The pairs of a row are turned by one angle each and rounded once, in place or on the way to where the row belongs: in
doubles, those of 16-bit floats in floats. Cosines and sines come from ``_loops.pyx``, for some rows at a time, and
serve all batches and heads.
"""

from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

from compiler cimport crdouble, crfloat, rdouble, rfloat, step
from entry cimport (
    BFLOAT16, FLOAT16, FLOAT32, FLOAT64, HALF, INTERLEAVED, SEPARATED, CLevel, CRotation, size_of,
)
from half cimport (
    USUAL, any_far, bfloat, from_half, oddfloat, rbfloat, set_two_bfloats, to_half, to_nearest_bfloat, to_wide_bfloat,
    two_bfloats, usual_bits, value_of_bfloat,
)
from work cimport RotationWork, lay_out_rotation, row_of_angles, row_of_split

cdef extern from *:
    """
    /* inlined, they would lose what restrict says, and test each row for memory that overlaps */
    static POSENC_APART void posenc_split_in_place(rbfloat, Py_ssize_t, crfloat, Py_ssize_t, Py_ssize_t, Py_ssize_t);
    static POSENC_APART int posenc_split_elsewhere(rbfloat, Py_ssize_t, rbfloat, Py_ssize_t, crfloat, Py_ssize_t,
                                                   Py_ssize_t, Py_ssize_t);
    """

ctypedef fused rows_of_values:
    rdouble
    rfloat
    rbfloat

ctypedef fused plain:
    double
    float
    bfloat

ctypedef fused rows_of_angles:
    crdouble
    crfloat


cdef inline step rotate_pairs(const plain* first, const plain* second, Py_ssize_t spacing, plain* out_first,
                              plain* out_second, Py_ssize_t out_spacing, rows_of_angles cosine, rows_of_angles sine,
                              Py_ssize_t n) noexcept nogil:
    """From pair to pair: spacing, known where this is inlined: 1 for pairs half a row apart, 2 for those side by side.

    Computed in the type of the angles, to 2^-52 (doubles) or 2^-23 (floats) of the pair's length, and rounded once to
    that of the pairs. Products and sums are written out, the same with and without FMA.
    """
    cdef Py_ssize_t j
    cdef double a, b
    cdef float c, d
    cdef bfloat e, f
    cdef uint32_t both
    for j in range(n):
        if rows_of_angles is crdouble and plain is not bfloat:
            a = first[spacing * j]
            b = second[spacing * j]
            out_first[out_spacing * j] = <plain>(a * cosine[j] - b * sine[j])
            out_second[out_spacing * j] = <plain>(b * cosine[j] + a * sine[j])
        elif rows_of_angles is crfloat:
            if plain is bfloat:
                if spacing == 2:
                    both = two_bfloats(first + 2 * j)
                    c, d = value_of_bfloat(both), value_of_bfloat(both >> 16)
                else:
                    c, d = value_of_bfloat(first[spacing * j]), value_of_bfloat(second[spacing * j])
                e = to_nearest_bfloat(c * cosine[j] - d * sine[j])
                f = to_nearest_bfloat(d * cosine[j] + c * sine[j])
                if out_spacing == 2:
                    set_two_bfloats(out_first + 2 * j, e, f)
                else:
                    out_first[out_spacing * j], out_second[out_spacing * j] = e, f
            else:
                c = <float>first[spacing * j]
                d = <float>second[spacing * j]
                out_first[out_spacing * j] = c * cosine[j] - d * sine[j]
                out_second[out_spacing * j] = d * cosine[j] + c * sine[j]


cdef inline step rotate_two_pairs(const bfloat* first, const bfloat* second, bfloat* out_first, bfloat* out_second,
                                  const float* angle, Py_ssize_t n, uint32_t* usual) noexcept nogil:
    """Pairs half a row apart, two at a time, by angles from `split_angles`; usual keeps the `usual_bits` that all have.

    One at a time, half of the loop would be shuffles between 16 and 32 bits.
    """
    cdef Py_ssize_t j, m = (n + 1) // 2
    cdef uint32_t a, b, all_have = USUAL
    cdef float a0, a1, b0, b1
    for j in range(n // 2):
        a, b = two_bfloats(first + 2 * j), two_bfloats(second + 2 * j)
        all_have &= usual_bits(a) & usual_bits(b)
        a0, a1, b0, b1 = value_of_bfloat(a), value_of_bfloat(a >> 16), value_of_bfloat(b), value_of_bfloat(b >> 16)
        set_two_bfloats(out_first + 2 * j, to_nearest_bfloat(a0 * angle[j] - b0 * angle[2 * m + j]),
                        to_nearest_bfloat(a1 * angle[m + j] - b1 * angle[3 * m + j]))
        set_two_bfloats(out_second + 2 * j, to_nearest_bfloat(b0 * angle[j] + a0 * angle[2 * m + j]),
                        to_nearest_bfloat(b1 * angle[m + j] + a1 * angle[3 * m + j]))
    if n % 2 == 1:
        a, b = <uint16_t>first[n - 1], <uint16_t>second[n - 1]
        all_have &= usual_bits(a << 16 | b)
        rotate_pairs(first + n - 1, second + n - 1, 1, out_first + n - 1, out_second + n - 1, 1,
                     <crfloat>(angle + m - 1), <crfloat>(angle + 3 * m - 1), 1)
    usual[0] &= all_have


cdef inline void split_angles(crfloat angle, rfloat out, Py_ssize_t n) noexcept nogil:
    """A row of n cosines and n sines in four parts of (n + 1) // 2: the cosines of even pairs, of odd ones, and the
    same of the sines."""
    cdef Py_ssize_t j, m = (n + 1) // 2
    for j in range(n // 2):
        out[j] = angle[2 * j]
        out[m + j] = angle[2 * j + 1]
        out[2 * m + j] = angle[n + 2 * j]
        out[3 * m + j] = angle[n + 2 * j + 1]
    if n % 2 == 1:
        out[m - 1], out[3 * m - 1] = angle[n - 1], angle[2 * n - 1]


# What is the same memory and what is not is said here, and many heads have 128 values: a loop of known length has no
# ends to look after. A row goes to where it belongs at once: one that was copied there first, and then rotated, would
# wait for its own stores. Strides from row to row are bytes; a row of angles has n cosines and n sines.


cdef inline step rotate_loop(const plain* x, Py_ssize_t stride, plain* out, Py_ssize_t out_stride, bint half,
                             bint out_half, rows_of_angles angle, Py_ssize_t angle_stride, Py_ssize_t n,
                             Py_ssize_t rows) noexcept nogil:
    """half, out_half: whether pairs are half a row apart in x and in out, or side by side; known where inlined."""
    cdef Py_ssize_t spacing = 1 if half else 2, out_spacing = 1 if out_half else 2
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            rotate_pairs(x, x + (64 if half else 1), spacing, out, out + (64 if out_half else 1), out_spacing, angle,
                         angle + 64, 64)
        else:
            rotate_pairs(x, x + (n if half else 1), spacing, out, out + (n if out_half else 1), out_spacing, angle,
                         angle + n, n)
        x, angle = <const plain*>(<const char*>x + stride), <rows_of_angles>(<const char*>angle + angle_stride)
        out = <plain*>(<char*>out + out_stride)


cdef inline void rotate_in_place(int layout, rows_of_values x, Py_ssize_t stride, rows_of_angles angle,
                                 Py_ssize_t angle_stride, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    """Layouts HALF and INTERLEAVED."""
    if layout == HALF:
        rotate_loop(x, stride, x, stride, True, True, angle, angle_stride, n, rows)
    else:
        rotate_loop(x, stride, x, stride, False, False, angle, angle_stride, n, rows)


cdef inline void rotate_elsewhere(int layout, rows_of_values x, Py_ssize_t stride, rows_of_values out,
                                  Py_ssize_t out_stride, rows_of_angles angle, Py_ssize_t angle_stride, Py_ssize_t n,
                                  Py_ssize_t rows) noexcept nogil:
    if layout == HALF:
        rotate_loop(x, stride, out, out_stride, True, True, angle, angle_stride, n, rows)
    elif layout == INTERLEAVED:
        rotate_loop(x, stride, out, out_stride, False, False, angle, angle_stride, n, rows)
    else:
        rotate_loop(x, stride, out, out_stride, False, True, angle, angle_stride, n, rows)


cdef inline step rotate_layout(int layout, rows_of_values x, Py_ssize_t stride, rows_of_values out,
                               Py_ssize_t out_stride, rows_of_angles angle, Py_ssize_t angle_stride, Py_ssize_t n,
                               Py_ssize_t rows) noexcept nogil:
    """x may be out, but not for pairs that are separated."""
    if x == out:
        rotate_in_place[rows_of_values, rows_of_angles](layout, x, stride, angle, angle_stride, n, rows)
    else:
        rotate_elsewhere[rows_of_values, rows_of_angles](layout, x, stride, out, out_stride, angle, angle_stride, n,
                                                         rows)


# Nearly all heads have 128 or 64 values.


cdef void split_in_place "posenc_split_in_place"(rbfloat x, Py_ssize_t stride, crfloat angle, Py_ssize_t angle_stride,
                                                 Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef uint32_t usual = USUAL  # not asked for here
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            rotate_two_pairs(x, x + 64, x, x + 64, angle, 64, &usual)
        elif n == 32:
            rotate_two_pairs(x, x + 32, x, x + 32, angle, 32, &usual)
        else:
            rotate_two_pairs(x, x + n, x, x + n, angle, n, &usual)
        x, angle = <rbfloat>(<char*>x + stride), <crfloat>(<const char*>angle + angle_stride)


cdef bint split_elsewhere "posenc_split_elsewhere"(rbfloat x, Py_ssize_t stride, rbfloat out, Py_ssize_t out_stride,
                                                   crfloat angle, Py_ssize_t angle_stride, Py_ssize_t n,
                                                   Py_ssize_t rows) noexcept nogil:
    """Returns whether nothing was far; else out has to be written again. A look before would wait for memory twice."""
    cdef uint32_t usual = USUAL
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            rotate_two_pairs(x, x + 64, out, out + 64, angle, 64, &usual)
        elif n == 32:
            rotate_two_pairs(x, x + 32, out, out + 32, angle, 32, &usual)
        else:
            rotate_two_pairs(x, x + n, out, out + n, angle, n, &usual)
        x, angle = <rbfloat>(<char*>x + stride), <crfloat>(<const char*>angle + angle_stride)
        out = <rbfloat>(<char*>out + out_stride)
    return usual == USUAL


# ---- bfloat16 whose products leave the range of float32 --------------------------------------------------------------


cdef inline void rotate_far_pairs(int layout, const bfloat* row, bfloat* out, const float* cosine,
                                  const float* sine, Py_ssize_t n) noexcept nogil:
    """In doubles where a value of the pair is far from 1, as always elsewhere. row may be out, but not for pairs that
    are separated."""
    cdef Py_ssize_t j, spacing = 1 if layout == HALF else 2, apart = n if layout == HALF else 1
    cdef Py_ssize_t out_spacing = 2 if layout == INTERLEAVED else 1, out_apart = 1 if layout == INTERLEAVED else n
    cdef const bfloat* first
    cdef bfloat* out_first
    cdef double a, b
    for j in range(n):
        first, out_first = row + spacing * j, out + out_spacing * j
        if any_far(first, 1) or any_far(first + apart, 1):
            a, b = value_of_bfloat(first[0]), value_of_bfloat(first[apart])
            out_first[0] = <bfloat>(to_wide_bfloat(a * cosine[j] - b * sine[j]) >> 16)
            out_first[out_apart] = <bfloat>(to_wide_bfloat(b * cosine[j] + a * sine[j]) >> 16)
        else:
            rotate_pairs(first, first + apart, 0, out_first, out_first + out_apart, 0, <crfloat>(cosine + j),
                         <crfloat>(sine + j), 1)


# ---- rows -----------------------------------------------------------------------------------------------------------


cdef inline void rotate_row_float16(int layout, const uint16_t* row, uint16_t* out, crfloat angle, Py_ssize_t n,
                                    float* scratch) noexcept nogil:
    """A row of float16. scratch: 4 * n floats."""
    cdef float* rotated = scratch + 2 * n if layout == SEPARATED else scratch
    from_half(row, scratch, 2 * n)
    rotate_layout[rfloat, crfloat](layout, scratch, 0, rotated, 0, angle, 0, n, 1)
    to_half(<oddfloat*>rotated, out, 2 * n)


cdef inline void rotate_plain_rows(const CRotation* r, const char* x, Py_ssize_t stride, char* out,
                                   Py_ssize_t out_stride, const char* angle, Py_ssize_t angle_stride,
                                   Py_ssize_t rows) noexcept nogil:
    """Rows at equal distances that need nothing else. x may be out, but not for pairs that are separated."""
    if r.type == FLOAT64:
        rotate_layout[rdouble, crdouble](r.layout, <double*>x, stride, <double*>out, out_stride, <const double*>angle,
                                         angle_stride, r.pairs, rows)
    elif r.type == FLOAT32:
        rotate_layout[rfloat, crdouble](r.layout, <float*>x, stride, <float*>out, out_stride, <const double*>angle,
                                        angle_stride, r.pairs, rows)
    else:
        rotate_layout[rbfloat, crfloat](r.layout, <bfloat*>x, stride, <bfloat*>out, out_stride, <const float*>angle,
                                        angle_stride, r.pairs, rows)


cdef inline bint any_row_far(const CRotation* r, const char* x, Py_ssize_t stride, Py_ssize_t rows) noexcept nogil:
    """Whether a value is far from 1. Rows next to each other are looked through as one."""
    cdef Py_ssize_t values = 2 * r.pairs, i
    if stride == 2 * values:
        return any_far(<const bfloat*>x, rows * values)
    for i in range(rows):
        if any_far(<const bfloat*>(x + i * stride), values):
            return True
    return False


cdef inline void rotate_rows(const CRotation* r, const char* x, Py_ssize_t stride, char* out, Py_ssize_t out_stride,
                             const char* angle, Py_ssize_t angle_stride, const float* split, Py_ssize_t rows,
                             double* scratch) noexcept nogil:
    """Rows at equal distances, and what follows the pairs in each. split: NULL, or the angles from `split_angles`."""
    cdef Py_ssize_t size = size_of(r.type), rotated = 2 * r.pairs * size, n = r.pairs, i
    cdef Py_ssize_t split_stride = 4 * row_of_split(r) if angle_stride else 0
    cdef const float* single
    cdef const char* row
    if x != out and r.width > 2 * n:
        for i in range(rows):
            memcpy(out + i * out_stride + rotated, x + i * stride + rotated, r.width * size - rotated)
    if r.type == FLOAT16:
        for i in range(rows):
            rotate_row_float16(r.layout, <const uint16_t*>(x + i * stride), <uint16_t*>(out + i * out_stride),
                               <const float*>(angle + i * angle_stride), n, <float*>scratch)
    elif (split != NULL and x != out
          and split_elsewhere(<bfloat*>x, stride, <bfloat*>out, out_stride, split, split_stride, n, rows)):
        pass
    elif x == out and r.layout == SEPARATED or r.type == BFLOAT16 and any_row_far(r, x, stride, rows):
        for i in range(rows):
            row = x + i * stride
            if x == out and r.layout == SEPARATED:
                row = <char*>memcpy(scratch, row, rotated)
            if r.type == BFLOAT16 and any_far(<const bfloat*>row, 2 * n):
                single = <const float*>(angle + i * angle_stride)
                rotate_far_pairs(r.layout, <bfloat*>row, <bfloat*>(out + i * out_stride), single, single + n, n)
            else:
                rotate_plain_rows(r, row, 0, out + i * out_stride, 0, angle + i * angle_stride, 0, 1)
    elif split != NULL and x == out:
        split_in_place(<bfloat*>out, stride, split, split_stride, n, rows)
    elif split == NULL:
        # otherwise split_elsewhere has met zeros, which are not usual, and what it wrote stands
        rotate_plain_rows(r, x, stride, out, out_stride, angle, angle_stride, rows)


cdef inline void rotate(const CRotation* r, double* scratch) noexcept nogil:
    """Every row of (groups, batches, heads, rows), by the angles of its group and row.

    scratch: what `lay_out_rotation` says.
    """
    cdef Py_ssize_t g, b, i, h, s, first, end
    cdef Py_ssize_t heads = r.shape[2], rows = r.shape[3]
    # whichever lie closer together are taken one after the other
    cdef bint heads_inside = heads > 1 and (rows == 1 or r.out_strides[2] < r.out_strides[3])
    cdef Py_ssize_t inner = 2 if heads_inside else 3, row = row_of_angles(r)
    cdef const char* x
    cdef char* out
    cdef RotationWork work
    lay_out_rotation(r, &work, scratch)
    for g in range(r.shape[0]):
        first = 0
        while first < rows:
            end = min(first + work.pass_rows, rows)
            for i in range(end - first if work.splits else 0):
                split_angles(<const float*>(r.angles + (g * rows + first + i) * row),
                             work.split + i * row_of_split(r), r.pairs)
            for b in range(r.shape[1]):
                for i in range(end - first if heads_inside else heads):
                    h = 0 if heads_inside else i
                    s = first + (i if heads_inside else 0)
                    x = r.x + g * r.x_strides[0] + b * r.x_strides[1] + h * r.x_strides[2] + s * r.x_strides[3]
                    out = (r.out + g * r.out_strides[0] + b * r.out_strides[1] + h * r.out_strides[2]
                           + s * r.out_strides[3])
                    rotate_rows(r, x, r.x_strides[inner], out, r.out_strides[inner], r.angles + (g * rows + s) * row,
                                0 if heads_inside else row,
                                work.split + (s - first) * row_of_split(r) if work.splits else NULL,
                                heads if heads_inside else end - first, work.row)
            first = end


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.rotate = rotate
