/* Private to compiler/elaborate: how a program's text becomes a module. Each file owns one idea:
 *
 *     names.c         the program's own names: dims, consts, layers, the model, plans; imports and --set
 *     dims.c          dim and const expressions
 *     scope.c         what a name means inside a body, labels and paths
 *     expr.c          expressions to nodes          call.c   calls of ops      index.c  x[..]
 *     layer.c         calls of layers: label.c their paths, header.c their arguments, body.c their statements
 *     repeat.c        carried names                 params.c param, state, inputs
 *     state.c         updates of states
 *     denominators.c  counts that are still open
 *     mesh.c plan.c   the chosen plan               train.c data.c files.c     the other blocks
 *     once.c          what may be said once only
 *     data_check.c    every input has its data
 *     match.c         every pattern matches something
 *     unmatched.c     and what was meant where none does
 *     cut.c           repeats in pieces, where patterns name some blocks only
 *
 * After a user error an expression is ITEM_POISON, or a function returns NULL or false: whoever gets that stays
 * silent, so that one mistake gives one message and the rest of the program is still checked. */
#ifndef FLOWC_ELABORATE_H
#define FLOWC_ELABORATE_H
#include "base/diag.h"
#include "module.h"
#include "op.h"
#include "passes.h"

/* ---- names.c ---- */

enum decl_kind { DECL_DIM, DECL_CONST, DECL_LAYER, DECL_MODEL, DECL_OP };
enum decl_state { DECL_FRESH, DECL_BUSY, DECL_READY, DECL_BAD };
struct decl {
    enum decl_kind kind;
    const char *name;
    struct ast *ast;
    enum decl_state state;
    struct dim *dim;             /* DECL_DIM */
    struct op *op;               /* DECL_OP */
    double num;                  /* DECL_CONST, and the size of a dim */
    bool calling;                /* a layer whose body is being elaborated: a second call is a recursion */
    struct span call;            /* where that call is written */
};

struct elab {
    struct module *m;
    struct decl **decls;                             /* stb_ds array, in program order */
    struct { const char *key; struct decl *value; } *decl_of;  /* the same by name */
    bool import_failed;
    bool poisoned;                                   /* a dim, const or parameter was refused: what lacks may lack by that */
    bool data_failed;                                /* a line of a data block was refused: inputs may lack theirs by that */
    struct ast *model, *train, *evaluate, *sample, *cluster;   /* NULL where the program has none */
    struct ast **files, **plans;                     /* stb_ds arrays */
    struct { const char *key; struct param *value; } *params;        /* by path, over all entries */
    const char **labels;                             /* paths of labelled calls, for suggestions */
    struct span *label_spans;                        /* where they are written */
    const char **told;                               /* beginnings of paths that were said to be nothing's, see unmatched.c */
    /* per entry */
    int calls;                                       /* of layers so far */
    struct graph *g;
    struct { int key; int value; } *named;           /* value id -> how firmly its path is set, see value_name */
    struct { int key; struct scale *value; } *scales;/* value id -> denominators.c */
    struct value **inputs;                           /* model inputs, in order */
    struct { int key; struct span value; } *updates; /* value id of a state -> where it is updated */
};

void names_collect(struct elab *e);                  /* follows imports, declares everything once */
struct frame;
struct decl *names_find(struct elab *e, const char *name);
bool decl_ready(struct frame *f, struct decl *d, struct span use);    /* evaluates a dim or const at first use */
void names_settle(struct elab *e);                   /* evaluates every dim and const; unused --set are errors */
const char *beside(const char *importer, const char *path);          /* a path that a program names */
void user_ops_settle(struct elab *e);                /* user_op.c: declared ops become ops */
void names_candidates(struct elab *e, const char ***to);

/* ---- scope.c ---- */

enum item_kind { ITEM_POISON, ITEM_VALUE, ITEM_NUM, ITEM_DIM, ITEM_STR, ITEM_TYPE, ITEM_LIST, ITEM_LABEL, ITEM_LAYOUT };
struct item {
    enum item_kind kind;
    struct value *v;             /* ITEM_VALUE */
    double num;                  /* ITEM_NUM, and the size of an ITEM_DIM */
    struct dim *dim;             /* ITEM_DIM */
    const char *str;             /* ITEM_STR */
    enum type type;              /* ITEM_TYPE */
    struct item *items;          /* ITEM_LIST: several results, or [a, b]; stb_ds array */
    struct instance *inst;       /* ITEM_LABEL */
    struct ast *ast;             /* where it was written; ITEM_LAYOUT: the layout */
};

enum binding_kind { BIND_LOCAL, BIND_INPUT, BIND_PARAM, BIND_DIM, BIND_SCALAR, BIND_INDEX };
struct binding {
    const char *name;
    enum binding_kind kind;
    struct item item;
    struct span span;            /* where it got its meaning; for a dim bound by a call: the argument */
};

