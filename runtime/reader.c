/* The data reader: opens and checks the files of an entry, and hands out this rank's part of each batch.
 *
 * next_token: a row is T tokens and the one after; inputs are the first T of them, targets the last T. raw: a row is what
 * one index of the first dim holds. Which rows a batch has is data_order.h's matter. The queue of an entry holds those
 * inputs that this rank asked for in its first step; what it asks for the first time is read on the spot. */
#include "reader.h"
#include "agree.h"
#include "check.h"
#include "data_file.h"
#include "data_queue.h"
#include "place.h"
#include "target.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stream {                          /* one of fl_program.data */
    bool open;
    struct fl_file *file, *mask;         /* mask: NULL without */
    struct fl_order order;
    struct { int64_t step; struct fl_position position; } resumed;
};
struct lane {                            /* one entry */
    int64_t step;
    struct fl_queue *queue;
    bool *wanted, grown;                 /* inputs that were asked for; one more of them than the queue holds */
    int64_t *offset;                     /* of each input in a batch of the queue; -1: not in it */
};

static struct stream *streams;
static struct lane lanes[FL_ENTRIES];
static const struct fl_run *running;
static const int32_t *context_ids;
static int64_t context_length;

#define READER(id, name, gives, after, elements) after,
static const int after_of[] = { FL_READERS(READER) };
#undef READER

static bool is_tokens(const struct fl_data *d) { return d->reader == FL_READER_NEXT_TOKEN; }

static const struct fl_input *input_of(int data)
{
    for (int k = 0; k < fl_program.ninput; k++)
        if (fl_program.input[k].binding == data)
            return &fl_program.input[k];
    return NULL;
}

static void start(void)
{
    if (!streams)
        streams = fl_alloc(fl_program.ndata * (int64_t)sizeof *streams);
}

/* ---- checks before the first step ---- */

/* Each rank looks at its share of the numbers: an index outside its table would read as nothing, in silence. */
static char *check_ids(const struct fl_data *d, const struct fl_file *f, const struct fl_input *input)
{
    bool tokens = is_tokens(d);
    if (input->tensor.type != FL_I32 || (d->limit <= 0 && d->element != FL_ELEMENT_U32 && f->element != FL_ELEMENT_I64))
        return NULL;
    int64_t limit = d->limit > 0 ? d->limit : INT32_MAX, share = f->length / fl_program.nranks + 1,
            first = share * fl_rank_number, ids[4096];
    int64_t end = first + share < f->length ? first + share : f->length;
    for (int64_t at = first; at < end; at += 4096) {
        int64_t n = end - at < 4096 ? end - at : 4096;
        char *complaint = fl_file_read(f, at, n, ids, NULL);
        for (int64_t i = 0; i < n && !complaint; i++) {
            int64_t id = ids[i];
            if ((id >= 0 && id < limit) || (!tokens && d->has_ignore && id == d->ignore))
                continue;
            if (tokens)
                return fl_printf("%s: token %lld is %lld, but the vocabulary of %s has %lld", f->name, (long long)(at + i),
                                 (long long)id, d->where, (long long)limit);
            return fl_printf("%s: element %lld is %lld, but %s at %s must be 0 to %lld%s", f->name, (long long)(at + i),
                             (long long)id, input->name, d->where, (long long)limit - 1,
                             d->has_ignore ? fl_printf(" or %lld, which is ignored", (long long)d->ignore) :
                             "; a number to leave out is declared with `ignore`");
        }
        if (complaint)
            return complaint;
    }
    return NULL;
}

/* Raw inputs are read row by row beside each other: their files hold the same rows, and are walked in the same order. A
 * file of one batch is the same at every step, and may be beside any. */
