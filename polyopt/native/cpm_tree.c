/* unfused */
/* One node of the tree over assignments (polyopt/cpm/global_search/assignment_tree.py).

   Decisions are made by the bounds as computed; the largest of their errors is kept beside the incumbent. Faces are
   alike: of those that answer for nobody yet only the first is offered, and what is forbidden there is forbidden on the
   others too. */
#include "cpm_moves.h"

/* Sweeps over a node's faces at most, and the least gain for which another is made, a share of the distance to the
   incumbent: coarse, and fine where coarse ones leave nothing to branch on. */
#define NODE_SWEEPS 200
#define FINE_SWEEPS 20000
#define REL_GAIN 1e-4
#define FINE_REL_GAIN 1e-7

/* The node at hand. */
typedef struct {
    index_t p, K, n, d, f;
    bool *allowed;
    double *alpha, *caps, *W;
    index_t *face;
    double *cost;
    const index_t *order;
    double *found;
} Node;
enum { BOUND, BASE, BRANCH, USED };

/* Everything about the node at hand: faces `used`, the last of them empty if `opens`; the sum of dual values `base`, a
   bound on the node, the error of either, and the bound `cut` from which nothing is worth looking into. */
typedef struct {
    const Samples *data;
    const Best *best;
    const Node *node;
    const Moves *moves;
    double tol;
    index_t used;
    bool opens;
    double base, bound, error, cut;
} Search;

enum { OPEN, ASSIGNED, CLOSED }; /* what forbidding led to */

/* Note who is assigned where, and how many faces are offered. */
static void assign(Search *search) {
    const Node *node = search->node;
    const index_t K = node->K;
    index_t used = 0;
    for (index_t p = 0; p < node->p; p++) {
        index_t count = 0, last = -1;
        for (index_t k = 0; k < K; k++)
            if (node->allowed[p * K + k]) {
                count++;
                last = k;
            }
        node->face[p] = count > 1 ? -1 : last;
        if (node->face[p] >= used)
            used = node->face[p] + 1;
    }
    search->used = used < K ? used + 1 : K;
    search->opens = used < K;
}

/* Raise the multipliers of each face; the sum of all dual values is `base`, with its `error`. The faces from `used` on
   answer for nobody, like the one before them, of which they are copies. */
static void solve_faces(Search *search, index_t sweeps, double least, Work work) {
    const Samples *data = search->data;
    const Node *node = search->node;
    const index_t n = data->n, d = data->d, K = node->K;
    double *zero = take(&work, n);
    memset(zero, 0, (size_t)n * sizeof(double));
    search->base = search->error = 0.0;
    for (index_t k = 0; k < K; k++) {
        double *alpha = node->alpha + k * n, *caps = node->caps + k * n, *w = node->W + k * d;
        if (k < search->used) {
            caps_of(data, node->face, k, caps);
            hyperplane(data, alpha, w);
            climb(data, zero, caps, alpha, w, sweeps, INFINITY, least);
            hyperplane(data, alpha, w); /* anew, for the rounding of many small steps */
        } else {
            const index_t like = search->used - 1;
            memcpy(alpha, node->alpha + like * n, (size_t)n * sizeof(double));
            memcpy(caps, node->caps + like * n, (size_t)n * sizeof(double));
            memcpy(w, node->W + like * d, (size_t)d * sizeof(double));
        }
        const double value = dual_value(n, d, alpha, w);
        search->base += value;
        search->error += dual_error(data, alpha, w) + (double)(K + 4) * UNIT * fabs(value);
    }
}

/* Keep faces that are better than the incumbent; returns whether they are. */
static bool keep(const Best *best, const double *W, double J) {
    if (!(best->limits[COST] > J))
        return false;
    best->limits[COST] = J;
    memcpy(best->W, W, (size_t)(best->K * best->d) * sizeof(double));
    return true;
}

static void keep_error(const Best *best, double error) {
    best->limits[ERROR] = largest(error, best->limits[ERROR]);
}

static void keep_cut(const Best *best, double bound) { best->limits[CUT] = smallest(bound, best->limits[CUT]); }

