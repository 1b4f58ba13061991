/* The plan, and what trains the model: a mesh of up to three axes and eight ranks, stages, micro-batches, layouts. */
#include "write.h"
#include <string.h>

struct mesh_axis { char name[4]; int size; };

static int write_mesh(struct writer *w, struct mesh_axis *axis, bool stages)
{
    static const char *const names[] = {"dp", "tp", "cp"};
    static const int sizes[] = {2, 2, 2, 3, 4, 1};
    int n = 1 + (int)pick(w, 3), ranks = 1;
    for (int i = 0; i < n; i++) {
        strcpy(axis[i].name, names[i]);
        do
            axis[i].size = sizes[pick(w, 6)];
        while (ranks * axis[i].size > (w->views ? 4 : 8));
        ranks *= axis[i].size;
    }
    if (stages)
        strcpy(axis[pick(w, (unsigned)n)].name, "pp");
    char text[100], *t = text;
    int group = n > 1 && chance(w, 15) ? (int)pick(w, (unsigned)n - 1) : -1;    /* this axis and the next under one name */
    for (int i = 0; i < n; i++)
        t += sprintf(t, "%s%s%s: %d%s", i ? ", " : "", i == group ? "g: (" : "", axis[i].name, axis[i].size,
                     group >= 0 && i == group + 1 ? ")" : "");
    write_line(w, "mesh m = [%s]", text);
    return n;
}

/* The blocks of the repeat that is cut: evenly, or stage by stage by hand. */
static void split_text(struct writer *w, char *to, int stages)
{
    if (chance(w, 75)) {
        sprintf(to, "%s", w->blocks % stages ? " uneven" : "");
        return;
    }
    int left = w->blocks;
    to += sprintf(to, " = [");
    for (int i = 0; i < stages; i++) {
        int n = i == stages - 1 ? left : (int)pick(w, (unsigned)left + 1);
        to += sprintf(to, "%s%d", i ? ", " : "", n);
        left -= n;
    }
    sprintf(to, "]");
}

static void write_pipeline(struct writer *w, int stages)
{
    static const char *const schedules[] = {"one_f_one_b", "gpipe", "interleaved(2)", "interleaved(3)", "zb_h1", "zb_h2",
                                            "zb_v"};
    static const int chunks[] = {1, 1, 2, 3, 1, 1, 2};
    unsigned k = pick(w, 7);
    char split[200];
    split_text(w, split, stages * chunks[k]);
    write_line(w, "pipeline over pp { schedule = %s; split %s%s%s }", schedules[k], w->cut, split,
         chance(w, 20) ? "; split backward" : "");
    for (int i = 0; i < w->targets; i++) {
        const struct target *t = &w->target[i];
        if (!t->param && !t->input && !strchr(t->pattern, '[') && !strchr(t->pattern, '.') && chance(w, 3))
            write_line(w, "place %s on m.pp[%d]", t->pattern, chance(w, 70) ? stages - 1 : (int)pick(w, (unsigned)stages));
    }
}

static int size_of(const struct target *t, int d, int micro)
{
    return t->d[d].name == 'N' ? t->d[d].n / micro : t->d[d].n;
}

/* A dim other than one; -1 when there is none. */
static int any_but(struct writer *w, int nd, int but)
{
    int d = (int)pick(w, (unsigned)nd);
    return d != but ? d : nd > 1 ? (d + 1) % nd : -1;
}

