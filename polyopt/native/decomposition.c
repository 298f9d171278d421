/* Working sets of the decomposition solver: slopes of φ, sums of kernel rows, and pair steps. */
#include "decomposition.h"
#include "vectors.h"

/* right, left (n): slopes of φ to the right and to the left of every β_i. */
static void slopes_of(const pieces *phi, const double *restrict beta, double *restrict right,
                      double *restrict left) {
    memcpy(right, phi->slopes, sizeof(double) * (size_t)phi->n);
    memcpy(left, phi->slopes, sizeof(double) * (size_t)phi->n);
    for (index_t k = 0; k < phi->k; k++) {
        const double *restrict end = phi->ends + k * phi->n, *restrict after = phi->slopes + (k + 1) * phi->n;
        for (index_t i = 0; i < phi->n; i++) {
            right[i] = beta[i] >= end[i] ? after[i] : right[i];
            left[i] = beta[i] > end[i] ? after[i] : left[i];
        }
    }
}

/* rise = φ'(β+) − g and fall = φ'(β−) − g, each (n); extremes = (m, M) = (max rise, min fall).

   Where some g is not finite, neither extreme is a number, and so nothing is within a tolerance. */
API void gains(index_t n, index_t k, index_t l, index_t e, const double *g, const double *beta, const double *ends,
               const double *slopes, double *rise, double *fall, double *extremes) {
    slopes_of(&(pieces){n, k, ends, slopes}, beta, rise, fall);
    double m = -INFINITY, M = INFINITY, spoilt = 0.0;
    for (index_t i = 0; i < n; i++) {
        rise[i] -= g[i];
        fall[i] -= g[i];
        m = largest(rise[i], m);
        M = smallest(fall[i], M);
        spoilt += 0.0 * g[i];
    }
    extremes[0] = m + spoilt;
    extremes[1] = M + spoilt;
}

/* -- pair steps --------------------------------------------------------------------------------------------

   A pair step makes two passes over the working set, each of which keeps the best entry and its place. Compilers do
   not vectorise such a loop; here eight samples are looked at together, each lane keeps its own best, and the best of
   the lanes is the answer. Vectors are of a width that is a multiple of eight. NaN is never the best.

   The eight lanes are cut into vectors that the processor has: comparisons of longer ones are taken apart by gcc. */
enum { LANES = 8, PART = VECTOR_DOUBLES, PARTS = LANES / PART };

static const double FLAT = 1e-12;   /* times the diagonal: least curvature of a pair, as that of like samples is noise */
static const double LEAST = 1e-300; /* least curvature at all */

static inline vector_i8 choose_i8(vector_i8 mask, vector_i8 yes, vector_i8 no) { return (mask & yes) | (~mask & no); }

static inline vector_f8 choose_f8(vector_i8 mask, vector_f8 yes, vector_f8 no) {
    return (vector_f8)choose_i8(mask, (vector_i8)yes, (vector_i8)no);
}

/* In every lane a best value and its place, and the places at hand. */
typedef struct {
    vector_f8 value[PARTS];
    vector_i8 place[PARTS], here[PARTS];
} champions;

static inline champions champions_from(double value) {
    champions best;
    for (int p = 0; p < PARTS; p++)
        for (int l = 0; l < PART; l++) {
            best.value[p][l] = value;
            best.place[p][l] = 0;
            best.here[p][l] = p * PART + l;
        }
    return best;
}

static inline void keep(champions *best, int p, vector_i8 is_better, vector_f8 value) {
    best->value[p] = choose_f8(is_better, value, best->value[p]);
    best->place[p] = choose_i8(is_better, best->here[p], best->place[p]);
    best->here[p] += LANES;
}

/* The best of all lanes, of equal ones the first, and its place. */
static inline double best_of(const champions *best, index_t *place) {
    double values[LANES];
    index_t places[LANES];
    memcpy(values, best->value, sizeof values);
    memcpy(places, best->place, sizeof places);
    int lane = 0;
    for (int k = 1; k < LANES; k++)
        lane = values[k] > values[lane] ? k : lane;
    *place = places[lane];
    return values[lane];
}

/* The place of the largest drop² ease among those with drop = most − (down − g) > 0; −1 for none.

   ease: inverse to the curvature of each pair, as second order information has it (Fan, Chen & Lin 2005). */
static inline index_t partner(index_t width, const double *restrict g, const double *restrict down,
                              const float *restrict ease, double most) {
    champions best = champions_from(-1.0);
    for (index_t r = 0; r < width; r += LANES)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++) {
            const index_t at = r + p * PART;
            const vector_f8 drop = most - from_f8(down + at) + from_f8(g + at);
            const vector_f8 gain = drop * drop * from_f4(ease + at);
            keep(&best, p, (drop > 0.0) & (gain > best.value[p]), gain);
        }
    index_t place;
    return best_of(&best, &place) >= 0.0 ? place : -1;
}

#define TEMPLATE "decomposition.inc"
#include "each_float_type.inc"
