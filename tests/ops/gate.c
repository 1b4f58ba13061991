/* The rule gate. For every sample node and for axes of 2 and 3 ranks, every combination of B, S and P over operands and
 * outputs is tried by brute force: each rank runs the op's own program on its local operands (the op's shape rule decides
 * whether they fit together), the results are put together as the combination says, and the whole must equal the result
 * of one rank. What holds must be what is declared, no more and no less.
 *
 * Traps: every dim has a size of its own and splits unevenly; P parts have mixed signs and unequal shares, in some trials
 * a rank holds the identity; P(max) and P(min) attain their value on varying ranks. A signature marked coords may use its
 * coordinates and is checked for soundness only; all others must hold with every base 0 as well. */
#include "base/diag.h"
#include "checks.h"
#include "instances.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPERAND = 8, MAX_CHOICE = 1 + MAX_DIM + 3, MAX_PARTS = 3, SETS = 3, TRIALS = 9 };

struct choice { struct sbp sbp[MAX_CHOICE]; int count; };

struct gate {
    const struct instance *instance;
    struct operand operand[MAX_OPERAND];
    int nin, nout, parts;
    struct node *whole;          /* the node of one rank */
    struct tensor *in, *out;     /* the data set in use */
    struct tensor in_set[SETS][MAX_OPERAND], out_set[SETS][MAX_OPERAND];
    struct choice in_choice[MAX_OPERAND], out_choice[MAX_OPERAND];
    uint32_t random;
    struct sig *declared;
    bool *met;                   /* which declared signatures were found to hold */
    bool padded;
    int failures;
};

static int64_t part_size(int64_t n, int parts, int part)
{
    return n / parts + (part < n % parts);
}

static int64_t part_base(int64_t n, int parts, int part)
{
    int64_t more = n % parts;
    return part * (n / parts) + (part < more ? part : more);
}

static int64_t elements(const struct tensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->n[d];
    return count;
}

static struct tensor whole_tensor(const struct value *v)
{
    struct tensor t = {.ndim = v->ndim};
    for (int d = 0; d < v->ndim; d++) {
        t.n[d] = t.full[d] = v->dim[d]->phys;
        t.valid[d] = v->dim[d]->size;
    }
    t.data = NEW_ARRAY(double, elements(&t));
    return t;
}

/* Place of t's part under the layout, without data. */
static struct tensor part_tensor(const struct tensor *t, struct sbp s, int parts, int part)
{
    struct tensor p = *t;
    p.data = NULL;
    if (s.kind == SBP_S) {
        p.n[s.dim] = part_size(t->n[s.dim], parts, part);
        p.base[s.dim] = part_base(t->n[s.dim], parts, part);
    }
    return p;
}

/* Visits the entries of part p of tensor t: f(index in t, index in p). */
static int64_t part_to_whole(const struct tensor *t, const struct tensor *p, int64_t i)
{
    int64_t at[MAX_DIM], whole = 0;
    for (int d = p->ndim - 1; d >= 0; d--) {
        at[d] = p->base[d] + i % p->n[d];
        i /= p->n[d];
    }
    for (int d = 0; d < t->ndim; d++)
        whole = whole * t->n[d] + at[d];
    return whole;
}

static void deal_parts(struct gate *g, const struct tensor *t, struct sbp s, int trial, struct tensor *parts)
{
    for (int r = 0; r < g->parts; r++) {
        parts[r] = part_tensor(t, s, g->parts, r);
        parts[r].data = NEW_ARRAY(double, elements(&parts[r]) + 1);
    }
    int64_t count = elements(t);
    if (s.kind != SBP_P) {
        for (int r = 0; r < g->parts; r++)
            for (int64_t i = 0; i < elements(&parts[r]); i++)
                parts[r].data[i] = t->data[part_to_whole(t, &parts[r], i)];
        return;
    }
    int idle = trial < SETS ? -1 : trial % g->parts;     /* holds the identity */
    for (int64_t i = 0; i < count; i++) {
        double left = t->data[i];
        int holder = (int)((random_value(&g->random) + 2) * 1e6) % g->parts;
        if (holder == idle)
            holder = (holder + 1) % g->parts;
        for (int r = 0; r < g->parts; r++) {
            double x = random_value(&g->random) * 2;
            if (s.dim == REDUCE_SUM) {
                parts[r].data[i] = r == idle || r == holder ? 0 : x;
                left -= parts[r].data[i];
            } else {
                double sign = s.dim == REDUCE_MAX ? -1 : 1;
                parts[r].data[i] = r == idle ? sign * INFINITY : r == holder ? t->data[i] : t->data[i] + sign * fabs(x);
            }
        }
        if (s.dim == REDUCE_SUM)
            parts[holder].data[i] = left;
    }
}

