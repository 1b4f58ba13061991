/* Which plan line makes an axis impossible: the cheapest choice when breaking a line costs, and where it breaks one. A line
 * that asks for a conversion itself comes first; what follows from it is not reported. */
#include "problem.h"

/* Says where actor a breaks a line, if it does; how many places it found. */
static int blame_actor(struct problem *p, const struct solution *answer, const struct actor *a)
{
    const struct part *t = &p->part[0];
    int shown = 0;
    for (int k = 0; k < arrlen(a->in); k++) {
        const struct value *v = a->in[k];
        if (!v)
            continue;
        enum phase phase = conversion_phase(value_phase(v), a->phase);
        const struct copy *x = &t->copies[v->id][phase];
        int need = a->choices[answer->choice[a->var]].in[k], at = answer->choice[x->var];
        if (read_cost(p, t, a, k, need, x->a[at], x->c[at], CODE_NONE) >= BROKEN_PRICE) {
            explain_pin(p->s, t->axis, a, k, need);
        } else if (x->c[at] != CODE_NONE && !conversion_is_free(p, v, x->a[at], need) &&
                   conversion_price(p, t, v, phase, x->a[at], x->c[at]) >= BROKEN_PRICE / 2) {
            if (cut_in_time(p, v, x->a[at]) || cut_in_time(p, v, need))
                explain_cut(p->s, t->axis, a, k, x->a[at], need);
            else
                explain_strict(p->s, t->axis, a, k, need);
        } else {
            continue;
        }
        shown++;
    }
    return shown;
}

void blame(struct sharding *s, int axis)
{
    int shown = 0;
    bool changed = false;
    const char *name = s->mesh->axis[axis].name;
    struct problem p = { .s = s, .soft = true };
    problem_actors(&p, 1u << axis);
    problem_build(&p);
    struct solution answer = solver_run(p.solver, 4e6);
    if (!answer.feasible)
        BUG("no layouts along axis %s even without pins", name);
    problem_write_back(&p, &answer, &changed);
    for (int turn = 0; turn < 2 && !shown; turn++)
        for (int i = 0; i < arrlen(p.part[0].actors) && shown < 2; i++)
            if ((p.part[0].actors[i].node->op == &op_to) == !turn)
                shown += blame_actor(&p, &answer, &p.part[0].actors[i]);
    if (!shown)
        BUG("no layouts along axis %s, and no line to blame", name);
}
