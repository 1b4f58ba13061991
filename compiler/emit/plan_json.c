/* plan.json: the plan for scripts and checkers: mesh, classes with their memory, what each of their phases does that
 * concerns other ranks, and the rolled order of a step; communicators, links with slots. A post starts a collective in one
 * micro-batch (-1: in each), for as many pieces as it has times; what waits for its number stands in update, or, of one in
 * each, in that phase. A step of train is: phase count
 * for every micro-batch, setup, the firings of the order, update; of the other entries: count for every micro-batch, setup,
 * forward chunk by chunk for every micro-batch, update. */
#include "../box/post.h"
#include "../op.h"
#include "../schedule/dump.h"
#include "emitter.h"
#include <jansson.h>

/* What a phase does that concerns other ranks, in its order: a message, a collective within the stage (so many times, one
 * after the other), a reduction over stages. */
struct acts { const struct physical *p; json_t *list; };

/* The numbers of its posts, each once. */
static json_t *waits_json(const struct node *n)
{
    const int64_t *posted = node_ints(n, "posted");
    json_t *list = json_array();
    int64_t most = -1;
    for (int k = 0; k < arrlen(posted); k++)
        most = posted[k] > most ? posted[k] : most;
    for (int64_t number = 0; number <= most; number++)
        for (int k = 0; k < arrlen(posted); k++)
            if (posted[k] == number) {
                json_array_append_new(list, json_integer(number));
                break;
            }
    return list;
}

static void add_act(struct node *n, void *context)
{
    struct acts *a = context;
    int comm = (int)node_int(n, "comm", -1);
    if (n->op == &op_box_post) {
        json_array_append_new(a->list, json_pack("{s:s, s:i, s:i, s:i, s:I}", "act", "post", "number",
                                                 (int)node_int(n, "number", 0), "communicator",
                                                 (int)node_int(node_ptr(n, "of"), "comm", -1), "microbatch",
                                                 post_each(n) ? -1 : a->p->mesh->axis[a->p->mesh->mb].size - 1, "times", (json_int_t)post_times(n)));
    } else if (n->op == &op_box_recv || n->op == &op_box_send) {
        json_array_append_new(a->list, json_pack("{s:s, s:i}", "act", n->op == &op_box_recv ? "receive" : "send", "link",
                                                 (int)node_int(n, "link", 0)));
    } else if (comm >= 0 && n->op == &op_box_stage_reduce) {
        json_t *tensors = json_array();
        for (int k = 0; k < arrlen(n->out); k++)
            json_array_append_new(tensors, json_string(n->out[k]->path ? n->out[k]->path : ""));
        json_array_append_new(a->list, json_pack("{s:s, s:i, s:o}", "act", "meet", "communicator", comm, "tensors",
                                                 tensors));
    } else if (comm >= 0) {
        json_t *act = json_pack("{s:s, s:s, s:i, s:I}", "act", "collective", "op", n->op->name, "communicator", comm, "times",
                                (json_int_t)region_blocks(n->region));
        if (node_attr(n, "posted"))
            json_object_set_new(act, "waits", waits_json(n));
        json_array_append_new(a->list, act);
    }
}

static json_t *phases_json(const struct physical *p, const struct stage *s)
{
    json_t *phases = json_array();
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++) {
            struct acts a = {p, json_array()};
            region_walk(roots[i].region, add_act, &a);
            json_array_append_new(phases, json_pack("{s:s, s:s, s:i, s:o}", "entry", entry_name[e], "phase",
                                                    phase_name[roots[i].phase], "chunk", roots[i].chunk, "acts", a.list));
        }
    }
    return phases;
}

static json_t *comm_json(const struct physical *p, const struct comm *c)
{
    json_t *stages = json_array(), *axes = json_array();
    for (int i = 0; i < arrlen(c->stages); i++)
        json_array_append_new(stages, json_integer(c->stages[i]));
    for (int a = 0; a < p->mesh->naxis; a++)
        if (c->axes >> a & 1)
            json_array_append_new(axes, json_string(p->mesh->axis[a].name));
    return json_pack("{s:s, s:o, s:o}", "name", c->name, "axes", axes, "stages", stages);
}

void emit_plan_json(struct module *m, FILE *to)
{
    const struct physical *p = m->physical;
    json_t *axes = json_array(), *classes = json_array(), *comms = json_array(), *links = json_array();
    for (int a = 0; a < p->mesh->naxis; a++)
        json_array_append_new(axes, json_pack("{s:s, s:i, s:b}", "name", p->mesh->axis[a].name, "size",
                                              p->mesh->axis[a].size, "time", p->mesh->axis[a].time));
    for (int s = 0; s < p->nstage; s++) {
        const struct stage *st = &p->stages[s];
        json_t *memory = json_object();
        for (int c = 0; c < MEM_CLASSES; c++)
            json_object_set_new(memory, memory_class_name[c], json_integer(st->bytes[c]));
        json_array_append_new(classes, json_pack("{s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:o}", "stage", s, "chunks", st->nchunk,
                                                 "arena_bytes",
                                                 (json_int_t)st->arena_bytes, "live_bytes", (json_int_t)st->live_bytes, "host_bytes",
                                                 (json_int_t)st->host_bytes,
                                                 "bytes", memory, "phases", phases_json(p, st), "order",
                                                 order_json(&st->order)));
    }
    for (int i = 0; i < arrlen(p->comms); i++)
        json_array_append_new(comms, comm_json(p, &p->comms[i]));
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        json_array_append_new(links, json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:i, s:i, s:i}", "tensor",
                                               l->what ? l->what : "", "entry", entry_name[l->entry], "from", l->from,
                                               "to", l->to, "phase", phase_name[l->phase], "from_chunk", l->from_chunk,
                                               "to_chunk", l->to_chunk, "slots_sent", l->slots_sent, "slots_received",
                                               l->slots_received));
    }
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:f}", "program", m->options->file,
                            "plan", m->plan->name, "target", m->options->target, "ranks", p->mesh->nranks, "pipeline",
                            p->nstage > 1 ? p->mesh->axis[p->mesh->pipe].name : "", "microbatches",
                            (int)m->plan->microbatches, "comm_streams", comm_streams(p), "mesh", axes,
                            "classes", classes, "communicators", comms, "links", links, "bubble", p->bubble);
    if (all && m->options->spoil)
        json_object_set_new(all, "spoilt", json_string(m->options->spoil));
    if (!all)
        BUG("plan.json cannot be built");
    json_dumpf(all, to, JSON_INDENT(1));
    fputc('\n', to);
    json_decref(all);
}
