/* Optimizer steps (formulas of PyTorch) and sums of squares, over all tensors of a phase in one launch. Calls are gathered in a
 * list, and fl_gathered makes them all: a table in device memory says what each block of CHUNK elements is a part of. Every
 * step gathers the same calls, so a table is made once. Outside a step a call is made at once.
 *
 * Squares of a gradient that an update of the same launch reads are taken there: nothing is read for the norm. That is so
 * where the update does not wait for it (no clip, or a deferred one). Where it does, every gradient must be read twice,
 * since all of them are needed for the factor: the second launch, of squares alone, reads 4 bytes of a parameter (2 of 16 bits),
 * the update 16 (14) and writes 12, so it is an eighth of all (a fourteenth). Taking squares where the gradient is made
 * instead would not do: products add up in the library's own kernels, and NCCL reduces in its own.
 *
 * Learning rate and step number are read from device memory: they are the next step's when a captured step is replayed. The
 * redo of a step whose norm is known only after it is the same text, so that it gives the same bits: it reads what was kept,
 * and ends at once where the factor, which lies in device memory, is 1. A factor that is no number changes nothing; a redo puts
 * back what was kept. */
#include "../check.h"
#include "../target.h"
#include <stdlib.h>
#include <string.h>

constexpr int64_t CHUNK = 16 * FL_BLOCK;

enum kind { SQUARES, ADAMW, ADAM, SGD, LION, EMA, MUON_MOMENTUM, MUON };
struct item {
    int64_t n, first;                    /* elements; number of its first block */
    float *w, *m, *v;                    /* SGD: m is the momentum or NULL; LION: no v; SQUARES: none */
    float *square;                       /* where the sum of the squares of g goes, or NULL */
    const void *g;                       /* of that type */
    const float *scale, *from_w, *from_m, *from_v;
    float beta1, beta2, eps, decay;      /* SGD: beta1 is the momentum; EMA: beta1 is its decay, w the average, g the weight;
                                            MUON_MOMENTUM: w the momentum, m what it looks ahead to; MUON: g is o, eps its factor */
    float lr_scale;
    int kind, type;
    bool redo, quads;                    /* quads: all start at multiples of 16 bytes */
};
struct alignas(16) quad { float x[4]; };

/* adamw: decay acts on the weight; adam: through the gradient */
static __device__ __forceinline__ void adam(const item &t, float &w, float &m, float &v, float g, float by, float lr,
                                            const float *correct)
{
    float gi = g * by, shrunk = t.kind == ADAMW ? w - lr * t.decay * w : w;
    if (t.kind == ADAM)
        gi += t.decay * w;
    m = t.beta1 * m + (1 - t.beta1) * gi;
    v = t.beta2 * v + (1 - t.beta2) * gi * gi;
    w = shrunk - lr / correct[0] * m / (sqrtf(v) / correct[1] + t.eps);
}

static __device__ __forceinline__ void lion(const item &t, float &w, float &m, float g, float by, float lr)
{
    float gi = g * by, ahead = t.beta1 * m + (1 - t.beta1) * gi;
    w = w * (1 - lr * t.decay) - lr * (float)((ahead > 0) - (ahead < 0));
    m = t.beta2 * m + (1 - t.beta2) * gi;
}

static __device__ __forceinline__ void sgd(const item &t, float &w, float &m, float g, float by, float lr)
{
    float gi = g * by + t.decay * w;
    if (t.m)
        gi = m = t.beta1 * m + gi;
    w -= lr * gi;
}

static __device__ __forceinline__ void muon_momentum(const item &t, float &m, float &ahead, float g, float by)
{
    float d = (1 - t.beta1) * (g * by);
    m = t.beta1 * m + d;
    ahead = t.beta1 * m + d;
}

