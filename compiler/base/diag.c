/* Diagnostics: collected as they come, printed once, sorted by place. */
#include "diag.h"
#include "mem.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_ERRORS = 20, MAX_LINES = 8 };

struct label {
    struct span at;
    const char *text;
};
struct diag {
    enum diag_code code;
    bool warning;
    struct span at;
    const char *fact, *mark;
    struct label *labels;
    const char **notes, **helps;
    int order;
};

static const int numbers[] = {
#define DIAG(code, number, title) number,
#include "diag.def"
#undef DIAG
};

static struct diag **collected;
static const char **remarks;
static int errors;

/* The bytes of one UTF-8 character, 0 when they are none. */
static int character_bytes(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
          : s[0] >= 0xF0 && s[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] >= 0xA0, beyond = s[0] == 0xF4 && s[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

/* Messages quote the source, which may hold any byte: they stay one line of UTF-8. */
const char *diag_clean(const char *text)
{
    unsigned char *copy = (unsigned char *)mem_strdup(text);
    for (unsigned char *c = copy; *c;) {
        int n = character_bytes(c);
        if (n == 0)
            *c = '?';
        else if (*c < 32 || *c == 127)
            *c = ' ';
        c += n ? n : 1;
    }
    return (const char *)copy;
}

static struct diag *diag_add(enum diag_code code, bool warning, struct span at, const char *fact, va_list args)
{
    struct diag *d = NEW(struct diag);
    d->code = code;
    d->warning = warning;
    d->at = at;
    d->fact = diag_clean(mem_vprintf(fact, args));
    d->order = (int)arrlen(collected);
    for (int i = 0; i < arrlen(collected); i++) {
        struct diag *o = collected[i];
        if (o->code == code && o->at.file == at.file && o->at.begin == at.begin && !strcmp(o->fact, d->fact))
            return d;            /* said before: further labels go nowhere */
    }
    if (!warning)
        errors++;
    if (warning || errors <= MAX_ERRORS)
        arrput(collected, d);
    return d;
}

struct diag *diag_error(enum diag_code code, struct span at, const char *fact, ...)
{
    va_list args;
    va_start(args, fact);
    struct diag *d = diag_add(code, false, at, fact, args);
    va_end(args);
    return d;
}

struct diag *diag_warning(enum diag_code code, struct span at, const char *fact, ...)
{
    va_list args;
    va_start(args, fact);
    struct diag *d = diag_add(code, true, at, fact, args);
    va_end(args);
    return d;
}

#define TEXT_OF(target)                                                                                                \
    va_list args;                                                                                                      \
    va_start(args, text);                                                                                              \
    const char *target = diag_clean(mem_vprintf(text, args));                                                          \
    va_end(args)

void diag_mark(struct diag *d, const char *text, ...)
{
    TEXT_OF(s);
    d->mark = s;
}

void diag_label(struct diag *d, struct span at, const char *text, ...)
{
    TEXT_OF(s);
    if (at.file)
        arrput(d->labels, ((struct label){at, s}));
}

void diag_note(struct diag *d, const char *text, ...)
{
    TEXT_OF(s);
    arrput(d->notes, s);
}

void diag_help(struct diag *d, const char *text, ...)
{
    TEXT_OF(s);
    arrput(d->helps, s);
}

void diag_remark(const char *text, ...)
{
    TEXT_OF(s);
    arrput(remarks, s);
}

int diag_errors(void)
{
    return errors;
}

static int by_place(const void *a, const void *b)
{
    const struct diag *x = *(struct diag *const *)a, *y = *(struct diag *const *)b;
    if (x->at.file != y->at.file)
        return x->at.file - y->at.file;
    if (x->at.begin != y->at.begin)
        return x->at.begin - y->at.begin;
    return x->order - y->order;
}

/* One source line (unless it stands above already) and its caret: tabs become one blank, so that columns agree; long
 * lines are cut around the caret. */
static void print_source(FILE *to, struct span at, const char *text, char mark, int width, bool shown_above)
{
    enum { SHOWN = 110 };
    struct position p = source_position(at.file, at.begin);
    int length, from = 0;
    const char *line = source_line_text(at.file, p.line, &length);
    if (p.column > SHOWN - 20)
        from = p.column - SHOWN / 2;
    int shown = length - from > SHOWN ? SHOWN : length - from;
    if (!shown_above) {
        fprintf(to, "%*d | ", width, p.line);
        for (int i = 0; i < shown; i++) {
            unsigned char c = (unsigned char)line[from + i];
            fputc(c < 32 || c == 127 ? ' ' : c, to);
        }
        fputc('\n', to);
    }
    fprintf(to, "%*s | ", width, "");
    for (int i = 0; i < p.column - 1 - from; i++)
        if (i + from >= length || ((unsigned char)line[from + i] & 0xC0) != 0x80)
            fputc(' ', to);
    int n = at.end - at.begin, room = length - p.column + 1;
    if (n > room)
        n = room;
    fputc(mark, to);
    for (int i = 1; i < n && p.column - 1 - from + i < SHOWN; i++)
        if (((unsigned char)line[p.column - 1 + i] & 0xC0) != 0x80)
            fputc(mark == '^' ? '~' : '-', to);
    fprintf(to, "%s%s\n", text && *text ? " " : "", text ? text : "");
}

/* Is the second place on the line of the first, short enough that both cut it alike? */
static bool same_line(struct span a, struct span b)
{
    struct position p = source_position(a.file, a.begin), q = source_position(b.file, b.begin);
    return a.file == b.file && p.line == q.line && p.column < 90 && q.column < 90;
}

/* The places in the order they are shown: the main one, labels on its line, then the others as they were added. */
static struct label *places_in_order(const struct diag *d)
{
    struct label *places = NULL;
    arrput(places, ((struct label){d->at, d->mark}));
    for (int beside = 1; beside >= 0; beside--)
        for (int i = 0; i < arrlen(d->labels); i++)
            if (same_line(d->at, d->labels[i].at) == beside)
                arrput(places, d->labels[i]);
    return places;
}

/* How many of the places are shown with their source: those behind them take a line each where all would take more than
 * eight. */
static int places_in_full(const struct diag *d, const struct label *places)
{
    int n = (int)arrlen(places), full = n, lines;
    do {
        lines = 1 + (int)(arrlen(d->notes) + arrlen(d->helps)) + n - full;
        for (int i = 0; i < full; i++)
            lines += (i == 0 || places[i].at.file != places[i - 1].at.file) + (i && same_line(places[i - 1].at, places[i].at) ? 1 : 2);
    } while (lines > MAX_LINES && full-- > 1);
    return full < 1 ? 1 : full;
}

static void diag_print_text(FILE *to, const struct diag *d)
{
    fprintf(to, "%s[%c%04d]: %s\n", d->warning ? "warning" : "error", d->warning ? 'W' : 'E', numbers[d->code],
            d->fact);
    struct label *places = d->at.file ? places_in_order(d) : NULL;
    int widest = 0;
    for (int i = 0; i < arrlen(places); i++) {
        int line = source_position(places[i].at.file, places[i].at.begin).line;
        if (line > widest)
            widest = line;
    }
    int width = snprintf(NULL, 0, "%d", widest), full = places_in_full(d, places), file = 0;
    for (int i = 0; i < arrlen(places); i++) {
        struct span at = places[i].at;
        struct position p = source_position(at.file, at.begin);
        if (i >= full) {
            fprintf(to, "%*s::: %s:%d:%d: %s\n", width, "", source_get(at.file)->name, p.line, p.column, places[i].text);
            continue;
        }
        if (at.file != file)
            fprintf(to, "%*s%s %s:%d:%d\n", width, "", i ? ":::" : "-->", source_get(at.file)->name, p.line, p.column);
        print_source(to, at, places[i].text, i ? '-' : '^', width, i && same_line(places[i - 1].at, at));
        file = at.file;
    }
    for (int i = 0; i < arrlen(d->notes); i++)
        fprintf(to, "note: %s\n", d->notes[i]);
    for (int i = 0; i < arrlen(d->helps); i++)
        fprintf(to, "help: %s\n", d->helps[i]);
    fputc('\n', to);
}

static json_t *json_place(struct span at, const char *text)
{
    struct position p = {0, 0}, q = {0, 0};
    const char *file = "";
    if (at.file) {
        p = source_position(at.file, at.begin);
        q = source_position(at.file, at.end);
        file = diag_clean(source_get(at.file)->name);
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:s}", "file", file, "line", p.line, "column", p.column, "end_line",
                     q.line, "end_column", q.column, "text", text ? text : "");
}

static void diag_print_json(FILE *to, const struct diag *d)
{
    json_t *labels = json_array(), *notes = json_array(), *helps = json_array();
    for (int i = 0; i < arrlen(d->labels); i++)
        json_array_append_new(labels, json_place(d->labels[i].at, d->labels[i].text));
    for (int i = 0; i < arrlen(d->notes); i++)
        json_array_append_new(notes, json_string(d->notes[i]));
    for (int i = 0; i < arrlen(d->helps); i++)
        json_array_append_new(helps, json_string(d->helps[i]));
    char code[8];
    snprintf(code, sizeof code, "%c%04d", d->warning ? 'W' : 'E', numbers[d->code]);
    json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "severity", d->warning ? "warning" : "error", "code",
                          code, "message", d->fact, "place", json_place(d->at, d->mark), "labels", labels, "notes",
                          notes, "help", helps);
    if (!j)
        BUG("a diagnostic that JSON cannot hold: %s", d->fact);
    json_dumpf(j, to, JSON_COMPACT);
    fputc('\n', to);
    json_decref(j);
}

