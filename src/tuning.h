/* Constants on which only speed depends, each with the command that measures it, and when to write past the cache. */
#ifndef POSENC_TUNING_H
#define POSENC_TUNING_H

#include <stddef.h>

enum {
    /* columns that go through a buffer at a time: python bench/targets.py --only memset, and --only float16 */
    POSENC_TILE = 256,
    /* columns between two requests for memory; values between a request and its use, of all arrays; values of a block
       that are asked for while the block before is worked on; doubles of rows that are made before they are added to a
       batch: python bench/targets.py --only add */
    POSENC_PREFETCH_COLUMNS = 64,
    POSENC_PREFETCH_DISTANCE = 3072,
    POSENC_PREFETCH_BLOCK = 1 << 15,
    POSENC_ADDED = 1 << 14,
    /* Bytes of angles that all heads are turned by, one after the other: this part of the second-level cache, within bounds.
       Fewer would stay in the first, but what is turned is fetched slowly wherever a head's next rows begin. Best were
       64 KiB of 512 KiB (Zen 3) and 256 KiB of 2 MiB (Sapphire Rapids): python bench/targets.py --only rotary- */
    POSENC_ANGLES_PART = 8,
    POSENC_ANGLES_LEAST = 1 << 14,
    POSENC_ANGLES_MOST = 1 << 18,
    /* Rows between a request for memory and their turn, of float64 and float32 and of 16-bit types, where x does not fit in
       the second-level cache, and that is this large: it saves a seventh where memory and last level are slow (2 MiB,
       Sapphire Rapids), and takes 5 to 14 % longer where hardware foresees all (512 KiB, Zen 3):
       python bench/targets.py --only rotary- */
    POSENC_PREFETCH_ROWS = 4,
    POSENC_PREFETCH_ROWS_16 = 8,
    POSENC_PREFETCH_LEVEL = 3 << 19,
    /* 16-bit pieces of one axis' row that are merged with those of another at a time, narrow rows again and again:
       python bench/targets.py --only grid */
    POSENC_MERGED = 512,
    /* Bytes of a result that is written past the cache: this part of the last level, and no more than this in any case.
       python bench/crossover.py: written and then read once, it takes no longer past the cache from 16 MiB on where a
       processor has 32 MiB of its own (Zen 3; 11 MiB on Zen 5), from 8 MiB on where 260 MiB are shared and slow
       (Sapphire Rapids). */
    POSENC_PAST_PART = 2,
    POSENC_PAST_BYTES = 1 << 24,
    /* bytes of a row: of narrower ones too many lines are shared by two: python bench/crossover.py --width 64 */
    POSENC_PAST_ROW = 256
};

/* How rows are written, of tables, of any positions, of sums and of grids, and why. */
#define POSENC_STORES(X)                                                                     \
    X(FITS, "through the cache: it may still be there when it is read")                      \
    X(PAST, "past the cache")                                                                \
    X(FRESH, "through the cache: the system has just cleared its pages there")               \
    X(NARROW, "through the cache: too many lines are shared by two rows")                    \
    X(SLOW, "through the cache: rows of any positions take longer to compute than to write") \
    X(IN_PLACE, "through the cache: what is added to is there when it is written")           \
    X(WIDE, "through the cache: sums in float64 take longer to compute than to write")       \
    X(AT_ONCE, "through the cache: rows of one float32 batch are added as they are made")
#define POSENC_NAME(name, reason) POSENC_##name,
#define POSENC_REASON(name, reason) reason,
enum { POSENC_STORES(POSENC_NAME) POSENC_STORES_COUNT };
static const char *const posenc_reasons[] = {POSENC_STORES(POSENC_REASON)};

typedef struct {
    ptrdiff_t bytes, row; /* of the result, and of one of its rows */
    ptrdiff_t last_level; /* bytes of the last-level cache, 0 where unknown */
    int mapped;           /* the result's memory was written before */
    int each;             /* rows are made one by one, and not from those of consecutive integers */
    int sum, in_place, wide, at_once;
} posenc_result;

static inline int posenc_stores(const posenc_result *r)
{
    ptrdiff_t part = r->last_level / POSENC_PAST_PART;
    if (part <= 0 || r->bytes < (part < POSENC_PAST_BYTES ? part : POSENC_PAST_BYTES))
        return POSENC_FITS;
    if (r->in_place)
        return POSENC_IN_PLACE;
    if (r->sum && r->wide)
        return POSENC_WIDE;
    if (r->at_once)
        return POSENC_AT_ONCE;
    if (r->row < POSENC_PAST_ROW)
        return POSENC_NARROW;
    /* python bench/crossover.py --encode; float64 goes through a buffer of doubles in any case */
    if (r->each && !r->sum && !r->wide)
        return POSENC_SLOW;
    /* a sum waits for x in any case */
    return r->sum || r->mapped ? POSENC_PAST : POSENC_FRESH;
}

#endif
