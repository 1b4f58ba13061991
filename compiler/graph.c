/* Building and asking the graph: nodes, values, regions, attributes, extents. Printing is in graph_dump.c, the
 * invariants in graph_verify.c. */
#include "graph.h"
#include "module.h"
#include "op.h"
#include <math.h>
#include <string.h>

const char *const type_name[TYPES] = {
#define TYPE(id, name, bytes, c) name,
#include "types.def"
#undef TYPE
};
const int type_bytes[TYPES] = {
#define TYPE(id, name, bytes, c) bytes,
#include "types.def"
#undef TYPE
};
const char *const type_c[TYPES] = {
#define TYPE(id, name, bytes, c) c,
#include "types.def"
#undef TYPE
};
const char *const reduce_name[REDUCES] = {
#define REDUCE(id, name, c, c_identity, identity) name,
#include "reduce.def"
#undef REDUCE
};
const char *const reduce_c[REDUCES] = {
#define REDUCE(id, name, c, c_identity, identity) c,
#include "reduce.def"
#undef REDUCE
};
const char *const reduce_c_identity[REDUCES] = {
#define REDUCE(id, name, c, c_identity, identity) c_identity,
#include "reduce.def"
#undef REDUCE
};
const double reduce_identity[REDUCES] = {
#define REDUCE(id, name, c, c_identity, identity) identity,
#include "reduce.def"
#undef REDUCE
};
const char *const phase_name[PHASES] = {"count", "setup", "forward", "backward", "weight", "update"};
const char *const entry_name[ENTRIES] = {"train", "evaluate", "sample"};

bool type_is_float(enum type t)
{
    return t == TYPE_F32 || t == TYPE_BF16 || t == TYPE_F16;
}

bool phase_per_microbatch(enum phase p)
{
    return p == PHASE_COUNT || p == PHASE_FORWARD || p == PHASE_BACKWARD || p == PHASE_WEIGHT;
}

bool dim_same(const struct dim *a, const struct dim *b)
{
    return a == b || ((!a->name || !b->name) && a->size == b->size && a->pad == b->pad);
}

struct dim *dim_anonymous(int64_t size)
{
    struct dim *d = NEW(struct dim);
    d->size = d->phys = size;
    return d;
}

bool sbp_same(struct sbp a, struct sbp b)
{
    if (a.kind != b.kind)
        return false;
    return a.kind == SBP_B || (a.dim == b.dim && (a.kind == SBP_P || a.order == b.order));
}

bool layout_same(const struct layout *a, const struct layout *b, int naxis)
{
    for (int i = 0; i < naxis; i++)
        if (!sbp_same(a->ax[i], b->ax[i]))
            return false;
    return true;
}

int mesh_axis(const struct mesh *m, const char *name)
{
    for (int i = 0; i < m->naxis; i++)
        if (!strcmp(m->axis[i].name, name))
            return i;
    return -1;
}

unsigned mesh_axes(const struct mesh *m, const char *name)
{
    int i = mesh_axis(m, name);
    if (i >= 0)
        return 1u << i;
    for (i = 0; i < m->ngroup; i++)
        if (!strcmp(m->group[i].name, name))
            return m->group[i].axes;
    return 0;
}

int mesh_coord(const struct mesh *m, int rank, int axis)
{
    return m->axis[axis].time ? 0 : rank / m->axis[axis].stride % m->axis[axis].size;
}

int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

struct region *region_origin(struct region *r)
{
    while (r->mirror)
        r = r->mirror;
    return r;
}

int region_depth(const struct region *r)
{
    int depth = 0;
    for (; r->parent; r = r->parent)
        depth++;
    return depth;
}

int64_t region_blocks(const struct region *r)
{
    int64_t blocks = 1;
    for (; r->parent; r = r->parent)
        blocks *= r->count;
    return blocks;
}

bool region_within(const struct region *r, const struct region *outer)
{
    for (; r; r = r->parent)
        if (r == outer)
            return true;
    return false;
}

struct node *node_at_root(const struct node *n)
{
    while (n->region->owner)
        n = n->region->owner;
    return (struct node *)n;
}

struct graph *graph_new(struct module *m, enum entry entry)
{
    struct graph *g = NEW(struct graph);
    g->entry = entry;
    g->module = m;
    g->root = region_new(NULL, 1);
    return g;
}

