/* A wish to stop, from outside: SIGTERM, SIGINT or SIGUSR1 at any rank. */
#ifndef FL_SIGNALS_H
#define FL_SIGNALS_H
#include <stdbool.h>
void fl_signals_first(void);             /* before anything else: SIGUSR1 is kept for fl_signals_watch */
void fl_signals_watch(bool saves);       /* from now on these signals are a wish; a run that saves nothing dies of them */
bool fl_signals_watched(void);
bool fl_signals_asked(void);             /* has this rank got one? */
/* What has come since the last call: the watchdog then looks whether a rank has died. */
enum fl_alarm { FL_QUIET, FL_CONTINUED, FL_TERMINATED };
enum fl_alarm fl_signals_alarm(void);
void fl_signals_start(void);             /* with the watchdog: what must never end a run without a word */
void fl_signals_stop(void);              /* nobody looks any more: SIGTERM ends the process */
#endif
