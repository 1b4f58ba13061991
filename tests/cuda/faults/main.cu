/* faults CASE good|bad: exit code 0 when the numbers are right, 1 when they are wrong, 3 when the double reports a fault.
 * faults --list: the cases and their ranks. */
#include "faults.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaStream_t compute;
static const struct fault *const all[] = {kernel_faults, stream_faults, graph_faults, comm_faults};

cudaStream_t fl_stream(void)
{
    return compute;
}

void fl_cuda_check(cudaError_t status, const char *file, int line, const char *call)
{
    if (status == cudaSuccess)
        return;
    printf("%s:%d: %s failed\n", file, line, call);
    exit(2);
}

int main(int argc, char **argv)
{
    for (const struct fault *list : all)
        for (const struct fault *f = list; argc == 2 && f->name; f++)
            printf("%s %d\n", f->name, f->ranks);
    if (argc != 3)
        return argc != 2;
    MPI_Init(&argc, &argv);
    FL_CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    int code = 2;
    for (const struct fault *list : all)
        for (const struct fault *f = list; f->name; f++)
            if (!strcmp(f->name, argv[1]))
                code = f->run(!strcmp(argv[2], "bad")) ? 0 : 1;
    FL_CUDA(cudaDeviceSynchronize());
    MPI_Finalize();
    return code;
}
