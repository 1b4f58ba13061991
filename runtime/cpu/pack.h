/* Operands of products, packed for the kernels of product.c. Private to these two files. */
#ifndef FL_PACK_H
#define FL_PACK_H
#include "cpu.h"

#ifdef __AVX512F__
enum { LANES = 16, VECTORS = 3, ROWS = 8 };
#define IF_3(x) x
#else
enum { LANES = 8, VECTORS = 2, ROWS = 6 };
#define IF_3(x)
#endif
enum {
    COLUMNS = VECTORS * LANES,
    DEPTH = 384,                         /* words of a block along k; bf16 has twice as many numbers */
    WIDE = 384,                          /* its columns */
    NEAR = 1 << 18,                      /* words over which the lines of an operand may spread to be read in place */
    FEW_ROWS = 512, FEW_COLUMNS = 40,    /* of a block: fewer do not pay for packing b, or a turned, that lies near */
    SOON = 14,                           /* words along k by which b is fetched ahead */
    GROUP = 6,                           /* panels of ROWS rows packed at a time */
    KEPT = 1 << 20,                      /* words of packed rows of a that are kept for further blocks of b */
    LINE = 2 * DEPTH + 16,               /* words from one line of b to the next before they are turned */
    TALL = 512,                          /* rows of sums kept apart from the result */
    LENGTHY = 1 << 24,                   /* products of a block beside which messages should move: about 0.3 ms */
};

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float loose __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t places __attribute__((vector_size(LANES * 4)));

/* How operands are packed. */
enum form { PLAIN, PAIRS, WIDENED };                 /* f32; bf16 as it is; short types as f32 */

/* One operand: lines of elements, k along a line (`turned` false) or from line to line. */
struct operand { const void *p; enum fl_type type; enum form form; int64_t ld; };

enum form fl_form_of(enum fl_type t);
/* Words of k elements. */
int64_t fl_words_of(const struct operand *o, int64_t k);
/* Columns [c0, c0 + n) of b for `k` elements from k0: panels of `width`, the last one filled with zeros. */
void fl_pack_columns(float *to, const struct operand *o, bool turned, int64_t k0, int64_t k, int64_t c0, int64_t n, int64_t width,
                     float *room);
/* At most GROUP * ROWS rows of a, `row` words each: line by line, or with k from line to line panels of ROWS for each word. */
void fl_pack_rows(float *to, const struct operand *o, bool turned, int64_t k0, int64_t k, int64_t r0, int64_t rows, int64_t row);
#endif
