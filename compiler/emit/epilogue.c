/* Contractions and what follows them (fuse/epilogue.c): one call where strides allow, that is where the product is one matrix, its
 * vector lies along the columns, and what is added or kept has rows as the result has. Else the product goes into the result's
 * place, and a kernel of its own does the rest there. */
#include "../ops/common.h"
#include "contract.h"
#include "see.h"
#include <string.h>

enum { BIAS_OPERAND = 2, RESIDUAL_OPERAND, AUX_OPERAND };

static const struct node *joined(const struct node *n, const struct op *op)
{
    struct node **nodes = node_ptr(n, "nodes");
    for (int i = 0; i < arrlen(nodes); i++)
        if (nodes[i]->op == op)
            return nodes[i];
    return NULL;
}

/* What tensor t is, with the letters of its dims; NULL: there is none. Letters are those of the last dims, '_' is none. */
static const struct value *tensor_of(const struct node *n, int t, const char **letters)
{
    bool summed = node_attr(n, "summed");
    const char **all = contract_letters(n);
    *letters = all[0];
    if (t == RESIDUAL)
        return n->in[RESIDUAL_OPERAND];
    if (t == AUX)
        return summed || arrlen(n->out) < 2 ? n->in[AUX_OPERAND] : n->out[1];
    if (!summed)
        return n->in[BIAS_OPERAND];
    const struct node *sum = joined(n, &op_sum);
    char *left = "";
    const char *own = all[1 + node_int(n, "summed", 0)];
    for (int d = 0; own[d]; d++)
        if (!(node_axes(sum) >> d & 1))
            left = mem_printf("%s%c", left, own[d]);
        else if (node_int(sum, "keep", 0))
            left = mem_printf("%s_", left);
    *letters = left;
    return n->out[1];
}

static struct sym stride(const struct node *n, int t, char letter)
{
    const char *letters;
    const struct value *v = tensor_of(n, t, &letters);
    int count = (int)strlen(letters), d = v ? v->ndim - count : 0;
    const char *at = v ? strchr(letters, letter) : NULL;
    if (!at || (d += (int)(at - letters)) < 0 || sym_is(v->place->extent[d], 1))
        return sym_int(0);
    return v->place->stride[d];
}

struct call { struct nest *kinds; struct gemm g; int row, column; enum kind rows, columns; struct sym m, n; };

/* The rows of tensor t as the result's: their distance, or false. */
static bool rows_of(struct emitter *e, const struct call *c, int t, struct sym *lead)
{
    bool transposed;
    return contract_matrix(e->p, c->m, c->n, contract_stride(&c->kinds[c->rows], t, c->row),
                           contract_stride(&c->kinds[c->columns], t, c->column), lead, &transposed) && !transposed;
}

static bool vector_along(const struct call *c, enum kind kind, int loop, enum kind other, int other_loop)
{
    struct sym extent = contract_extent(&c->kinds[kind], loop), s = contract_stride(&c->kinds[kind], VECTOR, loop);
    struct sym across = contract_stride(&c->kinds[other], VECTOR, other_loop);
    return (sym_is(s, 1) || sym_is(extent, 1)) && sym_is(across, 0);
}

static bool one_matrix(struct emitter *e, const struct node *n, struct call *c)
{
    struct nest batch = {0}, sum = {0};
    c->kinds = NEW_ARRAY(struct nest, KINDS);
    if (!contract_choose(e, n, contract_letters(n), stride, c->kinds, &c->g))
        return false;
    contract_rest(c->kinds, &c->g, &batch, &sum);
    bool s = c->g.swapped;
    c->rows = s ? COLUMNS : ROWS;
    c->columns = s ? ROWS : COLUMNS;
    c->row = c->g.loop[c->rows];
    c->column = c->g.loop[c->columns];
    c->m = s ? c->g.n : c->g.m;
    c->n = s ? c->g.m : c->g.n;
    return !batch.loops && !sum.loops;
}

/* The fields of struct fl_epilogue, or NULL where strides do not say it. */
static const char *fields(struct emitter *e, const struct node *n, const struct call *c)
{
    const char *text = "", *letters, *f = node_str(n, "activation");
    const struct value *vector = tensor_of(n, VECTOR, &letters), *residual = n->in[RESIDUAL_OPERAND];
    const struct value *aux = tensor_of(n, AUX, &letters);
    struct sym lead;
    if (node_attr(n, "summed")) {
        bool of_a = (node_int(n, "summed", 0) == 0) != c->g.swapped;       /* the call's a has its rows */
        if (of_a ? !vector_along(c, c->rows, c->row, c->columns, c->column) : !vector_along(c, c->columns, c->column, c->rows, c->row))
            return NULL;
        text = mem_printf(", .bias_grad = %s, .of_a = %s", tensor_name(e, vector), of_a ? "true" : "false");
    } else if (vector) {
        if (!vector_along(c, c->columns, c->column, c->rows, c->row))
            return NULL;
        text = mem_printf(", .bias = %s", tensor_name(e, vector));
    }
    if (residual) {
        if (!rows_of(e, c, RESIDUAL, &lead))
            return NULL;
        text = mem_printf("%s, .residual = %s, .ldr = %s", text, tensor_name(e, residual), sym_text(lead));
    }
    if (f)
        text = mem_printf("%s, .activation = %s", text, !strcmp(f, "gelu") ? "FL_GELU" : !strcmp(f, "relu") ? "FL_RELU" : "FL_GELU_GRAD");
    if (aux) {
        if (!rows_of(e, c, AUX, &lead))
            return NULL;
        text = mem_printf("%s, .aux = %s, .ldaux = %s", text, tensor_name(e, aux), sym_text(lead));
    }
    return *text ? text + 2 : NULL;
}

