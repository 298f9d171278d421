/* A lower bound on every completion of a partial assignment, from trial moves of single samples.

   polyopt/cpm/global_search/assignment_tree.py states and proves it. Here moves are found in turn: the box left by the
   moves before, and w_k shifted by half of those e_rk that pull the same way, make a problem for climb; the face that
   costs i least sets what it adds to the bound, and its moves on the others are shrunk to cost as little as that. */
#ifndef POLYOPT_CPM_MOVES_H
#define POLYOPT_CPM_MOVES_H

#include "cpm_face.h"

#define TRIAL_SWEEPS 100 /* of one positive put on a face; they end where one gains 5e-3 of what is sought */
#define SHARED_SWEEPS 30 /* of what moves have in common; they end where one gains 1e-2 of that */
#define MARGIN 1e-12     /* of a cap, by which the boxes of joint moves are smaller: 500 roundings are less */

/* Trial moves: gain, delta and pull (e_pk) of each by itself; taken and shared (delta and e) of those that keep within
   the boxes together; what each adds to the bound; length of each shared vector, and how far it is off at most. */
typedef struct {
    index_t p, K, n, d;
    double *gain, *delta, *pull, *taken, *shared, *up, *down, *added, *length, *blur, *error;
} Moves;

static inline index_t pair_of(const Moves *moves, index_t p, index_t k) { return p * moves->K + k; }

/* Positives, in the order in which their moves are added up. */
typedef struct {
    index_t count;
    const index_t *places;
} Order;

/* What a move is worth, and the length of its vector: scaled by a share s <= 1 it adds s worth - s^2 square / 4.
   blur and error: how far its vector may be from the true one, and what it adds from what it truly does. */
typedef struct {
    double worth, square, blur, error;
} Worth;

/* What a move costs at least, and how far that may be from the truth. */
typedef struct {
    double cost, error;
} Cost;

#define TRYING(n, d) (2 * (n) + (d))            /* room for try_move */
#define JOINT(n, d) (3 * (n) + (d))             /* for joint_move */
#define ADDING(n, d, K) ((K) * ((n) + (d) + 4) + JOINT(n, d))
#define COSTING(n, d) (3 * (n) + (d) + JOINT(n, d))

/* Put positive p on face k by itself, until it costs `enough`; the error is beside that of D(a). */
static Cost try_move(const Samples *data, double *caps, const double *a, const double *w, index_t p, index_t k,
                     const Moves *moves, double enough, Work work) {
    const index_t n = data->n, d = data->d, i = data->inside + p, pair = pair_of(moves, p, k);
    double *trial = take(&work, n), *zero = take(&work, n), *v = take(&work, d);
    memset(zero, 0, (size_t)n * sizeof(double));
    memcpy(trial, a, (size_t)n * sizeof(double));
    memcpy(v, w, (size_t)d * sizeof(double));
    const double slope = slope_at(row_of(data, i), w, d);
    const double step = clip(2.0 * slope / data->q[i], 0.0, data->C[i]), kept = caps[i];
    trial[i] = step;
    add_multiple(v, 0.5 * step, row_of(data, i), d);
    const double begun = step * slope - 0.25 * data->q[i] * step * step;
    caps[i] = data->C[i];
    climb(data, zero, caps, trial, v, TRIAL_SWEEPS, enough - begun, 5e-3 * smallest(begun, enough - begun));
    caps[i] = kept;
    hyperplane(data, trial, v); /* anew, as many small steps were rounded */
    const double gain = dual_value(n, d, trial, v) - dual_value(n, d, a, w);
    moves->gain[pair] = gain;
    for (index_t j = 0; j < n; j++)
        moves->delta[pair * n + j] = trial[j] - a[j];
    for (index_t j = 0; j < d; j++)
        moves->pull[pair * d + j] = 2.0 * (v[j] - w[j]);
    return (Cost){gain, dual_error(data, trial, v)};
}

/* Shift v by half of those of the others' moves that pull the same way as p's on face k. */
static void shift(double *v, index_t p, index_t k, const Moves *moves, Order others) {
    const index_t d = moves->d;
    const double *pull = moves->pull + pair_of(moves, p, k) * d;
    for (index_t place = 0; place < others.count; place++) {
        const index_t r = others.places[place];
        const double *shared = moves->shared + pair_of(moves, r, k) * d;
        if (r != p && dot(shared, pull, d) > 0.0)
            add_multiple(v, 0.5, shared, d);
    }
}

