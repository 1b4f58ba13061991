/* Boxing ops as calls of the runtime. Before a call that can wait, fl_at tells the watchdog where the program is. A
 * collective at root may work over a whole stack of blocks; stacks are contiguous, so the blocks count as outer dims.
 */
#include "../interpret/interpret.h"
#include "../box/post.h"
#include "emitter.h"
#include <string.h>

static bool whole_stack(const struct emitter *e, const struct node *n, const struct value *v)
{
    return !e->post && !e->each_block && v->buffer->depth && region_depth(v->region) > region_depth(n->region);
}

static struct sym blocks(const struct emitter *e, const struct node *n, const struct value *v)
{
    return sym_int(whole_stack(e, n, v) ? v->buffer->blocks : 1);
}

static void open_stack(struct emitter *e, const struct node *n, const struct value *v)
{
    if (!whole_stack(e, n, v))
        return;
    const char *s = "b1 = 0";
    for (int d = 2; d <= v->buffer->depth; d++)
        s = mem_printf("%s, b%d = 0", s, d);
    plain(e, "{");
    e->indent++;
    plain(e, "const int %s;  /* all %lld blocks */", s, (long long)v->buffer->blocks);
}

static void close_stack(struct emitter *e, const struct node *n, const struct value *v)
{
    if (!whole_stack(e, n, v))
        return;
    e->indent--;
    plain(e, "}");
}

/* Loops over all blocks of the stack v, in which v is one of them. */
static bool open_blocks(struct emitter *e, const struct node *n, const struct value *v)
{
    if (!whole_stack(e, n, v))
        return false;
    for (int d = 1; d <= v->buffer->depth; d++) {
        plain(e, "for (int b%d = 0; b%d < %lld; b%d++) {", d, d, (long long)v->buffer->count[d - 1], d);
        e->indent++;
    }
    return e->each_block = true;
}

static void close_blocks(struct emitter *e, const struct value *v)
{
    for (int d = 1; d <= v->buffer->depth; d++) {
        e->indent--;
        plain(e, "}");
    }
    e->each_block = false;
}

static void at(struct emitter *e, const struct node *n, const struct value *v, const char *group)
{
    const char *what = mem_printf("%s%s%s%s %s", n->op->name + strlen("box_"), group ? "(" : "", group ? group : "",
                                  group ? ")" : "", v->path ? v->path : "");
    line(e, NULL, "fl_at(%s, %s);", c_string(n->span.file ? span_where(n->span) : ""), c_string(what));
}

static const char *kind(const struct node *n)
{
    return reduce_c[node_int(n, "reduce", REDUCE_SUM)];
}

/* Elements of v, from the first to the last. In a stack of shares each block has room for the largest one. */
static struct sym elements(const struct emitter *e, const struct node *n, const struct value *v)
{
    if (whole_stack(e, n, v) && v->buffer->shares)
        return sym_int(v->buffer->blocks * v->buffer->elements);
    return sym_mul(blocks(e, n, v), sym_range(v->place, 0, v->ndim));
}

static void all_reduce(struct emitter *e, const struct node *n, int k, const char *comm)
{
    const struct value *in = n->in[k], *out = n->out[k];
    struct sym count = elements(e, n, out);
    int fault = n->spoilt_operand == k ? n->spoilt : FAULT_NONE;
    if (fault)
        plain(e, "/* spoilt on purpose: %s */", c_comment(e->m->options->spoil));
    if (fault == FAULT_GROUP)
        comm = mem_printf("run->comm[%d]", comm_apart(e->p, (unsigned)node_int(n, "axes", 0)));
    if (in->buffer != out->buffer)
        line(e, n, "fl_copy(%s, %s, %s, %d);", tensor_name(e, out), tensor_name(e, in), sym_text(count),
             type_bytes[out->type]);
    if (fault == FAULT_DROP)
        return;
    line(e, n, "fl_all_reduce%s(%s, %s, %s, %s);", type_suffix(out->type), comm, tensor_name(e, out),
         sym_text(count), kind(n));
    if (fault == FAULT_TWICE)
        line(e, n, "fl_accumulate%s(%s, %s, %s, false, FL_SUM);", type_suffix(out->type), tensor_name(e, out),
             tensor_name(e, out), sym_text(count));
}

/* outer, n, inner of v around dim, as arguments */
static const char *around(const struct emitter *e, const struct node *n, const struct value *v, int dim)
{
    return mem_printf("%s, %s, %s", sym_text(sym_mul(blocks(e, n, v), sym_range(v->place, 0, dim))),
                      sym_text(v->place->extent[dim]), sym_text(sym_range(v->place, dim + 1, v->ndim)));
}

