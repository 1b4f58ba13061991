/* class_S: the text of one stage, compiled once for all its ranks. */
#include "call.h"
#include "emitter.h"
#include <stdlib.h>

static const char preamble[] =
    "#include \"flow_rt.h\"\n"
    "#include \"fl_math.h\"\n"
    "#ifndef FL_CUDA_TARGET\n"
    "#include \"cpu/flow_rows.h\"\n"
    "#endif\n"
    "#include <math.h>\n"
    "\n"
    "#ifdef __cplusplus\n"
    "template <class T> static inline const T *fl_ref(const T &x) { return &x; }\n"
    "template <class T> using fl_type_of = T;\n"
    "#define FL_REF(type, ...) fl_ref(fl_type_of<type>{__VA_ARGS__})\n"
    "#define FL_C_LINKAGE extern \"C\"\n"
    "#else\n"
    "#define FL_REF(type, ...) (&(type){__VA_ARGS__})\n"
    "#define FL_C_LINKAGE extern\n"
    "#endif\n"
    "/* entries of a local part that are no padding */\n"
    "static inline __attribute__((unused)) int64_t fl_valid(int64_t extent, int64_t base, int64_t size)\n"
    "{\n"
    "    return size - base < 0 ? 0 : size - base < extent ? size - base : extent;\n"
    "}\n"
    "#define FL_VALID(extent, base, size) fl_valid(extent, base, size)\n";

static FILE *stream(char **text, size_t *size)
{
    FILE *f = open_memstream(text, size);
    if (!f)
        BUG("no memory for a text");
    return f;
}

static void close_into(FILE *f, char **text, FILE *to)
{
    fclose(f);
    fputs(*text, to);
    free(*text);
}

void emit_class(struct module *m, int stage, FILE *to)
{
    struct emitter e = {.m = m, .p = m->physical, .s = &m->physical->stages[stage]};
    int values = (int)arrlen(e.s->graph->values);
    char *text[3];
    size_t size[3];
    e.named = NEW_ARRAY(bool, values + 1);
    e.named_next = NEW_ARRAY(bool, values + 1);
    e.named_before = NEW_ARRAY(bool, values + 1);
    e.tensors = stream(&text[0], &size[0]);
    e.kernels = stream(&text[1], &size[1]);
    e.functions = stream(&text[2], &size[2]);
    emit_slots(&e);
    emit_phases(&e);
    emit_steps(&e);
    fprintf(to, "/* %s, plan %s, stage %d of %d: the program of its ranks. Written by flowc; changes here are lost.\n"
            " *\n"
            " * Tensors are places in one arena of %lld bytes%s. b1, b2 .. are the blocks of the repeats around, mb\n"
            " * the micro-batch, k[] the numbers in which ranks differ. */\n", c_comment(m->options->file),
            c_comment(m->plan->name), stage, m->physical->nstage, (long long)e.s->arena_bytes,
            e.s->host_bytes ? mem_printf(" and in %lld of host memory", (long long)e.s->host_bytes) : "");
    fputs(preamble, to);
    if (arrlen(m->user_ops))
        fputs("#include \"user_ops.h\"\n", to);
    fputs("\n/* ---- tensors ---- */\n\n", to);
    close_into(e.tensors, &text[0], to);
    fputs("\n/* ---- kernels ---- */\n\n", to);
    close_into(e.kernels, &text[1], to);
    fputs("/* ---- phases and steps ---- */\n\n", to);
    close_into(e.functions, &text[2], to);
    emit_see_table(&e, to);
    emit_class_table(&e, to);
}
