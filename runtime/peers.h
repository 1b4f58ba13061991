/* What the watchdogs of all ranks tell each other, beside MPI, which may be what hangs: each has a UDP socket. */
#ifndef FL_PEERS_H
#define FL_PEERS_H
#include <stdbool.h>
#include <stdint.h>

/* Where a rank is. waits: for whom, or empty when it waits for nobody; quiet: seconds since anything moved there; still:
 * those of them in which it waited. */
struct fl_standing { char where[96], what[128], waits[96]; double still, quiet; };
struct fl_peer {
    bool answered;
    char state;                          /* of the process, if seen from here: 'T' stopped, 'X' gone; else 0 */
    struct fl_standing at;
    char host[64];
    int64_t pid;
};
void fl_peers_start(void);               /* all ranks, with MPI */
void fl_peers_stop(void);
int fl_peers_count(void);                /* ranks; for the watchdog's thread, which must not ask MPI */
/* Tells all that this rank has said what is to be said: nobody else reports. Then, on this rank or another: was it
 * so? */
void fl_peers_tell(void);
bool fl_peers_told(void);
/* In the watchdog's thread only. Answers what is asked, for so many milliseconds. */
void fl_peers_answer(const struct fl_standing *mine, int milliseconds);
/* Asks all; waits for so many milliseconds at most. Gives one entry for each rank, its own included. */
struct fl_peer *fl_peers_ask(const struct fl_standing *mine, int milliseconds);
#endif
