# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, freethreading_compatible=True
"""The compiled engine. It passes arrays to the loops, which are compiled once for each instruction-set level.

The C interface, ``rotate_rows`` and ``Calls`` (except ``Calls.rotate_memory``) check their arguments. Other functions
rely on their Python callers to check the arguments. Builds with POSENC_FAST_DEBUG check them again (``guards.pxd``),
and check that loops stay within their work space.

``posenc_fast/_core/engine/python.py`` has the same ``Plan``, ``Lattice``, ``merge`` and ``rotate`` in NumPy.
``entry.h`` explains waves, sources, blocks, anchors and spans. A ``level`` is an index into ``LEVELS``, and a ``kind``
is a value of ``KINDS``. ``Plan``, ``Lattice`` and ``rotate`` get arrays of 16-bit floats as uint16.
"""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport (
    PyCapsule_GetContext, PyCapsule_GetPointer, PyCapsule_New, PyCapsule_SetContext,
)
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport fabs, floor, frexp, ldexp
from libc.stdint cimport int32_t, int64_t, uint16_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from cache cimport (
    FITS, PAST, STORES_COUNT, Result, c_second_level, c_stores, cache_size, is_warm, prefetch_from, reasons,
)
from compiler cimport DEBUG as GUARDED
from entry cimport (
    BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Caches, CLattice, CLevel, CPlan, CRotation, CRow, Output, size_of,
)
from guards cimport (
    check_grid, check_lattice, check_level, check_memory, check_plan, check_points, check_positions, check_rotation,
    check_target, check_values, require,
)
from half cimport half_row
from interface cimport (
    CEncoding, CRotary, add_of, aligned, angles_of, bytes_of_angles, encode_of, find_lattice, measure_encoding,
    measure_rotary, rotate_of, table_of, type_of_angles,
)
from posenc_fast.c_api cimport (
    POSENC_FAST_API_CAPSULE,
    POSENC_FAST_API_MAJOR,
    POSENC_FAST_API_MINOR,
    POSENC_FAST_ENCODING_CAPSULE,
    POSENC_FAST_ERROR_ALIGNMENT,
    POSENC_FAST_ERROR_AXES,
    POSENC_FAST_ERROR_BEYOND,
    POSENC_FAST_ERROR_LENGTH,
    POSENC_FAST_ERROR_NULL,
    POSENC_FAST_ERROR_OVERLAP,
    POSENC_FAST_ERROR_SCALE,
    POSENC_FAST_ERROR_SCRATCH,
    POSENC_FAST_ERROR_TYPE,
    POSENC_FAST_OK,
    POSENC_FAST_ROTARY_CAPSULE,
    posenc_fast_api,
    posenc_fast_encoding,
    posenc_fast_rotary,
)
from work cimport (
    EncodeWork, EvaluateWork, GridWork, RotationWork, RowsWork, TableWork, anchor_rows, lay_out_encode,
    lay_out_evaluate, lay_out_grid, lay_out_rotation, lay_out_rows, lay_out_table,
)

from numpy import dtype as _dtype, empty as _empty, ndarray as _ndarray

cdef extern from *:
    """
    #include "compiler.h"
    #include "cpu.h"
    #include "entry.h"
    #if defined(POSENC_X86)
    #define POSENC_BASE_NAME "baseline"
    #elif defined(__aarch64__) || defined(_M_ARM64)
    #define POSENC_BASE_NAME "neon"
    #else
    #define POSENC_BASE_NAME "baseline"
    #endif
    POSENC_ENTRIES(baseline)
    /* setup.py defines POSENC_AVX2 and POSENC_AVX512 if the compiler supports these levels */
    #if defined(POSENC_AVX2)
    POSENC_ENTRIES(avx2)
    #else
    #define POSENC_AVX2 0
    #define posenc_level_avx2(level) ((void)(level))
    #endif
    #if defined(POSENC_AVX512)
    POSENC_ENTRIES(avx512)
    #else
    #define POSENC_AVX512 0
    #define posenc_level_avx512(level) ((void)(level))
    #endif
    """
    const char* BASE_NAME "POSENC_BASE_NAME"
    bint HAS_AVX2 "POSENC_AVX2"
    bint HAS_AVX512 "POSENC_AVX512"
    int cpu_level "posenc_cpu_level"() nogil
    void level_baseline "posenc_level_baseline"(CLevel*) nogil
    void level_avx2 "posenc_level_avx2"(CLevel*) nogil
    void level_avx512 "posenc_level_avx512"(CLevel*) nogil

cdef enum:
    SMALL = 1 << 14  # most calls with fewer values keep the GIL, because releasing it would not save time
    ON_STACK = 4096  # number of doubles of scratch on the stack; a larger scratch is allocated
    # Debug builds append FENCE bytes of value FENCE to the work space. A loop that writes too far changes these bytes.
    FENCE = 64

cdef CLevel levels[3]
cdef Caches CACHES
CACHES.second_level = c_second_level()
CACHES.prefetch_from = prefetch_from(CACHES.second_level, cache_size())


cdef bint _is_sound(CLevel* level):
    """Return whether a level computes sin(1) correctly to 1e-18, as a sum of two doubles.

    sin(1) is less exact if the compiler has changed the order of additions.
    """
    cdef double turns = 0.15915494309189535, turns_low = -9.839338337591243e-18  # 1 / (2 pi)
    cdef double one = 1.0, largest = turns, high = 0.0, low = 0.0
    cdef CRow two_rows[2]
    cdef double scratch[ON_STACK]
    cdef int32_t source = 0
    cdef CPlan plan
    memset(&plan, 0, sizeof(plan))
    plan.axes = plan.waves = plan.width = 1
    plan.high = &turns
    plan.low = &turns_low
    plan.largest = &largest
    plan.source = &source
    plan.amplitude = &one
    two_rows[0].source, two_rows[0].amplitude, two_rows[0].high, two_rows[0].low = &source, &one, &high, &low
    two_rows[1] = two_rows[0]
    level.evaluate(&plan, &one, two_rows, scratch)
    return -1e-18 < (high - 0.8414709848078965) + (low - 1.776845092935536e-18) < 1e-18


def _load():
    """Fill `levels` with the levels that build and CPU support.

    Return their names, and the names of levels that the CPU supports and the build lacks. Raise ImportError if a level
    computes wrong values.
    """
    cdef int best = cpu_level(), n = 1
    level_baseline(&levels[0])
    names, not_built = [BASE_NAME.decode()], []
    for k, name, built in ((1, "avx2", HAS_AVX2), (2, "avx512", HAS_AVX512)):
        if best < k:
            continue
        if not built:
            not_built.append(name)
            continue
        if k == 1:
            level_avx2(&levels[n])
        else:
            level_avx512(&levels[n])
        names.append(name)
        n += 1
    for k in range(n):
        if not _is_sound(&levels[k]):
            raise ImportError(
                f"posenc_fast was compiled with flags that break its arithmetic (sin(1) is wrong at level {names[k]}): "
                "build it without -ffast-math, -Ofast, /fp:fast and similar flags"
            )
    return tuple(names), tuple(not_built)


LEVELS, MISSED = _load()
CACHE_SIZE = cache_size()
# result of `stores` -> how rows are written, and why
STORES = tuple([reasons[k].decode() for k in range(STORES_COUNT)])
DEBUG = bool(GUARDED)
# names of dtypes -> kinds, the same numbers as in posenc_fast/_core/numbers/formats.py
KINDS = {"float64": FLOAT64, "float32": FLOAT32, "float16": FLOAT16, "bfloat16": BFLOAT16}


