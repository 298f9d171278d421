/* Passes of the interior-point method over the samples: an iteration without its products and its factorisation.

   polyopt/margin/interior_point/block.py has the constraints. Family q with slack has two rows in Z and in T, 2q with
   (mu, s) and 2q + 1 with (eta, xi); the families without slack follow, with one row each. The multipliers of a
   constraint that a sample does not have are 0; all slacks, and all other multipliers, are positive. So a quotient
   slack/multiplier is infinite where there is no row, and its inverse, the weight in D, 0. */
#include "tiles.h"

typedef struct {
    index_t families, n, soft, rows;
    const int8_t *sides;
    const double *kinks, *caps;
    double *f, *Z, *T;
} PrimalDual;

/* A direction, for products of Z and T that a Newton step is to raise by aim. */
typedef struct {
    index_t rows, n;
    double *aim, *df, *dZ, *dT;
} Direction;

/* Where family q begins in Z and T. */
static inline index_t begin_of(const PrimalDual *at, index_t q) {
    return at->n * (q < at->soft ? 2 * q : at->soft + q);
}

/* Put 0 in the place of x where there is no row. A loop of its own: a choice in the loop that computes x would keep
   that from the vector units. */
static inline void clear_unless_positive(const double *restrict has_row, double *restrict x, index_t count) {
    for (index_t i = 0; i < count; i++)
        x[i] = has_row[i] > 0.0 ? x[i] : 0.0;
}

/* ---- where a point stands ---- */

/* Sums over the families, for each sample of a tile: the diagonal d of D, beta, and its room. */
typedef struct {
    double d[TILE], beta[TILE], room[TILE];
} Weights;

/* Results of `weigh`, for each place in a tile over all tiles: sums of the first three, the largest of the others. */
typedef struct {
    double gain[TILE], fall[TILE], products[TILE], largest[TILE], multiplier[TILE], violation[TILE];
} Strands;

/* tops = the larger of it and x, for samples that have the row. */
static inline void raise_tops(const double *restrict has_row, const double *restrict x, double *restrict tops,
                              index_t count) {
    for (index_t i = 0; i < count; i++)
        tops[i] = largest(has_row[i] > 0.0 ? x[i] : 0.0, tops[i]);
}

static void weigh_with_slack(const PrimalDual *at, double ease, index_t q, index_t first, index_t count,
                             Weights *restrict sums, Strands *restrict over) {
    const index_t n = at->n, begin = begin_of(at, q) + first;
    const int8_t *side = at->sides + q * n + first;
    const double *f = at->f + first, *mu = at->Z + begin, *eta = mu + n, *s = at->T + begin, *xi = s + n;
    const double kink = at->kinks[q], per_unit = 1.0 / largest(fabs(kink), 1.0);
    double violation[TILE];
    for (index_t i = 0; i < count; i++) {
        const double own = mu[i] * s[i], other = eta[i] * xi[i], room = smallest(eta[i], mu[i]);
        sums->d[i] += 1.0 / (s[i] / mu[i] + xi[i] / eta[i] + ease);
        sums->beta[i] += side[i] * mu[i];
        sums->room[i] += room;
        over->gain[i] += kink * mu[i];
        over->fall[i] += kink * (side[i] * room);
        over->products[i] += own + other;
        over->largest[i] = largest(per_unit * largest(other, own), over->largest[i]);
        over->multiplier[i] = largest(mu[i], over->multiplier[i]);
        violation[i] = fabs(kink - side[i] * f[i] - xi[i] + s[i]);
    }
    raise_tops(at->caps + q * n + first, violation, over->violation, count);
}

static void weigh_without_slack(const PrimalDual *at, double ease, index_t q, index_t first, index_t count,
                                Weights *restrict sums, Strands *restrict over) {
    const index_t begin = begin_of(at, q) + first;
    const int8_t *side = at->sides + q * at->n + first;
    const double *f = at->f + first, *mu = at->Z + begin, *s = at->T + begin;
    const double kink = at->kinks[q], per_unit = 1.0 / largest(fabs(kink), 1.0);
    double violation[TILE];
    for (index_t i = 0; i < count; i++) {
        const double own = mu[i] * s[i];
        sums->d[i] += mu[i] / (s[i] + ease * mu[i]);
        sums->beta[i] += side[i] * mu[i];
        sums->room[i] += mu[i];
        over->gain[i] += kink * mu[i];
        over->fall[i] += kink * (side[i] * mu[i]);
        over->products[i] += own;
        over->largest[i] = largest(per_unit * own, over->largest[i]);
        over->multiplier[i] = largest(mu[i], over->multiplier[i]);
        violation[i] = fabs(kink - side[i] * f[i] + s[i]);
    }
    raise_tops(mu, violation, over->violation, count);
}