/* A random layout of a tensor, each axis by itself; two axes on one dim come as a pair. */
static void layout_text(struct writer *w, char *to, const struct target *t, const struct mesh_axis *axis, int naxis,
                        int micro, unsigned split, bool partial)
{
    int dim[4];
    bool any = false;
    for (int i = 0; i < naxis; i++) {
        dim[i] = -1;
        if (!strcmp(axis[i].name, "pp") || !t->nd)
            continue;
        int rows = -1;
        for (int d = 0; d < t->nd; d++)
            rows = t->d[d].name == 'N' ? d : rows;
        bool bound = rows >= 0 && micro > 1 && !t->param;   /* micro-batches take the rows of every rank for themselves */
        if (bound && chance(w, 97))
            dim[i] = strcmp(axis[i].name, "dp") == 0 ? rows : chance(w, split) ? any_but(w, t->nd, rows) : -1;
        else if (t->input && !strcmp(axis[i].name, "dp") && t->d[0].name == 'N')
            dim[i] = chance(w, 90) ? 0 : -1;
        else if (chance(w, split))
            dim[i] = (int)pick(w, (unsigned)t->nd);
        any |= dim[i] >= 0;
    }
    char *start = to;
    to += sprintf(to, "{");
    for (int i = 0; i < naxis; i++) {
        if (dim[i] < 0)
            continue;
        int parts = axis[i].size, other = -1, n = size_of(t, dim[i], micro);
        for (int k = i + 1; k < naxis; k++)           /* `uneven` works over one axis */
            if (dim[k] == dim[i] && (t->d[dim[i]].padded || n % (parts * axis[k].size) == 0))
                other = k;
            else if (dim[k] == dim[i])
                dim[k] = -1;
        to += sprintf(to, "%s", to == start + 1 ? "" : ", ");
        if (other >= 0) {
            bool turned = chance(w, 30);
            to += sprintf(to, "(%s, %s)", axis[turned ? other : i].name, axis[turned ? i : other].name);
            parts *= axis[other].size;
            for (int k = 0; k < naxis; k++)           /* a third axis on the dim stays out */
                if (k != i && dim[k] == dim[i])
                    dim[k] = -1;
        } else {
            to += sprintf(to, "%s", axis[i].name);
        }
        struct size d = t->d[dim[i]];
        bool twice = false;
        for (int k = 0; k < t->nd; k++)
            twice |= k != dim[i] && t->d[k].name == d.name;
        to += d.name && !twice && chance(w, 80) ? sprintf(to, ": S(%c)", d.name) : sprintf(to, ": S(%d)", dim[i]);
        if (n % parts && !d.padded)
            to += sprintf(to, " uneven");
    }
    for (int i = 0; i < naxis && !any; i++)
        if (partial && strcmp(axis[i].name, "pp")) {
            sprintf(to, "%s: P}", axis[i].name);
            return;
        } else if (strcmp(axis[i].name, "pp")) {
            sprintf(to, "%s: B}", axis[i].name);
            return;
        }
    sprintf(to, "}");
}

/* The target's name, sometimes about some blocks of the repeat only. */
static const char *some_blocks(struct writer *w, const struct target *t, char *to, size_t size)
{
    size_t n = strlen(w->cut);
    if (!n || w->blocks < 2 || strncmp(t->pattern, w->cut, n) != 0 || strncmp(t->pattern + n, "[*]", 3) != 0 ||
        !chance(w, 20))
        return t->pattern;
    int low = (int)pick(w, (unsigned)w->blocks), high = low + 1 + (int)pick(w, (unsigned)(w->blocks - low));
    if (high == low + 1 && chance(w, 50))
        snprintf(to, size, "%s[%d]%s", w->cut, low, t->pattern + n + 3);
    else
        snprintf(to, size, "%s[%d..%d]%s", w->cut, low, high, t->pattern + n + 3);
    return to;
}

static void write_data(struct writer *w)
{
    char text[400], *t = text;
    for (int i = 0; i < w->targets; i++) {
        const struct target *v = &w->target[i];
        bool index = !strcmp(v->pattern, "ids") || !strcmp(v->pattern, "targets");
        if (v->input)
            t += sprintf(t, "%s%s = raw(\"%s.bin\", %s)", t > text ? "; " : "", v->pattern, v->pattern,
                         index ? "i32" : !strcmp(v->pattern, "keep") ? "u8" : "f32");
    }
    write_line(w, "data { %s }", text);
}

/* All ranks and one compute in float64 here: what is tried is where casts, copies and sums stand. */
static void write_precision(struct writer *w)
{
    if (!chance(w, 15))
        return;
    const char *type = chance(w, 70) ? "bf16" : "f16";
    if (chance(w, 50))
        write_line(w, "precision %s", type);
    else if (chance(w, 50) || !w->targets)
        write_line(w, "precision %s { grads %s }", type, chance(w, 50) ? "f32" : type);
    else
        write_line(w, "precision %s { master f32; keep f32 on [%s] }", type, w->target[pick(w, (unsigned)w->targets)].pattern);
}

static const struct target *any_param(struct writer *w)
{
    for (int tries = 0; tries < 20 && w->targets; tries++) {
        const struct target *t = &w->target[pick(w, (unsigned)w->targets)];
        if (t->param)
            return t;
    }
    return NULL;
}

