/* Failing: one line that says rank, place, fact and what to do, then the end of the whole job. */
#ifndef FL_CHECK_H
#define FL_CHECK_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

extern int fl_rank_number;                           /* rank in the world; 0 before MPI is up */
/* Prints "flow: rank R: fact (hint) [file:line]" and ends the job with exit code 1. hint may be NULL. */
__attribute__((noreturn, format(printf, 4, 5))) void fl_fail(const char *file, int line, const char *hint,
                                                             const char *fact, ...);
#define FL_FAIL(hint, ...) fl_fail(__FILE__, __LINE__, hint, __VA_ARGS__)
/* A user's mistake that every rank sees alike: rank 0 prints "flow: fact", all leave with exit code 1. */
__attribute__((noreturn, format(printf, 1, 2))) void fl_refuse(const char *fact, ...);
/* An MPI call: FL_MPI(MPI_Barrier(comm)). */
void fl_mpi_check(int status, const char *call, const char *file, int line);
#define FL_MPI(call) fl_mpi_check(call, #call, __FILE__, __LINE__)
/* The same where this rank may have to wait for any other. */
#define FL_WORLD(call) (fl_waiting("all ranks"), fl_mpi_check(call, #call, __FILE__, __LINE__), fl_waiting(NULL))
void *fl_alloc(int64_t bytes);                       /* zeroed, 64-byte aligned; never NULL */
char *fl_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));     /* allocated text */

/* Watchdog: a thread that ends the job when no marker moved for FL_TIMEOUT seconds (default 300, 0: off), or a rank is
 * lost. All ranks start it together. */
void fl_watchdog_start(void);
void fl_watchdog_broken(const char *what);           /* MPI has lost somebody: lets the watchdog report, if it can */
/* Where this rank is; grows when it moves. */
long fl_markers(const char **where, const char **what, const char **waits);
/* What a run ends with, by which launch goes; 2 is a wrong command line. */
enum {
    FL_EXIT_ACCIDENT = 1,                            /* another start may help */
    FL_EXIT_REFUSED = 3,                             /* it would be refused again */
    FL_EXIT_DAMAGED = 4,                             /* so would this checkpoint, but there may be one before it */
};
__attribute__((noreturn)) void fl_end_job(void);     /* ends every rank, FL_EXIT_ACCIDENT */
void fl_watchdog_stop(void);
void fl_waiting(const char *peers);                  /* in a blocking wait from now on; NULL: no longer */
void fl_alive(void);                                 /* something moves, if not the step */
#ifdef __cplusplus
}
#endif
#endif
