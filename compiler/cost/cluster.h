/* The machines a plan runs on, as far as cost knows them: hosts of equal devices, fast links inside a host and slower ones
 * between hosts. Written in the plan or the program (`cluster { .. }`), read from a JSON file or taken from the defaults
 * (--cluster FILE or NAME); else the default below. */
#ifndef FLOWC_COST_CLUSTER_H
#define FLOWC_COST_CLUSTER_H
#include "../base/source.h"
#include <stdbool.h>
#include <stdint.h>

struct mesh;
struct cluster {
    const char *name;
    int64_t hosts;               /* 0: as many as it takes */
    int64_t devices;             /* of one host */
    double memory;               /* bytes of one device; 0: unknown */
    double inside, inside_latency, between, between_latency;     /* bytes per second of one device; seconds a call */
    double host, host_latency;   /* the same of a device's link to the memory of its host */
    double flops, flops16;       /* per second and device, of contractions in f32 and in the 16-bit types */
    double stream;               /* bytes per second that a device's own memory reads and writes */
    double call, exponential;    /* seconds: of any call or launch; of one exponential of an element-wise op */
    int cores;                   /* ranks of a host share so many cores, and flops and stream are those of all of them; 0: each rank
                                    has a device of its own */
    struct span span;            /* where it is written */
    bool given;                  /* not the default */
};

const struct cluster *cluster_default(void);
const struct cluster *cluster_named(const char *name);           /* a100, h100, h200, here; NULL */
const char **cluster_names(void);                                /* stb_ds array */
/* A JSON object with a name and fields of cluster.def; the others are those of the default. NULL after a diagnostic. */
const struct cluster *cluster_read(const char *path);
const char *cluster_text(const struct cluster *c);               /* one line of its numbers */
/* Which axes cross hosts, once strides and hosts are known. */
void cluster_cross(struct mesh *m);
#endif
