/* Coordinate ascent on the duals of hinge programs that share their samples: polyopt/optim/coordinate_ascent.py.

   A multiplier has the slope 1 - y_i W_k (x_i, 1), and its exact step ends at alpha_ik + 2 slope / |(x_i, 1)|^2 or at a
   bound (Hsieh et al., 2008). */
#ifndef POLYOPT_COORDINATE_ASCENT_H
#define POLYOPT_COORDINATE_ASCENT_H

#include "rows.h"

/* The multiplier after the exact step along its coordinate. */
static inline double stepped(double before, double slope, double square, double cap) {
    return smallest(largest(before + 2.0 * slope / square, 0.0), cap);
}

#endif
