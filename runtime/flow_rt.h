/* The runtime of the programs that flowc emits: everything an emitted rank program may call or must define.
 *
 * Shape of a program. Every pipeline stage is a class with its own text: class_S.c defines a `struct fl_program` with the
 * tables below and, per entry (train, evaluate, sample), a function `step` that runs one whole step, all micro-batches
 * included. rank_RRRR.c defines a `struct fl_rank` with one rank's constants. ranks.c lists them in fl_ranks[]. main() is
 * in the runtime (main.c): it finds its own rank, makes the arena and the communicators, fills the parameters, puts each
 * step's inputs into the arena, calls step() and reads what fl_output() handed over.
 *
 * Tensors are passed by value as `struct fl_tensor`: a pointer, local extents and strides in elements, so that a view
 * costs nothing. Extents may be 0 on a rank with an empty part. Kernels use the extents and strides as given and assume
 * nothing dense; they are fastest where the last dim has stride 1. Order of arguments: c, results, operands, numbers.
 * Results are written in full and must not overlap operands unless that is said. Optional tensors left out: FL_NONE.
 *
 * Kernels use OpenMP threads and are deterministic: no result depends on which thread ran what, or how many there are,
 * save for GEMM, where that is up to the BLAS. Numbers are f32, sums over whole tensors are formed in double.
 *
 * Errors. Nothing here returns an error. A failed check prints one line (rank, file, line, fact, hint) and ends the whole
 * job with exit code 1; bad usage of the command line exits with 2.
 *
 * Both targets have these names: on cpu they are functions, on cuda launchers with the same arguments. */
#ifndef FLOW_RT_H
#define FLOW_RT_H
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "fl_math.h"

enum { FL_DIMS = 8 };
enum fl_type { FL_F32, FL_BF16, FL_F16, FL_I32, FL_U8, FL_BOOL };     /* in the order of compiler/types.def */
enum fl_op { FL_SUM, FL_MAX, FL_MIN };
enum fl_entry_kind { FL_TRAIN, FL_EVALUATE, FL_SAMPLE, FL_ENTRIES };
enum fl_init { FL_ZEROS, FL_ONES, FL_CONSTANT, FL_NORMAL, FL_UNIFORM };   /* a: value, standard deviation or low; b: high */
enum fl_lr { FL_LR_CONSTANT, FL_LR_COSINE, FL_LR_LINEAR };

struct fl_tensor {
    void *p;
    int type;
    int ndim;
    int64_t n[FL_DIMS];          /* local extents */
    int64_t s[FL_DIMS];          /* strides in elements; 0: the same for all indices (only in operands) */
};
#define FL_NONE ((struct fl_tensor){ NULL, 0, 0, { 0 }, { 0 } })
#define FL_I(...) __VA_ARGS__
#define FL_TENSOR(c, type, offset_bytes, ndim, n, s) \
    ((struct fl_tensor){ (c)->arena + (offset_bytes), type, ndim, { n }, { s } })

/* ---- tables a program defines ---- */

