# cython: cdivision=True
"""Compute rows of any positions, each separately.

Results of float64 are computed in double-double, all other results in doubles.

All instruction-set levels must return the same bits, but sines and cosines with and without FMA may differ in their
last bits. So for results of 32 and 16 bits, a level without FMA computes a row in plain products and sums. Then it
rounds the values times 1 + REACH, and the values times 1 - REACH. The values that FMA would give lie between the two.
If the two roundings differ, the level computes the row again with emulated FMA (``posenc_fma``), which is slow. For
sums with x, no level uses FMA in sines and cosines.
"""

from libc.math cimport INFINITY, NAN, fabs
from libc.stdint cimport uint16_t
from libc.stdlib cimport calloc
from libc.string cimport memcmp, memset

from cache cimport stream_end
from columns cimport columns, columns_dd, gather_row_dd, narrow_row, sincos_any_row, sincos_direct_row
from compiler cimport rdouble, rfloat, step
from entry cimport FLOAT16, FLOAT32, FLOAT64, CPlan, CRow, Output
from exact cimport FUSES, HUGE, MOST, MOST_DIRECT, REACH, TINY
from half cimport oddfloat, roddfloat, rwidebfloat, to_bfloat, to_half, widebfloat
from output cimport round_into
from work cimport EncodeWork, EvaluateWork, lay_out_encode, lay_out_evaluate

cdef enum:
    DIRECT_ROW  # a row with one axis and few turns, for `sincos_direct_row`
    REDUCED_ROW  # any other row, for `sincos_any_row`
    EXACT_ROW  # a row that the loops leave to exact arithmetic in Python
    NAN_ROW  # the row of a position that is NaN or infinite


cdef inline step find_kind(const CPlan* plan, const double* position, int* kind) noexcept nogil:
    """Set kind to the kind of the row of a position: DIRECT_ROW, REDUCED_ROW, EXACT_ROW or NAN_ROW."""
    cdef Py_ssize_t a
    cdef double turns
    cdef bint exact = False
    kind[0] = DIRECT_ROW if plan.axes == 1 else REDUCED_ROW
    for a in range(plan.axes):
        turns = fabs(position[a]) * plan.largest[a]
        # an infinite frequency at position zero gives NaN turns; the tests `not turns <= ..` then make an EXACT_ROW
        if not turns <= MOST_DIRECT or fabs(position[a]) > HUGE:
            kind[0] = REDUCED_ROW
            if not fabs(position[a]) < INFINITY:
                kind[0] = NAN_ROW
                return
            exact = exact or not turns <= MOST or fabs(position[a]) > HUGE
        # an axis whose frequencies are all zero does not make a row an EXACT_ROW
        exact = exact or (turns < TINY and position[a] != 0 and plan.largest[a] > 0)
    if exact:
        kind[0] = EXACT_ROW


cdef inline step round_columns(const CPlan* plan, double* waves, const double* positions, Py_ssize_t k,
                               narrow_row out) noexcept nogil:
    """Write the columns of a row of waves to `out`, rounded. If positions is NULL, waves is this row.

    Otherwise, the row of waves is that of positions[k], on one axis, and is computed first, with FMA.
    """
    if positions != NULL and plan.straight:
        # the row of waves is the row of columns, so each value is rounded as it is computed
        sincos_direct_row[narrow_row](plan, positions[k], out, True)
        return
    if positions != NULL:
        sincos_direct_row[rdouble](plan, positions[k], waves, True)
    columns[narrow_row](plan, waves, out)


cdef inline void round_waves(const CPlan* plan, const Output* output, Py_ssize_t i, Py_ssize_t rows, double* waves,
                             const double* positions, double* scratch) noexcept nogil:
    """Write rows of a type of at most 32 bits, or the sum of one row and scale * x.

    If positions is NULL, as for a sum, rows is 1, and waves is the computed row of waves. Otherwise, the row of waves
    of each position is computed first, with FMA. scratch has width doubles, and then the scratch of `round_into`.
    """
    cdef Py_ssize_t k, n = plan.width
    cdef char* out = output.out + i * output.row
    cdef uint16_t* narrow
    if output.x != NULL:
        columns[rdouble](plan, waves, scratch)
        round_into(output, i, scratch, NULL, n, scratch + n)
    elif output.type == FLOAT32:
        for k in range(rows):
            round_columns[rfloat](plan, waves, positions, k, <float*>(out + k * output.row))
    elif output.type == FLOAT16:
        for k in range(rows):
            round_columns[roddfloat](plan, waves, positions, k, <oddfloat*>scratch)
            to_half(<oddfloat*>scratch, <uint16_t*>(out + k * output.row), n)
    else:
        for k in range(rows):
            narrow = <uint16_t*>(out + k * output.row)
            round_columns[rfloat](plan, waves, positions, k, <float*>scratch)
            if to_bfloat(scratch, narrow, n):
                round_columns[rwidebfloat](plan, waves, positions, k, <widebfloat*>scratch)
                to_bfloat(scratch, narrow, n)


