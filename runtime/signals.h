/* A wish to stop, from outside: SIGTERM, SIGINT or SIGUSR1 at any rank. */
#ifndef FL_SIGNALS_H
#define FL_SIGNALS_H
#include <stdbool.h>
void fl_signals_watch(void);             /* from now on these signals are a wish; a run without --save dies of them */
bool fl_signals_asked(void);             /* has this rank got one? */
void fl_signals_start(void);             /* at the start: what must never end a run without a word */
#endif
