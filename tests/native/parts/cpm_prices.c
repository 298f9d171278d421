/* unfused */
/* Parts of the bound on a face in a box, each by itself. */
#include "../../../polyopt/native/cpm_prices.c"

API index_t cpm_set_up(index_t p, const Samples *data, const double *prices, const FaceBox *box) {
    const Priced at = {data, prices};
    return set_up(&at, box);
}

API double cpm_bound_box(index_t p, const Samples *data, const double *prices, const FaceBox *box, double goal,
                         double slow) {
    const Priced at = {data, prices};
    return bound_box(&at, box, goal, slow);
}

API void cpm_pull(const Samples *data, const FaceBox *box) { pull(data, box); }

API void cpm_sweep_open(const Samples *data, const FaceBox *box, index_t count) { sweep_open(data, box, count); }

/* error (1) */
API double cpm_value_of(index_t t, const Samples *data, const FaceBox *box, double *error) {
    return value_of(data, box, error);
}

API double cpm_shrink(const Samples *data, const FaceBox *box, double goal, double proven) {
    return shrink(data, box, goal, proven);
}
