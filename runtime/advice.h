/* Warnings about how well the machines are used, each once in a run, with the change of the plan to try. Rank 0
 * only. */
#ifndef FL_ADVICE_H
#define FL_ADVICE_H
#include "report.h"
void fl_advise(const struct fl_report_step *s);
#endif
