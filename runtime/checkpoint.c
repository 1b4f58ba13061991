/* A checkpoint is a folder DIR/step_000500: tensors.safetensors holds parameters and states under their paths,
 * state.json the step, the reader's positions, the seed and a checksum of the tensors. DIR/latest holds its name. The
 * folder is written under another name, made durable and renamed, then latest is replaced in one rename, then older
 * folders go: in whatever moment a run is killed, latest names a complete checkpoint. DIR appears with its first one. */
#include "checkpoint.h"
#include "agree.h"
#include "check.h"
#include "reader.h"
#include "weights.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SPACE = 64 };

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

static bool is_directory(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* What a directory lists is on the disk when this returns. */
static bool settle(const char *directory)
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

static void remove_step(const char *dir, const char *name)
{
    unlink(fl_printf("%s/%s/tensors.safetensors.part", dir, name));
    unlink(fl_printf("%s/%s/tensors.safetensors", dir, name));
    unlink(fl_printf("%s/%s/state.json", dir, name));
    rmdir(fl_printf("%s/%s", dir, name));
}

static bool complete(const char *dir, const char *name)
{
    return !strncmp(name, "step_", 5) && !strpbrk(name, "/.") && strlen(name) < NAME_SPACE &&
           !access(fl_printf("%s/%s/state.json", dir, name), R_OK);
}

/* The name of the folder to resume from, or NULL: what latest says, else the one of the highest step. */
static char *newest(const char *dir)
{
    char name[NAME_SPACE + 1] = "";
    FILE *latest = fopen(fl_printf("%s/latest", dir), "r");
    int read = latest ? fscanf(latest, "%64s", name) : 0;
    if (latest)
        fclose(latest);
    if (read == 1 && complete(dir, name))
        return fl_printf("%s", name);
    char *best = NULL;
    long long most = -1;
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list));)
        if (complete(dir, e->d_name) && strtoll(e->d_name + 5, NULL, 10) > most) {
            most = strtoll(e->d_name + 5, NULL, 10);
            best = fl_printf("%s", e->d_name);
        }
    if (list)
        closedir(list);
    return best;
}

static void remove_older(const char *dir, const char *keep)
{
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list));)
        if (!strncmp(e->d_name, "step_", 5) && strcmp(e->d_name, keep))
            remove_step(dir, e->d_name);
    if (list)
        closedir(list);
}

static bool is_empty(const char *dir)
{
    int entries = 0;
    DIR *list = opendir(dir);
    while (list && readdir(list))
        entries++;
    if (list)
        closedir(list);
    return entries <= 2;                 /* itself and its parent */
}

char *fl_checkpoint_refuse(const char *dir)
{
    struct stat s;
    bool there = !lstat(dir, &s);
    char *home = there ? fl_printf("%s", dir) : fl_printf("%s.new", dir);
    if (there && (!is_directory(dir) || (!newest(dir) && !is_empty(dir))))
        return fl_printf("--save %s: it exists and is no directory of checkpoints; name another one", dir);
    if (!there && mkdir(home, 0777) && errno != EEXIST)
        return fl_printf("--save %s: cannot make %s: %s", dir, home, strerror(errno));
    char *complaint = access(home, W_OK) ? fl_printf("--save %s: cannot write there: %s", dir, strerror(errno)) : NULL;
    if (!there)
        rmdir(home);
    return complaint;
}

static json_t *positions(bool epochs)
{
    json_t *list = json_array();
    for (int i = 0; i < fl_program.ndata; i++) {
        struct fl_position p = fl_reader_position(i);
        if (fl_program.data[i].entry == FL_TRAIN)
            json_array_append_new(list, json_integer(epochs ? p.epoch : p.at));
    }
    return list;
}

