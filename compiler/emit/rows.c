/* Kernels of row work: one text for both targets, over the primitives of runtime/cpu/flow_rows.h and runtime/cuda/flow_rows.h. A row
 * is read where it is first needed, worked on in one loop per level of its terms (row_terms.h), and written as soon as it is made;
 * sums along it come between the loops. Sums of all rows are made in chunks of rows, and added up by a call behind the kernel. */
#include "../../runtime/fl_random.h"
#include "call.h"
#include "nest.h"
#include "row_terms.h"
#include "see.h"
#include <ctype.h>
#include <stdlib.h>

struct writing {
    struct emitter *e;
    const struct node *n;
    const struct value *like;
    struct term *terms;
    struct nest *nest;           /* over the dims before the last */
    int *tensor;                 /* by term: its tensor in the nest */
    const char *var[NEST_LOOPS];
    long long width;
    int columns;
    int drawn;                   /* strides by which elements of the logical tensor are numbered, for dropout; or -1 */
};

static int new_tensor(struct writing *w)
{
    if (w->nest->tensors == NEST_TENSORS)
        BUG("row work with more than %d tensors", NEST_TENSORS);
    return w->nest->tensors++;
}

/* Its strides over the dims of the rows, but the last. */
static int add_tensor(struct writing *w, const struct value *v, int skipped)
{
    int t = new_tensor(w), ndim = w->like->ndim;
    for (int d = 0; d < ndim - 1; d++) {
        int own = d - (ndim - skipped - v->ndim);
        bool stretched = own < 0 || own >= v->ndim || (sym_is(v->place->extent[own], 1) && !sym_is(w->nest->extent[d], 1));
        w->nest->stride[t][d] = stretched ? sym_int(0) : v->place->stride[own];
    }
    return t;
}

static const struct term *any_drop(const struct writing *w)
{
    for (int i = 0; i < arrlen(w->terms); i++)
        if (w->terms[i].live && w->terms[i].drop)
            return &w->terms[i];
    return NULL;
}

/* A tensor of whole rows comes first: loops are sorted by its strides. */
static void add_tensors(struct writing *w)
{
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < arrlen(w->terms); i++) {
            const struct term *t = &w->terms[i];
            bool stored = t->result >= 0 && t->how != HOW_COLUMNS;
            bool loaded = t->live && t->how == HOW_LOAD && t->kind != TERM_NUMBER;
            bool whole = t->kind == TERM_WHOLE && rows_shape(t->v ? t->v : w->like, w->like) == ROWS_WHOLE;
            if ((stored || loaded) && whole == !turn)
                w->tensor[i] = add_tensor(w, t->v, stored ? w->like->ndim - t->v->ndim : t->skipped);
        }
    w->drawn = any_drop(w) ? new_tensor(w) : -1;
    int64_t step = w->width;
    for (int d = w->like->ndim - 2; d >= 0 && w->drawn >= 0; d--) {
        w->nest->stride[w->drawn][d] = sym_int(step);
        step *= w->like->dim[d]->size;
    }
}

/* The number of this rank's first element in the logical tensor. */
static const char *first_drawn(const struct writing *w)
{
    const struct value *v = any_drop(w)->drop->out[0];
    const char *s = "0";
    int64_t step = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        const char *base = base_text(w->e, v, d);
        if (strcmp(base, "0"))
            s = mem_printf("%s%s(%s) * %lldL", strcmp(s, "0") ? s : "", strcmp(s, "0") ? " + " : "", base, (long long)step);
        step *= v->dim[d]->size;
    }
    return s;
}

