/* reference FILE.flow TOKENS STEPS [PLAN]: trains the logical graph in float64 and prints a line per step as --metrics
 * does, so that emitted programs can be compared with the mathematics rather than with each other. With a plan, results
 * are rounded to the types that its `precision` line gives them. */
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include <stdlib.h>

static void report(void *context, const struct train_report *t)
{
    printf("{\"step\": %lld, \"loss\": %.10g, \"grad_norm\": %.10g}\n", (long long)t->step + 1, t->loss, t->grad_norm);
}

int main(int argc, char **argv)
{
    static double tokens[1 << 20];
    int64_t count = 0;
    struct options o = {.target = "cpu"};
    struct module m = {.options = &o};
    FILE *f = argc == 4 || argc == 5 ? fopen(argv[2], "rb") : NULL;
    if (!f)
        return fprintf(stderr, "usage: reference FILE.flow TOKENS STEPS [PLAN]\n"), 2;
    for (int low; (low = fgetc(f)) != EOF && count < 1 << 20;)
        tokens[count++] = low + 256 * fgetc(f);
    fclose(f);
    o.file = argv[1];
    o.plan = argc == 5 ? argv[4] : NULL;
    int file = source_open(o.file);
    if (!file)
        return fprintf(stderr, "cannot read %s\n", o.file), 2;
    arrput(m.programs, parse(file));
    if (!passes_run(&m, elaborate, rewrite))
        return diag_print(stderr, false), 1;
    struct run *r = run_logical(&m, ENTRY_TRAIN, weights_new(&m, m.train.seed));
    if (o.plan)
        run_round(r);
    run_train(r, &m, tokens, count, atoll(argv[3]), report, NULL);
    run_release(r);
    mem_release();
    return 0;
}
