/* Graphs built by hand, with layouts set by hand, through box, schedule and prove. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "op.h"
#include "passes.h"
#include "base/diag.h"
#include "prove/certificate.h"
#include "schedule/rolled.h"

enum { PP, DP, TP, MB };
static const struct sbp P = {.kind = SBP_P}, B = {.kind = SBP_B}, S0 = {.kind = SBP_S};

static struct module *module;
static struct graph *graph;
static struct dim *N;

static void begin(int pp, int dp, int tp, int mb)
{
    mem_release();
    diag_reset();
    module = NEW(struct module);
    module->options = NEW(struct options);
    module->options->verify = VERIFY_NEVER;          /* there is no text to make it smaller from */
    module->options->target = "cpu";
    struct plan *plan = module->plan = NEW(struct plan);
    const char *names[] = {"pp", "dp", "tp", "mb"};
    int sizes[] = {pp, dp, tp, mb};
    struct mesh *m = &plan->mesh;
    plan->name = "test";
    plan->microbatches = mb;
    plan->schedule = SCHEDULE_ONE_F_ONE_B;
    m->naxis = 4;
    m->mb = MB;
    m->pipe = PP;
    m->nranks = pp * dp * tp;
    for (int i = 0, stride = m->nranks; i < 4; i++) {
        stride /= i < MB ? sizes[i] : 1;
        m->axis[i] = (struct axis){.name = names[i], .size = sizes[i], .stride = i == MB ? 0 : stride, .time = i == MB};
    }
    graph = module->graph[ENTRY_TRAIN] = graph_new(module, ENTRY_TRAIN);
    N = dim_anonymous(16);
    N->name = "N";
}

static struct layout lay(struct sbp dp, struct sbp tp, struct sbp mb)
{
    return (struct layout){{[DP] = dp, [TP] = tp, [MB] = mb}};
}

/* A node with operands read in the layout they have; need can be changed afterwards. */
static struct node *make(struct region *at, const struct op *op, enum phase phase, int stage, const char *path,
                         struct layout l, int nin, ...)
{
    struct node *n = node_new(graph, at, op, (struct span){0});
    n->phase = phase;
    n->stage = stage;
    n->path = path;
    va_list args;
    va_start(args, nin);
    for (int k = 0; k < nin; k++) {
        struct value *v = va_arg(args, struct value *);
        node_in(n, v);
        arrput(n->need, v->lay);
    }
    va_end(args);
    if (!(op->flags & OP_EFFECT)) {
        struct value *v = node_out(graph, n, TYPE_F32, 1, &N);
        v->path = path;
        v->lay = l;
    }
    return n;
}

static struct node *sink(struct value *v, enum phase phase, int stage, struct layout need)
{
    struct node *n = make(graph->root, &op_store, phase, stage, "out", need, 1, v);      /* any effect */
    n->need[0] = need;
    return n;
}

static int found;
static const struct op *wanted;
static void count_op(struct node *n, void *context)
{
    (void)context;
    found += n->op == wanted;
}

static int count(int stage, enum phase phase, const struct op *op)
{
    found = 0;
    wanted = op;
    for (int chunk = 0; chunk < MAX_CHUNK; chunk++)
        if (module->physical->stages[stage].phase[ENTRY_TRAIN][phase][chunk])
            region_walk(module->physical->stages[stage].phase[ENTRY_TRAIN][phase][chunk], count_op, NULL);
    return found;
}

