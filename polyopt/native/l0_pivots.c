/* The dual simplex method for the node programs of the L0 tree; polyopt/sparse/node_program.py describes a pivot.

   Nothing here is trusted: what the multipliers prove is evaluated from the data. */
#include "l0_basis.h"

static const index_t STEPS_PER_INVERSE = 50; /* steps after which the inverse is made anew */
static const index_t TRIES = 5;              /* new inverses that may not help */

enum { NOTHING, ROW, COLUMN, SWITCH };

typedef struct {
    int kind;       /* what leaves: NOTHING; a ROW; a COLUMN of the basis; or one whose centre comes on, a SWITCH */
    index_t number; /* the row, or the column's place in Q */
} Leaving;

/* A step: the sign and length of the multiplier's move, and what comes for what leaves. */
typedef struct {
    int kind;
    index_t row, place; /* what leaves, -1 for none */
    double sign, far;
    index_t entering, leaving; /* the column that enters, or the place in R that leaves; -1 for none */
} Step;

/* Tell the columns outside the basis what they cost and may be now. */
static void switch_costs(const L0Given *given, L0State *at, const int8_t *on) {
    for (index_t j = 0; j < at->p; j++)
        if (at->cols[j] != INSIDE) {
            if (on[j] != at->on[j]) {
                const double change = given->free[j] - given->paid[j];
                at->d[j] += on[j] ? -change : change;
                at->on[j] = on[j];
            }
            at->cols[j] = at->d[j] < 0.0 && given->cap[j] > 0.0 ? AT_CAP : AT_ZERO;
        }
    l0_place_all(given, at);
}

/* True if the rows of the basis have left their place. */
static bool strays(const L0State *at, double near) {
    double most = 0.0;
    for (index_t r = 0; r < at->sizes[BASIS_SIZE]; r++)
        most = largest(most, fabs(at->s[at->R[r]]));
    return most > 100.0 * near;
}

/* The leaving variable: a centre that comes on, else the one farthest off its place.

   Dividing by the lengths of the inverse's rows (steepest edge) saves pivots, but computing them takes as long. */
static Leaving leaving_of(const L0Given *given, const L0State *at, const int8_t *on) {
    Leaving found = {NOTHING, 0};
    double worst = given->near;
    for (index_t q = 0; q < at->sizes[BASIS_SIZE]; q++) {
        const index_t j = at->Q[q];
        if (j == INTERCEPT)
            continue;
        if (on[j] && !at->on[j])
            return (Leaving){SWITCH, q};
        const double off = largest(-at->a[j], at->a[j] - given->cap[j]);
        if (off > worst) {
            found = (Leaving){COLUMN, q};
            worst = off;
        }
    }
    for (index_t i = 0; i < at->N; i++) {
        const double off = at->rows[i] == AT_ZERO ? -at->s[i] : at->s[i];
        if (at->rows[i] != INSIDE && given->h[i] > 0.0 && off > worst) {
            found = (Leaving){ROW, i};
            worst = off;
        }
    }
    return found;
}

/* How far the multipliers of the basis may move by du, up to `limit`, and the place in R where that ends. */
static double room_of_rows(const L0Given *given, const L0State *at, const double *du, double limit, index_t *leaving) {
    const index_t k = at->sizes[BASIS_SIZE];
    double far = limit, biggest = 0.0;
    *leaving = -1;
    for (index_t r = 0; r < k; r++)
        biggest = largest(biggest, fabs(du[r]));
    for (index_t r = 0; r < k; r++) {
        const double size = fabs(du[r]);
        if (size > MIN_PIVOT * largest(biggest, 1.0)) {
            const index_t i = at->R[r];
            const double left = du[r] < 0.0 ? at->u[i] : given->h[i] - at->u[i];
            if (left < far * size) {
                far = left / size;
                *leaving = r;
            }
        }
    }
    return far;
}

