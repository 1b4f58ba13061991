/* The blocks train, evaluate and sample: settings into specs. Values are const expressions. */
#include "elaborate.h"
#include "../op.h"
#include <math.h>
#include <string.h>

bool settings_word(struct ast *s, const char *block, const char *const *words)
{
    const char **near = NULL, *all = "";
    for (int i = 0; words[i]; i++) {
        if (s->name && !strcmp(words[i], s->name))
            return true;
        arrput(near, words[i]);
        all = mem_printf("%s%s%s", all, i ? ", " : "", words[i]);
    }
    static const struct { const char *theirs, *ours; } foreign[] = {
        {"epochs", "steps"}, {"iterations", "steps"}, {"learning_rate", "lr"}, {"weight_decay", "decay"}, {"epsilon", "eps"},
        {"grad_clip", "clip_norm"}, {"max_norm", "clip_norm"},
    };
    const char *name = s->name ? s->name : span_text(s->span), *best = suggest(name, near);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        for (int k = 0; words[k]; k++)
            if (!strcmp(foreign[i].theirs, name) && !strcmp(foreign[i].ours, words[k]))
                best = words[k];
    struct diag *d = diag_error(E_BLOCK_LINE, s->name ? s->name_span : s->span, "%s has no setting '%s'", block, name);
    if (best)
        diag_help(d, "did you mean '%s'?", best);
    else
        diag_help(d, "it may have %s", all);
    return false;
}

static bool is(const struct ast *s, const char *word)
{
    return s->name && !strcmp(s->name, word);
}

static void plain(struct ast *s)
{
    if (ast_kid(s, 1))
        diag_error(E_BLOCK_LINE, ast_kid(s, 1)->span, "'%s' is not given per parameter", s->name);
    if (ast_kid(s, 2) && !is(s, "clip_norm"))
        diag_error(E_BLOCK_LINE, ast_kid(s, 2)->span, "'%s %s' has no meaning in this version", s->name,
                   ast_kid(s, 2)->name);
}

static void set_num(struct frame *f, struct ast *s, double low, const char *what, double *to)
{
    double v;
    plain(s);
    if (!const_eval(f, ast_kid(s, 0), &v))
        return;
    if (v < low)
        diag_error(E_BLOCK_LINE, s->span, "%s is %s, but must be %s or more", what, const_text(v), const_text(low));
    *to = v;
}

static void set_int(struct frame *f, struct ast *s, int64_t low, const char *what, int64_t *to)
{
    plain(s);
    const_int(f, ast_kid(s, 0), low, what, to);
}

static const char *text_of(struct ast *s)
{
    struct ast *a = ast_kid(s, 0);
    plain(s);
    if (a && a->kind == AST_STRING)
        return a->name;
    diag_error(E_BLOCK_LINE, s->span, "'%s' is a text in quotes", s->name);
    return NULL;
}

/* ---- the optimizer ---- */

static const char *lr_names(void)
{
#define LR(id, name, rate) "" #name "(..), "
    static const char names[] = FL_LR_KINDS(LR);
#undef LR
    return mem_printf("%.*s", (int)sizeof names - 3, names);
}

