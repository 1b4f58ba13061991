/* The judgement of emitted_programs: the program is emitted, built and run on the ranks of its plan, and must come to the
 * numbers of its logical graph in float64. So layout, allocate, fuse and the emitted text are tried, which nothing in float64
 * reaches. In the environment: FL_RUNTIME_LIB, the built runtime of the cpu target; or EMITTED_DOUBLE, a directory for the
 * objects of the cuda target's test double; EMITTED_KEEP: the last program's directory stays. */
#include "compare.h"
#include "emitted.h"
#include "base/diag.h"
#include "passes.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *work_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    return mem_printf("%s/flow-emitted.%d", tmp ? tmp : "/tmp", (int)getppid());
}

const int summary_every = 20;

struct options judge_options(void)
{
    return (struct options){.file = "random.flow", .target = getenv("EMITTED_DOUBLE") ? "cuda" : "cpu",
                            .verify = VERIFY_NEVER, .out = mem_printf("%s/out", work_dir())};
}

/* What the command said is in dir/said; its first telling line goes to kind, without the numbers that change. */
static int command(const char *dir, struct outcome *o, const char *what, const char *text)
{
    /* a trial's processor time is the compiler's; gcc and the run have their own */
    int status = system(mem_printf("ulimit -S -t 300 2> /dev/null; (%s) > %s/said 2>&1", text, dir));
    if (!status)
        return 0;
    static const char *const telling[] = {"error: ", "flow: ", "rank ", "runtime error", "ERROR"};
    char line[1000], said[150] = "";
    FILE *in = fopen(mem_printf("%s/said", dir), "r");
    for (int lines = 0; in && fgets(line, sizeof line, in); lines++) {
        if (lines < 30)
            fputs(line, stderr);
        for (size_t i = 0; i < sizeof telling / sizeof *telling && !*said; i++)
            if (strstr(line, telling[i]))
                snprintf(said, sizeof said, "%.*s", (int)strcspn(strstr(line, telling[i]), "'\n0123456789"),
                         strstr(line, telling[i]));
    }
    if (in)
        fclose(in);
    snprintf(o->kind, sizeof o->kind, "%s: status %d, %s", what, status, said);
    return status;
}

/* A file of weights can be written when every parameter is on some rank. */
static bool all_held(const struct module *m)
{
    struct { const char *key; bool value; } *held = NULL;
    for (int s = 0; s < m->physical->nstage; s++) {
        const struct graph *g = m->physical->stages[s].graph;
        for (int i = 0; i < arrlen(g->values); i++)
            if (value_param(g->values[i]))
                shput(held, value_param(g->values[i])->path, true);
    }
    for (int i = 0; i < arrlen(m->params); i++)
        if (!m->params[i]->is_state && !shget(held, m->params[i]->path))
            return false;
    return true;
}

static bool any_short(const struct module *m)
{
    for (int e = 0; e < ENTRIES; e++)
        for (int i = 0; m->graph[e] && i < arrlen(m->graph[e]->values); i++)
            if (m->graph[e]->values[i]->type == TYPE_BF16 || m->graph[e]->values[i]->type == TYPE_F16)
                return true;
    return false;
}

static const char *build_text(const char *dir)
{
    const char *twin = getenv("EMITTED_DOUBLE"), *built = getenv("FL_RUNTIME_LIB");
    if (twin)
        return mem_printf("make -s -f '%s/../cuda/double/double.mk' PROGRAM=%s/out BUILD='%s'", RANDOM_SOURCE, dir, twin);
    return mem_printf("make -s -C %s/out CFLAGS=-O1 %s%s", dir, built ? "RUNTIME=" : "", built ? built : "");
}

static enum judgement judged(struct module *m, struct outcome *o, const char *dir)
{
    m->options->check = false;
    emit(m);
    if (diag_errors()) {
        diag_print(stderr, false);
        snprintf(o->kind, sizeof o->kind, "emit refuses");
        return VERDICT_MUTE;
    }
    struct numbers runs[MANNERS];
    for (int how = 0; how < MANNERS; how++)
        runs[how] = emitted_reference(m, (enum manner)how, how ? NULL : dir);
    if (command(dir, o, "build", build_text(dir)))
        return VERDICT_BUG;
    bool weights = all_held(m);
    const char *program = getenv("EMITTED_DOUBLE") ? "run.double" : "run";
    int status = command(dir, o, "run", mem_printf(
        "cd %s && . '%s/../../scripts/mpi-env.sh' && export OMP_NUM_THREADS=1 FL_TIMEOUT=60 ASAN_OPTIONS=detect_leaks=0 && "
        "timeout 200 mpirun -n %d --oversubscribe out/%s --steps %d --metrics metrics.jsonl --quiet%s",
        dir, RANDOM_SOURCE, m->plan->mesh.nranks, program, EMITTED_STEPS, weights ? " --export end.safetensors" : ""));
    if (status)
        return VERDICT_CRASH;
    snprintf(o->kind, sizeof o->kind, "wrong numbers");
    return emitted_compare(runs, any_short(m), dir, weights, &o->degenerate) ? VERDICT_WRONG : VERDICT_EQUAL;
}

int judge(struct module *m, struct outcome *o)
{
    const char *dir = work_dir(), *clear = mem_printf("rm -rf %s", dir);
    if (system(clear) || mkdir(dir, 0777)) {
        perror(dir);
        return VERDICT_CRASH;
    }
    enum judgement v = judged(m, o, dir);
    if (!getenv("EMITTED_KEEP") && system(clear))
        perror(dir);
    return v;
}
