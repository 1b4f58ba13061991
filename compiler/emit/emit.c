/* emit: writes the program of all ranks into options->out, all or nothing: everything is written into a new directory
 * beside it, which is then renamed. An older output is replaced; a directory that flowc did not write is not touched.
 */
#define _XOPEN_SOURCE 700
#include "../base/diag.h"
#include "../target.h"
#include "../user_op.h"
#include "emitter.h"
#include "shipped.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(const char *what, const char *path)
{
    struct diag *d = diag_error(E_FILE, (struct span){0}, "cannot %s '%s': %s", what, path, strerror(errno));
    diag_help(d, "give -o a directory that can be created here");
    return false;
}

static FILE *begin(const char *dir, const char *name)
{
    const char *path = mem_printf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f)
        fail("write", path);
    return f;
}

static bool end(FILE *f, const char *dir)
{
    bool bad = ferror(f) != 0;
    return (fclose(f) == 0 && !bad) || fail("write into", dir);
}

static bool copy_file(const char *from, const char *dir, const char *name)
{
    FILE *in = fopen(from, "r");
    if (!in)
        return fail("read", from);
    FILE *out = begin(dir, name);
    static char block[65536];
    size_t n;
    while (out && (n = fread(block, 1, sizeof block, in)) > 0)
        fwrite(block, 1, n, out);
    fclose(in);
    return out && end(out, dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names in a folder that end in one of two suffixes, sorted; NULL when it cannot be read. */
static const char **folder(const char *path, const char *a, const char *b)
{
    const char **names = NULL;
    DIR *d = opendir(path);
    if (!d)
        return NULL;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        for (int k = 0; k < 2; k++) {
            const char *suffix = k ? b : a;
            size_t s = strlen(suffix);
            if (n > s && !strcmp(e->d_name + n - s, suffix)) {
                arrput(names, mem_strdup(e->d_name));
                break;
            }
        }
    }
    closedir(d);
    if (names)
        qsort(names, (size_t)arrlen(names), sizeof *names, by_name);
    return names;
}

/* The runtime goes along, so that DIR can be built anywhere. objects: for the Makefile, "runtime/reader.o ..." */
static bool copy_runtime(const char *dir, const struct target *t, const char **objects)
{
    const char *parts[] = {"runtime", mem_printf("runtime/%s", t->folder)};
    *objects = "";
    for (int p = 0; p < 2; p++) {
        const char *from = shipped(parts[p]), *to = mem_printf("%s/%s", dir, parts[p]);
        const char *source = p ? t->source : ".c", **names = folder(from, ".h", source);
        if (!names)
            return fail("read the runtime in", from);
        if (mkdir(to, 0777))
            return fail("create", to);
        for (int i = 0; i < arrlen(names); i++) {
            if (!copy_file(mem_printf("%s/%s", from, names[i]), to, names[i]))
                return false;
            size_t n = strlen(names[i]) - strlen(source);
            if (!strcmp(names[i] + n, source))
                *objects = mem_printf("%s \\\n    %s/%.*s.o", *objects, parts[p], (int)n, names[i]);
        }
    }
    return true;
}

/* Sources of the program's own ops; one that holds several is copied once. objects: " op_scan.o". */
static bool copy_user_ops(struct module *m, const char *dir, const struct target *t, const char **objects)
{
    bool cuda = !strcmp(t->name, "cuda"), fine = true;
    const char **copied = NULL;
    FILE *f;
    *objects = "";
    for (int i = 0; i < arrlen(m->user_ops); i++) {
        const struct user_op *u = m->user_ops[i];
        const struct user_source *s = cuda ? &u->cuda : &u->cpu;
        bool known = false;
        if (!user_op_used(m, u))
            continue;
        if (!s->path || access(s->path, R_OK)) {
            struct diag *d = s->path ? diag_error(E_FILE, s->span, "cannot read '%s': %s", s->path, strerror(errno))
                                     : diag_error(E_FILE, u->span, "op '%s' has no source for the target %s", u->op.name, t->name);
            diag_help(d, "a source is looked for beside the program; name it by `%s \"FILE\"`", t->name);
            fine = false;
            continue;
        }
        for (int k = 0; k < arrlen(copied); k++)
            known |= !strcmp(copied[k], s->path);
        if (known)
            continue;
        arrput(copied, s->path);
        fine &= copy_file(s->path, dir, mem_printf("op_%s.%s", u->op.name, t->suffix));
        *objects = mem_printf("%s op_%s.o", *objects, u->op.name);
    }
    if (!arrlen(m->user_ops) || !fine)
        return fine;
    if (!(f = begin(dir, "user_ops.h")))
        return false;
    emit_user_header(m, f);
    return end(f, dir);
}

static bool write_makefile(struct module *m, const char *dir, const struct target *t, const char *objects, const char *user)
{
    const char *from = shipped(mem_printf("templates/%s", t->makefile));
    FILE *in = fopen(from, "r");
    if (!in)
        return fail("read", from);
    FILE *out = begin(dir, "Makefile");
    if (!out) {
        fclose(in);
        return false;
    }
    fprintf(out, "# Written by flowc. RANKS = %d\n", m->physical->mesh->nranks);
    fprintf(out, "RANKS := %d\nCLASSES :=", m->physical->mesh->nranks);
    for (int s = 0; s < m->physical->nstage; s++)
        fprintf(out, " class_%d.o", s);
    fputs(user, out);
    fprintf(out, "\nRUNTIME :=%s\n", objects);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    return end(out, dir);
}

static mode_t umask_of(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return mask;
}

static bool write_launch(struct module *m, const char *dir)
{
    const char *from = shipped("templates/launch");
    FILE *in = fopen(from, "r");
    if (!in)
        return fail("read", from);
    FILE *out = begin(dir, "launch");
    if (out)
        fprintf(out, "#!/usr/bin/env bash\n# Written by flowc.\nranks=%d\n", m->physical->mesh->nranks);
    for (int c; out && (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    return out && end(out, dir) && (!chmod(mem_printf("%s/launch", dir), 0777 & ~umask_of()) || fail("make executable", dir));
}

/* FNV-1a over the sources in a folder, their names included. */
static uint64_t sum_folder(const char *path, uint64_t h)
{
    const char **names = folder(path, ".c", ".h"), **more = folder(path, ".cu", ".cu");
    for (int i = 0; i < arrlen(more); i++)
        arrput(names, more[i]);
    for (int i = 0; i < arrlen(names); i++) {
        FILE *f = fopen(mem_printf("%s/%s", path, names[i]), "r");
        for (const char *c = names[i]; *c; c++)
            h = (h ^ (unsigned char)*c) * 0x100000001b3u;
        for (int c; f && (c = fgetc(f)) != EOF;)
            h = (h ^ (unsigned char)c) * 0x100000001b3u;
        if (f)
            fclose(f);
    }
    return h;
}

/* Ranks that run different builds find out at their start: program.c ends with a number over all sources. */
static bool write_build(const char *dir, const struct target *t)
{
    uint64_t h = sum_folder(dir, 0xcbf29ce484222325u);
    h = sum_folder(mem_printf("%s/runtime/%s", dir, t->folder), sum_folder(mem_printf("%s/runtime", dir), h));
    FILE *f = fopen(mem_printf("%s/program.c", dir), "a");
    if (!f)
        return fail("write into", dir);
    fprintf(f, "const uint64_t fl_build = 0x%016llxu;\n", (unsigned long long)h);
    return end(f, dir);
}

static bool write_all(struct module *m, const char *dir, const struct target *t)
{
    const struct physical *p = m->physical;
    const char *objects, *user;
    FILE *f;
    for (int s = 0; s < p->nstage; s++) {
        if (!(f = begin(dir, mem_printf("class_%d.%s", s, t->suffix))))
            return false;
        emit_class(m, s, f);
        if (!end(f, dir))
            return false;
    }
    for (int r = 0; r < p->mesh->nranks; r++) {
        if (!(f = begin(dir, mem_printf("rank_%04d.c", r))))
            return false;
        emit_rank(m, r, f);
        if (!end(f, dir))
            return false;
    }
    static const struct { const char *name; void (*write)(struct module *, FILE *); } files[] = {
        {"ranks.c", emit_ranks}, {"program.c", emit_program}, {"plan.json", emit_plan_json},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!(f = begin(dir, files[i].name)))
            return false;
        files[i].write(m, f);
        if (!end(f, dir))
            return false;
    }
    return copy_user_ops(m, dir, t, &user) && copy_runtime(dir, t, &objects) && write_build(dir, t) &&
           write_launch(m, dir) && write_makefile(m, dir, t, objects, user);
}

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Whether `path` is free, or an earlier output of ours, or an empty directory. */
static bool replaceable(const char *path)
{
    struct stat s;
    if (lstat(path, &s))
        return true;
    if (!stat(mem_printf("%s/plan.json", path), &s))
        return true;
    return !rmdir(path);
}

/* The folders above one that is to be made. */
static bool make_parents(const char *path)
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *parent = mem_printf("%.*s", (int)(slash - path), path);
        struct stat s;
        if (stat(parent, &s) && mkdir(parent, 0777) && errno != EEXIST)
            return fail("create", parent);
    }
    return true;
}

void emit(struct module *m)
{
    const char *out = m->options->out;
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        n--;
    out = mem_printf("%.*s", (int)n, out);
    const struct target *t = target_of(m);
    if (!replaceable(out)) {
        struct diag *d = diag_error(E_FILE, (struct span){0}, "'%s' exists and was not written by flowc", out);
        diag_help(d, "choose another directory, or remove this one");
        return;
    }
    const char *fresh = mem_printf("%s.new.%d", out, (int)getpid()), *old = mem_printf("%s.old.%d", out, (int)getpid());
    if (!make_parents(out))
        return;
    if (mkdir(fresh, 0777)) {
        fail("create", out);
        return;
    }
    if (write_all(m, fresh, t)) {
        bool had = !rename(out, old);
        if (rename(fresh, out)) {
            fail("create", out);
            if (had && rename(old, out))
                fail("restore", out);
        } else if (had) {
            remove_tree(old);
        }
    }
    struct stat s;
    if (!lstat(fresh, &s))
        remove_tree(fresh);
}
