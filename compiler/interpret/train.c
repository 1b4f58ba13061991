/* Training in float64: the reader's positions and the report of each step. */
#include "interpret.h"

/* Elements of the model input of this name; the graph's input nodes know. */
struct size_of { const char *name; int64_t count; };

static void find_input(struct node *n, void *context)
{
    struct size_of *s = context;
    if (n->op == &op_input && intern(node_str(n, "name")) == intern(s->name))
        s->count = value_count(n->out[0]);
}

void run_train(struct run *r, const struct module *m, const double *tokens, int64_t ntoken, int64_t steps,
               void (*report)(void *context, const struct train_report *t), void *context)
{
    const struct data_binding *d = NULL;
    for (int i = 0; i < arrlen(m->train.data) && !d; i++)
        if (m->train.data[i].ninput == 2)
            d = &m->train.data[i];
    if (!d)
        BUG("no next_token binding to train on");
    struct size_of size = {.name = d->inputs[0]};
    region_walk(m->graph[ENTRY_TRAIN]->root, find_input, &size);
    int64_t batch = size.count, in_epoch = batch ? (ntoken - 1) / batch : 0;
    if (in_epoch < 1)
        BUG("%lld tokens do not fill one step of %lld", (long long)ntoken, (long long)batch);
    for (int64_t k = 0; k < steps; k++) {
        const double *p = tokens + k % in_epoch * batch;
        run_input(r, d->inputs[0], p);
        run_input(r, d->inputs[1], p + 1);
        run_step(r, k);
        struct train_report t = {k, run_output(r, "loss"), run_output(r, "grad_norm"), train_lr(&m->train, k)};
        if (report)
            report(context, &t);
    }
}
