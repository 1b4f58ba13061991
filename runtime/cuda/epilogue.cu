/* A product and what follows it, by cuBLASLt. What the library does not offer for these sizes, types and addresses (it says so, or
 * an address it needs is not a multiple of 16 bytes) is made by a product and a kernel.
 *
 * Row-major c[m, n] is column-major d[n, m]: its rows are our columns, so a bias along our columns is the library's, operand a of
 * ours is its B and operand b its A. */
#include "blas.h"
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

/* ---- by a kernel, in the place of the product ---- */

template <typename T> struct following {
    T *c, *aux;
    const T *bias, *residual;
    int64_t m, n, ldc, ldaux, ldr;
    int activation;
};

template <typename T> __global__ void epilogue_kernel(following<T> f)
{
    constexpr int W = fl_wide<T>;
    int64_t pieces = FL_VECTORS_OF(W, f.n);
    FL_GRID_FOR(k, f.m * pieces) {
        int64_t row = k / pieces, i = k % pieces * W;
        float x[W], other[W] = {};
        fl_wide_load(x, f.c + row * f.ldc, i, f.n);
        if (f.bias)
            fl_wide_load(other, f.bias, i, f.n);
        FL_UNROLL
        for (int e = 0; e < W; e++)
            x[e] += other[e];
        if (f.activation == FL_GELU_GRAD)
            fl_wide_load(other, f.aux + row * f.ldaux, i, f.n);
        else if (f.aux)
            fl_wide_store(f.aux + row * f.ldaux, i, f.n, x);
        FL_UNROLL
        for (int e = 0; e < W; e++)
            x[e] = f.activation == FL_GELU_GRAD ? fl_gelu_grad(other[e], x[e]) : f.activation == FL_GELU ? fl_gelu(x[e]) :
                   f.activation == FL_RELU ? fmaxf(x[e], 0.0f) : x[e];
        if (f.residual) {
            fl_wide_load(other, f.residual + row * f.ldr, i, f.n);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                x[e] += other[e];
        }
        fl_wide_store(f.c + row * f.ldc, i, f.n, x);
    }
}

/* y[i] = sum over k of element i * across + k * along, by a warp each, the loss of rounding carried along. */
template <typename Y, typename T>
__global__ void vector_kernel(Y *y, const T *x, int64_t count, int64_t across, int64_t k, int64_t along)
{
    FL_WARP_FOR(i, count) {
        float sum = 0, lost = 0;
        for (int64_t l = FL_LANE; l < k; l += FL_WARP) {
            float v = fl_load(x[i * across + l * along]) - lost, next = sum + v;
            lost = next - sum - v;
            sum = next;
        }
        sum = fl_warp_sum(sum);
        if (FL_LANE == 0)
            y[i] = fl_store<Y>(sum);
    }
}

template <typename Y, typename T>
static void add_vector(const void *a, const void *b, const struct fl_gemm *g, const struct fl_epilogue *e)
{
    const void *x = e->of_a ? a : b;
    int64_t count = e->of_a ? g->m : g->n, lead = e->of_a ? g->lda : g->ldb;
    bool dense = e->of_a ? g->ta : !g->tb;                   /* neighbours in y are neighbours in x */
    if (count > 0)
        FL_LAUNCH_GRID((vector_kernel<Y, T>), fl_blocks_for(count, FL_BLOCK / FL_WARP), FL_BLOCK, (Y *)e->bias_grad, (const T *)x, count,
                       dense ? 1 : lead, g->k, dense ? lead : 1);
}

template <typename T> static void follow(void *c, const struct fl_gemm *g, const struct fl_epilogue *e)
{
    following<T> f = {(T *)c, (T *)e->aux, (const T *)e->bias, (const T *)e->residual, g->m, g->n, g->ldc, e->ldaux, e->ldr,
                      (int)e->activation};
    if (g->m > 0 && g->n > 0)
        FL_LAUNCH_GRID(epilogue_kernel<T>, fl_blocks_for(g->m * FL_VECTORS_OF(fl_wide<T>, g->n), FL_BLOCK), FL_BLOCK, f);
}

