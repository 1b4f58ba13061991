/* What the parts of fuse know of a stage: who reads a value, and where a node stands. */
#ifndef FLOWC_FUSE_H
#define FLOWC_FUSE_H
#include "../op.h"
#include "../passes.h"

struct fusing {
    struct physical *p;
    struct graph *g;
    struct node ***readers;      /* by value id */
    bool *kept;                  /* by value id: read at the end of its body */
    int *position;               /* by node id: place in its region */
};

/* Same dims, and the same layout. */
bool fuse_same_shape(const struct fusing *w, const struct value *a, const struct value *b);
/* Does a node of region r, or one within a repeat of it, read v before that place in r? */
bool fuse_read_before(const struct fusing *w, const struct value *v, const struct region *r, int position);
void fuse_remove(struct region *r, const struct node *n);

void fuse_epilogues(struct fusing *w, struct region *r);   /* epilogue.c */
void fuse_rows(struct fusing *w, struct region *r);        /* rows.c */
#endif