cdef inline void sincos_narrow_row(const CPlan* plan, const double* position, int kind, bint single, bint fused,
                                   double* row, double* row_low, double* scratch) noexcept nogil:
    """Compute a row of waves for types of at most 32 bits. row, row_low and scratch have 2 * waves doubles each."""
    if kind == REDUCED_ROW or single:
        sincos_any_row(plan, position, single, False, fused, row, row_low, scratch)
    elif fused:
        sincos_direct_row[rdouble](plan, position[0], row, True)
    else:
        sincos_direct_row[rdouble](plan, position[0], row, False)


cdef inline void bracket(const CPlan* plan, CPlan* larger, CPlan* smaller, double* larger_amplitude,
                         double* smaller_amplitude) noexcept nogil:
    """Set larger and smaller to copies of the plan, with amplitudes times 1 + REACH and times 1 - REACH."""
    cdef Py_ssize_t c
    for c in range(plan.width):
        larger_amplitude[c] = plan.amplitude[c] * (1.0 + REACH)
        smaller_amplitude[c] = plan.amplitude[c] * (1.0 - REACH)
    larger[0] = smaller[0] = plan[0]
    larger.amplitude = larger_amplitude
    smaller.amplitude = smaller_amplitude


cdef inline bint round_surely(const CPlan* larger, const CPlan* smaller, const Output* output, Py_ssize_t i,
                              const double* waves, double* scratch) noexcept nogil:
    """Write a row from waves computed without FMA. Return whether FMA would certainly give the same bits.

    This is certain if larger and smaller, the plans of `bracket`, give the same bits. scratch has 2 * width doubles.
    """
    cdef Py_ssize_t n = larger.width
    cdef char* out = output.out + i * output.row
    cdef void* larger_row = scratch
    cdef void* smaller_row = scratch + n
    cdef bint same_floats
    if output.type == FLOAT32:
        columns[rfloat](larger, waves, <float*>out)
        columns[rfloat](smaller, waves, <float*>smaller_row)
        return memcmp(out, smaller_row, 4 * n) == 0
    if output.type == FLOAT16:
        columns[roddfloat](larger, waves, <oddfloat*>larger_row)
        columns[roddfloat](smaller, waves, <oddfloat*>smaller_row)
        to_half(<oddfloat*>larger_row, <uint16_t*>out, n)
        # equal oddfloats have equal float16; different oddfloats may have equal float16 too
        if memcmp(larger_row, smaller_row, 4 * n) == 0:
            return True
        # `out` has the float16 of `larger_row` now, so the memory of `larger_row` is free for those of `smaller_row`
        to_half(<oddfloat*>smaller_row, <uint16_t*>larger_row, n)
    else:
        columns[rfloat](larger, waves, <float*>larger_row)
        columns[rfloat](smaller, waves, <float*>smaller_row)
        same_floats = memcmp(larger_row, smaller_row, 4 * n) == 0
        # `to_bfloat` returns whether a float lies in the middle of two bfloat16, and so may be rounded to the wrong one
        if not to_bfloat(larger_row, <uint16_t*>out, n) and same_floats:
            return True
        columns[rwidebfloat](larger, waves, <widebfloat*>larger_row)
        columns[rwidebfloat](smaller, waves, <widebfloat*>smaller_row)
        to_bfloat(larger_row, <uint16_t*>out, n)
        to_bfloat(smaller_row, <uint16_t*>larger_row, n)
    return memcmp(out, larger_row, 2 * n) == 0


