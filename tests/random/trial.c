/* One program on trial, in a child process with a time limit. The child compiles it up to prove, then trains two steps
 * on one imagined rank and on all ranks in float64 and compares loss, norm, outputs, metrics, weights and states; then
 * the same for the evaluation. What it found is left in memory shared with the parent; its stderr is kept. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include "random.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_EACH = 20, STEPS = 2, STATUS_TOLD = 3 };

const char *const verdict_name[VERDICTS] = {"equal", "rejected", "WRONG NUMBERS", "BUG", "CRASH", "HANG", "MUTE"};

static const struct {
    const char *name;
    void (*run)(struct module *m);
} passes[] = {
    {"elaborate", elaborate}, {"differentiate", differentiate}, {"rewrite", rewrite}, {"place", place}, {"shard", shard},
    {"box", box}, {"fuse", fuse}, {"layout", layout}, {"schedule", schedule}, {"allocate", allocate}, {"prove", prove},
};
enum { PASSES = sizeof passes / sizeof *passes };

static struct shared {
    struct outcome o;
    char pass[32];
} *shared;
static FILE *heard;                                   /* the child's stderr */

static _Noreturn void tell(enum verdict v, const char *kind)
{
    shared->o.verdict = v;
    snprintf(shared->o.kind, sizeof shared->o.kind, "%s", kind);
    fflush(stderr);
    _exit(STATUS_TOLD);
}

/* ---- data ---- */

struct data { struct run *one, *all; uint64_t state; };

static double uniform(struct data *d)
{
    d->state = d->state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(d->state >> 33) / (double)(1u << 31);
}

/* f32: numbers of both signs; i32: small, 0 .. 3, so that they are legal as indices of every table here; bool. */
static void give_input(struct node *n, void *context)
{
    struct data *d = context;
    if (n->op != &op_input)
        return;
    const struct value *v = n->out[0];
    int64_t count = value_count(v);
    double *data = NEW_ARRAY(double, count + 1);
    for (int64_t i = 0; i < count; i++) {
        double u = uniform(d);
        data[i] = type_is_float(v->type) ? 2 * u - 1 : v->type == TYPE_BOOL ? u < 0.6 : floor(u * u * 4);
    }
    run_input(d->one, node_str(n, "name"), data);
    run_input(d->all, node_str(n, "name"), data);
}

/* ---- comparison ---- */

static bool near(double a, double b, double scale)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (1 + scale);
}

static bool huge(double x) { return !(fabs(x) < 1e9); }

static void differ(const char *what, double all, double one)
{
    fprintf(stderr, "%s: %.12g on all ranks, %.12g on one\n", what, all, one);
    shared->o.verdict = VERDICT_WRONG;
}

static void compare_outputs(struct module *m, enum entry e, const struct data *d, int64_t step)
{
    static const char *const scalars[] = {"loss", "grad_norm"};
    const struct graph *g = m->graph[e];
    for (int i = 0; i < 2; i++) {
        double x = run_output(d->all, scalars[i]), y = run_output(d->one, scalars[i]);
        shared->o.degenerate |= huge(y) && (i == 0 || e == ENTRY_TRAIN);
        if (!near(x, y, fabs(y)) && !(huge(x) && huge(y)))
            differ(mem_printf("%s %s of step %d", entry_name[e], scalars[i], (int)step), x, y);
    }
    for (int i = 0; i < arrlen(g->metrics) && e == ENTRY_EVALUATE; i++) {
        double x = run_output(d->all, g->metrics[i].name), y = run_output(d->one, g->metrics[i].name);
        if (!near(x, y, fabs(y)) && !(huge(x) && huge(y)))
            differ(mem_printf("metric %s", g->metrics[i].name), x, y);
    }
}

static void compare_weights(const struct weights *all, const struct weights *one, const char *who)
{
    for (int k = 0; k < hmlen(one->map); k++) {
        struct param *p = one->map[k].key;
        double *y = one->map[k].value, *x = weights_get(all, p), scale = 0;
        int64_t count = weights_count(p);
        for (int64_t i = 0; i < count; i++)
            scale = fmax(scale, fabs(y[i]));
        for (int64_t i = 0; i < count; i++)
            if (!near(x[i], y[i], scale) && !(huge(x[i]) && huge(y[i]))) {
                differ(mem_printf("%s%s[%lld] of %lld", who, p->path, (long long)i, (long long)count), x[i], y[i]);
                break;
            }
    }
}

