/* cases FILE.flow..: small programs that once went wrong elsewhere, each with what is right in its comments:
 *
 *     # plans: a b c               every line below holds for each of these plans (without it: for the first plan)
 *     # targets: cpu cuda         .. and compiled for each of these targets (without it: cpu)
 *     # vary: NAME = 1 2 3         .. and for each value; several lines multiply
 *     # expect: equal              compiles, and all ranks compute what one rank does
 *     # expect: ignored            .. also where every label is one to ignore: then the loss is 0
 *     # expect: loss 2.302585      .. and this is the loss of the first step on one rank, with zeros for the inputs
 *     # expect: reject E0501 'text' 'text'     refused with this code, and the messages hold these texts
 *     # expect: warn W0603 'text'
 *     # expect: comm PHASE KIND(AXES) == 2     calls in a training step; PHASE and KIND may be `any`
 *     # expect: dump PASS 'text' 'text'        the dump of this pass holds the texts (sbp, comm, memory, schedule) */
#define _GNU_SOURCE
#include "../random/compare.h"
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINES = 40, MAX_TEXT = 1 << 16 };

struct setting { char name[32], value[32]; };
struct trial { const char *file, *text, *plan, *target; struct setting set[6]; int nset; int *bad; };

static void complain(struct trial *t, const char *what, const char *more)
{
    printf("%s%s%s --target %s", t->file, t->plan ? " --plan " : "", t->plan ? t->plan : "", t->target);
    for (int i = 0; i < t->nset; i++)
        printf(" --set %s=%s", t->set[i].name, t->set[i].value);
    printf(": %s\n%s\n", what, more);
    ++*t->bad;
}

/* ---- expectations ---- */

/* Each 'text' of the expectation is in the output. */
static void check_texts(struct trial *t, const char *expect, const char *output)
{
    for (const char *p = expect; (p = strchr(p, '\'')); p++) {
        const char *end = strchr(p + 1, '\'');
        if (!end)
            break;
        char *text = strndup(p + 1, (size_t)(end - p - 1));
        if (!strstr(output, text))
            complain(t, mem_printf("should say '%s'", text), output);
        free(text);
        p = end;
    }
}

static char *dump(void (*write)(FILE *to, struct module *m), struct module *m)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    write(to, m);
    fclose(to);
    return text;
}

static void comm_json(FILE *to, struct module *m) { comm_dump(to, m, true); }
static void comm_text(FILE *to, struct module *m) { comm_dump(to, m, false); }
static void schedule_text(FILE *to, struct module *m) { schedule_dump(to, m, false); }
static void memory_text(FILE *to, struct module *m) { memory_dump(to, m, false); }

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void check_comm(struct trial *t, struct module *m, const char *expect)
{
    char phase[32], kind[64], axes[32] = "";
    int wanted;
    if (sscanf(expect, "comm %31s %63s == %d", phase, kind, &wanted) != 3) {
        complain(t, "cannot read", expect);
        return;
    }
    char *open = strchr(kind, '(');
    if (open) {
        snprintf(axes, sizeof axes, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
        *open = 0;
    }
    char *text = dump(comm_json, m);
    json_error_t error;
    json_t *all = json_loads(text, 0, &error), *one;
    size_t i;
    int calls = 0;
    json_array_foreach(json_object_get(all, "communication"), i, one) {
        const char *p = text_of(one, "phase"), *k = text_of(one, "kind"), *a = text_of(one, "axis");
        bool train = !strcmp(text_of(one, "entry"), "train");
        if (train && (!strcmp(phase, "any") || !strcmp(phase, p)) && (!strcmp(kind, "any") || !strcmp(kind, k)) &&
            (!*axes || !strcmp(axes, a)))
            calls += (int)json_integer_value(json_object_get(one, "times"));
    }
    json_decref(all);
    free(text);
    if (calls != wanted) {
        text = dump(comm_text, m);
        complain(t, mem_printf("%d calls, expected: %s", calls, expect), text);
        free(text);
    }
}

static void check_dump(struct trial *t, struct module *m, const char *expect)
{
    static const struct { const char *name; void (*write)(FILE *to, struct module *m); } dumps[] = {
        {"sbp", shard_dump}, {"comm", comm_text}, {"schedule", schedule_text}, {"memory", memory_text},
        {"physical", physical_dump}};
    for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++)
        if (!strncmp(expect + 5, dumps[i].name, strlen(dumps[i].name))) {
            char *text = dump(dumps[i].write, m);
            check_texts(t, expect, text);
            free(text);
            return;
        }
    complain(t, "no such dump", expect);
}

static void zero_input(struct node *n, void *context)
{
    if (n->op == &op_input)
        run_input(context, node_str(n, "name"), NEW_ARRAY(double, value_count(n->out[0]) + 1));
}

