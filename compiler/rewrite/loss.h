/* What the two ways to make a loss without its logits share: loss.c where every rank has all classes, loss_parts.c
 * where they are split over an axis. */
#ifndef FLOWC_LOSS_H
#define FLOWC_LOSS_H
#include "../module.h"
#include "rewrite.h"

enum { NODES_OF_LOSS = 16 };      /* as many as one is made of here, or more */

struct parts {                   /* of one cross_entropy, as op_cross_entropy.lower leaves them */
    struct graph *g;
    struct node ***readers;      /* by value id */
    struct node *product;        /* logits = einsum(x, w) */
    struct value *x, *w, *logits, *targets, *loss, *dy, *dx, *dw;
    struct node *max, *sum;
    struct node *below, *end, *gradient;         /* end: the last node of the loss; gradient: ce_grad, or NULL */
    int classes;                 /* the dim of w that holds them */
    int over;                    /* the axis that splits them, or may; -1: none does */
    bool *late;                  /* by node id: reads the loss, in the forward */
    bool *moved;                 /* by node id: of the forward, and in the backward by now because of another loss */
    const char *split;           /* why they lie over that axis */
    const char *why_not;
};

bool loss_refuse(struct parts *p, const char *why);              /* false, with the reason */
int loss_place(const struct region *r, const struct node *n);     /* of n among the nodes of r, which has it */
/* n makes v, its result k, in the place of the node that did. */
void loss_make(struct node *n, int k, struct value *v);
/* dx and dw: results `first` and the next. */
void loss_make_gradients(struct node *n, int first, const struct parts *p);
/* A node on x, w and targets, at the end of the root, with the attributes of the loss. */
struct node *loss_node(struct parts *p, const struct op *op, const struct node *like);
/* Whoever asks for the logits is told why they are not there. */
void loss_note_gone(struct node *n, const struct parts *p);

/* loss_parts.c */
/* Every rank has all classes where no line splits the matrix, and without a line where an axis splits the inputs.
 * Else they lie split over one axis, or may; false where there are several such. */
bool loss_find_axis(struct parts *p);
bool loss_parts_pay(struct parts *p);                            /* or a reason against it, in p */
void loss_join_parts(struct parts *p);
#endif
