/* The numbers that an emitted program must come to, and the data that it is given. */
#include "emitted.h"
#include "passes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCHES = EMITTED_STEPS };
static const double moved = 1e-7;        /* about what f32 cannot tell apart */

struct feed { struct run *run; enum manner how; int64_t batch; const char *dir; };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 32;
}

static double uniform(uint64_t key) { return (double)(mix(key) >> 11) / (double)(1ull << 53); }

static double nudged(double x, enum manner how, uint64_t key)
{
    return how == MANNER_MOVED ? x * (1 + (mix(key) & 1 ? moved : -moved)) : x;
}

static uint64_t key_of(const char *name)
{
    uint64_t key = 77;
    while (*name)
        key = mix(key + (unsigned char)*name++);
    return key;
}

/* Element i of all batches of an input: f32 in (-1, 1); i32 0 .. 3, which every table has; bool. */
static double element(const struct value *v, uint64_t key, int64_t i)
{
    double u = uniform(key + (uint64_t)i * 1000003);
    return type_is_float(v->type) ? (float)(2 * u - 1) : v->type == TYPE_BOOL ? u < 0.6 : floor(u * u * 4);
}

static bool has_batch(const struct value *v)
{
    return v->ndim && v->dim[0]->name && !strcmp(v->dim[0]->name, "N");
}

static void write_input(const struct value *v, const char *name, const char *dir)
{
    FILE *to = fopen(mem_printf("%s/%s.bin", dir, name), "wb");
    if (!to)
        BUG("cannot write to %s", dir);
    int64_t count = value_count(v) * (has_batch(v) ? BATCHES : 1);
    uint64_t key = key_of(name);
    for (int64_t i = 0; i < count; i++) {
        double x = element(v, key, i);
        float f = (float)x;
        int32_t n = (int32_t)x;
        if (v->type == TYPE_BOOL)
            fputc(x != 0, to);
        else
            fwrite(type_is_float(v->type) ? (void *)&f : (void *)&n, 4, 1, to);
    }
    fclose(to);
}

/* What nobody reads has a file all the same. */
static void write_unread(const struct data_binding *d, const char *dir)
{
    for (int i = 0; i < arrlen(d); i++)
        for (int k = 0; k < d[i].ninput; k++) {
            FILE *to = fopen(mem_printf("%s/%s.bin", dir, d[i].inputs[k]), "wb");
            if (to) {
                fwrite((char[64]){0}, 64, 1, to);
                fclose(to);
            }
        }
}

static void give(struct node *n, void *context)
{
    const struct feed *s = context;
    if (n->op != &op_input)
        return;
    const struct value *v = n->out[0];
    const char *name = node_str(n, "name");
    int64_t count = value_count(v), from = has_batch(v) ? s->batch * count : 0;
    double *data = NEW_ARRAY(double, count + 1);
    uint64_t key = key_of(name);
    for (int64_t i = 0; i < count; i++) {
        double x = element(v, key, from + i);
        data[i] = type_is_float(v->type) ? nudged(x, s->how, key + (uint64_t)i) : x;
    }
    run_input(s->run, name, data);
    if (s->dir)
        write_input(v, name, s->dir);
}

static void step(struct module *m, enum entry e, struct feed *s, int64_t at)
{
    if (s->how != MANNER_EXACT)
        run_round(s->run);
    region_walk(m->graph[e]->root, give, s);
    run_step(s->run, at);
}

static void note(struct numbers *n, const char *field, int at, double value)
{
    arrput(n->scalar, ((struct number){field, at, value}));
}

static void evaluate(struct module *m, struct numbers *n, const struct weights *now, struct feed from, int at)
{
    const struct graph *g = m->graph[ENTRY_EVALUATE];
    from.run = run_logical(m, ENTRY_EVALUATE, now);
    from.batch = 0;
    step(m, ENTRY_EVALUATE, &from, 0);
    note(n, "eval_loss", at, run_output(from.run, "loss"));
    for (int i = 0; i < arrlen(g->metrics); i++)
        note(n, mem_printf("eval_%s", g->metrics[i].name), at, run_output(from.run, g->metrics[i].name));
    run_release(from.run);
}

struct numbers emitted_reference(struct module *m, enum manner how, const char *dir)
{
    struct numbers n = {.start = weights_new(m, m->train.seed)};
    for (int k = 0; k < hmlen(n.start->map); k++)
        for (int64_t i = 0; i < weights_count(n.start->map[k].key) && !n.start->map[k].key->is_state; i++)
            n.start->map[k].value[i] = nudged(n.start->map[k].value[i], how, (uint64_t)(i * 31 + k));
    n.end = weights_copy(n.start);
    if (dir) {
        write_unread(m->train.data, dir);
        write_unread(m->evaluate.data, dir);
    }
    struct feed s = {.run = run_logical(m, ENTRY_TRAIN, n.start), .how = how, .dir = dir};
    for (int at = 1; at <= EMITTED_STEPS; at++) {
        s.batch = at - 1;
        step(m, ENTRY_TRAIN, &s, at - 1);
        note(&n, "loss", at, run_output(s.run, "loss"));
        note(&n, "grad_norm", at, run_output(s.run, "grad_norm"));
        if (m->graph[ENTRY_EVALUATE] && (at % m->evaluate.every == 0 || at == EMITTED_STEPS)) {
            run_weights(s.run, n.end);
            evaluate(m, &n, n.end, s, at);
        }
    }
    run_weights(s.run, n.end);
    run_release(s.run);
    return n;
}
