/* The command. One table says what --emit prints after which pass; the rest is the command line.
 * Exit status: 0 fine, 1 the program was rejected, 2 bad usage, 70 a defect of flowc. */
#include "base/diag.h"
#include "op.h"
#include "passes.h"
#include "target.h"
#include <errno.h>
#include <string.h>

static const char usage_text[] =
    "usage: flowc FILE.flow [-o DIR] [--plan NAME] [--target cuda|cpu] [--set NAME=VALUE]... [--check]\n"
    "             [--emit=ast|logical|sbp|physical|schedule|memory|comm|dot|json|PASS[,json]] [--explain NAME]\n"
    "             [--plans] [--diff PLAN2] [--cluster F.json|NAME] [--time] [--diagnostics=json]\n"
    "             [--verify | --no-verify] [--spoil FAULT]\n"
    "       flowc --list-ops | --explain-error CODE | --allocate FILE.csv\n";

static bool emit_json;

static void dump_ast(FILE *to, struct module *m)
{
    for (int i = 0; i < arrlen(m->programs); i++)
        ast_dump(to, m->programs[i]);
}

static void dump_logical(FILE *to, struct module *m)
{
    module_dump(to, m);
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            graph_dump(to, m->graph[e], NULL);
}

/* As it stands between the quotes of JSON and of dot; file names may hold any byte. */
static const char *escaped(const char *text)
{
    const char *s = diag_clean(text);
    char *out = NEW_ARRAY(char, 2 * strlen(s) + 1), *to = out;
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            *to++ = '\\';
        *to++ = *s;
    }
    return out;
}

/* For graphviz: nodes of a region and its bodies, an edge for each value that one reads from another. Inputs of a body are
 * numbered as values of their own, and tied to the node that carries them in. */
static void dot_region(FILE *to, const struct region *r, const char *entry)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        const char *name = arrlen(n->out) ? mem_printf("%s_%d", entry, n->out[0]->id) : NULL;
        if (!name)
            continue;
        fprintf(to, "  %s [label=\"%s\\n%s\"];\n", name, n->op->name, escaped(value_type_text(n->out[0], NULL)));
        for (int k = 1; k < arrlen(n->out); k++)
            fprintf(to, "  %s -> %s_%d [style=dotted];\n", name, entry, n->out[k]->id);
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                fprintf(to, "  %s_%d -> %s;\n", entry, n->in[k]->id, name);
        if (!n->body)
            continue;
        for (int k = 0; k < arrlen(n->body->args); k++)
            fprintf(to, "  %s -> %s_%d [style=dotted];\n", name, entry, n->body->args[k]->id);
        dot_region(to, n->body, entry);
        for (int k = 0; k < arrlen(n->body->results); k++)
            fprintf(to, "  %s_%d -> %s [style=dashed];\n", entry, n->body->results[k]->id, name);
    }
}

static void dump_dot(FILE *to, struct module *m)
{
    fputs("digraph flow {\n  node [shape=box];\n", to);
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            dot_region(to, m->graph[e]->root, entry_name[e]);
    fputs("}\n", to);
}

static void json_region(FILE *to, const struct region *r, const char *entry, int *count)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        fprintf(to, "%s\n  {\"entry\": \"%s\", \"op\": \"%s\", \"where\": \"%s\", \"in\": [", (*count)++ ? "," : "", entry,
                n->op->name, escaped(span_where(n->span)));
        for (int k = 0; k < arrlen(n->in); k++)
            fprintf(to, n->in[k] ? "%s%d" : "%snull", k ? ", " : "", n->in[k] ? n->in[k]->id : 0);
        fputs("], \"out\": [", to);
        for (int k = 0; k < arrlen(n->out); k++)
            fprintf(to, "%s{\"id\": %d, \"type\": \"%s\", \"path\": \"%s\"}", k ? ", " : "", n->out[k]->id,
                    escaped(value_type_text(n->out[k], NULL)), escaped(n->out[k]->path ? n->out[k]->path : ""));
        fprintf(to, "], \"blocks\": %lld}", (long long)(n->body ? n->body->count : 1));
        if (n->body)
            json_region(to, n->body, entry, count);
    }
}

static void dump_json(FILE *to, struct module *m)
{
    int count = 0;
    fputs("{\"nodes\": [", to);
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            json_region(to, m->graph[e]->root, entry_name[e], &count);
    fputs("\n]}\n", to);
}

static void dump_comm(FILE *to, struct module *m) { comm_dump(to, m, emit_json); }
static void dump_schedule(FILE *to, struct module *m) { schedule_dump(to, m, emit_json); }
static void dump_proof(FILE *to, struct module *m) { proof_dump(to, m, emit_json); }
static void dump_memory(FILE *to, struct module *m) { memory_dump(to, m, emit_json); }

/* What --emit=NAME prints, after which pass: a pass by its own name, or a view of what is there by then. */
static const struct dump {
    const char *name;
    pass_function *after;
    void (*print)(FILE *to, struct module *m);
    bool has_json;
} dumps[] = {
    {"parse",         NULL,          dump_ast,      false},
    {"ast",           NULL,          dump_ast,      false},
    {"elaborate",     elaborate,     dump_logical,  false},
    {"differentiate", differentiate, dump_logical,  false},
    {"rewrite",       rewrite,       dump_logical,  false},
    {"logical",       rewrite,       dump_logical,  false},
    {"dot",           rewrite,       dump_dot,      false},
    {"json",          rewrite,       dump_json,     false},
    {"place",         place,         dump_logical,  false},
    {"shard",         shard,         shard_dump,    false},
    {"sbp",           shard,         shard_dump,    false},
    {"box",           box,           physical_dump, false},
    {"comm",          box,           dump_comm,     true},
    {"fuse",          fuse,          physical_dump, false},
    {"layout",        layout,        physical_dump, false},
    {"physical",      layout,        physical_dump, false},
    {"schedule",      schedule,      dump_schedule, true},
    {"allocate",      allocate,      dump_memory,   true},
    {"memory",        allocate,      dump_memory,   true},
    {"prove",         prove,         dump_proof,    true},
};

