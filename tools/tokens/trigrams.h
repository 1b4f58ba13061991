#ifndef TOKENS_TRIGRAMS_H
#define TOKENS_TRIGRAMS_H
#include <stddef.h>
/* Mean of -ln p over the held-out bytes but for the first two, of a table counted on the others; NAN without memory. */
double trigram_loss(const unsigned char *train, size_t n, const unsigned char *held, size_t m);
#endif
