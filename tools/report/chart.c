/* See chart.h. However many steps there are, a curve has at most two points for each column of the picture: the
 * least and the largest value that fall into it, so that no spike is lost. */
#include "chart.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 280, LEFT = 70, RIGHT = 16, TOP = 52, BOTTOM = 34, COLUMNS = WIDTH - LEFT - RIGHT };

const char chart_style[] =
    "svg { display: block; width: 100%; height: auto; max-width: 760px; }\n"
    "svg text { font: 12px system-ui, sans-serif; fill: var(--text); }\n"
    ".frame { fill: none; stroke: var(--line); } .grid { stroke: var(--grid); }\n"
    ".curve { fill: none; stroke-width: 1.5; stroke-linejoin: round; } .lost { stroke: #d1242f; stroke-width: 2; }\n"
    ".c0 { stroke: #0969da; } .c1 { stroke: #bc4c00; } .c2 { stroke: #1a7f37; } .c3 { stroke: #8250df; } .c4 { stroke: "
    "#9a6700; }"
    " .c5 { stroke: #bf3989; }\n"
    "circle { fill: var(--page); stroke-width: 1.5; }\n";

void curve_add(struct curve *c, double x, double y)
{
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->x = realloc(c->x, c->room * sizeof *c->x);
        c->y = realloc(c->y, c->room * sizeof *c->y);
        if (!c->x || !c->y) {
            fprintf(stderr, "flow-report: out of memory\n");
            exit(1);
        }
    }
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

void curve_free(struct curve *c)
{
    free(c->x);
    free(c->y);
    *c = (struct curve){0};
}

void chart_text(FILE *to, const char *s)
{
    for (; *s; s++)
        if (*s == '&')
            fputs("&amp;", to);
        else if (*s == '<')
            fputs("&lt;", to);
        else if (*s == '>')
            fputs("&gt;", to);
        else if (*s == '"')
            fputs("&quot;", to);
        else if ((unsigned char)*s >= 0x20)
            fputc(*s, to);
}

struct range { double low, high; bool log; };

static double scaled(const struct range *r, double v)
{
    double low = r->log ? log10(r->low) : r->low, high = r->log ? log10(r->high) : r->high;
    return ((r->log ? log10(v) : v) - low) / (high - low);
}

static double px(const struct range *r, double x) { return LEFT + COLUMNS * scaled(r, x); }
static double py(const struct range *r, double y) { return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * scaled(r, y); }

/* 1, 2 or 5 times a power of ten, so that about `wish` of them fit. */
static double round_step(double width, int wish)
{
    double raw = width / wish, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

/* "12k", "3.5M", "0.002": short and exact enough for a tick. */
static const char *tick_text(char *text, size_t n, double v)
{
    double a = fabs(v);
    if (a >= 1e9)
        snprintf(text, n, "%.4gG", v / 1e9);
    else if (a >= 1e6)
        snprintf(text, n, "%.4gM", v / 1e6);
    else if (a >= 1e4)
        snprintf(text, n, "%.4gk", v / 1e3);
    else
        snprintf(text, n, "%.4g", a < 1e-15 ? 0 : v);
    return text;
}

static void y_tick(FILE *to, const struct range *r, double v)
{
    char text[32];
    double y = py(r, v);
    fprintf(to,
            "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
            "text-anchor=\"end\">%s</text>\n",
            LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, tick_text(text, sizeof text, v));
}

static void axes(FILE *to, const struct range *x, const struct range *y)
{
    char text[32];
    double step;
    if (y->log)
        for (double v = pow(10, floor(log10(y->low))); v <= y->high; v *= 10)
            for (int lead = 1; lead <= 5; lead += lead == 1 ? 1 : 3)     /* 1, 2, 5 */
                if (v * lead >= y->low && v * lead <= y->high)
                    y_tick(to, y, v * lead);
    step = round_step(y->high - y->low, 5);
    for (double k = ceil(y->low / step); !y->log && k * step <= y->high; k++)
        y_tick(to, y, k * step);
    step = fmax(1, round_step(x->high - x->low, 8));
    for (double k = ceil(x->low / step); k * step <= x->high; k++)
        fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", px(x, k * step),
                HEIGHT - BOTTOM + 18, tick_text(text, sizeof text, k * step));
    fprintf(to, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP, COLUMNS,
            HEIGHT - TOP - BOTTOM);
}

