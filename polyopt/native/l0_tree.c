/* Nodes of the L0 tree: their programs, the centres that they decide, and their children; polyopt/sparse/tree.py. */
#include "l0_basis.h"

enum { OFF_SIDE, ON_SIDE, SIDES };
enum { N_OPEN, EXPANDED, PIVOTS, CENTRE, FAILED_SLOT }; /* places in counts */
enum { CLOSED, BEST, BEST_B };                          /* places in values */

typedef struct {
    index_t sides, p, slots, n_marks, n, n_counts, n_values;
    double *gain, *n_gains; /* (2, p) */
    int8_t *marks;          /* (slots, 3 p + n): of each open node what is fixed, then rows, cols and on of a basis */
    double *bounds;         /* (slots,) */
    int8_t *fixed, *is_on;
    double *shares, *worths, *near, *middle;
    double *rates, *multipliers; /* (2, p), and (2, n) of the children made last */
    double *point;
    index_t *counts;
    double *values;
    index_t reliable_gains, max_trials, trial_pivots, max_idle_trials, max_pivots_each, fixes;
    double min_rel_gain, min_move, min_share, rel_rounding, perturbation;
} L0Search;

typedef struct {
    const L0Problem *problem;
    L0Given *given;
    L0Search *search;
    L0State *base, *work; /* of the node that is expanded, and of a trial or a child */
    double cutoff;        /* bound at which a node is closed */
} Tree;

static void close_part(const Tree *of, double bound) {
    of->search->values[CLOSED] = smallest(of->search->values[CLOSED], bound);
}

static double share_of(const Tree *of, const L0State *at, index_t j) { return at->a[j] / of->given->full[j]; }

/* Tell the program what a node says of a centre. */
static void decide(const Tree *of, index_t j, int mark) {
    of->given->cap[j] = mark == OFF ? 0.0 : of->given->full[j];
    of->search->is_on[j] = mark == ON;
}

/* Pivot towards the optimum. The program's perturbation must not hide that the cutoff is missed. */
static index_t pivot(const Tree *of, L0State *at, index_t most, double cutoff) {
    L0Search *search = of->search;
    const double enough = cutoff + 4.0 * search->perturbation * fabs(cutoff);
    const index_t ended = l0_pivot_to_optimum(search->p, of->given, at, search->is_on, most, enough);
    search->counts[PIVOTS] += at->sizes[RUN_STEPS] + 1;
    return ended;
}

/* What a state's multipliers prove of a node; leaves the bounds on the rates. */
static double prove(const Tree *of, const int8_t *fixed, const L0State *at) {
    L0Search *search = of->search;
    return l0_bound_of(search->p, search->n, SIDES, of->problem, fixed, at->u, search->near, search->middle,
                       search->rates);
}

/* Keep the point of an optimal state, with the score of its support, if it is the best so far. */
static void note_point(const Tree *of, const L0State *at) {
    L0Search *search = of->search;
    double score = 0.0;
    for (index_t j = 0; j < search->p; j++)
        score += share_of(of, at, j) > search->min_share;
    for (index_t i = 0; i < search->n; i++)
        score += of->problem->caps[i] * largest(-at->s[i], 0.0);
    if (score < search->values[BEST]) {
        search->values[BEST] = score;
        search->values[BEST_B] = at->rest[POINT_B];
        for (index_t j = 0; j < search->p; j++)
            search->point[j] = share_of(of, at, j);
    }
}

/* Decide free centres whose other side the multipliers prove to be no better; whether there is more to decide.

   On, a centre costs 1 and saves its rate at most; off, it saves 1. `bound` is that of the multipliers of the rates. */
static bool decide_further(const Tree *of, int8_t *fixed, const L0State *at, double bound, bool is_optimal) {
    const L0Search *search = of->search;
    bool is_left = false;
    for (index_t j = 0; j < search->p; j++) {
        if (fixed[j] != FREE)
            continue;
        const double least = search->rates[j], most = search->rates[search->p + j];
        const double rounding = search->rel_rounding * (fabs(bound) + largest(fabs(least), fabs(most)) + 2.0);
        const double bound_on = bound + 1.0 - largest(most, 0.0) - rounding;
        const double bound_off = bound + least - 1.0 - rounding;
        const double share = share_of(of, at, j);
        if (search->fixes && largest(bound_on, bound_off) >= of->cutoff) {
            const bool is_off = bound_on >= of->cutoff;
            fixed[j] = is_off ? OFF : ON;
            close_part(of, is_off ? bound_on : bound_off);
        } else
            is_left |= !is_optimal || (0.0 < share && share < 1.0);
    }
    return is_left;
}

