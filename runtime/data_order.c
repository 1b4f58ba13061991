/* The permutation, the pattern of weights, and where a row lies. See data_order.h. */
#include "data_order.h"
#include "check.h"
#include <math.h>
#include <stdlib.h>

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t fl_permute(int64_t i, int64_t n, uint64_t key)
{
    if (n < 2)
        return 0;
    int half = 1;
    while (half < 31 && ((int64_t)1 << 2 * half) < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint64_t next = left ^ (mix(right + key + (round + 1) * 0x9e3779b97f4a7c15u) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

static uint64_t key_of(const struct fl_order *o, int64_t file, int64_t epoch)
{
    return mix(mix(mix(o->seed + 0x9e3779b97f4a7c15u) + (uint64_t)file) + (uint64_t)epoch);
}

int64_t fl_order_rows(const struct fl_order *o, int file, int64_t phase)
{
    int64_t left = o->span[file].high - o->span[file].low - phase - o->after;
    return left > 0 ? left / o->width : 0;
}

static int64_t all_rows(const struct fl_order *o, int64_t phase)
{
    int64_t rows = 0;
    for (int f = 0; f < o->nfile; f++)
        rows += fl_order_rows(o, f, phase);
    return rows;
}

int64_t fl_order_epoch(const struct fl_order *o) { return all_rows(o, 0); }

/* Largest remainders give the shares; in the pattern comes next the file that is furthest behind its share. */
void fl_order_weigh(struct fl_order *o, const double *weight)
{
    double sum = 0;
    int64_t given = 0;
    o->pattern = fl_alloc(FL_PATTERN * (int64_t)sizeof *o->pattern);
    o->rank = fl_alloc(FL_PATTERN * (int64_t)sizeof *o->rank);
    o->share = fl_alloc(o->nfile * (int64_t)sizeof *o->share);
    for (int f = 0; f < o->nfile; f++)
        sum += weight[f];
    for (int f = 0; f < o->nfile; f++) {
        o->share[f] = (int64_t)(weight[f] / sum * FL_PATTERN);
        o->share[f] += o->share[f] == 0;
        given += o->share[f];
    }
    while (given != FL_PATTERN) {
        int best = 0, sign = given < FL_PATTERN ? 1 : -1;
        double most = -INFINITY;
        for (int f = 0; f < o->nfile; f++) {
            double behind = sign * (weight[f] / sum * FL_PATTERN - (double)o->share[f]);
            if (behind > most && (sign > 0 || o->share[f] > 1)) {
                most = behind;
                best = f;
            }
        }
        o->share[best] += sign;
        given += sign;
    }
    int32_t *used = fl_alloc(o->nfile * (int64_t)sizeof *used);
    for (int64_t r = 0; r < FL_PATTERN; r++) {
        int best = 0;
        double most = -INFINITY;
        for (int f = 0; f < o->nfile; f++) {
            double behind = (double)o->share[f] * (double)(r + 1) / FL_PATTERN - used[f];
            if (used[f] < o->share[f] && behind > most) {
                most = behind;
                best = f;
            }
        }
        o->pattern[r] = (uint16_t)best;
        o->rank[r] = used[best]++;
    }
    free(used);
}

struct fl_position fl_order_ahead(const struct fl_order *o, struct fl_position p, int64_t steps)
{
    if (o->pattern) {
        p.at += steps * o->n * o->width;
        return p;
    }
    int64_t left = all_rows(o, p.at % o->width) - p.at / o->width, here = left > 0 ? left / o->n : 0;
    int64_t each = fl_order_epoch(o) / o->n;
    if (steps < here || each < 1) {
        p.at += steps * o->n * o->width;
        return p;
    }
    steps -= here;
    return (struct fl_position){ p.epoch + 1 + steps / each, steps % each * o->n * o->width };
}

int64_t fl_order_find(const struct fl_order *o, struct fl_position p, int64_t i, int *file)
{
    int64_t phase = p.at % o->width, row = p.at / o->width + i;
    if (o->pattern) {
        int f = *file = o->pattern[row % FL_PATTERN];
        int64_t k = row / FL_PATTERN * o->share[f] + o->rank[row % FL_PATTERN], rows = fl_order_rows(o, f, phase);
        if (rows < 1) {                  /* resumed amid the only row: it is read from its beginning */
            phase = 0;
            rows = fl_order_rows(o, f, 0);
        }
        int64_t at = o->shuffle ? fl_permute(k % rows, rows, key_of(o, f + 1, k / rows)) : k % rows;
        return o->span[f].low + phase + at * o->width;
    }
    if (o->shuffle)
        row = fl_permute(row, all_rows(o, phase), key_of(o, 0, p.epoch));
    for (*file = 0; *file < o->nfile - 1 && row >= fl_order_rows(o, *file, phase); ++*file)
        row -= fl_order_rows(o, *file, phase);
    return o->span[*file].low + phase + row * o->width;
}
