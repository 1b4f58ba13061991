/* check_plan PLAN.json [--mutants]: is the plan in the file sound, from the file alone? It shares no code with the compiler.
 *
 * Every stage fires each phase of each chunk once per micro-batch, in order, forward before backward before weight. Then the
 * steps of all entries are run, all stages at once, with nothing buffered but the slots of the links: they must come to their
 * end, every message be received, every reduction over stages be met by all its members with the same tensors. Collectives
 * within a stage are met in one order because its ranks run one text; their communicators must not leave it. A post stands in
 * a phase that is over before update, in the last micro-batch, and one collective of update waits for it. What is under way at
 * once finds room on a device. With --mutants all of it is spoilt in turn, and each time this must be seen. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 1024, MOST_LINKS = 1 << 14 };

static jmp_buf refused;
static char reason[300];

__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    longjmp(refused, 1);
}

static json_t *get(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (!v)
        refuse("'%s' is missing", key);
    return v;
}

static int whole(json_t *o, const char *key, int low, int high)
{
    json_t *v = get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) >= high)
        refuse("'%s' is not from %d to %d", key, low, high - 1);
    return (int)json_integer_value(v);
}

static const char *text(json_t *o, const char *key)
{
    json_t *v = get(o, key);
    if (!json_is_string(v))
        refuse("'%s' is no text", key);
    return json_string_value(v);
}

static bool is(json_t *o, const char *key, const char *value)
{
    return !strcmp(text(o, key), value);
}

/* ---- one stage's step, flat ---- */
struct act { json_t *what; int kind, link, microbatch; };        /* kind: 0 receive, 1 send, 2 meet */
struct step { struct act *acts; int n, room, at; };

static json_t *plan, *links, *comms;
static int stages, microbatches;

static void do_phase(struct step *s, json_t *class, const char *entry, const char *phase, int chunk, int microbatch)
{
    size_t i, k;
    json_t *p, *a;
    json_array_foreach(get(class, "phases"), i, p) {
        if (!is(p, "entry", entry) || !is(p, "phase", phase) || whole(p, "chunk", 0, 64) != chunk)
            continue;
        json_array_foreach(get(p, "acts"), k, a) {
            if (is(a, "act", "post"))
                continue;                /* never waits: check_posts */
            int kind = is(a, "act", "receive") ? 0 : is(a, "act", "send") ? 1 : is(a, "act", "meet") ? 2 : 3;
            if (kind == 3)
                continue;                /* within the stage: check_collectives */
            if (s->n == s->room)
                s->acts = realloc(s->acts, sizeof *s->acts * (size_t)(s->room = 2 * s->room + 64));
            int link = kind < 2 ? whole(a, "link", 0, (int)json_array_size(links)) : -1;
            s->acts[s->n++] = (struct act){a, kind, link, microbatch};
        }
    }
}

static void do_order(struct step *s, json_t *class)
{
    static const char *const phases[] = {"forward", "backward", "weight"};
    int chunks = whole(class, "chunks", 1, 65), next[65][3] = {{0}};
    bool splits = false;
    size_t l, r, f;
    json_t *lap, *roll, *beat;
    json_array_foreach(get(class, "order"), l, lap)
        for (int lt = 0; lt < whole(lap, "times", 1, 1 << 24); lt++)
            json_array_foreach(get(lap, "rolls"), r, roll)
                for (int rt = 0; rt < whole(roll, "times", 1, 1 << 24); rt++)
                    json_array_foreach(get(roll, "firings"), f, beat) {
                        int c = whole(beat, "chunk", 0, chunks), t = 0;
                        while (t < 3 && !is(beat, "phase", phases[t]))
                            t++;
                        if (t == 3)
                            refuse("a firing of phase %s", text(beat, "phase"));
                        int m = whole(beat, "microbatch", -(1 << 24), 1 << 24) +
                                lt * whole(beat, "lap_step", -(1 << 24), 1 << 24) +
                                rt * whole(beat, "step", -(1 << 24), 1 << 24);
                        if (m != next[c][t] || m >= microbatches)
                            refuse("%s of micro-batch %d where %d is next", phases[t], m, next[c][t]);
                        if (t && next[c][t - 1] <= m)
                            refuse("%s of micro-batch %d before %s", phases[t], m, phases[t - 1]);
                        next[c][t]++;
                        splits |= t == 2;
                        do_phase(s, class, "train", phases[t], c, m);
                    }
    for (int c = 0; c < chunks; c++)
        for (int t = 0; t < (splits ? 3 : 2); t++)
            if (next[c][t] != microbatches)
                refuse("%s of micro-batch %d is never done", phases[t], next[c][t]);
}

