/* Private to the solver: solve.c eliminates, prune.c rules out values beforehand, bound.c bounds. */
#ifndef FLOWC_SOLVER_H
#define FLOWC_SOLVER_H
#include "solve.h"

struct var {
    int n;
    double *unary;
    bool *dead;                  /* pruned values; their entries in tables are INFINITY */
    int *name;                   /* of a compacted problem: the values' numbers in the one it was made from */
    int *tables;                 /* stb_ds array: tables that mention it */
};
struct table {
    int nvar, *vars, size;
    double *cost;                /* row-major over vars in order */
    bool gone;
};
struct pair { struct { int a, b; } key; int value; };
struct solver {
    struct var *vars;            /* stb_ds arrays */
    struct table *tables;
    struct pair *pairs;          /* (a, b) -> table of the two */
    bool linked;                 /* variables know their tables */
    double base;                 /* of solver_tighten: what is already taken out of the costs */
};

/* How far apart a table's entries are in which only the variable at `place` differs, and how often that run repeats. */
struct slice { int inner, n, outer; };
struct slice table_slice(const struct solver *s, const struct table *t, int var);

void solver_link(struct solver *s);
/* Arc consistency, and dominance if asked; false when a variable has no value left. */
bool solver_prune(struct solver *s, bool dominance);
/* The same problem without pruned values, in memory of its own. */
struct solver *solver_compact(const struct solver *s);
/* Shifts costs between tables and variables, which changes no solution's sum, so that what no choice can avoid gathers
 * in one constant. Returns that, a lower bound. Stops where a sweep gains less than `least`. */
double solver_bound(struct solver *s, int sweeps, double least);
/* Drops values with which every solution costs more than `spare` above the lower bound. */
void solver_rule_out(struct solver *s, double spare);
#endif