static void learning_rate(struct frame *f, struct ast *s, struct train_spec *t)
{
#define LR(id, name, rate) {#name, LR_##id},
    static const struct { const char *name; enum lr_kind kind; } kinds[] = {FL_LR_KINDS(LR)};
#undef LR
    static const char *const words[] = {"peak", "warmup", "floor", "decay", NULL};
    struct ast *a = ast_kid(s, 0);
    plain(s);
    const char *name = a->kind == AST_CALL && ast_kid(a, 0)->kind == AST_NAME ? ast_kid(a, 0)->name : NULL;
    if (a->kind != AST_CALL || (name && fold_known(name))) {
        set_num(f, s, 0, "the learning rate", &t->lr_peak);
        return;
    }
    bool known = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name && !strcmp(kinds[i].name, name)) {
            t->lr_kind = kinds[i].kind;
            known = true;
        }
    if (!known) {
        const char **near = NULL;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            arrput(near, kinds[i].name);
        const char *best = name ? suggest(name, near) : NULL;
        struct diag *d = diag_error(E_UNKNOWN_NAME, a->span, "no schedule of the learning rate is called '%s'",
                                    name ? name : "this");
        if (best)
            diag_help(d, "did you mean '%s'?", best);
        else
            diag_help(d, "write a number, or %s with (peak = .., warmup = .., floor = ..)", lr_names());
        return;
    }
    bool peak = false;
    for (int i = 1; i < ast_count(a); i++) {
        struct ast *k = a->kids[i], *value = k->kind == AST_KEYWORD ? ast_kid(k, 0) : k;
        const char *word = k->kind == AST_KEYWORD ? k->name : i <= 3 ? words[i - 1] : "";
        double v;
        if (k->kind == AST_KEYWORD && !settings_word(k, name, words))
            continue;
        if (!strcmp(word, "warmup")) {
            const_int(f, value, 0, "warmup", &t->lr_warmup);
        } else if (!strcmp(word, "decay")) {
            if (t->lr_kind != LR_WARMUP_STABLE_DECAY)
                diag_help(diag_error(E_ARGUMENTS, k->span, "%s has no decay of its own", name),
                          "warmup_stable_decay falls in its last `decay` steps");
            else
                const_int(f, value, 1, "decay", &t->lr_decay);
        } else if (!*word) {
            diag_error(E_ARGUMENTS, k->span, "%s takes peak, warmup and floor", name);
        } else if (const_eval(f, value, &v)) {
            if (v < 0)
                diag_error(E_BLOCK_LINE, value->span, "a learning rate of %s", const_text(v));
            *(!strcmp(word, "peak") ? &t->lr_peak : &t->lr_floor) = v;
        }
        peak |= !strcmp(word, "peak");
    }
    if (!peak)
        diag_error(E_ARGUMENTS, a->span, "%s lacks its argument 'peak'", name);
    if (t->lr_kind == LR_WARMUP_STABLE_DECAY && !t->lr_decay)
        diag_help(diag_error(E_ARGUMENTS, a->span, "%s lacks its argument 'decay'", name),
                  "add decay = 100, the number of steps in which it falls to the floor at the end");
}

/* decay = 0.1 on [..]: of the parameters that are meant; params_rules gives it to them. */
static double factor_of(struct frame *f, struct ast *s)
{
    double v = 0;
    if (const_eval(f, ast_kid(s, 0), &v) && !(v >= 0)) {
        diag_error(E_BLOCK_LINE, s->span, "%s is %s, but must be 0 or more", s->name, const_text(v));
        v = 0;
    }
    return v;
}

/* rows = 2 on [..]: these are matrices, whose rows are their first two dims. */
static int rows_of(struct frame *f, struct ast *s)
{
    int64_t v = 0;
    if (ast_kid(s, 1))
        return const_int(f, ast_kid(s, 0), 1, "the number of dims that are rows", &v) && v < MAX_DIM ? (int)v : 0;
    diag_help(diag_error(E_BLOCK_LINE, s->span, "which parameters are matrices?"),
              "write `rows = 1 on [h[*].mlp.up_weight]`: the first dim is the rows, the others are the columns");
    return 0;
}

