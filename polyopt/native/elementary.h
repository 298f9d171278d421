/* Exponential and logarithm as plain arithmetic, which a compiler makes of several numbers at once; libm's are calls.

   e^x = 2^k e^r with k the whole number next to x / log 2, so that |r| <= log(2) / 2, and Taylor's series for e^r up
   to r^13, its rest below 1e-17. A number that is added to 1.5 times the largest power of two of its type is rounded
   to a whole one, which then stands in the sum's last bits; these are shifted to where the exponent stands. log(2) is
   held in two parts, the first of few bits, so that a whole number times it is exact. NaN stays NaN.

   log x = k log 2 + 2 artanh((m - 1) / (m + 1)) with x = 2^k m and m between sqrt(1/2) and sqrt(2), and the series for
   it up to the power 21. Tests hold e^x to 1e-15 and log x to 2e-15 of numpy's value. */
#ifndef POLYOPT_ELEMENTARY_H
#define POLYOPT_ELEMENTARY_H

#include "common.h"

#define MAX_EXPONENT 700.0 /* how far from 0 the argument of exp_within may be */
#define LOG2_HIGH 0.6931471803691238
#define LOG2_LOW 1.9082149292705877e-10
#define PER_LOG2 1.4426950408889634
#define ROUND 0x1.8p+52
#define ROUND_BITS UINT64_C(0x4338000000000000)
#define ROOT_BITS UINT64_C(0x3fe6a09e667f3bcd) /* of sqrt(1/2) */

static inline uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The polynomial in x of these coefficients, that of the highest power first. */
INLINE double polynomial(const double *coefficients, int count, double x) {
    double value = coefficients[0];
#pragma GCC unroll 16
    for (int k = 1; k < count; k++)
        value = value * x + coefficients[k];
    return value;
}

/* e^x, for x from -MAX_EXPONENT to MAX_EXPONENT. */
static inline double exp_within(double x) {
    const double power = x * PER_LOG2 + ROUND, k = power - ROUND;
    const double r = (x - k * LOG2_HIGH) - k * LOG2_LOW;
    static const double series[] = {
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0,
    };
    const double e = polynomial(series, 12, r);
    return ((e * (r * r) + r) + 1.0) * double_of((bits_of(power) << 52) + 0x3ff0000000000000u);
}

/* exp(min(t, 0)), and exp(-MAX_EXPONENT), 1e-304, for smaller t. */
static inline double exp_below_f8(double t) {
    t = t > 0.0 ? 0.0 : t;
    return exp_within(t < -MAX_EXPONENT ? -MAX_EXPONENT : t);
}

/* The same in single precision, to two units in the last place: exp(-87), 2e-38, for smaller t. Polynomial of Cephes. */
static inline float exp_below_f4(float t) {
    const float rounder = 12582912.0f, high = 0.693359375f, low = -2.12194440e-4f;
    t = t > 0.0f ? 0.0f : t;
    t = t < -87.0f ? -87.0f : t;
    const float power = t * 1.44269504088896f + rounder, k = power - rounder;
    const float r = (t - k * high) - k * low;
    float e = 1.9875691500e-4f;
    e = e * r + 1.3981999507e-3f;
    e = e * r + 8.3334519073e-3f;
    e = e * r + 4.1665795894e-2f;
    e = e * r + 1.6666665459e-1f;
    e = e * r + 5.0000001201e-1f;
    union {
        float number;
        uint32_t bits;
    } scale = {power};
    scale.bits = (scale.bits << 23) + 0x3f800000u;
    return ((e * (r * r) + r) + 1.0f) * scale.number;
}

/* log x, for a finite x of at least 1. */
static inline double log_above(double x) {
    const uint64_t bits = bits_of(x), shift = (bits - ROOT_BITS) >> 52;
    const double k = double_of(shift + ROUND_BITS) - ROUND, m = double_of(bits - (shift << 52));
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    static const double series[] = {
        2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0,
        2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0,
    };
    const double e = polynomial(series, 11, q);
    return k * LOG2_HIGH + (s * e + k * LOG2_LOW);
}

#endif
