/* The box pass: logical graphs with layouts in, one program per pipeline stage with explicit communication out.
 * place.c says where nodes run, stages.c clones them, convert.c and bucket.c change layouts, links.c crosses stages. */
#include "../base/diag.h"
#include "../passes.h"
#include "boxer.h"
#include "post.h"
#include "survey.h"

int rank_stage(const struct physical *p, int rank)
{
    return p->nstage > 1 ? mesh_coord(p->mesh, rank, p->mesh->pipe) : 0;
}

void stage_coord(const struct physical *p, int stage, int rank, int *coord)
{
    if (rank_stage(p, rank) != stage)
        BUG("rank %d is not of stage %d", rank, stage);
    for (int i = 0; i < p->mesh->naxis; i++)
        coord[i] = mesh_coord(p->mesh, rank, i);
}

static void box_entry(struct boxer *b)
{
    struct physical *p = b->p;
    boxer_analyse(b);
    b->prime = NEW_ARRAY(struct value *, p->nvirtual * arrlen(b->g->values));
    b->recvs = NEW_ARRAY(int, p->nvirtual * PHASES);
    struct node **nodes = b->g->root->nodes;
    for (int phase = 0; phase < PHASES; phase++) {
        if (phase == PHASE_UPDATE) {
            for (int i = 0; i < arrlen(nodes); i++)
                if (b->sunk[nodes[i]->id])
                    boxer_clone_root(b, nodes[i]);
            for (int s = 0; s < p->nstage; s++)
                boxer_bucket(b, s);
        }
        for (int i = 0; i < arrlen(nodes); i++)
            if (nodes[i]->phase == (enum phase)phase && !b->sunk[nodes[i]->id])
                boxer_clone_root(b, nodes[i]);
    }
    for (int phase = 0; phase < PHASES; phase++)
        for (int i = 0; i < arrlen(b->sends[phase]); i++) {
            struct node *send = b->sends[phase][i];
            arrput(send->region->nodes, send);
        }
    for (int s = 0; s < p->nstage; s++) {
        stage_clean(p, &p->stages[s], b->g->entry);
        if (b->g->entry == ENTRY_TRAIN)
            stage_post(p, &p->stages[s]);
    }
}

void box(struct module *m)
{
    struct physical *p = NEW(struct physical);
    m->physical = p;
    p->module = m;
    p->mesh = &m->plan->mesh;
    p->nstage = plan_stages(m->plan);
    p->nvirtual = p->nstage * plan_chunks(m->plan);
    p->stages = NEW_ARRAY(struct stage, p->nstage);
    for (int s = 0; s < p->nstage; s++) {
        p->stages[s].index = s;
        p->stages[s].nchunk = plan_chunks(m->plan);
        p->stages[s].graph = graph_new(m, ENTRY_TRAIN);
    }
    struct boxer params = {.m = m, .mesh = p->mesh, .p = p};
    boxer_find_params(&params);
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e]) {
            struct boxer b = {.m = m, .mesh = p->mesh, .p = p, .g = m->graph[e], .param_on = params.param_on};
            box_entry(&b);
        }
    physical_verify(p, "box");
    check_expectations(m);
    check_hosts(m);
}