static char *check_rows(int i)
{
    const struct fl_data *d = &fl_program.data[i];
    const struct stream *s = &streams[i];
    const struct fl_input *input = input_of(i);
    if (is_tokens(d) || !input || !input->tensor.ndim)
        return NULL;
    for (int f = 0; f < s->order.nfile; f++)
        if (s->file[f].length % s->order.width)
            return fl_printf("%s: %lld elements are not a whole number of rows of %s, which have %lld", s->file[f].name,
                             (long long)s->file[f].length, input->name, (long long)s->order.width);
    for (int k = 0; k < i; k++) {
        const struct fl_input *other = input_of(k);
        const struct fl_order *a = &s->order, *b = &streams[k].order;
        if (fl_program.data[k].entry != d->entry || is_tokens(&fl_program.data[k]) || !other || !other->tensor.ndim ||
            b->n != a->n)
            continue;
        int64_t rows = fl_order_epoch(a), others = fl_order_epoch(b);
        if ((rows == a->n && !a->shuffle && !a->pattern) || (others == a->n && !b->shuffle && !b->pattern))
            continue;
        if (rows != others)
            return fl_printf("%s has %lld rows of %s, but %s has %lld of %s: they would drift apart", s->file[0].name,
                             (long long)rows, input->name, streams[k].file[0].name, (long long)others, other->name);
        if (a->shuffle != b->shuffle || !a->pattern != !b->pattern)
            return fl_printf("%s and %s at %s are read in different orders: rows would stand beside others than their own",
                             other->name, input->name, d->where);
        for (int f = 0; a->pattern && f < a->nfile; f++)
            if (a->nfile != b->nfile || a->share[f] != b->share[f] || fl_order_rows(a, f, 0) != fl_order_rows(b, f, 0))
                return fl_printf("the files of %s and %s at %s differ in rows or weights: they would drift apart", other->name,
                                 input->name, d->where);
    }
    return NULL;
}

/* Cuts are at whole rows of raw files, at any token of others; a hair more than the product, which may be rounded down. */
static int64_t cut(double share, int64_t length, int64_t grain)
{
    return (int64_t)floor(share * (double)(length / grain) + 1e-6) * grain;
}

static char *open_file(const struct fl_data *d, struct stream *s, int f, const struct fl_data_file *named)
{
    struct fl_file *file = &s->file[f];
    char *parts[2];
    for (int n = fl_file_parts(named->name, d->element, parts), k = 0; k < n; k++)
        if (access(parts[k], R_OK))
            return fl_printf("cannot open %s, data of %s: %s; give another file with %s", parts[k], d->where, strerror(errno),
                             d->entry == FL_EVALUATE ? "--eval-data" : "--data");
    char *complaint = fl_file_open(file, named->name, d->element);
    if (complaint)
        return complaint;
    int64_t grain = is_tokens(d) ? 1 : s->order.width;
    s->order.span[f] = (struct fl_span){ cut(d->low, file->length, grain), cut(d->high, file->length, grain) };
    if (named->mask && s->mask) {
        complaint = fl_file_open(&s->mask[f], named->mask, FL_ELEMENT_U8);
        if (!complaint && s->mask[f].length != file->length)
            complaint = fl_printf("%s masks %lld tokens, but %s has %lld", named->mask, (long long)s->mask[f].length,
                                  file->name, (long long)file->length);
    }
    return complaint;
}