static void one_conversion_serves_all(void **state)
{
    begin(1, 2, 2, 1);
    struct layout partial = lay(B, P, B), full = lay(B, B, B), split = lay(B, S0, B);
    struct value *x = make(graph->root, &op_input, PHASE_FORWARD, 0, "x", full, 0)->out[0];
    struct value *y = make(graph->root, &op_relu, PHASE_FORWARD, 0, "y", partial, 1, x)->out[0];
    struct node *a = make(graph->root, &op_relu, PHASE_FORWARD, 0, "a", full, 1, y);
    struct node *c = make(graph->root, &op_relu, PHASE_FORWARD, 0, "c", split, 1, y);
    struct node *d = make(graph->root, &op_relu, PHASE_FORWARD, 0, "d", full, 1, y);
    a->need[0] = d->need[0] = full;
    c->need[0] = split;
    sink(a->out[0], PHASE_FORWARD, 0, full);
    sink(c->out[0], PHASE_FORWARD, 0, split);
    sink(d->out[0], PHASE_FORWARD, 0, full);
    box(module);
    assert_int_equal(count(0, PHASE_FORWARD, &op_box_all_reduce), 1);
    assert_int_equal(count(0, PHASE_FORWARD, &op_box_slice), 1);
    assert_int_equal(count(0, PHASE_FORWARD, &op_box_reduce_scatter), 0);
}

static void gradients_share_one_reduction(void **state)
{
    begin(1, 2, 2, 4);
    struct layout g = lay(P, B, P), both = lay(P, P, P), full = lay(B, B, B);
    struct value *x = make(graph->root, &op_input, PHASE_FORWARD, 0, "x", full, 0)->out[0];
    const struct layout *lays[] = {&g, &both, &g};
    for (int i = 0; i < 3; i++) {
        struct value *v = make(graph->root, &op_relu, PHASE_BACKWARD, 0, "g", *lays[i], 1, x)->out[0];
        struct node *u = make(graph->root, &op_relu, PHASE_UPDATE, 0, "u", full, 1, v);
        u->need[0] = full;
        sink(u->out[0], PHASE_UPDATE, 0, full);
    }
    box(module);
    assert_int_equal(count(0, PHASE_BACKWARD, &op_box_accumulate), 3);
    assert_int_equal(count(0, PHASE_UPDATE, &op_box_all_reduce), 2);     /* tp for one, then dp for all three */
    int dp = 0;
    struct region *r = module->physical->stages[0].phase[ENTRY_TRAIN][PHASE_UPDATE][0];
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->op == &op_box_all_reduce && node_int(r->nodes[i], "axes", 0) == 1 << DP) {
            dp++;
            assert_int_equal(arrlen(r->nodes[i]->in), 3);
        }
    assert_int_equal(dp, 1);
}

/* x -> repeat of four blocks over the virtual stages -> y, and back; the weight is used before and after */
static void pipeline_of(int ranks, int chunks, bool vee, int microbatches)
{
    begin(ranks, 1, 1, microbatches);
    module->plan->chunks = chunks;
    module->plan->vee = vee;
    if (chunks > 1)
        module->plan->schedule = SCHEDULE_INTERLEAVED;
    int stages = ranks * chunks;
    struct layout full = lay(B, B, B), rows = lay(B, B, S0), grad = lay(B, B, P);
    int last = stages - 1;
    struct param *param = NEW(struct param);
    param->path = "w";
    param->ndim = 1;
    param->dim[0] = N;
    arrput(module->params, param);
    struct node *w = make(graph->root, &op_param, PHASE_FORWARD, 0, "w", full, 0);
    node_set_ptr(w, "param", param);
    struct value *x = make(graph->root, &op_input, PHASE_FORWARD, 0, "x", rows, 0)->out[0];
    struct value *e = make(graph->root, &op_add, PHASE_FORWARD, 0, "e", rows, 2, x, w->out[0])->out[0];

    struct region *body = region_new(graph->root, 4);
    struct value *arg = value_new(graph, body, TYPE_F32, 1, &N);
    arg->path = "h[*]";
    arg->lay = rows;
    arrput(body->args, arg);
    for (int s = 0; s <= stages; s++)
        arrput(body->cut, 4 * s / stages);
    struct value *inner = make(body, &op_relu, PHASE_FORWARD, -1, "h[*].y", rows, 1, arg)->out[0];
    arrput(body->results, inner);
    struct node *forward = make(graph->root, &op_repeat, PHASE_FORWARD, -1, "h[*]", rows, 1, e);
    forward->body = body;
    body->owner = forward;

    struct value *y = make(graph->root, &op_add, PHASE_FORWARD, last, "y", rows, 2, forward->out[0], w->out[0])->out[0];
    struct value *dy = make(graph->root, &op_relu, PHASE_BACKWARD, last, "dy", rows, 1, y)->out[0];

    struct region *back = region_new(graph->root, 4);
    struct value *darg = value_new(graph, back, TYPE_F32, 1, &N);
    darg->path = "dh";
    darg->lay = rows;
    arrput(back->args, darg);
    back->mirror = body;
    back->reverse = true;
    arrput(back->results, make(back, &op_relu_grad, PHASE_BACKWARD, -1, "dh.y", rows, 2, darg, inner)->out[0]);
    struct node *backward = make(graph->root, &op_repeat, PHASE_BACKWARD, -1, "dh", rows, 1, dy);
    backward->body = back;
    back->owner = backward;

    struct value *dw_y = make(graph->root, &op_relu, PHASE_BACKWARD, last, "dw_y", grad, 1, dy)->out[0];
    struct value *dw_e = make(graph->root, &op_relu, PHASE_BACKWARD, 0, "dw_e", grad, 1, backward->out[0])->out[0];
    struct value *dw = make(graph->root, &op_add, PHASE_BACKWARD, 0, "dw", grad, 2, dw_y, dw_e)->out[0];
    struct node *sgd = make(graph->root, &op_sgd, PHASE_UPDATE, 0, "sgd", full, 2, w->out[0], dw);
    sgd->need[1] = full;
    make(graph->root, &op_store, PHASE_UPDATE, 0, "store", full, 2, w->out[0], sgd->out[0]);
    box(module);
}

