/* How full the memory of this host is, or that of the control group that this process may use, if it is less:
 * whichever is fuller. Pages of files that may be dropped count as free. */
#include "../target.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `name` in a file of lines "name 123", or the first number of the file; < 0: none. */
static double number_in(const char *path, const char *name)
{
    FILE *f = fopen(path, "r");
    char line[256], *end;
    double x = -1;
    size_t n = name ? strlen(name) : 0;
    while (f && x < 0 && fgets(line, sizeof line, f)) {
        if (name && (strncmp(line, name, n) || (line[n] != ':' && line[n] != ' ')))
            continue;
        const char *from = line + (name ? n + 1 : 0);
        double v = strtod(from, &end);
        x = end > from ? v : -1;
        if (!name)
            break;
    }
    if (f)
        fclose(f);
    return x;
}

static double look(void)
{
    double all = number_in("/proc/meminfo", "MemTotal"), free_ = number_in("/proc/meminfo", "MemAvailable");
    double share = all > 0 && free_ >= 0 ? 1 - free_ / all : 0;
    double most = number_in("/sys/fs/cgroup/memory.max", NULL), held = number_in("/sys/fs/cgroup/memory.current", NULL);
    double files = number_in("/sys/fs/cgroup/memory.stat", "inactive_file");
    if (most > 0 && held >= 0 && most < all * 1024) {
        double of_group = (held - (files > 0 ? files : 0)) / most;
        share = of_group > share ? of_group : share;
    }
    return share;
}

double fl_target_memory_share(void)
{
    static double share, at = -1;
    double now = MPI_Wtime();
    if (at < 0 || now - at > 1) {                    /* not in each of a thousand steps a second */
        share = look();
        at = now;
    }
    return share;
}
