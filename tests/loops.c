/* Run the compiled loops without Python, and print hashes of the results of each level that the CPU supports.
 *
 * The program tests the loops on systems that have no Python. The hashes must be the same on all systems.
 */
#include "cpu.h"
#include "entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

POSENC_ENTRIES(baseline)
#if defined(POSENC_LEVELS)
POSENC_ENTRIES(avx2)
POSENC_ENTRIES(avx512)
#endif

enum { WAVES = 35, WIDTH = 2 * WAVES, STRIDE = 72, ROWS = 300, BLOCK_BITS = 4, SPAN_BITS = 10 };
enum { TURNED = 4, PAIRS = 33 };
enum { FINE = (1 << BLOCK_BITS) / 2 + 1, COARSE = 1 << (SPAN_BITS - BLOCK_BITS) };

static double high[2 * WAVES], low[2 * WAVES], largest[2], amplitude[WIDTH], ones[WIDTH];
static double quadrature_amplitude[WIDTH], fine[4 * FINE * STRIDE], coarse[4 * COARSE * STRIDE], origin[4 * STRIDE];
static float coarse_single[TURNED * 2 * PAIRS];
static double scratch[1 << 17], values[ROWS * WIDTH], rest[ROWS * WIDTH], positions[2 * ROWS];
static int32_t source[WIDTH], quadrature_source[WIDTH], cosine[WIDTH], sine[WIDTH], runs[2] = {0, WIDTH};
static const posenc_plan plan = {2, WAVES, WIDTH, high, low, largest, source, amplitude, runs, 1, 0};

/* a plan of the first 64 columns, whose float32 rows are whole cache lines */
static int32_t runs_of_lines[2] = {0, 64};
static const posenc_plan plan_of_lines = {2, WAVES, 64, high, low, largest, source, amplitude, runs_of_lines, 1, 0};

static void say(const char *level, const char *what, int type, const void *data, size_t n)
{
    const unsigned char *byte = (const unsigned char *)data;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 1099511628211u;
    printf("%s %s %d %08x%08x\n", level, what, type, (unsigned)(hash >> 32), (unsigned)hash);
}

static void evaluate(const posenc_level *level, const double *position, const int32_t *first, const double *first_amplitude,
                     const int32_t *second, const double *second_amplitude, double *to, ptrdiff_t plane)
{
    posenc_row two[2] = {{first, first_amplitude, to, to + 2 * plane},
                         {second, second_amplitude, to + plane, to + 3 * plane}};
    level->evaluate(&plan, position, two, scratch);
}

static void offsets(const posenc_level *level, double *to, int rows, int step)
{
    double position[2] = {0, 0};
    ptrdiff_t plane = (ptrdiff_t)rows * STRIDE;
    for (int i = 0; i < rows; i++) {
        position[1] = (double)i * step;
        evaluate(level, position, cosine, ones, sine, ones, to + (ptrdiff_t)i * STRIDE, plane);
    }
}

static void run(const char *name, const posenc_level *level)
{
    const double *zero = positions + 2 * (ROWS - 1); /* the last position is still (0, 0) */
    const ptrdiff_t sizes[4] = {8, 4, 2, 2};
    for (int i = 0; i < ROWS - 1; i++) {
        evaluate(level, positions + 2 * i, source, amplitude, quadrature_source, quadrature_amplitude, origin, STRIDE);
        memcpy(values + i * WIDTH, origin, WIDTH * sizeof *values);
        memcpy(rest + i * WIDTH, origin + 2 * STRIDE, WIDTH * sizeof *rest);
    }
    say(name, "evaluate", 0, values, (ROWS - 1) * WIDTH * sizeof *values);
    say(name, "rest", 0, rest, (ROWS - 1) * WIDTH * sizeof *rest);

    offsets(level, fine, FINE, 1);
    offsets(level, coarse, COARSE, 1 << BLOCK_BITS);
    evaluate(level, zero, source, amplitude, quadrature_source, quadrature_amplitude, origin, STRIDE);
    for (int i = 0; i < TURNED * 2 * PAIRS; i++)
        coarse_single[i] = (float)coarse[i];
    posenc_lattice lattice = {&plan, quadrature_source, quadrature_amplitude, fine, coarse, origin, STRIDE, BLOCK_BITS, SPAN_BITS};
    for (int type = 0; type < 4; type++) {
        for (int stream = 0; stream < 2; stream++) {
            posenc_output output = {0};
            output.out = (char *)values;
            output.row = WIDTH * sizes[type];
            output.type = type;
            output.stream = stream;
            level->table(&lattice, -1, 900, ROWS, &output, scratch);
            say(name, "table", type, values, (size_t)(ROWS * WIDTH * sizes[type]));
        }
        /* rows of whole cache lines have their own loop; test rows that begin at a line, or 16 bytes after its start */
        posenc_lattice lines = lattice;
        lines.plan = &plan_of_lines;
        for (int first = 0; first < 32 && type == POSENC_FLOAT32; first += 16) {
            posenc_output output = {0};
            output.out = (char *)values + (-(uintptr_t)values & 63u) + first;
            output.row = 64 * sizes[type];
            output.type = type;
            output.stream = 1;
            level->table(&lines, -1, 900, ROWS, &output, scratch);
            say(name, "lines", first, output.out, (size_t)(ROWS * output.row));
        }
        posenc_rotation r = {0};
        for (int layout = 0; layout < 3; layout++) {
            r.x = (const char *)values;
            r.out = (char *)rest;
            r.shape[0] = r.shape[1] = 1;
            r.shape[2] = 2; /* two heads: the loop over several heads may load angles in another order */
            r.shape[3] = TURNED / 2;
            for (int k = 0; k < 4; k++)
                r.out_strides[k] = r.x_strides[k] = (k == 2 ? TURNED / 2 : 1) * WIDTH * sizes[type];
            r.angles = type < POSENC_FLOAT16 ? (const char *)coarse : (const char *)coarse_single;
            r.pairs = PAIRS;
            r.width = WIDTH;
            r.type = type;
            r.layout = layout;
            level->rotate(&r, scratch);
            say(name, "rotate", type, rest, (size_t)(TURNED * WIDTH * sizes[type]));
        }
    }
}

int main(void)
{
    posenc_level level;
    for (int k = 0; k < WAVES; k++) {
        /* exact multiples of 2^-40, and 2^32 times these multiples minus whole turns */
        int64_t turns = 987654321987 / (k * k + 3) | 1;
        high[WAVES + k] = (double)turns / 1099511627776.0;
        low[WAVES + k] = high[WAVES + k] * 0x1p-55;
        high[k] = (double)(turns % 256) / 256.0;
    }
    largest[0] = largest[1] = 1.0;
    for (int c = 0; c < WIDTH; c++) {
        source[c] = c;
        quadrature_source[c] = c ^ 1;
        sine[c] = c & ~1;
        cosine[c] = c | 1;
        amplitude[c] = ones[c] = 1.0;
        quadrature_amplitude[c] = c % 2 ? -1.0 : 1.0;
    }
    for (int i = 0; i < ROWS - 1; i++) {
        positions[2 * i] = i % 5 - 2;
        positions[2 * i + 1] = (double)(i * 7919 % 1000) * 0.625;
    }
    posenc_level_baseline(&level);
    run("baseline", &level);
#if defined(POSENC_LEVELS)
    if (posenc_cpu_level() >= 1) {
        posenc_level_avx2(&level);
        run("avx2", &level);
    }
    if (posenc_cpu_level() >= 2) {
        posenc_level_avx512(&level);
        run("avx512", &level);
    }
#endif
    return 0;
}
