/* What a block may say once. A line that stands twice would lose one of its values without a word, and a name that
 * stands twice in a list is a slip: another name was meant. One message for each line too many. */
#include "elaborate.h"
#include <string.h>

bool line_once(struct ast **slot, struct ast *a, const char *what)
{
    if (*slot) {
        struct diag *d = diag_error(E_DUPLICATE, a->span, "the plan has two %s lines", what);
        diag_label(d, (*slot)->span, "the first one");
        diag_help(d, "leave one of them out");
        return false;
    }
    *slot = a;
    return true;
}

/* frozen lines add up; decay, lr_scale, rows and keep may each speak of some parameters at a time. */
static bool adds_up(const struct ast *a, const struct ast *b)
{
    return !strcmp(a->name, "frozen") || (a->kind == AST_SETTING && ast_kid(a, 1) && ast_kid(b, 1));
}

void settings_once(struct ast *block)
{
    for (int i = 0; i < ast_count(block); i++)
        for (int k = 0; k < i; k++) {
            struct ast *a = block->kids[i], *b = block->kids[k];
            bool setting = a && (a->kind == AST_SETTING || a->kind == AST_BLOCK);
            if (!setting || !b || a->kind != b->kind || !a->name || !b->name || strcmp(a->name, b->name) || adds_up(a, b))
                continue;
            struct diag *d = diag_error(E_DUPLICATE, a->name_span.file ? a->name_span : a->span, "'%s' is set twice",
                                        a->name);
            diag_label(d, b->span, "first here");
            bool grouped = !strcmp(a->name, "decay") || !strcmp(a->name, "lr_scale");
            if (grouped && (ast_kid(a, 1) || ast_kid(b, 1)))
                diag_help(d, "for all parameters write `%s = .. on [*]`: of several such lines the last about a parameter counts", a->name);
            break;
        }
}

/* Of two lists, or of one with itself: a name of the second that an earlier one has. */
static bool repeated(struct ast *list, int i, struct ast *before, int until, const char *what)
{
    for (int k = 0; k < until; k++)
        if (!strcmp(list->kids[i]->name, before->kids[k]->name)) {
            struct diag *d = diag_error(E_DUPLICATE, list->kids[i]->span, "'%s' stands twice %s", list->kids[i]->name, what);
            diag_label(d, before->kids[k]->span, "the first one");
            diag_help(d, "leave one of them out, or name what was meant");
            return true;
        }
    return false;
}

/* The patterns of a block's lines of one word: none in two of them, and none twice in one. */
void lists_once(struct ast *block, const char *word)
{
    for (int i = 0; i < ast_count(block); i++) {
        struct ast *a = block->kids[i], *list = a && a->kind == AST_SETTING && !strcmp(a->name, word) ? ast_kid(a, 1) : NULL;
        for (int n = 0; n < ast_count(list); n++) {
            bool said = repeated(list, n, list, n, mem_printf("in `%s`", word));
            for (int k = 0; k < i && !said; k++) {
                struct ast *b = block->kids[k], *other = b && b->kind == AST_SETTING && !strcmp(b->name, word) ? ast_kid(b, 1) : NULL;
                said = repeated(list, n, other, ast_count(other), mem_printf("in `%s`", word));
            }
        }
    }
}

static const char *line_word(enum ast_kind kind)
{
    switch (kind) {
    case AST_SBP: return "sbp";
    case AST_PIN: return "pin";
    case AST_SAVE: return "save";
    case AST_PLACE: return "place";
    case AST_RECOMPUTE: return "recompute";
    default: return NULL;
    }
}

/* sbp, pin and save lines that say different things about one tensor are for `shard` to compare: it knows which meet. */
static bool differ(const struct ast *a, const struct ast *b)
{
    const struct ast *x = ast_kid(a, 1), *y = ast_kid(b, 1);
    return a != b && a->kind != AST_PLACE && x && y && strcmp(span_text(x->span), span_text(y->span)) != 0;
}

void plan_lines_once(struct ast *plan)
{
    for (int i = 0; i < ast_count(plan); i++) {
        struct ast *a = plan->kids[i], *list = line_word(a->kind) ? ast_kid(a, 0) : NULL;
        const char *where = list ? mem_printf("in `%s`", line_word(a->kind)) : NULL;
        for (int n = 0; n < ast_count(list); n++) {
            bool said = repeated(list, n, list, n, where);
            for (int k = 0; k < i && !said; k++) {
                struct ast *b = plan->kids[k];
                if (b->kind == a->kind && !differ(a, b))
                    said = repeated(list, n, ast_kid(b, 0), ast_count(ast_kid(b, 0)), where);
            }
        }
    }
}
