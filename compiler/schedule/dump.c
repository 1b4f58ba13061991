/* --emit=schedule: per stage the order, its loops, slots and the bubble, and the timeline as text; last what the other
 * schedules would do. */
#include "dump.h"
#include "../box/post.h"
#include "../op.h"
#include "../passes.h"
#include "policy.h"
#include "rolled.h"
#include <string.h>

static char letter(enum phase p)
{
    return p == PHASE_FORWARD ? 'F' : p == PHASE_BACKWARD ? 'B' : 'W';
}

/* "F3"; "F3.1" on chunk 1 */
static const char *firing_text(const struct firing *f)
{
    return f->chunk ? mem_printf("%c%d.%d", letter(f->phase), f->microbatch, f->chunk)
                    : mem_printf("%c%d", letter(f->phase), f->microbatch);
}

/* "F0 F1 (B0 F2) x 6 B6 B7". In each turn of a loop a firing's micro-batch goes on by one, or as said: "B0+2" by two,
 * "B0+1+4" by one in its loop and by four in that around it. */
static void print_beat(FILE *to, const struct beat *b, bool in_roll, bool in_lap)
{
    fputs(firing_text(&b->what), to);
    if (in_roll && (b->step != 1 || in_lap))
        fprintf(to, "%+d", b->step);
    if (in_lap && (b->lap_step != 1 || in_roll))
        fprintf(to, "%+d", b->lap_step);
}

static void print_order(FILE *to, const struct rolled *o)
{
    for (int l = 0; l < arrlen(o->laps); l++) {
        const struct roll *lap = &o->laps[l];
        fputs(lap->times > 1 ? " (" : "", to);
        for (int i = lap->start; i < lap->start + lap->len; i++) {
            const struct roll *r = &o->rolls[i];
            fputs(lap->times > 1 && i == lap->start ? "" : " ", to);
            fputs(r->times > 1 ? "(" : "", to);
            for (int k = 0; k < r->len; k++) {
                fputs(k ? " " : "", to);
                print_beat(to, &o->beats[r->start + k], r->times > 1, lap->times > 1);
            }
            if (r->times > 1)
                fprintf(to, ") x %d", r->times);
        }
        if (lap->times > 1)
            fprintf(to, ") x %d", lap->times);
    }
    fputc('\n', to);
}

/* A row per stage, a column per unit time. A cell is as wide as the largest firing; a firing of two units fills two cells.
 * Cut after `columns` characters. Of a long schedule the sample shows the beginning as it is. */
static void draw_timeline(FILE *to, const struct timetable *t, int chunks, int microbatches, int columns)
{
    const struct actors *a = t->sample;
    int width = snprintf(NULL, 0, chunks > 1 ? "F%d.1" : "F%d", microbatches - 1), cells = columns / width;
    bool cut = t->makespan > cells;
    cells = a->makespan < cells ? a->makespan : cells;
    for (int s = 0; s < a->stages; s++) {
        char *row = NEW_ARRAY(char, cells * width + 1);
        memset(row, '.', (size_t)(cells * width));
        for (int i = 0; i < a->count[s]; i++) {
            const struct fired *f = &a->order[s][i];
            int stop = f->start + f->time;
            for (int at = f->start; at < stop && at < cells; at++) {
                memset(row + at * width, at == f->start ? ' ' : '-', (size_t)width);
                if (at > f->start)
                    continue;
                const char *cell = firing_text(&f->what);
                memcpy(row + at * width, cell, strlen(cell));
                if (stop - f->start > 1)
                    memset(row + at * width + strlen(cell), '-', (size_t)width - strlen(cell));
            }
        }
        fprintf(to, "  %3d |%s%s\n", s, row, cut ? " .." : "|");
    }
}

/* "4 slots F to B, 4 F to W" */
static void print_slots(FILE *to, const struct stage *s, int chunks, bool splits)
{
    for (int c = 0; c < chunks; c++) {
        const char *chunk = chunks > 1 ? mem_printf(" of chunk %d", c) : "", *between = c ? "; " : "";
        int back = schedule_slots(s, PHASE_FORWARD, c, PHASE_BACKWARD, c);
        fprintf(to, "%sslots%s: F to B %d", between, chunk, back);
        if (splits)
            fprintf(to, ", F to W %d, B to W %d", schedule_slots(s, PHASE_FORWARD, c, PHASE_WEIGHT, c),
                    schedule_slots(s, PHASE_BACKWARD, c, PHASE_WEIGHT, c));
    }
}