static void pipeline(int stages, int microbatches)
{
    pipeline_of(stages, 1, false, microbatches);
    schedule(module);
}

static void stages_are_linked(void **state)
{
    pipeline(4, 8);
    struct physical *p = module->physical;
    assert_int_equal(arrlen(p->links), 6);       /* three forward, three backward */
    for (int s = 0; s < 4; s++) {
        assert_int_equal(count(s, PHASE_FORWARD, &op_repeat), 1);
        struct region *r = p->stages[s].phase[ENTRY_TRAIN][PHASE_FORWARD][0];
        assert_ptr_equal(r->nodes[0]->op, s ? &op_box_recv : r->nodes[0]->op);
        if (s < 3)
            assert_ptr_equal(arrlast(r->nodes)->op, &op_box_send);
        for (int i = 0; i < arrlen(r->nodes); i++)
            if (r->nodes[i]->body) {
                assert_int_equal(r->nodes[i]->body->count, 1);
                assert_int_equal(r->nodes[i]->body->first, s);
            }
        int edge = s == 0 || s == 3;             /* the weight is on the first and the last stage */
        assert_int_equal(count(s, PHASE_BACKWARD, &op_box_accumulate), edge);
        assert_int_equal(count(s, PHASE_UPDATE, &op_box_stage_reduce), edge);
        assert_int_equal(count(s, PHASE_UPDATE, &op_store), edge);
    }
}

static const struct node *repeat_of(int stage, enum phase phase, int chunk)
{
    struct region *r = module->physical->stages[stage].phase[ENTRY_TRAIN][phase][chunk];
    for (int i = 0; r && i < arrlen(r->nodes); i++)
        if (r->nodes[i]->body)
            return r->nodes[i];
    return NULL;
}

/* Blocks 0 and 2 on stage 0, 1 and 3 on stage 1: every step from block to block is a link. */
static void chunks_are_linked(void **state)
{
    pipeline_of(2, 2, false, 4);
    struct physical *p = module->physical;
    assert_int_equal(arrlen(p->links), 6);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p->links[i].from, i % 2);
        assert_int_equal(p->links[i].from_chunk, i / 2);
        assert_int_equal(p->links[i].to_chunk, (i + 1) / 2);
    }
    for (int s = 0; s < 2; s++) {
        for (int chunk = 0; chunk < 2; chunk++)
            assert_int_equal(repeat_of(s, PHASE_FORWARD, chunk)->body->first, 2 * chunk + s);
        assert_int_equal(count(s, PHASE_UPDATE, &op_box_stage_reduce), 1);     /* the weight is on both */
    }
    schedule(module);
    assert_true(certificate_make(p, ENTRY_TRAIN)->complete);
}