/* The columns whose reduced costs change their sign before `far`, in at->list, and when, in room.factors. */
static index_t crossed_before(const L0Given *given, const L0State *at, const L0Room room, double far) {
    index_t count = 0;
    for (index_t j = 0; j < at->p; j++) {
        const double size = fabs(room.dd[j]);
        const bool towards = (room.dd[j] < 0.0) == (at->cols[j] == AT_ZERO);
        if (size > MIN_PIVOT && towards && at->cols[j] != INSIDE && given->cap[j] > 0.0 &&
            fabs(at->d[j]) < far * size) {
            at->list[count] = j;
            room.factors[count++] = fabs(at->d[j]) / size;
        }
    }
    return count;
}

/* The length of a step, and what enters or leaves. Columns that it passes go to their other bounds.

   slope: of the dual value, at the beginning; limit: of the length. */
static void reach(const L0Given *given, L0State *at, const L0Room room, double slope, double limit, Step *step) {
    step->far = room_of_rows(given, at, room.du, limit, &step->leaving);
    step->entering = -1;
    index_t count = crossed_before(given, at, room, step->far);
    while (count > 0) {
        index_t first = 0;
        for (index_t place = 1; place < count; place++)
            if (room.factors[place] < room.factors[first])
                first = place;
        const index_t j = at->list[first];
        slope -= given->cap[j] * fabs(room.dd[j]);
        if (slope <= 0.0) {
            step->far = room.factors[first];
            step->entering = j;
            step->leaving = -1;
            return;
        }
        at->cols[j] = at->cols[j] == AT_CAP ? AT_ZERO : AT_CAP;
        count--;
        at->list[first] = at->list[count];
        room.factors[first] = room.factors[count];
    }
}

/* Put a column of the basis where its multiplier has moved to. */
static void put_outside(const L0Given *given, L0State *at, const Step *step) {
    const index_t j = at->Q[step->place];
    if (step->kind == SWITCH) {
        at->on[j] = 1;
        at->d[j] = step->far - (given->free[j] - given->paid[j]);
        at->cols[j] = AT_CAP;
    } else {
        at->d[j] = -step->sign * step->far;
        at->cols[j] = step->sign > 0.0 && given->cap[j] > 0.0 ? AT_CAP : AT_ZERO;
    }
}

/* Put what leaves to its other end, in the same basis. */
static void flip(const L0Given *given, L0State *at, const Step *step) {
    if (step->kind == ROW) {
        at->rows[step->row] = step->sign > 0.0 ? AT_CAP : AT_ZERO;
        at->u[step->row] = step->sign > 0.0 ? given->h[step->row] : 0.0;
    } else
        at->on[at->Q[step->place]] = 1;
}

/* Change the basis by a row, a column or both; whether its pivot is large enough. */
static bool exchange(const L0Given *given, L0State *at, const L0Room room, const Step *step) {
    const index_t k = at->sizes[BASIS_SIZE], leaving = step->leaving, entering = step->entering;
    const bool of_row = step->kind == ROW;
    bool well;
    double *weights = room.less; /* the new row in terms of the others */
    for (index_t r = 0; r < k; r++)
        weights[r] = -step->sign * room.du[r];
    if (!of_row)
        put_outside(given, at, step);
    if (leaving >= 0) {
        const index_t i = at->R[leaving];
        at->rows[i] = room.du[leaving] < 0.0 ? AT_ZERO : AT_CAP;
        at->u[i] = room.du[leaving] < 0.0 ? 0.0 : given->h[i];
        well = of_row ? l0_replace_row(at, leaving, step->row, weights) : l0_shrink_basis(at, step->place, leaving);
    } else if (of_row)
        well = l0_grow_basis(given, at, step->row, entering, weights, -step->sign * room.dd[entering]);
    else
        well = l0_replace_column(given, at, step->place, entering);
    if (of_row)
        at->rows[step->row] = INSIDE;
    if (entering >= 0)
        at->cols[entering] = INSIDE;
    at->sizes[STEPS_SINCE_INVERSE]++;
    return well;
}

