# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rotation of pairs, for rotary encodings: compiled once for each instruction-set level, as ``_loops.pyx`` is.

The pairs of a row are turned by one angle each and rounded once, in place or on the way to where the row belongs: in
doubles, those of 16-bit floats in floats. Cosines and sines come from ``_loops.pyx``, for some rows at a time, and
serve all batches and heads.
"""

from posenc cimport (
    BFLOAT16, FLOAT16, FLOAT32, FLOAT64, HALF, INTERLEAVED, SEPARATED, USUAL, CLevel, CRotation, any_far, bfloat,
    crdouble, crfloat, from_half, oddfloat, rbfloat, rdouble, rfloat, set_two_bfloats, size_of, to_half,
    to_nearest_bfloat, to_wide_bfloat, two_bfloats, usual_bits, value_of_bfloat,
)
from work cimport RotationWork, lay_out_rotation, row_of_angles, row_of_split
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

cdef extern from *:
    """
    /* inlined, they would lose what restrict says, and test each row for memory that overlaps */
    static POSENC_APART void posenc_split_within(rbfloat, Py_ssize_t, crfloat, Py_ssize_t, Py_ssize_t, Py_ssize_t);
    static POSENC_APART int posenc_split_across(rbfloat, Py_ssize_t, rbfloat, Py_ssize_t, crfloat, Py_ssize_t,
                                                Py_ssize_t, Py_ssize_t);
    """

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


cdef inline uint32_t turn_neighbours(const bfloat* first, const bfloat* second, bfloat* out_first, bfloat* out_second,
                                     const float* angle, Py_ssize_t n) noexcept nogil:
    """Pairs half a row apart, two at a time, by angles from `split_angles`; returns the `usual_bits` that all have.

    One at a time, half of the loop would be shuffles between 16 and 32 bits.
    """
    cdef Py_ssize_t j, m = (n + 1) // 2
    cdef uint32_t a, b, usual = USUAL
    cdef float a0, a1, b0, b1
    for j in range(n // 2):
        a, b = two_bfloats(first + 2 * j), two_bfloats(second + 2 * j)
        usual &= usual_bits(a) & usual_bits(b)
        a0, a1, b0, b1 = value_of_bfloat(a), value_of_bfloat(a >> 16), value_of_bfloat(b), value_of_bfloat(b >> 16)
        set_two_bfloats(out_first + 2 * j, to_nearest_bfloat(a0 * angle[j] - b0 * angle[2 * m + j]),
                        to_nearest_bfloat(a1 * angle[m + j] - b1 * angle[3 * m + j]))
        set_two_bfloats(out_second + 2 * j, to_nearest_bfloat(b0 * angle[j] + a0 * angle[2 * m + j]),
                        to_nearest_bfloat(b1 * angle[m + j] + a1 * angle[3 * m + j]))
    if n % 2 == 1:
        a, b = <uint16_t>first[n - 1], <uint16_t>second[n - 1]
        usual &= usual_bits(a << 16 | b)
        turn_pairs(first + n - 1, second + n - 1, 1, out_first + n - 1, out_second + n - 1, 1,
                   <crfloat>(angle + m - 1), <crfloat>(angle + 3 * m - 1), 1)
    return usual


cdef void split_angles(crfloat angle, rfloat out, Py_ssize_t n) noexcept nogil:
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
# ends to look after. A row goes to where it belongs at once: one that was copied there first, and then turned, would
# wait for its own stores. Steps from row to row are bytes; a row of angles has n cosines and n sines.


cdef void halves_within(turned x, Py_ssize_t step, angles angle, Py_ssize_t angle_step, Py_ssize_t n,
                        Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            turn_pairs(x, x + 64, 1, x, x + 64, 1, angle, angle + 64, 64)
        else:
            turn_pairs(x, x + n, 1, x, x + n, 1, angle, angle + n, n)
        x, angle = <turned>(<char*>x + step), <angles>(<const char*>angle + angle_step)


cdef void halves_across(turned x, Py_ssize_t step, turned out, Py_ssize_t out_step, angles angle,
                        Py_ssize_t angle_step, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            turn_pairs(x, x + 64, 1, out, out + 64, 1, angle, angle + 64, 64)
        else:
            turn_pairs(x, x + n, 1, out, out + n, 1, angle, angle + n, n)
        x, angle = <turned>(<char*>x + step), <angles>(<const char*>angle + angle_step)
        out = <turned>(<char*>out + out_step)


cdef void neighbours_within(turned x, Py_ssize_t step, angles angle, Py_ssize_t angle_step, Py_ssize_t n,
                            Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            turn_pairs(x, x + 1, 2, x, x + 1, 2, angle, angle + 64, 64)
        else:
            turn_pairs(x, x + 1, 2, x, x + 1, 2, angle, angle + n, n)
        x, angle = <turned>(<char*>x + step), <angles>(<const char*>angle + angle_step)


cdef void neighbours_across(turned x, Py_ssize_t step, turned out, Py_ssize_t out_step, angles angle,
                            Py_ssize_t angle_step, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            turn_pairs(x, x + 1, 2, out, out + 1, 2, angle, angle + 64, 64)
        else:
            turn_pairs(x, x + 1, 2, out, out + 1, 2, angle, angle + n, n)
        x, angle = <turned>(<char*>x + step), <angles>(<const char*>angle + angle_step)
        out = <turned>(<char*>out + out_step)


cdef void separated_across(turned x, Py_ssize_t step, turned out, Py_ssize_t out_step, angles angle,
                           Py_ssize_t angle_step, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            turn_pairs(x, x + 1, 2, out, out + 64, 1, angle, angle + 64, 64)
        else:
            turn_pairs(x, x + 1, 2, out, out + n, 1, angle, angle + n, n)
        x, angle = <turned>(<char*>x + step), <angles>(<const char*>angle + angle_step)
        out = <turned>(<char*>out + out_step)


# Nearly all heads have 128 or 64 values.


cdef void split_within "posenc_split_within"(rbfloat x, Py_ssize_t step, crfloat angle, Py_ssize_t angle_step,
                                             Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            turn_neighbours(x, x + 64, x, x + 64, angle, 64)
        elif n == 32:
            turn_neighbours(x, x + 32, x, x + 32, angle, 32)
        else:
            turn_neighbours(x, x + n, x, x + n, angle, n)
        x, angle = <rbfloat>(<char*>x + step), <crfloat>(<const char*>angle + angle_step)


cdef bint split_across "posenc_split_across"(rbfloat x, Py_ssize_t step, rbfloat out, Py_ssize_t out_step,
                                             crfloat angle, Py_ssize_t angle_step, Py_ssize_t n,
                                             Py_ssize_t rows) noexcept nogil:
    """Returns whether nothing was far; else out has to be written again. A look before would wait for memory twice."""
    cdef uint32_t usual = USUAL
    cdef Py_ssize_t _i
    for _i in range(rows):
        if n == 64:
            usual &= turn_neighbours(x, x + 64, out, out + 64, angle, 64)
        elif n == 32:
            usual &= turn_neighbours(x, x + 32, out, out + 32, angle, 32)
        else:
            usual &= turn_neighbours(x, x + n, out, out + n, angle, n)
        x, angle = <rbfloat>(<char*>x + step), <crfloat>(<const char*>angle + angle_step)
        out = <rbfloat>(<char*>out + out_step)
    return usual == USUAL


cdef inline void turn(int layout, turned x, Py_ssize_t step, turned out, Py_ssize_t out_step, angles angle,
                      Py_ssize_t angle_step, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    """x may be out, but not for pairs that are separated."""
    if layout == HALF and x == out:
        halves_within[turned, angles](x, step, angle, angle_step, n, rows)
    elif layout == HALF:
        halves_across[turned, angles](x, step, out, out_step, angle, angle_step, n, rows)
    elif layout == INTERLEAVED and x == out:
        neighbours_within[turned, angles](x, step, angle, angle_step, n, rows)
    elif layout == INTERLEAVED:
        neighbours_across[turned, angles](x, step, out, out_step, angle, angle_step, n, rows)
    else:
        separated_across[turned, angles](x, step, out, out_step, angle, angle_step, n, rows)


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


cdef void turn_halfs(int layout, const uint16_t* row, uint16_t* out, crfloat angle, Py_ssize_t n,
                     float* scratch) noexcept nogil:
    """A row of float16. scratch: 4 * n floats."""
    cdef float* turned_row = scratch + 2 * n if layout == SEPARATED else scratch
    from_half(row, scratch, 2 * n)
    turn[rfloat, crfloat](layout, scratch, 0, turned_row, 0, angle, 0, n, 1)
    to_half(<oddfloat*>turned_row, out, 2 * n)


cdef void turn_rows(const CRotation* r, const char* x, Py_ssize_t step, char* out, Py_ssize_t out_step,
                    const char* angle, Py_ssize_t angle_step, Py_ssize_t rows) noexcept nogil:
    """Rows at equal distances that need nothing else. x may be out, but not for pairs that are separated."""
    if r.type == FLOAT64:
        turn[rdouble, crdouble](r.layout, <double*>x, step, <double*>out, out_step, <const double*>angle, angle_step,
                                r.pairs, rows)
    elif r.type == FLOAT32:
        turn[rfloat, crdouble](r.layout, <float*>x, step, <float*>out, out_step, <const double*>angle, angle_step,
                               r.pairs, rows)
    else:
        turn[rbfloat, crfloat](r.layout, <bfloat*>x, step, <bfloat*>out, out_step, <const float*>angle, angle_step,
                               r.pairs, rows)


cdef bint far_in(const CRotation* r, const char* x, Py_ssize_t step, Py_ssize_t rows) noexcept nogil:
    """Rows next to each other are looked through as one."""
    cdef Py_ssize_t values = 2 * r.pairs, i
    if step == 2 * values:
        return any_far(<const bfloat*>x, rows * values)
    for i in range(rows):
        if any_far(<const bfloat*>(x + i * step), values):
            return True
    return False


cdef void rotate_rows(const CRotation* r, const char* x, Py_ssize_t step, char* out, Py_ssize_t out_step,
                      const char* angle, Py_ssize_t angle_step, const float* split, Py_ssize_t rows,
                      double* scratch) noexcept nogil:
    """Rows at equal distances, and what follows the pairs in each. split: NULL, or the angles from `split_angles`."""
    cdef Py_ssize_t size = size_of(r.type), turning = 2 * r.pairs * size, n = r.pairs, i
    cdef Py_ssize_t split_step = 4 * row_of_split(r) if angle_step else 0
    cdef const float* single
    cdef const char* row
    if x != out and r.width > 2 * n:
        for i in range(rows):
            memcpy(out + i * out_step + turning, x + i * step + turning, r.width * size - turning)
    if r.type == FLOAT16:
        for i in range(rows):
            turn_halfs(r.layout, <const uint16_t*>(x + i * step), <uint16_t*>(out + i * out_step),
                       <const float*>(angle + i * angle_step), n, <float*>scratch)
    elif (split != NULL and x != out
          and split_across(<bfloat*>x, step, <bfloat*>out, out_step, split, split_step, n, rows)):
        pass
    elif x == out and r.layout == SEPARATED or r.type == BFLOAT16 and far_in(r, x, step, rows):
        for i in range(rows):
            row = x + i * step
            if x == out and r.layout == SEPARATED:
                row = <char*>memcpy(scratch, row, turning)
            if r.type == BFLOAT16 and any_far(<const bfloat*>row, 2 * n):
                single = <const float*>(angle + i * angle_step)
                turn_far(r.layout, <bfloat*>row, <bfloat*>(out + i * out_step), single, single + n, n)
            else:
                turn_rows(r, row, 0, out + i * out_step, 0, angle + i * angle_step, 0, 1)
    elif split != NULL and x == out:
        split_within(<bfloat*>out, step, split, split_step, n, rows)
    elif split == NULL:
        # otherwise split_across has met zeros, which are not usual, and what it wrote stands
        turn_rows(r, x, step, out, out_step, angle, angle_step, rows)


cdef void rotate(const CRotation* r, double* scratch) noexcept nogil:
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
