/* What differs between targets for the shared host code: where the arena lives and how bytes get in and out of it.
 * Implemented in cpu/target.c and cuda/target.cu. Host code touches arena memory through these only. */
#ifndef FL_TARGET_H
#define FL_TARGET_H
#include "flow_rt.h"
#ifdef __cplusplus
extern "C" {
#endif

extern const char *const fl_target_name;             /* "cpu" or "cuda" */
void fl_target_start(int local_rank,
                     int local_size); /* picks the device or the threads; exits with one line if it cannot */
char *fl_arena_new(int64_t bytes);                   /* 256-byte aligned, zeroed; lives until the end */
char *fl_host_new(int64_t bytes);                    /* the same of host memory from which the device copies; NULL for 0 */
extern const bool fl_arena_zeros;                    /* both are pages of zeros that are not there before they are touched */
void fl_to_arena(void *dst, const void *host, int64_t bytes);
void fl_from_arena(void *host, const void *src, int64_t bytes);      /* after all work queued so far */
void fl_target_sync(void);                           /* returns when all queued work is done */

/* Runs one step of an entry, or queues it. same: the host asks for what it asked for in the step before. */
void fl_target_run(struct fl_run *run, enum fl_entry entry, bool same);
/* Host memory that stays until the end, from and to which a step copies without waiting: what it holds for a copy in must
 * stay, and what is copied out is there, when fl_target_sync has returned. */
void *fl_staging_new(int64_t bytes);
void *fl_staging_of(int input, int microbatch, void *dst, int64_t bytes);    /* for a part of an input; may be dst itself */
void fl_copy_in(void *dst, const void *staging, int64_t bytes);
void fl_copy_out(void *staging, const void *src, int64_t bytes);
int64_t fl_target_peak_bytes(void); /* most memory this rank has held: arena and the target's own buffers */
bool fl_target_resident(int64_t *bytes,
                        int64_t *library);           /* most host memory resident so far, and what of it is not the plan's: MPI,
                                                        libc, scratch of products, memory shared with ranks; false: the
                                                        arena is elsewhere */
/* After fl_target_sync, where fl_measuring: seconds from the first to the last work of the step of train that has just
 * ended, without waits for data; what communication took of them is known to times.h then. */
double fl_target_busy(void);
double fl_target_memory_share(void);                 /* of the device's memory, or the host's, that is in use; 0: unknown */
void fl_target_stop(void);
void fl_target_selftest(char *room);                 /* checks what kernels are made of, by fl_holds, in 64 KiB of the arena */

/* Communicators and links of this rank, made in the program's order before the first step. `peer` is a rank of the
 * world, `tag` is unique per link. */
struct fl_comm *fl_comm_new(const char *name, int colour, int key,
                            int size);               /* called by all ranks; colour -1: not a member, gives NULL */
void fl_comms_start(int streams);                    /* before the first communicator: how many streams they have */
void fl_links_start(void);                           /* called by all ranks, before the first link */
struct fl_link *fl_link_new(const struct fl_link_spec *spec, int peer, int tag, bool sends);
void fl_comm_stop(void);                             /* cancels what is posted, frees all */
void fl_comm_room(struct fl_comm *c, const struct fl_room *room);    /* takes what its collectives pack in */
void fl_comm_kind(struct fl_comm *c, int kind);      /* whose times its calls are, see times.h */
void fl_link_kind(struct fl_link *l, int kind);
#ifdef __cplusplus
}
#endif
#endif
