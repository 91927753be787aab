# Included by _loops.pyx: angles of waves, their sines and cosines, and columns made of them.

# ---- sums and products of two doubles ---------------------------------------------------------------------------

cdef inline double horner(double c, double c_low, double z, double z_low, double* low, double sum_) noexcept nogil:
    """c + z * (sum_ + low), |c| the larger term."""
    cdef double p = z * sum_
    cdef double e = product_error(z, sum_, p) + (z * low[0] + z_low * sum_)
    cdef double s = c + p
    low[0] = (p - (s - c)) + (e + c_low)
    return s


# ---- sine and cosine of one wave --------------------------------------------------------------------------------

cdef inline void turn(uint64_t quadrant, double* s, double* c) noexcept nogil:
    """Turn (s, c) by quadrant quarter turns: swap when odd, then the signs."""
    cdef uint64_t a = bits(s[0])
    cdef uint64_t b = bits(c[0])
    cdef uint64_t swap = (a ^ b) & (0 - (quadrant & 1))
    s[0] = from_bits(a ^ swap ^ ((quadrant << 62) & SIGN_BIT))
    c[0] = from_bits(b ^ swap ^ (((quadrant + 1) << 62) & SIGN_BIT))


cdef inline void quick(double x, uint64_t quadrant, bint fused, double* s, double* c) noexcept nogil:
    """Sine and cosine of x turns, |x| <= 0.1255, plus quadrant quarter turns. fused is known where this is inlined."""
    cdef double zz, z = x * x
    if fused:
        s[0] = x * fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, S6, S5), S4), S3), S2), S1), S0)
        c[0] = fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, C6, C5), C4), C3), C2), C1), 1.0)
    else:
        # by pairs of terms: without FMA a chain of all of them would be twice as long
        zz = z * z
        s[0] = x * ((S0 + z * S1) + zz * ((S2 + z * S3) + zz * ((S4 + z * S5) + zz * S6)))
        c[0] = (1.0 + z * C1) + zz * ((C2 + z * C3) + zz * ((C4 + z * C5) + zz * C6))
    turn(quadrant, s, c)


cdef inline void quick_product(double p, double high, double low, bint fused, double* s, double* c) noexcept nogil:
    """Sine and cosine of p * (high + low) turns, at most QUICK of them."""
    cdef double t = p * high
    cdef double error = product_error(p, high, t)
    cdef double q = t + QUARTERS
    # t is within an eighth of a turn of the quarter turn, so the difference is exact
    quick((t - (q - QUARTERS)) + (p * low + error), bits(q), fused, s, c)


cdef inline void accurate(double x, double x_low, uint64_t quadrant, double* s, double* s_low, double* c,
                          double* c_low) noexcept nogil:
    """Sine and cosine of x + x_low turns, |x| <= 1/8, plus quadrant quarter turns, each as a sum of two doubles.

    Taylor's series in radians, the leading terms in two doubles.
    """
    cdef double r = x * TWO_PI
    cdef double r_low = product_error(x, TWO_PI, r) + (x * TWO_PI_LOW + x_low * TWO_PI)
    cdef double z = r * r
    cdef double z_low = product_error(r, r, z) + 2.0 * r * r_low
    cdef double low, sum_, t, zz
    # the small terms in one double, by pairs, so that no long chain holds up what follows
    zz = z * z
    sum_ = (T7 + z * T9) + zz * ((T11 + z * T13) + zz * ((T15 + z * T17) + zz * T19))
    low = 0.0
    sum_ = horner(T5, T5_LOW, z, z_low, &low, sum_)
    sum_ = horner(T3, T3_LOW, z, z_low, &low, sum_)
    # r + r * z * sum_: the one in front of the series is left out, so that a small angle keeps its own bits
    t = z * sum_
    low = product_error(z, sum_, t) + (z * low + z_low * sum_)
    sum_ = r * t
    low = product_error(r, t, sum_) + (r * low + r_low * (1.0 + t))
    s[0] = r + sum_
    s_low[0] = (sum_ - (s[0] - r)) + low

    sum_ = (T8 + z * T10) + zz * ((T12 + z * T14) + zz * ((T16 + z * T18) + zz * T20))
    low = 0.0
    sum_ = horner(T6, T6_LOW, z, z_low, &low, sum_)
    sum_ = horner(T4, T4_LOW, z, z_low, &low, sum_)
    sum_ = horner(-0.5, 0.0, z, z_low, &low, sum_)
    c[0] = horner(1.0, 0.0, z, z_low, &low, sum_)
    c_low[0] = low
    # both parts are turned alike
    turn(quadrant, s, c)
    turn(quadrant, s_low, c_low)


cdef inline double reduce(double turns, double turns_low, double* low, uint64_t* quadrant) noexcept nogil:
    """Distance, high and low part, of an angle of a few turns to the nearest quarter turn."""
    cdef double h = two_sum(turns, turns_low, low)
    cdef double q = h + QUARTERS
    quadrant[0] = bits(q)
    return h - (q - QUARTERS)


cdef void add_axis(double p, crdouble high, crdouble low, rdouble turns, rdouble turns_low,
                   Py_ssize_t n) noexcept nogil:
    """Add p * (high + low) to angles, whole turns taken off."""
    cdef Py_ssize_t j
    cdef double t, e, error
    for j in range(n):
        t = p * high[j]
        e = product_error(p, high[j], t)
        turns[j] = two_sum(turns[j], t - ((t + ROUNDER) - ROUNDER), &error)
        turns_low[j] += error + (p * low[j] + e)


cdef void add_axis_single(float p, crdouble single, rdouble radians, Py_ssize_t n) noexcept nogil:
    """float32 frameworks round frequency and position, then their product (and its sum over axes)."""
    cdef Py_ssize_t j
    for j in range(n):
        radians[j] = <double>(<float>(radians[j] + <double>(<float>(p * single[j]))))


