/* Kernels of the cpu target against the plainest float64 loops. Extents are odd, data have both signs. */
#include "compare.h"
#include <string.h>

static void layer_norm(void **state)
{
    (void)state;
    for (int centre = 0; centre < 2; centre++)
        for (int64_t rows = 1; rows <= 201; rows += 100) {
            int64_t n = 37;
            float *x = random_array(rows * n, 1), *w = random_array(n, 2), *b = random_array(n, 3),
                  *dy = random_array(rows * n, 4);
            float *y = blank(rows * n), *dx = blank(rows * n), *dw = blank(n), *db = blank(n);
            double *ry = calloc((size_t)(rows * n), 8), *rdx = calloc((size_t)(rows * n), 8), rdw[37] = { 0 },
                   rdb[37] = { 0 };
            for (int64_t r = 0; r < rows; r++) {
                double mean = 0, var = 0, s1 = 0, s2 = 0;
                for (int64_t i = 0; centre && i < n; i++)
                    mean += x[r * n + i] / (double)n;
                for (int64_t i = 0; i < n; i++)
                    var += (x[r * n + i] - mean) * (x[r * n + i] - mean) / (double)n;
                double inverse = 1 / sqrt(var + 1e-5);
                for (int64_t i = 0; i < n; i++) {
                    double h = (x[r * n + i] - mean) * inverse, g = dy[r * n + i];
                    ry[r * n + i] = h * w[i] + (centre ? b[i] : 0);
                    rdw[i] += g * h;
                    rdb[i] += g;
                    s1 += g * w[i] / (double)n;
                    s2 += g * w[i] * h / (double)n;
                }
                for (int64_t i = 0; i < n; i++) {
                    double h = (x[r * n + i] - mean) * inverse;
                    rdx[r * n + i] = (dy[r * n + i] * w[i] - (centre ? s1 : 0) - h * s2) * inverse;
                }
            }
            if (centre) {
                fl_layer_norm(y, x, w, b, rows, n, 1e-5f);
                fl_layer_norm_grad(dx, dw, db, dy, x, w, rows, n, 1e-5f);
                check_close("dbias", db, rdb, n, 2e-6);
            } else {
                fl_rms_norm(y, x, w, rows, n, 1e-5f);
                fl_rms_norm_grad(dx, dw, dy, x, w, rows, n, 1e-5f);
            }
            check_close("y", y, ry, rows * n, 2e-6);
            check_close("dx", dx, rdx, rows * n, 4e-6);
            check_close("dweight", dw, rdw, n, 4e-6);
        }
}

/* Every set of reduced dims of a padded three-dim tensor, of a large one that is cut into chunks, and of one with many terms for
 * few results, which lie apart. */
