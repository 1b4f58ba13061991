/* The order of solving: each axis in turn, exactly, with the others held, until none changes; then all of them together.
 *
 * One axis at a time can stop short of the best: two axes that each prefer to split the batch leave nothing for the
 * weights. What the axes found in turn bounds the optimum from above; per axis, the cost with the others at their best
 * bounds it from below, which rules out most signatures. What is left is one problem over all axes. Where that passes the
 * limit of the solver's tables the layouts found in turn stay, and the gap to the lower bound is told. */
#include "problem.h"

static const double turn_limit = 4e6, joint_limit = 4e6;

/* One axis with the others held; false when there is no choice (reported). */
static bool solve_turn(struct sharding *s, int axis, bool *changed)
{
    struct problem p = { .s = s };
    problem_actors(&p, 1u << axis);
    problem_build(&p);
    struct solution answer = solver_run(p.solver, turn_limit);
    if (!answer.feasible) {
        blame(s, axis);
        return false;
    }
    s->choice.gap = answer.cost - answer.bound;
    problem_write_back(&p, &answer, changed);
    return true;
}

static bool chosen_now(const struct actor *a, int axis, const struct choice *c)
{
    for (int k = 0; k < arrlen(a->out); k++)
        if (c->out[k] != sbp_code(a->out[k]->lay.ax[axis]))
            return false;
    for (int k = 0; k < arrlen(a->in); k++)
        if (a->in[k] && c->in[k] != sbp_code(a->node->need[a->carry >= 0 ? a->carry : k].ax[axis]))
            return false;
    return true;
}

double layouts_cost(struct sharding *s, unsigned axes)
{
    struct problem p = { .s = s };
    problem_actors(&p, axes);
    for (int x = 0; x < p.nparts; x++)
        for (int i = 0; i < arrlen(p.part[x].actors); i++) {
            struct actor *a = &p.part[x].actors[i];
            for (int j = (int)arrlen(a->choices) - 1; j >= 0; j--)
                if (!chosen_now(a, p.part[x].axis, &a->choices[j]))
                    arrdel(a->choices, j);
        }
    problem_build(&p);
    return solver_run(p.solver, joint_limit).cost;
}

double problem_rule_out(struct problem *p, double least)
{
    struct problem alone[MAX_AXIS];
    double bound = 0;
    for (int x = 0; x < p->nparts; x++) {
        alone[x] = (struct problem){ .s = p->s, .optimistic = true, .nparts = 1, .part = { p->part[x] } };
        problem_build(&alone[x]);
        bound += solver_tighten(alone[x].solver, INFINITY);
    }
    for (int x = 0; x < p->nparts; x++) {
        solver_tighten(alone[x].solver, least - bound);
        for (int i = 0; i < arrlen(p->part[x].actors); i++) {
            struct actor *a = &p->part[x].actors[i];
            for (int j = (int)arrlen(a->choices) - 1; j >= 0; j--)
                if (solver_dead(alone[x].solver, alone[x].part[0].actors[i].var, j))
                    arrdel(a->choices, j);
        }
    }
    return bound;
}

static void solve_together(struct sharding *s, unsigned axes)
{
    struct problem p = { .s = s };
    double least = layouts_cost(s, axes);
    problem_actors(&p, axes);
    double bound = problem_rule_out(&p, least * (1 + 1e-9) + 1e-12);
    problem_build(&p);
    s->choice.gap = least - bound;
    if (p.large)
        return;
    struct solution answer = solver_improve(p.solver, joint_limit, least * (1 + 1e-9) + 1e-12);
    bool changed = false;
    if (answer.feasible && answer.cost < least)
        problem_write_back(&p, &answer, &changed);
    if (answer.feasible)
        s->choice.gap = fmin(least, answer.cost) - answer.bound;
    else
        s->choice.gap = least - fmax(bound, answer.bound);
}

bool axes_in_turn(struct sharding *s, const int *order, int n)
{
    for (int k = 0, idle = 0, tries = 0; idle < n && tries < 4 * n; k = (k + 1) % n, tries++) {
        bool changed = false;
        if (!solve_turn(s, order[k], &changed))
            return false;
        idle = changed ? 1 : idle + 1;               /* others' costs change with this one's layouts */
    }
    return true;
}

bool axes_solve(struct sharding *s, const int *order, int n)
{
    unsigned axes = 0;
    if (!axes_in_turn(s, order, n))
        return false;
    for (int k = 0; k < n; k++)
        axes |= 1u << order[k];
    if (n > 1)
        solve_together(s, axes);
    if (s->choice.gap < 1e-9)
        s->choice.gap = 0;
    return true;
}
