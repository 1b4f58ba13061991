/* The stride order of a value that owns its buffer. What decides, in this order: readers that need it contiguous; the
 * contraction that makes it (rows, then columns, so that one GEMM writes it); the contractions that read it (each group
 * of letters in one piece); the operand it is like (element-wise work then runs straight through). */
#include "op.h"
#include "place.h"
#include <string.h>

/* An einsum of two operands, alone or with what follows it; they are its first ones. */
static bool is_product(const struct node *n)
{
    return n->op == &op_contraction || (n->op == &op_einsum && arrlen(n->in) == 2);
}

/* The letters of operand k of an einsum, or of its result for k = -1. */
static const char *letters(const struct node *n, int k)
{
    const char *spec = node_str(n, "spec"), *arrow = strstr(spec, "->");
    if (k < 0)
        return arrow + 2;
    const char *at = spec;
    while (k--)
        at = strchr(at, ',') + 1;
    return mem_printf("%.*s", (int)strcspn(at, ",-"), at);
}

/* Which kind of letter: 0 batch (everywhere), 1 rows, 2 columns, 3 contracted. */
static int group(char c, const char *a, const char *b, const char *out)
{
    bool in_a = strchr(a, c), in_b = strchr(b, c), in_out = strchr(out, c);
    return in_a && in_b && in_out ? 0 : in_a && in_out ? 1 : in_out ? 2 : 3;
}

/* Does operand `l`, with its dims in order perm, hold each group in one piece? Number of pieces beyond that. */
static int breaks(const char *l, const int *perm, const char *a, const char *b, const char *out)
{
    int pieces = 0, groups = 0, last = -1;
    bool seen[4] = {false};
    for (int i = 0; l[i]; i++) {
        int g = group(l[perm[i]], a, b, out);
        pieces += g != last;
        groups += !seen[g];
        seen[g] = true;
        last = g;
    }
    return pieces - groups;
}

/* What was copied to host memory and back lies as it did. */
static const struct value *first_made(const struct value *v)
{
    while (v->def && (v->def->op == &op_to_device || v->def->op == &op_to_host))
        v = v->def->in[0];
    return v;
}

static int cost(const struct value *v, struct node ***readers, const int *perm)
{
    int total = 0;
    for (int i = 0; i < arrlen(readers[v->id]); i++) {
        const struct node *n = readers[v->id][i];
        if (!is_product(n))
            continue;
        const char *a = letters(n, 0), *b = letters(n, 1), *out = letters(n, -1);
        if (first_made(n->in[0]) == v)
            total += breaks(a, perm, a, b, out);
        if (first_made(n->in[1]) == v)
            total += breaks(b, perm, a, b, out);
    }
    return total;
}

/* Dims in the order in which their letters come: groups in the given order, inside a group as in an operand's memory,
 * outermost first. */
static void by_groups(const char *own, const struct node *n, const int *groups, int *perm)
{
    const char *a = letters(n, 0), *b = letters(n, 1), *out = letters(n, -1);
    int count = 0;
    for (int d = 0; d < MAX_DIM; d++)
        perm[d] = -1;
    for (int g = 0; g < 4; g++) {
        /* the operand whose memory order the letters of this group follow */
        int from = groups[g] == 2 || (groups[g] == 3 && !n->in[0]->place);
        const char *like = from ? b : a;
        const struct value *v = n->in[from];
        bool taken[MAX_DIM] = {false};
        for (;;) {
            int best = -1;
            for (int i = 0; like[i]; i++)
                if (!taken[i] && strchr(own, like[i]) && group(like[i], a, b, out) == groups[g] &&
                    (best < 0 || (v->place && v->stride[i] > v->stride[best])))
                    best = i;
            if (best < 0)
                break;
            taken[best] = true;
            perm[count++] = (int)(strchr(own, like[best]) - own);
        }
    }
}

static bool complete(const int *perm, int ndim)
{
    unsigned seen = 0;
    for (int i = 0; i < ndim; i++)
        if (perm[i] >= 0 && perm[i] < ndim)
            seen |= 1u << perm[i];
    return seen == (1u << ndim) - 1;
}

/* As operand `like` lies in memory. */
static bool follow(const struct value *v, const struct value *like, int *perm)
{
    if (!like || !like->place || like->ndim != v->ndim)
        return false;
    for (int d = 0; d < v->ndim; d++) {
        if (!dim_same(v->dim[d], like->dim[d]))
            return false;
        perm[d] = d;
    }
    for (int i = 1; i < v->ndim; i++)                      /* insertion keeps the order of equal strides */
        for (int j = i; j && like->stride[perm[j]] > like->stride[perm[j - 1]]; j--) {
            int t = perm[j];
            perm[j] = perm[j - 1];
            perm[j - 1] = t;
        }
    return true;
}

/* The kernels of attention and of rows write rows whose last dim is dense. */
static bool writable(const struct value *v, const int *perm)
{
    bool rows = v->def && v->def->op->flags & OP_DENSE_ROWS;
    return !rows || perm[v->ndim - 1] == v->ndim - 1;
}

void order_choose(const struct value *v, struct node ***readers, bool plain, int *perm)
{
    int best = 1 << 20, candidate[MAX_DIM];
    for (int d = 0; d < v->ndim; d++)
        perm[d] = d;
    if (plain || v->ndim < 2)
        return;
    const struct node *def = v->def;
    if (def && is_product(def) && !(v->def_index && node_attr(def, "summed"))) {
        by_groups(letters(def, -1), def, (const int[]){0, 1, 2, 3}, candidate);
        if (complete(candidate, v->ndim)) {
            memcpy(perm, candidate, sizeof candidate);
            return;
        }
    }
#define TRY(made)                                                                                                      \
    if ((made) && complete(candidate, v->ndim) && writable(v, candidate) && cost(v, readers, candidate) < best) {      \
        best = cost(v, readers, candidate);                                                                            \
        memcpy(perm, candidate, sizeof candidate);                                                                     \
    }
    for (int k = 0; def && k < arrlen(def->in); k++)
        TRY(follow(v, def->in[k], candidate));
    memset(candidate, 0, sizeof candidate);
    for (int d = 0; d < v->ndim; d++)
        candidate[d] = d;
    TRY(true);
    for (int i = 0; best && i < arrlen(readers[v->id]); i++) {
        const struct node *n = readers[v->id][i];
        if (!is_product(n))
            continue;
        const char *own = letters(n, first_made(n->in[1]) == v);
        int mine = first_made(n->in[1]) == v ? 2 : 1;
        TRY((by_groups(own, n, (const int[]){0, mine, 3, 3 - mine}, candidate), true));
        TRY((by_groups(own, n, (const int[]){0, 3, mine, 3 - mine}, candidate), true));
    }
#undef TRY
}