static void reductions(void **state)
{
    (void)state;
    for (unsigned axes = 0; axes < 24; axes++) {
        struct fl_dims d = { .ndim = 3, .n = { 5, 7, 11 }, .valid = { 4, 7, 9 }, .reduced = axes & 7, .divisor = 13 };
        if (axes & 16)
            d = (struct fl_dims){
                .ndim = 3, .n = { 40, 3, 50 }, .valid = { 40, 3, 50 }, .reduced = axes & 7, .divisor = 13
            };
        else if (axes & 8)
            d = (struct fl_dims){
                .ndim = 2, .n = { 300, 9000 }, .valid = { 300, 9000 }, .reduced = axes & 3, .divisor = 13
            };
        int64_t total = 1, kept = 1;
        for (int i = 0; i < d.ndim; i++) {
            total *= d.n[i];
            kept *= d.reduced >> i & 1 ? 1 : d.n[i];
        }
        float *x = random_array(total, 5), *y = blank(kept);
        double *sum = calloc((size_t)kept, 8), *top = malloc((size_t)kept * 8), *count = calloc((size_t)kept, 8);
        uint8_t *flag = malloc((size_t)total);
        for (int64_t k = 0; k < kept; k++)
            top[k] = -INFINITY;
        for (int64_t i = 0; i < total; i++) {
            int64_t rest = i, at = 0, step = 1;
            bool valid = true;
            for (int k = d.ndim - 1; k >= 0; k--) {
                int64_t index = rest % d.n[k];
                rest /= d.n[k];
                if (d.reduced >> k & 1) {
                    valid &= index < d.valid[k];
                } else {
                    at += index * step;
                    step *= d.n[k];
                }
            }
            flag[i] = x[i] > 0;
            if (!valid)
                continue;
            sum[at] += x[i];
            top[at] = fmax(top[at], x[i]);
            count[at] += flag[i];
        }
        fl_sum(y, x, &d);
        check_close("sum", y, sum, kept, 1e-5);
        fl_max(y, x, &d);
        check_close("max", y, top, kept, 0);
        fl_count(y, flag, &d, false, 0);
        check_close("count", y, count, kept, 0);
        for (int64_t k = 0; k < kept; k++)
            sum[k] /= 13;
        fl_mean(y, x, &d);
        check_close("mean", y, sum, kept, 1e-5);
    }
    float x[2 * 100], y[2];
    for (int i = 0; i < 200; i++)
        x[i] = i == 3 ? INFINITY : 1;
    struct fl_dims rows = { .ndim = 2, .n = { 2, 100 }, .valid = { 2, 100 }, .reduced = 2, .divisor = 100 };
    fl_sum(y, x, &rows);
    assert_true(isinf(y[0]) && y[0] > 0 && y[1] == 100);
}

static void softmaxes(void **state)
{
    (void)state;
    for (unsigned axes = 1; axes < 8; axes++) {
        struct fl_dims d = { .ndim = 3, .n = { 3, 4, 7 }, .valid = { 3, 3, 5 }, .reduced = axes };
        float *x = random_array(84, 6), *dy = random_array(84, 7), *y = blank(84), *ly = blank(84), *dx = blank(84),
              *ldx = blank(84);
        double ry[84] = { 0 }, rly[84] = { 0 }, rdx[84] = { 0 }, rldx[84] = { 0 };
        for (int i = 0; i < 84; i++)
            x[i] *= 20;
        for (int i = 0; i < 84; i++) {               /* the slice of i, found by comparing kept indices */
            int at[3] = { i / 28, i / 7 % 4, i % 7 };
            double sum = 0, dot = 0, dsum = 0;
            bool valid = true;
            for (int k = 0; k < 3; k++)
                valid &= !(axes >> k & 1) || at[k] < d.valid[k];
            if (!valid)
                continue;
            for (int pass = 0; pass < 2; pass++)
                for (int j = 0; j < 84; j++) {
                    int other[3] = { j / 28, j / 7 % 4, j % 7 };
                    bool in = true;
                    for (int k = 0; k < 3; k++)
                        in &= axes >> k & 1 ? other[k] < d.valid[k] : other[k] == at[k];
                    if (in && pass == 0)
                        sum += exp(x[j]);
                    if (in && pass == 1) {
                        dot += exp(x[j]) / sum * dy[j];
                        dsum += dy[j];
                    }
                }
            ry[i] = exp(x[i]) / sum;
            rly[i] = x[i] - log(sum);
            rdx[i] = ry[i] * (dy[i] - dot);
            rldx[i] = dy[i] - ry[i] * dsum;
        }
        fl_softmax(y, x, &d);
        fl_log_softmax(ly, x, &d);
        fl_softmax_grad(dx, y, dy, &d);
        fl_log_softmax_grad(ldx, ly, dy, &d);
        check_close("softmax", y, ry, 84, 2e-6);
        check_close("log_softmax", ly, rly, 84, 2e-6);
        check_close("softmax_grad", dx, rdx, 84, 2e-6);
        check_close("log_softmax_grad", ldx, rldx, 84, 5e-6);
    }
}

