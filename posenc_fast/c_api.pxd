"""Declarations of posenc_fast.h, for ``from posenc_fast cimport c_api``.

Add ``posenc_fast.get_include()`` to the include directories of the C compiler.
"""

from libc.stdint cimport int64_t, uint32_t


cdef extern from "posenc_fast.h":
    enum:
        POSENC_FAST_API_MAJOR
        POSENC_FAST_API_MINOR
        POSENC_FAST_FLOAT64
        POSENC_FAST_FLOAT32
        POSENC_FAST_FLOAT16
        POSENC_FAST_BFLOAT16
        POSENC_FAST_OK
        POSENC_FAST_ERROR_NULL
        POSENC_FAST_ERROR_TYPE
        POSENC_FAST_ERROR_LENGTH
        POSENC_FAST_ERROR_ALIGNMENT
        POSENC_FAST_ERROR_OVERLAP
        POSENC_FAST_ERROR_SCRATCH
        POSENC_FAST_ERROR_SCALE
        POSENC_FAST_ERROR_AXES
        POSENC_FAST_ERROR_BEYOND

    ctypedef struct posenc_fast_encoding:
        pass
    ctypedef struct posenc_fast_rotary:
        pass

    ctypedef struct posenc_fast_api:
        uint32_t major, minor
        size_t size
        const char* (*error_text)(int error) noexcept nogil
        Py_ssize_t (*columns)(const posenc_fast_encoding*) noexcept nogil
        Py_ssize_t (*axes)(const posenc_fast_encoding*) noexcept nogil
        size_t (*scratch)(const posenc_fast_encoding*) noexcept nogil
        int (*table)(const posenc_fast_encoding*, int64_t start, Py_ssize_t rows, int type, void* out,
                     Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil
        int (*encode)(const posenc_fast_encoding*, const double* positions, Py_ssize_t rows, int type, void* out,
                      Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil
        int (*encode_int64)(const posenc_fast_encoding*, const int64_t* positions, Py_ssize_t rows, int type, void* out,
                            Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil
        int (*add)(const posenc_fast_encoding*, int64_t start, double x_scale, Py_ssize_t batches, Py_ssize_t rows,
                   int type, const void* x, Py_ssize_t x_batch, Py_ssize_t x_row, void* out, Py_ssize_t out_batch,
                   Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil
        Py_ssize_t (*head_dim)(const posenc_fast_rotary*) noexcept nogil
        Py_ssize_t (*angles_row)(const posenc_fast_rotary*, int type) noexcept nogil
        size_t (*rotary_scratch)(const posenc_fast_rotary*, Py_ssize_t tokens) noexcept nogil
        int (*angles)(const posenc_fast_rotary*, int64_t start, Py_ssize_t tokens, int type, void* angles,
                      void* scratch, size_t scratch_size) noexcept nogil
        int (*angles_at)(const posenc_fast_rotary*, const int64_t* positions, Py_ssize_t tokens, int type, void* angles,
                         void* scratch, size_t scratch_size) noexcept nogil
        int (*rotate)(const posenc_fast_rotary*, const void* angles, int type, const Py_ssize_t* shape, const void* x,
                      const Py_ssize_t* x_strides, void* out, const Py_ssize_t* out_strides, void* scratch,
                      size_t scratch_size) noexcept nogil

    const char* POSENC_FAST_API_CAPSULE
    const char* POSENC_FAST_ENCODING_CAPSULE
    const char* POSENC_FAST_ROTARY_CAPSULE
    const posenc_fast_api* posenc_fast_import() except NULL
    const posenc_fast_encoding* posenc_fast_encoding_of(object capsule) except NULL
    const posenc_fast_rotary* posenc_fast_rotary_of(object capsule) except NULL
