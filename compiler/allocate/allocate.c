#include "../passes.h"

void allocate(struct module *m)
{
    (void)m;
}
