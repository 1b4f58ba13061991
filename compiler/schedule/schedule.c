#include "../passes.h"

void schedule(struct module *m)
{
    (void)m;
}
