/* --emit=prove: what was proved. The order certificate of every entry: what each stage waits for and lets go in a step, by
 * communicator and link, and that all of it runs to its end (a plan that can hang is refused, with its circle, before
 * this is printed); then how all ranks were compared with one. */
#include "../box/post.h"
#include "../module.h"
#include "../op.h"
#include "../passes.h"
#include "../target.h"
#include "certificate.h"
#include "verify.h"
#include <jansson.h>
#include <string.h>

/* What the events of a stage move over a link or meet over a communicator, in the order in which it first comes. */
struct traffic { int link, comm; bool receives; int64_t times; };

static struct traffic *traffic_collect(const struct physical *p, enum entry entry, int stage, int64_t *events)
{
    struct traffic *list = NULL;
    struct event_walk w;
    event_start(&w, p, entry, stage, &p->stages[stage].order, (int)p->module->plan->microbatches);
    for (; !w.done; event_next(&w)) {
        const struct event *e = &w.now;
        bool receives = e->kind == EVENT_WAIT_RECV;
        if (!receives && e->kind != EVENT_POST_SEND && e->kind != EVENT_MEET)
            continue;            /* the other end of a message that is counted */
        int k = 0;
        while (k < arrlen(list) && (list[k].link != e->link || list[k].comm != e->comm || list[k].receives != receives))
            k++;
        if (k == arrlen(list))
            arrput(list, ((struct traffic){e->link, e->comm, receives, 0}));
        list[k].times++;
    }
    *events = w.passed;
    return list;
}

static const char *traffic_kind(const struct traffic *t)
{
    return t->comm >= 0 ? "meets" : t->receives ? "receives" : "sends";
}

static json_t *traffic_json(const struct physical *p, const struct traffic *t)
{
    json_t *j = json_pack("{s:s, s:I}", "kind", traffic_kind(t), "times", (json_int_t)t->times);
    if (t->comm >= 0) {
        json_object_set_new(j, "communicator", json_string(p->comms[t->comm].name));
        return j;
    }
    const struct link *l = &p->links[t->link];
    json_object_set_new(j, "value", json_string(l->what));
    json_object_set_new(j, "stage", json_integer(t->receives ? l->from : l->to));
    json_object_set_new(j, "slots", json_integer(t->receives ? l->slots_received : l->slots_sent));
    return j;
}

static void traffic_print(FILE *to, const struct physical *p, const struct traffic *t)
{
    const struct link *l = t->comm >= 0 ? NULL : &p->links[t->link];
    fprintf(to, "    %-8s %6lld times  ", traffic_kind(t), (long long)t->times);
    if (l)
        fprintf(to, "%s %s stage %d, slots %d\n", l->what, t->receives ? "from" : "to", t->receives ? l->from : l->to,
                t->receives ? l->slots_received : l->slots_sent);
    else
        fprintf(to, "over %s\n", p->comms[t->comm].name);
}

static json_t *entry_json(const struct physical *p, const struct certificate *c, enum entry entry)
{
    json_t *stages = json_array();
    for (int s = 0; s < p->nstage; s++) {
        json_t *list = json_array();
        int64_t events;
        struct traffic *traffic = traffic_collect(p, entry, s, &events);
        for (int i = 0; i < arrlen(traffic); i++)
            json_array_append_new(list, traffic_json(p, &traffic[i]));
        json_array_append_new(stages, json_pack("{s:i, s:I, s:o}", "stage", s, "events",
                                                (json_int_t)events, "traffic", list));
    }
    return json_pack("{s:s, s:b, s:o}", "entry", entry_name[entry], "complete", c->complete, "stages", stages);
}

static void entry_print(FILE *to, const struct physical *p, const struct certificate *c, enum entry entry)
{
    fprintf(to, "entry %s: %s\n", entry_name[entry], c->complete ? "every stage runs to its end" : "can hang");
    for (int s = 0; s < p->nstage; s++) {
        int64_t events;
        struct traffic *traffic = traffic_collect(p, entry, s, &events);
        fprintf(to, "  stage %d: %lld events\n", s, (long long)events);
        for (int i = 0; i < arrlen(traffic); i++)
            traffic_print(to, p, &traffic[i]);
        struct node **posts = entry == ENTRY_TRAIN ? stage_posts(&p->stages[s]) : NULL;
        for (int i = 0; i < arrlen(posts); i++)
            fprintf(to, "    posts    %6lld times  over %s in %s of %s\n", (long long)post_times(posts[i]), node_str(posts[i], "over"),
                    phase_name[posts[i]->phase], post_each(posts[i]) ? "each micro-batch, waited for there"
                    : mem_printf("micro-batch %d, waited for in update", p->mesh->axis[p->mesh->mb].size - 1));
        int comms = comm_streams(p) * COMM_BLOCKS, links = stage_links(p, s) * LINK_BLOCKS;
        if (entry == ENTRY_TRAIN && target_of(p->module)->resident)
            fprintf(to, "    under way at once: %d of %d blocks (collectives on %d streams, %d links)\n", comms + links,
                    DEVICE_BLOCKS, comm_streams(p), stage_links(p, s));
    }
}

static void dump_json(FILE *to, const struct module *m)
{
    const struct verdict *v = m->verdict;
    json_t *entries = json_array();
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            json_array_append_new(entries, entry_json(m->physical, certificate_make(m->physical, (enum entry)e),
                                                      (enum entry)e));
    json_t *verify = json_pack("{s:b}", "compared", v && v->looked);
    if (v && v->looked) {
        json_object_set_new(verify, "equal", json_boolean(v->equal));
        json_object_set_new(verify, "sizes", json_string(v->sizes));
        json_object_set_new(verify, "mesh", json_string(v->mesh));
    } else {
        json_object_set_new(verify, "why_not", json_string(v ? v->why_not : "--no-verify"));
    }
    json_t *all = json_pack("{s:s, s:o, s:o}", "plan", m->plan->name, "entries", entries, "verify", verify);
    json_dumpf(all, to, JSON_INDENT(2));
    fputc('\n', to);
    json_decref(all);
}

void proof_dump(FILE *to, struct module *m, bool json)
{
    const struct verdict *v = m->verdict;
    if (json) {
        dump_json(to, m);
        return;
    }
    fprintf(to, "plan %s: what a stage waits for in a step, with nothing buffered but the slots of links\n", m->plan->name);
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            entry_print(to, m->physical, certificate_make(m->physical, (enum entry)e), (enum entry)e);
    if (v && v->looked)
        fprintf(to, "all ranks %s what one does: %s; %s\n", v->equal ? "compute" : "do not compute", v->sizes, v->mesh);
    else
        fprintf(to, "all ranks were not compared with one: %s\n", v ? v->why_not : "--no-verify");
}
