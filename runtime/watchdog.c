/* The watchdog: a thread that ends the job, with one report, when nobody gets on or somebody is lost. It asks all other
 * watchdogs where their ranks are, so that the report names the rank that is at fault and not one that waits for it. Of
 * those who could report, the lowest rank does. */
#include "check.h"
#include "flow_rt.h"
#include "peers.h"
#include "signals.h"
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_t watcher;
static bool watching;
static double limit = 300;
static atomic_bool stop;
static _Atomic(const char *) broken;     /* what MPI said, when it lost somebody */

static void copy(char *to, size_t n, const char *from) { snprintf(to, n, "%.*s", (int)n - 1, from ? from : ""); }

/* Seconds, of this rank: see struct fl_standing. */
static double still, quiet;

static struct fl_standing own_standing(void)
{
    struct fl_standing s = { .still = still, .quiet = quiet };
    const char *where, *what, *waits;
    fl_markers(&where, &what, &waits);
    copy(s.where, sizeof s.where, where ? where : "the beginning");
    copy(s.what, sizeof s.what, what ? what : "start-up");
    copy(s.waits, sizeof s.waits, waits);
    return s;
}

static bool same_place(const struct fl_peer *a, const struct fl_peer *b)
{
    return !strcmp(a->at.where, b->at.where) && !strcmp(a->at.what, b->at.what) && !*a->at.waits == !*b->at.waits;
}

static bool lost(const struct fl_peer *p) { return !p->answered; }

/* "ranks 0, 1, 3": those of the list for which `like` says so. */
static void names(FILE *to, int n, const bool *like)
{
    int count = 0, shown = 0;
    for (int r = 0; r < n; r++)
        count += like[r];
    fprintf(to, count == 1 ? "rank" : "ranks");
    for (int r = 0; r < n && shown < 32; r++)
        if (like[r])
            fprintf(to, "%s %d", shown++ ? "," : "", r);
    if (count > shown)
        fprintf(to, " and %d more", count - shown);
}

static void tell_lost(FILE *to, const struct fl_peer *p, int r)
{
    fprintf(to, "rank %d %s", r, p->state == 'X' ? "is gone" : p->state == 'T' ? "is stopped" : "does not answer");
    fprintf(to, " (process %lld on %s%s)", (long long)p->pid, p->host,
            p->state == 'X' || p->state == 'T' ? "" : ": stopped, dead or cut off");
}

/* Who waits where, and for whom; one line for each place, the ones that wait first. */
static void tell_places(FILE *to, const struct fl_peer *p, int n)
{
    bool *told = calloc((size_t)n, sizeof *told), *like = calloc((size_t)n, sizeof *like);
    for (int waits = 1; waits >= 0 && told && like; waits--)
        for (int r = 0, lines = 0; r < n && lines < 8; r++) {
            if (told[r] || lost(&p[r]) || (*p[r].at.waits != 0) != waits)
                continue;
            memset(like, 0, (size_t)n * sizeof *like);
            double most = 0;
            for (int k = r; k < n; k++)
                if (!lost(&p[k]) && same_place(&p[r], &p[k])) {
                    told[k] = like[k] = true;
                    most = p[k].at.still > most ? p[k].at.still : most;
                }
            fprintf(to, "\nflow:   ");
            names(to, n, like);
            if (waits)
                fprintf(to, ": arrived at %s in %s, waiting %.0f s for %s", p[r].at.where, p[r].at.what, most,
                        p[r].at.waits);
            else
                fprintf(to, ": has not arrived, at work behind %s at %s", p[r].at.what, p[r].at.where);
            lines++;
        }
    free(told);
    free(like);
}

static void report(const struct fl_peer *p, int n, const char *why)
{
    char *text = NULL;
    size_t size;
    FILE *to = fl_peers_told() ? NULL : open_memstream(&text, &size);
    int culprits = 0;
    if (!to)
        return;
    fl_peers_tell();
    fprintf(to, "flow: ");
    for (int r = 0; r < n; r++) {
        if (!lost(&p[r]))
            continue;
        if (culprits < 8)
            fprintf(to, culprits ? "; " : "");
        if (culprits++ < 8)
            tell_lost(to, &p[r], r);
    }
    if (culprits > 8)
        fprintf(to, "; and %d more", culprits - 8);
    fprintf(to, "%s%s", culprits ? "; " : "", why);
    tell_places(to, p, n);
    fprintf(to, "\n");
    fclose(to);
    fputs(text, stderr);
    fflush(stderr);
    free(text);
}

/* Is this process one of Open MPI's that start ranks? */
static bool starts_ranks(pid_t pid)
{
    char path[48], name[16] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 && (!strncmp(name, "mpirun", 6) || !strncmp(name, "orte", 4) || !strncmp(name, "prte", 4));
}

/* mpirun waits for a host that is cut off, for ever, when it is told to end. A process of its own, which it does not
 * know, lets it try for a while, asks it twice, as a user would, and then kills it. Only calls that are safe behind
 * fork. */
