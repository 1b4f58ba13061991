/* The list of targets. */
#include "target.h"
#include "../runtime/fl_defaults.h"
#include <string.h>

const struct target targets[] = {
    {"cpu", "c", "cpu", ".c", "Makefile.cpu", .posts_ahead = true, .here = true, .rows = 512,
     .meeting_bytes = FL_MEETING_BYTES, .scratch = true, .chunk = FL_CHUNK_ROWS_CPU},
    {"cuda", "cu", "cuda", ".cu", "Makefile.cuda", .packs = true, .epilogues = true, .resident = true, .vectors = true, .rows = 1024,
     .row_registers = 312, .chunk = FL_CHUNK_ROWS_CUDA},
    {0},
};

const struct target *target_named(const char *name)
{
    for (const struct target *t = targets; t->name; t++)
        if (!strcmp(t->name, name))
            return t;
    return NULL;
}

const struct target *target_of(const struct module *m)
{
    const struct target *t = target_named(m->options ? m->options->target : "cpu");
    if (!t)
        BUG("target '%s'", m->options->target);          /* the command line takes no other */
    return t;
}
