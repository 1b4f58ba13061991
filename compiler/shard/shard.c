#include "../passes.h"

void shard(struct module *m)
{
    (void)m;
}
