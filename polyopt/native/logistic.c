/* Logistic polytopes: a descent on the smoothed objective, and sweeps over a quadratic model.

   Faces W (K, m+1), the bias last; the `first` ones are of the class -1. A sample of label y pays c ln(1 + e^xi),
   xi = y (max of the scores of the class -1 less that of the class +1). A maximum of scores is softened by t > 0 to
   t ln sum exp(s / t), whose slope is the share of each score in that sum. */
#include "elementary.h"
#include "tiles.h"

/* ---- the smoothed objective of dense samples ----

   Samples are taken in tiles, and the scores of a tile lie face by face, so that one instruction takes the
   exponentials of several samples. */

/* columns (m, n): X transposed. y, c (n,): labels and weights. entries (K, m+1): 1 where an entry may differ from 0,
   else 0. ridges (m+1,): what half the square of an entry costs. scale (m+1,), middle (m,): units of the features.
   faces, pulls (K, m+1) and scores (K, TILE): work space. */
typedef struct {
    index_t n, m, K, first;
    const double *columns, *y, *c, *entries, *ridges, *scale, *middle;
    double t, *faces, *pulls, *scores;
} Objective;

/* Scores of a tile, (K, TILE): four columns of samples at once; the biases come last. */
static void tile_scores(const Objective *of, index_t begin, index_t count) {
    const index_t n = of->n, m = of->m;
    for (index_t k = 0; k < of->K; k++) {
        const double *v = of->faces + k * (m + 1), *x = of->columns + begin;
        double *restrict s = of->scores + k * TILE;
        for (index_t i = 0; i < count; i++)
            s[i] = v[m];
        index_t j = 0;
        for (; j + 4 <= m; j += 4, x += 4 * n)
            for (index_t i = 0; i < count; i++)
                s[i] += (v[j] * x[i] + v[j + 1] * x[n + i]) + (v[j + 2] * x[2 * n + i] + v[j + 3] * x[3 * n + i]);
        for (; j < m; j++, x += n)
            add_multiple(s, v[j], x, count);
    }
}

/* Add the slopes of a tile's scores times its columns, and their sums, to pulls (K, m+1): four columns at once. */
static void add_tile_pulls(const Objective *of, index_t begin, index_t count) {
    const index_t n = of->n, m = of->m;
    for (index_t k = 0; k < of->K; k++) {
        const double *slopes = of->scores + k * TILE, *x = of->columns + begin;
        double *pulls = of->pulls + k * (m + 1);
        index_t j = 0;
        for (; j + 4 <= m; j += 4, x += 4 * n) {
            double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
#pragma omp simd reduction(+ : a, b, c, d)
            for (index_t i = 0; i < count; i++) {
                a += slopes[i] * x[i];
                b += slopes[i] * x[n + i];
                c += slopes[i] * x[2 * n + i];
                d += slopes[i] * x[3 * n + i];
            }
            pulls[j] += a, pulls[j + 1] += b, pulls[j + 2] += c, pulls[j + 3] += d;
        }
        for (; j < m; j++, x += n)
            pulls[j] += product_of(slopes, x, count);
        pulls[m] += sum_of(slopes, count);
    }
}

/* Soft maximum (count,) of the scores of K > 0 faces, which become e^((s - largest) / t), and the inverse of their sum;
   of one face, its scores. */
static void soft_maximum(double *restrict scores, index_t K, index_t count, double t, double *restrict top,
                         double *restrict share) {
    memcpy(top, scores, (size_t)count * sizeof(double));
    for (index_t k = 1; k < K; k++)
        for (index_t i = 0; i < count; i++)
            top[i] = largest(scores[k * TILE + i], top[i]);
    if (K == 1)
        return;
    memset(share, 0, (size_t)count * sizeof(double));
    for (index_t k = 0; k < K; k++)
        for (index_t i = 0; i < count; i++) {
            const double e = exp_within(largest(-MAX_EXPONENT, (scores[k * TILE + i] - top[i]) / t));
            scores[k * TILE + i] = e;
            share[i] += e;
        }
    for (index_t i = 0; i < count; i++) {
        top[i] += t * log_above(share[i]);
        share[i] = 1.0 / share[i];
    }
}

