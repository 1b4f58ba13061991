/* Who keeps the others waiting: of the ranks that wait for each other, the slow one waits least; where all of a
 * group wait longer than other groups of the same kind, the link between them is slow. Rank 0 only. */
#ifndef FL_SLOW_H
#define FL_SLOW_H
#include <stdbool.h>

struct fl_slow {
    enum { FL_NOBODY, FL_SLOW_RANK, FL_SLOW_LINK } what;
    int kind;                            /* of communication, in which the others wait most */
    double seconds;                      /* that the others spend more in communication, a step */
    char name[128];                      /* "rank 3", "ranks 2, 3 (stage 1)", "the link of ranks 2, 3" */
};
/* Numbers of all ranks in one step, `width` each, as in times.c: seconds of the step first, those of the kinds from
 * `first` on. */
void fl_slow_add(const double *ranks, int width, int first);
/* In the mean of the last ten steps or so; nobody before that, and where it makes less than a tenth of the step. */
struct fl_slow fl_slow_find(void);
void fl_slow_stop(void);
#endif
