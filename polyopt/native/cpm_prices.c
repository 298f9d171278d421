/* unfused */
/* A lower bound on what a face of the Convex Polytope Machine costs at prices of the positives, over faces in a box:
   polyopt/cpm/global_search/prices.py states and proves it. */
#include "cpm_face.h"

/* Sweeps over the multipliers, coarse and fine, and how many of them between two looks at the bound. */
#define COARSE_SWEEPS 60
#define FINE_SWEEPS 2000
#define CYCLE 4
#define MIN_CYCLE_GAIN 3e-2  /* of what is missing: the gain of a cycle for which another is made */
#define MAX_WIDTH_RATIO 0.7  /* of its width: an interval that shrinks to less is worth another bound */
#define MAX_BOUNDS 4         /* of one box, after it shrank */
#define CODES 255            /* parts of a cost */
#define CUT_MARGIN 0.25      /* of an interval, at each end, where it is not cut */
#define MIN_REL_LOSS 1e-3    /* of what is missing: a smaller loss by envelopes is negligible */
#define MIN_REL_WIDTH 1e-11  /* of its ends: a narrower interval is not cut */

/* A box and room: low, high, w, v (d), the box, its face and v; up, cap, shift (n), a, its largest value, and c; least
   and most (n), between which r_i is; open (n), the samples whose multipliers may move; parts (d), of what envelopes
   lose; and what was found (4). */
typedef struct {
    index_t d, n, f;
    double *low, *high, *w, *v, *up, *cap, *shift, *least, *most;
    index_t *open;
    double *parts, *found;
} FaceBox;

/* Samples at prices (npos). */
typedef struct {
    const Samples *data;
    const double *prices;
} Priced;

static inline double price_of(const Priced *at, index_t i) {
    return i < at->data->inside ? INFINITY : at->prices[i - at->data->inside];
}

/* G(w) */
static double priced_cost(const Priced *at, const double *w) {
    const Samples *data = at->data;
    double cost = dot(w, w, data->d);
    for (index_t i = 0; i < data->n; i++)
        cost += smallest(data->C[i] * largest(slope_at(row_of(data, i), w, data->d), 0.0), price_of(at, i));
    return cost;
}

/* The ends of r_i in the box, moved outward by what their sums may be off. */
static void set_ends(const Samples *data, const FaceBox *box, index_t i) {
    const double *x = row_of(data, i);
    double low = 0.0, high = 0.0, size = 0.0;
    for (index_t j = 0; j < data->d; j++) {
        const double one = x[j] * box->low[j], other = x[j] * box->high[j];
        low += smallest(one, other);
        high += largest(one, other);
        size += largest(fabs(one), fabs(other));
    }
    const double off = 1.01 * UNIT * (double)(data->d + 2) * size;
    box->least[i] = low - off;
    box->most[i] = high + off;
}

/* The envelope of the i-th term: its multiplier if that is fixed, else -1; cap and shift. */
static double set_envelope(const Priced *at, const FaceBox *box, index_t i) {
    const double C = at->data->C[i], price = price_of(at, i), low = box->least[i], high = box->most[i];
    box->shift[i] = 0.0;
    box->cap[i] = C;
    if (low >= 1.0 || C == 0.0)
        return 0.0;
    if (C * (1.0 - low) <= price)
        return high <= 1.0 ? C : -1.0;
    if (C * (1.0 - high) >= price) {
        box->shift[i] = price;
        return 0.0;
    }
    if (high >= 1.0) {
        box->cap[i] = price / (1.0 - low) * (1.0 - 8.0 * UNIT);
        return -1.0;
    }
    const double fixed = clip((price - C * (1.0 - high)) / (high - low), 0.0, C);
    const double size = price + (C + fixed) * (2.0 + fabs(low) + fabs(high));
    box->shift[i] = smallest(price - fixed * (1.0 - low), (C - fixed) * (1.0 - high)) - 8.0 * UNIT * size;
    return fixed;
}

/* The envelopes of all terms in the box, and the samples that are open; how many these are. */
static index_t set_up(const Priced *at, const FaceBox *box) {
    index_t count = 0;
    for (index_t i = 0; i < box->n; i++) {
        set_ends(at->data, box, i);
        const double fixed = set_envelope(at, box, i);
        if (fixed >= 0.0)
            box->up[i] = fixed;
        else {
            box->up[i] = smallest(box->up[i], box->cap[i]);
            box->open[count++] = i;
        }
    }
    return count;
}

