/* Checks that every rank makes on its own and that must end the run on all of them together, and small votes. */
#ifndef FL_AGREE_H
#define FL_AGREE_H
#ifdef __cplusplus
extern "C" {
#endif
/* All ranks call it. When any has a complaint, the lowest of them prints its own, and all end with the exit code (check.h). */
void fl_agree_or(const char *complaint, int code);
void fl_agree(const char *complaint);                        /* FL_EXIT_REFUSED */
/* A vote beside a step: all ranks put in n numbers (at most 4), and get the largest of each with fl_vote_end. */
void fl_vote_begin(const int *mine, int n);
void fl_vote_end(int *largest, int n);
#ifdef __cplusplus
}
#endif
#endif
