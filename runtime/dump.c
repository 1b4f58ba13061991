/* --dump: every rank keeps its parts of the values asked for while the step makes them; behind the step rank 0 puts them
 * together, by their layouts, and writes one safetensors file. Names are paths with block numbers, in the order of the
 * program, so that files of different plans can be compared (flow-diff). Parts that are to be reduced are reduced, the
 * rows of micro-batches put together, what several ranks have taken from the first of them; padding is left out.
 * Everything is f32 in the file. */
#include "dump.h"
#include "agree.h"
#include "blocks.h"
#include "check.h"
#include "fl_pattern.h"
#include "report.h"
#include "see.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATTERNS = 32, KEY = 2 * FL_MAX_STACK + 1, PIECE = 1 << 28 };
enum combine { PUT, SUM, LARGEST, SMALLEST };

/* A rank's part of a block of a value, from one micro-batch. */
struct part {
    char name[256];
    int64_t key[KEY];                    /* place in the program, for sorting: node, block, node of the body, .. */
    struct fl_tensor tensor;
    struct fl_box box;
    int stage;
    enum combine combine;
    int64_t n;
    float *data;
};
struct whole {
    struct part first;                   /* of its parts: name, key, shape */
    double *sum;
    int64_t count, got;
    struct whole *next;
};

static char *pattern[MOST_PATTERNS];
static int npattern;
static const char *file;
static struct part *part;                /* of this rank, in the step that is looked at */
static int npart, room;

static enum fl_entry shown(void) { return fl_program.train ? FL_TRAIN : FL_EVALUATE; }

/* The name of the value's that is asked for, allocated, and which blocks; NULL: none is. */
static char *asked(const char *pattern_, const struct fl_value *v, struct fl_blocks_meant *meant)
{
    char *list = fl_printf("%s %s", v->tensor.path, v->aliases ? v->aliases : ""), *rest = list, *found = NULL;
    for (char *name; !found && (name = strsep(&rest, " "));)
        if (*name && fl_pattern_match(pattern_, name, meant))
            found = fl_printf("%s", name);
    free(list);
    return found;
}

static void indices(const struct fl_value *v, int64_t block, int64_t *at)
{
    for (int i = v->nstack - 1; i >= 0; i--) {
        at[i] = block % v->stack[i];
        block /= v->stack[i];
    }
}

/* The name under which this block is wanted, allocated; or NULL. */
static char *wanted(const struct fl_value *v, int64_t block)
{
    int64_t at[FL_MAX_STACK];
    struct fl_blocks_meant meant;
    indices(v, block, at);
    for (int i = 0; i < npattern; i++) {
        char *name = asked(pattern[i], v, &meant);
        bool fits = name;
        for (int k = 0; fits && k < v->nstack; k++)
            fits = at[k] >= meant.low[k] && at[k] < meant.high[k];
        if (fits)
            return name;
        free(name);
    }
    return NULL;
}

static bool splits(const struct fl_tensor *t, int axis)
{
    for (int d = 0; d < t->ndim; d++)
        for (int i = 0; i < t->dim[d].nsplit; i++)
            if (t->dim[d].axis[i] == axis)
                return true;
    return false;
}

/* Of the ranks and micro-batches that have the same, does this one give it? */
static bool gives(const struct fl_run *run, const struct fl_value *v, int microbatch, const char *phase)
{
    unsigned partial = v->partial[FL_SUM] | v->partial[FL_MAX] | v->partial[FL_MIN];
    bool each = strcmp(phase, "setup") && strcmp(phase, "update");
    for (int a = 0; a < fl_program.naxis; a++) {
        if (a == fl_program.pipe || splits(&v->tensor, a) || partial >> a & 1)
            continue;
        if (a == fl_program.mb ? each && microbatch != (v->running ? fl_program.microbatches - 1 : 0) : run->rank->coord[a] != 0)
            return false;
    }
    return true;
}

