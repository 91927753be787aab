"""Check the kernel's arguments in debug builds. Other builds drop the calls, which are all behind ``if GUARDED``.

The Python code that calls the kernel checks what users pass. The checks here find faults of this Python code. They
raise an AssertionError that names the wrong argument.

The checks read values by ``memoryview(array).tolist()``, not in a loop over the memoryview. Cython ends such a loop by
an IndexError, and then drops the error. A KeyboardInterrupt that arrives meanwhile would be dropped, too.
"""


cdef inline int require(bint holds, str name, str must, object value) except -1:
    if not holds:
        raise AssertionError(f"kernel: {name} must {must}, not {value!r}")
    return 0


cdef inline int check_level(int level, object levels) except -1:
    return require(0 <= level < len(levels), "level", f"be an index into {levels}", level)


cdef inline int check_plan(object frequencies, object largest, object source, object amplitude, object runs) except -1:
    cdef object shape = frequencies.shape, width = source.shape[0], i
    cdef list starts = memoryview(runs).tolist(), sources = memoryview(source).tolist()
    require(shape[0] == 2 and shape[1] > 0 and shape[2] > 0, "frequencies", "have shape (2, axes, waves)", shape)
    require(width > 0, "source", "have a column", width)
    require(largest.shape[0] == shape[1], "largest", f"have {shape[1]} numbers", largest.shape[0])
    check_columns("", source, amplitude, width, shape[2])
    require(len(starts) > 1 and starts[0] == 0 and starts[len(starts) - 1] == width and starts == sorted(set(starts)),
            "runs", f"ascend from 0 to {width}", starts)
    for i in range(len(starts) - 1):
        require(sources[starts[i + 1] - 1] - sources[starts[i]] == starts[i + 1] - 1 - starts[i], "runs",
                "have consecutive sources in each run", starts)
    return 0


cdef inline int check_columns(str which, object source, object amplitude, object width, object waves) except -1:
    cdef list sources = memoryview(source).tolist()
    require(len(sources) == width, f"{which}source", f"have {width} columns", len(sources))
    require(min(sources) >= 0 and max(sources) < 2 * waves, f"{which}source", f"lie in a row of {2 * waves}",
            (min(sources), max(sources)))
    if amplitude is not None:
        require(amplitude.shape[0] == width, f"{which}amplitude", f"have {width} columns", amplitude.shape[0])
    return 0


cdef inline int check_values(str name, object array, object shape, int kind) except -1:
    """Check an array's shape, item size and last stride. A length of None in shape allows any length."""
    cdef object view = memoryview(array), found_shape = view.shape, i
    require(0 <= kind <= 3, "kind", "be 0, 1, 2 or 3", kind)
    require(len(found_shape) == len(shape), name, f"have shape {shape}", found_shape)
    for i in range(len(shape)):
        require(shape[i] is None or shape[i] == found_shape[i], name, f"have shape {shape}", found_shape)
    require(view.itemsize == (8, 4, 2, 2)[kind], name, f"have items for kind {kind}", view.format)
    require(found_shape[len(found_shape) - 1] < 2 or view.strides[len(found_shape) - 1] == view.itemsize, name,
            "have values side by side in a row", view.strides)
    return 0


cdef inline int check_target(object out, object x, int kind, object rows, object width) except -1:
    """Check `out`, of shape (rows, width). With x, check `out` and x, both of shape (batch, rows, width).

    If rows is None, any number of rows is right.
    """
    check_values("out", out, (rows, width) if x is None else (None, rows, width), kind)
    if x is not None:
        check_values("x", x, memoryview(out).shape, kind)
    return 0


cdef inline int check_positions(object positions, object axes) except -1:
    cdef object view = memoryview(positions)
    check_values("positions", positions, (None, axes), 0)
    return require(view.c_contiguous, "positions", "lie row behind row", view.strides)


cdef inline int check_lattice(object axes, object width, object waves, object quadrature_source,
                              object quadrature_amplitude, object cosine, object sine, int block_bits,
                              int span_bits) except -1:
    require(2 <= axes <= 3, "plan", "have 2 or 3 axes", axes)
    check_columns("quadrature_", quadrature_source, quadrature_amplitude, width, waves)
    check_columns("cosine, as a ", cosine, None, width, waves)
    check_columns("sine, as a ", sine, None, width, waves)
    require(1 <= block_bits <= span_bits < 32, "block_bits and span_bits", "ascend from 1 to 31",
            (block_bits, span_bits))
    return 0


cdef inline int check_points(object spans, object offsets, int span_bits) except -1:
    cdef list values = memoryview(offsets).tolist()
    require(spans.shape[0] > 0, "spans", "have a row", spans.shape[0])
    require(spans.shape[0] == len(values), "offsets", f"have {spans.shape[0]} rows", len(values))
    return require(min(values) >= 0 and max(values) < 1 << span_bits, "offsets", "lie in a span",
                   (min(values), max(values)))


cdef inline int check_grid(object outer, object inner, object out) except -1:
    check_values("out", out, (None, None, None), 2)
    cdef object batches = out.shape[0], rows = out.shape[1], width = out.shape[2]
    require(batches > 0 and rows > 0 and width > 0, "out", "have a row", (batches, rows, width))
    check_values("outer", outer, (batches, width), 2)
    return check_values("inner", inner, (rows, width), 2)


cdef inline int check_rotation(object angles, object x, object out, int kind, int layout) except -1:
    cdef object shape = memoryview(x).shape, view = memoryview(angles), groups, rows, values
    check_values("angles", angles, (None, None, None), 0 if kind < 2 else 1)
    require(view.c_contiguous, "angles", "lie row behind row", view.strides)
    groups, rows, values = view.shape
    require(values > 0 and values % 2 == 0, "angles", "be cosines and as many sines", values)
    check_values("x", x, (groups, None, None, rows, None), kind)
    require(values <= shape[4], "x", f"have rows of {values} values or more", shape)
    check_values("out", out, shape, kind)
    return require(0 <= layout <= 2, "layout", "be 0, 1 or 2", layout)


cdef inline int check_memory(object angles, object shape, object x_strides, object out_strides, int axis, int kind,
                             int layout) except -1:
    cdef object view = memoryview(angles)
    check_values("angles", angles, (None, None, None), 0 if kind < 2 else 1)
    require(view.c_contiguous, "angles", "lie row behind row", view.strides)
    require(0 <= kind <= 3, "kind", "be 0, 1, 2 or 3", kind)
    require(axis == 1 or axis == 2, "axis", "be 1 or 2", axis)
    require(len(shape) == len(x_strides) == len(out_strides) == 4, "shape", "have four axes, as strides", shape)
    require(view.shape[0] in (1, shape[0]) and view.shape[1] == shape[axis], "angles", "fit x", (view.shape, shape))
    require(0 < view.shape[2] <= shape[3] and view.shape[2] % 2 == 0, "angles", "have pairs that fit x", view.shape)
    require(shape[3] < 2 or x_strides[3] == out_strides[3] == 1, "x", "have values side by side in a row", x_strides)
    return require(0 <= layout <= 2, "layout", "be 0, 1 or 2", layout)
