/* Compares a compiled program with its own logical graph. */
#ifndef FLOWC_RANDOM_COMPARE_H
#define FLOWC_RANDOM_COMPARE_H
#include "interpret/interpret.h"
#include "module.h"
#include <stdbool.h>

/* Loss, norm, metrics, weights and states of every rank. Differences go to stderr; returns how many there were.
 * huge_numbers: what was compared was beyond all bounds, and equal says little. */
int compare_program(struct module *m, bool *huge_numbers);

/* undivided.c: the same program without micro-batches, where its plan is one without them. */
void compare_undivided(struct module *m);
bool compare_numbers(const char *what, double x, double y, double scale);    /* true: they differ, and it is said */
void compare_give(struct graph *g, struct run *a, struct run *b);            /* inputs of a step for both */

/* What a trial compiles with, and what it does with a program that has passed all passes but emit: an enum judgement, and
 * what tells a fault from others in o->kind. compared.c: compare_program(); emitted.c: emits, builds and runs it. */
struct outcome;
struct options judge_options(void);
int judge(struct module *m, struct outcome *o);

extern bool compare_all_ignored;         /* inputs with an ignore value hold nothing else */
#endif
