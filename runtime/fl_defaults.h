/* What a program does where its command line says nothing, and what it takes for itself, as far as the compiler tells
 * of it too. */
#ifndef FL_DEFAULTS_H
#define FL_DEFAULTS_H
#include <stdint.h>

#define FL_SAVE_MEMORY ((int64_t)1 << 30)            /* --save-memory */

/* What each rank adds, on cpu, to the memory in which the ranks of a communicator meet where they share a host: slots for
 * pieces, and a page in which it says how far it is. */
#define FL_MEETING_SLOTS 8
#define FL_MEETING_SLOT_BYTES ((int64_t)1 << 18)
#define FL_MEETING_BYTES (FL_MEETING_SLOTS * FL_MEETING_SLOT_BYTES + 4096)

/* Row kernels (flow_rows.h) sum up chunks of so many rows first. */
#define FL_CHUNK_ROWS_CPU 64
#define FL_CHUNK_ROWS_CUDA 16
/* On cuda a row of at most FL_WARP_ROW elements has FL_ROW_LANES threads, a longer one FL_ROW_THREADS. */
#define FL_WARP_ROW 768
#define FL_ROW_LANES 32
#define FL_ROW_THREADS 256
/* They take it in pieces of so many neighbours: 8, which are 16 bytes in a short type, where that keeps half of them at work. Of
 * all its pieces a thread holds FL_ROW_EACH elements. */
#define FL_ROW_SHARED_BY(n) ((n) > FL_WARP_ROW ? FL_ROW_THREADS : FL_ROW_LANES)
#define FL_ROW_PIECE(n) ((n) % 8 == 0 && (n) >= 4 * FL_ROW_SHARED_BY(n) ? 8 : (n) % 4 == 0 ? 4 : 1)
#define FL_ROW_EACH(n) (((n) + FL_ROW_SHARED_BY(n) * FL_ROW_PIECE(n) - 1) / (FL_ROW_SHARED_BY(n) * FL_ROW_PIECE(n)) * FL_ROW_PIECE(n))
#endif
