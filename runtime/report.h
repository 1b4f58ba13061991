/* What a run tells its user: step lines and the metrics file. Everything is a no-op on ranks other than 0. */
#ifndef FL_REPORT_H
#define FL_REPORT_H
#include "flow_rt.h"
#include "options.h"

struct fl_report_step {
    int64_t step, last;                  /* number of the step just done, from 1; number of the run's last step */
    bool has_loss, has_norm;
    double loss, norm, lr, seconds, comm_seconds;
    double loss_scale;                   /* 0: none */
    int64_t skipped;                     /* steps skipped since the start of training */
};
/* done: steps of an earlier run that this one goes on from. What its metrics say of later ones is taken out. */
void fl_report_start(const struct fl_options *o, int64_t done);
void fl_report_step(const struct fl_report_step *s);
void fl_report_evaluation(int64_t step, int64_t last, double loss, int nmetric, const char *const *name,
                          const double *value);
__attribute__((format(printf, 1, 2))) void fl_report_note(const char *format, ...);
void fl_report_stop(void);
#endif
