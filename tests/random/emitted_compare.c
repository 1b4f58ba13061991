/* The numbers of an emitted program against those of its logical graph.
 *
 * How far they may part. f32 has 24 bits, and what these programs sum has tens of terms, so a number is off by some 1e-6 of
 * the largest term on its way: FLOOR. Where a program enlarges that (a quotient of small numbers, a comparison that falls
 * otherwise), the reference shows it: rounded, and from weights and data a rounding error away, it parts from itself too,
 * and MARGIN times that is allowed. Weights are compared by how they have moved since the start, at the scale of the
 * largest move of their parameter, so that a gradient of one block that is wrong is seen however small the step is.
 * What rounding may change by a twentieth and more is no test: such programs are counted apart (vague). */
#include "emitted.h"
#include "../interpret/golden.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>

static const double margin = 8, floor_f32 = 1e-5, floor_short = 4e-2, vague_from = 0.05;

/* What is allowed for a number that came to y[] in each manner, at a scale. */
static double room(const double y[MANNERS], double scale, double floor)
{
    double spread = fmax(fabs(y[MANNER_ROUNDED] - y[MANNER_EXACT]), fabs(y[MANNER_MOVED] - y[MANNER_EXACT]));
    return floor * scale + margin * spread;
}

static double from_line(const json_t *line, const char *field)
{
    const json_t *x = json_object_get(line, field);
    return x && json_is_number(x) ? json_number_value(x) : NAN;
}

static int compare_scalars(const struct numbers runs[MANNERS], double floor, const char *dir, bool *vague)
{
    FILE *in = fopen(mem_printf("%s/metrics.jsonl", dir), "r");
    char text[4000];
    int differences = 0, found = 0;
    while (in && fgets(text, sizeof text, in)) {
        json_t *line = json_loads(text, 0, NULL);
        for (int i = 0; i < arrlen(runs->scalar); i++) {
            const struct number *n = &runs->scalar[i];
            if (n->step != (int)from_line(line, "step") || !json_object_get(line, n->field))
                continue;
            double x = from_line(line, n->field), y[MANNERS];
            for (int k = 0; k < MANNERS; k++)
                y[k] = runs[k].scalar[i].value;
            found++;
            double scale = 0.1 + fabs(*y), allowed = room(y, scale, floor);
            if (!isfinite(allowed) || allowed > vague_from * scale + floor * scale) {
                *vague = true;
            } else if (!(fabs(x - *y) <= allowed)) {
                fprintf(stderr, "%s of step %d: %.9g, must be %.9g within %.2g\n", n->field, n->step, x, *y, allowed);
                differences++;
            }
        }
        json_decref(line);
    }
    if (in)
        fclose(in);
    if (found != arrlen(runs->scalar)) {
        fprintf(stderr, "%d numbers printed of %d\n", found, (int)arrlen(runs->scalar));
        differences++;
    }
    return differences;
}

static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, isfinite(x[i]) ? fabs(x[i]) : INFINITY);
    return most;
}

static int compare_param(struct param *p, const struct numbers runs[MANNERS], const struct weights *got, double floor,
                         bool *vague)
{
    int64_t count = weights_count(p);
    const double *x = weights_get(got, p), *start = weights_get(runs->start, p), *y[MANNERS];
    double spread = 0, moved = 0;
    for (int k = 0; k < MANNERS; k++)
        y[k] = weights_get(runs[k].end, p);
    for (int64_t i = 0; i < count; i++) {
        moved = fmax(moved, fabs(y[MANNER_EXACT][i] - start[i]));
        for (int k = 1; k < MANNERS; k++)            /* each from where it began */
            spread = fmax(spread, fabs(y[k][i] - weights_get(runs[k].start, p)[i] - (y[MANNER_EXACT][i] - start[i])));
    }
    double allowed = 20 * floor * moved + 3e-7 * largest(start, count) + margin * spread;
    if (!isfinite(allowed) || !isfinite(moved) || (moved > 0 && allowed > vague_from * moved + 20 * floor * moved)) {
        *vague |= moved > 1e-5;                      /* below that it has hardly moved */
        return 0;
    }
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[MANNER_EXACT][i]) <= allowed)) {
            fprintf(stderr, "%s[%lld] of %lld: %.9g, must be %.9g within %.2g, moved by %.2g\n", p->path, (long long)i,
                    (long long)count, x[i], y[MANNER_EXACT][i], allowed, moved);
            return 1;
        }
    return 0;
}

int emitted_compare(const struct numbers runs[MANNERS], bool is_short, const char *dir, bool weights, bool *vague)
{
    double floor = is_short ? floor_short : floor_f32;
    int differences = compare_scalars(runs, floor, dir, vague);
    if (!weights)
        return differences;
    struct weights *got = weights_copy(runs->start);
    if (!golden_load(mem_printf("%s/end.safetensors", dir), got))
        return differences + 1;
    for (int k = 0; k < hmlen(got->map); k++)
        if (!got->map[k].key->is_state)
            differences += compare_param(got->map[k].key, runs, got, floor, vague);
    return differences;
}
