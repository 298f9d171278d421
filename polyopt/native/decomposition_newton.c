/* Newton's method on the dual over one working set, one change of the active set at a time.

   Variables at kinks of φ are held there; over the n free ones F the optimum is a linear system, whose matrix
   K_FF / unit + 1 + ridge I has a Cholesky factor that is kept while variables join and leave: the upper triangular U
   with U'U = it, its columns in the order of F. With `ones` the solution of U' ones = 1, the condition Σ d = 0 costs
   two products. polyopt/margin/decomposition/newton.py has the mathematics, and makes the first factor.

   U has room for p variables: it is (p, p), and r, u, d, ones and F have p entries. */
#include "decomposition.h"

enum { DONE, STUCK, GOING, FULL }; /* why pivots end */

enum { JOIN_LEAST = 8, JOIN_PART = 32 };   /* violators that join after a whole step: so many, or this part of F */
static const double JOIN_VIOLATION = 0.25; /* share of the tolerance by which a variable must violate to join */
static const double LONGEST_STEP = 1e3;    /* times Newton's own */
/* Whole steps in which the violation must fall to this share, or the dual rise by that share of all that it has
   risen; else it is rounding that keeps them where they are. */
enum { PATIENCE = 20 };
static const double FALL_SHARE = 0.9, RISE_SHARE = 1e-9;

/* Solve U' x = x in place, four rows of U at a time. */
API void factor_solve_transposed(index_t p, const double *U, index_t n, double *restrict x) {
    index_t k = 0;
    for (; k + 4 <= n; k += 4) {
        const double *restrict a = U + k * p, *restrict b = a + p, *restrict c = b + p, *restrict e = c + p;
        const double s = x[k] / a[k];
        const double t = (x[k + 1] - s * a[k + 1]) / b[k + 1];
        const double v = (x[k + 2] - s * a[k + 2] - t * b[k + 2]) / c[k + 2];
        const double w = (x[k + 3] - s * a[k + 3] - t * b[k + 3] - v * c[k + 3]) / e[k + 3];
        x[k] = s, x[k + 1] = t, x[k + 2] = v, x[k + 3] = w;
        for (index_t j = k + 4; j < n; j++)
            x[j] -= s * a[j] + t * b[j] + v * c[j] + w * e[j];
    }
    for (; k < n; k++) {
        x[k] /= U[k * p + k];
        for (index_t j = k + 1; j < n; j++)
            x[j] -= x[k] * U[k * p + j];
    }
}

/* Solve U x = x in place, two rows of U at a time from the last on. */
static void solve_upper(index_t p, const double *U, index_t n, double *restrict x) {
    index_t k = n - 1;
    for (; k >= 1; k -= 2) {
        const double *restrict a = U + (k - 1) * p, *restrict b = U + k * p;
        double rest_a = 0.0, rest_b = 0.0;
#pragma omp simd reduction(+ : rest_a, rest_b)
        for (index_t j = k + 1; j < n; j++) {
            rest_a += a[j] * x[j];
            rest_b += b[j] * x[j];
        }
        x[k] = (x[k] - rest_b) / b[k];
        x[k - 1] = (x[k - 1] - rest_a - a[k] * x[k]) / a[k - 1];
    }
    if (k == 0) {
        double rest = 0.0;
#pragma omp simd reduction(+ : rest)
        for (index_t j = 1; j < n; j++)
            rest += U[j] * x[j];
        x[0] = (x[0] - rest) / U[0];
    }
}

/* Newton's step d for the residual r, and the intercept b that makes it balance, which is returned. */
API double newton_direction(index_t p, const double *U, index_t n, double unit, const double *r, const double *ones,
                            double *u, double *d) {
    memcpy(u, r, sizeof(double) * (size_t)n);
    factor_solve_transposed(p, U, n, u);
    double along = 0.0, size = 0.0;
#pragma omp simd reduction(+ : along, size)
    for (index_t k = 0; k < n; k++) {
        along += ones[k] * u[k];
        size += ones[k] * ones[k];
    }
    const double b = along / size;
    for (index_t k = 0; k < n; k++)
        d[k] = u[k] - b * ones[k];
    solve_upper(p, U, n, d);
    double rest = 0.0; /* Σ d, which rounding leaves where K_FF is all but singular */
#pragma omp simd reduction(+ : rest)
    for (index_t k = 0; k < n; k++)
        rest += d[k];
    for (index_t k = 0; k < n; k++)
        d[k] = (d[k] - rest / (double)n) / unit;
    return b;
}

/* Let variable i join: one more column of the factor. column (n) is room to work in. */
API void factor_join(index_t q, index_t p, const double *K, double *U, index_t *F, index_t n, index_t i, double unit,
                     double ridge, double *ones, double *column) {
    for (index_t k = 0; k < n; k++)
        column[k] = K[i * q + F[k]] / unit + 1.0;
    factor_solve_transposed(p, U, n, column);
    double rest = K[i * q + i] / unit + 1.0 + ridge, one = 1.0;
    for (index_t k = 0; k < n; k++) {
        rest -= column[k] * column[k];
        one -= column[k] * ones[k];
        U[k * p + n] = column[k];
    }
    U[n * p + n] = sqrt(largest(ridge, rest));
    ones[n] = one / U[n * p + n];
    F[n] = i;
}