/* Runs the passes as far as what is asked for needs them; true when there were no errors. */
static bool compile(struct module *m, const struct dump *dumped)
{
    const struct options *o = m->options;
    pass_function *last = o->explain ? shard : o->out ? emit : prove;
    if (dumped)
        last = dumped->after ? dumped->after : passes[0].run;
    if (!passes_run(m, NULL, last))
        return false;
    if (dumped)
        dumped->print(stdout, m);
    else if (m->explained)
        fputs(m->explained, stdout);
    return true;
}

/* --diff: compiles the program under the other plan too. */
static bool compare(struct module *m, const char *plan)
{
    struct module *other = NEW(struct module);
    struct options *o = NEW(struct options);
    *o = *m->options;
    o->plan = plan;
    other->options = o;
    if (!compile(other, NULL))
        return false;
    plan_diff(stdout, m, other);
    return true;
}

static bool compile_all(struct module *m)
{
    return compile(m, NULL);
}

/* --plans: a first look at the program only to find their names. */
static bool compare_all(struct module *m)
{
    if (!passes_run(m, NULL, passes[0].run))
        return false;
    struct diag_held held = diag_hold();
    elaborate(m);
    diag_drop(held);
    return plans_table(stdout, m, compile_all) > 0;
}

static int usage(const char *fact, const char *what)
{
    if (fact)
        fprintf(stderr, "flowc: %s '%s'\n", fact, what);
    fputs(usage_text, stderr);
    return 2;
}

static const struct dump *dump_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++)
        if (strlen(dumps[i].name) == n && !strncmp(dumps[i].name, name, n))
            return &dumps[i];
    return NULL;
}

static int run(int argc, char **argv)
{
    struct options o = {.target = "cuda"};
    const struct dump *dumped = NULL;
    const char *diff = NULL;
    bool plans = false;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--check")) {
            o.check = true;
        } else if (!strcmp(a, "--verify")) {
            o.verify = VERIFY_ALWAYS;
        } else if (!strcmp(a, "--no-verify")) {
            o.verify = VERIFY_NEVER;
        } else if (!strcmp(a, "--plans")) {
            plans = true;
        } else if (!strcmp(a, "--time")) {
            o.time = true;
        } else if (!strcmp(a, "--diagnostics=json")) {
            json = true;
            bug_caught_by(diag_bug_json);
        } else if (!strcmp(a, "--list-ops")) {
            list_ops(stdout);
            return 0;
        } else if (!strcmp(a, "--help")) {
            fputs(usage_text, stdout);
            return 0;
        } else if (!strncmp(a, "--emit=", 7)) {
            const char *name = a + 7, *comma = strchr(name, ',');
            dumped = dump_find(name, comma ? (size_t)(comma - name) : strlen(name));
            emit_json = comma && !strcmp(comma, ",json");
            if (!dumped || (comma && !(emit_json && dumped->has_json)))
                return usage("nothing to emit under the name", name);
        } else if (a[0] == '-' && !next) {
            return usage("unknown option, or one that lacks its argument:", a);
        } else if (!strcmp(a, "--explain-error")) {
            return diag_explain(stdout, next) ? usage("no such error code", next) : 0;
        } else if (!strcmp(a, "--allocate")) {
            return allocate_file(stdout, next);
        } else if (!strcmp(a, "-o")) {
            o.out = argv[++i];
        } else if (!strcmp(a, "--plan")) {
            o.plan = argv[++i];
        } else if (!strcmp(a, "--explain")) {
            o.explain = argv[++i];
        } else if (!strcmp(a, "--diff")) {
            diff = argv[++i];
        } else if (!strcmp(a, "--cluster")) {
            o.cluster = argv[++i];
        } else if (!strcmp(a, "--spoil")) {
            o.spoil = argv[++i];
        } else if (!strcmp(a, "--target")) {
            o.target = argv[++i];
            if (!target_named(o.target))
                return usage("--target is cuda or cpu, not", o.target);
        } else if (!strcmp(a, "--set")) {
            const char *equals = strchr(next, '=');
            if (!equals || equals == next || !equals[1])
                return usage("--set takes NAME=VALUE, not", next);
            char *name = mem_strdup(next);
            name[equals - next] = 0;
            arrpush(o.set, ((typeof(*o.set)){intern(name), equals + 1, false}));
            i++;
        } else if (a[0] == '-') {
            return usage("unknown option", a);
        } else if (o.file) {
            return usage("a second source file:", a);
        } else {
            o.file = a;
        }
    }
    if (!o.file)
        return usage(NULL, NULL);
    if ((dumped != NULL) + (diff != NULL) + (o.explain != NULL) + plans > 1)
        return usage("--emit, --explain, --diff and --plans are asked one at a time:", o.file);
    if (o.check || dumped || diff || o.explain || plans) {
        if (o.out && !json)
            fprintf(stderr, "flowc: '%s' is not written: this call only looks at the program\n", o.out);
        o.out = NULL;
    }
    struct module *m = NEW(struct module);
    m->options = &o;
    bool fine = plans ? compare_all(m) : compile(m, dumped);
    if (fine && diff)
        fine = compare(m, diff);
    diag_print(stderr, json);
    return fine ? 0 : 1;
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "flowc: cannot write the output: %s\n", strerror(errno));
        status = 1;
    }
    mem_release();
    return status;
}
