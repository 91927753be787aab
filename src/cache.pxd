# Declarations of cache.h and tuning.h.
from libc.stdint cimport uintptr_t

from compiler cimport crdouble, cruint16, rfloat, ruint16


cdef extern from "cache.h" nogil:
    bint LONG_VECTORS "POSENC_LONG_VECTORS"
    Py_ssize_t before_line "posenc_before_line"(const void*, Py_ssize_t)
    void stream "posenc_stream"(void*, const void*, Py_ssize_t)
    void stream_end "posenc_stream_end"()
    void merge_lines "posenc_merge_lines"(cruint16, cruint16, ruint16, Py_ssize_t)
    void rotate_lines "posenc_rotate_lines"(crdouble, crdouble, crdouble, crdouble, char*, rfloat, Py_ssize_t)
    void prefetch "posenc_prefetch"(uintptr_t, Py_ssize_t)
    bint is_warm "posenc_is_warm"(const void*, Py_ssize_t)
    Py_ssize_t cache_size "posenc_cache_size"()
    Py_ssize_t c_second_level "posenc_second_level"()

cdef extern from "tuning.h" nogil:
    int ADDED "POSENC_ADDED"
    int ANGLES_PART "POSENC_ANGLES_PART"
    int ANGLES_LEAST "POSENC_ANGLES_LEAST"
    int ANGLES_MOST "POSENC_ANGLES_MOST"
    int PREFETCH_ROWS "POSENC_PREFETCH_ROWS"
    int PREFETCH_ROWS_16 "POSENC_PREFETCH_ROWS_16"
    int MERGED "POSENC_MERGED"
    int TILE "POSENC_TILE"
    int LINE_BUFFER "POSENC_LINE_BUFFER"
    int PREFETCH_COLUMNS "POSENC_PREFETCH_COLUMNS"
    int PREFETCH_DISTANCE "POSENC_PREFETCH_DISTANCE"
    int PREFETCH_BLOCK "POSENC_PREFETCH_BLOCK"
    int FITS "POSENC_FITS"
    int PAST "POSENC_PAST"
    int STORES_COUNT "POSENC_STORES_COUNT"
    const char** reasons "posenc_reasons"

    ctypedef struct Result "posenc_result":
        Py_ssize_t bytes, row, last_level
        bint mapped, one_by_one, sum, in_place, wide, at_once

    int c_stores "posenc_stores"(const Result*)
    Py_ssize_t prefetch_from "posenc_prefetch_from"(Py_ssize_t second_level, Py_ssize_t last_level)