/* Whole, and split in two parts of the vocabulary whose pieces are joined by hand. */
static void cross_entropy(void **state)
{
    (void)state;
    enum { ROWS = 19, V = 31, VALID = 27, LOW = 16 };
    for (float smoothing = 0; smoothing < 0.2f; smoothing += 0.1f) {
        float *x = random_array(ROWS * V, 8), *dloss = random_array(ROWS, 9), *loss = blank(ROWS),
              *dx = blank(ROWS * V);
        int32_t target[ROWS];
        double rloss[ROWS] = { 0 }, rdx[ROWS * V] = { 0 };
        for (int r = 0; r < ROWS; r++) {
            target[r] = r % 5 == 2 ? -100 : r * 7 % VALID;
            double sum = 0, mean = 0;
            for (int j = 0; j < VALID; j++) {
                sum += exp(x[r * V + j]);
                mean += x[r * V + j] / (double)VALID;
            }
            if (target[r] == -100)
                continue;
            rloss[r] = log(sum) - (1 - (double)smoothing) * x[r * V + target[r]] - smoothing * mean;
            for (int j = 0; j < VALID; j++)
                rdx[r * V + j] = dloss[r] * (exp(x[r * V + j]) / sum - (j == target[r] ? 1 - (double)smoothing : 0) -
                                             smoothing / (double)VALID);
        }
        float whole[3][ROWS];
        fl_ce_max(whole[0], x, ROWS, V, 0, VALID);
        fl_ce_sum_exp(whole[1], x, whole[0], ROWS, V, 0, VALID);
        fl_ce_below(whole[2], x, whole[0], target, ROWS, V, 0, VALID, -100, smoothing);
        fl_ce_grad(dx, dloss, x, whole[0], whole[1], target, ROWS, V, 0, VALID, -100, smoothing);
        for (int r = 0; r < ROWS; r++)
            loss[r] = target[r] == -100 ? 0 : logf(whole[1][r]) + whole[2][r];
        check_close("loss", loss, rloss, ROWS, 2e-6);
        check_close("dlogits", dx, rdx, ROWS * V, 2e-6);

        float *part[2], m[2][ROWS], s[2][ROWS], p[2][ROWS], *dpart[2];
        int64_t base[2] = { 0, LOW }, n[2] = { LOW, V - LOW };
        for (int k = 0; k < 2; k++) {
            part[k] = blank(ROWS * n[k]);
            dpart[k] = blank(ROWS * n[k]);
            fl_take(part[k], x, ROWS, V, base[k], n[k], 1, 4);
            fl_ce_max(m[k], part[k], ROWS, n[k], base[k], VALID);
        }
        for (int r = 0; r < ROWS; r++)
            m[0][r] = m[1][r] = fmaxf(m[0][r], m[1][r]);
        for (int k = 0; k < 2; k++) {
            fl_ce_sum_exp(s[k], part[k], m[k], ROWS, n[k], base[k], VALID);
            fl_ce_below(p[k], part[k], m[k], target, ROWS, n[k], base[k], VALID, -100, smoothing);
        }
        for (int r = 0; r < ROWS; r++) {
            s[0][r] = s[1][r] = s[0][r] + s[1][r];
            p[0][r] += p[1][r];
        }
        for (int r = 0; r < ROWS; r++)
            loss[r] = target[r] == -100 ? 0 : logf(s[0][r]) + p[0][r];
        check_close("split loss", loss, rloss, ROWS, 2e-6);
        for (int k = 0; k < 2; k++) {
            fl_ce_grad(dpart[k], dloss, part[k], m[k], s[k], target, ROWS, n[k], base[k], VALID, -100, smoothing);
            fl_put(dx, dpart[k], ROWS, V, base[k], n[k], 1, 4);
        }
        check_close("split dlogits", dx, rdx, ROWS * V, 2e-6);
    }
}

