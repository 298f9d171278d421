/* Products with the samples that an interior-point iteration needs and BLAS does not make: rows weighted for it, and
   sparse rows. Row i of CSR has the entries data[p] in the columns indices[p], indptr[i] <= p < indptr[i + 1]. */
#include "vectors.h"

#define VALUE double
#define KIND f8
#include "weighted_rows.inc"
#define INDEX int32_t
#define INDEX_KIND f8_i4
#include "csr_products.inc"
#undef INDEX
#undef INDEX_KIND
#define INDEX int64_t
#define INDEX_KIND f8_i8
#include "csr_products.inc"
#undef INDEX
#undef INDEX_KIND
#undef VALUE
#undef KIND

#define VALUE float
#define KIND f4
#include "weighted_rows.inc"
#define INDEX int32_t
#define INDEX_KIND f4_i4
#include "csr_products.inc"
#undef INDEX
#undef INDEX_KIND
#define INDEX int64_t
#define INDEX_KIND f4_i8
#include "csr_products.inc"
