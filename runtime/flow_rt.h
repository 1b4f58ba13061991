/* The runtime of the programs that flowc emits: everything an emitted rank program may call or must define.
 *
 * Shape of a program. Each pipeline stage is a class: a `struct fl_class` with the class's parameters, sizes and one
 * function per entry (train, evaluate, sample) that runs one whole step of that entry, all micro-batches included. Each
 * rank is a `struct fl_rank`: its coordinates and its class. One `struct fl_program` holds what is common. main() is in
 * the runtime; it finds its own rank in fl_ranks[], makes the arena and the communicators, fills the parameters, and
 * calls the entry functions. The program defines fl_program, fl_ranks and fl_rank_count.
 *
 * Units and conventions. Tensors are row-major and local to the rank. Counts are elements, never bytes, unless the name
 * ends in _bytes. Sizes are int64_t. A kernel writes its first argument(s) in full and reads the others; buffers may be
 * the same only where that is said. Kernels use OpenMP threads and are deterministic for a given number of threads of
 * any kind: no result depends on which thread ran what. Nothing here returns an error: a failed check prints one line
 * with rank, file, line, reason and hint, and ends the whole job with exit code 1.
 *
 * Short types. Operands are f32 where nothing else is said. What moves elements takes their bytes; what computes on bf16
 * or f16 has its own name (.._bf16, .._f16, .._as with types as arguments). Sums are f32 inside; a result is rounded once,
 * where it is stored. For all other kernels the program makes f32 copies with fl_convert.
 *
 * Both targets have these names: on cpu they are functions, on cuda launchers with the same arguments. */
#ifndef FLOW_RT_H
#define FLOW_RT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "fl_lr.h"
#include "fl_math.h"
#include "fl_readers.h"
#include "fl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FL_MAX_DIM = 8, FL_MAX_AXIS = 8, FL_MAX_STACK = 4 };
enum fl_type { FL_F32, FL_BF16, FL_F16, FL_I32, FL_U8, FL_BOOL };     /* order of compiler/types.def */
enum fl_reduce { FL_SUM, FL_MAX, FL_MIN };
enum fl_entry { FL_TRAIN, FL_EVALUATE, FL_SAMPLE, FL_ENTRIES };

/* ---- tables a program defines ---- */

/* One dim of a tensor: logical size, stored size (with padding), and the mesh axes that split it, major to minor. A
 * split in k parts of a size that k does not divide gives the first `phys mod k` parts one more. */
struct fl_dim {
    int64_t size, phys;
    int nsplit;
    int axis[FL_MAX_AXIS];
};
struct fl_tensor {
    const char *path;                    /* "h[*].attn.qkv_weight" */
    enum fl_type type;
    int ndim;
    struct fl_dim dim[FL_MAX_DIM];
};

/* How a parameter or an optimizer state starts. normal: a = std; constant: a; uniform: a = low, b = high. */
enum fl_init { FL_ZEROS, FL_ONES, FL_CONSTANT, FL_NORMAL, FL_UNIFORM };

/* One parameter or state as this class stores it: of each repeat around it, outermost first, the blocks [first, first +
 * count), each block the local part of `tensor`, contiguous, at arena + offset_bytes. Entries of one path stand side by
 * side and hold different blocks, each with splits of its own; together, over all ranks, they are one family of tensors
 * in files. Every class has as many entries of a path.
 * With flat axes an entry is one share of that part: its elements in row-major order, `stored` for each rank of those axes
 * (major to minor), the last ones fewer. */
struct fl_param {
    struct fl_tensor tensor;             /* shape of one block */
    int nstack;                          /* repeats around it; 0: one block */
    int64_t stack[FL_MAX_STACK];         /* their counts in the whole model, outermost first */
    int64_t first[FL_MAX_STACK], count[FL_MAX_STACK];    /* what is here; nstack 0: 0, 1. count 0: nothing */
    int64_t offset_bytes;
    bool host;                           /* it lies in host memory: at host + offset_bytes */
    int64_t stored;                      /* elements from one block to the next; 0: those of the local part */
    int nflat;
    int flat[FL_MAX_AXIS];
    enum fl_init init;
    double init_a, init_b;
    bool state;                          /* the optimizer's: in checkpoints, not in --load and --export */
    bool owner;                          /* this class writes it to files (of several stages that hold it, the first) */
    int file_parts;                      /* tensors of weight files that a block is made of; 0: one, named by path with indices */
    const char *const *file_names;       /* of each: "h.{0}.attn.c_attn.weight" */
    int file_ndim;                       /* 0: file_shape as the tensor's */
    int64_t file_shape[FL_MAX_DIM];      /* shape in the file; of several parts, which are stacked, the first dim is their number */
    bool file_ordered;                   /* our elements are those of file_shape with its dims in the order file_order */
    int file_order[FL_MAX_DIM];
    bool average;                        /* the moving average of the parameter whose path stands before "#ema" */
};

/* A communicator: the ranks that differ only along `axes`; with stages, only those on these stages take part. */
struct fl_comm_spec {
    const char *name;                    /* "tp", "dp", "stages_0_3" */
    unsigned axes;                       /* bit set over the mesh axes */
    int nstage;                          /* 0: no restriction */
    const int *stage;                    /* NULL with nstage 0 */
};
/* A point-to-point link between the ranks of two stages that have the same other coordinates. */
struct fl_link_spec {
    const char *name;                    /* path of the value it carries */
    int from, to;                        /* stages = coordinates along the pipeline axis */
    int64_t bytes;                       /* largest message */
    int slots_sent, slots_received;      /* messages that each end has room for; >= 1 */
};

