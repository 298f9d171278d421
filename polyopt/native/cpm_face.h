/* One face of the Convex Polytope Machine on small dense data: polyopt/cpm/global_search/face.py has its dual D.

   The samples stand as rows y_i x_i, those inside (y = -1) first. The files that include this one are compiled without
   fused products, as running error bounds count the roundings. */
#ifndef POLYOPT_CPM_FACE_H
#define POLYOPT_CPM_FACE_H

#include "common.h"
#include <stdlib.h>

#define UNIT 0x1p-53

/* Rows A (n, d), their squared lengths q and costs C (n), and how many of them are negatives. */
typedef struct {
    index_t n, d;
    const double *A, *q, *C;
    index_t inside;
} Samples;

/* The incumbent W (K, d) and limits (3): its cost, the least bound of what was cut, and by how much any bound that was
   computed may be above the true one. */
typedef struct {
    index_t K, d, l;
    double *W, *limits;
} Best;
enum { COST, CUT, ERROR };

/* Room for temporaries, taken from one block in turn. Functions get a Work by value: what they take is free again
   when they return. */
typedef struct {
    double *next;
} Work;

static inline double *take(Work *work, index_t count) {
    double *taken = work->next;
    work->next += count;
    return taken;
}

static inline index_t *take_places(Work *work, index_t count) { return (index_t *)take(work, count); }

static inline const double *row_of(const Samples *data, index_t i) { return data->A + i * data->d; }

static inline double dot(const double *x, const double *y, index_t d) {
    double total = 0.0;
    for (index_t j = 0; j < d; j++)
        total += x[j] * y[j];
    return total;
}

/* 1 - x.w */
static inline double slope_at(const double *x, const double *w, index_t d) {
    double slope = 1.0;
    for (index_t j = 0; j < d; j++)
        slope -= x[j] * w[j];
    return slope;
}

/* Each multiplier in turn to where D is largest within its box [low, high]; returns by how much D rose. */
static double sweep(const Samples *data, const double *low, const double *high, double *a, double *w) {
    const index_t d = data->d;
    double gained = 0.0;
    for (index_t i = 0; i < data->n; i++) {
        if (high[i] <= low[i])
            continue;
        const double *x = row_of(data, i), slope = slope_at(x, w, d);
        const double new = clip(a[i] + 2.0 * slope / data->q[i], low[i], high[i]), step = new - a[i];
        if (step == 0.0)
            continue;
        a[i] = new; /* and not a[i] + step, which may be beyond the box by a rounding */
        gained += step * slope - 0.25 * data->q[i] * step * step;
        add_multiple(w, 0.5 * step, x, d);
    }
    return gained;
}

/* By how much sweeps raised D, how much the last of them, and how many they were. */
typedef struct {
    double total, last;
    index_t sweeps;
} Climb;

/* Sweep until D has risen by `enough`, or by no more than `least` in one sweep. */
static Climb climb(const Samples *data, const double *low, const double *high, double *a, double *w, index_t sweeps,
                   double enough, double least) {
    Climb done = {0.0, 0.0, 0};
    while (done.sweeps < sweeps) {
        done.sweeps++;
        done.last = sweep(data, low, high, a, w);
        done.total += done.last;
        if (done.total >= enough || done.last <= least)
            break;
    }
    return done;
}

/* w = 1/2 sum a_i y_i x_i */
static void hyperplane(const Samples *data, const double *a, double *w) {
    for (index_t j = 0; j < data->d; j++)
        w[j] = 0.0;
    for (index_t i = 0; i < data->n; i++)
        if (a[i] != 0.0)
            add_multiple(w, 0.5 * a[i], row_of(data, i), data->d);
}

/* D(a) for the w that belongs to a. */
static double dual_value(index_t n, index_t d, const double *a, const double *w) {
    double value = 0.0;
    for (index_t i = 0; i < n; i++)
        value += a[i];
    for (index_t j = 0; j < d; j++)
        value -= w[j] * w[j];
    return value;
}

/* A bound on the distance of hyperplane's w from 1/2 sum a_i y_i x_i: gamma_(n+2) of what is added up. */
static double hyperplane_error(const Samples *data, const double *a) {
    double size = 0.0;
    for (index_t i = 0; i < data->n; i++)
        if (a[i] != 0.0)
            size += fabs(a[i]) * sqrt(data->q[i]);
    return 0.51 * UNIT * (double)(data->n + 4) * size;
}

