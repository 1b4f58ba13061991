/* Lines of the functions stream. */
#include "emitter.h"

void plain(struct emitter *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = mem_vprintf(format, args);
    va_end(args);
    fprintf(e->functions, "%*s%s\n", 4 * e->indent, "", text);
}

void line(struct emitter *e, const struct node *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = mem_vprintf(format, args);
    va_end(args);
    fprintf(e->functions, "%*s%s", 4 * e->indent, "", text);
    if (n && n->span.file)
        fprintf(e->functions, "  // %s", c_comment(span_where(n->span)));
    fputc('\n', e->functions);
}

/* Same order in memory without gaps, so that a plain copy will do: with the outermost stride times its extent as many
 * elements as there are. */
static bool alike(const struct value *a, const struct value *b)
{
    int outer = -1;
    for (int d = 0; d < a->ndim; d++) {
        if (sym_is(a->place->extent[d], 1))
            continue;
        if (!sym_same(a->place->stride[d], b->place->stride[d]))
            return false;
        if (outer < 0 || a->stride[d] > a->stride[outer])
            outer = d;
    }
    return outer < 0 || sym_same(sym_mul(a->place->stride[outer], a->place->extent[outer]),
                                 sym_range(a->place, 0, a->ndim));
}

void copy_line(struct emitter *e, const struct node *n, const char *to, const struct value *like, const char *from,
               const struct value *source)
{
    bool convert = like->type != source->type;
    const char *count = sym_text(sym_range(like->place, 0, like->ndim));
    const char *operands = mem_printf("%s, %s", to, from);
    if (convert)
        operands = mem_printf("%s, %s, %s, %s", to, type_word(like->type), from, type_word(source->type));
    if (alike(like, source)) {
        line(e, n, convert ? "fl_convert(%s, %s);" : "fl_copy(%s, %s, %d);", operands, count, type_bytes[like->type]);
        return;
    }
    const char *extents = "", *sy = "", *sx = "";
    for (int d = 0; d < like->ndim; d++) {
        const char *comma = d ? ", " : "";
        extents = mem_printf("%s%s%s", extents, comma, sym_text(like->place->extent[d]));
        sy = mem_printf("%s%s%s", sy, comma, sym_text(like->place->stride[d]));
        sx = mem_printf("%s%s%s", sx, comma, sym_text(source->place->stride[d]));
    }
    line(e, n, "%s(%s, FL_REF(struct fl_strided, .ndim = %d, .n = {%s}, .sy = {%s}, .sx = {%s})%s);",
         convert ? "fl_convert_strided" : "fl_copy_strided", operands, like->ndim, extents, sy, sx,
         convert ? "" : mem_printf(", %d", type_bytes[like->type]));
}
