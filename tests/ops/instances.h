/* Sample nodes of every op, small, for the tests over the whole table.
 *
 * `in` names the operands' types and dims: "f MN, f N, b M1, i T". Types: f float, w float with far outliers, p float
 * above 0, c a factor of clipping, b bool, i integer in [0, 5), - an optional operand left out. Dims: a letter is a dim of that name (sizes below); 1 is a nameless dim of
 * size 1. Upper case letters have odd sizes of their own, so that every split is uneven and no two dims fit by accident;
 * lower case ones can be divided by 2 and by 3; V is padded. `out` are the dims of output 0, for ops that are told their
 * result's shape: attrs gets them (local ones in the gate's local programs). */
#ifndef FLOWC_TEST_INSTANCES_H
#define FLOWC_TEST_INSTANCES_H
#include "module.h"
#include "op.h"

struct instance {
    const struct op *op;
    const char *in;
    void (*attrs)(struct node *n, struct dim **out);      /* NULL: none */
    const char *out;
    bool no_gradient;            /* the op has one, but not of what is sampled here */
    const char *writes;          /* operands that an update writes in place: "acd"; its results */
};
extern const struct instance instances[];                /* op NULL at the end */
extern const int instance_count;

struct letter { char name; int size, phys; };
const struct letter *letter_find(char name);

/* One operand's description. */
struct operand { char type; int ndim; char dim[MAX_DIM]; };
int operands_read(const char *text, struct operand *to);

double random_value(uint32_t *state);                    /* uneven, both signs, never near 0 */
double operand_value(char type, uint32_t *state);
enum type operand_type(char type);
#endif
