/* Folders of checkpoints: reading and writing manifests, finding the newest, putting a new one into place, removing old
 * ones. A folder is written under another name, made durable and renamed, then latest is replaced in one rename, then
 * older folders go: in whatever moment a run is killed, latest names a complete checkpoint. */
#include "manifest.h"
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 3 };

void fl_sum_begin(struct fl_sum *s) { *s = (struct fl_sum){ .h = 0xcbf29ce484222325u }; }

static void add_word(struct fl_sum *s, uint64_t word) { s->h = (s->h ^ word) * 0x100000001b3u; }

void fl_sum_add(struct fl_sum *s, const void *data, int64_t bytes)
{
    const uint8_t *at = data, *end = at + bytes;
    while (at < end) {
        uint64_t word;
        if (!s->n && end - at >= 8) {
            memcpy(&word, at, 8);
            add_word(s, word);
            at += 8;
            continue;
        }
        s->part |= (uint64_t)*at++ << (8 * s->n++);
        if (s->n < 8)
            continue;
        add_word(s, s->part);
        s->part = 0;
        s->n = 0;
    }
}

uint64_t fl_sum_end(struct fl_sum *s)
{
    if (s->n)
        add_word(s, s->part);
    return s->h;
}

bool fl_is_directory(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

bool fl_settle(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY);
    bool fine = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (fd >= 0)
        close(fd);
    return fine;
}

static bool write_text(const char *path, const char *text)
{
    FILE *to = fopen(path, "w");
    bool fine = to && fputs(text, to) >= 0 && fflush(to) == 0 && fsync(fileno(to)) == 0;
    return (!to || fclose(to) == 0) && fine;
}

/* ---- manifests ---- */

static json_t *sum_of_text(const char *text)
{
    struct fl_sum s;
    fl_sum_begin(&s);
    fl_sum_add(&s, text, (int64_t)strlen(text));
    char hex[32];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)fl_sum_end(&s));
    return json_string(hex);
}

/* The manifest's own checksum stands in it, over all the rest. */
static json_t *own_sum(json_t *root)
{
    json_t *rest = json_copy(root);
    json_object_del(rest, "self");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    json_t *sum = text ? sum_of_text(text) : NULL;
    free(text);
    json_decref(rest);
    return sum;
}

char *fl_manifest_write(const char *folder, json_t *root)
{
    char *path = fl_printf("%s/manifest.json", folder), *complaint = NULL;
    json_object_set_new(root, "version", json_integer(VERSION));
    json_object_set_new(root, "self", own_sum(root));
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text || !write_text(path, text))
        complaint = fl_printf("cannot write %s: %s", path, strerror(errno));
    free(text);
    free(path);
    json_decref(root);
    return complaint;
}

/* Names come from a file that anyone may have changed: they stay within the folder. */
static bool plain_name(const char *name) { return name && *name && *name != '.' && !strchr(name, '/'); }

static void add_file(struct fl_manifest *m, const char *name, const char *sum, int64_t bytes)
{
    m->file[m->nfile] = fl_printf("%s/%s", m->folder, name);
    m->sum[m->nfile] = sum;
    m->bytes[m->nfile++] = bytes;
}

static char *read_files(struct fl_manifest *m, const char *path)
{
    json_t *files = json_object_get(m->root, "files"), *f;
    size_t i, n = json_array_size(files);
    int64_t room = (int64_t)((n + 1) * sizeof(void *));
    m->file = fl_alloc(room);
    m->sum = fl_alloc(room);
    m->bytes = fl_alloc(room);
    if (json_integer_value(json_object_get(m->root, "version")) == 2) {
        const char *sum = json_string_value(json_object_get(m->root, "checksum"));
        if (!sum)
            return fl_printf("%s names no checksum", path);
        add_file(m, "tensors.safetensors", sum, -1);
        return NULL;
    }
    json_array_foreach(files, i, f) {
        const char *name = json_string_value(json_object_get(f, "name")),
                   *sum = json_string_value(json_object_get(f, "checksum"));
        json_t *bytes = json_object_get(f, "bytes");
        if (!plain_name(name) || !sum || !json_is_integer(bytes))
            return fl_printf("%s: file %zu of its list is not name, bytes, checksum", path, i + 1);
        add_file(m, name, sum, json_integer_value(bytes));
    }
    return NULL;
}

char *fl_manifest_read(struct fl_manifest *m, const char *folder)
{
    json_error_t error;
    char *path = fl_printf("%s/manifest.json", folder);
    *m = (struct fl_manifest){ .folder = fl_printf("%s", folder) };
    if (access(path, F_OK) && !access(fl_printf("%s/state.json", folder), F_OK))
        path = fl_printf("%s/state.json", folder);
    m->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!m->root)
        return fl_printf("%s: %s", path, error.text);
    json_t *version = json_object_get(m->root, "version"), *step = json_object_get(m->root, "step"),
           *self = json_object_get(m->root, "self");
    const char *seed = json_string_value(json_object_get(m->root, "seed"));
    int64_t v = json_integer_value(version);
    if (!json_is_integer(version) || !json_is_integer(step) || json_integer_value(step) < 0 || !seed)
        return fl_printf("%s is not the manifest of a checkpoint: it lacks version, step or seed", path);
    if (v != 2 && v != VERSION)
        return fl_printf("%s has version %lld; this program reads versions 2 and %d", path, (long long)v, VERSION);
    json_t *now = self ? own_sum(m->root) : NULL;
    bool same = !self || json_equal(self, now);
    json_decref(now);
    if (!same)
        return fl_printf("%s is damaged: its own checksum is another", path);
    m->step = json_integer_value(step);
    m->seed = strtoull(seed, NULL, 10);
    return read_files(m, path);
}

char *fl_manifest_check(const struct fl_manifest *m, int file)
{
    static uint64_t words[1 << 15];
    const char *path = m->file[file];
    struct fl_sum s;
    size_t n;
    int64_t bytes = 0;
    FILE *from = fopen(path, "rb");
    if (!from)
        return fl_printf("%s is damaged: %s", path, strerror(errno));
    fl_sum_begin(&s);
    while ((n = fread(words, 1, sizeof words, from)) > 0) {
        fl_sum_add(&s, words, (int64_t)n);
        bytes += (int64_t)n;
        fl_alive();
    }
    bool bad = ferror(from);
    fclose(from);
    char *sum = fl_printf("%016llx", (unsigned long long)fl_sum_end(&s)), *complaint = NULL;
    if (bad)
        complaint = fl_printf("%s is damaged: it cannot be read", path);
    else if (m->bytes[file] >= 0 && bytes != m->bytes[file])
        complaint = fl_printf("%s is damaged: it has %lld bytes, it was written with %lld", path, (long long)bytes,
                              (long long)m->bytes[file]);
    else if (strcmp(sum, m->sum[file]))
        complaint = fl_printf("%s is damaged: its checksum is %s, it was written with %s", path, sum, m->sum[file]);
    free(sum);
    return complaint;
}

void fl_manifest_free(struct fl_manifest *m)
{
    for (int i = 0; i < m->nfile; i++)
        free((char *)m->file[i]);
    free(m->file);
    free(m->sum);
    free(m->bytes);
    free(m->folder);
    json_decref(m->root);
    *m = (struct fl_manifest){ 0 };
}