/* Gives the complaint, or NULL. home: DIR, or what becomes DIR. */
static char *publish(const char *home, const char *dir, const char *fresh, const char *name)
{
    char *to = fl_printf("%s/%s", home, name), *latest = fl_printf("%s/latest", home);
    char *next = fl_printf("%s.new", latest);
    bool fine = settle(fresh) && !rename(fresh, to) && settle(home) && write_text(next, fl_printf("%s\n", name)) &&
                !rename(next, latest) && settle(home);
    if (fine && strcmp(home, dir)) {
        char *parent = fl_printf("%s", dir), *slash = strrchr(parent, '/');
        if (slash)
            slash[slash == parent] = 0;
        fine = !rename(home, dir) && settle(slash ? parent : ".");
    }
    return fine ? NULL : fl_printf("cannot put the checkpoint %s into %s: %s", fresh, dir, strerror(errno));
}

void fl_checkpoint_save(struct fl_run *run, const char *dir, int64_t done)
{
    char *home = is_directory(dir) ? fl_printf("%s", dir) : fl_printf("%s.new", dir), *complaint = NULL;
    char *name = fl_printf("step_%06lld", (long long)done);
    bool root = fl_rank_number == 0;
    for (int again = 2; root && !access(fl_printf("%s/%s", home, name), F_OK); again++)
        name = fl_printf("step_%06lld_%d", (long long)done, again);
    char *fresh = fl_printf("%s/%s.new", home, name), *tensors = fl_printf("%s/tensors.safetensors", fresh);
    if (root) {
        remove_step(home, fl_printf("%s.new", name));
        if ((mkdir(home, 0777) && errno != EEXIST) || mkdir(fresh, 0777))
            complaint = fl_printf("cannot make %s: %s", fresh, strerror(errno));
    }
    fl_agree(complaint);
    fl_weights_write(run, tensors, true);
    fl_reader_seek(FL_TRAIN, done);
    if (root) {
        json_t *j = json_pack("{s:i, s:I, s:o, s:o, s:s, s:s}", "version", 2, "step", (json_int_t)done, "positions",
                              positions(false), "epochs", positions(true), "seed", fl_printf("%llu", (unsigned long long)run->step.seed), "checksum",
                              checksum(tensors));
        char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
        if (!text || !write_text(fl_printf("%s/state.json", fresh), text))
            complaint = fl_printf("cannot write %s/state.json: %s", fresh, strerror(errno));
        free(text);
        json_decref(j);
        if (!complaint)
            complaint = publish(home, dir, fresh, name);
        if (!complaint)
            remove_older(dir, name);
    }
    fl_agree(complaint);
}

bool fl_checkpoint_exists(const char *dir)
{
    int there = fl_rank_number == 0 && newest(dir);
    FL_MPI(MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return there;
}

int64_t fl_checkpoint_load(struct fl_run *run, const char *dir)
{
    char name[NAME_SPACE] = "", *found = fl_rank_number == 0 ? newest(dir) : NULL, *complaint = NULL;
    if (found)
        snprintf(name, sizeof name, "%s", found);
    FL_MPI(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD));
    char *tensors = fl_printf("%s/%s/tensors.safetensors", dir, name);
    char *state = fl_printf("%s/%s/state.json", dir, name);
    json_error_t error;
    json_t *j = json_load_file(state, 0, &error);
    const char *seed = json_string_value(json_object_get(j, "seed")),
               *sum = json_string_value(json_object_get(j, "checksum"));
    json_t *step = json_object_get(j, "step"), *at = json_object_get(j, "positions"),
           *epochs = json_object_get(j, "epochs");
    if (!j)
        complaint = fl_printf("%s: %s", state, error.text);
    else if (!json_is_integer(step) || !seed || !sum || json_integer_value(json_object_get(j, "version")) != 2)
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
    size_t file = 0;
    for (int i = 0; i < fl_program.ndata; i++)
        if (fl_program.data[i].entry == FL_TRAIN && file < json_array_size(at)) {
            struct fl_position p = { json_integer_value(json_array_get(epochs, file)),
                                     json_integer_value(json_array_get(at, file)) };
            fl_reader_resume(i, done, p);
            file++;
        }
    json_decref(j);
    return done;
}
