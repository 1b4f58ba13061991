/* What a rank does for one piece of a collective. Feed: what others need of it is copied into its slot. Reduce: this rank's
 * slice is reduced over all ranks, in rank order, whatever the piece sizes. Take: what the others have for it is
 * copied out of their slots. A slot has a slice for each rank, or one as large as the slot where all that a rank
 * feeds is one run. Parts may be uneven, or empty: a rank whose part has ended goes through the pieces with nothing. */
#include "shared.h"

enum { BLOCK = 1024, EVEN = 16 };        /* elements reduced at once; slices are multiples of EVEN */

/* Elements of a slice. */
static int64_t slice(const struct fl_collective *x, int size)
{
    int64_t all = FL_MEETING_SLOT_BYTES / x->bytes;
    return x->kind == FL_JOIN || x->kind == FL_PASS ? all : all / size / EVEN * EVEN;
}

int64_t fl_pieces_of(const struct fl_collective *x, int size)
{
    bool all = x->kind == FL_REDUCE_ALL;
    int64_t one = slice(x, size) * (all ? size : 1);
    int64_t longest = x->kind == FL_REDUCE_CUT || x->kind == FL_JOIN ? fl_cut_count(&x->cut, size, 0) : x->n;
    return (longest + one - 1) / one;
}

/* Where a piece's slice begins in a packed part, and how many elements of `count` it has. */
static int64_t begin(const struct fl_collective *x, const struct fl_piece *p, int64_t count, int64_t *n)
{
    int64_t most = slice(x, p->size), at = p->number * most;
    *n = fl_most(0, fl_least(most, count - at));
    return at;
}

/* The same of slice `of` of a tensor that is reduced whole: a piece has a slice for each rank, side by side. */
static int64_t begin_whole(const struct fl_collective *x, const struct fl_piece *p, int of, int64_t *n)
{
    int64_t most = slice(x, p->size), at = p->number * most * p->size, left = x->n - at;
    int64_t len = left >= most * p->size ? most : ((left + p->size - 1) / p->size + EVEN - 1) / EVEN * EVEN;
    at += of * len;
    *n = fl_most(0, fl_least(len, x->n - at));
    return at;
}

static char *slice_of(const struct fl_collective *x, const struct fl_piece *p, int owner, int of)
{
    return p->slot[owner] + of * slice(x, p->size) * x->bytes;
}

/* n elements from `at` on of part i, packed, from their places in a tensor that is cut, or to them. */
static void pick(char *to, const char *whole, const struct fl_cut *c, const struct fl_piece *p, int i, int64_t at, int64_t n,
                 int bytes)
{
    int64_t row = fl_cut_size(c, p->size, i) * c->inner, step = c->n * c->inner, skip = row ? at % row : 0, run;
    const char *from = whole + ((row ? at / row : 0) * step + fl_cut_base(c, p->size, i) * c->inner) * bytes;
    for (; n > 0; n -= run, to += run * bytes, from += step * bytes, skip = 0) {
        run = fl_least(n, row - skip);
        memcpy(to, from + skip * bytes, (size_t)(run * bytes));
    }
}

static void put(char *whole, const char *from, const struct fl_cut *c, const struct fl_piece *p, int i, int64_t at, int64_t n,
                int bytes)
{
    int64_t row = fl_cut_size(c, p->size, i) * c->inner, step = c->n * c->inner, skip = row ? at % row : 0, run;
    char *to = whole + ((row ? at / row : 0) * step + fl_cut_base(c, p->size, i) * c->inner) * bytes;
    for (; n > 0; n -= run, from += run * bytes, to += step * bytes, skip = 0) {
        run = fl_least(n, row - skip);
        memcpy(to + skip * bytes, from, (size_t)(run * bytes));
    }
}

void fl_piece_feed(const struct fl_collective *x, const struct fl_piece *p)
{
    int64_t n, at;
    if (x->kind == FL_JOIN || x->kind == FL_PASS) {
        at = begin(x, p, x->kind == FL_JOIN ? fl_cut_count(&x->cut, p->size, p->rank) : x->n, &n);
        if (n && (x->kind == FL_JOIN || x->to != p->rank))
            memcpy(p->slot[p->rank], x->src + at * x->bytes, (size_t)(n * x->bytes));
        return;
    }
    for (int of = 0; of < p->size; of++) {
        char *to = slice_of(x, p, p->rank, of);
        if (of == p->rank && x->kind != FL_EXCHANGE)
            continue;                    /* its own it reads where it is */
        if (x->kind == FL_REDUCE_ALL) {
            at = begin_whole(x, p, of, &n);
            if (n)
                memcpy(to, x->src + at * x->bytes, (size_t)(n * x->bytes));
        } else {
            at = begin(x, p, fl_cut_count(&x->cut, p->size, of), &n);
            pick(to, x->src, &x->cut, p, of, at, n, x->bytes);
        }
    }
}

/* ---- reduce: floats in f32, rounded once ---- */