/* In place of scores, or of exponentials with the inverses of their sums, the slope of the loss: `sign` times the
   pulls, times the share of each face. */
static void slopes_in_place(double *restrict scores, index_t K, index_t count, double sign,
                            const double *restrict pulls, const double *restrict share) {
    for (index_t i = 0; K == 1 && i < count; i++)
        scores[i] = sign * pulls[i];
    for (index_t k = 0; K > 1 && k < K; k++)
        for (index_t i = 0; i < count; i++)
            scores[k * TILE + i] *= sign * pulls[i] * share[i];
}

/* The loss of a tile's scores, and in their place its slope. */
static double tile_loss(const Objective *of, index_t begin, index_t count) {
    const index_t first = of->first, others = of->K - first;
    double minus[TILE], plus[TILE], minus_share[TILE], plus_share[TILE], losses[TILE], pulls[TILE];
    double *restrict plus_scores = of->scores + first * TILE;
    const double *y = of->y + begin, *c = of->c + begin;
    soft_maximum(of->scores, first, count, of->t, minus, minus_share);
    soft_maximum(plus_scores, others, count, of->t, plus, plus_share);
    for (index_t i = 0; i < count; i++) {
        const double xi = y[i] * (minus[i] - plus[i]), small = exp_within(largest(-MAX_EXPONENT, -fabs(xi)));
        const double share = 1.0 / (1.0 + small);
        losses[i] = c[i] * (largest(0.0, xi) + log_above(1.0 + small));
        pulls[i] = y[i] * c[i] * (xi >= 0.0 ? share : small * share);
    }
    slopes_in_place(of->scores, first, count, 1.0, pulls, minus_share);
    slopes_in_place(plus_scores, others, count, -1.0, pulls, plus_share);
    return sum_of(losses, count);
}

/* The objective at faces v of scaled features, and its slope g, both (K (m+1),). */
static double value_and_slope(const Objective *of, const double *v, double *g) {
    const index_t m = of->m, width = m + 1;
    double loss = 0.0, cost = 0.0;
    for (index_t k = 0; k < of->K; k++) {
        double *w = of->faces + k * width;
        w[m] = v[k * width + m];
        for (index_t j = 0; j < m; j++) {
            w[j] = v[k * width + j] / of->scale[j];
            w[m] -= w[j] * of->middle[j];
            cost += of->ridges[j] * w[j] * w[j];
        }
        cost += of->ridges[m] * w[m] * w[m];
    }
    memset(of->pulls, 0, (size_t)(of->K * width) * sizeof(double));
    for (index_t begin = 0; begin < of->n; begin += TILE) {
        const index_t count = tile_size(begin, of->n);
        tile_scores(of, begin, count);
        loss += tile_loss(of, begin, count);
        add_tile_pulls(of, begin, count);
    }
    for (index_t k = 0; k < of->K; k++) {
        const double *w = of->faces + k * width, *pulls = of->pulls + k * width, *entries = of->entries + k * width;
        const double lift = entries[m] * (pulls[m] + of->ridges[m] * w[m]);
        g[k * width + m] = lift;
        for (index_t j = 0; j < m; j++)
            g[k * width + j] = entries[j] * (pulls[j] + of->ridges[j] * w[j] - lift * of->middle[j]) / of->scale[j];
    }
    return loss + 0.5 * cost;
}

/* ---- L-BFGS: Liu & Nocedal (1989), On the limited memory BFGS method for large scale optimization ---- */

enum { TRIALS = 20 };                                          /* of a line search */
static const double WOLFE_DECREASE = 1e-3, WOLFE_SLOPE = 0.9;  /* share of the decrease promised, of the slope left */
static const double LEAST_CURVATURE = 1e-16;                   /* of a pair kept, relative to the squared bend */

/* The last `kept` pairs of a ring of `memory`, the next one to be written at `head`: steps and changes of the slope,
   bends, both (memory, size), and their products. */