static json_t *roll_json(const struct rolled *o, const struct roll *roll)
{
    json_t *beats = json_array();
    for (int k = roll->start; k < roll->start + roll->len; k++) {
        const struct beat *b = &o->beats[k];
        json_array_append_new(beats, json_pack("{s:s, s:i, s:i, s:i, s:i}", "phase", phase_name[b->what.phase], "chunk",
                                               b->what.chunk, "microbatch", b->what.microbatch, "step", b->step,
                                               "lap_step", b->lap_step));
    }
    return json_pack("{s:i, s:o}", "times", roll->times, "firings", beats);
}

json_t *order_json(const struct rolled *o)
{
    json_t *laps = json_array();
    for (int l = 0; l < arrlen(o->laps); l++) {
        json_t *rolls = json_array();
        for (int r = o->laps[l].start; r < o->laps[l].start + o->laps[l].len; r++)
            json_array_append_new(rolls, roll_json(o, &o->rolls[r]));
        json_array_append_new(laps, json_pack("{s:i, s:o}", "times", o->laps[l].times, "rolls", rolls));
    }
    return laps;
}

static json_t *posts_json(const struct physical *p, const struct stage *s);

static json_t *stage_json(const struct physical *p, const struct stage *s, const struct timetable *t, int chunks, bool splits)
{
    json_t *slots = json_array();
    for (int c = 0; c < chunks; c++) {
        json_t *of = json_pack("{s:i, s:i}", "chunk", c, "forward_to_backward",
                               schedule_slots(s, PHASE_FORWARD, c, PHASE_BACKWARD, c));
        if (splits) {
            json_object_set_new(of, "forward_to_weight",
                                json_integer(schedule_slots(s, PHASE_FORWARD, c, PHASE_WEIGHT, c)));
            json_object_set_new(of, "backward_to_weight",
                                json_integer(schedule_slots(s, PHASE_BACKWARD, c, PHASE_WEIGHT, c)));
        }
        json_array_append_new(slots, of);
    }
    return json_pack("{s:i, s:o, s:f, s:o, s:o}", "stage", s->index, "slots", slots, "bubble_in_span",
                     timetable_span_bubble(t, s->index), "order", order_json(&s->order), "posts", posts_json(p, s));
}

/* What is reduced beside the backward of the last micro-batch. */
static void print_posts(FILE *to, const struct physical *p, const struct stage *s)
{
    struct node **posts = stage_posts(s);
    for (int i = 0; i < arrlen(posts); i++) {
        const struct node *n = posts[i], *of = node_ptr(n, "of");
        int64_t blocks = node_int(n, "blocks", 1);
        fprintf(to, "  posted in %s of %s%s: %s over %s of %d tensor%s, %lld times %.3f MiB\n", phase_name[n->phase],
                post_each(n) ? "each micro-batch" : mem_printf("micro-batch %d", p->mesh->axis[p->mesh->mb].size - 1),
                !n->region->parent ? "" : blocks > 1 ? mem_printf(", after every %lld blocks", (long long)blocks)
                                                     : ", after every block", of->op->name + strlen("box_"), node_str(n, "over"),
                (int)arrlen(n->in), arrlen(n->in) == 1 ? "" : "s", (long long)post_times(n),
                (double)(post_bytes(p, n) * blocks) / (1 << 20));
    }
}

static json_t *posts_json(const struct physical *p, const struct stage *s)
{
    struct node **posts = stage_posts(s);
    json_t *list = json_array();
    for (int i = 0; i < arrlen(posts); i++) {
        const struct node *n = posts[i], *of = node_ptr(n, "of");
        json_array_append_new(list, json_pack("{s:i, s:b, s:s, s:s, s:s, s:i, s:I, s:I, s:I}", "number", i, "each", post_each(n), "phase",
                                              phase_name[n->phase], "kind", of->op->name + strlen("box_"), "over",
                                              node_str(n, "over"), "tensors", (int)arrlen(n->in), "blocks",
                                              (json_int_t)node_int(n, "blocks", 1), "times", (json_int_t)post_times(n), "bytes",
                                              (json_int_t)post_bytes(p, n)));
    }
    return list;
}

