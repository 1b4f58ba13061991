/* The graph: what elaborate builds, and what every later pass reads and changes.
 *
 * A graph is a tree of regions. A region is a list of nodes in program order; a node applies an op to values and defines
 * new values (SSA: a value has one definition and never changes). A `repeat` is one node whose body is a region, never
 * unrolled: body values exist once, and what must survive an iteration is stored stacked, block index outermost.
 *
 * Which values may a node in region R read?
 *   1. values defined earlier in R, R's carried arguments and its index;
 *   2. values visible in the region that holds R's repeat node (captured: the same in every iteration);
 *   3. values of a region that walks the same blocks: region_origin(A) == region_origin(R). The backward of a repeat is
 *      a repeat node with `reverse` whose body has mirror = the forward body, and reads a forward value v simply by
 *      naming it: that is v of the same block, and makes v stored stacked ("saved"). The update phase does likewise.
 *   4. an op with OP_STACKED reads whole stacks of a body's values from outside (norm_partials).
 * A parameter declared inside a repeat under a label with [i] is a `param` node in the body (stored stacked); one under
 * a label without [i] is a `param` node outside and captured. Regions nest, and so do stacks.
 *
 * A repeat whose blocks a plan treats differently stands as several repeats in a row, its pieces: each has first and
 * total, the one before goes on with next, and what is carried runs through them. Paths and random numbers know the
 * whole repeat only.
 *
 * Phases. Every node of a root region has a phase (the nodes of a body have their repeat node's). A step of training is
 *   COUNT (each micro-batch), SETUP (once), FORWARD and BACKWARD (and WEIGHT) (each micro-batch, in scheduled order),
 *   UPDATE (once). `evaluate` and `sample` have COUNT, SETUP, FORWARD and UPDATE (their results).
 *
 * Layouts. `lay` of a value says how it is stored per mesh axis; need[k] of a node how it reads operand k. After box the
 * two agree everywhere. Micro-batches are an axis like the others (mesh.mb), in time.
 *
 * Sizes. dim.size is the logical size; dim.phys what is stored: size rounded up to lcm(pad, parts) for padded dims, size
 * for others. Padding rows hold zeros in parameters and gradients. Local extents: value_extent(). */
#ifndef FLOWC_GRAPH_H
#define FLOWC_GRAPH_H
#include "base/mem.h"
#include "base/source.h"
#include <stdbool.h>
#include <stdio.h>

enum { MAX_DIM = 8, MAX_AXIS = 8, MAX_STACK = 4, MAX_CHUNK = 16 };   /* MAX_STACK: repeats within each other */

enum type {
#define TYPE(id, name, bytes, c_name) TYPE_##id,
#include "types.def"
#undef TYPE
    TYPES
};
extern const char *const type_name[TYPES];          /* as in the language: "f32" */
extern const int type_bytes[TYPES];
extern const char *const type_c[TYPES];             /* as in emitted C: "float" */
bool type_is_float(enum type t);
static inline bool type_is_short(enum type t) { return t == TYPE_BF16 || t == TYPE_F16; }   /* a float of 16 bits */

/* A dim is an object: two dims are the same when they are the same object, whatever their sizes. Sizes written as
 * numbers and results of dim expressions without a name give anonymous dims (name NULL), which match by size. A padded
 * dim matches only itself: more of it is stored than a number says. */
struct dim {
    const char *name;
    int64_t size;                /* logical */
    int64_t pad;                 /* multiple asked for by `pad`, or 0 */
    int64_t phys;                /* stored size; = size until shard settles it */
    int ranks_of;                /* 1 + the mesh axis that it has one entry for each rank of, whatever the sizes; 0: none */
    struct span span;
};
bool dim_same(const struct dim *a, const struct dim *b);   /* same object, or equal size where one has no name */
struct dim *dim_anonymous(int64_t size);

int64_t common_multiple(int64_t a, int64_t b);             /* the least one, of positive numbers */

/* ---- layouts ---- */

