/* One program on trial, in a child process with a time limit. The child compiles it up to prove, then compares all
 * ranks with one (or what judge() is linked). What it found is left in memory shared with the parent; its stderr is kept. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "compare.h"
#include "passes.h"
#include "random.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* CPU_SECONDS: the compiler's; what it starts may raise it */
enum { CPU_SECONDS = 20, SECONDS_EACH = 900, STATUS_TOLD = 3 };

const char *const verdict_name[VERDICTS] = {"equal", "rejected", "WRONG NUMBERS", "BUG", "CRASH", "HANG", "SLOW", "MUTE"};

static const struct pass *const tried = passes + 1;       /* all but parse and emit */
enum { PASSES = PASS_COUNT - 2 };

static struct shared {
    struct outcome o;
    char pass[32];
} *shared;
static FILE *heard;                                   /* the child's stderr */

static _Noreturn void tell(enum judgement v, const char *kind)
{
    shared->o.verdict = v;
    snprintf(shared->o.kind, sizeof shared->o.kind, "%s", kind);
    fflush(stderr);
    _exit(STATUS_TOLD);
}

/* ---- the child ---- */

static void compile(struct module *m, const char *text, int until)
{
    snprintf(shared->pass, sizeof shared->pass, "parse");
    arrput(m->programs, parse(source_add("random.flow", text)));
    for (int at = 0; at < until && !diag_errors(); at++) {
        snprintf(shared->pass, sizeof shared->pass, "%s", tried[at].name);
        tried[at].run(m);
        for (int e = 0; e < ENTRIES && !diag_errors(); e++)
            if (m->graph[e])
                graph_verify(m->graph[e], tried[at].name);
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
    setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, RLIM_INFINITY });
    struct options options = judge_options();
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
    snprintf(shared->pass, sizeof shared->pass, "run");
    enum judgement judged = (enum judgement)judge(m, &shared->o);
    tell(judged, judged == VERDICT_EQUAL ? "equal" : shared->o.kind);
}

/* The place a BUG names, or what else the child's last words were. */
static void read_kind(struct outcome *o)
{
    static const char *const openings[] = {"internal error at ", "runtime error: ", "ERROR: AddressSanitizer: ",
                                           "ERROR: "};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        const char *p = strstr(o->text, openings[i]);
        if (p) {
            snprintf(o->kind, sizeof o->kind, "%.*s", (int)strcspn(p + strlen(openings[i]), "\n"),
                     p + strlen(openings[i]));
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
                 : WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU ? VERDICT_SLOW
                 : WIFEXITED(status) && WEXITSTATUS(status) == 70   ? VERDICT_BUG
                                                                    : VERDICT_CRASH;
    read_kind(o);
}

bool outcome_same(const struct outcome *a, const struct outcome *b)
{
    return a->verdict == b->verdict && !strcmp(a->kind, b->kind);
}