struct fl_input {                        /* a model input of one entry */
    enum fl_entry entry;
    const char *name;
    struct fl_tensor tensor;             /* splits over the time axis included, as its minor axis */
    int binding;                         /* index into fl_program.data, or -1: filled by the sampler */
    int part;                            /* which of the binding's inputs: 0 tokens, 1 targets */
};
struct fl_data_file {
    const char *name;                    /* relative to the current directory */
    const char *mask;                    /* u8, one for each token: 0 where the target counts nowhere; NULL: none */
    double weight;
};
struct fl_data {                         /* tokens, targets = next_token("input.bin", u16) */
    enum fl_entry entry;
    enum fl_reader reader;
    enum fl_element element;
    int nfile;
    const struct fl_data_file *file;
    bool weighted;                       /* rows come from the files by their weights, not file after file */
    bool shuffle;
    double low, high;                    /* the part of each file that is read, from 0 to 1 */
    int64_t limit;                       /* i32: indices must be below; 0: any number */
    const char *where;                   /* "gpt.flow:77" */
    double scale, shift;                 /* raw into an f32 input: element * scale + shift */
    bool has_ignore;                     /* .. or be this number, which counts nowhere */
    int64_t ignore;
    bool has_blank;                      /* targets that are this token become `ignore` */
    int64_t blank;
};
struct fl_output_spec {                  /* an output or metric of one entry */
    enum fl_entry entry;
    const char *name;                    /* "loss", "grad_norm", "logits" */
    struct fl_tensor tensor;
};

struct fl_program_spec {
    const char *name, *plan;             /* "gpt.flow", "dp2_tp2" */
    const char *spoilt;                  /* the fault that --spoil put in, or NULL */
    int nranks;
    int naxis;                           /* the time axis included */
    const char *axis_name[FL_MAX_AXIS];
    int axis_size[FL_MAX_AXIS];
    int axis_stride[FL_MAX_AXIS];        /* rank = sum of coordinate * stride; 0: the time axis */
    int pipe, mb;                        /* index of the pipeline axis (-1: none) and of the time axis */
    int microbatches;

    int ncomm;
    const struct fl_comm_spec *comm;     /* created in this order on every rank */
    int comm_streams;                    /* cuda: communicator i runs on stream i mod this; the certificate knows */
    int nlink;
    const struct fl_link_spec *link;
    int ninput;
    const struct fl_input *input;
    int ndata;
    const struct fl_data *data;
    int noutput;
    const struct fl_output_spec *output;

    bool train;                          /* false: nothing to train (evaluate or sample only) */
    int64_t steps;
    int64_t tokens;                      /* in one step, for tok/s: N * T, or N */
    double flops;                        /* of the model in one step, on all ranks */
    double peak_flops;                   /* that all ranks could do in a second; 0: not known */
    enum fl_lr lr;
    double lr_peak, lr_floor;
    int64_t lr_warmup, lr_decay;
    bool skips;                          /* a step whose norm is not finite changes nothing */
    double loss_scale;                   /* where the factor on the loss starts (fl_scale.h); 0: none */
    int64_t growth_interval;
    uint64_t seed;

    bool evaluate;
    int64_t evaluate_every, evaluate_steps;
    bool sample;
    const char *sample_prompt;           /* NULL: a newline */
    int64_t sample_prompt_bytes;         /* -1: strlen */
    int64_t sample_tokens, sample_top_k, sample_every;
    double sample_temperature;           /* 0: the likeliest token */
    const char *sample_output;           /* the output with the logits [N, T, V] */

    int nignore;
    const char *const *ignore;           /* patterns of tensor names in files that are skipped */
    int nprefix;
    const char *const *prefix;           /* prefixes that names in files may carry */
};

/* A number that may differ between ranks: c times entries of the rank's `constant` table; -1 stands for the micro-batch. */
enum { FL_SYM_FACTORS = 10 };
struct fl_sym {
    int64_t c;
    int n;
    short k[FL_SYM_FACTORS];
};
/* A value that a step makes, as this rank has it behind the node that makes it (FL_SEE). */
struct fl_value {
    struct fl_tensor tensor;             /* splits over the time axis included */
    const char *aliases;                 /* other paths of it, by blanks; NULL: none */
    unsigned partial[3];                 /* by fl_reduce: bit set of the axes over which it is to be reduced yet */
    unsigned flat;                       /* bit set of the axes over which its part is cut into shares of `elements` */
    struct fl_sym elements;
    struct fl_sym stride[FL_MAX_DIM];    /* elements, of each dim; not where it is flat */
    bool host;                           /* in host memory */
    bool running;                        /* a sum over micro-batches, complete in the last one */
    bool infinite;                       /* may well hold infinities: a constant of the program, parts of a maximum */
    bool whole;                          /* the value that the program names, not a converted copy of it or a part */
    int64_t blocks;                      /* > 1: a whole stack of them, `next` elements apart */
    struct fl_sym next;
    int nstack;                          /* repeats around it, outermost first: how many blocks each has in the model */
    int64_t stack[FL_MAX_STACK];
    unsigned reversed;                   /* bit set of those whose blocks it goes through from the last to the first */
    int order[FL_MAX_STACK + 1];         /* place in the program: at top level, then in the repeat's body, .. */
};
/* A node of a step: what is done, for whom it may concern (see.h). */
enum fl_node_kind { FL_NODE_COMPUTE, FL_NODE_COMM, FL_NODE_COPY, FL_NODE_VIEW };
struct fl_node {
    const char *op, *path, *where;       /* "layer_norm" or "fused(log, mul)", "h[*].ln_1", "gpt.flow:13" */
    enum fl_entry entry;
    const char *phase;                   /* "forward", "backward", "weight", "update", "count", "setup" */
    enum fl_node_kind kind;
    int comm, link;                      /* index of fl_program.comm, .link; -1: none */
    int nvalue;
    const struct fl_value *value;        /* what it makes, of that what is in memory */
};

