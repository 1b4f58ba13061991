/* The steps of rewrite, in the order in which they run. */
#ifndef FLOWC_REWRITE_H
#define FLOWC_REWRITE_H
#include "../module.h"
#include "../op.h"
#include <string.h>

void replace_nodes(struct graph *g);     /* replace.c: identities go, ops with lower become their parts */
void warn_unread(struct module *m);      /* unread.c: states that nothing reads, once what is dead has gone */
void remove_dead(struct graph *g);       /* dead.c: what no effect needs goes */
void set_precision(struct graph *g);     /* precision.c: the type every tensor is held in */
void join_losses(struct graph *g);       /* loss.c: a loss is made without its logits, where nothing else reads them */
void recompute(struct graph *g);         /* recompute.c: covered values are made again where the backward reads them */
bool recompute_asked(const struct plan *plan, const struct node *n);     /* a line covers it */
void clear_padding(struct graph *g);     /* padding.c: no op counts what lies in padding */
void split_backward(struct graph *g);   /* split.c: weight gradients get a phase of their own, where the plan asks */
#endif
