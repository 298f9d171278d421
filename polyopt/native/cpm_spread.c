/* Multipliers of one face of the Convex Polytope Machine that follow who comes, and the shares that go with them.

   polyopt/solvers/cpm/spread.py states what is raised, and the bound that any multipliers in their boxes prove: as that
   is computed elsewhere, products here may be fused and sums be reordered. Positive i may be on the face with a share;
   it brings its own multiplier and moves delta_i of those that are there, and e_i is the vector of all these. */
#include "common.h"

#define NEWTON_STEPS 2      /* for a base multiplier */
#define MAX_ROOM_SHARE 0.9  /* of its room, that a step may take */
#define MIN_RHO 1e-12       /* rho, for which the parabola would have no end */
#define LENGTH_MARGIN 1e-9  /* of rho, by which a length is larger */

/* The face and its multipliers as they are raised. Rows A (n, d), squared lengths q (n); P (p, d), costs B and shares
   (p) of those that may be there. Multipliers a (n), delta (p, n), own (p); e (p, d) and length (p). What is left of
   the boxes above and below, up and down (n); v (d), M (d, d), the inverse of I - sum e e'/length, and M A_j of each row,
   rows (r, d), with A' as `across` (d, r), where r is n, or 0 where that does not pay. Of the sample at hand: He, Hx, Me
   (d), the products of e_i and of a row with H, M less what i is in it, and that of e_i with M; of_M and of_H (r), the
   products of the rows with Me and with He. */
typedef struct {
    index_t n, d, p, r;
    const double *A, *q, *P, *B, *share;
    double *a, *delta, *own, *e, *length, *up, *down, *v, *M, *rows;
    const double *across;
    double *He, *Hx, *Me, *of_M, *of_H;
} Ascent;

/* What a positive is raised with: its place, H = M - part (M e)(M e)', and the weights of the slope. */
typedef struct {
    index_t i;
    double share, pull, part, mu;
} Riser;

/* NaN stays NaN, by which it is seen that numbers were too far apart. */
static inline double clipped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static inline double dot(const double *x, const double *y, index_t d) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (index_t r = 0; r < d; r++)
        total += x[r] * y[r];
    return total;
}

static inline void add_times(double *restrict y, double factor, const double *restrict x, index_t d) {
    for (index_t r = 0; r < d; r++)
        y[r] += factor * x[r];
}

/* x' matrix, of a matrix (d, width): sums along its rows are of many numbers at once. */
static inline void times(const double *restrict x, const double *restrict matrix, double *restrict product, index_t d,
                         index_t width) {
    memset(product, 0, (size_t)width * sizeof(double));
    for (index_t r = 0; r < d; r++)
        add_times(product, x[r], matrix + r * width, width);
}

/* Raise the base multipliers, a few Newton steps each. */
API void cpm_raise_base(const Ascent *at, double mu) {
    const index_t d = at->d;
    for (index_t j = 0; j < at->n; j++)
        for (int time = 0; time < NEWTON_STEPS; time++) {
            const double *x = at->A + j * d, slope = 1.0 - 0.5 * dot(x, at->v, d);
            const double up = mu / at->up[j], down = mu / at->down[j];
            const double curve = 0.5 * at->q[j] + up / at->up[j] + down / at->down[j];
            const double step = clipped((slope + down - up) / curve, -MAX_ROOM_SHARE * at->down[j],
                                        MAX_ROOM_SHARE * at->up[j]);
            at->a[j] += step;
            at->down[j] += step;
            at->up[j] -= step;
            add_times(at->v, step, x, d);
        }
}

/* The root of l (l - rho) = mu rho / factor, or what leaves the matrix some room where rounding leaves none. */
static double length_of(double rho, double mu, double factor) {
    const double root = 0.5 * (rho + sqrt(rho * rho + 4.0 * mu * rho / factor));
    return largest((1.0 + LENGTH_MARGIN) * rho, root);
}

/* Where slope t - curve t^2 / 2 + mu log(room - t) is largest, which is above 0. */
static double into(double slope, double curve, double room, double mu) {
    const double middle = slope + curve * room, excess = slope * room - mu;
    const double root = sqrt(largest(0.0, middle * middle - 4.0 * curve * excess));
    return 2.0 * excess / (middle + root);
}

