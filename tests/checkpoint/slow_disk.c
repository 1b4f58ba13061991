/* Preloaded: making a checkpoint's file durable takes as long as SLOW_DISK says, in milliseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    char link[64], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/tensors-") && getenv("SLOW_DISK"))
        usleep((useconds_t)atoi(getenv("SLOW_DISK")) * 1000);
    return real(fd);
}
