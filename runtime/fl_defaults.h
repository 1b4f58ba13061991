/* What a program does where its command line says nothing, as far as the compiler tells of it too. */
#ifndef FL_DEFAULTS_H
#define FL_DEFAULTS_H
#include <stdint.h>

#define FL_SAVE_MEMORY ((int64_t)1 << 30)            /* --save-memory */
#endif
