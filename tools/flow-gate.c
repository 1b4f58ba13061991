/* flow-gate FILE.flow: puts every op that the program declares through the rule gate, with its own cpu kernel as the
 * reference: the sources are compiled into a shared object and run on whole tensors and on their parts. What the rule
 * claims must hold; what holds without being claimed is told. Gradients are held against central differences of the kernel. f32
 * kernels are compared to within 1e-4. */
#include "base/diag.h"
#include "checks.h"
#include "deal.h"
#include "emit/emitter.h"
#include "emit/shipped.h"
#include "passes.h"
#include "user_op.h"
#include "../runtime/flow_rt.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void entry(void **tensors, const struct fl_place *places, const float *numbers);

static struct { const struct user_op *key; entry *value; } *kernels;     /* stb_ds map */

/* ---- kernels as references ---- */

static void *narrow(const struct tensor *t, enum type type)
{
    int64_t n = tensor_entries(t);
    void *x = mem_alloc((size_t)(n + 1) * 4);
    for (int64_t i = 0; i < n; i++)
        if (type == TYPE_F32)
            ((float *)x)[i] = (float)t->data[i];
        else if (type == TYPE_I32)
            ((int32_t *)x)[i] = (int32_t)t->data[i];
        else
            ((uint8_t *)x)[i] = t->data[i] != 0;
    return x;
}

static void widen(const struct tensor *t, enum type type, const void *x)
{
    for (int64_t i = 0; i < tensor_entries(t); i++)
        t->data[i] = type == TYPE_F32 ? ((const float *)x)[i] : type == TYPE_I32 ? ((const int32_t *)x)[i]
                                                                                : ((const uint8_t *)x)[i];
}

static struct fl_place place_of(const struct tensor *t)
{
    struct fl_place p = {.ndim = t->ndim};
    for (int d = 0; d < t->ndim; d++) {
        p.n[d] = t->n[d];
        p.base[d] = t->base[d];
        p.size[d] = t->valid[d];
    }
    return p;
}

static void run_kernel(struct reference *r)
{
    const struct user_op *u = (const struct user_op *)r->node->op;
    void *tensors[2 * MAX_USER_TENSORS];
    struct fl_place places[2 * MAX_USER_TENSORS];
    float numbers[64] = {0};
    int count = 0;
    for (int k = 0; k < u->nout; k++, count++) {
        tensors[count] = narrow(&r->out[k], u->out[k].type);
        places[count] = place_of(&r->out[k]);
    }
    for (int k = 0; k < u->nin; k++, count++) {
        tensors[count] = narrow(&r->in[k], u->in[k].type);
        places[count] = place_of(&r->in[k]);
    }
    for (int i = 0; i < arrlen(u->scalars) && i < 64; i++)
        numbers[i] = (float)node_num(r->node, u->scalars[i], 0);
    hmget(kernels, u)(tensors, places, numbers);
    for (int k = 0; k < u->nout; k++)
        widen(&r->out[k], u->out[k].type, tensors[k]);
}

/* ---- compiling them ---- */

