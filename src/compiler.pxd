# Declarations of compiler.h.
from libc.stdint cimport int32_t, uint16_t


cdef extern from "compiler.h" nogil:
    # return type of functions that are always inlined
    ctypedef void step "POSENC_STEP"
    # restrict pointers: no other argument of a function points to the same values
    ctypedef double* rdouble
    ctypedef float* rfloat
    ctypedef uint16_t* ruint16
    ctypedef const double* crdouble
    ctypedef const float* crfloat
    ctypedef const uint16_t* cruint16
    ctypedef const int32_t* crint32
    const bint DEBUG "POSENC_DEBUG"
