/* Kernels emitted from expressions: element-wise nodes and fused chains (one loop nest in the order of the result's
 * memory), and products with sums over strided operands (the general contraction, for what no GEMM says). One text
 * serves both targets: FL_FOR1 and FL_FOR2 are loops on a processor and a grid on a GPU. */
#include "../target.h"
#include "nest.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *number_text(double v);

/* A number as a float constant of C, exactly. */
const char *number_text(double v)
{
    if (isinf(v))
        return v > 0 ? "INFINITY" : "-INFINITY";
    if (isnan(v))
        return "NAN";
    const char *s = mem_printf("%.9g", v);
    return mem_printf("%s%sf", s, strpbrk(s, ".e") ? "" : ".0");
}

/* Opens the loops [0, count) of the nest and says how each loop's variable is written. The innermost goes on by `vector`. */
static void open_loops(FILE *to, const struct nest *n, int count, int vector, const char **var)
{
    const char *head = vector > 1 ? mem_printf("FL_VECTORS%d(%d, ", count > 1 ? 2 : 1, vector) :
                       count > 1 ? "FL_FOR2(" : "FL_FOR1(";
    struct sym rows = sym_int(1);
    for (int i = 0; i + 1 < count; i++)
        rows = sym_mul(rows, n->extent[i]);
    if (count <= 1) {
        fprintf(to, "    %si, %s) {\n", head, count ? kernel_text(sym_text(n->extent[0])) : "1");
        var[0] = "i";
        return;
    }
    fprintf(to, "    %sr, %s, i, %s) {\n", head, kernel_text(sym_text(rows)),
            kernel_text(sym_text(n->extent[count - 1])));
    var[count - 1] = "i";
    if (count == 2) {
        var[0] = "r";
        return;
    }
    struct sym below = sym_int(1);
    for (int d = count - 2; d >= 0; d--) {
        const char *part = sym_is(below, 1) ? "r" : mem_printf("r / (%s)", kernel_text(sym_text(below)));
        var[d] = mem_printf("i%d", d);
        if (d)
            fprintf(to, "        const int64_t i%d = %s %% (%s);\n", d, part, kernel_text(sym_text(n->extent[d])));
        else
            fprintf(to, "        const int64_t i0 = %s;\n", part);
        below = sym_mul(below, n->extent[d]);
    }
}

/* Strides of v over the loops of `like`'s dims, by trailing broadcast. */
static void add_broadcast(struct nest *nest, const struct value *v, const struct value *like)
{
    int t = nest->tensors++;
    for (int d = 0; d < like->ndim; d++) {
        int own = d - (like->ndim - v->ndim);
        bool stretched = own < 0 || (sym_is(v->place->extent[own], 1) && !sym_is(like->place->extent[d], 1));
        nest->stride[t][d] = stretched ? sym_int(0) : v->place->stride[own];
    }
}

const char *kernel_parameters(struct emitter *e, const bool *needs, const char **arguments)
{
    const char *s = "";
    *arguments = "";
    for (int i = 0; i < arrlen(e->p->constants); i++)
        if (needs[i]) {
            s = mem_printf("%sint64_t k%d, ", s, i);
            *arguments = mem_printf("%sk[%d], ", *arguments, i);
        }
    return s;
}

static bool *no_constants(const struct emitter *e)
{
    return NEW_ARRAY(bool, arrlen(e->p->constants) + 1);
}

static const char *loaded(enum type t, const char *element)
{
    return type_is_short(t) ? mem_printf("fl_from%s(%s)", type_suffix(t), element) : element;
}

static const char *stored(enum type t, const char *number)
{
    if (t == TYPE_BOOL)
        return mem_printf("(%s) != 0", number);
    return type_is_short(t) ? mem_printf("fl_to%s(%s)", type_suffix(t), number) : number;
}

