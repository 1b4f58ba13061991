/* Saving and resuming. Saving: every block of a parameter or state is brought together on one of the ranks that hold
 * it, the one with the least to write, whose thread writes its file; when all files are on the disk, rank 0 writes the
 * manifest and puts the folder into place, in its thread too. Ranks move from one phase to the next together, between
 * steps. */
#include "checkpoint.h"
#include "agree.h"
#include "check.h"
#include "gather.h"
#include "manifest.h"
#include "report.h"
#include "state.h"
#include "weights.h"
#include "writing.h"
#include <dirent.h>
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- who writes what: found out at the first save ---- */

static struct { int nfamily, nfile, *file; struct fl_family *family; int64_t *load; } plan;   /* file: of a rank, or -1 */
static struct slot { int family, writer; int64_t block; } *slots;
static int nslot;

static void make_plan(struct fl_run *run)
{
    const struct fl_class *class = run->rank->class_;
    int64_t n = 0;
    plan.family = fl_alloc(class->nparam * (int64_t)sizeof *plan.family);
    plan.load = fl_alloc(fl_program.nranks * (int64_t)sizeof *plan.load);
    plan.file = fl_alloc(fl_program.nranks * (int64_t)sizeof *plan.file);
    for (int i = 0; i < class->nparam; i = fl_family_end(class, i)) {
        plan.family[plan.nfamily++] = fl_family_of(run, i);
        n += fl_blocks_all(&class->param[i]);
    }
    slots = fl_alloc(n * (int64_t)sizeof *slots);
    for (int i = 0; i < plan.nfamily; i++)
        for (int64_t b = 0; b < fl_blocks_all(plan.family[i].p); b++) {
            int writer = fl_family_writer(&plan.family[i], b, plan.load);
            plan.load[writer] += fl_tensor_count(&plan.family[i].p->tensor) + 1;
            slots[nslot++] = (struct slot){ .family = i, .writer = writer, .block = b };
        }
    for (int r = 0; r < fl_program.nranks; r++)
        plan.file[r] = plan.load[r] ? plan.nfile++ : -1;
}

static char *file_name(int rank)
{
    return fl_printf("tensors-%05d-of-%05d.safetensors", plan.file[rank] + 1, plan.nfile);
}

/* ---- saving ---- */

static enum { NOTHING, FILES, MANIFEST } phase;
static struct fl_checkpoint_to target;
static struct { char *home, *name, *fresh; int64_t done; json_t *manifest; } save;

static char *host_name(void)
{
    static char name[256];
    return gethostname(name, sizeof name - 1) ? "its host" : name;
}

/* Does this rank see what rank 0 has made? A network's file system may take a moment. */
static char *look_for(const char *path, const char *option, const char *dir)
{
    for (int i = 0; access(path, F_OK); i++) {
        if (i == 30)
            return fl_printf("%s %s: rank %d on %s does not see what rank 0 made there: all ranks need one directory, "
                             "by the same path", option, dir, fl_rank_number, host_name());
        usleep(100000);
    }
    return NULL;
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

static char *refuse(const char *dir, const char *home)
{
    struct stat s;
    bool there = !lstat(dir, &s);
    char *newest = there ? fl_manifest_newest(dir) : NULL;
    if (there && (!fl_is_directory(dir) || (!newest && !is_empty(dir))))
        return fl_printf("--save %s: it exists and is no directory of checkpoints; name another one", dir);
    free(newest);
    if (!there && mkdir(home, 0777) && errno != EEXIST)
        return fl_printf("--save %s: cannot make %s: %s", dir, home, strerror(errno));
    return access(home, W_OK) ? fl_printf("--save %s: cannot write there: %s", dir, strerror(errno)) : NULL;
}

void fl_checkpoint_prepare(const struct fl_checkpoint_to *to)
{
    bool root = fl_rank_number == 0;
    target = *to;
    fl_agree(root ? fl_folder_lock(to->dir) : NULL);
    struct stat s;
    int there = !lstat(to->dir, &s);
    FL_WORLD(MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD));
    char *home = fl_printf(there ? "%s" : "%s.new", to->dir), *mark = NULL, *complaint = NULL;
    int64_t number = getpid();
    FL_WORLD(MPI_Bcast(&number, 1, MPI_INT64_T, 0, MPI_COMM_WORLD));
    mark = fl_printf("%s/.seen_by_all_%lld", home, (long long)number);
    if (root) {
        complaint = refuse(to->dir, home);
        FILE *f = complaint ? NULL : fopen(mark, "w");
        if (!complaint && (!f || fclose(f)))
            complaint = fl_printf("--save %s: cannot write there: %s", to->dir, strerror(errno));
    }
    fl_agree(complaint);
    complaint = look_for(mark, "--save", to->dir);
    int blind = complaint != NULL;
    FL_WORLD(MPI_Allreduce(MPI_IN_PLACE, &blind, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    if (root) {
        unlink(mark);
        if (!there)
            rmdir(home);
    }
    if (blind)
        fl_agree(complaint);
    free(mark);
    free(home);
}

bool fl_checkpoint_pending(void) { return phase != NOTHING; }
bool fl_checkpoint_busy(void) { return fl_writing_busy(); }

/* On every rank the same names; the directory is made by rank 0. */
static void name_folder(const char *dir, int64_t done)
{
    char *complaint = NULL;
    int there = fl_is_directory(dir), again = 1;
    FL_WORLD(MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD));
    save.home = fl_printf(there ? "%s" : "%s.new", dir);
    save.done = done;
    if (fl_rank_number == 0) {
        fl_folder_sweep(save.home);
        while (fl_is_directory(fl_printf(again > 1 ? "%s/step_%06lld_%d" : "%s/step_%06lld", save.home, (long long)done,
                                         again)))
            again++;
    }
    FL_WORLD(MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD));
    save.name = fl_printf(again > 1 ? "step_%06lld_%d" : "step_%06lld", (long long)done, again);
    save.fresh = fl_printf("%s/%s.new", save.home, save.name);
    if (fl_rank_number == 0 && ((mkdir(save.home, 0777) && errno != EEXIST) || mkdir(save.fresh, 0777)))
        complaint = fl_printf("cannot make %s: %s", save.fresh, strerror(errno));
    fl_agree_or(complaint, FL_EXIT_ACCIDENT);
}

