/* mutants FILE [--plan P] [--set NAME=VALUE]...: spoils the physical graph of a program at every place in turn, and
 * expects the comparison that --verify makes to notice. What is spoilt: each collective and conversion is dropped, doubled,
 * or done over another group; two that travel together are exchanged; each value is scaled, on all ranks and on one;
 * each accumulation stops before the last micro-batch; each input is read one micro-batch late; each stage computes
 * other blocks than its own. Compared are loss, norm, all weights and all optimizer states of every rank after two
 * steps. */
#include "box/post.h"
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include "prove/verify.h"
#include <stdlib.h>
#include <string.h>

enum { KINDS = 10 };
static const char *const kind_name[KINDS] = {"nothing", "scaled", "dropped", "doubled", "over another axis",
                                             "before the last micro-batch", "a micro-batch late", "exchanged",
                                             "on a wrong stage", "wrong on one rank"};
enum { KIND_SWAP = 7, KIND_STAGE = 8, KIND_RANK = 9, SEED = 1 };
static int caught[KINDS], missed[KINDS], without_effect[KINDS];

/* ---- mutants ---- */

struct spot { struct node *node; struct stage *stage; };
struct trials {
    struct module *m;
    struct spot *places;        /* stb_ds array: every node of the physical graph of train */
    struct stage *stage;         /* while collecting */
};

static void collect(struct node *n, void *context)
{
    struct trials *t = context;
    arrput(t->places, ((struct spot){n, t->stage}));
}

/* Values whose size matters. The maximum in a cross-entropy does not: it is taken off and added again. */
static bool has_numbers(const struct node *n)
{
    if (n->op == &op_ce_max || (n->op->flags & OP_BOXING && node_int(n, "reduce", REDUCE_SUM) != REDUCE_SUM))
        return false;
    return arrlen(n->out) && type_is_float(n->out[0]->type) && n->op != &op_param && n->op != &op_repeat &&
            n->op != &op_input;
}

static void spoil_node(struct node *n, enum fault fault, int rank)
{
    n->spoilt = (int)fault;
    n->spoilt_operand = -1;
    n->spoilt_rank = rank + 1;
}

static void judge(struct trials *t, int kind, struct node *n, enum fault fault, int rank)
{
    struct difference d;
    struct mem_mark mark = mem_mark();
    spoil_node(n, fault, rank);
    bool noticed = !entry_equal(t->m, ENTRY_TRAIN, SEED, false, &d), touches = true;
    if (!noticed && fault) {
        uint64_t wrong = entry_trace(t->m, ENTRY_TRAIN, SEED, n);
        spoil_node(n, FAULT_NONE, -1);
        touches = wrong != entry_trace(t->m, ENTRY_TRAIN, SEED, n);
    }
    spoil_node(n, FAULT_NONE, -1);
    mem_rewind(mark);
    if (noticed) {
        caught[kind]++;
    } else if (!touches) {
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
           n->op == &op_box_all_to_all || n->op == &op_box_permute;
}

/* A count of an input is of all micro-batches, in whichever order they are read. */
static bool only_counted(const struct region *r, const struct value *v)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] == v && n->op != &op_count)
                return false;
        if (n->body && !only_counted(n->body, v))
            return false;
    }
    return true;
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
    case FAULT_EARLY: return (n->op == &op_box_accumulate || (n->op == &op_box_post && !post_each(n))) && many;
    case FAULT_MICROBATCH: return n->op == &op_input && many && !only_counted(n->region, n->out[0]) &&
             n->out[0]->lay.ax[m->mb].kind == SBP_S;
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
    for (int k = 0; k + 1 < arrlen(n->in) && n->op->flags & OP_BOXING && n->op != &op_box_post; k++) {
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
static void misplace(struct trials *t, struct spot *at)
{
    const struct physical *p = t->m->physical;
    struct region *body = at->node->body;
    const struct region *whole = body && at->node->logical ? at->node->logical->body : NULL;
    if (!body || body->mirror || p->nstage < 2 || !body->count || (whole && whole->count != whole->total))
        return;                          /* a piece has parameters of its own, and no others to take */
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

/* One rank of the full mesh holds a number that is not its own. */
static void wrong_ranks(struct module *m, int *seen, int *all)
{
    const struct physical *p = m->physical;
    const char *fact;
    for (int rank = 0; rank < p->mesh->nranks; rank++) {
        struct rank_row r = rank_row(p, rank);
        *all += !rank_holds(p, &r, rank, &fact);       /* right as it is, or never all caught */
        for (int a = 0; a < p->mesh->naxis; a++) {
            if (p->mesh->axis[a].time || p->mesh->axis[a].size < 2)
                continue;
            int right = r.coord[a];
            r.coord[a] = (right + 1) % p->mesh->axis[a].size;
            *seen += !rank_holds(p, &r, rank, &fact);
            ++*all;
            r.coord[a] = right;
        }
        for (int i = 0; i < arrlen(r.constants); i++) {
            r.constants[i]++;
            *seen += !rank_holds(p, &r, rank, &fact);
            ++*all;
            r.constants[i]--;
        }
    }
}

/* ---- the program ---- */

static bool compile(struct module *m)
{
    int file = source_open(m->options->file);
    if (!file)
        return false;
    arrput(m->programs, parse(file));
    bool fine = passes_run(m, elaborate, box);
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
    struct trials t = {.m = m};
    const char *why;
    struct difference d;
    struct shrunk *small = verify_small(m, &why);
    if (!small) {
        printf("not at small sizes: %s\n", why);
        return 1;
    }
    if (!entry_equal(m, ENTRY_TRAIN, SEED, false, &d)) {
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
    printf("mutants: %d of %d caught, at %s\n", seen, all, shrunk_text(small));
    shrunk_restore(small);
    fuse(m);
    layout(m);
    int wrong = 0, noticed = 0;
    wrong_ranks(m, &noticed, &wrong);
    printf("one wrong rank of the full mesh: %d of %d caught\n", noticed, wrong);
    seen += noticed;
    all += wrong;
    mem_release();
    return seen != all;
}