/* Through the least and the largest value of each column, in the order in which they come. */
static void path(FILE *to, const struct curve *c, const struct range *x, const struct range *y)
{
    bool pen = false;
    fprintf(to, "<path class=\"curve c%d\" d=\"", c->colour);
    for (size_t i = 0; i < c->n;) {
        size_t low = i, high = i, end = i;
        if (!isfinite(c->y[i])) {
            pen = false;
            i++;
            continue;
        }
        for (int column = (int)px(x, c->x[i]); end < c->n && isfinite(c->y[end]) && (int)px(x, c->x[end]) == column;
             end++) {
            low = c->y[end] < c->y[low] ? end : low;
            high = c->y[end] > c->y[high] ? end : high;
        }
        size_t first = low < high ? low : high, second = low < high ? high : low;
        fprintf(to, "%c%.1f %.1f", pen ? 'L' : 'M', px(x, c->x[first]), py(y, c->y[first]));
        if (second != first)
            fprintf(to, "L%.1f %.1f", px(x, c->x[second]), py(y, c->y[second]));
        pen = true;
        i = end;
    }
    fprintf(to, "\"/>\n");
    for (size_t i = 0; i < c->n && c->n <= 200 && c->dots; i++)
        if (isfinite(c->y[i])) {
            char text[32];
            fprintf(to,
                    "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"><title>step %.0f: %s</title></circle>\n",
                    c->colour, px(x, c->x[i]), py(y, c->y[i]), c->x[i], tick_text(text, sizeof text, c->y[i]));
        }
    int last = -1;
    for (size_t i = 0; i < c->n; i++)
        if (!isfinite(c->y[i]) && (int)px(x, c->x[i]) != last) {
            last = (int)px(x, c->x[i]);
            fprintf(to,
                    "<line class=\"lost\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"><title>step %.0f: not "
                    "finite</title></line>\n",
                    last, last, HEIGHT - BOTTOM - 8, HEIGHT - BOTTOM, c->x[i]);
        }
}

/* Below the title, from the left. */
static void legend(FILE *to, const struct curve *const *curves, size_t n)
{
    double at = LEFT;
    for (size_t k = 0; k < n; k++) {
        if (!*curves[k]->name)
            continue;
        fprintf(to, "<line class=\"curve c%d\" x1=\"%.1f\" x2=\"%.1f\" y1=\"38\" y2=\"38\"/><text x=\"%.1f\" y=\"42\">",
                curves[k]->colour, at, at + 16, at + 20);
        chart_text(to, curves[k]->name);
        fputs("</text>\n", to);
        at += 6.5 * (double)strlen(curves[k]->name) + 34;
    }
}

void chart_write(FILE *to, const char *title, const char *unit, const struct curve *const *curves, size_t n, bool log)
{
    struct range x = {1e300, -1e300, false}, y = {1e300, -1e300, false};
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < curves[k]->n; i++) {
            x.low = fmin(x.low, curves[k]->x[i]);
            x.high = fmax(x.high, curves[k]->x[i]);
            if (isfinite(curves[k]->y[i])) {
                y.low = fmin(y.low, curves[k]->y[i]);
                y.high = fmax(y.high, curves[k]->y[i]);
            }
        }
    if (y.low > y.high)
        return;
    x.high = x.high > x.low ? x.high : x.low + 1;
    y.log = log && y.low > 0 && y.high > 20 * y.low;      /* else there would be few ticks */
    if (y.log) {
        y.low /= 1.1;
        y.high *= 1.1;
    } else {
        double margin = y.high > y.low ? 0.05 * (y.high - y.low) : 0.05 * fabs(y.high) + 1e-12;
        y.low = y.low >= 0 && y.low < margin ? 0 : y.low - margin;
        y.high += margin;
    }
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n<title>", WIDTH, HEIGHT);
    chart_text(to, title);
    fprintf(to, "</title>\n<text x=\"%d\" y=\"20\" font-weight=\"bold\">", LEFT);
    chart_text(to, title);
    if (*unit) {
        fputs(" (", to);
        chart_text(to, unit);
        fputc(')', to);
    }
    fputs("</text>\n", to);
    axes(to, &x, &y);
    for (size_t k = 0; k < n; k++)
        path(to, curves[k], &x, &y);
    legend(to, curves, n);
    fputs("</svg>\n", to);
}