/* Take the variable at this place of F out: its column of the factor goes, and rotations make the rest triangular
   again; n − 1 are left. */
API void factor_drop(index_t p, double *U, index_t *F, double *r, double *ones, index_t n, index_t place) {
    for (index_t k = 0; k < n; k++) {
        const index_t first = k - 1 > place ? k - 1 : place;
        if (first < n - 1)
            memmove(U + k * p + first, U + k * p + first + 1, sizeof(double) * (size_t)(n - 1 - first));
    }
    for (index_t k = place; k < n - 1; k++) {
        F[k] = F[k + 1];
        r[k] = r[k + 1];
        double *restrict above = U + k * p, *restrict below = above + p;
        const double h = hypot(above[k], below[k]), c = above[k] / h, s = below[k] / h;
        above[k] = h;
        below[k] = 0.0;
        for (index_t j = k + 1; j < n - 1; j++) {
            const double x = above[j], z = below[j];
            above[j] = c * x + s * z;
            below[j] = c * z - s * x;
        }
        const double x = ones[k], z = ones[k + 1];
        ones[k] = c * x + s * z;
        ones[k + 1] = c * z - s * x;
    }
}

/* Go along d to the best point or the first kink; return the place in F of the variable that meets it (or −1), and
   by how much the dual rises. low and high (q) are the ends of the variables' pieces; total (q) adds up what β moves. */
API index_t newton_step(index_t p, index_t q, index_t e, const index_t *F, index_t n, double *r, const double *d, double b,
                        double ridge, double *beta, const double *low, const double *high, double *total,
                        double *rise) {
    double gain = 0.0, size = 0.0;
#pragma omp simd reduction(+ : gain, size)
    for (index_t k = 0; k < n; k++) {
        gain += (r[k] - b) * d[k];
        size += d[k] * d[k];
    }
    *rise = 0.0;
    if (!(gain > 0.0))
        return -1;
    const double bend = gain - ridge * size; /* d'Kd, as Σ d = 0 */
    double length = bend * LONGEST_STEP > gain ? gain / bend : LONGEST_STEP;
    index_t place = -1;
    for (index_t k = 0; k < n; k++) {
        const index_t i = F[k];
        const double end = d[k] > 0.0 ? high[i] : low[i];
        if (d[k] > 0.0 ? end - beta[i] < length * d[k] : d[k] < 0.0 && end - beta[i] > length * d[k]) {
            length = (end - beta[i]) / d[k];
            place = k;
        }
    }
    for (index_t k = 0; k < n; k++) {
        const index_t i = F[k];
        /* What rounding would carry past a kink stays a free variable, short of it or on it. */
        const double after = smallest(high[i], largest(low[i], beta[i] + length * d[k]));
        total[i] += after - beta[i];
        beta[i] = after;
        r[k] -= length * (r[k] - b - ridge * d[k]);
    }
    if (place >= 0) {
        const index_t i = F[place];
        const double kink = d[place] > 0.0 ? high[i] : low[i];
        total[i] += kink - beta[i];
        beta[i] = kink;
    }
    *rise = length * (gain - length * bend / 2.0);
    return place;
}

/* -- the pivots ------------------------------------------------------------------------------------------------ */

/* The q samples, the n free variables among them, and room to work in. */
typedef struct {
    index_t q, p, n;
    const double *K;
    double *g, *beta, *U;
    index_t *F;
    double unit, ridge;
    const pieces *phi;
    double *t, *low, *high;             /* (q) slope and ends of the piece that each free variable is on */
    double *rise, *fall, *total;        /* (q) φ'(β±) − g, and what β has moved since g was taken along */
    double *r, *u, *d, *ones, *weights; /* r = t_F − g_F */
    index_t *is_free, *changed;         /* (q) */
} active_set;

/* Take g along by the changes of β so far. */
static void take_along(active_set *s) {
    index_t count = 0;
    for (index_t i = 0; i < s->q; i++)
        if (s->total[i] != 0.0) {
            s->changed[count] = i;
            s->weights[count++] = s->total[i];
            s->total[i] = 0.0;
        }
    combine_rows_f8(s->q, s->q, count, s->q, s->K, s->changed, s->weights, 0, s->g);
}

/* The variable at a kink that violates most, and by more than `least`, with the intercept b; −1 for none. */
static index_t worst_violator(const active_set *s, double b, double least, bool *is_rising) {
    index_t worst = -1;
    for (index_t i = 0; i < s->q; i++) {
        if (s->is_free[i])
            continue;
        if (s->rise[i] - b > least)
            least = s->rise[i] - b, worst = i, *is_rising = true;
        if (b - s->fall[i] > least)
            least = b - s->fall[i], worst = i, *is_rising = false;
    }
    return worst;
}

