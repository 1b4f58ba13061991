/* Blocks of parameters: numbers, places, names. Everything here is this rank's own affair: nobody waits for anybody. */
#include "blocks.h"
#include "check.h"
#include "target.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t fl_blocks_all(const struct fl_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->nstack; i++)
        n *= p->stack[i];
    return n;
}

int64_t fl_blocks_own(const struct fl_param *p)
{
    int64_t n = p->count[0];
    for (int i = 1; i < p->nstack; i++)
        n *= p->count[i];
    return n;
}

int64_t fl_block_number(const struct fl_param *p, int64_t i)
{
    int64_t number = 0, weight = 1;
    for (int k = p->nstack - 1; k >= 0; k--) {
        number += (p->first[k] + i % p->count[k]) * weight;
        i /= p->count[k];
        weight *= p->stack[k];
    }
    return number;
}

int64_t fl_block_within(const struct fl_param *p, const int64_t *first, const int64_t *count, int64_t block)
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

int fl_family_end(const struct fl_class *class, int i)
{
    int end = i + 1;
    while (end < class->nparam && !strcmp(class->param[end].tensor.path, class->param[i].tensor.path))
        end++;
    return end;
}

/* own: which of the entry's blocks, see fl_block_number */
static char *address(struct fl_run *run, const struct fl_param *p, int64_t own, int64_t part)
{
    int64_t stride = p->stored ? p->stored : part;
    return (p->host ? run->host : run->arena) + p->offset_bytes + own * stride * (int64_t)sizeof(float);
}

void fl_block_put(struct fl_run *run, const struct fl_param *p, int64_t own, const float *from, int64_t n)
{
    char *to = address(run, p, own, n);
    if (!p->host)
        fl_to_arena(to, from, n * (int64_t)sizeof(float));
    else if (n > 0)
        memcpy(to, from, (size_t)n * sizeof(float));
}

void fl_block_get(float *to, struct fl_run *run, const struct fl_param *p, int64_t own, int64_t n)
{
    const char *from = address(run, p, own, n);
    if (p->host)
        fl_target_sync();                                  /* the copies of the last step have ended */
    if (!p->host)
        fl_from_arena(to, from, n * (int64_t)sizeof(float));
    else if (n > 0)
        memcpy(to, from, (size_t)n * sizeof(float));
}

void fl_block_put_held(struct fl_run *run, const struct fl_param *p, int64_t own, const float *part,
                       const struct fl_box *box)
{
    struct fl_held h = fl_held_of(p, run->rank->coord, box);
    fl_block_put(run, p, own, part + h.first, h.n);
}

/* ---- names and shapes in files ---- */

bool fl_block_wanted(const struct fl_param *p, bool native) { return native || !p->state; }

bool fl_block_averaged(const struct fl_class *class, const struct fl_param *p)
{
    size_t n = strlen(p->tensor.path);
    for (int i = 0; i < class->nparam; i++)
        if (class->param[i].average && !strncmp(class->param[i].tensor.path, p->tensor.path, n) &&
            class->param[i].tensor.path[n] == '#')
            return true;
    return false;
}

int fl_block_parts(const struct fl_param *p, bool native) { return native || !p->file_parts ? 1 : p->file_parts; }

/* {0} {1} .. in a file name, or [*] in a path, become the indices of the block, outermost first. */
char *fl_block_name(const struct fl_param *p, int64_t block, int part, bool native)
{
    const char *from = native || !p->file_parts ? p->tensor.path : p->file_names[part];
    bool path = from == p->tensor.path;
    int64_t index[FL_MAX_STACK] = { 0 };
    for (int i = p->nstack - 1; i >= 0; i--) {
        index[i] = block % p->stack[i];
        block /= p->stack[i];
    }
    char *name = fl_alloc((int64_t)strlen(from) * 8 + 64), *to = name;
    for (int level = 0; *from && !(!native && p->average && path && *from == '#');) {
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

/* The dims in the file, of all parts. */
static int file_dims(const struct fl_param *p, bool native, int64_t *size)
{
    bool own = native || !p->file_ndim;
    int ndim = own ? p->tensor.ndim : p->file_ndim;
    for (int d = 0; d < ndim; d++)
        size[d] = own ? p->tensor.dim[d].size : p->file_shape[d];
    return ndim;
}

struct fl_st_entry fl_block_entry(const struct fl_param *p, int64_t block, int part, bool native)
{
    int64_t size[FL_MAX_DIM];
    int ndim = file_dims(p, native, size), parts = fl_block_parts(p, native), first = parts > 1;
    struct fl_st_entry e = { .name = fl_block_name(p, block, part, native),
                             .ndim = ndim - first,
                             .count = fl_tensor_count(&p->tensor) / parts };
    for (int d = 0; d < e.ndim; d++)
        e.shape[d] = size[first + d];
    return e;
}

struct fl_block_walk fl_block_walk_begin(const struct fl_param *p, int part, bool native)
{
    struct fl_block_walk w = { 0 };
    w.ndim = file_dims(p, native, w.size);
    int64_t stride = 1;
    for (int d = w.ndim - 1; d >= 0; d--) {
        int of = p->file_ordered && !native ? p->file_order[d] : d;
        w.stride[of] = stride;
        stride *= w.size[of];
    }
    if (fl_block_parts(p, native) > 1)
        w.at = part * w.stride[0];
    return w;
}
