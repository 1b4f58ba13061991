/* The fuzz target: any text through all passes up to prove, and its diagnostics printed both ways. libFuzzer drives it
 * when the compiler is clang and FLOWC_FUZZ is on; otherwise corpus.c runs it once over every file it is given. */
#include "base/diag.h"
#include "passes.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *sink;
    if (!sink)
        sink = fopen("/dev/null", "w");
    struct options o = {.file = "fuzz.flow", .target = size & 1 ? "cpu" : "cuda", .check = true};
    struct module *m = NEW(struct module);
    m->options = &o;
    char *text = mem_alloc(size + 1);
    memcpy(text, data, size);
    arrput(m->programs, parse(source_add("fuzz.flow", text)));
    if (!diag_errors())
        passes_run(m, elaborate, prove);
    diag_print(sink, size & 2);
    diag_reset();
    source_reset();
    mem_release();
    return 0;
}
