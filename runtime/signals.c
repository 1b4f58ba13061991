/* Signals. mpirun passes SIGUSR1 on. When it ends, because somebody wants it to or because a rank has died, it sends
 * SIGCONT, a second later SIGTERM, and kills a second after that. */
#include "signals.h"
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked, alarmed, early;     /* early: SIGUSR1 has come */
static bool watched;

static void note(int number)
{
    if (number == SIGCONT || number == SIGTERM)
        alarmed = number == SIGTERM || alarmed == FL_TERMINATED ? FL_TERMINATED : FL_CONTINUED;
    asked |= number != SIGCONT;
    early |= number == SIGUSR1;
}

static void listen_to(int number)
{
    struct sigaction a = { .sa_handler = note, .sa_flags = SA_RESTART };
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

/* A launcher passes SIGUSR1 on at any time. */
void fl_signals_first(void) { listen_to(SIGUSR1); }

void fl_signals_watch(bool saves)
{
    watched = saves;
    if (saves)
        listen_to(SIGINT);
    else
        signal(SIGUSR1, SIG_DFL);
    if (!saves && early)
        raise(SIGUSR1);
}

bool fl_signals_watched(void) { return watched; }
bool fl_signals_asked(void) { return asked; }

enum fl_alarm fl_signals_alarm(void)
{
    enum fl_alarm was = (enum fl_alarm)alarmed;
    alarmed = FL_QUIET;
    return was;
}

/* A file over the limit, or a reader that has gone, is then an error of the write, which is reported. */
void fl_signals_start(void)
{
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    listen_to(SIGTERM);
    listen_to(SIGCONT);
}

void fl_signals_stop(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGCONT, SIG_DFL);
}
