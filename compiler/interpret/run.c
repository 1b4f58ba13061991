/* Making a run, stepping it phase by phase, and reading results and weights. */
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a rank stores a parameter: as a value of its layout. */
static struct value param_value(const struct param *p)
{
    struct value v = {.type = p->type, .ndim = p->ndim, .path = p->path, .lay = p->lay};
    for (int d = 0; d < p->ndim; d++)
        v.dim[d] = p->dim[d];
    return v;
}

/* Copies between the logical tensor of a block and what a rank stores of it. */
static void move_block(struct storage *s, double *logical, int64_t block, bool load)
{
    struct tensor local = s->block, whole = s->block;
    local.data = s->block.data + block * s->count;
    for (int d = 0; d < whole.ndim; d++) {
        whole.n[d] = whole.valid[d];
        whole.base[d] = 0;
    }
    whole.flat = false;
    whole.first = 0;
    whole.data = logical + block * weights_block(s->param);
    if (load)
        tensor_meet(&local, &whole, NULL);
    else
        tensor_meet(&whole, &local, NULL);
}

static void rank_init(struct machine *m, struct rank *k)
{
    struct run *r = m->run;
    k->cells = calloc((size_t)arrlen(m->graph->values) + 1, sizeof *k->cells);
    for (int i = 0; i < hmlen(r->initial->map); i++) {
        struct param *p = r->initial->map[i].key;
        struct value v = param_value(p);
        struct storage *s = NEW(struct storage);
        s->param = p;
        int64_t saved = r->microbatch;
        r->microbatch = 0;
        s->block = place_tensor(r, &v, k);
        r->microbatch = saved;
        s->count = tensor_elements(&s->block);
        int64_t blocks = weights_block(p) ? weights_count(p) / weights_block(p) : 0;
        s->used = NEW_ARRAY(bool, blocks);
        s->block.data = calloc((size_t)(s->count * blocks) + 1, sizeof(double));
        for (int64_t b = 0; b < blocks; b++)
            move_block(s, r->initial->map[i].value, b, true);
        hmput(k->params, p, s);
    }
}

static struct run *run_new(struct module *m, enum entry entry, const struct weights *w)
{
    struct run *r = NEW(struct run);
    r->module = m;
    r->entry = entry;
    r->initial = w;
    r->scale.now = m->plan ? m->plan->precision.loss_scale : 0;
    sh_new_arena(r->inputs);
    return r;
}

static void machine_init(struct run *r, struct machine *m, int stage, struct graph *g, int nrank)
{
    m->run = r;
    m->stage = stage;
    m->graph = g;
    m->nrank = nrank;
    m->ranks = NEW_ARRAY(struct rank, nrank);
}

struct run *run_logical(struct module *m, enum entry entry, const struct weights *w)
{
    struct run *r = run_new(m, entry, w);
    r->nmachine = 1;
    r->machines = NEW(struct machine);
    machine_init(r, r->machines, 0, m->graph[entry], 1);
    rank_init(r->machines, r->machines[0].ranks);
    return r;
}

struct run *run_physical(struct module *m, enum entry entry, const struct weights *w)
{
    struct physical *p = m->physical;
    struct run *r = run_new(m, entry, w);
    r->physical = p;
    r->mesh = p->mesh;
    r->nmachine = p->nstage;
    r->machines = NEW_ARRAY(struct machine, p->nstage);
    for (int s = 0; s < p->nstage; s++) {
        int count = 0;
        for (int rank = 0; rank < p->mesh->nranks; rank++)
            count += rank_stage(p, rank) == s;
        machine_init(r, &r->machines[s], s, p->stages[s].graph, count);
        count = 0;
        for (int rank = 0; rank < p->mesh->nranks; rank++) {
            if (rank_stage(p, rank) != s)
                continue;
            struct rank *k = &r->machines[s].ranks[count++];
            k->number = rank;
            stage_coord(p, s, rank, k->coord);
            rank_init(&r->machines[s], k);
        }
    }
    return r;
}

void run_round(struct run *r)
{
    r->rounding = true;
}

void run_input(struct run *r, const char *name, const double *data)
{
    shput(r->inputs, name, data);
}

void run_watch(struct run *r, void (*seen)(void *context, const struct value *v, int rank, int64_t block,
                                           const struct tensor *t), void *context)
{
    r->seen = seen;
    r->seen_context = context;
}

static void clear_cells(struct run *r)
{
    for (int i = 0; i < r->nmachine; i++) {
        struct machine *m = &r->machines[i];
        for (int k = 0; k < m->nrank; k++)
            for (int v = 0; v < arrlen(m->graph->values); v++)
                for (int64_t b = 0; m->ranks[k].cells[v] && b < region_blocks(m->graph->values[v]->region); b++)
                    m->ranks[k].cells[v][b].filled = false;
    }
}

/* Runs one phase of one chunk on all stages until all have ended. A round in which no stage moves is a deadlock. */
static void run_phase(struct run *r, enum phase phase, int chunk)
{
    r->phase_count++;
    for (int s = 0; s < r->nmachine; s++) {
        struct machine *m = &r->machines[s];
        m->running = r->physical ? r->physical->stages[s].phase[r->entry][phase][chunk] : m->graph->root;
        m->at = 0;
    }
    for (bool done = false; !done;) {
        bool moved = false;
        done = true;
        for (int s = 0; s < r->nmachine; s++) {
            struct machine *m = &r->machines[s];
            int before = m->at;
            bool was_running = m->running != NULL;
            bool ended = machine_go(m);
            moved |= m->at != before || (was_running && ended);
            done &= ended;
        }
        if (!done && !moved) {
            for (int s = 0; s < r->nmachine; s++)
                if (r->machines[s].running)
                    fprintf(stderr, "stage %d waits in %s at %s\n", s, phase_name[phase],
                            r->machines[s].running->nodes[r->machines[s].at]->op->name);
            BUG("the stages wait for each other");
        }
    }
}

