/* Contractions of two operands as GEMM calls. Each letter is a loop with a stride per tensor; loops of one kind (rows,
 * columns, contracted, batch) merge where their strides do; one merged loop of each kind becomes a GEMM dim, the rest
 * are batches or, contracted, calls that add up. Where no choice gives every matrix a dense dim, the general loop nest
 * of kernel.c does it. */
#include "call.h"
#include "../ops/common.h"
#include "contract.h"
#include <ctype.h>
#include <string.h>

static const char *operand(const char **spec)
{
    size_t n = strcspn(*spec, ",-");
    const char *s = mem_printf("%.*s", (int)n, *spec);
    *spec += n + ((*spec)[n] == ',');
    return s;
}

/* Sorts the loops of a two-operand spec by kind; false when a letter is of no kind a GEMM knows. */
static bool classify(const struct node *n, const char *const *letters, stride_along *more, struct nest *kinds)
{
    const struct value *tensor[3] = {n->out[0], n->in[0], n->in[1]};
    bool done[128] = {false};
    for (int k = 0; k < KINDS; k++)
        kinds[k].tensors = more ? TENSORS : 3;
    for (int t = 0; t < 3; t++)
        for (int d = 0; letters[t][d]; d++) {
            char c = letters[t][d];
            if (done[(int)c])
                continue;
            done[(int)c] = true;
            const char *at[3];
            for (int u = 0; u < 3; u++) {
                at[u] = strchr(letters[u], c);
                if (at[u] && strchr(at[u] + 1, c))
                    return false;                          /* a diagonal */
            }
            if (tensor[t]->dim[d]->size != tensor[t]->dim[d]->phys && !at[C] && !(at[A] && at[B]))
                return false;
            if (sym_is(tensor[t]->place->extent[d], 1))
                continue;
            if (!at[C] + !at[A] + !at[B] > 1)
                return false;                              /* summed away in one operand alone */
            enum kind kind = at[C] && at[A] && at[B] ? BATCH : !at[C] ? CONTRACTED : at[A] ? ROWS : COLUMNS;
            struct nest *nest = &kinds[kind];
            int i = nest->loops++;
            nest->extent[i] = tensor[t]->place->extent[d];
            for (int u = 0; u < 3; u++)
                nest->stride[u][i] = at[u] ? tensor[u]->place->stride[at[u] - letters[u]] : sym_int(0);
            for (int u = 3; more && u < TENSORS; u++)
                nest->stride[u][i] = more(n, u, c);
        }
    return true;
}

bool contract_matrix(const struct physical *p, struct sym rows, struct sym columns, struct sym row, struct sym column,
                     struct sym *lead, bool *transposed)
{
    bool one_row = sym_is(rows, 1), one_column = sym_is(columns, 1);
    if ((sym_is(column, 1) || one_column) && (one_row || sym_max(p, row) >= sym_max(p, columns))) {
        *transposed = false;
        *lead = one_row ? columns : row;
        return true;
    }
    if ((sym_is(row, 1) || one_row) && (one_column || sym_max(p, column) >= sym_max(p, rows))) {
        *transposed = true;
        *lead = one_column ? rows : column;
        return true;
    }
    return false;
}

struct sym contract_extent(const struct nest *n, int loop)
{
    return loop < 0 ? sym_int(1) : n->extent[loop];
}

struct sym contract_stride(const struct nest *n, int tensor, int loop)
{
    return loop < 0 ? sym_int(0) : n->stride[tensor][loop];
}

static bool try(const struct physical *p, const struct nest *kinds, int m, int n, int k, struct gemm *g)
{
    struct sym em = contract_extent(&kinds[ROWS], m), en = contract_extent(&kinds[COLUMNS], n);
    struct sym ek = contract_extent(&kinds[CONTRACTED], k);
    struct gemm r = {.m = em, .n = en, .k = ek, .loop = {m, n, k}};
    if (!contract_matrix(p, em, ek, contract_stride(&kinds[ROWS], A, m), contract_stride(&kinds[CONTRACTED], A, k), &r.lda, &r.ta) ||
        !contract_matrix(p, ek, en, contract_stride(&kinds[CONTRACTED], B, k), contract_stride(&kinds[COLUMNS], B, n), &r.ldb, &r.tb) ||
        !contract_matrix(p, em, en, contract_stride(&kinds[ROWS], C, m), contract_stride(&kinds[COLUMNS], C, n), &r.ldc, &r.swapped))
        return false;
    r.size = (double)sym_max(p, em) * (double)sym_max(p, en) * (double)sym_max(p, ek);
    *g = r;
    return true;
}

static bool choose(const struct physical *p, const struct nest *kinds, struct gemm *best)
{
    best->size = -1;
    for (int m = -1; m < kinds[ROWS].loops; m++)
        for (int n = -1; n < kinds[COLUMNS].loops; n++)
            for (int k = -1; k < kinds[CONTRACTED].loops; k++) {
                struct gemm g;
                if (try(p, kinds, m, n, k, &g) && g.size > best->size)
                    *best = g;
            }
    return best->size >= 0;
}

