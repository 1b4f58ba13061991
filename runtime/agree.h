/* Checks that every rank makes on its own and that must end the run on all of them together. */
#ifndef FL_AGREE_H
#define FL_AGREE_H
/* All ranks call it. When any has a complaint, the lowest of them prints its own, and all end with exit code 1. */
void fl_agree(const char *complaint);
#endif