/* Runs an entry both ways. */
static void compare(struct module *m, enum entry e)
{
    if (!m->graph[e])
        return;
    struct weights *start = weights_new(m, 5);
    /* Biases start at zero and gains at one: from there some faults cannot be seen. */
    for (int k = 0; k < hmlen(start->map); k++)
        for (int64_t i = 0; i < weights_count(start->map[k].key) && !start->map[k].key->is_state; i++)
            start->map[k].value[i] += 0.05 * (double)((i * 7 + k) % 5 - 2);
    struct weights *one = weights_copy(start), *all = weights_copy(start);
    struct data d = {run_logical(m, e, start), run_physical(m, e, start), 77};
    for (int64_t step = 0; step < (e == ENTRY_TRAIN ? STEPS : 1); step++) {
        region_walk(m->graph[e]->root, give_input, &d);
        snprintf(shared->pass, sizeof shared->pass, "run on one rank");
        run_step(d.one, step);
        snprintf(shared->pass, sizeof shared->pass, "run on all ranks");
        run_step(d.all, step);
        compare_outputs(m, e, &d, step);
    }
    run_weights(d.one, one);
    run_weights(d.all, all);
    compare_weights(all, one, "");
    for (int rank = 0; rank < m->plan->mesh.nranks; rank++) {    /* and every replica for itself */
        run_weights_rank(d.all, rank, all);
        compare_weights(all, one, mem_printf("rank %d: ", rank));
    }
}

/* ---- the child ---- */

static void compile(struct module *m, const char *text, int until)
{
    snprintf(shared->pass, sizeof shared->pass, "parse");
    arrput(m->programs, parse(source_add("random.flow", text)));
    for (int at = 0; at < until && !diag_errors(); at++) {
        snprintf(shared->pass, sizeof shared->pass, "%s", passes[at].name);
        passes[at].run(m);
        for (int e = 0; e < ENTRIES && !diag_errors(); e++)
            if (m->graph[e])
                graph_verify(m->graph[e], passes[at].name);
    }
}

/* The number of the first error printed; -1: none. */
static int first_code(void)
{
    fflush(stderr);
    char line[400];
    int code = -1;
    FILE *in = fdopen(dup(fileno(heard)), "r");
    rewind(in);
    while (code < 0 && fgets(line, sizeof line, in))
        sscanf(line, "error[E%d]", &code);
    fseek(in, 0, SEEK_END);
    return code;
}

static _Noreturn void child(const char *text)
{
    dup2(fileno(heard), STDERR_FILENO);
    alarm(SECONDS_EACH);
    struct options options = {.file = "random.flow", .target = "cpu", .check = true};
    struct module *m = NEW(struct module);
    m->options = &options;
    compile(m, text, PASSES);
    if (diag_errors()) {
        diag_print(stderr, false);
        shared->o.code = first_code();
        /* What fuse, layout and schedule are handed must be right; allocate may say that memory does not suffice. */
        static const char *const silent[] = {"box", "fuse", "layout", "schedule", "prove"};
        for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
            if (!strcmp(shared->pass, silent[i]) || shared->o.code < 0)
                tell(VERDICT_MUTE, mem_printf("E%04d in %s", shared->o.code, shared->pass));
        tell(VERDICT_REJECTED, mem_printf("E%04d", shared->o.code));
    }
    shared->o.ranks = m->plan->mesh.nranks;
    shared->o.microbatches = (int)m->plan->microbatches;
    shared->o.verdict = VERDICT_EQUAL;
    compare(m, ENTRY_TRAIN);
    compare(m, ENTRY_EVALUATE);
    tell(shared->o.verdict, shared->o.verdict == VERDICT_EQUAL ? "equal" : "wrong numbers");
}

/* The place a BUG names, or what else the child's last words were. */
static void read_kind(struct outcome *o)
{
    static const char *const openings[] = {"internal error at ", "runtime error: ", "ERROR: AddressSanitizer: ", "ERROR: "};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        const char *p = strstr(o->text, openings[i]);
        if (p) {
            snprintf(o->kind, sizeof o->kind, "%.*s", (int)strcspn(p + strlen(openings[i]), "\n"), p + strlen(openings[i]));
            if (i == 0 && strchr(o->kind, ':') && strstr(o->kind, ": "))
                *strstr(o->kind, ": ") = 0;
            return;
        }
    }
}

void trial(const char *text, struct outcome *o)
{
    if (!shared) {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        heard = tmpfile();
        if (shared == MAP_FAILED || !heard) {
            perror("random");
            exit(2);
        }
    }
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    if (ftruncate(fileno(heard), 0))
        perror("random");
    rewind(heard);
    pid_t pid = fork();
    if (pid == 0)
        child(text);
    int status = 0;
    waitpid(pid, &status, 0);
    *o = shared->o;
    ssize_t n = pread(fileno(heard), o->text, sizeof o->text - 1, 0);
    o->text[n < 0 ? 0 : n] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_TOLD)
        return;
    snprintf(o->kind, sizeof o->kind, "status %d in %s", status, shared->pass);
    o->verdict = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? VERDICT_HANG
                 : WIFEXITED(status) && WEXITSTATUS(status) == 70   ? VERDICT_BUG
                                                                    : VERDICT_CRASH;
    read_kind(o);
}

bool outcome_same(const struct outcome *a, const struct outcome *b)
{
    return a->verdict == b->verdict && !strcmp(a->kind, b->kind);
}
