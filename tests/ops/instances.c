/* The sample nodes. An op without a row here fails ops.table. */
#include "instances.h"
#include <math.h>
#include <string.h>

static const struct letter letters[] = {
    {'L', 2, 2}, {'M', 5, 5}, {'N', 7, 7}, {'K', 11, 11}, {'T', 4, 4}, {'H', 3, 3}, {'D', 8, 8}, {'V', 7, 9}, {'J', 35, 35},
    {'a', 6, 6}, {'b', 12, 12}, {'c', 18, 18}, {'d', 24, 24}, {'1', 1, 1},
};

const struct letter *letter_find(char name)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].name == name)
            return &letters[i];
    BUG("no dim is called %c", name);
}

int operands_read(const char *text, struct operand *to)
{
    int n = 0;
    for (const char *s = text; s && *s; n++) {
        struct operand o = {0};
        s += strspn(s, " ,");
        o.type = *s++;
        for (; *s && *s != ','; s++)
            if (*s != ' ')
                o.dim[o.ndim++] = *s;
        to[n] = o;
    }
    return n;
}

double random_value(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    double u = (double)(*state >> 8) / (1 << 24) * 2 - 1;
    return u + (u > 0 ? 0.15 : -0.15);
}

enum type operand_type(char type)
{
    return type == 'b' ? TYPE_BOOL : type == 'i' ? TYPE_I32 : TYPE_F32;
}

double operand_value(char type, uint32_t *state)
{
    static int clips;
    double x = random_value(state);
    switch (type) {
    case 'c': return clips++ % 2 ? 1 : 0.4;          /* a factor of clipping: any two sets of data have both cases */
    case 'b': return x > 0;
    case 'i': return (double)((int)(x * 1000 + 5000) % 5);
    case 'p': return x * x + 0.3;
    case 'w': return fabs(x) > 0.8 ? 40 * x : 3 * x;
    default: return 2 * x;
    }
}

static void set_axes(struct node *n, int64_t a, int64_t b, bool keep)
{
    int64_t axes[2] = {a, b};
    node_set_ints(n, "axes", axes, b < 0 ? 1 : 2);
    node_set_int(n, "keep", keep);
}

static void axis_0(struct node *n, struct dim **out)
{
    set_axes(n, 0, -1, false);
}

static void axis_1(struct node *n, struct dim **out)
{
    set_axes(n, 1, -1, false);
}

static void axis_1_keep(struct node *n, struct dim **out)
{
    set_axes(n, 1, -1, true);
}

static void axes_0_2(struct node *n, struct dim **out)
{
    set_axes(n, 0, 2, false);
}

static void one_axis(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 1);
}

static void ignore_3(struct node *n, struct dim **out)
{
    node_set_num(n, "ignore", 3);
}

static void by_columns(struct node *n, struct dim **out)
{
    node_set_int(n, "classes", 1);
    node_set_num(n, "ignore", 3);
}

static void groups(struct node *n, struct dim **out)
{
    node_set_int(n, "groups", out ? out[0]->size : 1);
}

static void groups_by_columns(struct node *n, struct dim **out)
{
    by_columns(n, out);
    groups(n, out);
}

static void to_dims(struct node *n, struct dim **out)
{
    node_set_ptr(n, "dims", out);
}

static void to_f32(struct node *n, struct dim **out)
{
    node_set_int(n, "type", TYPE_F32);
}

static void to_bf16(struct node *n, struct dim **out)
{
    node_set_int(n, "type", TYPE_BF16);
}

static void to_i32(struct node *n, struct dim **out)
{
    node_set_int(n, "type", TYPE_I32);
}

static void value_half(struct node *n, struct dim **out)
{
    node_set_num(n, "value", 0.5);
}

/* ---- contractions, views, index ops ---- */

#define SPEC(name, text)                                                                                               \
    static void name(struct node *n, struct dim **out)                                                                 \
    {                                                                                                                  \
        node_set_str(n, "spec", text);                                                                                 \
    }
