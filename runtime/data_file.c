/* Opening and reading files of numbers. See data_file.h.
 *
 * Headers. 1024 bytes, as 256 i32: magic 20240520, version 1, number of u16 tokens; magic 20240801, version 7, number
 * of u32 tokens. Megatron .idx: "MMIDIDX\0\0", u64 version 1, u8 type of the elements, u64 sequences, u64 documents, then
 * i32 length of each sequence, i64 byte offset of each sequence in the .bin, i64 first sequence of each document. */
#include "data_file.h"
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 1024, INDEX_HEADER = 34, AT_ONCE = 65536 };

#define ELEMENT(id, name, bytes) #name,
static const char *const names[] = { FL_ELEMENTS(ELEMENT) };
#undef ELEMENT
#define ELEMENT(id, name, bytes) bytes,
static const int sizes[] = { FL_ELEMENTS(ELEMENT) };
#undef ELEMENT

const char *fl_element_name(enum fl_element e) { return names[e]; }

static char *read_bytes(const char *name, int fd, void *to, int64_t bytes, int64_t at)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)to + done, (size_t)(bytes - done), at + done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fl_printf("cannot read %s: %s", name, strerror(errno));
        if (n == 0)
            return fl_printf("%s ends at byte %lld: it has become shorter since it was opened", name, (long long)(at + done));
        done += n;
    }
    return NULL;
}

static char *open_plain(const char *name, int *fd, int64_t *bytes)
{
    struct stat s;
    *fd = open(name, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &s) < 0)
        return fl_printf("cannot open %s: %s", name, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return fl_printf("%s is no plain file", name);
    *bytes = s.st_size;
    return NULL;
}