/* The classes on several ranks, the last of them in two groups, and joined: losses, dx in shares, and each rank's dw. */
static void check_in_parts(const struct fl_linear_ce *whole, const float *x, const float *w, const float *dloss, const int32_t *target,
                           int64_t ranks, const double *rloss, const double *rdx, const double *rdw, const float *before)
{
    enum { MOST = 4 };
    int64_t rows = whole->rows, d = whole->d, n = whole->n, groups = ranks + 1, at = 0;
    float *part[4], *m = blank(rows), *s = blank(rows), *loss = blank(rows), *dx = blank(rows * d), *share = blank(rows * d);
    float *room = blank(whole->chunk * n), *wp = blank(n * d), *dw = blank(n * d), *joined = blank(n * d);
    int64_t first[MOST + 1];
    for (int k = 0; k < 4; k++)
        part[k] = blank(groups * rows);
    for (int64_t p = 0; p < ranks; p++, at = first[p])
        first[p + 1] = (first[p] = at) + n / ranks + (p < n % ranks);
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t p = 0; p < ranks; p++) {
            struct fl_linear_ce c = *whole;
            int64_t offset = p * rows, b = first[p];
            c.n = first[p + 1] - b;
            c.base = b;
            for (int64_t v = 0; v < c.n; v++)
                for (int64_t i = 0; i < d; i++) {
                    int64_t to = c.turned ? i * c.n + v : v * d + i, from = c.turned ? i * n + b + v : (b + v) * d + i;
                    wp[to] = w[from];
                    dw[to] = before[from];
                }
            if (!turn) {
                fl_linear_ce_parts(part[0] + offset, part[1] + offset, part[2] + offset, part[3] + offset, x, wp, target,
                                   p == ranks - 1 ? 2 : 1, room, &c);
                continue;
            }
            fl_linear_ce_parts_grad(share, dw, x, wp, dloss, m, s, target, room, &c);
            for (int64_t i = 0; i < rows * d; i++)
                dx[i] = (p ? dx[i] : 0) + share[i];
            for (int64_t v = 0; v < c.n; v++)
                for (int64_t i = 0; i < d; i++)
                    joined[c.turned ? i * n + b + v : (b + v) * d + i] = dw[c.turned ? i * c.n + v : v * d + i];
        }
        for (int64_t r = 0; r < rows && !turn; r++) {
            float below = 0;
            m[r] = -INFINITY;
            s[r] = 0;
            for (int64_t g = 0; g < groups; g++)
                m[r] = fmaxf(m[r], part[0][g * rows + r]);
            for (int64_t g = 0; g < groups; g++) {
                s[r] += part[1][g * rows + r] * expf(part[0][g * rows + r] - m[r]);
                below += part[2][g * rows + r] + part[3][g * rows + r] * (m[r] - part[0][g * rows + r]);
            }
            loss[r] = target[r] == whole->ignore ? 0 : logf(s[r]) + below;
        }
    }
    check_close("loss of parts", loss, rloss, rows, 5e-6);
    check_close("dx of parts", dx, rdx, rows * d, 5e-6);
    check_close("dw of parts", joined, rdw, n * d, 5e-6);
}

