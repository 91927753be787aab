/* Constants that affect only speed, with the commands that measure them, and the rule for stores past the cache. */
#ifndef POSENC_TUNING_H
#define POSENC_TUNING_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* number of columns to compute at a time into a buffer (measured by python bench/targets.py --only memset, and
       --only float16) */
    POSENC_TILE = 256,
    /* number of doubles in a line buffer: POSENC_TILE columns, and the parts of cache lines before and behind them */
    POSENC_LINE_BUFFER = POSENC_TILE + 16,
    /* The next four numbers are for sums (measured by python bench/targets.py --only add).
       PREFETCH_COLUMNS: number of columns between two prefetches.
       PREFETCH_DISTANCE: number of values, of x and the result together, between a prefetch and its use.
       PREFETCH_BLOCK: while the rows around one anchor are added, the rows around the next anchor are prefetched if
       they have at most this number of values. If the result is not written over x, the maximum is PREFETCH_BLOCK / 4.
       ADDED: number of doubles to compute before they are added to each of several batches. */
    POSENC_PREFETCH_COLUMNS = 64,
    POSENC_PREFETCH_DISTANCE = 3072,
    POSENC_PREFETCH_BLOCK = 1 << 15,
    POSENC_ADDED = 1 << 14,
    /* A rotation applies some rows of angles to all heads, then the next rows to all heads. The rows that are applied
       together have as many bytes as the second-level cache divided by ANGLES_PART, but at least ANGLES_LEAST and at
       most ANGLES_MOST bytes. Fewer rows at a time would fit into the first-level cache, but would mean more changes
       to another head, and each change waits for memory. The best sizes were 64 KiB with a second-level cache of
       512 KiB (Zen 3), and 256 KiB with a cache of 2 MiB (Sapphire Rapids).
       Measured by python bench/targets.py --only rotary- */
    POSENC_ANGLES_PART = 8,
    POSENC_ANGLES_LEAST = 1 << 14,
    POSENC_ANGLES_MOST = 1 << 18,
    /* Number of rows between the prefetch of a row and its rotation: PREFETCH_ROWS for float64 and float32, and
       PREFETCH_ROWS_16 for 16-bit types. `posenc_prefetch_from` decides whether rows are prefetched. A second-level
       cache counts as large from PREFETCH_LARGE bytes on, and as middle from PREFETCH_MIDDLE bytes on. */
    POSENC_PREFETCH_ROWS = 4,
    POSENC_PREFETCH_ROWS_16 = 8,
    POSENC_PREFETCH_LARGE = 3 << 19,
    POSENC_PREFETCH_MIDDLE = 3 << 18,
    /* In a grid, a row of one axis is merged (by bitwise OR) with each of several rows of another axis. A loop over one
       short row would be slow. So a loop merges copies of the row with adjacent rows of the other axis. The copies have
       at least this number of 16-bit pieces, but there are at most as many copies as adjacent rows.
       Measured by python bench/targets.py --only grid */
    POSENC_MERGED = 512,
    /* A result is written past the cache if it has at least a minimum number of bytes: the size of the last-level cache
       divided by PAST_PART, but at most PAST_BYTES.
       python bench/crossover.py writes results and reads them once. It found the smallest results for which writing
       past the cache is at least as fast as writing through it: 16 MiB on Zen 3 (with a last-level cache of 32 MiB),
       11 MiB on Zen 5, and 8 MiB on Sapphire Rapids (with a slow last-level cache of 260 MiB that many processors
       share). */
    POSENC_PAST_PART = 2,
    POSENC_PAST_BYTES = 1 << 24,
    /* minimum number of bytes of a row that is written past the cache; narrower rows would share too many cache
       lines (measured by python bench/crossover.py --width 64) */
    POSENC_PAST_ROW = 256
};

/* Ways to write rows, with the reason for each. */
#define POSENC_STORES(X)                                                                     \
    X(FITS, "through the cache: the result may still be there when it is read")              \
    X(PAST, "past the cache")                                                                \
    X(FRESH, "through the cache: the system has just cleared the pages of the result there") \
    X(NARROW, "through the cache: two rows would share too many cache lines")                \
    X(SLOW, "through the cache: rows of any positions take longer to compute than to write") \
    X(IN_PLACE, "through the cache: the result is x, which was read into the cache")         \
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
    int sum, in_place;    /* sum: rows are added to x; in_place: the sum is written over x */
    int wide;             /* the type is float64 */
    int at_once;          /* a sum of float32 with one batch, which adds rows as they are computed */
} posenc_result;

/* Return the number of bytes from which an array counts as too large for the last-level cache. The number is less than
   last_level, the size of this cache, because other programs need a part of the cache. If last_level is 0 (unknown), no
   array is too large. */
static inline ptrdiff_t posenc_too_large(ptrdiff_t last_level)
{
    ptrdiff_t part = last_level / POSENC_PAST_PART;
    return part <= 0 ? PTRDIFF_MAX : part < POSENC_PAST_BYTES ? part : POSENC_PAST_BYTES;
}

/* Return the least number of bytes of x for which a rotation prefetches rows of x. It depends on the size of the
   second-level cache.
   Large (Sapphire Rapids, 2 MiB, with a slow last level): prefetch if x does not fit into the second level. This saves
   a seventh of the time.
   Middle (Zen 5, 1 MiB): prefetch if x is too large for the last level. This saves a seventh of the time. For a smaller
   x, a prefetch would cost 8 %.
   Small (Zen 3, 512 KiB): never prefetch, because the hardware prefetches all rows. A prefetch by the program would
   cost 4 to 15 %.
   Measured by python bench/targets.py --only rotary- */
static inline ptrdiff_t posenc_prefetch_from(ptrdiff_t second_level, ptrdiff_t last_level)
{
    if (second_level >= POSENC_PREFETCH_LARGE)
        return second_level + 1;
    return second_level >= POSENC_PREFETCH_MIDDLE ? posenc_too_large(last_level) : PTRDIFF_MAX;
}

static inline int posenc_stores(const posenc_result *r)
{
    if (r->bytes < posenc_too_large(r->last_level))
        return POSENC_FITS;
    if (r->in_place)
        return POSENC_IN_PLACE;
    if (r->sum && r->wide)
        return POSENC_WIDE;
    if (r->at_once)
        return POSENC_AT_ONCE;
    if (r->row < POSENC_PAST_ROW)
        return POSENC_NARROW;
    /* Unless they are added to x, rows that are computed one by one take longer to compute than to write. So writing
       past the cache would not save time (measured by python bench/crossover.py --encode). Rows of float64 are an
       exception: they are always computed in a buffer, which can be written past the cache without another copy. */
    if (r->one_by_one && !r->sum && !r->wide)
        return POSENC_SLOW;
    /* the time of a sum does not depend on `mapped`, because a sum waits for x */
    return r->sum || r->mapped ? POSENC_PAST : POSENC_FRESH;
}

#endif
