/* Expands the call formats of call.h. */
#include "../base/diag.h"
#include "../../runtime/fl_random.h"
#include "../ops/common.h"
#include "call.h"
#include <stdlib.h>
#include <string.h>

struct call {
    struct emitter *e;
    const struct node *n;
    const char *arg[8];
    int nargs;
};

static const struct value *value_arg(const struct call *c)
{
    if (c->nargs < 1 || (c->arg[0][0] != 'i' && c->arg[0][0] != 'o'))
        BUG("%s: a call format names no tensor", c->n->op->name);
    int k = atoi(c->arg[0] + 1);
    struct value **list = c->arg[0][0] == 'i' ? c->n->in : c->n->out;
    if (k >= arrlen(list) || !list[k])
        BUG("%s: a call format needs tensor %s", c->n->op->name, c->arg[0]);
    return list[k];
}

static int dim_arg(const struct call *c, int i, const struct value *v)
{
    const char *s = c->arg[i], *plus = strchr(s, '+');
    if (*s == '-' || (*s >= '0' && *s <= '9'))
        return atoi(s) < 0 ? v->ndim + atoi(s) : atoi(s);
    const char *name = plus ? mem_printf("%.*s", (int)(plus - s), s) : s;
    int d = (int)node_int(c->n, name, 0);
    return (d < 0 ? d + v->ndim : d) + (plus ? atoi(plus) : 0);
}

const char *base_text(struct emitter *e, const struct value *v, int dim)
{
    const char *s = sym_text(sym_base(e->p, v, dim));
    struct sbp time = v->lay.ax[e->p->mesh->mb];
    if (e->p->mesh->axis[e->p->mesh->mb].size > 1 && time.kind == SBP_S && time.dim == dim)
        s = mem_printf("%s + mb * %s", s, sym_text(v->place ? v->place->extent[dim] : sym_extent(e->p, v, dim)));
    return s;
}

const char *block_index(const struct region *r)
{
    int depth = region_depth(r);
    return r->first ? mem_printf("%lld + b%d", (long long)r->first, depth) : mem_printf("b%d", depth);
}

const char *block_number(const struct region *r)
{
    if (!r->owner)
        return "0";
    const char *outer = block_number(r->parent), *own = block_index(r);
    return strcmp(outer, "0") ? mem_printf("(%s) * %lld + %s", outer, (long long)r->total, own) : own;
}

/* A pointer; results that nobody reads and operands left out are NULL. */
static const char *tensor(struct emitter *e, const struct node *n, bool out, int k)
{
    struct value **list = out ? n->out : n->in;
    if (k >= arrlen(list) || !list[k] || !list[k]->buffer)
        return "NULL";
    return tensor_name(e, list[k]);
}

static const char *braces(struct emitter *e, const struct value *v,
                          const char *(*one)(struct emitter *, const struct value *, int))
{
    const char *s = "{";
    for (int d = 0; d < v->ndim; d++)
        s = mem_printf("%s%s%s", s, d ? ", " : "", one(e, v, d));
    return mem_printf("%s}", v->ndim ? s : "{0");
}

static const char *extent_text(struct emitter *e, const struct value *v, int d)
{
    return sym_text(v->place->extent[d]);
}

static const char *size_text(struct emitter *e, const struct value *v, int d)
{
    return mem_printf("%lld", (long long)v->dim[d]->size);
}

/* Entries of the local part that are no padding. */
static const char *valid_text(struct emitter *e, const struct value *v, int d)
{
    const char *extent = extent_text(e, v, d);
    if (v->dim[d]->size == v->dim[d]->phys)
        return extent;
    return mem_printf("FL_VALID(%s, %s, %lld)", extent, base_text(e, v, d), (long long)v->dim[d]->size);
}

static const char *reduce_dims(const struct call *c)
{
    const struct value *x = c->n->in[0];
    double divisor = 1;
    for (int d = 0; d < x->ndim; d++)
        if (node_axes(c->n) >> d & 1)
            divisor *= (double)x->dim[d]->size;
    return mem_printf("FL_REF(struct fl_dims, .ndim = %d, .n = %s, .valid = %s, .reduced = %u, .divisor = %.17g)",
                      x->ndim, braces(c->e, x, extent_text), braces(c->e, x, valid_text), node_axes(c->n), divisor);
}

static const char *head_strides(const char *name, const struct value *v)
{
    return mem_printf(", .%s = {%s, %s, %s}", name, sym_text(v->place->stride[0]), sym_text(v->place->stride[1]),
                      sym_text(v->place->stride[2]));
}

