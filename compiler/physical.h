/* The physical graph: what box makes of the logical graphs, and what fuse, layout, schedule, allocate, prove and emit
 * read. There is one stage program per pipeline stage (one rank class each): all ranks of a stage run the same text and
 * differ in coordinates only. A stage may hold several chunks, each one virtual stage (virtual_of in module.h). Its regions are built from the same structs as the logical graph; every value's `lay`
 * equals the layout in which each of its readers wants it, and communication is in explicit boxing nodes.
 *
 * Boxing ops (ops/boxing.c). Attributes: "axes" (int: bit set of mesh axes it works over), "comm" (int: index into
 * physical->comms; -1 for the local ones), "dim" (int), "dim_to" (int), "reduce" (int: enum reduce). A collective may
 * carry several values (a bucket): out[k] is the converted in[k].
 *     box_slice           B -> S(dim)       local, a view where possible
 *     box_mask            B -> P            local: rank 0 of the axes keeps its values, others hold the identity
 *     box_pad             S(dim) -> P       local: zeros around the part
 *     box_all_gather      S(dim) -> B
 *     box_all_reduce      P -> B
 *     box_reduce_scatter  P -> S(dim)
 *     box_all_to_all      S(dim) -> S(dim_to)
 *     box_permute         S(dim) -> S(dim), its axes in another order: whole parts change places
 *     box_accumulate      P(mb) -> B(mb)    local, in time: in a per-micro-batch phase; output readable in UPDATE (or
 *                                           SETUP when in COUNT). The first micro-batch stores, later ones add.
 *     box_post            starts the collective that is its attribute "of" for its operands, "operands" of that one: one
 *                         of UPDATE in the last micro-batch, one that cuts shares in a backward in every micro-batch.
 *                         Between there and the collective, which then only waits for them (its attribute "posted": by
 *                         operand the "number" of the post, or -1; "rest": of those), they are not written and their
 *                         results not touched. In a body: once for every "blocks" blocks. See box/post.c.
 *       A gather in a body with attribute "ahead" may be started one block ahead, at the start of the block before. A
 *       reduction with attribute "late", and what reads its results, ends in the block after its own, before the post there.
 *     box_send, box_recv  between stages: attribute "link" (int: index into physical->links). A send has no outputs; the
 *                         recv on the other stage has no inputs and the same type and layout.
 *     box_stage_reduce    P over stages -> B on them (tied weights, the norm): attribute "comm"; same node on each stage
 *
 * What a stage program means, exactly:
 * - stages[s].phase[entry][phase][chunk] is a root region; FORWARD, BACKWARD and WEIGHT have one per chunk, the others
 *   only that of chunk 0. A micro-batch goes through them in the order of stage_roots(): forward chunks up, backward
 *   chunks down. A value of an earlier region is read by naming it, whichever chunk made it (one graph per stage holds
 *   all). Root source nodes (param, input, constant, positions) are cloned into each region that reads them.
 * - A repeat that is cut gives each chunk a repeat node with its own body: region->count and ->first are the chunk's
 *   share (chunks without blocks have no node). Its carried values arrive by box_recv from the chunk before (in the
 *   order walked), or are read as they are when that one is on the same stage; the first chunk starts from the logical
 *   operand, and out[k] goes on by box_send or is read here. So a parameter of such a repeat is on a stage in several
 *   ranges of blocks, each with param nodes and a buffer of its own.
 *   need[k] == body->args[k]->lay == body->results[k]->lay == out[k]->lay: body ends with any conversion needed.
 * - In the regions of a micro-batch box_recv nodes come first, box_send nodes last; both in order of links. In SETUP and
 *   UPDATE they stand where they are needed, among the stage reduces, in one order over all stages. The two ends of a link
 *   are in the same phase; later phases may read it too (it is saved like any other), but no count before its end.
 * - box_accumulate stands in the body of its producer (its output is one per block): right after it, or at the end, behind
 *   what the other stages wait for.
 *   With one micro-batch there is none: the per-micro-batch value itself is read in the once-phase.
 * - A collective at root may convert whole stacks (gradient buckets): in[k]->region is a body. Then out[k]->region is the
 *   same body, out[k]->stacked is set, and nodes of bodies that walk the same blocks name out[k] as they would in[k].
 *   out[k]->def is the root node. All gradients reduced the same way in UPDATE are operands of one such node.
 * - norm_partials: f32[K], one entry per (parameter, block) in declaration order. Attribute "entry" (ints): in[k]'s
 *   first local block goes to out[entry[k]], its further blocks to the entries after it; entries not written are 0.
 *   Operands on other stages are left out; box_stage_reduce (or box_all_reduce on one stage) then sums. In stage reduces
 *   comms[comm].axes holds the pipeline axis and any other axis over which the value was P.
 * - op_output of scalars (loss, grad_norm, metrics) is on every stage, of other values where the value is.
 * - need[k] equals in[k]->lay on every node (axes of size 1 included). node->forward is the clone on the same stage. */