/* How u_R and d change for each unit of the multiplier of what leaves: du (k,) and dd (p,); slope and limit. */
static void direction(const L0Given *given, const L0State *at, const L0Room room, Step *step, double *slope,
                      double *limit) {
    const index_t k = at->sizes[BASIS_SIZE], row = step->row;
    memset(room.du, 0, k * sizeof(double));
    memset(room.dd, 0, at->p * sizeof(double));
    if (step->kind == ROW) {
        const double *entries = given->A + row * at->p;
        step->sign = at->rows[row] == AT_ZERO ? 1.0 : -1.0;
        *slope = fabs(at->s[row]);
        *limit = given->h[row];
        for (index_t q = 0; q < k; q++)
            room.one[q] = -step->sign * (at->Q[q] == INTERCEPT ? given->y[row] : entries[at->Q[q]]);
        l0_combine(k, room.du, k, room.one, at->W, at->most, NULL);
        add_multiple(room.dd, -step->sign, entries, at->p);
    } else {
        const index_t j = at->Q[step->place];
        const bool rises = step->kind == COLUMN && at->a[j] > given->cap[j];
        step->sign = rises ? 1.0 : -1.0;
        *slope = rises ? at->a[j] - given->cap[j] : -at->a[j];
        *limit = INFINITY;
        if (step->kind == SWITCH) {
            *slope = given->full[j] - at->a[j];
            *limit = given->free[j] - given->paid[j];
        }
        add_multiple(room.du, step->sign, at->W + step->place * at->most, k);
    }
    for (index_t r = 0; r < k; r++)
        room.less[r] = -room.du[r];
    l0_combine(at->p, room.dd, k, room.less, given->A, at->p, at->R);
}

/* One step: the multiplier of what leaves moves as far as it pays; whether all went well. */
static bool make_step(const L0Given *given, L0State *at, Leaving leaving) {
    const index_t k = at->sizes[BASIS_SIZE];
    const L0Room room = l0_room(at);
    const bool of_row = leaving.kind == ROW;
    Step step = {.kind = leaving.kind, .row = of_row ? leaving.number : -1, .place = of_row ? -1 : leaving.number};
    double slope, limit;
    direction(given, at, room, &step, &slope, &limit);
    reach(given, at, room, slope, limit, &step);
    if (step.far == INFINITY)
        return false;
    for (index_t r = 0; r < k; r++) {
        const index_t i = at->R[r];
        at->u[i] = smallest(largest(at->u[i] + step.far * room.du[r], 0.0), given->h[i]);
    }
    add_multiple(at->d, step.far, room.dd, at->p);
    if (of_row)
        at->u[step.row] += step.sign * step.far;
    if (step.entering < 0 && step.leaving < 0)
        flip(given, at, &step);
    else if (!exchange(given, at, room, &step))
        return false;
    l0_place_all(given, at);
    return true;
}

/* Go on from a dual feasible state, by `most` steps at most, until it is optimal or its dual value reaches `cutoff`.
   Its caps may have changed since it was made; the centres that it has on are among those of `on`.
   Returns OPTIMAL; STOPPED by one of the limits, with the multipliers so far; FAILED. */
API index_t l0_pivot_to_optimum(index_t p, const L0Given *given, L0State *at, const int8_t *on, index_t most,
                                double cutoff) {
    if (p != at->p || p != given->p || at->N != given->N)
        return FAILED;
    index_t again = 0;
    switch_costs(given, at, on);
    for (index_t step = 0; step <= most; step++) {
        at->sizes[RUN_STEPS] = step;
        const Leaving leaving = leaving_of(given, at, on);
        if (at->rest[DUAL_VALUE] >= cutoff || step == most)
            return leaving.kind == NOTHING ? OPTIMAL : STOPPED;
        const bool strayed =
            leaving.kind == NOTHING && at->sizes[STEPS_SINCE_INVERSE] > 0 && strays(at, given->near);
        if (leaving.kind == NOTHING && !strayed)
            return OPTIMAL;
        if (strayed || at->sizes[STEPS_SINCE_INVERSE] >= STEPS_PER_INVERSE) {
            again += strayed;
            if (again > TRIES || !l0_afresh(given, at))
                return FAILED;
        } else if (!make_step(given, at, leaving))
            return FAILED;
    }
    return STOPPED;
}