struct cluster;
enum sbp_kind { SBP_B, SBP_S, SBP_P };
enum reduce {
#define REDUCE(id, name, c, c_identity, identity) REDUCE_##id,
#include "reduce.def"
#undef REDUCE
    REDUCES
};
extern const char *const reduce_name[REDUCES];      /* as in the language: "sum" */
extern const char *const reduce_c[REDUCES];         /* as in emitted C: "FL_SUM" */
extern const char *const reduce_c_identity[REDUCES];
extern const double reduce_identity[REDUCES];
/* S(flat): the rank's local piece (what its other axes leave) in row-major order, cut into equal shares of a multiple of 16
 * bytes over all axes that are flat; the last ones may be shorter in use, or empty. Only element-wise updates, squared
 * sums and accumulation read it. See `shard` in grammar/README.md. */
enum { DIM_FLAT = 255, FLAT_ELEMENTS = 4 };
struct sbp {
    uint8_t kind;                /* enum sbp_kind */
    uint8_t dim;                 /* S: which dim of the tensor, or DIM_FLAT; P: enum reduce */
    uint8_t order;               /* S: place among the axes that split the same dim, 0 = major. Default: mesh order */
};
struct layout { struct sbp ax[MAX_AXIS]; };          /* zero is B on every axis */
bool sbp_same(struct sbp a, struct sbp b);
bool layout_same(const struct layout *a, const struct layout *b, int naxis);

struct axis {
    const char *name;
    int size;
    int stride;                  /* rank = sum of coordinate * stride; 0 for the time axis */
    bool time;                   /* micro-batches */
    bool crosses;                /* its ranks are on several hosts */
    struct span span;
};
struct mesh {
    const char *name;
    int naxis;                   /* the time axis included; it is last and always there, of size 1 without a line */
    struct axis axis[MAX_AXIS];
    int nranks;
    int mb;                      /* index of the time axis */
    int pipe;                    /* index of the pipeline axis, or -1 */
    struct { const char *name; unsigned axes; } group[MAX_AXIS];   /* dp: (edp: 2, ep: 2) */
    int ngroup;
    const struct cluster *cluster;       /* what it runs on, for the cost model; never NULL in a plan */
    int *host;                   /* by rank */
    struct span span;
    const char **missing;        /* stb_ds array: axes that it lacks and lines name, each told once */
};
int mesh_axis(const struct mesh *m, const char *name);              /* index, or -1 */
unsigned mesh_axes(const struct mesh *m, const char *name);         /* bit set of an axis or group; 0 unknown */
const char *mesh_axes_text(const struct mesh *m, unsigned axes, const char *between);   /* "dp, tp" */
int mesh_coord(const struct mesh *m, int rank, int axis);

/* ---- values, nodes, regions ---- */

struct node;
struct region;
struct buffer;
struct place;
struct plan_line;

struct value {
    int id;                      /* position in graph->values: dense, in order of creation */
    enum type type;
    int ndim;
    struct dim *dim[MAX_DIM];
    struct node *def;            /* NULL for a region's arguments and index */
    int def_index;               /* which output of def, or which argument */
    struct region *region;       /* where it is defined */
    const char *path;            /* "h[*].attn.y"; unique-ish, for people and patterns */
    struct span span;            /* where the user wrote it */
    bool has_ignore;             /* input with `ignore v` */
    double ignore;
    bool call_output;            /* path names a labelled call whose output this is */
    const char **alias;          /* stb_ds array: its other names (x@2 of a value whose path is h[*]); patterns see them
                                    through value_matches() */
    /* after shard */
    const struct value *logical; /* physical graph: the value of the logical graph that this is (or a converted copy of); NULL:
                                    a share or sum that the logical graph does not have */
    struct layout lay;
    const struct plan_line *line;    /* the sbp or pin line that asked for lay, or NULL */
    bool with_loss;              /* of the forward, but read in the backward phase, where the loss is made (rewrite/loss.c) */
    bool anew;                   /* made once a step, but its readers convert it each time: a share of a copy (shard/shares.c) */
    const struct layout *keep;   /* from a save line: as the backward finds it; NULL: as cost says */
    /* after layout and allocate (physical graph only) */
    struct buffer *buffer;
    int64_t offset;              /* elements from the start of the buffer's slot and block */
    int64_t stride[MAX_DIM];     /* elements */
    struct place *place;         /* the same exactly, where extents differ between ranks (layout/place.h) */
    bool host;                   /* lives in host memory (layout/offload.c) */
    bool stacked;                /* survives its iteration: one copy per block of the regions around it */
};

