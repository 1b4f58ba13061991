/* Losses without their logits where an axis splits the classes. Each rank makes what a row's loss is added up of
 * for its own group of classes, a few rows of logits at a time (ops/linear_cross_entropy.c). Groups are a dim, 0,
 * of what it makes, split as the classes are, and ordinary ops join them over it, so that numbers of the size of
 * the loss alone cross the axis:
 *
 *     most, sum, below, weight = linear_ce_parts(x, w, targets)          S(0) each
 *     m = max(most)                                                       P(max)
 *     s = sum(sum exp(most - m))                                          P(sum)
 *     p = sum(below + weight (m - most))                                  P(sum)
 *
 * in the places of ce_max, ce_sum and ce_below; the loss stays as it was, and exact for large logits: each group's
 * own cancel before anything is added up. In training, dx, dw = linear_ce_parts_grad(x, w, targets, dy, m, s) makes
 * the logits once more.
 *
 * When: an evaluation makes them once either way. A step of training makes 4 products of the head for 3, and saves
 * what logits a rank has of one micro-batch; asked for by a `recompute` line that covers the logits, and decided by
 * loss_parts_pay without one. */
#include "../cost/predict.h"
#include "loss.h"

/* More room than this for one tensor is worth the work: of the 16 to 80 GiB of an accelerator it is what a few
 * blocks' activations take, and where a rank's work is so much that its logits reach it, the product runs at full
 * speed. */
#define MUCH_ROOM (512.0 * (1 << 20))
/* Slower by less than this nobody can measure. */
#define LITTLE_WORK 0.02

/* ---- where the classes lie ---- */

static bool line_splits(const struct plan_line *line, int axis)
{
    for (int j = 0; j < arrlen(line->parts); j++)
        if (line->parts[j].kind == SBP_S && line->parts[j].axes >> axis & 1)
            return true;
    return false;
}

static bool lays(const struct plan_line *line)
{
    return line->kind == LINE_SBP || line->kind == LINE_PIN;
}

static bool splits_an_input(const struct parts *p, int axis)
{
    const struct plan *plan = p->g->module->plan;
    for (int i = 0; i < arrlen(p->g->root->nodes); i++) {
        const struct node *n = p->g->root->nodes[i];
        for (int k = 0; n->op == &op_input && k < arrlen(plan->lines); k++)
            if (lays(&plan->lines[k]) && value_meant(n->out[0], plan->lines[k].pattern) &&
                line_splits(&plan->lines[k], axis))
                return true;
    }
    return false;
}

static bool over(struct parts *p, int axis, const char *why)
{
    if (p->over >= 0)
        return loss_refuse(p, mem_printf("%s, and over %s, too", p->split, p->g->module->plan->mesh.axis[axis].name));
    p->over = axis;
    p->split = why;
    return true;
}

bool loss_find_axis(struct parts *p)
{
    const struct plan *plan = p->g->module->plan;
    const struct param *param = value_param(p->w);
    p->over = -1;
    for (int a = 0; a < plan->mesh.naxis; a++) {
        const struct axis *axis = &plan->mesh.axis[a];
        bool said = false, split = false;
        if (axis->size == 1 || axis->time || a == plan->mesh.pipe)
            continue;
        for (int k = 0; param && k < arrlen(plan->lines); k++)
            if (lays(&plan->lines[k]) && param_meant(param, plan->lines[k].pattern, false)) {
                said = true;
                split |= line_splits(&plan->lines[k], a);
            }
        if (split && !over(p, a, mem_printf("%s is split over %s", param->path, axis->name)))
            return false;
        if (!said && (!param || !splits_an_input(p, a)) &&
            !over(p, a, mem_printf("the classes may lie split over %s", axis->name)))
            return false;
    }
    return true;
}

/* ---- whether it pays ---- */

/* Bytes of the logits of one micro-batch on one rank, as far as the lines say. */
static double bytes_here(const struct parts *p)
{
    const struct mesh *mesh = &p->g->module->plan->mesh;
    double bytes = (double)value_count(p->logits) * type_bytes[p->logits->type];
    for (int a = 0; a < mesh->naxis; a++)
        if (a == p->over || mesh->axis[a].time || (a != mesh->pipe && splits_an_input(p, a)))
            bytes /= mesh->axis[a].size;
    return bytes;
}

/* Of the operations of a step, of one stage where there are several, those of the product once more: the others
 * wait for its stage. */
static double share_of_product(const struct parts *p)
{
    const struct mesh *mesh = &p->g->module->plan->mesh;
    double all = step_flops(p->g->module), stages = mesh->pipe < 0 ? 1 : mesh->axis[mesh->pipe].size;
    return all > 0 ? stages * p->product->op->flops(p->product) / all : 1;
}

/* As it was decided for the program that this one is at small sizes: its values are the same ones in the same order,
 * and one source line may make several of the logits. */
