/* A basis of a node's program: its inverse, its point, and its changes by one row, one column or both.

   A basis is a set R of rows with s_i = 0 and a set Q of columns between their bounds, one fewer; b is always in it.
   M = [A_RQ, y_R] is inverted. Every u_i outside R is 0 or h_i, every a_j outside Q is 0 or its cap. Nothing here is
   proven from: sums may be added up in another order. */
#include "l0_basis.h"

static const double MIN_INVERSE_PIVOT = 1e-11;

/* An entry of the basis's matrix: of a row of the program, and of a column or the intercept. */
static inline double entry(const L0Given *given, index_t i, index_t j) {
    return j == INTERCEPT ? given->y[i] : given->A[i * given->p + j];
}

static inline double cost(const L0Given *given, const L0State *at, index_t j) {
    return at->on[j] ? given->paid[j] : given->free[j];
}

/* Make one state the same as another of the same program. */
API void l0_copy(const L0State *source, L0State *target) {
    const size_t N = source->N, p = source->p, k = source->sizes[BASIS_SIZE], number = sizeof(double);
    for (size_t q = 0; q < k; q++)
        memcpy(target->W + q * target->most, source->W + q * source->most, k * number);
    memcpy(target->rows, source->rows, N);
    memcpy(target->cols, source->cols, p);
    memcpy(target->on, source->on, p);
    memcpy(target->R, source->R, k * sizeof(index_t));
    memcpy(target->Q, source->Q, k * sizeof(index_t));
    memcpy(target->u, source->u, N * number);
    memcpy(target->s, source->s, N * number);
    memcpy(target->d, source->d, p * number);
    memcpy(target->a, source->a, p * number);
    memcpy(target->sizes, source->sizes, source->n_sizes * sizeof(index_t));
    memcpy(target->rest, source->rest, source->n_rest * number);
}

/* Swap k numbers, `stride` apart, with as many others. */
static void swap(double *one, double *other, index_t k, index_t stride) {
    for (index_t c = 0; c < k * stride; c += stride) {
        const double kept = one[c];
        one[c] = other[c];
        other[c] = kept;
    }
}

/* Invert the basis in its place by Gauss and Jordan, with row pivots; false if it has no inverse. */
static bool invert(const L0Given *given, L0State *at) {
    const index_t k = at->sizes[BASIS_SIZE], stride = at->most;
    double *W = at->W;
    index_t *came = at->list; /* the row that came to each place */
    for (index_t r = 0; r < k; r++)
        for (index_t q = 0; q < k; q++)
            W[r * stride + q] = entry(given, at->R[r], at->Q[q]);
    for (index_t q = 0; q < k; q++) {
        index_t best = q;
        for (index_t r = q + 1; r < k; r++)
            if (fabs(W[r * stride + q]) > fabs(W[best * stride + q]))
                best = r;
        if (!(fabs(W[best * stride + q]) > MIN_INVERSE_PIVOT))
            return false;
        came[q] = best;
        if (best != q)
            swap(W + q * stride, W + best * stride, k, 1);
        double *row = W + q * stride;
        const double pivot = row[q];
        row[q] = 1.0;
        for (index_t c = 0; c < k; c++)
            row[c] /= pivot;
        for (index_t r = 0; r < k; r++) {
            const double factor = W[r * stride + q];
            if (r != q && factor != 0.0) {
                W[r * stride + q] = 0.0;
                add_multiple(W + r * stride, -factor, row, k);
            }
        }
    }
    for (index_t q = k - 1; q >= 0; q--)
        if (came[q] != q)
            swap(W + q, W + came[q], k, stride);
    return true;
}

/* d -= sum of u_i times row i, over the rows that are inside the basis, or over the others. */
static void subtract_rows(const L0Given *given, L0State *at, bool inside) {
    double *factors = l0_room(at).factors;
    index_t count = 0;
    for (index_t i = 0; i < at->N; i++)
        if ((at->rows[i] == INSIDE) == inside && at->u[i] != 0.0) {
            at->list[count] = i;
            factors[count++] = -at->u[i];
        }
    l0_combine(at->p, at->d, count, factors, given->A, at->p, at->list);
}