struct fl_run;
/* Bytes in which the collectives of a communicator pack: nothing more is taken in a step. */
struct fl_room { int64_t first, second; };
struct fl_class {
    int stage;
    int64_t arena_bytes;
    int64_t host_bytes;                  /* host memory for what the plan offloads; 0: none */
    int nparam;
    const struct fl_param *param;        /* all parameters of the program in declaration order, then the states */
    void (*entry[FL_ENTRIES])(struct fl_run *run);    /* one step; NULL where the program lacks the entry */
    int nnode;
    const struct fl_node *node;          /* what FL_SEE numbers */
    const char *const *gone;             /* "h[*].mlp.add gpt.flow:37": values that exist inside a kernel only; "logits gpt.flow:52
                                            rows": those of which a loss makes some rows at a time; NULL ends */
    const struct fl_room *room;          /* of each communicator */
};
struct fl_rank {
    int rank;
    int coord[FL_MAX_AXIS];              /* mesh coordinates; the time axis is 0 */
    const struct fl_class *class_;
    const int64_t *constant;             /* offsets and extents that only this rank has; meaning known to its class */
};
extern const struct fl_program_spec fl_program;
extern const struct fl_rank *const fl_ranks[];
extern const int fl_rank_count;

/* ---- the running program ---- */

struct fl_step {                         /* scalars of the current step */
    int64_t step;                        /* from 0, counted from the start of training */
    int64_t update;                      /* the same without the steps that were skipped: what bias correction counts */
    int microbatch;                      /* set by the program before each micro-batch */
    uint64_t seed;
    float lr;                            /* learning rate of this step */
    float loss_scale;                    /* factor with which the gradient of the loss starts in this step */
};
typedef struct fl_comm fl_comm;
typedef struct fl_link fl_link;
struct fl_run {
    char *arena;                         /* 256-byte aligned, zeroed at the start */
    char *host;                          /* the same of host memory, pinned on cuda; NULL: none */
    struct fl_step step;
    const struct fl_rank *rank;
    fl_comm **comm;                      /* by index of fl_program.comm; NULL where this rank is no member */
    fl_link **link;                      /* by index of fl_program.link; NULL where this rank is on neither end */
    bool no_graph;                       /* cuda: every step is queued call by call */
};

/* Behind every node, with its number, the block and where its values lie: a branch that is not taken unless somebody looks
 * (see.h). In scope: run, mb. On cuda the calls are queued then, not done. */
extern bool fl_seeing;
void fl_see(struct fl_run *run, int node, int microbatch, int64_t block, const void *const *x);
#define FL_SEE(node, block, ...)                                    \
    do {                                                            \
        if (__builtin_expect(fl_seeing, 0)) {                       \
            const void *const fl_x[] = { __VA_ARGS__ };             \
            fl_see(run, node, mb, block, fl_x);                     \
        }                                                           \
    } while (0)
/* Those who look at values want to see those too that are fused into a kernel: they are computed apart, into this room. */
extern bool fl_seeing_fused;
void *fl_see_room(int64_t bytes);

/* Copies this rank's part of input k (index into fl_program.input) for a micro-batch to dst. */
void fl_read_input(struct fl_run *run, int k, int microbatch, void *dst);
/* Hands output k (index into fl_program.output) to the host, which has it at the end of the step. Scalars may be handed over
 * once a step. */
void fl_write_output(struct fl_run *run, int k, int microbatch, const void *src);

/* Copies between host memory and the arena. A copy starts once all work queued before the call is done, runs beside what
 * is queued after it, and after the copies started before it. Work queued behind fl_copied starts after the last copy
 * with that number, and all before it, have ended; a source must stay as it is and a target untouched until then. */
void fl_to_host(struct fl_run *run, int number, void *host, const void *src, int64_t bytes);
void fl_to_device(struct fl_run *run, int number, void *dst, const void *host, int64_t bytes);
void fl_copied(struct fl_run *run, int number);

/* Where the program is, for the watchdog and for error messages: a source line and an op. Both must be literals. */
void fl_at(const char *where, const char *what);

/* ---- collectives (in time order on all members; deterministic) ----
 * A tensor that is split or gathered along one dim is seen as outer x n x inner: n is that dim's stored extent before
 * the split, outer and inner the products of the dims around it (local extents). Parts: the first n mod k ranks hold
 * one more. dst and src must not overlap unless they are said to. */
