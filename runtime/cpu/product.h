/* Products of matrices by kernels of our own: see product.c. */
#ifndef FL_PRODUCT_H
#define FL_PRODUCT_H
#include "cpu.h"

/* c[m, n] = alpha op(a) op(b) + beta c for one matrix of g, by the calling thread alone. a and b have type t; c has type tc,
 * rounded once where it is stored. An element is a sum over parts of k (384 numbers at most, in bf16 768), each one chain of
 * fused multiply-adds: its bits depend on k alone, not on m, n, threads or the width of the processor's vectors. bf16 goes
 * in pairs, the second of a pair first, with subnormal numbers as 0, as VDPBF16PS does; without that instruction the bits are
 * the same. */
void fl_product(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g);

/* The same for rows [m0, m0 + m) and columns [n0, n0 + n) of c. `between`, unless NULL, is called after blocks that take long. */
void fl_product_part(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g, int64_t m0, int64_t m,
                     int64_t n0, int64_t n, void (*between)(void));

/* How many parts of *width columns `threads` share: one part for one thread, else some for each to choose from. */
int64_t fl_product_parts(const struct fl_gemm *g, int64_t threads, int64_t *width);
#endif
