/* What the files of the box pass share: one boxer per entry, filling the stage programs.
 *
 * The pass walks the logical graph phase by phase and clones each node onto the virtual stages where it runs, called u
 * throughout; their regions are those of a stage and chunk (module.h). An operand is obtained there (boxer_obtain: as
 * another chunk of the stage has it, cloned, or received over a link), then converted (boxer_convert) to the layout in
 * which it is read. Conversions are appended where the value lives, just before the first reader there, and found again
 * by later readers. In COUNT, SETUP and UPDATE, which have no chunks, virtual stage s stands for all of stage s. */
#ifndef FLOWC_BOXER_H
#define FLOWC_BOXER_H
#include "../cost/convert.h"
#include "../module.h"
#include "../op.h"
#include "../physical.h"

struct source_key { const struct value *value; int u, phase; };

struct ahead { struct region *body; const struct region *blocks; int u; };

struct boxer {
    struct module *m;
    const struct mesh *mesh;
    struct physical *p;
    struct graph *g;                                             /* the logical graph of the entry */
    struct value **prime;                                        /* [u * values + id]: the clone of a logical value */
    struct { struct source_key key; struct value *value; } *sources;     /* per virtual stage and phase */
    struct { struct value *key; struct value **value; } *variants;       /* physical value: itself converted */
    struct { struct value *key; bool value; } *costly;                   /* variants that took communication */
    struct { const struct region *key; struct region **value; } *regions;   /* logical body: per virtual stage */
    struct ahead *ahead;                                         /* bodies of SETUP whose blocks are not cloned yet */
    struct { const struct node *key; struct node **value; } *nodes;      /* logical node: per virtual stage */
    struct node ***users;                                        /* per logical value id: the nodes that read it */
    bool *sunk, *replicated;                                     /* per logical node id, see place.c */
    bool *param_on;                                              /* [param index * nstage + stage]; shared by all entries */
    int *recvs;                                                  /* [u * PHASES + phase]: box_recv nodes so far */
    struct node **sends[PHASES];                                 /* box_send nodes, appended to their phases at the end */
};

/* place.c: where logical nodes run */
enum phase node_root_phase(const struct node *n);                /* also of nodes in bodies */
const int64_t *region_cut(struct region *body);                  /* of the forward body it walks, or NULL */
int home_of_node(const struct boxer *b, const struct node *n);   /* the virtual stage its results are on */
int home_of_value(const struct boxer *b, const struct value *v);
void boxer_analyse(struct boxer *b);                             /* users, sunk, replicated */
bool param_is_state(const struct param *p);
void boxer_find_params(struct boxer *b);                         /* param_on, over all entries */
bool axis_moves(const struct mesh *m, int axis);                 /* has size > 1 and is not the pipeline axis */

/* stages.c: cloning */
struct stage *boxer_stage(const struct boxer *b, int u);
struct root boxer_find_root(const struct boxer *b, int u, struct region *r);   /* the root region that r is in */
bool root_before(struct root a, struct root b);                  /* a micro-batch goes through a before b, or they are one */
struct region *boxer_root(struct boxer *b, int u, enum phase phase);
struct node *boxer_clone(struct boxer *b, int u, struct node *n, struct region *at, enum phase phase);
struct value *boxer_read(struct boxer *b, int u, struct value *v, const struct layout *need, struct region *at,
                         enum phase phase);
void boxer_clone_root(struct boxer *b, struct node *n);          /* onto every stage where it runs */
struct value *clone_out(struct boxer *b, int u, struct node *n, const struct value *like, const struct layout *lay);

/* links.c: values that cross stages */
struct value *boxer_link(struct boxer *b, int from, int to, struct value *sent, enum phase phase);
struct value *boxer_carry(struct boxer *b, int from, int to, struct value *v, enum phase phase);   /* a link if needed */
struct value *boxer_obtain(struct boxer *b, int u, struct value *v, const struct layout *need, enum phase phase);
void boxer_sum_uses(struct boxer *b, struct node *n);            /* a sunk add: gradients of several uses, over stages */
void boxer_partials(struct boxer *b, struct node *n);            /* norm_partials */
void boxer_output(struct boxer *b, struct node *n);

/* convert.c: layouts */
struct value *boxer_convert(struct boxer *b, int u, struct value *src, const struct layout *need, struct region *at,
                            enum phase phase);
struct value *boxer_accumulated(struct boxer *b, int u, struct value *src, const struct layout *need);
struct node *boxing_node(struct boxer *b, int u, const struct step *step, struct region *at, enum phase phase);
struct value *boxing_out(struct boxer *b, int u, struct node *n, struct value *src, const struct step *step);
void variant_add(struct boxer *b, struct value *src, struct value *variant, bool costly);
bool layout_agrees(const struct mesh *m, const struct layout *a, const struct layout *b);   /* where axes move */

/* bucket.c */
void boxer_bucket(struct boxer *b, int stage);

/* comm.c */
int comm_find(struct physical *p, unsigned axes, const int *stages);     /* stages: stb_ds array or NULL */

/* clean.c: dead clones go; every need is set to the operand's layout; the physical invariants */
void stage_clean(struct physical *p, struct stage *s, enum entry entry);
#endif
