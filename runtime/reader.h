/* Data files: tokens and raw arrays, cut into steps by one global order that no plan changes. */
#ifndef FL_READER_H
#define FL_READER_H
#include "data_order.h"
#include "flow_rt.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Opens and checks the files of an entry; `instead` replaces all of them, whole, when not NULL. seed: of the shuffling. All ranks call it together; a
 * file that is missing, too short or holds an id outside the vocabulary ends the run with one line. */
void fl_reader_open(enum fl_entry entry, const char *instead, uint64_t seed);
bool fl_reader_exists(enum fl_entry entry);          /* do all files the program names for the entry exist here? */
/* Input k of a micro-batch as it lies in memory, to `to`. fl_read_input does the same and copies it to the arena. */
void fl_fill_input(struct fl_run *run, int k, int microbatch, void *to);
/* From now on fl_read_input gives this entry's batch number `step` (from 0; wraps). */
void fl_reader_seek(enum fl_entry entry, int64_t step);
struct fl_position fl_reader_position(int data);     /* where that batch starts in data `data` of fl_program */
int64_t fl_reader_held(int data);                    /* elements that are read of it in an epoch; -1: it is not open */
/* Before the first seek: the batch of `step` starts at this position of data `data`. */
void fl_reader_resume(int data, int64_t step, struct fl_position position);
/* What inputs without data read: context[t] at position t of every sequence. */
void fl_reader_context(const int32_t *context, int64_t n);
void fl_reader_close(void);
#ifdef __cplusplus
}
#endif
#endif
