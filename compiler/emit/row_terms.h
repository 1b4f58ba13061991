/* Row work as terms: what a node `rows` computes, each a row of numbers or one number of a row, in the order in which they are
 * made. A pass is one loop over the row; level: how many sums along the row come before, so that all of one level go into one pass. */
#ifndef FLOWC_EMIT_ROW_TERMS_H
#define FLOWC_EMIT_ROW_TERMS_H
#include "emitter.h"

enum term_kind { TERM_WHOLE, TERM_EACH, TERM_NUMBER };
enum term_how { HOW_LOAD, HOW_EXPR, HOW_SUM, HOW_MEAN, HOW_MAX, HOW_MIN, HOW_COLUMNS };
/* Adds a row up, or takes its largest: a pass ends there. */
static inline bool term_along(enum term_how how) { return how >= HOW_SUM && how <= HOW_MIN; }
struct term {
    enum term_kind kind;
    enum term_how how;
    const struct value *v;       /* the value it is, or NULL for one on the way inside an op */
    int operand, result;         /* of the node, or -1 */
    int skipped;                 /* of a load: dims of the rows that its reader lacks at the end */
    const char *expr;            /* C over terms "%3", or the number */
    const struct node *drop;     /* which dropout its text asks FL_KEPT for; or NULL */
    int *in;                     /* stb_ds array: terms it reads */
    enum type type;
    int level, last;             /* the first and the last pass in which it is needed */
    bool live, kept, summed;     /* is needed; lies in a row of its own; something adds it up */
    int slot;
};

/* All terms, those that are not live included. */
struct term *row_terms(const struct node *n);
#endif
