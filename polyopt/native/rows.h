/* Names and vectors of rows.inc, which is included once for each type of values, columns and weights.

   Of the lengths that kernels of rows take first, e, c and s are those of values, columns and starts. */
#ifndef POLYOPT_ROWS_H
#define POLYOPT_ROWS_H

#include "vectors.h"

/* Weights in a vector: eight at most. */
#define LANES (VECTOR_BYTES / (index_t)sizeof(WEIGHT) < 8 ? VECTOR_BYTES / (index_t)sizeof(WEIGHT) : 8)

#define ROW_KIND JOIN(VALUE_KIND, COLUMN_KIND)
#define KIND JOIN(ROW_KIND, WEIGHT_KIND)
#define Row JOIN(Row, KIND)
#define Lanes JOIN(Lanes, KIND)
#define row_of JOIN(row_of, KIND)
#define sum_lanes JOIN(sum_lanes, KIND)
#define row_product JOIN(row_product, KIND)
#define product_of_row JOIN(product_of_row, KIND)
#define update_of_row JOIN(update_of_row, KIND)
#define add_lanes JOIN(add_lanes, KIND)
#define row_update JOIN(row_update, KIND)
#define add_bias JOIN(add_bias, KIND)
#define change_bias JOIN(change_bias, KIND)
#define row_face_product JOIN(row_face_product, KIND)
#define add_to_face JOIN(add_to_face, KIND)
#define prefetch_row JOIN(prefetch_row, KIND)

#endif
