# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Grids from the tables of their axes: compiled once for each instruction-set level, as ``_loops.pyx`` is.

A column is all zero bits in every table but its own, so that a point's row has the bits of all its axes' rows; a minus
of zero is kept. Rows that lie side by side are one stretch of memory, whatever their width: whole cache lines of it
are merged and sent, in which one row ends and the next begins.
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
    """One row again and again, n values in all."""
    cdef Py_ssize_t c = 0
    while c < n:
        memcpy(out + c, x, min(width, n - c) * sizeof(uint16_t))
        c += width


cdef void merge_stretch(const uint16_t* x, Py_ssize_t period, const uint16_t* y, uint16_t* out, Py_ssize_t n,
                        bint past) noexcept nogil:
    """n values of y, each with that of x at its place in the period, of which a line more is there."""
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
    """The rows of inner, each merged with that of outer, batch by batch: all 16-bit pieces of whatever type."""
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
