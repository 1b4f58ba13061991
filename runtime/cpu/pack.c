/* Packing of operands: lines of words along k become panels of some columns, or rows of a side by side. What is transposed is
 * turned on the way, in squares of a vector's length; short types without a kernel are widened. */
#include "pack.h"

enum form fl_form_of(enum fl_type t)
{
#ifdef __AVX512BF16__
    if (t == FL_BF16)
        return PAIRS;
#endif
    return t == FL_F32 ? PLAIN : WIDENED;
}

/* n elements of a line from `at`, as words; two elements in a word have a zero behind an odd number. */
static void words(float *to, const struct operand *o, int64_t line, int64_t at, int64_t n)
{
    const void *from = fl_element(o->p, o->type, line * o->ld + at);
    if (o->form != WIDENED) {
        memcpy(to, from, (size_t)(n * fl_type_bytes(o->type)));
        if (o->form == PAIRS && n % 2)
            memset((char *)to + 2 * n, 0, 2);
        return;
    }
    fl_load_row(to, from, o->type, 1, n);
    if (o->type != FL_BF16)
        return;
    to[n] = 0;
    for (int64_t i = 0; i < n; i += 2) {             /* in the order of VDPBF16PS */
        float first = to[i];
        to[i] = to[i + 1];
        to[i + 1] = first;
    }
}

/* Entry k of n lines that lie one behind the other: to[0 .. n) are words k0 + k of columns c0 .. c0 + n. */
static void line_of_words(float *to, const struct operand *o, int64_t k, int64_t limit, int64_t c0, int64_t n)
{
    if (o->form == PLAIN && n % LANES == 0) {
        for (int64_t i = 0; i < n; i += LANES)
            *(loose *)(to + i) = *(const loose *)((const float *)o->p + k * o->ld + c0 + i);
        return;
    }
    if (o->form == PLAIN) {
        memcpy(to, (const float *)o->p + k * o->ld + c0, (size_t)n * sizeof(float));
        return;
    }
    if (o->form == WIDENED) {
        int64_t l = o->type == FL_BF16 ? k ^ 1 : k;
        if (l < limit)
            fl_load_row(to, fl_element(o->p, o->type, l * o->ld + c0), o->type, 1, n);
        else
            memset(to, 0, (size_t)n * sizeof(float));
        return;
    }
    const uint16_t *first = (const uint16_t *)o->p + 2 * k * o->ld + c0, *second = first + o->ld;
    bool both = 2 * k + 1 < limit;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = first[i] | (both ? (uint32_t)second[i] << 16 : 0);
        memcpy(to + i, &word, sizeof word);
    }
}

int64_t fl_words_of(const struct operand *o, int64_t k)
{
    return o->form == PAIRS ? (k + 1) / 2 : o->form == WIDENED && o->type == FL_BF16 ? (k + 1) / 2 * 2 : k;
}

/* The LANES by LANES words at x, lines `step` apart, turned, to lines `width` apart at y. */
static void turn(float *y, const float *x, int64_t step, int64_t width)
{
    vec line[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        line[i] = *(const loose *)(x + i * step);
        __builtin_prefetch(x + i * step + 32);       /* more lines than a processor follows by itself */
    }
#pragma GCC unroll 4
    for (int s = 1; s < LANES; s *= 2) {             /* blocks of s by s beside the diagonal change places */
        places low, high;
#pragma GCC unroll 16
        for (int j = 0; j < LANES; j++) {
            low[j] = j & s ? j - s + LANES : j;
            high[j] = j & s ? j + LANES : j + s;
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (!(i & s)) {
                vec top = line[i], bottom = line[i + s];
                line[i] = __builtin_shuffle(top, bottom, low);
                line[i + s] = __builtin_shuffle(top, bottom, high);
            }
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        *(vec *)(y + i * width) = line[i];
}

/* Some lines at a time across all panels: where lines are far apart, a panel's width of each is too little to be fetched ahead. */
static void pack_lines(float *to, const struct operand *o, int64_t k0, int64_t k, int64_t c0, int64_t n, int64_t width)
{
    enum { LINES = 8 };
    int64_t depth = fl_words_of(o, k);
    struct operand here = *o;
    here.p = fl_element(o->p, o->type, k0 * o->ld);
    for (int64_t some = 0; some < depth; some += LINES)
        for (int64_t p = 0; p < n; p += width)
            for (int64_t d = some; d < fl_least(some + LINES, depth); d++) {
                float *line = to + p * depth + d * width;
                int64_t columns = fl_least(width, n - p);
                line_of_words(line, &here, d, k, c0 + p, columns);
                for (int64_t j = columns; j < width; j++)
                    line[j] = 0;
            }
}

void fl_pack_columns(float *to, const struct operand *o, bool turned, int64_t k0, int64_t k, int64_t c0, int64_t n, int64_t width,
                     float *room)
{
    if (!turned) {
        pack_lines(to, o, k0, k, c0, n, width);
        return;
    }
    int64_t depth = fl_words_of(o, k);
    for (int64_t p = 0; p < n; p += width, to += depth * width) {
        int64_t columns = fl_least(width, n - p);
        bool direct = o->form == PLAIN && columns == width;
        const float *from = room;
        int64_t step = LINE;
        if (direct) {
            from = (const float *)o->p + (c0 + p) * o->ld + k0;
            step = o->ld;
        } else {
            for (int64_t j = 0; j < columns; j++)
                words(room + j * LINE, o, c0 + p + j, k0, k);
            for (int64_t j = columns; j < width; j++)
                memset(room + j * LINE, 0, (size_t)depth * sizeof(float));
        }
        int64_t whole = depth / LANES * LANES;
        for (int64_t d = 0; d < whole; d += LANES)
            for (int64_t v = 0; v < width; v += LANES)
                turn(to + d * width + v, from + v * step + d, step, width);
        for (int64_t d = whole; d < depth; d++)
            for (int64_t j = 0; j < width; j++)
                to[d * width + j] = from[j * step + d];
    }
}

void fl_pack_rows(float *to, const struct operand *o, bool turned, int64_t k0, int64_t k, int64_t r0, int64_t rows,
                  int64_t row)
{
    if (!turned) {
        for (int64_t i = 0; i < rows; i++)
            words(to + i * row, o, r0 + i, k0, k);
        return;
    }
    int64_t depth = fl_words_of(o, k);
    struct operand here = *o;
    here.p = fl_element(o->p, o->type, k0 * o->ld);
    float line[GROUP * ROWS] = { 0 };
    bool whole = o->form == PLAIN && rows == GROUP * ROWS;
    for (int64_t d = 0; d < depth; d++) {
        const float *from = line;
        if (whole) {
            from = (const float *)here.p + d * o->ld + r0;
            for (int64_t i = 0; i < GROUP * ROWS; i += 16)           /* each line may be on a page of its own */
                __builtin_prefetch(from + SOON * o->ld + i);
        } else
            line_of_words(line, &here, d, k, r0, rows);
        for (int64_t p = 0; p < GROUP * ROWS && p < rows; p += ROWS)
            memcpy(to + p * row + d * ROWS, from + p, ROWS * sizeof(float));
    }
}
