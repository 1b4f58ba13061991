/* Reading and writing safetensors files. The header comes from anyone, so every number in it is checked. */
#include "safetensors.h"
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int dtype_bytes(const char *dtype)
{
    static const struct { const char *name; int bytes; } table[] = {
        { "F32", 4 }, { "F64", 8 }, { "F16", 2 }, { "BF16", 2 }, { "I64", 8 }, { "I32", 4 }, { "I16", 2 }, { "I8", 1 },
        { "U8", 1 }, { "BOOL", 1 }, { "U64", 8 }, { "U32", 4 }, { "U16", 2 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, dtype))
            return table[i].bytes;
    return 0;
}

bool fl_st_number(const struct fl_st_entry *e)
{
    return !strcmp(e->dtype, "F32") || !strcmp(e->dtype, "F64") || !strcmp(e->dtype, "F16") ||
           !strcmp(e->dtype, "BF16");
}

static char *read_entry(struct fl_st_entry *e, const char *file, const char *name, json_t *v, const uint8_t *data,
                        int64_t data_bytes)
{
    json_t *dtype = json_object_get(v, "dtype"), *shape = json_object_get(v, "shape"),
           *range = json_object_get(v, "data_offsets");
    if (!json_is_string(dtype) || !json_is_array(shape) || json_array_size(range) != 2 || json_array_size(shape) > 8)
        return fl_printf("%s: the entry of %s is not dtype, shape of at most 8 dims, data_offsets", file, name);
    *e = (struct fl_st_entry){ .name = name, .ndim = (int)json_array_size(shape), .count = 1 };
    snprintf(e->dtype, sizeof e->dtype, "%s", json_string_value(dtype));
    int64_t begin = json_integer_value(json_array_get(range, 0)), end = json_integer_value(json_array_get(range, 1));
    for (int d = 0; d < e->ndim; d++) {
        e->shape[d] = json_integer_value(json_array_get(shape, (size_t)d));
        if (e->shape[d] < 0 || (e->shape[d] > 0 && e->count > INT64_MAX / 16 / e->shape[d]))
            return fl_printf("%s: %s has an impossible shape", file, name);
        e->count *= e->shape[d];
    }
    int bytes = dtype_bytes(json_string_value(dtype));
    if (begin < 0 || end < begin || end > data_bytes || (bytes && end - begin != e->count * bytes))
        return fl_printf("%s: the data of %s do not fit its shape or the file (cut short?)", file, name);
    e->data = data + begin;
    e->bytes = end - begin;
    return NULL;
}

char *fl_st_open(struct fl_st_file *f, const char *name)
{
    *f = (struct fl_st_file){ .name = name };
    int fd = open(name, O_RDONLY);
    struct stat s;
    if (fd < 0 || fstat(fd, &s) < 0) {
        char *text = fl_printf("cannot open %s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return text;
    }
    f->map_bytes = s.st_size;
    f->map = s.st_size > 0 ? mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        return fl_printf("cannot map %s: %s", name, s.st_size > 0 ? strerror(errno) : "it is empty");
    }
    uint64_t header_bytes = 0;
    if (f->map_bytes >= 8)
        memcpy(&header_bytes, f->map, 8);
    if (f->map_bytes < 8 || header_bytes > (uint64_t)f->map_bytes - 8)
        return fl_printf("%s is not a safetensors file: its header does not fit", name);
    json_error_t error;
    json_t *root = json_loadb((const char *)f->map + 8, header_bytes, JSON_REJECT_DUPLICATES, &error);
    f->header = root;
    if (!json_is_object(root))
        return fl_printf("%s is not a safetensors file: %s", name, root ? "its header is not an object" : error.text);
    f->entry = fl_alloc((int64_t)(json_object_size(root) * sizeof *f->entry));
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        if (!strcmp(key, "__metadata__"))
            continue;
        char *complaint = read_entry(&f->entry[f->nentry++], name, key, v, (const uint8_t *)f->map + 8 + header_bytes,
                                     f->map_bytes - 8 - (int64_t)header_bytes);
        if (complaint)
            return complaint;
    }
    return NULL;
}

