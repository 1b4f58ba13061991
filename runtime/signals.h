/* A wish to stop, from outside: SIGTERM, SIGINT or SIGUSR1 at any rank. */
#ifndef FL_SIGNALS_H
#define FL_SIGNALS_H
#include <stdbool.h>
void fl_signals_watch(void);             /* from now on these signals are a wish; a run without --save dies of them */
bool fl_signals_watched(void);
bool fl_signals_asked(void);             /* has this rank got one? */
/* What has come since the last call: the watchdog then looks whether a rank has died. */
enum fl_alarm { FL_QUIET, FL_CONTINUED, FL_TERMINATED };
enum fl_alarm fl_signals_alarm(void);
void fl_signals_start(void);             /* with the watchdog: what must never end a run without a word */
#endif
