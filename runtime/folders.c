/* Folders of a directory of checkpoints: which is the newest, putting one into place, removing what is not kept; whose it is. */
#include "check.h"
#include "manifest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_SPACE = 64, LOCK_TRIES = 20 };

static bool exists(const char *folder, const char *file)
{
    char *path = fl_printf("%s/%s", folder, file);
    bool there = !access(path, R_OK);
    free(path);
    return there;
}

static bool has_manifest(const char *folder) { return exists(folder, "manifest.json") || exists(folder, "state.json"); }

static bool complete(const char *dir, const char *name)
{
    if (strncmp(name, "step_", 5) || strpbrk(name, "/.") || strlen(name) >= NAME_SPACE)
        return false;
    char *folder = fl_printf("%s/%s", dir, name);
    bool fine = has_manifest(folder);
    free(folder);
    return fine;
}

static int64_t step_of(const char *name) { return strtoll(name + 5, NULL, 10); }

/* Of two folders of one step, as a second save of it makes them, the later has the longer name. */
static bool later(const char *a, const char *b)
{
    int64_t x = step_of(a), y = step_of(b);
    return x != y ? x > y : strlen(a) != strlen(b) ? strlen(a) > strlen(b) : strcmp(a, b) > 0;
}

char *fl_manifest_before(const char *dir, int64_t step)
{
    char best[NAME_SPACE] = "";
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list));)
        if (complete(dir, e->d_name) && step_of(e->d_name) < step && (!*best || later(e->d_name, best)))
            snprintf(best, sizeof best, "%.63s", e->d_name);
    if (list)
        closedir(list);
    return *best ? fl_printf("%s/%s", dir, best) : NULL;
}

/* What latest says; empty: it is not there, or says nothing. */
static void read_latest(const char *dir, char *name)
{
    char *path = fl_printf("%s/latest", dir);
    FILE *latest = fopen(path, "r");
    if (!latest || fscanf(latest, "%64s", name) != 1)
        *name = 0;
    if (latest)
        fclose(latest);
    free(path);
}

char *fl_manifest_newest(const char *dir)
{
    char name[NAME_SPACE + 1];
    if (has_manifest(dir))
        return fl_printf("%s", dir);
    read_latest(dir, name);
    return complete(dir, name) ? fl_printf("%s/%s", dir, name) : fl_manifest_before(dir, INT64_MAX);
}

char *fl_manifest_skipped(const char *dir)
{
    char name[NAME_SPACE + 1];
    if (has_manifest(dir))
        return NULL;
    read_latest(dir, name);
    if (!*name || complete(dir, name))
        return NULL;
    return fl_printf("%s/latest names %s, which %s", dir, name, strncmp(name, "step_", 5) || !exists(dir, name) ? "is not there" :
                     "has no manifest.json and so is not complete");
}

static bool ours(const char *name)
{
    return !strncmp(name, "tensors", 7) || !strcmp(name, "manifest.json") || !strcmp(name, "state.json");
}

void fl_folder_remove(const char *path)
{
    /* the manifest first: without it the folder is not taken for complete, wherever this stops */
    const char *first[] = { "manifest.json", "state.json" };
    for (int i = 0; i < 2; i++) {
        char *file = fl_printf("%s/%s", path, first[i]);
        unlink(file);
        free(file);
    }
    DIR *list = opendir(path);
    for (struct dirent *e; list && (e = readdir(list));) {
        char *file = fl_printf("%s/%s", path, e->d_name);
        if (ours(e->d_name))
            unlink(file);
        free(file);
    }
    if (list)
        closedir(list);
    rmdir(path);
}

static void remove_in(const char *dir, const char *name)
{
    char *path = fl_printf("%s/%s", dir, name);
    fl_folder_remove(path);
    free(path);
}

