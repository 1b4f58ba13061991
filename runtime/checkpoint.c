/* DIR/tensors.safetensors holds parameters and states under their paths, DIR/state.json the step, the reader's
 * position, the seed and a checksum of the tensors. Written as DIR.new and renamed, so a reader never sees half of one;
 * the one before is kept as DIR.old for the moment in between. */
#include "checkpoint.h"
#include "agree.h"
#include "check.h"
#include "reader.h"
#include "weights.h"
#include <errno.h>
#include <jansson.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* FNV-1a over 8-byte words, the tail padded with zeros. */
static char *checksum(const char *file)
{
    FILE *from = fopen(file, "rb");
    if (!from)
        return NULL;
    uint64_t h = 0xcbf29ce484222325u, words[8192];
    size_t n;
    do {
        memset(words, 0, sizeof words);
        n = fread(words, 1, sizeof words, from);
        for (size_t i = 0; i < (n + 7) / 8; i++)
            h = (h ^ words[i]) * 0x100000001b3u;
    } while (n == sizeof words);
    bool bad = ferror(from);
    fclose(from);
    return bad ? NULL : fl_printf("%016llx", (unsigned long long)h);
}

static void remove_checkpoint(const char *dir)
{
    unlink(fl_printf("%s/tensors.safetensors", dir));
    unlink(fl_printf("%s/state.json", dir));
    rmdir(dir);
}

void fl_checkpoint_save(struct fl_run *run, const char *dir, int64_t done)
{
    char *fresh = fl_printf("%s.new", dir), *old = fl_printf("%s.old", dir), *complaint = NULL;
    char *tensors = fl_printf("%s/tensors.safetensors", fresh), *state = fl_printf("%s/state.json", fresh);
    bool root = fl_rank_number == 0;
    if (root) {
        remove_checkpoint(fresh);
        if (mkdir(fresh, 0777))
            complaint = fl_printf("cannot make %s: %s", fresh, strerror(errno));
    }
    fl_agree(complaint);
    fl_weights_write(run, tensors, true);
    fl_reader_seek(FL_TRAIN, done);
    if (root) {
        json_t *j = json_pack("{s:i, s:I, s:I, s:s, s:s}", "version", 1, "step", (json_int_t)done, "position",
                              (json_int_t)fl_reader_position(FL_TRAIN), "seed",
                              fl_printf("%llu", (unsigned long long)run->step.seed), "checksum", checksum(tensors));
        if (!j || json_dump_file(j, state, JSON_INDENT(1)))
            complaint = fl_printf("cannot write %s", state);
        json_decref(j);
        remove_checkpoint(old);
        if (!complaint && rename(dir, old) && errno != ENOENT)
            complaint = fl_printf("cannot rename %s: %s", dir, strerror(errno));
        if (!complaint && rename(fresh, dir))
            complaint = fl_printf("cannot rename %s to %s: %s", fresh, dir, strerror(errno));
        remove_checkpoint(old);
    }
    fl_agree(complaint);
}

bool fl_checkpoint_exists(const char *dir)
{
    int there = fl_rank_number == 0 && !access(fl_printf("%s/state.json", dir), R_OK);
    FL_MPI(MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return there;
}

int64_t fl_checkpoint_load(struct fl_run *run, const char *dir)
{
    char *tensors = fl_printf("%s/tensors.safetensors", dir), *state = fl_printf("%s/state.json", dir),
         *complaint = NULL;
    json_error_t error;
    json_t *j = json_load_file(state, 0, &error);
    const char *seed = json_string_value(json_object_get(j, "seed")),
               *sum = json_string_value(json_object_get(j, "checksum"));
    json_t *step = json_object_get(j, "step");
    if (!j)
        complaint = fl_printf("%s: %s", state, error.text);
    else if (!json_is_integer(step) || !seed || !sum || json_integer_value(json_object_get(j, "version")) != 1)
        complaint = fl_printf("%s is not the state of a checkpoint of this version", state);
    fl_agree(complaint);
    if (fl_rank_number == 0) {
        char *now = checksum(tensors);
        if (!now || strcmp(now, sum))
            complaint = fl_printf("%s is damaged: its checksum is %s, it was written with %s", tensors,
                                  now ? now : "unreadable", sum);
    }
    fl_agree(complaint);
    fl_weights_load(run, tensors, true);
    run->step.seed = strtoull(seed, NULL, 10);
    int64_t done = json_integer_value(step);
    json_decref(j);
    return done;
}
