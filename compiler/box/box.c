#include "../passes.h"

void box(struct module *m)
{
    (void)m;
}
