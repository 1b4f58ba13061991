/* The thread that writes. The main thread copies a piece and goes on; when `room` bytes wait for the disk, it waits
 * too. After a failure the rest is taken and dropped, so that nobody waits for a full disk. */
#include "writing.h"
#include "check.h"
#include "manifest.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct piece { float *data; int64_t bytes; struct piece *next; };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, ended, done;           /* ended: no more pieces come; done: the thread has returned */
    struct piece *first, *last;
    int64_t waiting, room;               /* bytes that wait, and how many may */
    char *path, *complaint;
    int64_t bytes;
    struct fl_sum sum;
    char *(*job)(void *);
    void *context;
} w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void complain(void)
{
    bool full = errno == ENOSPC || errno == EFBIG || errno == EDQUOT;
    w.complaint = fl_printf("cannot write %s: %s%s", w.path, strerror(errno),
                            full ? "; the disk or a limit is full" : "");
}

static void write_piece(int fd, const struct piece *p)
{
    const char *at = (const char *)p->data;
    for (int64_t left = p->bytes; left > 0 && !w.complaint;) {
        ssize_t n = write(fd, at, (size_t)(left < 1 << 24 ? left : 1 << 24));
        if (n < 0 && errno != EINTR)
            complain();
        if (n <= 0)
            continue;
        fl_sum_add(&w.sum, at, n);
        at += n;
        left -= n;
        w.bytes += n;
        fl_alive();
    }
}

static void *write_file(void *unused)
{
    (void)unused;
    int fd = open(w.path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        complain();
    pthread_mutex_lock(&w.lock);
    while (w.first || !w.ended) {
        struct piece *p = w.first;
        if (!p) {
            pthread_cond_wait(&w.changed, &w.lock);
            continue;
        }
        pthread_mutex_unlock(&w.lock);
        write_piece(fd, p);
        pthread_mutex_lock(&w.lock);
        w.first = p->next;
        w.last = w.first ? w.last : NULL;
        w.waiting -= p->bytes;
        pthread_cond_signal(&w.changed);
        free(p->data);
        free(p);
    }
    pthread_mutex_unlock(&w.lock);
    if (fd >= 0 && !w.complaint && fsync(fd))
        complain();
    if (fd >= 0 && close(fd) && !w.complaint)
        complain();
    pthread_mutex_lock(&w.lock);
    w.done = true;
    pthread_mutex_unlock(&w.lock);
    return NULL;
}

static void *do_job(void *unused)
{
    (void)unused;
    char *complaint = w.job(w.context);
    pthread_mutex_lock(&w.lock);
    w.complaint = complaint;
    w.done = true;
    pthread_mutex_unlock(&w.lock);
    return NULL;
}

/* Signals are the main thread's. */
static void start(void *(*f)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&w.thread, NULL, f, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status)
        FL_FAIL("is the number of threads limited?", "no thread for writing: %s", strerror(status));
    w.started = true;
}

void fl_writing_begin(const char *path, char *header, int64_t header_bytes, int64_t room)
{
    w.path = fl_printf("%s", path);
    w.room = room;
    w.ended = w.done = false;
    w.bytes = 0;
    fl_sum_begin(&w.sum);
    struct piece *p = fl_alloc(sizeof *p);
    *p = (struct piece){ .data = (float *)header, .bytes = header_bytes };
    w.first = w.last = p;
    w.waiting = header_bytes;
    start(write_file);
}

float *fl_writing_room(int64_t count)
{
    int64_t bytes = count * (int64_t)sizeof(float);
    pthread_mutex_lock(&w.lock);
    while (w.first && w.waiting + bytes > w.room)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return fl_alloc(bytes);
}

void fl_writing_put(float *piece, int64_t count)
{
    struct piece *p = fl_alloc(sizeof *p);
    *p = (struct piece){ .data = piece, .bytes = count * (int64_t)sizeof(float) };
    pthread_mutex_lock(&w.lock);
    if (w.last)
        w.last->next = p;
    else
        w.first = p;
    w.last = p;
    w.waiting += p->bytes;
    pthread_cond_signal(&w.changed);
    pthread_mutex_unlock(&w.lock);
}

void fl_writing_end(void)
{
    pthread_mutex_lock(&w.lock);
    w.ended = true;
    pthread_cond_signal(&w.changed);
    pthread_mutex_unlock(&w.lock);
}

void fl_writing_job(char *(*f)(void *), void *context)
{
    w.job = f;
    w.context = context;
    w.done = false;
    start(do_job);
}

bool fl_writing_busy(void)
{
    pthread_mutex_lock(&w.lock);
    bool busy = w.started && !w.done;
    pthread_mutex_unlock(&w.lock);
    return busy;
}

char *fl_writing_finish(int64_t *bytes, uint64_t *sum)
{
    char *complaint = NULL;
    if (w.started) {
        pthread_join(w.thread, NULL);
        complaint = w.complaint;
    }
    *bytes = w.bytes;
    *sum = fl_sum_end(&w.sum);
    free(w.path);
    w.path = w.complaint = NULL;
    w.started = false;
    return complaint;
}
