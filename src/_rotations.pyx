# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rotate pairs, for rotary encodings. Compiled once for each instruction-set level, like ``_loops.pyx``.

Each pair of a row has its own angle. Its values are rotated, rounded once, and written in place or to another array.
float64 and float32 are rotated in doubles, and 16-bit types in floats, except pairs of bfloat16 with far values (see
half.h). The caller passes the cosines and sines of the angles. All batches and heads of a group share them. ``entry.h``
explains groups and layouts.
"""

from libc.stdint cimport uint16_t, uint32_t, uintptr_t
from libc.string cimport memcpy

from cache cimport prefetch, stream, stream_end
from compiler cimport crdouble, crfloat, rdouble, rfloat, step
from entry cimport (
    BFLOAT16, FLOAT16, FLOAT32, FLOAT64, HALF, INTERLEAVED, SEPARATED, CLevel, CRotation, size_of,
)
from half cimport (
    USUAL, any_far, bfloat, from_half, oddfloat, rbfloat, set_two_bfloats, to_half, to_nearest_bfloat, to_wide_bfloat,
    two_bfloats, usual_bits, value_of_bfloat,
)
from vectors cimport (
    DOUBLES, FLOATS, TOGETHER, VECTORS, half_bfloat16, half_float16, half_float32, half_float64,
    interleaved_bfloat16, interleaved_float16, interleaved_float32, interleaved_float64, usual_rows,
)
from work cimport LINE_BYTES, RotationWork, lay_out_rotation, row_of_angles, row_of_split

cdef extern from *:
    """
    /* never inlined: otherwise the compiler would forget that the arrays do not overlap, and test it for each row */
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

ctypedef fused stored:
    double
    float
    uint16_t
    bfloat

ctypedef fused rows_of_angles:
    crdouble
    crfloat


cdef inline step rotate_pairs(const plain* first, const plain* second, Py_ssize_t spacing, plain* out_first,
                              plain* out_second, Py_ssize_t out_spacing, rows_of_angles cosine, rows_of_angles sine,
                              Py_ssize_t n) noexcept nogil:
    """Rotate n pairs.

    spacing is the distance from one pair to the next: 1 if the two values of a pair are half a row apart, 2 if they are
    adjacent. out_spacing is the same for the result. Both are unused if n is 1.

    Products and sums have the type of the angles. Their error is at most 2^-52 (doubles) or 2^-23 (floats) of the norm
    of the pair. Results are rounded once to the type of the pairs. FMA is not used, so all levels give the same bits.
    """
    cdef Py_ssize_t j
    cdef double a, b
    cdef float a32, b32
    cdef bfloat out_a, out_b
    cdef uint32_t two_values
    for j in range(n):
        if plain is bfloat and rows_of_angles is crdouble:
            # never called, because bfloat16 has float angles; Cython compiles all combinations of types
            pass
        elif rows_of_angles is crdouble:
            a = first[spacing * j]
            b = second[spacing * j]
            out_first[out_spacing * j] = <plain>(a * cosine[j] - b * sine[j])
            out_second[out_spacing * j] = <plain>(b * cosine[j] + a * sine[j])
        elif plain is bfloat:
            if spacing == 2:
                two_values = two_bfloats(first + 2 * j)
                a32, b32 = value_of_bfloat(two_values), value_of_bfloat(two_values >> 16)
            else:
                a32, b32 = value_of_bfloat(first[spacing * j]), value_of_bfloat(second[spacing * j])
            out_a = to_nearest_bfloat(a32 * cosine[j] - b32 * sine[j])
            out_b = to_nearest_bfloat(b32 * cosine[j] + a32 * sine[j])
            if out_spacing == 2:
                set_two_bfloats(out_first + 2 * j, out_a, out_b)
            else:
                out_first[out_spacing * j], out_second[out_spacing * j] = out_a, out_b
        else:
            a32 = <float>first[spacing * j]
            b32 = <float>second[spacing * j]
            out_first[out_spacing * j] = a32 * cosine[j] - b32 * sine[j]
            out_second[out_spacing * j] = b32 * cosine[j] + a32 * sine[j]


