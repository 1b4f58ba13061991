/* Tensors in the text: a macro each, its comment telling path, type with layout and source line. */
#include "see.h"
#include <string.h>

struct sym block_elements(const struct buffer *b)
{
    const struct value *v = b->values[0];
    if (b->shares)
        return sym_int(b->elements);
    return sym_range(v->place, 0, v->ndim);
}

/* A constant that only element-wise kernels read is written into them and has no buffer. */
bool in_memory(const struct value *v)
{
    return v->buffer;
}

/* "(b1 * 3 + b2)", with `step` added to the innermost; NULL when the buffer has one copy. */
static const char *block_text(const struct buffer *b, int step)
{
    if (b->ring)
        return mem_printf("((b%d + %d) & 1)", region_depth(b->values[0]->region), step & 1);
    if (!b->depth)
        return NULL;
    const char *s = NULL;
    for (int d = 1; d <= b->depth; d++) {
        const char *at = mem_printf("b%d", d);
        if (d == b->depth && step)
            at = mem_printf("(%s %c 1)", at, step > 0 ? '+' : '-');
        s = s ? mem_printf("(%s * %lld + %s)", s, (long long)b->count[d - 1], at) : at;
    }
    return s;
}

static bool same_slots(const struct buffer *a, const struct buffer *b)
{
    const struct slot_pool *p = a->pool, *q = b->pool;
    return q && p->prefix == q->prefix && p->period == q->period && p->places == q->places &&
           !memcmp(p->slot[a->member], q->slot[b->member], (size_t)p->places * sizeof **p->slot);
}

/* The first buffer whose table of slots is that of b. */
static int slots_of(const struct emitter *e, const struct buffer *b)
{
    int i = 0;
    while (!same_slots(b, e->s->buffers[i]))
        i++;
    return e->s->buffers[i]->id;
}

void emit_slots(struct emitter *e)
{
    for (int i = 0; i < arrlen(e->s->buffers); i++) {
        const struct buffer *b = e->s->buffers[i];
        if (!b->pool || slots_of(e, b) != b->id)
            continue;
        fprintf(e->tensors, "static const unsigned short slots_%d[] = {", b->id);
        for (int k = 0; k < b->pool->places; k++)
            fprintf(e->tensors, "%s%d", k ? ", " : "", b->pool->slot[b->member][k]);
        fprintf(e->tensors, "};  /* by micro-batch */\n#define SLOT_%d ", b->id);
        if (b->pool->places == b->pool->prefix)
            fprintf(e->tensors, "slots_%d[mb]\n", b->id);
        else
            fprintf(e->tensors, "slots_%d[mb < %d ? mb : %d + (mb - %d) %% %d]\n", b->id, b->pool->prefix, b->pool->prefix,
                    b->pool->prefix, b->pool->period);
    }
}

static const char *address(const struct emitter *e, const struct value *v, int step)
{
    const struct buffer *b = v->buffer;
    const char *s = mem_printf("%lld", (long long)b->offset), *block = block_text(b, step);
    int bytes = type_bytes[b->type];
    if (b->pool)
        s = mem_printf("%s + SLOT_%d * %lldL", s, slots_of(e, b), (long long)(b->elements * b->blocks * bytes));
    else if (b->slots > 1)
        s = mem_printf("%s + mb %% %d * %lldL", s, b->slots, (long long)(b->elements * b->blocks * bytes));
    if (block)
        s = mem_printf("%s + (int64_t)%s * %s", s, block, sym_text(sym_mul(sym_int(bytes), block_elements(b))));
    for (int i = 0; i < arrlen(v->place->offset); i++)
        s = mem_printf("%s + %s", s, sym_text(sym_mul(sym_int(bytes), v->place->offset[i])));
    return s;
}

static void define(struct emitter *e, const struct value *v, const char *name, int step)
{
    fprintf(e->tensors, "#define %-40s ((%s *)(%s + %s))", name, type_c[v->type],
            v->buffer->host ? "host" : "arena", address(e, v, step));
    fprintf(e->tensors, "  /* %s %s%s%s */\n", c_comment(v->path), c_comment(value_type_text(v, e->p->mesh)),
            v->span.file ? "  " : "", v->span.file ? c_comment(span_where(v->span)) : "");
}

const char *tensor_name(struct emitter *e, const struct value *v)
{
    if (v->buffer == &see_room)
        return mem_printf("((%s *)room)", type_c[v->type]);
    if (v->buffer->scratch)
        return mem_printf("((float *)(arena + %lld))", (long long)v->buffer->offset);
    const char *name = c_name(v);
    if (!e->named[v->id]) {
        e->named[v->id] = true;
        define(e, v, name, 0);
    }
    return name;
}

const char *tensor_next(struct emitter *e, const struct value *v, int step)
{
    if (!v->buffer->depth && !v->buffer->ring)
        return tensor_name(e, v);
    bool *named = step > 0 ? e->named_next : e->named_before;
    const char *name = mem_printf("%s_%s", c_name(v), step > 0 ? "next" : "before");
    if (!named[v->id]) {
        named[v->id] = true;
        define(e, v, name, step);
    }
    return name;
}
