/* Losses without their logits. Where logits = einsum(x, w) are read by one cross_entropy and nothing else, its
 * parts and the products around them become one node that makes a few rows of logits at a time
 * (ops/linear_cross_entropy.c):
 *
 *     without a backward     loss = linear_cross_entropy(x, w, targets)
 *     in training            loss, dx, dw = linear_cross_entropy_grad(x, w, targets, dy)
 *
 * The second stands where the gradient of the logits stood, in the backward, and what the forward made of the loss
 * goes there with it: so nothing is made twice. That needs a dy that does not depend on the loss, as where a sum of
 * it is divided by a count.
 *
 * Where the classes may lie split over an axis, a row's maximum and sum go through a collective between the
 * products, and an op has none inside: loss_parts.c then makes the logits twice, where that pays. Where not, whole
 * are the logits of one micro-batch, in a rank's part of the classes, in the type that the plan computes in; their
 * gradient lies over them. node->why says what was done, or why not. */
#include "loss.h"

bool loss_refuse(struct parts *p, const char *why)
{
    p->why_not = why;
    return false;
}

static void note_readers(struct parts *p, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                arrput(p->readers[n->in[k]->id], n);
        if (!n->body)
            continue;
        for (int k = 0; k < arrlen(n->body->results); k++)
            arrput(p->readers[n->body->results[k]->id], n);
        note_readers(p, n->body);
    }
}

/* The one reader of v that is of this op; NULL: there is none, or there are several. */
static struct node *reader(const struct parts *p, const struct value *v, const struct op *op)
{
    struct node *found = NULL;
    for (int i = 0; i < arrlen(p->readers[v->id]); i++)
        if (p->readers[v->id][i]->op == op) {
            if (found)
                return NULL;
            found = p->readers[v->id][i];
        }
    return found;
}

static bool reads_alone(const struct parts *p, const struct value *v, int count)
{
    return arrlen(p->readers[v->id]) == count;
}

/* ---- the parts ---- */

/* log(sum) + below, and 0 where ignored. */
static bool find_loss(struct parts *p)
{
    struct node *max = reader(p, p->logits, &op_ce_max), *sum = reader(p, p->logits, &op_ce_sum);
    struct node *below = reader(p, p->logits, &op_ce_below), *gradient = reader(p, p->logits, &op_ce_grad);
    for (int i = 0; i < arrlen(p->readers[p->logits->id]); i++) {
        const struct node *n = p->readers[p->logits->id][i];
        if (n != max && n != sum && n != below && n != gradient)
            return loss_refuse(p, n->op->part_of ? "more than one loss is made of them"
                                                 : mem_printf("%s reads them, too", n->op->name));
    }
    struct node *log = sum ? reader(p, sum->out[0], &op_log) : NULL;
    struct node *end = log ? reader(p, log->out[0], &op_add) : NULL;
    if (!max || !below || !end || end->in[1] != below->out[0] || !reads_alone(p, max->out[0], gradient ? 3 : 2) ||
        !reads_alone(p, sum->out[0], gradient ? 2 : 1) || !reads_alone(p, log->out[0], 1) ||
        !reads_alone(p, below->out[0], 1))
        return loss_refuse(p, "more than one loss is made of them");
    if (node_attr(below, "ignore")) {
        struct node *where = reader(p, end->out[0], &op_where);
        if (!where || where->in[1] != end->out[0] || !reads_alone(p, end->out[0], 1))
            return loss_refuse(p, "the loss before `ignore` is read, too");
        end = where;
    }
    p->max = max;
    p->sum = sum;
    p->below = below;
    p->end = end;
    p->gradient = gradient;
    p->targets = below->in[1];
    p->loss = end->out[0];
    return true;
}

static const char *letters(const struct node *n, int k)
{
    const char *s = node_str(n, "spec");
    for (; k > 0; k--)
        s += strcspn(s, ",-") + 1;
    return mem_printf("%.*s", (int)strcspn(s, ",-"), s);
}

