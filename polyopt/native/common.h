/* Shared by all kernels: lengths and the export mark.

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

#endif