/* Keep the node's faces if they are the best so far, and what alternating makes of them. */
static void try_incumbent(const Search *search, Work work) {
    const Samples *data = search->data;
    const Node *node = search->node;
    const index_t n = data->n, d = data->d, K = node->K;
    index_t *found = take_places(&work, node->p);
    const double J = price(data, K, node->W, found);
    if (!keep(search->best, node->W, J))
        return;
    double *W = take(&work, K * d), *a = take(&work, K * n), at[4] = {0.0, 0.0, 0.0, 0.0};
    memset(a, 0, (size_t)(K * n) * sizeof(double));
    keep(search->best, W, alternate(data, K, found, W, a, at, 1e-3 * search->tol * J, INFINITY, work));
}

/* Positives not assigned that pay on every face allowed, with their cost: only they raise the bound. */
static index_t paying(const Samples *data, const Node *node, index_t used, index_t *order) {
    const index_t d = data->d;
    index_t count = 0;
    for (index_t place = 0; place < node->p; place++) {
        const index_t p = node->order[place], i = data->inside + p;
        if (node->face[p] >= 0)
            continue;
        double least = INFINITY;
        for (index_t k = 0; k < used; k++)
            if (node->allowed[p * node->K + k])
                least = smallest(slope_at(row_of(data, i), node->W + k * d, d), least);
        if (least > 0.0) {
            node->cost[p] = data->C[i] * least;
            order[count++] = p;
        }
    }
    return count;
}

/* The first positive of those with the largest cost over what is added. */
static index_t branch_on(const double *cost, const double *added, Order order) {
    index_t chosen = order.places[0];
    for (index_t place = 1; place < order.count; place++) {
        const index_t p = order.places[place];
        if (cost[p] - added[p] > cost[chosen] - added[chosen])
            chosen = p;
    }
    return chosen;
}

/* Take face k from positive p, and with the first empty face all the others. */
static void forbid(const Search *search, index_t p, index_t k) {
    const index_t K = search->node->K;
    const bool is_empty = search->opens && k == search->used - 1;
    for (index_t other = k; other < (is_empty ? K : k + 1); other++)
        search->node->allowed[p * K + other] = false;
}

/* Whether positive p has one face left, or none. Nobody is assigned to an empty face here: who opens it is for the
   branching to choose. */
static int verdict_on(const Search *search, index_t p) {
    index_t left = 0, last = -1;
    for (index_t k = 0; k < search->used; k++)
        if (search->node->allowed[p * search->node->K + k]) {
            left++;
            last = k;
        }
    if (left == 0)
        return CLOSED;
    return left == 1 && !(search->opens && last == search->used - 1) ? ASSIGNED : OPEN;
}

/* Try every move by itself, and forbid those that cost too much. */
static int try_moves(const Search *search, Order order, Work work) {
    const Node *node = search->node;
    const index_t n = node->n, d = node->d, K = node->K;
    const double base = search->base;
    int verdict = OPEN;
    for (index_t place = 0; place < order.count && verdict != CLOSED; place++) {
        const index_t p = order.places[place];
        node->cost[p] = INFINITY;
        for (index_t k = 0; k < search->used; k++) {
            if (!node->allowed[p * K + k])
                continue;
            const Cost move = try_move(search->data, node->caps + k * n, node->alpha + k * n, node->W + k * d, p, k,
                                       search->moves, search->cut - base, work);
            keep_error(search->best, search->error + move.error + 4.0 * UNIT * (base + fabs(move.cost)));
            if (base + move.cost < search->cut)
                node->cost[p] = smallest(move.cost, node->cost[p]);
            else {
                keep_cut(search->best, base + move.cost);
                forbid(search, p, k);
            }
        }
        const int on = verdict_on(search, p);
        verdict = on > verdict ? on : verdict;
    }
    return verdict;
}

/* Forbid the moves that cost too much together with what all others add to the bound, `raised`. */
static int forbid_jointly(const Search *search, Order order, double raised, Work work) {
    const Node *node = search->node;
    const index_t n = node->n, d = node->d, K = node->K;
    int verdict = OPEN;
    for (index_t place = 0; place < order.count && verdict != CLOSED; place++) {
        const index_t p = order.places[place];
        for (index_t k = 0; k < search->used; k++) {
            if (!node->allowed[p * K + k])
                continue;
            const Cost move = cost_on(search->data, node->alpha + k * n, node->W + k * d, search->moves, order, p, k,
                                      work);
            const double total = raised - search->moves->added[p] + move.cost;
            keep_error(search->best, search->error + move.error + 4.0 * UNIT * (raised + fabs(move.cost)));
            if (total >= search->cut) {
                keep_cut(search->best, total);
                forbid(search, p, k);
            }
        }
        const int on = verdict_on(search, p);
        verdict = on > verdict ? on : verdict;
    }
    return verdict;
}