/* The pull v and the face w, from the multipliers. */
static void pull(const Samples *data, const FaceBox *box) {
    memset(box->v, 0, (size_t)box->d * sizeof(double));
    for (index_t i = 0; i < box->n; i++)
        if (box->up[i] != 0.0)
            add_multiple(box->v, box->up[i], row_of(data, i), box->d);
    for (index_t j = 0; j < box->d; j++)
        box->w[j] = clip(0.5 * box->v[j], box->low[j], box->high[j]);
}

static inline double step_of(const FaceBox *box, index_t i, double wanted) {
    return clip(box->up[i] + wanted, 0.0, box->cap[i]) - box->up[i];
}

/* Raise the multiplier of sample i. */
static inline void raise_one(const Samples *data, const FaceBox *box, index_t i) {
    const index_t d = box->d;
    const double *x = row_of(data, i), slope = slope_at(x, box->w, d);
    double square = 0.0, after = 1.0;
    for (index_t j = 0; j < d; j++)
        if (box->low[j] < 0.5 * box->v[j] && 0.5 * box->v[j] < box->high[j])
            square += x[j] * x[j];
    if (slope == 0.0)
        return;
    /* Right for the coefficients that move; too long where others come to move: then the safe step. */
    double step = step_of(box, i, square > 0.0 ? 2.0 * slope / square : copysign(INFINITY, slope));
    if (step == 0.0)
        return;
    for (index_t j = 0; j < d; j++)
        after -= x[j] * clip(0.5 * (box->v[j] + step * x[j]), box->low[j], box->high[j]);
    if (after * slope < 0.0) /* beyond the best place */
        step = step_of(box, i, 2.0 * slope / data->q[i]);
    box->up[i] = clip(box->up[i] + step, 0.0, box->cap[i]);
    for (index_t j = 0; j < d; j++) {
        box->v[j] += step * x[j];
        box->w[j] = clip(0.5 * box->v[j], box->low[j], box->high[j]);
    }
}

/* Raise every multiplier that is open. */
static void sweep_open(const Samples *data, const FaceBox *box, index_t count) {
    for (index_t place = 0; place < count; place++)
        raise_one(data, box, box->open[place]);
}

/* The bound as computed, and how far it may be off. */
static double value_of(const Samples *data, const FaceBox *box, double *error) {
    const index_t n = box->n, d = box->d;
    double value = 0.0, terms = 0.0, off = 0.0;
    for (index_t i = 0; i < n; i++) {
        const double *x = row_of(data, i), up = box->up[i];
        value += up + box->shift[i];
        terms += up + fabs(box->shift[i]);
        if (up != 0.0)
            for (index_t j = 0; j < d; j++)
                off += up * fabs(x[j]) * largest(fabs(box->low[j]), fabs(box->high[j]));
    }
    for (index_t j = 0; j < d; j++) {
        value += box->w[j] * (box->w[j] - box->v[j]);
        terms += fabs(box->w[j]) * (fabs(box->w[j]) + fabs(box->v[j]));
    }
    *error = 1.02 * UNIT * (2.0 * (double)(n + 6) * off + (double)(2 * n + 2 * d + 8) * terms);
    return value;
}

/* Raise the multipliers of the box until they prove `goal`, or a cycle gains less than the share `slow` of what is
   missing; fine sweeps if that is 0. */
static double bound_box(const Priced *at, const FaceBox *box, double goal, double slow) {
    const index_t count = set_up(at, box), cycles = count ? (slow > 0.0 ? COARSE_SWEEPS : FINE_SWEEPS) / CYCLE : 0;
    double before = -INFINITY, error;
    pull(at->data, box);
    for (index_t cycle = 0; cycle < cycles; cycle++) {
        for (int time = 0; time < CYCLE; time++)
            sweep_open(at->data, box, count);
        const double value = value_of(at->data, box, &error);
        if (value - error >= goal || value - before <= largest(slow, 1e-6) * (goal - value))
            break;
        before = value;
    }
    pull(at->data, box); /* anew, for the rounding of many small steps */
    const double value = value_of(at->data, box, &error);
    return value - error;
}

/* Leave out of the box what costs `goal`, by what v proves; the least share of a width that is left. */
static double shrink(const Samples *data, const FaceBox *box, double goal, double proven) {
    const index_t n = box->n, d = box->d;
    const double missing = goal - proven + 4.0 * UNIT * (fabs(goal) + fabs(proven));
    double least = 1.0;
    for (index_t j = 0; j < d; j++) {
        double size = 0.0;
        for (index_t i = 0; i < n; i++)
            size += box->up[i] * fabs(data->A[i * d + j]);
        const double half = 0.5 * box->v[j], off = 1.02 * UNIT * (double)(n + 6) * size; /* of half, at most */
        const double far = fabs(box->w[j] - half) + off, radius = sqrt(missing + far * far) * (1.0 + 1e-12) + off;
        const double width = box->high[j] - box->low[j];
        box->low[j] = largest(box->low[j], half - radius);
        box->high[j] = smallest(box->high[j], half + radius);
        if (width > 0.0)
            least = smallest((box->high[j] - box->low[j]) / width, least);
    }
    return least;
}

