/* Compute encodings and rotations in compiled programs, without the GIL. Results have the same bits as in Python. This
 * header works with C99 and C++11, and needs only Python's limited API. docs/howto-c.md shows complete programs.
 *
 *     with the GIL, once:   const posenc_fast_api *pf = posenc_fast_import();
 *     for an Encoding:      PyObject *capsule = PyObject_CallMethod(encoding, "__posenc_encoding__", NULL);
 *                           const posenc_fast_encoding *e = posenc_fast_encoding_of(capsule);
 *     on any thread:        pf->table(e, 0, rows, POSENC_FAST_FLOAT32, out, row_bytes, scratch, pf->scratch(e));
 *
 * Several threads may call the functions of posenc_fast_api at the same time. The functions allocate no memory and keep
 * no pointers. Functions of type int return 0 or a POSENC_FAST_ERROR_..; after an error, nothing has been written.
 * Strides are in bytes and may be negative. The values of a row are contiguous. Addresses and strides are multiples of
 * the size of a value.
 */
#ifndef POSENC_FAST_H
#define POSENC_FAST_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A new major version changes posenc_fast_api. A new minor version adds functions at the end of this struct. */
#define POSENC_FAST_API_MAJOR 1
#define POSENC_FAST_API_MINOR 0

/* types of values; the two 16-bit types are stored as uint16_t */
enum { POSENC_FAST_FLOAT64, POSENC_FAST_FLOAT32, POSENC_FAST_FLOAT16, POSENC_FAST_BFLOAT16 };

enum {
    POSENC_FAST_OK,
    POSENC_FAST_ERROR_NULL,
    POSENC_FAST_ERROR_TYPE,
    POSENC_FAST_ERROR_LENGTH,
    POSENC_FAST_ERROR_ALIGNMENT,
    POSENC_FAST_ERROR_OVERLAP,
    POSENC_FAST_ERROR_SCRATCH,
    POSENC_FAST_ERROR_SCALE,
    POSENC_FAST_ERROR_AXES,
    POSENC_FAST_ERROR_BEYOND
};

/* an Encoding and a Rotary, valid as long as their capsules exist */
typedef struct posenc_fast_encoding posenc_fast_encoding;
typedef struct posenc_fast_rotary posenc_fast_rotary;

typedef struct {
    uint32_t major, minor; /* version of the installed package's interface */
    size_t size;           /* sizeof(posenc_fast_api) in that version */

    /* return the text of an error, in English, never NULL */
    const char *(*error_text)(int error);

    /* ---- encodings -------------------------------------------------------------------------------------------- */

    /* number of columns of a row, and of axes of a position */
    ptrdiff_t (*columns)(const posenc_fast_encoding *);
    ptrdiff_t (*axes)(const posenc_fast_encoding *);
    /* bytes of working memory (scratch) that every call with this encoding needs; any alignment */
    size_t (*scratch)(const posenc_fast_encoding *);
    /* Encoding.table(rows, start=start): out (rows, columns) */
    int (*table)(const posenc_fast_encoding *, int64_t start, ptrdiff_t rows, int type, void *out, ptrdiff_t out_row,
                 void *scratch, size_t scratch_size);
    /* Encoding.encode(positions): positions (rows, axes), contiguous */
    int (*encode)(const posenc_fast_encoding *, const double *positions, ptrdiff_t rows, int type, void *out,
                  ptrdiff_t out_row, void *scratch, size_t scratch_size);
    int (*encode_int64)(const posenc_fast_encoding *, const int64_t *positions, ptrdiff_t rows, int type, void *out,
                        ptrdiff_t out_row, void *scratch, size_t scratch_size);
    /* Encoding.add_to(x, start=start, x_scale=x_scale): x and out (batches, rows, columns), the same memory or
       separate memory */
    int (*add)(const posenc_fast_encoding *, int64_t start, double x_scale, ptrdiff_t batches, ptrdiff_t rows, int type,
               const void *x, ptrdiff_t x_batch, ptrdiff_t x_row, void *out, ptrdiff_t out_batch, ptrdiff_t out_row,
               void *scratch, size_t scratch_size);

    /* ---- rotations: compute angles once, then rotate queries and keys of each layer ------------------------------ */

    ptrdiff_t (*head_dim)(const posenc_fast_rotary *);
    /* bytes of the angles of one token for x of a type: cosines, then sines; 0 for an unknown type */
    ptrdiff_t (*angles_row)(const posenc_fast_rotary *, int type);
    /* bytes of working memory (scratch) for calls with at most this number of tokens */
    size_t (*rotary_scratch)(const posenc_fast_rotary *, ptrdiff_t tokens);
    /* compute angles (tokens, angles_row) of the positions start, start + 1, .., or of any positions */
    int (*angles)(const posenc_fast_rotary *, int64_t start, ptrdiff_t tokens, int type, void *angles, void *scratch,
                  size_t scratch_size);
    int (*angles_at)(const posenc_fast_rotary *, const int64_t *positions, ptrdiff_t tokens, int type, void *angles,
                     void *scratch, size_t scratch_size);
    /* Rotary.apply(x, start=start, out=out): x and out (batches, heads, tokens, head_dim), the same memory or separate
       memory. shape: the first three lengths. angles: from one of the two functions above, for this type */
    int (*rotate)(const posenc_fast_rotary *, const void *angles, int type, const ptrdiff_t shape[3], const void *x,
                  const ptrdiff_t x_strides[3], void *out, const ptrdiff_t out_strides[3], void *scratch,
                  size_t scratch_size);
} posenc_fast_api;

