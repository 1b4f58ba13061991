/* Slots at the two ends of every link. */
#ifndef FLOWC_LINKS_H
#define FLOWC_LINKS_H
#include "../physical.h"

void links_slots(struct physical *p);                /* sets slots_sent and slots_received */
void links_widen(struct physical *p);                /* more slots where the order would hang for want of them */
#endif
