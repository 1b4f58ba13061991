/* One rank that takes the batch in micro-batches against one that takes it whole, in float64. What goes behind the last
 * micro-batch, or ahead of the first, is decided in the logical graph, which all ranks are compared with: a fault there they
 * all share. So the program is compiled a second time, as far as the training step, without its `microbatches` lines. */
#include "base/diag.h"
#include "compare.h"
#include "interpret/interpret.h"
#include "passes.h"
#include <math.h>
#include <string.h>

/* The text with blanks for its `microbatches` lines; NULL: it has none. */
static const char *blanked(const char *text)
{
    char *copy = mem_printf("%s", text), *at = copy;
    bool found = false;
    while ((at = strstr(at, "microbatches "))) {
        size_t length = strcspn(at, ";}#\n");
        memset(at, ' ', length);
        if (at[length] == ';')
            at[length] = ' ';
        found = true;
    }
    return found ? copy : NULL;
}

static struct module *without_microbatches(const struct module *m)
{
    const char *text = blanked(source_get(m->programs[0]->span.file)->text);
    if (!text)
        return NULL;
    struct module *w = NEW(struct module);
    w->options = m->options;
    arrput(w->programs, parse(source_add("undivided.flow", text)));
    if (!diag_errors())
        elaborate(w);
    if (!diag_errors())
        differentiate(w);
    return diag_errors() ? NULL : w;     /* not every plan is one without them */
}

/* Block `number` of the whole repeat of the parameter called `path`; NULL: there is none. */
static double *block_of(const struct weights *w, const char *path, int64_t number, int64_t count)
{
    for (int k = 0; k < hmlen(w->map); k++) {
        const struct param *p = w->map[k].key;
        int64_t blocks = weights_block(p) ? weights_count(p) / weights_block(p) : 0;
        for (int64_t b = 0; b < blocks && weights_block(p) == count && !strcmp(p->path, path); b++)
            if (weights_number(p, b) == number)
                return w->map[k].value + b * count;
    }
    return NULL;
}

static void move_from_zero(struct weights *w)
{
    for (int k = 0; k < hmlen(w->map); k++)
        for (int64_t i = 0; i < weights_count(w->map[k].key) && !w->map[k].key->is_state; i++)
            w->map[k].value[i] += 0.05 * (double)(i % weights_block(w->map[k].key) % 5 - 2);
}

static void compare_blocks(const struct weights *parts, const struct weights *whole)
{
    for (int k = 0; k < hmlen(parts->map); k++) {
        const struct param *p = parts->map[k].key;
        int64_t count = weights_block(p), scale_of = weights_count(p);
        double scale = 0;
        for (int64_t i = 0; i < scale_of; i++)
            scale = fmax(scale, fabs(parts->map[k].value[i]));
        for (int64_t b = 0; count && b < weights_count(p) / count; b++) {
            const double *x = parts->map[k].value + b * count, *y = block_of(whole, p->path, weights_number(p, b), count);
            for (int64_t i = 0; y && i < count; i++)
                if (compare_numbers(mem_printf("%s[%lld], in micro-batches and whole", p->path, (long long)(b * count + i)), x[i],
                                    y[i], scale))
                    return;
        }
    }
}

void compare_undivided(struct module *m)
{
    struct module *w = m->plan->microbatches > 1 ? without_microbatches(m) : NULL;
    for (int e = 0; w && e < ENTRIES; e++) {
        if (!m->graph[e] || !w->graph[e] || (e != ENTRY_TRAIN && e != ENTRY_EVALUATE))
            continue;
        struct weights *parts = weights_new(m, 5), *whole = weights_new(w, 5);
        move_from_zero(parts);
        move_from_zero(whole);
        struct run *a = run_logical(m, (enum entry)e, parts), *b = run_logical(w, (enum entry)e, whole);
        for (int64_t step = 0; step < (e == ENTRY_TRAIN ? 2 : 1); step++) {
            compare_give(w->graph[e], a, b);          /* the other one may have lost inputs that nobody reads */
            run_step(a, step);
            run_step(b, step);
            static const char *const scalars[] = {"loss", "grad_norm"};
            for (int i = 0; i < 2; i++)
                compare_numbers(mem_printf("%s %s of step %d, in micro-batches and whole", entry_name[e], scalars[i], (int)step),
                                run_output(a, scalars[i]), run_output(b, scalars[i]), fabs(run_output(b, scalars[i])));
        }
        run_weights(a, parts);
        run_weights(b, whole);
        compare_blocks(parts, whole);
        run_release(a);
        run_release(b);
    }
}