typedef struct {
    index_t memory, size, kept, head;
    double *steps, *bends, *products;
} Pairs;

/* d = less the slope g, times what the pairs say of the inverse of the curvature. shares (memory,): work space. */
static void descent_direction(const Pairs *of, const double *g, double *d, double *shares) {
    const index_t size = of->size, memory = of->memory, last = (of->head - 1 + memory) % memory;
    for (index_t i = 0; i < size; i++)
        d[i] = -g[i];
    for (index_t back = 1; back <= of->kept; back++) {
        const index_t p = (of->head - back + memory) % memory;
        shares[p] = product_of(of->steps + p * size, d, size) / of->products[p];
        add_multiple(d, -shares[p], of->bends + p * size, size);
    }
    if (of->kept) {
        const double *bend = of->bends + last * size;
        const double unit = of->products[last] / product_of(bend, bend, size);
        for (index_t i = 0; i < size; i++)
            d[i] *= unit;
    }
    for (index_t back = of->kept; back >= 1; back--) {
        const index_t p = (of->head - back + memory) % memory;
        add_multiple(d, shares[p] - product_of(of->bends + p * size, d, size) / of->products[p], of->steps + p * size, size);
    }
}

/* Keep the pair of the step from (v, g) to (there, slope), if it curves upwards. */
static void keep_pair(Pairs *of, const double *v, const double *g, const double *there, const double *slope) {
    const index_t size = of->size, p = of->head;
    double *step = of->steps + p * size, *bend = of->bends + p * size;
    for (index_t i = 0; i < size; i++) {
        step[i] = there[i] - v[i];
        bend[i] = slope[i] - g[i];
    }
    of->products[p] = product_of(step, bend, size);
    if (of->products[p] > LEAST_CURVATURE * product_of(bend, bend, size)) {
        of->head = (p + 1) % of->memory;
        of->kept = of->kept < of->memory ? of->kept + 1 : of->memory;
    }
}

/* An end of the interval of a line search: a step, the objective there, and its slope along the direction. */
typedef struct {
    double step, value, fall;
} End;

/* The next step to try: twice the last, if none was too long; else by the parabola through both ends. */
static double next_step(double last, End low, End high) {
    if (isinf(high.step))
        return 2.0 * last;
    const double wide = high.step - low.step;
    double share = -0.5 * low.fall * wide / (high.value - low.value - low.fall * wide);
    if (!(isfinite(share) && isfinite(high.value)))
        share = 0.1;
    return low.step + smallest(0.5, largest(share, 0.1)) * wide;
}

/* Go from v along d, of slope `fall`, as far as Wolfe's conditions ask, or after the last trial by the longest step
   that lowered enough: `there`, its slope and its objective. Returns whether there is such a step. */
static bool search_line(const Objective *of, const double *v, const double *d, index_t size, double value, double fall,
                        double first_step, double *there, double *slope, double *found) {
    End low = {0.0, value, fall}, high = {INFINITY, INFINITY, 0.0};
    double step = first_step;
    bool is_over = fall >= 0.0;
    for (int trial = 0; !is_over && trial <= TRIALS; trial++) {
        step = trial == TRIALS ? low.step : step;
        for (index_t i = 0; i < size; i++)
            there[i] = v[i] + step * d[i];
        *found = value_and_slope(of, there, slope);
        if (*found <= value + WOLFE_DECREASE * step * fall) {
            low = (End){step, *found, product_of(slope, d, size)};
            is_over = low.fall >= WOLFE_SLOPE * fall;
        } else {
            high = (End){step, *found, 0.0};
        }
        step = next_step(step, low, high);
    }
    return low.step != 0.0;
}

/* Make at most `most` iterations more, of which values has the objectives; returns their number. counts: pairs kept, the
   place of the next one, and 1 once a step lowers the objective by less than tol, relative, or none lowers it. */
