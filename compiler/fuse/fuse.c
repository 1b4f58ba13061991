#include "../passes.h"

void fuse(struct module *m)
{
    (void)m;
}
