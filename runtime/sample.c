/* Sampling, token by token: the prompt and what followed it so far fill the first sequence (and all others), the model
 * runs, and the logits at the last token are drawn from. The draw is counter-based, so that every plan draws the same.
 * A text longer than the model's sequence slides through it. Tokens are bytes where the vocabulary has at most 256. */
#include "sample.h"
#include "check.h"
#include "fl_random.h"
#include "outputs.h"
#include "reader.h"
#include "target.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Draws from softmax(logits / temperature) among the top_k largest; u in (0, 1). */
static int32_t draw(const float *logits, int64_t n, double temperature, int64_t top_k, double u)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    if (temperature <= 0)
        return (int32_t)best;
    float least = -INFINITY;
    if (top_k > 0 && top_k < n) {
        float *sorted = fl_alloc(n * (int64_t)sizeof(float));
        memcpy(sorted, logits, (size_t)n * sizeof(float));
        qsort(sorted, (size_t)n, sizeof(float), compare);
        least = sorted[top_k - 1];
        free(sorted);
    }
    double sum = 0, reached = 0;
    for (int64_t i = 0; i < n; i++)
        if (logits[i] >= least)
            sum += exp((logits[i] - logits[best]) / temperature);
    for (int64_t i = 0; i < n; i++)
        if (logits[i] >= least) {
            reached += exp((logits[i] - logits[best]) / temperature);
            if (u * sum < reached)
                return (int32_t)i;
        }
    return (int32_t)best;
}

/* Length of the UTF-8 sequence of a printable character beyond ASCII that starts at s, or 0. */
static int64_t utf8(const int32_t *s, int64_t n)
{
    int64_t length = s[0] >= 0xf0 && s[0] < 0xf8   ? 4
                     : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                                   : 0;
    int32_t code = length ? s[0] & (0x7f >> length) : 0;
    for (int64_t i = 1; i < length; i++) {
        if (i >= n || (s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    bool overlong = (length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10ffff));
    return code < 0xa0 || overlong || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

/* Text as it is; bytes that a terminal might act on, or that are no text, as \xNN. */
static void print_bytes(const int32_t *s, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t length = utf8(s + i, n - i);
        if (length == 0 && (s[i] == '\n' || s[i] == '\t' || (s[i] >= 32 && s[i] < 127)))
            length = 1;
        if (length == 0)
            printf("\\x%02x", (unsigned)s[i++]);
        for (; length > 0; length--)
            putchar(s[i++]);
    }
}

static void print_ids(const int32_t *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        printf("%s%d", i ? " " : "", s[i]);
}

void fl_sample(struct fl_run *run, int64_t done)
{
    int64_t length = 0;                              /* positions in a sequence */
    for (int k = 0; k < fl_program.ninput; k++) {
        const struct fl_tensor *t = &fl_program.input[k].tensor;
        if (fl_program.input[k].entry == FL_SAMPLE && t->ndim && t->dim[t->ndim - 1].size > length)
            length = t->dim[t->ndim - 1].size;
    }
    const char *name = fl_program.sample_output ? fl_program.sample_output : "logits";
    int64_t n = fl_outputs_row(FL_SAMPLE, name, 0);
    if (!run->rank->class_->entry[FL_SAMPLE] || !length || !n)
        FL_FAIL("write `output logits` in the model", "sampling needs an input of tokens and the output %s", name);
    const char *prompt = fl_program.sample_prompt ? fl_program.sample_prompt : "\n";
    int64_t prompt_length = fl_program.sample_prompt && fl_program.sample_prompt_bytes >= 0
                                ? fl_program.sample_prompt_bytes
                                : (int64_t)strlen(prompt);
    int64_t total = prompt_length + fl_program.sample_tokens;
    int32_t *ids = fl_alloc((total + 1) * (int64_t)sizeof(int32_t));
    int64_t have = 0;
    for (int64_t i = 0; i < prompt_length; i++)
        if ((uint8_t)prompt[i] < n)
            ids[have++] = (uint8_t)prompt[i];
    if (have == 0)
        ids[have++] = 0;
    uint64_t key = fl_key(run->step.seed, fl_hash("sample"));
    for (int64_t made = 0; made < fl_program.sample_tokens; made++) {
        int64_t first = have > length ? have - length : 0;
        fl_reader_context(ids + first, have - first);
        fl_outputs_row(FL_SAMPLE, name, have - first - 1);
        fl_outputs_run(run, FL_SAMPLE);
        double u = fl_uniform(key, done, 0, (uint64_t)made);
        ids[have++] = draw(fl_outputs_row_values(), n, fl_program.sample_temperature, fl_program.sample_top_k, u);
    }
    fl_outputs_row(FL_SAMPLE, NULL, 0);
    fl_reader_context(NULL, 0);
    if (fl_rank_number == 0) {
        printf("sample after step %lld:\n", (long long)done);
        (n <= 256 ? print_bytes : print_ids)(ids, have);
        printf("\n");
        fflush(stdout);
    }
    free(ids);
}