/* The multipliers and the reduced costs d = c - A'u of the basis; false if u_R is beyond its bounds.

   M'u_R = what the multipliers at their caps leave of the costs of the columns of the basis. */
static bool price(const L0Given *given, L0State *at) {
    const index_t k = at->sizes[BASIS_SIZE];
    const L0Room room = l0_room(at);
    double of_intercept = 0.0;
    for (index_t i = 0; i < at->N; i++) {
        at->u[i] = at->rows[i] == AT_CAP ? given->h[i] : 0.0;
        of_intercept -= at->u[i] * given->y[i];
    }
    for (index_t j = 0; j < at->p; j++)
        at->d[j] = cost(given, at, j);
    subtract_rows(given, at, false);
    for (index_t q = 0; q < k; q++)
        room.one[q] = at->Q[q] == INTERCEPT ? of_intercept : at->d[at->Q[q]];
    memset(room.two, 0, k * sizeof(double));
    l0_combine(k, room.two, k, room.one, at->W, at->most, NULL);
    for (index_t r = 0; r < k; r++) {
        const index_t i = at->R[r];
        const double h = given->h[i], slack = 1e-7 * (1.0 + h), u = room.two[r];
        if (!(-slack <= u && u <= h + slack))
            return false;
        at->u[i] = smallest(largest(u, 0.0), h);
    }
    subtract_rows(given, at, true);
    return true;
}

/* Invert the basis and make its point; false if it has no inverse or is not dual feasible. */
bool l0_afresh(const L0Given *given, L0State *at) {
    if (!invert(given, at))
        return false;
    at->sizes[STEPS_SINCE_INVERSE] = 0;
    if (!price(given, at))
        return false;
    for (index_t j = 0; j < at->p; j++)
        if (at->cols[j] != INSIDE)
            at->cols[j] = at->d[j] < 0.0 && given->cap[j] > 0.0 ? AT_CAP : AT_ZERO;
    l0_place_all(given, at);
    return true;
}

/* a of the columns outside the basis, and s without those of the basis and b; returns the dual value

       u'g + sum over on of full (free - paid) + sum over a = cap of d cap. */
static double place_outside(const L0Given *given, L0State *at) {
    double *factors = l0_room(at).factors, value = 0.0;
    index_t count = 0;
#pragma omp simd reduction(+ : value)
    for (index_t i = 0; i < at->N; i++) {
        at->s[i] = -given->g[i];
        value += at->u[i] * given->g[i];
    }
    for (index_t j = 0; j < at->p; j++) {
        at->a[j] = at->cols[j] == AT_CAP ? given->cap[j] : 0.0;
        if (at->on[j] && given->cap[j] > 0.0) /* else it is off by now */
            value += given->full[j] * (given->free[j] - given->paid[j]);
        if (at->a[j] != 0.0) {
            value += at->d[j] * at->a[j];
            at->list[count] = j;
            factors[count++] = at->a[j];
        }
    }
    l0_combine(at->N, at->s, count, factors, given->columns, at->N, at->list);
    return value;
}

/* The point: columns of the basis, the intercept, and all rows; and the dual value. */
void l0_place_all(const L0Given *given, L0State *at) {
    const index_t k = at->sizes[BASIS_SIZE];
    const L0Room room = l0_room(at);
    at->rest[DUAL_VALUE] = place_outside(given, at);
    for (index_t r = 0; r < k; r++)
        room.one[r] = -at->s[at->R[r]];
    for (index_t q = 0; q < k; q++) {
        const double now = simd_dot(at->W + q * at->most, room.one, k);
        room.two[q] = now;
        if (at->Q[q] == INTERCEPT) {
            at->rest[POINT_B] = now;
            add_multiple(at->s, now, given->y, at->N);
        } else
            at->a[at->Q[q]] = now;
    }
    l0_combine(at->N, at->s, k, room.two, given->columns, at->N, at->Q);
}