/* Who builds an internal op vouches for its operands: dims of one letter agree. The shape rule need not ask again. */
static bool letters_agree(const struct gate *g, const struct tensor *in)
{
    int64_t size[128] = {0};
    for (int k = 0; k < g->nin; k++)
        for (int d = 0; d < in[k].ndim; d++) {
            int c = g->operand[k].dim[d];
            if (c != '1' && size[c] && size[c] != in[k].n[d] + 1)
                return false;
            size[c] = in[k].n[d] + 1;
        }
    return true;
}

/* A node on local dims, or NULL when the op's shape rule refuses them. Padding counts as ordinary entries here: only
 * extents are asked. */
static struct node *local_node(struct gate *g, const struct tensor *in, const struct tensor *out)
{
    if (g->instance->op->flags & OP_INTERNAL && !letters_agree(g, in))
        return NULL;
    struct graph *graph = graph_new(NULL, ENTRY_TRAIN);
    struct node *n = node_new(graph, graph->root, g->instance->op, (struct span){0});
    for (int k = 0; k < g->nin; k++) {
        struct dim *dims[MAX_DIM];
        for (int d = 0; d < in[k].ndim; d++)
            dims[d] = dim_anonymous(in[k].n[d]);
        node_in(n, g->whole->in[k] ? value_new(graph, graph->root, g->whole->in[k]->type, in[k].ndim, dims) : NULL);
    }
    if (g->instance->attrs) {
        struct dim **dims = NULL;
        for (int d = 0; out && d < out->ndim; d++)
            arrput(dims, dim_anonymous(out->n[d]));
        g->instance->attrs(n, dims);
    }
    bool fits = node_finish(graph, n);
    diag_reset();
    return fits ? n : NULL;
}

struct results { struct tensor out[MAX_PARTS][MAX_OPERAND]; };

/* Runs the local programs. `out` says the layout of output 0 where the op is told its result's shape. */
static bool run_local(struct gate *g, const struct sbp *in, struct sbp out, int trial, bool coords, struct results *to)
{
    struct tensor parts[MAX_OPERAND][MAX_PARTS];
    struct node *nodes[MAX_PARTS];
    for (int r = 0; r < g->parts; r++) {
        struct tensor local[MAX_OPERAND] = {0}, told = part_tensor(&g->out[0], out, g->parts, r);
        for (int k = 0; k < g->nin; k++)
            local[k] = part_tensor(&g->in[k], in[k], g->parts, r);
        nodes[r] = local_node(g, local, g->instance->out ? &told : NULL);
        if (!nodes[r] || arrlen(nodes[r]->out) != g->nout)
            return false;
    }
    for (int k = 0; k < g->nin; k++)
        deal_parts(g, &g->in[k], in[k], trial, parts[k]);
    for (int r = 0; r < g->parts; r++) {
        struct tensor local[MAX_OPERAND + 1] = {0};
        struct node *n = nodes[r];
        for (int k = 0; k < g->nin; k++) {
            local[k] = parts[k][r];
            if (!g->whole->in[k])
                local[k].data = NULL;
        }
        for (int k = 0; k < g->nout; k++) {
            struct tensor *t = &to->out[r][k];
            *t = (struct tensor){.ndim = n->out[k]->ndim};
            if (t->ndim != g->out[k].ndim)
                return false;
            for (int d = 0; d < t->ndim; d++) {
                t->n[d] = n->out[k]->dim[d]->size;
                t->full[d] = g->out[k].n[d];
                t->valid[d] = g->out[k].valid[d];
                /* Where the part stands: known once its extent says that it is one. */
                if (coords && t->n[d] == part_size(g->out[k].n[d], g->parts, r) && t->n[d] != g->out[k].n[d])
                    t->base[d] = part_base(g->out[k].n[d], g->parts, r);
            }
            t->data = NEW_ARRAY(double, elements(t) + 1);
        }
        for (int k = 0; k < g->nin && !coords; k++)
            for (int d = 0; d < local[k].ndim; d++)
                local[k].base[d] = 0;
        struct reference ref = {.node = n, .in = local, .out = to->out[r], .step = 3, .seed = 5};
        g->instance->op->ref(&ref);
    }
    return true;
}

