/* The plan's line `precision bf16 { master f32; grads f32; reduce f32; keep f32 on [..] }`. */
#include "../../runtime/fl_scale.h"
#include "elaborate.h"
#include <math.h>
#include <string.h>

static bool float_type(struct ast *s, const char *name, struct span span, enum type *to)
{
    for (int t = 0; t < TYPES; t++)
        if (name && !strcmp(type_name[t], name) && type_is_float((enum type)t)) {
            *to = (enum type)t;
            return true;
        }
    struct diag *d = diag_error(E_TYPE, span.file ? span : s->span, "'%s' is no type to compute in", name ? name : "");
    const char *near = name ? type_near(name) : NULL;
    enum type t;
    if (near && type_find(near, &t) && type_is_float(t))
        diag_help(d, "did you mean '%s'?", near);
    else
        diag_help(d, "the types are f32, bf16 and f16");
    return false;
}

/* loss_scale 1024; growth_interval 100: of f16, whose least number is 6e-8. */
static void scaling(struct frame *f, struct precision *x, struct ast *s)
{
    double v;
    int exponent;
    if (x->type != TYPE_F16) {
        struct diag *d = diag_error(E_BLOCK_LINE, s->span, "only f16 scales the loss");
        diag_help(d, "%s has the exponents of f32: its gradients do not vanish", type_name[x->type]);
    } else if (!strcmp(s->name, "growth_interval")) {
        const_int(f, ast_kid(s, 0), 1, "growth_interval", &x->growth_interval);
    } else if (const_eval(f, ast_kid(s, 0), &v)) {
        if (frexp(v, &exponent) != 0.5 || v > FL_SCALE_MOST || v < 1 / FL_SCALE_MOST) {
            struct diag *d = diag_error(E_BLOCK_LINE, s->span, "loss_scale is %s, which is no power of two up to %.0f",
                                        const_text(v), FL_SCALE_MOST);
            diag_help(d, "a power of two changes no digit of a gradient");
        }
        x->loss_scale = v;
    }
}

void precision_collect(struct frame *f, struct plan *p, struct ast *a)
{
    static const char *const words[] = {"master", "grads", "reduce", "keep", "loss_scale", "growth_interval", NULL};
    struct precision *x = &p->precision;
    bool reduce = false;
    x->span = a->span;
    x->master = x->grads = x->reduce = TYPE_F32;
    if (!float_type(a, a->name, a->name_span, &x->type))
        return;
    x->loss_scale = x->type == TYPE_F16 ? FL_SCALE_START : 0;
    x->growth_interval = FL_SCALE_GROWTH;
    settings_once(a);
    lists_once(a, "keep");
    for (int i = 0; i < ast_count(a); i++) {
        struct ast *s = a->kids[i], *value = ast_kid(s, 0), *on = ast_kid(s, 1);
        enum type t;
        if (!settings_word(s, "precision", words))
            continue;
        if (!strcmp(s->name, "loss_scale") || !strcmp(s->name, "growth_interval")) {
            if (on)
                diag_error(E_BLOCK_LINE, on->span, "'%s' is not given per tensor", s->name);
            scaling(f, x, s);
            continue;
        }
        if (!value || value->kind != AST_NAME || !float_type(s, value->name, value->span, &t))
            continue;
        if (!strcmp(s->name, "keep")) {
            if (t != TYPE_F32 || !on) {
                struct diag *d = diag_error(E_BLOCK_LINE, s->span, "`keep` names what stays f32");
                diag_help(d, "write `keep f32 on [*.ln_*, loss]`");
                continue;
            }
            for (int k = 0; k < ast_count(on); k++) {
                arrput(x->keep, on->kids[k]->name);
                arrput(x->keep_span, on->kids[k]->span);
            }
            continue;
        }
        if (on)
            diag_error(E_BLOCK_LINE, on->span, "'%s' is not given per tensor", s->name);
        if (t != TYPE_F32 && !strcmp(s->name, "master")) {
            struct diag *d = diag_error(E_TYPE, value->span, "the master weights are f32");
            diag_help(d, "an update in %s would lose what is smaller than 1/256 of a weight", type_name[t]);
        } else if (t != TYPE_F32 && t != x->type) {
            struct diag *d = diag_error(E_TYPE, value->span, "'%s' is f32 or the plan's %s, not %s", s->name, type_name[x->type],
                                        type_name[t]);
            diag_label(d, a->span, "computed in %s", type_name[x->type]);
        }
        *(!strcmp(s->name, "master") ? &x->master : !strcmp(s->name, "grads") ? &x->grads : &x->reduce) = t;
        reduce |= !strcmp(s->name, "reduce");
    }
    if (!reduce)
        x->reduce = x->grads;
    if (x->reduce != x->grads) {
        struct diag *d = diag_error(E_TYPE, a->span, "gradients are reduced in the type in which they are accumulated");
        diag_help(d, "write `grads %s; reduce %s`", type_name[x->reduce], type_name[x->reduce]);
    }
}