/* Hx = H x, of which M x is there; returns x' H x. */
static inline double less_own(const Ascent *at, const double *restrict x, double part) {
    const index_t d = at->d;
    double *restrict Hx = at->Hx;
    const double *restrict Me = at->Me, taken = part * dot(x, Me, d);
    double square = 0.0;
#pragma omp simd reduction(+ : square)
    for (index_t r = 0; r < d; r++) {
        Hx[r] -= taken * Me[r];
        square += x[r] * Hx[r];
    }
    return square;
}

/* Add a step along the row x to e_i, v and H e_i. */
static inline void move_along(const Ascent *at, const Riser *one, const double *restrict x, double step) {
    double *restrict e = at->e + one->i * at->d, *restrict v = at->v, *restrict He = at->He;
    const double *restrict Hx = at->Hx, shared = step * one->share;
    for (index_t r = 0; r < at->d; r++) {
        e[r] += step * x[r];
        v[r] += shared * x[r];
        He[r] += step * Hx[r];
    }
}

/* Raise the multiplier of the positive itself. */
static void raise_own(const Ascent *at, const Riser *one) {
    const index_t d = at->d, i = one->i;
    const double *x = at->P + i * d, share = one->share;
    times(x, at->M, at->Hx, d, d);
    const double square = less_own(at, x, one->part);
    const double slope = share * (1.0 - 0.5 * dot(x, at->v, d)) - 2.0 * one->pull * dot(x, at->He, d);
    const double curve = 0.5 * share * share * dot(x, x, d) + 2.0 * one->pull * square;
    const double new = clipped(at->own[i] + slope / curve, 0.0, at->B[i]), step = new - at->own[i];
    at->own[i] = new;
    move_along(at, one, x, step);
}

/* Raise the move of row j, from `old`, with this slope. */
static inline void raise_move(const Ascent *at, const Riser *one, index_t j, double old, double slope) {
    const index_t d = at->d;
    const double *x = at->A + j * d;
    if (at->r)
        memcpy(at->Hx, at->rows + j * d, (size_t)d * sizeof(double));
    else
        times(x, at->M, at->Hx, d, d);
    const double square = less_own(at, x, one->part);
    const double curve = 0.5 * one->share * one->share * at->q[j] + 2.0 * one->pull * square;
    const double above = at->up[j] + largest(old, 0.0), below = at->down[j] + largest(-old, 0.0);
    const double at_zero = slope + curve * old;
    double new = 0.0;
    if (at_zero * above > one->mu)
        new = into(at_zero, curve, above, one->mu);
    else if (-at_zero * below > one->mu)
        new = -into(-at_zero, curve, below, one->mu);
    if (new == old)
        return;
    at->delta[one->i * at->n + j] = new;
    at->up[j] = above - largest(new, 0.0);
    at->down[j] = below - largest(-new, 0.0);
    move_along(at, one, x, new - old);
}

/* Raise the moves of a positive, all of them or those that are not 0: most of the time is spent here. */
static void raise_moves(const Ascent *at, const Riser *one, bool all) {
    const index_t d = at->d;
    const double *delta = at->delta + one->i * at->n, mu = one->mu;
    for (index_t j = 0; j < at->n; j++) {
        const double old = delta[j], *restrict x = at->A + j * d, *restrict v = at->v, *restrict He = at->He;
        if (old == 0.0 && !all)
            continue;
        double along = 0.0, bent = 0.0;
#pragma omp simd reduction(+ : along, bent)
        for (index_t r = 0; r < d; r++) {
            along += x[r] * v[r];
            bent += x[r] * He[r];
        }
        const double slope = one->share * (1.0 - 0.5 * along) - 2.0 * one->pull * bent;
        if (old == 0.0 && slope * at->up[j] <= mu && -slope * at->down[j] <= mu)
            continue; /* it stays there, whatever the curve */
        raise_move(at, one, j, old, slope);
    }
}

/* matrix (rows, d) += u back He' - w part Me', for numbers u and w of each row. */
static void follow(const Ascent *at, double *matrix, index_t rows, const double *u, const double *w, double back,
                   double part) {
    const double *restrict He = at->He, *restrict Me = at->Me;
    for (index_t j = 0; j < rows; j++) {
        const double more = back * u[j], less = part * w[j];
        double *restrict row = matrix + j * at->d;
        for (index_t s = 0; s < at->d; s++)
            row[s] += more * He[s] - less * Me[s];
    }
}

