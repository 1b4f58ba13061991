/* The order in which the rows of files are read. It is a function of (position, row of the batch) alone: no rank, plan or
 * number of micro-batches enters it, and any place in it is found in constant time.
 *
 * A row is what one index of N reads: T tokens (and the one after), or one row of a raw input. Without weights an epoch is
 * all whole rows of all files, in order or, shuffled, through a permutation keyed by (seed, epoch); it ends where fewer than
 * N rows are left. With weights there is no epoch of all: rows come from the files in a fixed pattern of their shares, and
 * each file starts again on its own at its end, shuffled anew. */
#ifndef FL_DATA_ORDER_H
#define FL_DATA_ORDER_H
#include <stdbool.h>
#include <stdint.h>

enum { FL_PATTERN = 10000 };             /* rows after which the pattern of weights repeats */

/* A bijection of [0, n) that depends on the key: a Feistel network on the next power of 4, walked until inside. */
int64_t fl_permute(int64_t i, int64_t n, uint64_t key);

struct fl_span { int64_t low, high; };   /* elements of a file that are read: half-open */
struct fl_order {
    int nfile;
    struct fl_span *span;                /* of each file */
    int64_t width;                       /* elements in a row */
    int64_t after;                       /* elements behind a row that it needs too */
    int64_t n;                           /* rows in a batch */
    bool shuffle;
    uint64_t seed;
    uint16_t *pattern;                   /* FL_PATTERN files, or NULL without weights */
    int32_t *rank;                       /* how many of the same file before it in the pattern */
    int64_t *share;                      /* rows of each file in the pattern */
};
/* A position: `at` elements of the order of `epoch` were read. Kept in checkpoints; means the same for any N. */
struct fl_position { int64_t epoch, at; };

int64_t fl_order_rows(const struct fl_order *o, int file, int64_t phase);        /* phase: elements left out at its start */
int64_t fl_order_epoch(const struct fl_order *o);                    /* rows of an epoch; without weights */
void fl_order_weigh(struct fl_order *o, const double *weight);       /* makes the pattern; weights are positive */
/* Where the batch starts that is `steps` after the one at p. */
struct fl_position fl_order_ahead(const struct fl_order *o, struct fl_position p, int64_t steps);
/* Row i, from 0, of the batch at p: the file, and its first element there. */
int64_t fl_order_find(const struct fl_order *o, struct fl_position p, int64_t i, int *file);
#endif