static void one_call(struct emitter *e, const struct node *n, const struct call *c, const char *fields)
{
    const struct gemm *g = &c->g;
    bool s = g->swapped;
    const char *beta = node_int(n, "accumulate", 0) ? ", .beta = mb ? 1.0f : 0.0f" : "";
    const char *trans = mem_printf("%s%s", (s ? !g->tb : g->ta) ? ".ta = true, " : "", (s ? !g->ta : g->tb) ? ".tb = true, " : "");
    line(e, n, "fl_gemm_epilogue(%s, %s, %s, %s, %s, FL_REF(struct fl_gemm, .m = %s, .n = %s, .k = %s, %s.lda = %s, .ldb = %s, "
         ".ldc = %s, .alpha = 1.0f%s), FL_REF(struct fl_epilogue, %s));", tensor_name(e, n->out[0]), type_word(n->out[0]->type),
         tensor_name(e, n->in[s]), tensor_name(e, n->in[!s]), type_word(n->in[0]->type), sym_text(c->m), sym_text(c->n),
         sym_text(g->k), trans, sym_text(s ? g->ldb : g->lda), sym_text(s ? g->lda : g->ldb), sym_text(g->ldc), beta, fields);
}

static struct node *part_of(const struct node *n, const struct op *op)
{
    struct node *part = NEW(struct node);
    *part = *n;
    part->op = op;
    part->in = part->out = NULL;
    part->attr = NULL;
    return part;
}

/* What follows the product, in the result's place. */
static void emit_rest(struct emitter *e, const struct node *n)
{
    const char *f = node_str(n, "activation"), *kept = "%0";
    struct node *rest = part_of(n, &op_fused);
    arrput(rest->in, n->out[0]);
    if (n->in[BIAS_OPERAND]) {
        kept = mem_printf("(%%0 + %%%d)", (int)arrlen(rest->in));
        arrput(rest->in, n->in[BIAS_OPERAND]);
    }
    const char *y = kept;
    if (f && !strcmp(f, "gelu"))
        y = mem_printf("fl_gelu(%s)", kept);
    else if (f && !strcmp(f, "relu"))
        y = mem_printf("fmaxf(%s, 0.0f)", kept);
    else if (f)
        y = mem_printf("fl_gelu_grad(%%%d, %s)", (int)arrlen(rest->in), kept);
    if (n->in[AUX_OPERAND])
        arrput(rest->in, n->in[AUX_OPERAND]);
    if (n->in[RESIDUAL_OPERAND]) {
        y = mem_printf("%s + %%%d", y, (int)arrlen(rest->in));
        arrput(rest->in, n->in[RESIDUAL_OPERAND]);
    }
    bool keeps = arrlen(n->out) > 1;
    if (keeps)
        arrput(rest->out, n->out[1]);            /* first: the other one takes the place of what it reads */
    arrput(rest->out, n->out[0]);
    node_set_str(rest, "expr", keeps ? kept : y);
    if (keeps)
        node_set_str(rest, "expr1", y);
    emit_elementwise(e, rest);
}

/* Values on the way are nowhere in memory, whichever way it is done. */
static void note_gone(struct emitter *e, const struct node *n)
{
    struct node **nodes = node_ptr(n, "nodes");
    for (int i = 0; i < arrlen(nodes); i++) {
        bool result = false;
        for (int k = 0; k < arrlen(n->out); k++)
            result |= n->out[k] == nodes[i]->out[0];
        if (!result)
            see_gone(e, nodes[i]->out[0]);
    }
}

void emit_contraction(struct emitter *e, const struct node *n)
{
    struct call c;
    note_gone(e, n);
    const char *text = one_matrix(e, n, &c) ? fields(e, n, &c) : NULL;
    if (text) {
        one_call(e, n, &c, text);
        return;
    }
    struct node *product = part_of(n, &op_einsum);
    arrput(product->in, n->in[0]);
    arrput(product->in, n->in[1]);
    arrput(product->out, n->out[0]);
    node_set_str(product, "spec", node_str(n, "spec"));
    node_set_int(product, "accumulate", node_int(n, "accumulate", 0));
    emit_einsum(e, product);
    if (!node_attr(n, "summed")) {
        emit_rest(e, n);
        return;
    }
    const struct node *was = joined(n, &op_sum);
    struct node *sum = part_of(n, &op_sum);
    sum->attr = was->attr;
    arrput(sum->in, n->in[node_int(n, "summed", 0)]);
    arrput(sum->out, n->out[1]);
    emit_sum(e, sum);
}
