/* --emit=physical: every stage program, entry by entry and phase by phase, with the layouts in the types. */
#include "../passes.h"
#include "boxer.h"

void physical_dump(FILE *to, struct module *m)
{
    const struct physical *p = m->physical;
    fprintf(to, "plan %s: %d rank%s, %d stage%s\n", m->plan->name, p->mesh->nranks, p->mesh->nranks == 1 ? "" : "s",
            p->nstage, p->nstage == 1 ? "" : "s");
    for (int i = 0; i < arrlen(p->comms); i++)
        fprintf(to, "communicator %d: %s over %s\n", i, p->comms[i].name, mesh_axes_text(p->mesh, p->comms[i].axes, ", "));
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        bool chunks = p->nvirtual > p->nstage && phase_has_chunks(l->phase);
        fprintf(to, "link %d: stage %d -> %d, %s %s%s: %s %s\n", i, l->from, l->to, entry_name[l->entry],
                phase_name[l->phase], chunks ? mem_printf(" chunk %d -> %d", l->from_chunk, l->to_chunk) : "", l->what,
                value_type_text(l->sent, p->mesh));
    }
    for (int s = 0; s < p->nstage; s++)
        for (int e = 0; e < ENTRIES; e++) {
            struct root *roots = stage_roots(&p->stages[s], (enum entry)e);
            for (int i = 0; i < arrlen(roots); i++) {
                struct graph part = {.entry = (enum entry)e, .module = m, .root = roots[i].region};
                bool chunks = p->stages[s].nchunk > 1 && phase_has_chunks(roots[i].phase);
                fprintf(to, "\nstage %d %s%s: ", s, phase_name[roots[i].phase],
                        chunks ? mem_printf(" chunk %d", roots[i].chunk) : "");
                graph_dump(to, &part, p->mesh);
            }
        }
}
