/* Shared by all kernels: lengths, the export mark, and vectors of eight lanes.

   Arrays are C-contiguous; matrices are rows one after another. Each kernel's comment names shapes as Python's
   side does. A file that is compiled for several types includes its template once for each. */
#ifndef POLYOPT_COMMON_H
#define POLYOPT_COMMON_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef int64_t index_t;

#define API __attribute__((visibility("default")))
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b) /* the name a_b, of what a and b stand for */

static inline double largest(double a, double b) { return a > b ? a : b; }
static inline double smallest(double a, double b) { return a < b ? a : b; }

/* Eight numbers that move together; they need not be aligned. */
typedef double lanes_f8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef float lanes_f4 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int64_t lanes_i8 __attribute__((vector_size(64), aligned(8), may_alias));

#endif
