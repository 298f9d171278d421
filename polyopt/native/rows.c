/* Products of a row of samples with the weights of all faces, and updates of these by a row. */
#include "rows.h"

#define TEMPLATE "row_products.inc"
#include "each_row_type.inc"
