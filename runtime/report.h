/* What a run tells its user: step lines, notes, and the files that people and programs watch. Everything is a no-op
 * on ranks other than 0. */
#ifndef FL_REPORT_H
#define FL_REPORT_H
#include "flow_rt.h"
#include "options.h"
#include "times.h"

struct fl_report_step {
    int64_t step, last;                  /* number of the step just done, from 1; number of the run's last step */
    bool has_loss, has_norm, measured;
    double loss, norm, lr, seconds;
    double loss_scale;                   /* 0: none */
    int64_t skipped;                     /* steps skipped since the start of training */
    struct fl_times times;               /* of rank 0, where measured */
    const struct fl_load *load;          /* of all ranks in the step before, or NULL */
    /* what the report itself finds out; NaN: unknown */
    double tokens_per_s;
    double comm_seconds;                 /* of rank 0 */
    double mfu;                          /* the model's operations / what the machines could do meanwhile */
    double variation;                    /* of the seconds of a step: standard deviation / mean of the last 50 */
};
struct fl_report_evaluation {
    int64_t step, last;
    double loss;
    bool tokens;                         /* the loss is in nats per token: its exponential says something */
    int nmetric;
    const char *const *name;
    const double *value;
};
/* Does something of a run with these options show where its time goes? */
bool fl_report_measures(const struct fl_options *o);
/* done: steps of an earlier run that this one goes on from. What its metrics say of later ones is taken out. NULL, or which
 * of the files cannot be written. */
char *fl_report_start(const struct fl_options *o, int64_t done);
void fl_report_step(struct fl_report_step *s);
void fl_report_evaluation(int64_t step, int64_t last, double loss, int nmetric, const char *const *name,
                          const double *value);
__attribute__((format(printf, 1, 2))) void fl_report_note(const char *format, ...);
/* What could be better: a note, and an object of the metrics. Of a quiet run they are shown together at its end. */
__attribute__((format(printf, 2, 3))) void fl_report_warning(int64_t step, const char *format, ...);
void fl_report_stop(void);
#endif
