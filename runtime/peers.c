/* Questions and answers between watchdogs. Datagrams get lost: a question is sent again until it is answered. A rank
 * that is stopped, dead or cut off does not answer. Whoever does not know the run's number gets no answer. */
#define _GNU_SOURCE
#include "peers.h"
#include "check.h"
#include "flow_rt.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESSES = 4, PAUSE = 150 };     /* milliseconds between two questions */

struct contact {
    char host[64], machine[128], network[64];          /* machine: one table of processes; network: one loopback */
    int64_t pid;
    uint16_t port;                       /* network order */
    uint32_t address[ADDRESSES];         /* 0: none */
};
enum { ANSWER, QUESTION, TOLD };
struct letter { uint64_t run; int32_t from, kind; struct fl_standing at; };

static struct contact *contacts;
static struct fl_peer *peers;
static int nrank, line = -1;
static uint64_t run_number;
static atomic_bool told;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void read_text(const char *path, bool link, char *to, size_t n)
{
    int fd = link ? -1 : open(path, O_RDONLY);
    ssize_t got = link ? readlink(path, to, n - 1) : fd >= 0 ? read(fd, to, n - 1) : 0;
    if (fd >= 0)
        close(fd);
    to[got > 0 ? got : 0] = 0;
}

static struct contact own_contact(void)
{
    struct contact c = { .pid = getpid() };
    char boot[64], table[48];
    gethostname(c.host, sizeof c.host - 1);
    read_text("/proc/sys/kernel/random/boot_id", false, boot, sizeof boot);
    read_text("/proc/self/ns/pid", true, table, sizeof table);
    snprintf(c.machine, sizeof c.machine, "%s %s", boot, table);
    read_text("/proc/self/ns/net", true, c.network, sizeof c.network);
    struct ifaddrs *list = NULL;
    int n = 0;
    if (!getifaddrs(&list))
        for (struct ifaddrs *i = list; i && n < ADDRESSES; i = i->ifa_next)
            if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP)
                c.address[n++] = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(list);
    struct sockaddr_in any = { .sin_family = AF_INET };
    socklen_t size = sizeof any;
    line = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line >= 0 && !bind(line, (struct sockaddr *)&any, sizeof any) &&
        !getsockname(line, (struct sockaddr *)&any, &size))
        c.port = any.sin_port;
    return c;
}

void fl_peers_start(void)
{
    struct contact mine = own_contact();
    FL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &nrank));
    contacts = fl_alloc(nrank * (int64_t)sizeof *contacts);
    peers = fl_alloc(nrank * (int64_t)sizeof *peers);
    int random = open("/dev/urandom", O_RDONLY);
    if (random < 0 || read(random, &run_number, sizeof run_number) != sizeof run_number)
        run_number = (uint64_t)time(NULL) ^ (uint64_t)mine.pid << 32;
    if (random >= 0)
        close(random);
    FL_MPI(MPI_Bcast(&run_number, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    FL_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, contacts, sizeof mine, MPI_BYTE, MPI_COMM_WORLD));
}

void fl_peers_stop(void)
{
    if (line >= 0)
        close(line);
    line = -1;
    free(contacts);
    free(peers);
    contacts = NULL;
    peers = NULL;
}

int fl_peers_count(void) { return nrank; }

static void ask_one(int rank, const struct letter *l)
{
    const struct contact *c = &contacts[rank], *mine = &contacts[fl_rank_number];
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = c->port };
    bool near = !strcmp(c->machine, mine->machine) && !strcmp(c->network, mine->network);
    for (int i = near ? -1 : 0; i < (near ? 0 : ADDRESSES); i++) {
        to.sin_addr.s_addr = i < 0 ? htonl(INADDR_LOOPBACK) : c->address[i];
        if (to.sin_addr.s_addr && c->port)
            sendto(line, l, sizeof *l, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to);
    }
}

/* Takes one letter that has come; false: there is none. */
static bool take(const struct fl_standing *mine)
{
    struct letter l;
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    ssize_t n = recvfrom(line, &l, sizeof l, 0, (struct sockaddr *)&from, &size);
    if (n < 0)
        return false;
    if (n != sizeof l || l.run != run_number || l.from < 0 || l.from >= nrank)
        return true;
    if (l.kind == TOLD) {
        atomic_store(&told, true);
        return true;
    }
    if (l.kind == QUESTION) {
        struct letter answer = { .run = run_number, .from = fl_rank_number, .at = *mine };
        sendto(line, &answer, sizeof answer, MSG_NOSIGNAL, (struct sockaddr *)&from, size);
        return true;
    }
    peers[l.from].answered = true;
    peers[l.from].at = l.at;
    peers[l.from].at.where[sizeof l.at.where - 1] = peers[l.from].at.what[sizeof l.at.what - 1] = 0;
    peers[l.from].at.waits[sizeof l.at.waits - 1] = 0;
    return true;
}

void fl_peers_tell(void)
{
    struct letter l = { .run = run_number, .from = fl_rank_number, .kind = TOLD };
    atomic_store(&told, true);
    for (int r = 0; contacts && r < nrank; r++)
        ask_one(r, &l);
}

bool fl_peers_told(void) { return atomic_load(&told); }

void fl_peers_answer(const struct fl_standing *mine, int milliseconds)
{
    double end = now() + 1e-3 * milliseconds;
    for (double left = end - now(); left > 0; left = end - now()) {
        struct pollfd p = { .fd = line, .events = POLLIN };
        poll(&p, 1, (int)(1e3 * left) + 1);
        while (line >= 0 && take(mine))
            ;
    }
}

/* What the process table says of it: 'X' when it is gone. */
static char state_of(int64_t pid)
{
    char path[48], text[256];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    read_text(path, false, text, sizeof text);
    const char *end = strrchr(text, ')');
    return !end || !end[1] ? 'X' : end[2] == 'Z' ? 'X' : end[2] == 't' ? 'T' : end[2];
}

struct fl_peer *fl_peers_ask(const struct fl_standing *mine, int milliseconds)
{
    double end = now() + 1e-3 * milliseconds;
    struct letter question = { .run = run_number, .from = fl_rank_number, .kind = QUESTION };
    for (int r = 0; r < nrank; r++) {
        peers[r] = (struct fl_peer){ .pid = contacts[r].pid };
        memcpy(peers[r].host, contacts[r].host, sizeof peers[r].host);
        if (!strcmp(contacts[r].machine, contacts[fl_rank_number].machine))
            peers[r].state = state_of(contacts[r].pid);
    }
    peers[fl_rank_number].answered = true;
    peers[fl_rank_number].at = *mine;
    for (int open = nrank; open > 0 && now() < end;) {
        open = 0;
        for (int r = 0; r < nrank; r++)
            if (!peers[r].answered && peers[r].state != 'X' && peers[r].state != 'T') {
                ask_one(r, &question);
                open++;
            }
        double until = now() + 1e-3 * PAUSE;
        while (open && now() < until && now() < end) {
            fl_peers_answer(mine, 10);
            open = 0;
            for (int r = 0; r < nrank; r++)
                open += !peers[r].answered && peers[r].state != 'X' && peers[r].state != 'T';
        }
    }
    return peers;
}