/* Shares of each block: a piece is cut where it lies, and put together in its place. */
static void shares(struct emitter *e, const struct node *n, int k, const char *comm)
{
    const struct value *in = n->in[k], *out = n->out[k];
    bool stack = open_blocks(e, n, in), gather = n->op == &op_box_all_gather;
    const char *share = mem_printf("%lld", (long long)value_share(gather ? in : out, e->p->mesh));
    if (node_int(n, "ahead", 0))
        line(e, n, "fl_gather_wait(%s, %s);", comm, tensor_name(e, out));
    else if (gather)
        line(e, n, "fl_gather_shares%s(%s, %s, %s, %s);", type_suffix(out->type), comm, tensor_name(e, out), tensor_name(e, in), share);
    else
        line(e, n, "fl_scatter_shares%s(%s, %s, %s, %s, %s, %s);", type_suffix(out->type), comm, tensor_name(e, out),
             tensor_name(e, in),
             sym_text(sym_range(in->place, 0, in->ndim)), share, kind(n));
    if (stack)
        close_blocks(e, in);
}

void emit_ahead(struct emitter *e, const struct region *body, int step)
{
    for (int i = 0; i < arrlen(body->nodes); i++) {
        const struct node *n = body->nodes[i];
        if (!node_int(n, "ahead", 0))
            continue;
        at(e, n, n->in[0], e->p->comms[node_int(n, "comm", -1)].name);
        line(e, n, "fl_gather_start(run->comm[%d], %s, %s, %lld, %d);", (int)node_int(n, "comm", -1),
             tensor_next(e, n->out[0], step), tensor_next(e, n->in[0], step), (long long)value_share(n->in[0], e->p->mesh),
             type_bytes[n->in[0]->type]);
    }
}

static void all_to_all(struct emitter *e, const struct node *n, int k, const char *comm)
{
    const struct value *in = n->in[k], *out = n->out[k];
    int from = (int)node_int(n, "dim", 0), to = (int)node_int(n, "dim_to", 0);
    int a = from < to ? from : to, b = from < to ? to : from;
    struct sym ea = a == from ? out->place->extent[a] : in->place->extent[a];
    struct sym eb = b == from ? out->place->extent[b] : in->place->extent[b];
    line(e, n, "fl_all_to_all(%s, %s, %s, %s, %s, %s, %s, %s, %s, %d);", comm, tensor_name(e, out), tensor_name(e, in),
         sym_text(sym_mul(blocks(e, n, in), sym_range(in->place, 0, a))), sym_text(ea),
         sym_text(sym_range(in->place, a + 1, b)), sym_text(eb), sym_text(sym_range(in->place, b + 1, in->ndim)),
         to == a ? "true" : "false", type_bytes[in->type]);
}

/* The number of the part of a dim that this rank has, over those of `axes` that split it, from the most major to the least. */
static const char *part_number(const struct mesh *m, unsigned axes, const struct layout *l)
{
    const char *text = NULL;
    for (int order = 0; order < MAX_AXIS; order++)
        for (int a = 0; a < m->naxis; a++)
            if (axes >> a & 1 && l->ax[a].order == order)
                text = text ? mem_printf("(%s) * %d + run->rank->coord[%d]", text, m->axis[a].size, a)
                            : mem_printf("run->rank->coord[%d]", a);
    return text;
}

/* The rank in the group of the axes that has part `name` of a dim they split so. */
static const char *holder(const struct mesh *m, unsigned axes, const struct layout *l, const char *name)
{
    const char *text = "";
    int64_t below = 1;               /* ranks are numbered in mesh order, the last axis fastest */
    for (int a = m->naxis - 1; a >= 0; a--) {
        if (!(axes >> a & 1))
            continue;
        int64_t minor = 1;
        for (int b = 0; b < m->naxis; b++)
            if (axes >> b & 1 && l->ax[b].order > l->ax[a].order)
                minor *= m->axis[b].size;
        text = mem_printf("%s / %lld %% %d * %lld%s%s", name, (long long)minor, m->axis[a].size, (long long)below,
                          *text ? " + " : "", text);
        below *= m->axis[a].size;
    }
    return text;
}

static void permute(struct emitter *e, const struct node *n, int k, const char *comm)
{
    const struct value *in = n->in[k], *out = n->out[k];
    const struct mesh *m = e->p->mesh;
    unsigned axes = (unsigned)node_int(n, "axes", 0);
    plain(e, "{");
    e->indent++;
    plain(e, "const int mine = %s, next = %s;", part_number(m, axes, &in->lay), part_number(m, axes, &out->lay));
    line(e, n, "fl_permute_parts(%s, %s, %s, %s, %d, %s, %s);", comm, tensor_name(e, out), tensor_name(e, in),
         sym_text(sym_mul(blocks(e, n, in), sym_range(in->place, 0, in->ndim))), type_bytes[in->type],
         holder(m, axes, &out->lay, "mine"), holder(m, axes, &in->lay, "next"));
    e->indent--;
    plain(e, "}");
}

