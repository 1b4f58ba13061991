/* --emit=memory: what each stage's ranks hold, class by class, and every buffer with its place and source line. */
#include "../../runtime/fl_defaults.h"
#include "../passes.h"
#include "../schedule/rolled.h"
#include "outside.h"
#include <jansson.h>
#include <stdlib.h>

static int by_offset(const void *a, const void *b)
{
    const struct buffer *x = *(struct buffer *const *)a, *y = *(struct buffer *const *)b;
    if (x->host != y->host)
        return x->host - y->host;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1) : x->id - y->id;
}

static struct buffer **sorted(const struct stage *s)
{
    struct buffer **list = NULL;
    for (int i = 0; i < arrlen(s->buffers); i++)
        if (s->buffers[i]->bytes || s->buffers[i]->member)
            arrput(list, s->buffers[i]);
    if (list)
        qsort(list, (size_t)arrlen(list), sizeof *list, by_offset);
    return list;
}

/* The tensor's path; where a stage has several chunks also which blocks: each has buffers of its own. */
static const char *tensor_text(const struct stage *s, const struct buffer *b)
{
    if (b->scratch)
        return b->name;
    const struct region *r = b->values[0]->region;
    while (region_depth(r) > 1)
        r = r->parent;
    if (s->nchunk == 1 || !r->parent)
        return b->name;
    return mem_printf("%s [%lld..%lld]", b->name, (long long)r->first, (long long)(r->first + r->count));
}

/* Micro-batches of a chunk whose saved activations a stage holds at once: why the first stage needs more than the last. */
static int in_flight(const struct stage *s, int chunk, bool splits)
{
    int back = schedule_slots(s, PHASE_FORWARD, chunk, PHASE_BACKWARD, chunk);
    int weight = splits ? schedule_slots(s, PHASE_FORWARD, chunk, PHASE_WEIGHT, chunk) : 0;
    return back > weight ? back : weight;
}

/* All chunks together: they share slots where they do not keep most at the same moment. */
static int in_flight_all(const struct module *m, const struct stage *s)
{
    const struct physical *p = m->physical;
    return rolled_kept(&s->order, p->nstage, p->mesh->axis[p->mesh->mb].size, s->nchunk, m->plan->split_backward);
}

static void dump_in_flight(FILE *to, const struct module *m, const struct stage *s, bool splits)
{
    int all = in_flight_all(m, s), apart = 0;
    fprintf(to, "    %-20s %14d  (micro-batches between their forward and backward", "in flight", all);
    for (int c = 0; c < s->nchunk && s->nchunk > 1; c++) {
        int here = in_flight(s, c, splits);
        fprintf(to, "%s %d of chunk %d", c ? "," : ":", here, c);
        apart += here;
    }
    fputs(apart > all ? ", not all at once)\n" : ")\n", to);
}

/* What --save may take beside all this while the disk is busy: no rank copies more than all tensors of a checkpoint. */
static int64_t saving(const struct module *m)
{
    double bytes = 0;
    for (int i = 0; i < arrlen(m->params); i++) {
        double one = type_bytes[m->params[i]->type];
        for (int d = 0; d < m->params[i]->ndim; d++)
            one *= (double)m->params[i]->dim[d]->size;
        for (int k = 0; k < arrlen(m->params[i]->stack); k++)
            one *= (double)m->params[i]->stack[k];
        bytes += one;
    }
    return bytes < (double)FL_SAVE_MEMORY ? (int64_t)bytes : FL_SAVE_MEMORY;
}

