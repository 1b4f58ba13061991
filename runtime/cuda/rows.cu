/* What emitted row work calls (flow_rows.h): the sums of chunks of rows, added up over the chunks in a fixed order. A
 * block takes 32 columns; each of its warps adds up one share of the chunks, one after the other, then the shares are added. */
#include "../flow_rt.h"

constexpr int SHARES = FL_BLOCK / FL_WARP;

template <typename Y> __global__ void rows_columns_kernel(Y *y, const float *parts, int64_t chunks, int64_t step, int64_t n)
{
    FL_SHARED(float, room, FL_BLOCK);
    int64_t share = (chunks + SHARES - 1) / SHARES, warp = threadIdx.x / FL_WARP, last = (warp + 1) * share;
    for (int64_t first = (int64_t)blockIdx.x * FL_WARP; first < n; first += (int64_t)gridDim.x * FL_WARP) {
        int64_t column = first + FL_LANE;
        float sum = 0;
        for (int64_t c = warp * share; c < last && c < chunks && column < n; c++)
            sum += parts[c * step + column];
        FL_BARRIER();
        room[threadIdx.x] = sum;
        FL_BARRIER();
        if (warp == 0 && column < n) {
            for (int w = 1; w < SHARES; w++)
                sum += room[w * FL_WARP + FL_LANE];
            y[column] = fl_store<Y>(sum);
        }
    }
}

extern "C" void fl_row_columns(void *y, enum fl_type t, const float *parts, int64_t chunks, int64_t step, int64_t n)
{
    if (n > 0)
        FL_BY_TYPE(t, Y, FL_LAUNCH_GRID(rows_columns_kernel<Y>, fl_blocks_for(n, FL_WARP), FL_BLOCK, (Y *)y, parts, chunks, step, n))
}
