/* Failing and waiting: messages, checked MPI, memory, and the markers that the watchdog reads. */
#include "check.h"
#include "flow_rt.h"
#include "peers.h"
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fl_rank_number;

/* Where this rank is. Written by the step, read by the watchdog: each on its own is a pointer or a number. */
static _Atomic(const char *) at_where, at_what, waits_for;
static atomic_long beat;                             /* grows with every marker and every wait */

void fl_at(const char *where, const char *what)
{
    atomic_store_explicit(&at_where, where, memory_order_relaxed);
    atomic_store_explicit(&at_what, what, memory_order_relaxed);
    atomic_fetch_add_explicit(&beat, 1, memory_order_relaxed);
}

void fl_waiting(const char *peers)
{
    atomic_store_explicit(&waits_for, peers, memory_order_relaxed);
    atomic_fetch_add_explicit(&beat, 1, memory_order_relaxed);
}

void fl_alive(void) { atomic_fetch_add_explicit(&beat, 1, memory_order_relaxed); }

long fl_markers(const char **where, const char **what, const char **waits)
{
    *where = atomic_load(&at_where);
    *what = atomic_load(&at_what);
    *waits = atomic_load(&waits_for);
    return atomic_load(&beat);
}

/* Output is flushed first; MPI_Abort makes mpirun stop the others. */
_Noreturn void fl_end_job(void)
{
    fflush(NULL);
    int up = 0, down = 0;
    MPI_Initialized(&up);
    MPI_Finalized(&down);
    if (up && !down)
        MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

void fl_fail(const char *file, int line, const char *hint, const char *fact, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fact);
    vsnprintf(text, sizeof text, fact, args);
    va_end(args);
    const char *slash = strrchr(file, '/'), *where = atomic_load(&at_where);
    fl_peers_tell();
    fprintf(stderr, "flow: rank %d: %s", fl_rank_number, text);
    if (where)
        fprintf(stderr, ", at %s %s", where, atomic_load(&at_what));
    if (hint)
        fprintf(stderr, " (%s)", hint);
    fprintf(stderr, " [%s:%d]\n", slash ? slash + 1 : file, line);
    fl_end_job();
}

/* All ranks come here together, so an orderly end is possible; it keeps mpirun from adding a page of its own. */
void fl_refuse(const char *fact, ...)
{
    fl_peers_tell();
    if (fl_rank_number == 0) {
        va_list args;
        va_start(args, fact);
        fprintf(stderr, "flow: ");
        vfprintf(stderr, fact, args);
        fprintf(stderr, "\n");
        va_end(args);
    }
    fflush(NULL);
    int up = 0;
    MPI_Initialized(&up);
    if (up)
        MPI_Finalize();
    exit(FL_EXIT_REFUSED);
}

void fl_mpi_check(int status, const char *call, const char *file, int line)
{
    if (status == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(status, text, &length);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
    fl_watchdog_broken(fl_printf("%s: %s", name, text));
    fl_fail(file, line, "usually another rank has died: look for its message first", "%s: %s", name, text);
}

void *fl_alloc(int64_t bytes)
{
    size_t whole = ((size_t)(bytes > 0 ? bytes : 1) + 63) / 64 * 64;
    void *p = aligned_alloc(64, whole);
    if (!p)
        FL_FAIL("the host is out of memory", "cannot get %lld bytes", (long long)bytes);
    return memset(p, 0, whole);
}

char *fl_printf(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = fl_alloc(n + 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(args);
    va_end(again);
    return text;
}