void fl_all_reduce(fl_comm *c, float *x, int64_t n, enum fl_reduce kind);       /* in place */
void fl_all_reduce_i32(fl_comm *c, int32_t *x, int64_t n, enum fl_reduce kind); /* in place */
void fl_all_reduce_bf16(fl_comm *c, fl_bf16 *x, int64_t n, enum fl_reduce kind); /* in place; rounded at each step */
void fl_all_reduce_f16(fl_comm *c, fl_f16 *x, int64_t n, enum fl_reduce kind);
void fl_all_gather(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, int element_bytes);
void fl_reduce_scatter(fl_comm *c, float *dst, const float *src, int64_t outer, int64_t n, int64_t inner,
                       enum fl_reduce kind);
void fl_reduce_scatter_bf16(fl_comm *c, fl_bf16 *dst, const fl_bf16 *src, int64_t outer, int64_t n, int64_t inner,
                            enum fl_reduce kind);
void fl_reduce_scatter_f16(fl_comm *c, fl_f16 *dst, const fl_f16 *src, int64_t outer, int64_t n, int64_t inner,
                           enum fl_reduce kind);
/* Shares: n elements cut into one run of `share` for each rank, the last ones shorter. Gathering fills size * share elements
 * of whole, in which mine may lie in its place. */
void fl_gather_shares(fl_comm *c, float *whole, const float *mine, int64_t share);
void fl_scatter_shares(fl_comm *c, float *mine, const float *whole, int64_t n, int64_t share, enum fl_reduce kind);
void fl_gather_shares_bf16(fl_comm *c, fl_bf16 *whole, const fl_bf16 *mine, int64_t share);
void fl_scatter_shares_bf16(fl_comm *c, fl_bf16 *mine, const fl_bf16 *whole, int64_t n, int64_t share, enum fl_reduce kind);
void fl_gather_shares_f16(fl_comm *c, fl_f16 *whole, const fl_f16 *mine, int64_t share);
void fl_scatter_shares_f16(fl_comm *c, fl_f16 *mine, const fl_f16 *whole, int64_t n, int64_t share, enum fl_reduce kind);
/* Collectives in two points. Those over c called between fl_post and fl_posted are one: it starts once all work queued
 * before is done, and runs beside what is queued after. What is queued behind fl_await starts once it has ended, and all
 * posted over c before it. Until then what it reads is not written and what it writes not touched. Only all_reduce,
 * reduce_scatter, gather_shares and scatter_shares may stand there, and copies they read. Numbers are the program's, from 0;
 * they may be used again. Ranks post in one order. */
void fl_post(fl_comm *c, int number);
void fl_posted(fl_comm *c, int number);
void fl_await(fl_comm *c, int number);
/* The same gather in two halves: between them, whole is not touched and mine not written. Ranks start theirs in one
 * order. */
void fl_gather_start(fl_comm *c, void *whole, const void *mine, int64_t share, int element_bytes);
void fl_gather_wait(fl_comm *c, const void *whole);
/* S -> S: two dims a (major) and b of outer x a x middle x b x inner, whole extents. With split_a the result is split
 * on a and src on b; otherwise the result is split on b and src on a. */
void fl_all_to_all(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t a, int64_t middle, int64_t b,
                   int64_t inner, bool split_a, int element_bytes);
/* Parts of n elements change places: src goes to rank `to` of c, dst comes from rank `from`. */
void fl_permute_parts(fl_comm *c, void *dst, const void *src, int64_t n, int element_bytes, int to, int from);
int fl_comm_rank(const fl_comm *c);
int fl_comm_size(const fl_comm *c);

/* ---- point to point. A send copies src into a free slot and returns; it waits only when all slots of its end are
 * under way. A receive takes the next message of the link, in the order in which they were sent, and frees its slot for
 * a further one. bytes: of this message. ---- */
void fl_send(fl_link *l, const void *src, int64_t bytes);
void fl_recv(fl_link *l, void *dst, int64_t bytes);
void fl_poll(void);                      /* lets messages under way make progress */

/* ---- contraction ----
 * c[i] = alpha op(a[i]) op(b[i]) + beta c[i], row-major, op = transpose where asked; a is m x k after op, b k x n. lda,
 * ldb, ldc: elements from one row of the stored matrix to the next. Batches: up to three, strides in elements (0: the
 * same matrix for all). nbatch 0: one matrix. beta 0 does not read c. */
struct fl_gemm {
    int64_t m, n, k;
    bool ta, tb;
    int64_t lda, ldb, ldc;
    float alpha, beta;
    int nbatch;
    int64_t batch[3], sa[3], sb[3], sc[3];
};
void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g);
/* a and b of type t, c of type t or f32. */
void fl_gemm_as(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g);
/* One matrix, and what follows it before it is rounded: c = f(alpha a b + beta c + bias) + residual. All but a and b are of type
 * tc; ldr, ldaux: elements from row to row. */
