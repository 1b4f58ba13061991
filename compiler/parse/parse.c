/* parse: text to AST. One file at a time; imports are followed by elaborate. */
#include "ast.h"
#include "scan.h"
#include "base/diag.h"
#include "flow.tab.h"
#include <limits.h>

struct ast *parse(int file)
{
    const struct source *text = source_get(file);
    struct scan s = {.file = file, .text = text->text, .size = (int)text->size};
    struct ast *none = ast_new(AST_PROGRAM, (struct span){file, 0, 0}, NULL);
    if (text->size > INT_MAX / 2) {
        diag_error(E_FILE, none->span, "'%s' is too large to be a program", text->name);
        return none;
    }
    scan_text(&s);
    flow_parse(&s);
    return s.program ? s.program : none;
}
