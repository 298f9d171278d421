/* Shared by the kernels of the decomposition solver (polyopt/margin/decomposition).

   Its dual is  max Σ φ_i(β_i) − ½ β'Kβ  with Σ β_i = 0. Column i of ends (k, n) has the kinks of φ_i in ascending order,
   and that of slopes (k + 1, n) the slopes, from below the first kink to above the last one. */
#ifndef POLYOPT_DECOMPOSITION_H
#define POLYOPT_DECOMPOSITION_H

#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
/* Vectors as of AVX2: with masks of AVX-512 gcc's choice between two vectors takes half as long again. Ahead of all
   functions, as gcc puts none into another that is for fewer instructions. */
#pragma GCC target("no-avx512f")
#endif

#include "common.h"

typedef struct {
    index_t n, k;
    const double *ends, *slopes;
} pieces;

/* Slope of φ_i to the right and to the left of β_i = beta. */
static inline void slopes_at(const pieces *phi, index_t i, double beta, double *right, double *left) {
    *right = *left = phi->slopes[i];
    for (index_t k = 0; k < phi->k; k++) {
        const double end = phi->ends[k * phi->n + i], after = phi->slopes[(k + 1) * phi->n + i];
        *right = beta >= end ? after : *right;
        *left = beta > end ? after : *left;
    }
}

/* The kink of φ_i next above beta; infinite for none. */
static inline double next_above(const pieces *phi, index_t i, double beta) {
    double found = INFINITY;
    for (index_t k = phi->k - 1; k >= 0; k--)
        found = phi->ends[k * phi->n + i] > beta ? phi->ends[k * phi->n + i] : found;
    return found;
}

/* The kink of φ_i next below beta; infinite for none. */
static inline double next_below(const pieces *phi, index_t i, double beta) {
    double found = -INFINITY;
    for (index_t k = 0; k < phi->k; k++)
        found = phi->ends[k * phi->n + i] < beta ? phi->ends[k * phi->n + i] : found;
    return found;
}

/* Kernels of decomposition.c that Newton's method takes as well. */
API void gains(index_t n, index_t k, index_t l, index_t e, const double *g, const double *beta, const double *ends,
               const double *slopes, double *rise, double *fall, double *extremes);
API void combine_rows_f8(index_t s, index_t n, index_t r, index_t w, const double *table, const index_t *slots,
                         const double *weights, index_t start, double *total);

#endif
