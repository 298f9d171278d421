/* The elementary functions of arrays. */
#include "../../../polyopt/native/elementary.h"

API void exponentials(index_t n, const double *x, double *out) {
    for (index_t i = 0; i < n; i++)
        out[i] = exp_within(x[i]);
}

API void logarithms(index_t n, const double *x, double *out) {
    for (index_t i = 0; i < n; i++)
        out[i] = log_above(x[i]);
}
