/* See tensorboard.h. Protocol buffers: a field is its number and wire type in one varint, then a varint (0), eight
 * bytes (1), length and bytes (2) or four bytes (5), all little-endian. */
#include "tensorboard.h"
#include "check.h"
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static FILE *file;
static char *name;
static double flushed;

/* CRC-32C: polynomial 0x1edc6f41, reflected. */
static uint32_t crc32c(const unsigned char *p, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        uint32_t x = i;
        for (int bit = 0; bit < 8; bit++)
            x = x >> 1 ^ (x & 1 ? 0x82f63b78u : 0);
        table[i] = x;
    }
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
    return ~crc;
}

static uint32_t masked(const unsigned char *p, size_t n)
{
    uint32_t crc = crc32c(p, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- messages ---- */

struct message { unsigned char *p; size_t n, room; };

static void put(struct message *m, const void *p, size_t n)
{
    if (m->n + n > m->room) {
        m->room = 2 * (m->n + n);
        m->p = realloc(m->p, m->room);
        if (!m->p)
            FL_FAIL(NULL, "out of memory");
    }
    memcpy(m->p + m->n, p, n);
    m->n += n;
}

static void put_little(struct message *m, uint64_t x, int bytes)
{
    unsigned char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(x >> 8 * i);
    put(m, b, (size_t)bytes);
}

static void put_varint(struct message *m, uint64_t x)
{
    for (; x >= 128; x >>= 7)
        put_little(m, (x & 127) | 128, 1);
    put_little(m, x, 1);
}

enum { VARINT, EIGHT, BYTES, FOUR = 5 };
static void put_key(struct message *m, int field, int wire) { put_varint(m, (uint64_t)(field << 3 | wire)); }

static void put_bytes(struct message *m, int field, const void *p, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    put(m, p, n);
}

/* Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7. */
static void put_event(double step, int field, const void *p, size_t n)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    union { double d; uint64_t u; } wall = { (double)t.tv_sec + 1e-9 * (double)t.tv_nsec };
    struct message m = { 0 }, record = { 0 };
    put_key(&m, 1, EIGHT);
    put_little(&m, wall.u, 8);
    put_key(&m, 2, VARINT);
    put_varint(&m, (uint64_t)step);
    put_bytes(&m, field, p, n);
    put_little(&record, m.n, 8);
    put_little(&record, masked(record.p, 8), 4);
    put(&record, m.p, m.n);
    put_little(&record, masked(m.p, m.n), 4);
    bool fine = fwrite(record.p, 1, record.n, file) == record.n;
    double now = MPI_Wtime();
    if (now - flushed > 1) {
        fine &= !fflush(file);
        flushed = now;
    }
    if (!fine) {
        fl_report_note("cannot write %s any more: %s", name, strerror(errno));
        fclose(file);
        file = NULL;
    }
    free(m.p);
    free(record.p);
}

/* Summary: value 1, repeated; Value: tag 1, simple_value 2. */
static void put_scalar(struct message *summary, const char *tag, double x)
{
    struct message v = { 0 };
    union { float f; uint32_t u; } simple = { (float)x };
    put_bytes(&v, 1, tag, strlen(tag));
    put_key(&v, 2, FOUR);
    put_little(&v, simple.u, 4);
    put_bytes(summary, 1, v.p, v.n);
    free(v.p);
}

static void put_summary(int64_t step, struct message *summary)
{
    put_event((double)step, 5, summary->p, summary->n);
    free(summary->p);
}

/* ---- files ---- */

char *fl_tensorboard_start(const char *folder, int64_t done)
{
    static const char version[] = "brain.Event:2";
    char host[64] = "";
    if (!folder)
        return NULL;
    gethostname(host, sizeof host - 1);
    name = fl_printf("%s/events.out.tfevents.%010lld.%s.%d", folder, (long long)time(NULL), host, (int)getpid());
    if ((mkdir(folder, 0777) && errno != EEXIST) || !(file = fopen(name, "wb")))
        return fl_printf("--tensorboard: cannot write into %s: %s", folder, strerror(errno));
    put_event(0, 3, version, strlen(version));
    /* SessionLog: status START; readers drop what they have from this step on, as the metrics do */
    static const unsigned char start[] = { 1 << 3 | VARINT, 1 };
    put_event((double)done + 1, 7, start, sizeof start);
    return NULL;
}

void fl_tensorboard_step(const struct fl_report_step *s)
{
    struct message m = { 0 };
    if (!file)
        return;
    if (s->has_loss)
        put_scalar(&m, "train/loss", s->loss);
    if (s->has_norm)
        put_scalar(&m, "train/grad_norm", s->norm);
    put_scalar(&m, "train/lr", s->lr);
    put_scalar(&m, "speed/tokens_per_s", s->tokens_per_s);
    put_scalar(&m, "speed/step_s", s->seconds);
    if (isfinite(s->mfu))
        put_scalar(&m, "speed/mfu", s->mfu);
    if (s->load) {
        put_scalar(&m, "speed/comm_share", s->load->comm);
        put_scalar(&m, "speed/use_share", s->load->use);
        put_scalar(&m, "speed/memory_share", s->load->memory);
    }
    put_summary(s->step, &m);
}

void fl_tensorboard_evaluation(const struct fl_report_evaluation *e)
{
    struct message m = { 0 };
    if (!file)
        return;
    put_scalar(&m, "eval/loss", e->loss);
    if (e->tokens)
        put_scalar(&m, "eval/perplexity", exp(e->loss));
    for (int i = 0; i < e->nmetric; i++) {
        char *tag = fl_printf("eval/%s", e->name[i]);
        put_scalar(&m, tag, e->value[i]);
        free(tag);
    }
    put_summary(e->step, &m);
}

void fl_tensorboard_stop(void)
{
    if (file && fclose(file))
        fl_report_note("cannot write %s any more: %s", name, strerror(errno));
    file = NULL;
    free(name);
    name = NULL;
}
