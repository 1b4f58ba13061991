/* A yardstick for models of bytes: a table of trigrams, smoothed by interpolation with bigrams and single bytes (each with
 * weight 2, Witten-Bell style). A model that looks back no further than two bytes cannot be much better. */
#include "trigrams.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

double trigram_loss(const unsigned char *train, size_t n, const unsigned char *held, size_t m)
{
    uint32_t *three = calloc(1u << 24, sizeof *three), *two = calloc(1u << 16, sizeof *two);
    uint32_t one[256] = {0}, before_one[256] = {0}, *before_two = calloc(1u << 16, sizeof *before_two);
    if (!three || !two || !before_two)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        one[train[i]]++;
        if (i >= 1) {
            two[train[i - 1] << 8 | train[i]]++;
            before_one[train[i - 1]]++;
        }
        if (i >= 2) {
            unsigned context = train[i - 2] << 8 | train[i - 1];
            three[context << 8 | train[i]]++;
            before_two[context]++;
        }
    }
    double sum = 0;
    for (size_t i = 2; i < m; i++) {
        unsigned a = held[i - 2], b = held[i - 1], c = held[i];
        double p1 = (one[c] + 1.0) / ((double)n + 256);
        double p2 = (two[b << 8 | c] + 2 * p1) / (before_one[b] + 2.0);
        double p3 = (three[(a << 8 | b) << 8 | c] + 2 * p2) / (before_two[a << 8 | b] + 2.0);
        sum -= log(p3);
    }
    free(three);
    free(two);
    free(before_two);
    return sum / (double)(m - 2);
}
