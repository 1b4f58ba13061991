/* What differs between the targets, as facts. */
#ifndef FLOWC_EMIT_TARGET_H
#define FLOWC_EMIT_TARGET_H

struct target {
    const char *name;            /* as --target names it */
    const char *suffix;          /* of class files */
    const char *folder;          /* of its part of the runtime */
    const char *source;          /* suffix of the runtime files there */
    const char *makefile;        /* template in templates/ */
};
extern const struct target targets[];          /* NULL name at the end */
const char *shipped(const char *what);         /* the path of "runtime", "templates/Makefile.cpu".. as they go with flowc */
#endif
