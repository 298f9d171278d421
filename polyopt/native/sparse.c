/* Sparse samples: dense rows packed without their zeros, and products of sparse rows with sparse rows. */
#include "vectors.h"

#define KIND f8
#define ENTRY double
#include "packed.inc"
#undef KIND
#undef ENTRY
#define KIND f4
#define ENTRY float
#include "packed.inc"
#undef KIND
#undef ENTRY
#define KIND u1
#define ENTRY uint8_t
#include "packed.inc"
#undef KIND
#undef ENTRY

#define GROUP 64    /* samples at the right that are multiplied at once: columns of `group` */
#define ROWS 16     /* samples at the left whose products are written at once */
#define ENTRIES 512 /* entries of a sample at the left that are gathered at once */

#define Vector JOIN(vector, KIND)
#define TEMPLATE "products.inc"
#include "each_csr_type.inc"
