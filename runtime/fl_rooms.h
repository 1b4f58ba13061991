/* What kernels work in besides operands and results, where pieces of fixed size are summed up first: one rule for the kernel,
 * which asks for so much, and for the plan, which has it ready (compiler/ops/room.c). All in bytes. */
#ifndef FL_ROOMS_H
#define FL_ROOMS_H
#include <stdint.h>

#define FL_NORM_CHUNK 64                             /* rows of which gradients of gains make one sum */
#define FL_FOLD_ROWS 64                              /* rows that are added to each other as one piece */
#define FL_FOLD_ENTRIES 8192                         /* entries of a row that are summed up as one piece, */
#define FL_FOLD_FEW 64                               /* where there are fewer results than this */
#define FL_SQUARES_CHUNK 16384

static inline int64_t fl_pieces(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

/* A gain's and a bias's gradient, f32, of each chunk of rows. */
static inline int64_t fl_room_of_norm(int64_t rows, int64_t n) { return 8 * fl_pieces(rows, FL_NORM_CHUNK) * n; }

/* In f32, the gradients of keys and values that are of a short type: so many rows of both, `width` numbers in each pair. */
static inline int64_t fl_room_of_keys(int64_t rows, int64_t width) { return 4 * rows * width; }

/* f32 results of each piece of the rows folded into them; one piece lies in the result. */
static inline int64_t fl_room_of_rows(int64_t results, int64_t folded)
{
    return folded > FL_FOLD_ROWS ? 4 * results * fl_pieces(folded, FL_FOLD_ROWS) : 0;
}

/* Numbers in double that a result is made of, each from `rows` rows of `inner` entries. */
static inline int64_t fl_parts_of_fold(int64_t results, int64_t rows, int64_t inner)
{
    return results < FL_FOLD_FEW ? rows * fl_pieces(inner, FL_FOLD_ENTRIES) : 1;
}
static inline int64_t fl_room_of_fold(int64_t results, int64_t rows, int64_t inner)
{
    return 8 * results * fl_parts_of_fold(results, rows, inner);
}

/* Sums of squares in double; one alone needs none. */
static inline int64_t fl_room_of_squares(int64_t n) { return n > FL_SQUARES_CHUNK ? 8 * fl_pieces(n, FL_SQUARES_CHUNK) : 0; }
#endif