static void list_step(struct step *s, json_t *class, const char *entry)
{
    for (int m = 0; m < microbatches; m++)
        do_phase(s, class, entry, "count", 0, m);
    do_phase(s, class, entry, "setup", 0, 0);
    if (!strcmp(entry, "train"))
        do_order(s, class);
    for (int m = 0; strcmp(entry, "train") && m < microbatches; m++)
        for (int c = 0; c < whole(class, "chunks", 1, 65); c++)
            do_phase(s, class, entry, "forward", c, m);
    do_phase(s, class, entry, "update", 0, 0);
}

/* ---- the run ---- */
static bool member(json_t *comm, int stage)
{
    size_t i;
    json_t *s;
    json_array_foreach(get(comm, "stages"), i, s)
        if (json_integer_value(s) == stage)
            return true;
    return !json_array_size(get(comm, "stages"));
}

static bool all_meet(struct step *steps, const struct act *a)
{
    int number = whole(a->what, "communicator", 0, (int)json_array_size(comms));
    for (int s = 0; s < stages; s++) {
        const struct step *other = &steps[s];
        if (!member(json_array_get(comms, (size_t)number), s))
            continue;
        if (other->at >= other->n || !json_equal(other->acts[other->at].what, a->what))
            return false;
    }
    return true;
}

static bool waits(struct step *steps, int stage, const int *sent, const int *taken, bool ahead)
{
    const struct act *a = &steps[stage].acts[steps[stage].at];
    if (a->kind == 2)
        return !all_meet(steps, a);
    if (a->kind == 0)
        return sent[a->link] <= taken[a->link];
    json_t *l = json_array_get(links, (size_t)a->link);
    const struct step *to = &steps[whole(l, "to", 0, stages)];
    bool there = to->at < to->n && to->acts[to->at].kind == 0 && to->acts[to->at].link == a->link;
    int posted = taken[a->link] + (ahead ? whole(l, "slots_received", 1, 1 << 24) : there);
    return sent[a->link] >= posted + whole(l, "slots_sent", 1, 1 << 24);
}

/* A message must be given and taken where its link says, the i-th as the i-th. */
static void pass(struct step *steps, int stage, int *sent, int *taken)
{
    const struct act *a = &steps[stage].acts[steps[stage].at];
    json_t *l = json_array_get(links, (size_t)a->link);
    int *count = a->kind ? &sent[a->link] : &taken[a->link];
    if (whole(l, a->kind ? "from" : "to", 0, stages) != stage)
        refuse("stage %d uses a link of others", stage);
    if (a->microbatch != *count)
        refuse("message %d of a link is that of micro-batch %d", *count, a->microbatch);
    ++*count;
    steps[stage].at++;
}