static char *open_stream(int i, const char *instead, uint64_t seed)
{
    struct fl_data whole = fl_program.data[i];
    const struct fl_data *d = &whole;
    const struct fl_data_file other = { instead, NULL, 1 };
    const struct fl_input *input = input_of(i);
    struct stream *s = &streams[i];
    if (instead) {
        whole.nfile = 1;
        whole.file = &other;
        whole.weighted = false;
        whole.low = 0;
        whole.high = 1;
    }
    int64_t count = input ? fl_tensor_count(&input->tensor) : 1;
    s->order = (struct fl_order){ .nfile = d->nfile, .after = after_of[d->reader], .shuffle = d->shuffle, .seed = seed,
                                  .n = input && input->tensor.ndim ? input->tensor.dim[0].size : 1 };
    s->order.width = count / s->order.n;
    s->order.span = fl_alloc(d->nfile * (int64_t)sizeof *s->order.span);
    s->file = fl_alloc(d->nfile * (int64_t)sizeof *s->file);
    s->mask = d->file[0].mask ? fl_alloc(d->nfile * (int64_t)sizeof *s->mask) : NULL;
    double *weight = fl_alloc(d->nfile * (int64_t)sizeof *weight);
    for (int f = 0; f < d->nfile; f++)
        s->file[f].fd = -1;
    for (int f = 0; f < d->nfile; f++) {
        char *complaint = open_file(d, s, f, &d->file[f]);
        if (complaint)
            return complaint;
        weight[f] = d->file[f].weight;
        int64_t held = s->order.span[f].high - s->order.span[f].low;
        if (d->weighted && fl_order_rows(&s->order, f, 0) < 1)
            return fl_printf("%s has %lld %s to read; one row of %s needs %lld", s->file[f].name, (long long)held,
                             is_tokens(d) ? "tokens" : "elements", d->where, (long long)(s->order.width + s->order.after));
    }
    if (d->weighted)
        fl_order_weigh(&s->order, weight);
    free(weight);
    int64_t held = 0;
    for (int f = 0; f < d->nfile; f++)
        held += s->order.span[f].high - s->order.span[f].low;
    if (input && !d->weighted && fl_order_epoch(&s->order) < s->order.n)
        return fl_printf("%s%s has %lld %s%s; one step of %s needs %lld", s->file[0].name, d->nfile > 1 ? " .." : "",
                         (long long)held, is_tokens(d) ? "tokens" : "elements",
                         d->low > 0 || d->high < 1 ? " in the part that is read" : "", d->where,
                         (long long)(count + s->order.after));
    return NULL;
}

void fl_reader_open(enum fl_entry entry, const char *instead, uint64_t seed)
{
    start();
    for (int i = 0, first = -1; i < fl_program.ndata; i++) {
        const struct fl_data *d = &fl_program.data[i];
        if (d->entry != entry)
            continue;
        if (instead && first >= 0)
            fl_refuse("one file cannot replace the data of %s and %s: put them where the program names them",
                      fl_program.data[first].where, d->where);
        if (instead && d->file[0].mask)
            fl_refuse("one file cannot replace the data of %s, which have a mask: put them where the program names them",
                      d->where);
        first = i;
        struct stream *s = &streams[i];
        fl_agree(open_stream(i, instead, seed));
        char *complaint = NULL;
        for (int f = 0; f < s->order.nfile && input_of(i) && !complaint; f++)
            complaint = check_ids(d, &s->file[f], input_of(i));
        fl_agree(complaint ? complaint : check_rows(i));
        s->open = true;
    }
}

bool fl_reader_exists(enum fl_entry entry)
{
    for (int i = 0; i < fl_program.ndata; i++)
        for (int f = 0; fl_program.data[i].entry == entry && f < fl_program.data[i].nfile; f++) {
            char *parts[2];
            for (int n = fl_file_parts(fl_program.data[i].file[f].name, fl_program.data[i].element, parts); n-- > 0;)
                if (access(parts[n], R_OK))
                    return false;
        }
    return true;
}

/* ---- positions ---- */

void fl_reader_resume(int data, int64_t step, struct fl_position position)
{
    start();
    streams[data].resumed.step = step;
    streams[data].resumed.position.epoch = position.epoch > 0 ? position.epoch : 0;
    streams[data].resumed.position.at = position.at > 0 ? position.at : 0;
}

static struct fl_position position_of(int data, int64_t step)
{
    const struct stream *s = &streams[data];
    return fl_order_ahead(&s->order, s->resumed.position, step - s->resumed.step);
}

struct fl_position fl_reader_position(int data)
{
    if (!streams || !streams[data].open)
        return streams ? streams[data].resumed.position : (struct fl_position){ 0, 0 };
    return position_of(data, lanes[fl_program.data[data].entry].step);
}

int64_t fl_reader_held(int data)
{
    int64_t held = 0;
    if (!streams || !streams[data].open)
        return -1;
    for (int f = 0; f < streams[data].order.nfile; f++)
        held += streams[data].order.span[f].high - streams[data].order.span[f].low;
    return held;
}

void fl_reader_context(const int32_t *context, int64_t n)
{
    context_ids = context;
    context_length = n;
}

/* ---- one micro-batch of one input ---- */

struct filling {
    const struct fl_input *input;
    int data;                            /* -1: the context of sampling */
    struct fl_position position;
    void *to;
    char *complaint;
};