static json_t *link_json(const struct link *l)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:i}", "from", l->from, "to", l->to, "from_chunk",
                     l->from_chunk, "to_chunk", l->to_chunk, "entry",
                     entry_name[l->entry], "phase", phase_name[l->phase], "value", l->what ? l->what : "", "number",
                     l->number, "slots_sent", l->slots_sent, "slots_received", l->slots_received);
}

void schedule_dump(FILE *to, struct module *m, bool json)
{
    const struct physical *p = m->physical;
    const char *schedule = p->nstage > 1 ? schedule_name[m->plan->schedule] : "sequential";
    const struct timetable *t = timetable_of(m->plan);
    int chunks = plan_chunks(m->plan);
    if (json) {
        json_t *stages = json_array(), *links = json_array();
        for (int s = 0; s < p->nstage; s++)
            json_array_append_new(stages, stage_json(p, &p->stages[s], t, chunks, m->plan->split_backward));
        for (int i = 0; i < arrlen(p->links); i++)
            json_array_append_new(links, link_json(&p->links[i]));
        json_t *all = json_pack("{s:s, s:s, s:i, s:f, s:I, s:I, s:o, s:o}", "plan", m->plan->name, "schedule", schedule,
                                "microbatches", (int)m->plan->microbatches, "bubble", p->bubble, "makespan",
                                (json_int_t)t->makespan, "bound", (json_int_t)t->bound, "stages", stages, "links", links);
        if (p->nstage > 1)
            json_object_set_new(all, "schedules", comparison_json(m->plan));
        json_dumpf(all, to, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        fputc('\n', to);
        json_decref(all);
        return;
    }
    fprintf(to, "plan %s: %s, %d stage%s, %d micro-batch%s\n", m->plan->name, schedule, p->nstage,
            p->nstage == 1 ? "" : "s", (int)m->plan->microbatches, m->plan->microbatches == 1 ? "" : "es");
    double gap = t->bound ? (double)t->makespan / (double)t->bound - 1 : 0, span = 0;
    for (int s = 0; s < p->nstage; s++)
        span = timetable_span_bubble(t, s) > span ? timetable_span_bubble(t, s) : span;
    const char *units = m->plan->split_backward ? "forward 1, backward 1, weight 1" : "forward 1, backward 2";
    if (t->complete)
        fprintf(to, "bubble %.4f of %lld unit times (%s)\n", p->bubble, (long long)t->makespan, units);
    else
        fprintf(to, "it hangs after %lld unit times (%s)\n", (long long)t->makespan, units);
    if (t->complete)
        fprintf(to, "within a rank's own span at most %.4f; no order ends before %lld: gap %.4f\n", span,
                (long long)t->bound, gap);
    if (m->train.deferred && m->train.clip > 0 && m->graph[ENTRY_TRAIN])
        fputs("clip_norm deferred: no update waits for the norm, which is checked after them and before the next step\n", to);
    for (int s = 0; s < p->nstage; s++) {
        fprintf(to, "stage %d: ", s);
        print_slots(to, &p->stages[s], chunks, m->plan->split_backward);
        fprintf(to, "; bubble in its span %.4f; order", timetable_span_bubble(t, s));
        print_order(to, &p->stages[s].order);
        print_posts(to, p, &p->stages[s]);
    }
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        fprintf(to, "link %d -> %d, %s %s: %s (slots %d, %d)\n", l->from, l->to, entry_name[l->entry],
                phase_name[l->phase], l->what, l->slots_sent, l->slots_received);
    }
    fputs("timeline:\n", to);
    draw_timeline(to, t, chunks, (int)m->plan->microbatches, 108);
    if (p->nstage > 1)
        comparison_text(to, m->plan);
}
