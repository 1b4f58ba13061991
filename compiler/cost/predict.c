/* The prediction of a step; see predict.h.
 *
 *   contraction    its share of the FLOPs / rate, and its tensors once through memory
 *   other ops      what they read and write / bandwidth of memory, and their exponentials
 *   collective     alpha-beta, as in the choice of layouts; of what is reduced beside the backward, what sticks out
 *   every call     a fixed time
 *   link           alpha-beta; it delays who waits for it, not who sends
 *   host memory    alpha-beta; copies to and from it run beside the kernels of their firing, but for ranks that share cores
 *
 * The firings of each stage follow each other in the fixed order; one starts when the one before has ended on its stage
 * and what it receives has come. */
#include "predict.h"
#include "../box/survey.h"
#include "../module.h"
#include "../op.h"
#include "../schedule/rolled.h"
#include "cluster.h"
#include "convert.h"
#include <math.h>
#include <string.h>

enum { MOST_FIRINGS = 1 << 20 };

/* ---- nodes ---- */

static const struct cluster *cluster_of(const struct physical *p)
{
    return p->mesh->cluster ? p->mesh->cluster : cluster_default();
}

/* What a rank that works has of a host that shares its cores among them: at most one core where there are others. */
static double share(const struct physical *p)
{
    const struct cluster *c = cluster_of(p);
    int ranks = p->mesh->nranks;
    return c->cores && ranks > 1 ? 1.0 / (ranks < c->cores ? ranks : c->cores) : 1;
}

/* More ranks than cores take turns. */
static double turns(const struct physical *p)
{
    const struct cluster *c = cluster_of(p);
    return c->cores && p->mesh->nranks > c->cores ? (double)p->mesh->nranks / c->cores : 1;
}

static bool aliases(const struct node *n, const struct value *out)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && n->in[k]->buffer && n->in[k]->buffer == out->buffer && n->op->flags & (OP_VIEW | OP_BOXING))
            return true;
    return false;
}

static double moved_bytes(const struct physical *p, const struct node *n)
{
    double bytes = 0;
    bool view = arrlen(n->out) > 0;
    for (int k = 0; k < arrlen(n->out); k++) {
        view &= aliases(n, n->out[k]);
        bytes += (double)value_local_bytes(n->out[k], p->mesh);
    }
    if (view)
        return 0;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k])
            bytes += (double)value_local_bytes(n->in[k], p->mesh);
    return bytes;
}

/* The share of a node's work that one rank has: an axis that splits any of its tensors splits it. */
static double part_of_work(const struct physical *p, const struct node *n)
{
    double part = 1;
    for (int a = 0; a < p->mesh->naxis; a++) {
        bool split = false;
        for (int k = 0; k < arrlen(n->in) && !split; k++)
            split = n->in[k] && n->in[k]->lay.ax[a].kind == SBP_S;
        for (int k = 0; k < arrlen(n->out) && !split; k++)
            split = n->out[k]->lay.ax[a].kind == SBP_S;
        if (split)
            part /= p->mesh->axis[a].size;
    }
    return part;
}

static double rate_of(const struct cluster *c, const struct node *n)
{
    return type_bytes[n->in[0]->type] == 2 ? c->flops16 : c->flops;
}

static int exponentials(const char *expr)
{
    static const char *const names[] = {"exp", "tanh", "log", "erf", "pow", NULL};
    int count = 0;
    for (int k = 0; expr && names[k]; k++)
        for (const char *s = expr; (s = strstr(s, names[k])); s++)
            count++;
    return count;
}

static double fused_exponentials(const struct node *n)
{
    return exponentials(n->op->expr ? n->op->expr : node_str(n, "expr"));
}

double collective_seconds(const struct physical *p, const struct node *n, double bytes)
{
    static const struct { const char *name; enum step_kind kind; double halves; } kinds[] = {
        {"all_gather", STEP_ALL_GATHER, 1},         {"all_reduce", STEP_ALL_REDUCE, 2},
        {"reduce_scatter", STEP_REDUCE_SCATTER, 1}, {"all_to_all", STEP_ALL_TO_ALL, 1},
        {"stage_reduce", STEP_ALL_REDUCE, 2},       {"permute", STEP_PERMUTE, 1},
    };
    unsigned axes = (unsigned)node_int(n, "axes", 0);
    double parts = 1;
    for (int a = 0; a < p->mesh->naxis; a++)
        if (axes >> a & 1)
            parts *= p->mesh->axis[a].size;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && parts > 1; k++)
        if (!strcmp(communication_kind(n), kinds[k].name))
            return step_seconds(kinds[k].kind, kinds[k].halves * (parts - 1) / parts * bytes,
                                p->mesh, axes);
    return 0;
}