static bool close_to(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-9 * (1 + fabs(a) + fabs(b));
}

/* Do the ranks' results of output k, put together as s says, equal the whole? */
static bool put_together(const struct gate *g, const struct results *res, int k, struct sbp s)
{
    const struct tensor *whole = &g->out[k];
    int64_t count = elements(whole);
    double *sum = NEW_ARRAY(double, count + 1);
    for (int64_t i = 0; i < count; i++)
        sum[i] = s.kind != SBP_P || s.dim == REDUCE_SUM ? 0 : s.dim == REDUCE_MAX ? -INFINITY : INFINITY;
    for (int r = 0; r < g->parts; r++) {
        const struct tensor *t = &res->out[r][k];
        struct tensor expected = part_tensor(whole, s, g->parts, r);
        for (int d = 0; d < t->ndim; d++)
            if (t->n[d] != expected.n[d])
                return false;
        for (int64_t i = 0; i < elements(t); i++) {
            int64_t w = part_to_whole(whole, &expected, i);
            if (s.kind == SBP_P) {
                double x = t->data[i];
                sum[w] = isnan(x) ? x : s.dim == REDUCE_SUM ? sum[w] + x
                                    : s.dim == REDUCE_MAX ? fmax(sum[w], x) : fmin(sum[w], x);
                if (isnan(x))
                    return false;
            } else {
                int64_t at = w;
                bool valid = true;
                for (int d = whole->ndim - 1; d >= 0; d--) {
                    valid &= at % whole->n[d] < whole->valid[d];
                    at /= whole->n[d];
                }
                if (valid && !close_to(t->data[i], whole->data[w]))
                    return false;
            }
        }
    }
    for (int64_t w = 0; s.kind == SBP_P && w < count; w++) {
        int64_t at = w;
        bool valid = true;
        for (int d = whole->ndim - 1; d >= 0; d--) {
            valid &= at % whole->n[d] < whole->valid[d];
            at /= whole->n[d];
        }
        if (valid && !close_to(sum[w], whole->data[w]))
            return false;
    }
    return true;
}

/* Empty parts are not tried: they are boxing's matter. */
static struct choice choices_of(const struct value *v, int parts)
{
    struct choice c = {0};
    c.sbp[c.count++] = (struct sbp){0};
    if (!v)
        return c;
    for (int d = 0; d < v->ndim; d++)
        if (v->dim[d]->phys >= parts)
            c.sbp[c.count++] = (struct sbp){SBP_S, (uint8_t)d, 0};
    for (int r = REDUCE_SUM; type_is_float(v->type) && r <= REDUCE_MIN; r++)
        c.sbp[c.count++] = (struct sbp){SBP_P, (uint8_t)r, 0};
    return c;
}

static const char *sbp_text(struct sbp s)
{
    static const char *const reduce[] = {"P", "P(max)", "P(min)"};
    return s.kind == SBP_B ? "B" : s.kind == SBP_S ? mem_printf("S%d", s.dim) : reduce[s.dim];
}

static const char *sig_text(const struct gate *g, const struct sbp *in, const struct sbp *out)
{
    char *text = "";
    for (int k = 0; k < g->nin; k++)
        text = mem_printf("%s%s%s", text, k ? ", " : "", sbp_text(in[k]));
    text = mem_printf("%s ->", text);
    for (int k = 0; k < g->nout; k++)
        text = mem_printf("%s%s %s", text, k ? "," : "", sbp_text(out[k]));
    return text;
}

