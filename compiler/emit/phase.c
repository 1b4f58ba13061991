/* A function per phase (and chunk) of each entry: the nodes of its region in order, repeats as loops. */
#include "call.h"
#include "emitter.h"

static void emit_region(struct emitter *e, struct region *r);

/* Block by block into the list of squares: a stack of scalars is contiguous, so each operand is one copy. */
static void partials(struct emitter *e, const struct node *n)
{
    const struct value *out = n->out[0];
    const int64_t *entry = node_ints(n, "entry");
    int64_t next = 0;
    line(e, n, "fl_fill(%s, 0.0f, %s);", tensor_name(e, out), sym_text(out->place->extent[0]));
    plain(e, "{");
    e->indent++;
    int depth = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        depth = n->in[k]->buffer->depth > depth ? n->in[k]->buffer->depth : depth;
    for (int d = 1; d <= depth; d++)
        plain(e, "const int b%d = 0; (void)b%d;", d, d);
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k];
        line(e, v->def, "fl_copy(%s + %lld, %s, %lld, 4);", tensor_name(e, out), (long long)(entry ? entry[k] : next),
             tensor_name(e, v), (long long)v->buffer->blocks);
        next += v->buffer->blocks;
    }
    e->indent--;
    plain(e, "}");
}

/* Values carried to the next block go where its body looks for them; after the last block they are the results. */
static void carry(struct emitter *e, const struct node *n, const char *more, int step)
{
    const struct region *body = n->body;
    for (int k = 0; k < arrlen(body->args); k++) {
        bool through = carry_through_out(body, k);
        if (!through)
            plain(e, "if (!(%s))", more);
        e->indent += !through;
        copy_line(e, n, tensor_name(e, n->out[k]), n->out[k], tensor_name(e, body->results[k]), body->results[k]);
        e->indent -= !through;
    }
    for (int k = 0; k < arrlen(body->args); k++) {
        const struct value *arg = body->args[k], *result = carry_through_out(body, k) ? n->out[k] : body->results[k];
        if (result == arg && !arg->buffer->depth)
            continue;
        plain(e, "if (%s)", more);
        e->indent++;
        copy_line(e, n, tensor_next(e, arg, step), arg, tensor_name(e, result), result);
        e->indent--;
    }
}

/* Are parameters of the next block gathered while this one runs? */
static bool has_ahead(const struct region *body)
{
    for (int i = 0; i < arrlen(body->nodes); i++)
        if (node_int(body->nodes[i], "ahead", 0))
            return true;
    return false;
}

/* Is what one block reduces waited for in the next? */
static bool has_late(const struct region *body)
{
    for (int i = 0; i < arrlen(body->nodes); i++)
        if (node_int(body->nodes[i], "late", 0))
            return true;
    return false;
}

/* Nodes without text of their own. */
static bool silent(const struct node *n)
{
    return n->op == &op_param || (n->op == &op_constant && !in_memory(n->out[0])) ||
           (n->op == &op_store && n->in[0]->buffer == n->in[1]->buffer);
}

/* Its call is gathered; one that works on copies must be made before these make room. */
static bool gathers(const struct node *n) { return n->op->flags & OP_GATHERED && !n->wide; }

/* A repeat of such calls and nothing else: one launch makes those of all its blocks. */
static bool only_gathers(const struct node *n)
{
    const struct region *body = n->body;
    if (!body || arrlen(body->args) || body->index || has_ahead(body) || has_late(body))
        return false;
    for (int i = 0; i < arrlen(body->nodes); i++)
        if (!silent(body->nodes[i]) && !gathers(body->nodes[i]) && !only_gathers(body->nodes[i]))
            return false;
    return true;
}

static void make_gathered(struct emitter *e)
{
    if (e->gathered) {
        plain(e, "fl_gathered();");
        emit_see_gathered(e, e->gathered);
    }
    e->gathered = NULL;
}

/* Is there nothing to see behind it? */
static bool unseen(const struct node *n)
{
    return silent(n) || gathers(n) || n->op == &op_store || n->op == &op_output || (n->body && !arrlen(n->out));
}

static void emit_one(struct emitter *e, struct node *n);

/* The end of reductions of a body's block `block`, in a scope where that is the running one. of: of one of them; NULL: all. */
static void end_late(struct emitter *e, const struct region *body, const char *block, const struct node *of)
{
    int depth = region_depth(body);
    make_gathered(e);
    e->indent++;
    plain(e, "const int block%d = %s, b%d = block%d;", depth, block, depth, depth);
    for (int i = 0; i < arrlen(body->nodes); i++) {
        struct node *n = body->nodes[i];
        if (node_int(n, "late", 0) && (!of || n == of || n->in[0]->def == of))
            emit_one(e, n);
    }
    make_gathered(e);
    e->indent--;
    plain(e, "}");
}

/* Before a reduction starts, that of the block before ends. */
static void end_before(struct emitter *e, const struct node *post)
{
    const struct region *body = post->region;
    int depth = region_depth(body);
    const char *b = mem_printf("b%d", depth);
    make_gathered(e);
    plain(e, "if (%s != %lld) {", b, body->reverse ? (long long)body->count - 1 : 0);
    end_late(e, body, mem_printf("%s %c 1", b, body->reverse ? '+' : '-'), node_ptr(post, "of"));
}