enum fl_activation { FL_LINEAR, FL_GELU, FL_RELU, FL_GELU_GRAD };
struct fl_epilogue {
    const void *bias;                    /* [n], or NULL */
    const void *residual;                /* m x n, or NULL; with it beta is 0 and there is no activation */
    int64_t ldr;
    enum fl_activation activation;
    void *aux;                           /* m x n. FL_GELU: what it is applied to goes there, unless NULL. FL_GELU_GRAD: at this
                                            the slope is taken, it is read */
    int64_t ldaux;
    void *bias_grad;                     /* also: the sums over k of op(a) (of_a: [m]) or op(b) ([n]), or NULL */
    bool of_a;
};
void fl_gemm_epilogue(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g,
                      const struct fl_epilogue *e);

/* From here on the program works on this value, "gpt.flow:22 h[*].attn.y": a range for profilers on cuda, and a span of
 * --trace; NULL ends it. Must be literals. */
extern bool fl_tracing;                  /* the step under way is traced */
void fl_range(const char *text);
#ifdef FL_CUDA_TARGET
#define FL_RANGE(text) fl_range(text)
#else
#define FL_RANGE(text) (fl_tracing ? fl_range(text) : (void)0)
#endif

/* A call in the room that the plan has for what its kernel works in besides operands and results; where that were too small the
 * kernel would take memory of its own. */
#define FL_IN_ROOM(p, bytes, ...)                                                                                       \
    do {                                                                                                                \
        fl_room_enter(p, bytes);                                                                                        \
        __VA_ARGS__;                                                                                                    \
        fl_room_leave();                                                                                                \
    } while (0)
void fl_room_enter(void *p, int64_t bytes);
void fl_room_leave(void);

/* ---- emitted kernels: FL_KERNEL name(FL_PARAMS int64_t n, float *o, const float *a) { FL_FOR1(i, n) { .. } } ---- */
#ifdef FL_CUDA_TARGET
}                                        /* of extern "C" */
#include "cuda/flow_dev.h"
extern "C" {
#else
#define FL_KERNEL static void
#define FL_PARAMS
#define FL_LAUNCH(kernel, elements, ...) kernel(__VA_ARGS__)
#define FL_PRAGMA(x) _Pragma(#x)
#define FL_FOR1(i, n) FL_PRAGMA(omp parallel for simd if ((n) > 32768)) for (int64_t i = 0; i < (n); i++)
#define FL_FOR2(i, n, j, m) \
    FL_PRAGMA(omp parallel for if ((int64_t)(n) * (m) > 32768)) for (int64_t i = 0; i < (n); i++) \
    FL_PRAGMA(omp simd) for (int64_t j = 0; j < (m); j++)
#endif
/* Of row work: sums of chunks of rows, which are `step` elements apart, added up over the chunks. */
void fl_row_columns(void *y, enum fl_type t, const float *parts, int64_t chunks, int64_t step, int64_t n);

/* ---- copies and fills ---- */
void fl_fill(float *y, float v, int64_t n);
void fl_fill_bytes(void *y, int byte, int64_t n_bytes);
void fl_copy(void *y, const void *x, int64_t n, int element_bytes);
/* y[i..] = x[i..] over `ndim` extents with strides in elements (0: broadcast). */
struct fl_strided { int ndim; int64_t n[FL_MAX_DIM], sy[FL_MAX_DIM], sx[FL_MAX_DIM]; };
void fl_copy_strided(void *y, const void *x, const struct fl_strided *s, int element_bytes);
/* y[outer, ny, inner], rows [at, at + n) of the middle = x[outer, n, inner]; the rest is left alone (concat, stack). */
void fl_put(void *y, const void *x, int64_t outer, int64_t ny, int64_t at, int64_t n, int64_t inner, int element_bytes);
/* y[outer, n, inner] = rows [at, at + n) of x[outer, nx, inner] (slice, unstack). */
void fl_take(void *y, const void *x, int64_t outer, int64_t nx, int64_t at, int64_t n, int64_t inner,
             int element_bytes);
/* first: acc = x; otherwise x is added, or the larger or smaller of both is kept. */
void fl_accumulate(float *acc, const float *x, int64_t n, bool first, enum fl_reduce kind);
void fl_accumulate_bf16(fl_bf16 *acc, const fl_bf16 *x, int64_t n, bool first, enum fl_reduce kind);
void fl_accumulate_f16(fl_f16 *acc, const fl_f16 *x, int64_t n, bool first, enum fl_reduce kind);
void fl_fill_bf16(fl_bf16 *y, float v, int64_t n);
void fl_fill_f16(fl_f16 *y, float v, int64_t n);
/* As fl_copy and fl_copy_strided, from one float type to another. */
void fl_convert(void *y, enum fl_type ty, const void *x, enum fl_type tx, int64_t n);
void fl_convert_strided(void *y, enum fl_type ty, const void *x, enum fl_type tx, const struct fl_strided *s);
void fl_positions(int32_t *y, int64_t base, int64_t n);

/* ---- reductions ----
 * x has ndim extents n; bit d of `reduced` says that dim d is reduced; y holds the other dims in order. Of a reduced
 * dim only the first valid[d] entries take part: the rest is padding. */
struct fl_dims {
    int ndim;
    int64_t n[FL_MAX_DIM];
    int64_t valid[FL_MAX_DIM];           /* local; n[d] where there is no padding; 0 .. n[d] */
    unsigned reduced;
    double divisor;                      /* mean: the number of valid entries of the whole logical tensor */
};
void fl_sum(float *y, const float *x, const struct fl_dims *d);
void fl_max(float *y, const float *x, const struct fl_dims *d);                               /* of nothing: -inf */
void fl_min(float *y, const float *x, const struct fl_dims *d);                               /* of nothing: inf */
void fl_mean(float *y, const float *x, const struct fl_dims *d);
/* Without has_ignore x is bool (bytes): true entries; with it x is i32: entries other than ignore. */
void fl_count(float *y, const void *x, const struct fl_dims *d, bool has_ignore, int32_t ignore);
/* One reduced dim: index of the first largest entry. */
void fl_argmax(int32_t *y, const float *x, const struct fl_dims *d);

/* y and x of types of their own */
void fl_sum_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d);
void fl_max_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d);
void fl_min_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d);
void fl_mean_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d);
void fl_argmax_as(int32_t *y, const void *x, enum fl_type t, const struct fl_dims *d);