/* Some rows at a time, of any number of them, as one by one in float64. */
static void linear_cross_entropy(void **state)
{
    (void)state;
    enum { ROWS = 19, V = 31, VALID = 27, D = 13 };
    for (int k = 0; k < 8; k++) {
        struct fl_linear_ce c = { .rows = ROWS, .chunk = k < 4 ? 7 : 30, .d = D, .n = V, .valid = VALID, .turned = k & 1,
                                  .add = k & 2, .ignore = -100, .smoothing = k & 1 ? 0.1f : 0 };
        int64_t by_class = c.turned ? 1 : D, by_width = c.turned ? V : 1;
        float *x = random_array(ROWS * D, 31), *w = random_array(V * D, 32), *dloss = random_array(ROWS, 33), *dw = random_array(V * D, 34);
        float *before = blank(V * D), *loss = blank(ROWS), *dx = blank(ROWS * D), *room = blank(c.chunk * V), *only = blank(ROWS);
        int32_t target[ROWS];
        double rloss[ROWS] = { 0 }, rdx[ROWS * D] = { 0 }, rdw[V * D] = { 0 }, l[V];
        for (int i = 0; i < V * D; i++)
            rdw[i] = c.add ? before[i] = dw[i] : 0;
        for (int r = 0; r < ROWS; r++) {
            target[r] = r % 5 == 2 ? -100 : r * 7 % VALID;
            double sum = 0, mean = 0, s = c.smoothing;
            for (int j = 0; j < VALID; j++) {
                l[j] = 0;
                for (int i = 0; i < D; i++)
                    l[j] += (double)x[r * D + i] * w[j * by_class + i * by_width];
                sum += exp(l[j]);
                mean += l[j] / VALID;
            }
            if (target[r] == -100)
                continue;
            rloss[r] = log(sum) - (1 - s) * l[target[r]] - s * mean;
            for (int j = 0; j < VALID; j++) {
                double g = dloss[r] * (exp(l[j]) / sum - (j == target[r] ? 1 - s : 0) - s / VALID);
                for (int i = 0; i < D; i++) {
                    rdx[r * D + i] += g * w[j * by_class + i * by_width];
                    rdw[j * by_class + i * by_width] += g * x[r * D + i];
                }
            }
        }
        fl_linear_cross_entropy(loss, dx, dw, x, w, dloss, target, room, &c);
        fl_linear_cross_entropy(only, NULL, NULL, x, w, NULL, target, room, &c);
        check_close("loss", loss, rloss, ROWS, 5e-6);
        check_close("loss alone", only, rloss, ROWS, 5e-6);
        check_close("dx", dx, rdx, ROWS * D, 5e-6);
        check_close("dw", dw, rdw, V * D, 5e-6);
        check_in_parts(&c, x, w, dloss, target, k < 4 ? 2 : 3, rloss, rdx, rdw, before);
        c.rows = 0;
        fl_linear_cross_entropy(loss, dx, dw, x, w, dloss, target, room, &c);
        for (int i = 0; i < V * D; i++)
            rdw[i] = c.add ? rdw[i] : 0;
        check_close("dw of no rows", dw, rdw, V * D, c.add ? 5e-6 : 0);
    }
}

static void embeddings(void **state)
{
    (void)state;
    enum { COUNT = 50, ROWS = 6, BASE = 4, N = 9 };
    float *w = random_array(ROWS * N, 10), *dy = random_array(COUNT * N, 11), *y = blank(COUNT * N),
          *dw = blank(ROWS * N);
    int32_t ids[COUNT];
    double ry[COUNT * N] = { 0 }, rdw[ROWS * N] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        ids[i] = i * i % 13;
        int row = ids[i] - BASE;
        for (int k = 0; row >= 0 && row < ROWS && k < N; k++) {
            ry[i * N + k] = w[row * N + k];
            rdw[row * N + k] += dy[i * N + k];
        }
    }
    fl_embedding(y, ids, w, COUNT, BASE, ROWS, N);
    fl_embedding_grad(dw, dy, ids, COUNT, BASE, ROWS, N);
    check_close("y", y, ry, COUNT * N, 0);
    check_close("dw", dw, rdw, ROWS * N, 2e-6);
}

