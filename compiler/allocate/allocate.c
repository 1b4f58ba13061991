/* allocate: one arena per stage, every byte known. Lifetimes are intervals of program points. Points number the nodes
 * of all entries in the order in which a step runs them; entries never run at once, so their points do not overlap, and
 * only parameters and states live through all of them.
 *
 * A step has four groups: COUNT, SETUP, the loop of FORWARD, BACKWARD and WEIGHT, and UPDATE. COUNT and the loop run
 * once per micro-batch. What is read in another group than the one that makes it, or a later micro-batch, lives to that
 * group's end. So does what goes from one actor of the loop (a phase of a chunk) to another, unless the order is
 * sequential; the order then also says how many micro-batches are under way between them, and that is the number of
 * slots. */
#include "../base/diag.h"
#include "../box/post.h"
#include "../layout/place.h"
#include "../op.h"
#include "../passes.h"
#include "advise.h"
#include "fit.h"
#include "outside.h"
#include "pack.h"
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 4 };
const char *const memory_class_name[MEM_CLASSES] = {
    "parameters", "gradients", "optimizer state", "saved activations", "temporaries", "communication", "inputs",
    "host",
};

static int group_of(enum phase p)
{
    return p == PHASE_COUNT ? 0 : p == PHASE_SETUP ? 1 : p == PHASE_UPDATE ? 3 : 2;
}

struct drawn { int members; struct root *const *actors; struct slot_pool *pool; };     /* pool NULL: there is none */

struct work {
    struct module *m;
    struct physical *p;
    struct stage *s;
    int *point;                  /* by node id: where it runs; a repeat: where it starts */
    int *end;                    /* a repeat: where it ends */
    int now;
    int first[ENTRIES][GROUPS], last[ENTRIES][GROUPS];
    struct { const struct region *key; struct root value; } *roots;
    bool sequential;             /* the order of train */
    struct root **actors;        /* by buffer id: stb_ds arrays of the loop's actors that touch it, in train */
    int slots[PHASES][MAX_CHUNK][PHASES][MAX_CHUNK];       /* between two actors; 0: not asked yet */
    struct drawn *drawn;         /* stb_ds array: slots that chunks share, by what touches them */
};

static int slots_between(struct work *w, struct root from, struct root to)
{
    int *slots = &w->slots[from.phase][from.chunk][to.phase][to.chunk];
    if (!*slots)
        *slots = schedule_slots(w->s, from.phase, from.chunk, to.phase, to.chunk);
    return *slots;
}

static bool same_actor(struct root a, struct root b)
{
    return a.phase == b.phase && a.chunk == b.chunk;
}

static void note_actor(struct work *w, const struct buffer *b, struct root actor)
{
    struct root **list = &w->actors[b->id];
    for (int i = 0; i < arrlen(*list); i++)
        if (same_actor((*list)[i], actor))
            return;
    arrput(*list, actor);
}

/* Any of them may be the first to write a micro-batch's slot, any the last to read it. */
static void count_slots(struct work *w, struct buffer *b)
{
    struct root *list = w->actors[b->id];
    for (int i = 0; i < arrlen(list); i++)
        for (int k = 0; k < arrlen(list); k++) {
            int slots = i == k ? 1 : slots_between(w, list[i], list[k]);
            b->slots = slots > b->slots ? slots : b->slots;
        }
}

static bool may_share_slots(const struct work *w, const struct buffer *b)
{
    return arrlen(w->actors[b->id]) > 1 && b->last >= 0 && !b->pool && !b->host && !b->persistent && !b->constant && !b->bucket;
}

static bool same_actors(struct root *const *a, struct root *const *b, int members)
{
    for (int k = 0; k < members; k++) {
        if (arrlen(a[k]) != arrlen(b[k]))
            return false;
        for (int i = 0; i < arrlen(a[k]); i++)
            if (!same_actor(a[k][i], b[k][i]))
                return false;
    }
    return true;
}

