/* The matrix nearest to an orthogonal one, as ordinary nodes: whoever lays out, moves and checks products of matrices does so
 * here too. Five steps of the iteration of Newton and Schulz, X -> a X + (b A + c A A) X with A = X X', from X / |X|, with the
 * coefficients of Keller Jordan's Muon (2024), which bring all singular values near 1 fast and no further than to 0.7 .. 1.2. The
 * side with fewer entries makes A: X (X' X) is (X X') X. */
#include "../module.h"
#include "tape.h"

enum { STEPS = 5 };
static const double coefficient[3] = {3.4445, -4.7750, 2.0315};

struct matrix {
    struct graph *g;
    struct region *at;
    const struct param *p;
    bool left;                   /* A is of the rows */
    const char *rows, *columns;  /* letters of einsum, one for each dim; of the side of A, twice more */
    const char *second, *third;
};

static struct value *product(const struct matrix *m, const char *spec, struct value *a, struct value *b)
{
    struct node *n = node_new(m->g, m->at, &op_einsum, m->p->span);
    node_set_str(n, "spec", intern(spec));
    node_in(n, a);
    node_in(n, b);
    if (!node_finish(m->g, n))
        BUG("a product of %s is refused", m->p->path);
    return n->out[0];
}

static struct value *times(const struct matrix *m, struct value *x, double by)
{
    return build(m->g, m->at, &op_mul, m->p->span, 2, x, build_constant(m->g, m->at, by, m->p->span));
}

static struct value *plus(const struct matrix *m, struct value *a, struct value *b)
{
    return build(m->g, m->at, &op_add, m->p->span, 2, a, b);
}

static struct value *normalised(const struct matrix *m, struct value *x)
{
    struct value *squares = build(m->g, m->at, &op_square_sum, m->p->span, 1, x);
    struct value *norm = build(m->g, m->at, &op_sqrt, m->p->span, 1, squares);
    norm = plus(m, norm, build_constant(m->g, m->at, 1e-7, m->p->span));
    return build(m->g, m->at, &op_div, m->p->span, 2, x, norm);
}

static struct value *step(const struct matrix *m, struct value *x)
{
    const char *r = m->rows, *c = m->columns, *y = m->second, *z = m->third, *side = m->left ? r : c;
    const char *turned = m->left ? mem_printf("%s%s,%s%s->%s%s", r, c, y, c, r, y) : mem_printf("%s%s,%s%s->%s%s", r, c, r, y, c, y);
    const char *applied = m->left ? mem_printf("%s%s,%s%s->%s%s", r, y, y, c, r, c) : mem_printf("%s%s,%s%s->%s%s", c, y, r, c, r, y);
    struct value *a = product(m, turned, x, x);
    struct value *squared = product(m, mem_printf("%s%s,%s%s->%s%s", side, y, y, z, side, z), a, a);
    struct value *b = plus(m, times(m, a, coefficient[1]), times(m, squared, coefficient[2]));
    return plus(m, times(m, x, coefficient[0]), product(m, applied, b, x));
}

static const char *letters(char first, int count)
{
    const char *s = "";
    for (int i = 0; i < count; i++)
        s = mem_printf("%s%c", s, first + i);
    return s;
}

static int64_t entries(const struct param *p, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= p->dim[d]->size;
    return n;
}

struct value *orthogonal(struct graph *g, struct region *at, struct value *x, struct param *p, double *larger)
{
    int columns = p->ndim - p->rows, from = (int)arrlen(at->nodes);
    int64_t high = entries(p, 0, p->rows), wide = entries(p, p->rows, p->ndim);
    struct matrix m = {.g = g, .at = at, .p = p};
    m.left = 2 * p->rows <= MAX_DIM && (high <= wide || 2 * columns > MAX_DIM);
    m.rows = letters('a', p->rows);
    m.columns = letters('i', columns);
    m.second = letters('A', m.left ? p->rows : columns);
    m.third = letters('I', m.left ? p->rows : columns);
    *larger = (double)(high > wide ? high : wide);
    x = normalised(&m, x);
    for (int k = 0; k < STEPS; k++)
        x = step(&m, x);
    for (int i = from; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        n->phase = PHASE_UPDATE;
        n->path = p->path;
        node_set_ptr(n, "updates", p);
        n->out[0]->path = mem_printf("%s#orthogonal", p->path);
    }
    return x;
}
