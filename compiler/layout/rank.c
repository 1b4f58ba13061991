/* What is written into a rank's own file, worked out from its number and the mesh. */
#include "place.h"

struct rank_row rank_row(const struct physical *p, int rank)
{
    struct rank_row r = {.stage = rank_stage(p, rank)};
    stage_coord(p, r.stage, rank, r.coord);
    for (int i = 0; i < arrlen(p->constants); i++)
        arrput(r.constants, sym_on_rank(p, (struct sym){.c = 1, .n = 1, .k = {(short)i}}, r.coord));
    return r;
}
