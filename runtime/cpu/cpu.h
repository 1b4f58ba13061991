/* What the cpu kernels share: threads, scratch memory, and vector loops over rows.
 *
 * Deterministic for any number of threads: a sum is cut into chunks whose number and size depend on the extents only,
 * chunks are summed one by one, and the chunk sums are added in order. */
#ifndef FL_CPU_H
#define FL_CPU_H
#include "../check.h"
#include "../flow_rt.h"
#include <omp.h>
#include <string.h>

enum { FL_GRAIN = 32768 }; /* elements below which starting threads costs more than it gives */
static inline int64_t fl_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fl_most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fl_part_size(int64_t n, int parts, int i) { return n / parts + (i < n % parts); }
static inline int64_t fl_part_base(int64_t n, int parts, int i) { return i * (n / parts) + fl_least(i, n % parts); }

/* Scratch: grows on first use and stays, so that a running step allocates nothing. Two users at a time must take
 * different slots; the thread form gives each thread its own. */
enum fl_scratch_slot { FL_SCRATCH_KERNEL, FL_SCRATCH_INDEX, FL_SCRATCH_SEND, FL_SCRATCH_RECV, FL_SCRATCH_SLOTS };
void *fl_scratch(enum fl_scratch_slot slot, int64_t bytes);
void *fl_thread_scratch(int64_t bytes);
int64_t fl_scratch_bytes(void);                      /* held by all of them */
int64_t fl_links_bytes(void);                        /* held by the slots of links */
void fl_scratch_threads(int n);                      /* before the first parallel region */
#endif