/* The expression with %0, %1 .. replaced by loads or numbers; a constant operand is written out. */
static const char *expand(const struct node *n, const char *expr, const char *const *load)
{
    const char *s = "";
    for (const char *at = expr; *at; at++) {
        if (*at != '%' || at[1] < '0' || at[1] > '9') {
            s = mem_printf("%s%c", s, *at);
            continue;
        }
        int k = 0;
        while (at[1] >= '0' && at[1] <= '9')
            k = 10 * k + *++at - '0';
        s = mem_printf("%s%s", s, load[k]);
    }
    return s;
}

/* How many elements a thread takes at a time, so that the shortest of 16 bits or more make one access of 16 bytes: where the
 * target has such, and along the innermost loop every tensor is contiguous or does not change. 1: one by one. */
static int vector_of(const struct emitter *e, const struct nest *nest, const struct node *n)
{
    int last = nest->loops - 1, nout = (int)arrlen(n->out), least = 4;
    if (!target_of(e->m)->vectors || last < 0)
        return 1;
    for (int t = 0; t < nest->tensors; t++) {
        const struct value *v = t < nout ? n->out[t] : n->in[t - nout];
        if (!sym_is(nest->stride[t][last], 1) && (t < nout || !sym_is(nest->stride[t][last], 0)))
            return 1;
        if (in_memory(v) && type_bytes[v->type] == 2)
            least = 2;
    }
    int width = 16 / least;
    struct sym rest = nest->extent[last];
    return last == 0 || (rest.n == 0 && rest.c % width == 0) ? width : 1;
}

static const char *expr_of(const struct node *n, int k)
{
    const char *expr = node_str(n, k ? mem_printf("expr%d", k) : "expr");
    return expr ? expr : n->op->expr;
}

/* What goes into result k. */
static const char *result_text(const struct node *n, int k, const char *const *load)
{
    return stored(n->out[k]->type, expand(n, expr_of(n, k), load));
}

/* Is operand k in an expression? What is shown of a chain may leave some out. */
static bool is_read(const struct node *n, int k)
{
    const char *name = mem_printf("%%%d", k);
    for (int o = 0; o < arrlen(n->out); o++)
        for (const char *at = expr_of(n, o); (at = strstr(at, name)); at++)
            if (at[strlen(name)] < '0' || at[strlen(name)] > '9')
                return true;
    return false;
}

/* The loop's body where a thread takes `width` elements: they are read, all computed, and written. */
static void vector_body(FILE *to, const struct nest *nest, const struct node *n, int width, const char *const *var)
{
    int nin = (int)arrlen(n->in), nout = (int)arrlen(n->out), last = nest->loops - 1;
    const char **load = NEW_ARRAY(const char *, nin + 1), *end = kernel_text(sym_text(nest->extent[last]));
    for (int k = 0; k < nin; k++) {
        const char *outer = nest_index(nest, nout + k, var, 0, last), *from = strcmp(outer, "0") ? mem_printf(" + %s", outer) : "";
        enum type t = n->in[k]->type;
        if (!in_memory(n->in[k])) {
            load[k] = mem_printf("(%s)", number_text(node_num(n->in[k]->def, "value", 0)));
        } else if (sym_is(nest->stride[nout + k][last], 0) || !is_read(n, k)) {
            load[k] = loaded(t, mem_printf("a%d[%s]", k, outer));
        } else {
            fprintf(to, "        const fl_vector<%s, %d> x%d = fl_vector_load<%d>(a%d%s, i, %s);\n", type_c[t], width, k, width, k,
                    from, end);
            load[k] = loaded(t, mem_printf("x%d.at[e]", k));
        }
    }
    for (int k = 0; k < nout; k++)
        fprintf(to, "        fl_vector<%s, %d> y%d;\n", type_c[n->out[k]->type], width, k);
    fprintf(to, "        FL_LANES(e, %d, i, %s) {\n", width, end);
    for (int k = 0; k < nout; k++)
        fprintf(to, "            y%d.at[e] = %s;\n", k, result_text(n, k, load));
    fputs("        }\n", to);
    for (int k = 0; k < nout; k++) {
        const char *outer = nest_index(nest, k, var, 0, last), *at = strcmp(outer, "0") ? mem_printf(" + %s", outer) : "";
        fprintf(to, "        fl_vector_store(o%d%s, i, %s, y%d);\n", k, at, end, k);
    }
}