static void run_entry(struct step *steps, const char *entry)
{
    static int sent[MOST_LINKS], taken[MOST_LINKS];
    bool ahead = !is(plan, "target", "cuda");
    memset(sent, 0, sizeof sent);
    memset(taken, 0, sizeof taken);
    for (int s = 0; s < stages; s++) {
        steps[s].n = steps[s].at = 0;
        list_step(&steps[s], json_array_get(get(plan, "classes"), (size_t)s), entry);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < stages; s++)
            while (steps[s].at < steps[s].n && !waits(steps, s, sent, taken, ahead)) {
                const struct act *a = &steps[s].acts[steps[s].at];
                moved = true;
                if (a->kind < 2) {
                    pass(steps, s, sent, taken);
                    continue;
                }
                json_t *comm = json_array_get(comms, (size_t)whole(a->what, "communicator", 0, 1 << 24));
                if (!member(comm, s))
                    refuse("stage %d is in a reduction that it is no member of", s);
                for (int k = 0; k < stages; k++)
                    steps[k].at += member(comm, k);
            }
    }
    for (int s = 0; s < stages; s++)
        if (steps[s].at < steps[s].n)
            refuse("%s: stage %d waits for ever", entry, s);
    for (size_t k = 0; k < json_array_size(links); k++) {
        json_t *l = json_array_get(links, k);
        const char *phase = text(l, "phase");
        int messages = !strcmp(phase, "setup") || !strcmp(phase, "update") ? 1 : microbatches;
        if (sent[k] != taken[k])
            refuse("%s: a message is sent and not received", entry);
        if (is(l, "entry", entry) ? sent[k] != messages : sent[k] != 0)
            refuse("%s: %d messages over a link that has %d", entry, sent[k], messages);
    }
}

/* Collectives within a stage do not reach beyond it. Every post has one wait. Phases are listed in the order of a step. */
static void check_collectives(json_t *class)
{
    static int over[1 << 16];                /* by number: 1 + the communicator of a post that is not waited for */
    size_t i, k, w;
    json_t *p, *a, *x;
    memset(over, 0, sizeof over);
    json_array_foreach(get(class, "phases"), i, p)
        json_array_foreach(get(p, "acts"), k, a) {
            bool post = is(a, "act", "post"), beside = is(p, "phase", "backward") || is(p, "phase", "weight");
            int number = post ? whole(a, "number", 0, 1 << 16) : 0, each = ((int)i + 1) << 16;
            int when = post ? whole(a, "microbatch", -1, 1 << 25) : 0;
            if (post && (over[number] || !beside || (when != microbatches - 1 && when != -1)))
                refuse("a post stands twice, or in %s, or in another micro-batch", text(p, "phase"));
            if (!post && !is(a, "act", "collective"))
                continue;
            int comm = whole(a, "communicator", 0, (int)json_array_size(comms));
            json_array_foreach(get(json_array_get(comms, (size_t)comm), "axes"), w, x)
                if (!strcmp(json_string_value(x), text(plan, "pipeline")))
                    refuse("a collective of one stage over the pipeline");
            over[number] = post ? comm + 1 + (when < 0 ? each : 0) : over[number];
            json_array_foreach(json_object_get(a, "waits"), w, x) {
                number = (int)json_integer_value(x) & 0xffff;
                if (over[number] != comm + 1 + (is(p, "phase", "update") ? 0 : each))
                    refuse("a wait in %s for what was not posted", text(p, "phase"));
                over[number] = 0;
            }
        }
    for (i = 0; i < 1 << 16; i++)
        if (over[i])
            refuse("post %zu is not waited for", i);
}

static void check_all(void)
{
    static struct step steps[MOST_STAGES];
    static const char *const entries[] = {"train", "evaluate", "sample"};
    json_t *axis;
    size_t i;
    int ranks = 1, depth = 1;
    microbatches = whole(plan, "microbatches", 1, 1 << 25);
    links = get(plan, "links");
    comms = get(plan, "communicators");
    json_array_foreach(get(plan, "mesh"), i, axis) {
        ranks *= json_is_true(get(axis, "time")) ? 1 : whole(axis, "size", 1, 1 << 20);
        depth = is(axis, "name", text(plan, "pipeline")) ? whole(axis, "size", 1, 1 << 20) : depth;
    }
    stages = (int)json_array_size(get(plan, "classes"));
    if (ranks != whole(plan, "ranks", 1, 1 << 30) || stages != depth || stages > MOST_STAGES ||
        json_array_size(links) > MOST_LINKS)
        refuse("%d classes for a pipeline of %d, %d ranks", stages, depth, ranks);
    for (int s = 0; s < stages; s++) {
        json_t *class = json_array_get(get(plan, "classes"), (size_t)s);
        if (whole(class, "stage", 0, stages) != s)
            refuse("class %d is that of another stage", s);
        check_collectives(class);
    }
    for (int s = 0, streams = whole(plan, "comm_streams", 0, 5); s < stages; s++) {
        int ends = 0;
        json_array_foreach(links, i, axis)
            ends += whole(axis, "from", 0, stages) == s || whole(axis, "to", 0, stages) == s;
        if (streams > 1 && streams * 16 + ends * 4 > 108)
            refuse("%d streams and %d links do not find room on a device", streams, ends);
    }
    for (int e = 0; e < 3; e++)
        run_entry(steps, entries[e]);
}

