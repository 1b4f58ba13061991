/* The data reader. Files are mapped, so a rank touches only the pages of its own rows.
 *
 * next_token: batch number s starts at token p = s N T, after wrapping s over floor((length - 1) / (N T)) batches;
 * inputs are tokens [p, p + N T), targets the same one token on. raw: batch s is elements [s E, (s + 1) E) with E the
 * elements of the input. Files: raw little-endian elements, or for u16 tokens a 1024-byte header (magic 20240520,
 * version, number of tokens) before them. */
#include "reader.h"
#include "agree.h"
#include "check.h"
#include "place.h"
#include "target.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    bool open;
    const char *name;
    const uint8_t *map, *data;
    int64_t map_bytes, length;           /* length: elements */
    int64_t batch, batches;              /* elements in a batch; whole batches */
    int64_t at;                          /* first element of the current batch */
};

static struct file *files;               /* one per fl_program.data */
static struct { int64_t step, position; } *resumed;      /* likewise: where the batch of that step starts */
static const int32_t *context_ids;
static int64_t context_length;

static int element_bytes(const struct fl_data *d)
{
    return !strcmp(d->element, "u8") ? 1 : !strcmp(d->element, "u16") ? 2 : 4;
}

static bool is_tokens(const struct fl_data *d) { return !strcmp(d->reader, "next_token"); }

static int32_t id_at(const struct fl_data *d, const struct file *f, int64_t i)
{
    switch (element_bytes(d)) {
    case 1: return f->data[i];
    case 2: return f->data[2 * i] | f->data[2 * i + 1] << 8;
    default: {
        int32_t v;
        memcpy(&v, f->data + 4 * i, 4);
        return v;
    }
    }
}

/* Skips the header of a .bin file. A raw file may start with the same bytes by chance, but then the length in the
 * header does not fit as well. */
static char *find_data(const struct fl_data *d, struct file *f)
{
    int32_t header[3];
    f->data = f->map;
    f->length = f->map_bytes / element_bytes(d);
    if (element_bytes(d) == 2 && f->map_bytes >= 1024) {
        memcpy(header, f->map, sizeof header);
        if (header[0] == 20240520 && 1024 + 2 * (int64_t)header[2] == f->map_bytes) {
            f->data = f->map + 1024;
            f->length = header[2];
            return NULL;
        }
        if (header[0] == 20240520 && header[1] == 1)
            return fl_printf("%s: the header says %d tokens, the file has room for %lld", f->name, header[2],
                             (long long)(f->map_bytes - 1024) / 2);
    }
    if (f->map_bytes % element_bytes(d))
        return fl_printf("%s: %lld bytes are not a whole number of %s elements", f->name, (long long)f->map_bytes,
                         d->element);
    return NULL;
}

