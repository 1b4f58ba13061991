/* plan.json: the plan for scripts and checkers: mesh, classes with their memory and rolled order, communicators, links.
 */
#include "../schedule/dump.h"
#include "emitter.h"
#include <jansson.h>

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
        json_array_append_new(classes, json_pack("{s:i, s:I, s:I, s:o, s:o}", "stage", s, "arena_bytes",
                                                 (json_int_t)st->arena_bytes, "live_bytes", (json_int_t)st->live_bytes,
                                                 "bytes", memory, "order",
                                                 order_json(&st->order)));
    }
    for (int i = 0; i < arrlen(p->comms); i++)
        json_array_append_new(comms, json_pack("{s:s, s:i}", "name", p->comms[i].name, "axes", (int)p->comms[i].axes));
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        json_array_append_new(links, json_pack("{s:s, s:i, s:i, s:s, s:i, s:i}", "tensor", l->what ? l->what : "",
                                               "from", l->from, "to", l->to, "phase", phase_name[l->phase],
                                               "from_chunk", l->from_chunk, "to_chunk", l->to_chunk));
    }
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:f}", "program", m->options->file, "plan",
                            m->plan->name, "target", m->options->target, "ranks", p->mesh->nranks, "mesh", axes,
                            "classes", classes, "communicators", comms, "links", links, "bubble", p->bubble);
    if (all && m->options->spoil)
        json_object_set_new(all, "spoilt", json_string(m->options->spoil));
    if (!all)
        BUG("plan.json cannot be built");
    json_dumpf(all, to, JSON_INDENT(1));
    fputc('\n', to);
    json_decref(all);
}