/* Raise what positive i has of the multipliers, and give it the best length.

   M follows what i becomes, in rank two, and so do its products with the rows, if they are kept: then H A_j takes as many
   steps as there are coordinates, and not their square. */
static void raise_one(const Ascent *at, index_t i, double mu, bool all) {
    const index_t d = at->d;
    const double share = at->share[i], factor = 0.25 * share * (1.0 - share), *e = at->e + i * d;
    times(e, at->M, at->Me, d, d);
    double square = dot(at->Me, e, d);
    const double part = 1.0 / (at->length[i] + square), left = 1.0 - part * square;
    for (index_t r = 0; r < d; r++)
        at->He[r] = left * at->Me[r];
    const double rho = largest(left * square, MIN_RHO);
    const Riser one = {i, share, mu / (length_of(rho, mu, factor) - rho), part, mu};
    times(at->Me, at->across, at->of_M, d, at->r);
    raise_own(at, &one);
    raise_moves(at, &one, all);
    square = dot(at->He, e, d);
    at->length[i] = length_of(largest(square, MIN_RHO), mu, factor);
    const double back = 1.0 / (at->length[i] - square);
    times(at->He, at->across, at->of_H, d, at->r);
    follow(at, at->M, d, at->He, at->Me, back, part);
    follow(at, at->rows, at->r, at->of_H, at->of_M, back, part);
}

/* Raise what the positives from `first` to before `last` have, all of their moves or those that are not 0. */
API void cpm_raise_positives(const Ascent *at, index_t first, index_t last, double mu, index_t all) {
    for (index_t i = first; i < last; i++)
        raise_one(at, i, mu, all != 0);
}

/* Multipliers that are fixed: slope and length (F, p), e (F, p, d); times (F), how many faces one stands for; allowed
   (F, p), who may be on it; shares (F, p), sum_i share e_i as `pulled` (F, d), and curves (F, p). */
typedef struct {
    index_t F, p, d;
    const double *slope, *e, *length, *times;
    const bool *allowed;
    double *share, *pulled;
    const double *curve;
} Fixed;

/* Move weight of i from its face of the largest slope to that of the least; by how much the cost falls. */
static double move_share(const Fixed *at, index_t i) {
    const index_t d = at->d;
    index_t low = -1, high = -1;
    double least = INFINITY, most = -INFINITY;
    for (index_t k = 0; k < at->F; k++) {
        const index_t on = k * at->p + i;
        if (!at->allowed[on])
            continue;
        const double along = at->length[on] * at->share[on] - dot(at->e + on * d, at->pulled + k * d, d);
        const double slope = at->slope[on] + 0.5 * along / at->times[k];
        if (slope < least)
            low = k, least = slope;
        if (at->share[on] > 0.0 && slope > most)
            high = k, most = slope;
    }
    if (low < 0 || high < 0 || low == high)
        return 0.0;
    const index_t to = low * at->p + i, from = high * at->p + i;
    const double bent = at->curve[to] + at->curve[from];
    const double step = most - least < at->share[from] * bent ? (most - least) / bent : at->share[from];
    at->share[from] -= step;
    at->share[to] += step;
    add_times(at->pulled + high * d, -step, at->e + from * d, d);
    add_times(at->pulled + low * d, step, at->e + to * d, d);
    return step * (most - least) - 0.5 * step * step * bent;
}

/* Move shares to where the cost of shares is least: so many passes, or until one gains no more than `little`. */
API void cpm_best_shares(index_t F, index_t p, index_t d, const double *slope, const double *e, const double *length,
                         const double *times, const bool *allowed, double *share, double *pulled, const double *curve,
                         index_t passes, double little) {
    const Fixed at = {F, p, d, slope, e, length, times, allowed, share, pulled, curve};
    for (index_t pass = 0; pass < passes; pass++) {
        double fallen = 0.0;
        for (index_t i = 0; i < p; i++)
            for (index_t time = 1; time < F; time++) {
                const double gained = move_share(&at, i);
                fallen += gained;
                if (gained == 0.0)
                    break;
            }
        if (fallen <= little)
            break;
    }
}
