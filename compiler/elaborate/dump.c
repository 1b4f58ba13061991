/* The head of the logical dump: what is stored, and how it is trained. The graphs follow. */
#include "elaborate.h"
#include "../op.h"

static const char *init_text(const struct param *p)
{
    switch (p->init) {
    case INIT_ZEROS: return "zeros";
    case INIT_ONES: return "ones";
    case INIT_CONSTANT: return mem_printf("%.9g", p->init_a);
    case INIT_NORMAL: return mem_printf("normal(%.9g)", p->init_a);
    case INIT_UNIFORM: return mem_printf("uniform(%.9g, %.9g)", p->init_a, p->init_b);
    }
    return "";
}

static void dump_param(FILE *to, const struct param *p)
{
    struct value like = {.type = p->type, .ndim = p->ndim};
    for (int i = 0; i < p->ndim; i++)
        like.dim[i] = p->dim[i];
    fprintf(to, "  %s: ", param_text(p));
    for (int i = 0; i < arrlen(p->stack); i++)
        fprintf(to, "%lld x ", (long long)p->stack[i]);
    fprintf(to, "%s = %s", value_type_text(&like, NULL), init_text(p));
    if (p->is_state)
        fputs(" state", to);
    if (p->frozen)
        fputs(" frozen", to);
    if (p->decay != 0)
        fprintf(to, " decay %.9g", p->decay);
    if (p->lr_scale != 1)
        fprintf(to, " lr_scale %.9g", p->lr_scale);
    for (int i = 0; i < arrlen(p->file_names); i++)
        fprintf(to, "%s\"%s\"", i ? " and " : " file ", p->file_names[i]);
    for (int i = 0; i < arrlen(p->file_shape); i++)
        fprintf(to, "%s%lld", i ? ", " : " as [", (long long)p->file_shape[i]);
    fputs(arrlen(p->file_shape) ? "]" : "", to);
    for (int i = 0; i < arrlen(p->file_order); i++)
        fprintf(to, "%s%lld", i ? ", " : " -> [", (long long)p->file_shape[p->file_order[i]]);
    fputs(arrlen(p->file_order) ? "]" : "", to);
    fputc('\n', to);
}

static void dump_data(FILE *to, const struct data_binding *data)
{
    for (int i = 0; i < arrlen(data); i++) {
        const struct data_binding *d = &data[i];
        int n = (int)arrlen(d->files);
        fprintf(to, "  data %s%s%s = %s(%s", d->inputs[0], d->ninput > 1 ? ", " : "", d->ninput > 1 ? d->inputs[1] : "",
                reader_name(d->reader), n > 1 ? "[" : "");
        for (int f = 0; f < n; f++)
            fprintf(to, "%s\"%s\"", f ? ", " : "", d->files[f].name);
        fprintf(to, "%s, %s", n > 1 ? "]" : "", element_name(d->element));
        for (int f = 0; f < n && d->weighted; f++)
            fprintf(to, "%s%.9g%s", f ? ", " : ", weights = [", d->files[f].weight, f + 1 < n ? "" : "]");
        if (d->low > 0)
            fprintf(to, ", last = %.9g", 1 - d->low);
        if (d->high < 1)
            fprintf(to, ", first = %.9g", d->high);
        if (d->shuffle)
            fputs(", shuffle = true", to);
        for (int f = 0; f < n && d->files[0].mask; f++)
            fprintf(to, "%s\"%s\"%s", f ? ", " : ", mask = [", d->files[f].mask, f + 1 < n ? "" : "]");
        if (d->has_blank)
            fprintf(to, ", ignore = %lld", (long long)d->blank);
        fputs(")", to);
        if (d->scale != 1 || d->shift != 0)
            fprintf(to, " * %.9g + %.9g", d->scale, d->shift);
        fputc('\n', to);
    }
}

static void dump_train(FILE *to, struct train_spec *t)
{
#define LR(id, name, rate) #name,
    static const char *const lr[] = {FL_LR_KINDS(LR)};
#undef LR
    fputs("train {\n", to);
    dump_data(to, t->data);
    fprintf(to, "  steps %lld\n  seed %llu\n", (long long)t->steps, (unsigned long long)t->seed);
    if (t->optimizer) {
        fprintf(to, "  optimizer %s lr %s(%.9g, warmup %lld, floor %.9g)", t->optimizer->name, lr[t->lr_kind],
                t->lr_peak, (long long)t->lr_warmup, t->lr_floor);
        if (t->lr_decay)
            fprintf(to, " decay %lld", (long long)t->lr_decay);
        for (const struct optimizer_setting *k = t->optimizer->optimizer->setting; k->name; k++)
            fprintf(to, " %s %.9g", k->name, *setting_of(t, k));
        fputc('\n', to);
    }
    if (t->clip > 0)
        fprintf(to, "  clip_norm %.9g%s\n", t->clip, t->deferred ? " deferred" : "");
    if (t->skip)
        fputs("  skip nonfinite\n", to);
    if (t->ema > 0)
        fprintf(to, "  ema %.9g\n", t->ema);
    fputs("}\n", to);
}

void module_dump(FILE *to, struct module *m)
{
    fprintf(to, "module %s\nparams {\n", m->model ? m->model : "");
    for (int i = 0; i < arrlen(m->params); i++)
        dump_param(to, m->params[i]);
    fputs("}\n", to);
    if (m->train.present)
        dump_train(to, &m->train);
    if (m->evaluate.present) {
        fputs("evaluate {\n", to);
        dump_data(to, m->evaluate.data);
        fprintf(to, "  every %lld\n  steps %lld\n%s}\n", (long long)m->evaluate.every, (long long)m->evaluate.steps,
                m->evaluate.ema ? "  weights ema\n" : "");
    }
    if (m->sample.present)
        fprintf(to, "sample {\n  output %s\n  tokens %lld\n  temperature %.9g\n  top_k %lld\n%s}\n", m->sample.output,
                (long long)m->sample.tokens, m->sample.temperature, (long long)m->sample.top_k,
                m->sample.ema ? "  weights ema\n" : "");
}