/* Slots for registers of these actors; many ask for the same. */
static struct slot_pool *pool_of(struct work *w, struct root *const *actors, int members)
{
    for (int i = 0; i < arrlen(w->drawn); i++)
        if (w->drawn[i].members == members && same_actors(w->drawn[i].actors, actors, members))
            return w->drawn[i].pool;
    struct slot_pool *pool = slot_pool_make(&w->s->order, w->p->nstage, w->p->mesh->axis[w->p->mesh->mb].size, actors, members);
    arrput(w->drawn, ((struct drawn){members, actors, pool}));
    return pool;
}

/* What the chunks keep of one value shares slots, where they need fewer so. */
static void share_slots(struct work *w)
{
    struct buffer **all = w->s->buffers;
    for (int i = 0; w->s->nchunk > 1 && i < arrlen(all); i++) {
        int *group = NULL, apart = 0;
        struct root **actors = NULL;
        for (int k = i; may_share_slots(w, all[i]) && k < arrlen(all); k++)
            if (may_share_slots(w, all[k]) && all[k]->elements == all[i]->elements && all[k]->blocks == all[i]->blocks &&
                all[k]->type == all[i]->type && all[k]->class == all[i]->class && !strcmp(all[k]->name, all[i]->name)) {
                arrput(group, k);
                arrput(actors, w->actors[all[k]->id]);
                apart += all[k]->slots;
            }
        if (arrlen(group) < 2)
            continue;
        struct slot_pool *like = pool_of(w, actors, (int)arrlen(group));
        if (!like || like->slots >= apart)
            continue;
        struct slot_pool *pool = NEW(struct slot_pool);
        *pool = *like;
        for (int k = 0; k < arrlen(group); k++) {
            all[group[k]]->pool = pool;
            all[group[k]]->member = k;
            all[group[k]]->slots = pool->slots;
        }
    }
}

static void number_region(struct work *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        w->point[n->id] = w->now++;
        if (n->body) {
            number_region(w, n->body);
            w->end[n->id] = w->now++;
        } else {
            w->end[n->id] = w->point[n->id];
        }
    }
}

static void live(struct buffer *b, int from, int to)
{
    if (from < b->first)
        b->first = from;
    if (to > b->last)
        b->last = to;
}

/* Node n of the entry writes (or, as `read`, reads) v. */
static void touch(struct work *w, enum entry e, struct root def, struct root here, struct node *n, struct value *v, int at)
{
    struct buffer *b = v->buffer;
    if (!b || b->persistent)
        return;
    int from = at, to = at;
    /* what is defined outside a loop, or stacked over its blocks, is needed until the outermost such loop ends; a ring
     * is filled for the next block while this one is read */
    for (struct region *r = n->region; r->owner && (b->depth || (b->ring && r == v->region) || !region_within(v->region, r));
         r = r->parent) {
        from = v->region == r || b->depth ? w->point[r->owner->id] : from;
        to = w->end[r->owner->id];
    }
    int g = group_of(here.phase), made = group_of(def.phase);
    int group = schedule_group(w->p);
    bool crosses = !same_actor(def, here), sequential = e == ENTRY_TRAIN ? w->sequential : group == 1;
    /* points stand for times only within an actor, where the actors of a micro-batch take turns in another order */
    bool loops = w->p->mesh->axis[w->p->mesh->mb].size > 1 || !sequential;
    bool overlapped = g == 2 && made == 2 && crosses && !sequential;
    if (loops && (g != made || overlapped || (v->def && v->def->op == &op_box_accumulate))) {
        if (g == 0 || g == 2)
            to = w->last[e][g];
        if (made == 0 || made == 2)
            from = w->first[e][made];
    }
    live(b, from, to);
    if (b->constant)
        return;
    int microbatches = w->p->mesh->axis[w->p->mesh->mb].size;
    bool saved = crosses && g == 2 && !(v->def && v->def->op == &op_box_accumulate);
    if (saved && made == 0)
        b->slots = microbatches;
    if (saved && made == 2 && e != ENTRY_TRAIN && b->slots < group)
        b->slots = group;
    if (saved && made == 2 && e == ENTRY_TRAIN) {
        note_actor(w, b, def);
        note_actor(w, b, here);
    }
    if (saved && made == 2 && b->class == MEM_LOCAL)
        b->class = MEM_SAVED;
    if (made == 2 && g == 3 && b->depth && b->class == MEM_LOCAL)
        b->class = MEM_GRAD;
}