static void apart(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g,
                  const struct fl_epilogue *e)
{
    if (t == FL_F32)
        fl_gemm((float *)c, (const float *)a, (const float *)b, g);
    else
        fl_gemm_as(c, tc, a, b, t, g);
    if (e->bias || e->residual || e->activation)
        FL_BY_TYPE(tc, T, follow<T>(c, g, e))
    if (e->bias_grad && tc == FL_F32)
        FL_BY_TYPE(t, T, (add_vector<float, T>(a, b, g, e)))
    else if (e->bias_grad)
        FL_BY_TYPE(t, T, (add_vector<T, T>(a, b, g, e)))
}

/* ---- by the library ---- */

/* What its choice depends on; all bytes count. */
struct problem {
    int64_t m, n, k, lda, ldb, ldc, ldr, ldaux;
    uint32_t epilogue, align_a, align_b, align_c, align_d;
    int type, result, ta, tb, adds;
};
struct choice { struct problem of; bool works; cublasLtMatmulAlgo_t algorithm; };
static struct choice *choices;
static int nchoice, room;

static cublasLtHandle_t handle(void)
{
    static cublasLtHandle_t h;
    if (!h)
        FL_BLAS(cublasLtCreate(&h));
    return h;
}

static uint32_t alignment(const void *p)
{
    uint32_t a = 256;
    while (a > 1 && (uintptr_t)p % a)
        a /= 2;
    return a;
}

static uint32_t epilogue_of(const struct fl_epilogue *e)
{
    if (e->bias_grad)
        return e->of_a ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    if (e->activation == FL_GELU_GRAD)
        return CUBLASLT_EPILOGUE_DGELU;
    if (e->activation == FL_RELU)
        return e->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (e->activation == FL_GELU && e->aux)
        return e->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (e->activation == FL_GELU)
        return e->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return e->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

struct descriptors { cublasLtMatmulDesc_t matmul; cublasLtMatrixLayout_t a, b, c, d; };

template <typename V> static void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, V v)
{
    FL_BLAS(cublasLtMatmulDescSetAttribute(d, what, &v, sizeof v));
}

template <typename V> static void prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what, V v)
{
    FL_BLAS(cublasLtMatmulPreferenceSetAttribute(p, what, &v, sizeof v));
}

static descriptors describe(const struct problem &p, const struct fl_epilogue *e)
{
    descriptors d;
    cudaDataType_t from = (cudaDataType_t)p.type, to = (cudaDataType_t)p.result;
    FL_BLAS(cublasLtMatmulDescCreate(&d.matmul, from == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(d.matmul, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)(p.tb ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(d.matmul, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)(p.ta ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(d.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    if (e->bias_grad || e->bias)
        set(d.matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, e->bias_grad ? (const void *)e->bias_grad : e->bias);
    if (e->aux) {
        set(d.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e->aux);
        set(d.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.ldaux);
    }
    FL_BLAS(cublasLtMatrixLayoutCreate(&d.a, from, (uint64_t)(p.tb ? p.k : p.n), (uint64_t)(p.tb ? p.n : p.k), p.ldb));
    FL_BLAS(cublasLtMatrixLayoutCreate(&d.b, from, (uint64_t)(p.ta ? p.m : p.k), (uint64_t)(p.ta ? p.k : p.m), p.lda));
    FL_BLAS(cublasLtMatrixLayoutCreate(&d.c, to, (uint64_t)p.n, (uint64_t)p.m, e->residual ? p.ldr : p.ldc));
    FL_BLAS(cublasLtMatrixLayoutCreate(&d.d, to, (uint64_t)p.n, (uint64_t)p.m, p.ldc));
    return d;
}

static void drop(const descriptors &d)
{
    FL_BLAS(cublasLtMatmulDescDestroy(d.matmul));
    FL_BLAS(cublasLtMatrixLayoutDestroy(d.a));
    FL_BLAS(cublasLtMatrixLayoutDestroy(d.b));
    FL_BLAS(cublasLtMatrixLayoutDestroy(d.c));
    FL_BLAS(cublasLtMatrixLayoutDestroy(d.d));
}

/* Parts of a sum that are made side by side are kept in f32. */
static choice ask(const struct problem &p, const descriptors &d)
{
    choice made;
    cublasLtMatmulHeuristicResult_t found;
    cublasLtMatmulPreference_t wish;
    int count = 0;
    memset((void *)&made, 0, sizeof made);
    made.of = p;
    FL_BLAS(cublasLtMatmulPreferenceCreate(&wish));
    prefer(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)FL_BLAS_WORKSPACE);
    prefer(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.align_b);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.align_a);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.align_c);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.align_d);
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), d.matmul, d.a, d.b, d.c, d.d, wish, 1, &found, &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED)
        FL_BLAS(status);
    made.works = status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
    if (made.works)
        made.algorithm = found.algo;
    FL_BLAS(cublasLtMatmulPreferenceDestroy(wish));
    return made;
}