static void put(const struct fl_input *input, void *to, int64_t at, int64_t n, const int64_t *whole, const float *real)
{
    for (int64_t j = 0; j < n; j++)
        switch (input->tensor.type) {
        case FL_I32: ((int32_t *)to)[at + j] = (int32_t)whole[j]; break;
        case FL_F32: ((float *)to)[at + j] = real[j]; break;
        case FL_U8: ((uint8_t *)to)[at + j] = (uint8_t)whole[j]; break;
        case FL_BOOL: ((uint8_t *)to)[at + j] = real[j] != 0; break;
        default:
            FL_FAIL("declare the input as i32, f32, u8 or bool", "input %s has a type that no reader fills", input->name);
        }
}

enum { PIECE = 2048 };

/* n elements of one file from `first` on. */
static char *fill_piece(const struct filling *c, int file, int64_t first, int64_t at, int64_t n)
{
    int64_t whole[PIECE], kept[PIECE];
    float real[PIECE];
    const struct fl_data *d = &fl_program.data[c->data];
    const struct stream *s = &streams[c->data];
    bool targets = is_tokens(d) && c->input->part == 1;
    char *complaint = fl_file_read(&s->file[file], first, n, whole, real);
    if (!complaint && s->mask && targets)
        complaint = fl_file_read(&s->mask[file], first, n, kept, NULL);
    for (int64_t j = 0; j < n && !complaint; j++) {
        bool blank = targets && ((s->mask && !kept[j]) || (d->has_blank && whole[j] == d->blank));
        if (blank)
            whole[j] = d->ignore;
        else if (c->input->tensor.type == FL_I32 && d->limit > 0 && (whole[j] < 0 || whole[j] >= d->limit) &&
                 !(d->has_ignore && whole[j] == d->ignore))
            complaint = fl_printf("%s: element %lld is now %lld, which is not below %lld", s->file[file].name,
                                  (long long)(first + j), (long long)whole[j], (long long)d->limit);
        if (!is_tokens(d))
            real[j] = (float)(real[j] * d->scale + d->shift);
    }
    if (!complaint)
        put(c->input, c->to, at, n, whole, real);
    return complaint;
}

/* Elements [index, index + n) of the whole batch, which may be several rows; those that lie on in a file go together. */
static void fill_run(void *context, int64_t at, int64_t index, int64_t n)
{
    struct filling *c = context;
    if (c->data < 0) {
        int64_t width = c->input->tensor.ndim ? c->input->tensor.dim[c->input->tensor.ndim - 1].size : 1;
        for (int64_t j = 0; j < n; j++) {
            int64_t t = (index + j) % width, id = t < context_length ? context_ids[t] : 0;
            float real = (float)id;
            put(c->input, c->to, at + j, 1, &id, &real);
        }
        return;
    }
    const struct fl_order *o = &streams[c->data].order;
    for (int64_t done = 0, now; done < n && !__atomic_load_n(&c->complaint, __ATOMIC_RELAXED); done += now) {
        int64_t row = (index + done) / o->width, inside = (index + done) % o->width;
        int file, next;
        int64_t first = fl_order_find(o, c->position, row, &file) + inside;
        now = o->width - inside;
        while (now < n - done && now < PIECE && fl_order_find(o, c->position, ++row, &next) == first + now && next == file)
            now += o->width;
        now = now < n - done ? now : n - done;
        now = now < PIECE ? now : PIECE;
        char *complaint = fill_piece(c, file, first + (is_tokens(&fl_program.data[c->data]) ? c->input->part : 0), at + done,
                                     now);
        if (complaint)
            __atomic_store_n(&c->complaint, complaint, __ATOMIC_RELAXED);
    }
}

static int64_t part_bytes(const struct fl_input *input, int microbatch)
{
    struct fl_box box = fl_box_of(&input->tensor, running->rank->coord, microbatch);
    bool one_byte = input->tensor.type == FL_U8 || input->tensor.type == FL_BOOL;
    return fl_box_count(&input->tensor, &box) * (one_byte ? 1 : 4);
}

/* Micro-batch 0 is the largest. */
static int64_t input_bytes(const struct fl_input *input) { return (part_bytes(input, 0) + 63) / 64 * 64; }

