/* Dropout, the global norm and the optimizers. Element-wise but for the sums, which go by chunks of fixed size in
 * double. */
#include "../fl_random.h"
#include "cpu.h"
#include "flow_rows.h"

enum { CHUNK = FL_SQUARES_CHUNK, ROW = 4096 };

/* Entries [at, at + n) of a gradient as f32: where they lie, or converted in scratch of the thread. */
static const float *row_of(const void *g, enum fl_type t, int64_t at, int64_t n)
{
    if (t == FL_F32)
        return (const float *)g + at;
    float *row = fl_thread_scratch(n * (int64_t)sizeof(float));
    fl_load_row(row, fl_element(g, t, at), t, 1, n);
    return row;
}

/* for (int64_t i = ..), a row at a time: in the row it is entry i - at, there d[i - at] is the gradient. */
#define FOR_ROWS(i, n, d, g, t)                                                                                        \
    FL_PRAGMA(omp parallel for if ((n) > FL_GRAIN))                                                                    \
    for (int64_t at = 0; at < (n); at += ROW)                                                                          \
        for (const float *d = row_of(g, t, at, fl_least(ROW, (n) - at)), *once = d; once; once = NULL)                 \
            FL_PRAGMA(omp simd) for (int64_t i = at; i < fl_least(at + ROW, n); i++)

/* Nothing is gathered here: every call has been made. */
void fl_gathered(void) {}

void fl_dropout_as(void *y, const void *x, enum fl_type t, const struct fl_step *s, uint64_t path_hash, int64_t block,
                   float p, const struct fl_place *at)
{
    enum { PIECE = 512 };
    int last = at->ndim - 1;
    int64_t rows = 1, n = at->ndim ? at->n[last] : 1;
    for (int d = 0; d < last; d++)
        rows *= at->n[d];
    float by = 1 / (1 - p);
    uint64_t least = fl_least_kept(p);
#pragma omp parallel for if (rows * n > FL_GRAIN / 16)
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r, index = 0, stride = at->ndim ? at->size[last] : 1;
        for (int d = last - 1; d >= 0; d--) {
            index += (at->base[d] + rest % at->n[d]) * stride;
            rest /= at->n[d];
            stride *= at->size[d];
        }
        index += at->ndim ? at->base[last] : 0;
        for (int64_t i = 0; i < n; i += PIECE) {
            uint8_t kept[PIECE];
            float room[PIECE];
            int64_t count = fl_least(PIECE, n - i);
            void *place = fl_place_of(y, t, r * n + i);
            float *to = fl_row_out(room, place, t);
            const float *from = fl_row_in(room, fl_element(x, t, r * n + i), t, count);
            fl_row_kept(kept, s, path_hash, block, index + i, least, count);
#pragma omp simd
            for (int64_t k = 0; k < count; k++)
                to[k] = kept[k] ? from[k] * by : 0;
            fl_row_put(place, t, to, count);
        }
    }
}

void fl_dropout(float *y, const float *x, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                const struct fl_place *at)
{
    fl_dropout_as(y, x, FL_F32, s, path_hash, block, p, at);
}

void fl_square_sum(float *y, const void *x, enum fl_type t, int64_t n)
{
    int64_t chunks = fl_pieces(n, CHUNK);
    double one, *part = chunks > 1 ? fl_scratch(FL_SCRATCH_KERNEL, fl_room_of_squares(n)) : &one, sum = 0;
#pragma omp parallel for if (n > FL_GRAIN)
    for (int64_t c = 0; c < chunks; c++) {
        int64_t many = fl_least(CHUNK, n - c * CHUNK);
        const float *row = row_of(x, t, c * CHUNK, many);
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < many; i++)
            squares += (double)row[i] * row[i];
        part[c] = squares;
    }
    for (int64_t c = 0; c < chunks; c++)
        sum += part[c];
    *y = (float)sum;
}

void fl_global_norm(float *y, const float *squares, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += squares[i];
    *y = (float)sqrt(sum);
}

void fl_clip_scale(float *y, const float *norm, float clip)
{
    float by = clip / (*norm + 1e-6f);
    *y = !isfinite(*norm) ? NAN : by < 1 ? by : 1;
}

void fl_loss_scale(float *y, const struct fl_step *s)
{
    *y = s->loss_scale;
}

/* apart: decay acts on the weight, not through the gradient */
static inline void adam(bool apart, const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v,
                        const float *scale, int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale)
{
    double k = (double)s->update + 1;
    float lr = s->lr * lr_scale;
    float step_size = (float)(lr / (1 - pow(beta1, k))), inverse_root = (float)(1 / sqrt(1 - pow(beta2, k)));
    float shrink = apart ? 1 - lr * decay : 1, inside = apart ? 0 : decay;
    float by = scale ? *scale : 1, rest1 = 1 - beta1, rest2 = 1 - beta2;
    if (isnan(by))
        return;
    FOR_ROWS(i, n, row, g, t) {
        float d = row[i - at] * by;
        if (!apart)
            d += inside * w[i];
        m[i] = beta1 * m[i] + rest1 * d;
        v[i] = beta2 * v[i] + rest2 * d * d;
        w[i] = w[i] * shrink - step_size * m[i] / (sqrtf(v[i]) * inverse_root + eps);
    }
}

