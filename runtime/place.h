/* Which part of a logical tensor a rank holds. */
#ifndef FL_PLACE_H
#define FL_PLACE_H
#include "flow_rt.h"

struct fl_box {
    int64_t base[FL_MAX_DIM], n[FL_MAX_DIM];
}; /* first index in the padded logical dim, and local extent */
/* coord: mesh coordinates; microbatch stands for the coordinate of the time axis. */
struct fl_box fl_box_of(const struct fl_tensor *t, const int *coord, int microbatch);
/* Of the ranks of a stage that hold the same: is this the first? */
bool fl_box_first(const struct fl_tensor *t, const int *coord);
bool fl_held_first(const struct fl_param *p, const int *coord);
int64_t fl_box_count(const struct fl_tensor *t, const struct fl_box *b);
int64_t fl_tensor_count(const struct fl_tensor *t);                  /* logical elements */
/* Which elements of that part this rank holds: all, or those of its share. */
struct fl_held { int64_t first, n; };
struct fl_held fl_held_of(const struct fl_param *p, const int *coord, const struct fl_box *b);
/* Copies between a logical tensor and a rank's part of it, f32; padding of the part becomes 0 and is never copied back.
 */
void fl_box_take(float *part, const float *whole, const struct fl_tensor *t, const struct fl_box *b);
void fl_held_put(float *whole, const float *part, const struct fl_tensor *t, const struct fl_box *b, const struct fl_held *h);
/* Calls f for each row (run along the last dim) of the part that lies in the logical tensor: `at` is the offset in the
 * part, `index` the linear index in the logical shape, n the length without padding. Threads share the rows. */
void fl_box_rows(const struct fl_tensor *t, const struct fl_box *b,
                 void (*f)(void *context, int64_t at, int64_t index, int64_t n), void *context);
#endif
