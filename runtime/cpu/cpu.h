/* What the cpu kernels share: threads, scratch memory, and vector loops over rows.
 *
 * Deterministic for any number of threads: a sum is cut into chunks whose number and size depend on the extents only,
 * chunks are summed one by one, and the chunk sums are added in order. */
#ifndef FL_CPU_H
#define FL_CPU_H
#include "../check.h"
#include "../fl_rooms.h"
#include "../flow_rt.h"
#include <omp.h>
#include <string.h>

enum { FL_GRAIN = 32768 }; /* elements below which starting threads costs more than it gives */
static inline int64_t fl_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fl_most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fl_part_size(int64_t n, int parts, int i) { return n / parts + (i < n % parts); }
static inline int64_t fl_part_base(int64_t n, int parts, int i) { return i * (n / parts) + fl_least(i, n % parts); }

/* Between f32 and a float type, n elements that are `step` apart in memory of that type; x and y are typed pointers. */
void fl_load_row(float *to, const void *x, enum fl_type t, int64_t step, int64_t n);
void fl_store_row(void *y, enum fl_type t, int64_t step, const float *from, int64_t n);
static inline int64_t fl_type_bytes(enum fl_type t)
{
    return t == FL_F32 || t == FL_I32 ? 4 : t == FL_BF16 || t == FL_F16 ? 2 : 1;
}
/* Element `at` of a tensor of type t. */
static inline const void *fl_element(const void *x, enum fl_type t, int64_t at)
{
    return (const char *)x + at * fl_type_bytes(t);
}
static inline void *fl_place_of(void *y, enum fl_type t, int64_t at) { return (char *)y + at * fl_type_bytes(t); }
/* One element as f32; t should not change in a loop. */
static inline float fl_get(const void *x, enum fl_type t, int64_t at)
{
    const fl_bf16 *b = x;
    const fl_f16 *h = x;
    return t == FL_BF16 ? fl_from_bf16(b[at]) : t == FL_F16 ? fl_from_f16(h[at]) : ((const float *)x)[at];
}
static inline void fl_set(void *y, enum fl_type t, int64_t at, float v)
{
    if (t == FL_BF16)
        ((fl_bf16 *)y)[at] = fl_to_bf16(v);
    else if (t == FL_F16)
        ((fl_f16 *)y)[at] = fl_to_f16(v);
    else
        ((float *)y)[at] = v;
}
/* A dense row as f32: where it lies if that is what it is, else widened into `room`. NULL stays NULL. */
static inline const float *fl_row_in(float *room, const void *x, enum fl_type t, int64_t n)
{
    if (t == FL_F32 || !x)
        return x;
    fl_load_row(room, x, t, 1, n);
    return room;
}
/* Where to form a row of y in f32; once it is there, fl_row_put rounds it into y. */
static inline float *fl_row_out(float *room, void *y, enum fl_type t) { return t == FL_F32 ? y : room; }
static inline void fl_row_put(void *y, enum fl_type t, const float *row, int64_t n)
{
    if (t != FL_F32)
        fl_store_row(y, t, 1, row, n);
}

/* Scratch: grows on first use and stays, so that a running step allocates nothing. Two users at a time must take
 * different slots; the thread form gives each thread its own. */
enum fl_scratch_slot { FL_SCRATCH_KERNEL, FL_SCRATCH_INDEX, FL_SCRATCH_SEND, FL_SCRATCH_RECV, FL_SCRATCH_WIDE, FL_SCRATCH_SEE, FL_SCRATCH_SLOTS };
void *fl_scratch(enum fl_scratch_slot slot, int64_t bytes);
enum fl_thread_slot { FL_SCRATCH_ROWS, FL_SCRATCH_PRODUCT, FL_THREAD_SLOTS };
void *fl_thread_scratch_of(enum fl_thread_slot slot, int64_t bytes);
static inline void *fl_thread_scratch(int64_t bytes) { return fl_thread_scratch_of(FL_SCRATCH_ROWS, bytes); }
int64_t fl_scratch_bytes(void);                      /* held by all of them but for products */
int64_t fl_links_bytes(void);                        /* held by the slots of links */
void fl_scratch_threads(int n);                      /* before the first parallel region */
#endif
