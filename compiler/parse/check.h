/* Nodes whose making needs a check that the grammar leaves to C, so that the message can be precise. */
#ifndef FLOWC_CHECK_H
#define FLOWC_CHECK_H
#include "scan.h"

struct ast *deep(struct scan *s, struct ast *a);         /* gives up when the tree grows too high to recur on */
struct ast *add_all(struct ast *list, struct ast *kid, struct span span);  /* a LIST (dim A = 1, B = 2) is added kid by kid; NULL not at all */
void add_kids_of(struct ast *to, struct ast *list);

struct ast *number_node(struct span at, const char *text);
struct ast *quantity_node(struct scan *s, struct span at, const char *number, const char *unit);
struct ast *bytes(struct scan *s, struct ast *quantity); /* checks that its unit is one of bytes */
struct ast *memory_node(struct scan *s, struct span at, struct ast *quantity, struct span word_span, const char *word);
struct ast *link_node(struct scan *s, struct span at, struct span which_span, const char *which, struct ast *bandwidth,
                      struct ast *latency);

struct ast *call_node(struct scan *s, struct span at, struct ast *callee, struct ast *arguments);
struct ast *index_node(struct span at, struct ast *of, struct ast *indices);
struct ast *label_node(struct scan *s, struct span at, struct ast *label, struct ast *of);
struct ast *assign_node(struct scan *s, struct span at, struct ast *targets, struct ast *value);
struct ast *unused_value(struct scan *s, struct span at, struct ast *values);

struct ast *layout_node(struct scan *s, struct span at, struct ast *axes, struct span kind_span, const char *kind,
                        struct ast *argument);
struct ast *times_node(struct scan *s, struct span at, struct ast *value, struct span x_span, const char *x,
                       struct ast *count);
struct ast *shard_node(struct scan *s, struct span at, struct span what_span, const char *what, struct ast *axes);
struct ast *offload_node(struct scan *s, struct span at, struct ast *what, struct span to_span, const char *to,
                         struct span host_span, const char *host);
struct ast *keep_node(struct scan *s, struct span at, struct span a_span, const char *a, struct span b_span, const char *b);
struct ast *expect_node(struct span at, struct ast *pattern, struct ast *conditions, struct ast *comparison);
struct ast *compare_node(struct span at, const char *how, struct span name_span, const char *name, struct ast *axes,
                         struct ast *count);
struct ast *optional_node(struct scan *s, struct span at, struct span word_span, const char *word, struct span text_span,
                          const char *text);
struct ast *transpose_node(struct span at);
#endif
