/* `cluster { .. }`, --cluster, and the hosts on which the ranks of the mesh are. The command line goes before the plan's
 * block, that before the program's. */
#include "elaborate.h"
#include "../cost/cluster.h"
#include <stdlib.h>
#include <string.h>

static bool hosts_line(struct frame *f, struct ast *a, struct cluster *c)
{
    struct ast *list = ast_kid(a, 0), *count = ast_kid(list, 0), *memory = ast_kid(list, 1);
    bool times = count->kind == AST_TIMES;
    c->devices = 1;
    c->memory = memory->num;
    return const_int(f, times ? ast_kid(count, 0) : count, 1, "the number of hosts", &c->hosts) &&
           (!times || const_int(f, ast_kid(count, 1), 1, "the devices of a host", &c->devices));
}

static void link_line(struct ast *a, double *bandwidth, double *latency)
{
    struct ast *list = ast_kid(a, 0);
    *bandwidth = ast_kid(list, 0)->num;
    *latency = ast_kid(list, 1)->num;
    if (!(*bandwidth >= 1)) {
        diag_error(E_BLOCK_LINE, ast_kid(list, 0)->span, "a link that carries nothing");
        *bandwidth = 1;
    }
}

static const struct cluster *block(struct frame *f, struct ast *a)
{
    struct cluster *c = NEW(struct cluster);
    *c = *cluster_default();
    c->name = "cluster";
    c->span = a->span;
    c->given = true;
    for (int i = 0; i < ast_count(a); i++) {
        struct ast *s = a->kids[i];
        for (int k = 0; k < i; k++)
            if (!strcmp(a->kids[k]->name, s->name))
                diag_label(diag_error(E_DUPLICATE, s->span, "the cluster has two `%s` lines", s->name), a->kids[k]->span,
                           "the first one");
        if (!strcmp(s->name, "hosts"))
            hosts_line(f, s, c);
        else if (!strcmp(s->name, "link inside"))
            link_line(s, &c->inside, &c->inside_latency);
        else if (!strcmp(s->name, "link host"))
            link_line(s, &c->host, &c->host_latency);
        else
            link_line(s, &c->between, &c->between_latency);
    }
    return c;
}

static const struct cluster *from_command_line(const char *name)
{
    const struct cluster *c = cluster_named(name);
    if (c || strchr(name, '.') || strchr(name, '/'))
        return c ? c : cluster_read(name);
    struct diag *d = diag_error(E_FILE, (struct span){0}, "no cluster is called '%s'", name);
    const char *near = suggest(name, cluster_names());
    if (near)
        diag_help(d, "did you mean '%s'?", near);
    else
        diag_help(d, "give the path of a .json file, or one of a100, h100, h200, here");
    return NULL;
}

/* "m0:0-7, m1:0-7": the host of each device in turn. The text has been checked by then. */
static void named_hosts(struct mesh *m, const char *s)
{
    const char **hosts = NULL;
    int rank = 0;
    while (*s && rank < m->nranks) {
        s += strspn(s, ", ");
        size_t n = strcspn(s, ":");
        const char *name = intern_n(s, n);
        int host = 0;
        while (host < arrlen(hosts) && hosts[host] != name)
            host++;
        if (host == arrlen(hosts))
            arrput(hosts, name);
        s += n;
        while (*s == ':' || *s == '+') {
            char *end;
            long low = strtol(s + 1, &end, 10), high = low;
            if (*end == '-')
                high = strtol(end + 1, &end, 10);
            for (long k = low; k <= high && rank < m->nranks; k++)
                m->host[rank++] = host;
            s = end;
        }
        s += strspn(s, " ");
    }
}

void cluster_collect(struct frame *f, struct plan *p, struct ast *in_plan, struct ast *on)
{
    struct mesh *m = &p->mesh;
    const char *option = f->e->m->options->cluster;
    struct ast *written = in_plan ? in_plan : f->e->cluster;
    const struct cluster *c = option ? from_command_line(option) : written ? block(f, written) : NULL;
    m->cluster = c ? c : cluster_default();
    if (diag_errors())
        return;
    if (c && c->hosts && c->hosts * c->devices < m->nranks) {
        struct diag *d = diag_error(E_RANKS, m->span, "the mesh has %d ranks, but the cluster only %lld devices", m->nranks,
                                    (long long)(c->hosts * c->devices));
        if (c->span.file)
            diag_label(d, c->span, "%lld x %lld devices", (long long)c->hosts, (long long)c->devices);
        return;
    }
    m->host = NEW_ARRAY(int, m->nranks);
    for (int r = 0; r < m->nranks; r++)
        m->host[r] = (int)(r / m->cluster->devices);
    if (on)
        named_hosts(m, on->name);
    cluster_cross(m);
    if (c && c->given && c->memory > 0 && p->memory_bytes == 0) {
        p->memory_bytes = c->memory;
        p->memory_span = c->span.file ? c->span : p->span;
    }
}