/* A raw file may start with the bytes of a header by chance, but then the length in it does not fit as well. */
static char *skip_header(struct fl_file *f, int64_t bytes)
{
    static const struct { int32_t magic, version; enum fl_element element; } kinds[] = {
        { 20240520, 1, FL_ELEMENT_U16 }, { 20240801, 7, FL_ELEMENT_U32 },
    };
    int32_t header[3];
    if (bytes < HEADER || f->element == FL_ELEMENT_MEGATRON)
        return NULL;
    char *complaint = read_bytes(f->name, f->fd, header, sizeof header, 0);
    for (int i = 0; !complaint && i < 2; i++) {
        if (header[0] != kinds[i].magic)
            continue;
        int size = sizes[kinds[i].element];
        bool fits = HEADER + size * (int64_t)header[2] == bytes;
        if (!fits && header[1] != kinds[i].version)
            continue;
        if (kinds[i].element != f->element)
            return fl_printf("%s has the header of a file of %s, but is read as %s", f->name, names[kinds[i].element],
                             names[f->element]);
        if (!fits)
            return fl_printf("%s: the header says %d tokens, the file has room for %lld", f->name, header[2],
                             (long long)(bytes - HEADER) / size);
        f->offset = HEADER;
        f->length = header[2];
    }
    return complaint;
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

int fl_file_parts(const char *name, enum fl_element element, char *parts[2])
{
    if (element != FL_ELEMENT_MEGATRON) {
        parts[0] = fl_printf("%s", name);
        return 1;
    }
    int stem = (int)strlen(name) - (ends_with(name, ".bin") || ends_with(name, ".idx") ? 4 : 0);
    parts[0] = fl_printf("%.*s.bin", stem, name);
    parts[1] = fl_printf("%.*s.idx", stem, name);
    return 2;
}

static char *check_sequences(const char *name, int fd, int64_t count, int size, int64_t *bytes)
{
    int32_t *length = fl_alloc(AT_ONCE * (int64_t)sizeof *length);
    int64_t *start = fl_alloc(AT_ONCE * (int64_t)sizeof *start), at = 0;
    char *complaint = NULL;
    for (int64_t i = 0; i < count && !complaint; i += AT_ONCE) {
        int64_t n = count - i < AT_ONCE ? count - i : AT_ONCE;
        complaint = read_bytes(name, fd, length, n * 4, INDEX_HEADER + 4 * i);
        if (!complaint)
            complaint = read_bytes(name, fd, start, n * 8, INDEX_HEADER + 4 * count + 8 * i);
        for (int64_t k = 0; k < n && !complaint; k++) {
            if (start[k] != at || length[k] < 0)
                complaint = fl_printf("%s: sequence %lld starts at byte %lld with %d tokens, but the ones before it end at "
                                      "byte %lld", name, (long long)(i + k), (long long)start[k], length[k], (long long)at);
            at += (int64_t)length[k] * size;
        }
    }
    free(length);
    free(start);
    *bytes = at;
    return complaint;
}

static char *read_index(struct fl_file *f, const char *name, int64_t bytes)
{
    static const struct { uint8_t code; enum fl_element element; } types[] = {
        { 1, FL_ELEMENT_U8 }, { 4, FL_ELEMENT_I32 }, { 5, FL_ELEMENT_I64 }, { 8, FL_ELEMENT_U16 },
    };
    uint8_t header[INDEX_HEADER];
    uint64_t version;
    int64_t sequences, documents, size = 0, held = 0;
    int fd;
    char *complaint = open_plain(name, &fd, &size);
    if (!complaint && size < INDEX_HEADER)
        complaint = fl_printf("%s: %lld bytes hold no header of an index", name, (long long)size);
    if (!complaint)
        complaint = read_bytes(name, fd, header, INDEX_HEADER, 0);
    if (!complaint) {
        memcpy(&version, header + 9, 8);
        memcpy(&sequences, header + 18, 8);
        memcpy(&documents, header + 26, 8);
        if (memcmp(header, "MMIDIDX\0\0", 9) || version != 1)
            complaint = fl_printf("%s is no index of version 1: it does not start with MMIDIDX and 1", name);
        else if (sequences < 0 || documents < 0 || sequences > size / 12 || documents > size / 8 ||
                 size < INDEX_HEADER + 12 * sequences + 8 * documents)
            complaint = fl_printf("%s: %lld sequences and %lld documents need more than its %lld bytes", name,
                                  (long long)sequences, (long long)documents, (long long)size);
    }
    bool known = false;
    for (int i = 0; !complaint && i < 4; i++)
        if (header[17] == types[i].code) {
            f->element = types[i].element;
            known = true;
        }
    if (!complaint && !known)
        complaint = fl_printf("%s: elements of type %d are no tokens (1 u8, 4 i32, 5 i64 and 8 u16 are)", name, header[17]);
    if (!complaint)
        complaint = check_sequences(name, fd, sequences, sizes[f->element], &held);
    if (!complaint && held != bytes)
        complaint = fl_printf("%s: its sequences end at byte %lld, but %s has %lld bytes", name, (long long)held, f->name,
                              (long long)bytes);
    if (fd >= 0)
        close(fd);
    return complaint;
}

char *fl_file_open(struct fl_file *f, const char *name, enum fl_element element)
{
    char *parts[2];
    int64_t bytes = 0;
    int n = fl_file_parts(name, element, parts);
    *f = (struct fl_file){ .name = parts[0], .fd = -1, .element = element };
    char *complaint = open_plain(f->name, &f->fd, &bytes);
    if (!complaint && n == 2)
        complaint = read_index(f, parts[1], bytes);
    if (complaint)
        return complaint;
    f->length = bytes / sizes[f->element];
    complaint = skip_header(f, bytes);
    if (!complaint && !f->offset && bytes % sizes[f->element])
        complaint = fl_printf("%s: %lld bytes are not a whole number of %s elements", f->name, (long long)bytes,
                              names[f->element]);
    return complaint;
}

static int64_t whole_of(const struct fl_file *f, const uint8_t *p)
{
    switch (f->element) {
    case FL_ELEMENT_U8: return p[0];
    case FL_ELEMENT_U16: return p[0] | p[1] << 8;
    case FL_ELEMENT_U32: return (int64_t)(p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
    case FL_ELEMENT_I64: {
        int64_t v;
        memcpy(&v, p, 8);
        return v;
    }
    case FL_ELEMENT_F32: {
        float v;
        memcpy(&v, p, 4);
        return v >= -2147483648.0f && v < 2147483648.0f ? (int64_t)v : 0;
    }
    default: {
        int32_t v;
        memcpy(&v, p, 4);
        return v;
    }
    }
}

char *fl_file_read(const struct fl_file *f, int64_t first, int64_t n, int64_t *whole, float *real)
{
    uint8_t buffer[16384];
    int size = sizes[f->element], room = (int)sizeof buffer / size;
    for (int64_t i = 0; i < n; i += room) {
        int64_t now = n - i < room ? n - i : room;
        char *complaint = read_bytes(f->name, f->fd, buffer, now * size, f->offset + (first + i) * size);
        if (complaint)
            return complaint;
        for (int64_t k = 0; k < now; k++) {
            if (real && f->element == FL_ELEMENT_F32)
                memcpy(&real[i + k], buffer + 4 * k, 4);
            else if (real)
                real[i + k] = (float)whole_of(f, buffer + k * size);
            if (whole)
                whole[i + k] = whole_of(f, buffer + k * size);
        }
    }
    return NULL;
}

void fl_file_close(struct fl_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
