/* Multipliers of one face of the Convex Polytope Machine that follow who comes, and the shares that go with them.

   polyopt/cpm/global_search/spread.py states what is raised, and the bound that any multipliers in their boxes prove: as
   that is computed elsewhere, products here may be fused and sums be reordered. Positive i may be on the face with a
   share; it brings its own multiplier and moves delta_i of those that are there, and e_i is the vector of all these.

   Vectors of d numbers are padded with zeros to whole registers, `strips` of them: with few features a loop over a
   vector then has no remainder, and no turns where `strips` is known. */
#include "vectors.h"
#include <stdlib.h>

#define NEWTON_STEPS 2      /* for a base multiplier */
#define MAX_ROOM_SHARE 0.9  /* of its room, that a step may take */
#define MIN_RHO 1e-12       /* rho, for which the parabola would have no end */
#define LENGTH_MARGIN 1e-9  /* of rho, by which a length is larger */
enum { TILE = 8, TILE_VECTORS = TILE / VECTOR_DOUBLES }; /* rows whose pulls are computed at once */

/* A face and its multipliers as they are raised. Squared lengths q (n); P (p, d), costs B and shares (p) of those that
   may be there. Multipliers a (n), delta (p, n), own (p); e (p, d) and length (p). What is left of the boxes above and
   below, up and down (n). Padded: rows A (n); tiles, each the transpose (d, 8) of eight rows; M (d), the inverse of
   I - sum e e'/length; v; and of the positive at hand e, M e, H e, a row's product with H, and the pull of a row's
   slope. H is M less the positive's own term. */
typedef struct {
    index_t n, d, p;
    const double *q, *P, *B, *share;
    double *a, *delta, *own, *e, *length, *up, *down;
    vector_f8 *A, *tiles, *M, *v, *own_e, *Me, *He, *Hx, *pull;
} Face;

/* What a positive is raised with: H = M - part (M e)(M e)', and the curvature of what a row adds along itself and along
   its product with H. */
typedef struct {
    index_t i;
    double share, part, mu, along, bent;
} Riser;

static inline const vector_f8 *tile_of(const Face *at, index_t first) {
    return at->tiles + first * at->d / VECTOR_DOUBLES;
}

INLINE double product(const vector_f8 *x, const vector_f8 *y, int strips) {
    vector_f8 total = x[0] * y[0];
    for (int s = 1; s < strips; s++)
        total += x[s] * y[s];
    return sum_vector(total);
}

INLINE void add(vector_f8 *y, double factor, const vector_f8 *x, int strips) {
    for (int s = 0; s < strips; s++)
        y[s] += factor * x[s];
}

/* M x of a symmetric M, for x (d). */
INLINE void times(const vector_f8 *M, const double *x, vector_f8 *found, index_t d, int strips) {
    enum { AT_ONCE = 4 };
    int s = 0;
    for (; s + AT_ONCE <= strips; s += AT_ONCE) {
        vector_f8 sums[AT_ONCE] = {0};
        for (index_t r = 0; r < d; r++)
#pragma GCC unroll 4
            for (int t = 0; t < AT_ONCE; t++)
                sums[t] += x[r] * M[r * strips + s + t];
        memcpy(found + s, sums, sizeof sums);
    }
    for (; s < strips; s++) {
        vector_f8 sum = {0};
        for (index_t r = 0; r < d; r++)
            sum += x[r] * M[r * strips + s];
        found[s] = sum;
    }
}

/* The products of the rows of a tile with x (d): sums of many numbers at once. */
INLINE void tile_times(const vector_f8 *tile, const double *x, vector_f8 *products, index_t d) {
    vector_f8 sums[TILE_VECTORS] = {0};
    for (index_t r = 0; r < d; r++)
#pragma GCC unroll 4
        for (int s = 0; s < TILE_VECTORS; s++)
            sums[s] += x[r] * tile[r * TILE_VECTORS + s];
    memcpy(products, sums, sizeof sums);
}

