/* Looking at a step as it is made: the program calls FL_SEE behind every node, which is a branch that is not taken unless
 * somebody has said that he looks. All who look are called, in the order in which they came.
 *
 * A hook is called once the calls of the node have returned: on cpu they are done, on cuda queued; reading a value
 * (fl_seen_read) waits for them. What lasts between two hooks is the second node. */
#ifndef FL_SEE_H
#define FL_SEE_H
#include "place.h"
#ifdef __cplusplus
extern "C" {
#endif

struct fl_seen {
    const struct fl_node *node;
    int microbatch;
    int64_t block;                       /* in the whole repeat; 0 outside */
    const void *const *x;                /* where node->value[k] lies */
};
typedef void fl_seer(struct fl_run *run, const struct fl_seen *s);
/* values: to read them, so that those fused into kernels are computed as well. */
void fl_see_add(fl_seer *f, bool values);
void fl_see_remove(fl_seer *f);

/* Block i (from 0; of a whole stack, else 0) of value k, dense and row-major in the order of its dims, as floats, 0 in
 * padding: in a buffer that the next call writes over. *box: the part that it is; a share (value->flat) has one dim, *count elements. */
const float *fl_seen_read(struct fl_run *run, const struct fl_seen *s, int k, int64_t i, struct fl_box *box, int64_t *count);
/* "gpt.flow:28 attention h[3].attn.y", for people: allocated. path: of the value or node. */
char *fl_seen_path(const struct fl_value *v, const char *path, int64_t block);
/* The number of block i of value k in its repeat, or in those around it, outermost major. */
int64_t fl_seen_block(const struct fl_seen *s, int64_t i);
#ifdef __cplusplus
}
#endif
#endif