/* W elements, of f32 in accesses of 16 bytes; of 16 bits 8 are one access. W 1: the one. */
template <int W> static __device__ __forceinline__ void load_all(float (&to)[W], const float *from)
{
    if constexpr (W == 1) {
        to[0] = *from;
    } else {
        FL_UNROLL
        for (int q = 0; q < W / 4; q++) {
            quad x = ((const quad *)from)[q];
            FL_UNROLL
            for (int e = 0; e < 4; e++)
                to[4 * q + e] = x.x[e];
        }
    }
}

template <int W, typename G> static __device__ __forceinline__ void load_all(float (&to)[W], const G *from)
{
    if constexpr (W == 1) {
        to[0] = fl_load(*from);
    } else {
        fl_16_bytes x = *(const fl_16_bytes *)from;
        FL_UNROLL
        for (int e = 0; e < W; e++)
            to[e] = fl_load(G{(uint16_t)(x.part[e / 2] >> e % 2 * 16)});
    }
}

template <int W> static __device__ __forceinline__ void store_all(float *to, const float (&from)[W])
{
    if constexpr (W == 1) {
        *to = from[0];
    } else {
        FL_UNROLL
        for (int q = 0; q < W / 4; q++) {
            quad x;
            FL_UNROLL
            for (int e = 0; e < 4; e++)
                x.x[e] = from[4 * q + e];
            ((quad *)to)[q] = x;
        }
    }
}

/* W elements from i on; the squares of their gradients are added to sum. */
template <int W, typename G>
static __device__ __forceinline__ void update(const item &t, int64_t i, float by, float lr, const float *correct, double &sum)
{
    float w[W], g[W], m[W] = {}, v[W] = {};
    load_all<W>(g, (const G *)t.g + i);
    if (t.square) {
        FL_UNROLL
        for (int e = 0; e < W; e++)
            sum += (double)g[e] * (double)g[e];
    }
    if (t.kind == SQUARES)
        return;
    load_all<W>(w, t.from_w + i);
    if (t.m)
        load_all<W>(m, t.from_m + i);
    if (t.v)
        load_all<W>(v, t.from_v + i);
    FL_UNROLL
    for (int e = 0; e < W; e++) {
        if (by != by)
            continue;
        if (t.kind == ADAMW || t.kind == ADAM)
            adam(t, w[e], m[e], v[e], g[e], by, lr, correct);
        else if (t.kind == LION)
            lion(t, w[e], m[e], g[e], by, lr);
        else if (t.kind == MUON)
            w[e] = w[e] * (1 - lr * t.decay) - lr * t.eps * g[e];
        else if (t.kind == MUON_MOMENTUM)
            muon_momentum(t, w[e], m[e], g[e], by);
        else if (t.kind == EMA)
            w[e] = correct[0] * w[e] + (1 - correct[0]) * g[e];
        else
            sgd(t, w[e], m[e], g[e], by, lr);
    }
    store_all<W>(t.w + i, w);
    if (t.m)
        store_all<W>(t.m + i, m);
    if (t.v)
        store_all<W>(t.v + i, v);
}

/* [from, to) of an item, by all threads of the block; what this one has of the squares. */
template <typename G>
static __device__ __forceinline__ double update_chunk(const item &t, int64_t from, int64_t to, float by, float lr,
                                                      const float *correct)
{
    constexpr int W = 16 / sizeof(G);
    int64_t whole = t.quads ? from + (to - from) / W * W : from;
    double sum = 0;
    for (int64_t i = from + W * (int64_t)threadIdx.x; i < whole; i += W * FL_BLOCK)
        update<W, G>(t, i, by, lr, correct, sum);
    for (int64_t i = whole + threadIdx.x; i < to; i += FL_BLOCK)
        update<1, G>(t, i, by, lr, correct, sum);
    return sum;
}

/* Over the threads of a block, in a fixed order; thread 0 has the sum. */
static __device__ __forceinline__ double block_sum(double v, double *scratch)
{
    v = fl_warp_sum_double(v);
    FL_BARRIER();
    if (threadIdx.x % FL_WARP == 0)
        scratch[threadIdx.x / FL_WARP] = v;
    FL_BARRIER();
    double sum = 0;
    for (int w = 0; w < FL_BLOCK / FL_WARP; w++)
        sum += scratch[w];
    return sum;
}