struct fl_param {                /* a parameter or an optimizer state, as this class stores it */
    const char *path;            /* "h[*].attn.qkv_weight" */
    const char *file_name;       /* "h.{0}.attn.c_attn.weight"; NULL: the path with its indices */
    int type, ndim;
    int64_t shape[FL_DIMS];      /* logical, one block */
    int64_t stored[FL_DIMS];     /* with padding */
    int64_t stride[FL_DIMS];     /* in the arena */
    int nstack;                  /* repeats around it, outermost first, with their counts in the whole model */
    int64_t stack[4];
    int64_t first, blocks;       /* this class's blocks of the outermost repeat (0, 1 at top level) */
    int64_t offset, block_bytes; /* arena offset in bytes of the first block; distance between innermost blocks */
    int init;
    double a, b;
    int is_state;                /* in checkpoints, but not in --load and --export */
    double decay;
    int nfile;                   /* 0, or the number of entries of file_shape */
    int64_t file_shape[FL_DIMS]; /* shape in the file: the same elements in the same order */
    int file_transpose;          /* the file holds the two dims of file_shape swapped */
};
struct fl_input {
    const char *name;
    int type, ndim;
    int64_t shape[FL_DIMS];      /* logical, the whole batch */
    int64_t offset;              /* local part of micro-batch j: arena + offset + j * slot_bytes */
    int64_t stride[FL_DIMS];
    int microbatches;            /* 1 when it is not cut */
    int64_t slot_bytes;
    int mb_dim;                  /* the dim that micro-batches cut: micro-batch j starts at base + j * n of the piece */
};
struct fl_output {
    const char *name;            /* "loss", "grad_norm", "logits" */
    int type, ndim;
    int64_t shape[FL_DIMS], stored[FL_DIMS];
    int metric;
    int per_microbatch;          /* handed over once per micro-batch: rows of micro-batch j start at base + j * n */
};
struct fl_ctx;
struct fl_entry {
    int present;
    int ninput;
    const struct fl_input *input;
    int noutput;
    const struct fl_output *output;
    void (*step)(struct fl_ctx *c);
    int microbatches;
};
struct fl_data {                 /* tokens, targets = next_token("input.bin", u16) */
    int entry;                   /* enum fl_entry_kind */
    const char *reader;          /* "next_token" or "raw" */
    const char *inputs[2];
    int ninput;
    const char *file;            /* relative to the current directory */
    const char *element;         /* u8 u16 u32 i32 f32 */
    int64_t vocabulary;          /* ids must be below; 0: not checked */
    const char *where;           /* "gpt.flow:77" */
};
struct fl_train {                /* settings common to all classes */
    int present;
    int64_t steps;
    int lr_kind;                 /* enum fl_lr */
    double lr_peak, lr_floor;
    int64_t lr_warmup;
    uint64_t seed;
    int64_t tokens;              /* in one step, for tok/s; 0: elements of the first input */
    int ndata;
    const struct fl_data *data;
    int64_t evaluate_every, evaluate_steps;
    const char *sample_prompt;   /* NULL: a newline */
    int64_t sample_tokens, sample_top_k, sample_every;
    double sample_temperature;   /* 0: always the likeliest */
    const char *sample_output;   /* which output holds the logits [N, T, V] */
    int nignore;                 /* patterns of names in weight files that are skipped */
    const char *const *ignore;
    int nprefix;                 /* prefixes that names in weight files may carry */
    const char *const *prefix;
};
struct fl_comm_name { const char *name; };
struct fl_link_name {            /* from stage to stage; the receiver's and the sender's class list the same links */
    const char *what;            /* path of the value it carries */
    int from, to;
    int64_t bytes;               /* largest message; 0: found at the first one */
    int slots;                   /* messages under way at most; 0: 2 */
};
struct fl_program {
    const char *name, *plan, *source;    /* "GPT", "dp2_tp2", "gpt.flow" */
    int stage;
    int64_t arena_bytes;
    int nparam;                          /* all of the model in declaration order, then states; blocks 0: not on this stage */
    const struct fl_param *param;
    int ncomm;
    const struct fl_comm_name *comm;
    int nlink;
    const struct fl_link_name *link;
    struct fl_entry entry[FL_ENTRIES];
    const struct fl_train *train;
};
struct fl_piece {                /* the part of a stored (padded) logical tensor that a rank holds */
    int64_t base[FL_DIMS], n[FL_DIMS];
    int first;                   /* of its replicas, the one that writes it out */
};
struct fl_group { int colour, position, size; const int *ranks; };   /* ranks in order of position */
struct fl_rank {
    int rank, nranks;
    const struct fl_program *program;
    int naxis;
    const char *const *axis;
    const int *coord, *size;
    const int64_t *k;                    /* constants that differ by rank: extents, bases, offsets */
    const struct fl_piece *param;        /* one per program->param */
    const struct fl_piece *input[FL_ENTRIES], *output[FL_ENTRIES];
    const struct fl_group *group;        /* one per program->comm; ranks NULL: not a member */
    const int *peer;                     /* one per program->link: rank of the other end, -1: not mine */
};
extern const struct fl_rank *const fl_ranks[];
extern const int fl_nranks;              /* entries of fl_ranks: all ranks, or one in a program of `make ranks` */
int fl_main(int argc, char **argv);

/* ---- the running program ---- */

struct fl_comm;
struct fl_link;
struct fl_ctx {
    char *arena;                         /* 256-byte aligned, zeroed at the start */
    const int64_t *k;                    /* rank->k */
    const struct fl_rank *rank;
    int64_t step;                        /* from 0, counted from the start of training */
    float lr;                            /* of this step */
    uint64_t seed;
    struct fl_comm *comms;
    struct fl_link *links;
};
/* Hands output k of an entry to the host, which copies it. */
void fl_output(struct fl_ctx *c, int entry, int k, int mb, struct fl_tensor x);

/* ---- emitted kernels ---- */
#define FL_KERNEL static void
#define FL_PARAMS
#define FL_LAUNCH(c, kernel, elements, ...) kernel(__VA_ARGS__)
#define FL_PRAGMA(x) _Pragma(#x)
#define FL_FOR1(i, n) FL_PRAGMA(omp parallel for simd if ((n) > 32768)) for (int64_t i = 0; i < (n); i++)
#define FL_FOR2(i, n, j, m) \
    FL_PRAGMA(omp parallel for if ((n) * (m) > 32768)) for (int64_t i = 0; i < (n); i++) \
    FL_PRAGMA(omp simd) for (int64_t j = 0; j < (m); j++)

