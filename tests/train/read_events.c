/* read_events FILE: an event file of TensorBoard as lines "step tag value", "version ..", "start STEP". Shares
 * nothing with what writes it: CRC-32C bit by bit, any fields in any order; ends with 1 at the first byte that does
 * not fit. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *what, long at)
{
    fprintf(stderr, "FAILED: %s, at byte %ld\n", what, at);
    exit(1);
}

static uint32_t crc(const unsigned char *p, size_t n)
{
    uint32_t x = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        x ^= p[i];
        for (int k = 0; k < 8; k++)
            x = (x & 1) ? (x >> 1) ^ 0x82f63b78 : x >> 1;
    }
    return x ^ 0xffffffff;
}

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t x = 0;
    while (n-- > 0)
        x = x << 8 | p[n];
    return x;
}

static int fits(const unsigned char *p, size_t n, const unsigned char *stored)
{
    uint32_t mask = (uint32_t)little(stored, 4) - 0xa282ead8u;
    return crc(p, n) == (mask >> 17 | mask << 15);
}

struct part { const unsigned char *p, *end; };
struct field { unsigned number, wire; uint64_t value; struct part bytes; };

static uint64_t varint(struct part *m)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (m->p == m->end)
            fail("a number ends early", 0);
        x |= (uint64_t)(*m->p & 127) << shift;
        if (*m->p++ < 128)
            return x;
    }
    fail("a number has no end", 0);
}

static int next(struct part *m, struct field *f)
{
    if (m->p == m->end)
        return 0;
    uint64_t key = varint(m);
    size_t n = 0;
    *f = (struct field){(unsigned)(key >> 3), (unsigned)(key & 7), 0, {m->p, m->p}};
    if (f->wire == 0) {
        f->value = varint(m);
        return 1;
    }
    n = f->wire == 1 ? 8 : f->wire == 5 ? 4 : f->wire == 2 ? varint(m) : SIZE_MAX;
    if (n > (size_t)(m->end - m->p))
        fail("a field ends early, or has no such type", 0);
    f->bytes = (struct part){m->p, m->p + n};
    f->value = f->wire == 2 ? 0 : little(m->p, (int)n);
    m->p += n;
    return 1;
}

static void read_summary(struct part m, long long step)
{
    struct field f, g;
    while (next(&m, &f)) {
        struct part v = f.bytes, tag = {0};
        float x = 0;
        int has = 0;
        if (f.number != 1 || f.wire != 2)
            fail("a summary has values only", 0);
        while (next(&v, &g)) {
            uint32_t bits = (uint32_t)g.value;
            if (g.number == 1 && g.wire == 2)
                tag = g.bytes;
            if (g.number == 2 && g.wire == 5) {
                memcpy(&x, &bits, 4);
                has = 1;
            }
        }
        if (!tag.p || !has)
            fail("a value without tag or number", 0);
        printf("%lld %.*s %.9g\n", step, (int)(tag.end - tag.p), (const char *)tag.p, x);
    }
}

static void read_event(struct part m)
{
    struct field f;
    struct part summary = {0}, version = {0}, session = {0};
    double wall = 0;
    long long step = 0;
    while (next(&m, &f)) {
        if (f.number == 1 && f.wire == 1)
            memcpy(&wall, &f.value, 8);
        else if (f.number == 2 && f.wire == 0)
            step = (long long)f.value;
        else if (f.wire == 2)
            *(f.number == 3 ? &version : f.number == 5 ? &summary : &session) = f.bytes;
    }
    if (wall < 1e9 || wall > 1e11)
        fail("no wall time", 0);
    if (version.p)
        printf("version %.*s\n", (int)(version.end - version.p), (const char *)version.p);
    if (summary.p)
        read_summary(summary, step);
    if (session.p && next(&session, &f) && f.number == 1 && f.value == 1)
        printf("start %lld\n", step);
}

int main(int argc, char **argv)
{
    static unsigned char data[1 << 24];
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!f)
        return 2;
    long n = (long)fread(data, 1, sizeof data, f), at = 0;
    fclose(f);
    while (at < n) {
        if (n - at < 16)
            fail("a record ends early", at);
        uint64_t length = little(data + at, 8);
        if (!fits(data + at, 8, data + at + 8))
            fail("the length's checksum is wrong", at);
        if (length > (uint64_t)(n - at - 16))
            fail("a record ends early", at);
        if (!fits(data + at + 12, length, data + at + 12 + length))
            fail("the data's checksum is wrong", at);
        read_event((struct part){data + at + 12, data + at + 12 + length});
        at += (long)length + 16;
    }
    return 0;
}
