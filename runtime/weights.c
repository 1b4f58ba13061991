/* Initial values, loading and writing of parameters. A file holds logical tensors: no rank, no padding, no layout.
 *
 * Loading: every rank maps the file and takes its own parts. Writing: for each tensor, the ranks that hold distinct
 * parts send them to rank 0, in order of rank, which puts the tensor together and writes it. */
#include "weights.h"
#include "agree.h"
#include "check.h"
#include "fl_random.h"
#include "place.h"
#include "safetensors.h"
#include "target.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int64_t all_blocks(const struct fl_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->nstack; i++)
        n *= p->stack[i];
    return n;
}

static int64_t own_blocks(const struct fl_param *p)
{
    int64_t n = p->count[0];
    for (int i = 1; i < p->nstack; i++)
        n *= p->count[i];
    return n;
}

/* The number in the whole model of the entry's own block i. */
static int64_t block_number(const struct fl_param *p, int64_t i)
{
    int64_t number = 0, weight = 1;
    for (int k = p->nstack - 1; k >= 0; k--) {
        number += (p->first[k] + i % p->count[k]) * weight;
        i /= p->count[k];
        weight *= p->stack[k];
    }
    return number;
}

/* Which of the blocks [first, first + count) of each repeat is this one of the whole model; -1: none of them. */
static int64_t block_within(const struct fl_param *p, const int64_t *first, const int64_t *count, int64_t block)
{
    int64_t own = 0, weight = 1;
    for (int k = p->nstack - 1; k >= 0; k--) {
        int64_t at = block % p->stack[k] - first[k];
        if (at < 0 || at >= count[k])
            return -1;
        own += at * weight;
        weight *= count[k];
        block /= p->stack[k];
    }
    return p->nstack || count[0] ? own : -1;
}

/* own: which of the entry's blocks, see block_number */
static char *block_address(struct fl_run *run, const struct fl_param *p, int64_t own, int64_t part)
{
    return (p->host ? run->host : run->arena) + p->offset_bytes + own * (p->stored ? p->stored : part) * (int64_t)sizeof(float);
}

static void put_block(struct fl_run *run, const struct fl_param *p, int64_t own, const float *from, int64_t n)
{
    char *to = block_address(run, p, own, n);
    if (!p->host)
        fl_to_arena(to, from, n * (int64_t)sizeof(float));
    else if (n > 0)
        memcpy(to, from, (size_t)n * sizeof(float));
}

static void get_block(float *to, struct fl_run *run, const struct fl_param *p, int64_t own, int64_t n)
{
    const char *from = block_address(run, p, own, n);
    if (p->host)
        fl_target_sync();                                  /* the copies of the last step have ended */
    if (!p->host)
        fl_from_arena(to, from, n * (int64_t)sizeof(float));
    else if (n > 0)
        memcpy(to, from, (size_t)n * sizeof(float));
}

/* Behind the entries of the path of entry i. */
static int family_end(const struct fl_class *class, int i)
{
    int end = i + 1;
    while (end < class->nparam && !strcmp(class->param[end].tensor.path, class->param[i].tensor.path))
        end++;
    return end;
}

static bool wanted(const struct fl_param *p, bool native) { return native || !p->state; }

/* Puts what this rank holds of its part of a block into the arena. */
static void put_held(struct fl_run *run, const struct fl_param *p, int64_t own, const float *part, const struct fl_box *box)
{
    struct fl_held h = fl_held_of(p, run->rank->coord, box);
    put_block(run, p, own, part + h.first, h.n);
}

/* ---- initial values ---- */

struct drawing { const struct fl_param *p; float *to; uint64_t key; uint32_t block; };

/* fl_normal, but a pair of neighbouring indices at once: they share their words, logarithm and root. */
static void draw_normal(float *to, double std, uint64_t key, uint32_t block, uint64_t index, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        uint64_t pair = (index + (uint64_t)i) >> 1;
        double u = fl_uniform(key, -1, block, 2 * pair), v = fl_uniform(key, -1, block, 2 * pair + 1);
        double r = sqrt(-2 * log(u)), angle = 6.283185307179586476925 * v;
        if (((index + (uint64_t)i) & 1) == 0)
            to[i++] = (float)(std * (r * cos(angle)));
        if (i < n && (index + (uint64_t)i) >> 1 == pair)
            to[i++] = (float)(std * (r * sin(angle)));
    }
}