/* Solve the program of the node that `fixed` decides from a state of its parent, and open it, or close it if nothing is
   left to decide. Returns the bound of its multipliers; -infinity if the pivots failed. enough: a value at
   which they stop; least: a bound known before. */
static double open_node(const Tree *of, L0State *at, double enough, double least) {
    L0Search *search = of->search;
    const int8_t *fixed = search->fixed;
    const index_t p = search->p, n = search->n;
    const index_t slot = search->counts[N_OPEN];
    int8_t *marks = search->marks + slot * search->n_marks;
    index_t ended = pivot(of, at, search->max_pivots_each, enough);
    double bound = prove(of, fixed, at);
    if (ended != OPTIMAL && !(bound >= of->cutoff)) { /* it may have stopped at a value that is not quite proven */
        ended = pivot(of, at, search->max_pivots_each, INFINITY);
        bound = prove(of, fixed, at);
    }
    if (ended != OPTIMAL && !(bound >= of->cutoff))
        return -INFINITY;
    if (ended == OPTIMAL)
        note_point(of, at);
    memcpy(marks, fixed, p);
    search->bounds[slot] = largest(bound, least);
    if (search->bounds[slot] >= of->cutoff || !decide_further(of, marks, at, bound, ended == OPTIMAL)) {
        close_part(of, search->bounds[slot]);
        return bound;
    }
    memcpy(marks + p, at->rows, n);
    memcpy(marks + p + n, at->cols, p);
    memcpy(marks + 2 * p + n, at->on, p);
    search->counts[N_OPEN]++;
    return bound;
}

/* Solve the program of the node in a slot again, from its basis; false if the pivots failed. */
static bool take_up(const Tree *of, index_t slot) {
    L0Search *search = of->search;
    const index_t p = search->p, n = search->n;
    const int8_t *marks = search->marks + slot * search->n_marks;
    memcpy(search->fixed, marks, p);
    memcpy(of->base->rows, marks + p, n);
    memcpy(of->base->cols, marks + p + n, p);
    memcpy(of->base->on, marks + 2 * p + n, p);
    for (index_t j = 0; j < p; j++)
        decide(of, j, search->fixed[j]);
    return l0_load(of->given, of->base) && pivot(of, of->base, search->max_pivots_each, INFINITY) == OPTIMAL;
}

static double clipped(const Tree *of, double gain, double gap) {
    return smallest(largest(gain, of->search->min_rel_gain * gap), gap);
}

static index_t place_of_largest(index_t n, const double *values) {
    index_t found = 0;
    for (index_t j = 1; j < n; j++)
        if (values[j] > values[found])
            found = j;
    return found;
}

/* The product of the gains off and on that are expected of each centre used in part, or of each free one if none is;
   -1 for the others. The gain for each unit that a centre moves is that observed, or else all centres' mean. */
static void expect_worths(const Tree *of, double gap) {
    L0Search *search = of->search;
    const index_t p = search->p;
    double means[SIDES];
    for (int side = 0; side < SIDES; side++) {
        double gain = 0.0, count = 0.0;
        for (index_t j = side * p; j < (side + 1) * p; j++) {
            gain += search->gain[j];
            count += search->n_gains[j];
        }
        means[side] = gain > 0.0 ? gain / count : 1.0;
    }
    bool is_any_split = false;
    for (index_t j = 0; j < p; j++) {
        search->shares[j] = search->fixed[j] == FREE ? clip(share_of(of, of->base, j), 0.0, 1.0) : 0.0;
        is_any_split |= search->shares[j] > 0.0 && search->shares[j] < 1.0;
    }
    for (index_t j = 0; j < p; j++) {
        const double share = search->shares[j];
        const double moves[SIDES] = {share, 1.0 - share};
        const bool is_candidate = is_any_split ? share > 0.0 && share < 1.0 : search->fixed[j] == FREE;
        search->worths[j] = is_candidate ? 1.0 : -1.0;
        for (int side = 0; side < SIDES && search->worths[j] > 0.0; side++) {
            const double count = search->n_gains[side * p + j];
            const double per_unit = count > 0.0 ? search->gain[side * p + j] / count : means[side];
            search->worths[j] *= clipped(of, per_unit * moves[side], gap);
        }
    }
}

/* Remember by how much deciding a centre raises the bound, for each unit that it moves. */
static void learn(const Tree *of, index_t j, int side, double gain, double gap) {
    L0Search *search = of->search;
    const double move = side == ON_SIDE ? 1.0 - search->shares[j] : search->shares[j];
    search->gain[side * search->p + j] += clip(gain, 0.0, gap) / largest(move, search->min_move);
    search->n_gains[side * search->p + j] += 1.0;
}

