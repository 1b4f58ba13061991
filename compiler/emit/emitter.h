/* What the files of emit share. A stage's text is made in three streams that are joined at the end: tensor macros,
 * kernels, functions. Inside a function the text may name
 *     run, arena, k       the running program, the arena, the rank's constants
 *     mb                  the running micro-batch (0 in phases that run once)
 *     b1, b2 ..           the block of each repeat around, counted from the stage's first
 * and tensor macros pick these up from the scope in which they are used. */
#ifndef FLOWC_EMIT_EMITTER_H
#define FLOWC_EMIT_EMITTER_H
#include "../layout/place.h"
#include "../op.h"
#include "../passes.h"

struct seen { const struct node *node; enum entry entry; enum phase phase; };
struct emitter {
    struct module *m;
    struct physical *p;
    struct stage *s;
    FILE *tensors, *kernels, *functions;
    bool *named, *named_next, *named_before;     /* by value id: has its macro */
    enum entry entry;
    enum phase phase;
    int indent;
    const struct node *gathered; /* the last of calls that have been written, which fl_gathered makes, and it has not; or NULL */
    const struct node *post;     /* the box_post whose collective is being written, block by block; or NULL */
    bool each_block;             /* a collective over a stack is being written as one for each block */
    struct seen *seen;           /* stb_ds array: by number of FL_SEE */
    const char **gone;           /* stb_ds array */
};

/* names.c: text from the source that can never break out of what it is put in */
const char *c_name(const struct value *v);                     /* "h_attn_y_41" */
const char *c_string(const char *s);                           /* quoted; NULL when s is NULL */
const char *c_comment(const char *s);                          /* for use inside a comment */

/* tensor.c */
const char *tensor_name(struct emitter *e, const struct value *v);            /* defines its macro at first use */
const char *tensor_next(struct emitter *e, const struct value *v, int step);  /* the same of block b + step */
void emit_slots(struct emitter *e);                            /* before all others: which slot a micro-batch has in a pool */
bool in_memory(const struct value *v);                         /* false: a number written where it is read */
struct sym block_elements(const struct buffer *b);             /* from one block to the next */

/* line.c: one call a line, tagged with its source line */
void line(struct emitter *e, const struct node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
void plain(struct emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void copy_line(struct emitter *e, const struct node *n, const char *to, const struct value *like, const char *from,
               const struct value *source);

/* kernel.c, contract.c, reduce.c, call.c, comm.c */
void emit_elementwise(struct emitter *e, const struct node *n);
void emit_rows(struct emitter *e, const struct node *n);       /* rows.c */
void emit_product(struct emitter *e, const struct node *n, const char *const *letters);   /* one loop nest */
void emit_einsum(struct emitter *e, const struct node *n);
void emit_sum(struct emitter *e, const struct node *n);
void emit_call(struct emitter *e, const struct node *n);
bool emit_boxing(struct emitter *e, const struct node *n);     /* true: n was a boxing op */
bool emit_offload(struct emitter *e, const struct node *n);    /* copies between host memory and the arena */
void emit_ahead(struct emitter *e, const struct region *body, int step);       /* starts the gathers of block b + step */
bool emit_strided(struct emitter *e, const struct node *n);    /* stack, concat, slice_grad, copies of views */

/* wide.c */
void emit_kernel(struct emitter *e, const struct node *n);     /* a sum, a product or a call, on f32 copies where it needs them */
const char *type_word(enum type t);                            /* "FL_BF16" */
const char *type_suffix(enum type t);                          /* of a function for tensors of the type: "", "_bf16" */

/* see.c, see_table.c: the hook behind each node */
void emit_see(struct emitter *e, const struct node *n);
void emit_see_gathered(struct emitter *e, const struct node *n);
void emit_see_hidden(struct emitter *e, const struct node *n);       /* in front of n: what is fused into it */
void emit_see_table(struct emitter *e, FILE *to);

/* class.c, step.c */
void emit_phases(struct emitter *e);                           /* a function per phase and chunk of every entry */
const char *phase_function(const struct emitter *e, enum entry entry, enum phase f, int chunk);   /* its name */
void emit_steps(struct emitter *e);                            /* a function per entry: one whole step */
void emit_class(struct module *m, int stage, FILE *to);

/* program.c, rank.c, plan_json.c */
void emit_program(struct module *m, FILE *to);
void emit_class_table(struct emitter *e, FILE *to);
const char *tensor_text(const struct mesh *mesh, const char *path, enum type type, int ndim, struct dim *const *dim,
                        const struct layout *lay);             /* a struct fl_tensor */
void emit_rank(struct module *m, int rank, FILE *to);
void emit_ranks(struct module *m, FILE *to);
void emit_plan_json(struct module *m, FILE *to);
int output_index(const struct module *m, enum entry entry, const char *name);   /* in fl_program.output */
int input_index(const struct module *m, enum entry entry, const char *name);

/* user_ops.c */
struct user_op;
bool user_op_used(const struct module *m, const struct user_op *u);
void emit_user_header(struct module *m, FILE *to);
#endif
