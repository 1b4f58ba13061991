/* What the optimizers share (optimizer.c). */
#ifndef OPS_OPTIMIZER_H
#define OPS_OPTIMIZER_H
#include "nn.h"
#include <stddef.h>

#define SETTING(field, most) {#field, offsetof(struct train_spec, field), most}

double update_lr(const struct reference *r);                         /* the parameter's own rate in this step */
bool update_shape(struct graph *g, struct node *n);                  /* results are like w and the states that are there */
double update_factor(const struct reference *r, int k);              /* operand k, or 1 */
bool update_skipped(const struct reference *r, int k);               /* it is no number: results are what was there */
/* An optimizer's own reference, from what was kept. */
void update_redo(struct reference *r, int states, void (*update)(struct reference *));
#endif