static void optimizer(struct frame *f, struct ast *a, struct train_spec *t)
{
    static const char *const common[] = {"lr", "decay", "lr_scale", NULL};
    struct ast *name = ast_kid(a, 0);
    t->optimizer = optimizer_find(name->name);
    if (!t->optimizer) {
        const char *near = optimizer_near(name->name);
        struct diag *d = diag_error(E_UNKNOWN_NAME, name->span, "no optimizer is called '%s'", name->name);
        if (near)
            diag_help(d, "did you mean '%s'?", near);
        else
            diag_help(d, "the optimizers are %s", optimizer_names(" and "));
        return;
    }
    const struct optimizer_setting *settings = t->optimizer->optimizer->setting;
    const char **words = NULL;
    arrput(words, common[0]);
    for (int k = 0; settings[k].name; k++)
        arrput(words, settings[k].name);
    arrput(words, common[1]);
    arrput(words, common[2]);
    if (t->optimizer->optimizer->others)
        arrput(words, "rows");
    arrput(words, NULL);
    settings_once(a);
    lists_once(a, "decay");
    lists_once(a, "lr_scale");
    lists_once(a, "rows");
    bool lr = false, rows = false, unknown = false;
    if (t->optimizer == &op_muon)
        t->momentum = 0.95;
    for (int i = 1; i < ast_count(a); i++) {
        struct ast *s = a->kids[i];
        if (!settings_word(s, name->name, words)) {
            unknown = true;              /* which may have been the rate */
            continue;
        }
        lr |= is(s, "lr");
        if (is(s, "lr"))
            learning_rate(f, s, t);
        else if (is(s, "decay") || is(s, "lr_scale"))
            factor_of(f, s);
        else if (is(s, "rows"))
            rows_of(f, s);
        rows |= is(s, "rows");
        for (int k = 0; settings[k].name; k++)
            if (is(s, settings[k].name))
                set_num(f, s, 0, s->name, setting_of(t, &settings[k]));
    }
    if (!lr && !unknown)
        diag_help(diag_error(E_BLOCK_LINE, a->span, "the optimizer lacks its learning rate"),
                  "add lr = cosine(peak = .., warmup = .., floor = ..) or lr = 1e-3");
    if (t->optimizer->optimizer->others && !rows)
        diag_help(diag_error(E_BLOCK_LINE, a->span, "%s has no matrices to update", name->name),
                  "add `rows = 1 on [h[*].mlp.*_weight]`; what is not named there is updated by %s",
                  t->optimizer->optimizer->others->name);
    for (int k = 0; settings[k].name; k++)
        if (*setting_of(t, &settings[k]) >= settings[k].most) {
            diag_error(E_BLOCK_LINE, a->span, "%s must be less than %s, found %s", settings[k].name,
                       const_text(settings[k].most), const_text(*setting_of(t, &settings[k])));
            return;
        }
}

/* norm 2, norm inf */
static void set_norm(struct frame *f, struct ast *s, struct train_spec *t)
{
    const struct ast *value = ast_kid(s, 0);
    double v = 0;
    plain(s);
    t->largest = value && value->kind == AST_NAME && !strcmp(value->name, "inf");
    if (t->largest || !const_eval(f, ast_kid(s, 0), &v) || v == 2)
        return;
    diag_help(diag_error(E_BLOCK_LINE, s->span, "there is no norm %s", const_text(v)),
              "write `norm 2`, the root of all squares, or `norm inf`, the largest entry");
}

static void set_clip(struct frame *f, struct ast *s, struct train_spec *t)
{
    int before = diag_errors();
    set_num(f, s, -INFINITY, "clip_norm", &t->clip);
    if (t->clip <= 0 && diag_errors() == before)
        diag_help(t->clip < 0 ? diag_error(E_BLOCK_LINE, s->span, "clip_norm must be greater than 0, found %s", const_text(t->clip))
                              : diag_error(E_BLOCK_LINE, s->span, "gradients clipped to a norm of 0 would train nothing"),
                  "leave the line out where gradients are not to be clipped");
    t->deferred = ast_kid(s, 2) != NULL;
}

static void set_skip(struct ast *s, struct train_spec *t)
{
    const struct ast *value = ast_kid(s, 0);
    plain(s);
    t->skip = value && value->kind == AST_NAME && !strcmp(value->name, "nonfinite");
    if (!t->skip)
        diag_help(diag_error(E_BLOCK_LINE, s->span, "what is to be skipped?"), "write `skip nonfinite`");
}

static void set_ema(struct frame *f, struct ast *s, struct train_spec *t)
{
    set_num(f, s, 0, "ema", &t->ema);
    if (t->ema >= 1)
        diag_help(diag_error(E_BLOCK_LINE, s->span, "ema must be less than 1, found %s", const_text(t->ema)),
                  "ema 0.999 keeps 0.999 of the average and takes 0.001 of the new weight in each step");
}

