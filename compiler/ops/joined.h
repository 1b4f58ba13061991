/* What several nodes became: the nodes stay in attribute "nodes", their values that others read in "results". */
#ifndef JOINED_H
#define JOINED_H
#include "common.h"

/* The shape of result k of the joined node n, and its place, without data. */
typedef struct tensor joined_shape(const struct reference *r, const struct node *n, int k);

void joined_reference(struct reference *r, joined_shape *shape);       /* runs the nodes one after the other, in float64 */
double joined_flops(const struct node *n);                             /* the sum of theirs */
#endif
