/* Bringing logical blocks together from the ranks that hold parts of them. */
#ifndef FL_GATHER_H
#define FL_GATHER_H
#include "blocks.h"

/* What one entry of a rank's table holds of a family. Ranks of one replica hold all parts of a block between them. */
struct fl_holding {
    int64_t first[FL_MAX_STACK], count[FL_MAX_STACK];
    struct fl_box box;
    struct fl_held held;
    int replica;
};

/* A family and what all ranks hold of it: `most` holdings for each rank. */
struct fl_family {
    const struct fl_param *p;
    int count, most;
    struct fl_holding *all;
};
struct fl_family fl_family_of(struct fl_run *run, int first);        /* all ranks; first: entry of the class's table */
void fl_family_free(struct fl_family *f);
bool fl_family_holds(const struct fl_family *f, int rank, int64_t block);      /* some part of it */
/* Of all who hold the block, the rank with the least load; each of them could write it without help from further
 * away. */
int fl_family_writer(const struct fl_family *f, int64_t block, const int64_t *load);
/* All ranks, in one order: the whole logical block arrives in `whole` on rank `to`; elsewhere it is not touched. */
void fl_family_bring(struct fl_run *run, const struct fl_family *f, int64_t block, int to, float *whole);
#endif