void fl_folder_sweep(const char *dir)
{
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list));) {
        size_t n = strlen(e->d_name);
        if (!strncmp(e->d_name, "step_", 5) && n > 4 && !strcmp(e->d_name + n - 4, ".new"))
            remove_in(dir, e->d_name);
    }
    if (list)
        closedir(list);
}

static int latest_first(const struct dirent **a, const struct dirent **b)
{
    return later((*a)->d_name, (*b)->d_name) ? -1 : later((*b)->d_name, (*a)->d_name);
}

static int is_step(const struct dirent *e) { return !strncmp(e->d_name, "step_", 5) && !strpbrk(e->d_name, "."); }

void fl_folder_retain(const char *dir, const char *name, int64_t step, int64_t keep, int64_t keep_every)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_step, latest_first);
    int64_t kept = 1, before = step;
    for (int i = 0; i < n; i++) {
        const char *other = list[i]->d_name;
        int64_t its = step_of(other);
        if (its <= step && strcmp(other, name) && complete(dir, other)) {
            /* a step saved again replaces what it was saved as before */
            if (its == before || (kept >= keep && !(keep_every > 0 && its % keep_every == 0)))
                remove_in(dir, other);
            else
                kept++;
            before = its;
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

char *fl_folder_publish(const char *home, const char *dir, const char *fresh, const char *name)
{
    char *to = fl_printf("%s/%s", home, name), *latest = fl_printf("%s/latest", home);
    char *next = fl_printf("%s.new", latest), *complaint = NULL;
    FILE *f = fl_settle(fresh) && !rename(fresh, to) && fl_settle(home) ? fopen(next, "w") : NULL;
    bool fine = f && fprintf(f, "%s\n", name) > 0 && !fflush(f) && !fsync(fileno(f));
    fine = (!f || !fclose(f)) && fine && !rename(next, latest) && fl_settle(home);
    if (fine && strcmp(home, dir)) {
        char *parent = fl_printf("%s", dir), *slash = strrchr(parent, '/');
        if (slash)
            slash[slash == parent] = 0;
        fine = !rename(home, dir) && fl_settle(slash ? parent : ".");
        free(parent);
    }
    if (!fine)
        complaint = fl_printf("cannot put the checkpoint %s into %s: %s", fresh, dir, strerror(errno));
    free(to);
    free(latest);
    free(next);
    return complaint;
}

/* ---- one run at a time ---- */

static struct { int file; char *path; } lock = { -1, NULL };

/* Locks the open file; false: another run holds it. Where a file system has no locks, nobody is kept out. */
static bool take(int file)
{
    for (int i = 0; flock(file, LOCK_EX | LOCK_NB); i++) {
        if (errno != EWOULDBLOCK)
            return true;
        if (i == LOCK_TRIES)
            return false;
        nanosleep(&(struct timespec){ 0, 100000000 }, NULL);         /* a run that was killed may be ending */
    }
    return true;
}

char *fl_folder_lock(const char *dir)
{
    int n = (int)strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    lock.path = fl_printf("%.*s.lock", n, dir);
    for (;;) {
        struct stat s;
        int file = open(lock.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0)
            return NULL;                 /* whatever keeps it from being made, keeps checkpoints as well, and says so */
        if (!take(file)) {
            char who[128];
            ssize_t got = read(file, who, sizeof who - 1);
            who[got > 0 ? got : 0] = 0;
            close(file);
            return fl_printf("--save %s: another run saves there%s%s%s; name another directory, or wait for its end", dir,
                             *who ? " (" : "", who, *who ? ")" : "");
        }
        if (!fstat(file, &s) && s.st_nlink) {
            lock.file = file;
            break;
        }
        close(file);                     /* its run has just removed it */
    }
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    if (!ftruncate(lock.file, 0))
        dprintf(lock.file, "process %d on %s", (int)getpid(), host);
    atexit(fl_folder_unlock);
    return NULL;
}

void fl_folder_unlock(void)
{
    if (lock.file < 0)
        return;
    unlink(lock.path);
    close(lock.file);
    lock.file = -1;
}
