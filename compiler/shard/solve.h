/* Minimises a sum of costs over variables with few values each: unary costs and tables over two or more variables.
 * INFINITY forbids.
 *
 * Values that no solution needs are pruned first (arc consistency, then dominance); what is left is solved by variable
 * elimination, always the variable whose neighbours span the smallest table. Elimination is exact. Where that needs big
 * tables, a quick solution and a lower bound first rule out values that cannot be part of a better one. Where tables, or
 * the work on all of them, would still pass a limit, some variables are fixed at the best solution known and the rest is
 * solved exactly around them, again and again; then `exact` is false and cost - bound is the gap. Work is counted in table
 * entries, never in time: the same problem has the same answer everywhere. */
#ifndef FLOWC_SOLVE_H
#define FLOWC_SOLVE_H
#include "../base/mem.h"
#include <stdbool.h>

struct solver;
struct solution {
    int *choice;                 /* one value per variable; of the last attempt when not feasible */
    double cost, bound;          /* bound: no solution is cheaper */
    bool feasible, exact;
    int largest;                 /* entries of the largest table built */
};

struct solver *solver_new(void);
int solver_var(struct solver *s, int n, const double *unary);                      /* n >= 1 values; returns its number */
void solver_pair(struct solver *s, int a, int b, const double *table);             /* table[x * nb + y]; tables on one pair add */
/* Row-major over n different variables; the table is the solver's from now on. */
void solver_table(struct solver *s, int n, const int *vars, double *table);
void solver_add(struct solver *s, int var, const double *unary);                   /* adds to its costs */
struct solution solver_run(struct solver *s, double table_limit);
/* Given that something costs `upper` at most: the best not above it. Not feasible, with bound = upper: there is nothing. */
struct solution solver_improve(struct solver *s, double table_limit, double upper);
/* Only for what it rules out: drops values with which every solution is more than `spare` above the lower bound, which it
 * returns. Values that are merely no better than others stay. */
double solver_tighten(struct solver *s, double spare);
bool solver_dead(const struct solver *s, int var, int value);
#endif
