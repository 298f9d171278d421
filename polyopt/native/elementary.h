/* Exponential and logarithm as plain arithmetic, which a compiler makes of several numbers at once; libm's are calls.

   e^x = 2^k e^r with k the whole number next to x / log 2, so that |r| <= log(2) / 2, and Taylor's series for e^r up
   to r^13. log x = k log 2 + 2 artanh((m - 1) / (m + 1)) with x = 2^k m and m between sqrt(1/2) and sqrt(2), and the
   series for it up to the power 21. Tests hold e^x to 1e-15 and log x to 2e-15 of numpy's value. */
#ifndef POLYOPT_ELEMENTARY_H
#define POLYOPT_ELEMENTARY_H

#include "common.h"

#define MAX_EXPONENT 700.0                      /* how far from 0 the argument of exp_within may be */
#define LOG2_HIGH 0x1.62e42fefa0000p-1          /* log 2 in two parts, of which k times the first is exact */
#define LOG2_LOW 0x1.cf79abc9e3b3ap-40
#define PER_LOG2 0x1.71547652b82fep+0
#define ROUND 0x1.8p+52                         /* a sum with it is rounded to a whole number: its last bits */
#define ROUND_BITS UINT64_C(0x4338000000000000)
#define ROOT_BITS UINT64_C(0x3fe6a09e667f3bcd)  /* of sqrt(1/2) */

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

/* e^x, for x from -MAX_EXPONENT to MAX_EXPONENT. */
static inline double exp_within(double x) {
    const double power = ROUND + PER_LOG2 * x, k = power - ROUND;
    const double r = (x - k * LOG2_HIGH) - k * LOG2_LOW;
    double e = 1.0 / 6227020800.0;
    e = e * r + 1.0 / 479001600.0;
    e = e * r + 1.0 / 39916800.0;
    e = e * r + 1.0 / 3628800.0;
    e = e * r + 1.0 / 362880.0;
    e = e * r + 1.0 / 40320.0;
    e = e * r + 1.0 / 5040.0;
    e = e * r + 1.0 / 720.0;
    e = e * r + 1.0 / 120.0;
    e = e * r + 1.0 / 24.0;
    e = e * r + 1.0 / 6.0;
    e = e * r + 0.5;
    e = e * r + 1.0;
    e = e * r + 1.0;
    return e * double_of((bits_of(power) - ROUND_BITS + 1023) << 52);
}

/* log x, for a finite x of at least 1. */
static inline double log_above(double x) {
    const uint64_t bits = bits_of(x), shift = (bits - ROOT_BITS) >> 52;
    const double k = double_of(shift + ROUND_BITS) - ROUND, m = double_of(bits - (shift << 52));
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    double e = 2.0 / 21.0;
    e = e * q + 2.0 / 19.0;
    e = e * q + 2.0 / 17.0;
    e = e * q + 2.0 / 15.0;
    e = e * q + 2.0 / 13.0;
    e = e * q + 2.0 / 11.0;
    e = e * q + 2.0 / 9.0;
    e = e * q + 2.0 / 7.0;
    e = e * q + 2.0 / 5.0;
    e = e * q + 2.0 / 3.0;
    e = e * q + 2.0;
    return k * LOG2_HIGH + (s * e + k * LOG2_LOW);
}

#endif
