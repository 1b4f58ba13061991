/* Folders of checkpoints on disk. DIR/step_000500 holds tensors-00001-of-00002.safetensors .., the parameters and
 * states under their paths, and manifest.json: step, seed, the reader's positions, named scalars, and of each file its
 * size and checksum. DIR/latest holds the folder's name. A folder is complete when it has a manifest, which is written
 * last. */
#ifndef FL_MANIFEST_H
#define FL_MANIFEST_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* FNV-1a over 8-byte words, the tail padded with zeros; data may come in pieces of any length. */
struct fl_sum { uint64_t h, part; int n; };
void fl_sum_begin(struct fl_sum *s);
void fl_sum_add(struct fl_sum *s, const void *data, int64_t bytes);
uint64_t fl_sum_end(struct fl_sum *s);

struct fl_manifest {
    char *folder;
    int64_t step;
    uint64_t seed;
    int nfile;
    const char **file, **sum;            /* whole paths; sums as text */
    int64_t *bytes;                      /* -1: not known */
    json_t *root;                        /* owns the texts; positions and scalars are read from it */
};
/* The complaint, or NULL. Checkpoints of version 2, one file beside a state.json, are read too. */
char *fl_manifest_read(struct fl_manifest *m, const char *folder);
char *fl_manifest_check(const struct fl_manifest *m, int file);      /* size and checksum of that file: what is wrong */
void fl_manifest_free(struct fl_manifest *m);
char *fl_manifest_write(const char *folder, json_t *root);           /* durably; takes root over */

/* The folder to resume from, allocated, or NULL: dir itself, else what latest says, else the one of the highest
 * step. */
char *fl_manifest_newest(const char *dir);
/* What is wrong with the checkpoint that latest names, where another is taken in its place; NULL: nothing. Allocated. */
char *fl_manifest_skipped(const char *dir);
char *fl_manifest_before(const char *dir, int64_t step);             /* the complete one of the highest step below */
bool fl_is_directory(const char *path);
bool fl_settle(const char *directory);               /* what a directory lists is on the disk when this returns */
void fl_folder_remove(const char *path);             /* a checkpoint's files and then the folder */
void fl_folder_sweep(const char *dir);               /* what killed runs left half written */
/* While a run saves to dir, no other one may: what one is writing, the other would sweep away. DIR.lock stands for it until the process
 * ends, however it does. Complaint, or NULL. */
char *fl_folder_lock(const char *dir);
void fl_folder_unlock(void);
/* Removes all but the `keep` folders of the highest steps up to this one, and those of every keep_every-th step. */
void fl_folder_retain(const char *dir, const char *name, int64_t step, int64_t keep, int64_t keep_every);
/* Puts the folder `fresh` of `home` into place under its name: home is dir, or what becomes dir. Complaint, or NULL. */
char *fl_folder_publish(const char *home, const char *dir, const char *fresh, const char *name);
#endif