/* It carries the factor on the loss, where there is one. */
static bool is_gradient(const struct fl_value *v)
{
    size_t n = strlen(v->tensor.path);
    return n > 5 && !strcmp(v->tensor.path + n - 5, "#grad");
}

static void look(struct fl_run *run, const struct fl_seen *s)
{
    if (s->node->entry != shown())
        return;
    for (int k = 0; k < s->node->nvalue; k++) {
        const struct fl_value *v = &s->node->value[k];
        if (!v->whole || !gives(run, v, s->microbatch, s->node->phase))
            continue;
        for (int64_t i = 0; i < v->blocks; i++) {
            int64_t block = fl_seen_block(s, i), at[FL_MAX_STACK] = { 0 };
            char *asked_for = wanted(v, block);
            if (!asked_for)
                continue;
            if (npart == room) {
                part = realloc(part, (size_t)(room = 2 * room + 64) * sizeof *part);
                if (!part)
                    FL_FAIL("the host is out of memory", "cannot list what is dumped");
            }
            struct part *p = &part[npart++];
            *p = (struct part){ .tensor = v->tensor, .stage = run->rank->class_->stage,
                                .combine = v->partial[FL_SUM] ? SUM : v->partial[FL_MAX] ? LARGEST :
                                           v->partial[FL_MIN] ? SMALLEST : PUT };
            char *name = fl_seen_path(v, asked_for, block);
            snprintf(p->name, sizeof p->name, "%s", name);
            free(name);
            free(asked_for);
            indices(v, block, at);
            for (int d = 0; d <= v->nstack; d++)
                p->key[2 * d] = v->order[d];
            for (int d = 0; d < v->nstack; d++)
                p->key[2 * d + 1] = v->reversed >> d & 1 ? -at[d] : at[d];
            const float *x = fl_seen_read(run, s, k, i, &p->box, &p->n);
            p->data = fl_alloc(p->n * (int64_t)sizeof *p->data);
            if (p->n > 0)
                memcpy(p->data, x, (size_t)p->n * sizeof *x);
            if (run->step.loss_scale > 0 && is_gradient(v))
                for (int64_t j = 0; j < p->n; j++)
                    p->data[j] /= run->step.loss_scale;
        }
    }
}

/* ---- before the steps ---- */

/* The repeat around the value that has none of the blocks that are meant; -1: all have some. */
static int beyond(const struct fl_value *v, const struct fl_blocks_meant *meant)
{
    for (int k = 0; k < v->nstack; k++)
        if (meant->low[k] >= v->stack[k] || meant->low[k] >= meant->high[k])
            return k;
    return -1;
}

enum known { NONE, NO_BLOCK, GONE, THERE };          /* GONE: it exists inside a kernel only, or is made in rows */

/* What this rank knows of such a value; where: of one that is gone; blocks: how many there are, of NO_BLOCK. */
static enum known known(const struct fl_run *run, const char *pattern_, const char **where, int64_t *blocks)
{
    const struct fl_class *c = run->rank->class_;
    struct fl_blocks_meant meant;
    enum known found_none = NONE;
    char *name;
    for (int i = 0; i < c->nnode; i++)
        for (int k = 0; k < c->node[i].nvalue && c->node[i].entry == shown(); k++)
            if (c->node[i].value[k].whole && (name = asked(pattern_, &c->node[i].value[k], &meant))) {
                int level = beyond(&c->node[i].value[k], &meant);
                free(name);
                if (level < 0)
                    return THERE;
                *blocks = c->node[i].value[k].stack[level];
                found_none = NO_BLOCK;
            }
    for (int i = 0; c->gone && c->gone[i]; i++) {
        name = fl_printf("%s", c->gone[i]);
        name[strcspn(name, " ")] = 0;
        bool found = fl_pattern_match(pattern_, name, &meant);
        free(name);
        if (found) {
            *where = c->gone[i];
            return GONE;
        }
    }
    return found_none;
}