/* Fill d, the diagonal of D, and the columns beta and room of V: by how much beta can fall and rise. */
API void weigh(index_t n, index_t k, index_t six, const PrimalDual *at, double ease, double *d, double *V,
               double *found) {
    Strands over;
    memset(&over, 0, sizeof over);
    for (index_t first = 0; first < n; first += TILE) {
        const index_t count = tile_size(first, n);
        Weights sums;
        memset(&sums, 0, sizeof sums);
        for (index_t q = 0; q < at->families; q++)
            (q < at->soft ? weigh_with_slack : weigh_without_slack)(at, ease, q, first, count, &sums, &over);
        memcpy(d + first, sums.d, (size_t)count * sizeof(double));
        for (index_t i = 0; i < count; i++) {
            V[(first + i) * k] = sums.beta[i];
            V[(first + i) * k + 1] = sums.room[i];
        }
    }
    const index_t width = tile_size(0, n);
    found[0] = sum_of(over.gain, width);
    found[1] = sum_of(over.fall, width);
    found[2] = sum_of(over.products, width);
    found[3] = largest_of(0.0, over.largest, width);
    found[4] = largest_of(0.0, over.multiplier, width);
    found[5] = largest_of(0.0, over.violation, width);
}

/* Cost of the least slacks of the outputs `shrink` f. */
API double cost(const PrimalDual *at, double shrink) {
    double costs[TILE] = {0};
    for (index_t first = 0; first < at->n; first += TILE) {
        const index_t count = tile_size(first, at->n);
        for (index_t q = 0; q < at->soft; q++) {
            const int8_t *side = at->sides + q * at->n + first;
            const double *cap = at->caps + q * at->n + first, *f = at->f + first;
            const double kink = at->kinks[q];
            for (index_t i = 0; i < count; i++)
                costs[i] += cap[i] * largest(kink - shrink * side[i] * f[i], 0.0);
        }
    }
    return sum_of(costs, tile_size(0, at->n));
}

/* ---- directions ---- */

/* For a tile, the change of the multiplier mu of family q as a function of that of f: change - weight side df.

   `ease` is a dual proximal term: a step may leave each row unmet by `ease` times the change of its multiplier. In
   the limit nothing changes, but no weight in D passes 1/ease; else the rounding of an output times that weight would
   drown X'beta = Rw. */
static void family_changes(const PrimalDual *at, double ease, const double *aims, index_t q, index_t first,
                           index_t count, double *restrict change, double *restrict weight) {
    const index_t n = at->n, begin = begin_of(at, q) + first;
    const int8_t *side = at->sides + q * n + first;
    const double *f = at->f + first, *mu = at->Z + begin, *s = at->T + begin, *aim = aims + begin;
    const double kink = at->kinks[q];
    if (q < at->soft) {
        const double *cap = at->caps + q * n + first, *eta = mu + n, *xi = s + n, *aim_xi = aim + n;
        for (index_t i = 0; i < count; i++) {
            const double own = 1.0 / (s[i] / mu[i] + xi[i] / eta[i] + ease);
            const double push = kink - side[i] * f[i] - xi[i] + s[i] - aim_xi[i] / eta[i] + aim[i] / mu[i];
            weight[i] = own;
            change[i] = own * push;
        }
        clear_unless_positive(cap, change, count);
    } else {
        for (index_t i = 0; i < count; i++) {
            const double lack = side[i] * f[i] - kink - s[i], held = s[i] + ease * mu[i];
            weight[i] = mu[i] / held;
            change[i] = (aim[i] - mu[i] * lack) / held;
        }
        clear_unless_positive(mu, change, count);
    }
}

/* Fill column `column` of V (n, k) with h, where beta changes by h - D df. */
API void condense(index_t n, index_t k, const PrimalDual *at, double ease, const Direction *way, double *V,
                  index_t column) {
    double change[TILE], weight[TILE], h[TILE];
    for (index_t first = 0; first < n; first += TILE) {
        const index_t count = tile_size(first, n);
        memset(h, 0, sizeof h);
        for (index_t q = 0; q < at->families; q++) {
            const int8_t *side = at->sides + q * n + first;
            family_changes(at, ease, way->aim, q, first, count, change, weight);
            for (index_t i = 0; i < count; i++)
                h[i] += side[i] * change[i];
        }
        for (index_t i = 0; i < count; i++)
            V[(first + i) * k + column] = h[i];
    }
}

/* The inverse of the longest step along one row of Z and T, if it is above `steepest`. */
static double steeper(double steepest, const double *z, const double *t, const double *dz, const double *dt,
                      index_t count) {
    int is_passed = 0;
    for (index_t i = 0; i < count; i++)
        is_passed |= (-dz[i] > steepest * z[i]) | (-dt[i] > steepest * t[i]);
    for (index_t i = 0; is_passed && i < count; i++) {
        if (-dz[i] > steepest * z[i])
            steepest = -dz[i] / z[i];
        if (-dt[i] > steepest * t[i])
            steepest = -dt[i] / t[i];
    }
    return steepest;
}

