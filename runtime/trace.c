/* Collecting spans, and writing them: rank 0 gets each rank's part in turn and puts all of them into one file,
 * written beside and renamed. Clocks of ranks differ by what skew.c measures just before. */
#include "trace.h"
#include "agree.h"
#include "check.h"
#include "options.h"
#include "report.h"
#include "safetensors.h"
#include "skew.h"
#include "target.h"
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool fl_tracing;

struct span {
    const char *where, *what;
    double start, end;
    int track, microbatch;
    int64_t step;
    enum fl_trace_what kind;
};
static struct span *spans;
static int64_t nspan, room, dropped;
enum { MOST = 1 << 20 };                 /* of a rank: 72 MiB */

static const char **tracks;              /* names from FL_TRACK_FIRST on */
static int ntrack;
static const char *name;                 /* of the file; NULL: nothing to write, or no longer */
static int64_t first, last;
static double began;
static const struct fl_run *running;
static const char *const categories[] = { "step", "compute", "communication", "wait", "input" };

int fl_trace_track(const char *text)
{
    tracks = realloc(tracks, (size_t)(ntrack + 1) * sizeof *tracks);
    if (!tracks)
        FL_FAIL(NULL, "out of memory");
    tracks[ntrack] = text;
    return FL_TRACK_FIRST + ntrack++;
}

int fl_trace_microbatch(void) { return running ? running->step.microbatch : 0; }

void fl_trace_add(int track, enum fl_trace_what kind, const char *where, const char *what, int microbatch, double start,
                  double end)
{
    if (nspan == MOST) {
        dropped++;
        return;
    }
    if (nspan == room) {
        room = room ? 2 * room : 1024;
        spans = realloc(spans, (size_t)room * sizeof *spans);
        if (!spans)
            FL_FAIL("trace fewer steps (--trace-steps)", "out of memory");
    }
    spans[nspan++] = (struct span){ where, what, start, end, track, microbatch, running->step.step, kind };
}

void fl_trace_call(double start, double end)
{
    const char *where, *what, *waits;
    fl_markers(&where, &what, &waits);
    fl_trace_add(FL_TRACK_COMPUTE, FL_TRACE_COMM, where, what, fl_trace_microbatch(), start, end);
}

void fl_trace_input(double seconds)
{
    double now = MPI_Wtime();
    fl_trace_add(FL_TRACK_COMPUTE, FL_TRACE_INPUT, "", "waiting for data", fl_trace_microbatch(), now - seconds, now);
}

void fl_trace_start(const struct fl_options *o, int64_t from, int64_t to)
{
    char *complaint = o->trace && !fl_rank_number ? fl_st_refuse(o->trace) : NULL;
    fl_agree(complaint ? fl_printf("--trace: %s", complaint) : NULL);
    name = to > from ? o->trace : NULL;
    first = from;
    last = to;
    if (o->trace && !name)
        fl_report_note("--trace: there is no step to trace, %s is not written", o->trace);
}

void fl_trace_step(const struct fl_run *run)
{
    running = run;
    fl_tracing = name && run->step.step >= first && run->step.step < last;
    began = fl_tracing ? MPI_Wtime() : 0;
}

/* ---- the file ---- */

