/* A whole program as flowc would emit it, written by hand: a bigram table w [V, V], logits = w[tokens], cross entropy
 * over all targets that are not ignored, AdamW with clipping; two micro-batches; data-parallel over RANKS ranks;
 * evaluation and sampling. V is 250, its columns padded to 256. e[*] takes no part in the model: two blocks of [3, 5],
 * split unevenly over the ranks and transposed in files, for the sake of initial values, files and checkpoints. */
#define HAS_PROGRAM
#include "compare.h"

enum { N = 8, T = 16, V = 250, PHYS = 256, M = 2, ROWS = N / RANKS / M * T };
enum { DP, MB };
enum { TRAIN_TOKENS, TRAIN_TARGETS, EVAL_TOKENS, EVAL_TARGETS, SAMPLE_TOKENS };
enum { LOSS, NORM, EVAL_LOSS, LOGITS };
enum { W = V * PHYS };

#define BATCH { .path = "tokens", .type = FL_I32, .ndim = 2, .dim = { { N, N, 2, { DP, MB } }, { T, T, 0, { 0 } } } }
static const struct fl_input inputs[] = {
    { FL_TRAIN, "tokens", BATCH, 0, 0 },
    { FL_TRAIN, "targets", BATCH, 0, 1 },
    { FL_EVALUATE, "tokens", BATCH, 1, 0 },
    { FL_EVALUATE, "targets", BATCH, 1, 1 },
    { FL_SAMPLE, "tokens", BATCH, -1, 0 },
};
static const struct fl_data_file train_files[] = { { "train.bin", NULL, 1 } }, held_files[] = { { "held.bin", NULL, 1 } };
#define TOKENS(of, files, at)                                                                                        \
    { .entry = of, .reader = FL_READER_NEXT_TOKEN, .element = FL_ELEMENT_U16, .nfile = 1, .file = files, .high = 1, \
      .limit = V, .where = at, .scale = 1 }
static const struct fl_data data[] = {
    TOKENS(FL_TRAIN, train_files, "bigram.flow:9"),
    TOKENS(FL_EVALUATE, held_files, "bigram.flow:12"),
};
static const struct fl_output_spec outputs[] = {
    { FL_TRAIN, "loss", { "loss", FL_F32, 0, { { 0 } } } },
    { FL_TRAIN, "grad_norm", { "grad_norm", FL_F32, 0, { { 0 } } } },
    { FL_EVALUATE, "loss", { "loss", FL_F32, 0, { { 0 } } } },
    { FL_SAMPLE,
      "logits",
      { "logits", FL_F32, 3, { { N, N, 2, { DP, MB } }, { T, T, 0, { 0 } }, { V, PHYS, 0, { 0 } } } } },
};
static const struct fl_comm_spec comms[] = { { "dp", 1u << DP, 0, NULL } };
const struct fl_program_spec fl_program = {
    .name = "bigram.flow",
    .plan = "dp",
    .nranks = RANKS,
    .naxis = 2,
    .axis_name = { "dp", "mb" },
    .axis_size = { RANKS, M },
    .axis_stride = { 1, 0 },
    .pipe = -1,
    .mb = MB,
    .microbatches = M,
    .ncomm = 1,
    .comm = comms,
    .ninput = 5,
    .input = inputs,
    .ndata = 2,
    .data = data,
    .noutput = 4,
    .output = outputs,
    .train = true,
    .steps = 100,
    .tokens = N * T,
    .lr = FL_LR_COSINE,
    .lr_peak = 0.05,
    .lr_floor = 0.005,
    .lr_warmup = 3,
    .seed = 1,
    .evaluate = true,
    .evaluate_every = 5,
    .evaluate_steps = 2,
    .sample = true,
    .sample_prompt = "the",
    .sample_prompt_bytes = -1,
    .sample_tokens = 40,
    .sample_temperature = 0.8,
    .sample_top_k = 20,
    .sample_output = "logits",
};

/* the arena, in floats */
enum {
    AT_W = 0,
    AT_M = AT_W + W,
    AT_V = AT_M + W,
    AT_G = AT_V + W,
    AT_PART = AT_G + W,
    AT_E = AT_PART + W,
    AT_LOGITS = AT_E + 64,
    AT_ROWS = AT_LOGITS + ROWS * PHYS,
    AT_IDS = AT_ROWS + 2 * ROWS,
    AT_PIECES = AT_IDS + 2 * ROWS,
    AT_SCALAR = AT_PIECES + 3 * ROWS,
    END = AT_SCALAR + 16
};
#define TABLE(name, at, start, is_state)                                                                               \
    {                                                                                                                  \
        .tensor = { name, FL_F32, 2, { { V, V, 0, { 0 } }, { V, PHYS, 0, { 0 } } } }, .count = { 1 },                      \
        .offset_bytes = 4 * (at), .init = start, .init_a = 0.02, .owner = true, .state = is_state                      \
    }
static const char *const names_of_e[] = { "e.{0}.w" };
static const struct fl_param params[] = {
    TABLE("w", AT_W, FL_NORMAL, false),
    { .tensor = { "e[*].weight", FL_F32, 2, { { 3, 3, 0, { 0 } }, { 5, 5, 1, { DP } } } },
      .nstack = 1,
      .stack = { 2 },
      .count = { 2 },
      .offset_bytes = 4 * AT_E,
      .init = FL_UNIFORM,
      .init_a = -1,
      .init_b = 1,
      .owner = true,
      .file_parts = 1,
      .file_names = names_of_e,
      .file_ndim = 2,
      .file_shape = { 5, 3 },
      .file_ordered = true,
      .file_order = { 1, 0 } },
    TABLE("w#m", AT_M, FL_ZEROS, true),
    TABLE("w#v", AT_V, FL_ZEROS, true),
};

