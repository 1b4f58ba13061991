/* Parts of tensors, from the program's tables and a rank's coordinates. */
#include "place.h"
#include <string.h>

struct fl_box fl_box_of(const struct fl_tensor *t, const int *coord, int microbatch)
{
    struct fl_box b = { { 0 }, { 0 } };
    for (int d = 0; d < t->ndim; d++) {
        int64_t parts = 1, at = 0, n = t->dim[d].phys;
        for (int i = 0; i < t->dim[d].nsplit; i++) {
            int axis = t->dim[d].axis[i];
            parts *= fl_program.axis_size[axis];
            at = at * fl_program.axis_size[axis] + (axis == fl_program.mb ? microbatch : coord[axis]);
        }
        int64_t more = n % parts;
        b.n[d] = n / parts + (at < more);
        b.base[d] = at * (n / parts) + (at < more ? at : more);
    }
    return b;
}

struct fl_held fl_held_of(const struct fl_param *p, const int *coord, const struct fl_box *b)
{
    struct fl_held h = { 0, fl_box_count(&p->tensor, b) };
    for (int i = 0; i < p->nflat; i++)
        h.first = h.first * fl_program.axis_size[p->flat[i]] + coord[p->flat[i]];
    if (p->nflat) {
        h.first *= p->stored;
        int64_t left = h.n - h.first;
        h.n = left < 0 ? 0 : left < p->stored ? left : p->stored;
    }
    return h;
}

bool fl_held_first(const struct fl_param *p, const int *coord)
{
    const struct fl_tensor *t = &p->tensor;
    for (int axis = 0; axis < fl_program.naxis; axis++) {
        bool splits = axis == fl_program.pipe || axis == fl_program.mb;
        for (int d = 0; d < t->ndim; d++)
            for (int i = 0; i < t->dim[d].nsplit; i++)
                splits |= t->dim[d].axis[i] == axis;
        for (int i = 0; i < p->nflat; i++)
            splits |= p->flat[i] == axis;
        if (!splits && coord[axis] != 0)
            return false;
    }
    return true;
}

bool fl_box_first(const struct fl_tensor *t, const int *coord)
{
    return fl_held_first(&(struct fl_param){ .tensor = *t }, coord);
}

int64_t fl_box_count(const struct fl_tensor *t, const struct fl_box *b)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= b->n[d];
    return n;
}

int64_t fl_tensor_count(const struct fl_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= t->dim[d].size;
    return n;
}

void fl_box_rows(const struct fl_tensor *t, const struct fl_box *b,
                 void (*f)(void *context, int64_t at, int64_t index, int64_t n), void *context)
{
    if (t->ndim == 0) {
        f(context, 0, 0, 1);
        return;
    }
    int last = t->ndim - 1;
    int64_t rows = 1, n = t->dim[last].size - b->base[last];
    n = n < b->n[last] ? n : b->n[last];
    for (int d = 0; d < last; d++)
        rows *= b->n[d];
    if (n <= 0)
        return;
#pragma omp parallel for if (rows * n > 65536)
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r, stride = t->dim[last].size, index = b->base[last];
        bool inside = true;
        for (int d = last - 1; d >= 0; d--) {
            int64_t i = b->base[d] + rest % b->n[d];
            rest /= b->n[d];
            inside &= i < t->dim[d].size;
            index += i * stride;
            stride *= t->dim[d].size;
        }
        if (inside)
            f(context, r * b->n[last], index, n);
    }
}

struct copy { float *part; const float *from; float *whole; struct fl_held held; };

static void take_row(void *context, int64_t at, int64_t index, int64_t n)
{
    struct copy *c = context;
    memcpy(c->part + at, c->from + index, (size_t)n * sizeof(float));
}

static void put_row(void *context, int64_t at, int64_t index, int64_t n)
{
    struct copy *c = context;
    int64_t low = at < c->held.first ? c->held.first - at : 0, high = c->held.first + c->held.n - at;
    high = high < n ? high : n;
    if (low < high)
        memcpy(c->whole + index + low, c->from + (at + low - c->held.first), (size_t)(high - low) * sizeof(float));
}

void fl_box_take(float *part, const float *whole, const struct fl_tensor *t, const struct fl_box *b)
{
    memset(part, 0, (size_t)fl_box_count(t, b) * sizeof(float));
    fl_box_rows(t, b, take_row, &(struct copy){ .part = part, .from = whole });
}

void fl_held_put(float *whole, const float *part, const struct fl_tensor *t, const struct fl_box *b, const struct fl_held *h)
{
    fl_box_rows(t, b, put_row, &(struct copy){ .whole = whole, .from = part, .held = *h });
}
