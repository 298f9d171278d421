/* unfused */
/* What multipliers prove of the scores of a node: for any u, 0 <= u <= C w and sum y_i u_i = 0, with the rates
   r_j = C t_j (K'Yu)_j,

       #on + sum u - sum over on of [r_j]_+ - sum over free of [r_j - 1]_+

   bounds them. Every number is moved by more than its rounding may be, so nothing depends on a solver being right. */
#include "l0_basis.h"

static const double UNIT = 0x1p-53, ABOVE = 1.0 + 1e-9;
static const double UNDERFLOW_ERROR = 0x1p-1000; /* more than a product may lose by underflow */

typedef struct {
    double total, loose; /* the sum of the multipliers, and the rounding of all */
} Balanced;

/* near (n,) = multipliers near u whose classes are in balance but for their rounding.

   Those of the heavier class shrink. nan counts as 0. */
static Balanced balance(const L0Problem *of, const double *u, double *near) {
    const index_t n = of->n;
    double plus = 0.0, minus = 0.0;
    for (index_t i = 0; i < n; i++) {
        near[i] = u[i] > 0.0 ? smallest(u[i], of->caps[i]) : 0.0;
        if (of->y[i] > 0.0)
            plus += near[i];
        else
            minus += near[i];
    }
    const double light = smallest(plus, minus), heavy = largest(plus, minus), off = 4.0 * (double)(n + 3) * UNIT;
    Balanced found = {0.0, 0.0};
    for (index_t i = 0; i < n; i++) {
        const double own = of->y[i] > 0.0 ? plus : minus, share = own > 0.0 ? light / own : 0.0;
        const double unsure = own <= (1.0 - off) * heavy ? 0.0 : off;
        near[i] *= share;
        found.total += near[i];
        found.loose += near[i] * (unsure + 4.0 * UNIT) + UNDERFLOW_ERROR;
    }
    found.loose *= ABOVE;
    return found;
}

/* A bound on the scores of a node, from the feasible multipliers nearest to u, which may be any numbers. `near` and
   `middle` are room; rates (2, p) takes the least and the most that the rate of each centre may be.

   A term of a rate is rounded n + 2 times at most: in its entry, in its product and in n sums, whatever their order;
   the sum of the multipliers and `sizes` may be short by n roundings together. With u = 2^-53 the error is at most
   gamma_{n+2} (1 - u)^-n total size <= (n + 8) u total size, as (n + 8)(2n + 2) u <= 6 for n <= 10^8. A rate that is
   nan makes the bound nan, which is above nothing. */
API double l0_bound_of(index_t p, index_t rows, index_t two, const L0Problem *of, const int8_t *fixed, const double *u,
                       double *near, double *middle, double *rates) {
    const double n = (double)rows;
    const Balanced balanced = balance(of, u, near);
    const double total = balanced.total, loose = balanced.loose, own = ((n + 8) * UNIT * total + loose) * ABOVE;
    double saved = 0.0, paid = 0.0;
    memset(middle, 0, p * sizeof(double));
    l0_combine(p, middle, rows, near, of->signed_entries, p, NULL);
    for (index_t j = 0; j < p; j++) {
        double unsure =
            (of->sizes[j] * own + of->errors[j] * (total + loose)) * ABOVE + 4.0 * UNIT * (fabs(middle[j]) + 1.0);
        unsure += (n + 1) * UNDERFLOW_ERROR;
        rates[j] = middle[j] - unsure;
        rates[p + j] = middle[j] + unsure;
        if (fixed[j] == ON) {
            paid += 1.0;
            saved += largest(0.0, rates[p + j]);
        } else if (fixed[j] == FREE)
            saved += largest(0.0, rates[p + j] - 1.0);
    }
    const double rounding = 4.0 * (n + (double)p + 8) * UNIT * (paid + total + saved);
    return paid + total - saved - loose - rounding;
}
