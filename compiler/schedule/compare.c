/* The schedules side by side, for the stages and micro-batches of a plan: what each leaves idle and what it keeps. Times
 * and memory are in the same units for all, so that rows compare: a stage's forward takes 1 whatever its chunks, and one
 * kept micro-batch is what a whole stage saves of it for the backward. */
#include "dump.h"
#include "policy.h"
#include "rolled.h"

static const struct choice { enum schedule_kind kind; int chunks; } choices[] = {
    {SCHEDULE_GPIPE, 1}, {SCHEDULE_ONE_F_ONE_B, 1}, {SCHEDULE_INTERLEAVED, 2}, {SCHEDULE_INTERLEAVED, 4},
    {SCHEDULE_ZB_H1, 1}, {SCHEDULE_ZB_H2, 1}, {SCHEDULE_ZB_V, 2},
};
enum { CHOICES = sizeof choices / sizeof *choices };

static struct plan plan_with(const struct plan *of, const struct choice *c)
{
    struct plan p = *of;
    p.schedule = c->kind;
    p.chunks = c->chunks;
    p.vee = c->kind == SCHEDULE_ZB_V;
    p.split_backward = c->kind == SCHEDULE_ZB_H1 || c->kind == SCHEDULE_ZB_H2 || c->kind == SCHEDULE_ZB_V;
    p.given = NULL;
    p.given_span = NULL;
    return p;
}

/* Slots of the order from a forward to the last that reads what it saved, all chunks, in whole stages. */
static double kept(const struct rolled *order, const struct plan *p, int stages)
{
    return (double)rolled_kept(order, stages, (int)p->microbatches, plan_chunks(p), p->split_backward) / plan_chunks(p);
}

static struct comparison compare_one(const struct plan *of, const struct choice *c)
{
    struct plan p = plan_with(of, c);
    struct timetable *t = timetable_make(&p, NULL);
    struct comparison it = {
        .name = c->kind == SCHEDULE_INTERLEAVED ? mem_printf("interleaved(%d)", c->chunks) : schedule_name[c->kind],
        .bubble = timetable_bubble(t),
        .chosen = of->schedule == c->kind && plan_chunks(of) == c->chunks,
    };
    for (int s = 0; s < t->stages; s++) {
        double span = timetable_span_bubble(t, s), here = kept(&t->order[s], &p, t->stages);
        it.span = span > it.span ? span : it.span;
        it.first = s ? it.first : here;
        it.most = here > it.most ? here : it.most;
    }
    return it;
}

struct comparison *schedules_compare(const struct plan *plan)
{
    struct comparison *list = NULL;
    for (int i = 0; i < CHOICES; i++)
        arrput(list, compare_one(plan, &choices[i]));
    return list;
}

void comparison_text(FILE *to, const struct plan *plan)
{
    struct comparison *list = schedules_compare(plan);
    fputs("schedules side by side: bubble of the step and within a rank's span; kept, in micro-batches of a whole stage:\n",
          to);
    for (int i = 0; i < arrlen(list); i++)
        fprintf(to, "  %c %-16s bubble %.4f  in span %.4f  kept at most %.1f, on stage 0 %.1f\n",
                list[i].chosen ? '*' : ' ', list[i].name, list[i].bubble, list[i].span, list[i].most, list[i].first);
}

json_t *comparison_json(const struct plan *plan)
{
    struct comparison *list = schedules_compare(plan);
    json_t *all = json_array();
    for (int i = 0; i < arrlen(list); i++)
        json_array_append_new(all, json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "schedule", list[i].name, "bubble",
                                             list[i].bubble, "bubble_in_span", list[i].span, "kept", list[i].most,
                                             "kept_on_stage_0", list[i].first, "chosen", list[i].chosen));
    return all;
}
