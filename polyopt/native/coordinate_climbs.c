/* Coordinate ascent: steps on one face at a time. */
#include "coordinate_ascent.h"

/* squares[i] = |(x_i, 1)|^2: 1 plus the squares of the row's entries, each times `scale`. */
#define SQUARE_LENGTHS(VALUE, KIND)                                                                                    \
    API void square_lengths_##KIND(index_t e, index_t s, index_t n, const VALUE *values, const index_t *starts,        \
                                   double scale, double *squares) {                                                    \
        for (index_t i = 0; i < n; i++) {                                                                              \
            double total = 0.0;                                                                                        \
            _Pragma("omp simd reduction(+ : total)") for (index_t p = starts[i]; p < starts[i + 1]; p++) {             \
                const double x = scale * (double)values[p];                                                            \
                total += x * x;                                                                                        \
            }                                                                                                          \
            squares[i] = 1.0 + total;                                                                                  \
        }                                                                                                              \
    }
SQUARE_LENGTHS(double, f8)
SQUARE_LENGTHS(float, f4)
SQUARE_LENGTHS(uint8_t, u1)

#define WEIGHT double
#define WEIGHT_KIND f8
#define TEMPLATE "coordinate_climbs.inc"
#include "each_row_type.inc"
