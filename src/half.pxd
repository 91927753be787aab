# Declarations of half.h.
from libc.stdint cimport int16_t, int32_t, uint16_t, uint32_t


cdef extern from "half.h" nogil:
    ctypedef uint32_t oddfloat
    ctypedef oddfloat* roddfloat
    ctypedef int32_t widebfloat
    ctypedef widebfloat* rwidebfloat
    ctypedef int16_t bfloat
    ctypedef bfloat* rbfloat

    oddfloat to_odd "posenc_odd"(double)
    widebfloat to_wide_bfloat "posenc_wide_bfloat"(double)
    void to_half "posenc_to_half"(const oddfloat*, uint16_t*, Py_ssize_t)
    void from_half "posenc_from_half"(const uint16_t*, float*, Py_ssize_t)
    bint to_bfloat "posenc_to_bfloat"(const void*, uint16_t*, Py_ssize_t)
    void from_bfloat "posenc_from_bfloat"(const uint16_t*, float*, Py_ssize_t)
    float value_of_bfloat "posenc_bfloat_value"(uint32_t)
    uint32_t two_bfloats "posenc_two_bfloats"(const bfloat*)
    void set_two_bfloats "posenc_set_two_bfloats"(bfloat*, bfloat, bfloat)
    bfloat to_nearest_bfloat "posenc_nearest_bfloat"(float)
    uint32_t USUAL "POSENC_USUAL"
    uint32_t usual_bits "posenc_usual_bits"(uint32_t)
    bint any_far "posenc_any_far"(const bfloat*, Py_ssize_t)
    bint half_row "posenc_half_row"(const char*, int, Py_ssize_t, Py_ssize_t, char*, bint, Py_ssize_t)