/* ---- communication. `comm` and `link` are indices into the program's tables; `where` is "gpt.flow:41". Tensors may be
 * strided and uneven. Members of a communicator call the same collectives in the same order. Sums are formed in a fixed
 * order, so equal runs give equal bits and all members get the same ones. ---- */
void fl_all_reduce(struct fl_ctx *c, int comm, int op, int count, const struct fl_tensor *out, const struct fl_tensor *in,
                   const char *where);                                        /* out[i] may be in[i] */
/* out.n[dim] is the whole, in.n[dim] this rank's part: part i of n over k has n/k + (i < n%k), in order of position. */
void fl_all_gather(struct fl_ctx *c, int comm, int dim, struct fl_tensor out, struct fl_tensor in, const char *where);
void fl_reduce_scatter(struct fl_ctx *c, int comm, int op, int dim, struct fl_tensor out, struct fl_tensor in, const char *where);
/* S(dim_from) -> S(dim_to): in is whole along dim_to, out whole along dim_from. */
void fl_all_to_all(struct fl_ctx *c, int comm, int dim_from, int dim_to, struct fl_tensor out, struct fl_tensor in,
                   const char *where);
/* A send copies x into a free slot of the link and returns; it waits only while all slots are under way. A receive takes
 * the next message in the order sent. */
void fl_send(struct fl_ctx *c, int link, int mb, struct fl_tensor x, const char *where);
void fl_recv(struct fl_ctx *c, int link, int mb, struct fl_tensor y, const char *where);
void fl_poll(struct fl_ctx *c);                                               /* lets messages make progress */
void fl_at(const char *where, const char *what);                              /* for the watchdog and messages: literals */

/* ---- contraction: c[i,j] = alpha sum_k a[i,k] b[k,j] + beta c[i,j], by strides ----
 * Of each matrix one of the two strides is 1, or that extent is 1. batch: outer loops, each with its strides; sum: outer
 * loops that add into the same c (a contracted dim that does not merge with k). beta 0 does not read c. */
struct fl_gemm {
    void *c;
    const void *a, *b;
    int64_t m, n, k;
    int64_t cm, cn, am, ak, bk, bn;
    int nbatch;
    struct { int64_t n, c, a, b; } batch[6];
    int nsum;
    struct { int64_t n, a, b; } sum[4];
    float alpha, beta;
};
void fl_gemm(struct fl_ctx *c, const struct fl_gemm *g);

/* ---- copies and fills, any type ---- */
void fl_copy(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x);       /* same extents */
void fl_fill(struct fl_ctx *c, struct fl_tensor y, double v);
void fl_accumulate(struct fl_ctx *c, struct fl_tensor acc, struct fl_tensor x, int mb);    /* mb 0 stores, others add */
void fl_positions(struct fl_ctx *c, struct fl_tensor y, int64_t base);        /* i32: base, base + 1 .. */
void fl_cast(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x);       /* by the types of y and x */

/* ---- reductions: bit d of axes: dim d of x is reduced; y has extent 1 there ---- */
void fl_sum(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, unsigned axes);
void fl_max(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, unsigned axes);      /* of nothing: -inf */
void fl_min(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, unsigned axes);
void fl_mean(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, unsigned axes);
/* One number: true entries of a bool tensor, or entries of an i32 tensor other than `ignore`. */
void fl_count(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, double ignore, int has_ignore);
/* Index of the first largest among the first `valid` entries along axis, plus base. */
void fl_argmax(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, int axis, int64_t valid, int64_t base);

/* ---- rows: normalisation over the last dim; weight, bias and each result of a gradient may be FL_NONE ---- */
void fl_layer_norm(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor mean, struct fl_tensor rstd, struct fl_tensor x,
                   struct fl_tensor w, struct fl_tensor b, double eps);
void fl_layer_norm_grad(struct fl_ctx *c, struct fl_tensor dx, struct fl_tensor dw, struct fl_tensor db, struct fl_tensor dy,
                        struct fl_tensor x, struct fl_tensor w, double eps);
void fl_rms_norm(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, struct fl_tensor w, double eps);
void fl_rms_norm_grad(struct fl_ctx *c, struct fl_tensor dx, struct fl_tensor dw, struct fl_tensor dy, struct fl_tensor x,
                      struct fl_tensor w, double eps);
void fl_softmax(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, unsigned axes);
void fl_softmax_grad(struct fl_ctx *c, struct fl_tensor dx, struct fl_tensor dy, struct fl_tensor y, unsigned axes);
void fl_log_softmax(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, unsigned axes);
void fl_log_softmax_grad(struct fl_ctx *c, struct fl_tensor dx, struct fl_tensor dy, struct fl_tensor y, unsigned axes);

