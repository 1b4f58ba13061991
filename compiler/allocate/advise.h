/* What to do about a plan that is over its memory limit. */
#ifndef FLOWC_ALLOCATE_ADVISE_H
#define FLOWC_ALLOCATE_ADVISE_H
#include "../module.h"

void refuse_too_large(struct module *m);             /* E_MEMORY with computed advice when a stage is over the limit */
#endif