static void dump_text(FILE *to, const struct module *m, const struct stage *s, bool splits)
{
    fprintf(to, "stage %d: %lld bytes per rank\n", s->index,
            (long long)(s->arena_bytes + outside_bytes(s)));
    for (int c = 0; c < MEM_CLASSES; c++)
        if (s->bytes[c])
            fprintf(to, "    %-20s %14lld\n", memory_class_name[c], (long long)s->bytes[c]);
    fprintf(to, "    %-20s %14lld\n    %-20s %14lld  (%.2f %% above it is lost to fragmentation)\n", "arena",
            (long long)s->arena_bytes, "live lower bound", (long long)s->live_bytes,
            s->live_bytes ? 100.0 * (double)(s->arena_bytes - s->live_bytes) / (double)s->live_bytes : 0.0);
    if (s->order.beats)
        dump_in_flight(to, m, s, splits);
    if (s->host_bytes)
        fprintf(to, "    %-20s %14lld  (pinned, beside the device)\n", "host memory", (long long)s->host_bytes);
    if (s->link_bytes)
        fprintf(to, "    %-20s %14lld  (outside the arena)\n", "slots of links", (long long)s->link_bytes);
    if (s->packing_bytes)
        fprintf(to, "    %-20s %14lld  (outside the arena)\n", "packing", (long long)s->packing_bytes);
    if (s->meeting_bytes)
        fprintf(to, "    %-20s %14lld  (beside all this: its part of what the ranks of a host share)\n",
                "meeting places", (long long)s->meeting_bytes);
    if (m->train.present)
        fprintf(to, "    %-20s %14lld  (with --save, at most: host memory that waits for the disk; see --save-memory)\n", "saving",
                (long long)saving(m));
    fprintf(to, "    %12s %12s %7s %6s %11s  %-18s %-24s %s\n", "offset", "bytes", "blocks", "slots", "points", "class",
            "source", "tensor");
    struct buffer **list = sorted(s);
    for (int i = 0; i < arrlen(list); i++) {
        const struct buffer *b = list[i];
        fprintf(to, "    %12lld %12lld %7lld %6d %5d-%-5d  %-18s %-24s %s\n", (long long)b->offset, (long long)b->bytes,
                (long long)b->blocks, b->slots, b->first, b->last, memory_class_name[b->class],
                b->span.file ? span_where(b->span) : "-", tensor_text(s, b));
    }
}

static json_t *stage_json(const struct module *m, const struct stage *s)
{
    json_t *classes = json_object(), *buffers = json_array();
    for (int c = 0; c < MEM_CLASSES; c++)
        json_object_set_new(classes, memory_class_name[c], json_integer(s->bytes[c]));
    struct buffer **list = sorted(s);
    for (int i = 0; i < arrlen(list); i++) {
        const struct buffer *b = list[i];
        json_array_append_new(buffers, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i}", "tensor", tensor_text(s, b),
                                                 "class", memory_class_name[b->class], "where",
                                                 b->span.file ? span_where(b->span) : "", "offset",
                                                 (json_int_t)b->offset, "bytes", (json_int_t)b->bytes, "blocks",
                                                 (json_int_t)b->blocks, "slots", b->slots, "first", b->first, "last",
                                                 b->last));
    }
    return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "stage", s->index, "in_flight",
                     s->order.beats ? in_flight_all(m, s) : 0, "arena_bytes",
                     (json_int_t)s->arena_bytes, "live_bytes", (json_int_t)s->live_bytes, "host_bytes",
                     (json_int_t)s->host_bytes, "link_bytes",
                     (json_int_t)s->link_bytes, "packing_bytes", (json_int_t)s->packing_bytes, "meeting_bytes",
                     (json_int_t)s->meeting_bytes, "bytes", classes,
                     "buffers", buffers);
}

void memory_dump(FILE *to, struct module *m, bool json)
{
    struct physical *p = m->physical;
    json_t *stages = json_array();
    for (int i = 0; i < p->nstage; i++) {
        if (json)
            json_array_append_new(stages, stage_json(m, &p->stages[i]));
        else
            dump_text(to, m, &p->stages[i], m->plan->split_backward);
    }
    json_t *all = json_pack("{s:s, s:I, s:o}", "plan", m->plan->name, "saving_bytes", (json_int_t)saving(m), "stages", stages);
    if (json) {
        json_dumpf(all, to, JSON_INDENT(1));
        fputc('\n', to);
    }
    json_decref(all);
}
