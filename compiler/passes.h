/* The passes, in pipeline order. passes.c holds them in one table and runs them; main.c says which dump --emit=NAME makes
 * after which. The graphs are verified after each. A pass returns with diagnostics collected; the next one starts only
 * when there are no errors.
 *
 * pass           before                                  after
 * parse          text                                    AST; syntax errors reported, imports not yet followed
 * elaborate      AST                                     module: dims, params, plan, train; one logical graph per entry, typed
 *                                                        (forward only); imports followed, --set applied
 * differentiate  logical graphs                          + of train: backward nodes, optimizer update, norm; phases set; counts of
 *                                                        inputs leave the repeats they are written in
 * rewrite        logical graphs                          what nobody needs is gone; types and casts of the precision line; losses
 *                                                        without their logits where these can go; what `recompute` names made again for the backward; backward
 *                                                        split in two where the schedule has a weight phase; padding
 *                                                        cleared where it would count
 * place          logical graphs                          node->stage (virtual), region->cut; every plan stage line used
 * shard          placed graphs                           value->lay, node->need, param->lay, dim->phys, final phases
 * box            sharded graphs                          physical graph: one program per stage, explicit communication
 * fuse           physical graph                          element-wise chains joined, and sums along rows with what is
 *                                                        around them (one rank, one phase, no boxing inside)
 * layout         physical graph                          value->buffer, stride, offset: views share buffers
 * schedule       physical graph                          stage->order, rolls; slots of links
 * allocate       physical graph                          buffer->offset, arena_bytes
 * prove          physical graph                          the order cannot hang (certificate), and all ranks compute what
 *                                                        one does (verify), or an error; --spoil marks its fault
 * emit           physical graph                          files in DIR */
#ifndef FLOWC_PASSES_H
#define FLOWC_PASSES_H
#include "ast.h"
#include "module.h"
#include "physical.h"
#include <stdio.h>

typedef void pass_function(struct module *m);
struct pass { const char *name; pass_function *run; };
enum { PASS_COUNT = 13 };
extern const struct pass passes[PASS_COUNT];
/* Runs the passes from `first` (NULL: parse, which reads options->file) to `last`; true when no error stopped them. */
bool passes_run(struct module *m, pass_function *first, pass_function *last);

void elaborate(struct module *m);
void differentiate(struct module *m);
void rewrite(struct module *m);
void place(struct module *m);
void shard(struct module *m);
void box(struct module *m);
void fuse(struct module *m);
void layout(struct module *m);
void schedule(struct module *m);
void allocate(struct module *m);
void prove(struct module *m);
void emit(struct module *m);                          /* writes options->out, all or nothing */

/* --allocate FILE.csv: solves one static allocation problem; the exit status (0, 1 over the capacity, 2 unreadable). */
int allocate_file(FILE *to, const char *path);

/* dumps: human text, and the same facts as JSON where --emit=NAME,json is asked */
void module_dump(FILE *to, struct module *m);         /* params, train: head of the logical dump */
void physical_dump(FILE *to, struct module *m);       /* --emit=physical (box, fuse, layout) */
void comm_dump(FILE *to, struct module *m, bool json);          /* --emit=comm: after box */
void schedule_dump(FILE *to, struct module *m, bool json);
void proof_dump(FILE *to, struct module *m, bool json);         /* --emit=prove */
void memory_dump(FILE *to, struct module *m, bool json);
/* --plans: a line for every plan of the program, each compiled with `compile`; how many are accepted. */
int plans_table(FILE *to, struct module *first, bool (*compile)(struct module *m));
void plan_diff(FILE *to, struct module *a, struct module *b);    /* --diff: both after all passes but emit */
void shard_dump(FILE *to, struct module *m);          /* --emit=sbp: every tensor with its layout and why */
#endif
