/* A program from a seed. */
#define _GNU_SOURCE
#include "random.h"
#include "write.h"
#include <stdlib.h>

char *generate(uint64_t seed, bool views)
{
    struct writer *w = calloc(1, sizeof *w);
    char *text = NULL;
    size_t size = 0;
    w->state = (seed + 1) * 0x9e3779b97f4a7c15ull;
    w->views = views;
    w->to = open_memstream(&text, &size);
    for (int i = 0; i < 8; i++)
        pick(w, 2);
    write_model(w);
    write_plan(w);
    fclose(w->to);
    for (int i = 0; i < w->layers; i++)
        free(w->layer[i].target);
    free(w);
    return text;
}
