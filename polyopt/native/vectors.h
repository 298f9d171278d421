/* The longest vectors that the processor has, for sums that must stay in registers. A compiler keeps longer ones in
   memory. */
#ifndef POLYOPT_VECTORS_H
#define POLYOPT_VECTORS_H

#include "common.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define VECTOR_DOUBLES (VECTOR_BYTES / 8)

typedef double vector_f8 __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef int64_t vector_i8 __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef float vector_f4 __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
/* As many floats as there are doubles in a vector. */
typedef float half_vector_f4 __attribute__((vector_size(VECTOR_BYTES / 2), aligned(4), may_alias));

static inline vector_f8 from_f8(const double *numbers) { return *(const vector_f8 *)numbers; }
static inline vector_f8 from_f4(const float *numbers) {
    return __builtin_convertvector(*(const half_vector_f4 *)numbers, vector_f8);
}

static inline double sum_vector(vector_f8 numbers) {
    double lanes[VECTOR_DOUBLES];
    memcpy(lanes, &numbers, sizeof lanes);
#pragma GCC unroll 3
    for (int half = VECTOR_DOUBLES / 2; half > 0; half /= 2)
#pragma GCC unroll 4
        for (int lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0];
}

#endif
