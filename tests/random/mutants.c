/* mutants FILE [--plan P] [--set NAME=VALUE]...: spoils the physical graph of a program at every place in turn, and
 * expects the comparison with one rank to notice. What is spoilt: each collective and conversion is dropped, doubled,
 * or done over another group; two that travel together are exchanged; each value is scaled, on all ranks and on one;
 * each accumulation stops before the last micro-batch; each input is read one micro-batch late; each stage computes
 * other blocks than its own. Compared are loss, norm, all weights and all optimizer states of every rank after two
 * steps. */
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2, KINDS = 10 };
static const char *const kind_name[KINDS] = {"nothing", "scaled", "dropped", "doubled", "over another axis",
                                             "before the last micro-batch",
                                             "a micro-batch late", "exchanged", "on a wrong stage",
                                                     "wrong on one rank"};
enum { KIND_SWAP = 7, KIND_STAGE = 8, KIND_RANK = 9 };

struct result {
    double loss[STEPS], norm[STEPS];
    struct weights *after;
};
static int caught[KINDS], missed[KINDS], without_effect[KINDS];

/* ---- comparison ---- */

static bool apart(double a, double b)
{
    return !(fabs(a - b) <= 1e-9 * (1e-3 + fabs(a) + fabs(b)));
}

static bool differs(const struct result *a, const struct result *b)
{
    for (int s = 0; s < STEPS; s++)
        if (apart(a->loss[s], b->loss[s]) || apart(a->norm[s], b->norm[s]))
            return true;
    for (int k = 0; k < hmlen(a->after->map); k++) {
        const struct param *p = a->after->map[k].key;
        for (int64_t i = 0; i < weights_count(p); i++)
            if (fabs(a->after->map[k].value[i] - b->after->map[k].value[i]) > 1e-9)
                return true;
    }
    return false;
}

/* ---- one run ---- */

struct feed { struct run *run; int64_t vocabulary; uint32_t state; };

static void give_input(struct node *n, void *context)
{
    struct feed *f = context;
    if (n->op != &op_input)
        return;
    const struct value *v = n->out[0];
    double *data = NEW_ARRAY(double, value_count(v) + 1);
    for (int64_t i = 0; i < value_count(v); i++) {
        f->state = f->state * 1664525u + 1013904223u;
        double u = (double)(f->state >> 8) / (1 << 24);
        data[i] = type_is_float(v->type) ? 2 * u - 1 : floor(u * (double)f->vocabulary);
    }
    run_input(f->run, node_str(n, "name"), data);
}

static void train(struct run *r, struct module *m, const struct weights *start, struct result *to)
{
    struct feed feed = {.run = r, .vocabulary = 5, .state = 17};
    for (int s = 0; s < STEPS; s++) {
        region_walk(m->graph[ENTRY_TRAIN]->root, give_input, &feed);
        run_step(r, s);
        to->loss[s] = run_output(r, "loss");
        to->norm[s] = run_output(r, "grad_norm");
    }
    to->after = weights_copy(start);
    run_weights(r, to->after);
}

/* Do all ranks hold the same of what several hold? */
static bool replicas_differ(const struct run *r, const struct module *m, const struct result *all)
{
    for (int rank = 0; rank < m->physical->mesh->nranks; rank++) {
        struct result mine = *all;
        mine.after = weights_copy(all->after);
        run_weights_rank(r, rank, mine.after);
        if (differs(&mine, all))
            return true;
    }
    return false;
}

/* ---- mutants ---- */

struct place { struct node *node; struct stage *stage; };
struct trials {
    struct module *m;
    struct weights *start;
    struct result right;
    struct place *places;        /* stb_ds array: every node of the physical graph of train */
    struct stage *stage;         /* while collecting */
};

static void collect(struct node *n, void *context)
{
    struct trials *t = context;
    arrput(t->places, ((struct place){n, t->stage}));
}

/* Values whose size matters. The maximum in a cross-entropy does not: it is taken off and added again. */
static bool has_numbers(const struct node *n)
{
    if (n->op == &op_ce_max || (n->op->flags & OP_BOXING && node_int(n, "reduce", REDUCE_SUM) != REDUCE_SUM))
        return false;
    return arrlen(n->out) && type_is_float(n->out[0]->type) && n->op != &op_param && n->op != &op_repeat &&
            n->op != &op_input;
}

/* All that is computed but by one node, as one number: a fault that leaves it as it is touches nothing, such as a
 * scaled zero, or a value that one rank makes and nobody takes from it. */
struct trace { const struct node *but; uint64_t hash; };
static void see(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    struct trace *s = context;
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->n[d];
    for (int64_t i = 0; v->def != s->but && i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &t->data[i], sizeof bits);
        s->hash = (s->hash ^ bits) * 1099511628211u;
    }
}