static const char *result_letters(const struct node *n)
{
    return strstr(node_str(n, "spec"), "->") + 2;
}

/* logits[.., v] = sum over d of x[.., d] w[v, d], or of w[d, v]. */
static bool find_product(struct parts *p)
{
    const struct node *n = p->product;
    if (n->region->owner)
        return loss_refuse(p, "they are made in a repeat");
    if (n->op != &op_einsum || arrlen(n->in) != 2)
        return loss_refuse(p, mem_printf("they are made by %s, not as a product of two tensors", n->op->name));
    const char *out = result_letters(n);
    int rows = (int)strlen(out) - 1;
    for (int k = 0; k < 2; k++) {
        const char *x = letters(n, k), *w = letters(n, 1 - k);
        if ((int)strlen(x) != rows + 1 || strlen(w) != 2 || strncmp(x, out, (size_t)rows) != 0)
            continue;
        char width = x[rows], class = out[rows];
        if (strchr(out, width) || !((w[0] == class && w[1] == width) || (w[0] == width && w[1] == class)))
            continue;
        p->x = n->in[k];
        p->w = n->in[1 - k];
        p->classes = w[1] == class;
    }
    if (!p->x)
        return loss_refuse(p, "their product is not of rows and one matrix of the classes");
    for (int d = 0; d < p->x->ndim; d++)
        if (p->x->dim[d]->pad)
            return loss_refuse(p, "its rows are padded");
    return true;
}

/* Where the gradient of the logits goes: to dx, to dw, and nowhere else. */
static bool find_gradients(struct parts *p)
{
    struct value *dlogits = p->gradient->out[0];
    p->dy = p->gradient->in[4];
    for (int i = 0; i < arrlen(p->readers[dlogits->id]); i++) {
        struct node *n = p->readers[dlogits->id][i];
        int k = n->op == &op_einsum && arrlen(n->in) == 2 && n->in[0] != dlogits;
        if (n->op != &op_einsum || arrlen(n->in) != 2 || n->region->owner)
            return loss_refuse(p, mem_printf("%s reads their gradient", n->op->name));
        const char *g = letters(n, k), *other = letters(n, 1 - k), *out = result_letters(n);
        int rows = (int)strlen(g) - 1, classes = p->classes;
        char class = g[rows];
        bool is_dx = n->in[1 - k] == p->w && strlen(other) == 2 && other[classes] == class &&
                     (int)strlen(out) == rows + 1 && !strncmp(out, g, (size_t)rows) && out[rows] == other[1 - classes];
        bool is_dw = n->in[1 - k] == p->x && (int)strlen(other) == rows + 1 && !strncmp(other, g, (size_t)rows) &&
                     strlen(out) == 2 && out[classes] == class && out[1 - classes] == other[rows];
        if ((!is_dx && !is_dw) || (is_dx && p->dx) || (is_dw && !is_dx && p->dw))
            return loss_refuse(p, "their gradient goes elsewhere, too");
        *(is_dx ? &p->dx : &p->dw) = n->out[0];
    }
    return p->dx || p->dw ? true : loss_refuse(p, "nothing reads their gradient");
}

/* Types that the kernels know: one for what is multiplied, that or f32 for dx, f32 for the loss and what adds up
 * over rows. */
static bool types_fit(struct parts *p)
{
    bool known = p->x->type == p->w->type && (!p->dx || p->dx->type == p->x->type || p->dx->type == TYPE_F32);
    if (!known || p->loss->type != TYPE_F32)
        return loss_refuse(p, "its tensors are of several types");
    if (p->dw && p->dw->type != TYPE_F32)
        return loss_refuse(p, mem_printf("the gradient of the matrix is %s, which would round the sum after some rows "
                                         "each", type_name[p->dw->type]));
    return true;
}

/* ---- what forbids it ---- */

