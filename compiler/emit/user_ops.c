/* Ops of the program itself: their sources go into DIR as op_NAME.c (or .cu), built like the class files, and user_ops.h
 * declares their functions as the class files call them. */
#include "../base/diag.h"
#include "../user_op.h"
#include "emitter.h"

struct use { const struct user_op *u; bool found; };

static void look(struct node *n, void *context)
{
    struct use *use = context;
    use->found |= n->op == &use->u->op;
}

bool user_op_used(const struct module *m, const struct user_op *u)
{
    struct use use = {u, false};
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            region_walk(m->graph[e]->root, look, &use);
    return use.found;
}

static const char *pointer_type(const struct user_tensor *t, bool in)
{
    return mem_printf("%s%s *", in ? "const " : "", type_c[t->type]);
}

static void declare(const struct user_op *u, FILE *to)
{
    const char *args = "", *names = "", *places = "";
    for (int k = 0; k < u->nout + u->nin; k++) {
        bool in = k >= u->nout;
        const struct user_tensor *t = in ? &u->in[k - u->nout] : &u->out[k];
        args = mem_printf("%s%s%s", args, k ? ", " : "", pointer_type(t, in));
        names = mem_printf("%s%s%s", names, k ? ", " : "", in ? t->name : mem_printf("result %d", k + 1));
        places = mem_printf("%s, const struct fl_place *", places);
    }
    for (int i = 0; i < arrlen(u->scalars); i++) {
        places = mem_printf("%s, float", places);
        names = mem_printf("%s, .. their places, %s", names, u->scalars[i]);
    }
    fprintf(to, "/* %s */\nvoid op_%s(%s%s);\n", names, u->op.name, args, places);
}

void emit_user_header(struct module *m, FILE *to)
{
    fputs("/* The program's own ops, as it calls them: results, operands, the places of all of them, numbers. A result that\n"
          " * nobody reads is NULL, and so is its place. */\n#ifndef USER_OPS_H\n#define USER_OPS_H\n#include \"flow_rt.h\"\n"
          "#ifdef __cplusplus\nextern \"C\" {\n#endif\n", to);
    for (int i = 0; i < arrlen(m->user_ops); i++)
        declare(m->user_ops[i], to);
    fputs("#ifdef __cplusplus\n}\n#endif\n#endif\n", to);
}