/* The loops that are left: kind by kind, batches first, then those that add up. */
void contract_rest(const struct nest *kinds, const struct gemm *g, struct nest *batch, struct nest *sum)
{
    batch->tensors = sum->tensors = 3;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < kinds[kind].loops; i++) {
            if (kind < BATCH && g->loop[kind] == i)
                continue;
            struct nest *to = kind == CONTRACTED ? sum : batch;
            to->extent[to->loops] = kinds[kind].extent[i];
            for (int t = 0; t < 3; t++)
                to->stride[t][to->loops] = kinds[kind].stride[t][i];
            to->loops++;
        }
}

/* "x + e0 * 64 + e1 * 8" */
static const char *moved(const char *name, const struct nest *loops, int tensor, int from, char var)
{
    const char *s = name;
    for (int i = from; i < loops->loops; i++)
        if (!sym_is(loops->stride[tensor][i], 0))
            s = mem_printf("%s + %c%d * %s", s, var, i, sym_text(loops->stride[tensor][i]));
    return s;
}

static const char *list(const struct sym *s, int count)
{
    const char *text = "";
    for (int i = 0; i < count; i++)
        text = mem_printf("%s%s%s", text, i ? ", " : "", sym_text(s[i]));
    return text;
}

/* Do some ranks add up nothing? The first loop that they skip, as a condition; NULL when no rank does. */
static const char *nothing_to_add(const struct nest *sum)
{
    const char *s = NULL;
    for (int i = 0; i < sum->loops; i++) {
        const char *extent = sym_text(sum->extent[i]);
        if (!isdigit((unsigned char)extent[0]))
            s = s ? mem_printf("%s || %s == 0", s, extent) : mem_printf("%s == 0", extent);
    }
    return s;
}

static void emit_gemm(struct emitter *e, const struct node *n, const struct nest *kinds, const struct gemm *g)
{
    enum { BATCHES = 3 };
    struct nest batch = {0}, sum = {0};
    contract_rest(kinds, g, &batch, &sum);
    nest_sort(e->p, &batch, C);
    nest_merge(&batch);
    int first = batch.loops > BATCHES ? batch.loops - BATCHES : 0, depth = 0;
    for (int i = 0; i < first; i++, e->indent++, depth++)
        plain(e, "for (int64_t e%d = 0; e%d < %s; e%d++)", i, i, sym_text(batch.extent[i]), i);
    const char *again = node_int(n, "accumulate", 0) ? "mb" : NULL, *before = again;
    for (int i = 0; i < sum.loops; i++)
        again = again ? mem_printf("%s || s%d", again, i) : mem_printf("s%d", i);
    const char *name[3] = {tensor_name(e, n->out[0]), tensor_name(e, n->in[0]), tensor_name(e, n->in[1])};
    const char *start[3];
    for (int t = 0; t < 3; t++) {
        struct nest outer = batch;
        outer.loops = first;
        start[t] = moved(name[t], &outer, t, 0, 'e');
        name[t] = moved(start[t], &sum, t, 0, 's');
    }
    int count = batch.loops - first, x = g->swapped ? B : A, y = g->swapped ? A : B;
    const char *batches = "";
    if (count)
        batches = mem_printf(", .nbatch = %d, .batch = {%s}, .sa = {%s}, .sb = {%s}, .sc = {%s}", count,
                             list(batch.extent + first, count), list(batch.stride[x] + first, count),
                             list(batch.stride[y] + first, count), list(batch.stride[C] + first, count));
    struct sym m = g->swapped ? g->n : g->m, columns = g->swapped ? g->m : g->n;
    const char *trans = mem_printf("%s%s", (g->swapped ? !g->tb : g->ta) ? ".ta = true, " : "",
                                   (g->swapped ? !g->ta : g->tb) ? ".tb = true, " : "");
    enum type to = n->out[0]->type, from = n->in[0]->type;
    const char *empty = nothing_to_add(&sum);
    for (bool adds = !empty;; adds = true) {         /* first: where there is nothing to add up, the result is 0 still */
        const char *const *at = adds ? name : start, *held = adds ? again : before;
        const char *beta = held ? mem_printf(", .beta = %s ? 1.0f : 0.0f", held) : "";
        const char *operands = mem_printf("(%s, %s, %s", at[C], at[x], at[y]);
        if (from != TYPE_F32)
            operands = mem_printf("_as(%s, %s, %s, %s, %s", at[C], type_word(to), at[x], at[y], type_word(from));
        for (int i = 0; adds && i < sum.loops; i++, e->indent++, depth++)
            plain(e, "for (int64_t s%d = 0; s%d < %s; s%d++)", i, i, sym_text(sum.extent[i]), i);
        line(e, n, "%sfl_gemm%s, FL_REF(struct fl_gemm, .m = %s, .n = %s, .k = %s, %s.lda = %s, .ldb = %s, "
             ".ldc = %s, .alpha = 1.0f%s%s));", adds ? "" : mem_printf("if (%s) ", empty), operands, sym_text(m),
             sym_text(columns), adds ? sym_text(g->k) : "0", trans, sym_text(g->swapped ? g->ldb : g->lda),
             sym_text(g->swapped ? g->lda : g->ldb), sym_text(g->ldc), beta, batches);
        if (adds)
            break;
    }
    e->indent -= depth;
}

