/* The module: a whole program after elaborate. Parameters and plans are shared by all entries; each entry has its own
 * logical graph over the same parameters. */
#ifndef FLOWC_MODULE_H
#define FLOWC_MODULE_H
#include "ast.h"
#include "graph.h"
#include "../runtime/fl_lr.h"
#include "../runtime/fl_readers.h"

struct firing;

struct options {                 /* the command line, as far as passes care */
    const char *file;
    const char *plan;            /* NULL: the first one */
    const char *target;          /* "cuda" or "cpu" */
    const char *out;             /* directory or NULL */
    struct { const char *name; const char *value; bool used; } *set;   /* stb_ds array of --set NAME=VALUE */
    const char *explain;         /* --explain NAME, or NULL */
    const char *cluster;         /* --cluster: a name or a file, or NULL */
    bool check, time;
    enum verify { VERIFY_CHEAP, VERIFY_ALWAYS, VERIFY_NEVER } verify;    /* against the logical graph: where it costs little */
    int64_t microbatches;        /* not 0: instead of what the plan says (prove/shrink.c) */
    /* a plan that the user did not write, tried for advice (allocate/advise.c): its axis `wider` has so many times the
     * ranks, and the lines `recompute PATTERN` and `shard .. over` the axes are added; each may be absent */
    bool trial;
    const char *wider, *recompute;
    unsigned offload;            /* OFFLOAD_.. besides those of the plan */
    int wider_times;
    int shard;                   /* enum shard_level */
    unsigned shard_axes;
    const char *spoil;           /* --spoil: a fault put into the physical graph on purpose, or NULL */
};

/* ---- parameters ---- */

enum init { INIT_ZEROS, INIT_ONES, INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM };
struct param {
    int index;                   /* declaration order: the order of norms, files and random numbers */
    const char *path;            /* "h[*].attn.qkv_weight" */
    enum type type;
    int ndim;
    struct dim *dim[MAX_DIM];    /* one block's shape */
    int64_t *stack;              /* stb_ds array: repeat counts around it, outermost first; empty at top level */
    int64_t *first, *total;      /* stb_ds arrays beside stack: the first block here, and the blocks of the whole repeat.
                                    A repeat in pieces has a parameter in each, adjacent, of one path */
    struct param *of;            /* optimizer state: the parameter it belongs to */
    struct param *average;       /* the state that is its moving average, or NULL */
    struct span span;            /* the declaration in the layer */
    enum init init;
    double init_a, init_b;       /* normal: std, -; constant: value; uniform: low, high */
    bool is_state;               /* `state`, or optimizer state: not differentiated */
    bool frozen;
    double decay;                /* weight decay, 0 when no `decay on` pattern names it */
    int rows;                    /* muon: it is a matrix, whose rows are so many of its dims; 0: none */
    double lr_scale;             /* factor on the learning rate, 1 when no `lr_scale on` pattern names it */
    struct layout lay;           /* storage layout, one for all entries; set by shard */
    unsigned flat;               /* axes over which its update is shared out (`shard`): its piece is stored so that it can be
                                    cut into shares; set by shard */
    const struct plan_line *line;    /* the sbp or pin line that asked for it, or NULL; set by shard */
    /* files: how it is named there; NULL: under its own path with indices */
    struct span file_span;       /* of the line that gives its names in files */
    const char **file_names;     /* stb_ds array: "h.{i}.attn.c_attn.weight"; {0} {1}.. are the repeat indices, outermost first.
                                    Several: tensors of one shape, stacked along a new dim 0 */
    int64_t *file_shape;         /* stb_ds array or NULL: the shape in the file, of all of them stacked */
    int *file_order;             /* stb_ds array or NULL: the parameter's elements are those of file_shape with its dims in
                                    this order: [2, 0, 1] makes [D, 2, F] of [2, F, D]. NULL: as they are */
};

const char *param_text(const struct param *p);       /* its path, with the blocks of a piece: "h[0..2].attn.w" */
const char *value_text(const struct value *v);       /* the same of a value; one block alone is "h[0].attn.y" */

struct file_rules {
    const char **ignore;         /* stb_ds array of patterns of names in a file that are skipped */
    const char **prefix;         /* stb_ds array of optional prefixes */
};

/* ---- plans ---- */

enum line_kind { LINE_SBP, LINE_PIN, LINE_SAVE, LINE_PLACE, LINE_RECOMPUTE };
struct layout_part {             /* one `axes: S(N) uneven` of a layout line, still by name */
    unsigned axes;               /* bit set, or 0 for axes the mesh lacks */
    int major[MAX_AXIS], nmajor; /* the axes in the order written, major to minor */
    enum sbp_kind kind;
    enum reduce reduce;
    const char *dim_name;        /* S(N) */
    int dim_index;               /* S(0); -1 when a name was written */
    bool uneven;
    struct span span;
};
struct plan_line {
    enum line_kind kind;
    const char *pattern;         /* "h[*].attn.*_weight" */
    struct span span, pattern_span;
    struct layout_part *parts;   /* stb_ds array: sbp, pin, save */
    int64_t stage_low, stage_high;   /* place: [low, high) along the pipeline axis */
    int matches;                 /* values that took it; 0 at the end is E_PATTERN */
};

