# Declarations of compiler.h.
from libc.stdint cimport int32_t, uint16_t


cdef extern from "compiler.h" nogil:
    # what a function returns that must be inlined wherever it is called
    ctypedef void step "POSENC_STEP"
    # of other memory than all other arguments
    ctypedef double* rdouble
    ctypedef float* rfloat
    ctypedef uint16_t* ruint16
    ctypedef const double* crdouble
    ctypedef const float* crfloat
    ctypedef const uint16_t* cruint16
    ctypedef const int32_t* crint32
    const bint DEBUG "POSENC_DEBUG"