static void fail(struct gate *g, const char *what, const struct sbp *in, const struct sbp *out)
{
    if (g->failures++ < 12)
        fprintf(stderr, "gate: %s (%s) over %d: %s: %s\n", g->instance->op->name, g->instance->in, g->parts, what,
                sig_text(g, in, out));
}

static bool declared_as(const struct gate *g, int i, const struct sbp *in, const struct sbp *out)
{
    for (int k = 0; k < g->nin; k++)
        if (!sbp_same(g->declared[i].in[k], in[k]))
            return false;
    for (int k = 0; k < g->nout; k++)
        if (!sbp_same(g->declared[i].out[k], out[k]))
            return false;
    return true;
}

static void use_set(struct gate *g, int set)
{
    g->in = g->in_set[set];
    g->out = g->out_set[set];
}

/* An operand that is whole may always be read as P(max) or P(min): then a declared signature that asks for that says it. */
static bool declared_weaker(const struct gate *g, const struct sbp *in, const struct sbp *out)
{
    for (int i = 0; i < arrlen(g->declared); i++) {
        bool covers = true;
        for (int k = 0; k < g->nin; k++) {
            struct sbp want = g->declared[i].in[k];
            covers &= sbp_same(want, in[k]) || (in[k].kind == SBP_B && want.kind == SBP_P && want.dim != REDUCE_SUM);
        }
        for (int k = 0; k < g->nout; k++)
            covers &= sbp_same(g->declared[i].out[k], out[k]);
        if (covers)
            return true;
    }
    return false;
}

/* Sets of output layouts (bit sets over out_choice) that hold for these operand layouts, in all trials. */
static void find_holding(struct gate *g, const struct sbp *in, struct sbp told, bool coords, unsigned *holds)
{
    bool partial = false;
    for (int k = 0; k < g->nin; k++)
        partial |= in[k].kind == SBP_P;
    for (int k = 0; k < g->nout; k++)
        holds[k] = ~0u;
    for (int trial = 0; trial < (partial ? TRIALS : SETS); trial++) {
        struct results res;
        use_set(g, trial % SETS);
        memset(&res, 0, sizeof res);
        bool ran = run_local(g, in, told, trial, coords, &res), any = g->nout == 0;
        for (int k = 0; k < g->nout; k++)
            for (int c = 0; c < g->out_choice[k].count; c++)
                if (!ran || (holds[k] >> c & 1 && !put_together(g, &res, k, g->out_choice[k].sbp[c])))
                    holds[k] &= ~(1u << c);
        for (int k = 0; k < g->nout; k++)
            any |= (holds[k] & ((1u << g->out_choice[k].count) - 1)) != 0;
        if (!any)
            break;
    }
}

/* Goes through the output layouts for one combination of operands. */
static void check_outputs(struct gate *g, const struct sbp *in)
{
    int tellings = g->instance->out ? g->out_choice[0].count : 1;
    for (int t = 0; t < tellings; t++) {
        struct sbp told = g->instance->out ? g->out_choice[0].sbp[t] : (struct sbp){0};
        unsigned with[MAX_OPERAND] = {0}, without[MAX_OPERAND] = {0};
        find_holding(g, in, told, true, with);
        if (!g->padded)
            find_holding(g, in, told, false, without);
        int pick[MAX_OPERAND] = {0};
        if (g->instance->out)
            pick[0] = t;
        for (bool more = true; more;) {
            struct sbp out[MAX_OPERAND] = {{0}};
            bool sound = true, bare = true, implied = false;
            for (int k = 0; k < g->nout; k++) {
                out[k] = g->out_choice[k].sbp[pick[k]];
                sound &= with[k] >> pick[k] & 1;
                bare &= (g->padded ? with[k] : without[k]) >> pick[k] & 1;
                /* What is whole is also P(max) and P(min): nothing to declare. */
                implied |= out[k].kind == SBP_P && out[k].dim != REDUCE_SUM && with[k] & 1;
            }
            bool found = false;
            for (int i = 0; i < arrlen(g->declared); i++) {
                if (!declared_as(g, i, in, out))
                    continue;
                found = true;
                if (!sound)
                    fail(g, "declared, but wrong", in, out);
                else if (!bare && !g->declared[i].coords)
                    fail(g, "declared, but needs coordinates", in, out);
            }
            if (!found && bare && sound && !implied && !declared_weaker(g, in, out))
                fail(g, "holds, but is not declared", in, out);
            more = false;
            for (int k = g->nout - 1; k >= (g->instance->out ? 1 : 0) && !more; k--) {
                if (++pick[k] < g->out_choice[k].count)
                    more = true;
                else
                    pick[k] = 0;
            }
        }
    }
}