struct expectation {             /* expect comm h[i] per microbatch, forward : all_reduce(tp) == 2 */
    const char *pattern;         /* as written; one_block: some index is a name */
    bool one_block, per_microbatch;
    int phase;                   /* enum phase, or -1: all */
    const char *kind;            /* "all_reduce" */
    unsigned axes;
    bool at_most;
    int64_t count;
    struct span span, pattern_span;
};

struct precision {               /* precision bf16 { master f32; grads f32; reduce f32; keep f32 on [..] } */
    enum type type;              /* TYPE_F32: no line */
    enum type master, grads, reduce;
    const char **keep;           /* stb_ds arrays: patterns of what stays f32 */
    struct span *keep_span;
    double loss_scale;           /* f16: where the factor on the loss starts; 0: there is none */
    int64_t growth_interval;     /* good steps until it is doubled */
    struct span span;
};

enum schedule_kind {
#define SCHEDULE(id, name, spelling, chunks, splits, vee, alone, doc) SCHEDULE_##id,
#include "schedules.def"
#undef SCHEDULE
    SCHEDULES
};
extern const char *const schedule_name[SCHEDULES];   /* as in the language: "one_f_one_b" */
extern const bool schedule_alone[SCHEDULES];         /* a barrier after every step undoes what it saves */
enum shard_level { SHARD_NOTHING, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS };
extern const char *const shard_level_name[];         /* as in the language; "" first */
struct shard_line {              /* shard optimizer | gradients | parameters over dp: each includes the one before */
    enum shard_level level;
    unsigned axes;
    bool keep;                   /* keep after forward: the backward finds gathered parameters */
    bool prefetch;               /* prefetch 1: the gather of the next block's parameters is started a block ahead */
    int64_t bucket_bytes;        /* most in one reduction of gradients; 0: all */
    struct span span;
};
/* offload optimizer, activations, parameters to host: what lives in host memory and comes to the device to be used */
enum { OFFLOAD_OPTIMIZER = 1, OFFLOAD_ACTIVATIONS = 2, OFFLOAD_PARAMETERS = 4 };
struct plan {
    const char *name;
    struct span span;
    struct mesh mesh;
    int64_t microbatches;        /* >= 1 */
    int64_t microbatches_written;        /* .. as the program says, where options->microbatches goes before it */
    struct dim *mb_dim;          /* NULL without a line */
    struct span mb_span;
    enum schedule_kind schedule;
    int chunks;                  /* virtual stages that a stage holds, as the schedule asks; 0 as 1 */
    bool vee;                    /* the second half of them walks the stages back */
    bool split_backward;         /* weight gradients have a phase of their own (PHASE_WEIGHT) */
    const char *schedule_file;   /* SCHEDULE_FILE: as written, without quotes */
    struct firing **given;       /* its order, per stage a stb_ds array; NULL without */
    struct span **given_span;    /* the lines it stands in */
    struct span pipeline_span, schedule_span;
    const char *split;           /* path of the repeat that is cut, or NULL */
    struct span split_span;      /* `split h = [..]` */
    bool split_uneven;
    int64_t *split_counts;       /* stb_ds array: blocks per stage as written, or NULL */
    struct plan_line *lines;     /* stb_ds array, in program order */
    struct expectation *expect;  /* stb_ds array */
    struct shard_line shard;
    unsigned offload;            /* OFFLOAD_.. */
    struct span offload_span;
    double memory_bytes;         /* of the device; 0: no limit */
    struct span memory_span;
    bool strict;
    struct precision precision;
    double gap[ENTRIES];         /* after shard: seconds of a step that the chosen layouts may be above the optimum; 0: none */
    struct ast *ast;
};

/* Stages and virtual stages (place/virtual.c). A stage is a coordinate of the pipeline axis, one rank class, one program.
 * A virtual stage is a range of blocks of the split repeat; data flows from each to the next. A stage holds plan_chunks()
 * of them: u goes to stage u mod p, chunk u div p, with `vee` u >= p to stage 2p-1-u. Virtual stage s is chunk 0 of
 * stage s, always. */
int plan_stages(const struct plan *p);
int plan_chunks(const struct plan *p);
int stage_of(const struct plan *p, int virtual_stage);
int chunk_of(const struct plan *p, int virtual_stage);
int virtual_of(const struct plan *p, int stage, int chunk);

