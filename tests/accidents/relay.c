/* relay NET_A NAME_A NET_B NAME_B DELAY_MS LOST_PERCENT: a link between two networks of this machine whose packets take their time
 * and of which some are lost, at random but the same ones each time. Makes a tap device in either network and carries
 * packets between them until it is killed; then says how many it has carried and lost. For kernels without netem. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 8192, LARGEST = 2048 };    /* packets on the way; more of them are lost as well */

struct packet { double due; int to; ssize_t n; char data[LARGEST]; };
static struct packet way[ROOM];
static long first, behind, carried, lost;
static volatile sig_atomic_t stopped;

static void stop(int number) { (void)number, stopped = 1; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int tap(const char *net, const char *name)
{
    char path[128];
    struct ifreq r = { .ifr_flags = IFF_TAP | IFF_NO_PI };
    snprintf(path, sizeof path, "/run/netns/%s", net);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    int place = open(path, O_RDONLY), f = -1;
    if (place < 0 || setns(place, CLONE_NEWNET) || (f = open("/dev/net/tun", O_RDWR | O_NONBLOCK)) < 0 || ioctl(f, TUNSETIFF, &r)) {
        perror(path);
        exit(1);
    }
    close(place);
    return f;
}

static bool loses(double percent)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;             /* xorshift */
    return (double)(s >> 11) / 9007199254740992.0 * 100 < percent;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    double delay = atof(argv[5]) * 1e-3, percent = atof(argv[6]);
    struct pollfd end[2] = { { .fd = tap(argv[1], argv[2]), .events = POLLIN }, { .fd = tap(argv[3], argv[4]), .events = POLLIN } };
    signal(SIGTERM, stop);
    puts("ready");
    fflush(stdout);
    while (!stopped) {
        double left = first < behind ? way[first % ROOM].due - now() : 1;
        struct timespec t = { .tv_nsec = left <= 0 ? 0 : left >= 0.9 ? 900000000 : (long)(left * 1e9) };
        ppoll(end, 2, &t, NULL);
        for (int i = 0; i < 2; i++)
            for (;;) {
                struct packet *p = &way[behind % ROOM];
                char rest[LARGEST];
                bool full = behind - first == ROOM;
                ssize_t n = read(end[i].fd, full ? rest : p->data, LARGEST);
                if (n <= 0)
                    break;
                if (full || loses(percent)) {
                    lost++;
                    continue;
                }
                p->due = now() + delay;
                p->to = !i;
                p->n = n;
                behind++;
            }
        for (; first < behind && way[first % ROOM].due <= now(); first++) {
            const struct packet *p = &way[first % ROOM];
            carried += write(end[p->to].fd, p->data, (size_t)p->n) == p->n;
        }
    }
    printf("%ld carried, %ld lost\n", carried, lost);
    return 0;
}