struct region *region_new(struct region *parent, int64_t count)
{
    struct region *r = NEW(struct region);
    r->parent = parent;
    r->count = r->total = count;
    return r;
}

struct region *region_mirror(struct region *parent, struct region *forward)
{
    struct region *r = region_new(parent, forward->count);
    r->mirror = forward;
    r->first = forward->first;
    r->total = forward->total;
    return r;
}

struct value *value_new(struct graph *g, struct region *r, enum type type, int ndim, struct dim *const *dims)
{
    struct value *v = NEW(struct value);
    if (ndim > MAX_DIM)
        BUG("a value of %d dims", ndim);
    v->id = (int)arrlen(g->values);
    v->type = type;
    v->ndim = ndim;
    for (int i = 0; i < ndim; i++)
        v->dim[i] = dims[i];
    v->region = r;
    arrput(g->values, v);
    return v;
}

struct node *node_new(struct graph *g, struct region *at, const struct op *op, struct span span)
{
    struct node *n = NEW(struct node);
    n->id = g->nnode++;
    n->op = op;
    n->region = at;
    n->span = span;
    n->phase = PHASE_FORWARD;
    arrput(at->nodes, n);
    return n;
}

void node_in(struct node *n, struct value *v)
{
    arrput(n->in, v);
}

static struct attr *attr_slot(struct node *n, const char *name, enum attr_kind kind)
{
    for (int i = 0; i < arrlen(n->attr); i++)
        if (!strcmp(n->attr[i].name, name)) {
            n->attr[i] = (struct attr){.name = n->attr[i].name, .kind = kind};
            return &n->attr[i];
        }
    arrput(n->attr, ((struct attr){.name = name, .kind = kind}));
    return &arrlast(n->attr);
}

void node_set_int(struct node *n, const char *name, int64_t v)
{
    attr_slot(n, name, ATTR_INT)->i = v;
}

void node_set_num(struct node *n, const char *name, double v)
{
    attr_slot(n, name, ATTR_NUM)->f = v;
}

void node_set_str(struct node *n, const char *name, const char *v)
{
    attr_slot(n, name, ATTR_STR)->s = v;
}

void node_set_ints(struct node *n, const char *name, const int64_t *v, int count)
{
    struct attr *a = attr_slot(n, name, ATTR_INTS);
    for (int i = 0; i < count; i++)
        arrput(a->ints, v[i]);
}

void node_set_ptr(struct node *n, const char *name, void *v)
{
    attr_slot(n, name, ATTR_PTR)->ptr = v;
}

bool node_finish(struct graph *g, struct node *n)
{
    if (n->op->shape && !n->op->shape(g, n)) {
        struct node **nodes = n->region->nodes;
        for (int i = (int)arrlen(nodes) - 1; i >= 0; i--)
            if (nodes[i] == n) {
                arrdel(nodes, i);
                break;
            }
        return false;
    }
    return true;
}

struct value *node_out(struct graph *g, struct node *n, enum type type, int ndim, struct dim *const *dims)
{
    struct value *v = value_new(g, n->region, type, ndim, dims);
    v->def = n;
    v->def_index = (int)arrlen(n->out);
    v->span = n->span;
    v->path = n->path ? mem_printf("%s.%s", n->path, n->op->name) : n->op->name;
    arrput(n->out, v);
    return v;
}

const struct attr *node_attr(const struct node *n, const char *name)
{
    for (int i = 0; i < arrlen(n->attr); i++)
        if (!strcmp(n->attr[i].name, name))
            return &n->attr[i];
    return NULL;
}

int64_t node_int(const struct node *n, const char *name, int64_t otherwise)
{
    const struct attr *a = node_attr(n, name);
    return !a ? otherwise : a->kind == ATTR_NUM ? (int64_t)a->f : a->i;
}

double node_num(const struct node *n, const char *name, double otherwise)
{
    const struct attr *a = node_attr(n, name);
    return !a ? otherwise : a->kind == ATTR_INT ? (double)a->i : a->f;
}

const char *node_str(const struct node *n, const char *name)
{
    const struct attr *a = node_attr(n, name);
    return a ? a->s : NULL;
}

const int64_t *node_ints(const struct node *n, const char *name)
{
    const struct attr *a = node_attr(n, name);
    return a ? a->ints : NULL;
}

void *node_ptr(const struct node *n, const char *name)
{
    const struct attr *a = node_attr(n, name);
    return a ? a->ptr : NULL;
}