cdef class _Scratch:
    """Memory for a number of doubles. It begins at a cache line, and is freed with the object."""
    cdef void* memory
    cdef double* start
    cdef Py_ssize_t doubles

    def __cinit__(self, Py_ssize_t doubles):
        self.doubles = doubles
        self.memory = malloc(<size_t>(doubles + 8) * sizeof(double) + (FENCE if GUARDED else 0))
        if self.memory == NULL:
            raise MemoryError(f"no memory for {doubles * 8} bytes of work space")
        self.start = aligned(self.memory)
        if GUARDED:
            memset(self.start + doubles, FENCE, FENCE)

    cdef int check(self) except -1:
        cdef unsigned char* fence = <unsigned char*>(self.start + self.doubles)
        cdef int i
        for i in range(FENCE):
            require(fence[i] == FENCE, "scratch", f"be written only within {self.doubles} doubles", f"{i} bytes behind")
        return 0

    def __dealloc__(self):
        free(self.memory)


cdef class _Target:
    """The Output of a call, with the Python buffers of `out` and x, which keep their memory alive."""
    cdef Output output
    cdef Py_buffer out
    cdef Py_buffer x
    cdef bint has_out, has_x

    def __cinit__(self, object out, object x, double scale, int kind, int stores):
        PyObject_GetBuffer(out, &self.out, PyBUF_STRIDES | PyBUF_WRITABLE)
        self.has_out = True
        self.output.out = <char*>self.out.buf
        self.output.row = self.out.strides[self.out.ndim - 2]
        self.output.type = kind
        self.output.scale = scale
        self.output.stream = stores == PAST
        if x is not None:
            PyObject_GetBuffer(x, &self.x, PyBUF_STRIDES)
            self.has_x = True
            self.output.batch = self.out.strides[0]
            self.output.batches = self.out.shape[0]
            self.output.x = <const char*>self.x.buf
            self.output.x_batch = self.x.strides[0]
            self.output.x_row = self.x.strides[1]
            self.output.prefetch = stores != FITS

    def __dealloc__(self):
        if self.has_out:
            PyBuffer_Release(&self.out)
        if self.has_x:
            PyBuffer_Release(&self.x)


def stores(out, x, int kind, Py_ssize_t last_level, bint given, bint one_by_one=False):
    """Return how to write rows, or sums of rows and x, to `out`, as an index into ``STORES``.

    last_level is the number of bytes of the last-level cache. given is true if `out` existed before the user's call.
    one_by_one is true if rows are computed one by one, as in `Plan.encode` and `Lattice.rows`.
    """
    cdef _Target target = _Target(out, x, 1.0, kind, FITS)
    cdef Result result
    result.bytes = target.out.len
    result.row = target.out.shape[target.out.ndim - 1] * target.out.itemsize
    result.last_level = last_level
    result.mapped = True
    result.one_by_one = one_by_one
    result.sum = x is not None
    result.in_place = result.sum and target.output.x == target.output.out
    result.wide = kind == FLOAT64
    result.at_once = result.sum and target.output.batches == 1 and kind == FLOAT32
    # `is_warm` takes system calls to find out whether `out` is mapped, so ask only if the answer matters
    if not result.sum and c_stores(&result) == PAST:
        result.mapped = given and is_warm(target.out.buf, target.out.len)
    return c_stores(&result)


cdef class Plan:
    """Waves and columns of an encoding.

    frequencies, of shape (2, axes, waves), are in turns per unit, as sums of two doubles. If angles are float32
    products (``single`` in `encode`), frequencies are in radians per unit, rounded to float32, and low parts are zero.
    source, of shape (width,), has the index of each column's value in a row of sines and cosines. amplitude has the
    factor of each column. largest has the largest absolute frequency of each axis, in turns per unit. runs has the
    first column of each run of consecutive sources, and then the width. planar is true if a row of sines and cosines
    has all sines first, and false if sines and cosines alternate.
    """
    cdef CPlan c
    cdef const double[:, :, ::1] _frequencies
    cdef const int32_t[::1] _source
    cdef const double[::1] _amplitude
    cdef const int32_t[::1] _runs
    cdef const double[::1] _largest

    def __init__(self, frequencies, largest, source, amplitude, runs, bint planar):
        cdef Py_ssize_t c
        self._frequencies, self._largest = frequencies, largest
        self._source, self._amplitude, self._runs = source, amplitude, runs
        if GUARDED:
            check_plan(self._frequencies, self._largest, self._source, self._amplitude, self._runs)
        self.c.axes = self._frequencies.shape[1]
        self.c.waves = self._frequencies.shape[2]
        self.c.width = self._source.shape[0]
        self.c.high = &self._frequencies[0, 0, 0]
        self.c.low = &self._frequencies[1, 0, 0]
        self.c.largest = &self._largest[0]
        self.c.source = &self._source[0]
        self.c.amplitude = &self._amplitude[0]
        self.c.runs = &self._runs[0]
        self.c.nruns = self._runs.shape[0] - 1
        self.c.planar = planar
        self.c.straight = self.c.width == 2 * self.c.waves
        for c in range(self.c.width):
            self.c.straight = self.c.straight and self._source[c] == c and self._amplitude[c] == 1.0

    def encode(self, int level, positions, out, int kind, bint single=False, int stores=FITS, x=None,
               double scale=1.0):
        """Write the encoding to `out`, of shape (rows, width), or scale * x + encoding to `out`, (batch, rows, width).

        positions are float64 of shape (rows, axes). single is true if angles are float32 products. stores is the result
        of the function `stores` for the whole array of which `out` is a part. Return None if all rows are written.
        Otherwise return a byte for each row. It is 1 if the row needs exact arithmetic and was not written, else 0.
        """
        cdef Py_buffer view
        cdef Py_ssize_t rows
        cdef bint done
        cdef unsigned char* left = NULL
        cdef double on_stack[ON_STACK]
        cdef double* scratch = on_stack
        cdef Py_ssize_t size
        cdef EncodeWork work
        cdef _Scratch memory
        cdef _Target target
        if GUARDED:
            check_level(level, LEVELS)
            check_positions(positions, self.c.axes)
            check_target(out, x, kind, memoryview(positions).shape[0], self.c.width)
        target = _Target(out, x, scale, kind, stores)
        size = lay_out_encode(&self.c, &target.output, &work, NULL)
        if GUARDED or size > ON_STACK:
            memory = _Scratch(size)
            scratch = memory.start
        PyObject_GetBuffer(positions, &view, PyBUF_STRIDES)
        rows = view.shape[0]
        if rows * self.c.width < SMALL:
            done = levels[level].encode(&self.c, <const double*>view.buf, rows, &target.output, single, scratch, &left)
        else:
            with nogil:
                done = levels[level].encode(&self.c, <const double*>view.buf, rows, &target.output, single, scratch,
                                            &left)
        PyBuffer_Release(&view)
        if GUARDED:
            memory.check()
        if not done:
            raise MemoryError(f"no memory for the {rows} bytes that mark rows for exact arithmetic")
        if left == NULL:
            return None
        try:
            return PyBytes_FromStringAndSize(<char*>left, rows)
        finally:
            free(left)