static const choice &chosen(const struct problem &p, const descriptors &d)
{
    for (int i = 0; i < nchoice; i++)
        if (!memcmp(&choices[i].of, &p, sizeof p))
            return choices[i];
    if (nchoice == room) {
        room = room ? 2 * room : 16;
        choices = (choice *)realloc((void *)choices, (size_t)room * sizeof *choices);
        if (!choices)
            FL_FAIL("the host is out of memory", "cannot list a product");
    }
    choices[nchoice] = ask(p, d);
    return choices[nchoice++];
}

/* Rules of the library's own that it does not tell when it is asked. */
static bool allowed(const struct fl_gemm *g, const struct fl_epilogue *e)
{
    bool fits = g->m > 0 && g->n > 0 && g->k > 0 && g->nbatch == 0;
    if (e->aux)
        fits = fits && e->ldaux % 8 == 0 && (uintptr_t)e->aux % 16 == 0;
    if (e->bias || e->bias_grad)
        fits = fits && (uintptr_t)(e->bias ? e->bias : e->bias_grad) % 16 == 0;
    return fits;
}

extern "C" void fl_gemm_epilogue(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g,
                                 const struct fl_epilogue *e)
{
    if (!allowed(g, e)) {
        apart(c, tc, a, b, t, g, e);
        return;
    }
    const void *addend = e->residual ? e->residual : c;
    float beta = e->residual ? 1.0f : g->beta;
    struct problem p;
    memset((void *)&p, 0, sizeof p);
    p.m = g->m, p.n = g->n, p.k = g->k, p.ta = g->ta, p.tb = g->tb, p.adds = beta != 0;
    p.lda = fl_leading(g->lda, g->ta ? g->m : g->k), p.ldb = fl_leading(g->ldb, g->tb ? g->k : g->n);
    p.ldc = fl_leading(g->ldc, g->n), p.ldr = fl_leading(e->ldr, g->n), p.ldaux = e->aux ? fl_leading(e->ldaux, g->n) : 0;
    p.epilogue = epilogue_of(e), p.type = (int)fl_data_type(t), p.result = (int)fl_data_type(tc);
    p.align_a = alignment(a), p.align_b = alignment(b), p.align_c = alignment(addend), p.align_d = alignment(c);
    descriptors d = describe(p, e);
    const choice &way = chosen(p, d);
    if (way.works)
        FL_BLAS(cublasLtMatmul(handle(), d.matmul, &g->alpha, b, d.a, a, d.b, &beta, addend, d.c, c, d.d, &way.algorithm,
                               fl_blas_workspace(), FL_BLAS_WORKSPACE, fl_stream()));
    drop(d);
    if (!way.works)
        apart(c, tc, a, b, t, g, e);
}