static bool crosses_memories(const struct node *n)
{
    return n->op == &op_to_host || n->op == &op_to_device;
}

double node_seconds(const struct physical *p, const struct node *n)
{
    const struct cluster *c = cluster_of(p);
    if (n->body || n->op->flags & OP_SOURCE || n->op == &op_box_send || n->op == &op_box_recv || n->op == &op_box_post)
        return 0;
    if (is_communication(n))
        return collective_seconds(p, n, (double)communication_bytes(p, n));
    if (crosses_memories(n))
        return c->host_latency + (double)value_local_bytes(n->out[0], p->mesh) / (c->host * share(p));
    double bytes = moved_bytes(p, n);
    if (bytes == 0)
        return 0;
    double seconds = c->call + bytes / (c->stream * share(p));
    if (n->op->flags & OP_CONTRACTION && n->op->flops)
        seconds += n->op->flops(n) * part_of_work(p, n) / (rate_of(c, n) * share(p));
    double elements = arrlen(n->out) ? (double)value_local_bytes(n->out[0], p->mesh) / type_bytes[n->out[0]->type] : 0;
    return seconds + fused_exponentials(n) * elements * c->exponential / share(p);
}

/* ---- stages ---- */

struct work { double compute, comm, host, host_bytes; };

static void work_add(struct work *sum, const struct work *w, double times)
{
    sum->compute += w->compute * times;
    sum->comm += w->comm * times;
    sum->host += w->host * times;
    sum->host_bytes += w->host_bytes * times;
}

static struct work region_work(const struct physical *p, const struct region *r)
{
    struct work sum = {0};
    for (int i = 0; r && i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        struct work w = {0};
        if (n->body) {
            w = region_work(p, n->body);
        } else if (is_communication(n)) {
            w.comm = node_seconds(p, n);
        } else if (crosses_memories(n)) {
            w.host = node_seconds(p, n);
            w.host_bytes = (double)value_local_bytes(n->out[0], p->mesh);
        } else {
            w.compute = node_seconds(p, n);
        }
        work_add(&sum, &w, n->body ? (double)n->body->count : 1);
    }
    return sum;
}

/* Of one firing. */
static double work_seconds(const struct physical *p, const struct work *w)
{
    double device = w->compute + w->comm;
    return cluster_of(p)->cores ? device + w->host : fmax(device, w->host);
}

static double duration(const struct physical *p, int stage, enum phase f, int chunk)
{
    struct work w = region_work(p, p->stages[stage].phase[ENTRY_TRAIN][f][chunk]);
    return work_seconds(p, &w);
}

/* ---- in time ---- */

struct clock {
    const struct physical *p;
    double *lasts;               /* [(stage * PHASES + phase) * MAX_CHUNK + chunk]: seconds of one firing */
    double **arrived;            /* per link and micro-batch: when the message is there; 0: not sent yet */
    int microbatches;
};

static double link_seconds(const struct physical *p, const struct link *l)
{
    int axis = p->mesh->pipe;
    double bytes = l->sent ? (double)value_local_bytes(l->sent, p->mesh) : 0;
    return axis < 0 ? 0 : axis_latency(p->mesh, axis) + bytes / axis_bandwidth(p->mesh, axis);
}

/* When the firing may start as far as its messages go; below 0: one is not under way yet. */
static double received(const struct clock *c, int stage, const struct firing *f)
{
    const struct region *root = c->p->stages[stage].phase[ENTRY_TRAIN][f->phase][f->chunk];
    double at = 0;
    for (int i = 0; root && i < arrlen(root->nodes); i++)
        if (root->nodes[i]->op == &op_box_recv) {
            double t = c->arrived[node_int(root->nodes[i], "link", 0)][f->microbatch];
            if (t == 0)
                return -1;
            at = fmax(at, t);
        }
    return at;
}

static void sent(struct clock *c, int stage, const struct firing *f, double now)
{
    const struct region *root = c->p->stages[stage].phase[ENTRY_TRAIN][f->phase][f->chunk];
    for (int i = 0; root && i < arrlen(root->nodes); i++)
        if (root->nodes[i]->op == &op_box_send) {
            int link = (int)node_int(root->nodes[i], "link", 0);
            c->arrived[link][f->microbatch] = now + link_seconds(c->p, &c->p->links[link]);
        }
}

