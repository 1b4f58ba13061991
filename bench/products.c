/* products D F V ROWS T K [LIBRARY].. : matrix products at the shapes of a GPT (width D, hidden F, vocabulary V, ROWS tokens, sequences
 * of T tokens, heads of width K) on one thread: the cpu target's own kernels, and in turn with them each shared library that has
 * cblas_sgemm or dnnl_sgemm. Medians of some rounds, GFLOP/s. */
#include "product.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const struct fl_program_spec fl_program = { .name = "products", .nranks = 1, .pipe = -1, .mb = -1 };
enum { ROUNDS = 7, MOST = 8 };
typedef void cblas(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                   float beta, float *c, int ldc);
typedef int dnnl(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                 int64_t ldb, float beta, float *c, int64_t ldc);

struct library { const char *name; cblas *c; dnnl *d; enum fl_type type; };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void call(const struct library *l, const struct fl_gemm *g, const void *a, const void *b, float *c)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112 };
    if (l->c)
        l->c(ROW_MAJOR, g->ta ? TURNED : PLAIN, g->tb ? TURNED : PLAIN, (int)g->m, (int)g->n, (int)g->k, 1, a, (int)g->lda, b, (int)g->ldb, 0, c,
             (int)g->ldc);
    else if (l->d)
        l->d(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, 1, a, g->lda, b, g->ldb, 0, c, g->ldc);
    else
        fl_gemm_as(c, FL_F32, a, b, l->type, g);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *numbers(int64_t n)
{
    float *x = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    if (!x)
        abort();
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % 17) - 8;
    return x;
}

static void shape(const char *what, const struct library *all, int count, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    struct fl_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .lda = ta ? m : k, .ldb = tb ? k : n, .ldc = n, .alpha = 1 };
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n), *shorter_a = numbers(m * k), *shorter_b = numbers(k * n);
    fl_convert(shorter_a, FL_BF16, a, FL_F32, m * k);
    fl_convert(shorter_b, FL_BF16, b, FL_F32, k * n);
    int64_t repeats = 1 + (int64_t)(5e8 / (double)(m * n * k));
    double s[MOST][ROUNDS];
    for (int r = -1; r < ROUNDS; r++)
        for (int l = 0; l < count; l++) {
            bool is_short = all[l].type == FL_BF16;
            double start = now();
            for (int64_t i = 0; i < repeats; i++)
                call(&all[l], &g, is_short ? shorter_a : a, is_short ? shorter_b : b, c);
            if (r >= 0)
                s[l][r] = (now() - start) / (double)repeats;
        }
    printf("%-22s %6lld %6lld %6lld %c%c", what, (long long)m, (long long)n, (long long)k, ta ? 't' : 'n', tb ? 't' : 'n');
    for (int l = 0; l < count; l++) {
        qsort(s[l], ROUNDS, sizeof s[l][0], by_size);
        printf(" %12.1f", 2e-9 * (double)m * (double)n * (double)k / s[l][ROUNDS / 2]);
    }
    printf("\n");
    free(a), free(b), free(c), free(shorter_a), free(shorter_b);
}

/* The symbol as a function: POSIX lets the two be the same. */
#define FIND(type, handle, name) ((union { void *p; type *f; }){ .p = dlsym(handle, name) }.f)

int main(int argc, char **argv)
{
    struct library all[MOST] = { { "flowc", .type = FL_F32 }, { "flowc bf16", .type = FL_BF16 } };
    int count = 2;
    if (argc < 7) {
        fprintf(stderr, "products D F V ROWS T K [LIBRARY]..\n");
        return 2;
    }
    for (int i = 7; i < argc; i++) {
        if (count == MOST) {
            fprintf(stderr, "products: left out: %s: %d libraries at a time\n", argv[i], MOST - 2);
            continue;
        }
        void *handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        struct library *l = &all[count];
        if (!handle) {
            fprintf(stderr, "products: left out: %s\n", dlerror());
            continue;
        }
        *l = (struct library){ strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i], FIND(cblas, handle, "cblas_sgemm"),
                               FIND(dnnl, handle, "dnnl_sgemm"), FL_F32 };
        if (!l->c && !l->d)
            fprintf(stderr, "products: left out: %s has no cblas_sgemm and no dnnl_sgemm\n", argv[i]);
        count += l->c || l->d;
    }
    int64_t d = atoll(argv[1]), f = atoll(argv[2]), v = atoll(argv[3]), rows = atoll(argv[4]), t = atoll(argv[5]), k = atoll(argv[6]);
    printf("%-22s %6s %6s %6s   ", "GFLOP/s", "m", "n", "k");
    for (int l = 0; l < count; l++)
        printf(" %12.12s", all[l].name);
    printf("\n");
    shape("qkv", all, count, rows, 3 * d, d, false, false);
    shape("qkv, gradient of x", all, count, rows, d, 3 * d, false, true);
    shape("qkv, of the weights", all, count, d, 3 * d, rows, true, false);
    shape("up", all, count, rows, f, d, false, false);
    shape("down", all, count, rows, d, f, false, false);
    shape("down, gradient of x", all, count, rows, f, d, false, true);
    shape("down, of the weights", all, count, f, d, rows, true, false);
    shape("head", all, count, rows, v, d, false, true);
    shape("head, gradient of x", all, count, rows, d, v, false, false);
    shape("head, of the weights", all, count, v, d, rows, true, false);
    shape("scores", all, count, t, t, k, false, true);
    shape("scores by values", all, count, t, k, t, false, false);
    return 0;
}
