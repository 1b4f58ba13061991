/* The checks over the whole table of ops; each returns the number of failures. `only`: an op's name, or NULL. */
#ifndef FLOWC_TEST_CHECKS_H
#define FLOWC_TEST_CHECKS_H
#include "instances.h"

/* Operands become arguments of the root region; the node is appended. NULL when its shape rule refuses it. */
struct node *instance_node(struct graph *g, const struct instance *i);
void start_anew(void);                                   /* gives all memory back */
/* One sample through all of the gate; adds up what was tried. True when it passed. */
extern bool gate_exact;              /* false: what holds without being declared is told, and no failure */
struct gate_counts { long exact, two_axes, claims; int skipped; };
bool gate_sample(const struct instance *i, bool thorough, struct gate_counts *c);
int gate_all(const char *only, bool thorough);      /* thorough: two axes on larger samples as well */
int mutants_all(const char *only, bool thorough);
int gradient_all(const char *only);
int table_all(const char *only);
#endif
