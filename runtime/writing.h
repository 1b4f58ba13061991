/* Writing one file beside the training: a thread takes what is handed over, in order, and a limited amount of memory
 * holds what it has not written yet. One file at a time in a process. */
#ifndef FL_WRITING_H
#define FL_WRITING_H
#include <stdbool.h>
#include <stdint.h>

/* room: bytes that may wait for the disk; a single piece may be larger when nothing else waits. Takes over header. */
void fl_writing_begin(const char *path, char *header, int64_t header_bytes, int64_t room);
float *fl_writing_room(int64_t count);               /* memory for a piece; waits until there is room */
void fl_writing_put(float *piece, int64_t count);    /* hands it over, to be written behind the others */
void fl_writing_end(void);                           /* nothing follows: the file is made durable */
/* Another job for the thread, when no file is being written: f gives a complaint, or NULL. */
void fl_writing_job(char *(*f)(void *), void *context);
bool fl_writing_busy(void);                          /* is the thread still at it? */
/* Waits for the thread; the complaint of the file or job, or NULL, and the size and checksum of the file. */
char *fl_writing_finish(int64_t *bytes, uint64_t *sum);
#endif
