/* VDPBF16PS by other instructions, in the order in which it adds: so a processor with AVX-512 that lacks it tests the kernels and the
 * packing that are for it. Where it is there, this is nothing. */
#if defined __AVX512F__ && !defined __AVX512BF16__
#include <immintrin.h>
#define __AVX512BF16__ 1
#define _mm512_dpbf16_ps(sum, a, b) pairs_of_products(sum, (__m512i)(a), (__m512i)(b))
static inline __m512 pairs_of_products(__m512 sum, __m512i a, __m512i b)
{
    __m512i second = _mm512_set1_epi32((int)0xffff0000);
    sum = _mm512_fmadd_ps((__m512)_mm512_and_si512(a, second), (__m512)_mm512_and_si512(b, second), sum);
    return _mm512_fmadd_ps((__m512)_mm512_slli_epi32(a, 16), (__m512)_mm512_slli_epi32(b, 16), sum);
}
#endif