static const char *attention(const struct call *c)
{
    const struct node *n = c->n;
    const struct value *q = n->in[0], *k = n->in[1], *v = n->in[2];
    bool back = n->op == &op_attention_grad;
    int at = back ? 4 : 3;
    const struct value *mask = at < arrlen(n->in) ? n->in[at] : NULL;
    const struct value *documents = at + 1 < arrlen(n->in) ? n->in[at + 1] : NULL;
    int64_t window = node_int(n, "window", 0);
    double scale = node_num(n, "scale", 0);
    if (scale == 0)
        scale = 1 / sqrt((double)q->dim[3]->size);
    const char *shift = "0";
    if ((node_int(n, "causal", 0) || window || documents) && strcmp(base_text(c->e, q, 2), base_text(c->e, k, 2)))
        shift = mem_printf("%s - (%s)", base_text(c->e, q, 2), base_text(c->e, k, 2));
    const char *s = mem_printf("FL_REF(struct fl_attention, .batch = %s, .heads = %s, .kv_heads = %s, .tq = %s, "
                               ".tk = %s, .dk = %s, .dv = %s, .scale = %s, .causal = %s, .causal_shift = %s, .window = %lld",
                               sym_text(q->place->extent[0]), sym_text(q->place->extent[1]),
                               sym_text(k->place->extent[1]), sym_text(q->place->extent[2]),
                               sym_text(k->place->extent[2]), sym_text(q->place->extent[3]),
                               sym_text(v->place->extent[3]), number_text(scale),
                               node_int(n, "causal", 0) ? "true" : "false", shift, (long long)window);
    s = mem_printf("%s%s%s%s", s, head_strides("q", q), head_strides("k", k), head_strides("v", v));
    if (back)
        s = mem_printf("%s%s%s%s%s", s, head_strides("gq", n->out[0]), head_strides("gk", n->out[1]),
                       head_strides("gv", n->out[2]), head_strides("gy", n->in[3]));
    else
        s = mem_printf("%s%s", s, head_strides("y", n->out[0]));
    if (mask) {
        struct sym row = mask->ndim == 2 && !sym_is(mask->place->extent[0], 1) ? mask->place->stride[0] : sym_int(0);
        s = mem_printf("%s, .keep_stride = {%s, 0, 0, %s}", s, sym_text(row),
                       sym_text(mask->place->stride[mask->ndim - 1]));
    }
    if (documents)
        s = mem_printf("%s, .documents = %s, .document_stride = {%s, %s}", s, tensor_name(c->e, documents),
                       sym_text(documents->place->stride[0]), sym_text(documents->place->stride[1]));
    return mem_printf("%s)", s);
}

static const char *settings(const struct call *c)
{
    struct train_spec *t = node_ptr(c->n, "train");
    const struct param *p = node_ptr(c->n, "param");
    if (!t || !p || !c->n->op->optimizer)
        BUG("%s without its train block or parameter", c->n->op->name);
    const char *s = "";
    for (const struct optimizer_setting *k = c->n->op->optimizer->setting; k->name; k++)
        s = mem_printf("%s%s, ", s, number_text(*setting_of(t, k)));
    return mem_printf("%s%s, %s", s, number_text(p->decay), number_text(p->lr_scale));
}

static bool any_short(const struct node *n)
{
    bool found = false;
    for (int k = 0; k < arrlen(n->in); k++)
        found |= n->in[k] && type_is_short(n->in[k]->type);
    for (int k = 0; k < arrlen(n->out); k++)
        found |= n->out[k] && type_is_short(n->out[k]->type);
    return found;
}

/* ", FL_BF16, FL_F32": of the tensors named; one left out counts as f32. */
static const char *types_text(const struct call *c)
{
    const char *s = "";
    for (int i = 0; i < c->nargs; i++) {
        struct value **list = c->arg[i][0] == 'i' ? c->n->in : c->n->out;
        int k = atoi(c->arg[i] + 1);
        enum type t = k < arrlen(list) && list[k] ? list[k]->type : TYPE_F32;
        s = mem_printf("%s, %s", s, type_word(t));
    }
    return s;
}

const char *room_name(const struct node *n)
{
    return n->room ? mem_printf("(float *)(arena + %lld)", (long long)n->room->offset) : "(float *)arena";
}

const char *in_room(const struct node *n, const char *call)
{
    if (!n->room)
        return call;
    return mem_printf("FL_IN_ROOM(arena + %lld, %lld, %s)", (long long)n->room->offset,
                      (long long)n->room->elements * type_bytes[n->room->type], call);
}

