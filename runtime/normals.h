/* Standard normal numbers of a stream, many at a time. */
#ifndef FL_NORMALS_H
#define FL_NORMALS_H
#include <stdint.h>

/* to[i] = std * fl_normal(key, step, block, index + i), i < n, but for a last bit where a rounding of f32 is a tie. */
void fl_normals(float *to, double std, uint64_t key, int64_t step, uint32_t block, uint64_t index, int64_t n);
#endif
