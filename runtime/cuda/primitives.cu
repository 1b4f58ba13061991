/* The device primitives of flow_dev.h, one by one, against what their comments say: on a GPU this is what holds the first part
 * of that file to its host twin, on which everything else was tested. Numbers are small and whole, so results are exact. */
#include "flow_dev.h"
#include "../selftest.h"
#include "../target.h"

enum { MASKS = 5, STEP = 97, ROWS = 32, M = 16, N = 8, K = 16 };

__global__ void shuffles_kernel(float *to)
{
    unsigned lane = threadIdx.x % FL_WARP;
    for (unsigned k = 0; k < MASKS; k++)
        to[k * FL_WARP + lane] = fl_shuffle_xor((float)(3 * lane + 1), 1 << k);
    to[MASKS * FL_WARP + lane] = (float)fl_warp_sum_double((double)lane);
}

/* Each block: thread t reads what thread t + STEP has written before the barrier. */
__global__ void barrier_kernel(float *to)
{
    FL_SHARED(float, room, FL_BLOCK);
    for (unsigned turn = 0; turn < 3; turn++) {
        room[threadIdx.x] = (float)(threadIdx.x + blockIdx.x + turn);
        FL_BARRIER();
        to[(blockIdx.x * 3 + turn) * FL_BLOCK + threadIdx.x] = room[(threadIdx.x + STEP) % FL_BLOCK];
        FL_BARRIER();
    }
}

/* Element (row, column) of 32 rows of 8 is 8 row + column; what each lane gets, both ways, as f32. */
__global__ void matrix_load_kernel(float *to)
{
    FL_SHARED(uint16_t, room, ROWS * 8);
    unsigned lane = threadIdx.x;
    for (unsigned e = 0; e < 8; e++)
        room[lane * 8 + e] = (uint16_t)(lane * 8 + e);
    FL_WARP_BARRIER();
    uint32_t plain[4], across[4];
    fl_matrix_load(plain, room + lane * 8);
    fl_matrix_load_across(across, room + lane * 8);
    for (unsigned m = 0; m < 4; m++)
        for (unsigned half = 0; half < 2; half++) {
            to[(m * FL_WARP + lane) * 2 + half] = (float)(plain[m] >> 16 * half & 0xffff);
            to[((4 + m) * FL_WARP + lane) * 2 + half] = (float)(across[m] >> 16 * half & 0xffff);
        }
}

/* c[M, N] = 1 + a[M, K] b[K, N] by one warp; a and b in rows. */
template <typename T> __global__ void matrix_add_kernel(float *c, const T *a, const T *b)
{
    unsigned lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
    uint32_t a_part[4], b_part[2];
    for (unsigned m = 0; m < 4; m++) {
        const T *from = a + (row + m % 2 * 8) * K + m / 2 * 8 + pair;
        a_part[m] = from[0].bits | (uint32_t)from[1].bits << 16;
    }
    for (unsigned m = 0; m < 2; m++)
        b_part[m] = b[(m * 8 + pair) * N + row].bits | (uint32_t)b[(m * 8 + pair + 1) * N + row].bits << 16;
    float sum[4] = {1, 1, 1, 1};
    fl_matrix_add<T>(sum, a_part, b_part[0], b_part[1]);
    for (unsigned e = 0; e < 4; e++)
        c[(row + e / 2 * 8) * N + pair + e % 2] = sum[e];
}

static float left_element(int i, int k) { return (float)((i * 5 + k * 3) % 7 - 3); }
static float right_element(int k, int j) { return (float)((k * 2 + j * 11) % 5 - 2); }

template <typename T> static void matrix_adds(enum fl_type t, char *room)
{
    T a[M * K], b[K * N];
    double want[M * N];
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            a[i * K + k] = fl_store<T>(left_element(i, k));
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            b[k * N + j] = fl_store<T>(right_element(k, j));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            want[i * N + j] = 1;
            for (int k = 0; k < K; k++)
                want[i * N + j] += (double)left_element(i, k) * right_element(k, j);
        }
    float *c = (float *)room;
    T *pa = (T *)(room + 4096), *pb = (T *)(room + 8192);
    fl_to_arena(pa, a, sizeof a);
    fl_to_arena(pb, b, sizeof b);
    fl_target_sync();
    FL_LAUNCH_GRID(matrix_add_kernel<T>, 1, FL_WARP, c, (const T *)pa, (const T *)pb);
    fl_holds(t == FL_BF16 ? "matrix of bf16" : "matrix of f16", FL_F32, c, want, M * N, 0);
}

extern "C" void fl_target_selftest(char *room)
{
    enum { BLOCKS = 5, LOADED = 2 * 4 * FL_WARP * 2 };
    float *to = (float *)room;
    static double want[BLOCKS * 3 * FL_BLOCK];
    for (int k = 0; k < MASKS; k++)
        for (int lane = 0; lane < FL_WARP; lane++)
            want[k * FL_WARP + lane] = 3 * (lane ^ 1 << k) + 1;
    for (int lane = 0; lane < FL_WARP; lane++)
        want[MASKS * FL_WARP + lane] = FL_WARP * (FL_WARP - 1) / 2;
    FL_LAUNCH_GRID(shuffles_kernel, 1, FL_WARP, to);
    fl_holds("shuffle", FL_F32, to, want, (MASKS + 1) * FL_WARP, 0);

    for (int block = 0; block < BLOCKS; block++)
        for (int turn = 0; turn < 3; turn++)
            for (int t = 0; t < FL_BLOCK; t++)
                want[(block * 3 + turn) * FL_BLOCK + t] = (t + STEP) % FL_BLOCK + block + turn;
    FL_LAUNCH_GRID(barrier_kernel, BLOCKS, FL_BLOCK, to);
    fl_holds("barrier", FL_F32, to, want, BLOCKS * 3 * FL_BLOCK, 0);

    for (int m = 0; m < 4; m++)
        for (int lane = 0; lane < FL_WARP; lane++)
            for (int half = 0; half < 2; half++) {
                int other = lane / 4, pair = lane % 4 * 2 + half;
                want[(m * FL_WARP + lane) * 2 + half] = (m * 8 + other) * 8 + pair;
                want[((4 + m) * FL_WARP + lane) * 2 + half] = (m * 8 + pair) * 8 + other;
            }
    FL_LAUNCH_GRID(matrix_load_kernel, 1, FL_WARP, to);
    fl_holds("matrix load", FL_F32, to, want, LOADED, 0);
    matrix_adds<fl_bf16>(FL_BF16, room);
    matrix_adds<fl_f16>(FL_F16, room);
}
