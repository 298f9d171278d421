/* unfused */
/* Faces of the Convex Polytope Machine, as Python calls them: see cpm_face.h. */
#include "cpm_face.h"

/* Raise D over a box, in place; done (3): by how much, by how much in the last sweep, and in how many. */
API void cpm_climb(index_t n, index_t d, index_t t, const Samples *data, const double *low, const double *high,
                   double *a, double *w, index_t sweeps, double enough, double least, double *done) {
    const Climb risen = climb(data, low, high, a, w, sweeps, enough, least);
    done[0] = risen.total, done[1] = risen.last, done[2] = (double)risen.sweeps;
}

API void cpm_hyperplane(index_t n, index_t d, const Samples *data, const double *a, double *w) {
    hyperplane(data, a, w);
}

API double cpm_dual_value(index_t n, index_t d, const double *a, const double *w) { return dual_value(n, d, a, w); }

API double cpm_dual_error(index_t n, index_t d, const Samples *data, const double *a, const double *w) {
    return dual_error(data, a, w);
}

API void cpm_caps_of(index_t p, index_t n, const Samples *data, const index_t *face, index_t k, double *caps) {
    caps_of(data, face, k, caps);
}

API double cpm_price(index_t K, index_t d, index_t p, const Samples *data, const double *W, index_t *best) {
    return price(data, K, W, best);
}

/* As alternate; -1 without memory. */
API double cpm_alternate(index_t p, index_t K, index_t d, index_t n, index_t t, const Samples *data, index_t *face,
                         double *W, double *a, double *at, double precision, double sweeps) {
    double *block = malloc((size_t)(ALTERNATING(n, p) + 1) * sizeof(double));
    if (!block)
        return -1.0;
    const double J = alternate(data, K, face, W, a, at, precision, sweeps, (Work){block});
    free(block);
    return J;
}