/* Make the point of the basis that `rows` and `cols` name; whether it is dual feasible. */
API index_t l0_load(const L0Given *given, L0State *at) {
    index_t k = 0, q = 0;
    for (index_t i = 0; i < at->N; i++)
        if (at->rows[i] == INSIDE) {
            if (k >= at->most)
                return false;
            at->R[k++] = i;
        }
    if (k == 0)
        return false;
    at->Q[q++] = INTERCEPT;
    for (index_t j = 0; j < at->p; j++)
        if (at->cols[j] == INSIDE) {
            if (q >= k)
                return false;
            at->Q[q++] = j;
        }
    at->sizes[BASIS_SIZE] = k;
    return q == k && l0_afresh(given, at);
}

/* found (k,) = a column of the program in terms of those of the basis. */
static void column_of(const L0Given *given, const L0State *at, index_t j, double *found) {
    const index_t k = at->sizes[BASIS_SIZE];
    double *column = l0_room(at).two;
    for (index_t r = 0; r < k; r++)
        column[r] = given->columns[j * at->N + at->R[r]];
    for (index_t q = 0; q < k; q++)
        found[q] = simd_dot(at->W + q * at->most, column, k);
}

/* Put a row in the place of another; it is `weights` times the rows of the basis. False if the pivot is too small. */
bool l0_replace_row(L0State *at, index_t leaving, index_t row, const double *weights) {
    const index_t k = at->sizes[BASIS_SIZE];
    const double pivot = weights[leaving];
    if (fabs(pivot) < MIN_PIVOT)
        return false;
    at->R[leaving] = row;
    for (index_t q = 0; q < k; q++) {
        double *own = at->W + q * at->most, share = own[leaving] / pivot;
        add_multiple(own, -share, weights, k);
        own[leaving] = share;
    }
    return true;
}

/* Put a column of the program in the place of another. False if the pivot is too small. */
bool l0_replace_column(const L0Given *given, L0State *at, index_t place, index_t j) {
    const index_t k = at->sizes[BASIS_SIZE];
    double *found = l0_room(at).found, *row = at->W + place * at->most;
    column_of(given, at, j, found);
    if (fabs(found[place]) < MIN_PIVOT)
        return false;
    at->Q[place] = j;
    for (index_t r = 0; r < k; r++)
        row[r] /= found[place];
    for (index_t q = 0; q < k; q++)
        if (q != place)
            add_multiple(at->W + q * at->most, -found[q], row, k);
    return true;
}

/* Add a row, which is `weights` times those of the basis, and a column. False if the pivot is too small. */
bool l0_grow_basis(const L0Given *given, L0State *at, index_t row, index_t j, const double *weights, double pivot) {
    const index_t k = at->sizes[BASIS_SIZE];
    if (fabs(pivot) < MIN_PIVOT || k == at->most)
        return false;
    double *found = l0_room(at).found, *last = at->W + k * at->most;
    column_of(given, at, j, found);
    for (index_t q = 0; q < k; q++) {
        double *own = at->W + q * at->most;
        add_multiple(own, found[q] / pivot, weights, k);
        own[k] = -found[q] / pivot;
    }
    for (index_t r = 0; r < k; r++)
        last[r] = -weights[r] / pivot;
    last[k] = 1.0 / pivot;
    at->R[k] = row;
    at->Q[k] = j;
    at->sizes[BASIS_SIZE] = k + 1;
    return true;
}

/* Take out a row and a column; the last of each come to their places. False if the pivot is too small. */
bool l0_shrink_basis(L0State *at, index_t place, index_t leaving) {
    const index_t k = at->sizes[BASIS_SIZE], stride = at->most;
    const double *out = at->W + place * stride, pivot = out[leaving];
    if (fabs(pivot) < MIN_PIVOT)
        return false;
    for (index_t q = 0; q < k; q++)
        if (q != place)
            add_multiple(at->W + q * stride, -at->W[q * stride + leaving] / pivot, out, k);
    if (place != k - 1)
        memcpy(at->W + place * stride, at->W + (k - 1) * stride, k * sizeof(double));
    for (index_t q = 0; q < k; q++)
        at->W[q * stride + leaving] = at->W[q * stride + k - 1];
    at->R[leaving] = at->R[k - 1];
    at->Q[place] = at->Q[k - 1];
    at->sizes[BASIS_SIZE] = k - 1;
    return true;
}
