/* Defaults, files and names of clusters; see cluster.h. */
#include "cluster.h"
#include "../base/diag.h"
#include "../graph.h"
#include <jansson.h>
#include <string.h>
#include <unistd.h>

/* f32 rates are those of tensor cores that round operands to 19 bits; links are one direction. */
static const struct cluster known[] = {
    { .name = "h200", .devices = 8, .memory = 141e9, .inside = 450e9, .inside_latency = 3e-6, .between = 50e9,
      .between_latency = 10e-6, .host = 55e9, .host_latency = 5e-6, .flops = 200e12, .flops16 = 700e12,
      .stream = 4e12, .call = 4e-6, .exponential = 0 },
    { .name = "h100", .devices = 8, .memory = 80e9, .inside = 450e9, .inside_latency = 3e-6, .between = 50e9,
      .between_latency = 10e-6, .host = 55e9, .host_latency = 5e-6, .flops = 200e12, .flops16 = 700e12,
      .stream = 2.8e12, .call = 4e-6, .exponential = 0 },
    { .name = "a100", .devices = 8, .memory = 80e9, .inside = 300e9, .inside_latency = 4e-6, .between = 25e9,
      .between_latency = 12e-6, .host = 25e9, .host_latency = 5e-6, .flops = 80e12, .flops16 = 240e12,
      .stream = 1.6e12, .call = 4e-6, .exponential = 0 },
};

const struct cluster *cluster_default(void)
{
    return &known[0];
}

/* This machine: one host whose ranks share its cores and its memory. */
static const struct cluster *this_machine(void)
{
    struct cluster *c = NEW(struct cluster);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int cores = online > 0 ? (int)online : 1;
    *c = (struct cluster){ .name = "here", .hosts = 1, .devices = 1 << 20, .inside = 5e9, .inside_latency = 5e-6,
                           .between = 1e9, .between_latency = 50e-6, .host = 4e9 * cores, .host_latency = 1e-6,
                           .flops = 107e9 * cores, .flops16 = 107e9 * cores,
                           .stream = 8e9 * cores, .call = 1e-6, .exponential = 1e-9, .cores = cores };
    return c;
}

const struct cluster *cluster_named(const char *name)
{
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(known[k].name, name))
            return &known[k];
    return !strcmp(name, "here") ? this_machine() : NULL;
}

const char **cluster_names(void)
{
    const char **names = NULL;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        arrput(names, known[k].name);
    arrput(names, "here");
    return names;
}

static bool number(const char *path, json_t *all, const char *key, double *to, double least)
{
    json_t *v = json_object_get(all, key);
    if (!v)
        return true;
    if (json_is_number(v) && json_number_value(v) >= least && json_number_value(v) < 1e30) {
        *to = json_number_value(v);
        return true;
    }
    diag_error(E_FILE, (struct span){0}, "'%s' of '%s' is not a number of at least %g", key, path, least);
    return false;
}

/* Devices and the like are counted. */
static bool counted(const char *path, const char *key, double x)
{
    if (x < 1e15 && x == (double)(int64_t)x)
        return true;
    diag_error(E_FILE, (struct span){0}, "'%s' of '%s' is not a whole number below 1e15", key, path);
    return false;
}

const struct cluster *cluster_read(const char *path)
{
    static const char *const keys[] = {
        "name", "measured",              /* what --check-cluster adds for people */
#define FIELD(name, least) #name,
#include "cluster.def"
    };
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error), *unused;
    const char *key;
    if (!json_is_object(all)) {
        struct diag *d = diag_error(E_FILE, (struct span){0}, "no cluster can be read from '%s'", path);
        if (all || error.line <= 0)
            diag_help(d, "give a JSON object, or one of a100, h100, h200, here");
        else
            diag_note(d, "line %d: %.80s", error.line, error.text);
        json_decref(all);
        return NULL;
    }
    json_object_foreach(all, key, unused) {
        bool fine = false;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            fine |= !strcmp(keys[k], key);
        if (!fine) {
            const char *names = "";
            for (size_t k = 2; k < sizeof keys / sizeof *keys; k++)
                names = mem_printf("%s%s%s", names, k > 2 ? ", " : "", keys[k]);
            diag_help(diag_error(E_FILE, (struct span){0}, "a cluster has no '%.40s' (in '%s')", key, path),
                      "its fields are %s", names);
            json_decref(all);
            return NULL;
        }
    }
    struct cluster *c = NEW(struct cluster);
    *c = *cluster_default();
    bool fine = true;
    double x;
#define FIELD(name, least)                                                                                             \
    x = (double)c->name;                                                                                               \
    fine = fine && number(path, all, #name, &x, least) && ((typeof(c->name))0.5 > 0 || counted(path, #name, x));       \
    c->name = !fine ? c->name : (typeof(c->name))x;
#include "cluster.def"
    const json_t *name = json_object_get(all, "name");
    c->given = true;
    c->name = mem_strdup(json_is_string(name) ? json_string_value(name) : path);
    json_decref(all);
    return fine ? c : NULL;
}

const char *cluster_text(const struct cluster *c)
{
    const char *hosts = "hosts of ", *devices = "any number of devices";
    if (c->hosts)
        hosts = mem_printf("%lld host%s of ", (long long)c->hosts, c->hosts == 1 ? "" : "s");
    if (c->devices != 1 << 20)
        devices = mem_printf("%lld devices", (long long)c->devices);
    return mem_printf("%s: %s%s; inside a host %.4g GB/s and %.3g us a call, between hosts %.4g GB/s and %.3g us, "
                      "to host memory %.4g GB/s and %.3g us; %.4g TFLOP/s (%.4g in 16 bits); memory %.4g GB/s, %.3g us a call%s",
                      c->name, hosts, devices, c->inside / 1e9, c->inside_latency * 1e6, c->between / 1e9,
                      c->between_latency * 1e6, c->host / 1e9, c->host_latency * 1e6, c->flops / 1e12, c->flops16 / 1e12, c->stream / 1e9, c->call * 1e6,
                      c->cores ? mem_printf("; the ranks share these and %d cores", c->cores) : "");
}

void cluster_cross(struct mesh *m)
{
    for (int a = 0; a < m->naxis; a++) {
        struct axis *x = &m->axis[a];
        x->crosses = false;
        for (int r = 0; r < m->nranks && !x->time && !x->crosses; r++)
            x->crosses = m->host[r] != m->host[r - mesh_coord(m, r, a) * x->stride];
    }
}
