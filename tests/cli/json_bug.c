/* A defect of flowc, as --diagnostics=json says it: exits with 70. */
#include "base/diag.h"
#include "base/mem.h"

int main(void)
{
    bug_caught_by(diag_bug_json);
    BUG("value \"%s\" is read before it is made", "x\n\xff");
}