static bool compile_and_load(struct module *m)
{
    const char *root = getenv("TMPDIR");
    char *dir = mem_printf("%s/flow-gate-XXXXXX", root && *root ? root : "/tmp");
    if (!mkdtemp(dir)) {
        fprintf(stderr, "flow-gate: cannot make a directory such as %s; TMPDIR says where\n", dir);
        return false;
    }
    const char *header = mem_printf("%s/user_ops.h", dir), *shim = mem_printf("%s/shim.c", dir),
               *object = mem_printf("%s/ops.so", dir), **sources = NULL;
    FILE *f = fopen(header, "w");
    emit_user_header(m, f);
    fclose(f);
    f = fopen(shim, "w");
    fprintf(f, "#include \"user_ops.h\"\n");
    for (int i = 0; i < arrlen(m->user_ops); i++) {
        const struct user_op *u = m->user_ops[i];
        bool known = !u->cpu.path;
        if (known)
            continue;
        fprintf(f, "void gate_%s(void **, const struct fl_place *, const float *);\n"
                "void gate_%s(void **t, const struct fl_place *at, const float *s)\n{\n    (void)s;\n    op_%s(",
                u->op.name, u->op.name, u->op.name);
        for (int k = 0; k < u->nin + u->nout; k++)
            fprintf(f, "%st[%d]", k ? ", " : "", k);
        for (int k = 0; k < u->nin + u->nout; k++)
            fprintf(f, ", &at[%d]", k);
        for (int k = 0; k < arrlen(u->scalars); k++)
            fprintf(f, ", s[%d]", k);
        fprintf(f, ");\n}\n");
        for (int k = 0; k < arrlen(sources); k++)
            known |= !strcmp(sources[k], u->cpu.path);
        if (!known)
            arrput(sources, u->cpu.path);
    }
    fclose(f);
    const char **args = NULL;
    const char *fixed[] = {"cc", "-std=gnu11", "-O1", "-fopenmp", "-shared", "-fPIC", "-I", shipped("runtime"), "-I", dir,
                           "-o", object, shim};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        arrput(args, fixed[i]);
    for (int i = 0; i < arrlen(sources); i++)
        arrput(args, sources[i]);
    arrput(args, "-lm");
    arrput(args, NULL);
    pid_t child = fork();
    if (!child) {
        execvp("cc", (char **)args);
        _exit(127);
    }
    int status = 1;
    waitpid(child, &status, 0);
    void *library = status == 0 ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        fprintf(stderr, "flow-gate: %s\n", status ? "the kernels do not compile" : dlerror());
    for (int i = 0; library && i < arrlen(m->user_ops); i++) {
        struct user_op *u = m->user_ops[i];
        void *symbol = dlsym(library, mem_printf("gate_%s", u->op.name));
        if (!symbol)
            continue;
        entry *kernel;
        memcpy(&kernel, &symbol, sizeof kernel);
        hmput(kernels, u, kernel);
        u->op.ref = run_kernel;
    }
    unlink(header);
    unlink(shim);
    unlink(object);
    rmdir(dir);
    return library != NULL;
}

/* ---- samples ---- */

static const struct user_op *sampled;

static void set_numbers(struct node *n, struct dim **out)
{
    for (int i = 0; i < arrlen(sampled->scalars); i++)
        node_set_num(n, sampled->scalars[i], 0.7);
}

/* "f MNT, f T": a letter for each of the op's dims, in the order in which they appear. */
static const char *describe(const struct user_op *u)
{
    static const char letters[] = "MNTHDKLa";
    const char *names[sizeof letters] = {NULL}, *text = "";
    int known = 0;
    for (int k = 0; k < u->nin; k++) {
        enum type t = u->in[k].type;
        if (t != TYPE_F32 && t != TYPE_I32 && t != TYPE_BOOL)
            return NULL;
        text = mem_printf("%s%s%c ", text, k ? ", " : "", t == TYPE_F32 ? 'f' : t == TYPE_I32 ? 'i' : 'b');
        for (int d = 0; d < u->in[k].ndim; d++) {
            int i = 0;
            while (i < known && names[i] != u->in[k].dim[d])
                i++;
            if (i == (int)sizeof letters - 1)
                return NULL;
            names[i] = u->in[k].dim[d];
            known += i == known;
            text = mem_printf("%s%c", text, letters[i]);
        }
    }
    return text;
}

/* L = sum of w y of all results: each operand's gradient against central differences. */
static double loss_of(struct node *n, struct tensor *in, const struct tensor *like, double **w)
{
    struct tensor out[MAX_USER_TENSORS];
    double sum = 0;
    for (int k = 0; k < arrlen(n->out); k++) {
        out[k] = like[k];
        out[k].data = NEW_ARRAY(double, tensor_entries(&like[k]) + 1);
    }
    n->op->ref(&(struct reference){.node = n, .in = in, .out = out});
    for (int k = 0; k < arrlen(n->out); k++)
        for (int64_t i = 0; i < tensor_entries(&out[k]); i++)
            sum += w[k][i] * out[k].data[i];
    return sum;
}

static struct tensor tensor_like(const struct value *v)
{
    struct tensor t = {.ndim = v->ndim};
    for (int d = 0; d < v->ndim; d++)
        t.n[d] = t.full[d] = t.valid[d] = v->dim[d]->size;
    t.data = NEW_ARRAY(double, tensor_entries(&t) + 1);
    return t;
}