static void check_loss(struct trial *t, struct module *m, double wanted)
{
    struct run *r = run_logical(m, ENTRY_TRAIN, weights_new(m, 1));
    struct run *all = run_physical(m, ENTRY_TRAIN, weights_new(m, 1));
    region_walk(m->graph[ENTRY_TRAIN]->root, zero_input, r);
    region_walk(m->graph[ENTRY_TRAIN]->root, zero_input, all);
    run_step(r, 0);
    run_step(all, 0);
    double one = run_output(r, "loss"), every = run_output(all, "loss");
    if (!(fabs(one - wanted) <= 1e-6 * (1 + fabs(wanted)) && fabs(every - wanted) <= 1e-6 * (1 + fabs(wanted))))
        complain(t, mem_printf("loss %.9g on one rank, %.9g on all; expected %.9g", one, every, wanted), "");
    run_release(r);
    run_release(all);
}

static void check_equal(struct trial *t, struct module *m)
{
    bool huge;
    char *text = NULL;
    size_t size = 0;
    FILE *heard = open_memstream(&text, &size), *old = stderr;
    stderr = heard;
    int differences = compare_program(m, &huge);
    stderr = old;
    fclose(heard);
    if (differences || huge)
        complain(t, "all ranks and one do not agree", text);
    free(text);
}

/* ---- one program under one plan ---- */

static bool has_code(const char *said, const char *expect)
{
    char code[32];
    return sscanf(expect, "%*s %31s", code) == 1 && strstr(said, mem_printf("[%s]", code));
}

static void try(struct trial *t)
{
    struct options o = {.file = t->file, .target = t->target, .check = true, .plan = t->plan};
    for (int i = 0; i < t->nset; i++)
        arrput(o.set, ((typeof(*o.set)){intern(t->set[i].name), t->set[i].value, false}));
    struct module *m = NEW(struct module);
    m->options = &o;
    arrput(m->programs, parse(source_add(t->file, t->text)));
    if (!diag_errors())
        passes_run(m, elaborate, prove);
    bool rejected = diag_errors() > 0, expects_reject = strstr(t->text, "# expect: reject ") != NULL;
    char *said = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&said, &size);
    diag_print(to, false);
    fclose(to);
    if (rejected != expects_reject)
        complain(t, rejected ? "rejected" : "not rejected", said);
    for (const char *p = t->text; (p = strstr(p, "# expect: ")); p++) {
        char *line = strndup(p + 10, strcspn(p + 10, "\n"));
        if (!strncmp(line, "reject ", 7) || !strncmp(line, "warn ", 5)) {
            if (!has_code(said, line))
                complain(t, line, said);
            check_texts(t, line, said);
        } else if (!rejected && !strncmp(line, "equal", 5)) {
            check_equal(t, m);
        } else if (!rejected && !strncmp(line, "ignored", 7)) {
            compare_all_ignored = true;
            check_equal(t, m);
            compare_all_ignored = false;
        } else if (!rejected && !strncmp(line, "loss ", 5)) {
            check_loss(t, m, atof(line + 5));
        } else if (!rejected && !strncmp(line, "comm ", 5)) {
            check_comm(t, m, line);
        } else if (!rejected && !strncmp(line, "dump ", 5)) {
            check_dump(t, m, line);
        } else if (!rejected) {
            complain(t, "cannot read", line);
        }
        free(line);
    }
    free(said);
    diag_reset();
    source_reset();
    mem_release();
}

/* ---- plans and variations ---- */

/* The words after a tag in the text, one line of them. */
static int words_after(const char *line, char words[MAX_LINES][32])
{
    const char *end = line + strcspn(line, "\n");
    int n = 0, used;
    for (; n < MAX_LINES && line < end && sscanf(line, " %31[^ \n]%n", words[n], &used) == 1; n++) {
        if (line + used > end)
            break;
        line += used;
    }
    return n;
}

/* From the vary line `from` on; then the program itself. */
static void vary(struct trial *t, const char *from)
{
    const char *line = strstr(from, "# vary: ");
    if (!line) {
        try(t);
        return;
    }
    char words[MAX_LINES][32] = {{0}};
    int n = words_after(line + 8, words);
    struct setting *s = &t->set[t->nset++];
    strcpy(s->name, words[0]);
    for (int i = 2; i < n; i++) {
        strcpy(s->value, words[i]);
        vary(t, line + 1);
    }
    t->nset--;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        static char text[MAX_TEXT];
        FILE *in = fopen(argv[i], "r");
        if (!in) {
            perror(argv[i]);
            return 2;
        }
        text[fread(text, 1, MAX_TEXT - 1, in)] = 0;
        fclose(in);
        if (!strstr(text, "# expect: ")) {
            printf("%s expects nothing\n", argv[i]);
            return 2;
        }
        char plans[MAX_LINES][32], targets[MAX_LINES][32] = {"cpu"};
        const char *line = strstr(text, "# plans: "), *built = strstr(text, "# targets: ");
        int n = line ? words_after(line + 9, plans) : 0, ntarget = built ? words_after(built + 11, targets) : 1;
        for (int k = 0; k < (n ? n : 1) * ntarget; k++) {
            struct trial t = {.file = argv[i], .text = text, .plan = n ? plans[k / ntarget] : NULL,
                              .target = targets[k % ntarget], .bad = &bad};
            vary(&t, text);
        }
    }
    return bad != 0;
}
