/* The communicator table: groups of ranks that differ only along some axes, each once, in order of first use. All ranks
 * create them in this order before the first step. */
#include "boxer.h"
#include <string.h>

static bool same_stages(const int *a, const int *b)
{
    return arrlen(a) == arrlen(b) && (!arrlen(a) || !memcmp(a, b, sizeof *a * (size_t)arrlen(a)));
}

int stage_links(const struct physical *p, int stage)
{
    int count = 0;
    for (int i = 0; i < arrlen(p->links); i++)
        count += p->links[i].from == stage || p->links[i].to == stage;
    return count;
}

int comm_streams(const struct physical *p)
{
    int links = 0, streams = MOST_COMM_STREAMS;
    for (int s = 0; s < p->nstage; s++)
        links = stage_links(p, s) > links ? stage_links(p, s) : links;
    while (streams > 1 && streams * COMM_BLOCKS + links * LINK_BLOCKS > DEVICE_BLOCKS)
        streams--;
    return arrlen(p->comms) < streams ? (int)arrlen(p->comms) : streams;
}

int comm_apart(const struct physical *p, unsigned axes)
{
    for (int i = 0; i < arrlen(p->comms); i++)
        if (!(p->comms[i].axes & axes) && !arrlen(p->comms[i].stages))
            return i;
    return -1;
}

int comm_find(struct physical *p, unsigned axes, const int *stages)
{
    for (int i = 0; i < arrlen(p->comms); i++)
        if (p->comms[i].axes == axes && same_stages(p->comms[i].stages, stages))
            return i;
    struct comm c = {.axes = axes, .name = mesh_axes_text(p->mesh, axes, "_")};
    for (int i = 0; i < arrlen(stages); i++)
        arrput(c.stages, stages[i]);
    if (stages && arrlen(stages) < p->nstage) {
        char *name = mem_printf("stages");
        for (int i = 0; i < arrlen(stages); i++)
            name = mem_printf("%s_%d", name, stages[i]);
        unsigned others = axes & ~(1u << p->mesh->pipe);
        c.name = others ? mem_printf("%s_%s", name, mesh_axes_text(p->mesh, others, "_")) : name;
    }
    arrput(p->comms, c);
    return (int)arrlen(p->comms) - 1;
}