void fl_st_close(struct fl_st_file *f)
{
    if (f->map)
        munmap(f->map, (size_t)f->map_bytes);
    free(f->entry);
    json_decref(f->header);
    *f = (struct fl_st_file){ 0 };
}

struct fl_st_entry *fl_st_find(struct fl_st_file *f, const char *name)
{
    for (int i = 0; i < f->nentry; i++)
        if (!strcmp(f->entry[i].name, name))
            return &f->entry[i];
    return NULL;
}

static float half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 0) {
        float v = (float)fraction * 0x1p-24f;
        return sign ? -v : v;
    }
    union { uint32_t u; float f; } v = { sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13 };
    return v.f;
}

float fl_st_read(const struct fl_st_entry *e, int64_t i)
{
    union { uint32_t u; float f; } v;
    uint16_t h;
    double d;
    switch (e->dtype[0] == 'B' ? 'B' : e->dtype[1]) {
    case '3':
        memcpy(&v.f, e->data + 4 * i, 4);
        return v.f;
    case '6':
        memcpy(&d, e->data + 8 * i, 8);
        return (float)d;
    case 'B':
        memcpy(&h, e->data + 2 * i, 2);
        v.u = (uint32_t)h << 16;
        return v.f;
    default:
        memcpy(&h, e->data + 2 * i, 2);
        return half(h);
    }
}

/* ---- writing ---- */

char *fl_st_refuse(const char *name)
{
    struct stat s;
    if (!lstat(name, &s) && !S_ISREG(s.st_mode) && !S_ISLNK(s.st_mode))
        return fl_printf("%s exists and is no plain file; name another one", name);
    char *part = fl_printf("%s.part", name), *complaint = NULL;
    FILE *to = fopen(part, "wb");
    if (!to || fclose(to) || unlink(part))
        complaint = fl_printf("cannot write %s: %s", part, strerror(errno));
    free(part);
    return complaint;
}

static void check_write(const struct fl_st_writer *w, bool ok)
{
    if (!ok)
        FL_FAIL("is the disk full?", "cannot write %s: %s", w->part, strerror(errno));
}

char *fl_st_header(int n, const struct fl_st_entry *entries, int64_t *bytes)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");     /* without it some readers refuse the file */
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        json_t *shape = json_array();
        int64_t count = 1;
        for (int d = 0; d < entries[i].ndim; d++) {
            json_array_append_new(shape, json_integer(entries[i].shape[d]));
            count *= entries[i].shape[d];
        }
        json_object_set_new(root, entries[i].name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                                      (json_int_t)at, (json_int_t)(at + 4 * count)));
        at += 4 * count;
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!text)
        FL_FAIL("names must be UTF-8", "cannot form the header of a safetensors file");
    uint64_t length = (strlen(text) + 7) / 8 * 8;    /* padded with spaces, so that data are aligned */
    char *header = fl_alloc(8 + (int64_t)length);
    memcpy(header, &length, 8);
    memset(header + 8, ' ', length);
    memcpy(header + 8, text, strlen(text));
    free(text);
    *bytes = 8 + (int64_t)length;
    return header;
}

void fl_st_begin(struct fl_st_writer *w, const char *name, int n, const struct fl_st_entry *entries)
{
    w->name = fl_printf("%s", name);
    w->part = fl_printf("%s.part", name);
    w->to = fopen(w->part, "wb");
    check_write(w, w->to != NULL);
    char *header = fl_st_header(n, entries, &w->base);
    check_write(w, fwrite(header, 1, (size_t)w->base, w->to) == (size_t)w->base);
    free(header);
}

void fl_st_write(struct fl_st_writer *w, int64_t element, const float *data, int64_t count)
{
    check_write(w, fseeko(w->to, w->base + 4 * element, SEEK_SET) == 0);
    check_write(w, fwrite(data, sizeof(float), (size_t)count, w->to) == (size_t)count);
}

void fl_st_end(struct fl_st_writer *w)
{
    check_write(w, fflush(w->to) == 0 && fsync(fileno(w->to)) == 0);
    check_write(w, fclose(w->to) == 0 && rename(w->part, w->name) == 0);
    free(w->name);
    free(w->part);
}