/* The makespan of the scheduled part; *busy: what the stages work in it, on average. */
static double makespan(struct clock *c, double *busy)
{
    int stages = c->p->nstage;
    struct rolled_walk *walk = NEW_ARRAY(struct rolled_walk, stages);
    struct firing *next = NEW_ARRAY(struct firing, stages);
    bool *more = NEW_ARRAY(bool, stages);
    double *now = NEW_ARRAY(double, stages), end = 0, work = 0;
    for (int s = 0; s < stages; s++) {
        walk[s].of = &c->p->stages[s].order;
        more[s] = rolled_next(&walk[s], &next[s]);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < stages; s++)
            while (more[s]) {
                double ready = received(c, s, &next[s]);
                if (ready < 0)
                    break;
                double lasts = c->lasts[(s * PHASES + (int)next[s].phase) * MAX_CHUNK + next[s].chunk];
                now[s] = fmax(now[s], ready) + lasts;
                work += lasts;
                sent(c, s, &next[s], now[s]);
                more[s] = rolled_next(&walk[s], &next[s]);
                moved = true;
            }
    }
    for (int s = 0; s < stages; s++)
        end = fmax(end, now[s]);
    *busy = work / stages;
    return end;
}

/* Three times the contractions of the forward, as trainers count. */
static double model_flops(const struct region *r)
{
    double sum = 0;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        if (n->op->flags & OP_FORWARD_TOO)
            sum += n->op->flops(n) * (double)region_blocks(n->region);
        if (node_at_root(n)->phase != PHASE_FORWARD)
            continue;
        if (n->body)
            sum += model_flops(n->body);
        else if (n->op->flags & OP_CONTRACTION && n->op->flops)
            sum += 3 * n->op->flops(n) * (double)region_blocks(n->region);
    }
    return sum;
}

double peak_flops(const struct module *m)
{
    const struct cluster *c = cluster_of(m->physical);
    double ranks = c->cores ? 1 : m->physical->mesh->nranks;             /* the rate is that of all of them */
    return ranks * (m->plan->precision.type == TYPE_F32 ? c->flops : c->flops16);
}

double step_flops(const struct module *m) { return m->graph[ENTRY_TRAIN] ? model_flops(m->graph[ENTRY_TRAIN]->root) : 0; }

struct prediction predict(const struct module *m)
{
    const struct physical *p = m->physical;
    int mb = p->mesh->axis[p->mesh->mb].size, stages = p->nstage;
    int64_t firings = 0;
    struct prediction x = {.flops = model_flops(m->graph[ENTRY_TRAIN]->root)};
    struct clock c = {.p = p, .microbatches = mb};
    c.lasts = NEW_ARRAY(double, stages * PHASES * MAX_CHUNK);
    double once = 0, most = 0;
    for (int s = 0; s < stages; s++) {
        struct work all = {0};
        double seconds = 0;
        double here = duration(p, s, PHASE_COUNT, 0) * mb + duration(p, s, PHASE_SETUP, 0) + duration(p, s, PHASE_UPDATE, 0);
        struct work update = region_work(p, p->stages[s].phase[ENTRY_TRAIN][PHASE_UPDATE][0]);
        double hidden = fmin(hidden_seconds(p, s), update.comm);
        here -= hidden;
        once = fmax(once, here);
        for (int f = 0; f < PHASES; f++)
            for (int k = 0; k < MAX_CHUNK; k++) {
                const struct region *r = p->stages[s].phase[ENTRY_TRAIN][f][k];
                struct work w = region_work(p, r);
                double times = phase_per_microbatch((enum phase)f) ? mb : 1;
                double beside = fmin(phase_hidden_seconds(p, r), w.comm);
                w.comm -= beside;
                double lasts = work_seconds(p, &w);
                c.lasts[(s * PHASES + f) * MAX_CHUNK + k] = lasts;
                work_add(&all, &w, times);
                seconds += lasts * times;
            }
        seconds -= hidden;
        all.comm -= hidden;
        x.host_bytes = fmax(x.host_bytes, all.host_bytes);
        if (seconds > most) {
            most = seconds;
            x.compute = all.compute;
            x.comm = all.comm;
        }
        firings += rolled_count(&p->stages[s].order);
    }
    double busy = 0, span;
    c.arrived = NEW_ARRAY(double *, arrlen(p->links) + 1);
    if (firings <= MOST_FIRINGS) {
        for (int i = 0; i < arrlen(p->links); i++)
            c.arrived[i] = NEW_ARRAY(double, mb + 1);
        span = makespan(&c, &busy);
    } else {                             /* too many to lay out: the schedule's own bubble, in unit times */
        span = (most - once) / (1 - fmin(fmax(p->bubble, 0), 0.99));
        busy = most - once;
    }
    x.bubble = span > 0 ? 1 - busy / span : 0;
    once *= turns(p);
    span = fmax(span, busy * turns(p));
    x.seconds = once + span;
    x.mfu = x.flops / (x.seconds * peak_flops(m));
    struct total *sum = comm_totals(p, comm_survey(p));
    for (int i = 0; i < arrlen(sum); i++)
        x.comm_bytes += (double)sum[i].bytes;
    return x;
}