/* May its rows be read in vectors, wherever they lie? */
static bool in_vectors(const struct writing *w, int term)
{
    const struct value *v = w->terms[term].v;
    if (v->buffer == &see_room)
        return false;
    int vector = type_bytes[v->type] == 4 ? 4 : 8;       /* elements of one access; of bytes 8 */
    bool fits = !v->buffer->depth || block_elements(v->buffer).c % vector == 0;
    for (int i = 0; i < arrlen(v->place->offset); i++)
        fits &= v->place->offset[i].c % vector == 0;
    for (int d = 0; d < w->nest->loops; d++)
        fits &= w->nest->stride[w->tensor[term]][d].c % vector == 0;
    return fits && v->buffer->elements % vector == 0;
}

static const char *address(const struct writing *w, int term, const char *base)
{
    const char *index = nest_index(w->nest, w->tensor[term], w->var, 0, w->nest->loops);
    return strcmp(index, "0") ? mem_printf("%s + %s", base, index) : base;
}

static const char *base_of(const struct writing *w, int term)
{
    const struct term *t = &w->terms[term];
    return mem_printf(t->result >= 0 ? "o%d" : "a%d", t->result >= 0 ? t->result : t->operand);
}

/* The row in which f32 elements of a term lie from pass to pass. */
static const char *row_of(const struct term *t, int i)
{
    return t->kept ? mem_printf("v%d", t->slot) : mem_printf("%c%d", t->how == HOW_LOAD ? 'x' : 'y', i);
}

/* A term inside the loop of a pass, named there on first use. */
static const char *element(const struct writing *w, FILE *to, int i, bool *named)
{
    const struct term *t = &w->terms[i];
    if (t->kind == TERM_NUMBER)
        return t->expr;
    if (t->kind == TERM_EACH)
        return mem_printf("s%d", i);
    if (!named[i]) {
        bool loads = t->how == HOW_LOAD;
        fprintf(to, "            const float t%d = FL_GET_%s(%s, i);\n", i, loads ? type_name[t->type] : "f32",
                loads ? mem_printf("x%d", i) : row_of(t, i));
        named[i] = true;
    }
    return mem_printf("t%d", i);
}

static const char *expand(const struct writing *w, FILE *to, const char *expr, bool *named)
{
    const char *s = "";
    while (*expr)
        if (*expr == '%' && isdigit((unsigned char)expr[1])) {
            char *end;
            s = mem_printf("%s%s", s, element(w, to, (int)strtol(expr + 1, &end, 10), named));
            expr = end;
        } else {
            s = mem_printf("%s%c", s, *expr++);
        }
    return s;
}

static bool in_loop(const struct term *t, int level)
{
    return t->live && t->kind == TERM_WHOLE && t->level == level && t->how != HOW_LOAD;
}

/* Is a row read first in this pass, be it to be added up? */
static bool first_read(const struct writing *w, int load, int level)
{
    for (int l = 0; l <= level; l++)
        for (int i = 0; i < arrlen(w->terms); i++) {
            const struct term *t = &w->terms[i];
            bool along = term_along(t->how);
            for (int k = 0; t->live && k < arrlen(t->in); k++)
                if (t->in[k] == load && (along ? t->level - 1 : t->level) == l)
                    return l == level;
        }
    return false;
}

static bool any_in_loop(const struct writing *w, int level)
{
    for (int i = 0; i < arrlen(w->terms); i++)
        if (in_loop(&w->terms[i], level) || (w->terms[i].live && w->terms[i].kept && w->terms[i].how == HOW_LOAD && first_read(w, i, level)))
            return true;
    return false;
}

/* Marks of what a dropout keeps of the row. */
static void write_kept(const struct writing *w, FILE *to, int term)
{
    const struct node *n = w->terms[term].drop;
    uint64_t hash = fl_hash(node_str(n, "key") ? node_str(n, "key") : n->path), least = fl_least_kept((float)node_num(n, "p", 0));
    const char *row = nest_index(w->nest, w->drawn, w->var, 0, w->nest->loops);
    fprintf(to, "        FL_ROW_KEPT(kept%d, step, 0x%llxull, block, first + %s, %lluu, %lld);\n", term, (unsigned long long)hash, row,
            (unsigned long long)least, w->width);
}

