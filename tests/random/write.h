/* What the parts of the generator share: the text under way, and the values a statement may use. */
#ifndef FLOWC_RANDOM_WRITE_H
#define FLOWC_RANDOM_WRITE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MAX_RANK = 5, MAX_VALUES = 200, MAX_TARGETS = 120, NAME = 16, LABEL = 64 };
enum kind { KIND_FLOAT, KIND_INDEX, KIND_BOOL };

/* A dim of the program, or one without a name (name 0), which is its size. */
struct size { char name; int n; bool padded; };

struct item {                    /* a value in scope */
    char name[NAME];
    enum kind kind;
    int nd;
    struct size d[MAX_RANK];
    bool param;
    bool used;
    bool normal;                 /* of a softmax or a norm: its plain sum over the same dims is one number everywhere */
};

struct target {                  /* something a layout line may name */
    char pattern[LABEL];
    int nd;
    struct size d[MAX_RANK];
    bool param, input;
};

struct layer {                   /* f32[N, T, D] to the same; what a line may name under a call's label */
    char name;
    struct target *target;
    int targets;
};

struct writer {
    FILE *to;
    uint64_t state;
    bool views;                      /* the setting of views.c: shorter meshes, more repeats, and all values read */
    int indent, names, labels;
    struct size N, T, D, H, K, F, V, G;
    struct item item[MAX_VALUES];    /* in scope, innermost last */
    int items;
    struct target target[MAX_TARGETS];
    int targets;
    struct layer layer[3];
    int layers;
    bool in_layer;
    bool no_params;                  /* no statement may declare one now */
    char cut[LABEL], cut_value[NAME];    /* label of a repeat that a pipeline can cut, what it makes, and its blocks */
    int blocks;
};

/* write.c */
unsigned pick(struct writer *w, unsigned below);
bool chance(struct writer *w, unsigned percent);
void write_line(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void shape_text(char *to, const struct item *v);                        /* "N, T, 3" */
void axes_text(char *to, const struct item *v, unsigned keep, const char *otherwise);   /* ":, :, otherwise" */
bool same_size(struct size a, struct size b);
bool same_shape(const struct item *a, const struct item *b);
int find_dim(const struct item *v, char name);                          /* -1: none */
bool distinct(const struct item *v);                                    /* no dim twice, all with names */
struct item *add_item(struct writer *w, enum kind kind, int nd, const struct size *d);  /* a fresh name v7 */
struct item *add_param(struct writer *w, int nd, const struct size *d); /* writes the declaration too */
void add_target(struct writer *w, const char *name, int nd, const struct size *d, bool param, bool input);
struct item *any(struct writer *w, enum kind kind);                     /* a random one, the latest more often; NULL */
struct item *any_like(struct writer *w, bool (*fits)(const struct item *v));

/* operations.c: writes one statement that defines a value; false when none fitted */
bool write_operation(struct writer *w);
bool is(struct writer *w, enum kind kind, int nd, const struct size *d, const char *text);   /* `vN = text`; true */
const char *axis_text(struct writer *w, const struct item *v, int at);  /* by name or by number */
int any_axis(struct writer *w, const struct item *v);
/* moves.c: the same, one kind each */
bool write_reshape(struct writer *w);
bool write_transpose(struct writer *w);
bool write_slice(struct writer *w);
bool write_join(struct writer *w);
bool write_along(struct writer *w);
bool write_mark(struct writer *w);
bool write_embed(struct writer *w);
bool write_projection(struct writer *w, const struct item *v, int nd, const struct size *d);
/* model.c */
void write_model(struct writer *w);
void rebind(struct writer *w, const char *name);                        /* from now on the name has several versions */
/* views.c: `x = ..` of x, f32[N, T, D], and one of the first `outer` items; false when that is none it knows */
bool write_view(struct writer *w, const char *x, int outer);
void write_swap(struct writer *w, const char *x, int outer);
void write_unread(struct writer *w, const char *x, int from);           /* adds what of the items from there on is unread */
/* plan.c */
void write_plan(struct writer *w);
#endif