API index_t descend_faces(index_t size, index_t one, index_t three, index_t memory, index_t most, index_t m, index_t n,
                          index_t K, index_t width, index_t tile, double *v, double *g, double *value, int64_t *counts,
                          double *steps, double *bends, double *products, double *shares, double *room, double *values,
                          const double *columns, const double *y, const double *c, const double *entries,
                          const double *ridges, const double *scale, const double *middle, double *faces,
                          double *pulls, double *scores, index_t first, double t, double tol) {
    const Objective of = {n, m, K, first, columns, y, c, entries, ridges, scale, middle, t, faces, pulls, scores};
    Pairs pairs = {memory, size, counts[0], counts[1], steps, bends, products};
    double *d = room, *there = room + size, *slope = room + 2 * size;
    index_t made = 0;
    if (isnan(value[0]))
        value[0] = value_and_slope(&of, v, g);
    while (made < most && !counts[2]) {
        double found = value[0];
        descent_direction(&pairs, g, d, shares);
        const double first_step = pairs.kept ? 1.0 : 1.0 / largest(1.0, sqrt(product_of(g, g, size)));
        if (!search_line(&of, v, d, size, value[0], product_of(g, d, size), first_step, there, slope, &found)) {
            counts[2] = !pairs.kept; /* else once more, without the pairs */
            pairs.kept = 0;
            continue;
        }
        keep_pair(&pairs, v, g, there, slope);
        memcpy(v, there, (size_t)size * sizeof(double));
        memcpy(g, slope, (size_t)size * sizeof(double));
        counts[2] = value[0] - found <= tol * largest(largest(fabs(value[0]), fabs(found)), 1.0);
        value[0] = values[made++] = found;
    }
    counts[0] = pairs.kept;
    counts[1] = pairs.head;
    return made;
}

/* ---- a quadratic model with a penalty ---- */

/* A pull nearer to 0 by its threshold. */
static inline double shrunk(double z, double up, double down) {
    return z > up ? z - up : z < -down ? z + down : 0.0;
}

/* Set v_i, and keep r, the slope of the model's smooth part, at v. */
static void set_entry(const double *H, double *r, double *v, index_t size, index_t i, double to) {
    if (to != v[i])
        add_multiple(r, to - v[i], H + i * size, size);
    v[i] = to;
}

/* Lower the model in each of a group's entries, one after the other. */
static void lower_entries(const double *H, double *r, double *v, index_t size, const int64_t *group, index_t count,
                          const double *up, const double *down) {
    for (index_t a = 0; a < count; a++) {
        const index_t i = group[a];
        const double own = H[i * size + i];
        set_entry(H, r, v, size, i, shrunk(own * v[i] - r[i], up[i], down[i]) / own);
    }
}

/* A proximal step in a group whose length has a price, for L no less than the curvature in it. cut: work space. */
static void lower_group(const double *H, double *r, double *v, index_t size, const int64_t *group, index_t count,
                        const double *up, const double *down, double price, double L, double *cut) {
    double square = 0.0;
    for (index_t a = 0; a < count; a++) {
        const index_t i = group[a];
        cut[a] = shrunk(L * v[i] - r[i], up[i], down[i]);
        square += cut[a] * cut[a];
    }
    const double length = sqrt(square);
    const double factor = length > 0.0 ? largest(length - price, 0.0) / (length * L) : 0.0;
    for (index_t a = 0; a < count; a++)
        set_entry(H, r, v, size, group[a], factor * cut[a]);
}

/* Lower ½ v'Hv + g·v + penalty in each group of entries, one after the other, in so many sweeps; r is the slope of the
   smooth part at v. */
API void sweep_groups(index_t size, index_t groups, const double *H, double *r, double *v, const int64_t *begins,
                      const int64_t *ends, const int64_t *members, const double *up, const double *down,
                      const double *prices, const double *steep, double *cut, index_t sweeps) {
    for (index_t sweep = 0; sweep < sweeps; sweep++)
        for (index_t g = 0; g < groups; g++) {
            const int64_t *group = members + begins[g];
            const index_t count = ends[g] - begins[g];
            if (prices[g] == 0.0)
                lower_entries(H, r, v, size, group, count, up, down);
            else
                lower_group(H, r, v, size, group, count, up, down, prices[g], steep[g], cut);
        }
}