/* ---- normalisation over the last dim, rows x n; weight and bias may be NULL, so may any result of a gradient ---- */
void fl_layer_norm(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n,
                   float eps);
void fl_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                        int64_t rows, int64_t n, float eps);
void fl_rms_norm(float *y, const float *x, const float *weight, int64_t rows, int64_t n, float eps);
void fl_rms_norm_grad(float *dx, float *dweight, const float *dy, const float *x, const float *weight, int64_t rows,
                      int64_t n, float eps);

/* With a type for each tensor, in the order of the arguments. */
void fl_layer_norm_as(void *y, const void *x, const void *weight, const void *bias, int64_t rows, int64_t n, float eps,
                      enum fl_type ty, enum fl_type tx, enum fl_type tw, enum fl_type tb);
void fl_layer_norm_grad_as(void *dx, void *dweight, void *dbias, const void *dy, const void *x, const void *weight,
                           int64_t rows, int64_t n, float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdb,
                           enum fl_type tdy, enum fl_type tx, enum fl_type tw);
void fl_rms_norm_as(void *y, const void *x, const void *weight, int64_t rows, int64_t n, float eps, enum fl_type ty,
                    enum fl_type tx, enum fl_type tw);
void fl_rms_norm_grad_as(void *dx, void *dweight, const void *dy, const void *x, const void *weight, int64_t rows, int64_t n,
                         float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdy, enum fl_type tx, enum fl_type tw);

/* ---- softmax over the reduced dims, all results of x's shape; padding entries of results are 0; y: forward result
 * ---- */
void fl_softmax(float *y, const float *x, const struct fl_dims *d);
void fl_softmax_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d);
void fl_log_softmax(float *y, const float *x, const struct fl_dims *d);
void fl_log_softmax_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d);

/* all tensors of type t */
void fl_softmax_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d);
void fl_softmax_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d);
void fl_log_softmax_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d);
void fl_log_softmax_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d);

/* ---- attention: y[b,h,t,:] = sum_s softmax_s(scale q.k[s] + mask) v[s,:], without the T x T matrix in memory ----
 * q and y have `heads`, k and v `kv_heads` heads (heads a multiple; head h reads h / (heads/kv_heads)). Strides in
 * elements of batch, head and position; the last dim is contiguous. Query t stands at t + causal_shift among the keys.
 * causal: it sees no later key. window: nor one that is `window` or more positions away. documents: only keys whose
 * number is its own. keep: bytes [batch, tk], 0 = key unseen, or NULL. A query that sees nothing gives 0. */
struct fl_attention {
    int64_t batch, heads, kv_heads, tq, tk, dk, dv;
    float scale;
    bool causal;
    int64_t causal_shift;                /* positions of the first query minus that of the first key */
    int64_t window;                      /* 0: none */
    int64_t q[3], k[3], v[3], y[3];      /* strides: batch, head, position */
    int64_t gq[3], gk[3], gv[3], gy[3];  /* of dq, dk, dv, dy; only fl_attention_grad reads them (and not y) */
    int64_t keep_stride[4]; /* keep[b, h, t, s] = keep[sum of index * stride]; stride 0 where it has no such dim */
    const int32_t *documents;            /* one number for each key position, or NULL */
    int64_t document_stride[2];          /* batch, position */
};
void fl_attention(float *y, const float *q, const float *k, const float *v, const uint8_t *keep,
                  const struct fl_attention *a);
void fl_attention_grad(float *dq, float *dk, float *dv, const float *dy, const float *q, const float *k, const float *v,
                       const uint8_t *keep, const struct fl_attention *a);

/* q, k, v, y and their gradients of type t. */
void fl_attention_as(void *y, const void *q, const void *k, const void *v, const uint8_t *keep, enum fl_type t,
                     const struct fl_attention *a);
void fl_attention_grad_as(void *dq, void *dk, void *dv, const void *dy, const void *q, const void *k, const void *v,
                          const uint8_t *keep, enum fl_type t, const struct fl_attention *a);

/* ---- rope: rotates pairs of the last dim by position * base^(-2i/n); half: pairs (i, i + n/2), else (2i, 2i + 1).
 * x is outer x T x inner x n, position = first + index in T. inverse: rotates back (the gradient). y may be x. ---- */
void fl_rope(float *y, const float *x, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first, float base,
             bool half, bool inverse);

