/* Loops that only compute rows. bench/targets.py compares the kernel with them.
 *
 * bare.py compiles them for this machine. They use the arithmetic of the kernel, but do not compute anchor rows or check
 * arguments. The rows of a table are rotations of two given anchor rows. All results are float32.
 */
#include "../src/coefficients.h"

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef const double *restrict numbers;
typedef float *restrict row;

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static ptrdiff_t before_line(const float *out) { return (ptrdiff_t)(-(uintptr_t)out & 63) / 4; }

/* Write n columns of four rows: the rows above (up) and below (down) each of two anchor rows. */
static void four(numbers v, numbers q, numbers v2, numbers q2, numbers c, numbers s, row up, row down, row up2, row down2,
                 ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double a = v[i] * c[i], b = q[i] * s[i], a2 = v2[i] * c[i], b2 = q2[i] * s[i];
        up[i] = (float)(a + b), down[i] = (float)(a - b), up2[i] = (float)(a2 + b2), down2[i] = (float)(a2 - b2);
    }
}

static void stream_line(float *out, const float *line)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(out, _mm512_loadu_ps(line));
#elif defined(__AVX__)
    _mm256_stream_ps(out, _mm256_loadu_ps(line)), _mm256_stream_ps(out + 8, _mm256_loadu_ps(line + 8));
#else
    for (int k = 0; k < 16; k += 4)
        _mm_stream_ps(out + k, _mm_loadu_ps(line + k));
#endif
}

/* Write n columns of the rows above and below one anchor row, in whole cache lines that bypass the cache. */
static void two_lines(numbers v, numbers q, numbers c, numbers s, float *up, float *down, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 16) {
        float above[16], below[16];
#pragma GCC unroll 1
        for (int j = 0; j < 16; j++) {
            double a = v[i + j] * c[i + j], b = q[i + j] * s[i + j];
            above[j] = (float)(a + b), below[j] = (float)(a - b);
        }
        stream_line(up + i, above), stream_line(down + i, below);
    }
}

/* Write rows of d columns. rows: a multiple of 4 * half. anchors: two anchor rows and their two quadratures, (4, d).
   offsets: cosines and sines of the rotations from an anchor to its `half` nearest rows on a side, (2, half, stride) */
void bare_table(float *out, ptrdiff_t rows, ptrdiff_t d, ptrdiff_t half, ptrdiff_t stride, const double *anchors,
                const double *offsets, int past)
{
    const double *v = anchors, *v2 = v + d, *q = v2 + d, *q2 = q + d;
    for (ptrdiff_t first = 0; first < rows; first += 4 * half)
        for (ptrdiff_t j = 0; j < half; j++) {
            const double *c = offsets + j * stride, *s = c + half * stride;
            float *up = out + (first + half + j) * d, *down = out + (first + half - 1 - j) * d;
            float *up2 = up + 2 * half * d, *down2 = down + 2 * half * d;
            ptrdiff_t head = least(d, before_line(up)), whole = head + (d - head) / 16 * 16;
            four(v, q, v2, q2, c, s, up, down, up2, down2, head);
            if (past && before_line(down) == before_line(up)) {
                two_lines(v + head, q + head, c + head, s + head, up + head, down + head, whole - head);
                two_lines(v2 + head, q2 + head, c + head, s + head, up2 + head, down2 + head, whole - head);
                head = whole;
            }
            four(v + head, q + head, v2 + head, q2 + head, c + head, s + head, up + head, down + head, up2 + head,
                 down2 + head, d - head);
        }
    if (past)
        _mm_sfence();
}

/* Write sine and cosine of each position and wave, next to each other. high + low: frequencies in turns per position */
void bare_encode(row out, ptrdiff_t rows, ptrdiff_t waves, numbers positions, numbers high, numbers low)
{
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < waves; j++) {
            double p = positions[i], t = p * high[j], rest = p * low[j] + fma(p, high[j], -t);
            double quarters = t + 0x1.8p50, x = (t - (quarters - 0x1.8p50)) + rest, z = x * x;
            double s = x * fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, S6, S5), S4), S3), S2), S1), S0);
            double c = fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, C6, C5), C4), C3), C2), C1), C0);
            uint64_t sine, cosine, quadrant, swap;
            memcpy(&sine, &s, 8), memcpy(&cosine, &c, 8), memcpy(&quadrant, &quarters, 8);
            swap = (sine ^ cosine) & (0 - (quadrant & 1));
            sine ^= swap ^ (quadrant << 62 & (uint64_t)1 << 63);
            cosine ^= swap ^ ((quadrant + 1) << 62 & (uint64_t)1 << 63);
            memcpy(&s, &sine, 8), memcpy(&c, &cosine, 8);
            out[2 * (i * waves + j)] = (float)s, out[2 * (i * waves + j) + 1] = (float)c;
        }
}
