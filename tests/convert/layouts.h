/* Programs that turn a matrix from one layout into another, for tests that try all pairs: the layouts of a mesh as they
 * are written and as the compiler holds them, and one compiled program with many pairs, each from an input of its own.
 *
 * The matrix is a reduction over one further dim for each mesh axis. Where the first layout is Partial on an axis, that
 * axis splits its dim: so parts have mixed signs, are unequal, and empty where the dim is shorter than the axis. A
 * second kind of P beside the first comes from a mask. */
#ifndef TESTS_LAYOUTS_H
#define TESTS_LAYOUTS_H
#include "module.h"

enum code { CODE_B, CODE_ROWS, CODE_COLUMNS, CODE_SUM, CODE_MAX, CODE_MIN, CODES };

struct setting {                 /* a mesh and a matrix */
    const char *mesh;            /* "a: 2, b: 3": axes are called a, b, c; others may stand before them */
    int naxis, size[3];
    int rows, columns;
    int pad;                     /* of the columns, or 0 */
    int shares[3];               /* sizes of the dims reduced over */
    int stages;                  /* of an axis pp before the others, or 0 */
    int target;                  /* the stage on which the second layout is read */
};

struct written {
    const char *text;            /* "{(b, a): S(N)}" */
    int code[3], order[3];       /* by axis */
    struct layout lay;           /* on the axes of more than one rank, naxis from 0 */
};

struct written *all_layouts(const struct setting *x);                /* stb_ds array */
/* All passes up to box; what the program gives out is y0, y1 .. A failed test where it is rejected. */
struct module *compile_pairs(const struct setting *x, const struct written *from, const struct written *to, int count);
/* Runs it on all ranks: a failed test where y0 .. are not what they should be. */
void run_pairs(struct module *m, const struct setting *x, const struct written *from, const struct written *to,
               int count);
struct layout on_mesh(const struct setting *x, const struct layout *l);      /* behind the axis pp */
int kind_of(const struct written *w);                /* CODE_SUM, CODE_MAX or CODE_MIN, as of its first Partial axis */
#endif
