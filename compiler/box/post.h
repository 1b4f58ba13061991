/* Collectives in two points: a box_post where their operands are ready, the wait where the collective stands. */
#ifndef FLOWC_POST_H
#define FLOWC_POST_H
#include "../physical.h"

void stage_post(struct physical *p, struct stage *s);            /* after stage_clean: makes the posts of train */
struct node **stage_posts(const struct stage *s);                 /* in the order of their numbers; stb_ds array */
int64_t post_times(const struct node *n);                        /* how often it is made in a step */
int64_t post_bytes(const struct physical *p, const struct node *n);      /* of one block's operands */
bool post_each(const struct node *n);                             /* in every micro-batch, not in the last one only? */
bool post_possible(const struct stage *s, const struct value *v);        /* is v made where a post may stand? */
/* Does post n start anything once this block of its repeat is done? Then the blocks from *first to *end (exclusive). */
bool post_due(const struct node *n, int64_t block, int64_t *first, int64_t *end);
#endif