cdef class Lattice:
    """Rows of cosines and sines of small offsets, from which the rows of integer positions are computed.

    The plan has two or three axes: a position / 2**32 rounded to an integer, the remainder, and the constant 1 if some
    phase is not a whole number of quarter turns. quadrature_source and quadrature_amplitude are the source and the
    amplitude of each column's derivative by the angle. cosine and sine have the index of the cosine and of the sine of
    each column's wave, in a row of sines and cosines. A block has 2**block_bits rows, and a span 2**span_bits rows.
    double_double is true if the rows are sums of two doubles, as float64 results need.
    """
    cdef CLattice c
    cdef readonly Plan plan
    cdef const int32_t[::1] _quadrature_source
    cdef const double[::1] _quadrature_amplitude
    cdef _Scratch _fine
    cdef _Scratch _coarse
    cdef _Scratch _origin

    def __init__(self, int level, Plan plan, quadrature_source, quadrature_amplitude, cosine, sine, int block_bits,
                 int span_bits, bint double_double):
        self.plan = plan
        self._quadrature_source, self._quadrature_amplitude = quadrature_source, quadrature_amplitude
        if GUARDED:
            check_level(level, LEVELS)
            check_lattice(plan.c.axes, plan.c.width, plan.c.waves, self._quadrature_source,
                          self._quadrature_amplitude, cosine, sine, block_bits, span_bits)
        self.c.plan = &plan.c
        self.c.quadrature_source = &self._quadrature_source[0]
        self.c.quadrature_amplitude = &self._quadrature_amplitude[0]
        # rows are an odd number of cache lines apart, so that they do not displace each other in the cache
        self.c.stride = ((plan.c.width + 7) // 8 | 1) * 8
        self.c.block_bits = block_bits
        self.c.span_bits = span_bits
        self._fine = self._offsets(level, cosine, sine, 1, (1 << block_bits) // 2 + 1, double_double)
        self._coarse = self._offsets(level, cosine, sine, 1 << block_bits, 1 << (span_bits - block_bits),
                                     double_double)
        self.c.fine = self._fine.start
        self.c.coarse = self._coarse.start
        self._origin = _Scratch(4 * self.c.stride)
        self._evaluate_origin(level)
        self.c.origin = self._origin.start
        if GUARDED:
            self._fine.check()
            self._coarse.check()
            self._origin.check()

    cdef int _evaluate_origin(self, int level) except -1:
        # Most tables begin at position 0. Short tables would spend most of their time on its row, so this row is
        # computed once, for all tables.
        cdef EvaluateWork layout
        cdef _Scratch work = _Scratch(lay_out_evaluate(self.plan.c.waves, &layout, NULL))
        cdef CRow two_rows[2]
        cdef double position[3]
        position[0] = position[1] = 0.0
        position[2] = 1.0
        anchor_rows(&self.c, self._origin.start, two_rows)
        levels[level].evaluate(&self.plan.c, position, two_rows, work.start)
        if GUARDED:
            work.check()
        return 0

    cdef _Scratch _offsets(self, int level, const int32_t[::1] cosine, const int32_t[::1] sine, Py_ssize_t step,
                           Py_ssize_t rows, bint double_double):
        """Return rows of all columns' cosines, then rows of their sines, at the offsets 0, step, 2 * step and so on.

        If double_double is true, rows of the cosines' low parts follow, and then rows of the sines' low parts.
        """
        cdef CPlan* plan = &self.plan.c
        cdef CRow cosine_and_sine[2]
        cdef CRow* row
        cdef Py_ssize_t plane = rows * self.c.stride, i, c
        cdef _Scratch memory = _Scratch((4 if double_double else 2) * plane)
        cdef EvaluateWork layout
        cdef _Scratch work = _Scratch(lay_out_evaluate(plan.waves, &layout, NULL) + 2 * plan.width)
        cdef double* ones = work.start
        cdef double* unused_low = ones + plan.width
        cdef double* scratch = unused_low + plan.width
        cdef double position[3]
        memset(memory.start, 0, (4 if double_double else 2) * plane * sizeof(double))
        position[0] = position[2] = 0.0
        for c in range(plan.width):
            ones[c] = 1.0
        for i in range(rows):
            position[1] = <double>(i * step)
            for c in range(2):
                row = &cosine_and_sine[c]
                row.source, row.amplitude = &sine[0] if c else &cosine[0], ones
                row.high = memory.start + c * plane + i * self.c.stride
                row.low = memory.start + (c + 2) * plane + i * self.c.stride if double_double else unused_low
            levels[level].evaluate(plan, position, cosine_and_sine, scratch)
        if GUARDED:
            work.check()
        return memory

    def table(self, int level, int64_t span, Py_ssize_t offset, out, int kind, int stores=FITS, x=None,
              double scale=1.0):
        """Write the rows of span * 2**span_bits + offset and of the next integers. `out` has the shape (rows, width).

        With x, write scale * x + encoding to `out`, of shape (batch, rows, width). Sums of float64 are not possible
        here: call `rows` instead. stores is the result of the function `stores` for the whole array of which `out` is a
        part.
        """
        cdef _Target target
        cdef _Scratch memory
        cdef TableWork table_layout
        cdef RowsWork sum_layout
        cdef Py_ssize_t rows
        if GUARDED:
            check_level(level, LEVELS)
            check_target(out, x, kind, None, self.plan.c.width)
            require(0 <= offset < 1 << self.c.span_bits, "offset", "lie in a span", offset)
            require(x is None or kind != 0, "kind", "be 1, 2 or 3 with x (call rows for float64)", kind)
        target = _Target(out, x, scale, kind, stores)
        if x is None:
            memory = _Scratch(lay_out_table(&self.c, &table_layout, NULL))
        else:
            memory = _Scratch(lay_out_rows(&self.c, &target.output, 1, &sum_layout, NULL))
        rows = target.out.shape[target.out.ndim - 2]
        with nogil:
            levels[level].table(&self.c, span, offset, rows, &target.output, memory.start)
        if GUARDED:
            memory.check()

    def rows(self, int level, const int64_t[::1] spans, const int32_t[::1] offsets, out, int kind, int stores=FITS,
             x=None, double scale=1.0):
        """Write the rows of the integers spans * 2**span_bits + offsets to `out`, of shape (rows, width).

        With x, write scale * x + encoding to `out`, of shape (batch, rows, width).
        """
        cdef _Target target
        cdef _Scratch memory
        cdef RowsWork work
        if GUARDED:
            check_level(level, LEVELS)
            check_points(spans, offsets, self.c.span_bits)
            check_target(out, x, kind, spans.shape[0], self.plan.c.width)
        target = _Target(out, x, scale, kind, stores)
        memory = _Scratch(lay_out_rows(&self.c, &target.output, spans.shape[0], &work, NULL))
        with nogil:
            levels[level].rows(&self.c, &spans[0], &offsets[0], spans.shape[0], &target.output, memory.start)
        if GUARDED:
            memory.check()


cdef int _rotate(int level, object angles, CRotation* r) except -1:
    """Set r.pairs and r.angles from C-contiguous angles (groups, rows, 2 * pairs), and rotate r.x into r.out."""
    cdef Py_buffer view
    cdef double on_stack[ON_STACK]
    cdef double* scratch = on_stack
    cdef Py_ssize_t size
    cdef RotationWork work
    cdef _Scratch memory
    PyObject_GetBuffer(angles, &view, PyBUF_STRIDES)
    try:
        r.pairs = view.shape[2] // 2
        r.angles = <const char*>view.buf
        size = lay_out_rotation(r, 1, &work, NULL)
        if GUARDED or size > ON_STACK:
            memory = _Scratch(size)
            scratch = memory.start
        if r.shape[0] * r.shape[1] * r.shape[2] * r.shape[3] * r.width < SMALL:
            levels[level].rotate(r, scratch)
        else:
            with nogil:
                levels[level].rotate(r, scratch)
    finally:
        PyBuffer_Release(&view)
    if GUARDED:
        memory.check()
    return 0


def merge(int level, const uint16_t[:, ::1] outer, const uint16_t[:, ::1] inner, uint16_t[:, :, :] out,
          int stores=FITS):
    """Write outer | inner to `out`, with shapes (batch, width), (rows, width) and (batch, rows, width).

    The arrays contain 16-bit pieces of values of any type. The argument stores is as in `Lattice.table`.
    """
    cdef Output output
    cdef GridWork work
    cdef _Scratch memory
    if GUARDED:
        check_level(level, LEVELS)
        check_grid(outer, inner, out)
    memset(&output, 0, sizeof(output))
    output.out = <char*>&out[0, 0, 0]
    output.batches, output.batch, output.row = out.shape[0], out.strides[0], out.strides[1]
    output.stream = stores == PAST
    memory = _Scratch(lay_out_grid(out.shape[1], out.shape[2], &output, &work, NULL))
    with nogil:
        levels[level].merge(&outer[0, 0], &inner[0, 0], out.shape[1], out.shape[2], &output, memory.start)
    if GUARDED:
        memory.check()


def rotate(int level, angles, x, out, int kind, int layout, int stores=FITS):
    """Rotate the pairs of x, of shape (groups, batches, heads, rows, width), and write them to `out`, which may be x.

    angles is a C-contiguous array (groups, rows, 2 * pairs) of cosines and then sines. It is float64, or float32 if x
    has a 16-bit type. layout is 0 if the two values of a pair are `pairs` values apart, and 1 if they are adjacent. It
    is 2 if they are adjacent in x and `pairs` values apart in `out`. Values behind the pairs are copied. The argument
    stores is as in `Lattice.table`.
    """
    cdef CRotation r
    cdef Py_buffer x_view
    cdef Py_buffer out_view
    cdef Py_ssize_t k
    if GUARDED:
        check_level(level, LEVELS)
        check_rotation(angles, x, out, kind, layout)
    PyObject_GetBuffer(x, &x_view, PyBUF_STRIDES)
    try:
        PyObject_GetBuffer(out, &out_view, PyBUF_STRIDES | PyBUF_WRITABLE)
        r.x = <const char*>x_view.buf
        r.out = <char*>out_view.buf
        for k in range(4):
            r.shape[k] = x_view.shape[k]
            r.x_strides[k] = x_view.strides[k]
            r.out_strides[k] = out_view.strides[k]
        r.width = x_view.shape[4]
        r.type = kind
        r.layout = layout
        r.stream = stores == PAST and r.x != r.out
        r.caches = CACHES
        try:
            _rotate(level, angles, &r)
        finally:
            PyBuffer_Release(&out_view)
    finally:
        PyBuffer_Release(&x_view)


# Shape, strides in bytes, and addresses of x and out, and the kind of their values. The axes are batch, heads and
# tokens. The last axis, head_dim, is left out: its values are adjacent.
cdef struct Tokens:
    Py_ssize_t[3] shape
    Py_ssize_t[3] x_strides
    Py_ssize_t[3] out_strides
    const char* x
    char* out
    int kind


cdef int _axis_of_x(int i, int token_axis) noexcept:
    """Return the axis of x that becomes axis i of `Tokens`. Heads and tokens are axes 1 and 2 of x, in either order."""
    if i == 0:
        return 0
    return token_axis if i == 2 else 3 - token_axis


cdef Py_ssize_t _read_tokens(tuple array, int axis, int kind, Tokens* t) except -1:
    """Fill t from `array`, an item of `arrays` in `rotate_memory`. Return the array's head_dim.

    axis is the axis of the tokens. The strides in `array` count values, and those in t count bytes.
    """
    cdef Py_ssize_t size = size_of(kind)
    cdef uintptr_t x, out
    cdef int i, x_axis
    shape, x, x_strides, out, out_strides = array
    for i in range(3):
        x_axis = _axis_of_x(i, axis)
        t.shape[i] = shape[x_axis]
        t.x_strides[i] = size * <Py_ssize_t>x_strides[x_axis]
        t.out_strides[i] = size * <Py_ssize_t>out_strides[x_axis]
    t.x, t.out, t.kind = <const char*>x, <char*>out, kind
    return shape[3]


def rotate_memory(int level, angles, arrays, int axis, int kind, int layout):
    """Rotate arrays of four axes, given by their addresses, as `rotate` does.

    Each item of arrays is (shape, address of x, strides of x, address of the result, strides of the result). axis is
    the axis of the tokens, 1 or 2. Strides count values, not bytes. angles has one group for all batches, or one group
    for each batch.
    """
    cdef CRotation r
    cdef Tokens t
    cdef Py_ssize_t i, r_axis
    cdef bint shared = len(angles) == 1
    if GUARDED:
        check_level(level, LEVELS)
    for array in arrays:
        if GUARDED:
            check_memory(angles, array[0], array[2], array[4], axis, kind, layout)
        r.width = _read_tokens(array, axis, kind, &t)
        r.x, r.out = t.x, t.out
        r.shape[0] = r.shape[1] = 1
        r.x_strides[0] = r.x_strides[1] = r.out_strides[0] = r.out_strides[1] = 0
        for i in range(3):
            # the axes of r are groups, batches, heads and tokens; batches with their own angles are groups
            r_axis = 0 if i == 0 and not shared else i + 1
            r.shape[r_axis] = t.shape[i]
            r.x_strides[r_axis] = t.x_strides[i]
            r.out_strides[r_axis] = t.out_strides[i]
        r.type = kind
        r.layout = layout
        r.stream = False
        r.caches = CACHES
        _rotate(level, angles, &r)


def side_by_side(uintptr_t cos, uintptr_t sin, int kind, angles):
    """Write the first halves of rows of cosines and of sines to `angles`, of float64 or float32.

    cos and sin are addresses of arrays of the type `kind`. These arrays and `angles` are C-contiguous, of shape
    (groups, rows, 2 * pairs). A row of `angles` gets the first half of the row of cosines, and then the first half of
    the row of sines. Return whether the two halves of each row of cosines and of sines are equal. If they are not,
    `angles` is only partly written.
    """
    cdef Py_buffer view
    cdef Py_ssize_t i, rows, pairs
    cdef bint alike = True, wide
    if GUARDED:
        check_values("angles", angles, (None, None, None), 0 if memoryview(angles).itemsize == 8 else 1)
    PyObject_GetBuffer(angles, &view, PyBUF_STRIDES | PyBUF_WRITABLE)
    rows, pairs, wide = view.shape[0] * view.shape[1], view.shape[2] // 2, view.itemsize == 8
    for i in range(rows):
        alike = (
            half_row(<const char*>cos, kind, i, pairs, <char*>view.buf, wide, 0)
            and half_row(<const char*>sin, kind, i, pairs, <char*>view.buf, wide, pairs)
        )
        if not alike:
            break
    PyBuffer_Release(&view)
    return alike


# ---- the C interface: posenc_fast.h ----------------------------------------------------------------------------------


cdef const char* c_error_text(int error) noexcept nogil:
    if error == POSENC_FAST_OK:
        return "no error"
    if error == POSENC_FAST_ERROR_NULL:
        return "a pointer is NULL"
    if error == POSENC_FAST_ERROR_TYPE:
        return "type must be POSENC_FAST_FLOAT64, .._FLOAT32, .._FLOAT16 or .._BFLOAT16"
    if error == POSENC_FAST_ERROR_LENGTH:
        return "a length is negative, or an array is larger than the address space"
    if error == POSENC_FAST_ERROR_ALIGNMENT:
        return "an address or a stride is not a multiple of the size of a value"
    if error == POSENC_FAST_ERROR_OVERLAP:
        return "rows of the result overlap, or the result shares memory with another array or with the scratch"
    if error == POSENC_FAST_ERROR_SCRATCH:
        return "the scratch is smaller than the size that scratch or rotary_scratch returns"
    if error == POSENC_FAST_ERROR_SCALE:
        return "x_scale is not finite"
    if error == POSENC_FAST_ERROR_AXES:
        return "the encoding has several axes, but table and add need one axis: call encode with an array of positions"
    if error == POSENC_FAST_ERROR_BEYOND:
        return "an angle is so large or so small that it needs exact arithmetic: use the Encoding or Rotary in Python"
    return "not an error of posenc_fast"


cdef Py_ssize_t c_columns(const posenc_fast_encoding* encoding) noexcept nogil:
    return (<const CEncoding*>encoding).width if encoding != NULL else 0


cdef Py_ssize_t c_axes(const posenc_fast_encoding* encoding) noexcept nogil:
    return (<const CEncoding*>encoding).axes if encoding != NULL else 0


cdef size_t c_scratch(const posenc_fast_encoding* encoding) noexcept nogil:
    return (<const CEncoding*>encoding).scratch if encoding != NULL else 0


cdef int c_table(const posenc_fast_encoding* encoding, int64_t start, Py_ssize_t rows, int type, void* out,
                 Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil:
    return table_of(<const CEncoding*>encoding, start, rows, type, out, out_row, scratch, scratch_size)


cdef int c_encode(const posenc_fast_encoding* encoding, const double* positions, Py_ssize_t rows, int type, void* out,
                  Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil:
    return encode_of(<const CEncoding*>encoding, positions, NULL, rows, type, out, out_row, scratch, scratch_size)


cdef int c_encode_int64(const posenc_fast_encoding* encoding, const int64_t* positions, Py_ssize_t rows, int type,
                        void* out, Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil:
    return encode_of(<const CEncoding*>encoding, NULL, positions, rows, type, out, out_row, scratch, scratch_size)


cdef int c_add(const posenc_fast_encoding* encoding, int64_t start, double x_scale, Py_ssize_t batches, Py_ssize_t rows,
               int type, const void* x, Py_ssize_t x_batch, Py_ssize_t x_row, void* out, Py_ssize_t out_batch,
               Py_ssize_t out_row, void* scratch, size_t scratch_size) noexcept nogil:
    return add_of(<const CEncoding*>encoding, start, x_scale, batches, rows, type, x, x_batch, x_row, out, out_batch,
                  out_row, scratch, scratch_size)


cdef Py_ssize_t c_head_dim(const posenc_fast_rotary* rotary) noexcept nogil:
    return (<const CRotary*>rotary).head_dim if rotary != NULL else 0


cdef Py_ssize_t c_angles_row(const posenc_fast_rotary* rotary, int type) noexcept nogil:
    if rotary == NULL or type < FLOAT64 or type > BFLOAT16:
        return 0
    return bytes_of_angles(<const CRotary*>rotary, type)


cdef size_t c_rotary_scratch(const posenc_fast_rotary* rotary, Py_ssize_t tokens) noexcept nogil:
    return measure_rotary(<const CRotary*>rotary, tokens) if rotary != NULL else 0


cdef int c_angles(const posenc_fast_rotary* rotary, int64_t start, Py_ssize_t tokens, int type, void* angles,
                  void* scratch, size_t scratch_size) noexcept nogil:
    return angles_of(<const CRotary*>rotary, start, NULL, True, tokens, type, angles, scratch, scratch_size)


cdef int c_angles_at(const posenc_fast_rotary* rotary, const int64_t* positions, Py_ssize_t tokens, int type,
                     void* angles, void* scratch, size_t scratch_size) noexcept nogil:
    return angles_of(<const CRotary*>rotary, 0, positions, False, tokens, type, angles, scratch, scratch_size)


cdef int c_rotate(const posenc_fast_rotary* rotary, const void* angles, int type, const Py_ssize_t* shape,
                  const void* x, const Py_ssize_t* x_strides, void* out, const Py_ssize_t* out_strides, void* scratch,
                  size_t scratch_size) noexcept nogil:
    return rotate_of(<const CRotary*>rotary, angles, False, type, shape, x, x_strides, out, out_strides, scratch,
                     scratch_size)


cdef posenc_fast_api c_api
c_api.major, c_api.minor, c_api.size = POSENC_FAST_API_MAJOR, POSENC_FAST_API_MINOR, sizeof(posenc_fast_api)
c_api.error_text = c_error_text
c_api.columns, c_api.axes, c_api.scratch = c_columns, c_axes, c_scratch
c_api.table, c_api.encode, c_api.encode_int64, c_api.add = c_table, c_encode, c_encode_int64, c_add
c_api.head_dim, c_api.angles_row, c_api.rotary_scratch = c_head_dim, c_angles_row, c_rotary_scratch
c_api.angles, c_api.angles_at, c_api.rotate = c_angles, c_angles_at, c_rotate
_C_API = PyCapsule_New(&c_api, POSENC_FAST_API_CAPSULE, NULL)


cdef class _Encoding:
    """The struct of a posenc_fast_encoding, and the objects that own its memory, or None for missing objects."""
    cdef CEncoding c
    cdef Plan real, integer
    cdef Lattice lattice, lattice_dd
    cdef const double[::1] least

    def __init__(self, int level, Plan real, Plan integer, Lattice lattice, Lattice lattice_dd, least, bint phase,
                 bint single, Py_ssize_t axes, Py_ssize_t last_level):
        if GUARDED:
            check_level(level, LEVELS)
            if real is not None:
                require(real.c.axes == axes + phase, "real", f"have {axes + phase} axes", real.c.axes)
            if integer is not None:
                require(integer.c.axes == 2 * axes + phase, "integer", f"have {2 * axes + phase} axes", integer.c.axes)
        self.real, self.integer, self.lattice, self.lattice_dd = real, integer, lattice, lattice_dd
        self.c.level = &levels[level]
        self.c.real = &real.c if real is not None else NULL
        self.c.integer = &integer.c if integer is not None else NULL
        self.c.lattice = &lattice.c if lattice is not None else NULL
        self.c.lattice_dd = &lattice_dd.c if lattice_dd is not None else NULL
        self.c.least = NULL
        if least is not None:
            self.least = least
            self.c.least = &self.least[0]
        self.c.axes, self.c.last_level = axes, last_level
        self.c.width = real.c.width if real is not None else integer.c.width
        self.c.phase, self.c.single = phase, single
        self.c.scratch = measure_encoding(&self.c)


cdef class _Rotary:
    """The struct of a posenc_fast_rotary, and the encoding that computes its cosines and sines."""
    cdef CRotary c
    cdef _Encoding angles


cdef void _release(object capsule) noexcept:
    Py_DECREF(<object>PyCapsule_GetContext(capsule))


cdef object _capsule(object owner, const void* pointer, const char* name):
    """Return a capsule with a pointer. The capsule keeps `owner` alive, because `owner` owns the memory."""
    capsule = PyCapsule_New(<void*>pointer, name, _release)
    PyCapsule_SetContext(capsule, <void*>owner)
    Py_INCREF(owner)
    return capsule


def encoding_capsule(int level, Plan real, Plan integer, Lattice lattice, Lattice lattice_dd, least, bint phase,
                     bint single, Py_ssize_t axes, Py_ssize_t last_level):
    """Return a capsule with a pointer to an encoding, for functions of the C interface.

    real is the plan for float64 positions, and integer is the plan for integers that are split into two parts. With
    single, which is true if angles are float32 products, integer is None. lattice and lattice_dd (for float64) are None
    if the encoding has no lattice. least is as in `Plans.least`. phase is true if the plans have a last axis of ones.
    last_level is the number of bytes of the last-level cache.
    """
    cdef _Encoding owner = _Encoding(level, real, integer, lattice, lattice_dd, least, phase, single, axes, last_level)
    return _capsule(owner, &owner.c, POSENC_FAST_ENCODING_CAPSULE)


def rotary_capsule(angles, Py_ssize_t head_dim, int layout):
    """Return a capsule with a pointer to a rotary encoding, for functions of the C interface.

    angles is the capsule of the encoding (with one axis) that computes cosines and sines. layout is as in `rotate`.
    """
    cdef _Rotary owner = _Rotary()
    owner.angles = <_Encoding>PyCapsule_GetContext(angles)
    owner.c.angles = <const CEncoding*>PyCapsule_GetPointer(angles, POSENC_FAST_ENCODING_CAPSULE)
    owner.c.head_dim, owner.c.layout, owner.c.caches = head_dim, layout, CACHES
    return _capsule(owner, &owner.c, POSENC_FAST_ROTARY_CAPSULE)


# ---- calls from Python for few rows: one compiled method checks the arguments and runs the loops ---------------------


cdef enum:
    # limits of these calls
    MOST_OF_TABLE = 1 << 22  # maximum number of values in a table; equals BLOCK in posenc_fast/_core/engine/blocks.py
    # Rows of any positions, sums and rotations must have fewer values than this number. It equals WORTH_A_THREAD in
    # blocks.py, because from this number on, Python may use several threads.
    MOST_OF_ROWS = 1 << 20
    LARGE = 1 << 20  # minimum bytes of a large array; equals _LARGE in posenc_fast/_core/numbers/arrays.py
    MOST_OF_TOKENS = 8  # maximum number of tokens; for more, Python caches the cosines and sines for the next layer
    ANGLES_ON_STACK = 1024  # maximum number of cosines and sines on the stack

cdef int64_t MOST_START = <int64_t>1 << 62
cdef double MOST_EXACT = 9007199254740992.0  # 2**53: float64 represents all smaller integers

_FLOAT32, _FLOAT64, _INT64 = _dtype("float32"), _dtype("float64"), _dtype("int64")
# dtype of the caller's positions -> dtype of the loops' positions; uint64 is left out: its values may exceed int64
_READ_AS = {
    _dtype(code): _INT64 if code in "lq" and _dtype(code).itemsize == 8 else _FLOAT64 for code in "bBhHiIlqefd"
}
_SCALARS = frozenset([_dtype(code).type for code in "bBhHiIlLqQefd"])


cdef int _get_buffer(Py_buffer* view, object array, int kind, int flags) except -2:
    """Get the buffer of an array of values of a kind, and return the kind.

    Return -1, without a buffer, if the array cannot provide one with these flags, or has values of another size.
    """
    try:
        PyObject_GetBuffer(array, view, flags)
    except (BufferError, ValueError):
        return -1
    if view.itemsize != size_of(kind):
        # another thread has changed the dtype of the array since `kind` was found
        PyBuffer_Release(view)
        return -1
    return kind


cdef object _new(tuple shape, object dtype, Py_ssize_t bytes, object large):
    """Return a new array. It is created by the function `large`, at a cache line, if it has LARGE bytes or more."""
    return _empty(shape, dtype) if bytes < LARGE else large(shape, _dtype(dtype))


cdef CRotary _rotary(const CEncoding* angles, Py_ssize_t head_dim, int layout) noexcept:
    cdef CRotary r
    r.angles, r.head_dim, r.layout, r.caches = angles, head_dim, layout, CACHES
    return r


cdef bint _is_start(object start):
    """Return whether start is an int between -2**62 and 2**62."""
    return type(start) is int and -MOST_START < start < MOST_START


cdef bint _is_one(object step):
    return type(step) is int and step == 1


cdef bint _is_exact(object precision):
    return type(precision) is str and precision == "exact"


cdef bint _are_exact(double first, double last):
    """Return whether float64 represents first, first + 1, .. last exactly. first is not an integer.

    Let 2**exponent be the largest power of 2 of which first is a whole multiple. float64 represents a multiple of this
    power exactly if its absolute value is less than 2**53 times the power. Return False if the power is too small to
    test.
    """
    cdef int exponent
    cdef double part = frexp(first, &exponent)
    # now first = part * 2**exponent; double part until it is an integer
    while part != floor(part):
        part *= 2.0
        exponent -= 1
    return exponent > -1000 and max(fabs(first), fabs(last)) < ldexp(MOST_EXACT, exponent)


cdef class Calls:
    """Shortcuts for the usual calls of one encoding, at one level, with results that are not large.

    Each method handles common types of arguments, and returns the result (`rotate_memory`: True). For other arguments,
    it writes nothing and returns None (`rotate_memory`: False). Then its Python caller checks the arguments, and
    computes the same bits in the general way. The methods call functions of the C interface, which check whether
    arrays overlap. kinds maps dtypes and scalar types to kinds. large is the function that creates large arrays. The
    other arguments are as in `encoding_capsule`, with None for plans and lattices that do not exist yet.
    """
    cdef _Encoding encoding
    cdef dict kinds
    cdef object large

    def __init__(self, int level, Plan real, Plan integer, Lattice lattice, Lattice lattice_dd, least, bint phase,
                 Py_ssize_t axes, Py_ssize_t last_level, dict kinds, large):
        self.encoding = _Encoding(level, real, integer, lattice, lattice_dd, least, phase, False, axes, last_level)
        self.kinds, self.large = kinds, large

    cdef int kind_of(self, object array) except -2:
        """Return the kind of the values of an ndarray, or -1 for a subclass, another object or an unsupported dtype."""
        if type(array) is not _ndarray:
            return -1
        kind = self.kinds.get(array.dtype)
        return -1 if kind is None else kind

    cdef object result(self, tuple shape, Py_ssize_t values, object dtype, object out, int* kind):
        """Return `out`, or a new array of the given shape if `out` is None. Set kind to the kind of the result.

        values is the number of values in the shape. Return None if `out` is not an ndarray, if a dtype is not in kinds,
        or if dtype and the dtype of `out` differ.
        """
        kind[0] = FLOAT32
        if dtype is not None:
            number = self.kinds.get(dtype) if isinstance(dtype, (type, _dtype)) else None
            if number is None:
                return None
            kind[0] = number
        if out is not None:
            if dtype is None:
                kind[0] = self.kind_of(out)
            return out if kind[0] >= 0 and self.kind_of(out) == kind[0] else None
        return _new(shape, _FLOAT32 if dtype is None else dtype, values * size_of(kind[0]), self.large)

    def table(self, length, start, step, dtype, precision, out):
        """Do the work of `Encoding.table` for step=1: return the rows of start, start + 1 and so on."""
        cdef const CEncoding* e = &self.encoding.c
        cdef double on_stack[ON_STACK]
        cdef void* scratch = on_stack
        cdef _Scratch memory, positions
        cdef Py_buffer view
        cdef Py_ssize_t rows, values, i
        cdef double first = 0.0, last
        cdef int64_t begin = 0
        cdef int kind, error
        cdef bint has_fraction = False
        if e.axes != 1 or type(length) is not int or length > MOST_OF_TABLE:
            return None
        if not _is_one(step) or not _is_exact(precision):
            return None
        rows = length
        values = rows * e.width
        if not 0 < values <= MOST_OF_TABLE:
            return None
        if type(start) is float:
            first = start
            last = first + <double>(rows - 1)
            if not fabs(first) < MOST_EXACT:
                return None
            begin = <int64_t>first
            has_fraction = <double>begin != first
            if has_fraction and (e.real == NULL or values >= MOST_OF_ROWS or not _are_exact(first, last)):
                return None
        elif _is_start(start):
            begin = start
        else:
            return None
        result = self.result((rows, e.width), values, dtype, out, &kind)
        if result is None or _get_buffer(&view, result, kind, PyBUF_STRIDES | PyBUF_WRITABLE) < 0:
            return None
        try:
            if view.ndim != 2 or view.shape[0] != rows or view.shape[1] != e.width:
                return None
            if e.width > 1 and view.strides[1] != view.itemsize:
                return None
            if not has_fraction and find_lattice(e, kind) == NULL:
                return None
            if GUARDED or e.scratch > sizeof(on_stack):
                memory = _Scratch(e.scratch // sizeof(double) + 1)
                scratch = memory.start
            if has_fraction:
                positions = _Scratch(rows)
                for i in range(rows):
                    positions.start[i] = first + <double>i
                with nogil:
                    error = encode_of(e, positions.start, NULL, rows, kind, view.buf, view.strides[0], scratch,
                                      e.scratch)
            elif values < SMALL:
                error = table_of(e, begin, rows, kind, view.buf, view.strides[0], scratch, e.scratch)
            else:
                with nogil:
                    error = table_of(e, begin, rows, kind, view.buf, view.strides[0], scratch, e.scratch)
        finally:
            PyBuffer_Release(&view)
        if GUARDED:
            memory.check()
        return None if error else result

    def encode(self, positions, dtype, precision, out):
        """Do the work of `Encoding.encode` for an ndarray, a number, or a tensor with one number. Return the rows."""
        cdef const CEncoding* e = &self.encoding.c
        cdef double on_stack[ON_STACK]
        cdef void* scratch = on_stack
        cdef _Scratch memory
        cdef Py_buffer out_view, positions_view
        cdef Py_ssize_t rows = 1, values, row, k
        cdef double number = 0.0
        cdef const double* real = NULL
        cdef const int64_t* integers = NULL
        cdef int kind, error
        cdef bint has_positions = False
        cdef tuple shape = ()
        if e.real == NULL or not _is_exact(precision):
            return None
        # value becomes a Python number if positions hold a single number; otherwise it stays the array
        value, value_type = positions, type(positions)
        if value_type is _ndarray:
            read_as = _READ_AS.get(positions.dtype)
            if read_as is None or positions.size >= MOST_OF_ROWS:
                return None
            # positions becomes a new view, so that other threads cannot change its shape
            positions = positions.astype(read_as, "C", copy=False).view() if positions.size > 1 else positions.view()
            shape = positions.shape
            for size in shape:
                rows *= <Py_ssize_t>size
            if e.axes > 1:
                k = len(shape)
                if k == 0 or shape[k - 1] != e.axes:
                    return None
                shape, rows = shape[:k - 1], rows // e.axes
            elif rows == 1:
                value = positions.item()
                value_type = type(value)
        elif e.axes > 1:
            return None
        elif value_type is not float and value_type is not int:
            if value_type not in _SCALARS:
                if value_type.__module__ != "torch" or value_type.__name__ != "Tensor" or positions.numel() != 1:
                    return None
                if not positions.is_cpu or positions.requires_grad:
                    return None
                shape = tuple(positions.shape)
            value = positions.item()
            value_type = type(value)
        if value_type is float or (value_type is int and -MOST_EXACT <= value <= MOST_EXACT):
            number = value
            real = &number
        elif value_type is not _ndarray:
            # an integer beyond 2**53, which float64 may not represent, or a bool or a complex number of torch
            return None
        # from here on, real is NULL if positions are an array, and points to number if they hold a single number
        values = rows * e.width
        if not 0 < values < MOST_OF_ROWS:
            return None
        result = self.result((*shape, e.width) if shape else (e.width,), values, dtype, out, &kind)
        if result is None or _get_buffer(&out_view, result, kind, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0:
            return None
        try:
            if out_view.ndim != len(shape) + 1 or out_view.shape[out_view.ndim - 1] != e.width:
                return None
            for k in range(out_view.ndim - 1):
                if out_view.shape[k] != <Py_ssize_t>shape[k]:
                    return None
            row = e.width * out_view.itemsize
            if real == NULL:
                PyObject_GetBuffer(positions, &positions_view, PyBUF_C_CONTIGUOUS)
                has_positions = True
                if read_as is _INT64:
                    integers = <const int64_t*>positions_view.buf
                else:
                    real = <const double*>positions_view.buf
            if GUARDED or e.scratch > sizeof(on_stack):
                memory = _Scratch(e.scratch // sizeof(double) + 1)
                scratch = memory.start
            if values < SMALL:
                error = encode_of(e, real, integers, rows, kind, out_view.buf, row, scratch, e.scratch)
            else:
                with nogil:
                    error = encode_of(e, real, integers, rows, kind, out_view.buf, row, scratch, e.scratch)
        finally:
            PyBuffer_Release(&out_view)
            if has_positions:
                PyBuffer_Release(&positions_view)
        if GUARDED:
            memory.check()
        return None if error else result

    def add(self, x, start, step, x_scale, precision, out):
        """Do the work of `Encoding.add_to` for step=1: return x_scale * x + the rows of start, start + 1 and so on."""
        cdef const CEncoding* e = &self.encoding.c
        cdef double on_stack[ON_STACK]
        cdef void* scratch = on_stack
        cdef _Scratch memory
        cdef Py_buffer x_view, out_view
        cdef Py_ssize_t values, rows, row, batch, batches, dims, k
        cdef int kind, error
        cdef bint has_out = False
        cdef double scale
        cdef int64_t begin
        if e.axes != 1 or not _is_start(start) or type(x_scale) is not float:
            return None
        if not _is_one(step) or not _is_exact(precision):
            return None
        scale, begin = x_scale, start
        kind = self.kind_of(x)
        if kind < 0 or _get_buffer(&x_view, x, kind, PyBUF_C_CONTIGUOUS) < 0:
            return None
        try:
            values, dims = x_view.len // x_view.itemsize, x_view.ndim
            if not 0 < values < MOST_OF_ROWS or dims < 2 or x_view.shape[dims - 1] != e.width:
                return None
            if find_lattice(e, kind) == NULL:
                return None
            result = out
            if out is None:
                result = _new(tuple([x_view.shape[k] for k in range(dims)]), x.dtype, x_view.len, self.large)
            elif self.kind_of(out) != kind:
                return None
            if _get_buffer(&out_view, result, kind, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0:
                return None
            has_out = True
            if out_view.ndim != dims:
                return None
            for k in range(dims):
                if out_view.shape[k] != x_view.shape[k]:
                    return None
            rows, row = x_view.shape[dims - 2], e.width * x_view.itemsize
            batch = rows * row
            batches = x_view.len // batch
            if GUARDED or e.scratch > sizeof(on_stack):
                memory = _Scratch(e.scratch // sizeof(double) + 1)
                scratch = memory.start
            if values < SMALL:
                error = add_of(e, begin, scale, batches, rows, kind, x_view.buf, batch, row, out_view.buf, batch, row,
                               scratch, e.scratch)
            else:
                with nogil:
                    error = add_of(e, begin, scale, batches, rows, kind, x_view.buf, batch, row, out_view.buf, batch,
                                   row, scratch, e.scratch)
        finally:
            PyBuffer_Release(&x_view)
            if has_out:
                PyBuffer_Release(&out_view)
        if GUARDED:
            memory.check()
        return None if error else result

    def rotate(self, x, start, axis, out, Py_ssize_t head_dim, int layout):
        """Do the work of `Rotary.apply` for up to MOST_OF_TOKENS tokens.

        The columns of the encoding are the cosines of all pairs, and then their sines. The shape of x is (batch, heads,
        tokens, head_dim) or (batch, tokens, heads, head_dim). axis is the axis of the tokens. start is the position of
        the first token.
        """
        cdef CRotary r = _rotary(&self.encoding.c, head_dim, layout)
        if not _is_start(start):
            return None
        return _rotate_array(&r, NULL, 1, MOST_OF_TOKENS, start, x, axis, out, self.kinds, self.large)

    def rotate_memory(self, int64_t start, list arrays, int axis, int kind, int layout):
        """Do the work of `rotate` for one or two arrays at addresses, given as in the function `rotate_memory`.

        All arrays have the same number of tokens and the same head_dim, which is at least the width of the encoding.
        Addresses are aligned. A result is at the address of its x, or does not overlap it. Return True. Return False,
        and write nothing, if there are more than MOST_OF_TOKENS tokens, or the encoding has no lattice.
        """
        cdef Tokens[2] t
        cdef Py_ssize_t head_dim = 0
        cdef int i, count = len(arrays)
        cdef CRotary r
        if GUARDED:
            require(axis == 1 or axis == 2, "axis", "be 1 or 2", axis)
            require(0 < count <= 2, "arrays", "have one or two items", count)
            shapes = [array[0] for array in arrays]
            for shape in shapes:
                require(shape[3] >= self.encoding.c.width, "shape",
                        f"have a head_dim of at least {self.encoding.c.width}", shape)
                require(shape[axis] == shapes[0][axis], "shape", "have the same number of tokens", shape)
                require(shape[3] == shapes[0][3], "shape", "have the same head_dim", shape)
        for i in range(count):
            head_dim = _read_tokens(arrays[i], axis, kind, &t[i])
        if t[0].shape[2] > MOST_OF_TOKENS:
            return False
        r = _rotary(&self.encoding.c, head_dim, layout)
        return _rotate_tokens(&r, NULL, False, start, t, count)


def rotate_rows(int level, angles, x, axis, out, dict kinds, large, Py_ssize_t head_dim, int layout):
    """Do the work of `Rotary.apply_tables` for x as in `Calls.rotate`, or return None for other arguments.

    angles, of shape (1 or batch, tokens, 2 * pairs), has cosines and then sines, as in `rotate`. Other threads must not
    change the shape of angles. kinds and large are as in `Calls`.
    """
    cdef Py_buffer view
    cdef CEncoding e
    cdef CRotary r = _rotary(&e, head_dim, layout)
    memset(&e, 0, sizeof(e))
    PyObject_GetBuffer(angles, &view, PyBUF_C_CONTIGUOUS)
    try:
        if GUARDED:
            check_level(level, LEVELS)
            require(view.ndim == 3, "angles", "have three axes", view.ndim)
        e.level, e.width = &levels[level], view.shape[2]
        return _rotate_array(&r, &view, view.shape[0], view.shape[1], 0, x, axis, out, kinds, large)
    finally:
        PyBuffer_Release(&view)


cdef object _rotate_array(const CRotary* r, const Py_buffer* angles, Py_ssize_t groups, Py_ssize_t tokens,
                          int64_t start, object x, object axis, object out, dict kinds, object large):
    """Return x rotated by angles. If angles is NULL, rotate x for the positions start, start + 1 and so on.

    Return None if the function does not support x, axis or out, or if `_rotate_tokens` returns False. groups is 1, or
    the number of sequences in x. tokens is the number of tokens of angles, or the maximum number of tokens in x if
    angles is NULL.
    """
    cdef Py_buffer x_view, out_view
    cdef Tokens t
    cdef int token_axis, i, x_axis, done
    cdef bint has_out = False
    if type(x) is not _ndarray or type(axis) is not int or not -3 <= axis <= 2:
        return None
    token_axis = axis % 4
    kind, result = kinds.get(x.dtype), out
    if token_axis == 0 or token_axis == 3 or kind is None:
        return None
    t.kind = kind
    if angles != NULL and angles.itemsize != (4 if size_of(t.kind) == 2 else 8):
        return None
    if out is not None and (type(out) is not _ndarray or kinds.get(out.dtype) != kind):
        return None
    if _get_buffer(&x_view, x, t.kind, PyBUF_STRIDES) < 0:
        return None
    try:
        if x_view.ndim != 4 or x_view.shape[3] != r.head_dim or x_view.strides[3] != x_view.itemsize:
            return None
        if not 0 < x_view.len // x_view.itemsize < MOST_OF_ROWS or not (groups == 1 or groups == x_view.shape[0]):
            return None
        if x_view.shape[token_axis] > tokens or (angles != NULL and x_view.shape[token_axis] != tokens):
            return None
        if out is None:
            shape = x_view.shape[0], x_view.shape[1], x_view.shape[2], x_view.shape[3]
            result = _new(shape, x.dtype, x_view.len, large)
        if _get_buffer(&out_view, result, t.kind, PyBUF_STRIDES | PyBUF_WRITABLE) < 0:
            return None
        has_out = True
        if out_view.ndim != 4 or out_view.strides[3] != out_view.itemsize:
            return None
        for i in range(4):
            if out_view.shape[i] != x_view.shape[i]:
                return None
        for i in range(3):
            x_axis = _axis_of_x(i, token_axis)
            t.shape[i] = x_view.shape[x_axis]
            t.x_strides[i], t.out_strides[i] = x_view.strides[x_axis], out_view.strides[x_axis]
        t.x, t.out = <const char*>x_view.buf, <char*>out_view.buf
        done = _rotate_tokens(r, NULL if angles == NULL else angles.buf, groups > 1, start, &t, 1)
    finally:
        PyBuffer_Release(&x_view)
        if has_out:
            PyBuffer_Release(&out_view)
    return result if done else None


cdef int _rotate_tokens(const CRotary* r, const void* angles, bint per_sequence, int64_t start,
                        const Tokens* t, int count) except -1:
    """Rotate `count` arrays by angles, or for the positions start, start + 1, .. if angles is NULL.

    All arrays have the same number of tokens and the same kind. If per_sequence is true, each sequence has its own
    angles. Return True if all arrays are rotated. Return False if `rotate_of` or `angles_of` returns an error, or if
    angles is NULL and the encoding has no lattice.
    """
    cdef double angles_on_stack[ANGLES_ON_STACK]
    cdef double on_stack[ON_STACK]
    cdef void* scratch = on_stack
    cdef void* new_angles = angles_on_stack
    cdef _Scratch memory = None, angle_memory = None
    cdef Py_ssize_t tokens = t.shape[2], heads = 0
    cdef size_t size = measure_rotary(r, tokens)
    cdef int error = POSENC_FAST_OK, i
    if angles == NULL and find_lattice(r.angles, type_of_angles(t.kind)) == NULL:
        return False
    if GUARDED or size > sizeof(on_stack):
        memory = _Scratch(size // sizeof(double) + 1)
        scratch = memory.start
    if angles == NULL and (GUARDED or tokens * r.angles.width > ANGLES_ON_STACK):
        angle_memory = _Scratch(tokens * r.angles.width)
        new_angles = angle_memory.start
    for i in range(count):
        heads += t[i].shape[0] * t[i].shape[1]
    if heads * tokens * r.head_dim < SMALL:
        error = _compute_and_rotate(r, angles, per_sequence, start, t, count, new_angles, scratch, size)
    else:
        with nogil:
            error = _compute_and_rotate(r, angles, per_sequence, start, t, count, new_angles, scratch, size)
    if GUARDED:
        memory.check()
        if angle_memory is not None:
            angle_memory.check()
    return error == POSENC_FAST_OK


cdef int _compute_and_rotate(const CRotary* r, const void* angles, bint per_sequence, int64_t start, const Tokens* t,
                             int count, void* new_angles, void* scratch, size_t size) noexcept nogil:
    cdef int error = POSENC_FAST_OK, i
    if angles == NULL:
        angles = new_angles
        error = angles_of(r, start, NULL, True, t.shape[2], t.kind, new_angles, scratch, size)
    for i in range(count):
        if error == POSENC_FAST_OK:
            error = rotate_of(r, angles, per_sequence, t.kind, t[i].shape, t[i].x, t[i].x_strides, t[i].out,
                              t[i].out_strides, scratch, size)
    return error
