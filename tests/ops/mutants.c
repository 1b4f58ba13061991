/* Mutants of the rule table: each declared signature taken away, and each that is not declared added, in turn. The gate must
 * notice every one. What it cannot notice is no fault, and is counted apart: a signature marked coords may be missing
 * (soundness only), max{a} may be missing beside max{a, b} (what is whole is a maximum too), and one that holds without
 * being declared may be added (it follows from others, or is marked). */
#include "gate.h"
#include <stdio.h>
#include <string.h>

struct tally { long thinned, removed, removed_caught, marked, said_twice, added, added_caught, true_anyway; };

static void remove_each(struct gate *g, struct tally *t)
{
    struct sig *all = g->declared[0];
    for (int i = 0; i < arrlen(all); i++) {
        bool even = false;
        struct sig *rest = NULL;
        for (int k = 0; k < g->nin + g->nout; k++) {
            struct sbp s = k < g->nin ? all[i].in[k] : all[i].out[k - g->nin];
            const struct tensor *x = k < g->nin ? &g->in[k] : &g->out[k - g->nin];
            even |= s.kind == SBP_S && (x->n[s.dim] < g->grid.size[0] || (all[i].even && x->n[s.dim] % g->grid.size[0]));
        }
        if (all[i].coords || even) {                     /* not claimed for these sizes */
            t->marked++;
            continue;
        }
        for (int j = 0; j < arrlen(all); j++)
            if (j != i)
                arrput(rest, all[j]);
        g->declared[0] = rest;
        struct lay in[MAX_OPERAND] = {{{{0}}}}, out[MAX_OPERAND] = {{{{0}}}};
        for (int k = 0; k < g->nin; k++)
            in[k].ax[0] = all[i].in[k];
        for (int k = 0; k < g->nout; k++)
            out[k].ax[0] = all[i].out[k];
        if (gate_covered(g, in, out, 0)) {
            t->said_twice++;
            continue;
        }
        t->removed++;
        bool caught = gate_compare(g) > 0;
        t->removed_caught += caught;
        if (!caught)
            fprintf(stderr, "mutants: %s (%s) over %d: signature %d can be taken away unnoticed\n", g->instance->op->name,
                    g->instance->in, g->grid.size[0], i);
    }
    g->declared[0] = all;
}

static bool holds(const struct gate *g, const struct sig *s)
{
    for (int i = 0; i < arrlen(g->holds); i++) {
        const struct verdict *v = &g->holds[i];
        bool same = true;
        for (int k = 0; k < g->nin && same; k++)
            same = sbp_same(s->in[k], v->in[k].ax[0]);
        for (int k = 0; k < g->nout && same; k++)
            same = sbp_same(s->out[k], v->out[k].ax[0]);
        if (same)
            return true;
    }
    return false;
}

/* Judged by running the claim anew, not by looking up what brute force found. */
static void add_one(struct gate *g, const struct sig *s, struct tally *t)
{
    struct lay in[MAX_OPERAND] = {{{{0}}}}, out[MAX_OPERAND] = {{{{0}}}};
    bool partial = false;
    for (int k = 0; k < g->nin; k++) {
        in[k].ax[0] = s->in[k];
        partial |= s->in[k].kind == SBP_P;
    }
    for (int k = 0; k < g->nout; k++)
        out[k].ax[0] = s->out[k];
    if (holds(g, s)) {
        t->true_anyway++;
        return;
    }
    bool shaped = true;          /* an update writes where it reads: no other combination can be said */
    for (int k = 0; k < g->nout && g->effect; k++)
        shaped &= sbp_same(s->out[k], s->in[g->written[k]]);
    if (!shaped)
        return;
    t->added++;
    if ((g->effect && partial) || !gate_claim(g, in, out, true))
        t->added_caught++;
    else
        fprintf(stderr, "mutants: %s (%s) over %d: a wrong signature can be added unnoticed\n", g->instance->op->name,
                g->instance->in, g->grid.size[0]);
}

static bool pick_next(int *pick, const struct choices *c, int count)
{
    for (int k = count - 1; k >= 0; k--) {
        if (++pick[k] < arrlen(c[k].lay))
            return true;
        pick[k] = 0;
    }
    return false;
}

/* Every step-th of them. */
static void add_each(struct gate *g, struct tally *t, long step)
{
    long turn = 0;
    int in[MAX_OPERAND] = {0};
    do {
        int out[MAX_OPERAND] = {0};
        do {
            if (turn++ % step)
                continue;
            struct sig s = {.in = NEW_ARRAY(struct sbp, g->nin + 1), .out = NEW_ARRAY(struct sbp, g->nout + 1)};
            for (int k = 0; k < g->nin; k++)
                s.in[k] = g->in_choice[k].lay[in[k]].ax[0];
            for (int k = 0; k < g->nout; k++)
                s.out[k] = g->out_choice[k].lay[out[k]].ax[0];
            add_one(g, &s, t);
        } while (pick_next(out, g->out_choice, g->nout));
    } while (pick_next(in, g->in_choice, g->nin));
}

int mutants_all(const char *only, bool thorough)
{
    struct tally t = {0};
    for (const struct instance *i = instances; i->op; i++) {
        if (only && strcmp(only, i->op->name) != 0)
            continue;
        for (int parts = 2; parts <= (thorough ? 3 : 2); parts++) {
            struct gate g;
            if (!gate_open(&g, i, (struct grid){1, {parts}, parts, 0}))
                continue;
            double wrong = gate_combinations(&g);        /* signatures that may be added */
            for (int k = 0; k < g.nout; k++)
                wrong *= g.effect || (k == 0 && i->out) ? 1 : (double)arrlen(g.out_choice[k].lay);
            long step = 1 + (long)(wrong / (thorough ? 2e5 : 8e3));
            t.thinned += step > 1;
            gate_try(&g);
            g.quiet = true;
            remove_each(&g, &t);
            add_each(&g, &t, step);
        }
        start_anew();
    }
    long missed = t.removed - t.removed_caught + t.added - t.added_caught;
    printf("mutants: %ld of %ld removed and %ld of %ld added signatures caught; %ld are marked or not claimed for these "
           "sizes, %ld are said twice, %ld added ones are true; of %ld samples only every few were added\n", t.removed_caught, t.removed,
           t.added_caught, t.added, t.marked, t.said_twice, t.true_anyway, t.thinned);
    return missed > 0;
}
