/* The blocks of parameters: which of the whole model a rank has, where they lie, and what they are called in files. A
 * family is a path with all its entries in a class's table; of each repeat around it every index is one block. */
#ifndef FL_BLOCKS_H
#define FL_BLOCKS_H
#include "flow_rt.h"
#include "place.h"
#include "safetensors.h"

int64_t fl_blocks_all(const struct fl_param *p);     /* in the whole model */
int64_t fl_blocks_own(const struct fl_param *p);     /* in this entry */
/* The number in the whole model of the entry's own block i. */
int64_t fl_block_number(const struct fl_param *p, int64_t i);
/* Which of the blocks [first, first + count) of each repeat is this one of the whole model; -1: none of them. */
int64_t fl_block_within(const struct fl_param *p, const int64_t *first, const int64_t *count, int64_t block);
int fl_family_end(const struct fl_class *class_, int i);             /* behind the entries of the path of entry i */

/* n elements of the entry's own block between host memory and where it lies. */
void fl_block_put(struct fl_run *run, const struct fl_param *p, int64_t own, const float *from, int64_t n);
void fl_block_get(float *to, struct fl_run *run, const struct fl_param *p, int64_t own, int64_t n);
/* Puts what this rank holds of its part of a block where it lies. */
void fl_block_put_held(struct fl_run *run, const struct fl_param *p, int64_t own, const float *part,
                       const struct fl_box *box);

/* Name and shape in a file. native: a checkpoint's, where names are paths and states are there too. Otherwise as the
 * program's files block says: a block is made of so many tensors of the file, parts. The name is allocated. */
bool fl_block_wanted(const struct fl_param *p, bool native);
/* Is there a moving average of this parameter? */
bool fl_block_averaged(const struct fl_class *class_, const struct fl_param *p);
int fl_block_parts(const struct fl_param *p, bool native);
char *fl_block_name(const struct fl_param *p, int64_t block, int part, bool native);
struct fl_st_entry fl_block_entry(const struct fl_param *p, int64_t block, int part, bool native);

/* Where the elements of a part, in the order of the file, stand in our block: each call gives the next one's place. */
struct fl_block_walk { int ndim; int64_t size[FL_MAX_DIM], stride[FL_MAX_DIM], index[FL_MAX_DIM], at; };
struct fl_block_walk fl_block_walk_begin(const struct fl_param *p, int part, bool native);
static inline int64_t fl_block_walk_next(struct fl_block_walk *w)
{
    int64_t at = w->at;
    for (int d = w->ndim - 1; d >= 0; d--) {
        w->at += w->stride[d];
        if (++w->index[d] < w->size[d])
            break;
        w->index[d] = 0;
        w->at -= w->size[d] * w->stride[d];
    }
    return at;
}
#endif
