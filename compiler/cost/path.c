/* The cheapest way between two layouts: A* over the layouts of the axes that move.
 *
 * One axis that moves alone takes one step, which is always the cheapest. With more, the search may send an axis through
 * B, or through a dim that either layout splits, because an axis can leave a dim only while it is the minor one there;
 * where axes that split one dim swap places, in one step where its parts are equal, or through any other dim. On the way
 * no rank holds more than the larger end times one axis, or, where parts that differ leave no such way, less than all: swapping two axes gathers a part, never
 * the whole tensor, unless there is no other dim to go through. */
#include "path.h"
#include <math.h>
#include <string.h>

struct state {
    struct layout lay;
    uint64_t key;                /* lay, packed */
    double cost;
    int from;                    /* state it was reached from */
    struct step step;            /* the step that reached it */
    bool done;
};
struct place { double cost; int state; };
struct search {
    const struct value *v;
    const struct mesh *m;
    struct state *states;        /* stb_ds array */
    int *slot, slots;            /* hash table: 1 + state by packed layout; slots is a power of two */
    struct place *heap;          /* stb_ds array: states to go on from, the most promising first, then the oldest */
    struct layout goal;
    double least_step[MAX_AXIS]; /* what any collective on the axis costs at least */
    struct sbp option[MAX_AXIS][MAX_DIM + 3];
    int noption[MAX_AXIS];
    double most;                 /* bytes a rank may hold on the way */
};

/* Would the step split a dim that the micro-batches cut already? Its parts would be minor to them, and hold other rows. */
static bool splits_within_time(const struct search *s, const struct layout *l, int axis, struct sbp to)
{
    for (int a = 0; a < s->m->naxis && to.kind == SBP_S; a++)
        if (a != axis && s->m->axis[a].time && s->m->axis[a].size > 1 && l->ax[a].kind == SBP_S && l->ax[a].dim == to.dim)
            return true;
    return false;
}

static uint64_t pack(const struct layout *l)
{
    uint64_t bits = 0;
    for (int a = 0; a < MAX_AXIS; a++)
        bits = bits << 8 | (uint64_t)(l->ax[a].kind << 6 | l->ax[a].dim << 3 | l->ax[a].order);
    return bits;
}

static bool nearer(struct place a, struct place b)
{
    return a.cost < b.cost || (a.cost == b.cost && a.state < b.state);
}