/* ---- attention: y[.., h, t, :] = sum_s softmax_s(scale q[t].k[s]) v[s, :], never holding T x T numbers ----
 * q, y [.., H, T, K]; k, v [.., G, S, K], H a multiple of G: head h reads h / (H/G). causal: query t sees keys s <= t.
 * mask: bool, nonzero = seen, broadcast over [.., H, T, S] by strides (or fewer dims, trailing), or FL_NONE. A query
 * that sees nothing gives 0. The gradient recomputes the probabilities. */
void fl_attention(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor q, struct fl_tensor k, struct fl_tensor v,
                  struct fl_tensor mask, int causal, double scale);
void fl_attention_grad(struct fl_ctx *c, struct fl_tensor dq, struct fl_tensor dk, struct fl_tensor dv, struct fl_tensor dy,
                       struct fl_tensor q, struct fl_tensor k, struct fl_tensor v, struct fl_tensor mask, int causal, double scale);
/* Rotates pairs of the last dim of x by position / theta^(2i/K): pairs (i, i + K/2), or (2i, 2i + 1) when interleaved.
 * Position = base + index along t_dim. inverse turns back (the gradient). */
void fl_rope(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, int t_dim, int64_t base, double theta, int interleaved,
             int inverse);

/* ---- embedding: table holds rows base .. of the whole; ids outside give 0 (another rank has them) ---- */
void fl_embedding(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor ids, struct fl_tensor table, int64_t base);
void fl_embedding_grad(struct fl_ctx *c, struct fl_tensor dtable, struct fl_tensor dy, struct fl_tensor ids, int64_t base);

/* ---- cross entropy over the last dim of logits, which holds classes base .. of `valid` (the rest is padding and counts
 * as -inf). Rows whose target is `ignore` have loss 0 and gradient 0.
 * loss = lse - (1 - smoothing) x[target] - smoothing mean of valid x. ---- */
void fl_cross_entropy(struct fl_ctx *c, struct fl_tensor loss, struct fl_tensor logits, struct fl_tensor targets, int64_t valid,
                      double ignore, int has_ignore, double smoothing);
void fl_cross_entropy_grad(struct fl_ctx *c, struct fl_tensor dlogits, struct fl_tensor dloss, struct fl_tensor logits,
                           struct fl_tensor targets, int64_t valid, double ignore, int has_ignore, double smoothing);
/* The pieces of it for a split vocabulary; [rows] tensors, partial over the parts by max, sum, sum. */
void fl_ce_max(struct fl_ctx *c, struct fl_tensor m, struct fl_tensor logits, int64_t base, int64_t valid);
void fl_ce_sum_exp(struct fl_ctx *c, struct fl_tensor s, struct fl_tensor logits, struct fl_tensor m, int64_t base, int64_t valid);
void fl_ce_pick(struct fl_ctx *c, struct fl_tensor p, struct fl_tensor logits, struct fl_tensor targets, int64_t base,
                int64_t valid, double ignore, int has_ignore, double smoothing);   /* (1-smoothing) x[target] + smoothing mean */
void fl_ce_loss(struct fl_ctx *c, struct fl_tensor loss, struct fl_tensor m, struct fl_tensor s, struct fl_tensor p,
                struct fl_tensor targets, double ignore, int has_ignore);
void fl_ce_grad(struct fl_ctx *c, struct fl_tensor dlogits, struct fl_tensor dloss, struct fl_tensor logits, struct fl_tensor m,
                struct fl_tensor s, struct fl_tensor targets, int64_t base, int64_t valid, double ignore, int has_ignore,
                double smoothing);

/* ---- random: an element depends on (seed, key, step, block, linear index in the logical shape) only ---- */
struct fl_where { int64_t full[FL_DIMS], base[FL_DIMS]; };     /* logical extents without padding; where the local part starts */
/* y = kept ? x / (1 - p) : 0; the gradient is the same call on dy. y may be x. key: hash of the path. */
void fl_dropout(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x, double p, uint64_t key, int64_t block, struct fl_where where);

/* ---- optimizer, formulas of PyTorch; lr and step come from c; scale: a scalar factor on g, or FL_NONE ---- */
void fl_square_sum(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor x);
void fl_global_norm(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor squares);
void fl_clip_scale(struct fl_ctx *c, struct fl_tensor y, struct fl_tensor norm, double clip);     /* min(1, clip / (norm + 1e-6)) */
void fl_adamw(struct fl_ctx *c, struct fl_tensor w, struct fl_tensor g, struct fl_tensor m, struct fl_tensor v,
              struct fl_tensor scale, double decay, double beta1, double beta2, double eps);
void fl_sgd(struct fl_ctx *c, struct fl_tensor w, struct fl_tensor g, struct fl_tensor m, struct fl_tensor scale, double decay,
            double momentum);                                                  /* m: momentum buffer or FL_NONE */
#endif