/* Raise the base multipliers, a few Newton steps each. */
INLINE void raise_base(const Face *at, double mu, int strips) {
    for (index_t j = 0; j < at->n; j++)
        for (int time = 0; time < NEWTON_STEPS; time++) {
            const vector_f8 *x = at->A + j * strips;
            const double slope = 1.0 - 0.5 * product(x, at->v, strips);
            const double up = mu / at->up[j], down = mu / at->down[j];
            const double curve = 0.5 * at->q[j] + up / at->up[j] + down / at->down[j];
            const double step = clip((slope + down - up) / curve, -MAX_ROOM_SHARE * at->down[j],
                                        MAX_ROOM_SHARE * at->up[j]);
            at->a[j] += step;
            at->down[j] += step;
            at->up[j] -= step;
            add(at->v, step, x, strips);
        }
}

/* The root of l (l - rho) = mu rho / factor, or what leaves the matrix some room where rounding leaves none. */
static double length_of(double rho, double mu, double factor) {
    const double root = 0.5 * (rho + sqrt(rho * rho + 4.0 * mu * rho / factor));
    return largest((1.0 + LENGTH_MARGIN) * rho, root);
}

/* Where slope t - curve t^2 / 2 + mu log(room - t) is largest, which is above 0. */
static inline double into(double slope, double curve, double room, double mu) {
    const double middle = slope + curve * room, excess = slope * room - mu;
    const double root = sqrt(largest(0.0, middle * middle - 4.0 * curve * excess));
    return 2.0 * excess / (middle + root);
}

/* Hx = H x, of which M x is there; returns x' H x. */
INLINE double less_own(const Face *at, const Riser *one, const vector_f8 *x, int strips) {
    add(at->Hx, -one->part * product(x, at->Me, strips), at->Me, strips);
    return product(x, at->Hx, strips);
}

/* Add a step along the row x to e_i, and to what pulls at the rows. */
INLINE void move_along(const Face *at, const Riser *one, const vector_f8 *x, double step, int strips) {
    const double along = step * one->along, bent = step * one->bent;
    for (int s = 0; s < strips; s++) {
        at->own_e[s] += step * x[s];
        at->pull[s] += along * x[s] + bent * at->Hx[s];
    }
}

/* Raise the multiplier of the positive itself, of which x is the row, padded. */
INLINE void raise_own(const Face *at, const Riser *one, const vector_f8 *x, int strips) {
    const index_t i = one->i;
    times(at->M, (const double *)x, at->Hx, at->d, strips);
    const double square = less_own(at, one, x, strips);
    const double slope = one->share - product(x, at->pull, strips);
    const double curve = one->along * product(x, x, strips) + one->bent * square;
    const double new = clip(at->own[i] + slope / curve, 0.0, at->B[i]), step = new - at->own[i];
    at->own[i] = new;
    move_along(at, one, x, step, strips);
}

/* Raise the move of row j. */
INLINE void raise_move(const Face *at, const Riser *one, index_t j, int strips) {
    const vector_f8 *x = at->A + j * strips;
    double *delta = at->delta + one->i * at->n + j;
    const double old = *delta, mu = one->mu;
    times(at->M, (const double *)x, at->Hx, at->d, strips);
    const double square = less_own(at, one, x, strips), curve = one->along * at->q[j] + one->bent * square;
    const double above = at->up[j] + largest(old, 0.0), below = at->down[j] + largest(-old, 0.0);
    const double at_zero = one->share - product(x, at->pull, strips) + curve * old;
    double new = 0.0;
    if (at_zero * above > mu)
        new = into(at_zero, curve, above, mu);
    else if (-at_zero * below > mu)
        new = -into(-at_zero, curve, below, mu);
    if (new == old)
        return;
    *delta = new;
    at->up[j] = above - largest(new, 0.0);
    at->down[j] = below - largest(-new, 0.0);
    move_along(at, one, x, new - old, strips);
}

