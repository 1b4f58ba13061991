#include "../passes.h"

void rewrite(struct module *m)
{
    (void)m;
}