/* Let variable i join, which is at a kink, on the piece on the side named. */
static void join(active_set *s, index_t i, bool is_rising) {
    const double beta = s->beta[i];
    double up, down;
    slopes_at(s->phi, i, beta, &up, &down);
    s->t[i] = is_rising ? up : down;
    s->low[i] = is_rising ? beta : next_below(s->phi, i, beta);
    s->high[i] = is_rising ? next_above(s->phi, i, beta) : beta;
    factor_join(s->q, s->p, s->K, s->U, s->F, s->n, i, s->unit, s->ridge, s->ones, s->u);
    s->r[s->n++] = s->t[i] - s->g[i];
    s->is_free[i] = true;
}

/* Let the worst violators at kinks join; False if there is no room for them. m, M: extremes of rise and fall. */
static bool join_violators(active_set *s, double m, double M, double least) {
    double middle = 0.0;
    for (index_t k = 0; k < s->n; k++)
        middle += s->r[k] / (double)s->n;
    middle = s->n ? middle : (m + M) / 2.0;
    const index_t part = s->n / JOIN_PART;
    for (index_t most = part > JOIN_LEAST ? part : JOIN_LEAST; most > 0; most--) {
        bool is_rising = true;
        const index_t i = worst_violator(s, middle, least, &is_rising);
        if (i < 0)
            break;
        if (s->n == s->p)
            return false;
        join(s, i, is_rising);
    }
    return true;
}

static void compute_residual(active_set *s) {
    for (index_t k = 0; k < s->n; k++)
        s->r[k] = s->t[s->F[k]] - s->g[s->F[k]];
}

/* Take up to `pivots` pivots, until the violation is within tol; return why it ended, and how many were taken. */
static index_t run_pivots(active_set *s, double tol, index_t pivots, index_t *taken) {
    double least = INFINITY, risen = 0.0, before = 0.0;
    int idle = 0;
    for (*taken = 0; *taken < pivots;) {
        index_t place = -1;
        (*taken)++;
        if (s->n > 1) {
            double rise;
            const double b = newton_direction(s->p, s->U, s->n, s->unit, s->r, s->ones, s->u, s->d);
            place = newton_step(s->p, s->q, 1, s->F, s->n, s->r, s->d, b, s->ridge * s->unit, s->beta, s->low, s->high,
                                s->total, &rise);
            risen += rise;
        }
        if (place >= 0) {
            s->is_free[s->F[place]] = false;
            factor_drop(s->p, s->U, s->F, s->r, s->ones, s->n, place);
            s->n--;
            continue;
        }
        take_along(s);
        double ends[2];
        gains(s->q, s->phi->k, s->phi->k + 1, 2, s->g, s->beta, s->phi->ends, s->phi->slopes, s->rise, s->fall, ends);
        const double violation = ends[0] - ends[1];
        if (violation <= tol)
            return DONE;
        idle = violation < FALL_SHARE * least || risen - before > RISE_SHARE * risen ? 0 : idle + 1;
        least = smallest(violation, least);
        before = risen;
        if (idle > PATIENCE)
            return STUCK;
        compute_residual(s);
        if (!join_violators(s, ends[0], ends[1], JOIN_VIOLATION * tol))
            return FULL;
    }
    return GOING;
}

/* Pivot from the factor U of the n free variables F on, changing all of these, g, beta and the pieces `on`; `numbers` has
   n, and gets n and the pivots taken. Returns why it ended. */
API index_t newton_pivots(index_t q, index_t p, index_t k, index_t l, index_t h, index_t e, index_t v, index_t c,
                          const double *K, double *U, index_t *F, double unit, double ridge, double *g, double *beta,
                          const double *ends, const double *slopes, double *on, double tol, index_t pivots,
                          index_t *numbers, double *room, index_t *places) {
    const pieces phi = {q, k, ends, slopes};
    active_set s = {
        .q = q, .p = p, .n = numbers[0], .K = K, .g = g, .beta = beta, .U = U, .F = F, .unit = unit, .ridge = ridge,
        .phi = &phi, .t = on, .low = on + q, .high = on + 2 * q,
        .rise = room, .fall = room + q, .total = room + 2 * q, .r = room + 3 * q, .u = room + 4 * q,
        .d = room + 5 * q, .ones = room + 6 * q, .weights = room + 7 * q,
        .is_free = places, .changed = places + q,
    };
    for (index_t i = 0; i < q; i++)
        s.total[i] = 0.0, s.is_free[i] = false;
    for (index_t j = 0; j < s.n; j++)
        s.is_free[F[j]] = true, s.ones[j] = 1.0;
    compute_residual(&s);
    factor_solve_transposed(p, U, s.n, s.ones);
    const index_t end = run_pivots(&s, tol, pivots, numbers + 1);
    take_along(&s);
    numbers[0] = s.n;
    return end;
}
