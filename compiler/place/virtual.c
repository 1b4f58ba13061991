/* The map from virtual stages to stages and chunks, and back. */
#include "../module.h"

int plan_stages(const struct plan *p)
{
    return p->mesh.pipe >= 0 ? p->mesh.axis[p->mesh.pipe].size : 1;
}

int plan_chunks(const struct plan *p)
{
    return plan_stages(p) > 1 && p->chunks > 1 ? p->chunks : 1;
}

int stage_of(const struct plan *p, int virtual_stage)
{
    int stages = plan_stages(p), s = virtual_stage % stages;
    return p->vee && virtual_stage / stages % 2 ? stages - 1 - s : s;
}

int chunk_of(const struct plan *p, int virtual_stage)
{
    return virtual_stage / plan_stages(p);
}

int virtual_of(const struct plan *p, int stage, int chunk)
{
    int stages = plan_stages(p);
    return chunk * stages + (p->vee && chunk % 2 ? stages - 1 - stage : stage);
}