static uint64_t trace(struct trials *t, const struct node *n, enum fault fault, int rank)
{
    struct trace s = {.but = n};
    struct result unused;
    struct run *r = run_physical(t->m, ENTRY_TRAIN, t->start);
    run_fault(r, n, fault, rank);
    run_watch(r, see, &s);
    train(r, t->m, t->start, &unused);
    run_release(r);
    return s.hash;
}

static void judge(struct trials *t, int kind, const struct node *n, enum fault fault, int rank)
{
    struct result wrong;
    struct run *r = run_physical(t->m, ENTRY_TRAIN, t->start);
    run_fault(r, fault ? n : NULL, fault, rank);
    train(r, t->m, t->start, &wrong);
    bool noticed = differs(&wrong, &t->right) || replicas_differ(r, t->m, &wrong);
    run_release(r);
    if (noticed) {
        caught[kind]++;
    } else if (fault && trace(t, n, fault, rank) == trace(t, n, FAULT_NONE, -1)) {
        without_effect[kind]++;
    } else {
        missed[kind]++;
        const char *what = arrlen(n->out) ? n->out[0]->path : arrlen(n->in) ? n->in[0]->path : "?";
        printf("nobody noticed: %s of %s (%s, %s, rank %d)\n", n->op->name, what, phase_name[n->phase],
               kind_name[kind], rank);
    }
}

static bool reduces(const struct node *n)
{
    return n->op == &op_box_all_reduce || n->op == &op_box_reduce_scatter || n->op == &op_box_accumulate ||
           n->op == &op_box_stage_reduce;
}

static bool is_collective(const struct node *n)
{
    return n->op == &op_box_all_reduce || n->op == &op_box_reduce_scatter || n->op == &op_box_all_gather ||
           n->op == &op_box_all_to_all;
}

/* Does the fault change what the node does? A mask over a group of one rank does nothing in the first place. */
static bool applies(const struct trials *t, const struct node *n, enum fault f)
{
    const struct mesh *m = t->m->physical->mesh;
    unsigned axes = (unsigned)node_int(n, "axes", 0), others = 0;
    int64_t parts = 1;
    for (int i = 0; i < m->naxis; i++) {
        if (axes >> i & 1)
            parts *= m->axis[i].size;
        else if (m->axis[i].size > 1 && i != m->pipe && !m->axis[i].time)
            others |= 1u << i;
    }
    bool many = m->axis[m->mb].size > 1;
    switch (f) {
    case FAULT_SCALE: return has_numbers(n);
    case FAULT_DROP: return n->op == &op_box_recv || (n->op == &op_box_accumulate && many) ||
            n->op == &op_box_stage_reduce ||
                            (is_collective(n) && parts > 1);
    case FAULT_TWICE: return reduces(n) && node_int(n, "reduce", REDUCE_SUM) == REDUCE_SUM &&
            (n->op != &op_box_accumulate || many);
    case FAULT_GROUP: return is_collective(n) && others && parts > 1;
    case FAULT_EARLY: return n->op == &op_box_accumulate && many;
    case FAULT_MICROBATCH: return n->op == &op_input && many && n->out[0]->lay.ax[m->mb].kind == SBP_S;
    default: return false;
    }
}

static bool like(const struct value *a, const struct value *b)
{
    if (a->region != b->region || a->ndim != b->ndim || !layout_same(&a->lay, &b->lay, MAX_AXIS))
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->dim[d]->phys != b->dim[d]->phys)
            return false;
    return true;
}

/* Operands of one collective change places; of two receives of equal type each takes what the other should have. */
static void exchange(struct trials *t, int at)
{
    struct node *n = t->places[at].node;
    for (int k = 0; k + 1 < arrlen(n->in) && n->op->flags & OP_BOXING; k++) {
        if (!like(n->in[k], n->in[k + 1]))
            continue;
        struct value *x = n->in[k];
        n->in[k] = n->in[k + 1];
        n->in[k + 1] = x;
        judge(t, KIND_SWAP, n, FAULT_NONE, -1);
        n->in[k + 1] = n->in[k];
        n->in[k] = x;
    }
    for (int i = at + 1; n->op == &op_box_recv && i < arrlen(t->places); i++) {
        struct node *o = t->places[i].node;
        const struct link *links = t->m->physical->links;
        int64_t a = node_int(n, "link", -1), b = node_int(o, "link", -1);
        if (o->op != &op_box_recv || o->phase != n->phase || links[a].from != links[b].from ||
            links[a].to != links[b].to ||
            !like(n->out[0], o->out[0]))
            continue;
        node_set_int(n, "link", b);
        node_set_int(o, "link", a);
        judge(t, KIND_SWAP, n, FAULT_NONE, -1);
        node_set_int(n, "link", a);
        node_set_int(o, "link", b);
    }
}

