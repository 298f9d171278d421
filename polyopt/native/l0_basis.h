/* The program of a node of the L0 tree, a basis of it, and what changes one: polyopt/sparse/node_program.py.

   Vectors of the rows are (N,), those of the columns (p,). */
#ifndef POLYOPT_L0_BASIS_H
#define POLYOPT_L0_BASIS_H

#include "common.h"

enum { AT_ZERO, INSIDE, AT_CAP };                 /* where a column or a multiplier stands */
enum { OFF = -1, FREE, ON };                      /* what a node says of a centre */
enum { OPTIMAL, STOPPED, FAILED };                /* how a run of pivots ended */
enum { INTERCEPT = -1 };                          /* its number among the columns of the basis */
enum { BASIS_SIZE, STEPS_SINCE_INVERSE, RUN_STEPS }; /* places in sizes */
enum { POINT_B, DUAL_VALUE };                     /* places in rest */

static const double MIN_PIVOT = 1e-9; /* pivot of a step */

typedef struct {
    index_t N, p;
    const double *A, *columns, *y, *h, *g; /* (N, p), its transpose, and vectors of the rows */
    double *cap;                           /* the largest a; 0 for a centre that is off, else full */
    const double *full, *free, *paid;      /* and the costs of a centre that is free, and of one that is on */
    double near;                           /* what a row or a column may be off its place */
} L0Given;

typedef struct {
    index_t n, p;
    const double *signed_entries, *y, *caps, *sizes, *errors; /* C y_i K_ij t_j (n, p), (n,), (n,), (p,), (p,) */
} L0Problem;

typedef struct {
    index_t N, p, most, n_sizes, n_rest, n_work, n_list;
    int8_t *rows, *cols, *on; /* where each row and column stands, and which columns cost `paid` */
    index_t *R, *Q;           /* the basis: its rows and its columns; (most,) */
    double *W;                /* its inverse, the first k of (most, most) */
    double *u, *s, *d, *a;    /* the point: multipliers, rows, reduced costs, columns */
    index_t *sizes;
    double *rest;
    double *work;  /* room for a step: see l0_room */
    index_t *list; /* numbers of rows or columns; (max(N, p),) */
} L0State;

/* Parts of a state's room: five of the basis's length, one of the columns', one of both. */
typedef struct {
    double *du, *less, *found, *one, *two; /* (most,) */
    double *dd;                            /* (p,) */
    double *factors;                       /* (max(N, p),) */
} L0Room;

static inline L0Room l0_room(const L0State *at) {
    double *w = at->work;
    return (L0Room){w, w + at->most, w + 2 * at->most, w + 3 * at->most, w + 4 * at->most, w + 5 * at->most,
                    w + 5 * at->most + at->p};
}

/* target += sum of factors[r] * rows[r], for `count` rows; count is a constant where this is called. */
INLINE void l0_add_rows(const int count, index_t n, double *restrict target, const double *factors,
                        const double *const *rows) {
    double f[8];
    const double *x[8];
    for (int r = 0; r < count; r++)
        f[r] = factors[r], x[r] = rows[r];
    for (index_t j = 0; j < n; j++) {
        double total = f[0] * x[0][j];
#pragma GCC unroll 8
        for (int r = 1; r < count; r++)
            total += f[r] * x[r][j];
        target[j] += total;
    }
}

/* target (n,) += sum over q < k of factors[q] * vectors[which[q]], whose rows are `stride` apart.

   Several rows at a time, as target is read and written for each. Rows of a negative number or with the factor 0 are
   left out; without `which` they are the first k. */
static inline void l0_combine(index_t n, double *target, index_t k, const double *factors, const double *vectors,
                              index_t stride, const index_t *which) {
    double f[8];
    const double *rows[8];
    int count = 0;
    for (index_t q = 0; q < k; q++) {
        const index_t row = which ? which[q] : q;
        if (row < 0 || factors[q] == 0.0)
            continue;
        f[count] = factors[q];
        rows[count++] = vectors + row * stride;
        if (count == 8) {
            l0_add_rows(8, n, target, f, rows);
            count = 0;
        }
    }
    int done = 0;
    for (; done + 4 <= count; done += 4)
        l0_add_rows(4, n, target, f + done, rows + done);
    for (; done < count; done++)
        add_multiple(target, f[done], rows[done], n);
}

void l0_copy(const L0State *source, L0State *target);
index_t l0_load(const L0Given *given, L0State *at);
index_t l0_pivot_to_optimum(index_t p, const L0Given *given, L0State *at, const int8_t *on, index_t most,
                            double cutoff);
double l0_bound_of(index_t p, index_t rows, index_t two, const L0Problem *of, const int8_t *fixed, const double *u,
                   double *near, double *middle, double *rates);
bool l0_afresh(const L0Given *given, L0State *at);
void l0_place_all(const L0Given *given, L0State *at);
bool l0_replace_row(L0State *at, index_t leaving, index_t row, const double *weights);
bool l0_replace_column(const L0Given *given, L0State *at, index_t place, index_t j);
bool l0_grow_basis(const L0Given *given, L0State *at, index_t row, index_t j, const double *weights, double pivot);
bool l0_shrink_basis(L0State *at, index_t place, index_t leaving);

#endif