static const char *word(struct call *c, const char *w)
{
    struct emitter *e = c->e;
    const struct node *n = c->n;
    if ((w[0] == 'o' || w[0] == 'i') && w[1] >= '0' && w[1] <= '9')
        return tensor(e, n, w[0] == 'o', atoi(w + 1));
    if (!strcmp(w, "count"))
        return sym_text(sym_range(value_arg(c)->place, 0, value_arg(c)->ndim));
    if (!strcmp(w, "rows"))
        return sym_text(sym_range(value_arg(c)->place, 0, value_arg(c)->ndim - 1));
    if (!strcmp(w, "last"))
        return sym_text(value_arg(c)->place->extent[value_arg(c)->ndim - 1]);
    if (!strcmp(w, "extent"))
        return sym_text(value_arg(c)->place->extent[dim_arg(c, 1, value_arg(c))]);
    if (!strcmp(w, "range"))
        return sym_text(sym_range(value_arg(c)->place, dim_arg(c, 1, value_arg(c)), dim_arg(c, 2, value_arg(c))));
    if (!strcmp(w, "base"))
        return base_text(e, value_arg(c), dim_arg(c, 1, value_arg(c)));
    if (!strcmp(w, "size"))
        return mem_printf("%lld", (long long)value_arg(c)->dim[dim_arg(c, 1, value_arg(c))]->size);
    if (!strcmp(w, "int"))
        return mem_printf("%lld", (long long)node_int(n, c->arg[0], 0));
    if (!strcmp(w, "bool"))
        return node_int(n, c->arg[0], 0) ? "true" : "false";
    if (!strcmp(w, "num"))
        return number_text(node_num(n, c->arg[0], c->nargs > 1 ? strtod(c->arg[1], NULL) : 0));
    if (!strcmp(w, "is")) {
        const char *s = node_str(n, c->arg[0]);
        return !s || !strcmp(s, c->arg[1]) ? "true" : "false";
    }
    if (!strcmp(w, "reduce"))
        return reduce_dims(c);
    if (!strcmp(w, "ignore"))
        return node_attr(n, "ignore") ? mem_printf("true, %d", (int)node_num(n, "ignore", 0)) : "false, 0";
    if (!strcmp(w, "skip"))
        return node_attr(n, "ignore") ? mem_printf("%d", (int)node_num(n, "ignore", 0)) : "INT32_MIN";
    if (!strcmp(w, "attention"))
        return attention(c);
    if (!strcmp(w, "place") && !value_arg(c)->place)
        return "NULL";
    if (!strcmp(w, "place"))
        return mem_printf("FL_REF(struct fl_place, .ndim = %d, .n = %s, .base = %s, .size = %s)", value_arg(c)->ndim,
                          braces(e, value_arg(c), extent_text), braces(e, value_arg(c), base_text),
                          braces(e, value_arg(c), size_text));
    if (!strcmp(w, "key"))
        return mem_printf("0x%llxull", (unsigned long long)fl_hash(node_str(n, "key") ? node_str(n, "key") : n->path));
    if (!strcmp(w, "block"))
        return block_number(n->region);
    if (!strcmp(w, "step"))
        return "&run->step";
    if (!strcmp(w, "mb"))
        return "mb";
    if (!strcmp(w, "as"))
        return value_arg(c)->type == TYPE_F32 ? "" : "_as";
    if (!strcmp(w, "type"))
        return value_arg(c)->type == TYPE_F32 ? "" : mem_printf(", %s", type_word(value_arg(c)->type));
    if (!strcmp(w, "typed"))
        return mem_printf(", %s", type_word(value_arg(c)->type));
    if (!strcmp(w, "mixed"))
        return any_short(n) ? "_as" : "";
    if (!strcmp(w, "types"))
        return any_short(n) ? types_text(c) : "";
    if (!strcmp(w, "settings"))
        return settings(c);
    if (!strcmp(w, "room"))
        return room_name(n);
    if (!strcmp(w, "again"))
        return node_int(n, "accumulate", 0) ? "mb > 0" : "false";
    BUG("%s: a call format has the unknown word '%s'", n->op->name, w);
}

void emit_call(struct emitter *e, const struct node *n)
{
    struct call c = {.e = e, .n = n};
    if (!n->op->call)
        BUG("no call is known for op %s", n->op->name);
    const char *s = "";
    for (const char *at = n->op->call; *at;) {
        if (*at != '%') {
            s = mem_printf("%s%c", s, *at++);
            continue;
        }
        size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
        const char *w = mem_printf("%.*s", (int)length, at + 1);
        at += length + 1;
        c.nargs = 0;
        if (*at == '(') {
            while (*at != ')') {
                size_t n_arg = strcspn(at + 1, ",)");
                if (c.nargs == 8)
                    BUG("%s: too many arguments in a call format", n->op->name);
                c.arg[c.nargs++] = mem_printf("%.*s", (int)n_arg, at + 1);
                at += n_arg + 1;
            }
            at++;
        }
        s = mem_printf("%s%s", s, word(&c, w));
    }
    line(e, n, "%s;", strstr(n->op->call, "%room") ? s : in_room(n, s));
}
