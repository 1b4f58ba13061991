/* --emit=schedule: per stage the order, its loops, slots and the bubble, and the timeline as text. */
#include "dump.h"
#include "../passes.h"
#include <jansson.h>
#include <string.h>

static char letter(enum phase p)
{
    return p == PHASE_FORWARD ? 'F' : p == PHASE_BACKWARD ? 'B' : 'W';
}

static void print_firing(FILE *to, const struct firing *f)
{
    fprintf(to, "%c%d", letter(f->phase), f->microbatch);
    if (f->chunk)
        fprintf(to, ".%d", f->chunk);
}

/* "F0 F1 (B0 F2) x 6 B6 B7" */
static void print_order(FILE *to, const struct stage *s)
{
    for (int i = 0; i < arrlen(s->rolls); i++) {
        const struct roll *r = &s->rolls[i];
        fputs(r->times > 1 ? " (" : " ", to);
        for (int k = 0; k < r->len; k++) {
            if (k)
                fputc(' ', to);
            print_firing(to, &s->order[r->start + k]);
        }
        if (r->times > 1)
            fprintf(to, ") x %d", r->times);
    }
    fputc('\n', to);
}

/* A cell is as wide as the largest firing; a firing of two units fills two cells. Cut after `columns` characters. */
void timeline_draw(FILE *to, const struct actors *a, int columns)
{
    int width = snprintf(NULL, 0, "F%d", a->microbatches - 1), cells = columns / width;
    bool cut = a->makespan > cells;
    if (cells > a->makespan)
        cells = a->makespan;
    for (int s = 0; s < a->stages; s++) {
        char *row = NEW_ARRAY(char, cells * width + 1);
        memset(row, '.', (size_t)(cells * width));
        for (int i = 0; i < arrlen(a->order[s]); i++) {
            const struct fired *f = &a->order[s][i];
            for (int t = f->start; t < f->stop && t < cells; t++) {
                char cell[32];
                int n = t == f->start ? snprintf(cell, sizeof cell, "%c%d", letter(f->what.phase), f->what.microbatch) : 0;
                memset(row + t * width, t == f->start ? ' ' : '-', (size_t)width);
                memcpy(row + t * width, cell, (size_t)n);
                if (t == f->start && f->stop - f->start > 1)
                    memset(row + t * width + n, '-', (size_t)(width - n));
            }
        }
        fprintf(to, "  %3d |%s%s\n", s, row, cut ? " .." : "|");
    }
}

static json_t *stage_json(const struct stage *s)
{
    json_t *order = json_array(), *rolls = json_array();
    for (int i = 0; i < arrlen(s->order); i++)
        json_array_append_new(order, json_pack("{s:s, s:i, s:i}", "phase", phase_name[s->order[i].phase], "microbatch",
                                               s->order[i].microbatch, "chunk", s->order[i].chunk));
    for (int i = 0; i < arrlen(s->rolls); i++)
        json_array_append_new(rolls, json_pack("{s:i, s:i, s:i}", "start", s->rolls[i].start, "len", s->rolls[i].len,
                                               "times", s->rolls[i].times));
    return json_pack("{s:i, s:i, s:o, s:o}", "stage", s->index, "slots", schedule_slots(s, PHASE_FORWARD, 0, PHASE_BACKWARD, 0), "order", order, "rolls", rolls);
}

static json_t *link_json(const struct link *l)
{
    return json_pack("{s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:i}", "from", l->from, "to", l->to, "entry",
                     entry_name[l->entry], "phase", phase_name[l->phase], "value", l->what ? l->what : "", "number",
                     l->number, "slots_sent", l->slots_sent, "slots_received", l->slots_received);
}

void schedule_dump(FILE *to, struct module *m, bool json)
{
    const struct physical *p = m->physical;
    static const char *const name[] = {[SCHEDULE_GPIPE] = "gpipe", [SCHEDULE_ONE_F_ONE_B] = "one_f_one_b",
                                       [SCHEDULE_INTERLEAVED] = "interleaved"};
    const char *schedule = p->nstage > 1 ? name[m->plan->schedule] : "sequential";
    struct actors *a = schedule_actors(m->plan, p->nstage);
    if (json) {
        json_t *stages = json_array(), *links = json_array();
        for (int s = 0; s < p->nstage; s++)
            json_array_append_new(stages, stage_json(&p->stages[s]));
        for (int i = 0; i < arrlen(p->links); i++)
            json_array_append_new(links, link_json(&p->links[i]));
        json_t *all = json_pack("{s:s, s:s, s:i, s:f, s:i, s:o, s:o}", "plan", m->plan->name, "schedule", schedule,
                                "microbatches", (int)m->plan->microbatches, "bubble", p->bubble, "makespan", a->makespan,
                                "stages", stages, "links", links);
        json_dumpf(all, to, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        fputc('\n', to);
        json_decref(all);
        return;
    }
    fprintf(to, "plan %s: %s, %d stage%s, %d micro-batch%s\n", m->plan->name, schedule, p->nstage,
            p->nstage == 1 ? "" : "s", (int)m->plan->microbatches, m->plan->microbatches == 1 ? "" : "es");
    fprintf(to, "bubble %.4f of %d unit times (forward 1, backward 2)\n", p->bubble, a->makespan);
    for (int s = 0; s < p->nstage; s++) {
        int slots = schedule_slots(&p->stages[s], PHASE_FORWARD, 0, PHASE_BACKWARD, 0);
        fprintf(to, "stage %d: %d slot%s from forward to backward; order", s, slots, slots == 1 ? "" : "s");
        print_order(to, &p->stages[s]);
    }
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        fprintf(to, "link %d -> %d, %s %s: %s (slots %d, %d)\n", l->from, l->to, entry_name[l->entry],
                phase_name[l->phase], l->what, l->slots_sent, l->slots_received);
    }
    fputs("timeline:\n", to);
    timeline_draw(to, a, 108);
}