static void text(FILE *to, const char *s, size_t n)
{
    fputc('"', to);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

static void name_row(FILE *to, int track, const char *s)
{
    fprintf(to, "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": ",
            fl_rank_number, track);
    text(to, s, strlen(s));
    fprintf(to,
            "}},\n{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %d, \"tid\": %d, \"args\": "
            "{\"sort_index\": %d}},\n",
            fl_rank_number, track, track);
}

/* "rank 3: dp 1, tp 1 on host-b" */
static void name_rank(FILE *to, const struct fl_skew *skew)
{
    char host[64] = "", line[512];
    gethostname(host, sizeof host - 1);
    int n = snprintf(line, sizeof line, "rank %d", fl_rank_number);
    for (int a = 0, shown = 0; a < fl_program.naxis && n < 300; a++)
        if (a != fl_program.mb && fl_program.axis_size[a] > 1)
            n += snprintf(line + n, sizeof line - (size_t)n, "%s %s %d", shown++ ? "," : ":", fl_program.axis_name[a],
                          running->rank->coord[a]);
    snprintf(line + n, sizeof line - (size_t)n, " on %s", host);
    fprintf(to, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": ", fl_rank_number);
    text(to, line, strlen(line));
    fprintf(to,
            "}},\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, \"args\": {\"sort_index\": %d}},\n",
            fl_rank_number, fl_rank_number);
    fprintf(to,
            "{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": %d, \"args\": {\"labels\": \"clock %+.1f us, "
            "within %.1f us\"}},\n",
            fl_rank_number, 1e6 * skew->offset, 1e6 * skew->within);
}

static void write_span(FILE *to, const struct span *s, double zero)
{
    const char *where = s->where ? s->where : s->what, *what = s->what;
    size_t n = strlen(where);
    if (!s->where) {                                 /* "gpt.flow:22 h[*].attn.y", or a value without a line */
        const char *space = strchr(what, ' ');
        n = space ? (size_t)(space - what) : 0;
        what = space ? space + 1 : what;
    }
    double start = s->start - zero;
    fprintf(to, ",\n{\"ph\": \"X\", \"name\": ");
    text(to, what, strlen(what));
    fprintf(to, ", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"step\": %lld",
            categories[s->kind], fl_rank_number, s->track, 1e6 * start, 1e6 * (s->end - s->start),
            (long long)s->step + 1);
    if (s->kind != FL_TRACE_STEP)
        fprintf(to, ", \"microbatch\": %d", s->microbatch);
    if (n) {
        fprintf(to, ", \"line\": ");
        text(to, where, n);
    }
    fprintf(to, "}}");
}

/* This rank's part: its names, then its spans. zero: time 0 of the file by this rank's clock. */
static char *part(const struct fl_skew *skew, double zero, size_t *bytes)
{
    char *all = NULL;
    FILE *to = open_memstream(&all, bytes);
    if (!to)
        FL_FAIL("trace fewer steps (--trace-steps)", "out of memory");
    name_rank(to, skew);
    for (int t = 0; t < ntrack; t++)
        name_row(to, FL_TRACK_FIRST + t, tracks[t]);
    name_row(to, FL_TRACK_COMPUTE, "compute");
    fprintf(to, "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"steps\"}}",
            fl_rank_number, FL_TRACK_STEP);
    for (int64_t i = 0; i < nspan; i++)
        write_span(to, &spans[i], zero);
    if (fclose(to))
        FL_FAIL("trace fewer steps (--trace-steps)", "out of memory");
    return all;
}

enum { TAG = 11, CHUNK = 1 << 28 };

static void send_part(const char *from, size_t bytes)
{
    long long n = (long long)bytes;
    FL_MPI(MPI_Send(&n, 1, MPI_LONG_LONG, 0, TAG, MPI_COMM_WORLD));
    for (size_t at = 0; at < bytes; at += CHUNK)
        FL_MPI(MPI_Send(from + at, (int)(bytes - at < CHUNK ? bytes - at : CHUNK), MPI_CHAR, 0, TAG, MPI_COMM_WORLD));
}

static char *receive_part(int rank, size_t *bytes)
{
    long long n;
    FL_MPI(MPI_Recv(&n, 1, MPI_LONG_LONG, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    char *to = fl_alloc(n);
    *bytes = (size_t)n;
    for (size_t at = 0; at < *bytes; at += CHUNK)
        FL_MPI(MPI_Recv(to + at, (int)(*bytes - at < CHUNK ? *bytes - at : CHUNK), MPI_CHAR, rank, TAG, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    return to;
}

static void merge(char *own, size_t bytes)
{
    char *beside = fl_printf("%s.part", name);
    FILE *to = fopen(beside, "w");
    bool fine = to != NULL;
    if (fine) {
        fprintf(to, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"program\": ");
        text(to, fl_program.name, strlen(fl_program.name));
        fprintf(to, ", \"plan\": ");
        text(to, fl_program.plan, strlen(fl_program.plan));
        fprintf(to, ", \"target\": \"%s\"},\n\"traceEvents\": [\n", fl_target_name);
        fine = fwrite(own, 1, bytes, to) == bytes;
    }
    for (int r = 1; r < fl_program.nranks; r++) {
        char *text_of_r = receive_part(r, &bytes);
        fine = fine && fprintf(to, ",\n") > 0 && fwrite(text_of_r, 1, bytes, to) == bytes;
        free(text_of_r);
    }
    fine = fine && fprintf(to, "\n]}\n") > 0;
    fine = (!to || !fclose(to)) && fine && !rename(beside, name);
    if (!fine) {                         /* no reason to end a run */
        fl_report_note("cannot write %s: %s", name, strerror(errno));
        remove(beside);
    }
    free(beside);
}

static void write_file(void)
{
    fl_at("behind the last traced step", "writing the trace");
    fl_waiting("all ranks");
    struct fl_skew skew = fl_skew_measure(MPI_COMM_WORLD, MPI_Wtime);
    double mine = nspan ? spans[0].start - skew.offset : 1e300, zero;
    for (int64_t i = 0; i < nspan; i++)
        mine = spans[i].start - skew.offset < mine ? spans[i].start - skew.offset : mine;
    FL_MPI(MPI_Allreduce(&mine, &zero, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
    size_t bytes;
    char *own = part(&skew, zero + skew.offset, &bytes);
    if (fl_rank_number)
        send_part(own, bytes);
    else
        merge(own, bytes);
    free(own);
    fl_waiting(NULL);
    if (dropped)
        fl_report_note("the trace lacks %lld spans of rank 0: trace fewer steps (--trace-steps)", (long long)dropped);
    free(spans);
    spans = NULL;
    nspan = room = 0;
    name = NULL;
}

void fl_trace_stepped(void)
{
    if (!fl_tracing)
        return;
    fl_trace_add(FL_TRACK_STEP, FL_TRACE_STEP, "", fl_printf("step %lld", (long long)running->step.step + 1), 0, began,
                 MPI_Wtime());
    fl_tracing = false;
    if (running->step.step + 1 == last)
        write_file();
}

void fl_trace_stop(void)
{
    if (name && running && running->step.step >= first)
        write_file();
    free(tracks);
    tracks = NULL;
    ntrack = 0;
}
