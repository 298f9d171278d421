/* Tiles of samples, and sums over them.

   A pass takes 256 samples at once, and what it computes for each of them stays in the cache, in arrays of that
   length. The order of a sum depends on the number of terms alone. */
#ifndef POLYOPT_TILES_H
#define POLYOPT_TILES_H

#include "common.h"

enum { TILE = 256 };

/* Samples of the tile that begins at `first`, of n in all. */
static inline index_t tile_size(index_t first, index_t n) { return n - first < TILE ? n - first : TILE; }

/* Sum of x (count,). */
static inline double sum_of(const double *x, index_t count) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (index_t i = 0; i < count; i++)
        total += x[i];
    return total;
}

/* x·y of two arrays (count,), in sixteen strands: each addition waits for the one before in its own alone. */
static inline double product_of(const double *x, const double *y, index_t count) {
    double strands[16] = {0}, total = 0.0;
    index_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int lane = 0; lane < 16; lane++)
            strands[lane] += x[i + lane] * y[i + lane];
    for (int lane = 0; i < count; i++, lane++)
        strands[lane] += x[i] * y[i];
    for (int lane = 0; lane < 16; lane++)
        total += strands[lane];
    return total;
}

/* The larger of `least` and the largest number of x (count,); NaN is passed over. */
static inline double largest_of(double least, const double *x, index_t count) {
    for (index_t i = 0; i < count; i++)
        least = largest(x[i], least);
    return least;
}

#endif