/* Go on from the node's optimum with one centre more decided. */
static void begin_child(const Tree *of, index_t j, int side) {
    l0_copy(of->base, of->work);
    decide(of, j, side == ON_SIDE ? ON : OFF);
}

/* The gain by some pivots with one centre more decided. */
static double try_side(const Tree *of, index_t j, int side, double bound) {
    begin_child(of, j, side);
    const index_t ended = pivot(of, of->work, of->search->trial_pivots, of->cutoff);
    decide(of, j, FREE);
    if (ended == FAILED)
        return 0.0;
    const double gain = of->work->rest[DUAL_VALUE] - bound;
    learn(of, j, side, gain, of->cutoff - bound);
    return gain;
}

/* Choose the centre that raises both bounds most. Promising ones are tried on both sides until their gains are
   reliable, or one side closes the node. */
static index_t choose(const Tree *of, double bound) {
    const L0Search *search = of->search;
    const index_t p = search->p;
    const double gap = of->cutoff - bound;
    expect_worths(of, gap);
    index_t best = place_of_largest(p, search->worths);
    double most = -1.0;
    for (index_t trials = 0, idle = 0; idle < search->max_idle_trials; idle++) {
        const index_t j = place_of_largest(p, search->worths);
        double worth = search->worths[j];
        if (worth < 0.0)
            break;
        search->worths[j] = -1.0;
        if (smallest(search->n_gains[j], search->n_gains[p + j]) < search->reliable_gains &&
            trials < search->max_trials) {
            trials++;
            const double off = try_side(of, j, OFF_SIDE, bound), on = try_side(of, j, ON_SIDE, bound);
            if (largest(off, on) >= gap)
                return j;
            worth = clipped(of, off, gap) * clipped(of, on, gap);
        }
        if (worth > most) {
            best = j;
            most = worth;
            idle = -1;
        }
    }
    return best;
}

/* Put the children of the node in a slot behind the open nodes; false if pivots failed. */
static bool branch(const Tree *of, index_t slot) {
    L0Search *search = of->search;
    const double bound = search->bounds[slot];
    if (!take_up(of, slot))
        return false;
    const index_t j = search->counts[CENTRE] = choose(of, bound);
    for (int side = 0; side < SIDES; side++) {
        begin_child(of, j, side);
        search->fixed[j] = side == ON_SIDE ? ON : OFF;
        const double own = open_node(of, of->work, of->cutoff, bound);
        if (own == -INFINITY)
            return false;
        learn(of, j, side, own - bound, of->cutoff - bound);
        memcpy(search->multipliers + side * search->n, of->work->u, search->n * sizeof(double));
    }
    return true;
}

/* Take out a node; the last one comes to its slot. */
static void remove_node(L0Search *search, index_t slot) {
    const index_t last = --search->counts[N_OPEN];
    search->bounds[slot] = search->bounds[last];
    memmove(search->marks + slot * search->n_marks, search->marks + last * search->n_marks, search->n_marks);
}

API index_t l0_open_root(index_t p, const L0Problem *problem, L0Given *given, L0Search *search, L0State *base,
                         L0State *work, const int8_t *fixed, double cutoff) {
    const Tree of = {problem, given, search, base, work, cutoff};
    memcpy(search->fixed, fixed, p);
    for (index_t j = 0; j < p; j++)
        decide(&of, j, fixed[j]);
    return open_node(&of, base, INFINITY, 0.0) > -INFINITY;
}

API index_t l0_expand(const L0Problem *problem, L0Given *given, L0Search *search, L0State *base, L0State *work,
                      double cutoff, index_t max_nodes, index_t max_pivots) {
    const Tree of = {problem, given, search, base, work, cutoff};
    index_t *counts = search->counts;
    const index_t last_pivot = counts[PIVOTS] + max_pivots;
    const double best = search->values[BEST];
    counts[EXPANDED] = 0;
    do {
        const index_t n_open = counts[N_OPEN];
        index_t next = 0;
        for (index_t slot = 1; slot < n_open; slot++)
            if (search->bounds[slot] <= search->bounds[next])
                next = slot;
        if (!branch(&of, next)) {
            counts[N_OPEN] = n_open;
            counts[FAILED_SLOT] = next;
            return false;
        }
        counts[EXPANDED]++;
        remove_node(search, next);
    } while (counts[N_OPEN] > 0 && counts[EXPANDED] < max_nodes && counts[PIVOTS] < last_pivot &&
             search->values[BEST] == best);
    return true;
}