/* A line about what would not be there any more, or would be elsewhere. */
static bool lines_allow(struct parts *p)
{
    const struct plan *plan = p->g->module->plan;
    const struct value *gone[] = {p->logits, p->loss, p->gradient ? p->gradient->out[0] : NULL};
    for (int i = 0; i < arrlen(plan->lines); i++) {
        const struct plan_line *line = &plan->lines[i];
        bool about = line->kind == LINE_PLACE && (pattern_covers(line->pattern, p->product->path, NULL) ||
                                                  pattern_covers(line->pattern, p->below->path, NULL));
        for (size_t k = 0; k < sizeof gone / sizeof *gone; k++)
            about |= line->kind != LINE_RECOMPUTE && gone[k] && value_matches(gone[k], line->pattern, NULL);
        if (about)
            return loss_refuse(p, mem_printf("%s says where they are", span_where(line->span)));
    }
    return true;
}

/* ---- the backward takes the loss over ---- */

static bool reads_late(const struct parts *p, const struct node *n)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && n->in[k]->def && p->late[n->in[k]->def->id])
            return true;
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        if (reads_late(p, n->body->nodes[i]))
            return true;
    return false;
}

/* What reads the loss in the forward can wait for it; nothing in the backward, and so no dy, may depend on it. */
static bool loss_waits(struct parts *p)
{
    struct region *root = p->g->root;
    p->late = NEW_ARRAY(bool, p->g->nnode + 1);
    p->late[p->end->id] = true;
    for (int i = 0; i < arrlen(root->nodes); i++) {
        struct node *n = root->nodes[i];
        if (n == p->end || n->phase == PHASE_UPDATE || !reads_late(p, n))
            continue;
        if (n->phase != PHASE_FORWARD && !p->moved[n->id])
            return loss_refuse(p, "the backward reads the loss");
        if (n->body || n->op->flags & OP_EFFECT)
            return loss_refuse(p, mem_printf("%s reads the loss in the forward", n->op->name));
        p->late[n->id] = true;
    }
    return true;
}

/* ---- one node ---- */

int loss_place(const struct region *r, const struct node *n)
{
    int at = 0;
    while (r->nodes[at] != n)
        at++;
    return at;
}

void loss_make(struct node *n, int k, struct value *v)
{
    if (!v)
        return;
    arrsetlen(v->def->out, 0);
    n->out[k] = v;
    v->def = n;
    v->def_index = k;
}

void loss_make_gradients(struct node *n, int first, const struct parts *p)
{
    loss_make(n, first, p->dx);
    loss_make(n, first + 1, p->dw);
    for (int k = first; k < first + 2; k++)
        if (!n->out[k]->path)
            n->out[k]->path = mem_printf("%s#%s", p->loss->path ? p->loss->path : "loss", k == first ? "dx" : "dw");
}

struct node *loss_node(struct parts *p, const struct op *op, const struct node *like)
{
    struct node *n = node_new(p->g, p->g->root, op, p->product->span);
    node_in(n, p->x);
    node_in(n, p->w);
    node_in(n, p->targets);
    if (op == &op_linear_cross_entropy_grad || op == &op_linear_ce_parts_grad)
        node_in(n, p->dy);
    if (op == &op_linear_ce_parts_grad) {
        node_in(n, p->max->out[0]);
        node_in(n, p->sum->out[0]);
    }
    if (op == &op_linear_ce_parts) {
        node_set_int(n, "groups", p->g->module->plan->mesh.axis[p->over].size);
        node_set_int(n, "ranks_of", p->over);
        node_set_ptr(n, "logits", p->logits);
    }
    node_set_num(n, "smoothing", node_num(p->below, "smoothing", 0));
    if (node_attr(p->below, "ignore"))
        node_set_num(n, "ignore", node_num(p->below, "ignore", 0));
    node_set_int(n, "classes", p->classes);
    n->path = op == &op_linear_ce_parts ? like->path : p->product->path;
    n->phase = like->phase;
    if (!node_finish(p->g, n))
        BUG("a loss was refused without its logits");
    (void)arrpop(p->g->root->nodes);
    return n;
}

