/* Collectives of ranks on one host through memory that they share. */
#ifndef FL_SHARED_H
#define FL_SHARED_H
#include "comm.h"

enum fl_shared_kind { FL_SHARED_REDUCE, FL_SHARED_SCATTER, FL_SHARED_GATHER };
struct fl_shared_job {
    enum fl_shared_kind kind;
    enum fl_type type;                   /* of reductions; f32, bf16, f16 */
    enum fl_reduce reduce;
    int bytes;                           /* of an element */
    char *dst;
    const char *src;                     /* REDUCE: in place, src is dst */
    int64_t n, share;                    /* REDUCE: n elements. Else shares of n (SCATTER), of size * share (GATHER) */
    int64_t pieces;                      /* set by fl_shared_queue */
    uint64_t first;
};
struct fl_shared;
struct fl_shared *fl_shared_new(MPI_Comm mpi, int rank, int size);       /* NULL: not on one host, or no such memory */
void fl_shared_free(struct fl_shared *s);
uint64_t fl_shared_queue(struct fl_shared *s, struct fl_shared_job job); /* its ticket */
bool fl_shared_done(const struct fl_shared *s, uint64_t ticket);
bool fl_shared_progress(struct fl_shared *s, int budget);                /* at most so many pieces; did anything move? */
#endif