#ifndef FLOWC_PHYSICAL_H
#define FLOWC_PHYSICAL_H
#include "graph.h"

struct comm {                    /* a communicator: ranks that differ only along `axes` (and are on one of `stages`) */
    unsigned axes;               /* bit set; the pipeline axis is in it only for cross-stage reductions */
    int *stages;                 /* stb_ds array, only for those: the stages that take part */
    const char *name;            /* "tp", "dp", "stages_0_3" */
};
struct link {                    /* point-to-point, rank to the rank of the same other coordinates, one direction */
    int from, to;                /* stages */
    int from_chunk, to_chunk;    /* in the phases that have chunks; else 0 */
    enum phase phase;
    const char *what;            /* path of the value */
    int number;                  /* among the links of this pair and direction, over all entries */
    enum entry entry;
    struct value *sent, *received;
    /* after schedule: messages that each end has room for, outside the arena. box_send copies into a slot, once the send
     * slots_sent before it has gone; box_recv takes a message out of its slot and posts the receive slots_received after
     * it (the first ones are posted at the start). So the values themselves are free after the call. */
    int slots_sent, slots_received;
};

/* Bytes in which collectives pack, one after the other in the same: what goes out and what comes in; where all pieces have one
 * size, those of all ranks and one of them. */
struct room { int64_t first, second; };

/* One actor firing of a schedule: a phase of one micro-batch (and chunk) on one stage. */
struct firing { enum phase phase; int microbatch; int chunk; };
/* An order in rolled form: loops of firings, and loops of such loops, so that its size does not grow with the number of
 * micro-batches. `beats` holds the first turn of every loop only. A roll is `times` turns of `len` beats from beats[start],
 * in each of which a beat's micro-batch goes on by its `step`; a lap is the same of rolls, with `lap_step`. The order is
 * all laps, one after the other. schedule/rolled.h makes, walks and shortens them. */
struct beat { struct firing what; int step, lap_step; };
struct roll { int start, len, times; };
struct rolled {
    struct beat *beats;                          /* stb_ds arrays */
    struct roll *rolls, *laps;
};

/* Slots of a stage that several buffers share, member by member: micro-batch i of one lies in slot[member][slot_pool_place(i)]. */
struct slot_pool {
    int slots;
    int prefix, period, places;  /* the first `prefix` micro-batches, then a period again and again; entries of a table */
    uint16_t **slot;
};

enum memory_class { MEM_PARAM, MEM_GRAD, MEM_STATE, MEM_SAVED, MEM_LOCAL, MEM_COMM, MEM_INPUT, MEM_HOST, MEM_CLASSES };
extern const char *const memory_class_name[MEM_CLASSES];
struct buffer {                  /* one place in the arena; several values may live in it (views, in-place) */
    int id;
    enum memory_class class;
    const char *name;            /* path of the value that made it */
    struct span span;
    int64_t elements;            /* one block, one slot */
    bool shares;                 /* a block takes `elements`, not the extents of what it holds: it is, or is cut into, shares */
    enum type type;
    int64_t blocks;              /* copies for stacking: product of repeat counts on this stage; of a ring, 2 */
    bool ring;                   /* not stacked: blocks of the repeat around it take turns with two copies */
    int slots;                   /* register slots over micro-batches (regst num) */
    struct slot_pool *pool;      /* they are shared with other chunks' buffers, which lie at the same place; or NULL */
    int member;                  /* its number there; number 0 has the bytes */
    int64_t bytes;               /* whole, aligned */
    int64_t offset;              /* in the arena */
    int first, last;             /* lifetime in the step's order: points of the stage's program, inclusive */
    /* from layout: what it holds and how it is stacked */
    struct param *param;         /* parameter or state, or NULL */
    int depth;                   /* repeats it is stacked over; their counts, outermost first, are in count */
    int64_t count[MAX_DIM];
    struct value **values;       /* stb_ds array: every value that lives in it */
    bool host;                   /* in host memory, which has offsets of its own; class MEM_HOST */
    bool persistent;             /* keeps its contents from step to step */
    bool scratch;                /* f32 copies for one call (layout/wide.c); holds no value of the graph */
    bool constant;               /* the same in every micro-batch: needs no slots */
    const struct node *bucket;   /* the collective that reduces it together with others: these lie side by side in the
                                    order of its operands, so that one call does them all; or NULL */
};

