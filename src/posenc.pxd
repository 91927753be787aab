# What posenc.h declares.
from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t


cdef extern from "posenc.h" nogil:
    ctypedef double* rdouble
    ctypedef float* rfloat
    ctypedef uint16_t* ruint16
    ctypedef const double* crdouble
    ctypedef const float* crfloat
    ctypedef const uint16_t* cruint16
    ctypedef const int32_t* crint32
    ctypedef uint32_t oddfloat
    ctypedef oddfloat* roddfloat
    ctypedef int32_t widebfloat
    ctypedef widebfloat* rwidebfloat
    ctypedef int16_t bfloat
    ctypedef bfloat* rbfloat

    uint64_t bits "posenc_bits"(double)
    double from_bits "posenc_double"(uint64_t)
    bint FUSES "POSENC_FUSES"
    double fma "posenc_fma"(double, double, double)
    double two_sum "posenc_two_sum"(double, double, double*)
    double product_error "posenc_product_error"(double, double, double)
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
    uint32_t usual_bits "posenc_usual_bits"(uint32_t)
    bint any_far "posenc_any_far"(const bfloat*, Py_ssize_t)
    bint half_row "posenc_half_row"(const char*, int, Py_ssize_t, Py_ssize_t, char*, bint, Py_ssize_t)
    bint LONG_VECTORS "POSENC_LONG_VECTORS"
    Py_ssize_t before_line "posenc_before_line"(const void*, Py_ssize_t)
    void stream "posenc_stream"(void*, const void*, Py_ssize_t)
    void merge_lines "posenc_merge_lines"(cruint16, cruint16, ruint16, Py_ssize_t)
    void rotate_lines "posenc_rotate_lines"(crdouble, crdouble, crdouble, crdouble, char*, rfloat, Py_ssize_t)
    void prefetch "posenc_prefetch"(uintptr_t, Py_ssize_t)
    void stream_end "posenc_stream_end"()
    bint is_warm "posenc_is_warm"(const void*, Py_ssize_t)
    Py_ssize_t cache_size "posenc_cache_size"()
    Py_ssize_t size_of "posenc_size_of"(int)

    const bint DEBUG "POSENC_DEBUG"
    int ADDED "POSENC_ADDED"
    int MERGED "POSENC_MERGED"
    int TILE "POSENC_TILE"
    int PREFETCH_COLUMNS "POSENC_PREFETCH_COLUMNS"
    int PREFETCH_DISTANCE "POSENC_PREFETCH_DISTANCE"
    int PREFETCH_BLOCK "POSENC_PREFETCH_BLOCK"
    int FITS "POSENC_FITS"
    int PAST "POSENC_PAST"
    int STORES_COUNT "POSENC_STORES_COUNT"
    const char** reasons "posenc_reasons"
    int ANGLES "POSENC_ANGLES"
    uint32_t USUAL "POSENC_USUAL"
    int FLOAT64 "POSENC_FLOAT64"
    int FLOAT32 "POSENC_FLOAT32"
    int FLOAT16 "POSENC_FLOAT16"
    int BFLOAT16 "POSENC_BFLOAT16"
    int HALF "POSENC_HALF"
    int INTERLEAVED "POSENC_INTERLEAVED"
    int SEPARATED "POSENC_SEPARATED"

    ctypedef struct CResult "posenc_result":
        Py_ssize_t bytes, row, last_level
        bint mapped, each, sum, in_place, wide, at_once

    int c_stores "posenc_stores"(const CResult*)

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

    ctypedef struct CSink "posenc_sink":
        char* out
        Py_ssize_t row, batch
        const char* x
        Py_ssize_t x_row, x_batch
        Py_ssize_t batches
        double scale
        int type
        bint stream, ahead

    ctypedef struct CRotation "posenc_rotation":
        char* out
        const char* x
        Py_ssize_t shape[4]
        Py_ssize_t out_strides[4]
        Py_ssize_t x_strides[4]
        const char* angles
        Py_ssize_t pairs, width
        int type, layout

    ctypedef struct CRow "posenc_row":
        const int32_t* source
        const double* amplitude
        double* high
        double* low

    ctypedef struct CLevel "posenc_level":
        bint (*encode)(const CPlan*, const double*, Py_ssize_t, const CSink*, bint, double*,
                       unsigned char**) noexcept nogil
        void (*evaluate)(const CPlan*, const double*, const CRow*, double*) noexcept nogil
        void (*table)(const CLattice*, int64_t, Py_ssize_t, Py_ssize_t, const CSink*, double*) noexcept nogil
        void (*rows)(const CLattice*, const int64_t*, const int32_t*, Py_ssize_t, const CSink*,
                     double*) noexcept nogil
        void (*rotate)(const CRotation*, double*) noexcept nogil
        void (*merge)(const uint16_t*, const uint16_t*, Py_ssize_t, Py_ssize_t, const CSink*, double*) noexcept nogil
