/* Small programs with one planted fault each, and the same programs without it. A case returns true when its numbers are
 * right; faults that the double reports itself end the program before. */
#ifndef FAULTS_H
#define FAULTS_H
#include "flow_rt.h"

struct fault {
    const char *name;
    int ranks;
    bool (*run)(bool bad);
};
extern const struct fault kernel_faults[], stream_faults[], graph_faults[], comm_faults[];     /* NULL name at the end */

template <typename T> T *device_memory(int64_t n)
{
    void *p;
    FL_CUDA(cudaMalloc(&p, sizeof(T) * (size_t)n));
    return (T *)p;
}

template <typename T> void get(T *host, const T *device, int64_t n)
{
    FL_CUDA(cudaMemcpyAsync(host, device, sizeof(T) * (size_t)n, cudaMemcpyDeviceToHost, fl_stream()));
    FL_CUDA(cudaStreamSynchronize(fl_stream()));
}
#endif
