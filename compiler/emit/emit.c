#include "../passes.h"

void emit(struct module *m)
{
    (void)m;
}