/* ---- functions that need the GIL: they return NULL and set an exception if something is missing ------------------ */

#define POSENC_FAST_API_CAPSULE "posenc_fast._kernel._C_API"
#define POSENC_FAST_ENCODING_CAPSULE "posenc_fast_encoding"
#define POSENC_FAST_ROTARY_CAPSULE "posenc_fast_rotary"

static inline const posenc_fast_api *posenc_fast_import(void)
{
    const posenc_fast_api *api = NULL;
    PyObject *capsule, *kernel, *package = PyImport_ImportModule("posenc_fast");
    if (package == NULL)
        return NULL;
    kernel = PyImport_ImportModule("posenc_fast._kernel");
    if (kernel == NULL) {
        PyObject *type, *reason, *traceback;
        if (PyErr_ExceptionMatches(PyExc_ImportError)) {
            PyErr_Fetch(&type, &reason, &traceback);
            PyErr_Format(PyExc_ImportError,
                         "the C interface of posenc_fast needs its compiled kernel, which is unavailable: %S. "
                         "Install posenc_fast again with a C compiler",
                         reason ? reason : type);
            Py_XDECREF(type);
            Py_XDECREF(reason);
            Py_XDECREF(traceback);
        }
        Py_DECREF(package);
        return NULL;
    }
    capsule = PyObject_GetAttrString(kernel, "_C_API");
    if (capsule != NULL) {
        api = (const posenc_fast_api *)PyCapsule_GetPointer(capsule, POSENC_FAST_API_CAPSULE);
        Py_DECREF(capsule); /* the module keeps the capsule, and the capsule keeps the struct */
    }
    if (api == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_ImportError,
                     "this program needs version %d.%d of the C interface of posenc_fast, but the installed "
                     "posenc_fast has no C interface. Install a later version of posenc_fast",
                     POSENC_FAST_API_MAJOR, POSENC_FAST_API_MINOR);
    } else if (api->major != POSENC_FAST_API_MAJOR || api->size < sizeof *api) {
        PyErr_Format(PyExc_ImportError,
                     "this program needs version %d.%d of the C interface of posenc_fast, but the installed "
                     "posenc_fast has version %u.%u. %s",
                     POSENC_FAST_API_MAJOR, POSENC_FAST_API_MINOR, (unsigned)api->major, (unsigned)api->minor,
                     api->major > POSENC_FAST_API_MAJOR ? "Compile the program again with that version's posenc_fast.h"
                                                        : "Install a later version of posenc_fast");
        api = NULL;
    }
    Py_DECREF(kernel);
    Py_DECREF(package);
    return api;
}

/* Return the pointer in a capsule of encoding.__posenc_encoding__() or rotary.__posenc_rotary__(). Keep the capsule as
   long as you use the pointer. If the capsule is NULL, return NULL; the exception of the method stays set. */
static inline const posenc_fast_encoding *posenc_fast_encoding_of(PyObject *capsule)
{
    return capsule ? (const posenc_fast_encoding *)PyCapsule_GetPointer(capsule, POSENC_FAST_ENCODING_CAPSULE) : NULL;
}

static inline const posenc_fast_rotary *posenc_fast_rotary_of(PyObject *capsule)
{
    return capsule ? (const posenc_fast_rotary *)PyCapsule_GetPointer(capsule, POSENC_FAST_ROTARY_CAPSULE) : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
