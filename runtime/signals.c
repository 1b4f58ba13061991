/* Signals. mpirun passes SIGUSR1 on, and sends SIGTERM itself when it ends, two seconds before it kills. */
#include "signals.h"
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void note(int number)
{
    (void)number;
    asked = 1;
}

void fl_signals_watch(void)
{
    static const int wishes[] = { SIGTERM, SIGINT, SIGUSR1 };
    struct sigaction a = { .sa_handler = note, .sa_flags = SA_RESTART };
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        sigaction(wishes[i], &a, NULL);
}

bool fl_signals_asked(void) { return asked; }

/* A file over the limit, or a reader that has gone, is then an error of the write, which is reported. */
void fl_signals_start(void)
{
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}
