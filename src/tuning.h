/* Constants that affect only speed, with the commands that measure them, and the rule for stores past the cache. */
#ifndef POSENC_TUNING_H
#define POSENC_TUNING_H

#include <stddef.h>

enum {
    /* number of columns in a buffer (measured by python bench/targets.py --only memset, and --only float16) */
    POSENC_TILE = 256,
    /* number of doubles of a line buffer: a tile, and the parts of cache lines before and behind it */
    POSENC_LINE_BUFFER = POSENC_TILE + 16,
    /* COLUMNS is the number of columns between two prefetches. DISTANCE is the number of values of all arrays between a
       prefetch and its use. BLOCK is the number of values of the next block to prefetch during the current block. ADDED
       is the number of doubles of rows to compute before they are added to a batch. They are measured by
       python bench/targets.py --only add */
    POSENC_PREFETCH_COLUMNS = 64,
    POSENC_PREFETCH_DISTANCE = 3072,
    POSENC_PREFETCH_BLOCK = 1 << 15,
    POSENC_ADDED = 1 << 14,
    /* These define the number of bytes of angles that are applied to all heads before the next angles. It is the size
       of the second-level cache divided by PART, between LEAST and MOST. Fewer angles would fit into the first-level
       cache, but each change to another head's rows fetches memory slowly. Best were 64 KiB of 512 KiB (Zen 3) and 256
       KiB of 2 MiB (Sapphire Rapids): python bench/targets.py --only rotary- */
    POSENC_ANGLES_PART = 8,
    POSENC_ANGLES_LEAST = 1 << 14,
    POSENC_ANGLES_MOST = 1 << 18,
    /* ROWS is the number of rows between a prefetch and the rotation for float64 and float32, and ROWS_16 the number
       for 16-bit types. Rows are prefetched only if the second-level cache has at least LEVEL bytes, and x does not fit
       into it. Prefetches save a seventh of the time if memory and last-level cache are slow (2 MiB, Sapphire Rapids).
       They take 5 to 14 % longer if hardware prefetches all rows (512 KiB, Zen 3): python bench/targets.py --only
       rotary- */
    POSENC_PREFETCH_ROWS = 4,
    POSENC_PREFETCH_ROWS_16 = 8,
    POSENC_PREFETCH_LEVEL = 3 << 19,
    /* Number of 16-bit pieces to merge at a time from the rows of two axes of a grid. A shorter row is repeated up to
       this number (measured by python bench/targets.py --only grid). */
    POSENC_MERGED = 512,
    /* These define the minimum number of bytes of a result that is written past the cache. It is the size of the
       last-level cache divided by PART, but at most BYTES.
       python bench/crossover.py writes results and reads them once. Past the cache, this takes no longer from 16 MiB on
       with a last-level cache of 32 MiB (Zen 3; from 11 MiB on Zen 5), and from 8 MiB on with a slow one of 260 MiB
       that many processors share (Sapphire Rapids). */
    POSENC_PAST_PART = 2,
    POSENC_PAST_BYTES = 1 << 24,
    /* Minimum number of bytes of a row that is written past the cache. Narrower rows share too many cache lines
       (measured by python bench/crossover.py --width 64). */
    POSENC_PAST_ROW = 256
};

/* Ways to write rows, with the reason for each. */
#define POSENC_STORES(X)                                                                     \
    X(FITS, "through the cache: the result may still be there when it is read")              \
    X(PAST, "past the cache")                                                                \
    X(FRESH, "through the cache: the system has just cleared the pages of the result there") \
    X(NARROW, "through the cache: two rows would share too many cache lines")                \
    X(SLOW, "through the cache: rows of any positions take longer to compute than to write") \
    X(IN_PLACE, "through the cache: the array that is added to was read into the cache")     \
    X(WIDE, "through the cache: sums in float64 take longer to compute than to write")       \
    X(AT_ONCE, "through the cache: rows of one float32 batch are added as they are computed")
#define POSENC_NAME(name, reason) POSENC_##name,
#define POSENC_REASON(name, reason) reason,
enum { POSENC_STORES(POSENC_NAME) POSENC_STORES_COUNT };
static const char *const posenc_reasons[] = {POSENC_STORES(POSENC_REASON)};

typedef struct {
    ptrdiff_t bytes, row; /* bytes of the result, and of a row of the result */
    ptrdiff_t last_level; /* bytes of the last-level cache, 0 if unknown */
    int mapped;           /* the result's memory was written before */
    int one_by_one;       /* rows are computed one by one, not as rows of consecutive integers */
    int sum, in_place;    /* rows are added to x; x is the result */
    int wide;             /* the type is float64 */
    int at_once;          /* the sum is float32 of one batch, which adds rows as they are computed */
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
    /* measured by python bench/crossover.py --encode; float64 always goes through a buffer of doubles */
    if (r->one_by_one && !r->sum && !r->wide)
        return POSENC_SLOW;
    /* the time of a sum does not depend on `mapped`, because a sum waits for x */
    return r->sum || r->mapped ? POSENC_PAST : POSENC_FRESH;
}

#endif
