/* Algorithms 1 and 2 of Kantchelian et al. (2014), with the departures of polyopt/cpm/sgd.py. */
#include "rows.h"

/* Places in the tally of a run. */
enum { LOSS, MOVED, COUNTED, ENTROPY, AVERAGE };

static const double ROUNDING = 1e-12; /* entropies closer than this are equal */

/* Enter the natural face of positive i into UNADJ; counts and tally follow. */
static void enter(index_t natural, index_t i, index_t *unadjusted, index_t *counts, const double *phi, double *tally) {
    const index_t before = unadjusted[i];
    if (before == natural)
        return;
    if (before >= 0) {
        tally[ENTROPY] += phi[counts[before] - 1] - phi[counts[before]];
        counts[before]--;
    } else
        tally[COUNTED] += 1.0;
    tally[ENTROPY] += phi[counts[natural] + 1] - phi[counts[natural]];
    counts[natural]++;
    unadjusted[i] = natural;
}

/* Algorithm 2 (ASSIGN): the face that answers for positive i, so that the entropy h of UNADJ stays above floor.

   h = ln N - (sum of c ln c) / N for N entries and counts c. */
API index_t cpm_assign(index_t K, index_t n, index_t p, index_t five, const double *scores, index_t natural, index_t i,
                       double floor, index_t *unadjusted, index_t *counts, const double *phi, double *tally) {
    const index_t before = unadjusted[i];
    const double total = tally[COUNTED], sum = tally[ENTROPY];
    enter(natural, i, unadjusted, counts, phi, tally);
    if (log(tally[COUNTED]) - tally[ENTROPY] / tally[COUNTED] >= floor - ROUNDING)
        return natural;
    /* A new entry at face k raises the entropy if and only if it adds less than this to the sum of c ln c. */
    double most = 0.0;
    if (total > 0.0)
        most = (log(total + 1.0) - (log(total) - sum / total) - ROUNDING) * (total + 1.0) - sum;
    index_t best = natural;
    bool found = false;
    for (index_t k = 0; k < K; k++) {
        const index_t count = counts[k] - (k == natural) + (k == before); /* as it was before the call */
        bool raises;
        if (before >= 0) /* moving one sample raises it if and only if it goes from c to at most c - 2 */
            raises = count <= counts[before] + (before != natural) - 2;
        else
            raises = total > 0.0 && phi[count + 1] - phi[count] < most;
        if (raises && (!found || scores[k] > scores[best])) {
            best = k;
            found = true;
        }
    }
    return best;
}

/* The entries of UNADJ and the sum of c ln c over its counts, without the roundings of many changes. */
static void count_anew(index_t K, const index_t *counts, const double *phi, double *tally) {
    tally[COUNTED] = tally[ENTROPY] = 0.0;
    for (index_t k = 0; k < K; k++) {
        tally[COUNTED] += (double)counts[k];
        tally[ENTROPY] += phi[counts[k]];
    }
}

#define TEMPLATE "cpm_sgd.inc"
#include "each_row_type.inc"