void emit_elementwise(struct emitter *e, const struct node *n)
{
    const struct value *out = n->out[0];
    int nin = (int)arrlen(n->in), nout = (int)arrlen(n->out);
    struct nest *nest = NEW(struct nest);
    nest->loops = out->ndim;
    for (int d = 0; d < out->ndim; d++)
        nest->extent[d] = out->place->extent[d];
    if (nin + nout > NEST_TENSORS)
        BUG("a kernel of %d tensors", nin + nout);
    for (int k = 0; k < nout; k++)
        add_broadcast(nest, n->out[k], out);
    for (int k = 0; k < nin; k++)
        add_broadcast(nest, n->in[k], out);
    nest_sort(e->p, nest, 0);
    nest_merge(nest);
    const char *var[NEST_LOOPS] = {"0"}, **load = NEW_ARRAY(const char *, nin + 1), *constants;
    bool *needs = no_constants(e);
    kernel_constants(nest, needs);
    const char *values = kernel_parameters(e, needs, &constants);
    const char *args = "", *pass = "", *name = mem_printf("kernel_%d_%s", n->id, n->op->name), *alone = "__restrict__ ";
    for (int k = 0; k < nout * nin; k++)
        if (n->out[k / nin] == n->in[k % nin])
            alone = "";
    for (int k = 0; k < nout; k++) {
        args = mem_printf("%s%s%s *%so%d", args, k ? ", " : "", type_c[n->out[k]->type], alone, k);
        pass = mem_printf("%s%s%s", pass, k ? ", " : "", tensor_name(e, n->out[k]));
    }
    for (int k = 0; k < nin; k++) {
        if (!in_memory(n->in[k]))
            continue;
        args = mem_printf("%s, const %s *%sa%d", args, type_c[n->in[k]->type], alone, k);
        pass = mem_printf("%s, %s", pass, tensor_name(e, n->in[k]));
    }
    FILE *to = e->kernels;
    fprintf(to, "/* %s : %s", n->op->name, c_comment(value_type_text(out, e->p->mesh)));
    if (n->span.file)
        fprintf(to, "  %s", c_comment(span_where(n->span)));
    fprintf(to, " */\nFL_KERNEL %s(FL_PARAMS %s%s)\n{\n", name, values, args);
    int width = vector_of(e, nest, n);
    open_loops(to, nest, nest->loops, width, var);
    for (int k = 0; k < nin && width == 1; k++)
        load[k] = in_memory(n->in[k])
                      ? loaded(n->in[k]->type, mem_printf("a%d[%s]", k, nest_index(nest, nout + k, var, 0, nest->loops)))
                      : mem_printf("(%s)", number_text(node_num(n->in[k]->def, "value", 0)));
    for (int k = 0; k < nout && width == 1; k++)
        fprintf(to, "        o%d[%s] = %s;\n", k, nest_index(nest, k, var, 0, nest->loops), result_text(n, k, load));
    if (width > 1)
        vector_body(to, nest, n, width, var);
    fputs("    }\n}\n\n", to);
    const char *count = sym_text(sym_range(out->place, 0, out->ndim));
    line(e, n, "FL_LAUNCH(%s, %s, %s%s);", name, width > 1 ? mem_printf("FL_VECTORS_OF(%d, %s)", width, count) : count, constants, pass);
}

static bool seen(const struct nest *n, const char *letters, char c, int *at)
{
    for (int i = 0; i < n->loops; i++)
        if (letters[i] == c) {
            *at = i;
            return true;
        }
    return false;
}

static struct sym sum_of(struct sym a, struct sym b)
{
    if (sym_is(a, 0))
        return b;
    if (a.n != b.n || memcmp(a.k, b.k, sizeof *a.k * (size_t)a.n))
        BUG("a diagonal of a tensor whose strides differ between ranks");
    a.c += b.c;
    return a;
}

