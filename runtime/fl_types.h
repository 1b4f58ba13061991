/* The short float types, for both targets: 16 bits in memory, f32 in every computation. Widening is exact; narrowing
 * rounds to nearest even, keeps signs, infinities and NaN, and is the same bits on every processor. The host's text is
 * branch-free where it can be, so that loops over it vectorise. */
#ifndef FL_TYPES_H
#define FL_TYPES_H
#include "fl_math.h"

typedef struct { uint16_t bits; } fl_bf16;           /* the upper half of an f32 */
typedef struct { uint16_t bits; } fl_f16;            /* IEEE binary16 */

union fl_bits { float f; uint32_t u; };

FL_DEVICE float fl_from_bf16(fl_bf16 x)
{
    union fl_bits b;
    b.u = (uint32_t)x.bits << 16;
    return b.f;
}

FL_DEVICE fl_bf16 fl_to_bf16(float x)
{
    union fl_bits b;
    b.f = x;
    uint32_t rounded = (b.u + 0x7fffu + (b.u >> 16 & 1u)) >> 16, nan = b.u >> 16 | 0x40u;
    fl_bf16 y;
    y.bits = (uint16_t)((b.u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    return y;
}

FL_DEVICE float fl_from_f16(fl_f16 x)
{
    union fl_bits b, least;
    uint32_t exponent = x.bits & 0x7c00u;
    b.u = (uint32_t)(x.bits & 0x7fffu) << 13;
    b.u += exponent == 0x7c00u ? (255u - 31u) << 23 : (127u - 15u) << 23;
    least.u = (127u - 14u) << 23;                    /* subnormal: as if it had a leading 1, which is then taken off */
    union fl_bits subnormal = b;
    subnormal.u += 1u << 23;
    subnormal.f -= least.f;
    b.u = (exponent == 0 ? subnormal.u : b.u) | (uint32_t)(x.bits & 0x8000u) << 16;
    return b.f;
}

FL_DEVICE fl_f16 fl_to_f16(float x)
{
    union fl_bits b, magic, small;
    b.f = x;
    uint32_t sign = b.u >> 16 & 0x8000u, special, normal;
    b.u &= 0x7fffffffu;
    special = b.u > 0x7f800000u ? 0x7e00u | (b.u >> 13 & 0x3ffu) : 0x7c00u;
    normal = (b.u + 0xfffu + (b.u >> 13 & 1u) - ((127u - 15u) << 23)) >> 13;
    magic.u = (127u - 15u + 23u - 10u + 1u) << 23;   /* the addition rounds to a multiple of 2^-24 */
    small.f = b.f + magic.f;
    fl_f16 y;
    y.bits = (uint16_t)(sign | (b.u >= 143u << 23 ? special : b.u < 113u << 23 ? small.u - magic.u : normal));
    return y;
}

/* What a value becomes that goes through memory of the type. */
FL_DEVICE float fl_round_bf16(float x) { return fl_from_bf16(fl_to_bf16(x)); }
FL_DEVICE float fl_round_f16(float x) { return fl_from_f16(fl_to_f16(x)); }
#endif