/* Block b works on CHUNK elements of the last item that starts no later. */
__global__ void gathered_kernel(const item *items, int count, double *parts, const struct fl_step *s)
{
    FL_SHARED(double, scratch, FL_BLOCK / FL_WARP);
    FL_SHARED(float, correct, 2);
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (items[middle].first <= (int64_t)blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    const item t = items[low];
    int64_t from = ((int64_t)blockIdx.x - t.first) * CHUNK, to = from + CHUNK < t.n ? from + CHUNK : t.n;
    float by = t.scale ? *t.scale : 1.0f, lr = t.kind == SQUARES ? 0.0f : s->lr * t.lr_scale;
    if (t.redo ? by >= 1.0f : by != by)
        return;
    if (threadIdx.x == 0 && t.kind == EMA) {
        correct[0] = s->update > 0 ? t.beta1 : 0;
    } else if (threadIdx.x == 0 && (t.kind == ADAMW || t.kind == ADAM)) {
        correct[0] = (float)(1 - pow((double)t.beta1, (double)s->update + 1));
        correct[1] = (float)sqrt(1 - pow((double)t.beta2, (double)s->update + 1));
    }
    FL_BARRIER();
    double sum = 0;
    FL_BY_TYPE(t.type, G, sum = update_chunk<G>(t, from, to, by, lr, correct))
    if (!t.square)
        return;
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

/* A block per item adds what its blocks have left, in order of the threads. */
__global__ void gathered_squares(const item *items, const double *parts)
{
    FL_SHARED(double, scratch, FL_BLOCK / FL_WARP);
    const item t = items[blockIdx.x];
    if (!t.square)
        return;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < (t.n + CHUNK - 1) / CHUNK; i += FL_BLOCK)
        sum += parts[t.first + i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        *t.square = (float)sum;
}

__global__ void loss_scale_kernel(float *y, const struct fl_step *s)
{
    *y = s->loss_scale;
}

/* ---- on the host ---- */

struct table { item *list; item *on_device; int count; };
static table *tables, waiting;
static int ntable, room;
static const struct fl_step *step;

static bool aligned(const void *p) { return (uintptr_t)p % sizeof(quad) == 0; }

/* Of waiting items: updates that do not wait for a factor and squares, each without the other of the same gradient; momenta of
 * muon; where the last pair was found, as both come in one order. */
static int free_updates, lone_squares, momenta, found_at;

static bool is_free(const item &t) { return t.kind != SQUARES && t.kind != EMA && !t.scale && !t.square; }

/* The one waiting with which t shares a read of its gradient, or NULL. */
static item *partner(const item &t)
{
    bool square = t.kind == SQUARES;
    if (square ? !free_updates : !is_free(t) || !lone_squares)
        return NULL;
    for (int k = 0; k < waiting.count; k++) {
        item *other = &waiting.list[(found_at + 1 + k) % waiting.count];
        if (other->g == t.g && other->n == t.n && other->type == t.type && (square ? is_free(*other) : other->kind == SQUARES)) {
            found_at = (int)(other - waiting.list);
            return other;
        }
    }
    return NULL;
}

static void gather(item t, const struct fl_step *s)
{
    const item *last = waiting.count ? &waiting.list[waiting.count - 1] : NULL;
    /* averages are of what updates make, squares may be of what a momentum makes: neither goes into one launch with them */
    if (last && ((t.kind == EMA) != (last->kind == EMA) || (t.kind == SQUARES && momenta)))
        fl_gathered();
    step = s ? s : step;
    momenta += t.kind == MUON_MOMENTUM;
    item *with = partner(t);
    if (with) {
        bool square = t.kind == SQUARES;
        (square ? free_updates : lone_squares)--;
        t.first = with->first;
        if (square) {
            with->square = t.square;
            return;
        }
        t.square = with->square;
    } else if (waiting.count == room) {
        room = room ? 2 * room : 64;
        waiting.list = (item *)realloc(waiting.list, (size_t)room * sizeof t);
        if (!waiting.list)
            FL_FAIL("the host is out of memory", "cannot list an update");
    }
    if (!with) {
        last = waiting.count ? &waiting.list[waiting.count - 1] : NULL;
        t.first = last ? last->first + (last->n + CHUNK - 1) / CHUNK : 0;
        lone_squares += t.kind == SQUARES;
        free_updates += is_free(t);
        with = &waiting.list[waiting.count++];
    }
    t.quads = aligned(t.w) && aligned(t.g) && aligned(t.m) && aligned(t.v);
    t.quads = t.quads && aligned(t.from_w) && aligned(t.from_m) && aligned(t.from_v);
    memcpy(with, &t, sizeof t);
    if (!fl_in_step())
        fl_gathered();
}

/* The table of these calls on the device. It is made in the first step, before anything is captured. */
static const item *on_device(void)
{
    size_t bytes = (size_t)waiting.count * sizeof(item);
    for (int i = 0; i < ntable; i++)
        if (tables[i].count == waiting.count && !memcmp(tables[i].list, waiting.list, bytes))
            return tables[i].on_device;
    tables = (table *)realloc(tables, (size_t)(ntable + 1) * sizeof *tables);
    if (!tables)
        FL_FAIL("the host is out of memory", "cannot list a table");
    table *t = &tables[ntable++];
    t->list = (item *)memcpy(fl_alloc((int64_t)bytes), waiting.list, bytes);
    t->count = waiting.count;
    FL_CUDA(cudaMalloc((void **)&t->on_device, bytes));
    fl_to_arena(t->on_device, t->list, (int64_t)bytes);
    return t->on_device;
}

extern "C" void fl_gathered(void)
{
    if (!waiting.count)
        return;
    const item *items = on_device(), *last = &waiting.list[waiting.count - 1];
    int64_t blocks = last->first + (last->n + CHUNK - 1) / CHUNK;
    bool squares = false;
    for (int i = 0; i < waiting.count; i++)
        squares |= waiting.list[i].square != NULL;
    double *parts = squares ? (double *)fl_workspace(1, sizeof *parts * (size_t)(blocks + 1)) : NULL;
    if (blocks > 0)
        FL_LAUNCH_GRID(gathered_kernel, blocks, FL_BLOCK, items, waiting.count, parts,
                       step ? fl_step_on_device(step) : (const struct fl_step *)NULL);
    if (squares)
        FL_LAUNCH_GRID(gathered_squares, waiting.count, FL_BLOCK, items, parts);
    waiting.count = free_updates = lone_squares = momenta = 0;
    step = NULL;
}

void fl_gathered_stop(void)
{
    for (int i = 0; i < ntable; i++) {
        FL_CUDA(cudaFree(tables[i].on_device));
        free(tables[i].list);
    }
    free(tables);
    free(waiting.list);
    tables = NULL;
    waiting = {};
    ntable = room = 0;
}

/* All bytes of an item are compared: those between its members are 0. */
static item of_kind(int kind, int64_t n)
{
    item t;
    memset((void *)&t, 0, sizeof t);
    t.kind = kind;
    t.n = n > 0 ? n : 0;
    return t;
}

extern "C" void fl_square_sum(float *y, const void *x, enum fl_type type, int64_t n)
{
    item t = of_kind(SQUARES, n);
    t.square = y;
    t.g = x;
    t.type = type;
    gather(t, NULL);
}

extern "C" void fl_loss_scale(float *y, const struct fl_step *s)
{
    FL_LAUNCH_GRID(loss_scale_kernel, 1, 1, y, fl_step_on_device(s));
}

static void gather_update(int kind, const struct fl_step *s, float *w, const void *g, enum fl_type type, float *m, float *v,
                          const float *scale, const float *from_w, const float *from_m, const float *from_v, bool redo,
                          int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale)
{
    item t = of_kind(kind, n);
    t.w = w, t.m = m, t.v = v, t.g = g, t.scale = scale, t.from_w = from_w, t.from_m = from_m, t.from_v = from_v;
    t.redo = redo, t.type = type;
    t.beta1 = beta1, t.beta2 = beta2, t.eps = eps, t.decay = decay, t.lr_scale = lr_scale;
    gather(t, s);
}

extern "C" void fl_adamw(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v,
                         const float *scale, int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale)
{
    gather_update(ADAMW, s, w, g, t, m, v, scale, w, m, v, false, n, beta1, beta2, eps, decay, lr_scale);
}

extern "C" void fl_adam(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v,
                        const float *scale, int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale)
{
    gather_update(ADAM, s, w, g, t, m, v, scale, w, m, v, false, n, beta1, beta2, eps, decay, lr_scale);
}

extern "C" void fl_adamw_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v,
                              const float *scale, const float *kept_w, const float *kept_m, const float *kept_v, int64_t n,
                              float beta1, float beta2, float eps, float decay, float lr_scale)
{
    gather_update(ADAMW, s, w, g, t, m, v, scale, kept_w, kept_m, kept_v, true, n, beta1, beta2, eps, decay, lr_scale);
}

extern "C" void fl_adam_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v,
                             const float *scale, const float *kept_w, const float *kept_m, const float *kept_v, int64_t n,
                             float beta1, float beta2, float eps, float decay, float lr_scale)
{
    gather_update(ADAM, s, w, g, t, m, v, scale, kept_w, kept_m, kept_v, true, n, beta1, beta2, eps, decay, lr_scale);
}

