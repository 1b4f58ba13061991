/* Ranges for profilers: here only that they are closed. */
#ifndef DOUBLE_NVTOOLSEXT_H
#define DOUBLE_NVTOOLSEXT_H
extern "C" int nvtxRangePushA(const char *text);
extern "C" int nvtxRangePop(void);
#endif
