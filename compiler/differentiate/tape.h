/* Reverse mode over regions. A tape belongs to one backward region and collects, for values of the forward region it
 * mirrors and of the regions around it, the gradients that their uses contribute. */
#ifndef FLOWC_TAPE_H
#define FLOWC_TAPE_H
#include "../op.h"

struct trained {                 /* one parameter that a gradient reaches, or could */
    struct param *param;
    struct value *value;         /* output of its param node */
    struct value *grad;          /* in the backward region that mirrors value->region; NULL: none */
    struct value *square;
    struct value *made;          /* the new parameter, once it is made */
    struct value *old[1 + MAX_STATE], *ahead[1 + MAX_STATE], *kept[1 + MAX_STATE];   /* the parameter and its states */
};

struct differentiation {
    struct graph *g;
    struct trained *trained;     /* stb_ds array in declaration order */
    bool *needs;                 /* by id of a forward value: does it depend on a trained parameter, smoothly? */
    int nforward;                /* values of the forward graph have smaller ids */
};

void count_ahead(struct graph *g);                                       /* ahead.c */
void find_needs(struct differentiation *d);                              /* needs.c; also fills trained[] */
bool backward(struct differentiation *d);                                /* backward.c */
void update(struct differentiation *d);                                  /* update.c */
/* whole.c: the gradient with what comes of weights alone added in `at`, a region of the update; or as it is */
struct value *whole_apart(struct differentiation *d, struct region *at, struct value *grad);
void update_states(struct graph *g, struct value *scale);                /* states.c: `update s = x` */
/* A chain of products behind x, made for p in `at` (orthogonal.c); *larger: the larger side of the matrix. */
struct value *orthogonal(struct graph *g, struct region *at, struct value *x, struct param *p, double *larger);
struct trained *trained_find(struct differentiation *d, const struct param *p);   /* NULL when not trained */
#endif
