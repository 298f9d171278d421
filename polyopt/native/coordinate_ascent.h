/* Coordinate ascent on the duals of many hinge programs that share their samples.

   The faces of a polytope with a fixed assignment, without intercept on (x, 1):

       max  sum_i alpha_ik - |W_k|^2,   W_k = 1/2 sum_i alpha_ik y_i (x_i, 1),   0 <= alpha_ik <= c_ik

   for every face k. The step of a multiplier that maximises this has its slope 1 - y_i W_k (x_i, 1), and ends at
   alpha_ik + 2 slope / |(x_i, 1)|^2 or at a bound (Hsieh et al., 2008). One walk over a sample gives its scores on all
   faces. Most pairs of a sample and a face are at rest at 0; the others are climbed face by face, on copies of the few
   samples that matter, which fit the cache. */
#ifndef POLYOPT_COORDINATE_ASCENT_H
#define POLYOPT_COORDINATE_ASCENT_H

#include "rows.h"

/* The multiplier after the exact step along its coordinate. */
static inline double stepped(double before, double slope, double square, double cap) {
    return smallest(largest(before + 2.0 * slope / square, 0.0), cap);
}

#endif