static void ropes(void **state)
{
    (void)state;
    enum { OUTER = 2, T = 5, INNER = 3, N = 8 };
    for (int half = 0; half < 2; half++) {
        float *x = random_array(OUTER * T * INNER * N, 12), *y = blank(OUTER * T * INNER * N);
        double ry[OUTER * T * INNER * N], back[OUTER * T * INNER * N];
        for (int r = 0; r < OUTER * T * INNER; r++)
            for (int i = 0; i < N / 2; i++) {
                int a = r * N + (half ? i : 2 * i), b = r * N + (half ? i + N / 2 : 2 * i + 1);
                double angle = (r / INNER % T + 10) * pow(10000, -2.0 * i / N);
                ry[a] = x[a] * cos(angle) - x[b] * sin(angle);
                ry[b] = x[a] * sin(angle) + x[b] * cos(angle);
            }
        fl_rope(y, x, OUTER, T, INNER, N, 10, 10000, half, false);
        check_close("rope", y, ry, OUTER * T * INNER * N, 2e-6);
        for (int i = 0; i < OUTER * T * INNER * N; i++)
            back[i] = x[i];
        fl_rope(y, y, OUTER, T, INNER, N, 10, 10000, half, true);
        check_close("and back", y, back, OUTER * T * INNER * N, 2e-6);
    }
}

/* An update ahead of its factor and then redone has the bits of one that knew the factor: 1, less, or no number, with which
 * nothing changes. Lion and Adam also against float64. */
static void redone(const struct fl_step *s)
{
    enum { N = 100 };
    for (int k = 0; k < 15; k++) {
        int kind = k / 3;
        float scale = k % 3 == 0 ? 1.0f : k % 3 == 1 ? 0.3f : NAN, *now[3], *late[3], *kept[3], *g = random_array(N, 77);
        bool momentum = kind == 1;
        for (int j = 0; j < 3; j++) {
            now[j] = random_array(N, 70 + (uint64_t)j);
            for (int i = 0; i < N && j == 2; i++)
                now[j][i] *= now[j][i];
            late[j] = random_array(N, 0);
            kept[j] = random_array(N, 0);
            memcpy(late[j], now[j], N * sizeof(float));
            memcpy(kept[j], now[j], N * sizeof(float));
        }
        if (kind == 0) {
            fl_adamw(s, now[0], g, FL_F32, now[1], now[2], &scale, N, 0.9f, 0.95f, 1e-8f, 0.1f, 1);
            fl_adamw(s, late[0], g, FL_F32, late[1], late[2], NULL, N, 0.9f, 0.95f, 1e-8f, 0.1f, 1);
            fl_adamw_redo(s, late[0], g, FL_F32, late[1], late[2], &scale, kept[0], kept[1], kept[2], N, 0.9f, 0.95f, 1e-8f, 0.1f, 1);
        } else if (kind < 3) {
            fl_sgd(s, now[0], g, FL_F32, momentum ? now[1] : NULL, &scale, N, 0.9f, 0.1f, 1);
            fl_sgd(s, late[0], g, FL_F32, momentum ? late[1] : NULL, NULL, N, 0.9f, 0.1f, 1);
            fl_sgd_redo(s, late[0], g, FL_F32, momentum ? late[1] : NULL, &scale, kept[0], momentum ? kept[1] : NULL, N, 0.9f, 0.1f, 1);
        } else if (kind == 3) {
            fl_lion(s, now[0], g, FL_F32, now[1], &scale, N, 0.9f, 0.95f, 0.1f, 0.5f);
            fl_lion(s, late[0], g, FL_F32, late[1], NULL, N, 0.9f, 0.95f, 0.1f, 0.5f);
            fl_lion_redo(s, late[0], g, FL_F32, late[1], &scale, kept[0], kept[1], N, 0.9f, 0.95f, 0.1f, 0.5f);
        } else {
            fl_adam(s, now[0], g, FL_F32, now[1], now[2], &scale, N, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f);
            fl_adam(s, late[0], g, FL_F32, late[1], late[2], NULL, N, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f);
            fl_adam_redo(s, late[0], g, FL_F32, late[1], late[2], &scale, kept[0], kept[1], kept[2], N, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f);
        }
        for (int j = 0; j < 3; j++)
            assert_memory_equal(now[j], late[j], N * sizeof(float));
        for (int j = 0; j < 3 && isnan(scale); j++)
            assert_memory_equal(now[j], kept[j], N * sizeof(float));
        double wanted[N], lr = s->lr * 0.5, c1 = 1 - pow(0.9, (double)s->step + 1), c2 = 1 - pow(0.95, (double)s->step + 1);
        for (int i = 0; i < N && kind == 3; i++) {
            double ahead = 0.9 * kept[1][i] + 0.1 * g[i] * scale;
            wanted[i] = kept[0][i] * (1 - lr * 0.1) - lr * ((ahead > 0) - (ahead < 0));
        }
        for (int i = 0; i < N && kind == 4; i++) {
            double d = g[i] * scale + 0.1 * kept[0][i], m = 0.9 * kept[1][i] + 0.1 * d, v = 0.95 * kept[2][i] + 0.05 * d * d;
            wanted[i] = kept[0][i] - lr / c1 * m / (sqrt(v / c2) + 1e-8);
        }
        if (kind > 2 && !isnan(scale))
            check_close(kind == 3 ? "lion" : "adam", now[0], wanted, N, 1e-6);
    }
}

