/* Rank files: the constants of one rank. run links all of them through ranks.c, which includes them; with FL_ONE_RANK a
 * rank file is the table of a binary of its own. */
#include "../layout/place.h"
#include "emitter.h"

void emit_rank(struct module *m, int rank, FILE *to)
{
    const struct physical *p = m->physical;
    struct rank_row row = rank_row(p, rank);
    int stage = row.stage;
    fprintf(to, "/* rank %d, stage %d */\n#include \"flow_rt.h\"\n\nextern const struct fl_class fl_class_%d;\n"
            "static const int64_t constants_%d[] = {", rank, stage, stage, rank);
    for (int i = 0; i < arrlen(p->constants); i++)
        fprintf(to, "%lld, ", (long long)row.constants[i]);
    fprintf(to, "0};\nconst struct fl_rank fl_rank_%d = {%d, {", rank, rank);
    for (int a = 0; a < p->mesh->naxis; a++)
        fprintf(to, "%s%d", a ? ", " : "", row.coord[a]);
    fprintf(to, "}, &fl_class_%d, constants_%d};\n", stage, rank);
    fprintf(to, "#ifdef FL_ONE_RANK\nconst struct fl_rank *const fl_ranks[] = {&fl_rank_%d};\n"
            "const int fl_rank_count = 1;\n#endif\n", rank);
}

void emit_ranks(struct module *m, FILE *to)
{
    int n = m->physical->mesh->nranks;
    fputs("/* All ranks in one object. */\n", to);
    for (int r = 0; r < n; r++)
        fprintf(to, "#include \"rank_%04d.c\"\n", r);
    fputs("\nconst struct fl_rank *const fl_ranks[] = {\n", to);
    for (int r = 0; r < n; r++)
        fprintf(to, "    &fl_rank_%d,\n", r);
    fprintf(to, "};\nconst int fl_rank_count = %d;\n", n);
}
