/* The queue: a ring of slots under one lock. `first` is the slot that was taken last, `count` the slots that are full, it
 * included. An order to start again at another step bumps `turn`; a batch that was begun before that is dropped. */
#include "data_queue.h"
#include "check.h"
#include "trace.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { SLOTS = 4 };
static const int64_t most_bytes = (int64_t)256 << 20;    /* of all slots; two are there in any case */

struct slot { char *memory, *complaint; int64_t step; };
struct fl_queue {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, freed;
    struct slot slot[SLOTS];
    int slots, first, count;
    int64_t bytes, period, next;         /* next: the step that is filled next */
    unsigned turn;
    bool stop;
    char *(*fill)(void *context, int64_t step, char *to);
    void *context;
};

static double waited;
double fl_queue_waited(void) { return waited; }

static int64_t after(const struct fl_queue *q, int64_t step) { return q->period ? (step + 1) % q->period : step + 1; }

static void *work(void *argument)
{
    struct fl_queue *q = argument;
#ifdef _OPENMP
    omp_set_num_threads(1);              /* the cores belong to the step */
#endif
    pthread_mutex_lock(&q->lock);
    while (!q->stop) {
        if (q->count == q->slots) {
            pthread_cond_wait(&q->freed, &q->lock);
            continue;
        }
        struct slot *s = &q->slot[(q->first + q->count) % q->slots];
        unsigned turn = q->turn;
        s->step = q->next;
        pthread_mutex_unlock(&q->lock);
        memset(s->memory, 0, (size_t)q->bytes);
        char *complaint = q->fill(q->context, s->step, s->memory);
        pthread_mutex_lock(&q->lock);
        if (turn != q->turn)
            continue;
        s->complaint = complaint;
        q->next = after(q, s->step);
        q->count++;
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

struct fl_queue *fl_queue_new(int64_t bytes, int64_t period, char *(*fill)(void *context, int64_t step, char *to),
                              void *context)
{
    struct fl_queue *q = fl_alloc(sizeof *q);
    *q = (struct fl_queue){ .bytes = bytes, .period = period, .fill = fill, .context = context, .slots = SLOTS };
    while (q->slots > 2 && q->slots * bytes > most_bytes)
        q->slots--;
    for (int i = 0; i < q->slots; i++)
        q->slot[i] = (struct slot){ .memory = fl_alloc(bytes), .step = -1 };
    q->next = -1;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->filled, NULL);
    pthread_cond_init(&q->freed, NULL);
    return q;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *fl_queue_take(struct fl_queue *q, int64_t step)
{
    pthread_mutex_lock(&q->lock);
    bool started = q->next >= 0;         /* the thread moves it on */
    if (started && q->count && q->slot[q->first].step != step) {     /* the batch before it is done with */
        q->first = (q->first + 1) % q->slots;
        q->count--;
        pthread_cond_signal(&q->freed);
    }
    if (!started || (q->count ? q->slot[q->first].step : q->next) != step) {
        q->count = 0;
        q->next = step;
        q->turn++;
        pthread_cond_signal(&q->freed);
    }
    if (!started && pthread_create(&q->thread, NULL, work, q))
        FL_FAIL("the host allows no more threads", "cannot start the thread that reads data");
    if (!q->count) {
        double start = now();
        fl_waiting("the file system");
        while (!q->count)
            pthread_cond_wait(&q->filled, &q->lock);
        fl_waiting(NULL);
        double seconds = now() - start;
        waited += seconds;
        if (fl_tracing)
            fl_trace_input(seconds);
    }
    struct slot *s = &q->slot[q->first];
    pthread_mutex_unlock(&q->lock);
    if (s->complaint)
        FL_FAIL("the data were checked before the first step: something writes to them", "%s", s->complaint);
    return s->memory;
}

void fl_queue_close(struct fl_queue *q)
{
    if (!q)
        return;
    if (q->next >= 0) {
        pthread_mutex_lock(&q->lock);
        q->stop = true;
        pthread_cond_signal(&q->freed);
        pthread_mutex_unlock(&q->lock);
        pthread_join(q->thread, NULL);
    }
    pthread_cond_destroy(&q->freed);
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    for (int i = 0; i < q->slots; i++)
        free(q->slot[i].memory);
    free(q);
}