/* The first row of a tile, from j to before `last`, whose move is not 0 or does not stay there, whatever the curve. */
INLINE index_t next_changing(const Face *at, const Riser *one, index_t first, index_t j, index_t last) {
    const double *delta = at->delta + one->i * at->n, *up = at->up + first, *down = at->down + first;
    double gains[TILE];
    tile_times(tile_of(at, first), (const double *)at->pull, (vector_f8 *)gains, at->d);
#pragma omp simd
    for (int lane = 0; lane < TILE; lane++) {
        const double slope = one->share - gains[lane];
        gains[lane] = largest(slope * up[lane], -slope * down[lane]);
    }
    while (j < last && !(delta[j] != 0.0 || gains[j - first] > one->mu))
        j++;
    return j;
}

/* Raise the moves of a positive, as far as they may change. */
INLINE void raise_all_moves(const Face *at, const Riser *one, int strips) {
    for (index_t first = 0; first < at->n; first += TILE) {
        const index_t last = first + TILE < at->n ? first + TILE : at->n;
        for (index_t j = first; (j = next_changing(at, one, first, j, last)) < last; j++)
            raise_move(at, one, j, strips);
    }
}

/* Raise the moves of a positive that are not 0. */
INLINE void raise_some_moves(const Face *at, const Riser *one, int strips) {
    const double *delta = at->delta + one->i * at->n;
    for (index_t j = 0; j < at->n; j++)
        if (delta[j] != 0.0)
            raise_move(at, one, j, strips);
}

/* Raise what positive i has of the multipliers, and give it the best length; M follows in rank two. */
INLINE void raise_one(const Face *at, index_t i, double mu, bool all, vector_f8 *x, int strips) {
    const index_t d = at->d;
    const double share = at->share[i], factor = 0.25 * share * (1.0 - share);
    double *e = at->e + i * d, *own_e = (double *)at->own_e;
    memcpy(own_e, e, (size_t)d * sizeof(double));
    times(at->M, e, at->Me, d, strips);
    double square = product(at->own_e, at->Me, strips);
    const double part = 1.0 / (at->length[i] + square), left = 1.0 - part * square;
    const double rho = largest(left * square, MIN_RHO), bent = 2.0 * mu / (length_of(rho, mu, factor) - rho);
    const Riser one = {i, share, part, mu, 0.5 * share * share, bent};
    for (int s = 0; s < strips; s++) {
        at->pull[s] = 0.5 * share * at->v[s] + bent * left * at->Me[s];
        at->v[s] -= share * at->own_e[s];
    }
    memcpy(x, at->P + i * d, (size_t)d * sizeof(double));
    raise_own(at, &one, x, strips);
    if (all)
        raise_all_moves(at, &one, strips);
    else
        raise_some_moves(at, &one, strips);
    add(at->v, share, at->own_e, strips);
    memcpy(e, own_e, (size_t)d * sizeof(double));
    times(at->M, own_e, at->He, d, strips);
    add(at->He, -part * product(at->own_e, at->Me, strips), at->Me, strips);
    square = product(at->own_e, at->He, strips);
    at->length[i] = length_of(largest(square, MIN_RHO), mu, factor);
    const double back = 1.0 / (at->length[i] - square);
    for (index_t r = 0; r < d; r++) {
        add(at->M + r * strips, back * ((double *)at->He)[r], at->He, strips);
        add(at->M + r * strips, -part * ((double *)at->Me)[r], at->Me, strips);
    }
}

/* Steps `first` to before `last`: of p + 1 steps of a sweep the first raises the base multipliers, each other one a
   positive, all of its moves in the first sweep. */
INLINE void raise_steps(const Face *at, double mu, index_t first, index_t last, vector_f8 *x, int strips) {
    const index_t period = at->p + 1;
    for (index_t step = first; step < last; step++)
        if (step % period == 0)
            raise_base(at, mu, strips);
        else
            raise_one(at, step % period - 1, mu, step < period, x, strips);
}

/* Rows (count, d), padded. */
static void pad(const double *rows, vector_f8 *padded, index_t count, index_t d, index_t strips) {
    memset(padded, 0, (size_t)(count * strips) * sizeof(vector_f8));
    for (index_t j = 0; j < count; j++)
        memcpy(padded + j * strips, rows + j * d, (size_t)d * sizeof(double));
}