static float *at(struct fl_run *run, int64_t offset) { return (float *)run->arena + offset; }

/* Reads a micro-batch and forms its logits; gives the rows of targets. */
static int32_t *forward(struct fl_run *run, int input, int mb, bool targets)
{
    int32_t *ids = (int32_t *)at(run, AT_IDS), *wanted = ids + ROWS;
    fl_read_input(run, input, mb, ids);
    if (targets)
        fl_read_input(run, input + 1, mb, wanted);
    fl_embedding(at(run, AT_LOGITS), ids, at(run, AT_W), ROWS, 0, V, PHYS);
    return wanted;
}

static const struct fl_dims all_rows = { .ndim = 1, .n = { ROWS }, .valid = { ROWS }, .reduced = 1 };

/* Row maxima, sums and distances, and from them the losses. */
static void cross_entropy(struct fl_run *run, const int32_t *targets)
{
    float *m = at(run, AT_PIECES), *s = m + ROWS, *p = s + ROWS, *loss = at(run, AT_ROWS), *x = at(run, AT_LOGITS);
    fl_ce_max(m, x, ROWS, PHYS, 0, V);
    fl_ce_sum_exp(s, x, m, ROWS, PHYS, 0, V);
    fl_ce_below(p, x, m, targets, ROWS, PHYS, 0, V, -1, 0);
    for (int r = 0; r < ROWS; r++)
        loss[r] = targets[r] == -1 ? 0 : logf(s[r]) + p[r];
}

static void add_loss(struct fl_run *run, const int32_t *targets, int mb)
{
    cross_entropy(run, targets);
    fl_sum(at(run, AT_SCALAR + 1), at(run, AT_ROWS), &all_rows);
    fl_accumulate(at(run, AT_SCALAR), at(run, AT_SCALAR + 1), 1, mb == 0, FL_SUM);
}

static void finish_loss(struct fl_run *run, int output)
{
    fl_at("bigram.flow:5", "all_reduce(dp) loss");
    fl_all_reduce(run->comm[0], at(run, AT_SCALAR), 1, FL_SUM);
    *at(run, AT_SCALAR) *= 1.0f / (N * T);
    fl_write_output(run, output, 0, at(run, AT_SCALAR));
}

static void train(struct fl_run *run)
{
    float *row_grad = at(run, AT_ROWS + ROWS);
    for (int mb = 0; mb < M; mb++) {
        int32_t *targets = forward(run, TRAIN_TOKENS, mb, true);
        add_loss(run, targets, mb);
        fl_fill(row_grad, 1.0f / (N * T), ROWS);
        fl_ce_grad(at(run, AT_LOGITS), row_grad, at(run, AT_LOGITS), at(run, AT_PIECES), at(run, AT_PIECES) + ROWS, targets,
                   ROWS, PHYS, 0, V, -1, 0);
        fl_embedding_grad(at(run, AT_PART), at(run, AT_LOGITS), (int32_t *)at(run, AT_IDS), ROWS, 0, V, PHYS);
        fl_accumulate(at(run, AT_G), at(run, AT_PART), W, mb == 0, FL_SUM);
    }
    finish_loss(run, LOSS);
    fl_at("bigram.flow:3", "all_reduce(dp) w");
    fl_all_reduce(run->comm[0], at(run, AT_G), W, FL_SUM);
    fl_square_sum(at(run, AT_SCALAR + 2), at(run, AT_G), FL_F32, W);
    fl_global_norm(at(run, AT_SCALAR + 3), at(run, AT_SCALAR + 2), 1);
    fl_clip_scale(at(run, AT_SCALAR + 4), at(run, AT_SCALAR + 3), 1);
    fl_write_output(run, NORM, 0, at(run, AT_SCALAR + 3));
    fl_adamw(&run->step, at(run, AT_W), at(run, AT_G), FL_F32, at(run, AT_M), at(run, AT_V), at(run, AT_SCALAR + 4), W, 0.9f,
             0.95f, 1e-8f, 0.1f, 1);
}

static void evaluate(struct fl_run *run)
{
    for (int mb = 0; mb < M; mb++)
        add_loss(run, forward(run, EVAL_TOKENS, mb, true), mb);
    finish_loss(run, EVAL_LOSS);
}

static void sample(struct fl_run *run)
{
    for (int mb = 0; mb < M; mb++) {
        forward(run, SAMPLE_TOKENS, mb, false);
        fl_write_output(run, LOGITS, mb, at(run, AT_LOGITS));
    }
}

static const struct fl_room rooms[1];
static const struct fl_class class_0 = { 0, 4 * END, 0, 4, params, { train, evaluate, sample }, 0, NULL, NULL, rooms };
static const struct fl_rank rank_0 = { 0, { 0, 0 }, &class_0, NULL };
#if RANKS > 1
static const struct fl_rank rank_1 = { 1, { 1, 0 }, &class_0, NULL };
const struct fl_rank *const fl_ranks[] = { &rank_0, &rank_1 };
#else
const struct fl_rank *const fl_ranks[] = { &rank_0 };
#endif
const int fl_rank_count = RANKS;
