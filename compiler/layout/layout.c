#include "../passes.h"

void layout(struct module *m)
{
    (void)m;
}
