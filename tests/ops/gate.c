/* The rule gate. For every sample node, every combination of B, S and P over operands and results is tried by brute force:
 * each rank runs the op's own program on its local operands (the op's shape rule decides whether they fit together), the
 * results are put together as the combination says, and the whole must equal the result of one rank. What holds must be
 * what is declared, no more and no less; over two axes, what is declared along each.
 *
 * Traps: every dim has a size of its own and splits unevenly; P parts have mixed signs and unequal shares, in some trials
 * a rank holds the identity; P(max) and P(min) attain their value on varying ranks. A signature marked coords may use its
 * coordinates and is checked for soundness only; all others must hold with every base 0 as well. Exactness is asked where
 * every rank holds something; claims alone are tried on parts of size 1 and empty parts too. */
#include "gate.h"
#include "base/diag.h"
#include "instances.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct tensor whole_tensor(const struct value *v)
{
    struct tensor t = {.ndim = v->ndim};
    for (int d = 0; d < v->ndim; d++) {
        t.n[d] = t.full[d] = v->dim[d]->phys;
        t.valid[d] = v->dim[d]->size;
    }
    t.data = NEW_ARRAY(double, tensor_entries(&t) + 1);
    return t;
}

static struct tensor copy_of(const struct tensor *t)
{
    struct tensor c = *t;
    c.data = NEW_ARRAY(double, tensor_entries(t) + 1);
    memcpy(c.data, t->data, sizeof(double) * (size_t)tensor_entries(t));
    return c;
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

/* The same without asking the shape rule, results as claimed: who needs coordinates may read operands whose local extents
 * do not fit together (some of the queries against all keys). */
static struct node *claimed_node(struct gate *g, const struct tensor *in, const struct lay *out, int rank)
{
    struct graph *graph = graph_new(NULL, ENTRY_TRAIN);
    struct node *n = node_new(graph, graph->root, g->instance->op, (struct span){0});
    for (int k = 0; k < g->nin + g->nout; k++) {
        struct tensor t = k < g->nin ? in[k] : part_of(&g->grid, &g->out[k - g->nin], out[k - g->nin], rank);
        struct dim *dims[MAX_DIM];
        for (int d = 0; d < t.ndim; d++)
            dims[d] = dim_anonymous(t.n[d]);
        if (k < g->nin)
            node_in(n, g->whole->in[k] ? value_new(graph, graph->root, g->whole->in[k]->type, t.ndim, dims) : NULL);
        else
            node_out(graph, n, g->whole->out[k - g->nin]->type, t.ndim, dims);
    }
    if (g->instance->attrs)
        g->instance->attrs(n, NULL);
    return n;
}

struct results { struct tensor out[MAX_OPERAND][MAX_RANKS]; };

/* Where the part of a result stands. With `out` it is known; else it is guessed from its extent along one axis. */
static void place_result(const struct gate *g, struct tensor *t, int k, int r, const struct lay *out)
{
    if (out) {
        struct tensor p = part_of(&g->grid, &g->out[k], *out, r);
        for (int d = 0; d < t->ndim; d++)
            t->base[d] = p.n[d] == t->n[d] ? p.base[d] : 0;
        return;
    }
    for (int d = 0; d < t->ndim; d++) {
        struct lay split = {{{SBP_S, (uint8_t)d, 0}}};
        struct grid line = {1, {g->grid.size[0]}, g->grid.size[0], 0};
        struct tensor p = part_of(&line, &g->out[k], split, r);
        if (t->n[d] == p.n[d] && t->n[d] != g->out[k].n[d])
            t->base[d] = p.base[d];
    }
}

/* Runs the local programs. `told`: the layout of output 0 where the op is told its result's shape; `out`: the layouts of
 * all results where a claim is tested. */
static bool run_local(struct gate *g, const struct lay *in, struct lay told, const struct lay *out, int trial, bool coords,
                      struct results *to)
{
    static struct tensor parts[MAX_OPERAND][MAX_RANKS];
    struct node *nodes[MAX_RANKS];
    for (int r = 0; r < g->grid.nranks; r++) {
        struct tensor local[MAX_OPERAND] = {0}, shape = part_of(&g->grid, &g->out[0], told, r);
        for (int k = 0; k < g->nin; k++)
            local[k] = part_of(&g->grid, &g->in[k], in[k], r);
        nodes[r] = local_node(g, local, g->instance->out ? &shape : NULL);
        if (!nodes[r] && g->trusting && out && coords && !g->instance->out && !g->effect)
            nodes[r] = claimed_node(g, local, out, r);
        if (!nodes[r] || (!g->effect && arrlen(nodes[r]->out) != g->nout))
            return false;
    }
    for (int k = 0; k < g->nin; k++)
        deal(&g->grid, &g->in[k], in[k], trial < SETS || g->no_idle ? -1 : trial, &g->random, parts[k]);
    for (int r = 0; r < g->grid.nranks; r++) {
        struct tensor local[MAX_OPERAND + 1] = {0}, made[MAX_OPERAND] = {0};
        struct node *n = nodes[r];
        for (int k = 0; k < g->nin; k++) {
            local[k] = parts[k][r];
            if (!g->whole->in[k])
                local[k].data = NULL;
            for (int d = 0; d < local[k].ndim && !coords; d++)
                local[k].base[d] = 0;
        }
        for (int k = 0; k < g->nout && !g->effect; k++) {
            struct tensor *t = &made[k];
            *t = (struct tensor){.ndim = n->out[k]->ndim};
            if (t->ndim != g->out[k].ndim)
                return false;
            for (int d = 0; d < t->ndim; d++) {
                t->n[d] = n->out[k]->dim[d]->size;
                t->full[d] = g->out[k].n[d];
                t->valid[d] = g->out[k].valid[d];
            }
            if (coords)
                place_result(g, t, k, r, out ? &out[k] : g->instance->out && !k ? &told : NULL);
            t->data = NEW_ARRAY(double, tensor_entries(t) + 1);
        }
        struct reference ref = {.node = n, .in = local, .out = made, .step = 3, .update = 3, .seed = 5, .loss_scale = 8};
        g->instance->op->ref(&ref);
        for (int k = 0; k < g->nout; k++)
            to->out[k][r] = g->effect ? local[g->written[k]] : made[k];
    }
    return true;
}

static bool put_together(const struct gate *g, const struct results *res, int k, struct lay l)
{
    const struct tensor *parts[MAX_RANKS];
    for (int r = 0; r < g->grid.nranks; r++)
        parts[r] = &res->out[k][r];
    return together(&g->grid, &g->out[k], l, parts);
}

static void use_set(struct gate *g, int set)
{
    g->in = g->in_set[set];
    g->out = g->out_set[set];
}

/* ---- what may be tried ---- */

/* Shares of different kinds do not commute: one tensor is a sum or a maximum, not both. */
static bool possible(const struct gate *g, const struct tensor *t, struct lay l)
{
    for (int d = 0; d < t->ndim; d++)
        if (lay_parts(&g->grid, l, d) > t->n[d])
            return false;
    return g->grid.naxis < 2 || l.ax[0].kind != SBP_P || l.ax[1].kind != SBP_P || l.ax[0].dim == l.ax[1].dim;
}

static struct choices choices_of(const struct gate *g, const struct value *v, const struct tensor *t)
{
    struct sbp *one = NULL;
    struct choices c = {0};
    arrput(one, (struct sbp){0});
    for (int d = 0; v && d < v->ndim; d++)
        arrput(one, ((struct sbp){SBP_S, (uint8_t)d, 0}));
    for (int r = REDUCE_SUM; v && type_is_float(v->type) && r <= REDUCE_MIN; r++)
        arrput(one, ((struct sbp){SBP_P, (uint8_t)r, 0}));
    for (int i = 0; i < arrlen(one); i++)
        for (int j = 0; j < (g->grid.naxis > 1 ? arrlen(one) : 1); j++) {
            struct lay l = {{one[i], one[j]}};
            if (possible(g, t, l))
                arrput(c.lay, l);
        }
    return c;
}

bool gate_open(struct gate *g, const struct instance *instance, struct grid grid)
{
    const struct op *op = instance->op;
    *g = (struct gate){.instance = instance, .grid = grid, .random = 12345, .effect = instance->writes != NULL};
    g->nin = operands_read(instance->in, g->operand);
    g->whole = instance_node(graph_new(NULL, ENTRY_TRAIN), instance);
    if (!g->whole) {
        fprintf(stderr, "gate: %s (%s): refused by its own shape rule\n", op->name, instance->in);
        diag_print(stderr, false);
        g->failures++;
        return false;
    }
    g->nout = g->effect ? (int)strlen(instance->writes) : (int)arrlen(g->whole->out);
    for (int k = 0; k < g->nout && g->effect; k++)
        g->written[k] = instance->writes[k] - 'a';
    if (!g->nout || !op->ref)
        return false;
    for (int set = 0; set < SETS; set++) {
        struct tensor changed[MAX_OPERAND] = {0};
        use_set(g, set);
        for (int k = 0; k < g->nin; k++) {
            g->in[k].data = NEW_ARRAY(double, 1);
            if (!g->whole->in[k])
                continue;
            g->in[k] = whole_tensor(g->whole->in[k]);
            for (int64_t i = 0; i < tensor_entries(&g->in[k]); i++)
                g->in[k].data[i] = operand_value(g->operand[k].type, &g->random);
        }
        for (int k = 0; k < g->nin; k++)
            changed[k] = g->effect ? copy_of(&g->in[k]) : g->in[k];
        for (int k = 0; k < g->nout && !g->effect; k++)
            g->out[k] = whole_tensor(g->whole->out[k]);
        struct reference one = {.node = g->whole, .in = changed, .out = g->out, .step = 3, .update = 3, .seed = 5, .loss_scale = 8};
        op->ref(&one);
        for (int k = 0; k < g->nout && g->effect; k++)
            g->out[k] = changed[g->written[k]];
    }
    for (int k = 0; k < g->nin; k++) {
        g->in_choice[k] = choices_of(g, g->whole->in[k], &g->in[k]);
        for (int d = 0; d < g->in[k].ndim; d++)
            g->padded |= g->in[k].full[d] != g->in[k].valid[d];
    }
    for (int k = 0; k < g->nout; k++) {
        g->out_choice[k] = g->effect ? g->in_choice[g->written[k]] : choices_of(g, g->whole->out[k], &g->out[k]);
        for (int d = 0; d < g->out[k].ndim; d++)
            g->padded |= g->out[k].full[d] != g->out[k].valid[d];
    }
    for (int x = 0; x < grid.naxis; x++) {
        g->declared[x] = node_signatures(g->whole, grid.size[x]);
        for (int i = 0; i < arrlen(g->declared[x]) && g->effect; i++) {
            struct sig *s = &g->declared[x][i];
            s->out = NEW_ARRAY(struct sbp, g->nout);
            for (int k = 0; k < g->nout; k++)
                s->out[k] = s->in[g->written[k]];
        }
    }
    return true;
}

/* ---- brute force ---- */

/* Sets of output layouts (flags over out_choice) that hold for these operand layouts, in all trials. */
static void find_holding(struct gate *g, const struct lay *in, struct lay told, bool coords, bool **holds)
{
    bool partial = false;
    for (int k = 0; k < g->nin; k++)
        for (int x = 0; x < g->grid.naxis; x++)
            partial |= in[k].ax[x].kind == SBP_P;
    for (int k = 0; k < g->nout; k++)
        memset(holds[k], 1, (size_t)arrlen(g->out_choice[k].lay));
    for (int trial = 0; trial < (partial ? TRIALS : SETS); trial++) {
        static struct results res;
        struct mem_mark mark = mem_mark();               /* some combinations have millions of trials */
        use_set(g, trial % SETS);
        bool ran = run_local(g, in, told, NULL, trial, coords, &res), every = true;
        for (int k = 0; k < g->nout; k++) {
            bool any = false;
            for (int c = 0; c < arrlen(g->out_choice[k].lay); c++) {
                holds[k][c] = holds[k][c] && ran && put_together(g, &res, k, g->out_choice[k].lay[c]);
                any |= holds[k][c];
            }
            every &= any;
        }
        mem_rewind(mark);
        if (!every)
            break;
    }
}

/* What is whole along an axis is also P(max) and P(min) along it: nothing to declare. */
static bool implied_by(const struct gate *g, int k, struct lay l, const bool *holds)
{
    for (int x = 0; x < g->grid.naxis; x++) {
        struct lay whole = l;
        whole.ax[x] = (struct sbp){0};
        for (int c = 0; l.ax[x].kind == SBP_P && l.ax[x].dim != REDUCE_SUM && c < arrlen(g->out_choice[k].lay); c++)
            if (holds[c] && lay_same(&g->grid, g->out_choice[k].lay[c], whole))
                return true;
    }
    return false;
}

static bool pick_next(int *pick, const struct choices *c, int from, int count)
{
    for (int k = count - 1; k >= from; k--) {
        if (++pick[k] < arrlen(c[k].lay))
            return true;
        pick[k] = 0;
    }
    return false;
}

static void try_outputs(struct gate *g, const struct lay *in)
{
    bool *with[MAX_OPERAND], *without[MAX_OPERAND];
    for (int k = 0; k < g->nout; k++) {
        with[k] = NEW_ARRAY(bool, arrlen(g->out_choice[k].lay) + 1);
        without[k] = NEW_ARRAY(bool, arrlen(g->out_choice[k].lay) + 1);
    }
    int tellings = g->instance->out ? (int)arrlen(g->out_choice[0].lay) : 1;
    for (int t = 0; t < tellings; t++) {
        struct lay told = g->instance->out ? g->out_choice[0].lay[t] : (struct lay){0};
        find_holding(g, in, told, true, with);
        if (!g->padded)
            find_holding(g, in, told, false, without);
        int pick[MAX_OPERAND] = {0};
        pick[0] = g->instance->out ? t : 0;
        for (int k = 0; k < g->nout && g->effect; k++)   /* written where it was read */
            while (!lay_same(&g->grid, g->out_choice[k].lay[pick[k]], in[g->written[k]]))
                pick[k]++;
        do {
            struct verdict v = {.bare = true};
            bool sound = true;
            for (int k = 0; k < g->nout && sound; k++)
                sound = with[k][pick[k]];
            g->tried++;
            if (!sound)
                continue;
            v.in = NEW_ARRAY(struct lay, g->nin + 1);
            v.out = NEW_ARRAY(struct lay, g->nout);
            memcpy(v.in, in, sizeof *in * (size_t)g->nin);
            for (int k = 0; k < g->nout; k++) {
                v.out[k] = g->out_choice[k].lay[pick[k]];
                v.bare &= g->padded || without[k][pick[k]];
                v.implied |= implied_by(g, k, v.out[k], with[k]);
            }
            arrput(g->holds, v);
        } while (!g->effect && pick_next(pick, g->out_choice, g->instance->out ? 1 : 0, g->nout));
    }
}

double gate_combinations(const struct gate *g)
{
    double count = 1;
    for (int k = 0; k < g->nin; k++)
        count *= (double)arrlen(g->in_choice[k].lay);
    return g->instance->out ? count * (double)arrlen(g->out_choice[0].lay) : count;
}

void gate_try(struct gate *g)
{
    int pick[MAX_OPERAND] = {0};
    do {
        struct lay in[MAX_OPERAND] = {{{{0}}}};
        for (int k = 0; k < g->nin; k++)
            in[k] = g->in_choice[k].lay[pick[k]];
        try_outputs(g, in);
    } while (pick_next(pick, g->in_choice, 0, g->nin));
}

/* ---- comparing ---- */

bool gate_exact = true;

static void tell(const struct gate *g, const char *what, const struct lay *in, const struct lay *out)
{
    char *text = "";
    for (int k = 0; k < g->nin; k++)
        text = mem_printf("%s%s%s", text, k ? ", " : "", lay_text(&g->grid, in[k]));
    text = mem_printf("%s ->", text);
    for (int k = 0; k < g->nout; k++)
        text = mem_printf("%s%s %s", text, k ? "," : "", lay_text(&g->grid, out[k]));
    fprintf(stderr, "gate: %s (%s) over %d%s: %s: %s\n", g->instance->op->name, g->instance->in, g->grid.size[0],
            g->grid.naxis > 1 ? mem_printf("x%d", g->grid.size[1]) : "", what, text);
}

static void fail(struct gate *g, const char *what, const struct lay *in, const struct lay *out)
{
    if (g->failures++ < 12 && !g->quiet)
        tell(g, what, in, out);
}

/* A claim: one declared signature for each axis. */
struct claim { struct lay in[MAX_OPERAND], out[MAX_OPERAND]; bool coords, mixed; };

/* False where the pair is not claimed: parts that must be even are not, or (unless empty parts are asked for) a rank has
 * nothing. */
static bool make_claim(const struct gate *g, const int *index, bool empty, struct claim *c)
{
    bool even = false;
    *c = (struct claim){.coords = false};
    for (int x = 0; x < g->grid.naxis; x++) {
        const struct sig *s = &g->declared[x][index[x]];
        c->coords |= s->coords;
        even |= s->even;
        for (int k = 0; k < g->nin; k++)
            c->in[k].ax[x] = s->in[k];
        for (int k = 0; k < g->nout; k++)
            c->out[k].ax[x] = s->out[k];
    }
    for (int k = 0; k < g->nin + g->nout; k++) {
        struct lay l = k < g->nin ? c->in[k] : c->out[k - g->nin];
        const struct tensor *t = k < g->nin ? &g->in[k] : &g->out[k - g->nin];
        c->mixed |= g->grid.naxis > 1 && l.ax[0].kind == SBP_P && l.ax[1].kind == SBP_P && l.ax[0].dim != l.ax[1].dim;
        for (int d = 0; d < t->ndim; d++) {
            int parts = lay_parts(&g->grid, l, d);
            if ((even && t->n[d] % parts) || (!empty && parts > t->n[d]))
                return false;
        }
    }
    return true;
}

static bool next_pair(const struct gate *g, int *index)
{
    for (int x = g->grid.naxis - 1; x >= 0; x--) {
        if (++index[x] < arrlen(g->declared[x]))
            return true;
        index[x] = 0;
    }
    return false;
}

static bool same_combination(const struct gate *g, const struct lay *in, const struct lay *out, const struct verdict *v)
{
    for (int k = 0; k < g->nin; k++)
        if (!lay_same(&g->grid, in[k], v->in[k]))
            return false;
    for (int k = 0; k < g->nout; k++)
        if (!lay_same(&g->grid, out[k], v->out[k]))
            return false;
    return true;
}

/* An operand that is whole may always be read as P(max) or P(min): then a declared signature that asks for that says it. */
bool gate_covered(const struct gate *g, const struct lay *in, const struct lay *out, int axis)
{
    for (int i = 0; i < arrlen(g->declared[axis]); i++) {
        const struct sig *s = &g->declared[axis][i];
        bool covers = true;
        for (int k = 0; k < g->nin && covers; k++) {
            struct sbp want = s->in[k], have = in[k].ax[axis];
            covers = sbp_same(want, have) || (have.kind == SBP_B && want.kind == SBP_P && want.dim != REDUCE_SUM);
        }
        for (int k = 0; k < g->nout && covers; k++)
            covers = sbp_same(s->out[k], out[k].ax[axis]);
        if (covers)
            return true;
    }
    return false;
}

static bool has_partial(const struct gate *g, const struct lay *in)
{
    for (int k = 0; k < g->nin; k++)
        for (int x = 0; x < g->grid.naxis; x++)
            if (in[k].ax[x].kind == SBP_P)
                return true;
    return false;
}

bool gate_claim(struct gate *g, const struct lay *in, const struct lay *out, bool coords)
{
    bool partial = has_partial(g, in);
    for (int trial = 0; trial < (partial ? 5 : 2); trial++) {
        static struct results res;
        struct mem_mark mark = mem_mark();
        use_set(g, trial % SETS);
        bool holds = run_local(g, in, g->instance->out ? out[0] : (struct lay){0}, out, trial, coords, &res);
        for (int k = 0; k < g->nout && holds; k++)
            holds = put_together(g, &res, k, out[k]);
        mem_rewind(mark);
        if (!holds)
            return false;
    }
    return true;
}

/* Where a tensor is a sum along one axis and a maximum along the other, the inner axis is reduced first, and every rank
 * has a share: the identities of two kinds (0 or an infinity) do not meet. */
static bool own_claim(struct gate *g, const struct claim *c)
{
    g->trusting = c->coords;
    g->no_idle = c->mixed;
    bool holds = gate_claim(g, c->in, c->out, c->coords || g->padded);
    g->no_idle = false;
    g->trusting = false;
    return holds;
}

/* An update takes complete gradients, even where one on shares would happen to be linear. */
static bool updates(const struct gate *g)
{
    return g->effect || g->instance->op->optimizer;
}

int gate_compare(struct gate *g)
{
    int index[MAX_AXES] = {0};
    bool any = true;
    int notes = 0;
    g->failures = 0;
    for (int x = 0; x < g->grid.naxis; x++)
        any &= arrlen(g->declared[x]) > 0;
    if (any) do {
        struct claim c;
        const struct verdict *found = NULL;
        if (!make_claim(g, index, false, &c) || c.mixed)     /* mixed ones are among the claims alone */
            continue;
        for (int i = 0; i < arrlen(g->holds) && !found; i++)
            found = same_combination(g, c.in, c.out, &g->holds[i]) ? &g->holds[i] : NULL;
        if (updates(g) && has_partial(g, c.in))
            fail(g, "declared, but an update takes no P", c.in, c.out);
        else if (!found && !(c.coords && own_claim(g, &c)))
            fail(g, "declared, but wrong", c.in, c.out);
        else if (found && !found->bare && !c.coords)
            fail(g, "declared, but needs coordinates", c.in, c.out);
    } while (next_pair(g, index));
    for (int i = 0; i < arrlen(g->holds); i++) {
        const struct verdict *v = &g->holds[i];
        bool all = true;
        for (int x = 0; x < g->grid.naxis; x++)
            all &= gate_covered(g, v->in, v->out, x);
        if (!v->bare || v->implied || all || (updates(g) && has_partial(g, v->in)))
            continue;
        if (gate_exact)
            fail(g, "holds, but is not declared", v->in, v->out);
        else if (notes++ < 4)
            tell(g, notes < 4 ? "note: this holds as well" : "note: and more, such as", v->in, v->out);
    }
    return g->failures;
}

int gate_claims(struct gate *g)
{
    int index[MAX_AXES] = {0};
    g->failures = 0;
    do {
        struct claim c;
        if (!make_claim(g, index, true, &c))
            continue;
        g->tried++;
        if (!own_claim(g, &c))
            fail(g, "claimed, but wrong", c.in, c.out);
    } while (next_pair(g, index));
    return g->failures;
}

/* ---- all of it ---- */

static const struct grid over_2 = {1, {2}, 2, 0}, over_3 = {1, {3}, 3, 0}, over_6 = {1, {6}, 6, 0},
    over_2x3 = {2, {2, 3}, 6, 0}, over_3x2 = {2, {3, 2}, 6, 1}, over_2x2 = {2, {2, 2}, 4, 0};

static int exact(const struct instance *i, struct grid grid, double limit, long *tried, int *skipped)
{
    struct gate g;
    if (!gate_open(&g, i, grid))
        return g.failures;
    if (gate_combinations(&g) > limit) {
        ++*skipped;
        return 0;
    }
    gate_try(&g);
    *tried += g.tried;
    return gate_compare(&g);
}

static int claims(const struct instance *i, struct grid grid, long *tried)
{
    struct gate g;
    if (!gate_open(&g, i, grid))
        return g.failures;
    int failures = gate_claims(&g);
    *tried += g.tried;
    return failures;
}

bool gate_sample(const struct instance *i, bool thorough, struct gate_counts *c)
{
    int failures = exact(i, over_2, INFINITY, &c->exact, &c->skipped);
    failures += exact(i, over_3, INFINITY, &c->exact, &c->skipped);
    failures += exact(i, over_2x2, thorough ? 3e4 : 150, &c->two_axes, &c->skipped);
    failures += claims(i, over_6, &c->claims);
    failures += claims(i, over_2x3, &c->claims);
    if (thorough)
        failures += claims(i, over_3x2, &c->claims);
    return !failures;
}

int gate_all(const char *only, bool thorough)
{
    int failures = 0, count = 0;
    struct gate_counts c = {0};
    for (const struct instance *i = instances; i->op; i++) {
        if (only && strcmp(only, i->op->name) != 0)
            continue;
        failures += !gate_sample(i, thorough, &c);
        count++;
        start_anew();
    }
    printf("gate: %d nodes; every combination over 2 and 3 ranks (%ld) and over 2x2 ranks (%ld, %d nodes have too many); %ld "
           "claims over 6 and 2x3 ranks; %d failed\n", count, c.exact, c.two_axes, c.skipped, c.claims, failures);
    return failures;
}
