/* Collectives of ranks on one host through memory that they share. */
#ifndef FL_SHARED_H
#define FL_SHARED_H
#include "../fl_defaults.h"
#include "collective.h"

struct fl_shared;
struct fl_shared *fl_shared_new(MPI_Comm mpi, int rank, int size);       /* NULL: not on one host, or no such memory */
void fl_shared_free(struct fl_shared *s);
/* Its ticket. All ranks queue the same collectives in one order. */
uint64_t fl_shared_queue(struct fl_shared *s, const struct fl_collective *x);
bool fl_shared_done(const struct fl_shared *s, uint64_t ticket);
bool fl_shared_idle(const struct fl_shared *s);                          /* nothing is under way */
bool fl_shared_progress(struct fl_shared *s, int budget);                /* at most so many pieces; did anything move? */

/* pieces.c: what a rank does for piece `number` (from 0) of a collective. slot[r]: of this piece, rank r's, FL_MEETING_SLOT_BYTES
 * each. */
struct fl_piece { int rank, size; int64_t number; char *const *slot; };
int64_t fl_pieces_of(const struct fl_collective *x, int size);
void fl_piece_feed(const struct fl_collective *x, const struct fl_piece *p);
void fl_piece_reduce(const struct fl_collective *x, const struct fl_piece *p);
void fl_piece_take(const struct fl_collective *x, const struct fl_piece *p);
#endif