cdef inline bint encode(const CPlan* plan, const double* positions, Py_ssize_t rows, const Output* output, bint single,
                        double* scratch, unsigned char** left) noexcept nogil:
    """Write rows of any positions, or scale * x + rows, except EXACT_ROWs.

    left[0] must be NULL, and stays NULL if there are no EXACT_ROWs. Otherwise it becomes an array with a byte for each
    row, 1 for an EXACT_ROW and 0 for any other row. The caller frees the array. Return False if there is no memory for
    the array, else True.
    """
    cdef Py_ssize_t i = 0, c, k, width = plan.width
    cdef EncodeWork work
    cdef double* row
    cdef double* row_low
    cdef double* high
    cdef double* low
    cdef double* value
    cdef double* value_low
    cdef double* nan_row
    cdef const double* position
    cdef bint double_double = output.type == FLOAT64
    # All instruction-set levels must return the same bits. For rows of at most 32 bits, levels with FMA use it. The
    # other levels use plain products and sums first, and compute a row again with emulated FMA if its bits are not
    # certain. For scale * x + row, this is impossible, because the first result may have overwritten x. So no level
    # uses FMA for sines and cosines of such sums.
    cdef bint fused = FUSES and output.x == NULL, doubtful = not FUSES and output.x == NULL and not double_double
    cdef int kind, next_kind
    cdef CPlan larger, smaller
    lay_out_encode(plan, output, &work, scratch)
    row, row_low, high, low = work.evaluate.row, work.evaluate.row_low, work.high, work.low
    # value and value_low point to the double-double values of the columns. If `straight`, the columns are the row of
    # waves, unchanged, in `row` and `row_low`. Otherwise, `columns_dd` writes the columns to `high` and `low`.
    value = row if plan.straight else high
    value_low = row_low if plan.straight else low
    if doubtful:
        bracket(plan, &larger, &smaller, high, low)
    while i < rows:
        position = positions + i * plan.axes
        find_kind(plan, position, &kind)
        if kind == EXACT_ROW:
            if left[0] == NULL:
                left[0] = <unsigned char*>calloc(rows, 1)
                if left[0] == NULL:
                    return False
            left[0][i] = 1
        elif kind == NAN_ROW:
            # for types of at most 32 bits, `high` may contain the amplitudes of `bracket`, and must not be overwritten
            nan_row = high if double_double else work.rounding
            for c in range(width):
                nan_row[c] = NAN
            if double_double:
                memset(low, 0, width * sizeof(double))
                round_into(output, i, nan_row, low, width, work.rounding)
            else:
                round_into(output, i, nan_row, NULL, width, work.rounding + width)
        elif double_double:
            sincos_any_row(plan, position, single, True, False, row, row_low, work.evaluate.angles)
            if not plan.straight:
                columns_dd(plan, row, row_low, high, low)
            round_into(output, i, value, value_low, width, work.rounding)
        elif fused and kind == DIRECT_ROW and not single:
            k = 1
            while i + k < rows:
                find_kind(plan, position + k, &next_kind)
                if next_kind != DIRECT_ROW:
                    break
                k += 1
            round_waves(plan, output, i, k, row, position, work.rounding)
            i += k - 1
        else:
            sincos_narrow_row(plan, position, kind, single, fused, row, row_low, work.evaluate.angles)
            if not doubtful:
                round_waves(plan, output, i, 1, row, NULL, work.rounding)
            elif not round_surely(&larger, &smaller, output, i, row, work.rounding):
                sincos_narrow_row(plan, position, kind, single, True, row, row_low, work.evaluate.angles)
                round_waves(plan, output, i, 1, row, NULL, work.rounding)
        i += 1
    if output.stream:
        stream_end()
    return True


cdef inline void evaluate(const CPlan* plan, const double* position, const CRow* two_rows,
                          double* scratch) noexcept nogil:
    """Compute two rows of columns at one position, as double-doubles, by the sources and amplitudes of two_rows."""
    cdef EvaluateWork work
    cdef const CRow* row
    cdef int k
    lay_out_evaluate(plan.waves, &work, scratch)
    sincos_any_row(plan, position, False, True, False, work.row, work.row_low, work.angles)
    for k in range(2):
        row = &two_rows[k]
        gather_row_dd(work.row, work.row_low, row.source, row.amplitude, row.high, row.low, plan.width)
