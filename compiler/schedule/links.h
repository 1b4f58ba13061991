/* Register slots at the two ends of every link, and when a slot of the receiving end is free again. */
#ifndef FLOWC_LINKS_H
#define FLOWC_LINKS_H
#include "../physical.h"

void links_slots(struct physical *p);                /* sets slots_sent and slots_received; saved_slots must be known */
/* The phase whose run for a micro-batch frees the slot of the value received for it. */
enum phase link_last_reader(const struct physical *p, const struct link *l);
#endif