/* Three steps of PyTorch's AdamW, with its constants in float64. */
static void adamw(void **state)
{
    (void)state;
    enum { N = 1000 };
    float *w = random_array(N, 13), m[N] = { 0 }, v[N] = { 0 }, scale = 0.5f;
    double rw[N], rm[N] = { 0 }, rv[N] = { 0 }, b1 = 0.9, b2 = 0.95, lr = 0.01, eps = 1e-8, decay = 0.1;
    for (int i = 0; i < N; i++)
        rw[i] = w[i];
    for (int k = 0; k < 3; k++) {
        struct fl_step s = { .step = k, .update = k, .lr = 0.01f };
        float *g = random_array(N, 14 + (uint64_t)k);
        fl_adamw(&s, w, g, FL_F32, m, v, &scale, N, 0.9f, 0.95f, 1e-8f, 0.1f, 1);
        redone(&s);
        for (int i = 0; i < N; i++) {
            double d = g[i] * 0.5;
            rw[i] *= 1 - lr * decay;
            rm[i] = b1 * rm[i] + (1 - b1) * d;
            rv[i] = b2 * rv[i] + (1 - b2) * d * d;
            rw[i] -= lr / (1 - pow(b1, k + 1)) * rm[i] / (sqrt(rv[i]) / sqrt(1 - pow(b2, k + 1)) + eps);
        }
    }
    check_close("weights", w, rw, N, 1e-6);
    float norm, by, squares[2] = { 9, 16 };
    fl_global_norm(&norm, squares, 2);
    fl_clip_scale(&by, &norm, 1);
    assert_float_equal(norm, 5, 0);
    assert_float_equal(by, 1 / 5.000001, 1e-7);
    double sum = 0;
    float *x = random_array(100003, 15), y;
    for (int i = 0; i < 100003; i++)
        sum += (double)x[i] * x[i];
    fl_square_sum(&y, x, FL_F32, 100003);
    check_close("square sum", &y, &sum, 1, 1e-7);
}

