/* The kernels of scan.flow on the GPU: one thread a channel. The functions are called on the host, with pointers into
 * device memory; FL_LAUNCH runs a kernel in the program's stream. */
#include "user_ops.h"

FL_KERNEL scan_channels(FL_PARAMS float *y, const float *x, const float *decay, int64_t rows, int64_t steps, int64_t width)
{
    FL_FOR1(i, rows * width) {
        int64_t r = i / width, d = i % width;
        float so_far = 0;
        for (int64_t t = 0; t < steps; t++) {
            int64_t at = (r * steps + t) * width + d;
            y[at] = so_far = x[at] + decay[d] * so_far;
        }
    }
}

FL_KERNEL scan_grad_channels(FL_PARAMS float *dx, float *ddecay, const float *x, const float *decay, const float *dy,
                             int64_t rows, int64_t steps, int64_t width)
{
    FL_FOR1(d, width) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) {
            float g = 0, along = 0, a = decay[d];
            for (int64_t t = steps - 1; t >= 0; t--) {
                int64_t at = (r * steps + t) * width + d;
                sum += (double)along * x[at];
                g = dy[at] + a * g;
                along = g + a * along;
                if (dx)
                    dx[at] = g;
            }
        }
        if (ddecay)
            ddecay[d] = (float)sum;
    }
}

extern "C" void op_scan(float *y, const float *x, const float *decay, const struct fl_place *y_at,
                        const struct fl_place *x_at, const struct fl_place *decay_at)
{
    int64_t rows = x_at->n[0], steps = x_at->n[1], width = x_at->n[2];
    FL_LAUNCH(scan_channels, rows * width, y, x, decay, rows, steps, width);
}

extern "C" void op_scan_grad(float *dx, float *ddecay, const float *x, const float *decay, const float *dy,
                             const struct fl_place *dx_at, const struct fl_place *ddecay_at, const struct fl_place *x_at,
                             const struct fl_place *decay_at, const struct fl_place *dy_at)
{
    int64_t rows = x_at->n[0], steps = x_at->n[1], width = x_at->n[2];
    FL_LAUNCH(scan_grad_channels, width, dx, ddecay, x, decay, dy, rows, steps, width);
}