static void open_rows(const struct writing *w, FILE *to, int level)
{
    for (int i = 0; i < arrlen(w->terms); i++) {
        const struct term *t = &w->terms[i];
        if (!t->live || t->kind != TERM_WHOLE)
            continue;
        const char *type = type_c[t->type];
        if (t->how == HOW_LOAD && first_read(w, i, level))
            fprintf(to, "        FL_ROW_IN(x%d, %s, %s, %lld, %d);\n", i, type, address(w, i, base_of(w, i)), w->width, in_vectors(w, i));
        else if (t->how != HOW_COLUMNS && t->result >= 0 && t->level == level)
            fprintf(to, "        FL_ROW_OUT(y%d, %s, %s, %lld);\n", i, type, address(w, i, base_of(w, i)), w->width);
        if (t->drop && t->level == level)
            write_kept(w, to, i);
    }
}

static void write_pass(const struct writing *w, FILE *to, int level)
{
    if (!any_in_loop(w, level)) {
        open_rows(w, to, level);
        return;
    }
    bool *named = NEW_ARRAY(bool, arrlen(w->terms) + 1);
    open_rows(w, to, level);
    fprintf(to, "        FL_PASS(i, %lld) {\n", w->width);
    for (int i = 0; i < arrlen(w->terms); i++) {
        const struct term *t = &w->terms[i];
        if (t->live && t->kept && t->how == HOW_LOAD && first_read(w, i, level))
            fprintf(to, "            v%d[i] = %s;\n", t->slot, element(w, to, i, named));
        if (!in_loop(t, level))
            continue;
        if (t->how == HOW_COLUMNS) {
            const char *x = element(w, to, t->in[0], named);
            fprintf(to, "            p%d[i] += %s;\n", i, x);
            continue;
        }
        const char *x = expand(w, to, t->expr, named);
        fprintf(to, "            const float t%d = %s;\n", i, x);
        named[i] = true;
        if (t->result >= 0)
            fprintf(to, "            FL_SET_%s(y%d, i, t%d);\n", type_name[t->type], i, i);
        if (t->kept)
            fprintf(to, "            v%d[i] = t%d;\n", t->slot, i);
    }
    fputs("        }\n", to);
    for (int i = 0; i < arrlen(w->terms); i++)
        if (in_loop(&w->terms[i], level) && w->terms[i].result >= 0 && w->terms[i].how != HOW_COLUMNS)
            fprintf(to, "        FL_ROW_PUT(y%d, %s, %s, %lld, %d);\n", i, type_c[w->terms[i].type], address(w, i, base_of(w, i)),
                    w->width, in_vectors(w, i));
}

static const char *stored(enum type t, const char *x)
{
    if (t == TYPE_BOOL)
        return mem_printf("%s != 0.0f", x);
    return type_is_short(t) ? mem_printf("fl_to_%s(%s)", type_name[t], x) : x;
}

/* Numbers of the row that this level begins with. */
static void write_each(const struct writing *w, FILE *to, int level)
{
    static const char *const along[] = {[HOW_SUM] = "FL_ROW_SUM", [HOW_MEAN] = "FL_ROW_SUM", [HOW_MAX] = "FL_ROW_MAX", [HOW_MIN] = "FL_ROW_MIN"};
    for (int i = 0; i < arrlen(w->terms); i++) {
        const struct term *t = &w->terms[i];
        if (!t->live || t->kind != TERM_EACH || t->level != level)
            continue;
        const char *x;
        if (t->how == HOW_LOAD) {
            x = mem_printf("%s[%s]", base_of(w, i), nest_index(w->nest, w->tensor[i], w->var, 0, w->nest->loops));
            x = type_is_short(t->type) ? mem_printf("fl_from_%s(%s)", type_name[t->type], x) : x;
        } else if (t->how == HOW_EXPR) {
            x = expand(w, to, t->expr, NULL);
        } else {
            x = mem_printf("%s(%s, %lld)%s", along[t->how], row_of(&w->terms[t->in[0]], t->in[0]), w->width,
                           t->how == HOW_MEAN ? mem_printf(" / %s", number_text((double)w->width)) : "");
            x = type_is_short(t->type) ? mem_printf("fl_round_%s(%s)", type_name[t->type], x) : x;
        }
        fprintf(to, "        const float s%d = %s;\n", i, x);
        if (t->result >= 0)
            fprintf(to, "        FL_ONCE(%lld) o%d[%s] = %s;\n", w->width, t->result,
                    nest_index(w->nest, w->tensor[i], w->var, 0, w->nest->loops), stored(t->type, mem_printf("s%d", i)));
    }
}

