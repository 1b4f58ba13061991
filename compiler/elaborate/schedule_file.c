/* `schedule = file("x.csv")`: an order by hand. A line is stage,phase,chunk,microbatch, phase F, B or W; each stage does its
 * lines in the order in which they stand, whatever stands between. Blank lines, lines with # in front and one heading
 * are skipped. What is read here is whole: every stage does every phase of every chunk and micro-batch once, micro-batches
 * in their order, forward before backward before weight. Whether the stages together can go through with it is for prove to say. */
#include "../physical.h"
#include "elaborate.h"
#include <ctype.h>
#include <string.h>

enum { FIELDS = 4 };

struct reader {
    struct plan *plan;
    const struct source *source;
    int file, stages, microbatches, chunks;
    bool splits, failed;
};

static struct span line_span(const struct reader *r, int begin, int end)
{
    return (struct span){r->file, begin, end};
}

static void fail(struct reader *r, struct span at, const char *text)
{
    struct diag *d = diag_error(E_SCHEDULE, at, "%s", text);
    diag_help(d, "a line is stage,phase,chunk,microbatch, as in 0,F,0,3");
    r->failed = true;
}

/* The fields of a line, as spans without blanks; how many. */
static int fields_of(const struct reader *r, int begin, int end, struct span *field)
{
    int count = 0;
    const char *text = r->source->text;
    for (int at = begin; at <= end; at++) {
        int stop = at;
        while (stop < end && text[stop] != ',')
            stop++;
        int first = at, last = stop;
        while (first < last && isspace((unsigned char)text[first]))
            first++;
        while (last > first && isspace((unsigned char)text[last - 1]))
            last--;
        if (count < FIELDS)
            field[count] = line_span(r, first, last);
        count++;
        at = stop;
    }
    return count;
}

static bool number(const struct reader *r, struct span s, int *value)
{
    int64_t n = 0;
    for (int i = s.begin; i < s.end; i++) {
        char c = r->source->text[i];
        if (c < '0' || c > '9' || n > 1 << 24)
            return false;
        n = 10 * n + (c - '0');
    }
    *value = (int)n;
    return s.end > s.begin;
}

static void read_line(struct reader *r, int begin, int end, bool first)
{
    struct span field[FIELDS] = {{0}};
    int values[FIELDS] = {0};
    int count = fields_of(r, begin, end, field);
    if (count != FIELDS) {
        fail(r, line_span(r, begin, end), mem_printf("%d field%s where four belong", count, count == 1 ? "" : "s"));
        return;
    }
    if (first && isalpha((unsigned char)r->source->text[field[0].begin]))
        return;                  /* the heading */
    static const char *const names[] = {"stage", NULL, "chunk", "micro-batch"};
    const int below[] = {r->stages, 0, MAX_CHUNK, r->microbatches};
    for (int k = 0; k < FIELDS; k++) {
        if (names[k] && (!number(r, field[k], &values[k]) || values[k] >= below[k])) {
            fail(r, field[k], mem_printf("'%.*s' is no %s: they are 0 to %d", field[k].end - field[k].begin,
                                         r->source->text + field[k].begin, names[k], below[k] - 1));
            return;
        }
    }
    char phase = field[1].end == field[1].begin + 1 ? r->source->text[field[1].begin] : 0;
    if (!phase || !strchr("FBW", phase)) {
        fail(r, field[1], mem_printf("'%.*s' is no phase", field[1].end - field[1].begin,
                                     r->source->text + field[1].begin));
        return;
    }
    r->splits |= phase == 'W';
    r->chunks = values[2] >= r->chunks ? values[2] + 1 : r->chunks;
    struct firing f = {phase == 'F' ? PHASE_FORWARD : phase == 'B' ? PHASE_BACKWARD : PHASE_WEIGHT, values[3], values[2]};
    arrput(r->plan->given[values[0]], f);
    arrput(r->plan->given_span[values[0]], line_span(r, begin, end));
}