/* weights ema: in evaluate and sample */
static bool set_weights(struct ast *s, const struct train_spec *t)
{
    const struct ast *value = ast_kid(s, 0);
    plain(s);
    if (!value || value->kind != AST_NAME || strcmp(value->name, "ema"))
        diag_help(diag_error(E_BLOCK_LINE, s->span, "which weights?"), "write `weights ema`; without it they are those of the step");
    else if (t->ema == 0)
        diag_help(diag_error(E_BLOCK_LINE, s->span, "train keeps no average of the weights"), "add `ema 0.999` to train");
    return t->ema > 0;
}

static void read_train(struct frame *f, struct ast *block, struct train_spec *t)
{
    static const char *const words[] = {"steps", "clip_norm", "norm", "skip", "ema", "seed", "frozen", "optimizer",
                                        "data", NULL};
    *t = (struct train_spec){.present = true, .span = block->span, .steps = 0, .beta1 = 0.9, .beta2 = 0.999,
                             .eps = 1e-8,
                             .seed = 1};
    int64_t seed = 1;
    bool steps = false, optimized = false, unknown = false;
    settings_once(block);
    lists_once(block, "frozen");
    for (int i = 0; i < ast_count(block); i++) {
        struct ast *s = block->kids[i];
        if (s->kind == AST_DATA) {
            data_read(f, s, &t->data);
        } else if (s->kind == AST_BLOCK) {
            optimizer(f, s, t);
            optimized = true;
        } else if (!settings_word(s, "train", words)) {
            unknown = true;              /* which may have been what lacks */
        } else {
            steps |= is(s, "steps");
            if (is(s, "steps"))
                set_int(f, s, 1, "steps", &t->steps);
            else if (is(s, "clip_norm"))
                set_clip(f, s, t);
            else if (is(s, "norm"))
                set_norm(f, s, t);
            else if (is(s, "skip"))
                set_skip(s, t);
            else if (is(s, "ema"))
                set_ema(f, s, t);
            else if (is(s, "seed"))
                set_int(f, s, 0, "seed", &seed);
        }
    }
    t->seed = (uint64_t)seed;
    if (t->deferred && t->optimizer && !t->optimizer->optimizer->redo)
        diag_help(diag_error(E_BLOCK_LINE, block->span, "an update by %s cannot be done again", t->optimizer->name),
                  "`clip_norm c` without `deferred` waits for the norm and gives the same numbers");
    if (!steps && !unknown)
        diag_help(diag_error(E_BLOCK_LINE, block->span, "train does not say how many steps"),
                  "add a line such as `steps 1000`");
    if (!optimized && !unknown)
        diag_help(diag_error(E_BLOCK_LINE, block->span, "train has no optimizer"),
                  "add `optimizer adamw { lr = 1e-3 }`");
}

static void read_evaluate(struct frame *f, struct ast *block, struct evaluate_spec *v, const struct train_spec *t)
{
    static const char *const words[] = {"steps", "weights", "data", NULL};
    *v = (struct evaluate_spec){.present = true, .steps = 1};
    settings_once(block);
    if (ast_kid(block, 0))
        const_int(f, ast_kid(block, 0), 1, "the distance of evaluations", &v->every);
    for (int i = 1; i < ast_count(block); i++) {
        struct ast *s = block->kids[i];
        if (s->kind == AST_DATA)
            data_read(f, s, &v->data);
        else if (settings_word(s, "evaluate", words) && is(s, "weights"))
            v->ema = set_weights(s, t);
        else if (is(s, "steps"))
            set_int(f, s, 1, "steps", &v->steps);
    }
    if (!v->data)
        v->data = t->data;
}