static char *map_file(const struct fl_data *d, struct file *f)
{
    int fd = open(f->name, O_RDONLY);
    struct stat s;
    if (fd < 0 || fstat(fd, &s) < 0) {
        char *text = fl_printf("cannot open %s, data of %s: %s; give another file with %s", f->name, d->where,
                               strerror(errno), d->entry == FL_EVALUATE ? "--eval-data" : "--data");
        if (fd >= 0)
            close(fd);
        return text;
    }
    f->map_bytes = s.st_size;
    if (f->map_bytes > 0)
        f->map = mmap(NULL, (size_t)f->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (f->map_bytes > 0 && f->map == MAP_FAILED)
        return fl_printf("cannot map %s: %s", f->name, strerror(errno));
    return find_data(d, f);
}

/* Each rank looks at its share of the numbers: an index outside its table would read as nothing, in silence. */
static char *check_ids(const struct fl_data *d, const struct file *f, const struct fl_input *input)
{
    bool tokens = is_tokens(d);
    if (input->tensor.type != FL_I32 || (d->limit <= 0 && strcmp(d->element, "u32")))
        return NULL;
    int64_t limit = d->limit > 0 ? d->limit : INT32_MAX, share = f->length / fl_program.nranks + 1,
            first = share * fl_rank_number;
    for (int64_t i = first; i < first + share && i < f->length; i++) {
        int64_t id = id_at(d, f, i);
        if ((id >= 0 && id < limit) || (!tokens && d->has_ignore && id == d->ignore))
            continue;
        if (tokens)
            return fl_printf("%s: token %lld is %lld, but the vocabulary of %s has %lld", f->name, (long long)i,
                             (long long)(uint32_t)id, d->where, (long long)limit);
        return fl_printf("%s: element %lld is %lld, but %s at %s must be 0 to %lld%s", f->name, (long long)i,
                         (long long)(strcmp(d->element, "u32") ? id : (uint32_t)id), input->name, d->where,
                         (long long)limit - 1,
                         d->has_ignore ? fl_printf(" or %lld, which is ignored", (long long)d->ignore) :
                         "; a number to leave out is declared with `ignore`");
    }
    return NULL;
}

static const struct fl_input *input_of(int data)
{
    for (int k = 0; k < fl_program.ninput; k++)
        if (fl_program.input[k].binding == data)
            return &fl_program.input[k];
    return NULL;
}

/* The files of raw inputs hold the same rows: a file that ends earlier would start again earlier, and from then on
 * rows would stand beside others than their own. A file of one batch is the same at every step, and may be beside any. */
static char *check_rows(int i)
{
    const struct fl_input *input = input_of(i);
    const struct fl_data *d = &fl_program.data[i];
    if (is_tokens(d) || !input || !input->tensor.ndim)
        return NULL;
    int64_t n = input->tensor.dim[0].size, row = files[i].batch / n;
    if (files[i].length % row)
        return fl_printf("%s: %lld elements are not a whole number of rows of %s, which have %lld", files[i].name,
                         (long long)files[i].length, input->name, (long long)row);
    for (int k = 0; k < i; k++) {
        const struct fl_input *other = input_of(k);
        if (fl_program.data[k].entry != d->entry || is_tokens(&fl_program.data[k]) || !other || !other->tensor.ndim ||
            other->tensor.dim[0].size != n)
            continue;
        int64_t rows = files[i].length / row, others = files[k].length / (files[k].batch / n);
        if (rows != others && rows != n && others != n)
            return fl_printf("%s has %lld rows of %s, but %s has %lld of %s: they would drift apart", files[i].name,
                             (long long)rows, input->name, files[k].name, (long long)others, other->name);
    }
    return NULL;
}

static void count_batches(int i)
{
    const struct fl_input *input = input_of(i);
    files[i].batch = input ? fl_tensor_count(&input->tensor) : 0;
    if (input)
        files[i].batches = (files[i].length - (is_tokens(&fl_program.data[i]) ? 1 : 0)) / files[i].batch;
}

void fl_reader_open(enum fl_entry entry, const char *instead)
{
    if (!files)
        files = fl_alloc(fl_program.ndata * (int64_t)sizeof *files);
    for (int i = 0, first = -1; i < fl_program.ndata; i++) {
        const struct fl_data *d = &fl_program.data[i];
        if (d->entry != entry)
            continue;
        if (instead && first >= 0)
            fl_refuse("one file cannot replace the data of %s and %s: put them where the program names them",
                      fl_program.data[first].where, d->where);
        first = i;
        struct file *f = &files[i];
        f->name = instead ? instead : d->file;
        fl_agree(map_file(d, f));
        count_batches(i);
        char *complaint = NULL;
        if (f->batches < 1 && f->batch)
            complaint = fl_printf("%s has %lld %s; one step of %s needs %lld", f->name, (long long)f->length,
                                  is_tokens(d) ? "tokens" : "elements", d->where, (long long)f->batch + is_tokens(d));
        else if (f->batch)
            complaint = check_ids(d, f, input_of(i));
        fl_agree(complaint ? complaint : check_rows(i));
        f->open = true;
    }
}

bool fl_reader_exists(enum fl_entry entry)
{
    for (int i = 0; i < fl_program.ndata; i++)
        if (fl_program.data[i].entry == entry && access(fl_program.data[i].file, R_OK))
            return false;
    return true;
}

void fl_reader_resume(int data, int64_t step, int64_t position)
{
    if (!resumed)
        resumed = fl_alloc(fl_program.ndata * (int64_t)sizeof *resumed);
    resumed[data].step = step;
    resumed[data].position = position < 0 ? 0 : position;
}

/* From a position in the file on, whole batches to its end, then from its start again. */
void fl_reader_seek(enum fl_entry entry, int64_t step)
{
    for (int i = 0; files && i < fl_program.ndata; i++) {
        struct file *f = &files[i];
        if (!f->open || fl_program.data[i].entry != entry || !f->batches)
            continue;
        int64_t ahead = step - (resumed ? resumed[i].step : 0), from = resumed ? resumed[i].position : 0;
        int64_t end = f->length - is_tokens(&fl_program.data[i]), left = from < end ? (end - from) / f->batch : 0;
        f->at = ahead < left ? from + ahead * f->batch : (ahead - left) % f->batches * f->batch;
    }
}

int64_t fl_reader_position(int data) { return files && files[data].open ? files[data].at : 0; }

void fl_reader_context(const int32_t *context, int64_t n)
{
    context_ids = context;
    context_length = n;
}

/* ---- one micro-batch of one input ---- */

struct filling { const struct fl_input *input; const struct fl_data *data; const struct file *file; void *to; };

static void fill_row(void *context, int64_t at, int64_t index, int64_t n)
{
    struct filling *c = context;
    int64_t first = c->file ? c->file->at + index + (is_tokens(c->data) ? c->input->part : 0) : 0;
    int64_t width = c->input->tensor.ndim ? c->input->tensor.dim[c->input->tensor.ndim - 1].size : 1;
    for (int64_t j = 0; j < n; j++) {
        int64_t t = (index + j) % width;
        float value = 0;
        int32_t id;
        if (!c->file) {
            id = t < context_length ? context_ids[t] : 0;
            value = (float)id;
        } else if (!strcmp(c->data->element, "f32")) {
            memcpy(&value, c->file->data + 4 * (first + j), 4);
            id = (int32_t)value;
        } else {
            id = id_at(c->data, c->file, first + j);
            value = (float)id;
        }
        if (c->file && !is_tokens(c->data))
            value = (float)(value * c->data->scale + c->data->shift);
        switch (c->input->tensor.type) {
        case FL_I32: ((int32_t *)c->to)[at + j] = id; break;
        case FL_F32: ((float *)c->to)[at + j] = value; break;
        case FL_U8: ((uint8_t *)c->to)[at + j] = (uint8_t)id; break;
        case FL_BOOL: ((uint8_t *)c->to)[at + j] = value != 0; break;
        default:
            FL_FAIL("declare the input as i32, f32, u8 or bool", "input %s has a type that no reader fills",
                    c->input->name);
        }
    }
}

static int64_t input_bytes(const struct fl_input *input, const struct fl_box *box)
{
    bool one_byte = input->tensor.type == FL_U8 || input->tensor.type == FL_BOOL;
    return fl_box_count(&input->tensor, box) * (one_byte ? 1 : 4);
}

void fl_fill_input(struct fl_run *run, int k, int microbatch, void *to)
{
    const struct fl_input *input = &fl_program.input[k];
    struct fl_box box = fl_box_of(&input->tensor, run->rank->coord, microbatch);
    memset(to, 0, (size_t)input_bytes(input, &box));
    struct filling c = { .input = input, .to = to };
    if (input->binding >= 0) {
        c.data = &fl_program.data[input->binding];
        c.file = &files[input->binding];
        if (!files || !c.file->open)
            FL_FAIL("name a file with --data or --eval-data", "input %s has no open data file", input->name);
    }
    fl_box_rows(&input->tensor, &box, fill_row, &c);
}

void fl_read_input(struct fl_run *run, int k, int microbatch, void *dst)
{
    const struct fl_input *input = &fl_program.input[k];
    struct fl_box box = fl_box_of(&input->tensor, run->rank->coord, microbatch);
    int64_t bytes = input_bytes(input, &box);
    void *staging = fl_staging_of(k, microbatch, dst, bytes);
    fl_fill_input(run, k, microbatch, staging);
    fl_copy_in(dst, staging, bytes);
}

void fl_reader_close(void)
{
    for (int i = 0; files && i < fl_program.ndata; i++)
        if (files[i].map && files[i].map_bytes > 0)
            munmap((void *)files[i].map, (size_t)files[i].map_bytes);
    free(files);
    free(resumed);
    files = NULL;
    resumed = NULL;
}