/* Which row of the loops before the last is the r-th. */
static void write_index(struct writing *w, FILE *to)
{
    struct sym below = sym_int(1);
    int loops = w->nest->loops;
    if (loops == 1)
        w->var[0] = "r";
    for (int d = loops - 1; d >= 0 && loops > 1; d--) {
        const char *part = sym_is(below, 1) ? "r" : mem_printf("r / (%s)", kernel_text(sym_text(below)));
        w->var[d] = mem_printf("i%d", d);
        fprintf(to, "        const int64_t i%d = %s", d, part);
        fprintf(to, d ? " %% (%s);\n" : ";\n", kernel_text(sym_text(w->nest->extent[d])));
        below = sym_mul(below, w->nest->extent[d]);
    }
}

static void write_kernel(struct writing *w, FILE *to, const char *head, struct sym rows)
{
    const char *count = kernel_text(sym_text(rows));
    int deepest = 0, slots = 0, k = 0;
    for (int i = 0; i < arrlen(w->terms); i++) {
        const struct term *t = &w->terms[i];
        deepest = t->live && t->last > deepest ? t->last : deepest;
        slots = t->kept && t->slot >= slots ? t->slot + 1 : slots;
    }
    fprintf(to, "%s\n{\n", head);
    if (w->columns)
        fprintf(to, "    FL_CHUNKS(c, %s, %lld) {\n", count, w->width);
    for (int i = 0; i < arrlen(w->terms); i++)
        if (w->terms[i].live && w->terms[i].how == HOW_COLUMNS)
            fprintf(to, "        FL_COLUMN(p%d, parts, c, %d, %d, %lld);\n", i, k++, w->columns, w->width);
    if (w->columns)
        fprintf(to, "        FL_CHUNK(r, c, %s) {\n", count);
    else
        fprintf(to, "    FL_ROWS(r, %s, %lld) {\n", count, w->width);
    write_index(w, to);
    for (int s = 0; s < slots; s++)
        fprintf(to, "        FL_ROW_OWN(v%d, %lld);\n", s, w->width);
    for (int level = 0; level <= deepest; level++) {
        write_each(w, to, level);
        write_pass(w, to, level);
    }
    k = 0;
    if (w->columns)
        fputs("        }\n", to);
    for (int i = 0; i < arrlen(w->terms); i++)
        if (w->terms[i].live && w->terms[i].how == HOW_COLUMNS)
            fprintf(to, "        FL_COLUMN_PUT(p%d, parts, c, %d, %d, %lld);\n", i, k++, w->columns, w->width);
    fputs("    }\n}\n\n", to);
}

