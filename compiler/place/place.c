#include "../passes.h"

void place(struct module *m)
{
    (void)m;
}
