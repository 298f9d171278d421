/* The line search of Newton's method on the hinge loss with its kink rounded off (polyopt/cpm/smooth_hinge.py). */
#include "tiles.h"

enum { MAX_LENGTHS = 60 };             /* lengths of a step, at most */
static const double SLOPE_RATIO = 0.1; /* slope at which a step is long enough, relative to that at its start */

/* Slope, at t, of sum_i c_i h(u_i - t moved_i), h(u) = u^2 / (2 eps) on [0, eps], u - eps / 2 beyond and 0 before. */
static double loss_slope(const double *u, const double *moved, const double *c, index_t n, double eps, double t) {
    double total = 0.0, terms[TILE];
    for (index_t first = 0; first < n; first += TILE) {
        const index_t count = tile_size(first, n);
        for (index_t i = 0; i < count; i++) {
            const double here = (u[first + i] - t * moved[first + i]) / eps;
            terms[i] = c[first + i] * smallest(1.0, largest(here, 0.0)) * moved[first + i];
        }
        total -= sum_of(terms, count);
    }
    return total;
}

/* Length of a step that takes u by -t moved: about where the objective is least along it, by regula falsi.

   The slope of the squares at t is linear + t square, and that of the whole at 0 is `fall`, below 0. */
API double step_length(index_t n, const double *u, const double *moved, const double *c, double eps, double linear,
                       double square, double fall) {
    const double near = SLOPE_RATIO * fabs(fall);
    double low = 0.0, at_low = fall, high = 1.0;
    double at_high = loss_slope(u, moved, c, n, eps, 1.0) + linear + square;
    if (fabs(at_high) <= near)
        return 1.0;
    for (int tried = 0; tried < MAX_LENGTHS && !(at_high >= 0.0); tried++) {
        low = high;
        at_low = at_high;
        high *= 4.0;
        at_high = loss_slope(u, moved, c, n, eps, high) + linear + high * square;
    }
    double t = high;
    for (int tried = 0; tried < MAX_LENGTHS; tried++) {
        const double share = tried % 3 != 2 && at_high > at_low ? -at_low / (at_high - at_low) : 0.5;
        t = low + (high - low) * share;
        const double value = loss_slope(u, moved, c, n, eps, t) + linear + t * square;
        if (!(fabs(value) > near))
            break;
        if (value < 0.0) {
            low = t;
            at_low = value;
        } else {
            high = t;
            at_high = value;
        }
    }
    return t;
}