static void write_call(struct writing *w, const char *name, struct sym rows, const char *pass)
{
    struct emitter *e = w->e;
    const char *count = sym_text(rows);
    if (!w->columns) {
        line(e, w->n, "FL_LAUNCH_ROWS(%s, %s, %lld, %s);", name, count, w->width, pass);
        return;
    }
    plain(e, "{");
    e->indent++;
    plain(e, "const int64_t chunks = fl_chunks(%s, %lld);", count, w->width);
    plain(e, "float *const parts = %s;", room_name(w->n));
    line(e, w->n, "FL_LAUNCH_CHUNKS(%s, %s, %lld, %s);", name, count, w->width, pass);
    for (int i = 0, k = 0; i < arrlen(w->terms); i++)
        if (w->terms[i].live && w->terms[i].how == HOW_COLUMNS)
            line(e, w->n, "fl_row_columns(%s, %s, parts + %lld, chunks, %lld, %lld);", tensor_name(e, w->terms[i].v),
                 type_word(w->terms[i].type), k++ * w->width, w->columns * w->width, w->width);
    e->indent--;
    plain(e, "}");
}

void emit_rows(struct emitter *e, const struct node *n)
{
    struct writing w = {.e = e, .n = n, .like = node_ptr(n, "like"), .terms = row_terms(n), .nest = NEW(struct nest)};
    int last = w.like->ndim - 1;
    struct sym rows = sym_int(1);
    w.width = w.like->dim[last]->phys;
    w.tensor = NEW_ARRAY(int, arrlen(w.terms) + 1);
    w.nest->loops = last;
    for (int d = 0; d < last; d++) {
        w.nest->extent[d] = sym_extent(e->p, w.like, d);
        rows = sym_mul(rows, w.nest->extent[d]);
    }
    add_tensors(&w);
    nest_sort(e->p, w.nest, 0);
    nest_merge(w.nest);
    bool *needs = NEW_ARRAY(bool, arrlen(e->p->constants) + 1);
    kernel_constants(w.nest, needs);
    const char *constants, *values = kernel_parameters(e, needs, &constants), *args = "", *pass = "";
    for (int i = 0; i < arrlen(w.terms); i++)
        w.columns += w.terms[i].live && w.terms[i].how == HOW_COLUMNS;
    if (w.columns) {
        args = "float *__restrict__ parts";
        pass = "parts";
    }
    if (w.drawn >= 0) {
        args = mem_printf("%s%sconst struct fl_step *step, int64_t block, int64_t first", args, *args ? ", " : "");
        pass = mem_printf("%s%sFL_STEP(&run->step), %s, %s", pass, *pass ? ", " : "", block_number(n->region), first_drawn(&w));
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        bool column = false;
        for (int i = 0; i < arrlen(w.terms); i++)
            column |= w.terms[i].result == k && w.terms[i].how == HOW_COLUMNS;
        if (column)
            continue;
        args = mem_printf("%s%s%s *__restrict__ o%d", args, *args ? ", " : "", type_c[n->out[k]->type], k);
        pass = mem_printf("%s%s%s", pass, *pass ? ", " : "", tensor_name(e, n->out[k]));
    }
    for (int k = 0; k < arrlen(n->in); k++) {
        bool read = false;
        for (int i = 0; i < arrlen(w.terms); i++)
            read |= w.terms[i].live && w.terms[i].operand == k;
        if (!read || !in_memory(n->in[k]))
            continue;
        args = mem_printf("%s%sconst %s *__restrict__ a%d", args, *args ? ", " : "", type_c[n->in[k]->type], k);
        pass = mem_printf("%s%s%s", pass, *pass ? ", " : "", tensor_name(e, n->in[k]));
    }
    bool seen = n->out[0]->buffer == &see_room;          /* several of these are made of one node */
    const char *name = seen ? mem_printf("kernel_%d_rows_%d", n->id, n->out[0]->id) : mem_printf("kernel_%d_rows", n->id), *where = n->span.file ? c_comment(span_where(n->span)) : "";
    const char *head = mem_printf("/* rows : %s  %s */\nFL_KERNEL %s(FL_PARAMS %s%s)", c_comment(value_type_text(w.like, e->p->mesh)),
                                  where, name, values, args);
    write_kernel(&w, e->kernels, head, rows);
    write_call(&w, name, rows, mem_printf("%s%s", constants, pass));
}