cdef void single_to_turns(rdouble turns, rdouble turns_low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double p, t
    for j in range(n):
        p = turns[j]
        t = p * PER_RADIAN
        turns_low[j] = p * PER_RADIAN_LOW + product_error(p, PER_RADIAN, t)
        turns[j] = t - ((t + ROUNDER) - ROUNDER)


cdef void angles(const CPlan* plan, const double* position, bint single, double* turns,
                 double* turns_low) noexcept nogil:
    """Angles of all waves at one position of any number of axes, whole turns taken off, as sums of two doubles."""
    cdef Py_ssize_t a, n = plan.waves
    memset(turns, 0, n * sizeof(double))
    memset(turns_low, 0, n * sizeof(double))
    for a in range(plan.axes):
        if single:
            add_axis_single(<float>position[a], plan.high + a * n, turns, n)
        else:
            add_axis(position[a], plan.high + a * n, plan.low + a * n, turns, turns_low, n)
    if single:
        single_to_turns(turns, turns_low, n)


# ---- one row of waves, then one row of columns ------------------------------------------------------------------

cdef inline void quick_waves(crdouble turns, crdouble turns_low, rdouble sines, rdouble cosines, Py_ssize_t step,
                             Py_ssize_t n, bint fused) noexcept nogil:
    """step: from sine to sine, known where this is inlined, as in `accurate_waves`."""
    cdef Py_ssize_t j
    cdef double x, low, s, c
    cdef uint64_t quadrant
    for j in range(n):
        x = reduce(turns[j], turns_low[j], &low, &quadrant)
        quick(x + low, quadrant, fused, &s, &c)
        sines[step * j] = s
        cosines[step * j] = c


cdef inline void accurate_waves(crdouble turns, crdouble turns_low, rdouble sines, rdouble cosines, rdouble sines_low,
                                rdouble cosines_low, Py_ssize_t step, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double x, x_low, s, c, s_low, c_low
    cdef uint64_t quadrant
    for j in range(n):
        x = reduce(turns[j], turns_low[j], &x_low, &quadrant)
        accurate(x, x_low, quadrant, &s, &s_low, &c, &c_low)
        sines[step * j] = s
        cosines[step * j] = c
        sines_low[step * j] = s_low
        cosines_low[step * j] = c_low


cdef inline void store(row_out out, Py_ssize_t c, double value) noexcept nogil:
    if row_out is roddfloat:
        out[c] = to_odd(value)
    elif row_out is rwidebfloat:
        out[c] = to_wide_bfloat(value)
    elif row_out is rfloat:
        out[c] = <float>value
    else:
        out[c] = value


cdef inline void quick_products(double p, crdouble high, crdouble low, row_out sines, row_out cosines, Py_ssize_t step,
                                Py_ssize_t n, bint fused) noexcept nogil:
    cdef Py_ssize_t j
    cdef double s, c
    for j in range(n):
        quick_product(p, high[j], low[j], fused, &s, &c)
        store[row_out](sines, step * j, s)
        store[row_out](cosines, step * j, c)


cdef inline void quick_columns(const CPlan* plan, double p, row_out row, bint fused) noexcept nogil:
    """Waves at a position of at most QUICK turns: sines before cosines, or side by side."""
    cdef Py_ssize_t n = plan.waves
    if plan.planar:
        quick_products[row_out](p, plan.high, plan.low, row, row + n, 1, n, fused)
    else:
        quick_products[row_out](p, plan.high, plan.low, row, row + 1, 2, n, fused)


cdef void scale_row(crdouble row, crdouble amplitude, row_out out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[row_out](out, c, amplitude[c] * row[c])


cdef void gather_row(crdouble row, crint32 source, crdouble amplitude, row_out out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        store[row_out](out, c, amplitude[c] * row[source[c]])


cdef void columns(const CPlan* plan, const double* row, row_out out) noexcept nogil:
    """amplitude * the column's place in a row of waves."""
    cdef Py_ssize_t k, first
    if plan.nruns * 8 > plan.width:
        gather_row[row_out](row, plan.source, plan.amplitude, out, plan.width)
        return
    for k in range(plan.nruns):
        first = plan.runs[k]
        scale_row[row_out](row + plan.source[first], plan.amplitude + first, out + first, plan.runs[k + 1] - first)


cdef void scale_row_accurate(crdouble row, crdouble row_low, crdouble amplitude, rdouble high, rdouble low,
                             Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double p
    for c in range(n):
        p = amplitude[c] * row[c]
        high[c] = p
        low[c] = amplitude[c] * row_low[c] + product_error(amplitude[c], row[c], p)


cdef void gather_row_accurate(crdouble row, crdouble row_low, crint32 source, crdouble amplitude, rdouble high,
                              rdouble low, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double p, value
    for c in range(n):
        value = row[source[c]]
        p = amplitude[c] * value
        high[c] = p
        low[c] = amplitude[c] * row_low[source[c]] + product_error(amplitude[c], value, p)


cdef void columns_accurate(const CPlan* plan, const double* row, const double* row_low, double* high,
                           double* low) noexcept nogil:
    """The same as sums of two doubles."""
    cdef Py_ssize_t k, first, wave
    if plan.nruns * 8 > plan.width:
        gather_row_accurate(row, row_low, plan.source, plan.amplitude, high, low, plan.width)
        return
    for k in range(plan.nruns):
        first = plan.runs[k]
        wave = plan.source[first]
        scale_row_accurate(row + wave, row_low + wave, plan.amplitude + first, high + first, low + first,
                           plan.runs[k + 1] - first)
