/* A contraction of two operands as one GEMM: its loops by kind, and which of them are the dims of the matrix. */
#ifndef FLOWC_EMIT_CONTRACT_H
#define FLOWC_EMIT_CONTRACT_H
#include "nest.h"

enum kind { ROWS, COLUMNS, CONTRACTED, BATCH, KINDS };
/* The tensors of its nests: those of the product, and those of what follows it (stride 0 where there are none). */
enum { C, A, B, VECTOR, RESIDUAL, AUX, TENSORS };

struct gemm {
    struct sym m, n, k, lda, ldb, ldc;
    bool ta, tb, swapped;        /* swapped: computes the transposed result from B and A */
    int loop[3];                 /* which merged loop of each kind, or -1 */
    double size;
};

/* The stride of tensor t along a letter; NULL: the tensors of the product alone. */
typedef struct sym stride_along(const struct node *n, int t, char letter);

/* Chooses the GEMM of a product whose result and operands have these letters; false: none says it. kinds: KINDS nests. */
bool contract_choose(struct emitter *e, const struct node *n, const char *const *letters, stride_along *more, struct nest *kinds,
                     struct gemm *g);
const char **contract_letters(const struct node *n);       /* of the result, then of the operands that its spec names */
void contract_rest(const struct nest *kinds, const struct gemm *g, struct nest *batch, struct nest *sum);   /* loops that are left */
/* One matrix of rows x columns with these strides: row-major (*transposed false) or column-major, with its leading dimension; a
 * missing loop has extent 1. */
bool contract_matrix(const struct physical *p, struct sym rows, struct sym columns, struct sym row, struct sym column,
                     struct sym *lead, bool *transposed);
struct sym contract_extent(const struct nest *n, int loop);
struct sym contract_stride(const struct nest *n, int tensor, int loop);
void emit_contraction(struct emitter *e, const struct node *n);    /* epilogue.c */
#endif