static void read_sample(struct frame *f, struct ast *block, struct sample_spec *v, const struct train_spec *t)
{
    static const char *const words[] = {"prompt", "tokens", "temperature", "top_k", "output", "weights", "every", NULL};
    *v = (struct sample_spec){.present = true, .tokens = 200, .temperature = 1, .output = "logits"};
    settings_once(block);
    for (int i = 0; i < ast_count(block); i++) {
        struct ast *s = block->kids[i], *a = ast_kid(s, 0);
        if (!settings_word(s, "sample", words))
            continue;
        if (is(s, "prompt"))
            v->prompt = text_of(s);
        else if (is(s, "tokens"))
            set_int(f, s, 1, "tokens", &v->tokens);
        else if (is(s, "top_k"))
            set_int(f, s, 0, "top_k", &v->top_k);
        else if (is(s, "every"))
            set_int(f, s, 0, "every", &v->every);
        else if (is(s, "weights"))
            v->ema = set_weights(s, t);
        else if (is(s, "temperature"))
            set_num(f, s, 0, "temperature", &v->temperature);
        else if (a && a->kind == AST_NAME)
            v->output = a->name;
        else
            diag_error(E_BLOCK_LINE, s->span, "'output' is the name of an output of the model");
    }
}

void train_collect(struct elab *e)
{
    struct frame top = {.e = e};
    struct module *m = e->m;
    if (e->train)
        read_train(&top, e->train, &m->train);
    if (e->evaluate)
        read_evaluate(&top, e->evaluate, &m->evaluate, &m->train);
    if (e->sample)
        read_sample(&top, e->sample, &m->sample, &m->train);
}

/* ---- patterns over parameters ---- */

static bool covered(struct elab *e, struct ast *patterns, const struct param *p)
{
    for (int i = 0; i < ast_count(patterns); i++)
        if (param_meant(p, patterns->kids[i]->name, true))
            return true;
    return false;
}

struct ast **train_patterns(struct elab *e)
{
    struct ast **list = NULL;
    for (int i = 0; i < ast_count(e->train); i++) {
        struct ast *s = e->train->kids[i];
        struct ast *frozen = s->kind == AST_SETTING && is(s, "frozen") ? ast_kid(s, 1) : NULL;
        for (int k = 0; k < ast_count(frozen); k++)
            arrput(list, frozen->kids[k]);
        for (int j = 1; s->kind == AST_BLOCK && j < ast_count(s); j++) {
            bool grouped = is(s->kids[j], "decay") || is(s->kids[j], "lr_scale") || is(s->kids[j], "rows");
            struct ast *on = grouped ? ast_kid(s->kids[j], 1) : NULL;
            for (int k = 0; k < ast_count(on); k++)
                arrput(list, on->kids[k]);
        }
    }
    return list;
}

static void set_rows(struct elab *e, struct ast *line)
{
    struct frame top = {.e = e};
    int rows = rows_of(&top, line);
    for (int k = 0; k < arrlen(e->m->params) && rows; k++) {
        struct param *p = e->m->params[k];
        if (p->is_state || !covered(e, ast_kid(line, 1), p))
            continue;
        if (rows >= p->ndim) {
            struct diag *d = diag_error(E_SHAPE, line->span, "%s has %d dim%s, so it is no matrix with %d of them as rows",
                                        p->path, p->ndim, p->ndim == 1 ? "" : "s", rows);
            diag_label(d, p->span, "declared here");
            return;
        }
        p->rows = rows;
    }
}

void params_rules(struct elab *e)
{
    struct module *m = e->m;
    for (int i = 0; i < ast_count(e->train); i++) {
        struct ast *s = e->train->kids[i];
        bool frozen = s->kind == AST_SETTING && is(s, "frozen");
        if (frozen) {
            for (int k = 0; k < arrlen(m->params); k++)
                m->params[k]->frozen |= covered(e, ast_kid(s, 1), m->params[k]);
        }
        for (int j = 1; s->kind == AST_BLOCK && j < ast_count(s); j++) {
            struct ast *line = s->kids[j], *on = ast_kid(line, 1);
            bool decay = is(line, "decay");
            if (is(line, "rows") && e->m->train.optimizer && e->m->train.optimizer->optimizer->others && on)
                set_rows(e, line);
            if (!decay && !is(line, "lr_scale"))
                continue;
            struct frame top = {.e = e};
            double v = factor_of(&top, line);
            for (int k = 0; k < arrlen(m->params); k++)
                if (!m->params[k]->is_state && (!on || covered(e, on, m->params[k])))
                    *(decay ? &m->params[k]->decay : &m->params[k]->lr_scale) = v;
        }
    }
}