void fl_rope_as(void *y, const void *x, enum fl_type type, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first,
                float base, bool half, bool inverse);

/* ---- embedding: w holds rows [base, base + rows) of the table; ids outside give 0 (they are another rank's) ---- */
void fl_embedding(float *y, const int32_t *ids, const float *w, int64_t count, int64_t base, int64_t rows, int64_t n);
void fl_embedding_grad(float *dw, const float *dy, const int32_t *ids, int64_t count, int64_t base, int64_t rows,
                       int64_t n);

/* w and y, or dy, of type t */
void fl_embedding_as(void *y, const int32_t *ids, const void *w, enum fl_type t, int64_t count, int64_t base, int64_t rows,
                     int64_t n);
void fl_embedding_grad_as(float *dw, const void *dy, enum fl_type t, const int32_t *ids, int64_t count, int64_t base,
                          int64_t rows, int64_t n);

/* ---- along one dim: the one that is `reduced` in d, which describes x ---- */
void fl_cumsum(float *y, const float *x, const struct fl_dims *d, bool reverse);     /* running sums; 0 in padding */
/* The k largest, largest first, of equal ones the first; both results may be NULL. They have k entries in that dim. */
void fl_top_k(float *values, int32_t *indices, const float *x, const struct fl_dims *d, int64_t k);
/* y[o, j, i] = x[o, indices[o, j, i] - base, i], 0 outside; y and indices have `count` entries in the dim. */
void fl_gather(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base);
void fl_gather_as(void *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count,
                  int64_t base);
/* y = 0, then y[o, indices[o, j, i] - base, i] += x[o, j, i] in the order of j; y has `count` entries in the dim. */
void fl_scatter(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base);

/* floats of type t; the sums of a scatter stay f32 */
void fl_cumsum_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d, bool reverse);
void fl_top_k_as(void *values, int32_t *indices, const void *x, enum fl_type t, const struct fl_dims *d, int64_t k);
void fl_scatter_as(float *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count,
                   int64_t base);

/* ---- cross entropy, in pieces: each is partial over the parts of a split vocabulary, by max or by sum ----
 * logits rows x n are columns [base, base + n) of the classes; those from `valid` (logical size of the whole
 * vocabulary) on are padding and count as -inf. A row whose target is `ignore` has loss 0 and gradient 0. With m, s and p complete
 * the loss is m + log(s) - p = (1 - smoothing) (lse - x[target]) + smoothing (lse - mean of valid x). */
void fl_ce_max(float *m, const float *logits, int64_t rows, int64_t n, int64_t base, int64_t valid); /* P(max) */
void fl_ce_sum_exp(float *s, const float *logits, const float *m, int64_t rows, int64_t n, int64_t base,
                   int64_t valid); /* P(sum) */
/* P(sum): (1-smoothing) (m - x[target]) + smoothing mean of m - x over valid x; 0 if ignored. */
void fl_ce_below(float *p, const float *logits, const float *m, const int32_t *target, int64_t rows, int64_t n, int64_t base,
                 int64_t valid, int32_t ignore, float smoothing);
void fl_ce_grad(float *dlogits, const float *dloss, const float *logits, const float *m, const float *s,
                const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                float smoothing);

/* logits, and dlogits, of type t */
void fl_ce_max_as(float *m, const void *logits, enum fl_type t, int64_t rows, int64_t n, int64_t base, int64_t valid);
void fl_ce_sum_exp_as(float *s, const void *logits, enum fl_type t, const float *m, int64_t rows, int64_t n, int64_t base,
                      int64_t valid);
void fl_ce_below_as(float *p, const void *logits, enum fl_type t, const float *m, const int32_t *target, int64_t rows,
                    int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing);
void fl_ce_grad_as(void *dlogits, const float *dloss, const void *logits, enum fl_type t, const float *m, const float *s,
                   const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                   float smoothing);

/* ---- cross entropy of x w^T, without these logits: `chunk` rows of them at a time ----
 * x: rows x d; w: n x d, or d x n where `turned`; of the n classes those from `valid` on are padding. loss[i] as above, 0 where
 * ignored. With dloss: dx is the gradient of sum(dloss loss) and dw too, added to what is there with `add`; both may be NULL.
 * Without dloss only the loss is made. room: chunk * n floats. */
struct fl_linear_ce {
    int64_t rows, chunk, d, n, base, valid;          /* base: of the n classes the first; fl_linear_cross_entropy has all */
    bool turned, add;
    int32_t ignore;
    float smoothing;
};
void fl_linear_cross_entropy(float *loss, float *dx, float *dw, const float *x, const float *w, const float *dloss,
                             const int32_t *target, float *room, const struct fl_linear_ce *c);
/* x and w of one type, dx of that or f32, dw f32. */
void fl_linear_cross_entropy_as(float *loss, void *dx, void *dw, const void *x, const void *w, const float *dloss,
                                const int32_t *target, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw,
                                enum fl_type tdx, enum fl_type tdw);
/* Where w holds only classes [base, base + n). Of each of `groups` groups of them, [groups, rows] each: their largest logit
 * (-FLT_MAX: there is none), sum of exp(l - most), sum of t (most - l) and sum of t, t = (1 - smoothing) [target] + smoothing /
 * valid, 0 if ignored. The first n mod groups have one class more than the others. */