/* In a V the first and the last part are on one rank: the tied weight needs no link and no reduction over stages, and
 * what turns round on the last rank is read there as it is. */
static void chunks_in_a_vee(void **state)
{
    pipeline_of(2, 2, true, 4);
    struct physical *p = module->physical;
    assert_int_equal(arrlen(p->links), 4);
    assert_int_equal(repeat_of(0, PHASE_FORWARD, 1)->body->first, 3);
    const struct node *down = repeat_of(1, PHASE_FORWARD, 0), *up = repeat_of(1, PHASE_FORWARD, 1);
    assert_int_equal(up->body->first, 2);
    assert_ptr_equal(up->in[0], down->out[0]);
    assert_ptr_equal(repeat_of(1, PHASE_BACKWARD, 0)->in[0], repeat_of(1, PHASE_BACKWARD, 1)->out[0]);
    assert_int_equal(count(0, PHASE_BACKWARD, &op_box_accumulate), 2);         /* one for each use */
    assert_int_equal(count(0, PHASE_UPDATE, &op_add), 1);
    assert_int_equal(count(0, PHASE_UPDATE, &op_box_stage_reduce), 0);
    assert_int_equal(count(0, PHASE_UPDATE, &op_store), 1);
    assert_int_equal(count(1, PHASE_UPDATE, &op_store), 0);
}

static void order_is_certified(void **state)
{
    for (int m = 1; m <= 8; m *= 2)
        for (int stages = 1; stages <= 4; stages *= 2) {
            pipeline(stages, m);
            assert_true(certificate_make(module->physical, ENTRY_TRAIN)->complete);
            prove(module);
            assert_int_equal(diag_errors(), 0);
        }
}

/* A backward moved before its forward on another stage: a circle of waits, and every stage in it waits for the next. */
static void bad_order_is_rejected(void **state)
{
    pipeline(2, 4);
    struct physical *p = module->physical;
    struct firing order[8], f;
    int n = 0;
    for (struct rolled_walk w = {.of = &p->stages[0].order}; rolled_next(&w, &f);)
        order[n++] = f;
    assert_int_equal(n, 8);
    for (int i = 0; i + 1 < n; i++)
        if (order[i].phase == PHASE_FORWARD && order[i + 1].phase == PHASE_BACKWARD) {
            f = order[i];                        /* F1 B0 becomes B0 F1: still fine; then B0 before F0 */
            order[i] = order[i + 1];
            order[i + 1] = f;
            break;
        }
    p->stages[0].order = rolled_make(order, n);
    assert_true(certificate_make(p, ENTRY_TRAIN)->complete);
    f = order[0];
    order[0] = order[1];
    order[1] = f;
    p->stages[0].order = rolled_make(order, n);
    struct certificate *c = certificate_make(p, ENTRY_TRAIN);
    assert_false(c->complete);
    assert_int_equal(arrlen(c->cycle), 2);
    prove(module);
    assert_int_equal(diag_errors(), 1);
}

static void lost_send_is_rejected(void **state)
{
    pipeline(2, 4);
    struct region *r = module->physical->stages[0].phase[ENTRY_TRAIN][PHASE_FORWARD][0];
    assert_ptr_equal(arrlast(r->nodes)->op, &op_box_send);
    (void)arrpop(r->nodes);
    assert_false(certificate_make(module->physical, ENTRY_TRAIN)->complete);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_conversion_serves_all), cmocka_unit_test(gradients_share_one_reduction),
        cmocka_unit_test(stages_are_linked), cmocka_unit_test(chunks_are_linked), cmocka_unit_test(chunks_in_a_vee),
        cmocka_unit_test(order_is_certified),
        cmocka_unit_test(bad_order_is_rejected), cmocka_unit_test(lost_send_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