SPEC(spec_mm, "mk,kn->mn")
SPEC(spec_batch, "lmk,lkn->lmn")
SPEC(spec_rows, "mn->m")
SPEC(spec_dot, "m,m->")
SPEC(spec_turn, "mnt->tmn")
SPEC(spec_chain, "mn,nt,td->md")
SPEC(spec_outer, "m,n->mn")

static void rotate(struct node *n, struct dim **out)
{
    node_set_ints(n, "axes", (int64_t[]){2, 0, 1}, 3);
}

/* Columns 2 to 5 of all rows. */
static void set_slice(struct node *n, int64_t rows)
{
    node_set_ints(n, "start", (int64_t[]){0, 2}, 2);
    node_set_ints(n, "stop", (int64_t[]){rows, 5}, 2);
}

static void slice_columns(struct node *n, struct dim **out)
{
    set_slice(n, n->in[0]->dim[0]->size);
}

static void unslice_columns(struct node *n, struct dim **out)
{
    set_slice(n, out[0]->size);
    node_set_ptr(n, "dims", out);
}

static void axis_first(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 0);
}

static void out_dim(struct node *n, struct dim **out)
{
    node_set_ptr(n, "dim", out[0]);
}

static void epsilon(struct node *n, struct dim **out)
{
    node_set_num(n, "eps", 1e-5);
}

static void causal(struct node *n, struct dim **out)
{
    node_set_int(n, "causal", 1);
}

static void window_2(struct node *n, struct dim **out)
{
    node_set_int(n, "window", 2);
}

static void causal_window_3(struct node *n, struct dim **out)
{
    node_set_int(n, "causal", 1);
    node_set_int(n, "window", 3);
}

static void top_2(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 1);
    node_set_int(n, "k", 2);
}

static void backwards(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 1);
    node_set_int(n, "reverse", 1);
}

static void roll_2(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 1);
    node_set_int(n, "shift", 2);
}

static void last_dim(struct node *n, struct dim **out)
{
    node_set_ptr(n, "dim", out[arrlen(out) - 1]);
}

static void axis_0_dim(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 0);
    node_set_ptr(n, "dim", out[0]);
}

static void axis_1_dim(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 1);
    node_set_ptr(n, "dim", out[1]);
}

static void rope_half(struct node *n, struct dim **out)
{
    node_set_num(n, "base", 100);
    node_set_str(n, "style", "half");
    node_set_int(n, "axis", 2);
}

static void rope_interleaved(struct node *n, struct dim **out)
{
    node_set_num(n, "base", 100);
    node_set_str(n, "style", "interleaved");
    node_set_int(n, "axis", 1);
}

static void smooth(struct node *n, struct dim **out)
{
    node_set_num(n, "smoothing", 0.1);
    node_set_num(n, "ignore", 3);
}

static void smooth_groups(struct node *n, struct dim **out)
{
    smooth(n, out);
    groups(n, out);
}

static void drop(struct node *n, struct dim **out)
{
    node_set_num(n, "p", 0.4);
    node_set_str(n, "key", "h[*].drop");
}

static void clip_one(struct node *n, struct dim **out)
{
    node_set_num(n, "clip", 1);
}

static struct train_spec training = {.lr_peak = 0.1, .lr_warmup = 2, .steps = 10, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-3,
                                     .momentum = 0.8};
static struct param trained = {.decay = 0.1, .lr_scale = 0.5};

static void update(struct node *n, struct dim **out)
{
    node_set_ptr(n, "train", &training);
    node_set_ptr(n, "param", &trained);
}

static void slowly(struct node *n, struct dim **out)
{
    node_set_num(n, "decay", 0.9);
    node_set_num(n, "momentum", 0.9);
}