/* What follows the multipliers: what is left of the boxes of costs C (n), and v. */
static void follow_anew(const Face *at, const double *C, int strips) {
    const index_t n = at->n;
    memset(at->v, 0, (size_t)strips * sizeof(vector_f8));
    for (index_t j = 0; j < n; j++) {
        at->up[j] = C[j] - at->a[j];
        at->down[j] = at->a[j];
        add(at->v, at->a[j], at->A + j * strips, strips);
    }
    for (index_t i = 0; i < at->p; i++) {
        const double *delta = at->delta + i * n;
        for (index_t j = 0; j < n; j++) {
            at->up[j] -= largest(delta[j], 0.0);
            at->down[j] -= largest(-delta[j], 0.0);
        }
        add_multiple((double *)at->v, at->share[i], at->e + i * at->d, at->d);
    }
}

/* Room for vectors, taken from one block in turn. */
static vector_f8 *take(vector_f8 **next, index_t count) {
    vector_f8 *taken = *next;
    *next += count;
    return taken;
}

/* Raise a face by steps `first` to last - 1, of which each sweep has p + 1; -1 without memory. */
API index_t cpm_raise_spread(index_t n, index_t d, index_t p, const double *A, const double *q, const double *C,
                             const double *P, const double *B, const double *share, double *a, double *delta,
                             double *own, double *e, double *length, double *M, double mu,
                             index_t first, index_t last) {
    const index_t strips = d > VECTOR_DOUBLES ? (d + VECTOR_DOUBLES - 1) / VECTOR_DOUBLES : 1;
    const index_t column = (n + TILE - 1) / TILE * TILE_VECTORS; /* of a number for each row */
    const index_t count = (n + d + 7) * strips + (d + 2) * column;
    void *block = malloc((size_t)(count + 1) * VECTOR_BYTES);
    if (!block)
        return -1;
    vector_f8 *next = (vector_f8 *)(((uintptr_t)block + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES);
    const Face at = {
        .n = n, .d = d, .p = p, .q = q, .P = P, .B = B, .share = share,
        .a = a, .delta = delta, .own = own, .e = e, .length = length,
        .A = take(&next, n * strips), .M = take(&next, d * strips),
        .v = take(&next, strips), .own_e = take(&next, strips), .Me = take(&next, strips), .He = take(&next, strips),
        .Hx = take(&next, strips), .pull = take(&next, strips),
        .up = (double *)take(&next, column), .down = (double *)take(&next, column),
        .tiles = take(&next, d * column),
    };
    vector_f8 *x = take(&next, strips);
    pad(A, at.A, n, d, strips);
    pad(M, at.M, d, d, strips);
    memset(at.own_e, 0, (size_t)strips * sizeof(vector_f8));
    memset(x, 0, (size_t)strips * sizeof(vector_f8));
    memset(at.up, 0, (size_t)column * VECTOR_BYTES);
    memset(at.down, 0, (size_t)column * VECTOR_BYTES);
    memset(at.tiles, 0, (size_t)(d * column) * VECTOR_BYTES);
    for (index_t j = 0; j < n; j++)
        for (index_t r = 0; r < d; r++)
            ((double *)at.tiles)[(j / TILE * d + r) * TILE + j % TILE] = A[j * d + r];
    follow_anew(&at, C, (int)strips);
    switch (strips) { /* few strips are known to the compiler */
    case 1: raise_steps(&at, mu, first, last, x, 1); break;
    case 2: raise_steps(&at, mu, first, last, x, 2); break;
    case 3: raise_steps(&at, mu, first, last, x, 3); break;
    default: raise_steps(&at, mu, first, last, x, (int)strips);
    }
    for (index_t r = 0; r < d; r++)
        memcpy(M + r * d, at.M + r * strips, (size_t)d * sizeof(double));
    free(block);
    return 0;
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
        const double along = at->length[on] * at->share[on] - simd_dot(at->e + on * d, at->pulled + k * d, d);
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
    add_multiple(at->pulled + high * d, -step, at->e + from * d, d);
    add_multiple(at->pulled + low * d, step, at->e + to * d, d);
    return step * (most - least) - 0.5 * step * step * bent;
}

/* Move shares to where they cost least: so many passes, or until one gains no more than `little`. */
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