void node_rename_joined(struct node *n, const struct value *v, struct value *to)
{
    struct node **joined = node_ptr(n, "nodes");
    for (int j = 0; j < arrlen(joined); j++)
        for (int k = 0; k < arrlen(joined[j]->in); k++)
            if (joined[j]->in[k] == v)
                joined[j]->in[k] = to;
}

bool value_is_copy(const struct value *v)
{
    const struct node *n = v->def;
    return n && n->op == &op_cast && node_at_root(n)->phase == PHASE_SETUP && n->in[0]->def && n->in[0]->def->op == &op_param;
}

struct param *value_param(const struct value *v)
{
    const struct node *n = v->def && value_is_copy(v) ? v->def->in[0]->def : v->def;
    return n && n->op == &op_param ? node_ptr(n, "param") : NULL;
}

int64_t value_count(const struct value *v)
{
    int64_t count = 1;
    for (int i = 0; i < v->ndim; i++)
        count *= v->dim[i]->size;
    return count;
}

int64_t layout_parts(const struct layout *l, int d, const struct mesh *m)
{
    int64_t parts = 1;
    for (int i = 0; i < m->naxis; i++)
        if (l->ax[i].kind == SBP_S && l->ax[i].dim == d)
            parts *= m->axis[i].size;
    return parts;
}

/* Which part of dim d a rank holds: the axes that split it are the digits of one number, major first. The time axis has
 * coordinate 0 here; micro-batch j adds j extents. */
static int64_t part_of(const struct value *v, int d, const struct mesh *m, const int *coord)
{
    int64_t part = 0;
    for (int order = 0; order < MAX_AXIS; order++)
        for (int i = 0; i < m->naxis; i++) {
            struct sbp s = v->lay.ax[i];
            if (s.kind == SBP_S && s.dim == d && s.order == order)
                part = part * m->axis[i].size + (m->axis[i].time ? 0 : coord[i]);
        }
    return part;
}

unsigned layout_flat(const struct layout *l, const struct mesh *m)
{
    unsigned axes = 0;
    for (int i = 0; i < m->naxis; i++)
        if (l->ax[i].kind == SBP_S && l->ax[i].dim == DIM_FLAT && m->axis[i].size > 1)
            axes |= 1u << i;
    return axes;
}

int64_t value_piece(const struct value *v, const struct mesh *m, const int *coord)
{
    int64_t count = 1;
    for (int d = 0; d < v->ndim; d++)
        count *= value_extent(v, d, m, coord);
    return count;
}

int64_t value_share(const struct value *v, const struct mesh *m)
{
    int64_t parts = layout_parts(&v->lay, DIM_FLAT, m), share = (value_piece(v, m, NULL) + parts - 1) / parts;
    return (share + FLAT_ELEMENTS - 1) / FLAT_ELEMENTS * FLAT_ELEMENTS;
}

/* Elements in use of a share. */
static int64_t share_extent(const struct value *v, const struct mesh *m, const int *coord)
{
    int64_t share = value_share(v, m), left = value_piece(v, m, coord);
    left -= coord ? part_of(v, DIM_FLAT, m, coord) * share : 0;
    return left < 0 ? 0 : left < share ? left : share;
}

int64_t value_extent(const struct value *v, int d, const struct mesh *m, const int *coord)
{
    if (d == DIM_FLAT)
        return share_extent(v, m, coord);
    int64_t n = v->dim[d]->phys, parts = layout_parts(&v->lay, d, m);
    int64_t part = coord ? part_of(v, d, m, coord) : 0;
    return n / parts + (part < n % parts);
}

int64_t value_base(const struct value *v, int d, const struct mesh *m, const int *coord)
{
    if (d == DIM_FLAT)
        return part_of(v, d, m, coord) * value_share(v, m);
    int64_t n = v->dim[d]->phys, parts = layout_parts(&v->lay, d, m), part = part_of(v, d, m, coord), more = n % parts;
    return part * (n / parts) + (part < more ? part : more);
}

int64_t value_local_bytes(const struct value *v, const struct mesh *m)
{
    return type_bytes[v->type] * (layout_flat(&v->lay, m) ? value_share(v, m) : value_piece(v, m, NULL));
}

void region_walk(struct region *r, void (*visit)(struct node *n, void *context), void *context)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        visit(n, context);
        if (n->body)
            region_walk(n->body, visit, context);
    }
}
