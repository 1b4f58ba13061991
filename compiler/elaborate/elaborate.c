#include "../passes.h"

void elaborate(struct module *m)
{
    (void)m;
}
