/* Models in several files: model-00001-of-00003.safetensors .. beside model.safetensors.index.json, which says where
 * each tensor stands, as Hugging Face writes them. */
#include "shards.h"
#include "check.h"
#include "manifest.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    const struct fl_st_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

char *fl_shards_open(struct fl_shards *s, int n, const char *const *names)
{
    *s = (struct fl_shards){ .nfile = n, .file = fl_alloc(n * (int64_t)sizeof *s->file) };
    int count = 0;
    for (int i = 0; i < n; i++) {
        char *complaint = fl_st_open(&s->file[i], names[i]);
        if (complaint)
            return complaint;
        count += s->file[i].nentry;
    }
    s->entry = fl_alloc(count * (int64_t)sizeof *s->entry);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < s->file[i].nentry; k++)
            s->entry[s->nentry++] = &s->file[i].entry[k];
    qsort(s->entry, (size_t)s->nentry, sizeof *s->entry, by_name);
    for (int i = 1; i < s->nentry; i++)
        if (!strcmp(s->entry[i]->name, s->entry[i - 1]->name))
            return fl_printf("%s stands in two of the files that hold this model, the first is %s", s->entry[i]->name,
                             names[0]);
    return NULL;
}

void fl_shards_close(struct fl_shards *s)
{
    for (int i = 0; i < s->nfile; i++)
        fl_st_close(&s->file[i]);
    free(s->file);
    free(s->entry);
    *s = (struct fl_shards){ 0 };
}

struct fl_st_entry *fl_shards_find(const struct fl_shards *s, const char *name)
{
    struct fl_st_entry wanted = { .name = name }, *key = &wanted;
    struct fl_st_entry **found = bsearch(&key, s->entry, (size_t)s->nentry, sizeof *s->entry, by_name);
    return found ? *found : NULL;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static char *read_index(const char *path, int *n, const char ***names)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *map = json_object_get(root, "weight_map"), *v;
    const char *key, *slash = strrchr(path, '/');
    if (!root)
        return fl_printf("%s: %s", path, error.text);
    if (!json_object_size(map))
        return fl_printf("%s is no index of a model: it has no weight_map", path);
    *names = fl_alloc((int64_t)(json_object_size(map) * sizeof **names));
    int count = 0;
    json_object_foreach(map, key, v) {
        const char *file = json_string_value(v);
        if (!file || !*file || strchr(file, '/'))
            return fl_printf("%s: %s stands in no file beside the index", path, key);
        (*names)[count++] = fl_printf("%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, file);
    }
    qsort(*names, (size_t)count, sizeof **names, by_text);
    *n = 0;
    for (int i = 0; i < count; i++)
        if (!*n || strcmp((*names)[i], (*names)[*n - 1]))
            (*names)[(*n)++] = (*names)[i];
    json_decref(root);
    return NULL;
}

char *fl_shards_of(const char *path, int *n, const char ***names)
{
    struct stat s;
    size_t length = strlen(path);
    if (!stat(path, &s) && S_ISDIR(s.st_mode)) {
        char *index = fl_printf("%s/model.safetensors.index.json", path);
        char *whole = fl_printf("%s/model.safetensors", path);
        if (access(index, R_OK) && access(whole, R_OK) && fl_manifest_newest(path))
            return fl_printf("%s holds checkpoints, in which the optimizer's states are too: --resume %s goes on from there; for its "
                             "weights alone, export them", path, path);
        if (access(index, R_OK) && access(whole, R_OK))
            return fl_printf("%s is a folder without model.safetensors.index.json or model.safetensors", path);
        if (!access(index, R_OK) && !access(whole, R_OK))
            return fl_printf("%s holds model.safetensors and model.safetensors.index.json, of which one may be older: name the one "
                             "that is meant", path);
        return fl_shards_of(access(index, R_OK) ? whole : index, n, names);
    }
    if (length > 5 && !strcmp(path + length - 5, ".json"))
        return read_index(path, n, names);
    *n = 1;
    *names = fl_alloc(sizeof **names);
    (*names)[0] = fl_printf("%s", path);
    return NULL;
}

static int stem(const char *name)
{
    size_t n = strlen(name), end = strlen(".safetensors");
    return (int)(n > end && !strcmp(name + n - end, ".safetensors") ? n - end : n);
}

char *fl_shard_name(const char *name, int k, int n)
{
    return n == 1 ? fl_printf("%s", name) : fl_printf("%.*s-%05d-of-%05d.safetensors", stem(name), name, k + 1, n);
}

char *fl_shards_index(const char *name, int n, int nentry, const struct fl_st_entry *entries, const int *shard)
{
    json_t *map = json_object();
    int64_t total = 0;
    for (int i = 0; i < nentry; i++) {
        char *file = fl_shard_name(name, shard[i], n), *slash = strrchr(file, '/');
        json_object_set_new(map, entries[i].name, json_string(slash ? slash + 1 : file));
        total += 4 * entries[i].count;
        free(file);
    }
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    char *path = fl_printf("%.*s.safetensors.index.json", stem(name), name), *part = fl_printf("%s.part", path);
    FILE *to = fopen(part, "w");
    bool fine = to && !json_dumpf(root, to, JSON_INDENT(2) | JSON_SORT_KEYS) && fputc('\n', to) != EOF && !fflush(to) &&
                !fsync(fileno(to));
    fine = (!to || !fclose(to)) && fine && !rename(part, path);
    json_decref(root);
    return fine ? NULL : fl_printf("cannot write %s: %s", path, strerror(errno));
}
