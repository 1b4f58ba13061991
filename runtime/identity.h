/* Are all ranks the same program, started in the same way? */
#ifndef FL_IDENTITY_H
#define FL_IDENTITY_H
/* All ranks, before anything else together: ends the run when another program, plan or command line is among them. */
void fl_identity_check(int argc, char **argv);
#endif
