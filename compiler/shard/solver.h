/* Private to the solver: solve.c eliminates, prune.c rules out values beforehand. */
#ifndef FLOWC_SOLVER_H
#define FLOWC_SOLVER_H
#include "solve.h"

struct var {
    int n;
    double *unary;
    bool *dead;                  /* pruned values */
    int *tables;                 /* stb_ds array: tables that mention it */
};
struct table {
    int nvar, *vars;
    double *cost;                /* row-major over vars in order */
    bool gone;
};
struct pair { struct { int a, b; } key; int value; };
struct solver {
    struct var *vars;            /* stb_ds arrays */
    struct table *tables;
    struct pair *pairs;          /* (a, b) -> table */
    bool linked;                 /* variables know their tables */
    double base;                 /* of solver_tighten: what is already taken out of the costs */
};

static inline int table_other(const struct table *t, int var)
{
    return t->vars[0] == var ? t->vars[1] : t->vars[0];
}

/* Arc consistency, and dominance if asked; false when a variable has no value left. */
bool solver_prune(struct solver *s, bool dominance);
/* Shifts costs between tables and variables, which changes no solution's sum, so that what no choice can avoid gathers
 * in one constant. Returns that, a lower bound. */
double solver_bound(struct solver *s, int sweeps);
/* Drops values with which every solution costs more than `spare` above the lower bound. */
void solver_rule_out(struct solver *s, double spare);
#endif