static void begin_file(void)
{
    struct fl_st_entry *entries = fl_alloc((nslot + 1) * (int64_t)sizeof *entries);
    int n = 0;
    int64_t bytes;
    for (int i = 0; i < nslot; i++)
        if (slots[i].writer == fl_rank_number)
            entries[n++] = fl_block_entry(plan.family[slots[i].family].p, slots[i].block, 0, true);
    char *header = fl_st_header(n, entries, &bytes), *name = file_name(fl_rank_number);
    char *path = fl_printf("%s/%s", save.fresh, name);
    fl_writing_begin(path, header, bytes, target.room);
    for (int i = 0; i < n; i++)
        free((char *)entries[i].name);
    free(entries);
    free(name);
    free(path);
}

void fl_checkpoint_save(struct fl_run *run, int64_t done)
{
    fl_checkpoint_finish();
    fl_at("--save", "copying the checkpoint");
    if (!slots)
        make_plan(run);
    name_folder(target.dir, done);
    save.manifest = json_pack("{s:I, s:s, s:o, s:o, s:o, s:o}", "step", (json_int_t)done, "seed",
                              fl_printf("%llu", (unsigned long long)run->step.seed), "positions",
                              fl_state_positions(done, false), "epochs", fl_state_positions(done, true), "held",
                              fl_state_held(), "scalars", fl_state_scalars());
    bool writes = plan.file[fl_rank_number] >= 0;
    if (writes)
        begin_file();
    for (int i = 0; i < nslot; i++) {
        const struct fl_family *f = &plan.family[slots[i].family];
        int64_t count = fl_tensor_count(&f->p->tensor);
        bool mine = slots[i].writer == fl_rank_number;
        float *whole = mine ? fl_writing_room(count) : NULL;
        fl_family_bring(run, f, slots[i].block, slots[i].writer, whole);
        if (mine)
            fl_writing_put(whole, count);
    }
    if (writes)
        fl_writing_end();
    phase = FILES;
}

/* In rank 0's thread. */
static char *publish(void *unused)
{
    (void)unused;
    char *complaint = fl_manifest_write(save.fresh, save.manifest);
    save.manifest = NULL;
    if (!complaint)
        complaint = fl_folder_publish(save.home, target.dir, save.fresh, save.name);
    if (complaint)
        fl_folder_remove(save.fresh);
    else
        fl_folder_retain(target.dir, save.name, save.done, target.keep, target.keep_every);
    return complaint;
}

static void list_files(const uint64_t (*all)[2])
{
    json_t *files = json_array();
    for (int r = 0; r < fl_program.nranks; r++) {
        if (plan.file[r] < 0)
            continue;
        char *name = file_name(r), *sum = fl_printf("%016llx", (unsigned long long)all[r][1]);
        json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)all[r][0],
                                               "checksum", sum));
        free(name);
        free(sum);
    }
    json_object_set_new(save.manifest, "files", files);
}