void fl_linear_ce_parts(float *most, float *sum, float *below, float *weight, const float *x, const float *w, const int32_t *target,
                        int64_t groups, float *room, const struct fl_linear_ce *c);
void fl_linear_ce_parts_as(float *most, float *sum, float *below, float *weight, const void *x, const void *w, const int32_t *target,
                           int64_t groups, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw);
/* The share of dx that these classes have, and their dw, with m and s of whole rows known: logits and their gradient are made again. */
void fl_linear_ce_parts_grad(float *dx, float *dw, const float *x, const float *w, const float *dloss, const float *m, const float *s,
                             const int32_t *target, float *room, const struct fl_linear_ce *c);
void fl_linear_ce_parts_grad_as(void *dx, void *dw, const void *x, const void *w, const float *dloss, const float *m, const float *s,
                                const int32_t *target, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw,
                                enum fl_type tdx, enum fl_type tdw);
/* Their middles: rows of n logits, `apart` from one to the next; and, as fl_ce_rows has it, the gradient in their place. */
void fl_ce_parts(float *most, float *sum, float *below, float *weight, const float *logits, int64_t apart, const int32_t *target,
                 int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing);
void fl_ce_parts_grad(float *logits, enum fl_type t, const float *dloss, const float *m, const float *s, const int32_t *target,
                      int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing);
/* Its middle: from logits rows x n the losses and, with dloss, the gradient of type t where each row of them begins. */
void fl_ce_rows(float *loss, float *logits, enum fl_type t, const float *dloss, const int32_t *target, int64_t rows, int64_t n,
                int64_t valid, int32_t ignore, float smoothing);

/* ---- random: element i of the logical tensor depends on (seed, path hash, step, block, i) only ---- */
struct fl_place {                        /* the local part of a logical tensor */
    int ndim;
    int64_t n[FL_MAX_DIM];               /* local extents */
    int64_t base[FL_MAX_DIM];            /* first index in the logical dim */
    int64_t size[FL_MAX_DIM];            /* logical sizes, without padding */
};
/* y = keep ? x / (1 - p) : 0. The gradient is the same call on dy. y may be x. */
void fl_dropout(float *y, const float *x, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                const struct fl_place *at);

void fl_dropout_as(void *y, const void *x, enum fl_type t, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                   const struct fl_place *at);

/* ---- optimizer (formulas of PyTorch) ----
 * On cuda, calls of fl_square_sum and of updates are gathered within a step: a program calls fl_gathered before anything else
 * that follows them, and all are made in one launch; where both are of one gradient, it is read once. t: the type of g, or x. */
void fl_gathered(void);
void fl_square_sum(float *y, const void *x, enum fl_type t, int64_t n);      /* one number; summed in double */
void fl_global_norm(float *y, const float *squares, int64_t n);              /* sqrt of the sum, in order */
void fl_clip_scale(float *y, const float *norm, float clip);    /* min(1, clip / (norm + 1e-6)); NaN: not finite */
void fl_loss_scale(float *y, const struct fl_step *s);
/* scale: pointer to the factor on g, or NULL for 1; where it is NaN nothing changes. Number of the update from s->update (0 is the
 * first). lr_scale: factor on s->lr. */
void fl_adamw(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
              int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale);
void fl_sgd(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *momentum_buffer, const float *scale,
            int64_t n, float momentum, float decay, float lr_scale); /* momentum_buffer NULL when momentum is 0 */
void fl_adam(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
             int64_t n, float beta1, float beta2, float eps, float decay, float lr_scale); /* decay in the gradient, not apart */
void fl_lion(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, const float *scale, int64_t n,
             float beta1, float beta2, float decay, float lr_scale); /* the update is lr times a sign */
/* Muon, before and after the momentum is made orthogonal: m is the next one, u what it looks ahead to; o is u made orthogonal. */
void fl_muon_momentum(const struct fl_step *s, float *m, float *u, const void *g, enum fl_type t, const float *scale, int64_t n,
                      float momentum);
void fl_muon(const struct fl_step *s, float *w, const float *o, const float *scale, int64_t n, float factor, float decay,
             float lr_scale);
/* e = decay e + (1 - decay) w, and w in the first update; w is the new weight. Gathered in a launch behind that of updates. */
void fl_ema(const struct fl_step *s, float *e, const float *w, const float *scale, int64_t n, float decay);
/* After an update without a scale: nothing when *scale is 1, else the same update by *scale from the copies kept before it. */
void fl_adamw_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
                   const float *kept_w, const float *kept_m, const float *kept_v, int64_t n, float beta1, float beta2,
                   float eps, float decay, float lr_scale);
void fl_adam_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, float *v, const float *scale,
                  const float *kept_w, const float *kept_m, const float *kept_v, int64_t n, float beta1, float beta2, float eps,
                  float decay, float lr_scale);
void fl_lion_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *m, const float *scale,
                  const float *kept_w, const float *kept_m, int64_t n, float beta1, float beta2, float decay, float lr_scale);
void fl_sgd_redo(const struct fl_step *s, float *w, const void *g, enum fl_type t, float *momentum_buffer, const float *scale,
                 const float *kept_w, const float *kept_momentum, int64_t n, float momentum, float decay, float lr_scale);

#ifdef __cplusplus
}
#endif
#endif
