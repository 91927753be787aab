/* Sums and products of doubles with their errors, and double-double arithmetic. A double-double number is the sum of a
 * pair (high, low).
 *
 * posenc_fast/_core/numbers/doubles.py and engine/python.py contain the same arithmetic in NumPy. Bounds are for pairs
 * with |low| <= u |high|, where u is 2^-53. bench/steps.py measures the resulting errors of the loops.
 */
#ifndef POSENC_EXACT_H
#define POSENC_EXACT_H

#include "arithmetic.h"
#include "compiler.h"

#include <math.h>
#include <string.h>

static inline uint64_t posenc_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double posenc_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t posenc_bits32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float posenc_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Return a + b, rounded, and set error to the exact rounding error, for all a and b with a finite sum (Knuth 1969). */
static inline double posenc_two_sum(double a, double b, double *error)
{
    double s = a + b, t = s - a;
    *error = (a - (s - t)) + (b - t);
    return s;
}

/* posenc_product_error returns a*b - p exactly, where p is a*b rounded. It needs |a|, |b| <= 2^990, and a*b = 0 or
   |a*b| >= 2^-968, because errors of smaller products may have bits below the smallest double. posenc_fma returns
   a*b + c, rounded once. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__) || defined(_M_ARM64)
#define POSENC_FUSES 1
static inline double posenc_product_error(double a, double b, double p) { return fma(a, b, -p); }
static inline double posenc_fma(double a, double b, double c) { return fma(a, b, c); }
#else
#define POSENC_FUSES 0
/* Each factor is split into halves of 26 bits, whose products are exact (Dekker 1971). */
static inline double posenc_product_error(double a, double b, double p)
{
    const double splitter = 134217729.0; /* 2^27 + 1 */
    double t = splitter * a, ah = t - (t - a), al = a - ah;
    double u = splitter * b, bh = u - (u - b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
}

/* The two small parts of the sum are added first, and rounded to odd: if the sum is inexact, its last bit is set (Boldo
   and Melquiond 2008). The result equals that of an FMA instruction, but computing it takes many times longer. */
static inline double posenc_fma(double a, double b, double c)
{
    double p = a * b, t_low, v_low, lost;
    double t = posenc_two_sum(c, posenc_product_error(a, b, p), &t_low);
    double v = posenc_two_sum(p, t, &v_low);
    double low_sum = posenc_two_sum(t_low, v_low, &lost);
    uint64_t u = posenc_bits(low_sum);
    if (lost != 0.0 && !(u & 1))
        low_sum = posenc_double((lost > 0.0) == (low_sum > 0.0) ? u + 1 : u - 1);
    return v + low_sum;
}
#endif

/* the number high + low, where |low| <= u |high| */
typedef struct {
    double high, low;
} posenc_pair;

/* Return a * b, with an error of at most 8 u^2 |a * b|. The product of the low parts is left out. */
static POSENC_ALWAYS posenc_pair posenc_product(posenc_pair a, posenc_pair b)
{
    posenc_pair r;
    r.high = a.high * b.high;
    r.low = posenc_product_error(a.high, b.high, r.high) + (a.high * b.low + a.low * b.high);
    return r;
}

/* Return a + b, with an error of at most 3 u^2 (|a| + |b|). The relative error is larger if a and b nearly cancel. */
static POSENC_ALWAYS posenc_pair posenc_total(posenc_pair a, posenc_pair b)
{
    posenc_pair r;
    double e, s = posenc_two_sum(a.high, b.high, &e);
    e += a.low + b.low;
    r.high = s + e;
    r.low = e - (r.high - s);
    return r;
}

/* Return c + z * value, a step of Horner's scheme. It needs |c| >= |z * value|: only then is the computed error of the
   sum exact (Dekker 1971). */
static POSENC_ALWAYS posenc_pair posenc_horner(posenc_pair c, posenc_pair z, posenc_pair value)
{
    posenc_pair p = posenc_product(z, value), r;
    r.high = c.high + p.high;
    r.low = (p.high - (r.high - c.high)) + (p.low + c.low);
    return r;
}

#endif
