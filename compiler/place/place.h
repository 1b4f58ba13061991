/* Private to place.  split.c: the repeat that the pipeline cuts.  cut.c: its cut.  place.c: a stage for every node.  warn.c:
 * what is most likely not meant.  twins.c: recomputed
 * values on one stage.  weight.c: a weight part on one stage. */
#ifndef FLOWC_PLACE_H
#define FLOWC_PLACE_H
#include "../base/diag.h"
#include "../module.h"
#include "../op.h"
#include "../passes.h"

/* The forward repeat of g whose blocks have the label `label`, the first of its pieces, or NULL. names (may be NULL) collects the labels seen. */
struct node *split_find(const struct graph *g, const char *label, const char ***names);
/* Blocks of each virtual stage, cumulative: stb_ds array, one entry more than they are; NULL after a diagnostic. */
int64_t *split_counts(const struct plan *plan, const struct node *repeat);
void settle_twins(struct graph *g);                  /* after the backward has its stages */
void keep_weight_parts(struct graph *g);              /* likewise */

struct placing {
    struct module *m;
    const struct plan *plan;
    struct graph *g;
    int stages;                  /* virtual ones */
    struct node *cut;            /* the repeat that is cut, or the first of its pieces, or NULL */
    const int64_t *map;          /* its blocks by virtual stage, over all pieces: map[u]..map[u+1] */
    int first, last;             /* of its first and last block */
    const struct plan_line **line;   /* by node id: the place line that said so, or NULL */
    const struct plan_line *told;    /* the last one that was said to be against the data */
};

int first_stage(const int64_t *cut);                  /* of the first block and of the last one */
int last_stage(const int64_t *cut);
bool find_cut(struct placing *p);                    /* cut, map, first and last; region->cut; false after a diagnostic */
void warn_barrier(const struct placing *p);
void warn_stages(const struct placing *p);
#endif