void fl_adamw(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
              int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale)
{
    adam(true, s, w, g, t, m, v, scale, n, beta1, beta2, eps, decay, lr_scale);
}

void fl_adam(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
             int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale)
{
    adam(false, s, w, g, t, m, v, scale, n, beta1, beta2, eps, decay, lr_scale);
}

void fl_sgd(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *momentum_buffer, const float *scale,
            int64_t n, float momentum, float decay, float lr_scale)
{
    float lr = s->lr * lr_scale, by = scale ? *scale : 1;
    bool first = s->update == 0;
    if (isnan(by))
        return;
    FOR_ROWS(i, n, row, g, t) {
        float d = row[i - at] * by + decay * w[i];
        if (momentum_buffer)
            d = momentum_buffer[i] = first ? d : momentum * momentum_buffer[i] + d;
        w[i] -= lr * d;
    }
}

void fl_lion(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, const float *scale, int64_t n,
             float beta1, float beta2, float decay, float lr_scale)
{
    float lr = s->lr * lr_scale, by = scale ? *scale : 1, shrink = 1 - lr * decay, rest1 = 1 - beta1, rest2 = 1 - beta2;
    if (isnan(by))
        return;
    FOR_ROWS(i, n, row, g, t) {
        float d = row[i - at] * by, ahead = beta1 * m[i] + rest1 * d;
        w[i] = w[i] * shrink - lr * (float)((ahead > 0) - (ahead < 0));
        m[i] = beta2 * m[i] + rest2 * d;
    }
}

void fl_muon_momentum(const struct fl_step *s, float *m, float *u, const void *g, enum fl_type t, const float *scale, int64_t n,
                      float momentum)
{
    float by = scale ? *scale : 1, rest = 1 - momentum;
    (void)s;
    if (isnan(by)) {
        fl_copy(u, m, n, sizeof *u);
        return;
    }
    FOR_ROWS(i, n, row, g, t) {
        float d = rest * (row[i - at] * by);
        m[i] = momentum * m[i] + d;
        u[i] = momentum * m[i] + d;
    }
}

void fl_muon(const struct fl_step *s, float *w, const float *o, const float *scale, int64_t n, float factor, float decay,
             float lr_scale)
{
    float lr = s->lr * lr_scale, shrink = 1 - lr * decay, by = lr * factor;
    if (scale && isnan(*scale))
        return;
#pragma omp parallel for simd if (n > FL_GRAIN)
    for (int64_t i = 0; i < n; i++)
        w[i] = w[i] * shrink - by * o[i];
}

void fl_ema(const struct fl_step *s, float *e, const float *w, const float *scale, int64_t n, float decay)
{
    float keep = s->update > 0 ? decay : 0, rest = 1 - keep;
    if (scale && isnan(*scale))
        return;
#pragma omp parallel for simd if (n > FL_GRAIN)
    for (int64_t i = 0; i < n; i++)
        e[i] = keep * e[i] + rest * w[i];
}

/* The factor is the same on all ranks, and so is the branch. A factor that is no number leaves what was kept. */
static bool put_back(const float *scale, float *w, const float *kept_w, float *m, const float *kept_m, int64_t n)
{
    if (*scale >= 1)
        return false;
    fl_copy(w, kept_w, n, sizeof *w);
    if (m)
        fl_copy(m, kept_m, n, sizeof *m);
    return true;
}

void fl_adamw_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
                   const float *kept_w, const float *kept_m, const float *kept_v, int64_t n, float beta1, float beta2,
                   float eps, float decay, float lr_scale)
{
    if (!put_back(scale, w, kept_w, m, kept_m, n))
        return;
    fl_copy(v, kept_v, n, sizeof *v);
    fl_adamw(s, w, g, t, m, v, scale, n, beta1, beta2, eps, decay, lr_scale);
}

void fl_adam_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
                  const float *kept_w, const float *kept_m, const float *kept_v, int64_t n, float beta1, float beta2, float eps,
                  float decay, float lr_scale)
{
    if (!put_back(scale, w, kept_w, m, kept_m, n))
        return;
    fl_copy(v, kept_v, n, sizeof *v);
    fl_adam(s, w, g, t, m, v, scale, n, beta1, beta2, eps, decay, lr_scale);
}

void fl_sgd_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *momentum_buffer, const float *scale,
                 const float *kept_w, const float *kept_momentum, int64_t n, float momentum, float decay, float lr_scale)
{
    if (put_back(scale, w, kept_w, momentum_buffer, kept_momentum, n))
        fl_sgd(s, w, g, t, momentum_buffer, scale, n, momentum, decay, lr_scale);
}

void fl_lion_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, const float *scale,
                  const float *kept_w, const float *kept_m, int64_t n, float beta1, float beta2, float decay, float lr_scale)
{
    if (put_back(scale, w, kept_w, m, kept_m, n))
        fl_lion(s, w, g, t, m, scale, n, beta1, beta2, decay, lr_scale);
}