extern "C" void fl_sgd(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *buffer, const float *scale,
                       int64_t n, float momentum, float decay, float lr_scale)
{
    gather_update(SGD, s, w, g, t, buffer, NULL, scale, w, buffer, NULL, false, n, momentum, 0, 0, decay, lr_scale);
}

extern "C" void fl_sgd_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *buffer, const float *scale,
                            const float *kept_w, const float *kept_buffer, int64_t n, float momentum, float decay,
                            float lr_scale)
{
    gather_update(SGD, s, w, g, t, buffer, NULL, scale, kept_w, kept_buffer, NULL, true, n, momentum, 0, 0, decay, lr_scale);
}

extern "C" void fl_lion(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, const float *scale,
                        int64_t n, float beta1, float beta2, float decay, float lr_scale)
{
    gather_update(LION, s, w, g, t, m, NULL, scale, w, m, NULL, false, n, beta1, beta2, 0, decay, lr_scale);
}

extern "C" void fl_lion_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, const float *scale,
                             const float *kept_w, const float *kept_m, int64_t n, float beta1, float beta2, float decay,
                             float lr_scale)
{
    gather_update(LION, s, w, g, t, m, NULL, scale, kept_w, kept_m, NULL, true, n, beta1, beta2, 0, decay, lr_scale);
}

extern "C" void fl_ema(const struct fl_step *s, float *e, const float *w, const float *scale, int64_t n, float decay)
{
    gather_update(EMA, s, e, w, FL_F32, NULL, NULL, scale, e, NULL, NULL, false, n, decay, 0, 0, 0, 1);
}

extern "C" void fl_muon_momentum(const struct fl_step *s, float *m, float *u, const void *g, enum fl_type t, const float *scale,
                                 int64_t n, float momentum)
{
    gather_update(MUON_MOMENTUM, s, m, g, t, u, NULL, scale, m, u, NULL, false, n, momentum, 0, 0, 0, 1);
}

extern "C" void fl_muon(const struct fl_step *s, float *w, const float *o, const float *scale, int64_t n, float factor,
                        float decay, float lr_scale)
{
    gather_update(MUON, s, w, o, FL_F32, NULL, NULL, scale, w, NULL, NULL, false, n, 0, 0, factor, decay, lr_scale);
}