static void heap_put(struct search *s, struct place p)
{
    int at = (int)arrlen(s->heap);
    arrput(s->heap, p);
    for (; at > 0 && nearer(p, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = p;
}

static struct place heap_take(struct search *s)
{
    struct place first = s->heap[0], last = arrpop(s->heap);
    int n = (int)arrlen(s->heap), at = 0;
    for (int next; (next = 2 * at + 1) < n; at = next) {
        next += next + 1 < n && nearer(s->heap[next + 1], s->heap[next]);
        if (!nearer(s->heap[next], last))
            break;
        s->heap[at] = s->heap[next];
    }
    if (n)
        s->heap[at] = last;
    return first;
}

/* What is left to the goal costs at least this: an axis that is split or Partial can only get elsewhere by a collective,
 * unless it may end as Partial. */
static double left(const struct search *s, const struct layout *l)
{
    double sum = 0;
    for (int a = 0; a < s->m->naxis; a++) {
        struct sbp at = l->ax[a], goal = s->goal.ax[a];
        if (at.kind == goal.kind && at.dim == goal.dim)
            continue;
        bool local = at.kind == SBP_B || (at.kind == SBP_S && goal.kind == SBP_P);
        sum += local ? step_seconds(STEP_SLICE, 0, s->m, 0) : s->least_step[a];
    }
    return sum;
}

static void expect(struct search *s, const struct layout *goal)
{
    s->goal = *goal;
    double bytes = type_bytes[s->v->type], ranks = 1;
    for (int d = 0; d < s->v->ndim; d++)
        bytes *= (double)s->v->dim[d]->size;
    for (int a = 0; a < s->m->naxis; a++)
        ranks *= s->m->axis[a].size;
    for (int a = 0; a < s->m->naxis; a++) {
        double k = s->m->axis[a].size;
        s->least_step[a] = s->m->axis[a].time ? step_seconds(STEP_SLICE, 0, s->m, 0)
                         : step_seconds(STEP_ALL_GATHER, (k - 1) / k * bytes / ranks, s->m, 1u << a) * (1 - 1e-9);
    }
}

static int *find_slot(const struct search *s, uint64_t key)
{
    uint64_t at = (key ^ key >> 29) * 0x9e3779b97f4a7c15u;
    for (at = (at ^ at >> 32) & (uint64_t)(s->slots - 1);; at = (at + 1) & (uint64_t)(s->slots - 1))
        if (!s->slot[at] || s->states[s->slot[at] - 1].key == key)
            return &s->slot[at];
}

static void add_state(struct search *s, const struct state *way)
{
    if (2 * (arrlen(s->states) + 1) > s->slots) {
        s->slots = s->slots ? 2 * s->slots : 64;
        s->slot = NEW_ARRAY(int, s->slots);
        for (int k = 0; k < arrlen(s->states); k++)
            *find_slot(s, s->states[k].key) = k + 1;
    }
    arrput(s->states, *way);
    *find_slot(s, way->key) = (int)arrlen(s->states);
}

/* Notes a way to a layout, if it is the cheapest known. */
static void note(struct search *s, struct state way)
{
    way.key = pack(&way.lay);
    int at = s->slots ? *find_slot(s, way.key) - 1 : -1;
    if (at < 0) {
        at = (int)arrlen(s->states);
        add_state(s, &way);
    } else if (way.cost < s->states[at].cost) {
        s->states[at] = way;
    } else {
        return;
    }
    heap_put(s, (struct place){ way.cost + left(s, &way.lay), at });
}

static unsigned splitting(const struct search *s, const struct layout *l, int dim)
{
    unsigned axes = 0;
    for (int a = 0; a < s->m->naxis; a++)
        if (s->m->axis[a].size > 1 && l->ax[a].kind == SBP_S && l->ax[a].dim == dim)
            axes |= 1u << a;
    return axes;
}

/* May the dim be split so on the way? Parts of parts are the parts of the whole only where they are equal. */
static bool divides(const struct search *s, const struct layout *l, int dim)
{
    unsigned axes = splitting(s, l, dim);
    if (!(axes & (axes - 1)) || !(axes & ~splitting(s, &s->goal, dim)) || !(axes & ~splitting(s, &s->states[0].lay, dim)))
        return true;
    const struct dim *d = s->v->dim[dim];
    int64_t parts = 1;
    for (int a = 0; a < s->m->naxis; a++)
        parts *= axes >> a & 1 ? s->m->axis[a].size : 1;
    return (d->phys > 0 ? d->phys : d->size) % parts == 0;
}

/* The place of an axis among those that split a dim, once those that stay there in the goal are the major ones. */
static int place_in_goal(const struct search *s, const struct layout *l, unsigned axes, int axis, int dim)
{
    unsigned stay = axes & splitting(s, &s->goal, dim);
    int before = 0;
    for (int b = 0; b < s->m->naxis; b++)
        if (axes >> b & 1 && b != axis)
            before += (stay >> axis & 1) ? (stay >> b & 1) && s->goal.ax[b].order < s->goal.ax[axis].order
                                         : (stay >> b & 1) || l->ax[b].order < l->ax[axis].order;
    return before;
}

/* The axes that split a dim take the order they need for the goal. Parts move between the ranks that differ along the axes
 * from the first to the last that changes its place; all parts must be equal. */
static void reorder(struct search *s, int from, int dim)
{
    const struct layout *before = &s->states[from].lay;
    unsigned axes = splitting(s, before, dim);
    int first = MAX_AXIS, last = -1;
    int64_t parts = 1;
    const struct dim *d = s->v->dim[dim];
    struct step step = { .kind = STEP_PERMUTE, .dim = dim, .after = *before };
    for (int a = 0; a < s->m->naxis; a++) {
        if (!(axes >> a & 1))
            continue;
        int at = before->ax[a].order, to = place_in_goal(s, before, axes, a, dim);
        parts *= s->m->axis[a].size;
        step.after.ax[a].order = (uint8_t)to;
        if (at == to)
            continue;
        first = at < first ? at : first;
        last = at > last ? at : last;
    }
    if (last < 0 || (d->phys > 0 ? d->phys : d->size) % parts)
        return;
    for (int a = 0; a < s->m->naxis; a++)
        if (axes >> a & 1 && before->ax[a].order >= first && before->ax[a].order <= last) {
            step.axes |= 1u << a;
            if (s->m->axis[a].time)
                return;
        }
    step.bytes = layout_bytes(s->v, before, s->m);
    step.seconds = step_seconds(step.kind, step.bytes, s->m, step.axes);
    note(s, (struct state){ .lay = step.after, .cost = s->states[from].cost + step.seconds, .from = from, .step = step });
}

static void reach(struct search *s, int from, int axis, struct sbp to)
{
    if (splits_within_time(s, &s->states[from].lay, axis, to))
        return;
    struct step step = step_make(s->v, &s->states[from].lay, s->m, axis, to);
    double cost = s->states[from].cost + step.seconds;
    if (layout_bytes(s->v, &step.after, s->m) > s->most || (to.kind == SBP_S && !divides(s, &step.after, to.dim)))
        return;
    note(s, (struct state){ .lay = step.after, .cost = cost, .from = from, .step = step });
}

static void offer(struct search *s, int axis, struct sbp x)
{
    x.order = 0;
    for (int k = 0; k < s->noption[axis]; k++)
        if (s->option[axis][k].kind == x.kind && s->option[axis][k].dim == x.dim)
            return;
    s->option[axis][s->noption[axis]++] = x;
}

static bool step_legal(struct sbp from, struct sbp to)
{
    if (from.kind == to.kind && from.dim == to.dim)
        return false;
    return !(from.kind == SBP_P && to.kind == SBP_P);
}

static int search_path(struct search *s, const struct layout *from, const struct layout *to, struct step *steps)
{
    expect(s, to);
    note(s, (struct state){ .lay = *from, .from = -1 });
    while (arrlen(s->heap)) {
        int best = heap_take(s).state;
        if (s->states[best].done)
            continue;
        s->states[best].done = true;
        if (layout_same(&s->states[best].lay, to, s->m->naxis)) {
            int n = 0;
            for (int k = best; s->states[k].from >= 0; k = s->states[k].from)
                n++;
            if (n > MAX_STEP)
                return -1;
            int at = n;
            for (int k = best; s->states[k].from >= 0; k = s->states[k].from)
                steps[--at] = s->states[k].step;
            return n;
        }
        for (int a = 0; a < s->m->naxis; a++) {
            if (!s->noption[a] || !axis_minor(&s->states[best].lay, s->m, a))
                continue;
            for (int o = 0; o < s->noption[a]; o++)
                if (step_legal(s->states[best].lay.ax[a], s->option[a][o]))
                    reach(s, best, a, s->option[a][o]);
        }
        for (int d = 0; d < s->v->ndim; d++)
            reorder(s, best, d);
    }
    return -1;
}

/* Joins neighbours that do the same to the same dim: one collective over both axes. Gathers run from minor to major,
 * scatters from major to minor; both need the axes in mesh order, so that the group's ranks hold the parts in order. */
static int merge(const struct value *v, const struct layout *from, const struct mesh *m, struct step *steps, int n)
{
    int out = 0;
    for (int k = 0; k < n; k++) {
        struct step *last = out ? &steps[out - 1] : NULL, s = steps[k];
        bool same = last && step_is_comm(s.kind) && last->kind == s.kind && last->dim == s.dim && last->reduce == s.reduce;
        bool up = same && (s.axes > last->axes);     /* s works on a later (inner) axis than all of last's */
        if (same && (s.kind == STEP_ALL_REDUCE || (s.kind == STEP_ALL_GATHER && !up && s.axes < (last->axes & -last->axes)) ||
                     (s.kind == STEP_REDUCE_SCATTER && up))) {
            const struct layout *before = out > 1 ? &steps[out - 2].after : from;
            double ranks = 1;
            last->axes |= s.axes;
            last->after = s.after;
            for (int a = 0; a < m->naxis; a++)
                if (last->axes >> a & 1)
                    ranks *= m->axis[a].size;
            double whole = layout_bytes(v, s.kind == STEP_ALL_GATHER ? &last->after : before, m);
            last->bytes = (s.kind == STEP_ALL_REDUCE ? 2 : 1) * (ranks - 1) / ranks * whole;
            last->seconds = step_seconds(s.kind, last->bytes, m, last->axes);
            continue;
        }
        steps[out++] = s;
    }
    return out;
}

/* Do two axes split one dim in another order than before? */
static bool swap_places(const struct layout *a, const struct layout *b, const struct mesh *m)
{
    for (int x = 0; x < m->naxis; x++)
        for (int y = 0; y < x; y++)
            if (a->ax[x].kind == SBP_S && a->ax[y].kind == SBP_S && b->ax[x].kind == SBP_S && b->ax[y].kind == SBP_S &&
                a->ax[x].dim == a->ax[y].dim && b->ax[x].dim == b->ax[y].dim && a->ax[x].dim == b->ax[x].dim &&
                (a->ax[x].order < a->ax[y].order) != (b->ax[x].order < b->ax[y].order))
                return true;
    return false;
}

/* Do all axes that move split a dim before and after? */
static bool stay_split(const struct layout *a, const struct layout *b, const struct mesh *m)
{
    for (int x = 0; x < m->naxis; x++)
        if (!sbp_same(a->ax[x], b->ax[x]) && (a->ax[x].kind != SBP_S || b->ax[x].kind != SBP_S))
            return false;
    return true;
}

static int widest(const struct search *s)
{
    int most = 1;
    for (int a = 0; a < s->m->naxis; a++)
        if (s->noption[a] && s->m->axis[a].size > most)
            most = s->m->axis[a].size;
    return most;
}

int path_plain(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m,
               struct step *steps, int max)
{
    struct layout at = *from, goal = *to;
    int n = 0, moving = 0, axis = -1;

    for (int a = 0; a < m->naxis; a++)
        if (m->axis[a].size == 1 || a == m->pipe)
            at.ax[a] = goal.ax[a] = (struct sbp){ 0 };
    layout_normalise(&at, m);
    layout_normalise(&goal, m);
    struct step plan[MAX_STEP + 1];
    int t = m->mb;
    if (t >= 0 && (at.ax[t].kind != goal.ax[t].kind || at.ax[t].dim != goal.ax[t].dim)) {
        bool slice = at.ax[t].kind == SBP_B && goal.ax[t].kind == SBP_S;
        bool sum = at.ax[t].kind == SBP_P && goal.ax[t].kind == SBP_B &&
                   (at.ax[t].dim == REDUCE_SUM || m->axis[t].size == 1);    /* accumulation adds */
        if (!slice && !sum)
            return -1;
        if (!slice) {
            plan[n] = step_make(v, &at, m, t, goal.ax[t]);
            at = plan[n++].after;
        }
    }
    for (int a = 0; a < m->naxis; a++)
        if (!sbp_same(at.ax[a], goal.ax[a])) {
            moving++;
            axis = a;
        }
    struct layout start = at;
    int found = 0;
    if (moving == 1 && axis_minor(&at, m, axis) && axis_minor(&goal, m, axis) && step_legal(at.ax[axis], goal.ax[axis])) {
        plan[n] = step_make(v, &at, m, axis, goal.ax[axis]);
        found = 1;
    } else if (moving) {
        struct search s = { .v = v, .m = m };
        bool swaps = swap_places(&at, &goal, m);
        for (int a = 0; a < m->naxis; a++) {
            bool near = !sbp_same(at.ax[a], goal.ax[a]);
            for (int b = 0; b < m->naxis && !near; b++)          /* shares a dim with one that moves */
                if (!sbp_same(at.ax[b], goal.ax[b]) && at.ax[a].kind == SBP_S)
                    near = (at.ax[b].kind == SBP_S && at.ax[b].dim == at.ax[a].dim) ||
                           (goal.ax[b].kind == SBP_S && goal.ax[b].dim == at.ax[a].dim);
            if (!near)
                continue;
            offer(&s, a, at.ax[a]);
            offer(&s, a, goal.ax[a]);
            if (m->axis[a].time)
                continue;
            offer(&s, a, (struct sbp){ 0 });
            for (int d = 0; d < v->ndim && swaps; d++)
                if (v->dim[d]->size > 1)
                    offer(&s, a, (struct sbp){ SBP_S, (uint8_t)d, 0 });
            for (int b = 0; b < m->naxis; b++) {
                if (at.ax[b].kind == SBP_S && at.ax[b].dim != DIM_FLAT)
                    offer(&s, a, at.ax[b]);
                if (goal.ax[b].kind == SBP_S && goal.ax[b].dim != DIM_FLAT)
                    offer(&s, a, goal.ax[b]);
            }
        }
        double ends = fmax(layout_bytes(v, &at, m), layout_bytes(v, &goal, m));
        double whole = layout_bytes(v, &(struct layout){ 0 }, m);
        double less = ends < whole ? whole - 1 : whole, near = ends * widest(&s);
        double bounds[] = { stay_split(&at, &goal, m) ? fmin(near, less) : near, less, INFINITY };
        found = -1;
        for (int k = 0; k < 3 && found < 0; k++) {
            arrsetlen(s.states, 0);
            arrsetlen(s.heap, 0);
            s.slots = 0;
            s.most = bounds[k];
            found = search_path(&s, &at, &goal, plan + n);
        }
        if (found < 0)
            return -1;
    }
    found = merge(v, &start, m, plan + n, found);
    n += found;
    if (n > max)
        BUG("a conversion of %d steps", n);
    memcpy(steps, plan, sizeof *plan * (size_t)n);
    return n;
}
