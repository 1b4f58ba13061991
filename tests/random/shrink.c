/* Makes a faulty program smaller: statements go, blocks go whole or lose their frame, numbers become smaller, as long
 * as the fault stays the same. What no longer compiles is no loss: the trial says so, and the change is taken back. */
#define _GNU_SOURCE
#include "random.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 400 };

struct lines { char *at[LINES]; int count; };

static struct lines split(const char *text)
{
    struct lines l = {.count = 0};
    while (*text && l.count < LINES) {
        size_t n = strcspn(text, "\n");
        l.at[l.count++] = strndup(text, n);
        text += n + (text[n] == '\n');
    }
    return l;
}

static char *join(const struct lines *l, const bool *left_out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    for (int i = 0; i < l->count; i++)
        if (!left_out || !left_out[i])
            fprintf(to, "%s\n", l->at[i]);
    fclose(to);
    return text;
}

static bool still(const char *text, const struct outcome *fault)
{
    struct outcome o;
    trial(text, &o);
    return outcome_same(&o, fault);
}

/* The line that closes the block which line `at` opens; `at` when it opens none. */
static int block_end(const struct lines *l, int at)
{
    int depth = 0;
    for (int i = at; i < l->count; i++) {
        for (const char *p = l->at[i]; *p; p++)
            depth += (*p == '{') - (*p == '}');
        if (depth <= 0)
            return i;
    }
    return at;
}

/* Tries one change of the whole text; keeps it when the fault stays. */
static bool keep_if(char **text, char *changed, const struct outcome *fault)
{
    if (strcmp(*text, changed) && still(changed, fault)) {
        free(*text);
        *text = changed;
        return true;
    }
    free(changed);
    return false;
}

static bool drop_lines(char **text, const struct outcome *fault)
{
    bool smaller = false;
    for (int i = 0;; i++) {
        struct lines l = split(*text);
        if (i >= l.count)
            return smaller;
        bool out[LINES] = {false};
        int end = block_end(&l, i);
        for (int k = i; k <= end; k++)
            out[k] = true;
        if (keep_if(text, join(&l, out), fault)) {
            smaller = true;
            i--;
            continue;
        }
        if (end > i) {                                /* the frame alone */
            memset(out, 0, sizeof out);
            out[i] = out[end] = true;
            smaller |= keep_if(text, join(&l, out), fault);
        }
    }
}

/* Replaces [begin, end) of the text. */
static char *with(const char *text, size_t begin, size_t end, const char *by)
{
    char *changed = NULL;
    if (asprintf(&changed, "%.*s%s%s", (int)begin, text, by, text + end) < 0)
        exit(2);
    return changed;
}

static bool shrink_numbers(char **text, const struct outcome *fault)
{
    bool smaller = false;
    for (size_t i = 0; (*text)[i]; i++) {
        char *t = *text;
        if (!isdigit((unsigned char)t[i]) || (i && (isalnum((unsigned char)t[i - 1]) || strchr("_.[", t[i - 1]))))
            continue;
        size_t end = i;
        while (isdigit((unsigned char)t[end]))
            end++;
        int n = atoi(t + i);
        if (t[end] == '.' || n < 2 || n > 20)
            continue;
        for (int k = 1; k < n; k++) {
            char by[16];
            snprintf(by, sizeof by, "%d", k);
            if (keep_if(text, with(t, i, end, by), fault)) {
                smaller = true;
                break;
            }
        }
    }
    return smaller;
}

/* Calls of one operand by their operand, sums and products by their left side, parts of layouts by nothing. */
static bool shrink_expressions(char **text, const struct outcome *fault)
{
    bool smaller = false;
    for (size_t i = 0; (*text)[i]; i++) {
        char *t = *text;
        if (t[i] == '(') {
            size_t name = i, close = i;
            int depth = 0;
            while (name && (isalnum((unsigned char)t[name - 1]) || t[name - 1] == '_'))
                name--;
            do
                depth += (t[close] == '(') - (t[close] == ')');
            while (t[close++] && depth > 0);
            size_t comma = i + 1;
            for (int d = 0; comma < close - 1 && (d || t[comma] != ','); comma++)
                d += (t[comma] == '(' || t[comma] == '[') - (t[comma] == ')' || t[comma] == ']');
            char *operand = strndup(t + i + 1, comma - i - 1);
            smaller |= keep_if(text, with(t, name, close, operand), fault);
            free(operand);
        } else if (t[i] == ' ' && strchr("+-*", t[i + 1]) && t[i + 1] && t[i + 2] == ' ') {
            size_t end = i + strcspn(t + i, "\n");
            smaller |= keep_if(text, with(t, i, end, ""), fault);
        } else if (t[i] == ',' && t[i + 1] == ' ') {
            size_t end = i + 1 + strcspn(t + i + 1, ",}\n");
            smaller |= keep_if(text, with(t, i, end, ""), fault);
        }
    }
    return smaller;
}

char *shrink(const char *text, const struct outcome *fault)
{
    char *t = strdup(text);
    for (bool more = fault->verdict != VERDICT_HANG && fault->verdict != VERDICT_SLOW; more;) {        /* each try would take the whole time limit */
        more = drop_lines(&t, fault);
        more |= shrink_expressions(&t, fault);
        more |= shrink_numbers(&t, fault);
    }
    return t;
}
