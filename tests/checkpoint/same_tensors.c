/* same_tensors A B: do two models hold the same tensors, bit for bit, in whatever files? A and B: a weight file, an index, or
 * a folder of a checkpoint. Prints how many, or the first that differs. */
#include "check.h"
#include "shards.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_model(struct fl_shards *s, const char *path)
{
    glob_t g;
    int n = 0;
    const char **names = NULL;
    char *complaint;
    if (!glob(fl_printf("%s/tensors*.safetensors", path), 0, NULL, &g)) {
        names = (const char **)g.gl_pathv;
        n = (int)g.gl_pathc;
        complaint = NULL;
    } else {
        complaint = fl_shards_of(path, &n, &names);
    }
    if (!complaint)
        complaint = fl_shards_open(s, n, names);
    if (!complaint)
        return;
    printf("%s\n", complaint);
    exit(2);
}

int main(int argc, char **argv)
{
    struct fl_shards s[2];
    if (argc != 3)
        return 2;
    open_model(&s[0], argv[1]);
    open_model(&s[1], argv[2]);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < s[i].nentry; k++) {
            struct fl_st_entry *e = s[i].entry[k], *o = fl_shards_find(&s[1 - i], e->name);
            if (!o || o->ndim != e->ndim || memcmp(o->shape, e->shape, (size_t)e->ndim * sizeof *e->shape) ||
                memcmp(o->data, e->data, (size_t)e->count * 4)) {
                printf("%s %s\n", e->name, o ? "differs" : fl_printf("is not in %s", argv[2 - i]));
                return 1;
            }
        }
    printf("%d tensors\n", s[0].nentry);
    return 0;
}