/* Takes away what is not claimed here: `even` signatures where the dims they split are not, and empty parts. */
static void drop_unclaimed(struct gate *g)
{
    for (int i = (int)arrlen(g->declared) - 1; i >= 0; i--) {
        const struct sig *s = &g->declared[i];
        bool uneven = false, empty = false;
        for (int k = 0; k < g->nin + g->nout; k++) {
            struct sbp b = k < g->nin ? s->in[k] : s->out[k - g->nin];
            const struct tensor *t = k < g->nin ? &g->in[k] : &g->out[k - g->nin];
            uneven |= b.kind == SBP_S && t->n[b.dim] % g->parts;
            empty |= b.kind == SBP_S && t->n[b.dim] < g->parts;
        }
        if ((s->even && uneven) || empty)
            arrdel(g->declared, i);
    }
}

static int gate_instance(const struct instance *instance, int parts)
{
    struct gate g = {.instance = instance, .parts = parts, .random = 12345};
    g.nin = operands_read(instance->in, g.operand);
    g.whole = instance_node(graph_new(NULL, ENTRY_TRAIN), instance);
    if (!g.whole) {
        fprintf(stderr, "gate: %s (%s): refused by its own shape rule\n", instance->op->name, instance->in);
        diag_print(stderr, false);
        return 1;
    }
    g.nout = (int)arrlen(g.whole->out);
    if (!g.nout || !instance->op->ref)
        return 0;
    for (int set = 0; set < SETS; set++) {
        use_set(&g, set);
        for (int k = 0; k < g.nin; k++) {
            g.in[k].data = NEW_ARRAY(double, 1);
            if (!g.whole->in[k])
                continue;
            g.in[k] = whole_tensor(g.whole->in[k]);
            for (int64_t i = 0; i < elements(&g.in[k]); i++)
                g.in[k].data[i] = operand_value(g.operand[k].type, &g.random);
        }
        for (int k = 0; k < g.nout; k++)
            g.out[k] = whole_tensor(g.whole->out[k]);
        struct reference one = {.node = g.whole, .in = g.in, .out = g.out, .step = 3, .seed = 5};
        instance->op->ref(&one);
    }
    for (int k = 0; k < g.nin; k++) {
        g.in_choice[k] = choices_of(g.whole->in[k], parts);
        for (int d = 0; d < g.in[k].ndim; d++)
            g.padded |= g.in[k].full[d] != g.in[k].valid[d];
    }
    for (int k = 0; k < g.nout; k++) {
        g.out_choice[k] = choices_of(g.whole->out[k], parts);
        for (int d = 0; d < g.out[k].ndim; d++)
            g.padded |= g.out[k].full[d] != g.out[k].valid[d];
    }
    g.declared = node_signatures(g.whole, parts);
    drop_unclaimed(&g);
    int pick[MAX_OPERAND] = {0};
    for (bool more = true; more;) {
        struct sbp in[MAX_OPERAND] = {{0}};
        for (int k = 0; k < g.nin; k++)
            in[k] = g.in_choice[k].sbp[pick[k]];
        check_outputs(&g, in);
        more = false;
        for (int k = g.nin - 1; k >= 0 && !more; k--) {
            if (++pick[k] < g.in_choice[k].count)
                more = true;
            else
                pick[k] = 0;
        }
    }
    return g.failures;
}

int gate_all(const char *only)
{
    int failures = 0, count = 0;
    for (const struct instance *i = instances; i->op; i++) {
        if (only && strcmp(only, i->op->name) != 0)
            continue;
        for (int parts = 2; parts <= MAX_PARTS; parts++)
            failures += gate_instance(i, parts) != 0;
        count++;
        start_anew();
    }
    printf("gate: %d nodes over 2 and 3 ranks, %d failed\n", count, failures);
    return failures;
}
