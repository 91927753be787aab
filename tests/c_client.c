/* A client of posenc_fast.h, in C99 and in C++11. The functions table, encode, add and rotate of the extension
 * module call the interface. They take an Encoding or Rotary, the address of an array and two numbers. Errors become
 * ValueErrors with their text. */
#include <posenc_fast.h>

static const posenc_fast_api *pf;

/* called without the GIL */
typedef int (*work)(const void *value, void *memory, const long long *numbers, void *scratch, size_t size);

static int table(const void *value, void *memory, const long long *n, void *scratch, size_t size)
{
    const posenc_fast_encoding *e = (const posenc_fast_encoding *)value;
    ptrdiff_t row = pf->columns(e) * (ptrdiff_t)sizeof(float);
    return pf->table(e, n[0], (ptrdiff_t)n[1], POSENC_FAST_FLOAT32, memory, row, scratch, size);
}

static int encode(const void *value, void *memory, const long long *n, void *scratch, size_t size)
{
    const posenc_fast_encoding *e = (const posenc_fast_encoding *)value;
    ptrdiff_t row = pf->columns(e) * (ptrdiff_t)sizeof(float);
    int64_t positions[2];
    double same[2];
    int error;
    positions[0] = n[0];
    positions[1] = n[0] + 1;
    same[0] = (double)positions[0];
    same[1] = (double)positions[1];
    error = pf->encode(e, same, 1, POSENC_FAST_FLOAT32, memory, row, scratch, size);
    return error ? error : pf->encode_int64(e, positions + 1, 1, POSENC_FAST_FLOAT32, (char *)memory + row, row, scratch, size);
}

static int add(const void *value, void *memory, const long long *n, void *scratch, size_t size)
{
    const posenc_fast_encoding *e = (const posenc_fast_encoding *)value;
    ptrdiff_t row = pf->columns(e) * (ptrdiff_t)sizeof(float);
    return pf->add(e, n[0], 0.5, 1, (ptrdiff_t)n[1], POSENC_FAST_FLOAT32, memory, 0, row, memory, 0, row, scratch, size);
}

static int rotate(const void *value, void *memory, const long long *n, void *scratch, size_t size)
{
    const posenc_fast_rotary *r = (const posenc_fast_rotary *)value;
    double angles[256];
    int64_t position = n[0];
    ptrdiff_t shape[3] = {1, 1, 1}, strides[3] = {0, 0, 0};
    int error = pf->angles_row(r, POSENC_FAST_FLOAT32) > (ptrdiff_t)sizeof angles ? POSENC_FAST_ERROR_LENGTH : POSENC_FAST_OK;
    if (!error)
        error = n[1] ? pf->angles_at(r, &position, 1, POSENC_FAST_FLOAT32, angles, scratch, size)
                     : pf->angles(r, position, 1, POSENC_FAST_FLOAT32, angles, scratch, size);
    return error ? error : pf->rotate(r, angles, POSENC_FAST_FLOAT32, shape, memory, strides, memory, strides, scratch, size);
}

static PyObject *run(PyObject *args, const char *method, work function)
{
    PyObject *value, *capsule;
    long long address, numbers[2];
    const void *pointer;
    size_t size;
    void *scratch;
    int error;
    if (!PyArg_ParseTuple(args, "OLLL", &value, &address, &numbers[0], &numbers[1]))
        return NULL;
    capsule = PyObject_CallMethod(value, method, NULL);
    if (function != rotate) {
        const posenc_fast_encoding *e = posenc_fast_encoding_of(capsule);
        pointer = e;
        size = pf->scratch(e);
    } else {
        const posenc_fast_rotary *r = posenc_fast_rotary_of(capsule);
        pointer = r;
        size = pf->rotary_scratch(r, 1);
    }
    if (pointer == NULL) {
        Py_XDECREF(capsule);
        return NULL;
    }
    scratch = PyMem_Malloc(size);
    Py_BEGIN_ALLOW_THREADS
    error = function(pointer, (void *)(uintptr_t)address, numbers, scratch, size);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    Py_DECREF(capsule);
    if (error)
        return PyErr_Format(PyExc_ValueError, "%s", pf->error_text(error));
    Py_RETURN_NONE;
}

static PyObject *py_table(PyObject *self, PyObject *args)
{
    (void)self;
    return run(args, "__posenc_encoding__", table);
}

static PyObject *py_encode(PyObject *self, PyObject *args)
{
    (void)self;
    return run(args, "__posenc_encoding__", encode);
}

static PyObject *py_add(PyObject *self, PyObject *args)
{
    (void)self;
    return run(args, "__posenc_encoding__", add);
}

static PyObject *py_rotate(PyObject *self, PyObject *args)
{
    (void)self;
    return run(args, "__posenc_rotary__", rotate);
}

static PyMethodDef methods[] = {{"table", py_table, METH_VARARGS, NULL},
                                {"encode", py_encode, METH_VARARGS, NULL},
                                {"add", py_add, METH_VARARGS, NULL},
                                {"rotate", py_rotate, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "c_client", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_c_client(void)
{
    pf = posenc_fast_import();
    return pf ? PyModule_Create(&module) : NULL;
}