/* Values that lie side by side are reduced by one call, the gaps of their alignment included. */
static bool bucket(struct emitter *e, const struct node *n, const char *comm)
{
    const struct buffer *first = n->in[0]->buffer;
    if (first->bucket != n || n->spoilt)
        return false;
    int64_t bytes = 0;
    for (int k = 0; k < arrlen(n->in); k++) {
        plain(e, "/* %s */", c_comment(n->in[k]->path));
        bytes += n->in[k]->buffer->bytes;
    }
    line(e, n, "fl_all_reduce(%s, (float *)(arena + %lld), %lld, %s);", comm, (long long)first->offset,
         (long long)bytes / 4, kind(n));
    return true;
}

static void convert(struct emitter *e, const struct node *n, int k, const char *comm)
{
    const struct value *in = n->in[k], *out = n->out[k];
    int dim = (int)node_int(n, "dim", 0);
    if (dim == DIM_FLAT) {
        shares(e, n, k, comm);
        return;
    }
    bool apart = in->buffer->shares || out->buffer->shares;
    bool alike = in->buffer->shares == out->buffer->shares && in->buffer->elements == out->buffer->elements;
    bool each = apart && !(alike && n->op == &op_box_all_reduce) && open_blocks(e, n, in);
    if (!each)
        open_stack(e, n, in);
    if (n->op == &op_box_all_gather)
        line(e, n, "fl_all_gather(%s, %s, %s, %s, %d);", comm, tensor_name(e, out), tensor_name(e, in),
             around(e, n, out, dim), type_bytes[in->type]);
    else if (n->op == &op_box_reduce_scatter)
        line(e, n, "fl_reduce_scatter%s(%s, %s, %s, %s, %s);", type_suffix(out->type), comm, tensor_name(e, out),
             tensor_name(e, in), around(e, n, in, dim), kind(n));
    else if (n->op == &op_box_all_to_all)
        all_to_all(e, n, k, comm);
    else if (n->op == &op_box_permute)
        permute(e, n, k, comm);
    else
        all_reduce(e, n, k, comm);
    if (each)
        close_blocks(e, in);
    else
        close_stack(e, n, in);
}

static const char *comm_name(const struct node *n)
{
    return mem_printf("run->comm[%d]", (int)node_int(n, "comm", -1));
}

/* What has been posted is waited for; the others are one call, here. */
static void wait_posted(struct emitter *e, const struct node *n, const int64_t *posted)
{
    int64_t rest = node_int(n, "rest", -1), last = -1;
    if (rest >= 0)
        plain(e, "fl_post(%s, %lld);", comm_name(n), (long long)rest);
    for (int k = 0; k < arrlen(n->in); k++)
        if (posted[k] < 0)
            convert(e, n, k, comm_name(n));
    if (rest >= 0)
        plain(e, "fl_posted(%s, %lld);", comm_name(n), (long long)rest);
    for (int k = 0; k < arrlen(posted); k++)
        last = posted[k] > last ? posted[k] : last;
    for (int64_t number = 0; number <= last; number++)
        for (int k = 0; k < arrlen(posted); k++)
            if (posted[k] == number) {
                line(e, n, "fl_await(%s, %lld);", comm_name(n), (long long)number);
                break;
            }
    if (rest >= 0)
        line(e, n, "fl_await(%s, %lld);", comm_name(n), (long long)rest);
}

static void collective(struct emitter *e, const struct node *n)
{
    const char *comm = comm_name(n);
    const int64_t *posted = node_ints(n, "posted");
    at(e, n, n->in[0], e->p->comms[node_int(n, "comm", -1)].name);
    if (posted) {
        wait_posted(e, n, posted);
        return;
    }
    if (bucket(e, n, comm))
        return;
    for (int k = 0; k < arrlen(n->in); k++)
        convert(e, n, k, comm);
}