/* Blocks, half-open, for each index of a path, outermost first: index k is of the k-th repeat around the value. */
struct block_ranges { int64_t low[MAX_STACK], high[MAX_STACK]; };
/* Does the path match the pattern? `*` is any text, dots included; inside [ ] any index. Paths hold `[*]` for every
 * repeat index; a pattern index such as h[3] or h[0..4] matches h[*], and `blocks` (may be NULL) says what it is about. */
bool pattern_match(const char *pattern, const char *path, struct block_ranges *blocks);
/* The same for a path or anything beneath the call it names: frozen, decay on. */
bool pattern_covers(const char *pattern, const char *path, struct block_ranges *blocks);
/* The same for a value under any of its names, whatever its blocks. */
bool value_matches(const struct value *v, const char *pattern, struct block_ranges *blocks);
/* Is a line about this value or parameter? Its name matches and all its blocks are meant. Once repeats are cut, a line
 * is about all blocks of a piece or about none; --explain h[2].x asks for a piece that holds the block. */
bool value_meant(const struct value *v, const char *pattern);
bool region_meant(const struct region *r, const struct block_ranges *b);
int64_t region_touched(const struct region *r, const struct block_ranges *b);      /* how many of its blocks are meant */
bool param_meant(const struct param *p, const char *pattern, bool beneath);

/* ---- entries ---- */

enum lr_kind {
#define LR(id, name, rate) LR_##id,
    FL_LR_KINDS(LR)
#undef LR
};
struct op;
struct data_file { const char *name, *mask; double weight; };     /* mask: NULL without */
struct data_binding {            /* tokens, targets = next_token("f", u16) */
    const char *inputs[2];       /* names of model inputs, in order */
    int ninput;
    enum fl_reader reader;
    enum fl_element element;
    struct data_file *files;     /* stb_ds array */
    bool weighted, shuffle;
    double low, high;            /* the part of each file that is read, from 0 to 1 */
    double scale, shift;         /* raw: the tensor is element * scale + shift; 1 and 0 without arithmetic */
    int64_t limit;               /* i32: numbers are indices below this; 0: any number */
    bool has_ignore;             /* .. or this one */
    int64_t ignore;
    bool has_blank;              /* targets that are this token become `ignore` */
    int64_t blank;
    struct span span, blank_span;        /* blank_span: of what needs targets with an ignore value */
};
struct train_spec {
    bool present;
    struct span span;
    struct data_binding *data;   /* stb_ds array */
    int64_t steps;
    const struct op *optimizer;  /* ops/optimizer.c; NULL: none is given */
    enum lr_kind lr_kind;
    double lr_peak, lr_floor;
    int64_t lr_warmup, lr_decay;
    double beta1, beta2, eps, momentum;
    bool skip;                   /* a step whose gradients are not finite changes nothing, without clip_norm too */
    double clip;                 /* 0: no clipping */
    bool deferred;               /* the update goes ahead of the norm, and is done again where the norm exceeds clip */
    double ema;                  /* decay of a moving average of each weight; 0: none is kept */
    bool largest;                /* `norm inf`: the norm is the largest entry of all gradients, not the root of their squares */
    uint64_t seed;
};
struct module;
bool train_skips(const struct module *m);    /* a step whose norm is not finite changes nothing */
double train_lr(const struct train_spec *t, int64_t step);         /* learning rate of a step, from 0; ops/optimizer.c */
struct evaluate_spec {
    bool present;
    int64_t every, steps;
    struct data_binding *data;
    bool ema;                    /* of the averages of the weights */
};
struct sample_spec {
    bool present;
    const char *prompt;          /* NULL: a newline */
    int64_t tokens;              /* how many to make */
    double temperature;
    int64_t top_k;               /* 0: all */
    const char *output;          /* which output holds logits [N, T, V]; default "logits" */
    int64_t every;               /* 0: at the end of training only */
    bool ema;
};

struct module {
    struct options *options;
    struct ast **programs;       /* the main file and its imports */
    struct dim **dims;           /* stb_ds array: declared dims */
    struct user_op **user_ops;   /* stb_ds array: declared ops (user_op.h) */
    struct param **params;       /* stb_ds array, declaration order; optimizer states follow */
    struct plan **plans;         /* stb_ds array */
    struct plan *plan;           /* the chosen one, elaborated; others have only name and ast */
    const char *model;
    struct span model_span;
    struct train_spec train;
    struct evaluate_spec evaluate;
    struct sample_spec sample;
    struct file_rules files;
    struct graph *graph[ENTRIES];     /* logical; NULL for entries the program lacks */
    struct physical *physical;        /* after box */
    char *explained;                  /* after shard, with options->explain */
    const struct module *large;       /* this is that program at small sizes: what depends on them is decided as there (prove/shrink.c) */
    struct verdict *verdict;          /* after prove (prove/verify.h); NULL with --no-verify */
};
#endif