enum phase { PHASE_COUNT, PHASE_SETUP, PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT, PHASE_UPDATE, PHASES };
extern const char *const phase_name[PHASES];
bool phase_per_microbatch(enum phase p);

enum attr_kind { ATTR_INT, ATTR_NUM, ATTR_STR, ATTR_INTS, ATTR_PTR };
struct attr {
    const char *name;
    enum attr_kind kind;
    int64_t i;
    double f;
    const char *s;
    int64_t *ints;               /* stb_ds array */
    void *ptr;                   /* struct param *, struct dim * ... : the op says which */
};

struct node {
    int id;
    const struct op *op;
    struct value **in, **out;    /* stb_ds arrays; in[k] may be NULL for an optional operand left out */
    struct attr *attr;           /* stb_ds array */
    struct region *region;       /* holds this node */
    struct region *body;         /* repeat only: in[k] starts body->args[k], out[k] is its last value */
    const char *path;            /* label path of the call it came from */
    struct span span;
    enum phase phase;
    const struct node *logical;  /* physical graph: the node of the logical graph that it was cloned from, or NULL */
    struct node *forward;        /* backward nodes: the forward node it was derived from */
    struct node *again;          /* a forward node that recompute repeats here, in the backward */
    bool of_loss;                /* of the forward, though it stands in the backward phase: makes or reads a loss (rewrite/loss.c) */
    int stage;                   /* virtual stage after place, in the physical graph its stage; repeat nodes that are cut: -1 */
    struct layout *need;         /* after shard: layout in which each operand is read; arrlen(in) entries */
    int spoilt, spoilt_operand;  /* --spoil: an enum fault (interpret.h) of this operand's conversion (-1: of all), or 0 */
    int spoilt_rank;             /* mutants: 1 + the only rank on which it is; 0: on all */
    struct buffer *wide;         /* after layout: room for f32 copies of what its kernel cannot read or write, or NULL */
    struct buffer *room;         /* after layout: what op->room asks for, or NULL */
    bool kept;                   /* no `recompute` line covers it: what it makes is small, to make it again is not */
    const char *why;             /* why fused or not, why this layout; for dumps */
};

struct region {
    struct node *owner;          /* the repeat node, or NULL for a root */
    struct node **nodes;         /* in program order */
    struct value **args;         /* carried in */
    struct value **results;      /* carried to the next iteration; same number and types as args */
    struct value *index;         /* i32 scalar, or NULL */
    int64_t count;               /* iterations (a stage's share is in cut[]) */
    int64_t first;               /* number, in the whole repeat, of the first block: of a piece, of a stage's share */
    int64_t total;               /* blocks of the whole repeat; count, but for pieces and shares */
    struct region *next;         /* the piece that goes on behind this one (elaborate/cut.c), or NULL */
    bool reverse;                /* walks the blocks from last to first */
    struct region *mirror;       /* walks the blocks of this body, or NULL */
    struct region *parent;       /* the region that holds owner */
    int64_t *cut;                /* stb_ds array after place: cut[u]..cut[u+1] are the blocks of virtual stage u, from 0 here;
                                    NULL: not cut */
};
struct region *region_origin(struct region *r);      /* the forward body whose blocks r walks */
int region_depth(const struct region *r);            /* number of repeats around (root: 0) */
int64_t region_blocks(const struct region *r);       /* product of their counts: how many blocks a value of r has */
bool region_within(const struct region *r, const struct region *outer);    /* outer is r or around it */
struct node *node_at_root(const struct node *n);     /* n, or the outermost repeat around it */

enum entry { ENTRY_TRAIN, ENTRY_EVALUATE, ENTRY_SAMPLE, ENTRIES };
extern const char *const entry_name[ENTRIES];

struct graph {
    enum entry entry;
    struct module *module;
    struct region *root;
    struct value **values;       /* stb_ds array, by id; values that became unused stay */
    int nnode;
    struct value *loss;          /* scalar f32, or NULL */
    struct { const char *name; struct value *value; } *outputs, *metrics;   /* stb_ds arrays; metrics are scalars */
};