/* One use of a layer, or the model itself, or a labelled op: what a label names. */
struct instance {
    const char *label, *path;    /* "attn", "h[*].attn"; the model's path is "" */
    struct instance *parent, **kids;
    struct region *home;         /* where its parameters are declared */
    struct binding *names;       /* its locals and parameters, once its body is done */
    struct item output;
    struct span span;            /* the label, or the call */
    bool labelled;
    const char *index;           /* h[i]: "i"; NULL without one */
    struct { const char *key; int value; } *times;   /* how often its body assigns a name */
    struct { const char *key; int value; } *seen;    /* and how often it did so far */
};

struct level {                   /* a repeat whose body is being elaborated */
    struct ast *ast;
    const char *index;           /* or NULL */
    struct region *region;
    int base;                    /* its bindings start here */
    const char *label;           /* the first label with the index: the repeat's path */
};

/* A body being elaborated. With body NULL it is the program's top level: only dims and consts have a meaning. */
struct frame {
    struct elab *e;
    struct frame *caller;
    struct decl *decl;
    struct ast *body;
    struct instance *inst;
    struct region *at;           /* where nodes go */
    struct binding *names;       /* stb_ds array; the last one of a name counts */
    struct level *levels;        /* stb_ds array, outermost first */
    struct binding *outputs;     /* stb_ds array: outputs and metrics, for names given twice */
    bool returned;
    struct span return_span;
    struct item result;
};

struct item item_value(struct value *v, struct ast *a);
struct item item_num(double num, struct ast *a);
struct item item_dim(struct dim *d, struct ast *a);
#define POISON ((struct item){ITEM_POISON})

struct binding *scope_find(struct frame *f, const char *name);       /* in this body only; NULL */
void scope_bind(struct frame *f, enum binding_kind kind, const char *name, struct item item, struct span span);
bool scope_check_new(struct frame *f, const char *name, struct span span);   /* diagnoses a name already taken */
struct instance *scope_label(struct frame *f, const char *name);     /* a label used in this body so far */
struct item scope_name(struct frame *f, struct ast *name);           /* diagnoses unknown names */
void scope_unknown(struct frame *f, const char *what, const char *name, struct span span);
bool scope_visible(struct frame *f, const struct value *v);
struct instance *instance_new(struct frame *f, const char *label, const char *suffix, struct span span, bool labelled);
const char *path_join(const char *a, const char *b);

/* How firmly a path is set: a stronger one becomes the path, a weaker or equal one an alias (a call's over a call's:
 * the outer one wins, so that h[*] is the block's output). */
enum { NAME_NONE, NAME_LOCAL, NAME_CALL, NAME_FIXED };
void value_name(struct elab *e, struct value *v, const char *path, int firmness);

/* ---- dims.c ---- */
bool dim_eval(struct frame *f, struct ast *a, int64_t *to);          /* a whole number; / must be exact */
bool const_eval(struct frame *f, struct ast *a, double *to);
bool const_int(struct frame *f, struct ast *a, int64_t low, const char *what, int64_t *to);
enum { LARGEST_DIM_BITS = 40, LARGEST_TENSOR_BITS = 48, LARGEST_REPEAT = 1 << 24 };  /* so that no byte count overflows */
bool dim_size_legal(const char *what, int64_t size, struct span at);   /* 1 .. 2^40; diagnosed */
/* Is a tensor of these dims, in every block of the repeats around, small enough to count? Diagnosed. */
bool tensor_countable(struct frame *f, int ndim, struct dim *const *dims, struct span at);
struct dim *dim_of(struct frame *f, struct ast *a);                  /* named when a is a name; NULL after an error */
bool fold_binary(const char *op, double a, double b, double *to);
bool fold_known(const char *name);                                    /* sqrt, log, exp, ceil, min, max: of numbers alone */
bool fold_call(const char *name, const double *x, int n, double *to);
const char *const_text(double v);

/* ---- expr.c, call.c, index.c ---- */
struct item expr(struct frame *f, struct ast *a);
struct value *expr_value(struct frame *f, struct ast *a);            /* a tensor, or NULL after a diagnostic */
struct value *item_tensor(struct frame *f, struct item item, struct ast *a);   /* numbers become constants */
const char *item_text(struct item item);                             /* "a tensor f32[N, D]", "a dim" for messages */
struct item expr_call(struct frame *f, struct ast *a);
struct item expr_index(struct frame *f, struct ast *a);
struct item expr_matmul(struct frame *f, struct ast *a);
struct node *emit_node(struct frame *f, const struct op *op, struct span span);
bool emit_finish(struct frame *f, struct node *n);
struct item emit_result(struct frame *f, struct node *n, struct ast *a);     /* finish, then its outputs as an item */
int axis_of(struct frame *f, struct ast *a, const struct value *v);  /* index of a dim; -1 after a diagnostic */

