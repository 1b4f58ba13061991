/* check_ops gate|mutants|gradient|table [--long] [OP] */
#include "base/diag.h"
#include "checks.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    bool thorough = argc > 2 && !strcmp(argv[2], "--long");
    const char *check = argc > 1 ? argv[1] : "", *only = argc > 2 + thorough ? argv[2 + thorough] : NULL;
    if (!strcmp(check, "gate"))
        return gate_all(only, thorough) != 0;
    if (!strcmp(check, "mutants"))
        return mutants_all(only, thorough) != 0;
    if (!strcmp(check, "gradient"))
        return gradient_all(only) != 0;
    if (!strcmp(check, "table"))
        return table_all(only) != 0;
    fprintf(stderr, "usage: check_ops gate|mutants|gradient|table [--long] [OP]\n");
    return 2;
}