#define BINARY(id, t)                                                                                                  \
    {&op_##id, t " MN, " t " MN"}, {&op_##id, t " MN, " t " N"}, {&op_##id, t " M1, " t " MN"}, {&op_##id, t " MN, " t}
#define UNARY(id, t) {&op_##id, t " MN"}, {&op_##id, t " V"}

const struct instance instances[] = {
    {&op_constant, "", value_half}, {&op_loss_scale, ""},
    BINARY(add, "f"), BINARY(sub, "f"), BINARY(mul, "f"), BINARY(div, "f"), BINARY(maximum, "f"), BINARY(minimum, "f"),
    UNARY(neg, "f"),
    BINARY(less, "f"), BINARY(less_equal, "f"), BINARY(greater, "f"), BINARY(greater_equal, "f"), BINARY(equal, "i"),
    BINARY(not_equal, "i"), BINARY(logical_and, "b"), BINARY(logical_or, "b"), UNARY(logical_not, "b"),
    {&op_where, "b MN, f MN, f MN"}, {&op_where, "b M1, f N, f MN"}, {&op_where, "b N, f MN, f"},
    {&op_mask, "f MN, b MN"}, {&op_mask, "f MN, b N"},
    UNARY(gelu, "f"), UNARY(gelu_exact, "f"), UNARY(silu, "f"), UNARY(relu, "f"), UNARY(tanh, "f"), UNARY(sigmoid, "f"),
    {&op_gelu_grad, "w MN, f MN"}, {&op_gelu_exact_grad, "w MN, f MN"}, {&op_silu_grad, "w MN, f MN"},
    {&op_relu_grad, "w MN, f MN"}, {&op_tanh_grad, "w MN, f MN"}, {&op_sigmoid_grad, "w MN, f MN"},
    UNARY(exp, "f"), UNARY(log, "p"), UNARY(sqrt, "p"), UNARY(square, "f"), UNARY(abs, "f"), UNARY(magnitude, "f"), UNARY(sign, "f"),
    {&op_cast, "f MN", to_f32}, {&op_cast, "f MN", to_bf16, .no_gradient = true}, {&op_cast, "f MN", to_i32},
    {&op_cast, "b MN", to_f32},
    {&op_detach, "f MN"}, {&op_to, "f MN"},
    {&op_expand, "f", to_dims, "MN"}, {&op_expand, "f N", to_dims, "MN"}, {&op_expand, "f M1", to_dims, "MN"},
    {&op_expand, "f", to_dims, "V"},
    {&op_sum, "f MNT"}, {&op_sum, "f MNT", axis_0}, {&op_sum, "f MNT", axis_1_keep}, {&op_sum, "f MNT", axes_0_2},
    {&op_sum, "f MV", axis_1},
    {&op_max, "f MNT"}, {&op_max, "f MNT", axis_1}, {&op_max, "f MNT", axes_0_2}, {&op_max, "f MV", axis_1_keep},
    {&op_min, "f MNT"}, {&op_min, "f MNT", axis_1_keep}, {&op_min, "f MV", axis_1},
    {&op_mean, "f MNT", axis_1}, {&op_mean, "f MNT", axes_0_2}, {&op_mean, "f MV", axis_1_keep},
    {&op_count, "b MN"}, {&op_count, "b MNT", axes_0_2}, {&op_count, "i MN", ignore_3}, {&op_count, "b MV", axis_1},
    {&op_argmax, "f MNT", one_axis}, {&op_argmax, "f MV", one_axis},
    {&op_softmax, "f MNT", axis_1}, {&op_softmax, "f MNT", axes_0_2}, {&op_softmax, "f MV", axis_1},
    {&op_log_softmax, "f MNT", axis_1}, {&op_log_softmax, "f MNT", axes_0_2}, {&op_log_softmax, "f MV", axis_1},
    {&op_softmax_grad, "f MN, f MN", axis_1}, {&op_softmax_grad, "f MV, f MV", axis_1},
    {&op_log_softmax_grad, "f MN, f MN", axis_1}, {&op_log_softmax_grad, "f MV, f MV", axis_1},
    {&op_einsum, "f MK, f KN", spec_mm}, {&op_einsum, "f TMK, f TKN", spec_batch}, {&op_einsum, "f MN", spec_rows},
    {&op_einsum, "f M, f M", spec_dot}, {&op_einsum, "f MNT", spec_turn}, {&op_einsum, "f MN, f NT, f TD", spec_chain},
    {&op_einsum, "f M, f N", spec_outer}, {&op_einsum, "f MV, f VN", spec_mm},
    {&op_reshape, "f ab", to_dims, "dH"}, {&op_reshape, "f MN", to_dims, "J"}, {&op_reshape, "f J", to_dims, "MN"},
    {&op_reshape, "f TMN", to_dims, "TJ"}, {&op_reshape, "f ab", to_dims, "aHT"},
    {&op_transpose, "f MNT", rotate}, {&op_transpose, "f MN"},
    {&op_new_axis, "f MN", one_axis}, {&op_drop_axis, "f M1N", one_axis},
    {&op_slice, "f MN", slice_columns}, {&op_slice_grad, "f MH", unslice_columns, "MN"},
    {&op_concat, "f MN, f MT", one_axis}, {&op_concat, "f MN, f MK, f MT", one_axis},
    {&op_stack, "f MN, f MN", axis_first}, {&op_stack, "f MN, f MN, f MN", one_axis},
    {&op_unstack, "f HMN", axis_first}, {&op_unstack, "f MHN", one_axis},
    {&op_embedding, "i MT, f ND"}, {&op_embedding, "i M, f VD"},
    {&op_embedding_grad, "i M, f MD", out_dim, "ND"}, {&op_embedding_grad, "i MT, f MTD", out_dim, "VD"},
    {&op_gather, "f MN, i MK", one_axis}, {&op_gather, "f NM, i TM", axis_first}, {&op_gather, "f MV, i MK", one_axis},
    {&op_scatter, "f MK, i MK", axis_1_dim, "MN"}, {&op_scatter, "f TM, i TM", axis_0_dim, "NM"},
    {&op_scatter, "f MK, i MK", axis_1_dim, "MV"},
    {&op_top_k, "f MNT", top_2}, {&op_top_k, "f MV", top_2},
    {&op_one_hot, "i MT", last_dim, "MTN"}, {&op_one_hot, "i M", last_dim, "MV"},
    {&op_cumsum, "f MNT", one_axis}, {&op_cumsum, "f MN", backwards}, {&op_cumsum, "f MV", backwards},
    {&op_roll, "f MNT", roll_2}, {&op_roll, "f MN", roll_2},
    {&op_positions, "", out_dim, "T"},
    {&op_layer_norm, "f MND, f D, f D", epsilon}, {&op_layer_norm, "f MD, f D, -", epsilon},
    {&op_layer_norm, "f MD, -, -", epsilon}, {&op_layer_norm_grad, "f MD, f D, f MD", epsilon},
    {&op_layer_norm_grad, "f MTD, f D, f MTD", epsilon},
    {&op_rms_norm, "f MND, f D", epsilon}, {&op_rms_norm, "f MD, -", epsilon},
    {&op_rms_norm_grad, "f MD, f D, f MD", epsilon},
    {&op_attention, "f THMN, f THMN, f THMN", causal}, {&op_attention, "f THMN, f THKN, f THKD"},
    {&op_attention, "f TaMN, f THMN, f THMN", causal}, {&op_attention, "f THMN, f T1MN, f T1MN", causal},
    {&op_attention, "f TLMN, f TLMN, f TLMN, -, -", window_2}, {&op_attention, "f TLMN, f TLMN, f TLMN, -, i TM", causal},
    {&op_attention, "f TLMN, f TLMN, f TLMN, b M, i TM", causal_window_3},
    {&op_attention, "f THMN, f THMN, f THMN, b TM"}, {&op_attention, "f THMN, f THMN, f THMN, b M"},
    {&op_attention_grad, "f THMN, f THMN, f THMD, f THMD", causal}, {&op_attention_grad, "f THMN, f THKN, f THKD, f THMD"},
    {&op_attention_grad, "f TLMN, f TLMN, f TLMD, f TLMD, -, i TM", causal},
    {&op_attention_grad, "f TLMN, f TLMN, f TLMD, f TLMD, -, -", causal_window_3},
    {&op_attention_grad, "f TaMN, f THMN, f THMD, f TaMD", causal},
    {&op_attention_grad, "f THMN, f T1MN, f T1MD, f THMD", causal},
    {&op_rope, "f THMD", rope_half}, {&op_rope, "f TMHD", rope_interleaved},
    {&op_cross_entropy, "f MN, i M"}, {&op_cross_entropy, "f MTN, i MT", smooth}, {&op_cross_entropy, "f MV, i M", smooth},
    {&op_cross_entropy_grad, "f MN, i M, f M"}, {&op_cross_entropy_grad, "f MV, i M, f M", smooth},
    {&op_ce_max, "f MN"}, {&op_ce_max, "f MV"}, {&op_ce_sum, "f MN, f M"}, {&op_ce_sum, "f MV, f M"},
    {&op_ce_below, "f MN, i M, f M"}, {&op_ce_below, "f MV, i M, f M", smooth},
    {&op_ce_grad, "f MN, i M, f M, p M, f M"}, {&op_ce_grad, "f MV, i M, f M, p M, f M", smooth},
    {&op_linear_cross_entropy, "f MTH, f NH, i MT", smooth}, {&op_linear_cross_entropy, "f MD, f VD, i M"},
    {&op_linear_cross_entropy, "f MD, f DV, i M", by_columns},
    {&op_linear_cross_entropy_grad, "f MTH, f NH, i MT, f MT", smooth}, {&op_linear_cross_entropy_grad, "f MD, f VD, i M, f M"},
    {&op_linear_cross_entropy_grad, "f MD, f DV, i M, f M", by_columns},
    {&op_linear_ce_parts, "f MTH, f NH, i MT", smooth_groups, "LMT"}, {&op_linear_ce_parts, "f MD, f VD, i M", groups, "LM"},
    {&op_linear_ce_parts, "f MD, f DV, i M", groups_by_columns, "HM"},
    {&op_linear_ce_parts_grad, "f MTH, f NH, i MT, f MT, f MT, p MT", smooth},
    {&op_linear_ce_parts_grad, "f MD, f VD, i M, f M, f M, p M"},
    {&op_linear_ce_parts_grad, "f MD, f DV, i M, f M, f M, p M", by_columns},
    {&op_dropout, "f MN", drop},
    {&op_square_sum, "f MN"}, {&op_norm_partials, "f, f, f"}, {&op_global_norm, "p M"}, {&op_clip_scale, "p", clip_one},
    {&op_adamw, "f MN, f MN, f MN, p MN, p", update}, {&op_adamw, "f N, f N, f N, p N, -", update},
    {&op_sgd, "f MN, f MN, f MN, p", update}, {&op_sgd, "f MN, f MN, -, -", update},
    {&op_adamw_redo, "f MN, f MN, f MN, p MN, c, f MN, f MN, p MN", update},
    {&op_sgd_redo, "f MN, f MN, f MN, c, f MN, f MN", update}, {&op_sgd_redo, "f MN, f MN, -, c, f MN, -", update},
    {&op_adam, "f MN, f MN, f MN, p MN, p", update}, {&op_lion, "f MN, f MN, f MN, p", update},
    {&op_adam_redo, "f M, f M, f M, p M, c, f M, f M, p M", update},
    {&op_lion_redo, "f MN, f MN, f MN, c, f MN, f MN", update},
    {&op_muon_momentum, "f MN, f MN, p", slowly}, {&op_muon, "f MN, f MN, p", update},
    {&op_ema, "f MN, f MN, p", slowly}, {&op_ema, "f V, f V, -", slowly},
    {&op_store, "f MN, f MN", .writes = "a"}, {&op_next, "f MN, f MN", .writes = "a"},
    {&op_copy, "f MN"}, {&op_to_host, "f MN"}, {&op_to_device, "f MN"},
    {NULL},
};
const int instance_count = sizeof instances / sizeof *instances - 1;