static void emit_repeat(struct emitter *e, const struct node *n)
{
    const struct region *body = n->body;
    int depth = region_depth(body);
    const char *b = mem_printf("b%d", depth), *more = mem_printf("b%d %s", depth, body->reverse ? "> 0" : "");
    if (!body->reverse)
        more = mem_printf("%s + 1 < %lld", b, (long long)body->count);
    long long first = body->reverse ? (long long)body->count - 1 : 0;
    int step = body->reverse ? -1 : 1;
    bool ahead = has_ahead(body);
    if (ahead) {
        plain(e, "{");
        e->indent++;
        plain(e, "const int %s = %lld;", b, first - step);
        emit_ahead(e, body, step);
        e->indent--;
        plain(e, "}");
    }
    if (arrlen(body->args)) {
        plain(e, "{");
        e->indent++;
        plain(e, "const int %s = %lld; (void)%s;", b, first, b);
        for (int k = 0; k < arrlen(body->args); k++)
            copy_line(e, n, tensor_name(e, body->args[k]), body->args[k], tensor_name(e, n->in[k]), n->in[k]);
        e->indent--;
        plain(e, "}");
    }
    if (body->reverse)
        plain(e, "for (int %s = %lld; %s >= 0; %s--) {", b, first, b, b);
    else
        plain(e, "for (int %s = 0; %s < %lld; %s++) {", b, b, (long long)body->count, b);
    e->indent++;
    if (body->index)
        line(e, n, "fl_positions(%s, %s, 1);", tensor_name(e, body->index), block_index(body));
    if (ahead) {
        plain(e, "if (%s) {", more);
        e->indent++;
        emit_ahead(e, body, step);
        e->indent--;
        plain(e, "}");
    }
    emit_region(e, n->body);
    if (!only_gathers(n))
        make_gathered(e);
    carry(e, n, more, step);
    e->indent--;
    plain(e, "}");
    if (has_late(body)) {
        plain(e, "{");
        end_late(e, body, mem_printf("%lld", body->reverse ? 0LL : (long long)body->count - 1), NULL);
    }
}

static void emit_node(struct emitter *e, const struct node *n)
{
    if (n->op == &op_repeat)
        emit_repeat(e, n);
    else if (n->op == &op_param)
        return;
    else if (n->op == &op_input)
        line(e, n, "fl_read_input(run, %d, mb, %s);", input_index(e->m, e->entry, node_str(n, "name")),
             tensor_name(e, n->out[0]));
    else if (n->op == &op_output)
        line(e, n, "fl_write_output(run, %d, mb, %s);", output_index(e->m, e->entry, node_str(n, "name")),
             tensor_name(e, n->in[0]));
    else if (n->op == &op_constant) {
        if (in_memory(n->out[0]))
            line(e, n, "fl_fill(%s, %s, 1);", tensor_name(e, n->out[0]), number_text(node_num(n, "value", 0)));
    } else if (n->op == &op_store && n->in[0]->buffer == n->in[1]->buffer)
        return;                                            /* it is made in its place */
    else if (n->op == &op_norm_partials)
        partials(e, n);
    else if (n->op->flags & OP_ELEMENTWISE)
        emit_elementwise(e, n);
    else if (n->op == &op_rows)
        emit_rows(e, n);
    else if (!emit_boxing(e, n) && !emit_offload(e, n) && !emit_strided(e, n))
        emit_kernel(e, n);
}

static void emit_one(struct emitter *e, struct node *n)
{
    if (!silent(n) && !gathers(n) && !only_gathers(n))
        make_gathered(e);
    emit_see_hidden(e, n);
    emit_node(e, n);
    if (n->op->flags & OP_GATHERED)
        e->gathered = n;
    if (n->wide)
        make_gathered(e);
    if (!unseen(n))
        emit_see(e, n);
}

static void emit_region(struct emitter *e, struct region *r)
{
    const char *path = NULL;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (node_int(n, "late", 0))
            continue;
        if (n->op == &op_box_post && node_int(node_ptr(n, "of"), "late", 0))
            end_before(e, n);
        if (n->path && n->path != path && n->op != &op_param && n->op != &op_constant && n->op != &op_store) {
            path = n->path;
            if (*path)
                plain(e, "FL_RANGE(%s);", c_string(n->span.file ? mem_printf("%s %s", span_where(n->span), path) : path));
        }
        emit_one(e, n);
    }
}

const char *phase_function(const struct emitter *e, enum entry entry, enum phase f, int chunk)
{
    bool chunks = e->s->nchunk > 1 && phase_has_chunks(f);
    return mem_printf("%s_%s%s", entry_name[entry], phase_name[f], chunks ? mem_printf("_%d", chunk) : "");
}

void emit_phases(struct emitter *e)
{
    for (int entry = 0; entry < ENTRIES; entry++) {
        struct root *roots = stage_roots(e->s, (enum entry)entry);
        for (int i = 0; i < arrlen(roots); i++) {
            e->entry = (enum entry)entry;
            e->phase = roots[i].phase;
            bool each = phase_per_microbatch(e->phase);
            fprintf(e->functions, "static void %s(struct fl_run *run%s)\n{\n",
                    phase_function(e, e->entry, e->phase, roots[i].chunk), each ? ", int mb" : "");
            e->indent = 1;
            plain(e, "char *const arena = run->arena;");
            if (e->s->host_bytes)
                plain(e, "char *const host = run->host;");
            plain(e, "const int64_t *const k = run->rank->constant;");
            if (!each)
                plain(e, "const int mb = 0;");
            plain(e, "(void)arena, (void)k, (void)mb;%s", e->s->host_bytes ? " (void)host;" : "");
            emit_region(e, roots[i].region);
            make_gathered(e);
            plain(e, "FL_RANGE(NULL);");
            fputs("}\n\n", e->functions);
        }
    }
}