/* The stages of a cut repeat take each other's blocks. */
static void misplace(struct trials *t, struct place *at)
{
    const struct physical *p = t->m->physical;
    struct region *body = at->node->body;
    if (!body || body->mirror || p->nstage < 2 || !body->count)
        return;
    int64_t total = 0, first = body->first;
    for (int i = 0; i < arrlen(t->places); i++) {
        const struct region *b = t->places[i].node->body;
        if (b && !b->mirror && b->first + b->count > total)
            total = b->first + b->count;
    }
    if (total <= body->count)
        return;
    body->first = (first + body->count) % total;
    if (body->first + body->count > total)
        body->first = 0;
    judge(t, KIND_STAGE, at->node, FAULT_NONE, -1);
    body->first = first;
}

static int some_rank(const struct trials *t, const struct stage *s, int turn)
{
    const struct physical *p = t->m->physical;
    int count = 0;
    for (int r = 0; r < p->mesh->nranks; r++)
        count += rank_stage(p, r) == s->index;
    for (int r = 0, k = turn % count; r < p->mesh->nranks; r++)
        if (rank_stage(p, r) == s->index && k-- == 0)
            return r;
    return 0;
}

static void run_all(struct trials *t)
{
    for (int i = 0; i < arrlen(t->places); i++) {
        struct node *n = t->places[i].node;
        for (enum fault f = FAULT_SCALE; f <= FAULT_MICROBATCH; f++)
            if (applies(t, n, f))
                judge(t, (int)f, n, f, -1);
        if (has_numbers(n) && t->m->physical->mesh->nranks > 1)
            judge(t, KIND_RANK, n, FAULT_SCALE, some_rank(t, t->places[i].stage, i));
        exchange(t, i);
        misplace(t, &t->places[i]);
    }
}

/* ---- the program ---- */

static bool compile(struct module *m)
{
    void (*const passes[])(struct module *m) = {elaborate, differentiate, rewrite, place, shard, box};
    int file = source_open(m->options->file);
    if (!file)
        return false;
    arrput(m->programs, parse(file));
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !diag_errors(); i++)
        passes[i](m);
    bool fine = !diag_errors();
    diag_print(stderr, false);
    return fine;
}

int main(int argc, char **argv)
{
    struct options o = {.target = "cpu"};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "", *equals = strchr(next, '=');
        if (!strcmp(argv[i], "--plan")) {
            o.plan = argv[++i];
        } else if (!strcmp(argv[i], "--set") && equals) {
            arrput(o.set, ((typeof(*o.set)){intern_n(next, (size_t)(equals - next)), equals + 1, false}));
            i++;
        } else {
            o.file = argv[i];
        }
    }
    struct module *m = NEW(struct module);
    m->options = &o;
    if (!o.file || !compile(m))
        return 1;
    struct trials t = {.m = m, .start = weights_new(m, 3)};
    for (int k = 0; k < hmlen(t.start->map); k++)     /* from zeros and ones some faults cannot be seen */
        for (int64_t i = 0; i < weights_count(t.start->map[k].key) && !t.start->map[k].key->is_state; i++)
            t.start->map[k].value[i] += 0.1 * (double)((i * 7 + k) % 5 - 2);
    struct result split;
    struct run *all_ranks = run_physical(m, ENTRY_TRAIN, t.start);
    train(run_logical(m, ENTRY_TRAIN, t.start), m, t.start, &t.right);
    train(all_ranks, m, t.start, &split);
    if (differs(&split, &t.right) || replicas_differ(all_ranks, m, &split)) {
        puts("the program is wrong as it is");
        return 1;
    }
    for (int s = 0; s < m->physical->nstage; s++) {
        t.stage = &m->physical->stages[s];
        struct root *roots = stage_roots(t.stage, ENTRY_TRAIN);
        for (int i = 0; i < arrlen(roots); i++)
            region_walk(roots[i].region, collect, &t);
    }
    run_all(&t);
    int all = 0, seen = 0, none = 0;
    for (int k = 1; k < KINDS; k++) {
        if (caught[k] + missed[k] + without_effect[k])
            printf("%-28s %5d of %5d caught%s\n", kind_name[k], caught[k], caught[k] + missed[k],
                   without_effect[k] ? mem_printf(", %d more touch nothing", without_effect[k]) : "");
        all += caught[k] + missed[k];
        seen += caught[k];
        none += without_effect[k];
    }
    printf("mutants: %d of %d caught\n", seen, all);
    mem_release();
    return seen != all;
}