/* The coefficient with the largest part in what the envelopes lose at w, and all that they lose. */
static index_t widest_loss(const Priced *at, const FaceBox *box, double *total) {
    const Samples *data = at->data;
    const index_t d = box->d;
    index_t chosen = 0;
    memset(box->parts, 0, (size_t)d * sizeof(double));
    *total = 0.0;
    for (index_t i = data->inside; i < box->n; i++) {
        const double *x = row_of(data, i), r = slope_at(x, box->w, d);
        double wide = 0.0, paid = box->shift[i] + box->up[i] * r;
        for (index_t j = 0; j < d; j++)
            wide += fabs(x[j]) * (box->high[j] - box->low[j]);
        if (box->least[i] < 1.0 && 1.0 <= box->most[i])
            paid = largest(box->cap[i] * r, 0.0);
        const double lost = smallest(data->C[i] * largest(r, 0.0), price_of(at, i)) - paid;
        if (!(lost > 0.0 && wide > 0.0))
            continue;
        *total += lost;
        for (index_t j = 0; j < d; j++)
            box->parts[j] += lost * fabs(x[j]) * (box->high[j] - box->low[j]) / wide;
    }
    for (index_t j = 1; j < d; j++)
        if (box->parts[j] > box->parts[chosen])
            chosen = j;
    return chosen;
}

static index_t widest(const FaceBox *box) {
    index_t chosen = 0;
    for (index_t j = 1; j < box->d; j++)
        if (box->high[j] - box->low[j] > box->high[chosen] - box->low[chosen])
            chosen = j;
    return chosen;
}

enum { BOUND, CHEAPEST, COEFFICIENT, PLACE };

/* Note a bound and the cost of the face with which it came. */
static void note(const Priced *at, const FaceBox *box, double proven) {
    box->found[BOUND] = largest(proven, box->found[BOUND]);
    box->found[CHEAPEST] = smallest(priced_cost(at, box->w), box->found[CHEAPEST]);
}

/* The coefficient to cut, once the box is bounded as well as it is worth; -1 where nothing is left to cut. */
static index_t coefficient_to_cut(const Priced *at, const FaceBox *box, double goal) {
    double lost;
    index_t j = widest_loss(at, box, &lost);
    if (box->found[BOUND] < goal && lost < MIN_REL_LOSS * (goal - box->found[BOUND])) {
        note(at, box, bound_box(at, box, goal, 0.0));
        j = widest_loss(at, box, &lost);
        if (lost <= 1e-12 * fabs(goal))
            j = widest(box);
    }
    return j;
}

/* Bound the box at hand, shrink it, and say where to cut it: `found`. */
API void cpm_examine_face_box(index_t p, index_t n, const Samples *data, const double *prices, const FaceBox *box,
                              uint8_t *codes, double goal) {
    const Priced at = {data, prices};
    for (index_t i = 0; i < n; i++)
        box->up[i] = data->C[i] * ((double)codes[i] / CODES);
    box->found[BOUND] = -INFINITY;
    box->found[CHEAPEST] = INFINITY;
    for (int bounds = 0; bounds < MAX_BOUNDS; bounds++) {
        const double proven = bound_box(&at, box, goal, MIN_CYCLE_GAIN);
        note(&at, box, proven);
        if (box->found[BOUND] >= goal || shrink(data, box, goal, proven) > MAX_WIDTH_RATIO)
            break;
    }
    const index_t j = coefficient_to_cut(&at, box, goal);
    const double low = box->low[j], high = box->high[j], width = high - low;
    const bool is_cut = !(width <= MIN_REL_WIDTH * (fabs(low) + fabs(high)));
    for (index_t i = 0; i < n; i++)
        codes[i] = data->C[i] > 0.0 ? (uint8_t)(CODES * smallest(box->up[i] / data->C[i], 1.0)) : 0;
    box->found[COEFFICIENT] = is_cut ? (double)j : -1.0;
    box->found[PLACE] = clip(box->w[j], low + CUT_MARGIN * width, high - CUT_MARGIN * width);
}
