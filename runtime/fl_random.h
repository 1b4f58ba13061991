/* Random numbers that depend on nothing but their name: Philox4x32-10 with key (seed, hash of the path with [*]) and
 * counter (step, block, linear index in the unpadded logical shape). Every plan, rank count and target draws the same
 * ones. Shared by the compiler (float64 interpreter) and both runtimes (C and CUDA). Initial weights use step -1 and
 * fl_normal on the host. */
#ifndef FL_RANDOM_H
#define FL_RANDOM_H
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define FL_BOTH __host__ __device__
#else
#define FL_BOTH
#endif

/* 64-bit FNV-1a. */
static inline FL_BOTH uint64_t fl_hash(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++) {
        h ^= (unsigned char)*s;
        h *= 0x100000001b3u;
    }
    return h;
}

/* The key of one stream: seed and hash, mixed so that near seeds give far keys. */
static inline FL_BOTH uint64_t fl_key(uint64_t seed, uint64_t hash)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) ^ hash;
}

static inline FL_BOTH void fl_philox4x32_10(const uint32_t counter[4], uint64_t key, uint32_t out[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xd2511f53u * a, q = (uint64_t)0xcd9e8d57u * c;
        a = (uint32_t)(q >> 32) ^ b ^ k0;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k1;
        d = (uint32_t)p;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* Words 4 * at and the next three of the stream: four words to a counter. */
static inline FL_BOTH void fl_random_4(uint64_t key, int64_t step, uint32_t block, uint64_t at, uint32_t word[4])
{
    uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), block, (uint32_t)step};
    fl_philox4x32_10(counter, key, word);
}

/* Word `index` of it. */
static inline FL_BOTH uint32_t fl_random(uint64_t key, int64_t step, uint32_t block, uint64_t index)
{
    uint32_t word[4];
    fl_random_4(key, step, block, index >> 2, word);
    return word[index & 3];
}

/* In (0, 1), never an end. */
static inline FL_BOTH double fl_uniform(uint64_t key, int64_t step, uint32_t block, uint64_t index)
{
    return ((double)fl_random(key, step, block, index) + 0.5) * (1.0 / 4294967296.0);
}

/* The least word that gives a number of at least p: what dropout keeps, without a number in double for each element. */
static inline uint64_t fl_least_kept(float p) { return (uint64_t)ceil((double)p * 4294967296.0 - 0.5); }

/* Standard normal by Box-Muller: two neighbouring indices share a pair of words. */
static inline FL_BOTH double fl_normal(uint64_t key, int64_t step, uint32_t block, uint64_t index)
{
    uint64_t pair = index >> 1;
    double u = fl_uniform(key, step, block, 2 * pair), v = fl_uniform(key, step, block, 2 * pair + 1);
    double r = sqrt(-2 * log(u)), angle = 6.283185307179586476925 * v;
    return r * (index & 1 ? sin(angle) : cos(angle));
}
#endif