static struct root def_root(struct work *w, struct value *v, struct root otherwise)
{
    struct node *n = v->def ? v->def : v->region->owner;
    return n ? hmget(w->roots, node_at_root(n)->region) : otherwise;
}

/* The results of what a post starts are written from then on. In the last micro-batch what stands before it in the order of
 * a sequential step is done with. */
static void touch_posted(struct work *w, const struct node *n)
{
    const struct node *of = node_ptr(n, "of");
    const int64_t *operands = node_ints(n, "operands");
    for (int k = 0; k < arrlen(n->in); k++) {
        struct buffer *b = of->out[operands[k]]->buffer;
        int from = w->sequential ? w->point[node_at_root(n)->id] : w->first[ENTRY_TRAIN][2];
        if (!b->persistent)
            live(b, from, w->last[ENTRY_TRAIN][2]);
    }
}

static void touch_region(struct work *w, enum entry e, struct root f, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                touch(w, e, def_root(w, n->in[k], f), f, n, n->in[k], w->point[n->id]);
        for (int k = 0; k < arrlen(n->out); k++)
            touch(w, e, f, f, n, n->out[k], w->end[n->id]);
        if (n->op == &op_box_post && !post_each(n))
            touch_posted(w, n);
        for (int k = 0; n->op == &op_box_post && post_each(n) && k < arrlen(n->in); k++)
            touch(w, e, f, f, n, ((const struct node *)node_ptr(n, "of"))->out[node_ints(n, "operands")[k]], w->point[n->id]);
        if (n->wide)
            live(n->wide, w->point[n->id], w->end[n->id]);
        if (n->room)
            live(n->room, w->point[n->id], w->end[n->id]);
        if (!n->body)
            continue;
        for (int k = 0; k < arrlen(n->body->args); k++) {
            struct value *arg = n->body->args[k], *result = n->body->results[k];
            touch(w, e, f, f, n, arg, w->point[n->id]);
            touch(w, e, f, f, n, arg, w->end[n->id]);
            if (carry_through_out(n->body, k))
                touch(w, e, f, f, n, n->out[k], w->point[n->id]);
            touch(w, e, def_root(w, result, f), f, n, result, w->end[n->id]);
        }
        if (n->body->index) {
            touch(w, e, f, f, n, n->body->index, w->point[n->id]);
            touch(w, e, f, f, n, n->body->index, w->end[n->id]);
        }
        touch_region(w, e, f, n->body);
    }
}

/* The members of a bucket follow each other in the order of the collective's operands. */
static void place_bucket(struct buffer *head, int64_t offset)
{
    for (int k = 0; head->bucket && k < arrlen(head->bucket->in); k++) {
        struct buffer *b = head->bucket->in[k]->buffer;
        b->offset = offset;
        offset += b->bytes;
    }
}

enum { ALIGNMENT = 64 };
enum { SEARCH_WORK = 5000000 };          /* items looked at for each height: a tenth of a second at most */
static const int64_t LARGEST_BYTES = (int64_t)1 << 60;   /* of a stage, all tensors together */