/* where: "h[*].mlp.add gpt.flow:37" or "logits gpt.flow:52 rows" */
static char *why_gone(const char *where)
{
    const char *place = strchr(where, ' ') + 1, *rows = strstr(place, " rows");
    if (!rows)
        return fl_printf("--dump: %.*s (%s) exists inside a fused kernel only: give it a name in the model", (int)(place - 1 - where),
                         where, place);
    return fl_printf("--dump: %.*s (%.*s) is never whole: the loss is made some rows at a time, as nothing else reads %.*s (see flowc "
                     "--emit=logical). They are whole where the model reads them once more, or the plan splits their last dim",
                     (int)(place - 1 - where), where, (int)(rows - place), place, (int)strcspn(where, " #"), where);
}

void fl_dump_start(struct fl_run *run, const char *patterns, const char *to)
{
    char *text = fl_printf("%s", patterns), *rest = text;
    file = to;
    for (char *one; (one = strsep(&rest, ","));) {
        one += strspn(one, " ");
        one[strcspn(one, " ")] = 0;
        if (!*one)
            continue;
        if (npattern == MOST_PATTERNS)
            fl_refuse("--dump takes at most %d patterns", MOST_PATTERNS);
        pattern[npattern++] = fl_printf("%s", one);
    }
    free(text);
    if (npattern == 0)
        fl_refuse("--dump '%s' names no value", patterns);
    for (int i = 0; i < npattern; i++) {
        const char *where = NULL;
        int64_t blocks = 0;
        int mine = strstr(pattern[i], "[-") ? NONE : known(run, pattern[i], &where, &blocks), most;
        FL_WORLD(MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        if (most == GONE)
            fl_agree(where ? why_gone(where) : NULL);
        if (most == NO_BLOCK)
            fl_agree(mine == NO_BLOCK ? fl_printf("--dump: '%s' means no block: there are %lld, the first is 0", pattern[i],
                                                  (long long)blocks) : NULL);
        if (most == NONE)
            fl_refuse("--dump: no value of a step is called '%s' (flowc --emit=logical prints their names; gradients are "
                      "NAME#grad)", pattern[i]);
    }
    fl_agree(fl_rank_number == 0 ? fl_st_refuse(file) : NULL);
}

void fl_dump_arm(void) { fl_see_add(look, true); }

/* ---- behind the step ---- */

static struct whole *whole_of(struct whole **list, const struct part *p)
{
    for (struct whole *w = *list; w; w = w->next)
        if (!strcmp(w->first.name, p->name) && !memcmp(w->first.key, p->key, sizeof p->key))
            return w;
    struct whole *w = fl_alloc(sizeof *w);
    *w = (struct whole){ .first = *p, .count = fl_tensor_count(&p->tensor), .next = *list };
    w->sum = fl_alloc(w->count * (int64_t)sizeof *w->sum);
    for (int64_t i = 0; i < w->count && p->combine > SUM; i++)
        w->sum[i] = p->combine == LARGEST ? -INFINITY : INFINITY;
    return *list = w;
}

struct joining { struct whole *w; const struct part *p; };

static void join_row(void *context, int64_t at, int64_t index, int64_t n)
{
    const struct joining *c = context;
    double *to = c->w->sum + index;
    const float *from = c->p->data + at;
    for (int64_t i = 0; i < n; i++) {
        double x = from[i];
        to[i] = c->p->combine == PUT ? x : c->p->combine == SUM ? to[i] + x :
                c->p->combine == LARGEST ? (x > to[i] || x != x ? x : to[i]) : x < to[i] || x != x ? x : to[i];
    }
#pragma omp atomic
    c->w->got += n;
}

/* Of stages that hold the same, the first gives it. */
static void join(struct whole **list, struct part *p)
{
    struct whole *w = whole_of(list, p);
    if (w->first.stage == p->stage && p->n > 0)
        fl_box_rows(&p->tensor, &p->box, join_row, &(struct joining){ w, p });
    free(p->data);
}

static int by_place(const void *a, const void *b)
{
    const struct part *x = &(*(struct whole *const *)a)->first, *y = &(*(struct whole *const *)b)->first;
    for (int k = 0; k < KEY; k++)
        if (x->key[k] != y->key[k])
            return x->key[k] < y->key[k] ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void write_file(struct whole *list, int64_t step)
{
    int n = 0;
    for (struct whole *w = list; w; w = w->next)
        n++;
    struct whole **all = fl_alloc(n * (int64_t)sizeof *all);
    struct fl_st_entry *entry = fl_alloc(n * (int64_t)sizeof *entry);
    struct fl_st_writer to;
    n = 0;
    for (struct whole *w = list; w; w = w->next)
        all[n++] = w;
    qsort(all, (size_t)n, sizeof *all, by_place);
    for (int i = 0, same = 1; i < n; i++) {
        const struct part *p = &all[i]->first;
        same = i && !strcmp(p->name, all[i - 1]->first.name) ? same + 1 : 1;
        entry[i] = (struct fl_st_entry){ .name = same > 1 ? fl_printf("%s~%d", p->name, same) : p->name, .ndim = p->tensor.ndim };
        for (int d = 0; d < p->tensor.ndim; d++)
            entry[i].shape[d] = p->tensor.dim[d].size;
        if (all[i]->got < all[i]->count)
            FL_FAIL("this is a fault of flowc: please report it", "%lld of %lld elements of %s came together", (long long)all[i]->got,
                    (long long)all[i]->count, p->name);
    }
    fl_st_begin(&to, file, n, entry);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        float *x = fl_alloc(all[i]->count * (int64_t)sizeof *x);
        for (int64_t k = 0; k < all[i]->count; k++)
            x[k] = (float)all[i]->sum[k];
        fl_st_write(&to, at, x, all[i]->count);
        at += all[i]->count;
        free(x);
        free(all[i]->sum);
        free(all[i]);
    }
    fl_st_end(&to);
    fl_report_note("%d tensors of step %lld are in %s", n, (long long)step, file);
    free(all);
    free(entry);
}

static void pass(void *data, int64_t bytes, int peer, bool sends)
{
    for (int64_t at = 0; at < bytes; at += PIECE) {
        int count = (int)(bytes - at < PIECE ? bytes - at : PIECE);
        if (sends)
            FL_WORLD(MPI_Send((char *)data + at, count, MPI_BYTE, peer, 3, MPI_COMM_WORLD));
        else
            FL_WORLD(MPI_Recv((char *)data + at, count, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

void fl_dump_write(struct fl_run *run)
{
    struct whole *list = NULL;
    fl_see_remove(look);
    fl_at("behind the step", "putting together what --dump asks for");
    for (int i = 0; i < npart; i++) {
        if (fl_rank_number == 0) {
            join(&list, &part[i]);
            continue;
        }
        if (i == 0)
            pass(&npart, sizeof npart, 0, true);
        pass(&part[i], sizeof part[i], 0, true);
        pass(part[i].data, part[i].n * (int64_t)sizeof(float), 0, true);
        free(part[i].data);
    }
    if (fl_rank_number != 0 && npart == 0)
        pass(&npart, sizeof npart, 0, true);
    for (int r = 1; fl_rank_number == 0 && r < fl_program.nranks; r++) {
        int n;
        pass(&n, sizeof n, r, false);
        for (int i = 0; i < n; i++) {
            struct part p;
            pass(&p, sizeof p, r, false);
            p.data = fl_alloc(p.n * (int64_t)sizeof *p.data);
            pass(p.data, p.n * (int64_t)sizeof *p.data, r, false);
            join(&list, &p);
        }
    }
    if (fl_rank_number == 0)
        write_file(list, run->step.step + 1);
    free(part);
    part = NULL;
    npart = room = 0;
}