/* The change dt of a slack that goes with that of its multiplier, 0 where there is no row; and by how much the
   product changes per step and per squared step, added to two sums. */
static void slack_changes(const double *restrict z, const double *restrict t, const double *restrict aim,
                          const double *restrict dz, double *restrict dt, index_t count, double *restrict linear,
                          double *restrict square) {
    for (index_t i = 0; i < count; i++) {
        const double there = (aim[i] - t[i] * dz[i]) / z[i], change = z[i] > 0.0 ? there : 0.0;
        dt[i] = change;
        linear[i] += dz[i] * t[i] + z[i] * change;
        square[i] += dz[i] * change;
    }
}

/* Fill dZ and dT, the directions that go with df. found: the longest step, and the products' change per step and per
   squared step. */
API void direct(index_t three, const PrimalDual *at, double ease, const Direction *way, double *found) {
    const index_t n = at->n;
    double steepest = 0.0, linear[TILE] = {0}, square[TILE] = {0}, weight[TILE];
    for (index_t first = 0; first < n; first += TILE) {
        const index_t count = tile_size(first, n);
        const double *df = way->df + first;
        for (index_t q = 0; q < at->families; q++) {
            const int8_t *side = at->sides + q * n + first;
            const index_t begin = begin_of(at, q) + first, rows = q < at->soft ? 2 : 1;
            double *change = way->dZ + begin;
            family_changes(at, ease, way->aim, q, first, count, change, weight);
            for (index_t i = 0; i < count; i++)
                change[i] -= weight[i] * side[i] * df[i];
            for (index_t i = 0; rows == 2 && i < count; i++)
                change[n + i] = -change[i];
            for (index_t p = begin; p < begin + rows * n; p += n) {
                slack_changes(at->Z + p, at->T + p, way->aim + p, way->dZ + p, way->dT + p, count, linear, square);
                steepest = steeper(steepest, at->Z + p, at->T + p, way->dZ + p, way->dT + p, count);
            }
        }
    }
    found[1] = sum_of(linear, tile_size(0, n));
    found[2] = sum_of(square, tile_size(0, n));
    found[0] = steepest > 0.0 ? 1.0 / steepest : INFINITY;
}

/* ---- aims ---- */

/* The caps of a row; NULL for a row without slack. */
static inline const double *cap_of(const PrimalDual *at, index_t row) {
    return row < 2 * at->soft ? at->caps + row / 2 * at->n : NULL;
}

/* Aim at products of mu per unit of cost; less `second` times what dZ and dT would add to them. */
API void target(const PrimalDual *at, const Direction *way, double mean, double mu, double second) {
    for (index_t row = 0; row < at->rows; row++) {
        const index_t n = at->n, begin = row * n;
        const double *z = at->Z + begin, *t = at->T + begin, *dz = way->dZ + begin, *dt = way->dT + begin;
        const double *cap = cap_of(at, row);
        double *restrict aim = way->aim + begin;
        for (index_t i = 0; i < n; i++)
            aim[i] = mu * (cap ? cap[i] : mean) - z[i] * t[i] - second * dz[i] * dt[i];
    }
}

/* ---- steps ---- */

/* Move everything by the same step. */
API void step(const PrimalDual *at, const Direction *way, double length) {
    add_multiple(at->Z, length, way->dZ, at->rows * at->n);
    add_multiple(at->T, length, way->dT, at->rows * at->n);
    add_multiple(at->f, length, way->df, at->n);
}

/* Move two rows by one step for each sample: the whole one, or else this share of the way to the nearer end. */
static void move_pair(double share, double *restrict z, const double *restrict dz, index_t n) {
    for (index_t i = 0; i < n; i++) {
        double length = 1.0;
        if (length * -dz[i] > share * z[i])
            length = share * z[i] / -dz[i];
        if (length * -dz[n + i] > share * z[n + i])
            length = share * z[n + i] / -dz[n + i];
        z[i] += length * dz[i];
        z[n + i] += length * dz[n + i];
    }
}

/* Move the outputs by the whole step, and each sample by it or else by this share of the way to its own nearest end.
   mu and eta move together, as their sum is fixed; s and xi do, as their difference matters. */
API void step_apart(const PrimalDual *at, const Direction *way, double share) {
    const index_t n = at->n;
    for (index_t p = 0; p < 2 * at->soft * n; p += 2 * n) {
        move_pair(share, at->Z + p, way->dZ + p, n);
        move_pair(share, at->T + p, way->dT + p, n);
    }
    for (index_t p = 2 * at->soft * n; p < at->rows * n; p++) {
        at->Z[p] += largest(-share * at->Z[p], way->dZ[p]);
        at->T[p] += largest(-share * at->T[p], way->dT[p]);
    }
    add_multiple(at->f, 1.0, way->df, n);
}