static void draw_row(void *context, int64_t at, int64_t index, int64_t n)
{
    struct drawing *c = context;
    const struct fl_param *p = c->p;
    if (p->init == FL_NORMAL) {
        draw_normal(c->to + at, p->init_a, c->key, c->block, (uint64_t)index, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double u = p->init == FL_UNIFORM ? fl_uniform(c->key, -1, c->block, (uint64_t)(index + i)) : 0;
        double v = p->init == FL_ONES       ? 1
                   : p->init == FL_CONSTANT ? p->init_a
                   : p->init == FL_UNIFORM  ? p->init_a + (p->init_b - p->init_a) * u
                                            : 0;
        c->to[at + i] = (float)v;
    }
}

void fl_weights_init(struct fl_run *run, uint64_t seed)
{
    const struct fl_class *class = run->rank->class_;
    for (int i = 0; i < class->nparam; i++) {
        const struct fl_param *p = &class->param[i];
        if (p->tensor.type != FL_F32)
            FL_FAIL("store it as f32", "parameter %s is not f32", p->tensor.path);
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        int64_t n = fl_box_count(&p->tensor, &box);
        float *part = fl_alloc(n * (int64_t)sizeof(float));
        for (int64_t own = 0; own < own_blocks(p); own++) {
            struct drawing c = { .p = p,
                                 .to = part,
                                 .key = fl_key(seed, fl_hash(p->tensor.path)),
                                 .block = (uint32_t)block_number(p, own) };
            fl_box_rows(&p->tensor, &box, draw_row, &c);
            put_held(run, p, own, part, &box);
        }
        free(part);
    }
}

void fl_weights_check_held(const struct fl_run *run)
{
    const struct fl_class *class = run->rank->class_;
    int *held = fl_alloc((class->nparam + 1) * (int64_t)sizeof *held);
    for (int i = 0; i < class->nparam; i++)
        for (int k = i; k < family_end(class, i); k++)
            held[i] |= own_blocks(&class->param[k]) > 0;
    FL_MPI(MPI_Allreduce(MPI_IN_PLACE, held, class->nparam, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    for (int i = 0; i < class->nparam; i = family_end(class, i))
        if (!held[i])
            fl_refuse("nothing reads parameter %s, so no rank holds it and no file could: take it out of the model, or "
                      "train without --save and --export", class->param[i].tensor.path);
    free(held);
}

/* ---- names and shapes in files ---- */

/* {0} {1} .. in a file name, or [*] in a path, become the indices of the block, outermost first. */
static char *block_name(const struct fl_param *p, int64_t block, bool native)
{
    const char *from = native || !p->file_name ? p->tensor.path : p->file_name;
    bool path = from == p->tensor.path;
    int64_t index[FL_MAX_STACK] = { 0 };
    for (int i = p->nstack - 1; i >= 0; i--) {
        index[i] = block % p->stack[i];
        block /= p->stack[i];
    }
    char *name = fl_alloc((int64_t)strlen(from) * 8 + 64), *to = name;
    for (int level = 0; *from;) {
        if (path && !strncmp(from, "[*]", 3)) {
            to += sprintf(to, "[%lld]", (long long)index[level < FL_MAX_STACK ? level : 0]);
            level++;
            from += 3;
        } else if (!path && from[0] == '{' && from[1] >= '0' && from[1] < '0' + FL_MAX_STACK && from[2] == '}') {
            to += sprintf(to, "%lld", (long long)index[from[1] - '0']);
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    return name;
}

/* The shape in the file. Transposed: [a, b] in our order of elements is stored as [b, a]. */
static struct fl_st_entry file_entry(const struct fl_param *p, int64_t block, bool native)
{
    struct fl_st_entry e = { .name = block_name(p, block, native),
                             .ndim = p->tensor.ndim,
                             .count = fl_tensor_count(&p->tensor) };
    for (int d = 0; d < e.ndim; d++)
        e.shape[d] = p->tensor.dim[d].size;
    if (native)
        return e;
    if (p->file_ndim) {
        e.ndim = p->file_ndim;
        memcpy(e.shape, p->file_shape, sizeof e.shape);
    }
    if (p->file_transpose) {
        int64_t a = e.shape[0];
        e.shape[0] = e.shape[1];
        e.shape[1] = a;
    }
    return e;
}

static bool matches(const char *pattern, const char *name)
{
    if (*pattern == '*')
        return matches(pattern + 1, name) || (*name && matches(pattern, name + 1));
    return *pattern == *name && (!*name || matches(pattern + 1, name + 1));
}

static const char *strip(const char *name)
{
    for (int i = 0; i < fl_program.nprefix; i++) {
        size_t n = strlen(fl_program.prefix[i]);
        if (!strncmp(name, fl_program.prefix[i], n))
            return name + n;
    }
    return name;
}

static struct fl_st_entry *find(struct fl_st_file *f, const char *name)
{
    struct fl_st_entry *e = fl_st_find(f, name);
    for (int i = 0; !e && i < fl_program.nprefix; i++) {
        char *longer = fl_printf("%s%s", fl_program.prefix[i], name);
        e = fl_st_find(f, longer);
        free(longer);
    }
    return e;
}

static bool ignored(const char *name)
{
    for (int i = 0; i < fl_program.nignore; i++)
        if (matches(fl_program.ignore[i], name) || matches(fl_program.ignore[i], strip(name)))
            return true;
    return false;
}

/* ---- loading ---- */

struct text { FILE *to; char *p; size_t n; int lines; };

static void shape_text(FILE *to, const struct fl_st_entry *e)
{
    fprintf(to, "[");
    for (int d = 0; d < e->ndim; d++)
        fprintf(to, "%s%lld", d ? ", " : "", (long long)e->shape[d]);
    fprintf(to, "]");
}

static bool line(struct text *t) { return ++t->lines <= 20; }

/* Lists what does not fit, for the whole model, on every rank alike. */
static void check_file(struct text *t, struct fl_st_file *f, const struct fl_class *class, bool native)
{
    for (int i = 0; i < class->nparam; i = family_end(class, i))
        for (int64_t b = 0; wanted(&class->param[i], native) && b < all_blocks(&class->param[i]); b++) {
            struct fl_st_entry want = file_entry(&class->param[i], b, native), *e = find(f, want.name);
            if (!e) {
                if (line(t))
                    fprintf(t->to, "\n  missing: %s", want.name);
                continue;
            }
            e->used = true;
            bool same = e->ndim == want.ndim && !memcmp(e->shape, want.shape, (size_t)want.ndim * sizeof *want.shape);
            if ((!same || !fl_st_number(e)) && line(t)) {
                fprintf(t->to, "\n  %s is %s ", e->name, e->dtype);
                shape_text(t->to, e);
                fprintf(t->to, ", the program has F32 ");
                shape_text(t->to, &want);
            }
            free((char *)want.name);
        }
    for (int i = 0; i < f->nentry; i++)
        if (!f->entry[i].used && !ignored(f->entry[i].name) && line(t))
            fprintf(t->to, "\n  not in the program: %s", f->entry[i].name);
    if (t->lines > 20)
        fprintf(t->to, "\n  and %d more", t->lines - 20);
}

static void load_block(float *whole, const struct fl_st_entry *e, const struct fl_param *p, bool native)
{
    bool turned = !native && p->file_transpose;
    int64_t rows = e->ndim == 2 ? e->shape[0] : 1, columns = e->ndim == 2 ? e->shape[1] : 1;
    for (int64_t i = 0; i < e->count; i++)
        whole[turned ? i % columns * rows + i / columns : i] = fl_st_read(e, i);
}

void fl_weights_load(struct fl_run *run, const char *file, bool native)
{
    const struct fl_class *class = run->rank->class_;
    struct fl_st_file f;
    fl_agree(fl_st_open(&f, file));
    struct text t = { 0 };
    t.to = open_memstream(&t.p, &t.n);
    check_file(&t, &f, class, native);
    fclose(t.to);
    fl_agree(t.lines ? fl_printf("%s does not fit the program:%s", file, t.p) : NULL);
    free(t.p);
    for (int i = 0; i < class->nparam; i++) {
        const struct fl_param *p = &class->param[i];
        if (!wanted(p, native) || !own_blocks(p))
            continue;
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        int64_t n = fl_box_count(&p->tensor, &box);
        float *whole = fl_alloc(fl_tensor_count(&p->tensor) * (int64_t)sizeof(float)),
              *part = fl_alloc(n * (int64_t)sizeof(float));
        for (int64_t own = 0; own < own_blocks(p); own++) {
            char *name = block_name(p, block_number(p, own), native);
            load_block(whole, find(&f, name), p, native);
            fl_box_take(part, whole, &p->tensor, &box);
            put_held(run, p, own, part, &box);
            free(name);
        }
        free(whole);
        free(part);
    }
    fl_st_close(&f);
}

/* ---- writing ---- */

/* What a rank writes of one entry of a family, as it tells rank 0. */
struct holding { int64_t first[FL_MAX_STACK], count[FL_MAX_STACK]; struct fl_box box; struct fl_held held; };

/* The entries of a family on this rank, and on rank 0 those of all: `most` for each rank. */
struct family {
    const struct fl_param *p;
    int count, most;
    struct holding *mine, *all;
};

static struct family family_of(struct fl_run *run, int first)
{
    const struct fl_class *class = run->rank->class_;
    struct family f = { .p = &class->param[first], .count = family_end(class, first) - first };
    FL_MPI(MPI_Allreduce(&f.count, &f.most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    f.mine = fl_alloc(f.most * (int64_t)sizeof *f.mine);
    f.all = fl_rank_number ? NULL : fl_alloc(fl_program.nranks * f.most * (int64_t)sizeof *f.all);
    for (int k = 0; k < f.count; k++) {
        const struct fl_param *p = &f.p[k];
        f.mine[k].box = fl_box_of(&p->tensor, run->rank->coord, 0);
        f.mine[k].held = fl_held_of(p, run->rank->coord, &f.mine[k].box);
        memcpy(f.mine[k].first, p->first, sizeof p->first);
        if (p->owner && fl_held_first(p, run->rank->coord))
            memcpy(f.mine[k].count, p->count, sizeof p->count);
    }
    int bytes = f.most * (int)sizeof *f.mine;
    FL_MPI(MPI_Gather(f.mine, bytes, MPI_BYTE, f.all, bytes, MPI_BYTE, 0, MPI_COMM_WORLD));
    return f;
}

static void family_free(struct family *f)
{
    free(f->mine);
    free(f->all);
}

/* To rank 0: this rank's part of the block, if it holds one. */
static void send_part(struct fl_run *run, const struct family *f, int64_t block)
{
    for (int k = 0; k < f->count; k++) {
        const struct fl_param *p = &f->p[k];
        int64_t own = block_within(p, f->mine[k].first, f->mine[k].count, block);
        if (own < 0)
            continue;
        int64_t n = f->mine[k].held.n;
        float *part = fl_alloc(n * (int64_t)sizeof(float));
        get_block(part, run, p, own, n);
        FL_MPI(MPI_Send(part, (int)n, MPI_FLOAT, 0, 1, MPI_COMM_WORLD));
        free(part);
    }
}

/* On rank 0: the whole logical block from all who hold parts of it. */
static void assemble(float *whole, struct fl_run *run, const struct family *f, int64_t block)
{
    int64_t got = 0;
    for (int i = 0; i < fl_program.nranks * f->most; i++) {
        const struct holding *h = &f->all[i];
        int rank = i / f->most;
        int64_t own = block_within(f->p, h->first, h->count, block);
        if (own < 0)
            continue;
        int64_t n = h->held.n;
        float *part = fl_alloc(n * (int64_t)sizeof(float));
        if (rank == 0)
            get_block(part, run, &f->p[i], own, n);
        else
            FL_MPI(MPI_Recv(part, (int)n, MPI_FLOAT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fl_held_put(whole, part, &f->p->tensor, &h->box, &h->held);
        free(part);
        got += n;
    }
    if (got == 0 && fl_tensor_count(&f->p->tensor) > 0)
        FL_FAIL("the program's tables are damaged: compile it again", "no rank holds block %lld of %s",
                (long long)block, f->p->tensor.path);
}

static void write_block(struct fl_st_writer *w, int64_t element, float *whole, const struct fl_st_entry *e, bool turned)
{
    if (!turned) {
        fl_st_write(w, element, whole, e->count);
        return;
    }
    float *file = fl_alloc(e->count * (int64_t)sizeof(float));
    for (int64_t i = 0; i < e->count; i++)
        file[i] = whole[i % e->shape[1] * e->shape[0] + i / e->shape[1]];
    fl_st_write(w, element, file, e->count);
    free(file);
}

void fl_weights_write(struct fl_run *run, const char *file, bool native)
{
    const struct fl_class *class = run->rank->class_;
    struct fl_st_writer w;
    bool root = fl_rank_number == 0;
    struct fl_st_entry *entries = NULL;
    if (root) {
        int n = 0;
        for (int i = 0; i < class->nparam; i = family_end(class, i))
            n += wanted(&class->param[i], native) ? (int)all_blocks(&class->param[i]) : 0;
        entries = fl_alloc(n * (int64_t)sizeof *entries);
        n = 0;
        for (int i = 0; i < class->nparam; i = family_end(class, i))
            for (int64_t b = 0; wanted(&class->param[i], native) && b < all_blocks(&class->param[i]); b++)
                entries[n++] = file_entry(&class->param[i], b, native);
        fl_st_begin(&w, file, n, entries);
    }
    int64_t element = 0, entry = 0;
    for (int i = 0; i < class->nparam; i = family_end(class, i)) {
        const struct fl_param *p = &class->param[i];
        if (!wanted(p, native))
            continue;
        struct family f = family_of(run, i);
        float *whole = root ? fl_alloc(fl_tensor_count(&p->tensor) * (int64_t)sizeof(float)) : NULL;
        for (int64_t b = 0; b < all_blocks(p); b++) {
            if (!root) {
                send_part(run, &f, b);
                continue;
            }
            assemble(whole, run, &f, b);
            write_block(&w, element, whole, &entries[entry], !native && p->file_transpose);
            element += entries[entry].count;
            free((char *)entries[entry++].name);
        }
        free(whole);
        family_free(&f);
    }
    if (root)
        fl_st_end(&w);
    free(entries);
    FL_MPI(MPI_Barrier(MPI_COMM_WORLD));             /* nobody ends the job before the file is whole */
}
