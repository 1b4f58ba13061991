/* Initial values, loading and exporting of parameters. A file holds logical tensors: no rank, no padding, no layout.
 *
 * Loading: every rank maps the files and takes its own parts. Exporting: every tensor is brought together on rank 0,
 * which writes it. */
#include "weights.h"
#include "agree.h"
#include "check.h"
#include "fl_random.h"
#include "gather.h"
#include "normals.h"
#include "shards.h"
#include "target.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* ---- initial values ---- */

struct drawing { const struct fl_param *p; float *to; uint64_t key; uint32_t block; };

static void draw_row(void *context, int64_t at, int64_t index, int64_t n)
{
    struct drawing *c = context;
    const struct fl_param *p = c->p;
    if (p->init == FL_NORMAL) {
        fl_normals(c->to + at, p->init_a, c->key, -1, c->block, (uint64_t)index, n);
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
    float *part = NULL;                              /* one for all: fresh memory costs more than what is drawn into it */
    int64_t room = -1;
    for (int i = 0; i < class->nparam; i++) {
        const struct fl_param *p = &class->param[i];
        if (p->tensor.type != FL_F32)
            FL_FAIL("store it as f32", "parameter %s is not f32", p->tensor.path);
        if (fl_arena_zeros && (p->init == FL_ZEROS || (p->init == FL_CONSTANT && p->init_a == 0)))
            continue;                                /* an optimizer's moments, twice the weights: the first step touches them */
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        int64_t n = fl_box_count(&p->tensor, &box);
        if (n > room) {
            free(part);
            part = fl_alloc(n * (int64_t)sizeof(float));
            room = n;
        }
        for (int64_t own = 0; own < fl_blocks_own(p); own++) {
            struct drawing c = { .p = p,
                                 .to = part,
                                 .key = fl_key(seed, fl_hash(p->tensor.path)),
                                 .block = (uint32_t)fl_block_number(p, own) };
            memset(part, 0, (size_t)n * sizeof(float));
            fl_box_rows(&p->tensor, &box, draw_row, &c);
            fl_block_put_held(run, p, own, part, &box);
        }
    }
    free(part);
}

void fl_weights_check_held(const struct fl_run *run)
{
    const struct fl_class *class = run->rank->class_;
    int *held = fl_alloc((class->nparam + 1) * (int64_t)sizeof *held);
    for (int i = 0; i < class->nparam; i++)
        for (int k = i; k < fl_family_end(class, i); k++)
            held[i] |= fl_blocks_own(&class->param[k]) > 0;
    FL_MPI(MPI_Allreduce(MPI_IN_PLACE, held, class->nparam, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    for (int i = 0; i < class->nparam; i = fl_family_end(class, i))
        if (!held[i])
            fl_refuse("nothing reads parameter %s, so no rank holds it and no file could: take it out of the model, or "
                      "train without --save and --export", class->param[i].tensor.path);
    free(held);
}

/* ---- names in files ---- */

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

static struct fl_st_entry *find(const struct fl_shards *f, const char *name)
{
    struct fl_st_entry *e = fl_shards_find(f, name);
    for (int i = 0; !e && i < fl_program.nprefix; i++) {
        char *longer = fl_printf("%s%s", fl_program.prefix[i], name);
        e = fl_shards_find(f, longer);
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

/* The tensors of a file that a family is made of: every block's parts. */
static int64_t tensors_all(const struct fl_param *p, bool native) { return fl_blocks_all(p) * fl_block_parts(p, native); }

static struct fl_st_entry tensor_entry(const struct fl_param *p, int64_t i, bool native)
{
    int parts = fl_block_parts(p, native);
    return fl_block_entry(p, i / parts, (int)(i % parts), native);
}

/* Lists what does not fit, for the whole model, on every rank alike. */
static void check_file(struct text *t, const struct fl_shards *f, const struct fl_class *class, bool native)
{
    for (int i = 0; i < class->nparam; i = fl_family_end(class, i))
        for (int64_t b = 0; fl_block_wanted(&class->param[i], native) && b < tensors_all(&class->param[i], native); b++) {
            struct fl_st_entry want = tensor_entry(&class->param[i], b, native), *e = find(f, want.name);
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
        if (!f->entry[i]->used && !ignored(f->entry[i]->name) && line(t))
            fprintf(t->to, "\n  not in the program: %s", f->entry[i]->name);
    if (t->lines > 20)
        fprintf(t->to, "\n  and %d more", t->lines - 20);
}

static void load_block(float *whole, const struct fl_shards *f, const struct fl_param *p, int64_t block, bool native)
{
    for (int k = 0; k < fl_block_parts(p, native); k++) {
        char *name = fl_block_name(p, block, k, native);
        const struct fl_st_entry *e = find(f, name);
        struct fl_block_walk w = fl_block_walk_begin(p, k, native);
        for (int64_t i = 0; i < e->count; i++)
            whole[fl_block_walk_next(&w)] = fl_st_read(e, i);
        free(name);
    }
}

void fl_weights_load_files(struct fl_run *run, const char *what, int n, const char *const *names, bool native)
{
    const struct fl_class *class = run->rank->class_;
    struct fl_shards f;
    fl_agree(fl_shards_open(&f, n, names));
    struct text t = { 0 };
    t.to = open_memstream(&t.p, &t.n);
    if (!t.to)
        FL_FAIL("the host is out of memory", "cannot check %s", what);
    check_file(&t, &f, class, native);
    fclose(t.to);
    fl_agree(t.lines ? fl_printf("%s does not fit the program:%s", what, t.p) : NULL);
    free(t.p);
    for (int i = 0; i < class->nparam; i++) {
        const struct fl_param *p = &class->param[i];
        if (!fl_block_wanted(p, native) || !fl_blocks_own(p))
            continue;
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        int64_t part_count = fl_box_count(&p->tensor, &box);
        float *whole = fl_alloc(fl_tensor_count(&p->tensor) * (int64_t)sizeof(float)),
              *part = fl_alloc(part_count * (int64_t)sizeof(float));
        for (int64_t own = 0; own < fl_blocks_own(p); own++) {
            load_block(whole, &f, p, fl_block_number(p, own), native);
            fl_box_take(part, whole, &p->tensor, &box);
            fl_block_put_held(run, p, own, part, &box);
            fl_alive();
        }
        free(whole);
        free(part);
    }
    fl_shards_close(&f);
}

void fl_weights_load(struct fl_run *run, const char *path)
{
    int n = 0;
    const char **names = NULL;
    fl_agree(fl_shards_of(path, &n, &names));
    fl_weights_load_files(run, path, n, names, false);
    for (int i = 0; i < n; i++)
        free((char *)names[i]);
    free(names);
}

/* ---- exporting ---- */

/* What rank 0 knows of the files it writes: the entries in order, and in which file each stands. */
struct export { struct fl_st_entry *entry; int n, nshard, *shard; };

bool fl_weights_averaged(const struct fl_run *run)
{
    const struct fl_class *class = run->rank->class_;
    bool any = false;
    for (int i = 0; i < class->nparam; i++)
        any |= class->param[i].average;
    return any;
}

static bool exported(const struct fl_class *class, const struct fl_param *p, bool ema)
{
    return ema && (p->average || fl_block_averaged(class, p)) ? p->average : fl_block_wanted(p, false);
}

static struct export plan_export(const struct fl_class *class, int64_t limit, bool ema)
{
    struct export e = { .nshard = 1 };
    int64_t bytes = 0;
    for (int i = 0; i < class->nparam; i = fl_family_end(class, i))
        e.n += exported(class, &class->param[i], ema) ? (int)tensors_all(&class->param[i], false) : 0;
    e.entry = fl_alloc(e.n * (int64_t)sizeof *e.entry);
    e.shard = fl_alloc(e.n * (int64_t)sizeof *e.shard);
    e.n = 0;
    for (int i = 0; i < class->nparam; i = fl_family_end(class, i))
        for (int64_t b = 0; exported(class, &class->param[i], ema) && b < tensors_all(&class->param[i], false); b++) {
            e.entry[e.n] = tensor_entry(&class->param[i], b, false);
            int64_t own = 4 * e.entry[e.n].count;
            if (limit > 0 && bytes > 0 && bytes + own > limit) {
                e.nshard++;
                bytes = 0;
            }
            bytes += own;
            e.shard[e.n++] = e.nshard - 1;
        }
    return e;
}

static void write_part(struct fl_st_writer *w, int64_t element, const float *whole, const struct fl_param *p, int part, int64_t n)
{
    float *file = fl_alloc(n * (int64_t)sizeof(float));
    struct fl_block_walk walk = fl_block_walk_begin(p, part, false);
    for (int64_t i = 0; i < n; i++)
        file[i] = whole[fl_block_walk_next(&walk)];
    fl_st_write(w, element, file, n);
    free(file);
}

/* Begins the file in which entry i stands, after ending the one before. */
static void turn_to(struct fl_st_writer *w, const struct export *e, int i, const char *name)
{
    if (i > 0 && i < e->n && e->shard[i] == e->shard[i - 1])
        return;
    if (i > 0)
        fl_st_end(w);
    if (i == e->n)
        return;
    int n = 1;
    while (i + n < e->n && e->shard[i + n] == e->shard[i])
        n++;
    char *file = fl_shard_name(name, e->shard[i], e->nshard);
    fl_st_begin(w, file, n, e->entry + i);
    free(file);
}

void fl_weights_export(struct fl_run *run, const char *name, int64_t limit, bool ema)
{
    const struct fl_class *class = run->rank->class_;
    struct fl_st_writer w;
    bool root = fl_rank_number == 0;
    struct export e = { 0 };
    fl_at("--export", "writing the weights");
    if (root)
        e = plan_export(class, limit, ema);
    int64_t element = 0;
    int at = 0;
    for (int i = 0; i < class->nparam; i = fl_family_end(class, i)) {
        const struct fl_param *p = &class->param[i];
        if (!exported(class, p, ema))
            continue;
        struct fl_family f = fl_family_of(run, i);
        float *whole = root ? fl_alloc(fl_tensor_count(&p->tensor) * (int64_t)sizeof(float)) : NULL;
        for (int64_t b = 0; b < fl_blocks_all(p); b++) {
            fl_family_bring(run, &f, b, 0, whole);
            if (!root)
                continue;
            for (int k = 0; k < fl_block_parts(p, false); k++) {
                turn_to(&w, &e, at, name);
                element = at > 0 && e.shard[at] == e.shard[at - 1] ? element : 0;
                write_part(&w, element, whole, p, k, e.entry[at].count);
                element += e.entry[at++].count;
                fl_alive();
            }
        }
        free(whole);
        fl_family_free(&f);
    }
    char *complaint = NULL;
    if (root && !e.n)
        fl_st_begin(&w, name, 0, NULL);
    if (root && !e.n)
        fl_st_end(&w);
    if (root && e.n)
        turn_to(&w, &e, e.n, name);
    if (root && e.nshard > 1)
        complaint = fl_shards_index(name, e.nshard, e.n, e.entry, e.shard);
    for (int i = 0; i < e.n; i++)
        free((char *)e.entry[i].name);
    free(e.entry);
    free(e.shard);
    fl_agree_or(complaint, FL_EXIT_ACCIDENT);        /* nobody ends the job before the file is whole */
}
