/* What the files of the hook share: see.c, shown.c, see_table.c. */
#ifndef FLOWC_EMIT_SEE_H
#define FLOWC_EMIT_SEE_H
#include "emitter.h"

extern struct buffer see_room;   /* where values lie that are computed for the hook only */
bool see_whole_stack(const struct node *n, const struct value *v);   /* n makes it for all blocks of a repeat at once */
void see_gone(struct emitter *e, const struct value *v);

/* shown.c: which values the names of the program stand for, over all stages */
struct shown {
    bool *own;                   /* by id of the logical value: some stage has it itself */
    const struct value **chosen; /* stb_ds array: of those that none has itself, the conversion that stands for them */
    const int **order;           /* by id: its place in the program, one number for each level of repeats */
    const char **name;           /* by id: its path, "where~2" for the second value of that path */
};
enum entry shown_entry(const struct module *m);      /* the entry whose values have names of their own */
struct shown shown_find(struct module *m);
bool shown_is(const struct module *m, const struct shown *s, const struct node *n, const struct value *v);
bool shown_hidden(const struct module *m, enum entry entry, const struct value *v);
#endif