/* Charge a move of vector e half of its products with the others' moves, as far as these are above 0. */
static void charge(Worth *move, const double *e, index_t p, index_t k, const Moves *moves, Order others) {
    const index_t d = moves->d;
    const double size = sqrt(move->square), blur = move->blur;
    double charged = 0.0;
    for (index_t place = 0; place < others.count; place++) {
        const index_t r = others.places[place], pair = pair_of(moves, r, k);
        if (r == p)
            continue;
        const double product = dot(moves->shared + pair * d, e, d);
        if (product > 0.0) {
            move->worth -= 0.5 * product;
            charged += product;
        }
        const double length = moves->length[pair], off = moves->blur[pair];
        move->error += 0.51 * (off * size + (length + off) * blur + UNIT * (double)(d + 4) * length * size);
    }
    move->error += UNIT * (double)(others.count + 4) * (charged + fabs(move->worth));
}

/* The change of multipliers from a to trial, its vector e, and what it is worth at w, before charges. */
static Worth worth_of(const Samples *data, const double *a, const double *w, const double *trial, double *change,
                      double *e) {
    const index_t n = data->n, d = data->d;
    double worth = 0.0, reach = 0.0, earned = 0.0, blurred = 0.0, constant, per_length;
    slope_blur(data, a, w, &constant, &per_length);
    memset(e, 0, (size_t)d * sizeof(double));
    for (index_t j = 0; j < n; j++) {
        const double step = change[j] = trial[j] - a[j];
        if (step == 0.0)
            continue;
        const double slope = slope_at(row_of(data, j), w, d), length = sqrt(data->q[j]);
        add_multiple(e, step, row_of(data, j), d);
        worth += step * slope;
        reach += fabs(step) * length;
        earned += fabs(step * slope);
        blurred += fabs(step) * (constant + per_length * length);
    }
    const double square = dot(e, e, d), size = sqrt(square);
    const double blur = 1.02 * UNIT * (double)(n + 4) * reach;
    const double error = 1.01 * blurred + 1.02 * UNIT * (double)(n + 8) * (earned + square)
                         + 0.5 * (1.01 * size + blur) * blur;
    return (Worth){worth, square, blur, error};
}

/* The best move of p to face k within what the others leave, begun at its move by itself. */
static Worth joint_move(const Samples *data, const double *a, const double *w, index_t p, index_t k,
                        const Moves *moves, Order others, double *change, double *e, Work work) {
    const index_t n = data->n, d = data->d, i = data->inside + p, pair = pair_of(moves, p, k);
    double *low = take(&work, n), *high = take(&work, n), *trial = take(&work, n), *v = take(&work, d);
    const double *guess = moves->delta + pair * n;
    for (index_t j = 0; j < n; j++) {
        low[j] = a[j] - moves->down[k * n + j];
        high[j] = a[j] + moves->up[k * n + j];
    }
    low[i] = 0.0, high[i] = data->C[i];
    memcpy(v, w, (size_t)d * sizeof(double));
    shift(v, p, k, moves, others);
    for (index_t j = 0; j < n; j++) {
        trial[j] = clip(a[j] + guess[j], low[j], high[j]);
        if (trial[j] != a[j])
            add_multiple(v, 0.5 * (trial[j] - a[j]), row_of(data, j), d);
    }
    climb(data, low, high, trial, v, SHARED_SWEEPS, INFINITY, 1e-2 * moves->gain[pair]);
    Worth move = worth_of(data, a, w, trial, change, e);
    charge(&move, e, p, k, moves, others);
    return move;
}

/* What a move adds at most, scaled down if that is better. */
static double most_added(double worth, double square) {
    if (worth <= 0.0)
        return 0.0;
    if (2.0 * worth < square)
        return worth * worth / square;
    return worth - 0.25 * square;
}

/* The smallest share s at which s worth - s^2 square / 4 reaches `amount`, which it does for some s <= 1. */
static double least_share(double worth, double square, double amount) {
    const double root = sqrt(largest(worth * worth - square * amount, 0.0));
    return smallest(2.0 * amount / (worth + root), 1.0);
}

/* Keep this share of positive p's joint move to face k, and leave what it takes of the boxes to no other. */
static void take_share(const Samples *data, index_t p, index_t k, const Moves *moves, double share, const Worth *move,
                       const double *change, const double *e) {
    const index_t n = data->n, d = data->d, pair = pair_of(moves, p, k), own = data->inside + p;
    double *up = moves->up + k * n, *down = moves->down + k * n;
    double *shared = moves->shared + pair * d, *taken = moves->taken + pair * n;
    if (!(share > 0.0)) {
        memset(shared, 0, (size_t)d * sizeof(double));
        memset(taken, 0, (size_t)n * sizeof(double));
        moves->length[pair] = moves->blur[pair] = 0.0;
        return;
    }
    const double length = share * sqrt(move->square), own_up = up[own], own_down = down[own];
    moves->length[pair] = 1.01 * length;
    moves->blur[pair] = 1.01 * share * move->blur + 4.0 * UNIT * length;
    for (index_t j = 0; j < d; j++)
        shared[j] = share * e[j];
    for (index_t j = 0; j < n; j++) {
        const double step = share * change[j];
        taken[j] = step;
        up[j] = largest(up[j] - largest(step, 0.0), 0.0);
        down[j] = largest(down[j] - largest(-step, 0.0), 0.0);
    }
    up[own] = own_up, down[own] = own_down;
}

