# Declarations of vectors.h.
from libc.stdint cimport uint16_t

from half cimport bfloat


cdef extern from "vectors.h" nogil:
    enum:
        TOGETHER "POSENC_TOGETHER"
    const bint VECTORS "POSENC_VECTORS"
    const int DOUBLES "POSENC_DOUBLES"
    const int FLOATS "POSENC_FLOATS"

    void half_float64 "posenc_step_half_float64"(const double**, double**, const double*, Py_ssize_t, Py_ssize_t, int)
    void half_float32 "posenc_step_half_float32"(const float**, float**, const double*, Py_ssize_t, Py_ssize_t, int)
    void half_float16 "posenc_step_half_float16"(const uint16_t**, uint16_t**, const float*, Py_ssize_t, Py_ssize_t,
                                                 int)
    void half_bfloat16 "posenc_step_half_bfloat16"(const bfloat**, bfloat**, const float*, Py_ssize_t, Py_ssize_t, int)
    void interleaved_float64 "posenc_step_interleaved_float64"(const double**, double**, const double*, Py_ssize_t,
                                                               Py_ssize_t, int)
    void interleaved_float32 "posenc_step_interleaved_float32"(const float**, float**, const double*, Py_ssize_t,
                                                               Py_ssize_t, int)
    void interleaved_float16 "posenc_step_interleaved_float16"(const uint16_t**, uint16_t**, const float*, Py_ssize_t,
                                                               Py_ssize_t, int)
    void interleaved_bfloat16 "posenc_step_interleaved_bfloat16"(const bfloat**, bfloat**, const float*, Py_ssize_t,
                                                                 Py_ssize_t, int)
    bint usual_rows "posenc_usual_rows"(const bfloat**, Py_ssize_t, int)