/* What this rank could not do, in its own words; every rank ends when one has a complaint. */
static void settle_all(char *complaint)
{
    int failed = complaint != NULL;
    FL_WORLD(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    if (!failed)
        return;
    char *last = NULL;
    if (fl_rank_number == 0 && phase == FILES)
        fl_folder_remove(save.fresh);
    if (fl_rank_number == 0 && save.home != target.dir && strcmp(save.home, target.dir))
        rmdir(save.home);
    if (complaint) {
        last = fl_manifest_newest(target.dir);
        complaint = fl_printf("rank %d, checkpoint of step %lld: %s; %s%s", fl_rank_number, (long long)save.done,
                              complaint, last ? "complete is " : "there is none before it", last ? last : "");
    }
    fl_agree_or(complaint, FL_EXIT_ACCIDENT);
}

void fl_checkpoint_advance(void)
{
    int64_t bytes;
    uint64_t mine[2], (*all)[2] = NULL;
    bool root = fl_rank_number == 0;
    if (phase == NOTHING)
        return;
    fl_at("--save", "the end of writing a checkpoint");
    settle_all(fl_writing_finish(&bytes, &mine[1]));
    if (phase == FILES) {
        mine[0] = (uint64_t)bytes;
        if (root)
            all = fl_alloc(fl_program.nranks * (int64_t)sizeof *all);
        FL_WORLD(MPI_Gather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD));
        if (root) {
            list_files((const uint64_t (*)[2])all);
            fl_writing_job(publish, NULL);
        } else {
            json_decref(save.manifest);
        }
        free(all);
        phase = MANIFEST;
        return;
    }
    free(save.home);
    free(save.name);
    free(save.fresh);
    phase = NOTHING;
}

void fl_checkpoint_finish(void)
{
    while (phase != NOTHING)
        fl_checkpoint_advance();
}

/* ---- resuming ---- */

bool fl_checkpoint_exists(const char *dir)
{
    char *newest = fl_rank_number == 0 ? fl_manifest_newest(dir) : NULL;
    char *skipped = fl_rank_number == 0 ? fl_manifest_skipped(dir) : NULL;
    int there = newest != NULL;
    if (skipped)
        fl_report_note("%s; %s%s", skipped, newest ? "going on from " : "there is no other", newest ? newest : "");
    free(skipped);
    free(newest);
    FL_WORLD(MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return there;
}

/* Where rank 0 finds the newest; a damaged file is told with what could be resumed in its place. */
static char *folder_of(const char *dir)
{
    char *found = fl_rank_number == 0 ? fl_manifest_newest(dir) : NULL;
    int n = found ? (int)strlen(found) + 1 : 1;
    FL_WORLD(MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD));
    char *folder = fl_alloc(n);
    if (found)
        memcpy(folder, found, (size_t)n);
    free(found);
    FL_WORLD(MPI_Bcast(folder, n, MPI_CHAR, 0, MPI_COMM_WORLD));
    return folder;
}

static char *with_older(char *complaint, const char *dir, const char *folder)
{
    const char *name = strrchr(folder, '/');
    int64_t step = name && !strncmp(name, "/step_", 6) ? strtoll(name + 6, NULL, 10) : 0;
    char *older = complaint ? fl_manifest_before(dir, step) : NULL;
    return older ? fl_printf("%s; the one before it is complete: --resume %s", complaint, older) : complaint;
}

int64_t fl_checkpoint_load(struct fl_run *run, const char *dir)
{
    struct fl_manifest m;
    char *folder = folder_of(dir), *complaint = NULL;
    fl_at("--resume", "checking the checkpoint");
    if (access(folder, R_OK | X_OK))
        complaint = fl_printf("--resume %s: rank %d on %s does not see %s: all ranks need one directory, by the same "
                              "path", dir, fl_rank_number, host_name(), folder);
    fl_agree(complaint);
    fl_agree_or(with_older(fl_manifest_read(&m, folder), dir, folder), FL_EXIT_DAMAGED);
    for (int i = fl_rank_number; i < m.nfile && !complaint; i += fl_program.nranks)
        complaint = fl_manifest_check(&m, i);
    fl_agree_or(with_older(complaint, dir, folder), FL_EXIT_DAMAGED);
    fl_state_take(&m);
    fl_at("--resume", "loading the checkpoint");
    fl_weights_load_files(run, folder, m.nfile, m.file, true);
    run->step.seed = m.seed;
    int64_t done = m.step;
    fl_manifest_free(&m);
    free(folder);
    return done;
}