static void run_phases(struct run *r)
{
    if (!r->physical) {
        run_phase(r, PHASE_FORWARD, 0);
        return;
    }
    int64_t count = r->mesh->axis[r->mesh->mb].size;
    int chunks = r->physical->stages[0].nchunk;
    arrsetlen(r->meetings, 0);
    for (r->microbatch = 0; r->microbatch < count; r->microbatch++)
        run_phase(r, PHASE_COUNT, 0);
    r->microbatch = 0;
    run_phase(r, PHASE_SETUP, 0);
    for (r->microbatch = 0; r->microbatch < count; r->microbatch++) {
        for (int chunk = 0; chunk < chunks; chunk++)
            run_phase(r, PHASE_FORWARD, chunk);
        for (int chunk = chunks - 1; chunk >= 0; chunk--)
            run_phase(r, PHASE_BACKWARD, chunk);
        for (int chunk = chunks - 1; chunk >= 0; chunk--)
            run_phase(r, PHASE_WEIGHT, chunk);
    }
    r->microbatch = 0;
    run_phase(r, PHASE_UPDATE, 0);
}

void run_step(struct run *r, int64_t step)
{
    r->step = step;
    r->microbatch = 0;
    clear_cells(r);
    run_phases(r);
    if (r->entry != ENTRY_TRAIN || !train_skips(r->module))
        return;
    bool finite = isfinite(run_output(r, "grad_norm"));
    r->skipped += !finite;
    if (r->scale.now > 0)
        fl_scale_next(&r->scale, finite, r->module->plan->precision.growth_interval);
}

double run_output(const struct run *r, const char *name)
{
    double found = NAN;
    for (int s = 0; s < r->nmachine; s++) {
        struct machine *m = &r->machines[s];
        struct value *v = shget(m->outputs, name);
        for (int k = 0; v && k < m->nrank; k++) {
            double x = cell_read(m, &m->ranks[k], v, 0)->data[0];
            if (isnan(found))
                found = x;
            else if (!(fabs(x - found) <= 1e-12 * fabs(found)))
                return NAN;
        }
    }
    return found;
}

double *run_output_tensor(const struct run *r, const char *name, int64_t *count)
{
    struct tensor whole = {0};
    for (int s = 0; s < r->nmachine; s++) {
        struct machine *m = &r->machines[s];
        struct value *v = shget(m->outputs, name);
        for (int k = 0; v && k < m->nrank; k++) {
            const struct tensor *t = cell_read(m, &m->ranks[k], v, 0);
            if (!whole.data) {
                whole.ndim = t->ndim;
                for (int d = 0; d < t->ndim; d++)
                    whole.n[d] = whole.full[d] = whole.valid[d] = t->valid[d];
                whole.data = NEW_ARRAY(double, tensor_elements(&whole));
            }
            tensor_meet(&whole, t, NULL);
        }
    }
    *count = whole.data ? tensor_elements(&whole) : 0;
    return whole.data;
}

static void read_back(const struct rank *k, struct weights *to)
{
    for (int i = 0; i < hmlen(k->params); i++) {
        struct storage *t = k->params[i].value;
        int64_t blocks = weights_block(t->param) ? weights_count(t->param) / weights_block(t->param) : 0;
        for (int64_t b = 0; b < blocks; b++)
            if (t->used[b])
                move_block(t, weights_get(to, t->param), b, false);
    }
}

void run_weights(const struct run *r, struct weights *to)
{
    for (int s = 0; s < r->nmachine; s++)
        for (int k = 0; k < r->machines[s].nrank; k++)
            read_back(&r->machines[s].ranks[k], to);
}

void run_weights_rank(const struct run *r, int rank, struct weights *to)
{
    for (int s = 0; s < r->nmachine; s++)
        for (int k = 0; k < r->machines[s].nrank; k++)
            if (r->machines[s].ranks[k].number == rank)
                read_back(&r->machines[s].ranks[k], to);
}

const bool *run_weights_held(const struct run *r, int rank, const struct param *p)
{
    for (int s = 0; s < r->nmachine; s++)
        for (int k = 0; k < r->machines[s].nrank; k++) {
            struct rank *q = &r->machines[s].ranks[k];
            struct storage *t = q->number == rank ? hmget(q->params, (struct param *)p) : NULL;
            if (t)
                return t->used;
        }
    return NULL;
}

void run_release(struct run *r)
{
    for (int s = 0; s < r->nmachine; s++) {
        struct machine *m = &r->machines[s];
        for (int k = 0; k < m->nrank; k++) {
            struct rank *q = &m->ranks[k];
            for (int v = 0; v < arrlen(m->graph->values); v++)
                for (int64_t b = 0; q->cells[v] && b < region_blocks(m->graph->values[v]->region); b++) {
                    free(q->cells[v][b].own);
                    free(q->cells[v][b].posted);
                }
            free(q->cells);
            for (int i = 0; i < hmlen(q->params); i++)
                free(q->params[i].value->block.data);
        }
    }
    for (int i = 0; i < arrlen(r->mail); i++)
        free(r->mail[i].t.data);
}