/* What is wrong with firing f, or NULL. next: by chunk and turn, the micro-batch that comes next. */
static const char *fault(const struct firing *f, int turn, int *next)
{
    if (f->microbatch < next[turn])
        return "twice";
    if (f->microbatch > next[turn])
        return mem_printf("before that of micro-batch %d: sums over micro-batches are taken in their order", next[turn]);
    if (turn > 0 && next[turn - 1] <= f->microbatch)
        return turn > 1 ? "before its backward" : "before its forward";
    return NULL;
}

/* Each stage does all, once, and in an order that it can follow by itself. */
static void check_stage(struct reader *r, int stage)
{
    static const enum phase phases[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT};
    const struct firing *order = r->plan->given[stage];
    int turns = r->splits ? 3 : 2;
    int *next = NEW_ARRAY(int, r->chunks * 3);
    for (int i = 0; i < arrlen(order); i++) {
        const struct firing *f = &order[i];
        int turn = f->phase == PHASE_FORWARD ? 0 : f->phase == PHASE_BACKWARD ? 1 : 2;
        const char *wrong = fault(f, turn, next + 3 * f->chunk);
        if (wrong) {
            diag_error(E_SCHEDULE, r->plan->given_span[stage][i], "stage %d does %s of micro-batch %d %s", stage,
                       phase_name[f->phase], f->microbatch, wrong);
            r->failed = true;
            return;
        }
        next[3 * f->chunk + turn]++;
    }
    for (int i = 0; i < 3 * r->chunks; i++)
        if (i % 3 < turns && next[i] < r->microbatches) {
            struct diag *d = diag_error(E_SCHEDULE, r->plan->schedule_span, "stage %d never does %s of micro-batch %d%s",
                                        stage, phase_name[phases[i % 3]], next[i],
                                        r->chunks > 1 ? mem_printf(" of chunk %d", i / 3) : "");
            diag_note(d, "the order is in %s", r->source->name);
            r->failed = true;
            return;
        }
}

void schedule_file(struct plan *p)
{
    const char *path = beside(source_get(p->schedule_span.file)->name, p->schedule_file);
    /* Where fewer are run to see whether the numbers are right, the order does not matter, only that it is one. */
    bool fewer = p->microbatches < p->microbatches_written;
    struct reader r = {.plan = p, .file = source_open(path), .stages = plan_stages(p), .chunks = 1,
                       .microbatches = (int)(fewer ? p->microbatches_written : p->microbatches)};
    if (!r.file) {
        struct diag *d = diag_error(E_FILE, p->schedule_span, "cannot read '%s'", path);
        diag_help(d, "the file is looked for beside the program");
        return;
    }
    r.source = source_get(r.file);
    p->given = NEW_ARRAY(struct firing *, r.stages);
    p->given_span = NEW_ARRAY(struct span *, r.stages);
    bool first = true;
    for (int at = 0; at < (int)r.source->size && !r.failed;) {
        const char *text = r.source->text + at, *newline = memchr(text, '\n', r.source->size - (size_t)at);
        int end = newline ? (int)(newline - r.source->text) : (int)r.source->size, begin = at;
        while (begin < end && isspace((unsigned char)r.source->text[begin]))
            begin++;
        if (begin < end && r.source->text[begin] != '#') {
            read_line(&r, begin, end, first);
            first = false;
        }
        at = end + 1;
    }
    p->chunks = r.chunks;
    if (p->split_backward && !r.splits && !r.failed) {
        struct diag *d = diag_error(E_SCHEDULE, p->schedule_span, "the backward is split, but the file has no weight parts");
        diag_help(d, "add a line with phase W for every B, or leave out `split backward`");
        r.failed = true;
    }
    p->split_backward |= r.splits;
    for (int s = 0; s < r.stages && !r.failed; s++)
        check_stage(&r, s);
    if (r.failed)
        p->given = NULL;
}
