/* What the parts of the double share. */
#ifndef DOUBLE_TWIN_H
#define DOUBLE_TWIN_H
#include <cuda_runtime.h>
#include <functional>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define TWIN_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define TWIN_ASAN 0
#endif

/* A fault of the program under test: one line, and the job ends with exit code 3. */
__attribute__((noreturn, format(printf, 1, 2))) void twin_fault(const char *format, ...);

/* Random numbers by FL_DOUBLE_SEED and rank: below n. */
uint64_t twin_random(uint64_t n);

/* Numbers 0 .. n - 1 in a random order: first + i * step mod n. */
struct twin_order {
    uint64_t n, first, step;
    explicit twin_order(uint64_t count);
    uint64_t operator[](uint64_t i) const { return (first + i * step) % n; }
};

/* memory.cpp */
void twin_check_device(const void *p, size_t bytes, const char *what);     /* inside one allocation, or a fault */
void twin_memory_open(bool open);        /* device memory may be touched only while the device runs (seen under ASan) */

/* stream.cpp: work of a stream. `step` is tried again and again until it returns true. What keeps notes from try to try is
 * given as `make`, which gives a fresh step: a captured call runs once per launch of its graph. */
typedef std::function<bool()> twin_step;
typedef std::function<twin_step()> twin_maker;
void twin_enqueue(cudaStream_t stream, const char *what, twin_step step);
void twin_enqueue_made(cudaStream_t stream, const char *what, twin_maker make);
void twin_drain(void);                   /* all streams */
void twin_progress(void);                /* something went on within a step that has not ended */
void twin_refuse_in_capture(const char *what);       /* a fault while any stream is captured */

/* graph.cpp: what a stream that is captured does. A frontier: the calls that the next one on the stream comes after. */
typedef std::vector<int> twin_frontier;
int twin_capture_add(const char *what, twin_maker make, const twin_frontier &after);     /* the number of the call */
bool twin_capture_reaches(const twin_frontier &from, const twin_frontier &to);           /* does every call of `to` come before? */
/* FL_DOUBLE_EAGER: work runs when it is queued, and host memory may stand for device memory: for tests of kernels. */
bool twin_eager(void);

cudaGraph_t twin_capture_end(void);

/* fiber.cpp: a stack that a thread runs on */
struct twin_fiber;
twin_fiber *twin_fiber_new(void (*run)(void));       /* run never returns */
void twin_fiber_switch(twin_fiber *from, twin_fiber *to);
twin_fiber *twin_fiber_main(void);                   /* the stack the program came on */
#endif
