/* Random programs. generate() writes a well-formed program from a seed; trial() puts a program through all passes and
 * compares all ranks with one rank in a process of its own, so that whatever it does is an outcome; shrink() makes a
 * faulty program smaller while it stays faulty in the same way. */
#ifndef FLOWC_RANDOM_H
#define FLOWC_RANDOM_H
#include <stdbool.h>
#include <stdint.h>

/* malloc; the program's text, one statement a line. views: as views.c says. */
char *generate(uint64_t seed, bool views);

enum judgement {
    VERDICT_EQUAL, VERDICT_REJECTED,                  /* as it should be */
    VERDICT_WRONG,                                    /* compiles to other numbers */
    VERDICT_BUG,                                      /* BUG() */
    VERDICT_CRASH,                                    /* a signal, or a sanitizer's report */
    VERDICT_HANG,                                     /* waits without end */
    VERDICT_SLOW,                                     /* more than 20 s of CPU time */
    VERDICT_MUTE,                                     /* stopped without a word, or by a pass that has no say */
    VERDICTS
};
extern const char *const verdict_name[VERDICTS];

struct outcome {
    enum judgement verdict;
    int code;                                         /* rejected: the number of the first diagnostic */
    char kind[200];                                   /* what tells this fault from others: the BUG's place */
    char text[3000];                                  /* what was said */
    int ranks, microbatches;
    bool degenerate;                                  /* equal, but the numbers were infinite: says little */
};
extern const int summary_every;                       /* programs between two summaries of a run */
void trial(const char *text, struct outcome *o);
bool outcome_same(const struct outcome *a, const struct outcome *b);
char *shrink(const char *text, const struct outcome *fault);   /* malloc */
#endif
