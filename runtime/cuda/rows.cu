/* What emitted row work calls (flow_rows.h): the sums of chunks of rows, added up over the chunks in a fixed order. A block takes 32
 * columns, 4 of them (16 bytes) a thread; each 8 threads add up one share of the chunks, one after the other, then the shares are
 * added. */
#include "../flow_rt.h"

constexpr int COLUMNS = 32, WIDE = 4, ACROSS = COLUMNS / WIDE, SHARES = FL_BLOCK / ACROSS;

template <typename Y> __global__ void rows_columns_kernel(Y *y, const float *parts, int64_t chunks, int64_t step, int64_t n)
{
    FL_SHARED(float, room, SHARES * COLUMNS);
    int64_t each = (chunks + SHARES - 1) / SHARES, share = threadIdx.x / ACROSS, last = (share + 1) * each;
    for (int64_t first = (int64_t)blockIdx.x * COLUMNS; first < n; first += (int64_t)gridDim.x * COLUMNS) {
        int64_t column = first + threadIdx.x % ACROSS * WIDE;
        float sum[WIDE] = {}, v[WIDE];
        for (int64_t c = share * each; c < last && c < chunks; c++) {
            fl_wide_load(v, parts + c * step, column, n);
            FL_UNROLL
            for (int e = 0; e < WIDE; e++)
                sum[e] += v[e];
        }
        FL_BARRIER();
        fl_wide_store(room + share * COLUMNS, threadIdx.x % ACROSS * WIDE, COLUMNS, sum);
        FL_BARRIER();
        if (threadIdx.x < COLUMNS && first + threadIdx.x < n) {
            float all = 0;
            for (int s = 0; s < SHARES; s++)
                all += room[s * COLUMNS + threadIdx.x];
            y[first + threadIdx.x] = fl_store<Y>(all);
        }
    }
}

extern "C" void fl_row_columns(void *y, enum fl_type t, const float *parts, int64_t chunks, int64_t step, int64_t n)
{
    if (n > 0)
        FL_BY_TYPE(t, Y, FL_LAUNCH_GRID(rows_columns_kernel<Y>, fl_blocks_for(n, COLUMNS), FL_BLOCK, (Y *)y, parts, chunks, step, n))
}
