/* The kernels of scan.flow on the cpu. Tensors are contiguous, in the order of their dims; a place says the local extents
 * n[], where the part begins in the whole tensor (base[]) and how large that is (size[]). A result that nobody reads is
 * NULL. */
#include "user_ops.h"

void op_scan(float *y, const float *x, const float *decay, const struct fl_place *y_at, const struct fl_place *x_at,
             const struct fl_place *decay_at)
{
    int64_t rows = x_at->n[0], steps = x_at->n[1], width = x_at->n[2];
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < steps; t++) {
            const float *from = x + (r * steps + t) * width;
            float *to = y + (r * steps + t) * width;
            for (int64_t d = 0; d < width; d++)
                to[d] = from[d] + (t ? decay[d] * to[d - width] : 0);
        }
}

/* g[t] = dy[t] + decay g[t+1] is the gradient of x[t]; that of decay is the sum of g[t] y[t-1]. One thread a channel, so
 * that sums are in one order. */
void op_scan_grad(float *dx, float *ddecay, const float *x, const float *decay, const float *dy, const struct fl_place *dx_at,
                  const struct fl_place *ddecay_at, const struct fl_place *x_at, const struct fl_place *decay_at,
                  const struct fl_place *dy_at)
{
    int64_t rows = x_at->n[0], steps = x_at->n[1], width = x_at->n[2];
#pragma omp parallel for
    for (int64_t d = 0; d < width; d++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) {
            const float *from = x + r * steps * width + d, *grad = dy + r * steps * width + d;
            float g = 0, a = decay[d];
            /* y[t-1] = x[t-1] + a x[t-2] + ..: summed the other way round, g[t] meets every earlier x */
            float along = 0;                             /* sum over later t of g[t] a^(t-1-s), for the current s */
            for (int64_t t = steps - 1; t >= 0; t--) {
                sum += (double)along * from[t * width];
                g = grad[t * width] + a * g;
                along = g + a * along;
                if (dx)
                    dx[(r * steps + t) * width + d] = g;
            }
        }
        if (ddecay)
            ddecay[d] = (float)sum;
    }
}