/* ---- label.c, header.c, body.c, layer.c, repeat.c, params.c ---- */
bool label_path(struct frame *f, struct ast *label, const char **name, const char **suffix, struct region **home);
const char *label_index(struct ast *label);          /* "i" of h[i]; NULL without one */
struct item labelled(struct frame *f, struct ast *label, struct ast *what);
/* The output of a labelled call carries the label's path; values with an id below `before` are older than the call. */
void name_output(struct frame *f, struct instance *inst, struct item result, int before);
void header_check(struct decl *layer);
bool arguments_known(struct decl *layer, struct ast *call);
bool bind_formal(struct frame *f, struct frame *g, struct ast *call, int k, int pass);   /* argument k, of f, into g */
void body_run(struct frame *f, struct ast *body);
void body_count(struct instance *inst, struct ast *body);
void assigned_names(struct ast *body, const char ***to);             /* of a body and the repeats in it */
void output_run(struct frame *f, struct ast *a);                     /* elaborate.c: output and metric */
struct item layer_call(struct frame *f, struct decl *layer, struct ast *call, struct ast *label);
void repeat_run(struct frame *f, struct ast *a);
void param_run(struct frame *f, struct ast *a);
void update_run(struct frame *f, struct ast *a);     /* state.c: update s = x */
struct item in_train(struct frame *f, struct ast *a);
void model_inputs(struct frame *f, struct ast *params);
bool type_find(const char *name, enum type *to);
const char *type_near(const char *name);             /* "f32" for fp32 and f23; NULL where none is near */

/* ---- denominators.c ---- */
void scale_follow(struct frame *f, struct node *n);  /* after each node of the user's: what is open where */
void scale_copy(struct elab *e, const struct value *from, struct value *to);
void scale_input(struct elab *e, struct value *v);

/* ---- plan.c, mesh.c ---- */
void plans_collect(struct elab *e);                  /* lists all, elaborates the chosen one */
void mesh_build(struct frame *f, struct plan *p, struct ast *a);
void mesh_add_time(struct plan *p);
void expect_collect(struct frame *f, struct plan *p, struct ast *a);                            /* expect.c */
void cluster_collect(struct frame *f, struct plan *p, struct ast *in_plan, struct ast *on);     /* cluster.c */
void axis_unknown(struct mesh *m, const char *name, struct span span);   /* one message for each name */
struct layout_part *layout_parts_of(struct mesh *mesh, struct ast *layout, bool in_model);

/* ---- train.c, data.c, files.c, match.c ---- */
void data_read(struct frame *f, struct ast *data, struct data_binding **to);
void train_collect(struct elab *e);                  /* train, evaluate, sample */
void data_check(struct elab *e);                     /* every model input is bound, with the type its reader gives */
const char *reader_name(enum fl_reader r);             /* data.c; as in the language */
const char *element_name(enum fl_element e);
bool word_among(const char *word, const char *list);    /* of words with blanks between them */
void data_ranges(struct graph *g, struct data_binding *data);   /* ranges.c: fills limit and ignore */
struct ast **train_patterns(struct elab *e);         /* all patterns of decay and frozen; stb_ds array */
void params_rules(struct elab *e);                   /* decay and frozen patterns */
void repeats_cut(struct elab *e);                    /* cut.c: into pieces, where patterns name some blocks only */
void files_collect(struct elab *e);
void patterns_check(struct elab *e);
struct graph *any_graph(struct elab *e);             /* of an entry of the program; NULL where there is none yet */
/* unmatched.c */
const char *path_last(const char *path);             /* behind its last dot */
bool pattern_told(struct elab *e, const char *begins);   /* said before of what begins so? from now on it is */
void pattern_unmatched(struct elab *e, const char *pattern, struct span span, bool params_only);
void precision_collect(struct frame *f, struct plan *p, struct ast *a);
/* ---- once.c ---- */

bool line_once(struct ast **slot, struct ast *a, const char *what);  /* into the slot; false after a diagnostic: there was one */
void settings_once(struct ast *block);               /* its settings and blocks */
void lists_once(struct ast *block, const char *word);/* the patterns after `on`, or of frozen, over its settings of that word */
void plan_lines_once(struct ast *plan);              /* the patterns of sbp, pin, save, place and recompute */

bool settings_word(struct ast *s, const char *block, const char *const *words);      /* diagnoses an unknown word */
/* schedule_file.c: reads the order of plan->schedule_file, after mesh and micro-batches */
void schedule_file(struct plan *p);
#endif
