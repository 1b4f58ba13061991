/* Scalar functions that expressions of the language turn into, for both targets: f32 in, f32 out, and written so that a
 * compiler can vectorise a loop over them. Gradients take x and the gradient of the result. */
#ifndef FL_MATH_H
#define FL_MATH_H
#include <math.h>
#include <stdint.h>

#ifndef FL_DEVICE
#ifdef __CUDACC__
#define FL_DEVICE static __host__ __device__ inline
#else
#define FL_DEVICE static inline __attribute__((always_inline, unused))
#endif
#endif

/* exp: 2^n times a polynomial; relative error below 2e-7, exact 0 and inf at the ends, NaN stays NaN. The clamps keep
 * the exponent bits in range; there are no branches, so that loops over it vectorise without a vector math library. */
FL_DEVICE float fl_exp(float x)
{
    float clamped = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    float n = rintf(clamped * 1.44269504088896341f);
    float r = fmaf(n, -0.693359375f, clamped);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r + 1.0f);
    /* two factors, so that results near the ends of the range (subnormal, or above 2^127) are still formed right */
    int32_t i = (int32_t)n, half = i >> 1;
    union { int32_t i; float f; } a = { (half + 127) << 23 }, b = { (i - half + 127) << 23 };
    float y = p * a.f * b.f;
    return x != x ? x : y;
}
FL_DEVICE float fl_sigmoid(float x) { return 1.0f / (1.0f + fl_exp(-x)); }
FL_DEVICE float fl_tanh(float x)
{
    float a = fabsf(x), e = fl_exp(-2.0f * a);
    float t = (1.0f - e) / (1.0f + e);
    float x2 = x * x;                                   /* small |x|: the quotient loses digits, the series does not */
    float small = a * (1.0f + x2 * (-0.33333333f + x2 * (0.13333333f - x2 * 0.05396825f)));
    return copysignf(a < 0.1f ? small : t, x);
}

/* gelu with tanh: x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3); (1 + tanh(u)) / 2 is the sigmoid of 2u */
FL_DEVICE float fl_gelu_gate(float x)
{
    return fl_sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}
FL_DEVICE float fl_gelu(float x) { return x * fl_gelu_gate(x); }
FL_DEVICE float fl_gelu_grad(float x, float dy)
{
    float s = fl_gelu_gate(x);
    float du = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);
    return dy * (s + x * s * (1.0f - s) * du);
}
FL_DEVICE float fl_gelu_exact(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
FL_DEVICE float fl_gelu_exact_grad(float x, float dy)
{
    return dy * (0.5f * (1.0f + erff(x * 0.70710678118654752f)) + x * 0.39894228040143268f * fl_exp(-0.5f * x * x));
}
FL_DEVICE float fl_silu(float x) { return x * fl_sigmoid(x); }
FL_DEVICE float fl_silu_grad(float x, float dy)
{
    float s = fl_sigmoid(x);
    return dy * s * (1.0f + x * (1.0f - s));
}
FL_DEVICE float fl_relu(float x) { return x > 0.0f ? x : 0.0f; }
FL_DEVICE float fl_relu_grad(float x, float dy) { return x > 0.0f ? dy : 0.0f; }
FL_DEVICE float fl_tanh_grad(float x, float dy)
{
    float t = fl_tanh(x);
    return dy * (1.0f - t * t);
}
FL_DEVICE float fl_sigmoid_grad(float x, float dy)
{
    float s = fl_sigmoid(x);
    return dy * s * (1.0f - s);
}
/* The language's quotient: 0 / 0 is 0, so that an empty batch has loss 0. */
FL_DEVICE float fl_div(float a, float b) { return a == 0.0f && b == 0.0f ? 0.0f : a / b; }
FL_DEVICE float fl_sign(float x) { return (float)((x > 0.0f) - (x < 0.0f)); }
#endif