/* What the model itself has n read stays a matter of its forward: for `strict`. */
static void read_with_loss(struct node *n, int64_t count)
{
    for (int k = 0; k < count; k++)
        if (n->in[k])
            n->in[k]->with_loss = true;
}

/* By what the program calls the logits and their gradient. */
void loss_note_gone(struct node *n, const struct parts *p)
{
    const char **names = NULL;
    if (p->logits->path)
        arrput(names, p->logits->path);
    for (int i = 0; i < arrlen(p->logits->alias); i++)
        arrput(names, p->logits->alias[i]);
    if (p->gradient && p->gradient->out[0]->path)
        arrput(names, p->gradient->out[0]->path);
    node_set_ptr(n, "gone", names);
}

static void join(struct parts *p)
{
    struct region *root = p->g->root;
    const struct node *like = p->gradient ? p->gradient : p->end;
    struct node *n = loss_node(p, p->gradient ? &op_linear_cross_entropy_grad : &op_linear_cross_entropy, like);
    struct node **nodes = NULL, *end = p->end;
    int at = loss_place(root, like), behind = at;
    read_with_loss(n, 3);                /* x, w, targets */
    loss_note_gone(n, p);
    n->of_loss = p->gradient;
    n->why = "their logits are read by the loss alone: made a few rows at a time";
    for (int i = at; p->gradient && i < arrlen(root->nodes); i++)
        if (p->late[root->nodes[i]->id] && p->moved[root->nodes[i]->id])
            behind = i;
    for (int i = 0; i < arrlen(root->nodes); i++) {
        struct node *other = root->nodes[i];
        bool made = other == end || (p->dx && other == p->dx->def) || (p->dw && other == p->dw->def);
        if (i == at)
            arrput(nodes, n);
        if (!made && !(p->gradient && p->late[other->id]))
            arrput(nodes, other);
        for (int k = 0; p->gradient && i == behind && k < arrlen(root->nodes); k++)
            if (p->late[root->nodes[k]->id] && root->nodes[k] != end) {
                root->nodes[k]->phase = like->phase;
                root->nodes[k]->of_loss = true;
                read_with_loss(root->nodes[k], arrlen(root->nodes[k]->in));
                p->moved[root->nodes[k]->id] = true;
                arrput(nodes, root->nodes[k]);
            }
    }
    root->nodes = nodes;
    loss_make(n, 0, p->loss);
    if (p->gradient)
        loss_make_gradients(n, 1, p);
}

static bool join_one(struct graph *g, struct node *product, bool *moved)
{
    struct parts p = {.g = g, .product = product, .logits = product->out[0], .moved = moved};
    for (int i = 0; i < arrlen(g->values); i++)
        arrput(p.readers, NULL);
    note_readers(&p, g->root);
    bool fits = find_product(&p) && find_loss(&p) && (!p.gradient || find_gradients(&p)) && types_fit(&p) &&
                lines_allow(&p) && loss_find_axis(&p) &&
                (p.over >= 0 ? loss_parts_pay(&p) : !p.gradient || loss_waits(&p));
    if (fits && p.over >= 0)
        loss_join_parts(&p);
    else if (fits)
        join(&p);
    else
        product->why = mem_printf("logits stay whole: %s", p.why_not);
    return fits;
}

/* Whatever makes the logits of a loss, once each. */
static void note_product(struct node *n, void *context)
{
    struct node ***products = context, *made = n->op == &op_ce_below ? n->in[0]->def : NULL;
    for (int i = 0; i < arrlen(*products); i++)
        if ((*products)[i] == made)
            return;
    if (made)
        arrput(*products, made);
}

void join_losses(struct graph *g)
{
    struct node **products = NULL;
    bool joined = false;
    region_walk(g->root, note_product, &products);
    bool *moved = NEW_ARRAY(bool, g->nnode + NODES_OF_LOSS * arrlen(products) + 1);
    for (int i = 0; i < arrlen(products); i++)
        joined |= join_one(g, products[i], moved);
    if (joined)
        remove_dead(g);
}
