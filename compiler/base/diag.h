/* Diagnostics. Shape: error[E0312]: fact / --> file:line:col / source line with ^~~~ and labels / note: / help:.
 * The fact is in the user's words, lower case, no full stop, and stands alone; advice goes only in help. At most eight
 * lines each. Codes live in diag.def, and nowhere else. Several errors per run, none twice, stop at 20.
 *
 *     struct diag *d = diag_error(E_UNKNOWN_NAME, span, "unknown name 'wieght'");
 *     diag_label(d, other_span, "declared here");
 *     diag_help(d, "did you mean 'weight'?");
 *
 * They are collected and printed by diag_print, sorted by place. The compiler goes on after an error where it can;
 * every pass starts only when diag_errors() is 0. */
#ifndef FLOWC_DIAG_H
#define FLOWC_DIAG_H
#include "source.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum diag_code {
#define DIAG(code, number, title) code,
#include "diag.def"
#undef DIAG
    DIAG_CODES
};

struct diag;

struct diag *diag_error(enum diag_code code, struct span at, const char *fact, ...) __attribute__((format(printf, 3, 4)));
struct diag *diag_warning(enum diag_code code, struct span at, const char *fact, ...) __attribute__((format(printf, 3, 4)));
void diag_mark(struct diag *d, const char *label, ...) __attribute__((format(printf, 2, 3)));     /* text beside the caret of the main place */
void diag_label(struct diag *d, struct span at, const char *label, ...) __attribute__((format(printf, 3, 4)));  /* a second place */
void diag_note(struct diag *d, const char *text, ...) __attribute__((format(printf, 2, 3)));
void diag_help(struct diag *d, const char *text, ...) __attribute__((format(printf, 2, 3)));

/* "note: .." in a line of its own after all diagnostics: a fact that needs no mending. As JSON of severity "note". */
void diag_remark(const char *text, ...) __attribute__((format(printf, 1, 2)));

int diag_errors(void);                               /* errors so far */
void diag_print(FILE *to, bool json);                /* prints and forgets everything collected */
void diag_bug_json(const char *fact);                /* a bug_handler: says it on stderr as one object, exits with 70 */
void diag_reset(void);
/* Between hold and drop, diagnostics are set aside and forgotten: for a look at a program that the user did not write. */
struct diag_held { struct diag **collected; const char **remarks; int errors; };
struct diag_held diag_hold(void);
const char *diag_first(void);                        /* "E0601: fact" of the first error so far, or NULL */
int diag_drop(struct diag_held before);              /* the errors there were meanwhile */
int diag_explain(FILE *to, const char *code);        /* --explain-error: the page of "E0312"; 0 when found */

const char *diag_clean(const char *text);             /* one line of UTF-8, whatever bytes it was */

/* The candidate nearest to name within edit distance 2, or NULL. candidates: stb_ds array. */
const char *suggest(const char *name, const char **candidates);

/* "1, 2, 3, 6": the divisors of n, upwards, a dozen at most; quick for any n. */
const char *divisors_text(int64_t n);
#endif