cdef inline step rotate_two_pairs(const bfloat* first, const bfloat* second, bfloat* out_first, bfloat* out_second,
                                  const float* angle, Py_ssize_t n, uint32_t* usual) noexcept nogil:
    """Rotate pairs of layout HALF, two at a time, by angles from `split_angles`.

    Clear bits of usual if a value is not usual (see half.h). A loop over single pairs would spend half of its time on
    shuffles between 16 and 32 bits.
    """
    cdef Py_ssize_t j, m = (n + 1) // 2
    cdef uint32_t a, b, usual_of_all = USUAL
    cdef float a0, a1, b0, b1
    for j in range(n // 2):
        a, b = two_bfloats(first + 2 * j), two_bfloats(second + 2 * j)
        usual_of_all &= usual_bits(a) & usual_bits(b)
        a0, a1, b0, b1 = value_of_bfloat(a), value_of_bfloat(a >> 16), value_of_bfloat(b), value_of_bfloat(b >> 16)
        set_two_bfloats(out_first + 2 * j, to_nearest_bfloat(a0 * angle[j] - b0 * angle[2 * m + j]),
                        to_nearest_bfloat(a1 * angle[m + j] - b1 * angle[3 * m + j]))
        set_two_bfloats(out_second + 2 * j, to_nearest_bfloat(b0 * angle[j] + a0 * angle[2 * m + j]),
                        to_nearest_bfloat(b1 * angle[m + j] + a1 * angle[3 * m + j]))
    if n % 2 == 1:
        a, b = <uint16_t>first[n - 1], <uint16_t>second[n - 1]
        usual_of_all &= usual_bits(a << 16 | b)
        rotate_pairs(first + n - 1, second + n - 1, 1, out_first + n - 1, out_second + n - 1, 1,
                     <crfloat>(angle + m - 1), <crfloat>(angle + 3 * m - 1), 1)
    usual[0] &= usual_of_all


cdef inline void split_angles(crfloat angle, rfloat out, Py_ssize_t n) noexcept nogil:
    """Split a row of n cosines and n sines into four parts of (n + 1) // 2 numbers.

    The parts are the cosines of even pairs, the cosines of odd pairs, the sines of even pairs, the sines of odd pairs.
    """
    cdef Py_ssize_t j, m = (n + 1) // 2
    for j in range(n // 2):
        out[j] = angle[2 * j]
        out[m + j] = angle[2 * j + 1]
        out[2 * m + j] = angle[n + 2 * j]
        out[3 * m + j] = angle[n + 2 * j + 1]
    if n % 2 == 1:
        out[m - 1], out[3 * m - 1] = angle[n - 1], angle[2 * n - 1]


# The next functions tell the compiler which arrays share memory. For heads of 128 values (n = 64 pairs), the loop has a
# constant length, and so needs no code for a remainder. Rows are rotated directly into out: after a copy to out, the
# rotation would wait for the stores of the copy. Strides are bytes from row to row. A row of angles has n cosines and n
# sines.


cdef inline step rotate_loop(const plain* x, Py_ssize_t stride, plain* out, Py_ssize_t out_stride, bint half,
                             bint out_half, rows_of_angles angle, Py_ssize_t angle_stride, Py_ssize_t n,
                             Py_ssize_t rows) noexcept nogil:
    """Rotate rows.

    If half is true, the two values of a pair are half a row apart in x, else adjacent. out_half is the same for out.
    Both are constants wherever this function is inlined.
    """
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
    """Rotate rows in place. layout is HALF or INTERLEAVED."""
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
    """Rotate rows of any layout. x may be out, unless the layout is SEPARATED."""
    if x == out:
        rotate_in_place[rows_of_values, rows_of_angles](layout, x, stride, angle, angle_stride, n, rows)
    else:
        rotate_elsewhere[rows_of_values, rows_of_angles](layout, x, stride, out, out_stride, angle, angle_stride, n,
                                                         rows)


# Nearly all heads have 128 or 64 values. For these, the two functions below have loops of constant length (n = 64, 32).


cdef void split_in_place "posenc_split_in_place"(rbfloat x, Py_ssize_t stride, crfloat angle, Py_ssize_t angle_stride,
                                                 Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef uint32_t usual = USUAL  # `rotate_two_pairs` needs this argument, but its result is not used here
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
    """Rotate rows into out, and return whether all values are usual (see half.h).

    If the result is False, some values may be far. Then the caller checks for far values, and rotates again if there
    are any. A check before the rotation would read x twice.
    """
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


# ---- rows of bfloat16 with far values, whose products may leave the range of float32 ---------------------------------


cdef inline void rotate_far_pairs(int layout, const bfloat* row, bfloat* out, const float* cosine,
                                  const float* sine, Py_ssize_t n) noexcept nogil:
    """Rotate the pairs of a row. A pair with a far value (see half.h) is rotated in doubles, other pairs in floats.

    row may be out, unless the layout is SEPARATED.
    """
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
    """Rotate a row of float16. scratch has 4 * n floats."""
    cdef float* rotated = scratch + 2 * n if layout == SEPARATED else scratch
    from_half(row, scratch, 2 * n)
    rotate_layout[rfloat, crfloat](layout, scratch, 0, rotated, 0, angle, 0, n, 1)
    to_half(<oddfloat*>rotated, out, 2 * n)


cdef inline void copy_behind(const CRotation* r, const char* x, char* out) noexcept nogil:
    """Copy the values behind the pairs of a row, unless x is out."""
    cdef Py_ssize_t size = size_of(r.type), n = r.pairs
    if x != out and r.width > 2 * n:
        memcpy(out + 2 * n * size, x + 2 * n * size, (r.width - 2 * n) * size)


cdef inline void rotate_plain_rows(const CRotation* r, const char* x, Py_ssize_t stride, char* out,
                                   Py_ssize_t out_stride, const char* angle, Py_ssize_t angle_stride,
                                   Py_ssize_t rows) noexcept nogil:
    """Rotate rows at equal distances. Rows of float16 and far values of bfloat16 are not supported.

    x may be out, unless the layout is SEPARATED.
    """
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
    """Return whether any value of the rows is far (see half.h). Adjacent rows are checked as one."""
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
    """Rotate rows at equal distances, and copy the values behind their pairs.

    split is NULL, or the angles from `split_angles`.
    """
    cdef Py_ssize_t rotated = 2 * r.pairs * size_of(r.type), n = r.pairs, i
    cdef Py_ssize_t split_stride = 4 * row_of_split(r) if angle_stride else 0
    cdef const float* single
    cdef const char* row
    for i in range(rows):
        copy_behind(r, x + i * stride, out + i * out_stride)
    if r.type == FLOAT16:
        for i in range(rows):
            rotate_row_float16(r.layout, <const uint16_t*>(x + i * stride), <uint16_t*>(out + i * out_stride),
                               <const float*>(angle + i * angle_stride), n, <float*>scratch)
    elif (split != NULL and x != out
          and split_elsewhere(<bfloat*>x, stride, <bfloat*>out, out_stride, split, split_stride, n, rows)):
        pass
    elif x == out and r.layout == SEPARATED or r.type == BFLOAT16 and any_row_far(r, x, stride, rows):
        # one row at a time: either pairs move within x, so that a copy is needed, or a row has far values
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
        # If split is not NULL, split_elsewhere has written correct rows: it returned False, but no value is far.
        rotate_plain_rows(r, x, stride, out, out_stride, angle, angle_stride, rows)


# ---- rows of several heads at once ----------------------------------------------------------------------------------

# Several members, which are rotated together. A member is `count` rows at equal distances: the tokens of one head, or
# if `RotationWork.heads_inside` is true, some heads of one token. Rows with the same index in their members share
# angles.
cdef struct Rows:
    const char* x[TOGETHER]
    char* out[TOGETHER]
    uintptr_t next[TOGETHER]  # address of the row that is rotated after each member's last row, or 0 for no prefetch
    Py_ssize_t x_step, out_step, angle_step, split_step
    Py_ssize_t count
    const char* angle
    const float* split


cdef inline step rotate_from(const plain* x, plain* out, bint half, rows_of_angles angle, Py_ssize_t n,
                             Py_ssize_t first) noexcept nogil:
    if half:
        rotate_pairs(x + first, x + n + first, 1, out + first, out + n + first, 1, <rows_of_angles>(angle + first),
                     <rows_of_angles>(angle + n + first), n - first)
    else:
        rotate_pairs(x + 2 * first, x + 2 * first + 1, 2, out + 2 * first, out + 2 * first + 1, 2,
                     <rows_of_angles>(angle + first), <rows_of_angles>(angle + n + first), n - first)


cdef void rotate_rest(const CRotation* r, const char* x, char* out, const char* angle, Py_ssize_t first) noexcept nogil:
    """Rotate the pairs of a row from pair `first` on, and copy the values behind the pairs.

    The pairs before `first` were rotated in vectors. bfloat16 values are not far (see half.h). In float16, all pairs
    fill vectors, so that only the values behind the pairs are left.
    """
    cdef Py_ssize_t n = r.pairs
    copy_behind(r, x, out)
    if r.type == FLOAT64:
        rotate_from(<const double*>x, <double*>out, r.layout == HALF, <crdouble>angle, n, first)
    elif r.type == FLOAT32:
        rotate_from(<const float*>x, <float*>out, r.layout == HALF, <crdouble>angle, n, first)
    elif r.type == BFLOAT16:
        rotate_from(<const bfloat*>x, <bfloat*>out, r.layout == HALF, <crfloat>angle, n, first)


cdef void stream_row(char* buffer, char* out, Py_ssize_t bytes, bint is_first, bint is_last) noexcept nogil:
    """Write a row from the buffer to out by non-temporal stores of whole cache lines.

    The row has the same offset from a cache line in the buffer as in out. The bytes before it in the buffer are the end
    of the previous row, which shares its last cache line with this row. The end of this row stays in the buffer for the
    next call. Parts of lines are written only at the start of the first row and at the end of the last row.
    """
    cdef Py_ssize_t before = <uintptr_t>out & (LINE_BYTES - 1), head = 0
    if before and is_first:
        head = LINE_BYTES
        memcpy(out, buffer + before, LINE_BYTES - before)
    stream(out - before + head, buffer + head, bytes - head)
    if before:
        memcpy(buffer, buffer + bytes, before)
        if is_last:
            memcpy(out + bytes - before, buffer, before)


cdef inline step rotate_steps(const stored** x, stored** out, const char* angle, const float* split, Py_ssize_t n,
                              Py_ssize_t* done, int members, bint half) noexcept nogil:
    """Rotate as many pairs of each row as fill whole vectors. Set done to the number of these pairs."""
    cdef Py_ssize_t j = 0
    if stored is bfloat:
        if half:
            while j + 2 * FLOATS <= n:
                half_bfloat16(x, out, split, n, j, members)
                j += 2 * FLOATS
        else:
            while j + FLOATS <= n:
                interleaved_bfloat16(x, out, <const float*>angle, n, j, members)
                j += FLOATS
    elif stored is uint16_t:
        while j + FLOATS <= n:
            if half:
                half_float16(x, out, <const float*>angle, n, j, members)
            else:
                interleaved_float16(x, out, <const float*>angle, n, j, members)
            j += FLOATS
    elif stored is float:
        while j + DOUBLES <= n:
            if half:
                half_float32(x, out, <const double*>angle, n, j, members)
            else:
                interleaved_float32(x, out, <const double*>angle, n, j, members)
            j += DOUBLES
    else:
        while j + DOUBLES <= n:
            if half:
                half_float64(x, out, <const double*>angle, n, j, members)
            else:
                interleaved_float64(x, out, <const double*>angle, n, j, members)
            j += DOUBLES
    done[0] = j


cdef inline step rotate_members(const CRotation* r, const RotationWork* work, const Rows* rows, stored* type_,
                                int members, bint half, Py_ssize_t n) noexcept nogil:
    """Rotate the rows of 1, 2 or 4 members. members, half and usually n are constants wherever this is inlined.

    type_ is not used, but its type is the type of the values.
    """
    cdef const stored* x[TOGETHER]
    cdef stored* out[TOGETHER]
    cdef const char* angle
    cdef const float* split = NULL
    cdef uintptr_t ahead
    cdef Py_ssize_t i, done, bytes = r.width * <Py_ssize_t>sizeof(stored)
    cdef bint copies_behind = r.width > 2 * n and rows.x[0] != rows.out[0], usual = True
    cdef int k
    for i in range(rows.count):
        angle = rows.angle + i * rows.angle_step
        if stored is bfloat:
            split = rows.split + i * rows.split_step
        for k in range(members):
            x[k] = <const stored*>(rows.x[k] + i * rows.x_step)
            out[k] = <stored*>(rows.out[k] + i * rows.out_step)
            if work.buffer != NULL:
                # in the buffer, the row has the same offset from a cache line as in out, as `stream_row` needs
                out[k] = <stored*>(work.buffer + k * work.buffer_row + (<uintptr_t>rows.out[k] & (LINE_BYTES - 1)))
        if work.rows_ahead:
            for k in range(members):
                ahead = <uintptr_t>rows.x[k] + (i + work.rows_ahead) * rows.x_step
                if i + work.rows_ahead >= rows.count:
                    ahead = rows.next[k] + (i + work.rows_ahead - rows.count) * rows.x_step if rows.next[k] else 0
                if ahead:
                    prefetch(ahead, bytes)
        if stored is bfloat:
            # check only these rows, so that they are still in the first-level cache for the rotation
            usual = usual_rows(x, 2 * n, members)
        if usual:
            rotate_steps(x, out, angle, split, n, &done, members, half)
            # the range is empty if vectors contained all pairs, and no values behind the pairs must be copied
            for k in range(members if done < n or copies_behind else 0):
                rotate_rest(r, <const char*>x[k], <char*>out[k], angle, done)
        else:
            for k in range(members):
                rotate_rows(r, <const char*>x[k], 0, <char*>out[k], 0, angle, 0, NULL, 1, work.row)
        if work.buffer != NULL:
            for k in range(members):
                stream_row(work.buffer + k * work.buffer_row, rows.out[k] + i * rows.out_step, bytes, i == 0,
                           i == rows.count - 1)


cdef inline step rotate_by_members(const CRotation* r, const RotationWork* work, const Rows* rows, stored* type_,
                                   int members, bint half) noexcept nogil:
    # most heads have 128 values (64 pairs); if n is constant, the second half of a row needs no separate address
    if members == 4 and half and r.pairs == 64:
        rotate_members(r, work, rows, type_, 4, half, 64)
    elif stored is bfloat and members == 4 and half and r.pairs == 32:
        rotate_members(r, work, rows, type_, 4, half, 32)
    elif members == 4:
        rotate_members(r, work, rows, type_, 4, half, r.pairs)
    elif members == 2 and half and r.pairs == 64:
        rotate_members(r, work, rows, type_, 2, half, 64)
    elif members == 2:
        rotate_members(r, work, rows, type_, 2, half, r.pairs)
    else:
        rotate_members(r, work, rows, type_, 1, half, r.pairs)


cdef void rotate_together(const CRotation* r, const RotationWork* work, const Rows* rows, stored* type_,
                          int members) noexcept nogil:
    if r.layout == HALF:
        rotate_by_members(r, work, rows, type_, members, True)
    else:
        rotate_by_members(r, work, rows, type_, members, False)


cdef void rotate_heads(const CRotation* r, const RotationWork* work, const Rows* rows, int members) noexcept nogil:
    if not VECTORS or not work.vectors:
        rotate_rows(r, rows.x[0], rows.x_step, rows.out[0], rows.out_step, rows.angle, rows.angle_step,
                    rows.split if work.splits else NULL, rows.count, work.row)
    elif r.type == FLOAT64:
        rotate_together(r, work, rows, <double*>NULL, members)
    elif r.type == FLOAT32:
        rotate_together(r, work, rows, <float*>NULL, members)
    elif r.type == FLOAT16:
        rotate_together(r, work, rows, <uint16_t*>NULL, members)
    else:
        rotate_together(r, work, rows, <bfloat*>NULL, members)


cdef inline Py_ssize_t bytes_to_row(const Py_ssize_t* strides, Py_ssize_t g, Py_ssize_t b, Py_ssize_t h,
                                    Py_ssize_t s) noexcept nogil:
    """Return the distance in bytes from the start of an array to the row of group g, batch b, head h and token s."""
    return g * strides[0] + b * strides[1] + h * strides[2] + s * strides[3]


cdef inline void rotate_tokens(const CRotation* r, const RotationWork* work, Py_ssize_t g, Py_ssize_t first,
                               Py_ssize_t end) noexcept nogil:
    """Rotate the tokens first, .., end - 1 of a group whose heads are closer in memory than its tokens.

    Rotate all heads of a token, then all heads of the next token.
    """
    cdef Py_ssize_t b, s, h, row = row_of_angles(r)
    cdef Rows rows
    cdef int k, members
    rows.angle_step = rows.split_step = 0
    for b in range(r.shape[1]):
        for s in range(first, end):
            rows.angle = r.angles + (g * r.shape[3] + s) * row
            rows.split = work.split + (s - first) * row_of_split(r)
            h, members = 0, work.members
            while h < r.shape[2]:
                # for the last heads, fewer at once: 4, 2, then 1
                while members > r.shape[2] - h:
                    members //= 2
                for k in range(members):
                    rows.x[k] = r.x + bytes_to_row(r.x_strides, g, b, h + k, s)
                    rows.out[k] = r.out + bytes_to_row(r.out_strides, g, b, h + k, s)
                    rows.next[k] = 0
                    if s + 1 < r.shape[3]:
                        rows.next[k] = <uintptr_t>r.x + bytes_to_row(r.x_strides, g, b, k, s + 1)
                rows.x_step, rows.out_step = members * r.x_strides[2], members * r.out_strides[2]
                rows.count = (r.shape[2] - h) // members
                rotate_heads(r, work, &rows, members)
                h += members * rows.count


cdef inline void rotate_head_by_head(const CRotation* r, const RotationWork* work, Py_ssize_t g, Py_ssize_t first,
                                     Py_ssize_t end) noexcept nogil:
    """Rotate the tokens first, .., end - 1 of a group: these tokens of some heads, then of the next heads.

    The heads of the second batch follow those of the first, and so on.
    """
    cdef Py_ssize_t h = 0, all_heads = r.shape[1] * r.shape[2], head, row = row_of_angles(r)
    cdef Rows rows
    cdef int k, members = work.members
    rows.angle, rows.angle_step = r.angles + (g * r.shape[3] + first) * row, row
    rows.split, rows.split_step = work.split, row_of_split(r)
    rows.x_step, rows.out_step, rows.count = r.x_strides[3], r.out_strides[3], end - first
    while h < all_heads:
        # for the last heads, fewer at once: 4, 2, then 1
        while members > all_heads - h:
            members //= 2
        for k in range(members):
            head = h + k
            rows.x[k] = r.x + bytes_to_row(r.x_strides, g, head // r.shape[2], head % r.shape[2], first)
            rows.out[k] = r.out + bytes_to_row(r.out_strides, g, head // r.shape[2], head % r.shape[2], first)
            head += members
            rows.next[k] = 0
            if head < all_heads:
                rows.next[k] = <uintptr_t>r.x + bytes_to_row(r.x_strides, g, head // r.shape[2], head % r.shape[2],
                                                             first)
        rotate_heads(r, work, &rows, members)
        h += members


cdef inline void rotate(const CRotation* r, double* scratch) noexcept nogil:
    """Rotate all rows of (groups, batches, heads, rows) by the angles of their group and row.

    scratch has as many doubles as `lay_out_rotation` returns.
    """
    cdef Py_ssize_t g, i, first, end
    cdef RotationWork work
    lay_out_rotation(r, FLOATS if VECTORS else 0, &work, scratch)
    for g in range(r.shape[0]):
        first = 0
        while first < r.shape[3]:
            end = min(first + work.pass_rows, r.shape[3])
            # the range is empty if angles need not be split
            for i in range(end - first if work.splits else 0):
                split_angles(<const float*>(r.angles + (g * r.shape[3] + first + i) * row_of_angles(r)),
                             work.split + i * row_of_split(r), r.pairs)
            if work.heads_inside:
                rotate_tokens(r, &work, g, first, end)
            else:
                rotate_head_by_head(r, &work, g, first, end)
            first = end
    if work.buffer != NULL:
        stream_end()


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.rotate = rotate
