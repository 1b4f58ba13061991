/* --check-cluster: what ranks and links really do, for people and for flowc --cluster. */
#ifndef FL_CLUSTER_H
#define FL_CLUSTER_H
#include "flow_rt.h"
/* All ranks: measures, prints on rank 0, names ranks and links that are slow, and writes the file. Takes some seconds. */
void fl_cluster_check(struct fl_run *run, const char *file);
#endif
