/* Why micro-batches cannot be cut so: the cheapest way through when a read that breaks their order costs, and the op that
 * breaks it. What the forward alone cannot do comes first: of the backward the user wrote nothing. Between ops, that one is
 * meant which takes its operand in no other way; those around it could, and would only say the same. */
#include "microbatch.h"
#include <string.h>

/* Does a micro-batch hold a part of the parameter? A dim without a name may be the batch, or be as large by chance: it
 * counts where `sized`. */
static bool has_batch(const struct module *m, const struct param *p, bool sized)
{
    const struct dim *over = m->plan->mb_dim;
    for (int d = 0; d < p->ndim && over; d++)
        if ((p->dim[d] == over || (sized && dim_same(p->dim[d], over))) && !p->is_state && !p->frozen)
            return true;
    return false;
}

static bool reads(const struct node *n, const struct param *p)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && n->in[k]->def && n->in[k]->def->op == &op_param && node_ptr(n->in[k]->def, "param") == p)
            return true;
    return false;
}

static const char *single_text(const struct timing *t)
{
    const struct dim *over = t->s->m->plan->mb_dim;
    return over && over->name ? mem_printf("`microbatches 1 over %s`", over->name) : "leave out `microbatches`";
}

/* A parameter with the dim that micro-batches cut: its gradient comes a piece at a time, but is updated as one. */
static bool explain_parameter(const struct timing *t, const struct actor *a, const struct value *v)
{
    const struct module *m = t->s->m;
    const struct param *p = NULL;
    for (int i = 0; i < arrlen(m->params); i++) {
        bool read = reads(a->node, m->params[i]), near = read || (v->def && reads(v->def, m->params[i]));
        if (has_batch(m, m->params[i], near) && (a->phase != PHASE_FORWARD || read))
            p = m->params[i];
    }
    if (!p)
        return false;
    struct diag *d = diag_error(E_OPEN_MICROBATCH, p->span, "parameter '%s' has the dim '%s', which micro-batches cut",
                                p->path, m->plan->mb_dim->name);
    diag_label(d, m->plan->mb_span, "a micro-batch holds 1/%lld of it", (long long)m->plan->microbatches);
    diag_help(d, "give the parameter another dim of this size, without the batch, or use 1 micro-batch: %s",
              single_text(t));
    return true;
}

/* In the user's words: its name, or the expression where it has none. */
static const char *value_words(const struct value *v)
{
    const char *path = v->path ? v->path : "", *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
    const char *op = v->def ? v->def->op->name : "value", *shown = *path ? path : op;
    size_t n = strcspn(last, "@#~");
    bool gradient = strstr(last, "#grad"), unnamed = !n || (strlen(op) == n && !strncmp(op, last, n));
    if (gradient && v->span.file)
        return mem_printf("the gradient of %s", span_quoted(v->span));
    if (unnamed && v->span.file)
        return span_quoted(v->span);
    return mem_printf("'%.*s'", (int)strcspn(shown, "#~"), shown);
}

/* Is it written as a call of its name, and not with an operator? */
static bool is_call(const struct node *n)
{
    const char *op = (n->forward ? n->forward : n)->op->name, *text = span_text(n->span);
    return !*text || !strncmp(text, op, strlen(op));
}

static const char *node_words(const struct node *n)
{
    if (n->op == &op_to)
        return "this line";
    if (n->phase == PHASE_BACKWARD || n->phase == PHASE_WEIGHT)
        return mem_printf("the gradient of %s", span_quoted(n->span));
    return is_call(n) ? n->op->name : span_quoted(n->span);
}

static void explain_open(struct timing *t, const struct actor *a, int operand, int at)
{
    const struct value *v = a->in[operand];
    const struct plan *plan = t->s->m->plan;
    struct span place = a->node->span.file ? a->node->span : v->span;
    const char *reader = node_words(a->node), *tensor = value_words(v);
    struct diag *d;
    if (code_is_split(at)) {
        const struct dim *dim = v->dim[at - CODE_S];
        const char *name = dim->name ? mem_printf("dim '%s'", dim->name) : mem_printf("dim %d", at - CODE_S);
        d = diag_error(E_OPEN_MICROBATCH, place, "%s needs all of %s of %s, but a micro-batch holds 1/%lld of it", reader, name,
                       tensor, (long long)plan->microbatches);
    } else {
        static const char *const sums[] = {"sum", "maximum", "minimum"};
        const char *sum = code_is_partial(at) ? sums[code_sbp(at).dim] : "result";
        if (span_within(v->span, place) && !is_call(a->node))       /* h - max(h): not the difference is at fault */
            place = v->span;
        d = diag_error(E_OPEN_MICROBATCH, place, "%s reads %s while it is still a %s over micro-batches", reader, tensor, sum);
    }
    if (plan->mb_span.file)
        diag_label(d, plan->mb_span, "micro-batches are cut here");
    else if (v->span.file)
        diag_label(d, v->span, "made here, one micro-batch at a time");
    if (code_is_split(at))
        diag_help(d, "cut the micro-batches over another dim, or use 1 micro-batch: %s", single_text(t));
    else
        diag_help(d, "a micro-batch may divide by a count of inputs; what else it needs of all of them takes 1 micro-batch: %s",
                  single_text(t));
}

/* The first broken read of the answer, in program order; false where there is none. */
static bool explain_first(struct timing *t, const struct solution *answer)
{
    for (int i = 0; answer->feasible && i < arrlen(t->actors); i++) {
        struct actor *a = &t->actors[i];
        for (int k = 0; !timing_skips(t, a) && k < arrlen(a->in); k++) {
            if (!a->in[k])
                continue;
            const struct time_value *x = &t->values[a->in[k]->id];
            int at = x->codes[answer->choice[x->var]], need = a->choices[answer->choice[a->var]].in[k];
            if (timing_price(t, a->in[k], at, need) < TIMING_BROKEN)
                continue;
            if (!explain_parameter(t, a, a->in[k]))
                explain_open(t, a, k, at);
            return true;
        }
    }
    return false;
}

void timing_blame(struct timing *t)
{
    t->soft = t->forward = true;
    struct solution answer = timing_attempt(t);
    if (explain_first(t, &answer))
        return;
    t->forward = false;
    answer = timing_attempt(t);
    if (!explain_first(t, &answer))
        BUG("micro-batches have no solution and no culprit");
}

void timing_blame_count(const struct timing *t, const struct value *count, const struct value *first)
{
    struct diag *d = diag_error(E_OPEN_MICROBATCH, count->span, "%s is a sum over micro-batches and needs another, %s, first",
                                value_words(count), value_words(first));
    diag_label(d, first->span, "known when all micro-batches have been read");
    diag_help(d, "write it with sums of inputs alone, as mean(x*x) - square(mean(x)), or use 1 micro-batch: %s", single_text(t));
}