static bool sound(void)
{
    if (setjmp(refused))
        return false;
    check_all();
    return true;
}

/* ---- mutants ---- */
static int tried, survived;

static void try_mutant(const char *what)
{
    tried++;
    if (sound()) {
        survived++;
        printf("not seen: %s\n", what);
    }
}

/* Every element of the array once left out and once doubled. */
static void spoil_array(json_t *array, const char *what)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *one = json_incref(json_array_get(array, i)), *act = json_is_object(one) ? json_object_get(one, "act") : NULL;
        if (act && !strcmp(json_string_value(act), "collective")) {      /* all its members would do it, or not */
            json_decref(one);
            continue;
        }
        json_array_remove(array, i);
        try_mutant(what);
        json_array_insert(array, i, one);
        json_array_insert(array, i, one);
        try_mutant(what);
        json_array_remove(array, i);
        json_decref(one);
    }
}

static void spoil_number(json_t *o, const char *key, int by)
{
    json_t *v = json_object_get(o, key);
    json_int_t was = json_integer_value(v);
    json_integer_set(v, was + by);
    try_mutant(key);
    json_integer_set(v, was);
}

static void spoil_all(void)
{
    size_t i, k, r, f;
    json_t *class, *p, *a, *lap, *roll, *beat, *l;
    json_array_foreach(get(plan, "classes"), i, class) {
        json_array_foreach(get(class, "phases"), k, p) {
            json_t *acts = get(p, "acts");
            for (f = 0; f < json_array_size(acts); f++) {
                a = json_array_get(acts, f);
                if (is(a, "act", "post"))
                    spoil_number(a, "microbatch", -1);
                if (!is(a, "act", "collective"))
                    spoil_number(a, is(a, "act", "meet") || is(a, "act", "post") ? "communicator" : "link", 1);
                else if (json_array_size(json_object_get(a, "waits")))
                    spoil_array(json_object_get(a, "waits"), "waits");
            }
            spoil_array(acts, "acts");
        }
        spoil_array(get(class, "order"), "order");
        json_array_foreach(get(class, "order"), k, lap) {
            spoil_number(lap, "times", 1);
            json_array_foreach(get(lap, "rolls"), r, roll) {
                spoil_number(roll, "times", 1);
                json_array_foreach(get(roll, "firings"), f, beat)
                    spoil_number(beat, "microbatch", 1);
            }
        }
    }
    json_array_foreach(links, i, l) {
        spoil_number(l, "from", 1);
        spoil_number(l, "to", 1);
        spoil_number(l, "slots_sent", -2);
    }
    spoil_number(plan, "ranks", 1);
    spoil_number(plan, "microbatches", 1);
}

int main(int argc, char **argv)
{
    json_error_t error;
    plan = argc > 1 ? json_load_file(argv[1], 0, &error) : NULL;
    if (!plan) {
        fprintf(stderr, "check_plan: no plan\n");
        return 2;
    }
    if (!sound()) {
        printf("refused: %s\n", reason);
        return 1;
    }
    if (argc > 2)
        spoil_all();
    printf("sound; %d mutants, %d not seen\n", tried, survived);
    json_decref(plan);
    return survived != 0;
}