/* How far dual_value may be above D(a), for the w that hyperplane gives.

   The sum of n multipliers is off by gamma_n of itself. With eta a bound on the distance of w from
   1/2 sum a_i y_i x_i, its squared length is off by 2 eta |w| + eta^2 and the rounding of the sum of squares. */
static double dual_error(const Samples *data, const double *a, const double *w) {
    double total = 0.0;
    for (index_t i = 0; i < data->n; i++)
        total += fabs(a[i]);
    const double square = dot(w, w, data->d), eta = hyperplane_error(data, a);
    return 1.01 * UNIT * ((double)(data->n + 2) * total + (double)(data->d + 2) * square)
           + (2.02 * sqrt(square) + eta) * eta;
}

/* Numbers s and t such that a computed 1 - y_i w.x_i is off by s + t |x_i| at most. */
static void slope_blur(const Samples *data, const double *a, const double *w, double *s, double *t) {
    *s = 1.01 * UNIT * (double)(data->d + 3);
    *t = 1.01 * hyperplane_error(data, a) + *s * sqrt(dot(w, w, data->d));
}

/* The box of face k when positive p is assigned to face[p]. */
static void caps_of(const Samples *data, const index_t *face, index_t k, double *caps) {
    for (index_t i = 0; i < data->n; i++)
        caps[i] = i < data->inside || face[i - data->inside] == k ? data->C[i] : 0.0;
}

/* J(W), each positive on its best face, which is written to `best`. */
static double price(const Samples *data, index_t K, const double *W, index_t *best) {
    const index_t d = data->d;
    double J = 0.0;
    for (index_t j = 0; j < K * d; j++)
        J += W[j] * W[j];
    for (index_t i = 0; i < data->n; i++) {
        const double *x = row_of(data, i);
        double least = INFINITY;
        for (index_t k = 0; k < K; k++) {
            const double hinge = largest(0.0, slope_at(x, W + k * d, d));
            if (i < data->inside)
                J += data->C[i] * hinge;
            else if (hinge < least) {
                least = hinge;
                best[i - data->inside] = k;
            }
        }
        if (i >= data->inside)
            J += data->C[i] * least;
    }
    return J;
}

#define MAX_ROUNDS 100       /* of alternating */
#define MAX_FACE_SWEEPS 1000 /* per face and round of alternating */

/* Where alternating is, zeros at first: rounds and faces done, sweeps over the face at work, and J after the round
   before. */
enum { ROUNDS, FACES, SWEEPS, BEFORE };

#define ALTERNATING(n, p) (2 * (n) + (p)) /* the room that it takes */

/* So many sweeps more of alternating from the assignment `face` (npos) until it stays: each face is raised until a
   sweep gains no more than `precision`, then each positive goes to its best face. a (K, n) multipliers, W (K, d) faces.
   Returns J(W), or infinity if it has not ended. */
static double alternate(const Samples *data, index_t K, index_t *face, double *W, double *a, double *at,
                        double precision, double sweeps, Work work) {
    const index_t n = data->n, d = data->d, npos = n - data->inside;
    double *zero = take(&work, n), *caps = take(&work, n);
    index_t *following = take_places(&work, npos);
    memset(zero, 0, (size_t)n * sizeof(double));
    for (double done = 0.0; done < sweeps;) {
        const index_t k = (index_t)at[FACES];
        double *alpha = a + k * n, *w = W + k * d;
        caps_of(data, face, k, caps);
        if (at[SWEEPS] == 0.0) {
            for (index_t i = 0; i < n; i++)
                alpha[i] = smallest(caps[i], alpha[i]);
            hyperplane(data, alpha, w);
        }
        const index_t most = (index_t)smallest(sweeps - done, MAX_FACE_SWEEPS - at[SWEEPS]);
        const Climb risen = climb(data, zero, caps, alpha, w, most, INFINITY, precision);
        done += (double)risen.sweeps;
        at[SWEEPS] += (double)risen.sweeps;
        if (risen.last > precision && at[SWEEPS] < MAX_FACE_SWEEPS)
            continue;
        at[SWEEPS] = 0.0;
        if (++at[FACES] < (double)K)
            continue;
        const double J = price(data, K, W, following);
        const bool stays = memcmp(face, following, (size_t)npos * sizeof(index_t)) == 0;
        memcpy(face, following, (size_t)npos * sizeof(index_t));
        at[FACES] = 0.0;
        if (++at[ROUNDS] >= MAX_ROUNDS || stays || (at[ROUNDS] > 1.0 && at[BEFORE] - precision <= J))
            return J;
        at[BEFORE] = J;
    }
    return INFINITY;
}

#endif