/* Boxes of joint moves: what alpha leaves of caps, less a margin. */
static void begin_boxes(index_t k, index_t n, const double *caps, const double *alpha, const Moves *moves) {
    for (index_t j = 0; j < n; j++) {
        moves->up[k * n + j] = largest(caps[j] - alpha[j] - MARGIN * caps[j], 0.0);
        moves->down[k * n + j] = largest(alpha[j] - MARGIN * caps[j], 0.0);
    }
}

/* What positive p adds to the bound beside those before it in the order: the least of its joint moves, to which the
   others are shrunk. joint (K), change (K, n) and e (K, d) are room for them. */
static double add_one(const Samples *data, const double *alpha, const double *W, index_t p, const Moves *moves,
                      const bool *allowed, Order before, index_t used, Worth *joint, double *change, double *e,
                      Work work) {
    const index_t n = data->n, d = data->d;
    double amount = INFINITY, off = 0.0;
    for (index_t k = 0; k < used; k++) {
        if (!allowed[k])
            continue;
        joint[k] = joint_move(data, alpha + k * n, W + k * d, p, k, moves, before, change + k * n, e + k * d, work);
        amount = smallest(most_added(joint[k].worth, joint[k].square), amount);
        off = largest(joint[k].error, off);
    }
    moves->added[p] = amount;
    moves->error[p] = amount > 0.0 ? off : 0.0; /* nothing moves where nothing is added */
    for (index_t k = 0; k < used; k++) {
        const double share = allowed[k] && amount > 0.0 ? least_share(joint[k].worth, joint[k].square, amount) : 0.0;
        take_share(data, p, k, moves, share, joint + k, change + k * n, e + k * d);
    }
    return amount;
}

/* What the positives in `order` add to the bound, sum_i min_k (...) of the theorem; it ends once it is `enough`.
   caps and alpha (K, n), W (K, d); allowed (npos, K) says which of the first `used` faces each may go to, and the moves
   of try_move must be there for them. */
static double add_up(const Samples *data, index_t K, const double *caps, const double *alpha, const double *W,
                     const Moves *moves, const bool *allowed, Order order, index_t used, double enough, Work work) {
    const index_t n = data->n, d = data->d;
    double *change = take(&work, used * n), *e = take(&work, used * d), total = 0.0;
    Worth *joint = (Worth *)take(&work, 4 * used);
    for (index_t k = 0; k < used; k++)
        begin_boxes(k, n, caps + k * n, alpha + k * n, moves);
    for (index_t place = 0; place < order.count; place++) {
        const index_t p = order.places[place];
        const Order before = {place, order.places};
        total += add_one(data, alpha, W, p, moves, allowed + p * K, before, used, joint, change, e, work);
        if (total >= enough)
            break;
    }
    return total;
}

/* What p adds at least on face k when all others add what add_up found. */
static Cost cost_on(const Samples *data, const double *a, const double *w, const Moves *moves, Order order, index_t p,
                    index_t k, Work work) {
    const index_t n = data->n, own = data->inside + p;
    const double *taken = moves->taken + pair_of(moves, p, k) * n;
    double *change = take(&work, n), *e = take(&work, data->d), *kept_up = take(&work, n), *kept_down = take(&work, n);
    double *up = moves->up + k * n, *down = moves->down + k * n;
    memcpy(kept_up, up, (size_t)n * sizeof(double));
    memcpy(kept_down, down, (size_t)n * sizeof(double));
    for (index_t j = 0; j < n; j++)
        if (j != own) {
            down[j] += largest(-taken[j], 0.0);
            up[j] += largest(taken[j], 0.0);
        }
    const Worth move = joint_move(data, a, w, p, k, moves, order, change, e, work);
    memcpy(up, kept_up, (size_t)n * sizeof(double)); /* exactly as they were */
    memcpy(down, kept_down, (size_t)n * sizeof(double));
    return (Cost){most_added(move.worth, move.square), move.error};
}

#endif
