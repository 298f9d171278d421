/* Shared by all kernels: lengths, the export mark, and small loops.

   Python's declarations of kernels (API functions) and of structs have the meaning and the shape of every argument, and
   the module of a declaration has the mathematics; comments here say what the code needs beside. Arrays are
   C-contiguous; matrices are rows one after another. */
#ifndef POLYOPT_COMMON_H
#define POLYOPT_COMMON_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef int64_t index_t;

#define API __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b) /* the name a_b, of what a and b stand for */

static inline double largest(double a, double b) { return a > b ? a : b; }
static inline double smallest(double a, double b) { return a < b ? a : b; }

/* x brought within [low, high]; NaN stays NaN. */
static inline double clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* y += factor * x, of arrays (count,). */
static inline void add_multiple(double *restrict y, double factor, const double *restrict x, index_t count) {
    for (index_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* x.y of arrays (count,), in any order. */
static inline double simd_dot(const double *restrict x, const double *restrict y, index_t count) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (index_t i = 0; i < count; i++)
        total += x[i] * y[i];
    return total;
}

#endif
