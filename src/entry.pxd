# Declarations of entry.h.
from libc.stdint cimport int32_t, int64_t, uint16_t


cdef extern from "entry.h" nogil:
    int FLOAT64 "POSENC_FLOAT64"
    int FLOAT32 "POSENC_FLOAT32"
    int FLOAT16 "POSENC_FLOAT16"
    int BFLOAT16 "POSENC_BFLOAT16"
    Py_ssize_t size_of "posenc_size_of"(int)
    int HALF "POSENC_HALF"
    int INTERLEAVED "POSENC_INTERLEAVED"
    int SEPARATED "POSENC_SEPARATED"

    ctypedef struct CPlan "posenc_plan":
        Py_ssize_t axes, waves, width
        const double* high
        const double* low
        const double* largest
        const int32_t* source
        const double* amplitude
        const int32_t* runs
        Py_ssize_t nruns
        bint planar, straight

    ctypedef struct CLattice "posenc_lattice":
        const CPlan* plan
        const int32_t* quadrature_source
        const double* quadrature_amplitude
        const double* fine
        const double* coarse
        const double* origin
        Py_ssize_t stride
        int block_bits, span_bits

    ctypedef struct Output "posenc_output":
        char* out
        Py_ssize_t row, batch
        const char* x
        Py_ssize_t x_row, x_batch
        Py_ssize_t batches
        double scale
        int type
        bint stream, prefetch

    ctypedef struct Caches "posenc_caches":
        Py_ssize_t second_level, prefetch_from

    ctypedef struct CRotation "posenc_rotation":
        char* out
        const char* x
        Py_ssize_t shape[4]
        Py_ssize_t out_strides[4]
        Py_ssize_t x_strides[4]
        const char* angles
        Py_ssize_t pairs, width
        int type, layout
        bint stream
        Caches caches

    ctypedef struct CRow "posenc_row":
        const int32_t* source
        const double* amplitude
        double* high
        double* low

    ctypedef struct CLevel "posenc_level":
        bint (*encode)(const CPlan*, const double*, Py_ssize_t, const Output*, bint, double*,
                       unsigned char**) noexcept nogil
        void (*evaluate)(const CPlan*, const double*, const CRow*, double*) noexcept nogil
        void (*table)(const CLattice*, int64_t, Py_ssize_t, Py_ssize_t, const Output*, double*) noexcept nogil
        void (*rows)(const CLattice*, const int64_t*, const int32_t*, Py_ssize_t, const Output*,
                     double*) noexcept nogil
        void (*rotate)(const CRotation*, double*) noexcept nogil
        void (*merge)(const uint16_t*, const uint16_t*, Py_ssize_t, Py_ssize_t, const Output*, double*) noexcept nogil
