/* exp(min(t, 0)) by a polynomial, to two units in the last place; loops over it become vectors.

   t = power * log(2) + r with |r| <= log(2) / 2, and exp(t) = 2^power exp(r). A number that is added to 1.5 times
   the largest power of two of its type is rounded to an integer, which then stands in the sum's last bits; these
   are shifted to where the exponent stands. log(2) is held in two parts, the first of few bits, so that an integer
   times it is exact. NaN stays NaN. */
#ifndef POLYOPT_EXPONENTIALS_H
#define POLYOPT_EXPONENTIALS_H

#include "common.h"

/* exp(min(t, 0)), and exp(-700), 1e-304, for smaller t. Taylor's series, its rest below 1e-17. */
static inline double exp_below_f8(double t) {
    const double rounder = 6755399441055744.0, high = 0.6931471803691238, low = 1.9082149292705877e-10;
    t = t > 0.0 ? 0.0 : t;
    t = t < -700.0 ? -700.0 : t;
    const double shifted = t * 1.4426950408889634 + rounder;
    const double power = shifted - rounder;
    const double r = (t - power * high) - power * low;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 1.0 / 2.0;
    union {
        double number;
        uint64_t bits;
    } scale = {shifted};
    scale.bits = (scale.bits << 52) + 0x3FF0000000000000u;
    return ((p * (r * r) + r) + 1.0) * scale.number;
}

/* The same in single precision: exp(-87), 2e-38, for smaller t. Polynomial of Cephes. */
static inline float exp_below_f4(float t) {
    const float rounder = 12582912.0f, high = 0.693359375f, low = -2.12194440e-4f;
    t = t > 0.0f ? 0.0f : t;
    t = t < -87.0f ? -87.0f : t;
    const float shifted = t * 1.44269504088896f + rounder;
    const float power = shifted - rounder;
    const float r = (t - power * high) - power * low;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    union {
        float number;
        uint32_t bits;
    } scale = {shifted};
    scale.bits = (scale.bits << 23) + 0x3F800000u;
    return ((p * (r * r) + r) + 1.0f) * scale.number;
}

#endif