/* Starts the collective `of` for what is complete: in the last micro-batch, for one block or the last few of them. */
static void post(struct emitter *e, const struct node *n)
{
    const struct node *of = node_ptr(n, "of");
    const struct region *r = n->region;
    const int64_t *operands = node_ints(n, "operands");
    long long blocks = node_int(n, "blocks", 1), count = r->count;
    int last = e->p->mesh->axis[e->p->mesh->mb].size - 1;
    const char *due = last && !post_each(n) ? mem_printf("mb == %d", n->spoilt == FAULT_EARLY ? 0 : last) : "";
    if (n->spoilt)
        plain(e, "/* spoilt on purpose: %s */", c_comment(e->m->options->spoil));
    if (blocks > 1 && blocks < count)
        due = mem_printf("%s%s%s", due, *due ? " && " : "", r->reverse ? mem_printf("b1 %% %lld == 0", blocks) :
                         mem_printf("((b1 + 1) %% %lld == 0 || b1 + 1 == %lld)", blocks, count));
    else if (blocks > 1)
        due = mem_printf("%s%s%s", due, *due ? " && " : "", r->reverse ? "b1 == 0" : mem_printf("b1 + 1 == %lld", count));
    plain(e, *due ? "if (%s) {" : "{", due);
    e->indent++;
    at(e, of, n->in[0], e->p->comms[node_int(of, "comm", -1)].name);
    line(e, n, "fl_post(%s, %d);", comm_name(of), (int)node_int(n, "number", 0));
    if (blocks > 1) {
        plain(e, "const int from = b1 / %lld * %lld;", blocks, blocks);
        plain(e, "for (int b1 = from; b1 < from + %lld%s; b1++) {", blocks,
              count % blocks ? mem_printf(" && b1 < %lld", count) : "");
        e->indent++;
    }
    e->post = n;
    for (int k = 0; k < arrlen(n->in); k++)
        convert(e, of, (int)operands[k], comm_name(of));
    e->post = NULL;
    if (blocks > 1) {
        e->indent--;
        plain(e, "}");
    }
    plain(e, "fl_posted(%s, %d);", comm_name(of), (int)node_int(n, "number", 0));
    e->indent--;
    plain(e, "}");
}

/* Only the first rank of the axes keeps its values. */
static void mask(struct emitter *e, const struct node *n)
{
    const struct value *in = n->in[0], *out = n->out[0];
    const char *first = NULL, *count = sym_text(sym_range(out->place, 0, out->ndim));
    int64_t axes = node_int(n, "axes", 0);
    for (int a = 0; a < e->p->mesh->naxis; a++)
        if (axes >> a & 1)
            first = mem_printf("%s%srun->rank->coord[%d] == 0", first ? first : "", first ? " && " : "", a);
    plain(e, "if (%s)", first ? first : "true");
    e->indent++;
    line(e, n, "fl_copy(%s, %s, %s, %d);", tensor_name(e, out), tensor_name(e, in), count, type_bytes[out->type]);
    e->indent--;
    plain(e, "else");
    e->indent++;
    int64_t reduce = node_int(n, "reduce", REDUCE_SUM);
    if (reduce == REDUCE_SUM)
        line(e, n, "fl_fill_bytes(%s, 0, (%s) * %d);", tensor_name(e, out), count, type_bytes[out->type]);
    else
        line(e, n, "fl_fill%s(%s, %s, %s);", type_suffix(out->type), tensor_name(e, out), reduce_c_identity[reduce], count);
    e->indent--;
}

bool emit_boxing(struct emitter *e, const struct node *n)
{
    if (!(n->op->flags & OP_BOXING))
        return false;
    const struct value *in = arrlen(n->in) ? n->in[0] : NULL, *out = arrlen(n->out) ? n->out[0] : NULL;
    if (n->op == &op_box_slice) {
        if (in->buffer != out->buffer)
            BUG("box_slice of %%%d is no view", in->id);
    } else if (n->op == &op_box_mask) {
        mask(e, n);
    } else if (n->op == &op_box_pad) {
        emit_strided(e, n);
    } else if (n->op == &op_box_accumulate) {
        for (int k = 0; k < arrlen(n->in) && in->buffer != out->buffer; k++)
            line(e, n, "%sfl_accumulate%s(%s, %s, %s, %s, %s);",
                 n->spoilt == FAULT_EARLY ? mem_printf("if (mb != %d) ", e->p->mesh->axis[e->p->mesh->mb].size - 1) : "",
                 type_suffix(n->out[k]->type),
                 tensor_name(e, n->out[k]), tensor_name(e, n->in[k]),
                 sym_text(sym_range(n->in[k]->place, 0, n->in[k]->ndim)), n->spoilt == FAULT_DROP ? "true" : "mb == 0", kind(n));
    } else if (n->op == &op_box_post) {
        post(e, n);
    } else if (n->op == &op_box_send || n->op == &op_box_recv) {
        const struct value *v = in ? in : out;
        const struct link *l = &e->p->links[node_int(n, "link", 0)];
        at(e, n, v, mem_printf("%s stage %d", in ? "to" : "from", in ? l->to : l->from));
        line(e, n, "%s(run->link[%d], %s, (%s) * %dL);", in ? "fl_send" : "fl_recv", (int)node_int(n, "link", 0),
             tensor_name(e, v), sym_text(sym_range(v->place, 0, v->ndim)), type_bytes[v->type]);
    } else {
        collective(e, n);
    }
    return true;
}
