/* Several safetensors files that hold the tensors of one model between them. */
#ifndef FL_SHARDS_H
#define FL_SHARDS_H
#include "safetensors.h"

struct fl_shards {
    int nfile;
    struct fl_st_file *file;
    int nentry;
    struct fl_st_entry **entry;          /* of all files, by name */
};
/* NULL when fine, else an allocated complaint; a name may stand in one file only. */
char *fl_shards_open(struct fl_shards *s, int n, const char *const *names);
void fl_shards_close(struct fl_shards *s);
struct fl_st_entry *fl_shards_find(const struct fl_shards *s, const char *name);
/* The files behind a name that a user gives: a file, an index (model.safetensors.index.json), or a folder with a
 * model's index or its one file. NULL when fine. */
char *fl_shards_of(const char *path, int *n, const char ***names);

/* "model-00001-of-00003.safetensors" for model.safetensors, k from 0; the name itself for one file. */
char *fl_shard_name(const char *name, int k, int n);
/* Writes model.safetensors.index.json: shard[i] is where entry i stands. NULL when fine. */
char *fl_shards_index(const char *name, int n, int nentry, const struct fl_st_entry *entries, const int *shard);
#endif