/* A number of a rank program that differs between the ranks of one stage: entry k of the rank's `constant` table. */
struct rank_constant {
    bool base;                   /* where the rank's part starts; false: how long it is */
    const struct value *value;
    int dim;
    const char *key;             /* equal keys, equal numbers on every rank */
};

struct stage {
    int index;
    struct graph *graph;                         /* owns the values of all entries of this stage */
    int nchunk;                                  /* virtual stages it holds */
    struct region *phase[ENTRIES][PHASES][MAX_CHUNK];      /* NULL where empty */
    struct buffer **buffers;                     /* stb_ds array after allocate */
    int64_t arena_bytes, bytes[MEM_CLASSES], live_bytes;
    int64_t host_bytes;                          /* host memory for what is offloaded */
    int64_t link_bytes, packing_bytes;           /* outside the arena: slots of links, room for packing in collectives */
    int64_t meeting_bytes;                       /* beside them: its part of the memory in which the ranks of a host meet */
    struct room *rooms;                          /* by communicator: packing_bytes is their sum, or the largest where they share one */
    struct rolled order;                         /* the train entry's forward, backward .. in one step */
};

struct physical {
    struct module *module;
    struct mesh *mesh;
    int nstage, nvirtual;
    struct stage *stages;                        /* nstage */
    struct comm *comms;                          /* stb_ds array: created in this order on all ranks */
    struct link *links;                          /* stb_ds array */
    struct rank_constant *constants;             /* stb_ds array, filled by layout */
    double bubble;                               /* per step, unit times; below 0: the order cannot be run */
};

/* The root regions of an entry that are there, in the order in which a micro-batch goes through them: stb_ds array. */
struct root { enum phase phase; int chunk; struct region *region; };
struct root *stage_roots(const struct stage *s, enum entry entry);
bool phase_has_chunks(enum phase p);                 /* FORWARD, BACKWARD, WEIGHT */

/* After schedule (schedule/slots.c). Slots of a register that `from` writes and `to` gives back, both firings of the
 * train entry's order: the most micro-batches from the oldest one that `to` has not finished to the newest one that
 * `from` has started. Micro-batch i lies in slot i mod that number. */
int schedule_slots(const struct stage *s, enum phase from, int from_chunk, enum phase to, int to_chunk);
/* Slots for registers of one size, each kept from the first firing of its actors (stb_ds arrays) to their last, where they
 * share them; NULL where no table of bounded size says which is whose. schedule/pool.c */
struct slot_pool *slot_pool_make(const struct rolled *order, int stages, int microbatches, struct root *const *actors,
                                 int members);
int slot_pool_place(const struct slot_pool *p, int microbatch);
/* Entries without a backward take turns between chunks in groups of so many micro-batches, as `interleaved` does. */
int schedule_group(const struct physical *p);
/* Does the order finish each micro-batch, in the order of stage_roots(), before it starts the next one? */
bool schedule_sequential(const struct stage *s);

void physical_verify(const struct physical *p, const char *after);              /* the invariants above; BUG() when broken */
int rank_stage(const struct physical *p, int rank);
/* On cuda what is under way at once must find room on the device together: every communicator has at most COMM_BLOCKS blocks,
 * every link LINK_BLOCKS. So collectives run on so many streams, those of communicators that share one in the order of the
 * program; the runtime holds NCCL to the numbers. box/comm.c */
enum { DEVICE_BLOCKS = 108, COMM_BLOCKS = 16, LINK_BLOCKS = 4, MOST_COMM_STREAMS = 4 };
int comm_streams(const struct physical *p);
int stage_links(const struct physical *p, int stage);
int comm_apart(const struct physical *p, unsigned axes);     /* a communicator over none of the axes, or -1; box/comm.c */
void stage_coord(const struct physical *p, int stage, int rank, int *coord);   /* mesh coordinates of a rank */
#endif
