/* `op scan(x: f32[N, T, D]) -> f32[N, T, D] { rule ".."; grad scan_grad; cpu "scan.c"; cuda "scan.cu" }`: declarations
 * become ops. Their dims are names of their own, bound by each call; paths of sources are beside the program. */
#include "elaborate.h"
#include "user_op.h"
#include <string.h>

static struct user_op *op_of(struct decl *d)
{
    return (struct user_op *)d->op;
}

/* f32[N, T, D] */
static bool read_tensor(struct ast *type, struct user_tensor *t)
{
    if (!type_find(type->name, &t->type)) {
        diag_error(E_TYPE, type->name_span, "'%s' is no type", type->name);
        return false;
    }
    if (type->num == 0 || ast_count(type) > MAX_DIM) {
        struct diag *d = diag_error(E_SPEC, type->span, "a tensor of an op has its dims in brackets, at most %d", MAX_DIM);
        diag_help(d, "such as f32[N, T, D]; a single number is f32[]");
        return false;
    }
    for (int i = 0; i < ast_count(type); i++) {
        struct ast *a = type->kids[i];
        if (a->kind != AST_NAME) {
            struct diag *d = diag_error(E_SPEC, a->span, "a dim of an op is a name");
            diag_help(d, "names are the op's own and are bound by each call: equal names, equal dims");
            return false;
        }
        t->dim[t->ndim++] = a->name;
    }
    return true;
}

static bool read_header(struct user_op *u, struct ast *params, struct frame *top)
{
    const char *args = "";
    for (int i = 0; i < ast_count(params); i++) {
        struct ast *p = params->kids[i];
        if (p->kind == AST_INPUT && !ast_kid(p, 1) && u->nin < MAX_USER_TENSORS && !arrlen(u->scalars)) {
            u->in[u->nin].name = p->name;
            if (!read_tensor(ast_kid(p, 0), &u->in[u->nin++]))
                return false;
            args = mem_printf("%s%s%s", args, *args ? ", " : "", p->name);
        } else if (p->kind == AST_SCALAR_ARG) {
            double x;
            arrput(u->scalars, p->name);
            args = mem_printf("%s, %s:num", args, p->name);
            if (ast_kid(p, 0) && !const_eval(top, ast_kid(p, 0), &x))
                return false;
            if (ast_kid(p, 0))
                args = mem_printf("%s=%.17g", args, x);
        } else {
            struct diag *d = diag_error(E_SPEC, p->span, "an op takes up to %d tensors, then numbers", MAX_USER_TENSORS);
            diag_help(d, "such as op f(x: f32[N, D], w: f32[D], p = 0.1) -> f32[N, D]");
            return false;
        }
    }
    u->op.args = args;
    if (!u->nin)
        diag_error(E_SPEC, params->span, "an op takes a tensor at least");
    return u->nin > 0;
}

static bool read_results(struct user_op *u, struct ast *types)
{
    for (int i = 0; i < ast_count(types); i++) {
        if (u->nout == MAX_USER_TENSORS) {
            diag_error(E_SPEC, types->span, "an op gives at most %d tensors", MAX_USER_TENSORS);
            return false;
        }
        struct user_tensor *t = &u->out[u->nout++];
        if (!read_tensor(types->kids[i], t))
            return false;
        for (int d = 0; d < t->ndim; d++) {
            bool known = false;
            for (int k = 0; k < u->nin; k++)
                for (int j = 0; j < u->in[k].ndim; j++)
                    known |= u->in[k].dim[j] == t->dim[d];
            if (!known) {
                struct diag *g = diag_error(E_SPEC, types->kids[i]->kids[d]->span, "no operand has the dim %s", t->dim[d]);
                diag_help(g, "a result's dims come from the operands");
                return false;
            }
        }
    }
    return true;
}

static bool expect_kind(struct ast *s, struct ast *v, enum ast_kind kind, const char *what)
{
    if (v && v->kind == kind)
        return true;
    diag_error(E_SPEC, s->span, "'%s' takes %s", s->name, what);
    return false;
}