void diag_bug_json(const char *fact)
{
    bug_caught_by(NULL);
    json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:[], s:[], s:[s]}", "severity", "error", "code", "BUG", "message",
                          diag_clean(fact), "place", json_place((struct span){0}, NULL), "labels", "notes", "help",
                          "this is a defect of flowc, not of your program; please report it with the .flow file");
    if (!j)
        BUG("%s", fact);
    json_dumpf(j, stderr, JSON_COMPACT);
    fputc('\n', stderr);
    exit(70);
}

static void print_remark(FILE *to, const char *text, bool json)
{
    if (!json) {
        fprintf(to, "note: %s\n", text);
        return;
    }
    json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:[], s:[], s:[]}", "severity", "note", "code", "", "message", text,
                          "place", json_place((struct span){0}, NULL), "labels", "notes", "help");
    if (!j)
        BUG("a remark that JSON cannot hold: %s", text);
    json_dumpf(j, to, JSON_COMPACT);
    fputc('\n', to);
    json_decref(j);
}

void diag_print(FILE *to, bool json)
{
    if (arrlen(collected))
        qsort(collected, (size_t)arrlen(collected), sizeof *collected, by_place);
    for (int i = 0; i < arrlen(collected); i++)
        (json ? diag_print_json : diag_print_text)(to, collected[i]);
    if (errors > MAX_ERRORS && !json)
        fprintf(to, "%d further errors are not shown\n", errors - MAX_ERRORS);
    for (int i = 0; i < arrlen(remarks); i++)
        print_remark(to, remarks[i], json);
    arrsetlen(collected, 0);
    arrsetlen(remarks, 0);
}

