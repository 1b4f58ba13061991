/* The state of the packing search, between the set-up with its portfolio of orders (pack.c) and the search. */
#ifndef FLOWC_ALLOCATE_SEARCH_H
#define FLOWC_ALLOCATE_SEARCH_H
#include "../base/mem.h"
#include <stdbool.h>
#include <stdint.h>

enum { ORDERS = 5 };             /* in which equal candidates are tried */

struct box {                     /* an item in the search */
    int from, to;                /* sections [from, to) */
    int rank;                    /* place in the order in which candidates are tried */
    int twin;                    /* a box of the same life and size that is placed before this one; or -1 */
    int64_t size, low;           /* lowest offset that what is placed allows */
    int64_t offset;              /* -1: not placed */
    int *near;                   /* stb_ds array: boxes that share a section */
    double length;               /* of its life */
};
struct section {
    int64_t rest;                /* bytes of its boxes not placed */
    int64_t floor;               /* their lowest low */
    int across;                  /* boxes not placed that live in this section and the one before */
    int *boxes;                  /* stb_ds array */
    double failed[ORDERS];       /* how often it was full too early, by order; older failures weigh less */
};
struct range { int from, to; };
struct undo { bool is_floor; int index; int64_t old; };
struct trial { double key[3]; int box; };
struct packer {
    int n, nsection;
    struct box *boxes;
    struct section *sections;
    int64_t capacity, nodes;     /* nodes left */
    int order;                   /* of orders, the one under way */
    double most_failed;          /* of its sections, at the start */
    struct range blame;          /* the sections to which the last failure is due */
    struct undo *undo;           /* stb_ds array */
    struct trial *trials;        /* scratch */
    int *pool;                   /* stack of box lists */
    int64_t pool_used;
};

/* Places the boxes of list, which live in sections [from, to); on false nothing of it stays placed: there is no way, or
 * p->nodes is below 0. */
bool search_parts(struct packer *p, const int *list, int count, int from, int to);
void take(struct packer *p, int index);              /* a box out of its place */
#endif
