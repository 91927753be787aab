# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compute grids from the tables of the axes. Compiled once for each instruction-set level, like ``_loops.pyx``.

Each column belongs to one axis. In the tables of other axes, all bits of the column are zero. So the row of a point is
the bitwise OR of its axes' rows, which keeps negative zeros. Rows of the result that are adjacent in memory form one
stretch. A stretch is computed in whole cache lines, which may contain parts of several rows.
"""

from libc.stdint cimport uint16_t
from libc.string cimport memcpy

from cache cimport before_line, merge_lines, stream_end
from compiler cimport cruint16, ruint16
from entry cimport CLevel, Output
from work cimport LINE, GridWork, lay_out_grid


cdef void merge_values(cruint16 x, cruint16 y, ruint16 out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        out[c] = x[c] | y[c]


cdef void repeat(const uint16_t* x, Py_ssize_t width, uint16_t* out, Py_ssize_t n) noexcept nogil:
    """Fill n values of `out` with copies of a row of width values. The last copy may be incomplete."""
    cdef Py_ssize_t c = 0
    while c < n:
        memcpy(out + c, x, min(width, n - c) * sizeof(uint16_t))
        c += width


cdef void merge_stretch(const uint16_t* x, Py_ssize_t period, const uint16_t* y, uint16_t* out, Py_ssize_t n,
                        bint past) noexcept nogil:
    """Write the bitwise OR of n values of y and the values of x to `out`. x repeats after `period` values.

    The array x has `period` values, and then LINE more, which continue the repetition. If `past` is true, whole cache
    lines of `out` are written by non-temporal stores.
    """
    cdef Py_ssize_t head = min(n, before_line(out, sizeof(uint16_t))), end = n - (n - head) % LINE
    cdef Py_ssize_t i = 0, place = 0, m
    cdef bint lines
    while i < n:
        lines = head <= i < end
        if lines:
            m = min(end - i, (period - place + LINE - 1) // LINE * LINE)
        else:
            m = (head if i < head else n) - i
        if lines and past:
            merge_lines(x + place, y + i, out + i, m)
        else:
            merge_values(x + place, y + i, out + i, m)
        i += m
        place += m
        if place >= period:
            place -= period


cdef void merge(const uint16_t* outer, const uint16_t* inner, Py_ssize_t rows, Py_ssize_t width, const Output* output,
                double* scratch) noexcept nogil:
    """Write to batch b of `out`, for each b, the bitwise OR of row b of outer and each row of inner.

    Values of any type are passed as 16-bit pieces.
    """
    cdef Py_ssize_t b, i
    cdef GridWork work
    lay_out_grid(rows, width, output, &work, scratch)
    for b in range(output.batches):
        repeat(outer + b * width, width, work.row, work.period + LINE)
        i = 0
        while i < rows:
            merge_stretch(work.row, work.period, inner + i * width,
                          <uint16_t*>(output.out + b * output.batch + i * output.row), work.stretch * width,
                          output.stream)
            i += work.stretch
    if output.stream:
        stream_end()


cdef public void fill_level "POSENC_ENTRY"(CLevel* level) noexcept nogil:
    level.merge = merge