struct diag_held diag_hold(void)
{
    struct diag_held before = {collected, remarks, errors};
    collected = NULL;
    remarks = NULL;
    errors = 0;
    return before;
}

const char *diag_first(void)
{
    for (int i = 0; i < arrlen(collected); i++)
        if (!collected[i]->warning)
            return mem_printf("E%04d: %s", numbers[collected[i]->code], collected[i]->fact);
    return NULL;
}

int diag_drop(struct diag_held before)
{
    int meanwhile = errors;
    collected = before.collected;
    remarks = before.remarks;
    errors = before.errors;
    return meanwhile;
}

void diag_reset(void)
{
    collected = NULL;
    remarks = NULL;
    errors = 0;
}

static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    int n = (int)strlen(a), m = (int)strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

const char *suggest(const char *name, const char **candidates)
{
    const char *best = NULL;
    int least = 3, longest = (int)strlen(name);
    for (int i = 0; i < arrlen(candidates); i++) {
        if (!strcasecmp(name, candidates[i]) && strcmp(name, candidates[i]) != 0)
            return candidates[i];
        int distance = edit_distance(name, candidates[i]);
        if (distance < least && distance < longest) {
            least = distance;
            best = candidates[i];
        }
    }
    return best;
}

const char *divisors_text(int64_t n)
{
    enum { MOST = 12, TRIALS = 1 << 20 };
    int64_t below[MOST];                 /* divisors up to the root; each has its partner above */
    int count = 0, shown = 0;
    for (int64_t k = 1; k <= n / k && k <= TRIALS && count < MOST; k++)
        if (n % k == 0)
            below[count++] = k;
    const char *text = "";
    for (int i = 0; i < 2 * count && shown < MOST; i++) {
        int64_t k = i < count ? below[i] : n / below[2 * count - 1 - i];
        if (i == count && k == below[count - 1])
            continue;
        text = mem_printf("%s%s%lld", text, shown++ ? ", " : "", (long long)k);
    }
    return text;
}
