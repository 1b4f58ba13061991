/* The gradient of every op against central differences. The sampled node gets model inputs as operands, its gradient is
 * built by the op and run by the interpreter in float64; L = sum of weight * output is then differenced entry by
 * entry. Also checks that padding gets no gradient. */
#include "checks.h"
#include "base/diag.h"
#include "interpret/interpret.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPERAND = 8 };

struct probe {
    struct run *run;
    int nout;
    double *weight[MAX_OPERAND];
    int64_t count[MAX_OPERAND];
};

static const char *numbered(const char *word, int k)
{
    return intern(mem_printf("%s%d", word, k));
}

static void add_output(struct graph *g, struct value *v, const char *name)
{
    struct node *n = node_new(g, g->root, &op_output, (struct span){0});
    node_in(n, v);
    node_set_str(n, "name", name);
    node_finish(g, n);
}

/* Makes v the result of an input node: the sample's operands have no definition yet. */
static void define_input(struct graph *g, struct value *v, const char *name, int place)
{
    struct node *n = node_new(g, g->root, &op_input, (struct span){0});
    node_set_str(n, "name", name);
    arrput(n->out, v);
    v->def = n;
    v->path = name;
    /* Sources stand before what reads them. */
    struct node **nodes = g->root->nodes;
    for (int i = (int)arrlen(nodes) - 1; i > place; i--)
        nodes[i] = nodes[i - 1];
    nodes[place] = n;
}

static double loss(struct probe *p)
{
    double sum = 0;
    run_step(p->run, 3);
    for (int k = 0; k < p->nout; k++) {
        int64_t count;
        double *y = p->weight[k] ? run_output_tensor(p->run, numbered("y", k), &count) : NULL;
        for (int64_t i = 0; y && i < p->count[k]; i++)
            sum += y[i] * p->weight[k][i];
    }
    return sum;
}

static int check_instance(const struct instance *s)
{
    struct module *m = NEW(struct module);
    m->plan = NEW(struct plan);
    m->train.seed = 5;
    struct graph *g = m->graph[ENTRY_TRAIN] = graph_new(m, ENTRY_TRAIN);
    struct node *n = instance_node(g, s);
    if (!n)
        return 1;
    struct operand operand[MAX_OPERAND];
    int nin = operands_read(s->in, operand), place = 0, failures = 0;
    uint32_t random = 777;
    double *x[MAX_OPERAND] = {0};
    bool wanted[MAX_OPERAND] = {false};
    struct value *din[MAX_OPERAND] = {0}, *dout[MAX_OPERAND] = {0};
    struct probe p = {.nout = (int)arrlen(n->out)};
    struct weights *w = NEW(struct weights);
    struct { const char *name; double *data; } feeds[2 * MAX_OPERAND];
    int nfeed = 0;
    for (int k = 0; k < nin; k++) {
        struct value *v = n->in[k];
        if (!v)
            continue;
        define_input(g, v, numbered("x", k), place++);
        int64_t count = value_count(v);
        x[k] = NEW_ARRAY(double, count + 1);
        for (int64_t i = 0; i < count; i++)
            x[k][i] = operand_value(operand[k].type, &random);
        feeds[nfeed].name = numbered("x", k);
        feeds[nfeed++].data = x[k];
        wanted[k] = type_is_float(v->type);
    }
    for (int k = 0; k < p.nout; k++) {
        struct value *v = n->out[k];
        add_output(g, v, numbered("y", k));
        if (!type_is_float(v->type))
            continue;
        p.count[k] = value_count(v);
        p.weight[k] = NEW_ARRAY(double, p.count[k] + 1);
        for (int64_t i = 0; i < p.count[k]; i++)
            p.weight[k][i] = random_value(&random);
        dout[k] = value_new(g, g->root, v->type, v->ndim, v->dim);
        define_input(g, dout[k], numbered("dy", k), place++);
        feeds[nfeed].name = numbered("dy", k);
        feeds[nfeed++].data = p.weight[k];
    }
    struct grad c = {.g = g, .at = g->root, .node = n, .dout = dout, .din = din, .wanted = wanted};
    s->op->grad(&c);
    for (int k = 0; k < nin; k++)
        if (din[k])
            add_output(g, din[k], numbered("dx", k));
    p.run = run_logical(m, ENTRY_TRAIN, w);
    for (int i = 0; i < nfeed; i++)
        run_input(p.run, feeds[i].name, feeds[i].data);
    loss(&p);
    double *got[MAX_OPERAND] = {0};
    for (int k = 0; k < nin; k++) {
        int64_t count;
        if (!din[k])
            continue;
        got[k] = run_output_tensor(p.run, numbered("dx", k), &count);
        if (count != value_count(n->in[k])) {
            fprintf(stderr, "gradient: %s (%s): operand %d: %s for %s\n", s->op->name, s->in, k,
                    value_type_text(din[k], NULL), value_type_text(n->in[k], NULL));
            return 1;
        }
    }
    for (int k = 0; k < nin; k++)
        for (int64_t i = 0; wanted[k] && n->in[k] && i < value_count(n->in[k]); i++) {
            const double h = 1e-5;
            double at = x[k][i];
            x[k][i] = at + h;
            double up = loss(&p);
            x[k][i] = at - h;
            double down = loss(&p);
            x[k][i] = at;
            double expected = (up - down) / (2 * h), value = got[k] ? got[k][i] : 0;
            if (!(fabs(expected - value) <= 1e-7 + 1e-6 * fabs(expected)) && failures++ < 3)
                fprintf(stderr, "gradient: %s (%s): operand %d entry %lld: %.9g, differences say %.9g\n", s->op->name,
                        s->in, k, (long long)i, value, expected);
        }
    run_release(p.run);
    return failures;
}

int gradient_all(const char *only)
{
    int failures = 0, count = 0;
    for (const struct instance *s = instances; s->op; s++) {
        if (!s->op->grad || s->no_gradient || (only && strcmp(only, s->op->name) != 0))
            continue;
        failures += check_instance(s) != 0;
        diag_print(stderr, false);
        count++;
        start_anew();
    }
    printf("gradient: %d nodes, %d failed\n", count, failures);
    return failures;
}