/* letters[0] names the dims of the result, letters[1 + k] those of operand k. Loops of the result come first. */
void emit_product(struct emitter *e, const struct node *n, const char *const *letters)
{
    struct nest *out = NEW(struct nest), *sum = NEW(struct nest);
    char outer[NEST_LOOPS + 1] = "", inner[NEST_LOOPS + 1] = "";
    int nin = (int)arrlen(n->in), at;
    const char *limit[NEST_LOOPS] = {NULL};
    out->tensors = sum->tensors = nin + 1;
    for (int t = 0; t <= nin; t++) {
        const struct value *v = t ? n->in[t - 1] : n->out[0];
        for (int d = 0; letters[t][d]; d++) {
            struct nest *in = !t || seen(out, outer, letters[t][d], &at) ? out : sum;
            char *known = in == out ? outer : inner;
            if (!seen(in, known, letters[t][d], &at)) {
                at = in->loops++;
                known[at] = letters[t][d];
                in->extent[at] = v->place->extent[d];
                /* padding takes no part in a sum */
                if (in == sum && v->dim[d]->size != v->dim[d]->phys)
                    limit[at] = mem_printf("%lld - (%s)", (long long)v->dim[d]->size,
                                           sym_text(sym_base(e->p, v, d)));
            }
            in->stride[t][at] = sum_of(in->stride[t][at], v->place->stride[d]);
        }
    }
    nest_sort(e->p, out, 0);
    nest_merge(out);
    const char *var[NEST_LOOPS] = {"0"}, *inner_var[NEST_LOOPS], *constants;
    bool *needs = no_constants(e);
    kernel_constants(out, needs);
    kernel_constants(sum, needs);
    for (int i = 0; i < sum->loops; i++)
        for (const char *c = limit[i] ? strchr(limit[i], '[') : NULL; c; c = strchr(c + 1, '['))
            needs[atoi(c + 1)] = true;
    const char *values = kernel_parameters(e, needs, &constants), *name = mem_printf("kernel_%d_%s", n->id, n->op->name);
    bool add = node_int(n, "accumulate", 0);
    const char *args = mem_printf("%s%s *__restrict__ o", add ? "int add, " : "", type_c[n->out[0]->type]);
    const char *pass = mem_printf("%s%s", add ? "mb > 0, " : "", tensor_name(e, n->out[0]));
    for (int k = 0; k < nin; k++) {
        args = mem_printf("%s, const %s *__restrict__ a%d", args, type_c[n->in[k]->type], k);
        pass = mem_printf("%s, %s", pass, tensor_name(e, n->in[k]));
    }
    FILE *to = e->kernels;
    fprintf(to, "/* %s : %s */\nFL_KERNEL %s(FL_PARAMS %s%s)\n{\n", n->op->name,
            c_comment(value_type_text(n->out[0], e->p->mesh)), name, values, args);
    open_loops(to, out, out->loops, 1, var);
    fputs("        float sum = 0;\n", to);
    for (int i = 0; i < sum->loops; i++) {
        inner_var[i] = mem_printf("j%d", i);
        const char *extent = kernel_text(sym_text(sum->extent[i]));
        fprintf(to, "        for (int64_t j%d = 0; j%d < %s", i, i, extent);
        if (limit[i])
            fprintf(to, " && j%d < %s", i, kernel_text(limit[i]));
        fprintf(to, "; j%d++)\n", i);
    }
    fprintf(to, "            sum += ");
    for (int k = 0; k < nin; k++)
        fprintf(to, "%s%s", k ? " * " : "",
                loaded(n->in[k]->type, mem_printf("a%d[%s + %s]", k, nest_index(out, k + 1, var, 0, out->loops),
                                                  nest_index(sum, k + 1, inner_var, 0, sum->loops))));
    const char *at_out = mem_printf("o[%s]", nest_index(out, 0, var, 0, out->loops)), *total = "sum";
    if (add)
        total = mem_printf("add ? %s + sum : sum", loaded(n->out[0]->type, at_out));
    fprintf(to, ";\n        %s = %s;\n    }\n}\n\n", at_out, stored(n->out[0]->type, total));
    line(e, n, "FL_LAUNCH(%s, %s, %s%s);", name,
         sym_text(sym_range(n->out[0]->place, 0, n->out[0]->ndim)), constants, pass);
}
