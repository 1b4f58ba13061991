/* Loop nests over strided tensors: the loops of one kernel, ordered by memory and merged where all its tensors allow.
 */
#ifndef FLOWC_EMIT_NEST_H
#define FLOWC_EMIT_NEST_H
#include "emitter.h"

enum { NEST_TENSORS = 24, NEST_LOOPS = 64 };
struct nest {
    int tensors, loops;          /* tensor 0 is the one written: loops are sorted by its strides */
    struct sym extent[NEST_LOOPS];
    struct sym stride[NEST_TENSORS][NEST_LOOPS];
};
void nest_sort(const struct physical *p, struct nest *n, int by);   /* outermost first by the strides of tensor `by` */
void nest_merge(struct nest *n);
const char *kernel_text(const char *sym);                  /* "k[3]" -> "k3": constants are parameters of a kernel */
/* "r * 64 + i" for loops [from, to) of a tensor; loop variables are var[0] .. */
const char *nest_index(const struct nest *n, int tensor, const char *const *var, int from, int to);
/* "int64_t k3, " for the constants it needs, and in *arguments what is passed for them (kernel.c). */
const char *kernel_parameters(struct emitter *e, const bool *needs, const char **arguments);
void kernel_constants(const struct nest *n, bool *needs);  /* adds those it needs; by index of the constant */
#endif