static double cut_of(const Search *search) { return search->best->limits[COST] * (1.0 - search->tol); }

/* Solve the faces, and try them as an incumbent; returns whether the node is cut. */
static bool bound_by_faces(Search *search, bool fine, Work work) {
    assign(search);
    const double cut = cut_of(search), missing = largest(search->tol * cut, cut - search->bound);
    const double goal = missing / (double)search->node->K;
    solve_faces(search, fine ? FINE_SWEEPS : NODE_SWEEPS, (fine ? FINE_REL_GAIN : REL_GAIN) * goal, work);
    keep_error(search->best, search->error);
    search->bound = largest(search->base, search->bound);
    try_incumbent(search, work);
    search->cut = cut_of(search);
    return search->bound >= search->cut;
}

/* Bound the node by moves of the positives in `order`, and forbid what costs too much. OPEN: it is to be branched on,
   or it is cut. */
static int bound_by_moves(Search *search, Order order, Work work) {
    const Node *node = search->node;
    const int verdict = try_moves(search, order, work);
    if (verdict != OPEN)
        return verdict;
    const double total = add_up(search->data, node->K, node->caps, node->alpha, node->W, search->moves, node->allowed,
                                order, search->used, search->cut - search->base, work);
    const double raised = search->base + total;
    search->bound = largest(raised, search->bound);
    for (index_t place = 0; place < order.count; place++)
        search->error += search->moves->error[order.places[place]];
    keep_error(search->best, search->error);
    return search->bound >= search->cut ? OPEN : forbid_jointly(search, order, raised, work);
}

/* Bound the node, forbid and assign what follows; returns the positive to branch on, or -1. */
static index_t examine(Search *search, Work work) {
    index_t *places = take_places(&work, search->node->p);
    for (bool fine = false;;) {
        if (bound_by_faces(search, fine, work))
            return -1;
        const Order order = {paying(search->data, search->node, search->used, places), places};
        if (order.count == 0) {
            if (fine)
                return -1;
            fine = true; /* the incumbent is all but found: close the gap, or find who pays after all */
            continue;
        }
        const int verdict = bound_by_moves(search, order, work);
        if (verdict == ASSIGNED)
            continue;
        if (verdict == CLOSED)
            search->bound = INFINITY;
        if (search->bound >= search->cut)
            return -1;
        /* What a branch adds for certain is the cost of one move, of which the bound has a part already. */
        return branch_on(search->node->cost, search->moves->added, order);
    }
}

/* Room for the work on a node; NULL without memory. */
static double *room_for(const Node *node) {
    const index_t n = node->n, d = node->d, npos = node->p, K = node->K;
    const index_t settling = npos + K * (n + d) + ALTERNATING(n, npos);
    const index_t moving = npos + TRYING(n, d) + ADDING(n, d, K) + COSTING(n, d);
    return malloc((size_t)(settling + moving + 1) * sizeof(double));
}

/* Bound the node at hand, forbid and assign what follows, and try its faces as an incumbent; -1 without memory. */
API index_t cpm_examine(const Samples *data, const Best *best, const Node *node, const Moves *moves, double bound,
                        double tol) {
    double *block = room_for(node);
    if (!block)
        return -1;
    Search search = {.data = data, .best = best, .node = node, .moves = moves, .tol = tol, .bound = bound};
    node->found[BRANCH] = (double)examine(&search, (Work){block});
    node->found[BOUND] = search.bound, node->found[BASE] = search.base, node->found[USED] = (double)search.used;
    free(block);
    return 0;
}

/* The positives that pay, in order (p); how many they are. */
API index_t cpm_paying(index_t p, const Samples *data, const Node *node, index_t used, index_t *order) {
    return paying(data, node, used, order);
}

/* Put positive p on face k by itself; out (2): what it costs, and its error. -1 without memory. */
API index_t cpm_try_move(index_t n, index_t d, index_t t, const Samples *data, double *caps, const double *a,
                         const double *w, index_t p, index_t k, const Moves *moves, double enough, double *out) {
    double *block = malloc((size_t)TRYING(n, d) * sizeof(double));
    if (!block)
        return -1;
    const Cost move = try_move(data, caps, a, w, p, k, moves, enough, (Work){block});
    out[0] = move.cost, out[1] = move.error;
    free(block);
    return 0;
}
