/* The order of solving: each axis in turn, exactly, with the others held, until none changes; then all of them together.
 *
 * One axis at a time can stop short of the best: two axes that each prefer to split the batch leave nothing for the
 * weights. What the axes found in turn bounds the optimum from above; per axis, the cost with the others at their best
 * bounds it from below, which rules out most signatures. What is left is one problem over all axes. Where that passes the
 * limits of the solver each two axes are solved together, the others held, and the gap to the lower bound is told. */
#include "problem.h"

static const double turn_limit = 4e6, joint_limit = 4e6, pair_limit = 1e5;

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

/* These axes together, the others held. Returns the cost of the layouts then, or of those there were when nothing cheaper
 * is found; *bound: no layouts cost less. */
static double solve_together(struct sharding *s, unsigned axes, double limit, double *bound)
{
    struct problem p = { .s = s };
    double least = layouts_cost(s, axes), upper = least * (1 + 1e-9) + 1e-12;
    problem_actors(&p, axes);
    *bound = fmin(least, problem_rule_out(&p, upper));
    problem_build(&p);
    if (p.large)
        return least;
    struct solution answer = solver_improve(p.solver, limit, upper);
    bool changed = false;
    *bound = fmin(least, fmax(*bound, answer.bound));
    if (!answer.feasible || answer.cost >= least)
        return least;
    problem_write_back(&p, &answer, &changed);
    return answer.cost;
}

/* Where all together were too many: each pair, until none gets better. */
static void solve_pairs(struct sharding *s, const int *order, int n)
{
    bool better = true;
    for (int round = 0; better && round < 2; round++) {
        better = false;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++) {
                unsigned axes = 1u << order[i] | 1u << order[j];
                double bound, before = layouts_cost(s, axes);
                better |= solve_together(s, axes, pair_limit, &bound) < before - 1e-9;
            }
    }
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
    if (n > 1) {
        double bound;
        s->choice.gap = solve_together(s, axes, joint_limit, &bound) - bound;
        if (s->choice.gap > 1e-9 && n > 2) {
            solve_pairs(s, order, n);
            s->choice.gap = layouts_cost(s, axes) - bound;
        }
    }
    if (s->choice.gap < 1e-9)
        s->choice.gap = 0;
    return true;
}