const char **contract_letters(const struct node *n)
{
    const char *spec = node_str(n, "spec"), **letters = NEW_ARRAY(const char *, arrlen(n->in) + 1);
    letters[0] = strstr(spec, "->") + 2;
    for (int k = 0; k < arrlen(n->in) && *spec != '-'; k++)
        letters[k + 1] = operand(&spec);
    return letters;
}

bool contract_choose(struct emitter *e, const struct node *n, const char *const *letters, stride_along *more, struct nest *kinds,
                     struct gemm *g)
{
    static const int by[KINDS] = {[ROWS] = C, [COLUMNS] = C, [CONTRACTED] = A, [BATCH] = C};
    if (!type_is_float(n->out[0]->type) || n->in[0]->type != n->in[1]->type || !classify(n, letters, more, kinds))
        return false;
    for (int k = 0; k < KINDS; k++) {
        nest_sort(e->p, &kinds[k], by[k]);
        nest_merge(&kinds[k]);
    }
    return choose(e->p, kinds, g);
}

void emit_einsum(struct emitter *e, const struct node *n)
{
    const char **letters = contract_letters(n);
    struct nest *kinds = NEW_ARRAY(struct nest, KINDS);
    struct gemm g;
    if (arrlen(n->in) == 2 && contract_choose(e, n, letters, NULL, kinds, &g))
        emit_gemm(e, n, kinds, &g);
    else
        emit_product(e, n, letters);
}

/* A sum over a dense operand whose dims lie in another order, and whose result keeps that order. */
static bool in_memory_order(struct emitter *e, const struct node *n, const struct value *x, const struct value *out)
{
    unsigned axes = node_axes(n);
    int perm[MAX_DIM], kept[MAX_DIM], count = 0;
    for (int d = 0; d < x->ndim; d++) {
        kept[d] = axes >> d & 1 ? -1 : count;              /* dim of the result */
        count += !(axes >> d & 1) || node_int(n, "keep", 0);
        if (x->dim[d]->size != x->dim[d]->phys && axes >> d & 1)
            return false;
    }
    memory_order(x, perm);
    struct sym dense = sym_int(1), result = sym_int(1);
    const char *extents = "";
    unsigned reduced = 0;
    for (int i = x->ndim - 1; i >= 0; i--) {
        int d = perm[i];
        struct sym extent = x->place->extent[d];
        bool one = sym_is(extent, 1);
        if ((!one && !sym_same(x->place->stride[d], dense)) ||
            (kept[d] >= 0 && !one && !sym_same(out->place->stride[kept[d]], result)))
            return false;
        dense = sym_mul(dense, extent);
        if (kept[d] >= 0)
            result = sym_mul(result, extent);
        reduced |= (axes >> d & 1) << i;
        extents = mem_printf("%s%s%s", sym_text(extent), *extents ? ", " : "", extents);
    }
    bool mixed = x->type != TYPE_F32 || out->type != TYPE_F32;
    const char *types = mixed ? mem_printf(", %s, %s", type_word(out->type), type_word(x->type)) : "";
    const char *dims = mem_printf("FL_REF(struct fl_dims, .ndim = %d, .n = {%s}, .valid = {%s}, .reduced = %u, .divisor = 1)", x->ndim,
                                  extents, extents, reduced);
    line(e, n, "%s;", in_room(n, mem_printf("fl_sum%s(%s, %s%s, %s)", mixed ? "_as" : "", tensor_name(e, out), tensor_name(e, x), types,
                                            dims)));
    return true;
}

/* sum over axes is a product of one operand; dense operands whose result keeps their order go to the reduction kernel.
 */
void emit_sum(struct emitter *e, const struct node *n)
{
    const struct value *x = n->in[0];
    if (place_contiguous(x) && place_contiguous(n->out[0])) {
        emit_call(e, n);
        return;
    }
    if (in_memory_order(e, n, x, n->out[0]))
        return;
    char in[MAX_DIM + 1] = "", out[2 * MAX_DIM + 1] = "";
    unsigned axes = node_axes(n);
    int count = 0;
    for (int d = 0; d < x->ndim; d++) {
        in[d] = (char)('a' + d);
        if (!(axes >> d & 1))
            out[count++] = in[d];
        else if (node_int(n, "keep", 0))
            out[count++] = (char)('A' + d);
    }
    emit_product(e, n, (const char *const[]){out, in});
}