static bool read_settings(struct elab *e, struct user_op *u, struct ast *a)
{
    static const char *const words[] = {"rule", "linear", "grad", "cpu", "cuda", NULL};
    settings_once(a);
    for (int i = 2; i < ast_count(a); i++) {
        struct ast *s = a->kids[i], *v = ast_kid(s, 0);
        if (!settings_word(s, "op", words))
            return false;
        bool grad = !strcmp(s->name, "grad");
        if (!expect_kind(s, v, grad ? AST_NAME : AST_STRING, grad ? "the name of an op" : "a text in quotes"))
            return false;
        if (grad) {
            struct decl *d = names_find(e, v->name);
            if (!d || d->kind != DECL_OP) {
                diag_error(E_UNKNOWN_NAME, v->span, "no op of this program is called '%s'", v->name);
                return false;
            }
            u->grad = op_of(d);
            u->grad_span = v->span;
            u->op.grad = user_op_grad;
        } else if (!strcmp(s->name, "cpu") || !strcmp(s->name, "cuda")) {
            struct user_source *to = !strcmp(s->name, "cpu") ? &u->cpu : &u->cuda;
            *to = (struct user_source){beside(source_get(a->span.file)->name, v->name), v->span};
        } else {
            bool rule = !strcmp(s->name, "rule");
            *(rule ? &u->op.rule : &u->op.linear) = v->name;
            const char *fault = rule ? user_rule_fault(u) : user_linear_fault(u);
            if (fault) {
                diag_help(diag_error(E_SPEC, v->span, "%s", fault), "such as %s",
                          rule ? "rule \"n t^ d -> n t^ d\"" : "linear \"{a} {b}\"");
                return false;
            }
        }
    }
    return true;
}

/* x.. and the gradients of all results -> the gradients of the float operands. */
static void check_grad(struct user_op *u)
{
    const struct user_op *g = u->grad;
    struct user_tensor want_in[2 * MAX_USER_TENSORS], want_out[MAX_USER_TENSORS];
    int nin = 0, nout = 0;
    for (int k = 0; k < u->nin; k++) {
        want_in[nin++] = u->in[k];
        if (type_is_float(u->in[k].type))
            want_out[nout++] = u->in[k];
    }
    for (int k = 0; k < u->nout; k++)
        want_in[nin++] = u->out[k];
    bool same = g->nin == nin && g->nout == nout;
    for (int k = 0; same && k < nin; k++)
        same = g->in[k].type == want_in[k].type && g->in[k].ndim == want_in[k].ndim;
    for (int k = 0; same && k < nout; k++)
        same = g->out[k].type == want_out[k].type && g->out[k].ndim == want_out[k].ndim;
    for (int i = 0; same && i < arrlen(g->scalars); i++) {
        same = false;
        for (int j = 0; j < arrlen(u->scalars); j++)
            same |= g->scalars[i] == u->scalars[j];
    }
    if (same)
        return;
    struct diag *d = diag_error(E_SPEC, u->grad_span, "'%s' is not the gradient of '%s': it takes %d tensors and gives %d",
                                g->op.name, u->op.name, g->nin, g->nout);
    diag_label(d, g->span, "declared here");
    diag_help(d, "it takes the operands and then the gradient of each result (%d tensors), and gives the gradient of each "
              "float operand (%d)", nin, nout);
}

static const char *call_format(const struct user_op *u)
{
    const char *s = mem_printf("op_%s(", u->op.name), *at = "";
    for (int k = 0; k < u->nout; k++) {
        s = mem_printf("%s%s%%o%d", s, k ? ", " : "", k);
        at = mem_printf("%s, %%place(o%d)", at, k);
    }
    for (int k = 0; k < u->nin; k++) {
        s = mem_printf("%s, %%i%d", s, k);
        at = mem_printf("%s, %%place(i%d)", at, k);
    }
    s = mem_printf("%s%s", s, at);
    for (int i = 0; i < arrlen(u->scalars); i++)
        s = mem_printf("%s, %%num(%s,0)", s, u->scalars[i]);
    return mem_printf("%s)", s);
}

void user_ops_settle(struct elab *e)
{
    struct frame top = {.e = e};
    for (int i = 0; i < arrlen(e->decls); i++)
        if (e->decls[i]->kind == DECL_OP) {
            struct user_op *u = NEW(struct user_op);
            e->decls[i]->op = &u->op;
            u->op.name = e->decls[i]->name;
            u->op.doc = "an op of this program";
            u->op.flags = OP_F32;
            u->op.shape = user_op_shape;
            u->span = e->decls[i]->ast->name_span;
        }
    for (int i = 0; i < arrlen(e->decls); i++) {
        struct decl *d = e->decls[i];
        if (d->kind != DECL_OP)
            continue;
        bool known;
        op_find(d->name, 1, &known);
        if (known) {
            diag_error(E_DUPLICATE, d->ast->name_span, "'%s' is an op of the language", d->name);
            d->state = DECL_BAD;
            continue;
        }
        struct user_op *u = op_of(d);
        bool fine = read_header(u, ast_kid(d->ast, 0), &top) && read_results(u, ast_kid(d->ast, 1)) &&
                    read_settings(e, u, d->ast);
        d->state = fine ? DECL_READY : DECL_BAD;
        u->op.call = call_format(u);
        if (fine)
            arrput(e->m->user_ops, u);
    }
    for (int i = 0; i < arrlen(e->m->user_ops); i++)
        if (e->m->user_ops[i]->grad)
            check_grad(e->m->user_ops[i]);
}
