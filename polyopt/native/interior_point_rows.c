/* Products with the samples that an interior-point iteration needs and BLAS does not make: rows weighted for it, and
   sparse rows. Row i of CSR has the entries data[p] in the columns indices[p], indptr[i] <= p < indptr[i + 1]. */
#include "vectors.h"

#define TEMPLATE "weighted_rows.inc"
#include "each_float_type.inc"
#undef TEMPLATE
#define TEMPLATE "csr_products.inc"
#include "each_csr_type.inc"
