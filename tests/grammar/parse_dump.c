/* Parses one file: the tree on stdout, diagnostics after it. What main.c does for --emit=ast, without the other passes. */
#include "ast.h"
#include "base/diag.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    int file = argc == 2 ? source_open(argv[1]) : 0;
    if (!file) {
        fprintf(stderr, "usage: parse_dump FILE\n");
        return 2;
    }
    struct ast *program = parse(file);
    int errors = diag_errors();
    if (!errors)
        ast_dump(stdout, program);
    diag_print(stdout, false);
    mem_release();
    return errors != 0;
}
