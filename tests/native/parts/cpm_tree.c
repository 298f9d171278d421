/* unfused */
/* Parts of a node, each by itself. The block is a workspace that is large enough for any of them. */
#include "../../../polyopt/native/cpm_tree.c"

/* What the positives in `order` (r) add to the bound. */
API double cpm_add_up(index_t K, index_t n, index_t d, index_t p, index_t r, index_t b, const Samples *data,
                      const double *caps, const double *alpha, const double *W, const Moves *moves,
                      const bool *allowed, const index_t *order, index_t used, double enough, double *block) {
    return add_up(data, K, caps, alpha, W, moves, allowed, (Order){r, order}, used, enough, (Work){block});
}

/* blur (2): the numbers of slope_blur, after hyperplane_error, which is returned. */
API double cpm_slope_blur(index_t n, index_t d, index_t t, const Samples *data, const double *a, const double *w,
                          double *blur) {
    slope_blur(data, a, w, blur, blur + 1);
    return hyperplane_error(data, a);
}

API index_t cpm_cost_on(index_t n, index_t d, index_t r, index_t t, index_t b, const Samples *data, const double *a,
                        const double *w, const Moves *moves, const index_t *order, index_t p, index_t k, double *out,
                        double *block) {
    const Cost move = cost_on(data, a, w, moves, (Order){r, order}, p, k, (Work){block});
    out[0] = move.cost, out[1] = move.error;
    return COSTING(n, d);
}

API void cpm_shift(index_t d, index_t r, double *v, index_t p, index_t k, const Moves *moves, const index_t *others) {
    shift(v, p, k, moves, (Order){r, others});
}

/* move (4): worth, square, blur and error of a move; charged in place. */
API void cpm_charge(index_t t, index_t d, index_t r, double *move, const double *e, index_t p, index_t k,
                    const Moves *moves, const index_t *others) {
    charge((Worth *)move, e, p, k, moves, (Order){r, others});
}

API void cpm_joint_move(index_t n, index_t d, index_t r, index_t t, index_t b, const Samples *data, const double *a,
                        const double *w, index_t p, index_t k, const Moves *moves, const index_t *others,
                        double *change, double *e, double *move, double *block) {
    *(Worth *)move = joint_move(data, a, w, p, k, moves, (Order){r, others}, change, e, (Work){block});
}

API double cpm_most_added(double worth, double square) { return most_added(worth, square); }

API double cpm_least_share(double worth, double square, double amount) { return least_share(worth, square, amount); }

/* out (2): base and error. */
API void cpm_solve_faces(index_t t, index_t b, const Samples *data, const Node *node, index_t used, index_t sweeps,
                         double least, double *out, double *block) {
    Search search = {.data = data, .node = node, .used = used};
    solve_faces(&search, sweeps, least, (Work){block});
    out[0] = search.base, out[1] = search.error;
}

API void cpm_try_incumbent(index_t b, const Samples *data, const Best *best, const Node *node, double tol,
                           double *block) {
    const Search search = {.data = data, .best = best, .node = node, .tol = tol};
    try_incumbent(&search, (Work){block});
}

/* A verdict of try_moves or, `jointly`, of forbid_jointly; limits (3): base or bound, error, cut. */
API index_t cpm_forbid_dear(index_t r, index_t t, index_t b, const Samples *data, const Best *best, const Node *node,
                            const Moves *moves, const index_t *order, index_t used, index_t opens, index_t jointly,
                            const double *limits, double *block) {
    const Search search = {.data = data, .best = best, .node = node, .moves = moves, .used = used, .opens = opens != 0,
                           .base = limits[0], .error = limits[1], .cut = limits[2]};
    const Order those = {r, order};
    return jointly ? forbid_jointly(&search, those, limits[0], (Work){block})
                   : try_moves(&search, those, (Work){block});
}
