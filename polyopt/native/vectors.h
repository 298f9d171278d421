/* Vectors that the processor has. A compiler keeps longer ones in memory. */
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

static inline vector_f8 from_f8(const double *numbers) { return *(const vector_f8 *)numbers; }
static inline vector_f8 from_f4(const float *numbers) {
    double wide[VECTOR_DOUBLES]; /* in gcc 12 quicker than __builtin_convertvector */
    for (int lane = 0; lane < VECTOR_DOUBLES; lane++)
        wide[lane] = numbers[lane];
    return from_f8(wide);
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

/* Vectors of no more than 32 bytes, for sums over short rows: longer ones take longer to add up in the end.

   A row of at least ROW_DOUBLES numbers is taken by such vectors, the last of which may begin before the one ahead
   of it ends. */
#define ROW_BYTES (VECTOR_BYTES < 32 ? VECTOR_BYTES : 32)
#define ROW_DOUBLES (ROW_BYTES / 8)

typedef double row_f8 __attribute__((vector_size(ROW_BYTES), aligned(8), may_alias));
typedef int64_t row_i8 __attribute__((vector_size(ROW_BYTES), aligned(8), may_alias));

static inline row_f8 row_from_f8(const double *numbers) { return *(const row_f8 *)numbers; }
static inline row_f8 row_from_f4(const float *numbers) {
    double wide[ROW_DOUBLES]; /* gcc 12 takes __builtin_convertvector apart */
    for (int lane = 0; lane < ROW_DOUBLES; lane++)
        wide[lane] = numbers[lane];
    return row_from_f8(wide);
}

/* The numbers of a vector that `mask` has all bits of, and 0 for those that it has none of. */
static inline row_f8 masked(row_f8 numbers, row_i8 mask) { return (row_f8)((row_i8)numbers & mask); }
static inline row_f8 absolute(row_f8 numbers) { return masked(numbers, (row_i8){0} + INT64_MAX); }

/* Mask of the last vector of a row of `length` numbers: all bits of those that are not in the vectors before. */
static inline row_i8 rest_of_row(index_t length) {
    row_i8 mask;
    for (index_t lane = 0; lane < ROW_DOUBLES; lane++)
        mask[lane] = ROW_DOUBLES - lane <= length % ROW_DOUBLES ? -1 : 0;
    return mask;
}

static inline double sum_row(row_f8 numbers) {
    double lanes[ROW_DOUBLES];
    memcpy(lanes, &numbers, sizeof lanes);
    return ROW_DOUBLES == 2 ? lanes[0] + lanes[1] : (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

#endif
