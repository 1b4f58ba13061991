/* cuBLASLt as plain loops, with the checks that the library makes: column-major, d = f(alpha op(a) op(b) + beta c + bias). A
 * descriptor that contradicts itself, an epilogue without its pointer, a leading dimension that does not cover a column or that
 * the epilogue does not allow, an address less aligned than the algorithm was asked for, and an algorithm found for another
 * problem are refused. FL_DOUBLE_LT=none: no algorithm is found for any epilogue. */
#include "twin.h"
#include <cublasLt.h>
#include <fl_math.h>
#include <fl_types.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

struct twin_lt { int unused; };
struct twin_lt_matmul {
    cublasComputeType_t compute;
    int32_t ta, tb;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t ldaux;
};
struct twin_lt_layout { cudaDataType_t type; uint64_t rows, columns; int64_t ld; };
struct twin_lt_wish { uint64_t workspace; uint32_t reduction, align[4]; };

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new twin_lt{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
    *d = new twin_lt_matmul{compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL, 0};
    return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete d;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t put(void *to, size_t size, const void *v, size_t bytes)
{
    if (!v || bytes != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, v, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const void *v, size_t bytes)
{
    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return put(&d->ta, sizeof d->ta, v, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return put(&d->tb, sizeof d->tb, v, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return put(&d->epilogue, sizeof d->epilogue, v, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return put(&d->bias, sizeof d->bias, v, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return put(&d->aux, sizeof d->aux, v, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return put(&d->ldaux, sizeof d->ldaux, v, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t ld)
{
    *l = new twin_lt_layout{type, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = new twin_lt_wish{0, 7, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *v, size_t bytes)
{
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return put(&p->workspace, sizeof p->workspace, v, bytes);
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return put(&p->reduction, sizeof p->reduction, v, bytes);
    int which = what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    return which < 0 || which > 3 ? CUBLAS_STATUS_INVALID_VALUE : put(&p->align[which], sizeof p->align[which], v, bytes);
}

static uint64_t columns_of(const twin_lt_layout *l, int32_t t) { return t == CUBLAS_OP_N ? l->columns : l->rows; }
static uint64_t rows_of(const twin_lt_layout *l, int32_t t) { return t == CUBLAS_OP_N ? l->rows : l->columns; }
static bool covers(const twin_lt_layout *l) { return l->ld >= (int64_t)l->rows && l->rows > 0 && l->columns > 0; }

/* Do the descriptors go together? */
static cublasStatus_t checked(const twin_lt_matmul *d, const twin_lt_layout *a, const twin_lt_layout *b, const twin_lt_layout *c,
                              const twin_lt_layout *to)
{
    uint64_t m = rows_of(a, d->ta), k = columns_of(a, d->ta), n = columns_of(b, d->tb);
    bool fits = covers(a) && covers(b) && covers(c) && covers(to) && rows_of(b, d->tb) == k && to->rows == m && to->columns == n &&
                c->rows == m && c->columns == n;
    fits = fits && a->type == b->type && c->type == to->type && (to->type == a->type || (a->type != CUDA_R_32F && to->type == CUDA_R_32F));
    fits = fits && (d->compute == CUBLAS_COMPUTE_32F || (d->compute == CUBLAS_COMPUTE_32F_PEDANTIC && a->type == CUDA_R_32F));
    bool bias = d->epilogue & 4 || d->epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB), aux = d->epilogue & 128;
    if (bias)
        fits = fits && d->bias && (uintptr_t)d->bias % 16 == 0;
    if (aux)
        fits = fits && d->aux && (uintptr_t)d->aux % 16 == 0 && d->ldaux % 8 == 0 && d->ldaux >= (int64_t)m;
    switch (d->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB: return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* What an algorithm is for; then the workspace and the alignments it needs. */
static void describe(uint64_t *data, const twin_lt_matmul *d, const twin_lt_layout *a, const twin_lt_layout *b, const twin_lt_layout *c,
                     const twin_lt_layout *to)
{
    uint64_t h = 1469598103934665603u;
    for (uint64_t x : {(uint64_t)d->compute, (uint64_t)d->ta, (uint64_t)d->tb, (uint64_t)d->epilogue, (uint64_t)d->ldaux})
        h = (h ^ x) * 1099511628211u;
    for (const twin_lt_layout *l : {a, b, c, to})
        for (uint64_t x : {(uint64_t)l->type, l->rows, l->columns, (uint64_t)l->ld})
            h = (h ^ x) * 1099511628211u;
    data[0] = h;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
                                              cublasLtMatmulPreference_t wish, int most, cublasLtMatmulHeuristicResult_t results[],
                                              int *count)
{
    *count = 0;
    if (!handle || most < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = checked(d, a, b, c, to);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const char *env = getenv("FL_DOUBLE_LT");
    if (env && !strcmp(env, "none"))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wish->reduction & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        twin_fault("cublasLt: partial sums may be kept in another type than f32 (reduction scheme %u)", wish->reduction);
    memset((void *)results, 0, sizeof *results);
    describe(results->algo.data, d, a, b, c, to);
    results->algo.data[1] = results->workspaceSize = wish->workspace < 4096 ? wish->workspace : 4096;
    for (int i = 0; i < 4; i++)
        results->algo.data[2 + i] = wish->align[i];
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static float get(const void *x, cudaDataType_t t, int64_t at)
{
    return t == CUDA_R_16BF ? fl_from_bf16(((const fl_bf16 *)x)[at]) : t == CUDA_R_16F ? fl_from_f16(((const fl_f16 *)x)[at]) : ((const float *)x)[at];
}

static void set(void *x, cudaDataType_t t, int64_t at, float v)
{
    if (t == CUDA_R_16BF)
        ((fl_bf16 *)x)[at] = fl_to_bf16(v);
    else if (t == CUDA_R_16F)
        ((fl_f16 *)x)[at] = fl_to_f16(v);
    else
        ((float *)x)[at] = v;
}

struct product { twin_lt_matmul d; twin_lt_layout a, b, c, to; float alpha, beta; const void *pa, *pb, *pc; void *pto; };

/* One column of op(b) after the other, so that op(a) is walked along memory. */
static void multiply(const product &p)
{
    int64_t m = (int64_t)p.to.rows, n = (int64_t)p.to.columns, k = (int64_t)columns_of(&p.a, p.d.ta);
    static std::vector<float> left, sum;
    left.resize((size_t)(m * k));
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < m; i++)
            left[(size_t)(l * m + i)] = get(p.pa, p.a.type, p.d.ta == CUBLAS_OP_N ? l * p.a.ld + i : i * p.a.ld + l);
    for (int64_t j = 0; j < n; j++) {
        sum.assign((size_t)m, 0.0f);
        for (int64_t l = 0; l < k; l++) {
            float by = get(p.pb, p.b.type, p.d.tb == CUBLAS_OP_N ? j * p.b.ld + l : l * p.b.ld + j);
            for (int64_t i = 0; i < m; i++)
                sum[(size_t)i] += by * left[(size_t)(l * m + i)];
        }
        for (int64_t i = 0; i < m; i++) {
            float x = p.alpha * sum[(size_t)i] + (p.beta != 0 ? p.beta * get(p.pc, p.c.type, j * p.c.ld + i) : 0.0f);
            if (p.d.epilogue & 4)
                x += get(p.d.bias, p.to.type, i);
            if (p.d.epilogue == CUBLASLT_EPILOGUE_DGELU)
                x = fl_gelu_grad(get(p.d.aux, p.to.type, j * p.d.ldaux + i), x);
            else if (p.d.epilogue & 128)
                set(p.d.aux, p.to.type, j * p.d.ldaux + i, x);
            if (p.d.epilogue & 32)
                x = fl_gelu(x);
            if (p.d.epilogue & 2)
                x = x > 0 ? x : 0;
            set(p.pto, p.to.type, j * p.to.ld + i, x);
        }
    }
    bool of_a = p.d.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (int64_t i = 0; p.d.epilogue >= CUBLASLT_EPILOGUE_BGRADA && i < (of_a ? m : n); i++) {
        double all = 0;
        for (int64_t l = 0; l < k; l++)
            all += of_a ? left[(size_t)(l * m + i)] : get(p.pb, p.b.type, p.d.tb == CUBLAS_OP_N ? i * p.b.ld + l : l * p.b.ld + i);
        set(p.d.bias, p.to.type, i, (float)all);
    }
}

static size_t span(const twin_lt_layout *l)
{
    return (size_t)((int64_t)(l->columns - 1) * l->ld + (int64_t)l->rows) * (l->type == CUDA_R_32F ? 4 : 2);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *to, cublasLtMatrixLayout_t lto, const cublasLtMatmulAlgo_t *algorithm,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    cublasStatus_t status = checked(d, la, lb, lc, lto);
    uint64_t mine[1];
    const void *pointers[4] = {a, b, c, to};
    describe(mine, d, la, lb, lc, lto);
    if (!handle || status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!algorithm || algorithm->data[0] != mine[0] || workspace_bytes < algorithm->data[1] || (uintptr_t)workspace % 256)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (c == to && lc->ld != lto->ld)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)pointers[i] % algorithm->data[2 + i])
            return CUBLAS_STATUS_INVALID_VALUE;
    twin_check_device(a, span(la), "cublasLtMatmul");
    twin_check_device(b, span(lb), "cublasLtMatmul");
    twin_check_device(to, span(lto), "cublasLtMatmul");
    twin_check_device(workspace, workspace_bytes, "cublasLtMatmul");
    float by = *(const float *)alpha, keep = *(const float *)beta;
    if (keep != 0)
        twin_check_device(c, span(lc), "cublasLtMatmul");
    size_t element = lto->type == CUDA_R_32F ? 4 : 2;
    if (d->epilogue & 128)
        twin_check_device(d->aux, (size_t)((int64_t)(lto->columns - 1) * d->ldaux + (int64_t)lto->rows) * element, "cublasLtMatmul");
    if (d->epilogue & 4 || d->epilogue >= CUBLASLT_EPILOGUE_BGRADA)
        twin_check_device(d->bias, (size_t)(d->epilogue == CUBLASLT_EPILOGUE_BGRADB ? lto->columns : lto->rows) * element,
                          "cublasLtMatmul");
    product p = {*d, *la, *lb, *lc, *lto, by, keep, a, b, c, to};
    twin_enqueue(stream, "cublasLtMatmul", [=] {
        multiply(p);
        return true;
    });
    return CUBLAS_STATUS_SUCCESS;
}
