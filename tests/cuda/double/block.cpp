/* A grid, block after block in random order; the threads of a block in random order too. Threads run one after the other
 * on one stack as long as none of them waits. One that waits (barrier, shuffle) keeps the stack it is on, and others go
 * on on a new one: kernels without barriers cost no switch at all.
 *
 * Faults found here: a barrier or shuffle that some thread of the block or warp never reaches; threads that differ in what
 * they wait for; shared memory of two sizes under one name. What a missing barrier breaks shows as wrong numbers, as soon
 * as an order is drawn in which it matters: half of the blocks start all threads before any goes on, half let those that
 * can go on run ahead. */
#include "device_twin.h"
#include "twin.h"
#include <stdlib.h>
#include <string.h>
#include <vector>

twin_index threadIdx, blockIdx, blockDim, gridDim;

constexpr unsigned LANES = 32, MAX_THREADS = 1024;

enum waits { RUNS, FOR_BARRIER, FOR_WARP, ENDED };
struct thread {
    waits state;
    twin_fiber *fiber;
    unsigned shuffles;                   /* so far */
};
struct warp {
    unsigned arrived, bytes;
    char shown[2][LANES][TWIN_SHOWN];    /* by parity of the shuffle: a lane is at most one ahead */
};

static struct {
    const char *kernel;
    const std::function<void()> *body;
    unsigned threads, started, ended, at_barrier;
    bool ahead;                          /* threads that can go on come before those that have not started */
    twin_order *order;
    thread thread_of[MAX_THREADS];
    warp warp_of[MAX_THREADS / LANES];
    unsigned ready[MAX_THREADS], first, count;       /* a ring */
} now;
static unsigned self;                    /* the thread that runs */
static unsigned long block_number;
static std::vector<twin_fiber *> idle;
static twin_fiber *current;

static void run_threads(void);

static void go(twin_fiber *to)
{
    twin_fiber *from = current;
    current = to;
    if (from != to)
        twin_fiber_switch(from, to);
}

static twin_fiber *fresh(void)
{
    if (idle.empty())
        return twin_fiber_new(run_threads);
    twin_fiber *f = idle.back();
    idle.pop_back();
    return f;
}

static void resume(unsigned t)
{
    self = t;
    threadIdx = {t, 0, 0};
    now.thread_of[t].state = RUNS;
}

/* The next thread that can go on; threads == none, or a start comes first. */
static bool take_ready(unsigned *t)
{
    if (!now.count || (!now.ahead && now.started < now.threads))
        return false;
    *t = now.ready[now.first];
    now.first = (now.first + 1) % MAX_THREADS;
    now.count--;
    return true;
}

static void make_ready(unsigned t)
{
    now.ready[(now.first + now.count++) % MAX_THREADS] = t;
}

/* The running thread has to wait: something else runs until it is resumed. */
static void wait_for(waits what)
{
    unsigned me = self, t;
    now.thread_of[me].state = what;
    now.thread_of[me].fiber = current;
    if (take_ready(&t)) {
        resume(t);
        go(now.thread_of[t].fiber);
    } else if (now.started < now.threads) {
        go(fresh());
    } else {
        go(twin_fiber_main());           /* nobody can go on */
    }
}

/* What a fiber does: starts threads that have not started, hands over to those that can go on. */
static void run_threads(void)
{
    for (;;) {
        unsigned t;
        if (take_ready(&t)) {
            idle.push_back(current);
            resume(t);
            go(now.thread_of[t].fiber);
        } else if (now.started < now.threads) {
            t = (unsigned)(*now.order)[now.started++];
            resume(t);
            (*now.body)();
            now.thread_of[self].state = ENDED;
            now.ended++;
        } else {
            idle.push_back(current);
            go(twin_fiber_main());
        }
    }
}

void twin_barrier(void)
{
    if (++now.at_barrier < now.threads) {
        wait_for(FOR_BARRIER);
        return;
    }
    now.at_barrier = 0;
    twin_order order(now.threads);
    for (unsigned i = 0; i < now.threads; i++) {
        unsigned t = (unsigned)order[i];
        if (t != self)
            make_ready(t);
    }
}

unsigned twin_lane(void)
{
    return self % LANES;
}

void twin_misaligned(const char *what)
{
    twin_fault("kernel %s: %s does not start at a multiple of 16 bytes", now.kernel, what);
}

const char *twin_show(const void *mine, unsigned bytes)
{
    unsigned me = self, lane = me % LANES;
    warp *w = &now.warp_of[me / LANES];
    char(*shown)[TWIN_SHOWN] = w->shown[now.thread_of[me].shuffles++ & 1];
    if (me - lane + LANES > now.threads)
        twin_fault("kernel %s: a shuffle of all lanes in a warp of %u", now.kernel, now.threads % LANES);
    if (w->arrived && w->bytes != bytes)
        twin_fault("kernel %s, block %u: lanes of one warp are in different shuffles", now.kernel, blockIdx.x);
    w->bytes = bytes;
    if (bytes)
        memcpy(shown[lane], mine, bytes);
    if (++w->arrived < LANES) {
        wait_for(FOR_WARP);
    } else {
        w->arrived = 0;
        unsigned first = (unsigned)twin_random(LANES);
        for (unsigned l = first; l < first + LANES; l++)
            if (l % LANES != lane)
                make_ready(me - lane + l % LANES);
    }
    return shown[0];
}

void *twin_shared(twin_slot *slot, size_t bytes)
{
    if (slot->block == block_number) {
        if (slot->bytes != bytes)
            twin_fault("kernel %s: shared memory of %zu and of %zu bytes under one name", now.kernel, slot->bytes, bytes);
        return slot->memory;
    }
    if (slot->bytes != bytes) {
        free(slot->memory);
        slot->memory = malloc(bytes);
        slot->bytes = bytes;
    }
    slot->block = block_number;
    return memset(slot->memory, 0xff, bytes);
}

static void run_block(unsigned threads)
{
    twin_order order(threads);
    now.threads = threads;
    now.order = &order;
    now.started = now.ended = now.at_barrier = now.first = now.count = 0;
    now.ahead = twin_random(2);
    for (unsigned t = 0; t < threads; t++)
        now.thread_of[t] = {};
    for (unsigned w = 0; w < (threads + LANES - 1) / LANES; w++)
        now.warp_of[w].arrived = 0;
    block_number++;
    current = twin_fiber_main();
    go(fresh());
    if (now.ended == threads)
        return;
    unsigned barrier = 0, warp = 0;
    for (unsigned t = 0; t < threads; t++) {
        barrier += now.thread_of[t].state == FOR_BARRIER;
        warp += now.thread_of[t].state == FOR_WARP;
    }
    twin_fault("kernel %s, block %u: %u threads wait at a barrier and %u in a shuffle that the other threads do not reach "
               "(%u of %u have ended)", now.kernel, blockIdx.x, barrier, warp, now.ended, threads);
}

void twin_launch(const char *name, unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> thread)
{
    if (blocks == 0 || threads == 0 || threads > MAX_THREADS)
        twin_fault("kernel %s: a launch of %u blocks of %u threads", name, blocks, threads);
    twin_enqueue(stream, name, [=] {
        twin_order order(blocks);
        now.kernel = name;
        now.body = &thread;
        gridDim = {blocks, 1, 1};
        blockDim = {threads, 1, 1};
        for (unsigned i = 0; i < blocks; i++) {
            blockIdx = {(unsigned)order[i], 0, 0};
            run_block(threads);
        }
        return true;
    });
}