struct graph *graph_new(struct module *m, enum entry entry);
struct region *region_new(struct region *parent, int64_t count);
struct region *region_mirror(struct region *parent, struct region *forward);      /* one that walks forward's blocks */

/* Building. node_new appends to `at` (at the end, or at the cursor set with region_insert_at), add operands and
 * attributes, then node_finish runs the op's shape rule, which creates the outputs with node_out. node_finish returns
 * false after a diagnostic; the node is then removed again. Spans and paths of outputs default to the node's. */
struct node *node_new(struct graph *g, struct region *at, const struct op *op, struct span span);
void node_in(struct node *n, struct value *v);
void node_set_int(struct node *n, const char *name, int64_t v);
void node_set_num(struct node *n, const char *name, double v);
void node_set_str(struct node *n, const char *name, const char *v);
void node_set_ints(struct node *n, const char *name, const int64_t *v, int count);
void node_set_ptr(struct node *n, const char *name, void *v);
bool node_finish(struct graph *g, struct node *n);
/* What n was joined of (attribute "nodes": a fused chain, row work) reads `to` in place of v. */
void node_rename_joined(struct node *n, const struct value *v, struct value *to);
struct value *node_out(struct graph *g, struct node *n, enum type type, int ndim, struct dim *const *dims);
struct value *value_new(struct graph *g, struct region *r, enum type type, int ndim, struct dim *const *dims);
const struct attr *node_attr(const struct node *n, const char *name);          /* NULL when absent */
int64_t node_int(const struct node *n, const char *name, int64_t otherwise);
double node_num(const struct node *n, const char *name, double otherwise);
const char *node_str(const struct node *n, const char *name);                  /* NULL when absent */
const int64_t *node_ints(const struct node *n, const char *name);              /* stb_ds array or NULL */
void *node_ptr(const struct node *n, const char *name);

/* The parameter that v reads, or whose copy in another type it is (made once per step, in SETUP); NULL for other values. */
struct param;
struct param *value_param(const struct value *v);
bool value_is_copy(const struct value *v);
int64_t value_count(const struct value *v);                                    /* logical elements */
/* Stored elements of dim d on a rank with these coordinates, and where they start in the padded logical dim. An uneven
 * split gives the first n mod k parts one more. coord NULL: the largest part. d DIM_FLAT: of a flat value, the elements in
 * use of its share and where they start in the piece. */
int64_t value_extent(const struct value *v, int d, const struct mesh *m, const int *coord);
int64_t value_base(const struct value *v, int d, const struct mesh *m, const int *coord);
int64_t layout_parts(const struct layout *l, int d, const struct mesh *m);     /* product of axes that split dim d */
unsigned layout_flat(const struct layout *l, const struct mesh *m);            /* axes that are S(flat) */
int64_t value_piece(const struct value *v, const struct mesh *m, const int *coord);    /* elements that all but flat axes leave */
int64_t value_share(const struct value *v, const struct mesh *m);              /* elements a flat value takes on each rank */
int64_t value_local_bytes(const struct value *v, const struct mesh *m);        /* largest part, one block, one slot */

/* Visits every node, bodies included, in program order. */
void region_walk(struct region *r, void (*visit)(struct node *n, void *context), void *context);

/* Printing: "f32[N/dp, T, D/tp]+sum(tp)"; with mesh NULL the bare type. In the arena. */
const char *value_type_text(const struct value *v, const struct mesh *m);
const char *layout_type_text(const struct value *v, const struct layout *l, const struct mesh *m);
const char *layout_text(const struct value *v, const struct layout *l, const struct mesh *m);   /* "{dp: S(N), tp: P}" */
const char *piece_text(const struct region *r);      /* " [0..2] of 4"; "" where a repeat is whole */
void graph_dump(FILE *to, const struct graph *g, const struct mesh *m);        /* --emit of every graph pass; m NULL before shard */
void graph_verify(const struct graph *g, const char *after);                   /* invariants above; BUG() when broken */
#endif
