/* The judgement of random_programs: all ranks against one, in float64. */
#include "compare.h"
#include "random.h"
#include <stdio.h>

const int summary_every = 500;

struct options judge_options(void)
{
    return (struct options){.file = "random.flow", .target = "cpu", .check = true};
}

int judge(struct module *m, struct outcome *o)
{
    snprintf(o->kind, sizeof o->kind, "wrong numbers");
    return compare_program(m, &o->degenerate) ? VERDICT_WRONG : VERDICT_EQUAL;
}