/* A product in all four transpositions, over two batch dims, against the definition. */
static void gemms(void **state)
{
    (void)state;
    enum { M = 5, N = 7, K = 3, B0 = 2, B1 = 3 };
    for (int t = 0; t < 4; t++) {
        float *a = random_array(B0 * B1 * M * K, 16), *b = random_array(B1 * K * N, 17),
              *c = random_array(B0 * B1 * M * N, 18);
        double rc[B0 * B1 * M * N];
        struct fl_gemm g = { .m = M,
                             .n = N,
                             .k = K,
                             .ta = t & 1,
                             .tb = t >> 1,
                             .lda = t & 1 ? M : K,
                             .ldb = t >> 1 ? K : N,
                             .ldc = N,
                             .alpha = 2,
                             .beta = 0.5f,
                             .nbatch = 2,
                             .batch = { B0, B1 },
                             .sa = { B1 * M * K, M * K },
                             .sb = { 0, K * N },
                             .sc = { B1 * M * N, M * N } };
        for (int o = 0; o < B0 * B1; o++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    double sum = 0;
                    for (int k = 0; k < K; k++)
                        sum += a[o * M * K + (t & 1 ? k * M + i : i * K + k)] *
                               (double)b[o % B1 * K * N + (t >> 1 ? j * K + k : k * N + j)];
                    rc[(o * M + i) * N + j] = 2 * sum + 0.5 * c[(o * M + i) * N + j];
                }
        fl_gemm(c, a, b, &g);
        check_close("c", c, rc, B0 * B1 * M * N, 2e-6);
    }
}

static void copies(void **state)
{
    (void)state;
    float x[24], y[24], want[24];
    for (int i = 0; i < 24; i++)
        x[i] = (float)i;
    /* y[c][a][b] = x[a][b][c] */
    fl_copy_strided(y, x, &(struct fl_strided){ 3, { 4, 2, 3 }, { 6, 3, 1 }, { 1, 12, 4 } }, 4);
    for (int c = 0; c < 4; c++)
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 3; b++)
                want[c * 6 + a * 3 + b] = x[a * 12 + b * 4 + c];
    assert_memory_equal(y, want, sizeof want);
}

/* fl_exp and those built on it over the whole range. */
static void scalars(void **state)
{
    (void)state;
    for (double x = -110; x < 90; x += 0.0137) {
        float f = (float)x;
        double e = exp((double)f), t = tanh((double)f);
        if (!(fabs(fl_exp(f) - e) <= 3e-7 * e + 1e-44) && e < 3.4e38)
            fail_msg("exp(%.9g) is %.9g, expected %.9g", f, fl_exp(f), e);
        if (!(fabs(fl_tanh(f) - t) <= 4e-7 * fabs(t)))
            fail_msg("tanh(%.9g) is %.9g, expected %.9g", f, fl_tanh(f), t);
    }
    assert_true(isinf(fl_exp(100)) && fl_exp(-INFINITY) == 0 && isnan(fl_exp(NAN)) && fl_exp(0) == 1);
    assert_float_equal(fl_div(0, 0), 0, 0);
}

/* A quarter dropped, the same entries whatever part of the tensor a rank holds. */
static void dropout(void **state)
{
    (void)state;
    enum { A = 40, B = 50 };
    float x[A * B], y[A * B], part[A * 20];
    struct fl_step s = { .step = 3, .seed = 9 };
    for (int i = 0; i < A * B; i++)
        x[i] = 1;
    fl_dropout(y, x, &s, 77, 2, 0.25f, &(struct fl_place){ 2, { A, B }, { 0, 0 }, { A, B } });
    int kept = 0;
    for (int i = 0; i < A * B; i++)
        kept += y[i] != 0;
    assert_in_range(kept, A * B * 0.75 - 80, A * B * 0.75 + 80);
    fl_dropout(part, x, &s, 77, 2, 0.25f, &(struct fl_place){ 2, { A, 20 }, { 0, 30 }, { A, B } });
    for (int i = 0; i < A; i++)
        for (int j = 0; j < 20; j++)
            assert_float_equal(part[i * 20 + j], y[i * B + 30 + j], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm),    cmocka_unit_test(reductions), cmocka_unit_test(softmaxes),
        cmocka_unit_test(cross_entropy), cmocka_unit_test(linear_cross_entropy), cmocka_unit_test(embeddings), cmocka_unit_test(ropes),
        cmocka_unit_test(adamw),         cmocka_unit_test(gemms),      cmocka_unit_test(copies),
        cmocka_unit_test(scalars),       cmocka_unit_test(dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
