/* Those who look at a step, and how they read what they see. */
#include "see.h"
#include "blocks.h"
#include "check.h"
#include "target.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fl_seeing, fl_seeing_fused;
enum { MOST = 8 };
static struct { fl_seer *f; bool values; } seer[MOST];
static int nseer;

static void count(void)
{
    fl_seeing = nseer > 0;
    fl_seeing_fused = false;
    for (int i = 0; i < nseer; i++)
        fl_seeing_fused |= seer[i].values;
}

void fl_see_add(fl_seer *f, bool values)
{
    if (nseer == MOST)
        FL_FAIL(NULL, "more than %d look at the steps", MOST);
    seer[nseer].f = f;
    seer[nseer++].values = values;
    count();
}

void fl_see_remove(fl_seer *f)
{
    int n = 0;
    for (int i = 0; i < nseer; i++)
        if (seer[i].f != f)
            seer[n++] = seer[i];
    nseer = n;
    count();
}

void fl_see(struct fl_run *run, int node, int microbatch, int64_t block, const void *const *x)
{
    struct fl_seen s = { .node = &run->rank->class_->node[node], .microbatch = microbatch, .block = block, .x = x };
    for (int i = 0; i < nseer; i++)
        seer[i].f(run, &s);
}

static int64_t number(const struct fl_run *run, const struct fl_sym *s, int microbatch)
{
    int64_t v = s->c;
    for (int i = 0; i < s->n; i++)
        v *= s->k[i] < 0 ? microbatch : run->rank->constant[s->k[i]];
    return v;
}

static int64_t bytes_of(enum fl_type t) { return t == FL_F32 || t == FL_I32 ? 4 : t == FL_BF16 || t == FL_F16 ? 2 : 1; }

static float element(const char *raw, enum fl_type t, int64_t i)
{
    switch (t) {
    case FL_F32: return ((const float *)raw)[i];
    case FL_BF16: return fl_from_bf16(((const fl_bf16 *)raw)[i]);
    case FL_F16: return fl_from_f16(((const fl_f16 *)raw)[i]);
    case FL_I32: return (float)((const int32_t *)raw)[i];
    default: return ((const uint8_t *)raw)[i];
    }
}

/* Room that grows and is used again. */
static void *grown(void **p, int64_t *have, int64_t bytes)
{
    if (*have < bytes) {
        free(*p);
        *p = fl_alloc(*have = bytes);
    }
    return *p;
}

const float *fl_seen_read(struct fl_run *run, const struct fl_seen *s, int k, int64_t i, struct fl_box *box, int64_t *elements)
{
    static void *raw_p, *dense_p;
    static int64_t raw_bytes, dense_bytes;
    const struct fl_value *v = &s->node->value[k];
    int64_t size = bytes_of(v->tensor.type), stride[FL_MAX_DIM] = { 1 }, span = 1, n = 1;
    struct fl_box b = fl_box_of(&v->tensor, run->rank->coord, s->microbatch);
    int ndim = v->tensor.ndim;
    if (v->flat) {
        ndim = 1;
        b = (struct fl_box){ .n = { number(run, &v->elements, s->microbatch) } };
    }
    for (int d = 0; d < ndim; d++) {
        stride[d] = v->flat ? 1 : number(run, &v->stride[d], s->microbatch);
        n *= b.n[d];
        span += (b.n[d] - 1) * stride[d];
    }
    *box = b;
    *elements = n;
    if (n <= 0)
        return NULL;
    const char *from = (const char *)s->x[k] + i * number(run, &v->next, s->microbatch) * size;
    char *raw = grown(&raw_p, &raw_bytes, span * size);
    float *dense = grown(&dense_p, &dense_bytes, n * (int64_t)sizeof *dense);
    if (v->host) {
        fl_target_sync();
        memcpy(raw, from, (size_t)(span * size));
    } else {
        fl_from_arena(raw, from, span * size);
    }
    int64_t last = ndim ? b.n[ndim - 1] : 1, step = ndim ? stride[ndim - 1] : 1;
#pragma omp parallel for if (n > 65536)
    for (int64_t row = 0; row < n / last; row++) {
        int64_t at = 0, rest = row, inside = last;
        if (ndim && !v->flat && v->tensor.dim[ndim - 1].size - b.base[ndim - 1] < inside)
            inside = v->tensor.dim[ndim - 1].size - b.base[ndim - 1];
        for (int d = ndim - 2; d >= 0; d--) {
            at += rest % b.n[d] * stride[d];
            if (b.base[d] + rest % b.n[d] >= v->tensor.dim[d].size)
                inside = 0;
            rest /= b.n[d];
        }
        for (int64_t j = 0; j < last; j++)
            dense[row * last + j] = j < inside ? element(raw, v->tensor.type, at + j * step) : 0;
    }
    return dense;
}

int64_t fl_seen_block(const struct fl_seen *s, int64_t i) { return s->block + i; }

char *fl_seen_path(const struct fl_value *v, const char *path, int64_t block)
{
    struct fl_param p = { .tensor = { .path = path }, .nstack = v ? v->nstack : 0 };
    if (v)
        memcpy(p.stack, v->stack, sizeof p.stack);
    return fl_block_name(&p, block, 0, true);
}
