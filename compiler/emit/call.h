/* The little language of op->call, the format of a runtime call. In text passed through, % starts a word:
 *
 *     %o0 %i1             the tensor, as a pointer; NULL for an operand left out or a result nobody reads
 *     %count(i0)          its local elements                    %rows(i0)    the same without the last dim
 *     %last(i0)           local extent of the last dim          %extent(i0,d)  of dim d
 *     %range(i0,a,b)      product of the extents of dims [a, b)
 *     %base(i0,d)         first index of the local part of dim d in the stored logical dim
 *     %size(i0,d)         logical size of dim d, without padding
 *     %int(name) %num(name,default) %bool(name)   attributes    %is(name,word)  whether a text attribute is that word
 *     %reduce             &(struct fl_dims){..} of operand 0 over the node's axes
 *     %ignore             "true, -100" or "false, 0"            %skip        the ignored class, or one that is none
 *     %attention          &(struct fl_attention){..}            %place(o0)   &(struct fl_place){..}
 *     %key %block         hash and block of a random op         %step        the scalars of the step
 *     %as(i0,o0)          "_as" where these tensors are all of one short type, the name of a kernel that knows it; "" for f32
 *     %type(i0)           ", FL_BF16", the type as a further argument; "" for f32
 *     %typed(i0)          ", FL_F32", the same whatever it is
 *     %mixed()            "_as" where any tensor of the node is of a short type
 *     %types(o0,i0)       then ", FL_BF16, FL_F32", a type for each of these as further arguments: each may have its own
 *     %room               what op->room asked for                %again       whether the result is added to what is there
 *     %settings           those of the optimizer, decay, lr_scale   %mb          the running micro-batch
 *
 * A dim is a number, negative from the end, or the name of an int attribute, which may be followed by +1. */
#ifndef FLOWC_EMIT_CALL_H
#define FLOWC_EMIT_CALL_H
#include "emitter.h"

const char *room_name(const struct node *n);               /* what op->room asked for, as float * */
const char *in_room(const struct node *n, const char *call);   /* the call, made in that room where there is one */
const char *number_text(double v);                         /* a float constant of C (kernel.c) */
const char *base_text(struct emitter *e, const struct value *v, int dim);
const char *block_index(const struct region *r);           /* of the running block in its own repeat */
const char *block_number(const struct region *r);          /* global number of the running block; "0" at top level */
#endif
