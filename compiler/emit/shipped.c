/* What goes along with flowc: the runtime and the templates of Makefiles. They lie where it was installed (bin/flowc with
 * share/flowc), or beside its build directory, or in the tree it was built from. */
#define _GNU_SOURCE
#include "shipped.h"
#include "../base/mem.h"
#include <string.h>
#include <unistd.h>

static const char *folder_of_flowc(void)
{
    enum { LONGEST = 4096 };
    char *path = mem_alloc(LONGEST);
    ssize_t n = readlink("/proc/self/exe", path, LONGEST - 1);
    char *slash = n > 0 ? strrchr(path, '/') : NULL;
    if (!slash)
        return NULL;
    *slash = 0;
    return path;
}

const char *shipped(const char *what)
{
    const char *folder = folder_of_flowc();
    const char *roots[] = {folder ? mem_printf("%s/../share/flowc", folder) : FLOWC_ROOT,
                           folder ? mem_printf("%s/..", folder) : FLOWC_ROOT};
    for (int i = 0; i < 2; i++)
        if (!access(mem_printf("%s/runtime/flow_rt.h", roots[i]), R_OK) &&
            !access(mem_printf("%s/templates/Makefile.cpu", roots[i]), R_OK))
            return mem_printf("%s/%s", roots[i], what);
    return mem_printf("%s/%s", FLOWC_ROOT, what);
}