static void write_train(struct writer *w)
{
    write_line(w, "train {");
    w->indent++;
    write_data(w);
    write_line(w, "steps 4");
    if (chance(w, 60))
        write_line(w, "optimizer sgd { lr = 0.1%s }", chance(w, 40) ? "; momentum = 0.9" : "");
    else
        write_line(w, "optimizer adamw { lr = 0.01; eps = 1e-2; decay = 0.1 on [*] }");
    if (chance(w, 40))
        write_line(w, "clip_norm 0.05%s", chance(w, 25) ? " deferred" : "");
    const struct target *frozen = chance(w, 8) ? any_param(w) : NULL;
    char name[LABEL + 32];
    if (frozen)
        write_line(w, "frozen %s", some_blocks(w, frozen, name, sizeof name));
    w->indent--;
    write_line(w, "}");
    if (chance(w, 30)) {
        write_line(w, "evaluate every 2 {");
        w->indent++;
        write_data(w);
        write_line(w, "steps 1");
        w->indent--;
        write_line(w, "}");
    }
}

/* Shares over one axis or several, whether they split the input or not. */
static void write_shard(struct writer *w, const struct mesh_axis *axis, int naxis)
{
    static const char *const levels[] = {"optimizer", "gradients", "parameters"};
    unsigned level = pick(w, 3);
    char axes[80] = "", *to = axes;
    for (int i = 0; i < naxis; i++)
        if (strcmp(axis[i].name, "pp") != 0 && chance(w, 70))
            to += sprintf(to, "%s%s", to == axes ? "" : ", ", axis[i].name);
    if (to == axes)
        return;
    write_line(w, "shard %s over %s", levels[level], axes);
    if (chance(w, 30))
        write_line(w, level == 2 ? "keep after forward" : "buckets 64 B");
    if (level && w->state % 3 == 0)      /* draws nothing: seeds keep their programs but for this line */
        write_line(w, "prefetch 1");
}

void write_plan(struct writer *w)
{
    struct mesh_axis axis[4];
    bool stages = *w->cut && w->blocks > 1 && chance(w, 60);
    int micro = 1;
    write_line(w, "plan p {");
    w->indent++;
    int naxis = write_mesh(w, axis, stages);
    if (chance(w, stages ? 80 : 40)) {
        int dp = 1;
        for (int i = 0; i < naxis; i++)
            if (!strcmp(axis[i].name, "dp"))
                dp = axis[i].size;
        do
            micro = 1 + (int)pick(w, (unsigned)w->N.n);
        while ((w->N.n % micro || (micro > 1 && w->N.n / micro % dp)) && !chance(w, 1));
        write_line(w, "microbatches %d over N", micro);
    }
    for (int i = 0; i < naxis; i++)
        if (!strcmp(axis[i].name, "pp"))
            write_pipeline(w, axis[i].size);
    for (int i = 0; i < w->targets; i++) {
        const struct target *t = &w->target[i];
        if (!chance(w, t->input ? micro > 1 ? 99 : 90 : t->param ? 35 : 8))
            continue;
        char text[200];
        bool partial = !t->param && !t->input && chance(w, 5);
        layout_text(w, text, t, axis, naxis, micro, t->input ? 12 : 50, partial);
        if (!strcmp(text, "{}"))
            continue;
        bool pin = chance(w, t->input ? 0 : 5), save = !pin && chance(w, t->param || t->input ? 0 : 12);
        char name[LABEL + 32];
        write_line(w, "%s %s = %s", pin ? "pin" : save ? "save" : "sbp", some_blocks(w, t, name, sizeof name), text);
    }
    for (int i = 0; i < w->targets; i++)
        if (!w->target[i].param && !w->target[i].input && chance(w, w->views ? 15 : 6))
            write_line(w, "recompute %s", w->target[i].pattern);
    if (chance(w, w->views ? 12 : 4))
        write_line(w, "recompute *");
    uint64_t state = w->state;           /* the rest of a program is the same with and without the line */
    if (chance(w, 25))
        write_shard(w, axis, naxis);
    static const char *const offloaded[] = {
        "optimizer", "activations", "parameters", "optimizer, activations", "optimizer, activations, parameters",
    };
    if (chance(w, 15))
        write_line(w, "offload %s to host", offloaded[pick(w, 5)]);
    w->state = state;
    if (chance(w, 3))
        write_line(w, "strict");
    write_precision(w);
    w->indent--;
    write_line(w, "}");
    write_train(w);
}
