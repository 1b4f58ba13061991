/* What kernels work in besides their operands and results: op->room, by the rules of runtime/cpu and runtime/cuda. A kernel that
 * finds less than it needs takes memory of its own, which no plan then knows of. */
#include "../../runtime/fl_rooms.h"
#include "common.h"
#include "target.h"

enum { LINE = 16 };                      /* f32 of 64 bytes */

int64_t room_lines(int64_t elements)
{
    return (elements + LINE - 1) / LINE * LINE;
}

int64_t room_count(const struct value *v, int from, int to, const struct mesh *m)
{
    int64_t count = 1;
    for (int d = from; d < to; d++)
        count *= value_extent(v, d, m, NULL);
    return count;
}

int64_t room_bytes(int64_t bytes)
{
    return room_lines((bytes + 3) / 4);
}

/* Sums of chunks of rows, of the gains' gradients; on cuda also mean and scale of each row. */
int64_t room_of_norm(struct node *n, const struct mesh *m, const struct target *t)
{
    const struct value *x = n->in[0];
    int64_t rows = room_count(x, 0, x->ndim - 1, m), width = room_count(x, x->ndim - 1, x->ndim, m);
    return room_bytes(fl_room_of_norm(rows, width) + (t->scratch ? 0 : 4 * (2 * rows + 1)));
}
