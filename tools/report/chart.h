/* A chart as inline SVG: curves over steps, axes with round numbers, a legend. Well-formed XML too. */
#ifndef FLOW_REPORT_CHART_H
#define FLOW_REPORT_CHART_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct curve {
    const char *name;                    /* of the legend */
    double *x, *y;                       /* x grows; a y that is not finite breaks the line */
    size_t n, room;
    int colour;                          /* 0 .. CHART_COLOURS - 1 */
    bool dots;                           /* few points: each is marked */
};
enum { CHART_COLOURS = 6 };
extern const char chart_style[];         /* CSS that charts count on */

void curve_add(struct curve *c, double x, double y);
void curve_free(struct curve *c);
/* Nothing where no curve has a finite point. log: the y axis is logarithmic, where all values are
 * positive and far apart. */
void chart_write(FILE *to, const char *title, const char *unit, const struct curve *const *curves, size_t n, bool log);
void chart_text(FILE *to, const char *s);            /* escaped */
#endif
