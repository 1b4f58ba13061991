/* What a program must compute, from its logical graph, and what its emitted text did compute. */
#ifndef FLOWC_RANDOM_EMITTED_H
#define FLOWC_RANDOM_EMITTED_H
#include "interpret/interpret.h"
#include "module.h"
#include <stdbool.h>

enum { EMITTED_STEPS = 3 };

/* How the logical graph is run: in float64; every result rounded to its type, f32 too; the same from weights and data that
 * are a rounding error away. What the three differ by is what a program may differ by that computes in another order. */
enum manner { MANNER_EXACT, MANNER_ROUNDED, MANNER_MOVED, MANNERS };

struct number {                          /* a scalar that --metrics prints */
    const char *field;                   /* "eval_loss" */
    int step;                            /* from 1 */
    double value;
};
struct numbers {
    struct number *scalar;               /* stb_ds array, the same in every manner */
    struct weights *start, *end;
};
/* Made-up data, the same for every manner, written under the names that the program reads when `dir` is given. */
struct numbers emitted_reference(struct module *m, enum manner how, const char *dir);

/* Compares dir/metrics.jsonl, and dir/end.safetensors where `weights` is set. Differences go to stderr; their number.
 * vague: what rounding alone does to the program is so much that a fault might hide behind it. */
int emitted_compare(const struct numbers runs[MANNERS], bool is_short, const char *dir, bool weights, bool *vague);
#endif