static void end_mpirun(void)
{
    pid_t parent = getppid();
    if (!starts_ranks(parent) || fork())
        return;
    setsid();
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
    sleep(8);
    for (int i = 0; i < 3 && starts_ranks(parent); i++) {
        kill(parent, i < 2 ? SIGTERM : SIGKILL);
        sleep(1);
    }
    _exit(0);
}

static _Noreturn void *abort_job(void *unused)
{
    (void)unused;
    fl_end_job();
}

/* MPI itself may be what hangs: then this process ends on its own, and mpirun sees that. */
static _Noreturn void leave(void)
{
    pthread_t t;
    end_mpirun();
    if (!pthread_create(&t, NULL, abort_job, NULL))
        sleep(5);
    _exit(1);
}

/* Does a lower rank see the same? Then the report is its. */
static bool another_reports(const struct fl_peer *p, bool late)
{
    for (int r = 0; r < fl_rank_number; r++)
        if (p[r].answered && (!late || p[r].at.still > 0.5 * limit))
            return true;
    return false;
}

/* Has a rank that answers moved within the limit? A long write or computation of one is no reason to end the others. */
static bool somebody_moves(const struct fl_peer *p)
{
    for (int r = 0; r < fl_peers_count(); r++)
        if (p[r].state == 'X' || p[r].state == 'T')
            return false;
    for (int r = 0; r < fl_peers_count(); r++)
        if (p[r].answered && p[r].at.quiet < limit)
            return true;
    return false;
}

static void speak(bool late, const char *why)
{
    struct fl_standing mine = own_standing();
    struct fl_peer *p = fl_peers_ask(&mine, late ? 1000 : 400);
    if (late && somebody_moves(p))
        return;
    if (another_reports(p, late)) {
        fl_peers_answer(&mine, 3000);                      /* it ends the job; else this one does */
        if (late)
            p = fl_peers_ask(&mine, 400);
    }
    if (late || !another_reports(p, late))
        report(p, fl_peers_count(), why);
    leave();
}

/* mpirun wakes all ranks, and ends them a second later, when one has died; or somebody wants the run to end, or has
 * stopped it and lets it go on: then nobody is lost. */
static void alarm_of(enum fl_alarm alarm)
{
    struct fl_standing mine = own_standing();
    struct fl_peer *p = fl_peers_ask(&mine, 400);
    int n = fl_peers_count(), missing = 0;
    for (int r = 0; r < n; r++)
        missing += alarm == FL_TERMINATED ? lost(&p[r]) : p[r].state == 'X';
    if (missing && missing < n) {
        if (!another_reports(p, false))
            report(p, n, "mpirun ends the run");
        sleep(2);
        _exit(1);
    }
    if (alarm != FL_TERMINATED || fl_signals_watched())
        return;                                            /* a wish: the loop will see it */
    fl_peers_answer(&mine, 500);                           /* others may not have asked yet */
    fl_signals_stop();
    kill(getpid(), SIGTERM);
}

/* A rank that waits for nobody is computing, however long. One that waits without moving for `limit` seconds
 * looks whether another moves, and looks again now and then; if not, it reports. */
static void *watch(void *unused)
{
    (void)unused;
    long last = -1;
    double next = limit;
    char why[96];
    while (!atomic_load(&stop)) {
        const char *where, *what, *waits;
        long beat = fl_markers(&where, &what, &waits);
        quiet = beat != last ? 0 : quiet + 0.1;
        still = beat != last || !waits ? 0 : still + 0.1;
        next = still > 0 ? next : limit;
        last = beat;
        struct fl_standing mine = own_standing();
        fl_peers_answer(&mine, 100);
        if (atomic_load(&broken))
            speak(false, atomic_load(&broken));
        enum fl_alarm alarm = fl_signals_alarm();
        if (alarm != FL_QUIET)
            alarm_of(alarm);
        if (limit <= 0 || still < next)
            continue;
        snprintf(why, sizeof why, "nobody gets on for %.0f s (FL_TIMEOUT sets the limit)", still);
        speak(true, why);
        next = still + limit / 20;
    }
    return NULL;
}

void fl_watchdog_start(void)
{
    const char *text = getenv("FL_TIMEOUT");
    sigset_t all, before;
    char *end;
    if (text && *text) {
        limit = strtod(text, &end);
        if (*end || !(limit >= 0) || limit > 1e9)
            fl_refuse("FL_TIMEOUT is '%s': it takes seconds, 0 for ever", text);
    }
    fl_peers_start();
    fl_signals_start();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watching = pthread_create(&watcher, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void fl_watchdog_broken(const char *what)
{
    if (!watching || pthread_equal(pthread_self(), watcher))
        return;
    atomic_store(&broken, what);
    sleep(8);                                              /* the watchdog reports and ends the process before */
}

void fl_watchdog_stop(void)
{
    atomic_store(&stop, true);
    if (watching)
        pthread_join(watcher, NULL);
    watching = false;
    fl_signals_stop();
    fl_peers_stop();
}