static void find_parts(struct node *n, void *context)
{
    struct parts *p = context;
    const struct value *logits = n->op == &op_linear_ce_parts ? node_ptr(n, "logits") : NULL;
    if (logits && logits->id == p->logits->id)
        p->split = "as at large";
}

static bool large_has_parts(struct parts *p)
{
    const struct graph *large = p->g->module->large->graph[p->g->entry];
    p->split = NULL;
    if (large)
        region_walk(large->root, find_parts, p);
    return p->split ? true : loss_refuse(p, "as at large");
}

bool loss_parts_pay(struct parts *p)
{
    if (p->g->module->large)
        return large_has_parts(p);
    double bytes = bytes_here(p), share = p->gradient ? share_of_product(p) : 0;
    const char *kept = mem_printf("%s, which leaves %.1f MiB of them in a micro-batch", p->split, bytes / (1 << 20));
    if (recompute_asked(p->g->module->plan, p->product)) {
        p->split = "as `recompute` asks";
        return true;
    }
    if (bytes <= LINEAR_CE_PIECE)
        return loss_refuse(p, mem_printf("%s, no more than are made at a time", kept));
    if (share > LITTLE_WORK && bytes <= MUCH_ROOM)
        return loss_refuse(p, mem_printf("%s: to make them once more is %.0f %% of a step's operations%s, and done "
                                         "where `recompute` asks", kept, 100 * share,
                                         p->g->module->plan->mesh.pipe < 0 ? "" : " of its stage"));
    p->split = kept;
    return true;
}

/* ---- the parts, and what joins them ---- */

/* Moves the last node of the root to `at`; the place behind it. */
static int insert_last(struct region *root, int at)
{
    struct node *n = arrpop(root->nodes);
    arrins(root->nodes, at, n);
    return at + 1;
}

/* At p->max, in the forward. */
struct joining { struct parts *p; int at; };

static struct node *put(struct joining *j, struct node *n)
{
    const struct node *like = j->p->max;
    n->path = like->path;
    n->phase = like->phase;
    n->kept = true;
    j->at = insert_last(j->p->g->root, j->at);
    return n;
}

static struct value *element_wise(struct joining *j, const struct op *op, int count, struct value *a, struct value *b)
{
    struct graph *g = j->p->g;
    return put(j, build(g, g->root, op, j->p->product->span, count, a, b)->def)->out[0];
}

/* v of all groups, in the place of what made `old`. */
static void over_groups(struct joining *j, const struct op *op, struct value *v, struct value *old)
{
    struct graph *g = j->p->g;
    struct node *n = node_new(g, g->root, op, j->p->product->span);
    node_in(n, v);
    node_set_ints(n, "axes", (int64_t[]){0}, 1);
    node_set_int(n, "keep", 0);
    if (!node_finish(g, n))
        BUG("the groups of a loss cannot be joined");
    loss_make(put(j, n), 0, old);
}

static void drop(struct region *root, const struct node *n)
{
    arrdel(root->nodes, loss_place(root, n));
}

void loss_join_parts(struct parts *p)
{
    struct region *root = p->g->root;
    struct node *const gone[] = {p->max, p->sum, p->below, p->dx ? p->dx->def : NULL, p->dw ? p->dw->def : NULL};
    struct value *m = p->max->out[0], *s = p->sum->out[0], *below = p->below->out[0];
    struct joining j = {p, loss_place(root, p->max)};
    struct node *parts = loss_node(p, &op_linear_ce_parts, p->max), *back = NULL;
    if (p->gradient)
        back = loss_node(p, &op_linear_ce_parts_grad, p->gradient);
    arrput(root->nodes, parts);
    put(&j, parts);
    parts->why = mem_printf("their logits are read by the loss alone: made a few rows at a time%s: %s",
                            back ? ", and once more for their gradient" : "", p->split);
    loss_note_gone(parts, p);
    struct value **x = parts->out;
    over_groups(&j, &op_max, x[0], m);
    struct value *far = element_wise(&j, &op_sub, 2, m, x[0]);
    struct value *scale = element_wise(&j, &op_exp, 1, element_wise(&j, &op_sub, 2, x[0], m), NULL);
    over_groups(&j, &op_sum, element_wise(&j, &op_mul, 2, x[1], scale), s);
    over_groups(&j, &op_sum, element_wise(&j, &op_add, 2, x[2], element_wise(&j, &op_mul, 2, x[3], far)), below);
    if (back) {
        arrput(root->nodes, back);
        insert_last(root, loss_place(root, p->gradient));
        back->forward = p->gradient->forward;
        loss_make_gradients(back, 0, p);
    }
    for (size_t k = 0; k < sizeof gone / sizeof *gone; k++)
        if (gone[k])
            drop(root, gone[k]);
}
