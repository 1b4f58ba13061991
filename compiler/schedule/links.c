/* Slots at the two ends of a link. The runtime copies between a slot and the value's own place at box_send and box_recv,
 * so a slot is held for one message's way only: with two, one message is under way while the next is made, or while the
 * one before is read. */
#include "links.h"
#include "../module.h"

enum { MESSAGES = 2 };

void links_slots(struct physical *p)
{
    int m = (int)p->module->plan->microbatches;
    for (int i = 0; i < arrlen(p->links); i++) {
        struct link *l = &p->links[i];
        l->slots_sent = l->slots_received = phase_per_microbatch(l->phase) && m > 1 ? MESSAGES : 1;
    }
}
