/* check_gradient FILE.flow COUNT [NAME=VALUE]...: the whole training step against central differences of the loss. COUNT
 * parameters must be trained.
 *
 * The program is elaborated, differentiated and rewritten, then run in float64 on random inputs and weights. AdamW's
 * first moment after one step from zero is (1 - beta1) times the gradient, and the momentum of sgd is the gradient, so
 * they show what reached each parameter. The program must neither clip nor decay. Inputs of integers are drawn from
 * 0 .. 4, or are the ignore value. */
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include "../../runtime/fl_random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t draws;

static double uniform(void)
{
    return fl_uniform(fl_key(7, 1), 0, 0, draws++);
}

static double symmetric(void)
{
    return 2 * uniform() - 1;
}

static void feed(struct run *r, const struct graph *g, double **data)
{
    for (int i = 0, k = 0; i < arrlen(g->root->nodes); i++) {
        const struct node *n = g->root->nodes[i];
        if (n->op != &op_input)
            continue;
        const struct value *v = n->out[0];
        int64_t count = value_count(v);
        if (!data[k]) {
            data[k] = NEW_ARRAY(double, count);
            for (int64_t e = 0; e < count; e++) {
                data[k][e] = v->type == TYPE_I32 ? floor(5 * uniform()) : v->type == TYPE_BOOL ? uniform() < 0.7
                                                                                               : symmetric();
                if (v->has_ignore && e % 3 == 1)
                    data[k][e] = v->ignore;
            }
        }
        run_input(r, v->path, data[k++]);
    }
}

static double loss_of(struct module *m, const struct weights *w, double **data, struct weights *after)
{
    struct run *r = run_logical(m, ENTRY_TRAIN, w);
    feed(r, m->graph[ENTRY_TRAIN], data);
    run_step(r, 0);
    double loss = run_output(r, "loss");
    if (after)
        run_weights(r, after);
    run_release(r);
    return loss;
}

static struct param *find(const struct module *m, const char *path)
{
    for (int i = 0; i < arrlen(m->params); i++)
        if (!strcmp(m->params[i]->path, path))
            return m->params[i];
    return NULL;
}

/* Up to eight elements of a parameter, spread over its blocks. */
static int check_param(struct module *m, struct param *p, struct weights *w, const struct weights *after, double **data)
{
    struct param *moment = find(m, mem_printf("%s#m", p->path));
    if (!moment)
        return 0;
    int64_t count = weights_count(p), step = count / 8 + 1;
    double share = m->train.optimizer == &op_adamw ? 1 - m->train.beta1 : 1;
    int bad = 0;
    for (int64_t i = step / 2; i < count; i += step) {
        double *x = &weights_get(w, p)[i], kept = *x, h = 1e-5;
        *x = kept + h;
        double up = loss_of(m, w, data, NULL);
        *x = kept - h;
        double down = loss_of(m, w, data, NULL);
        *x = kept;
        double expected = (up - down) / (2 * h), got = weights_get(after, moment)[i] / share;
        if (fabs(got - expected) <= 1e-6 * (1 + fabs(expected)) && isfinite(got))
            continue;
        printf("%s[%lld]: gradient %.9g, central difference %.9g\n", p->path, (long long)i, got, expected);
        bad++;
    }
    return bad;
}

static int check(struct module *m, int expected)
{
    if (diag_errors() || !passes_run(m, elaborate, rewrite))
        return 1;
    if (m->train.clip > 0) {
        printf("the program clips\n");
        return 1;
    }
    struct weights *w = weights_new(m, 3), *after = weights_copy(w);
    for (int i = 0; i < hmlen(w->map); i++)
        for (int64_t k = 0; !w->map[i].key->is_state && k < weights_count(w->map[i].key); k++)
            w->map[i].value[k] += 0.5 * symmetric();
    double *data[16] = {0}, loss = loss_of(m, w, data, after);
    int bad = 0, checked = 0, count = (int)arrlen(m->params);
    for (int i = 0; i < count; i++)
        if (!m->params[i]->is_state) {
            bad += check_param(m, m->params[i], w, after, data);
            checked += find(m, mem_printf("%s#m", m->params[i]->path)) != NULL;
        }
    printf("loss %.9g, %d of %d parameters trained, %d wrong\n", loss, checked, count, bad);
    if (checked != expected)
        printf("%d parameters should be trained\n", expected);
    return bad || checked != expected || !isfinite(loss);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct options o = {.file = argv[1], .target = "cpu", .check = true};
    for (int i = 3; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            return 2;
        *value++ = 0;
        arrsetlen(o.set, arrlen(o.set) + 1);
        memset(&arrlast(o.set), 0, sizeof arrlast(o.set));
        arrlast(o.set).name = argv[i];
        arrlast(o.set).value = value;
    }
    struct module *m = NEW(struct module);
    m->options = &o;
    int file = source_open(o.file);
    if (!file)
        return 2;
    arrput(m->programs, parse(file));
    int status = diag_errors() ? 1 : check(m, atoi(argv[2]));
    diag_print(stderr, false);
    mem_release();
    return status;
}
