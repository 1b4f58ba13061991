/* What it takes to bring a value from one layout to another on one mesh, and what that costs. Shard chooses layouts by
 * this cost and box inserts exactly the steps planned here, so the two cannot disagree.
 *
 * A step changes one mesh axis (or several that change the same way, merged into one collective):
 *     B -> S slice, B -> P mask, S -> P pad         local
 *     P -> B over the time axis: accumulate         local, always first
 *     S -> B all_gather, P -> B all_reduce, P -> S reduce_scatter, S -> S all_to_all
 *     axes that split one dim in another order, all parts of which are equal: permute, each rank's part to one peer
 * The dim may be DIM_FLAT. Where several axes split one dim, only the minor one may leave it, and a new one joins as the
 * minor one. Axes of size 1 never need a step; layout `to` may name anything on them. */
#ifndef FLOWC_CONVERT_H
#define FLOWC_CONVERT_H
#include "../graph.h"

enum step_kind {
    STEP_SLICE, STEP_MASK, STEP_PAD, STEP_ACCUMULATE,
    STEP_ALL_GATHER, STEP_ALL_REDUCE, STEP_REDUCE_SCATTER, STEP_ALL_TO_ALL, STEP_PERMUTE,
};
extern const char *const step_name[];

struct step {
    enum step_kind kind;
    unsigned axes;               /* bit set */
    int dim;                     /* slice, reduce_scatter: the dim split afterwards; gather, pad, all_to_all,
                                    permute: split before */
    int dim_to;                  /* all_to_all: split afterwards */
    enum reduce reduce;          /* mask, pad, accumulate, all_reduce, reduce_scatter */
    double bytes;                /* sent by each rank; 0 for local steps */
    double seconds;              /* alpha-beta time; local steps: a small copying cost */
    struct layout after;         /* layout once this step is done */
};
bool step_is_comm(enum step_kind k);

/* The cheapest steps from `from` to `to`, in order, into steps[0..max). Returns how many (0: nothing to do), or -1 when
 * the time axis would need anything but a slice or an accumulation. MAX_STEP is always enough. */
enum { MAX_STEP = 3 * MAX_AXIS };
int convert_path(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m,
                 struct step *steps, int max);
double convert_cost(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m);
                                                     /* seconds; INFINITY when convert_path gives -1 */

/* The alpha-beta model, with the numbers of the mesh's cluster. Inner axes (small strides) are a little faster. */
double axis_bandwidth(const struct mesh *m, int axis);               /* bytes per second */
double axis_latency(const struct mesh *m, int axis);                 /* seconds per collective */
double step_seconds(enum step_kind kind, double bytes, const struct mesh *m, unsigned axes);
double cost_flop_rate(const struct mesh *m);                                       /* FLOP per second of one rank */

/* Where conversions happen. A value is converted for all readers of one phase at once, in that phase and in the region
 * that defines it (a captured value once, outside the body). What a later phase finds is the stored layout `lay`, or,
 * where that is Partial on an axis, the layout on that axis to which the defining phase has already reduced it: gathers
 * are done again, reductions are not. Values of COUNT and SETUP are converted once, in SETUP, for all later phases.
 * `at`: the phase in which a reader of phase `reader` finds its conversion of a value defined in phase `home`. */
enum phase conversion_phase(enum phase home, enum phase reader);

/* Bytes of v stored under l on the rank with the largest part. */
double layout_bytes(const struct value *v, const struct layout *l, const struct mesh *m);
/* Gives the `order` fields their canonical values: 0, 1, .. along each dim, ties in mesh order; B and P get 0. */
void layout_normalise(struct layout *l, const struct mesh *m);
#endif
