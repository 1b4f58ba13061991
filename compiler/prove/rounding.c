/* How far apart rounding puts what is equal in real numbers: sums of parts are rounded before they are added up, a sum on one
 * rank is not. It says which difference of losses between two plans is to be expected, and from which on it is a fault. */
#include "../interpret/machine.h"
#include "verify.h"
#include <math.h>

static double largest(double a, double b)
{
    return a > b ? a : b;
}

static double apart(const struct run *a, const struct run *b, const char *output)
{
    double x = run_output(a, output), y = run_output(b, output);
    return x == y ? 0 : isfinite(x) && isfinite(y) ? fabs(x - y) / fmax(fabs(y), 1e-30) : INFINITY;
}

struct parted training_rounded(struct module *m, uint64_t seed)
{
    struct data rounded = data_new(m, ENTRY_TRAIN, seed), real = data_new(m, ENTRY_TRAIN, seed);
    struct parted most = {0, 0, 0};
    run_round(rounded.one);
    run_round(rounded.all);
    for (int64_t step = 0; step < entry_steps(ENTRY_TRAIN); step++) {
        data_step(&rounded, m->graph[ENTRY_TRAIN]);
        data_step(&real, m->graph[ENTRY_TRAIN]);
        run_step(rounded.one, step);
        run_step(rounded.all, step);
        run_step(real.one, step);
        most.loss = largest(most.loss, apart(rounded.all, rounded.one, "loss"));
        most.grad_norm = largest(most.grad_norm, apart(rounded.all, rounded.one, "grad_norm"));
        most.by_rounding = largest(most.by_rounding, apart(rounded.one, real.one, "loss"));
    }
    data_release(&rounded);
    data_release(&real);
    return most;
}