union block { float f[BLOCK]; int32_t i[BLOCK]; char bytes[BLOCK * 4]; };

static void load(union block *to, const void *from, enum fl_type type, int64_t n)
{
    if (type == FL_F32 || type == FL_I32)
        memcpy(to, from, (size_t)n * sizeof *to->f);
    else
        for (int64_t i = 0; i < n; i++)
            to->f[i] = type == FL_BF16 ? fl_from_bf16(((const fl_bf16 *)from)[i]) : fl_from_f16(((const fl_f16 *)from)[i]);
}

static void store(void *to, const union block *from, enum fl_type type, int64_t n)
{
    if (type == FL_F32 || type == FL_I32)
        memcpy(to, from, (size_t)n * sizeof *from->f);
    else
        for (int64_t i = 0; i < n; i++) {
            if (type == FL_BF16)
                ((fl_bf16 *)to)[i] = fl_to_bf16(from->f[i]);
            else
                ((fl_f16 *)to)[i] = fl_to_f16(from->f[i]);
        }
}

/* to = to and x, reduced. */
#define MEET(name, T, sum)                                                                                             \
    static void name(T *restrict to, const T *restrict x, enum fl_reduce reduce, int64_t n)                            \
    {                                                                                                                  \
        if (reduce == FL_SUM)                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = sum;                                                                                           \
        else if (reduce == FL_MAX)                                                                                     \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = x[i] > to[i] ? x[i] : to[i];                                                                   \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = x[i] < to[i] ? x[i] : to[i];                                                                   \
    }
MEET(meet, float, to[i] + x[i])
MEET(meet_whole_numbers, int32_t, (int32_t)((uint32_t)to[i] + (uint32_t)x[i]))

/* n elements from `at` on of what this rank reduces, as it has them itself; in `room` where they do not follow each other. */
static const char *own(const struct fl_collective *x, const struct fl_piece *p, int64_t at, int64_t n, union block *room)
{
    if (x->kind == FL_REDUCE_ALL)
        return x->src + at * x->bytes;
    if (x->cut.outer == 1)
        return x->src + (fl_cut_base(&x->cut, p->size, p->rank) * x->cut.inner + at) * x->bytes;
    pick(room->bytes, x->src, &x->cut, p, p->rank, at, n, x->bytes);
    return room->bytes;
}

void fl_piece_reduce(const struct fl_collective *x, const struct fl_piece *p)
{
    if (x->kind != FL_REDUCE_ALL && x->kind != FL_REDUCE_CUT)
        return;
    bool all = x->kind == FL_REDUCE_ALL;
    int64_t count, at = all ? begin_whole(x, p, p->rank, &count)
                            : begin(x, p, fl_cut_count(&x->cut, p->size, p->rank), &count);
    for (int64_t i = 0; i < count; i += BLOCK) {
        union block sum, next, room;
        int64_t n = fl_least(BLOCK, count - i), o = i * x->bytes;
        for (int r = 0; r < p->size; r++) {
            const void *from = r == p->rank ? own(x, p, at + i, n, &room) : slice_of(x, p, r, p->rank) + o;
            if (r == 0)
                load(&sum, from, x->type, n);
            else if (x->type == FL_F32)
                meet(sum.f, from, x->reduce, n);
            else if (x->type == FL_I32)
                meet_whole_numbers(sum.i, from, x->reduce, n);
            else {
                load(&next, from, x->type, n);
                meet(sum.f, next.f, x->reduce, n);
            }
        }
        store(x->dst + at * x->bytes + o, &sum, x->type, n);
        if (all)
            store(slice_of(x, p, p->rank, p->rank) + o, &sum, x->type, n);
    }
}

void fl_piece_take(const struct fl_collective *x, const struct fl_piece *p)
{
    int64_t n, at;
    if (x->kind == FL_PASS) {
        at = begin(x, p, x->n, &n) * x->bytes;
        if (n)
            memcpy(x->dst + at, x->from == p->rank ? x->src + at : p->slot[x->from], (size_t)(n * x->bytes));
        return;
    }
    for (int of = 0; of < p->size && x->kind != FL_REDUCE_CUT; of++) {
        if (x->kind == FL_REDUCE_ALL) {
            at = begin_whole(x, p, of, &n);
            if (of != p->rank && n)
                memcpy(x->dst + at * x->bytes, slice_of(x, p, of, of), (size_t)(n * x->bytes));
        } else if (x->kind == FL_EXCHANGE) {
            at = begin(x, p, fl_cut_count(&x->join, p->size, of), &n);
            put(x->dst, slice_of(x, p, of, p->rank), &x->join, p, of, at, n, x->bytes);
        } else {
            at = begin(x, p, fl_cut_count(&x->cut, p->size, of), &n);
            if (of != p->rank)
                put(x->dst, p->slot[of], &x->cut, p, of, at, n, x->bytes);
            else if (!fl_in_place(x, p->size, p->rank))
                put(x->dst, x->src + at * x->bytes, &x->cut, p, of, at, n, x->bytes);
        }
    }
}
