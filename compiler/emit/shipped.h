/* Where what goes along with flowc lies. */
#ifndef FLOWC_EMIT_SHIPPED_H
#define FLOWC_EMIT_SHIPPED_H
const char *shipped(const char *what);         /* the path of "runtime", "templates/Makefile.cpu".. as they go with flowc */
#endif