static int64_t bytes_of(const struct buffer *b)
{
    int64_t bytes;
    bool over = __builtin_mul_overflow(b->elements, b->blocks, &bytes) ||
                __builtin_mul_overflow(bytes, (int64_t)b->slots * type_bytes[b->type], &bytes) || bytes > LARGEST_BYTES;
    return over ? LARGEST_BYTES + ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct buffer *pool_head(const struct stage *s, const struct buffer *b)
{
    for (int i = 0; i < arrlen(s->buffers); i++)
        if (s->buffers[i]->pool == b->pool && !s->buffers[i]->member)
            return s->buffers[i];
    BUG("a pool of slots without its first member");
}

/* Places all buffers of the arena, or of host memory; how large that is, and at *live what is used at most at once. */
static int64_t pack_memory(struct work *w, bool host, int64_t *live)
{
    struct stage *s = w->s;
    int64_t total = 0;
    struct item *items = NULL;
    int *place = NEW_ARRAY(int, arrlen(s->buffers) + 1);   /* the item each buffer is in, counted from 1 */
    for (int i = 0; i < arrlen(s->buffers); i++) {
        struct buffer *b = s->buffers[i];
        if (b->persistent) {
            b->first = 0;
            b->last = w->now;
        }
        if (b->last < 0 || b->host != host)
            continue;                                      /* never written: nothing refers to it */
        b->bytes = b->member ? 0 : bytes_of(b);
        if (b->bytes > LARGEST_BYTES - total) {
            diag_error(E_MEMORY, b->span, "the tensors of stage %d up to '%s' have more bytes than can be counted",
                       s->index, b->name);
            return 0;
        }
        total += b->bytes;
        s->bytes[b->class] += b->bytes;
        struct buffer *head = b->bucket ? b->bucket->in[0]->buffer : b->pool ? pool_head(s, b) : b;
        if (!place[head->id]) {
            arrput(items, ((struct item){b->first, b->last + 1, 0, 0, head->id}));
            place[head->id] = (int)arrlen(items);
        }
        place[i] = place[head->id];
        struct item *it = &items[place[i] - 1];
        it->lower = b->first < it->lower ? b->first : it->lower;
        it->upper = b->last >= it->upper ? b->last + 1 : it->upper;
        it->size += b->bytes;
    }
    int count = (int)arrlen(items);
    int64_t bytes = pack_near(items, count, SEARCH_WORK / (count + 1));
    *live = fit_bound(items, count);
    for (int i = 0; i < arrlen(s->buffers); i++)
        if (place[i])
            s->buffers[i]->offset = items[place[i] - 1].offset;
    for (int i = 0; i < count; i++)
        place_bucket(s->buffers[items[i].id], items[i].offset);
    return bytes;
}

static void allocate_stage(struct work *w)
{
    struct stage *s = w->s;
    int nodes = s->graph->nnode;
    w->point = NEW_ARRAY(int, nodes + 1);
    w->end = NEW_ARRAY(int, nodes + 1);
    w->sequential = schedule_sequential(s);
    w->actors = NEW_ARRAY(struct root *, arrlen(s->buffers) + 1);
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++)
            hmput(w->roots, roots[i].region, roots[i]);
        for (int f = 0; f < PHASES; f++) {
            int g = group_of((enum phase)f);
            if (f == PHASE_COUNT || f == PHASE_SETUP || f == PHASE_FORWARD || f == PHASE_UPDATE)
                w->first[e][g] = w->now++;
            for (int i = 0; i < arrlen(roots); i++)
                if (roots[i].phase == (enum phase)f)
                    number_region(w, roots[i].region);
            w->last[e][g] = w->now++;
        }
    }
    for (int i = 0; i < arrlen(s->buffers); i++) {
        s->buffers[i]->first = w->now;
        s->buffers[i]->last = -1;
    }
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++)
            touch_region(w, (enum entry)e, roots[i], roots[i].region);
    }
    for (int i = 0; i < arrlen(s->buffers); i++)
        count_slots(w, s->buffers[i]);
    share_slots(w);
    s->arena_bytes = pack_memory(w, false, &s->live_bytes);
    s->host_bytes = pack_memory(w, true, &(int64_t){0});
    s->link_bytes = outside_links(w->p, s);
    s->packing_bytes = outside_packing(w->p, s);
    s->meeting_bytes = outside_meeting(w->p, s);
}

void allocate(struct module *m)
{
    for (int i = 0; i < m->physical->nstage; i++) {
        struct work w = {.m = m, .p = m->physical, .s = &m->physical->stages[i]};
        allocate_stage(&w);
    }
    refuse_too_large(m);
}