static bool check_gradient(const struct user_op *u, const struct instance *s)
{
    struct graph *g = graph_new(NULL, ENTRY_TRAIN);
    struct node *n = instance_node(g, s), *back = node_new(g, g->root, &u->grad->op, (struct span){0});
    struct tensor in[2 * MAX_USER_TENSORS], like[MAX_USER_TENSORS], made[MAX_USER_TENSORS];
    double *w[MAX_USER_TENSORS];
    struct operand operand[MAX_USER_TENSORS];
    uint32_t random = 777;
    int wrong = 0;
    operands_read(s->in, operand);
    for (int k = 0; k < u->nin; k++) {
        in[k] = tensor_like(n->in[k]);
        for (int64_t i = 0; i < tensor_entries(&in[k]); i++)
            in[k].data[i] = operand_value(operand[k].type, &random) * (operand[k].type == 'f' ? 0.5 : 1);
        node_in(back, n->in[k]);
    }
    for (int k = 0; k < u->nout; k++) {
        like[k] = tensor_like(n->out[k]);
        in[u->nin + k] = tensor_like(n->out[k]);
        w[k] = in[u->nin + k].data;
        for (int64_t i = 0; i < tensor_entries(&like[k]); i++)
            w[k][i] = random_value(&random);
        node_in(back, n->out[k]);
    }
    for (int i = 0; i < arrlen(u->grad->scalars); i++)
        node_set_num(back, u->grad->scalars[i], 0.7);
    if (!node_finish(g, back) || !u->grad->op.ref)
        return false;
    for (int k = 0; k < u->grad->nout; k++)
        made[k] = tensor_like(back->out[k]);
    u->grad->op.ref(&(struct reference){.node = back, .in = in, .out = made});
    for (int k = 0, at = 0; k < u->nin; k++) {
        if (!type_is_float(u->in[k].type))
            continue;
        for (int64_t i = 0; i < tensor_entries(&in[k]); i++) {
            const double h = 1e-2;
            double x = in[k].data[i];
            in[k].data[i] = x + h;
            double up = loss_of(n, in, like, w);
            in[k].data[i] = x - h;
            double down = loss_of(n, in, like, w), expected = (up - down) / (2 * h), got = made[at].data[i];
            in[k].data[i] = x;
            if (!(fabs(expected - got) <= 1e-2 * (1 + fabs(expected))) && wrong++ < 3)
                fprintf(stderr, "flow-gate: %s: gradient of '%s', entry %lld: %.5g, differences say %.5g\n", u->op.name,
                        u->in[k].name, (long long)i, got, expected);
        }
        at++;
    }
    return !wrong;
}

int main(int argc, char **argv)
{
    struct options o = {.target = "cpu", .file = argc == 2 ? argv[1] : NULL};
    struct module *m = NEW(struct module);
    m->options = &o;
    int file = o.file ? source_open(o.file) : 0, failures = 0;
    if (!file) {
        fprintf(stderr, "usage: flow-gate FILE.flow\n");
        return 2;
    }
    arrput(m->programs, parse(file));
    elaborate(m);
    if (diag_errors()) {
        diag_print(stderr, false);
        return 1;
    }
    if (!compile_and_load(m))
        return 1;
    deal_tolerance = 1e-4;
    gate_exact = false;
    for (int i = 0; i < arrlen(m->user_ops); i++) {
        sampled = m->user_ops[i];
        struct instance s = {.op = &sampled->op, .in = describe(sampled), .attrs = set_numbers};
        struct gate_counts c = {0};
        if (!s.in || !sampled->op.ref) {
            printf("%s: not checked: %s\n", sampled->op.name, s.in ? "it has no cpu source" : "its operands are not f32, "
                   "i32 or bool, or have too many dims");
            failures++;
            continue;
        }
        bool fine = gate_sample(&s, false, &c);
        if (sampled->grad)
            fine &= check_gradient(sampled, &s);
        printf("%s: %s: %ld combinations over 2 and 3 ranks, %ld over 2x2, %ld claims%s\n", sampled->op.name,
               fine ? "holds" : "WRONG", c.exact, c.two_axes, c.claims, sampled->grad ? ", gradient" : "");
        failures += !fine;
    }
    return failures != 0;
}