static char *fill_part(const struct fl_input *input, int64_t step, int microbatch, char *to)
{
    struct fl_box box = fl_box_of(&input->tensor, running->rank->coord, microbatch);
    struct filling c = { .input = input, .data = input->binding, .to = to };
    if (c.data >= 0)
        c.position = position_of(c.data, step);
    fl_box_rows(&input->tensor, &box, fill_run, &c);
    return c.complaint;
}

static char *fill_batch(void *context, int64_t step, char *to)
{
    const struct lane *lane = context;
    for (int k = 0; k < fl_program.ninput; k++)
        for (int mb = 0; lane->offset[k] >= 0 && mb < fl_program.microbatches; mb++) {
            const struct fl_input *input = &fl_program.input[k];
            char *complaint = fill_part(input, step, mb, to + lane->offset[k] + mb * input_bytes(input));
            if (complaint)
                return complaint;
        }
    return NULL;
}

static void rebuild(struct lane *lane, enum fl_entry entry)
{
    fl_queue_close(lane->queue);
    int64_t bytes = 0;
    for (int k = 0; k < fl_program.ninput; k++) {
        lane->offset[k] = lane->wanted[k] ? bytes : -1;
        if (lane->wanted[k])
            bytes += input_bytes(&fl_program.input[k]) * fl_program.microbatches;
    }
    int64_t period = entry == FL_EVALUATE ? (fl_program.evaluate_steps > 0 ? fl_program.evaluate_steps : 1) : 0;
    lane->queue = fl_queue_new(bytes, period, fill_batch, lane);
    lane->grown = false;
}

void fl_reader_seek(enum fl_entry entry, int64_t step)
{
    struct lane *lane = &lanes[entry];
    lane->step = step;
    if (lane->grown)
        rebuild(lane, entry);
}

static const char *taken(struct lane *lane, int k, int microbatch)
{
    if (!lane->wanted) {
        lane->wanted = fl_alloc(fl_program.ninput * (int64_t)sizeof *lane->wanted);
        lane->offset = fl_alloc(fl_program.ninput * (int64_t)sizeof *lane->offset);
        for (int i = 0; i < fl_program.ninput; i++)
            lane->offset[i] = -1;
    }
    lane->grown |= !lane->wanted[k];
    lane->wanted[k] = true;
    if (lane->offset[k] < 0)
        return NULL;
    return fl_queue_take(lane->queue, lane->step) + lane->offset[k] + microbatch * input_bytes(&fl_program.input[k]);
}

void fl_fill_input(struct fl_run *run, int k, int microbatch, void *to)
{
    const struct fl_input *input = &fl_program.input[k];
    running = run;
    if (input->binding >= 0 && (!streams || !streams[input->binding].open))
        FL_FAIL("name a file with --data or --eval-data", "input %s has no open data file", input->name);
    int64_t bytes = part_bytes(input, microbatch);
    const char *from = input->binding >= 0 ? taken(&lanes[input->entry], k, microbatch) : NULL;
    if (from) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    memset(to, 0, (size_t)bytes);
    char *complaint = fill_part(input, lanes[input->entry].step, microbatch, to);
    if (complaint)
        FL_FAIL(NULL, "%s", complaint);
}

void fl_read_input(struct fl_run *run, int k, int microbatch, void *dst)
{
    running = run;
    int64_t bytes = part_bytes(&fl_program.input[k], microbatch);
    void *staging = fl_staging_of(k, microbatch, dst, bytes);
    fl_fill_input(run, k, microbatch, staging);
    fl_copy_in(dst, staging, bytes);
}

void fl_reader_close(void)
{
    for (int e = 0; e < FL_ENTRIES; e++) {
        fl_queue_close(lanes[e].queue);
        free(lanes[e].wanted);
        free(lanes[e].offset);
        lanes[e] = (struct lane){ 0 };
    }
    for (int i = 0; streams && i < fl_program.ndata; i++)
        for (int f = 0; streams[i].file && f < streams[i].order.nfile; f++) {
            fl_file_close(&streams[i].file[f]);
            if (streams[i].mask)
                fl_file_close(&streams[i].mask[f]);
        }
    free(streams);
    streams = NULL;
}
